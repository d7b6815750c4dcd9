"""What belongs to whom: state to queries by their meaning, sinks to the query that wrote there first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.test_live_run import rows, until
from tidegate.errors import Diagnostic
from tidegate.runtime import live
from tidegate.session import Session, connect

MANY = "SELECT a, COUNT(*) AS n FROM S WINDOW(RANGE UNBOUNDED) GROUP BY a"
MOST = "SELECT MAX(a) AS n FROM S WINDOW(RANGE UNBOUNDED)"

Sessions = Callable[[], Session]


@pytest.fixture
def sessions(spark: SparkSession, tmp_path: Path) -> Sessions:
    def opened() -> Session:
        session = connect(spark=spark, state=str(tmp_path / "state"), partitions=1)
        session.stream("S", [{"a": 1, "t": 1}, {"a": 1, "t": 2}], ordered_by="t")
        session.live, session.epoch = True, 0.1
        return session

    return opened


def values(query: object, t: int) -> set[tuple[object, ...]]:
    return {tuple(r) for r in query.at(t).collect()}  # type: ignore[attr-defined]


def test_queries_of_a_script_go_on_however_the_script_is_laid_out(sessions: Sessions) -> None:
    first = sessions()
    most = first.sql(f"{MANY}; {MOST}")
    until(most.run, lambda s: rows(s, "S") == 2 and s["watermark"] == 2)
    names = set(first.queries())
    assert len(names) == 2
    first.close()

    second = sessions()
    many = second.sql(f"-- what is most\n{MOST.lower().replace(' as n', '')};\n\n/* how many */ ({MANY})")
    assert set(second.queries()) == names
    second.push("S", [{"a": 1, "t": 5}, {"a": 9, "t": 9}])
    until(many.run, lambda s: rows(s, "S") == 4 and s["watermark"] == 9)
    second.close()
    assert values(many, 6) == {(1, 3)}, "counted from the beginning, nothing twice"
    assert many.complete_from == most.complete_from


def test_state_that_nobody_claims_is_kept_and_reported(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(live, "PATIENCE", 0.2)
    first = sessions()
    most = first.sql(f"{MANY}; {MOST}")
    until(most.run, lambda s: rows(s, "S") == 2 and s["watermark"] == 2)
    lost, kept = first.queries()
    epoch = most.status()["epoch"]
    first.close()

    second = sessions()
    waiting = second.sql(MOST)
    assert waiting.name == kept
    with pytest.raises(Diagnostic, match="UNCLAIMED_STATE"):
        waiting.wait(60)
    assert waiting.status()["waiting_for"] == [lost]
    assert waiting.status()["epoch"] >= epoch
    assert f"DROP QUERY {lost}" in caplog.text
    with pytest.raises(Diagnostic, match="UNCLAIMED_STATE"):
        waiting.run.graph.advance({"S": [{"a": 7, "t": 7}]})
    # whoever comes late goes on as if nothing had been
    many = second.sql(MANY)
    second.push("S", [{"a": 1, "t": 5}, {"a": 9, "t": 9}])
    until(many.run, lambda s: rows(s, "S") == 4 and s["watermark"] == 9)
    second.close()
    assert values(many, 6) == {(1, 3)}

    third = sessions()
    with pytest.raises(Diagnostic, match=r"UNKNOWN_QUERY\] at line 1, column 12"):
        third.sql("DROP QUERY never_there")
    third.sql("DROP QUERY IF EXISTS never_there")
    third.sql(f"DROP QUERY {lost}")
    alone = third.sql(MOST)
    third.push("S", [{"a": 8, "t": 19}])
    until(alone.run, lambda s: s["watermark"] == 19 and list(s["queries"]) == [kept])
    third.close()
    assert values(alone, 10) == {(9,)}


def test_a_changed_function_is_noticed_and_its_state_kept(sessions: Sessions) -> None:
    text = "SELECT twice(a) AS b, COUNT(*) AS n FROM S WINDOW(RANGE UNBOUNDED) GROUP BY twice(a)"
    first = sessions()
    first.function("twice", lambda a: a * 2, "BIGINT", 1)
    query = first.sql(text)
    until(query.run, lambda s: rows(s, "S") == 2 and s["watermark"] == 2)
    first.close()
    second = sessions()
    second.function("twice", lambda a: a + a, "BIGINT", 1)
    with pytest.raises(Diagnostic, match="QUERY_CHANGED"):
        second.sql(text)
    third = sessions()
    third.function("twice", lambda a: a * 2, "BIGINT", 1)
    again = third.sql(text)
    third.push("S", [{"a": 1, "t": 5}, {"a": 9, "t": 9}])
    until(again.run, lambda s: rows(s, "S") == 4 and s["watermark"] == 9)
    third.close()
    assert values(again, 6) == {(2, 3)}


def test_a_query_that_was_stopped_does_not_hold_back_the_next(sessions: Sessions) -> None:
    session = sessions()
    many = session.sql(MANY)
    until(many.run, lambda s: rows(s, "S") == 2)
    many.stop()
    most = session.sql(MOST)
    session.push("S", [{"a": 8, "t": 19}])
    until(most.run, lambda s: s["watermark"] == 19)
    session.close()


def test_a_query_that_was_stopped_and_started_again_is_waited_for(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "PATIENCE", 0.2)
    session = sessions()
    many = session.query(MANY).start("Many")
    until(many.run, lambda s: rows(s, "S") == 2)
    many.stop()
    until(session.query(MANY).start("Many").run, lambda s: s["running"])
    session.close()
    most = session.query(MOST).start("most")
    with pytest.raises(Diagnostic, match="UNCLAIMED_STATE"):
        most.wait(60)
    session.sql("DROP QUERY many")  # names have no case
    session.push("S", [{"a": 8, "t": 19}])
    until(most.run, lambda s: s["watermark"] == 19 and list(s["queries"]) == ["most"])
    session.close()


def test_a_sink_belongs_to_the_query_that_wrote_there_first(
    sessions: Sessions, spark: SparkSession, tmp_path: Path
) -> None:
    out, other = str(tmp_path / "out"), str(tmp_path / "other")
    first = sessions()
    query = first.sql(f"INSERT INTO parquet('{out}') {MANY}")
    until(query.run, lambda s: rows(s, "S") == 2 and s["watermark"] == 2)
    with pytest.raises(Diagnostic, match="SINK_TAKEN"):
        first.sql(f"INSERT INTO parquet('{out}') {MOST}")
    beside = first.sql(f"INSERT INTO parquet('{other}') {MANY}")
    assert beside.name != query.name
    first.close()
    before = spark.read.parquet(out).count()

    again = sessions()  # the same queries and their sinks
    query = again.sql(f"INSERT INTO parquet('{out}') {MANY}; INSERT INTO parquet('{other}') {MANY}")
    again.push("S", [{"a": 1, "t": 5}, {"a": 9, "t": 9}])
    until(query.run, lambda s: rows(s, "S") == 4 and s["watermark"] == 9)
    again.close()
    assert spark.read.parquet(out).count() == before + 4, "a row gone and one come, at 2 and at 5"

    elsewhere = connect(spark=spark, state=str(tmp_path / "another"), partitions=1)
    elsewhere.stream("S", [{"a": 1, "t": 1}], ordered_by="t")
    with pytest.raises(Diagnostic, match="SINK_TAKEN"):
        elsewhere.sql(f"INSERT INTO parquet('{out}') {MANY}")
    elsewhere.live = True
    with pytest.raises(Diagnostic, match="SINK_TAKEN"):
        elsewhere.sql(f"INSERT INTO parquet('{out}') {MANY}")
    unsigned = tmp_path / "unsigned" / "epoch=1"
    unsigned.mkdir(parents=True)
    with pytest.raises(Diagnostic, match="no query has signed"):
        elsewhere.sql(f"INSERT INTO json('{unsigned.parent}') {MANY}")
    elsewhere.sql(f"INSERT INTO json('{tmp_path / 'fresh'}') {MANY}")
    elsewhere.close()
