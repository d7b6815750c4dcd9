"""Streams with batches through Spark: recorded and live answers at pairs (t, i)."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta

import pytest

import tidegate
from tidegate.errors import Diagnostic

ROWS = [
    {"v": "a", "k": 1, "b": 0, "t": 1}, {"v": "b", "k": 2, "b": 0, "t": 1}, {"v": "c", "k": 1, "b": 1, "t": 1},
    {"v": "d", "k": 2, "b": 0, "t": 2}, {"v": "e", "k": 1, "b": 3, "t": 6}, {"v": "f", "k": 1, "b": 5, "t": 6},
]  # fmt: skip


@pytest.fixture
def session(spark):
    tg = tidegate.connect(spark=spark, partitions=2)
    tg.stream("S", ROWS, ordered_by="t", batch="b")
    tg.stream("U", [{"w": "u", "t": 1}, {"w": "x", "t": 6}], ordered_by="t")
    tg.sql("CREATE STREAM Current OVER S KEY k")
    yield tg
    tg.close()


def bag(frame):
    return Counter(tuple(r) for r in frame.collect())


def test_answers_name_the_batches(session):
    result = session.query("SELECT v FROM S WINDOW(ROWS 2)").run()
    assert bag(result.intervals()) == Counter(
        [
            ("a", 1, 1, 0, 1), ("b", 1, 2, 0, 0), ("c", 1, 6, 1, 3), ("d", 2, 6, 0, 5),
            ("e", 6, None, 3, None), ("f", 6, None, 5, None),
        ]
    )  # fmt: skip
    assert bag(result.changes(since=1, until=2)) == Counter(
        [("+", "a", 1, 0), ("+", "b", 1, 0), ("-", "a", 1, 1), ("+", "c", 1, 1)]
    )


def test_a_snapshot_is_after_the_last_batch_or_after_the_one_given(session):
    query = "SELECT v FROM S WINDOW(ROWS 2)"
    assert bag(session.sql(f"{query} AS OF 1")) == Counter([("b",), ("c",)])
    assert bag(session.sql(f"{query} AS OF 1 BATCH 0")) == Counter([("a",), ("b",)])
    assert bag(session.sql(f"{query} AS OF 6 BATCH 4")) == Counter([("d",), ("e",)])
    with pytest.raises(Diagnostic, match="there is no batch 1000"):
        session.sql(f"{query} AS OF 6 BATCH 1000")
    with pytest.raises(Diagnostic, match="there is no batch 1"):
        session.sql("SELECT w FROM U AS OF 6 BATCH 1")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT k, COUNT(*) AS n FROM S WINDOW(RANGE 3) GROUP BY k",
        "SELECT v FROM S WINDOW(PARTITION BY k ROWS 1 SLIDE 2 TICKS)",
        "SELECT v FROM S WINDOW(RANGE 4 SLIDE 2 ROWS)",
        "SELECT v, w FROM S WINDOW(RANGE 6), U WINDOW(RANGE 2)",
        "SELECT k, v FROM Current SYNC BY (SELECT Timepoint FROM CLOCK WHERE Timepoint % 3 = 0)",
        "SELECT COUNT(*) AS n FROM ISTREAM(SELECT k FROM Current) WINDOW(RANGE 2)",
        "SELECT v FROM S WINDOW(PARTITION BY k FROM 1 ROWS TO LEAST(i + 1, 2) ROWS EVERY 5)",
    ],
)
@pytest.mark.parametrize("boundaries", [None, [2, 3, 6, 7]], ids=["one epoch", "five epochs"])
def test_recorded_answers_equal_the_reference(session, query, boundaries):
    asked = session.query(query)
    assert str(asked.verify(result=asked.run(boundaries=boundaries))).startswith("verified")


TIMES = [
    ("SELECT v, TS FROM S WINDOW(ROWS 2)", 6, [("e", 6), ("f", 6)]),
    ("SELECT v, t + 1 AS u, b FROM S WINDOW(RANGE 3) WHERE t * 2 < 11", 2,
     [("a", 2, 0), ("b", 2, 0), ("c", 2, 1), ("d", 3, 0)]),
    ("SELECT MAX(t) AS m, MIN(TS) AS f FROM S WINDOW(RANGE 3)", 2, [(2, 1)]),
    ("SELECT t, COUNT(*) AS n FROM S WINDOW(RANGE 3) GROUP BY t", 2, [(1, 3), (2, 1)]),
    ("SELECT k, v, TS FROM Current", 2, [(1, "c", 1), (2, "d", 2)]),
    ("SELECT v FROM Current WHERE TS <= NOW AND NOW < TS + 2", 2, [("c",), ("d",)]),
    ("SELECT x.v, z.v FROM S WINDOW(RANGE 3) x, S WINDOW(RANGE 2) z WHERE x.TS = z.TS AND x.k < z.k", 2,
     [("a", "b"), ("c", "b")]),
    ("SELECT v, TS FROM S WINDOW(PARTITION BY t ROWS 1)", 2, [("c", 1), ("d", 2)]),
    ("SELECT DISTINCT TS FROM S WINDOW(RANGE 2)", 2, [(1,), (2,)]),
]  # fmt: skip


@pytest.mark.parametrize(("query", "instant", "expected"), TIMES)
def test_times_are_instants_whatever_their_batches(session, query, instant, expected):
    """Recorded, live and by definition, a row's time is the instant, never the tick that holds its batch."""
    asked = session.query(query)
    recorded = asked.run(boundaries=[2, 6])
    assert bag(recorded.at(instant)) == Counter(expected)
    assert str(asked.verify(result=recorded)).startswith("verified")
    live = asked.start(begin=False)
    live.run.graph.advance({"S": ROWS[:3]})
    live.run.graph.advance({"S": ROWS[3:]})
    live.run.graph.finish()
    assert bag(live.at(instant)) == Counter(expected)


