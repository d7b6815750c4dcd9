"""Answers on the command line: in every form, from every place, in UTC."""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from tidegate.cli import app
from tidegate.errors import Diagnostic
from tidegate.session import connect

ROWS = """name,x,t
"says ""hi"", twice",1.50,2026-01-01 00:00:01
,,2026-01-01 00:00:02
"""
"""The second row has no values at all: NULLs."""


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> str:
    assert spark.getActiveSession() is not None
    (tmp_path / "s.csv").write_text(ROWS)
    return (
        "CREATE STREAM S(name STRING, x DECIMAL(5, 2), t TIMESTAMP) "
        f"SOURCE csv('{tmp_path / 's.csv'}') ORDERED BY t;\n"
    )


QUERY = "SELECT name, x, ARRAY(x) AS xs FROM S WINDOW(RANGE 5 SECONDS)"
EXPECTED = [
    {
        "name": 'says "hi", twice', "x": "1.50", "xs": ["1.50"],
        "valid_from": "2026-01-01 00:00:01", "valid_to": "2026-01-01 00:00:06",
    },
    {"name": None, "x": None, "xs": [None], "valid_from": "2026-01-01 00:00:02", "valid_to": "2026-01-01 00:00:07"},
]  # fmt: skip


@pytest.fixture
def in_tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("in_tokyo")
def test_json_has_one_object_per_row(stream: str) -> None:
    found = CliRunner().invoke(app, ["run", "-c", stream + QUERY, "--format", "json"])
    assert found.exception is None
    assert [json.loads(line) for line in found.stdout.splitlines()] == EXPECTED
    assert found.stderr == "no rows were refused\n"


def test_csv_comes_from_standard_input_and_keeps_null_apart(stream: str) -> None:
    found = CliRunner().invoke(app, ["run", "-", "--format", "csv"], input=stream + QUERY)
    assert found.exception is None
    named, *rows = csv.reader(io.StringIO(found.stdout))
    expected = [
        ["" if v is None else v if isinstance(v, str) else json.dumps(v) for v in r.values()]
        for r in EXPECTED
    ]
    assert (named, rows) == (list(EXPECTED[0]), expected)


def test_what_is_no_answer_is_a_row_too(stream: str) -> None:
    text = f"{stream} SHOW STREAMS; DESCRIBE S; VERIFY {QUERY}"
    found = CliRunner().invoke(app, ["run", "-c", text, "--format", "json"])
    show, *described, verified = [json.loads(line) for line in found.stdout.splitlines()]
    assert show == {"name": "S"}
    assert described[1] == {"column": "x", "type": "DECIMAL(5,2)"}
    assert verified["verification"].startswith("verified")


def test_a_table_shows_twenty_rows_or_as_many_as_asked_for(stream: str) -> None:
    # Every row meets every other one five times over: 2 x 2 x 2 x 2 x 2 = 32 rows.
    everything = (
        "SELECT 1 AS one FROM S WINDOW(RANGE UNBOUNDED) a, S WINDOW(RANGE UNBOUNDED) b, "
        + ", ".join(f"S WINDOW(RANGE UNBOUNDED) {name}" for name in "cde")
    )
    shown = {}
    for rows in (None, 3, 40):
        more = [] if rows is None else ["--rows", str(rows)]
        found = CliRunner().invoke(app, ["run", "-c", stream + everything, *more])
        lines = found.stdout.splitlines()
        shown[rows] = (sum(line.startswith("│ 1 ") for line in lines), "only the first" in found.stdout)
    assert shown == {None: (20, True), 3: (3, True), 40: (32, False)}


def test_packages_are_for_a_spark_that_has_not_begun(spark: SparkSession) -> None:
    with pytest.raises(Diagnostic, match="g:a:1 only at its start") as raised:
        _ = connect(spark=spark, packages=["g:a:1"]).spark
    assert raised.value.condition == "SPARK_RUNS"
    own = connect(spark=spark, conf={"spark.sql.shuffle.partitions": "3"}).spark
    assert own.conf.get("spark.sql.shuffle.partitions") == "3"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"
