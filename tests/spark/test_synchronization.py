"""Modify streams, synchronization and NOW on Spark: recorded and live answers are the reference's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.fuzz.players import difference
from tidegate.errors import Diagnostic
from tidegate.reference.snapshots import Arrivals, Reference
from tidegate.runtime.verification import signed_rows
from tidegate.session import Session, connect

ORDERS = [
    (1, "pen", 5, "c", 1),
    (2, "ink", 2, "c", 2),
    (1, "pen", 7, "u", 4),
    (3, "pen", 1, "c", 4),
    (2, "ink", 2, "d", 6),
    (9, "ink", 4, "d", 7),
    (2, "cap", 3, "c", 9),
    (1, "pen", 7, "d", 11),
    (3, "ink", 6, "u", 13),
]
ROOMS = [
    ("a", 78, 1),
    ("b", 125, 3),
    ("a", 105, 3),
    ("c", 95, 5),
    ("b", 70, 8),
    ("a", 130, 10),
    ("c", 121, 12),
]
SCRIPT = """
CREATE STREAM Orders OVER OrderLog KEY id OPERATION op;
CREATE STREAM Rooms OVER RoomLog KEY room;
CREATE STREAM Readings OVER RoomLog KEY NULL;
CREATE STREAMED VIEW Even AS SELECT C.Timepoint FROM CLOCK C WHERE C.Timepoint % 4 = 0;
CREATE STREAMED VIEW Hot AS SELECT TS FROM RoomLog WHERE degrees > 120;
"""
QUERIES = {
    "relation": "SELECT id, product, quantity FROM Orders",
    "filtered": "SELECT room, degrees FROM Rooms WHERE degrees > 80",
    "grouped": "SELECT product, COUNT(*) AS n, SUM(quantity) AS q FROM Orders GROUP BY product",
    "joined": "SELECT o.id, r.room FROM Orders o JOIN Rooms r ON o.quantity * 21 = r.degrees OR o.id = LENGTH(r.room)",
    "clock": "SELECT room, degrees FROM Rooms SYNC BY Even R WHERE R.degrees > 80",
    "clock_grouped": "SELECT product, COUNT(*) AS n FROM Orders SYNC BY Even GROUP BY product",
    "events": "SELECT room, degrees FROM Rooms SYNC BY Hot",
    "events_grouped": "SELECT product, SUM(quantity) AS q FROM Orders SYNC BY Hot GROUP BY product",
    "both": "SELECT room, degrees FROM Rooms SYNC BY (SELECT Timepoint FROM CLOCK WHERE Timepoint % 5 = 0"
    " UNION SELECT TS FROM RoomLog WHERE degrees > 120)",
    "now": "SELECT id, quantity FROM Orders WHERE TS <= NOW AND NOW < TS + 3",
    "inserted": "SELECT room, degrees FROM Readings WHERE NOW < TS + 4",
    "spelled": "SELECT soundex(product) AS s, quantity FROM Orders SYNC BY Even",
}


@pytest.fixture(scope="module")
def session(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Session:
    tg = connect(spark, state=str(tmp_path_factory.mktemp("sync")), partitions=3)
    columns = "id INT, product STRING, quantity INT, op STRING, t BIGINT"
    tg.stream("OrderLog", ORDERS, ordered_by="t", schema=columns)
    tg.stream("RoomLog", ROOMS, ordered_by="t", schema="room STRING, degrees INT, t BIGINT")
    tg.sql(SCRIPT)
    return tg


def judge(session: Session) -> Reference:
    from tidegate.runtime.verification import SparkScalars

    rows = {"OrderLog": ORDERS, "RoomLog": ROOMS}
    sources = {n: Arrivals([(r, r[-1]) for r in found]) for n, found in rows.items()}
    return Reference(sources, {}, {}, SparkScalars(lambda: session.spark, {}))


def test_recorded_answers_are_the_references(session: Session) -> None:
    asked = {n: session.query(q) for n, q in QUERIES.items()}
    definitions = {n: d for q in asked.values() for n, d in q.definitions.items()}
    plans = {n: q.plan for n, q in asked.items()}
    reference = judge(session)
    for boundaries in ([], [3, 4, 9]):
        results = session.engine.run_all(plans, definitions, {}, session.data, boundaries=boundaries)
        for name, query in asked.items():
            rows = signed_rows(results[name], query.schema)
            assert len(rows) > 2, name
            found = difference(reference, query.bound.plan, rows)
            assert found is None, (name, boundaries, found)


def test_live_answers_are_the_references(session: Session) -> None:
    asked = {n: session.query(q) for n, q in QUERIES.items()}
    definitions = {n: d for q in asked.values() for n, d in q.definitions.items()}
    run = session.engine.start({n: q.plan for n, q in asked.items()}, definitions, graph="sync", begin=False)
    arrivals = sorted(
        [(r[-1], n, r) for n, rows in (("OrderLog", ORDERS), ("RoomLog", ROOMS)) for r in rows],
        key=lambda a: a[:2],
    )
    for first in range(0, len(arrivals), 3):
        batch: dict[str, list[tuple[Any, ...]]] = {}
        for _, name, row in arrivals[first : first + 3]:
            batch.setdefault(name, []).append(row)
        run.graph.advance(batch)
    run.graph.finish()
    reference = judge(session)
    for name, query in asked.items():
        found = difference(reference, query.bound.plan, signed_rows(run.result(name), query.schema))
        assert found is None, (name, found)


def test_a_modify_stream_by_hand(session: Session) -> None:
    result = session.query(QUERIES["relation"]).run()
    assert sorted(tuple(r) for r in result.at(5).collect()) == [(1, "pen", 7), (2, "ink", 2), (3, "pen", 1)]
    assert sorted(tuple(r) for r in result.at(12).collect()) == [(2, "cap", 3), (3, "pen", 1)]


def test_points_of_events_go_to_every_partition(session: Session) -> None:
    text = session.query(QUERIES["events"]).explain()
    assert "exchanged by" in text
    assert "sent to every partition" in text
    ticks = session.query(QUERIES["clock_grouped"]).explain()
    assert ticks.count("exchanged by") == 2, (
        "the relation is exchanged by its key, then by the group; ticks never travel"
    )


TWO_INPUTS = (
    "SELECT r.room, o.id FROM Rooms SYNC BY {} r,"
    " Orders SYNC BY (SELECT Timepoint FROM CLOCK WHERE Timepoint % 6 = 0) o"
)


def test_full_and_partial_points_are_reported(session: Session) -> None:
    """Points every 4 and every 6 instants up to 13: 4, 8, 12 and 6, 12. Hot readings: 3, 10, 12."""
    found = session.query(TWO_INPUTS.format("Even")).points(1, 14)
    assert (found.full, found.partial) == ((12,), (4, 6, 8))
    found = session.query(TWO_INPUTS.format("Hot")).points(1, 14)
    assert (found.full, found.partial) == ((12,), (3, 6, 10))


def test_the_status_counts_the_points_that_have_passed(session: Session) -> None:
    asked = {n: session.query(TWO_INPUTS.format(n)) for n in ("Even", "Hot")}
    definitions = {n: d for q in asked.values() for n, d in q.definitions.items()}
    run = session.engine.start(
        {n: q.plan for n, q in asked.items()}, definitions, graph="points", begin=False
    )
    run.graph.advance({}, 1)
    run.graph.advance({"OrderLog": ORDERS, "RoomLog": ROOMS}, 9)
    assert run.status()["queries"]["Even"]["points"] == {"full": 0, "partial": 3}
    run.graph.advance({}, 14)
    queries = run.status()["queries"]
    assert queries["Even"]["points"] == {"full": 1, "partial": 3}
    assert queries["Hot"]["points"] is None, "points that are events are not counted"


def test_a_clock_alone_is_refused(session: Session) -> None:
    with pytest.raises(Diagnostic, match="never run as a stream"):
        session.query("SELECT Timepoint FROM CLOCK").run()


LOG = """
{"before": null, "after": {"id": 7, "product": "pen"}, "op": "c", "ts_ms": 5}
{"schema": {}, "payload": {"before": null, "after": {"id": 8, "product": "ink"}, "op": "r", "ts_ms": 6}}
{"before": {"id": 7}, "after": {"id": 7, "product": "cap"}, "op": "u", "ts_ms": 8}
{"before": {"id": 8, "product": "ink"}, "after": null, "op": "d", "ts_ms": 9}
null
{"op": "t", "ts_ms": 10}
{"before": null, "after": {"id": "nine", "product": "x"}, "op": "c", "ts_ms": 11}
no event at all
"""


def change_log(spark: SparkSession, folder: Path) -> Session:
    (folder / "orders").mkdir()
    (folder / "orders" / "1.json").write_text(LOG)
    tg = connect(spark, state=str(folder / "state"), partitions=2)
    tg.sql(
        f"""REGISTER SOURCE OrderLog(id INT, product STRING, op STRING, ts_ms BIGINT)
              FROM json('{folder / "orders"}') ORDERED BY ts_ms WITH (format = 'debezium');
            CREATE STREAM Orders OVER OrderLog KEY id OPERATION op"""
    )
    return tg


EVERY_ORDER = {(7, "pen", 5, 8), (8, "ink", 6, 9), (7, "cap", 8, None)}
REFUSED = {
    "operation 't' changes no single row": 1,
    "column 'id' is no INT": 1,
    "this is no JSON": 1,
}


def test_debeziums_events_are_rows_and_what_gives_none_is_kept(spark: SparkSession, tmp_path: Path) -> None:
    tg = change_log(spark, tmp_path)
    query = tg.query("SELECT id, product FROM Orders")
    result = query.run()
    assert {tuple(r) for r in result.intervals().collect()} == EVERY_ORDER
    assert result.manifest().sources["OrderLog"].refused == REFUSED
    kept = spark.read.parquet(result.storage.path("quarantine/OrderLog")).collect()
    assert {r.raw for r in kept if "JSON" in r.reason} == {"no event at all"}
    live = query.start(begin=False)
    live.finish()
    assert {tuple(r) for r in live.intervals().collect()} == EVERY_ORDER
    assert live.status()["sources"]["OrderLog"]["quarantine"] == REFUSED
