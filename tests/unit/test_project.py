"""What holds for the project as a whole: its files, its packages, its README."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import tidegate

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted((ROOT / "tidegate").rglob("*.py"))
LOCKS = ("requirements.lock", "requirements-build.lock")

LINES = 600
"""One person should hold a module in the head."""

MACHINE_PATH = re.compile(r"(?<![\w.$})\]~*-])/(?:work|root|home|Users)/\w")
PACKAGE_HOST = re.compile(
    r"pypi\.org|pythonhosted\.org|anaconda\.org|maven\.(?:apache\.)?org|deb\.debian\.org|archive\.ubuntu\.com"
    r"|--(?:extra-)?index-url|--find[-]links|\bartifactory\b|\bjfrog\b|\bdevpi\b",
    re.IGNORECASE,
)
NOT_OURS = {".git", ".venv", "build", "dist", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache"}


def project_files() -> list[Path]:
    """The tracked files; where there is no git (an unpacked archive), all files but the made ones."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True
        )
        names = [name for name in listed.stdout.split("\0") if name]
        paths = [ROOT / name for name in names]
    except (OSError, subprocess.CalledProcessError):
        paths = [p for p in ROOT.rglob("*") if not NOT_OURS & set(p.relative_to(ROOT).parts)]
    return [path for path in paths if path.is_file()]


def text_of(path: Path) -> str:
    """The text of a file; a binary one has none."""
    content = path.read_bytes()
    return "" if b"\0" in content else content.decode("utf-8", errors="replace")


def matches(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
        for path in project_files()
        for number, line in enumerate(text_of(path).splitlines(), 1)
        if pattern.search(line)
    ]


def test_no_file_names_a_place_on_one_machine() -> None:
    assert ROOT / "pyproject.toml" in project_files()
    assert matches(MACHINE_PATH) == []


def test_no_file_says_where_packages_come_from() -> None:
    assert matches(PACKAGE_HOST) == []


@pytest.mark.parametrize("place", ["work", "root", "home", "Users"])
def test_places_on_one_machine_are_recognized(place: str) -> None:
    path = "/" + place + "/someone/data.csv"
    for line in (path, f"csv('{path}')", f"file://{path}", f"PYTHONPATH={path}"):
        assert MACHINE_PATH.search(line), line
    assert not MACHINE_PATH.search("docs" + path)


@pytest.mark.parametrize("host", ["pypi" + ".org", "files.python" + "hosted.org", "--index" + "-url x"])
def test_package_hosts_are_recognized(host: str) -> None:
    assert PACKAGE_HOST.search(f"see {host}")


def undocumented(modules: dict[str, str]) -> list[str]:
    """Modules that hold code but do not say what they are for."""
    trees = {name: ast.parse(source) for name, source in modules.items()}
    return [name for name, tree in trees.items() if tree.body and not ast.get_docstring(tree)]


def test_every_module_says_what_it_is_for() -> None:
    assert undocumented({str(p.relative_to(ROOT)): p.read_text("utf-8") for p in MODULES}) == []
    assert undocumented({"a": "x = 1", "b": '"""Law."""\nx = 1', "c": ""}) == ["a"]


def test_no_module_is_too_long() -> None:
    lengths = {str(p.relative_to(ROOT)): len(p.read_text("utf-8").splitlines()) for p in MODULES}
    assert {name: length for name, length in lengths.items() if length >= LINES} == {}


def long_functions(source: str) -> list[str]:
    """Functions of sixty lines and more, except loops that Numba compiles."""
    functions = [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.FunctionDef)]
    lengths = {f.name: (f.end_lineno or f.lineno) - f.lineno + 1 for f in functions if (
        not {"compiled", "compiled_for_many"} & {ast.unparse(d) for d in f.decorator_list}
    )}  # fmt: skip
    return [name for name, length in lengths.items() if length >= 60]


