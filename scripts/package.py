"""Builds the sdist, the wheel from the sdist, and tries the wheel in an environment that holds nothing but what it asks for.

Run by `make package`. Nothing is fetched: the environment gets links to those packages of .venv that the wheel's metadata asks
for, with what they ask for, and no others; so a dependency that is used and not declared is missing there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from email.parser import Parser
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"

ROWS = "room,degrees,t\na,75,1\nb,90,3\n"
QUERY = "SELECT room, degrees FROM 'rooms.csv' ORDERED BY t WINDOW(RANGE 5) WHERE degrees > 80"
ANSWER = "room,degrees,valid_from,valid_to\nb,90,3,8\n"


def built(hook: str, source: Path) -> Path:
    """What the build backend makes of a source tree, in dist/."""
    call = f"import sys, setuptools.build_meta as b; print('made:' + b.{hook}(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", call, str(DIST)],
        cwd=source, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        sys.exit(f"{hook} failed:\n{done.stdout}{done.stderr}")
    return DIST / done.stdout.rsplit("made:", 1)[1].strip()


def wheel_from_sdist(work: Path) -> Path:
    """The wheel, built from the unpacked sdist: what the sdist lacks, the wheel lacks."""
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    sdist = built("build_sdist", ROOT)
    with tarfile.open(sdist) as archive:
        archive.extractall(work, filter="data")
    return built("build_wheel", work / sdist.name.removesuffix(".tar.gz"))


def missing_files(wheel: Path) -> list[str]:
    """Files of the package that git knows and the wheel has not."""
    listed = subprocess.run(
        ["git", "ls-files", "tidegate"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    with zipfile.ZipFile(wheel) as archive:
        return sorted(set(listed.stdout.split()) - set(archive.namelist()))


def metadata_of(wheel: Path) -> list[Requirement]:
    """What the wheel asks for."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        found = Parser().parsestr(archive.read(name).decode("utf-8"))
    return [Requirement(text) for text in found.get_all("Requires-Dist") or []]


def closure(needs: list[Requirement]) -> set[str]:
    """The packages that are asked for, directly or by others, without extras that nobody named."""
    seen: dict[str, set[str]] = {}
    waiting = [(need, {""}) for need in needs]
    while waiting:
        need, extras = waiting.pop()
        if need.marker is not None and not any(need.marker.evaluate({"extra": extra}) for extra in extras):
            continue
        name = canonicalize_name(need.name)
        wanted = {"", *need.extras}
        if name in seen and wanted <= seen[name]:
            continue
        seen[name] = seen.get(name, set()) | wanted
        waiting += [(Requirement(text), wanted) for text in distribution(name).requires or []]
    return set(seen)


def link(names: set[str], target: Path) -> None:
    """Links in one site-packages to what packages have in that of this interpreter."""
    for name in names:
        files = distribution(name).files or []
        for top in {f.parts[0] for f in files} - {"..", "__pycache__"}:
            place = target / top
            if not place.exists():
                place.symlink_to(Path(str(distribution(name).locate_file(top))).resolve())


def environment(place: Path, wheel: Path) -> Path:
    """An environment with the wheel and what it asks for; its bin directory."""
    venv.create(place, with_pip=False, symlinks=True)
    site = next((place / "lib").glob("python*/site-packages"))
    link(closure(metadata_of(wheel)), site)
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", str(place / "bin" / "python"), "install", "--quiet", "--no-deps",
         "--no-index", "--disable-pip-version-check", "--root-user-action=ignore", str(wheel)],
        check=True,
    )  # fmt: skip
    return place / "bin"


def tried(bin: Path, work: Path) -> None:
    """The installed program says its version and answers, far from the source tree."""
    (work / "rooms.csv").write_text(ROWS)
    inherited = {
        k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PYSPARK", "VIRTUAL_ENV"))
    }
    surroundings = {**inherited, "XDG_STATE_HOME": str(work / "state")}

    def said(*command: str) -> str:
        done = subprocess.run(
            [str(bin / command[0]), *command[1:]],
            cwd=work, env=surroundings, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        if done.returncode:
            sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
        return done.stdout

    expected = wheel_version(work)
    checks = {
        ("tidegate", "--version"): f"tidegate {expected}\n",
        ("python", "-c", "import tidegate; print('site-packages' in tidegate.__file__)"): "True\n",
        ("tidegate", "run", "-c", QUERY, "--format", "csv"): ANSWER,
    }
    for command, wanted in checks.items():
        if (shown := said(*command)) != wanted:
            sys.exit(f"{' '.join(command)} shows\n{shown}\ninstead of\n{wanted}")


def wheel_version(work: Path) -> str:
    """The version that the sdist's name says."""
    return next(work.glob("tidegate-*")).name.removeprefix("tidegate-")


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        wheel = wheel_from_sdist(work)
        if lacking := missing_files(wheel):
            sys.exit(f"the wheel lacks {', '.join(lacking)}")
        tried(environment(work / "environment", wheel), work)
    print(f"{wheel.name} and its sdist are in dist/, and work in an empty environment")


if __name__ == "__main__":
    main()
