"""TPC-H's 22 queries over windowed streams of its tables: processor seconds of the kernels alone, in one process, and of a run on Spark.

Prints a table; every answer is compared with DuckDB's at one instant. From the project's directory: `python -m benchmarks.tpch --orders 15000`
(60,000 items), and with `--kernels` without Spark.
"""

from __future__ import annotations

import argparse
import os
import time

import polars as pl

from tests.tpch.comparing import difference
from tests.tpch.rows import Made, make
from tests.tpch.world import (
    INSTANTS,
    QUERIES,
    WINDOWED,
    Judge,
    bound,
    catalog,
    chunks,
    register,
    text_of,
    tick,
)
from tidegate.algebra.operators import Scan
from tidegate.kernels.rows import to_rows
from tidegate.language.dialect import parse
from tidegate.nexmark.measuring import processor_seconds
from tidegate.optimizer.driver import optimize
from tidegate.physical.lowering import compile_plan
from tidegate.runtime.snapshots import without_order
from tidegate.session import connect
from tidegate.time import MAX


def in_kernels(name: str, made: Made, judge: Judge) -> tuple[int, float]:
    """The rows of the answer's history, and processor seconds."""
    plan, _ = optimize(bound(name, WINDOWED, catalog(WINDOWED)).plan)
    program, rows = compile_plan(plan, {}), chunks(made, WINDOWED)
    scans = {n.leaf: rows[n.name] for n in plan.walk() if isinstance(n, Scan)}
    begun = time.process_time()
    _, answer = program.step(program.initial(), scans, MAX)
    seconds = time.process_time() - begun
    at = tick(INSTANTS[1])
    valid = answer.filter((pl.col("ts") <= at) & (pl.col("te") > at))
    columns = [c for c in valid.columns if c not in ("ts", "te", "n")]
    net = valid.group_by(columns).agg(pl.col("n").sum()).filter(pl.col("n") > 0)
    wrong = difference(to_rows(net, plan.schema), judge.at(name, INSTANTS[1]))
    assert wrong is None, (name, wrong)
    return len(answer), seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--orders", type=int, default=15_000)
    parser.add_argument("--queries", default=",".join(QUERIES))
    parser.add_argument("--kernels", action="store_true")
    asked = parser.parse_args()
    made, few, names = make(asked.orders), make(300), asked.queries.split(",")
    judge, warming = Judge(made), Judge(few)
    for name in names:  # machine code is made
        in_kernels(name, few, warming)
    print(
        "| query | rows | kernels, processor seconds | Spark, seconds | Spark, processor seconds |\n|---|---:|---:|---:|---:|"
    )
    if asked.kernels:
        for name in names:
            rows, seconds = in_kernels(name, made, judge)
            print(f"| {name} | {rows:,} | {seconds:.2f} | | |", flush=True)
        return
    session = connect(master="local[2]")
    register(session, made)
    queries = {}
    for name in names:
        views, text = text_of(name, WINDOWED)
        if views:
            session.sql(views)
        queries[name] = session.bound_query(without_order(parse(text)[0])[0], text)
    queries[names[0]].run()  # Spark and its workers start
    for name, query in queries.items():
        rows, seconds = in_kernels(name, made, judge)
        wall, cpu = time.perf_counter(), processor_seconds(os.getpid())
        result = query.run()
        wall, cpu = time.perf_counter() - wall, processor_seconds(os.getpid()) - cpu
        shown = [tuple(row) for row in result.at(INSTANTS[1]).collect()]
        wrong = difference(shown, judge.at(name, INSTANTS[1]))
        assert wrong is None, (name, wrong)
        print(f"| {name} | {rows:,} | {seconds:.2f} | {wall:.1f} | {cpu:.1f} |", flush=True)


if __name__ == "__main__":
    main()
