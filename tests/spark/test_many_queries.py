"""Many queries of one graph over one stream: each gets the rows that it asks for, and no expression meets a row that its condition keeps away."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from tidegate.errors import Diagnostic
from tidegate.session import connect

QUERIES = 14
"""More than Spark compares one by one."""


def rows(*values: tuple[int, int]) -> list[dict[str, Any]]:
    return [{"v": v, "t": t} for v, t in values]


def test_each_query_gets_its_own_rows(spark: SparkSession) -> None:
    session = connect(spark=spark, partitions=2)
    session.stream("S", rows(), schema="v BIGINT, t BIGINT", ordered_by="t")
    running = []
    for k in range(QUERIES):
        # dividing by zero is an error
        text = f"SELECT v, 100 DIV (v - {k}) AS d FROM S WHERE v <> {k} AND v < {k + 5}"
        running.append(session.query(text).start(name=f"q{k}", begin=False))
    graph = running[0].run.graph
    given = [(v, 10 + v) for v in range(QUERIES)]
    graph.advance({"S": rows(*given)})
    graph.advance({"S": rows(*((v, 100 + v) for v in range(QUERIES)))})
    # later than promised, and each of them would fail one of the queries
    graph.advance({"S": rows(*((v, 20) for v in range(QUERIES)))})
    graph.finish()
    given += [(v, 100 + v) for v in range(QUERIES)]
    for k, query in enumerate(running):
        found = sorted((r.v, r.d, r.valid_from) for r in query.intervals().collect())
        expected = sorted((v, int(100 / (v - k)), t) for v, t in given if v != k and v < k + 5)
        assert found == expected, k
    assert sum(graph.status()["sources"]["S"]["quarantine"].values()) == QUERIES


def test_a_failure_is_shown_in_the_query_that_fails(spark: SparkSession) -> None:
    """Its operator says which query that is, also where another one has an expression at the same place of its text."""
    session = connect(spark=spark, partitions=2)
    session.stream("S", rows(), schema="v BIGINT, t BIGINT", ordered_by="t")
    session.query("SELECT v, 100 DIV (COUNT(*) + 1) AS d FROM S WINDOW(RANGE 9) GROUP BY v").start(
        name="sound", begin=False
    )
    text = "SELECT v, 100 DIV (COUNT(*) - 1) AS d FROM S WINDOW(RANGE 9) GROUP BY v"
    failing = session.query(text).start(name="failing", begin=False)
    session.push("S", rows((1, 1)))
    with pytest.raises(Diagnostic) as raised:
        failing.finish()
    found = raised.value
    assert found.condition == "DIVIDE_BY_ZERO"
    assert found.text == text
    assert found.position is not None
    assert text[found.position.start : found.position.end] == "100 DIV (COUNT(*) - 1"
    session.close()
