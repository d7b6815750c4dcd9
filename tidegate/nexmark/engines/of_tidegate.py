"""Tidegate: the query over recorded files, its answer at every instant written to Parquet files, or thrown away."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from tidegate.nexmark.catalog import query
from tidegate.nexmark.engines.protocol import serve
from tidegate.query import Query
from tidegate.session import connect

OUTPUTS = {"keep": "every change, Parquet", "discard": "every change, thrown away"}


def prepare(
    name: str, small: str, cores: int, output: str = "keep"
) -> tuple[dict[str, Any], Callable[[str], int]]:
    spark = connect(master=f"local[{cores}]").spark

    def bound(place: str) -> Query:
        session = connect(spark=spark)
        session.function("count_char", lambda text, c: None if text is None else text.count(c), "INT", 2)
        definitions, text = query(name).statements(place)
        session.sql(definitions)
        return session.query(text)

    def run(place: str) -> int:
        asked = bound(place)
        if output == "discard":
            return asked.discard()
        return sum(part.counts.rows for part in asked.run().parts())

    run(small)
    settings = (
        "spark.driver.memory",
        "spark.sql.shuffle.partitions",
        "spark.sql.execution.arrow.maxRecordsPerBatch",
    )
    return {"version": "0.1", "output": OUTPUTS[output]} | {s: spark.conf.get(s) for s in settings}, run


if __name__ == "__main__":
    serve(partial(prepare, output=sys.argv[5]))
