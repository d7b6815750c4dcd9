"""Queries that are answered by others that run: no stream is read again, EXPLAIN names who answers, and a restart needs only the query."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.test_joining import snapshots
from tidegate.physical.plan import SourceRows
from tidegate.runtime.graph import LiveGraph
from tidegate.session import Session, connect

ROOMS = [{"room": "abcd"[i % 4], "temperature": 60 + (i * 37) % 70, "t": i} for i in range(40)]
OTHER = [{"id": i % 3, "y": (i * 5) % 9, "t": i} for i in range(40)]

SCRIPT = """
CREATE STREAM Rooms OVER Measured KEY room;
CREATE STREAM Others OVER Other KEY id;
CREATE STREAMED VIEW Sync2 AS SELECT Timepoint FROM CLOCK WHERE Timepoint % 2 = 0;
CREATE STREAMED VIEW Sync3 AS SELECT Timepoint FROM CLOCK WHERE Timepoint % 3 = 0;
CREATE STREAMED VIEW Sync4 AS SELECT Timepoint FROM CLOCK WHERE Timepoint % 4 = 0;
"""

PAIR = "FROM Rooms SYNC BY Sync2 a, Others SYNC BY Sync3 b WHERE a.temperature % 3 = b.id"
SPANS = "Measured WINDOW(FROM 2 * i + {} TO 5 * i + {} EVERY 5 STARTING AT {})"

PAIRS = {
    "example 18": (f"SELECT * {PAIR}", f"SELECT * {PAIR} AND a.temperature < 10 * b.y + 60"),
    "example 19": (
        "SELECT room, temperature FROM Rooms SYNC BY Sync2 r WHERE r.temperature > 80",
        "SELECT room, temperature FROM Rooms SYNC BY Sync4 r WHERE r.temperature > 100",
    ),
    "example 7": (
        f"SELECT COUNT(*) AS n, MAX(temperature) AS m FROM {SPANS.format(3, 3, 0)}",
        f"SELECT COUNT(*) AS n FROM {SPANS.format(2, 8, 5)}",
    ),
    "coarser groups": (
        "SELECT room, temperature % 2 AS odd, COUNT(*) AS n, COUNT(temperature) AS c, SUM(temperature) AS s FROM Measured WINDOW(RANGE 12) GROUP BY room, temperature % 2",
        "SELECT room, SUM(temperature) AS s, COUNT(*) AS n, AVG(temperature) AS m FROM Measured WINDOW(RANGE 12) WHERE room <> 'd' GROUP BY room",
    ),
    "a smaller window": (
        "SELECT m.room, o.y, m.TS AS since FROM Measured WINDOW(RANGE 9) m JOIN Other WINDOW(RANGE 6) o ON m.temperature % 3 = o.id",
        "SELECT m.room, o.y FROM Measured WINDOW(RANGE 4) m JOIN Other WINDOW(RANGE 6) o ON m.temperature % 3 = o.id WHERE o.y > 2",
    ),
    "a part": (
        "SELECT room, COUNT(*) AS n FROM Measured WINDOW(RANGE 10) GROUP BY room",
        "SELECT a.room, a.n FROM (SELECT room, COUNT(*) AS n FROM Measured WINDOW(RANGE 10) GROUP BY room) a WHERE n >= ALL (SELECT COUNT(*) FROM Measured WINDOW(RANGE 10) GROUP BY room)",
    ),
}  # fmt: skip
"""What runs, and what is asked later."""

READS_KEYS = {"example 18", "example 19"}


def opened(spark: SparkSession, place: Path | None) -> Session:
    session = connect(spark=spark, state=None if place is None else str(place), partitions=2)
    recorded = place is None
    session.stream(
        "Measured", ROOMS if recorded else [], schema="room STRING, temperature INT, t BIGINT", ordered_by="t"
    )
    session.stream("Other", OTHER if recorded else [], schema="id INT, y INT, t BIGINT", ordered_by="t")
    session.sql(SCRIPT)
    return session


def given(graph: LiveGraph, since: int, upto: int) -> None:
    rows = {"Measured": ROOMS, "Other": OTHER}
    graph.advance({n: [r for r in every if since <= r["t"] < upto] for n, every in rows.items()})


def sources(graph: LiveGraph) -> Counter[Any]:
    inputs = graph._ready().plan.inputs.values()
    return Counter(i.origin.name for i in inputs if isinstance(i.origin, SourceRows))


@pytest.mark.parametrize("epochs", ["driver", "spark"])
def test_views_that_run_answer_queries(spark: SparkSession, tmp_path: Path, epochs: Any) -> None:
    """Views run; queries come that they answer; the views go; the program ends and goes on with the queries alone."""
    session = opened(spark, tmp_path)
    views = {
        f"view of {n}": session.query(v).start(f"view of {n}", begin=False) for n, (v, _) in PAIRS.items()
    }
    graph = next(iter(views.values())).run.graph
    graph.epochs.asked = epochs
    given(graph, 0, 9)
    given(graph, 9, 14)
    read = sources(graph)
    told = {
        n: session.query(q).explain().partition("== Beside running queries\n")[2]
        for n, (_, q) in PAIRS.items()
    }
    for name, text in told.items():
        assert f"'view of {name}'" in text, (name, text)
        assert "read anew" not in text, (name, text)
    assert "answers it with Aggregate room, temperature % 2" in told["coarser groups"]
    assert "then room <> 'd'; grouped by room" in told["coarser groups"]
    late = {n: session.query(q).start(n, begin=False) for n, (_, q) in PAIRS.items()}
    assert sources(graph) == read
    reached = graph.ledger.latest.upto
    complete = {n: q.complete_from for n, q in late.items()}
    assert complete == {**dict.fromkeys(PAIRS, reached), "example 19": -(-reached // 4) * 4}
    given(graph, 14, 20)
    for name in views:
        graph.drop(name)
    given(graph, 20, 27)
    assert sources(graph) == read
    session.close()
    session = opened(spark, tmp_path)
    late = {n: session.query(q).start(n, begin=False) for n, (_, q) in reversed(PAIRS.items())}
    graph = late["a part"].run.graph
    graph.epochs.asked = epochs
    assert sources(graph) == read
    given(graph, 27, 40)
    graph.finish()
    whole = opened(spark, None)
    for name, (_, query) in PAIRS.items():
        instants = range(complete[name] or 0, 55)
        assert snapshots(late[name], instants) == snapshots(whole.query(query).run(), instants), name
    session.close()


def test_explain_says_why_a_view_does_not_answer(spark: SparkSession, tmp_path: Path) -> None:
    session = opened(spark, tmp_path)
    view = session.query(
        "SELECT room, COUNT(*) AS n FROM Measured WINDOW(RANGE 10) WHERE temperature > 70 GROUP BY room"
    )
    view.start("hot", begin=False).run.graph.advance({"Measured": ROOMS[:9]})

    def told(query: str) -> str:
        return session.query(query).explain().partition("== Beside running queries\n")[2]

    cold = told(
        "SELECT room, COUNT(*) AS n FROM Measured WINDOW(RANGE 10) WHERE temperature > 60 GROUP BY room"
    )
    assert (
        "'hot' nearly answers with Aggregate room; COUNT(*): it has only rows with temperature > 70" in cold
    )
    hotter = told(
        "SELECT room, COUNT(*) AS n FROM Measured WINDOW(RANGE 10) WHERE temperature > 80 GROUP BY room"
    )
    assert "it does not have temperature" in hotter
    longer = told(
        "SELECT room, COUNT(*) AS n FROM Measured WINDOW(RANGE 20) WHERE temperature > 70 GROUP BY room"
    )
    assert "its window is RANGE 10, and the query's RANGE 20" in longer
    assert "nearly" not in told("SELECT id, COUNT(*) AS n FROM Other WINDOW(RANGE 10) GROUP BY id")
    session.close()
