"""A first answer does not wait: neither for Spark, nor for machine code, where there are few rows and nothing odd about them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tidegate.cli import app
from tidegate.kernels import machine_code
from tidegate.runtime.results import Result
from tidegate.session import connect

ROOT = Path(__file__).parents[2]
TEMP = "CREATE STREAM Temp(room STRING, degrees INT, t BIGINT) SOURCE csv('examples/rooms.csv') ORDERED BY t;"


class SparkNeededError(Exception):
    """Somebody asked for Spark."""


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Any:
        raise SparkNeededError

    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("tidegate.session.spark_session", refuse)


@pytest.fixture
def no_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> Any:
        raise AssertionError("a loop was to be compiled")

    monkeypatch.setattr(machine_code, "_numba", refuse)


def shown(*arguments: str) -> list[list[str]]:
    """The cells of what the command line shows, line by line."""
    found = CliRunner().invoke(app, ["run", *arguments, "--format", "csv"])
    assert found.exception is None, found.output
    return [line.split(",") for line in found.stdout.splitlines()]


def test_the_first_example_needs_no_spark() -> None:
    found = CliRunner().invoke(app, ["run", "examples/rooms.sql"])
    assert found.exception is None, found.output
    assert "verified: the answer equals the reference at 10 of 10 change points" in found.output


@pytest.mark.parametrize(
    ("statement", "rows"),
    [
        (
            "SELECT room, degrees FROM Temp WINDOW(RANGE 5) ORDER BY degrees DESC AS OF 4",
            [["b", "90"], ["a", "85"], ["a", "75"]],
        ),
        ("SELECT room FROM Temp WINDOW(RANGE 5) ORDER BY degrees AS OF 4", [["a"], ["a"], ["b"]]),
        ("SELECT COMPLETE room FROM Temp WINDOW(ROWS 1)", [["a"]]),
        ("SHOW QUERIES", []),
        ("SHOW STREAMS", [["Temp"]]),
        (
            "VERIFY SELECT room, COUNT(*) AS n FROM Temp WINDOW(ROWS 2) GROUP BY room",
            [["verified: the answer equals the reference at 6 of 6 change points"]],
        ),
    ],
)
def test_what_is_only_shown_needs_no_spark(statement: str, rows: list[list[str]]) -> None:
    _, *found = shown("-c", TEMP + statement)
    assert found == rows


@pytest.mark.usefixtures("no_machine_code")
@pytest.mark.parametrize(
    "asked",
    [
        "SELECT room, MAX(degrees) AS top FROM Temp WINDOW(RANGE 5) GROUP BY room",
        "SELECT a.room, b.room AS other FROM Temp WINDOW(RANGE 3) a JOIN Temp WINDOW(RANGE 2) b ON a.degrees < b.degrees",
        "SELECT room, MEDIAN(degrees) AS m FROM Temp WINDOW(RANGE 10 SLIDE 2) GROUP BY room",
        "SELECT room, degrees FROM Temp WINDOW(RANGE 9) ORDER BY degrees DESC LIMIT 2",
        "SELECT room FROM Temp WINDOW(RANGE 5) EXCEPT SELECT room FROM Temp WINDOW(RANGE 2)",
    ],
)
def test_few_rows_need_no_machine_code(asked: str) -> None:
    assert shown("-c", f"{TEMP} VERIFY {asked}")[-1][0].startswith("verified")


def test_verification_finds_what_is_wrong() -> None:
    """Read here, too, an answer is judged: that of another query is none."""
    session = connect()
    session.sql(TEMP)
    right = session.query("SELECT room FROM Temp WINDOW(RANGE 5)")
    wrong = session.query("SELECT room FROM Temp WINDOW(RANGE 4)").run()
    assert right.verify()
    assert str(right.verify(result=wrong)).startswith("DIFFERENT at 5")


@pytest.mark.parametrize(
    "read",
    [
        lambda r: r.changes(),
        lambda r: r.intervals(),
        lambda r: r.at(4),
        lambda r: r.latest(),
        lambda r: r.delivered("changes", 0, 9),
        lambda r: r.quarantine(),
    ],
    ids=["changes", "intervals", "at", "latest", "delivered", "quarantine"],
)
def test_what_needs_spark_asks_for_it_first(read: Callable[[Result], Any]) -> None:
    """Spark's columns cannot be spoken of before there is one: in a fresh session that was an internal error."""
    session = connect()
    session.stream("S", [{"a": 1, "t": 0}, {"a": 2, "t": 3}], ordered_by="t")
    result = session.query("SELECT a, COUNT(*) AS n FROM S WINDOW(RANGE 5) GROUP BY a").run()
    with pytest.raises(SparkNeededError):
        read(result)


def test_numba_is_not_even_imported() -> None:
    program = (
        "import sys; from tidegate.session import connect; s = connect();"
        "s.stream('S', [{'a': 1, 't': 0}], ordered_by='t');"
        "q = s.query('SELECT a, COUNT(*) AS n FROM S WINDOW(RANGE 5) GROUP BY a');"
        "assert q.verify(); sys.exit('numba' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False, cwd=ROOT, timeout=120).returncode == 0
