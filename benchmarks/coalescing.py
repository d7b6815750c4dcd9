"""Projections of aggregates with and without coalescing: rows of the answer, and processor seconds of kernels and of writing it.

One process, without Spark: bids of a thousand items, a thousand bids a second, RANGE 60 SECONDS, in some epochs.
"""

from __future__ import annotations

import argparse
import io
import time
from unittest.mock import patch

import numpy as np
import polars as pl
import pyarrow.parquet as pq

from tidegate.kernels.rows import to_arrow
from tidegate.language.binder import bind
from tidegate.language.catalog import Catalog, SourceCall, StreamDefinition
from tidegate.language.dialect import parse
from tidegate.optimizer.driver import optimize
from tidegate.physical.lowering import compile_plan
from tidegate.time import MAX, MIN
from tidegate.types import BIGINT, TIMESTAMP, Field

COUNTS = "SELECT item, COUNT(*) AS n, SUM(price) AS s FROM Bid WINDOW(RANGE 60 SECONDS) GROUP BY item"
MANY = f"SELECT item FROM ({COUNTS}) WHERE n > 50"
QUERIES = {
    "items with more than 50 bids": MANY,
    "bids in tens": f"SELECT item, FLOOR(n / 10) AS tens FROM ({COUNTS})",
    "means, which always differ": f"SELECT item, s / n AS mean FROM ({COUNTS})",
    "pairs of such items": f"SELECT x.item, y.item AS other FROM ({MANY}) x JOIN ({MANY}) y ON x.item = y.item + 1",
}


def bids(rows: int, keys: int) -> pl.DataFrame:
    random = np.random.default_rng(7)
    ts = np.arange(rows, dtype=np.int64) * 1000
    moments = pl.Series(ts).cast(pl.Datetime("us")).dt.replace_time_zone("UTC")
    return pl.DataFrame(
        {
            "c0": random.integers(0, keys, rows),
            "c1": random.integers(1, 10_000, rows),
            "c2": moments,
            "ts": ts,
        }
    ).with_columns(te=pl.col("ts") + 1, n=pl.lit(1, pl.Int64))


def measured(text: str, rows: pl.DataFrame, epochs: int) -> tuple[int, float]:
    """Rows of the answer, and processor seconds."""
    columns = (Field("item", BIGINT), Field("price", BIGINT), Field("t", TIMESTAMP))
    catalog = Catalog().with_definition(StreamDefinition("Bid", columns, SourceCall("memory", ("Bid",)), "t"))
    program = compile_plan(optimize(bind(parse(text)[0], catalog, text).plan)[0])
    span = rows["ts"].max() + 1  # type: ignore[operator]
    ends = [*(span * i // epochs for i in range(1, epochs)), MAX]  # type: ignore[operator]
    states, since, found, begun = program.initial(), MIN, 0, time.process_time()
    for upto in ends:
        chunk = rows.filter((pl.col("ts") >= since) & (pl.col("ts") < upto))
        states, out = program.step(states, {"Bid": chunk}, upto)
        pq.write_table(to_arrow(out), io.BytesIO())
        found, since = found + out.height, upto
    return found, time.process_time() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--keys", type=int, default=1_000)
    parser.add_argument("--times", type=int, default=3)
    given = parser.parse_args()
    rows = bids(given.rows, given.keys)
    for name, text in QUERIES.items():
        for epochs in (1, 100):
            pairs = []
            for _ in range(given.times):
                with patch("tidegate.physical.lowering._hides_changes", lambda node: False):
                    without = measured(text, rows, epochs)
                pairs.append((without, measured(text, rows, epochs)))
            before, after = (min(several) for several in zip(*pairs, strict=True))
            print(
                f"{name}, {epochs} epochs: {before[0]:,} -> {after[0]:,} rows, {before[1]:.2f} -> {after[1]:.2f} processor seconds",
                flush=True,
            )


if __name__ == "__main__":
    main()
