"""A graph's directory through the door that people use: held while it runs, free when it is stopped, and refused if it was moved."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidegate import connect
from tidegate.errors import Diagnostic
from tidegate.session import Session

TEXT = "SELECT COUNT(*) AS n FROM S WINDOW(RANGE UNBOUNDED)"


def session(spark: SparkSession, state: Path) -> Session:
    found = connect(spark, state=str(state), partitions=1)
    found.stream("S", [{"a": 5, "t": 1}], ordered_by="t")
    return found


def test_a_second_session_is_refused_and_changes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    first, second = session(spark, tmp_path), session(spark, tmp_path)
    query = first.query(TEXT).start("many", begin=False)
    query.run.graph.advance({"S": [{"a": 1, "t": 10}]})
    with pytest.raises(Diagnostic, match="runs a graph in") as found:
        second.query(TEXT).start("many", begin=False)
    assert found.value.condition == "STATE_IN_USE"
    query.run.graph.advance({"S": [{"a": 1, "t": 20}]})
    query.run.graph.advance({})
    first.close()
    assert [r.n for r in query.at(10).collect()] == [1], "answers are read without the lock"
    again = second.query(TEXT).start("many", begin=False)
    again.run.graph.advance({"S": [{"a": 1, "t": 30}]})
    again.run.graph.advance({"S": [{"a": 1, "t": 40}]})
    again.run.graph.advance({})
    assert [r.n for r in again.at(30).collect()] == [3]
    second.close()


def test_a_refused_query_leaves_the_directory_free(spark: SparkSession, tmp_path: Path) -> None:
    first, second = session(spark, tmp_path), session(spark, tmp_path)
    with pytest.raises(Diagnostic, match="no stream"):
        first.engine.start({"q": first.query(TEXT).plan}, {}, graph="integers", begin=False)
    first.query(TEXT).start("many", begin=False)
    first.close()
    started = second.query(TEXT).start("many", begin=False)
    with pytest.raises(Diagnostic, match="running already"):
        second.query(TEXT).start("many", begin=False)
    with pytest.raises(Diagnostic, match="runs a graph in"):
        first.query(TEXT).start("many", begin=False)
    started.run.graph.advance({})
    second.close()


def test_an_entry_that_spark_had_not_finished_does_not_stop_the_next_start(
    spark: SparkSession, tmp_path: Path
) -> None:
    offsets = tmp_path / "graphs" / "integers" / "checkpoint" / "offsets"
    offsets.mkdir(parents=True)
    for name in (".0.{}.tmp", "..0.{}.tmp.crc"):
        (offsets / name.format(uuid.uuid4())).write_bytes(b"v2")
    query = session(spark, tmp_path).query(TEXT).start("many", begin=False)
    query.run.structured = True
    query.finish()
    assert [r.n for r in query.latest().collect()] == [1]


def test_a_directory_goes_on_elsewhere(spark: SparkSession, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    first = session(spark, here)
    query = first.query(TEXT).start("many", begin=False)
    query.run.drain()
    first.push("S", [{"a": 1, "t": 10}])  # waits in the inbox
    first.close()
    here.rename(there)
    moved = session(spark, there).query(TEXT).start("many", begin=False)
    moved.finish()
    assert [r.n for r in moved.latest().collect()] == [2]


def test_a_directory_that_spark_has_fed_is_not_moved(spark: SparkSession, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    first = session(spark, here)
    query = first.query(TEXT).start("many", begin=False)
    query.run.structured = True
    query.run.drain()
    first.push("S", [{"a": 1, "t": 10}])
    query.run.drain()
    first.close()
    here.rename(there)
    moved = session(spark, there).query(TEXT).start("many", begin=False)
    with pytest.raises(Diagnostic, match="would read them again") as found:
        moved.run.drain()
    assert found.value.condition == "STATE_MOVED"
    moved.stop()
    there.rename(here)
    back = session(spark, here).query(TEXT).start("many", begin=False)
    back.finish()
    assert [r.n for r in back.latest().collect()] == [2]
