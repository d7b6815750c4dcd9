"""What papers write, on Spark: clocks in FROM, slides that start somewhere; recorded, live and verified."""

from __future__ import annotations

from collections import Counter

import pytest
from pyspark.sql import SparkSession

import tidegate

ROWS = [{"k": i % 3, "v": i, "t": t} for i, t in enumerate((1, 2, 2, 5, 8, 9, 13, 14, 14, 20))]
VIEWS = """
CREATE STREAM Cars OVER S KEY NULL;
CREATE STREAMED VIEW Sync2 AS SELECT C.Timepoint FROM CLOCK C WHERE C.Timepoint % 2 = 0;
CREATE STREAMED VIEW NowView AS SELECT 1 AS KEY, MAX(T.Timepoint) AS currTime FROM CLOCK T;
CREATE STREAMED VIEW TwoUnitsSlide AS SELECT 1 AS KEY, MAX(T.Timepoint) AS currTime FROM Sync2 T;
"""
SAME = {
    "example 13": (
        "SELECT R.v FROM Cars R, NowView N WHERE N.currTime - 5 < R.TS AND R.TS <= N.currTime",
        "SELECT v FROM S WINDOW(RANGE 5)",
    ),
    "example 14": (
        "SELECT R.v FROM Cars SYNC BY Sync2 R, TwoUnitsSlide N WHERE N.currTime - 5 < R.TS AND R.TS <= N.currTime",
        "SELECT v FROM S WINDOW(RANGE 5 SLIDE 2)",
    ),
}  # fmt: skip


@pytest.fixture
def session(spark: SparkSession) -> tidegate.session.Session:
    tg = tidegate.connect(spark=spark, partitions=3)
    tg.stream("S", ROWS, ordered_by="t")
    tg.sql(VIEWS)
    return tg


@pytest.mark.parametrize("case", SAME)
def test_two_ways_to_say_it(session: tidegate.session.Session, case: str) -> None:
    text, other = SAME[case]
    query = session.query(text)
    recorded = query.run(boundaries=[3, 10])
    assert str(query.verify(result=recorded)).startswith("verified")
    expected = session.query(other).run()
    live = query.start(begin=False)
    live.run.graph.advance({"S": ROWS[:4]})
    live.run.graph.advance({"S": ROWS[4:]})
    live.run.graph.finish()
    for t in (0, 2, 5, 7, 10, 14, 19, 26):
        wanted = Counter(expected.at(t).collect())
        assert Counter(recorded.at(t).collect()) == wanted, t
        assert Counter(live.at(t).collect()) == wanted, t


def test_slides_that_start_somewhere(session: tidegate.session.Session) -> None:
    query = session.query("SELECT v FROM S WINDOW(PARTITION BY k ROWS 2 SLIDE 2 STARTING AT 5)")
    assert str(query.verify(result=query.run(boundaries=[3, 10]))).startswith("verified")
    query = session.query("SELECT v FROM S WINDOW(RANGE 4 SLIDE 4 STARTING AT 2)")
    result = query.run()
    assert str(query.verify(result=result)).startswith("verified")
    seen = {t: sorted(r.v for r in result.at(t).collect()) for t in (1, 2, 5, 6, 10, 14, 18, 22)}
    assert seen == {1: [], 2: [1, 2], 5: [1, 2], 6: [3], 10: [4, 5], 14: [6, 7, 8], 18: [], 22: [9]}