def test_times_beside_streams_without_batches(session):
    session.stream(
        "P",
        [{"x": 1, "f": 0, "l": 4}, {"x": 2, "f": 2, "l": None}],
        valid=("f", "l"),
        schema="x INT, f BIGINT, l BIGINT",
    )
    joined = session.query(
        "SELECT v, w, S.TS FROM S WINDOW(RANGE 6), U WINDOW(RANGE 2) WHERE S.TS = U.TS"
    ).run()
    assert bag(joined.at(6)) == Counter([("e", "x", 6), ("f", "x", 6)])
    valid = session.query("SELECT x, P.TS, v FROM P, S WINDOW(RANGE 2) WHERE P.TS < S.TS").run()
    assert bag(valid.at(6)) == Counter([(2, 2, "e"), (2, 2, "f")])


def test_live_answers_are_final_by_instants(session):
    query = session.query("SELECT k, v FROM Current")
    live = query.start(begin=False)
    graph = live.run.graph
    graph.advance({"S": ROWS[:3]})
    graph.advance({"S": ROWS[3:]})
    graph.advance({})
    assert live.status()["watermark"] == 6
    assert bag(live.at(1, batch=0)) == Counter([(1, "a"), (2, "b")])
    assert bag(live.at(1)) == Counter([(1, "c"), (2, "b")])
    with pytest.raises(Diagnostic, match="not final"):
        live.at(6, batch=3)
    graph.finish()
    assert bag(live.at(6, batch=3)) == Counter([(1, "e"), (2, "d")])
    assert bag(live.at(6)) == Counter([(1, "f"), (2, "d")])


def test_rows_without_a_usable_batch_are_refused(session):
    session.stream("Q", [{"b": b, "t": t} for b, t in ((0, 1), (None, 1), (-1, 2), (1000, 2), (999, 3))],
                   ordered_by="t", batch="b", schema="b INT, t BIGINT")  # fmt: skip
    live = session.query("SELECT b FROM Q WINDOW(RANGE UNBOUNDED)").start(begin=False)
    live.run.drain()
    live.run.graph.finish()
    refused = live.status()["sources"]["Q"]["quarantine"]
    assert refused == {"the batch is not a number from 0 to 999": 3}
    assert bag(live.latest()) == Counter([(0,), (999,)])


def test_timestamps_in_batches(session):
    start = datetime(2026, 3, 1, 12)
    rows = [{"v": i, "b": i % 2, "t": start + timedelta(seconds=i // 2)} for i in range(6)]
    session.stream("T", rows, ordered_by="t", batch="b")
    result = session.query("SELECT v FROM T WINDOW(RANGE 2 SECONDS)").run()
    ends = {r.v: (r.valid_from, r.from_batch, r.valid_to, r.to_batch) for r in result.intervals().collect()}
    assert ends[3] == (start + timedelta(seconds=1), 1, start + timedelta(seconds=3), 0)
    assert bag(result.at(start + timedelta(seconds=1), batch=0)) == Counter([(0,), (1,), (2,)])
