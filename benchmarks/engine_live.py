"""Live epochs: 50,000 new rows each on top of a million rows of state; seconds per epoch, and where they go."""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time

import numpy as np
import pyarrow as pa

from tidegate.algebra.operators import Aggregate, Aggregation, Window
from tidegate.algebra.windows import TimeWindow
from tidegate.language.catalog import SourceCall, StreamDefinition
from tidegate.runtime.engine import Engine
from tidegate.spark.context import spark_session
from tidegate.types import BIGINT, Field


def make_batch(start: int, rows: int, keys: int) -> pa.Table:
    random = np.random.default_rng(start)
    times = np.arange(start, start + rows, dtype=np.int64)
    return pa.table(
        {"item": random.integers(0, keys, rows), "price": random.integers(1, 10_000, rows), "t": times}
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=50_000, help="new rows per epoch")
    parser.add_argument("--state", type=int, default=1_000_000, help="rows that are valid at an instant")
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--epochs", type=int, default=20)
    given = parser.parse_args()
    spark = spark_session()
    columns = (Field("item", BIGINT), Field("price", BIGINT), Field("t", BIGINT))
    bids = StreamDefinition("Bid", columns, SourceCall("memory", ("Bid",)), ordered_by="t")
    functions = (Aggregation("COUNT", (), BIGINT, "n", nullable=False), Aggregation("SUM", (1,), BIGINT, "s"))
    plan = Aggregate(Window(bids.scan, TimeWindow(given.state)), (0,), functions)
    with tempfile.TemporaryDirectory() as folder:
        run = Engine(spark, folder).start({"q": plan}, {"Bid": bids}, begin=False)
        run.graph.advance({"Bid": make_batch(0, given.state, given.keys)})
        taken = []
        for i in range(given.epochs):
            batch = make_batch(given.state + i * given.rows, given.rows, given.keys)
            started = time.perf_counter()
            run.graph.advance({"Bid": batch})
            taken.append(time.perf_counter() - started)
        later = taken[len(taken) // 3 :]
        print(f"epoch: median {statistics.median(later) * 1000:.0f} ms, worst {max(later) * 1000:.0f} ms")
        for task in run.graph.last_tasks:
            parts = ", ".join(f"{k} {v * 1000:.0f}" for k, v in task["seconds"].items())
            print(f"  task {task['place']}: {task['rows']} rows; ms: wait {task['wait'] * 1000:.0f}, {parts}")


if __name__ == "__main__":
    main()
