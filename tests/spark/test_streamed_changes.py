"""STREAMED answers: what Spark makes of result files are the changes that their rows stand for, by definition."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.changes import tagged
from tidegate.runtime.verification import signed_rows
from tidegate.session import connect

QUERIES = {
    "keyed": "SELECT STREAMED k, MAX(v) AS top, COUNT(*) AS n FROM S WINDOW(RANGE 6) GROUP BY k",
    "without a key": "SELECT STREAMED v FROM S WINDOW(ROWS 3)",
    "not streamed": "SELECT k, MAX(v) AS top FROM S WINDOW(RANGE 6) GROUP BY k",
}


@pytest.mark.parametrize("name", QUERIES)
def test_changes_are_those_of_the_definition(spark: SparkSession, tmp_path: Path, name: str) -> None:
    dice = random.Random(name)
    rows: list[tuple[Any, ...]] = [
        (dice.choice([1, 2, None]), dice.randrange(4), dice.randrange(40)) for _ in range(60)
    ]
    tg = connect(spark, state=str(tmp_path), partitions=3)
    tg.stream("S", rows, ordered_by="t", schema="k INT, v INT, t BIGINT")
    query = tg.query(QUERIES[name])
    result = query.run(boundaries=[7, 8, 23])
    expected = [(c.op, *c.row, c.instant) for c in tagged(signed_rows(result, query.schema), query.key)]
    assert {c[0] for c in expected} == ({"+", "u", "-"} if name == "keyed" else {"+", "-"})
    found = [tuple(r) for r in result.changes().collect()]
    assert sorted(found, key=repr) == sorted(expected, key=repr)
