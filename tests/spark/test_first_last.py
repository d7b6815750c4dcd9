"""FIRST and LAST on Spark: simultaneous rows go by arrival, however they come and wherever they meet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tidegate.session import Session, connect

ROWS = [{"k": i % 3, "a": (i * 7) % 100, "t": i // 40} for i in range(120)]
"""Forty rows at each of three instants, whose values say nothing about their order."""
TEXT = "SELECT k, FIRST(a) AS f, LAST(a) AS l FROM S WINDOW(RANGE 2) x WHERE a <> 0 GROUP BY k"


def expected(t: int) -> set[tuple[int, int, int]]:
    found = set()
    for k in range(3):
        valid = [r["a"] for r in ROWS if r["k"] == k and t - 2 < r["t"] <= t and r["a"] != 0]
        found.add((k, valid[0], valid[-1]))
    return found


def answer(result: Any, t: int) -> set[tuple[Any, ...]]:
    return {tuple(r) for r in result.at(t).collect()}


def declared(session: Session, source: str) -> Session:
    session.sql(f"CREATE STREAM S(k INT, a INT, t BIGINT) SOURCE {source} ORDERED BY t")
    return session


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("format", ["csv", "json", "parquet"])
def test_files_are_read_in_their_order(
    spark: SparkSession, tmp_path: Path, format: str, partitions: int
) -> None:
    for number in range(3):
        frame = spark.createDataFrame(
            ROWS[40 * number : 40 * number + 40], "k INT, a INT, t BIGINT"
        ).coalesce(1)
        header = {"header": "true"} if format == "csv" else {}
        frame.write.format(format).options(**header).mode("append").save(str(tmp_path / f"part{number}"))
    files = tmp_path / "files"
    files.mkdir()
    for number in range(3):
        (part,) = (tmp_path / f"part{number}").glob(f"*.{format}")
        part.rename(files / f"{number}.{format}")
    session = declared(connect(spark=spark, partitions=partitions), f"{format}('{files}')")
    query = session.query(TEXT)
    for boundaries in (None, [1, 2]):
        result = query.run(boundaries=boundaries)
        for t in range(3):
            assert answer(result, t) == expected(t), (t, boundaries)
    assert query.verify(), "the reference agrees"


@pytest.mark.parametrize("cut", [13, 40, 60])
def test_rows_that_come_in_many_epochs(spark: SparkSession, tmp_path: Path, cut: int) -> None:
    """Rows of an instant come in several epochs: those that wait keep their places."""
    session = connect(spark=spark, partitions=2, state=str(tmp_path))
    session.stream("S", [], schema="k INT, a INT, t BIGINT", ordered_by="t", slack=1)
    query = session.query(TEXT).start("q", begin=False)
    graph = query.run.graph
    for start in range(0, len(ROWS), cut):
        graph.advance({"S": ROWS[start : start + cut]})
    graph.finish()
    for t in range(3):
        assert answer(query, t) == expected(t), t
    session.close()


def test_groups_meet_far_from_where_rows_came_in(spark: SparkSession) -> None:
    """A join before the aggregation sends rows of one group through other partitions."""
    session = connect(spark=spark, partitions=3)
    session.stream("S", ROWS, ordered_by="t")
    session.stream("T", [{"a": a, "g": a % 2, "t": 0} for a in range(100)], ordered_by="t")
    text = """SELECT g, FIRST(x.k) AS f, FIRST(x.a) AS a, LAST(x.a) AS l
              FROM S WINDOW(RANGE 2) x JOIN (SELECT a AS b, g FROM T WINDOW(RANGE UNBOUNDED)) y ON x.a = y.b GROUP BY g"""
    result = session.query(text).run()
    for t in range(3):
        valid = [r for r in ROWS if t - 2 < r["t"] <= t]
        halves = [[r for r in valid if r["a"] % 2 == g] for g in (0, 1)]
        assert answer(result, t) == {
            (g, h[0]["k"], h[0]["a"], h[-1]["a"]) for g, h in enumerate(halves) if h
        }, t
