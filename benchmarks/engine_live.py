"""Live epochs: 50,000 new rows each on top of a million rows of state; seconds per epoch, and where they go.

First by hand: rows go straight into an epoch. Then as a stream: a running graph takes rows from its inbox, through Structured
Streaming's own bookkeeping, and the time runs from handing rows in to their epoch's commit.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import chain, islice

import numpy as np
import pyarrow as pa

from tidegate.algebra.operators import Aggregate, Aggregation, Window
from tidegate.algebra.windows import TimeWindow
from tidegate.language.catalog import SourceCall, StreamDefinition
from tidegate.runtime.engine import Engine
from tidegate.runtime.live import LiveRun
from tidegate.spark.context import spark_session
from tidegate.types import BIGINT, Field


def make_batch(start: int, rows: int, keys: int) -> pa.Table:
    random = np.random.default_rng(start)
    times = np.arange(start, start + rows, dtype=np.int64)
    return pa.table(
        {"item": random.integers(0, keys, rows), "price": random.integers(1, 10_000, rows), "t": times}
    )


def report(kind: str, taken: list[float], run: LiveRun) -> None:
    later = taken[len(taken) // 3 :]
    print(f"{kind}: median {statistics.median(later) * 1000:.0f} ms, worst {max(later) * 1000:.0f} ms")
    for task in run.graph.last_tasks:
        parts = ", ".join(f"{k} {v * 1000:.0f}" for k, v in task.seconds.items())
        print(f"  task {task.place}: {task.rows} rows; ms: {parts}")


def by_hand(run: LiveRun, batches: Iterator[pa.Table], epochs: int) -> list[float]:
    run.graph.advance({"Bid": next(batches)})
    taken = []
    for batch in islice(batches, epochs):
        started = time.perf_counter()
        run.graph.advance({"Bid": batch})
        taken.append(time.perf_counter() - started)
    return taken


def as_stream(run: LiveRun, batches: Iterator[pa.Table], epochs: int) -> list[float]:
    run.start()
    taken, rows = [], 0
    for batch in islice(batches, epochs + 1):
        started = time.perf_counter()
        run.push("Bid", batch)
        rows += batch.num_rows
        while run.graph.status()["sources"].get("Bid", {"rows": 0})["rows"] < rows:
            time.sleep(0.002)
        taken.append(time.perf_counter() - started)
    run.stop()
    return taken[1:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=50_000, help="new rows per epoch")
    parser.add_argument("--state", type=int, default=1_000_000, help="rows that are valid at an instant")
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--epochs", type=int, default=60)
    given = parser.parse_args()
    spark = spark_session()
    columns = (Field("item", BIGINT), Field("price", BIGINT), Field("t", BIGINT))
    bids = StreamDefinition("Bid", columns, SourceCall("memory", ("Bid",)), ordered_by="t")
    functions = (Aggregation("COUNT", (), BIGINT, "n", nullable=False), Aggregation("SUM", (1,), BIGINT, "s"))
    plan = Aggregate(Window(bids.scan, TimeWindow(given.state)), (0,), functions)
    for kind, play in (("by hand", by_hand), ("as a stream", as_stream)):
        starts = chain([0], range(given.state, sys.maxsize, given.rows))
        batches = (make_batch(s, given.rows if s else given.state, given.keys) for s in starts)
        with tempfile.TemporaryDirectory() as folder:
            run = Engine(spark, folder).start({"q": plan}, {"Bid": bids}, begin=False, every=0)
            report(kind, play(run, batches, given.epochs), run)


if __name__ == "__main__":
    main()
