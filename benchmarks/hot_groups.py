"""A group that has nine of ten rows, and an aggregation without groups: rows combined where they are read, and not.

Count, sum, average and greatest of `RANGE 10 s SLIDE 10 s`, 2 partitions. Prints, for the best of some runs, the seconds of the whole run and
the longest of the tasks behind the exchange, without their waiting for rows.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.algebra.operators import Aggregate, Aggregation, Node, Window
from tidegate.algebra.windows import TimeWindow
from tidegate.exchange.messages import WaveReport
from tidegate.language.catalog import SourceCall, StreamDefinition
from tidegate.runtime.engine import Engine
from tidegate.runtime.ledger import after
from tidegate.spark.context import spark_session
from tidegate.types import BIGINT, DOUBLE, TIMESTAMP, Field

COLUMNS = (Field("item", BIGINT), Field("price", BIGINT), Field("t", TIMESTAMP))
FUNCTIONS = (
    Aggregation("COUNT", (), BIGINT, "n", nullable=False),
    Aggregation("SUM", (1,), BIGINT, "s"),
    Aggregation("AVG", (1,), DOUBLE, "a"),
    Aggregation("MAX", (1,), BIGINT, "m"),
)


def write_bids(path: Path, rows: int, keys: int) -> None:
    """Bids of which nine of ten go to one item; a thousand of them each second."""
    random = np.random.default_rng(7)
    item = np.where(random.random(rows) < 0.9, 0, random.integers(1, keys, rows))
    micros = np.arange(rows, dtype=np.int64) * 1000 + 1_700_000_000_000_000
    prices = random.integers(1, 10_000, rows)
    table = pa.table({"item": item, "price": prices, "t": pa.array(micros, pa.timestamp("us", "UTC"))})
    path.mkdir()
    for i in range(8):
        part = table.slice(i * rows // 8, (i + 1) * rows // 8 - i * rows // 8)
        pq.write_table(part, path / f"{i}.parquet", row_group_size=1 << 18)


def measured(
    engine: Engine, plan: Node, definitions: Mapping[str, StreamDefinition], times: int, partitions: int = 2
) -> tuple[float, float, float, int]:
    """Seconds of the run and of its longest task, the most processor seconds that kernels took in a task, of the best run each, and rows of the answer."""
    found = []
    for _ in range(times):
        tasks: list[float] = []
        kernels: list[float] = []

        def noted(
            before: Any,
            messages: Any,
            tasks: list[float] = tasks,
            kernels: list[float] = kernels,
            **changes: Any,
        ) -> Any:
            told = list(messages)
            reports = [m for m in told if isinstance(m, WaveReport)]
            tasks += [sum(s for part, s in r.seconds.items() if part != "wait") for r in reports]
            kernels += [sum(r.tally.measured.seconds) for r in reports]
            return after(before, told, **changes)

        with patch("tidegate.runtime.recorded.after", noted):
            started = time.perf_counter()
            result = engine.run("q", plan, definitions, partitions=partitions)
            seconds = time.perf_counter() - started
        rows = sum(p.counts.rows for p in result.parts())
        found.append((seconds, max(tasks, default=0.0), max(kernels, default=0.0), rows))
    run, task, work, rows = (min(several) for several in zip(*found, strict=True))
    return run, task, work, int(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--keys", type=int, default=1_000)
    parser.add_argument("--times", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bids"
        write_bids(path, given.rows, given.keys)
        bids = StreamDefinition("Bid", COLUMNS, SourceCall("parquet", (str(path),)), ordered_by="t")
        engine = Engine(spark_session(), f"{folder}/state")
        shown = Window(bids.scan, TimeWindow(10_000_000, 10_000_000))
        for name, keys in (("one group has 90 % of the rows", (0,)), ("no groups", ())):
            plan = Aggregate(shown, keys, FUNCTIONS)
            with patch("tidegate.physical.planning.in_two_steps", lambda *_: None):
                before = measured(engine, plan, {"Bid": bids}, given.times)
            after = measured(engine, plan, {"Bid": bids}, given.times)
            assert before[3] == after[3], "the answers differ"
            print(
                f"{given.rows:,} rows, {name}: run {before[0]:.2f} -> {after[0]:.2f} s, "
                f"longest task {before[1]:.2f} -> {after[1]:.2f} s, {after[3]:,} rows of the answer"
            )


if __name__ == "__main__":
    main()
