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
from tidegate.kernels.sweep_groups import by_group, gather, group_rows

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]

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
    ts: Ints, first: Ints, codes: Codes, begin: Ints, end: Ints, strict: bool, low: Ints, high: Ints
) -> None:
    for i in range(len(begin)):
        code = codes[i]
        if code < 0:
            low[i] = high[i] = 0
            continue
        inside = begin[i] + 1 if strict else begin[i]
        low[i] = _first_not_before(ts, first[code], first[code + 1], inside)
        high[i] = _first_not_before(ts, low[i], first[code + 1], end[i])


@numba.njit(cache=True)
def _expand(low: Ints, high: Ints, first: int, outer: Codes, inner: Codes) -> None:
    k = 0
    for i in range(len(low)):
        for j in range(low[i], high[i]):
            outer[k] = first + i
            inner[k] = j
            k += 1


def starting_inside(
    frame: Frame, others: Frame, keys: Sequence[str], strict: bool, block: int = BLOCK
) -> Iterator[tuple[Frame, Frame]]:
    """Blocks of pairs (a row of `frame`, a row of `others`): equal keys, and the other starts inside the row.

    `strict` leaves out the others that start together with the row, so that two calls with exchanged
    roles find each overlapping pair once. The keys themselves are left out of the pairs.
    """
    if frame.is_empty() or others.is_empty():
        return
    names = list(keys)
    if names:
        groups = group_rows(others, names)
        count, codes, wanted = groups.count, groups.codes, groups.locate(frame)
    else:
        count, codes, wanted = 1, np.zeros(others.height, np.int32), np.zeros(frame.height, np.int32)
    ts = others["ts"].to_numpy()
    unsorted = (ts[1:] < ts[:-1]).any()
    by_time = np.argsort(ts, kind="stable").astype(np.int32) if unsorted else np.empty(0, np.int32)
    order, begin = by_group(codes, by_time, count)
    low, high = np.empty(frame.height, np.int64), np.empty(frame.height, np.int64)
    _runs(ts[order], begin, wanted, frame["ts"].to_numpy(), frame["te"].to_numpy(), strict, low, high)
    frame, others = frame.drop(names), others.drop(names)
    ends = np.cumsum(high - low)
    first = 0
    while first < len(ends):
        done = int(ends[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(ends, done + block, side="right")))
        size = int(ends[last - 1]) - done
        for rows, more in _blocks(low, high, first, last, size, block):
            yield gather(frame, rows), gather(others, order[more])
        first = last


def _blocks(
    low: Ints, high: Ints, first: int, last: int, size: int, block: int
) -> Iterator[tuple[Codes, Codes]]:
    if size == 0:
        return
    if last == first + 1 and size > block:
        # One row with more partners than a block holds.
        for begin in range(int(low[first]), int(high[first]), block):
            inner = np.arange(begin, min(begin + block, int(high[first])), dtype=np.int32)
            yield np.full(len(inner), first, np.int32), inner
        return
    outer, inner = np.empty(size, np.int32), np.empty(size, np.int32)
    _expand(low[first:last], high[first:last], first, outer, inner)
    yield outer, inner
