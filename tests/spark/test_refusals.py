"""Rows that may not be used: bounded times, runs that stop at them, and what is said at the end of every run."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tidegate import cli
from tidegate.errors import Diagnostic
from tidegate.session import Session, connect
from tidegate.time import to_ticks

NOW = datetime(2024, 3, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.fixture
def session(spark: SparkSession) -> Session:
    return connect(spark=spark, partitions=2)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "in"
    place.mkdir()
    return place


def kept(session: Session, result: Any, name: str = "S") -> list[str]:
    place = result.storage.path(f"quarantine/{name}")
    return sorted(r.reason for r in session.spark.read.parquet(place).collect())


# Times ahead of the clock.


@pytest.mark.parametrize("type_", ["TIMESTAMP", "TIMESTAMP_NTZ"])
def test_one_row_from_the_far_future_makes_no_other_late(session: Session, type_: str) -> None:
    def row(a: int, t: datetime) -> dict[str, Any]:
        return {"a": a, "t": t if type_ == "TIMESTAMP" else t.replace(tzinfo=None)}

    session.stream("S", [], ordered_by="t", schema=f"a INT, t {type_}")
    live = session.query("SELECT a FROM S WINDOW(RANGE UNBOUNDED)").start(begin=False)
    live.run.graph.wall = lambda: to_ticks(NOW)
    edge = [
        row(1, NOW),
        row(2, NOW + DAY),
        row(3, NOW + DAY + timedelta(microseconds=1)),
        row(4, NOW + 9000 * DAY),
    ]
    live.run.graph.advance({"S": edge[:1]})
    live.run.graph.advance({"S": edge[3:]})
    live.run.graph.advance({"S": [row(5, NOW + timedelta(seconds=1))]})
    live.run.graph.advance({"S": edge[1:3]})
    live.finish()
    assert sorted(r.a for r in live.at(NOW + 2 * DAY).collect()) == [1, 2, 5]
    far = "column 't' is too far ahead of the clock"
    assert live.status()["sources"]["S"]["quarantine"] == {far: 2}
    assert kept(session, live.result) == [f"{far}: 2024-03-02 12:00:00.000001", f"{far}: 2048-10-21 12:00:00"]


def test_how_far_ahead_is_an_option(session: Session, folder: Path) -> None:
    now = datetime.now(UTC).replace(microsecond=0)
    times = [now + timedelta(hours=h) for h in (0, 2, 30, 24 * 400)]
    lines = "".join(f"{i},{t:%Y-%m-%d %H:%M:%S}\n" for i, t in enumerate(times))
    (folder / "1.csv").write_text("a,t\n" + lines)

    def answered(more: str, live: bool) -> list[int]:
        tg = connect(spark=session.spark, partitions=1)
        tg.sql(f"CREATE STREAM S(a INT, t TIMESTAMP) SOURCE csv('{folder}') ORDERED BY t {more}")
        query = tg.query("SELECT a FROM S")
        if live:
            started = query.start(begin=False)
            started.finish()
            return sorted(r.a for r in started.intervals().collect())
        result = query.run()
        assert query.verify(result=result)
        return sorted(r.a for r in result.intervals().collect())

    # Recorded rows may have been made up: only what is asked for bounds them.
    assert answered("", live=False) == [0, 1, 2, 3]
    assert answered("", live=True) == [0, 1]
    for live in (False, True):
        assert answered("WITH (ahead = '1 hour')", live) == [0]
        assert answered("WITH (ahead = '2 days')", live) == [0, 1, 2]
        assert answered(f"WITH (ahead = '100 weeks', latest = '{times[1]:%Y-%m-%d %H:%M:%S}')", live) == [
            0,
            1,
        ]


@pytest.mark.parametrize("form", ["memory", "parquet"])
@pytest.mark.parametrize("live", [False, True])
def test_integer_time_has_the_bound_that_is_said(
    session: Session, folder: Path, form: str, live: bool
) -> None:
    rows = pa.table({"a": pa.array([1, 2, 3], pa.int32()), "t": [10, 100, 101]})
    pq.write_table(rows, folder / "1.parquet")
    call = "memory('S')" if form == "memory" else f"parquet('{folder}')"
    session.sql(f"CREATE STREAM S(a INT, t BIGINT) SOURCE {call} ORDERED BY t WITH (latest = 100)")
    session.data["S"] = rows
    query = session.query("SELECT a FROM S")
    found: Any = query.start(begin=False) if live else query.run()
    if live:
        found.finish()
    assert sorted(r.a for r in found.intervals().collect()) == [1, 2]
    result = found.result if live else found
    assert kept(session, result) == ["column 't' is later than any row may be: 101"]


@pytest.mark.parametrize(
    ("more", "condition", "place"),
    [
        ("t BIGINT) SOURCE memory('S') ORDERED BY t WITH (ahead = '1 day')", "TIME_DOMAIN", "ahead"),
        ("t BIGINT) SOURCE memory('S') ORDERED BY t WITH (latest = 'soon')", "INVALID_OPTION", "latest"),
        ("t TIMESTAMP) SOURCE memory('S') ORDERED BY t WITH (latest = 'soon')", "INVALID_OPTION", "latest"),
        ("t TIMESTAMP) SOURCE memory('S') ORDERED BY t WITH (ahead = 'far')", "INVALID_PERIOD", "ahead"),
        ("t TIMESTAMP) SOURCE memory('S') ORDERED BY t WITH (onerror = 'halt')", "INVALID_OPTION", "onerror"),
    ],
)
def test_a_bound_that_makes_no_sense_is_refused_at_its_place(more: str, condition: str, place: str) -> None:
    text = f"CREATE STREAM S(a INT, {more}"
    with pytest.raises(Diagnostic) as raised:
        connect().sql(text)
    assert raised.value.condition == condition
    assert raised.value.position is not None
    assert text[raised.value.position.start :].startswith(place)


# Runs that stop.


def write_csv(folder: Path) -> None:
    (folder / "1.csv").write_text("b,a,t\n,1,1\n")
    (folder / "2 ä.csv").write_text('b,a,t\n"two\nlines",2,2\n\nx,hot,3\nx,cold,4\n')


def write_json(folder: Path) -> None:
    (folder / "1.json").write_text(
        '{"a": 1, "t": 1}\n\n{"a": 2, "t": 2}\n{"a": "hot", "t": 3}\n{"a": 1.5, "t": 4}\n'
    )


def write_debezium(folder: Path) -> None:
    events = [{"op": "c", "after": {"a": a, "t": t}} for a, t in ((1, 1), (2, 2), ("hot", 3), (7.5, 4))]
    (folder / "1.json").write_text("\n".join(["null", "", *map(json.dumps, events)]))


def write_parquet(folder: Path) -> None:
    values = {"a": pa.array([1, 2, None, None], pa.int32()), "t": [1, 2, 3, 4]}
    pq.write_table(pa.table(values), folder / "1.parquet")


STOPS: dict[str, tuple[Callable[[Path], None], str, str, str]] = {
    "csv": (write_csv, "a INT", "", "column 'a' is no INT: hot in {}/2 ä.csv, line 5"),
    "json": (write_json, "a INT", "", "column 'a' is no INT: hot in {}/1.json, line 4"),
    "debezium": (
        write_debezium,
        "a INT",
        "format = 'debezium', ",
        "column 'a' is no INT: hot in {}/1.json, line 5",
    ),
    "parquet": (write_parquet, "a INT NOT NULL", "", "column 'a' is NULL in {}/1.parquet, row 3"),
}


@pytest.mark.parametrize("form", STOPS)
@pytest.mark.parametrize("live", [False, True])
def test_a_stream_may_stop_at_the_first_row_that_it_cannot_use(
    session: Session, folder: Path, form: str, live: bool
) -> None:
    write, columns, more, message = STOPS[form]
    write(folder)
    call = f"{'json' if form == 'debezium' else form}('{folder}')"
    for stop in ("quarantine", "stop"):
        tg = connect(spark=session.spark, partitions=2)
        tg.sql(
            f"CREATE STREAM S({columns}, t BIGINT) SOURCE {call} ORDERED BY t WITH ({more}on_error = '{stop}')"
        )
        query = tg.query("SELECT a FROM S")

        def run(query: Any = query) -> Any:
            if not live:
                return query.run()
            started = query.start(begin=False)
            started.finish()
            return started

        if stop == "quarantine":
            assert sorted(r.a for r in run().intervals().collect()) == [1, 2]
            continue
        with pytest.raises(Diagnostic) as raised:
            run()
        assert raised.value.condition == "ROW_REFUSED"
        assert raised.value.message.endswith(": " + message.format(folder))


def test_rows_of_a_program_stop_a_stream_too(session: Session) -> None:
    session.source("given", lambda: [(1, 1), ("hot", 2)])
    session.sql("CREATE STREAM S(a INT, t BIGINT) SOURCE given() ORDERED BY t WITH (on_error = 'stop')")
    with pytest.raises(Diagnostic, match=r"column 'a' is no INT: hot: \('hot', 2\)"):
        session.query("SELECT a FROM S").run()


def test_a_table_may_stop_too(session: Session, folder: Path) -> None:
    (folder / "1.csv").write_text("a,b\n1,x\nhot,y\n")
    session.stream("S", [{"a": 1, "t": 1}], ordered_by="t")
    session.sql(f"CREATE TABLE T(a INT, b STRING) FROM csv('{folder}') WITH (on_error = 'stop')")
    with pytest.raises(Diagnostic, match=r"column 'a' is no INT: hot in .*1\.csv, line 3"):
        session.query("SELECT b FROM S JOIN T ON S.a = T.a").run()


# What is said at the end.


def test_a_run_ends_with_what_was_refused_and_why(
    session: Session, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (folder / "1.csv").write_text("a,t\n1,1\nhot,2\ncold,3\n4,\n")
    session.sql(f"CREATE STREAM S(a INT, t BIGINT) SOURCE csv('{folder}') ORDERED BY t")
    expected = "'S' refused 3 rows: 2 x column 'a' is no INT, 1 x the time is NULL"
    with caplog.at_level(logging.WARNING, "tidegate"):
        result = session.query("SELECT a FROM S").run()
        assert [r.getMessage().split(" (kept in ")[0] for r in caplog.records] == [expected]
        caplog.clear()
        live = session.query("SELECT a FROM S").start(begin=False)
        live.finish()
        live.stop()
    assert [m for r in caplog.records if (m := r.getMessage().split(" (kept in ")[0]).startswith("'S'")] == [
        expected
    ]
    assert result.refused == live.result.refused == {"S": {"column 'a' is no INT": 2, "the time is NULL": 1}}


@pytest.mark.parametrize("live", [False, True])
def test_a_stream_of_which_nothing_can_be_used_has_failed(session: Session, folder: Path, live: bool) -> None:
    (folder / "1.csv").write_text("a,t\nhot,1\ncold,2\n")
    session.sql(f"CREATE STREAM S(a INT, t BIGINT) SOURCE csv('{folder}') ORDERED BY t")
    query = session.query("SELECT a FROM S WHERE a > 5")
    with pytest.raises(
        Diagnostic, match="no row of 'S' can be used: 'S' refused 2 rows: 2 x column 'a' is no INT"
    ) as raised:
        query.start(begin=False).finish() if live else query.run()
    assert raised.value.condition == "ALL_ROWS_REFUSED"
    (folder / "2.csv").write_text("a,t\n3,3\n")
    # A row that the query does not want is a row that could be used.
    fresh = connect(spark=session.spark)
    fresh.catalog = session.catalog
    found: Any = fresh.query("SELECT a FROM S WHERE a > 5")
    found = found.start(begin=False) if live else found.run()
    if live:
        found.finish()
    assert found.intervals().collect() == []


def command(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["tidegate", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return int(ended.value.code or 0)


def test_the_command_ends_with_it(
    spark: SparkSession,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert spark.getActiveSession() is not None
    script = folder.parent / "q.sql"
    script.write_text(
        f"CREATE STREAM S(a INT, t BIGINT) SOURCE csv('{folder}') ORDERED BY t;\nSELECT a FROM S;\n"
    )
    (folder / "1.csv").write_text("a,t\n1,1\n")
    assert command(monkeypatch, "run", str(script)) == 0
    assert "no rows were refused" in capsys.readouterr().out
    (folder / "1.csv").write_text("a,t\n1,1\nhot,2\n")
    assert command(monkeypatch, "run", str(script)) == 0
    assert "no rows were refused" not in capsys.readouterr().out
    assert "'S' refused 1 row: 1 x column 'a' is no INT" in caplog.text
    (folder / "1.csv").write_text("a,t\nhot,2\n")
    for what in ("run", "verify"):
        assert command(monkeypatch, what, str(script)) == 2
        assert "error[ALL_ROWS_REFUSED]" in capsys.readouterr().err