def test_no_function_is_too_long() -> None:
    found = {str(p.relative_to(ROOT)): long_functions(p.read_text("utf-8")) for p in MODULES}
    assert {name: functions for name, functions in found.items() if functions} == {}
    assert long_functions("def f():\n" + "    x = 1\n" * 59) == ["f"]
    assert long_functions("def f():\n" + "    x = 1\n" * 58) == []


def pins(lock: str) -> dict[str, str]:
    """Package -> the rest of its entry (marker and hashes)."""
    text = (ROOT / lock).read_text("utf-8").replace("\\\n", " ")
    entries = re.findall(r"^([A-Za-z0-9._-]+)==(\S+)([^\n]*)", text, re.MULTILINE)
    return {f"{canonicalize_name(name)}=={version}": rest for name, version, rest in entries}


@pytest.mark.parametrize("lock", LOCKS)
def test_every_pin_has_a_hash(lock: str) -> None:
    assert pins(lock)
    assert [pin for pin, rest in pins(lock).items() if "--hash=sha256:" not in rest] == []


def test_the_lock_satisfies_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    extras = project["project"]["optional-dependencies"]
    wanted = [*project["project"]["dependencies"], *(need for needs in extras.values() for need in needs)]
    for lock, needs in (
        ("requirements.lock", wanted),
        ("requirements-build.lock", project["build-system"]["requires"]),
    ):
        pinned = [tuple(pin.split("==")) for pin in pins(lock)]
        for need in map(Requirement, needs):
            versions = [version for name, version in pinned if name == canonicalize_name(need.name)]
            assert versions, f"{lock} lacks {need}: run 'make lock'"
            assert all(need.specifier.contains(version) for version in versions), f"{lock} breaks {need}"


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))


def test_the_commands_of_the_readme_exist() -> None:
    readme = ROOT / "README.md"
    assert readme.is_file(), "the project needs a README.md that says how to run and test it"
    named = set(
        re.findall(
            r"\bmake ([a-z]+)",
            "\n".join(re.findall(r"```.*?```|`[^`]+`", readme.read_text("utf-8"), re.DOTALL)),
        )
    )
    assert {"run", "test"} <= named, "README.md must give the two commands: make run, make test"
    assert named <= make_targets()


def fake_java(home: Path, version: str, status: int = 0) -> Path:
    """A home of Java that can only say its version."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\nexit {status}\n")
    java.chmod(0o755)
    return home


def found_java(java_home: Path, on_path: Path) -> str:
    environment = {"JAVA_HOME": str(java_home), "PATH": f"{on_path / 'bin'}:{os.environ['PATH']}"}
    command = [str(ROOT / "scripts" / "setup.sh"), "java"]
    return subprocess.run(command, env=environment, capture_output=True, check=True, text=True).stdout.strip()


@pytest.mark.parametrize(
    ("version", "status", "taken"),
    [
        ("17.0.15", 0, True),
        ("25", 0, True),
        ("11.0.2", 0, False),
        ("1.8.0_402", 0, False),
        ("21.0.1", 1, False),
    ],
    ids=["oldest", "new", "old", "very-old", "stripped"],
)
def test_java_home_is_taken_only_if_spark_can_use_it(
    tmp_path: Path, version: str, status: int, taken: bool
) -> None:
    given = fake_java(tmp_path / "given", version, status)
    on_path = fake_java(tmp_path / "path", "17.0.1")
    assert found_java(given, on_path) == str(given if taken else on_path)


def test_the_version_is_said_once_everywhere() -> None:
    """The package, its metadata and the newest part of the changelog have one version; older parts follow in order."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    heads = re.findall(
        r"^## \[(\d+\.\d+\.\d+)\] - (unreleased|\d{4}-\d\d-\d\d)$",
        (ROOT / "CHANGELOG.md").read_text("utf-8"),
        re.MULTILINE,
    )
    numbers = [tuple(map(int, number.split("."))) for number, _ in heads]
    assert heads[0][0] == version == tidegate.__version__
    assert numbers == sorted(set(numbers), reverse=True)
    assert all(day != "unreleased" for _, day in heads[1:])
