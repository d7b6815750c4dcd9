"""Many queries of one graph over one stream: each gets the rows that it asks for, and no expression meets a row that its condition keeps away."""

from __future__ import annotations

from pathlib import Path
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


def windows(count: int) -> list[str]:
    return [f"SELECT v, COUNT(*) AS n FROM S WINDOW(RANGE {5 + i}) GROUP BY v" for i in range(count)]


def answers(queries: list[Any]) -> list[list[tuple[Any, ...]]]:
    return [
        sorted((r.v, r.n, r.valid_from, r.valid_to or 0) for r in q.intervals().collect()) for q in queries
    ]


def test_the_number_of_files_does_not_depend_on_the_number_of_queries(
    spark: SparkSession, tmp_path: Path
) -> None:
    found = {}
    for count in (1, 30):
        place = tmp_path / str(count)
        session = connect(spark=spark, partitions=2, state=str(place))
        session.stream("S", rows(), schema="v BIGINT, t BIGINT", ordered_by="t")
        running = [session.query(t).start(name=f"q{i}", begin=False) for i, t in enumerate(windows(count))]
        graph = running[0].run.graph
        for epoch in range(4):
            graph.advance({"S": rows(*((v, 10 * epoch + v) for v in range(9)))})
        files = [f for f in place.rglob("*") if f.is_file() and {"state", "results"} & set(f.parts)]
        found[count] = len(files)
        graph.finish()
        one = answers(running[:1])
    assert found[1] == found[30] > 0
    assert one[0], "the first query has an answer among thirty"


@pytest.mark.parametrize("partitions", [1, 3])
def test_two_hundred_queries_go_on_after_a_restart(
    spark: SparkSession, tmp_path: Path, partitions: int
) -> None:
    """In another number of partitions, and without those that are dropped."""
    texts = windows(200)
    given = [(v, 3 * epoch + v % 3) for epoch in range(6) for v in range(6)]
    batches = [rows(*given[i : i + 12]) for i in range(0, len(given), 12)]

    def started(count: int, cut: int) -> list[Any]:
        session = connect(spark=spark, partitions=cut, state=str(tmp_path))
        session.stream("S", rows(), schema="v BIGINT, t BIGINT", ordered_by="t")
        return [session.query(t).start(name=f"q{i}", begin=False) for i, t in enumerate(texts[:count])]

    first = started(200, 2)
    first[0].run.graph.advance({"S": batches[0]})
    first[0].run.graph.advance({"S": batches[1]})
    first[0].run.stop()
    again = started(150, partitions)
    graph = again[0].run.graph
    for name in graph.missing():
        graph.drop(name)
    graph.advance({"S": batches[2]})
    graph.finish()
    whole = connect(spark=spark)
    whole.stream("S", [r for b in batches for r in b], ordered_by="t")
    for i in (0, 7, 149):
        expected = sorted(
            (r.v, r.n, r.valid_from, r.valid_to or 0)
            for r in whole.query(texts[i]).run().intervals().collect()
        )
        assert answers([again[i]]) == [expected], i


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
