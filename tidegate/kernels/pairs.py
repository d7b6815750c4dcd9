"""Pairs of rows that are valid at the same instant, found without looking at any other pair.

Two intervals overlap iff one of them starts inside the other. With rows sorted by key and ts, the rows that start
inside [a, b) are a contiguous run, so the work is a binary search per row plus the pairs themselves.

Where these are many and the condition has a band (see `band`), the rows are sorted by its values as well: a row's partners are in a run
of either order, and the shorter one is looked through.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from tidegate.kernels.band import Edges
from tidegate.kernels.machine_code import compiled_for_many
from tidegate.kernels.rows import Frame
from tidegate.kernels.sweep_groups import by_group, gather, group_rows
from tidegate.time import MAX, MIN

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]

BLOCK = 1 << 21
"""Pairs that are held at once before the residual predicate has seen them."""

_FEW = 4
"""So many pairs per row are tried before their values are sorted to find fewer."""

Searching = Callable[[Frame, Frame], tuple[Edges, Edges]]
"""The edges of both sides' rows: what is inside `below` and `above` of each other may match."""


@compiled_for_many
def _first_not_before(ts: Ints, lo: int, hi: int, instant: int) -> int:
    while lo < hi:
        mid = (lo + hi) >> 1
        if ts[mid] < instant:
            lo = mid + 1
        else:
            hi = mid
    return lo


@compiled_for_many
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


@compiled_for_many
def _expand(low: Ints, high: Ints, first: int, outer: Codes, inner: Codes) -> None:
    k = 0
    for i in range(len(low)):
        for j in range(low[i], high[i]):
            outer[k] = first + i
            inner[k] = j
            k += 1


@compiled_for_many
def _least_from(below: Ints, groups: Ints) -> Ints:
    """The least value from each place on, among those of its group that have an edge."""
    least = np.full(len(below), MIN, np.int64)
    for g in range(groups.shape[1]):
        so_far = MAX
        for i in range(groups[1, g] - 1, groups[0, g] - 1, -1):
            so_far = min(so_far, below[i])
            least[i] = so_far
    return least


@compiled_for_many
def _search(
    asked: Ints, by_time: Ints, by_value: Ints, groups: Ints, row: int, place: int, outer: Codes, inner: Codes
) -> tuple[int, int, int]:
    """Pairs from a row and a place among its candidates on, until the arrays are full: how many, and where to go on."""
    size = 0
    for i in range(row, asked.shape[1]):
        g, low, high, begin, end, below, above = asked[:, i]
        if g < 0 or low == high:
            continue
        first = _first_not_before(by_value[0], groups[0, g], groups[1, g], below)
        last = _first_not_before(by_value[3], first, groups[1, g], above + 1) if above < MAX else groups[1, g]
        others = groups[2, g] - groups[1, g]
        by_band = last - first + others < high - low
        for k in range(place, last - first + others if by_band else high - low):
            if by_band:
                j = first + k if first + k < last else groups[1, g] + k - (last - first)
                fits = by_value[1, j] <= above and begin <= by_value[2, j] < end
                found = by_value[4, j]
            else:
                j = low + k
                fits = by_time[0, j] >= below and by_time[1, j] <= above
                found = by_time[2, j]
            if fits:
                if size == len(outer):
                    return size, i, k
                outer[size], inner[size] = i, found
                size += 1
        place = 0
    return size, asked.shape[1], 0


def starting_inside(
    frame: Frame,
    others: Frame,
    keys: Sequence[str],
    strict: bool,
    block: int = BLOCK,
    searching: Searching | None = None,
) -> Iterator[tuple[Frame, Frame]]:
    """Blocks of pairs (a row of `frame`, a row of `others`): equal keys, and the other starts inside the row.

    `strict` leaves out the others that start together with the row, so that two calls with exchanged
    roles find each overlapping pair once. The keys themselves are left out of the pairs. Pairs outside of the band
    may be left out, too, if it is said how to search.
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
    bare, partners = frame.drop(names), others.drop(names)
    ends = np.cumsum(high - low)
    if searching is not None and ends[-1] > _FEW * (frame.height + others.height):
        mine, theirs = searching(frame, others)
        inside = np.where(mine.never, -1, wanted), low, high, frame["ts"].to_numpy() + strict
        # In the order of what they look for, rows look at memory that others have just seen.
        asking = np.argsort(mine.below)
        asked = np.stack([a[asking] for a in (*inside, frame["te"].to_numpy(), mine.below, mine.above)])
        timed = np.stack([theirs.above[order], theirs.below[order], order])
        for rows, more in _searched(asked, timed, *_by_value(codes, count, ts, theirs), block):
            yield gather(bare, asking[rows].astype(np.int32)), gather(partners, more)
        return
    first = 0
    while first < len(ends):
        done = int(ends[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(ends, done + block, side="right")))
        size = int(ends[last - 1]) - done
        for rows, more in _blocks(low, high, first, last, size, block):
            yield gather(bare, rows), gather(partners, order[more])
        first = last


def _by_value(codes: Codes, count: int, ts: Ints, edges: Edges) -> tuple[Ints, Ints]:
    """The others by group in the order of their upper edges, and where groups begin and their rows without an edge do.

    Of each: above, below, ts, the least `below` from it on in its group, and the row itself.
    """
    unlimited = edges.above == MAX
    ordinary = edges.above[~(unlimited | edges.never)]
    same = not len(ordinary) or ordinary.min() == ordinary.max()
    by = np.argsort(edges.below if same else edges.above, kind="stable").astype(np.int32)
    by = np.concatenate([by[~unlimited[by]], by[unlimited[by]]])
    # Rows that match nothing are in a group that nobody asks for.
    order, begin = by_group(np.where(edges.never, np.int32(count), codes), by, count + 1)
    limited = np.bincount(codes[~(unlimited | edges.never)], minlength=count)
    groups = np.stack([begin[:count], begin[:count] + limited, begin[1 : count + 1]])
    below = edges.below[order]
    found = np.stack([edges.above[order], below, ts[order], _least_from(below, groups), order])
    return found, groups


def _searched(
    asked: Ints, by_time: Ints, by_value: Ints, groups: Ints, block: int
) -> Iterator[tuple[Codes, Codes]]:
    row, place = 0, 0
    while row < asked.shape[1]:
        outer, inner = np.empty(block, np.int32), np.empty(block, np.int32)
        size, row, place = _search(asked, by_time, by_value, groups, row, place, outer, inner)
        if size:
            yield outer[:size], inner[:size]


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
