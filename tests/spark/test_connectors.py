"""Connectors at work: options reach sinks, functions of the program are sources, rows without a time are stamped once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from tidegate.connectors.sinks import make_sink
from tidegate.errors import Diagnostic
from tidegate.runtime.results import Result
from tidegate.session import Session, connect
from tidegate.time import to_datetime, to_ticks


@pytest.fixture
def session(spark: SparkSession) -> Session:
    return connect(spark=spark, partitions=2)


def files(place: Path, ending: str) -> list[Path]:
    return sorted((place / "epoch=1").glob(f"part-*.{ending}"))


def refused(session: Session, result: Any, name: str) -> dict[str, str]:
    """What is in the quarantine: the text of a row -> the reason."""
    kept = session.spark.read.parquet(result.storage.path(f"quarantine/{name}")).collect()
    return {r.raw: r.reason for r in kept}


# Sinks.


def test_options_reach_the_sinks(session: Session, tmp_path: Path) -> None:
    columns = "a STRING, b STRING, t BIGINT"
    session.stream("S", [{"a": 'x"y', "b": None, "t": 1}], ordered_by="t", schema=columns)
    query = "SELECT a, b FROM S WINDOW(RANGE UNBOUNDED)"
    session.sql(f"INSERT INTO csv('{tmp_path}/c') WITH (separator = ';', header = false, null = '~') {query}")
    (csv,) = files(tmp_path / "c", "csv")
    assert csv.read_text() == '+;"x""y";~;1\n'
    session.sql(f"INSERT INTO csv('{tmp_path}/d') {query}")
    assert files(tmp_path / "d", "csv")[0].read_text() == 'op,a,b,ts\n+,"x""y",,1\n'
    session.sql(f"INSERT INTO json('{tmp_path}/j') WITH (ignore_null_fields = false) {query}")
    assert json.loads(files(tmp_path / "j", "json")[0].read_text()) == {
        "op": "+",
        "a": 'x"y',
        "b": None,
        "ts": 1,
    }
    session.sql(f"INSERT INTO parquet('{tmp_path}/p') WITH (compression = 'zstd') {query}")
    metadata = pq.read_metadata(files(tmp_path / "p", "parquet")[0])
    assert {metadata.row_group(0).column(i).compression for i in range(4)} == {"ZSTD"}


def test_what_a_csv_sink_wrote_a_csv_source_reads(session: Session, tmp_path: Path) -> None:
    rows = [{"a": 'q"1"', "t": 1}, {"a": "x;y", "t": 2}, {"a": "two\nlines", "t": 3}, {"a": " s ", "t": 4}]
    session.stream("S", rows, ordered_by="t")
    session.sql(f"INSERT INTO csv('{tmp_path}/c') WITH (separator = ';') SELECT a, t FROM S")
    session.sql(
        f"CREATE TABLE Back(op STRING, a STRING, t BIGINT) FROM csv('{tmp_path}/c/epoch=1') WITH (separator = ';')"
    )
    found = session.query("SELECT op, a, t FROM Back").run().at(0).collect()
    assert {(r.a, r.t) for r in found if r.op == "+"} == {(r["a"], r["t"]) for r in rows}


def test_a_function_of_the_program_is_a_sink(session: Session) -> None:
    taken: list[tuple[int, str, list[tuple[Any, ...]]]] = []

    def write(epoch: int, changes: DataFrame, place: str, *, loud: bool = False) -> None:
        taken.append((epoch, place.upper() if loud else place, [tuple(r) for r in changes.collect()]))

    session.sink("shelf", write)
    session.stream("S", [{"a": 1, "t": 5}], ordered_by="t")
    session.sql("INSERT INTO shelf('x') WITH (loud = true) SELECT a FROM S WINDOW(RANGE UNBOUNDED)")
    assert taken == [(1, "X", [("+", 1, 5)])]


def test_a_sink_may_hold_the_whole_answer_of_each_epoch(session: Session, tmp_path: Path) -> None:
    session.stream("S", [{"a": 1, "t": 1}, {"a": 2, "t": 2}, {"a": 3, "t": 3}], ordered_by="t")
    text = f"INSERT INTO json('{tmp_path}/all') WITH (answer = 'complete') SELECT a FROM S WINDOW(RANGE 2)"
    session.sql(text)
    (file,) = files(tmp_path / "all", "json")
    assert sorted(json.loads(line)["a"] for line in file.read_text().splitlines()) == [2, 3]
    live = connect(spark=session.spark, partitions=2)
    live.live = True
    live.stream("S", [{"a": 1, "t": 1}], ordered_by="t")
    running = live.query("SELECT a FROM S WINDOW(RANGE 2)").start(
        begin=False, sink=make_sink("json", (f"{tmp_path}/live",), [("answer", "complete")])
    )
    for rows, upto in (([(1, 1)], 2), ([(2, 2)], 3), ([(4, 4)], 5)):
        running.run.graph.advance({"S": rows}, upto)
    found = {
        int(place.name.split("=")[1]): sorted(
            json.loads(line)["a"] for f in place.glob("*.json") for line in f.read_text().splitlines()
        )
        for place in (tmp_path / "live").glob("epoch=*")
    }
    assert found == {1: [1], 2: [1, 2], 3: [4]}


# Functions as sources.


def test_a_function_of_the_program_is_a_source(session: Session) -> None:
    def levels(first: int, *, count: int = 3) -> Iterator[str]:
        yield from (f"{first + i} {10 * i}" for i in range(count))

    session.source("levels", levels, convert=lambda line: tuple(map(int, line.split())))
    session.sql("CREATE STREAM L(cm INT, t BIGINT) SOURCE levels(100) ORDERED BY t WITH (count = 2)")
    found = session.query("SELECT cm FROM L").run().intervals().collect()
    assert sorted(tuple(r) for r in found) == [(100, 0, 1), (101, 10, 11)]


def test_rows_may_be_dicts_tuples_or_arrow_in_order_of_arrival(session: Session) -> None:
    def mixed() -> Iterator[Any]:
        yield {"a": 1, "t": 5}
        yield pa.record_batch({"t": [5, 5], "a": [2, 3]})
        yield (4, 5)

    session.source("mixed", mixed)
    session.sql("CREATE STREAM M(a INT, t BIGINT) SOURCE mixed() ORDERED BY t")
    query = session.query("SELECT a FROM M WINDOW(ROWS 2)")
    assert sorted(r.a for r in query.run().at(5).collect()) == [3, 4]
    assert query.verify()


def test_what_is_no_row_goes_to_the_quarantine(session: Session) -> None:
    items = ["1 0", "x 1", "2 2", "3", "2000000000000 4", "5 5"]
    session.source(
        "lines", lambda: items, convert=lambda line: [int(v) if v != "x" else v for v in line.split()]
    )
    session.sql("CREATE STREAM N(a INT, t BIGINT) SOURCE lines() ORDERED BY t")
    result = session.query("SELECT a FROM N").run()
    assert sorted(r.a for r in result.intervals().collect()) == [1, 2, 5]
    reasons = set(refused(session, result, "N").values())
    assert reasons == {
        "column 'a' is no INT: x",
        "a row has 2 values: not 1",
        "column 'a' is no INT: 2000000000000",
    }
    counted = result.manifest().sources["N"].refused
    assert counted == {"column 'a' is no INT": 2, "a row has 2 values": 1}


def test_a_failing_converter_refuses_its_item_and_a_failing_function_is_named(session: Session) -> None:
    session.source("numbers", lambda: ["1", "?", "3"], convert=lambda text: (int(text), int(text)))
    session.sql("CREATE STREAM I(a INT, t BIGINT) SOURCE numbers() ORDERED BY t")
    result = session.query("SELECT a FROM I").run()
    assert sorted(r.a for r in result.intervals().collect()) == [1, 3]
    (reason,) = refused(session, result, "I").values()
    assert reason.startswith("the converter fails: ValueError")
    session.source("broken", lambda: [1 // 0])
    session.sql("CREATE STREAM B(a INT, t BIGINT) SOURCE broken() ORDERED BY t")
    with pytest.raises(Diagnostic, match="'broken' fails: ZeroDivisionError"):
        session.query("SELECT a FROM B").run()


def test_a_function_that_cannot_be_read_again_is_asked_once(session: Session) -> None:
    asked = []

    def once() -> list[tuple[int, int]]:
        asked.append(len(asked))
        return [(len(asked), 0)]

    session.source("once", once)
    session.sql("CREATE STREAM O(a INT, t BIGINT) SOURCE once() ORDERED BY t")
    query = session.query("SELECT a FROM O")
    assert [r.a for r in query.run().at(0).collect()] == [1]
    assert query.verify()
    assert asked == [0]


LOG = [(1, 10), (2, 20), (3, 30), (4, 40), (5, 50)]


def two_at_a_time(offset: int | None) -> tuple[list[tuple[int, int]], int]:
    start = offset or 0
    return LOG[start : start + 2], min(start + 2, len(LOG))


def test_a_function_from_an_offset_is_live(session: Session) -> None:
    session.source("log", live=two_at_a_time)
    session.sql("CREATE STREAM G(a INT, t BIGINT) SOURCE log() ORDERED BY t")
    query = session.query("SELECT COUNT(*) AS n, SUM(a) AS s FROM G WINDOW(RANGE UNBOUNDED)")
    assert query.is_live
    running = query.start(begin=False)
    running.finish()
    assert [tuple(r) for r in running.at(50).collect()] == [(5, 15)]
    assert [tuple(r) for r in running.at(29).collect()] == [(2, 3)]


def test_live_rows_of_a_function_count_once_over_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    """The second run is stopped after its rows were stored and before that was noted."""
    text = "SELECT COUNT(*) AS n, SUM(a) AS s FROM G WINDOW(RANGE UNBOUNDED)"
    asked: list[int | None] = []

    def begun() -> Any:
        session = connect(spark=spark, partitions=2, state=str(tmp_path))

        def log(offset: int | None) -> tuple[list[tuple[int, int]], int]:
            asked.append(offset)
            return two_at_a_time(offset)

        session.source("log", live=log)
        session.sql("CREATE STREAM G(a INT, t BIGINT) SOURCE log() ORDERED BY t")
        return session.query(text).start(begin=False)

    def noted() -> tuple[int, int]:
        found = json.loads((tmp_path / "graphs" / "integers" / "offsets" / "G.json").read_text())
        return found["number"], found["offset"]

    first = begun()
    first.run.drain()
    first.run.stop()
    assert noted() == (3, 5)
    LOG.append((6, 60))
    second = begun()
    publish = type(second.run.graph.storage).publish

    def interrupted(storage: Any, name: str, data: bytes) -> None:
        publish(storage, name, data)
        if name.startswith("inbox"):
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(second.run.graph.storage), "publish", interrupted)
        with pytest.raises(KeyboardInterrupt):
            second.run.drain()
    assert noted() == (3, 5)
    second.run.stop()
    asked.clear()
    third = begun()
    third.finish()
    LOG.pop()
    assert [tuple(r) for r in third.at(60).collect()] == [(6, 21)]
    assert set(asked) == {6}, "an answer that is stored is not asked for again"


# Arrival.


@pytest.mark.parametrize("form", ["csv", "json", "parquet", "memory", "function"])
def test_rows_without_a_time_are_stamped_once_and_in_order(
    session: Session, tmp_path: Path, form: str
) -> None:
    names = ["c", "a", "b", "e", "d"]
    place = tmp_path / form
    place.mkdir()
    parts = (names[:2], names[2:])
    for i, part in enumerate(parts):
        if form == "csv":
            (place / f"{i}.csv").write_text("name\n" + "".join(f"{n}\n" for n in part))
        elif form == "json":
            (place / f"{i}.json").write_text("".join(json.dumps({"name": n}) + "\n" for n in part))
        elif form == "parquet":
            pq.write_table(pa.table({"name": part}), place / f"{i}.parquet")
    before = to_ticks(datetime.now(UTC))
    if form == "memory":
        session.stream("S", [{"name": n} for n in names])
    else:
        session.source("names", lambda: [(n,) for n in names])
        call = "names()" if form == "function" else f"{form}('{place}')"
        session.sql(f"CREATE STREAM S(name STRING) SOURCE {call}")
    query = session.query("SELECT name, TS AS at FROM S WINDOW(ROWS 2)")
    first, second = query.run(), session.query("SELECT name, TS AS at FROM S").run()
    stamped = dict(times(second))
    assert sorted(stamped, key=lambda n: stamped[n]) == names
    assert len(set(stamped.values())) == len(names)
    assert before <= min(stamped.values()) <= to_ticks(datetime.now(UTC))
    assert times(first) == times(second)
    assert query.verify(result=first)
    assert query.verify()
    assert {r.name for r in query.at(to_datetime(stamped["b"])).collect()} == {"a", "b"}


def times(result: Result) -> set[tuple[str, int]]:
    return {tuple(r) for r in result.intervals().selectExpr("name", "unix_micros(at)").collect()}
