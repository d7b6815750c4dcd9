"""Pairs of rows that are valid at the same instant, found without looking at any other pair.

Two intervals overlap iff one of them starts inside the other. With rows sorted by key and ts, the rows that start
inside [a, b) are a contiguous run, so the work is a binary search per row plus the pairs themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numba
import numpy as np
import numpy.typing as npt

from tidegate.kernels.rows import Frame
from tidegate.kernels.sweep_walk import by_group

Ints = npt.NDArray[np.int64]

BLOCK = 1 << 21
"""Pairs that are held at once before the residual predicate has seen them."""


@numba.njit(cache=True)
def _first_not_before(ts: Ints, lo: int, hi: int, instant: int) -> int:
    while lo < hi:
        mid = (lo + hi) >> 1
        if ts[mid] < instant:
            lo = mid + 1
        else:
            hi = mid
    return lo


@numba.njit(cache=True)
def _runs(
    ts: Ints, start: Ints, stop: Ints, begin: Ints, end: Ints, strict: bool, low: Ints, high: Ints
) -> None:
    for i in range(len(begin)):
        inside = begin[i] + 1 if strict else begin[i]
        low[i] = _first_not_before(ts, start[i], stop[i], inside)
        high[i] = _first_not_before(ts, low[i], stop[i], end[i])


@numba.njit(cache=True)
def _expand(low: Ints, high: Ints, outer: Ints, inner: Ints) -> None:
    k = 0
    for i in range(len(low)):
        for j in range(low[i], high[i]):
            outer[k] = i
            inner[k] = j
            k += 1


def starting_inside(
    frame: Frame, others: Frame, keys: Sequence[str], strict: bool, block: int = BLOCK
) -> Iterator[tuple[Frame, Frame]]:
    """Blocks of pairs (a row of `frame`, a row of `others`): equal keys, and the other starts inside the row.

    `strict` leaves out the others that start together with the row, so that two calls with exchanged
    roles find each overlapping pair once.
    """
    if frame.is_empty() or others.is_empty():
        return
    names = list(keys)
    ordered = others.sort("ts")
    if names:
        groups = ordered.select(names).unique().with_row_index("group")
        codes = ordered.select(names).join(
            groups, on=names, how="left", nulls_equal=True, maintain_order="left"
        )
        begin, order = by_group(codes["group"].to_numpy().astype(np.int64), groups.height)
        ordered = ordered[order]
        hits = frame.join(groups, on=names, how="inner", nulls_equal=True)
        group = hits["group"].to_numpy().astype(np.int64)
        start, stop = begin[group], begin[group + 1]
    else:
        hits = frame
        start = np.zeros(frame.height, np.int64)
        stop = np.full(frame.height, others.height, np.int64)
    low, high = np.empty(hits.height, np.int64), np.empty(hits.height, np.int64)
    _runs(
        ordered["ts"].to_numpy(), start, stop, hits["ts"].to_numpy(), hits["te"].to_numpy(),
        strict, low, high,
    )  # fmt: skip
    ends = np.cumsum(high - low)
    first = 0
    while first < len(ends):
        done = int(ends[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(ends, done + block, side="right")))
        size = int(ends[last - 1]) - done
        for rows, more in _blocks(low, high, first, last, size, block):
            yield hits[rows], ordered[more]
        first = last


def _blocks(
    low: Ints, high: Ints, first: int, last: int, size: int, block: int
) -> Iterator[tuple[Ints, Ints]]:
    if size == 0:
        return
    if last == first + 1 and size > block:
        # One row with more partners than a block holds.
        for begin in range(int(low[first]), int(high[first]), block):
            inner = np.arange(begin, min(begin + block, int(high[first])), dtype=np.int64)
            yield np.full(len(inner), first, np.int64), inner
        return
    outer, inner = np.empty(size, np.int64), np.empty(size, np.int64)
    _expand(low[first:last], high[first:last], outer, inner)
    outer += first
    yield outer, inner
