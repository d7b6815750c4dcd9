"""COUNT, SUM and MAX per key over RANGE 60 s at every change: one large epoch, then small ones over much live state.

python benchmarks/kernel_aggregates.py [rows] [--profile]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

import numpy as np
import polars as pl

from tidegate.algebra.operators import Aggregate, Aggregation, Scan
from tidegate.kernels.aggregates import AggregateKernel
from tidegate.kernels.rows import Frame, State
from tidegate.types import BIGINT, Field

SCAN = Scan("Bid", (Field("key", BIGINT), Field("price", BIGINT)))
COUNT = Aggregation("COUNT", (), BIGINT, "count")
SUM = Aggregation("SUM", (1,), BIGINT, "sum")
MAX = Aggregation("MAX", (1,), BIGINT, "max")
SECOND = 1_000_000


def bids(rows: int, first: int, span: int, keys: int = 100_000, seed: int = 1) -> Frame:
    """Rows in order of time; half of them on 100 hot keys."""
    random = np.random.default_rng(seed)
    hot = random.random(rows) < 0.5
    key = np.where(hot, random.integers(0, 100, rows), random.integers(0, keys, rows))
    ts = np.sort(random.integers(first, first + span, rows))
    price = random.integers(1, 10_000, rows)
    return pl.DataFrame(
        {"c0": key, "c1": price, "ts": ts, "te": ts + 60 * SECOND, "n": np.ones(rows, np.int64)}
    )


def kernel(*aggregations: Aggregation) -> AggregateKernel:
    return AggregateKernel(Aggregate(SCAN, (0,), aggregations))


def timed(
    k: AggregateKernel, state: State, chunks: Sequence[Frame], uptos: Sequence[int]
) -> tuple[State, list[float], int]:
    seconds, emitted = [], 0
    for chunk, upto in zip(chunks, uptos, strict=True):
        start = time.perf_counter()
        state, out = k.step(state, [chunk], upto)
        seconds.append(time.perf_counter() - start)
        emitted += out.height
    return state, seconds, emitted


def main(arguments: list[str]) -> None:
    numbers = [int(a) for a in arguments if a.isdigit()]
    rows = numbers[0] if numbers else 5_000_000
    sets = {"count+sum": (COUNT, SUM), "count+sum+max": (COUNT, SUM, MAX)}
    for aggregations in sets.values():  # compile
        k = kernel(*aggregations)
        parts = [bids(1000, 30 * i * SECOND, 30 * SECOND, keys=200) for i in range(5)]
        timed(k, k.initial(), parts, [30 * (i + 1) * SECOND for i in range(5)])
        timed(k, k.initial(), [pl.concat(parts)], [2**63 - 1])
    span = 600 * SECOND
    big = bids(rows, 0, span)
    for name, aggregations in sets.items():
        k = kernel(*aggregations)
        before = time.process_time()
        _, seconds, emitted = timed(k, k.initial(), [big], [2**63 - 1])
        used = time.process_time() - before
        print(
            f"{name}: {rows:,} rows in one epoch, {emitted:,} result rows: {seconds[0]:.2f} s, {used:.2f} s of CPU"
        )
    # 1M rows live: 60 s at 16,667 rows/s, then epochs of 3 s with 50,000 rows each.
    warm = bids(1_000_000, 0, 60 * SECOND, seed=2)
    epochs = [bids(50_000, (60 + 3 * i) * SECOND, 3 * SECOND, seed=10 + i) for i in range(10)]
    for name, aggregations in sets.items():
        k = kernel(*aggregations)
        state, _ = k.step(k.initial(), [warm], 60 * SECOND)
        _, seconds, emitted = timed(k, state, epochs, [(63 + 3 * i) * SECOND for i in range(10)])
        print(
            f"{name}: epochs of 50,000 rows over 1,000,000 live ones, {emitted // 10:,} result rows each: "
            f"median {1000 * sorted(seconds)[5]:.0f} ms, worst {1000 * max(seconds):.0f} ms"
        )
    if "--profile" in arguments:
        import cProfile
        import pstats

        k = kernel(*sets["count+sum+max"])
        profile = cProfile.Profile()
        profile.runcall(k.step, k.initial(), [big], 2**63 - 1)
        pstats.Stats(profile).sort_stats("tottime").print_stats(18)
        state, _ = k.step(k.initial(), [warm], 60 * SECOND)
        profile = cProfile.Profile()
        profile.runcall(timed, k, state, epochs, [(63 + 3 * i) * SECOND for i in range(10)])
        pstats.Stats(profile).sort_stats("tottime").print_stats(18)


if __name__ == "__main__":
    main(sys.argv[1:])
