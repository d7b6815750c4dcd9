"""Forms that people bring from other systems, through the whole engine: VERIFY compares each with the reference."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

import tidegate
from tidegate.session import Session

ROWS = [
    {"k": k, "v": v, "s": s, "c": v > 2, "t": t}
    for t, (k, v, s) in enumerate(
        [("a", 1, "x"), ("b", 5, None), ("a", 3, "y"), ("a", 3, "x"), ("b", 2, "z")] * 2
    )
]


@pytest.fixture(scope="module")
def tg(spark: SparkSession) -> Session:
    session = tidegate.connect(spark=spark)
    session.stream("S", ROWS, ordered_by="t")
    return session


@pytest.mark.parametrize(
    "query",
    [
        """SELECT k, COLLECT_LIST(v) AS l, COLLECT_SET(s) AS e, STRING_AGG(s, '+') AS j, HISTOGRAM(v) AS h, BOOL_AND(c) AS b,
             APPROX_COUNT_DISTINCT(v) AS d, CORR(v, t) AS r, COVAR_POP(v, t) AS p, COVAR_SAMP(v, t) AS q
           FROM S WINDOW(RANGE 4) GROUP BY k""",
        "SELECT k, s, COUNT(*) AS n, GROUPING_ID(k, s) AS g FROM S WINDOW(ROWS 4) GROUP BY CUBE(k, s)",
        "SELECT window_start, window_end, k, SUM(v) AS n FROM HOP(TABLE S, DESCRIPTOR(t), 2, 4) GROUP BY window_start, window_end, k",
        "SELECT k, window_start, COUNT(*) AS n FROM SESSION(TABLE S PARTITION BY k, DESCRIPTOR(t), 2) GROUP BY k, window_start, window_end",
        """SELECT k, v, LAG(v) OVER (PARTITION BY k ORDER BY t) AS p, SUM(v) OVER (PARTITION BY k ORDER BY t ROWS 1 PRECEDING) AS s,
             COUNT(*) OVER (ORDER BY t RANGE BETWEEN 3 PRECEDING AND CURRENT ROW) AS n FROM S""",
        "SELECT k, e, COUNT(*) AS n FROM S WINDOW(RANGE 3) x LATERAL VIEW explode(SPLIT(s, '')) l AS e GROUP BY k, e",
    ],
    ids=["aggregates", "groupings", "hop", "session", "over", "explode"],
)
def test_answers_are_the_references(tg: Session, query: str) -> None:
    verified = tg.sql(f"VERIFY {query}")
    assert verified
    assert verified.instants >= 5
