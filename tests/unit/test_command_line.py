"""The command line where it needs no Spark: what is asked for, what is wrong, and what a shell completes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import tidegate
from tidegate.cli import app
from tidegate.errors import Diagnostic
from tidegate.spark.context import checked_conf
from tidegate.spark.logs import LARGEST, log_file
from tidegate.terminal.options import conf_of, packages_of

ROOT = Path(__file__).parents[2]
STREAM = "CREATE STREAM S(a INT, t BIGINT) SOURCE csv('{}') ORDERED BY t;"


def refused(*arguments: str, given: str | bytes | None = None) -> Diagnostic:
    found = CliRunner().invoke(app, [*arguments], input=given)
    assert isinstance(found.exception, Diagnostic), found.output
    return found.exception


def test_it_says_its_version() -> None:
    found = CliRunner().invoke(app, ["--version"])
    assert (found.exit_code, found.output) == (0, f"tidegate {tidegate.__version__}\n")


def test_statements_come_from_one_place(tmp_path: Path) -> None:
    script = tmp_path / "x.sql"
    script.write_text("SELECT 1")
    assert refused("run").condition == "WRONG_ARGUMENTS"
    assert refused("run", str(script), "-c", "SELECT 1").condition == "WRONG_ARGUMENTS"
    # A statement that cannot be read is told at its place, whichever way it came.
    for arguments, given in ((["-c", "SELECT 1;\nSELEC 2"], None), (["-"], "SELECT 1;\nSELEC 2")):
        found = refused("run", *arguments, given=given)
        assert found.condition == "SYNTAX_ERROR"
        assert found.position is not None
        assert found.position.line == 2


def test_what_is_no_script_is_told(tmp_path: Path) -> None:
    (tmp_path / "near.sql").write_text("SELECT 1")
    (tmp_path / "latin.sql").write_bytes(b"SELECT 1;\n-- caf\xe9\n")
    missing = refused("run", str(tmp_path / "neer.sql"))
    assert (missing.condition, missing.help) == ("FILE_NOT_FOUND", "scripts there: latin.sql, near.sql")
    assert "is a directory" in refused("run", str(tmp_path)).message
    assert "see line 2" in refused("run", str(tmp_path / "latin.sql")).message
    assert refused("run", "-", given=b"SELECT '\xe9'").condition == "FILE_UNREADABLE"


@pytest.mark.parametrize("said", ["spark", "=1", "spark.x"])
def test_a_setting_has_a_name_and_a_value(said: str) -> None:
    with pytest.raises(Diagnostic, match="is no setting"):
        conf_of([said])


@pytest.mark.parametrize("said", ["kafka", "a:b", "a:b:c:d", "a::1"])
def test_a_package_has_three_parts(said: str) -> None:
    with pytest.raises(Diagnostic, match="names no package"):
        packages_of([said])


def test_no_setting_changes_answers() -> None:
    for name, value in (("spark.sql.session.timeZone", "Asia/Tokyo"), ("spark.sql.ansi.enabled", "false")):
        with pytest.raises(Diagnostic, match="would change answers"):
            checked_conf({name: value})
        with pytest.raises(Diagnostic, match="would change answers"):
            tidegate.connect(conf={name: value})
    with pytest.raises(Diagnostic, match="is no setting of Spark's"):
        checked_conf({"driver.memory": "1g"})
    assert checked_conf({"spark.sql.ansi.enabled": "true"}) == {"spark.sql.ansi.enabled": "true"}


def test_a_secret_setting_is_not_told_again() -> None:
    checked_conf({"spark.hadoop.fs.s3a.secret.key": "sesame-of-the-setting"})
    assert "sesame" not in str(Diagnostic("X", "no access with sesame-of-the-setting"))


def completed(words: list[str]) -> list[str]:
    """What bash offers for the last word, by the script that the program gives it."""
    program = shutil.which("bash")
    assert program is not None
    script = (
        'eval "$(_TIDEGATE_COMPLETE=source_bash tidegate)"\n'
        f"COMP_WORDS=({' '.join(words)} '')\nCOMP_CWORD={len(words)}\n_tidegate_completion tidegate\n"
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    if words[-1].startswith("-"):
        script = script.replace(" '')", ")").replace(f"CWORD={len(words)}", f"CWORD={len(words) - 1}")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        [program, "-c", script], env={**os.environ, "PATH": path}, capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def test_bash_completes_commands_and_options() -> None:
    assert {"run", "shell", "status", "explain", "verify"} <= set(completed(["tidegate"]))
    assert {"--format", "--packages", "--conf", "--live"} <= set(completed(["tidegate", "run", "--"]))
    assert completed(["tidegate", "run", "--format"]) == ["--format"]


def test_zsh_gets_a_script() -> None:
    done = subprocess.run(
        [Path(sys.executable).parent / "tidegate"],
        env={**os.environ, "_TIDEGATE_COMPLETE": "source_zsh"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split()[:2] == ["#compdef", "tidegate"]


def test_the_log_of_java_is_one_file_that_is_turned_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    file = log_file()
    assert file == log_file() == tmp_path / "tidegate" / "java.log"
    file.write_bytes(b"x" * (LARGEST + 1))
    assert log_file() == file
    assert not file.exists()
    file.write_bytes(b"y" * (LARGEST + 1))
    log_file()
    assert sorted(p.name for p in file.parent.iterdir()) == ["java.log.1"]


def test_where_nothing_can_be_kept_the_log_goes_with_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    file = log_file()
    assert file.exists()
    assert file.name.startswith("tidegate-java-")
    file.unlink()
