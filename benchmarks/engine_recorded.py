"""Recorded rows: count, sum and max per key over RANGE 60 s, beside what Spark needs to read and exchange the same columns.

Prints seconds of the best of some runs, and where the engine's tasks spent them.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

from tidegate.algebra.operators import Aggregate, Aggregation, Window
from tidegate.algebra.windows import TimeWindow
from tidegate.language.catalog import SourceCall, StreamDefinition
from tidegate.runtime.engine import Engine
from tidegate.spark.context import cores, spark_session
from tidegate.types import BIGINT, TIMESTAMP, Field


def write_bids(path: Path, rows: int, keys: int) -> None:
    """Bids of which half go to a few hot items; a thousand of them each second."""
    random = np.random.default_rng(7)
    hot = random.random(rows) < 0.5
    item = np.where(hot, random.integers(0, max(1, keys // 100), rows), random.integers(0, keys, rows))
    micros = np.arange(rows, dtype=np.int64) * 1000 + 1_700_000_000_000_000
    table = pa.table(
        {
            "item": item.astype(np.int64),
            "price": random.integers(1, 10_000, rows),
            "t": pa.array(micros, pa.timestamp("us", "UTC")),
        }
    )
    path.mkdir()
    for i in range(8):
        part = table.slice(i * rows // 8, (i + 1) * rows // 8 - i * rows // 8)
        pq.write_table(part, path / f"{i}.parquet", row_group_size=1 << 18)


def best(times: int, run: Callable[[], object]) -> float:
    found = []
    for _ in range(times):
        started = time.perf_counter()
        run()
        found.append(time.perf_counter() - started)
    return min(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--times", type=int, default=3)
    given = parser.parse_args()
    spark = spark_session()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bids"
        write_bids(path, given.rows, given.keys)
        columns = (Field("item", BIGINT), Field("price", BIGINT), Field("t", TIMESTAMP))
        bids = StreamDefinition("Bid", columns, SourceCall("parquet", (str(path),)), ordered_by="t")
        functions = (
            Aggregation("COUNT", (), BIGINT, "n", nullable=False),
            Aggregation("SUM", (1,), BIGINT, "s"),
            Aggregation("MAX", (1,), BIGINT, "m"),
        )
        plan = Aggregate(Window(bids.scan, TimeWindow(60_000_000)), (0,), functions)

        def exchange() -> None:
            rows = spark.read.parquet(str(path)).select("item", "price", F.unix_micros("t"))
            rows.repartition(cores(spark), "item").write.format("noop").mode("overwrite").save()

        engine = Engine(spark, f"{folder}/state")
        counted = []

        def answer() -> None:
            result = engine.run("q", plan, {"Bid": bids})
            counted.append(sum(p.counts.rows for p in result.parts()))

        base = best(given.times, exchange)
        whole = best(given.times, answer)
        print(
            f"{given.rows:,} rows: read and exchange {base:.2f} s, answer {whole:.2f} s ({whole / base:.1f}x)"
        )
        print(f"{counted[0]:,} rows of the answer, {given.rows / whole / 1e6:.2f} M rows/s in")


if __name__ == "__main__":
    main()
