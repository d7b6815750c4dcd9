"""Following a running query from Python, and its answer as tables of other libraries."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter
from datetime import datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidegate.errors import Diagnostic
from tidegate.reference.snapshots import Arrivals, Reference
from tidegate.runtime.running import LiveQuery
from tidegate.runtime.subscriptions import Change
from tidegate.session import Session, connect

TEXT = "SELECT STREAMED k, SUM(v) AS s FROM S WINDOW(RANGE 5) GROUP BY k"


def rows(seed: int) -> list[tuple[int, int, int]]:
    dice = random.Random(seed)
    return sorted(
        ((dice.randrange(3), dice.randrange(9), dice.randrange(40)) for _ in range(60)), key=lambda r: r[2]
    )


def started(spark: SparkSession, state: Path) -> tuple[Session, LiveQuery]:
    session = connect(spark, state=str(state), partitions=2)
    session.stream("S", [(0, 0, 0)][:0], ordered_by="t", schema="k INT, v INT, t BIGINT")
    return session, session.query(TEXT).start("q", epoch=0.05)


def table_of(changes: list[Change]) -> dict[int, Counter[tuple[int, int]]]:
    """The table after each instant; SUM is keyed by k."""
    table: dict[int, tuple[int, int]] = {}
    found: dict[int, Counter[tuple[int, int]]] = {}
    for change in changes:
        if change.op == "-":
            assert table.pop(change.row.k) == tuple(change.row)
        else:
            assert (change.op == "u") == (change.row.k in table)
            table[change.row.k] = tuple(change.row)
        assert isinstance(change.ts, int)
        assert not found or change.ts >= max(found)
        found[change.ts] = Counter(table.values())
    return found


def assert_snapshots(
    live: LiveQuery, session: Session, data: list[tuple[int, int, int]], changes: list[Change]
) -> None:
    plan = session.query(TEXT).bound.plan
    reference = Reference({"S": Arrivals([(r, r[2]) for r in data])})
    found, table = table_of(changes), Counter[tuple[int, int]]()
    points = [t for t in reference.change_points(plan) if t < 10**9]
    assert len(points) > 20
    for t in points:
        table = found.get(t, table)
        assert table == reference.snapshot(plan, t), f"at {t}"


def test_a_subscriber_sees_every_change_once(spark: SparkSession, tmp_path: Path) -> None:
    """One reads while rows come, one joins late, one is asynchronous: all see the same."""
    session, live = started(spark, tmp_path)
    data = rows(1)
    first: list[Change] = []
    reader = threading.Thread(target=lambda: first.extend(live.subscribe()), daemon=True)
    reader.start()
    for start in range(0, len(data), 7):
        session.push("S", data[start : start + 7])
    late = live.subscribe()
    live.finish()
    reader.join(60)
    assert not reader.is_alive()
    second = list(late)

    async def gathered() -> list[Change]:
        return [change async for change in live.subscribe()]

    third = asyncio.run(gathered())
    assert len(first) > 20
    assert first == second == third
    assert_snapshots(live, session, data, first)
    some = [c for c in first if c.ts is not None and c.ts >= 17]
    assert list(live.subscribe(since=17)) == some
    session.close()


def test_whoever_leaves_a_loop_goes_on_where_it_left(spark: SparkSession, tmp_path: Path) -> None:
    """Also one that is cancelled while it waits, which leaves no thread that waits for ever."""
    session, live = started(spark, tmp_path)
    session.push("S", rows(2))
    subscription = live.subscribe()
    found = [next(iter(subscription)), next(iter(subscription))]

    async def patient(seconds: float) -> None:
        async with asyncio.timeout(seconds):
            async for change in subscription:
                found.append(change)  # noqa: PERF401 - what was got before the end is got

    with pytest.raises(TimeoutError):
        asyncio.run(patient(1.0))
    live.finish()
    asyncio.run(patient(60.0))
    assert len(found) > 20
    assert found == list(live.subscribe())
    session.close()


def test_a_dropped_query_keeps_what_it_has_said(spark: SparkSession, tmp_path: Path) -> None:
    """Its graph goes on without it, which says nothing about its answer."""
    session = connect(spark, state=str(tmp_path), partitions=2)
    session.stream("S", [(0, 0, 0)][:0], ordered_by="t", schema="k INT, v INT, t BIGINT")
    live = session.query("SELECT STREAMED k, SUM(v) AS s FROM S WINDOW(ROWS 2) GROUP BY k").start(
        "q", begin=False
    )
    other = session.query("SELECT v FROM S WINDOW(RANGE 5)").start("other", begin=False)
    graph = live.run.graph
    graph.advance({"S": [(1, 1, 1), (1, 2, 5), (1, 3, 9)]})
    slow, held = live.subscribe(), live.result
    first = next(iter(slow))
    live.stop()
    graph.advance({"S": [(2, 4, 20), (2, 5, 30)]})
    assert [(c.op, tuple(c.row), c.ts) for c in (first, *slow)] == [("+", (1, 1), 1), ("u", (1, 3), 5)]
    for answer in (held, live):
        assert [tuple(r) for r in answer.at(8).collect()] == [(1, 3)]
        with pytest.raises(Diagnostic, match="NOT_FINAL"):
            answer.at(25)
    live.stop()  # once more: it is none of the other's business
    assert session.queries() == ["other"]
    # another query of the name has rows of its own, and no key
    again = session.query("SELECT v, k FROM S WINDOW(ROWS 1)").start("q", begin=False)
    graph.advance({"S": [(2, 6, 40), (2, 7, 50), (2, 8, 60)]})
    changes = [(r.op, r.v, r.ts) for r in again.changes().orderBy("ts", "op").collect()]
    assert ("-", 6, 50) in changes
    assert not [c for c in changes if c[0] == "u"]
    assert [tuple(r) for r in live.at(8).collect()] == [(1, 3)]
    assert [tuple(r) for r in other.at(52).collect()] == [(7,)]
    session.close()


def test_maps_with_nulls_are_what_they_were(spark: SparkSession, tmp_path: Path) -> None:
    """As changes, and at an instant of an answer whose rows end later than they begin."""
    session = connect(spark, state=str(tmp_path), partitions=1)
    session.stream("S", [(0, 0)][:0], ordered_by="t", schema="m MAP<STRING, INT>, t BIGINT")
    live = session.query("SELECT m FROM S WINDOW(ROWS 1)").start("q", begin=False)
    maps = [{"a": None, "b": 2}, {"c": None}, {"d": 4}]
    for t, m in enumerate(maps):
        live.run.graph.advance({"S": [(m, t)]})
    session.advance("S", 5)
    live.run.graph.advance({})
    assert [r.m for t in (0, 1, 2) for r in live.at(t).collect()] == maps
    assert [r.m for r in live.intervals().orderBy("valid_from").collect()] == maps
    subscription = live.subscribe()
    session.close()
    expected = [("+", 0, 0), ("-", 0, 1), ("+", 1, 1), ("-", 1, 2), ("+", 2, 2)]
    assert [(c.op, c.row.m, c.ts) for c in subscription] == [(op, maps[i], t) for op, i, t in expected]


def test_closing_lets_whoever_waits_go(spark: SparkSession, tmp_path: Path) -> None:
    session, live = started(spark, tmp_path)
    subscription, found = live.subscribe(), []
    reader = threading.Thread(target=lambda: found.extend(subscription), daemon=True)
    reader.start()
    subscription.close()
    reader.join(30)
    assert not reader.is_alive()
    assert found == []
    session.close()


def test_a_subscriber_is_told_what_failed(spark: SparkSession, tmp_path: Path) -> None:
    session = connect(spark, state=str(tmp_path), partitions=1)
    session.stream("S", [(0, 0)][:0], ordered_by="t", schema="v INT, t BIGINT")
    live = session.query("SELECT 10 DIV v AS w FROM S WINDOW(RANGE 5)").start("q", epoch=0.05)
    session.push("S", [(2, 1), (0, 2), (1, 9)])
    with pytest.raises(Diagnostic) as caught:
        list(live.subscribe())
    assert caught.value.condition == "DIVIDE_BY_ZERO"
    session.close()


def test_a_subscriber_that_is_slower_than_retention_is_told(spark: SparkSession, tmp_path: Path) -> None:
    session = connect(spark, state=str(tmp_path), partitions=1)
    session.stream("S", [(0, 0)][:0], ordered_by="t", schema="v INT, t BIGINT")
    live = session.query("SELECT v FROM S WINDOW(RANGE 5)").start("q", begin=False, retention=10)
    graph = live.run.graph
    graph.advance({"S": [(1, 1), (2, 4)]})
    slow = iter(live.subscribe())
    graph.advance({"S": [(3, 100), (4, 200)]})
    with pytest.raises(Diagnostic) as caught:
        list(slow)
    assert caught.value.condition == "FORGOTTEN"
    session.close()


def test_answers_as_tables_of_other_libraries(spark: SparkSession, tmp_path: Path) -> None:
    session = connect(spark, state=str(tmp_path), partitions=1)
    moment = datetime(2024, 3, 1, 12)
    session.stream("S", [{"v": 1, "t": moment}], ordered_by="t")
    text = "SELECT v, TS AS seen FROM S WINDOW(RANGE 1 HOUR)"
    live = session.query(text).start("q", begin=False)
    live.run.graph.advance({"S": [{"v": 1, "t": moment}, {"v": 2, "t": datetime(2024, 3, 1, 12, 30)}]})
    seen = moment  # without a zone, as it was given
    for answer in (live, session.query(text).run()):
        assert answer.to_arrow(moment).to_pylist() == [{"v": 1, "seen": seen}]
        assert answer.to_polars(moment).rows() == [(1, seen)]
        frame = answer.to_pandas(moment)
        assert (frame.v.tolist(), frame.seen[0].to_pydatetime()) == ([1], seen)
        assert answer.to_duckdb(moment).fetchall()[0][0] == 1
    assert live.to_arrow().to_pylist() == [{"v": 1, "seen": seen}]
    live.to_view("answer", moment)
    live.run.graph.files_limit = 1
    for minute in range(40, 46):  # the files that it was read from are merged, and those again
        live.run.graph.advance({"S": [{"v": minute, "t": datetime(2024, 3, 1, 12, minute)}]})
    assert [r.v for r in session.spark.sql("SELECT * FROM answer").collect()] == [1]
    with pytest.raises(Diagnostic, match="SPARK_FAILED"):
        live.to_view("no name", moment)
    session.close()
