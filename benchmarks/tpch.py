"""TPC-H's 22 queries over windowed streams of its tables, each once on Spark, with DuckDB's answer at one instant beside it.

Prints a table: rows of the answer's history, seconds, processor seconds. `python -m benchmarks.tpch --orders 15000` has 60,000 items.
"""

from __future__ import annotations

import argparse
import os
import time

from tests.tpch.comparing import difference
from tests.tpch.rows import make
from tests.tpch.world import INSTANTS, QUERIES, WINDOWED, Judge, register, text_of
from tidegate.language.dialect import parse
from tidegate.nexmark.measuring import processor_seconds
from tidegate.runtime.snapshots import without_order
from tidegate.session import connect


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--orders", type=int, default=15_000)
    parser.add_argument("--queries", default=",".join(QUERIES))
    asked = parser.parse_args()
    made = make(asked.orders)
    session, judge = connect(master="local[2]"), Judge(made)
    register(session, made)
    names = asked.queries.split(",")
    queries = {}
    for name in names:
        views, text = text_of(name, WINDOWED)
        if views:
            session.sql(views)
        queries[name] = session.bound_query(without_order(parse(text)[0])[0], text)
    queries[names[0]].run()  # Spark and its workers start
    print("| query | rows | seconds | processor seconds |\n|---|---:|---:|---:|")
    for name, query in queries.items():
        wall, cpu = time.perf_counter(), processor_seconds(os.getpid())
        result = query.run()
        wall, cpu = time.perf_counter() - wall, processor_seconds(os.getpid()) - cpu
        rows = [tuple(row) for row in result.at(INSTANTS[1]).collect()]
        wrong = difference(rows, judge.at(name, INSTANTS[1]))
        print(f"| {name} | {result.signed().count()} | {wall:.1f} | {cpu:.1f} |{wrong or ''}", flush=True)


if __name__ == "__main__":
    main()
