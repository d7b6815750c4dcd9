"""Values as ranks: MIN, MAX, ARG_MIN, ARG_MAX, QUANTILE, TOP_K and DISTINCT over any orderable type.

A *universe* numbers the different values of each group in their order; equal values share a number. A Fenwick tree over a
group's numbers holds how often each is valid, so that an event and the search for the k-th value cost O(log live).
Where no row is retracted and ends come in order, MIN and MAX need only a queue of those values that no later one beats.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from tidegate.kernels.aggregate_decimals import decimal_series
from tidegate.kernels.machine_code import compiled_for_many
from tidegate.kernels.rows import Frame
from tidegate.kernels.sweep_groups import (
    Flags,
    Floats,
    Ids,
    Ints,
    fits_table,
    holds_integer,
    integers,
)
from tidegate.kernels.sweep_timeline import Timeline

Lists = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Order:
    """A column to order by."""

    column: str
    descending: bool = False
    nulls_last: bool = False


@dataclass(frozen=True)
class Numbers:
    """Group g has the numbers `offsets[g]` … `offsets[g + 1] - 1`.

    `rank` is the number of each element (-1: it does not count), `initial` how often each number was valid before the step.
    """

    offsets: Ints
    rank: Ids
    initial: Ints


@dataclass(frozen=True)
class Universe(Numbers):
    """Numbers of values that elements have: `example` is an element of each."""

    example: Ids


@dataclass(frozen=True)
class Events:
    """What a sweep walks over: `point_events`, `events` as in `Timeline`, and `n`, by what they number."""

    offsets: Ints
    events: Ids
    n: Ints


def has_codes(type_: pl.DataType) -> bool:
    """Whether whole numbers of 64 bits can stand for the values of a type, in their order."""
    small = isinstance(type_, pl.Decimal) and type_.precision is not None and type_.precision <= 18
    return holds_integer(type_) or type_.is_float() or small


def order_codes(column: pl.Series) -> Ints:
    """Whole numbers in the order of the values of a type that `has_codes` (any number for NULL)."""
    if column.dtype.is_float():
        bits = floats_of(column).view(np.int64)
        return bits ^ ((bits >> 63) & _FLIP)
    return integers(column)[0]


def of_codes(codes: Ints, type_: pl.DataType) -> pl.Series:
    """The values that `order_codes` stand for."""
    if type_.is_float():
        return pl.Series((codes ^ ((codes >> 63) & _FLIP)).view(np.float64)).cast(type_)
    if isinstance(type_, pl.Decimal):
        words = np.column_stack([codes, codes >> 63]).view(np.uint64)
        return decimal_series(words, np.zeros(len(codes), np.bool_), type_.precision or 38, type_.scale)
    plain = pl.Series(codes)
    return plain.cast(pl.Int32).cast(type_) if type_ == pl.Date else plain.cast(type_)


_FLIP = np.int64(2**63 - 1)
"""Negative floats order by their bits from above; NaN has the greatest bits of all."""


def floats_of(series: pl.Series) -> Floats:
    return series.cast(pl.Float64).fill_null(0.0).to_numpy()


def rank_rows(rows: Frame, orders: Sequence[Order]) -> tuple[Ids, Ids]:
    """The dense rank of each row by the columns, and a row of each rank.

    >>> rank, example = rank_rows(pl.DataFrame({"a": ["y", "x", "y"]}), [Order("a")])
    >>> rank.tolist(), example.tolist()
    ([1, 0, 1], [1, 0])
    """
    found = _ranked_by_first(rows, orders) if len(orders) > 2 and rows.height >= MANY else None
    return _ranked_by_all(rows, orders) if found is None else found


MANY = 10_000
"""From so many rows on, it pays to see first whether two columns tell most of them apart."""


def _ranked_by_first(rows: Frame, orders: Sequence[Order]) -> tuple[Ids, Ids] | None:
    """The same where the first two columns tell most rows apart: only those that they do not are ordered by the others, too."""
    rank, example = _ranked_by_all(rows, orders[:2])
    shared = np.bincount(rank, minlength=len(example)) > 1
    tied = np.flatnonzero(shared[rank])
    if 4 * len(tied) > rows.height:
        return None
    inner, inner_example = _ranked_by_all(rows[tied], orders)
    # Ranks among the tied rows follow those by the first two columns: where several stand for one, the later ones move on.
    several = np.bincount(rank[tied[inner_example]], minlength=len(example))
    size = np.where(shared, several, 1)
    begin = np.cumsum(size) - size
    found = begin[rank]
    found[tied] += inner - (np.cumsum(several) - several)[rank[tied]]
    every = np.empty(int(size.sum()), np.int32)
    every[begin[~shared]] = example[~shared]
    every[found[tied[inner_example]]] = tied[inner_example]
    return found.astype(np.int32), every


def _ranked_by_all(rows: Frame, orders: Sequence[Order]) -> tuple[Ids, Ids]:
    names = [o.column for o in orders]
    order = (
        rows.select(names)
        .with_row_index("row")
        .sort(
            names,
            descending=[o.descending for o in orders],
            nulls_last=[o.nulls_last for o in orders],
        )
    )
    rows_in_order = order["row"].to_numpy()
    fresh = order.select(
        pl.any_horizontal(pl.col(c).ne_missing(pl.col(c).shift(1)) for c in names).alias("fresh")
    )["fresh"].to_numpy(writable=True)
    fresh[:1] = True
    rank = np.empty(rows.height, np.int32)
    rank[rows_in_order] = np.cumsum(fresh, dtype=np.int32) - 1
    return rank, rows_in_order[fresh].astype(np.int32)


def build_universe(timeline: Timeline, rows: Frame, use: Flags, orders: Sequence[Order]) -> Universe:
    """Number the values of the elements that count, by group, then in the given order of columns of `rows`."""
    counting = np.flatnonzero(use)
    group = timeline.group_of_elements()[counting]
    used = (rows[c] for c in dict.fromkeys(o.column for o in orders))
    columns = list(used) if len(counting) == len(use) else [c[counting] for c in used]
    dense = _dense_ranks(group, timeline.groups.count, columns[0], orders[0]) if len(orders) == 1 else None
    if dense is None:
        ordered = pl.DataFrame([pl.Series("group", group), *columns])
        dense = rank_rows(ordered, [Order("group"), *orders])
    rank, example = dense
    ranks = np.full(len(use), -1, np.int32)
    ranks[counting] = rank
    sizes = np.bincount(group[example], minlength=timeline.groups.count)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    initial = np.zeros(len(example), np.int64)
    _tally(ranks, timeline.n, timeline.before, initial)
    return Universe(offsets, ranks, initial, counting[example].astype(np.int32))


def _dense_ranks(group: Ids, groups: int, values: pl.Series, order: Order) -> tuple[Ids, Ids] | None:
    """As `rank_rows` by group and value, without sorting, where whole numbers lie close together."""
    if not holds_integer(values.dtype) or values.is_empty():
        return None
    numbers, nulls = integers(values)
    low, high = int(numbers.min()), int(numbers.max())
    # One place more, for NULL, before or behind the others.
    span = high - low + 2
    if not fits_table(span * groups, len(numbers)):
        return None
    first = 0 if order.nulls_last else 1
    return _rank_in_table(group, groups, numbers, nulls, low, high, span, first, order.descending)


@compiled_for_many
def _rank_in_table(
    group: Ids, groups: int, numbers: Ints, nulls: Flags, low: int, high: int, span: int, first: int,
    descending: bool,
) -> tuple[Ids, Ids]:  # fmt: skip
    seen = np.full(groups * span, -1, np.int32)
    rank = np.empty(len(numbers), np.int32)
    for i in range(len(numbers)):
        at = high - numbers[i] if descending else numbers[i] - low
        at = (0 if first else span - 1) if len(nulls) and nulls[i] else at + first
        at += group[i] * span
        rank[i] = at
        if seen[at] < 0:
            seen[at] = i
    example = np.empty(len(numbers), np.int32)
    count = 0
    for at in range(len(seen)):
        if seen[at] >= 0:
            example[count] = seen[at]
            seen[at] = count
            count += 1
    for i in range(len(rank)):
        rank[i] = seen[rank[i]]
    return rank, example[:count].copy()


@compiled_for_many
def _tally(rank: Ids, n: Ints, before: int, initial: Ints) -> None:
    for e in range(before):
        if rank[e] >= 0:
            initial[rank[e]] += n[e]


def distinct_events(timeline: Timeline, universe: Universe) -> tuple[Events, Universe]:
    """DISTINCT: the events at which a value begins or ceases to be valid at all; their elements are numbers."""
    offsets, events = _distinct(
        timeline.group_points,
        timeline.point_events,
        timeline.events,
        timeline.n,
        universe.rank,
        universe.initial.copy(),
    )
    size = len(universe.example)
    numbers = np.arange(size, dtype=np.int32)
    once = Universe(universe.offsets, numbers, (universe.initial > 0).astype(np.int64), universe.example)
    return Events(offsets, events, np.ones(size, np.int64)), once


@compiled_for_many
def _distinct(points: Ints, offsets: Ints, events: Ids, n: Ints, rank: Ids, count: Ints) -> tuple[Ints, Ids]:
    out_offsets = np.empty(len(offsets), np.int64)
    out = np.empty(len(events), np.int32)
    was = count > 0
    k = 0
    for p in range(len(offsets) - 1):
        out_offsets[p] = k
        for i in range(offsets[p], offsets[p + 1]):
            e = events[i]
            m = n[e] if e >= 0 else -n[~e]
            r = rank[e if e >= 0 else ~e]
            if r >= 0:
                count[r] += m
        for i in range(offsets[p], offsets[p + 1]):
            e = events[i]
            r = rank[e if e >= 0 else ~e]
            if r >= 0 and was[r] != (count[r] > 0):
                was[r] = not was[r]
                out[k] = r if was[r] else ~r
                k += 1
    out_offsets[len(offsets) - 1] = k
    return out_offsets, out[:k].copy()


@compiled_for_many
def fenwick_build(tree: Ints, count: Ints, first: int, size: int) -> int:
    """Fill `tree[first : first + size]` from the counts; the sum of all."""
    total = 0
    for i in range(size):
        tree[first + i] = count[first + i]
        total += count[first + i]
    for i in range(1, size + 1):
        up = i + (i & -i)
        if up <= size:
            tree[first + up - 1] += tree[first + i - 1]
    return total


@compiled_for_many
def fenwick_add(tree: Ints, first: int, size: int, i: int, m: int) -> None:
    """Add m to the number `first + i`."""
    i += 1
    while i <= size:
        tree[first + i - 1] += m
        i += i & -i


@compiled_for_many
def fenwick_find(tree: Ints, first: int, size: int, k: int) -> int:
    """The number that holds the k-th valid value, k counting from 1."""
    step = 1
    while 2 * step <= size:
        step *= 2
    at = 0
    while step > 0:
        if at + step <= size and tree[first + at + step - 1] < k:
            at += step
            k -= tree[first + at - 1]
        step //= 2
    return first + at


@compiled_for_many
def sweep_kth(
    points: Ints, offsets: Ints, events: Ids, n: Ints, rank: Ids, universe: Ints, initial: Ints,
    label: Ints, last: bool, skip: Flags, out: Ints, null: Flags, changed: Flags,
) -> None:  # fmt: skip
    """The label of the first (or last) valid number at every point; groups to `skip` are left alone."""
    tree = np.empty(len(initial), np.int64)
    for g in range(len(points) - 1):
        if skip[g]:
            continue
        first = universe[g]
        size = universe[g + 1] - first
        total = fenwick_build(tree, initial, first, size)
        for p in range(points[g], points[g + 1]):
            for i in range(offsets[p], offsets[p + 1]):
                e = events[i]
                m = n[e] if e >= 0 else -n[~e]
                r = rank[e if e >= 0 else ~e]
                if r >= 0:
                    fenwick_add(tree, first, size, r - first, m)
                    total += m
            null[p] = total == 0
            out[p] = label[fenwick_find(tree, first, size, total if last else 1)] if total > 0 else 0
            if p > points[g] and (null[p] != null[p - 1] or out[p] != out[p - 1]):
                changed[p] = True


@compiled_for_many
def sweep_quantile(
    points: Ints, offsets: Ints, events: Ids, n: Ints, rank: Ids, universe: Ints, initial: Ints,
    values: Floats, fraction: float, out: Floats, null: Flags, changed: Flags,
) -> None:  # fmt: skip
    """The value at position (count - 1) * fraction of the ordered values, interpolated between its neighbours."""
    tree = np.empty(len(initial), np.int64)
    for g in range(len(points) - 1):
        first = universe[g]
        size = universe[g + 1] - first
        total = fenwick_build(tree, initial, first, size)
        for p in range(points[g], points[g + 1]):
            for i in range(offsets[p], offsets[p + 1]):
                e = events[i]
                m = n[e] if e >= 0 else -n[~e]
                r = rank[e if e >= 0 else ~e]
                if r >= 0:
                    fenwick_add(tree, first, size, r - first, m)
                    total += m
            null[p] = total == 0
            out[p] = 0.0
            if total > 0:
                position = (total - 1) * fraction
                lower = np.int64(np.floor(position))
                upper = np.int64(np.ceil(position))
                below = fenwick_find(tree, first, size, lower + 1)  # type: ignore[arg-type]
                above = below if lower == upper else fenwick_find(tree, first, size, upper + 1)  # type: ignore[arg-type]
                out[p] = values[below]
                if above != below:
                    out[p] = (upper - position) * values[below] + (position - lower) * values[above]
            if p > points[g] and (
                null[p] != null[p - 1]
                or (out[p] != out[p - 1] and not (np.isnan(out[p]) and np.isnan(out[p - 1])))
            ):
                changed[p] = True


@compiled_for_many
def sweep_greatest(
    points: Ints, offsets: Ints, events: Ids, n: Ints, rank: Ids, universe: Ints, initial: Ints,
    out: Lists, changed: Flags,
) -> None:  # fmt: skip
    """The greatest valid numbers in descending order, as many as `out` is wide, then -1."""
    tree = np.empty(len(initial), np.int64)
    count = initial.copy()
    for g in range(len(points) - 1):
        first = universe[g]
        size = universe[g + 1] - first
        total = fenwick_build(tree, initial, first, size)
        for p in range(points[g], points[g + 1]):
            for i in range(offsets[p], offsets[p + 1]):
                e = events[i]
                m = n[e] if e >= 0 else -n[~e]
                r = rank[e if e >= 0 else ~e]
                if r >= 0:
                    fenwick_add(tree, first, size, r - first, m)
                    count[r] += m
                    total += m
            left = total
            k = 0
            while k < out.shape[1] and left > 0:
                r = fenwick_find(tree, first, size, left)
                for _ in range(min(count[r], out.shape[1] - k)):
                    out[p, k] = r
                    k += 1
                left -= count[r]
            out[p, k:] = -1
            if p > points[g]:
                for k in range(out.shape[1]):
                    if out[p, k] != out[p - 1, k]:
                        changed[p] = True
                        break


@compiled_for_many
def queueable(live_offsets: Ints, start_offsets: Ints, before: int, n: Ints, ends: Ints) -> Flags:
    """Groups of which no element is retracted and the ends come in the order of the elements."""
    result = np.ones(len(live_offsets) - 1, np.bool_)
    for g in range(len(result)):
        latest = -(2**63)
        for e in range(live_offsets[g], live_offsets[g + 1]):
            if n[e] < 0:
                result[g] = False
            latest = ends[e]
        for i in range(start_offsets[g], start_offsets[g + 1]):
            if n[before + i] < 0 or ends[before + i] < latest:
                result[g] = False
                break
            latest = ends[before + i]
    return result


@compiled_for_many
def sweep_queue(
    points: Ints, times: Ints, live_offsets: Ints, start_offsets: Ints, before: int, starts: Ints, ends: Ints,
    use: Flags, codes: Ints, least: bool, queues: Flags, out: Ints, null: Flags, changed: Flags,
) -> None:  # fmt: skip
    """MAX (or the least) of the codes in the groups that are `queueable`.

    The queue holds, in order of their ends, the elements that no element with a later end beats: the first one that has not
    ended is the answer.
    """
    longest = 0
    for g in range(len(points) - 1):
        longest = max(
            longest, live_offsets[g + 1] - live_offsets[g] + start_offsets[g + 1] - start_offsets[g]
        )
    queue = np.empty(longest, np.int64)
    until = np.empty(longest, np.int64)
    flip = -1 if least else 0
    for g in range(len(points) - 1):
        if not queues[g]:
            continue
        front = 0
        back = 0
        for e in range(live_offsets[g], live_offsets[g + 1]):
            if use[e]:
                code = codes[e] ^ flip
                while back > 0 and queue[back - 1] <= code:
                    back -= 1
                queue[back] = code
                until[back] = ends[e]
                back += 1
        i = start_offsets[g]
        for p in range(points[g], points[g + 1]):
            t = times[p]
            # A row may start at MIN; before the step there is none of the new ones.
            while p > points[g] and i < start_offsets[g + 1] and starts[i] <= t:
                e = before + i
                if use[e]:
                    code = codes[e] ^ flip
                    while back > front and queue[back - 1] <= code:
                        back -= 1
                    queue[back] = code
                    until[back] = ends[e]
                    back += 1
                i += 1
            while front < back and until[front] <= t:
                front += 1
            null[p] = front == back
            out[p] = 0 if front == back else queue[front] ^ flip
            if p > points[g] and (null[p] != null[p - 1] or out[p] != out[p - 1]):
                changed[p] = True


@compiled_for_many
def staircase(
    codes: Ints, use: Flags, groups: Ids, least: bool, best: Ints, found: Flags, keep: Flags
) -> None:
    """Mark the rows, in order of their ends, that no row with a later end beats; the others never are the MAX (MIN).

    `best` and `found` carry what each group has seen over to rows that end earlier.
    """
    flip = -1 if least else 0
    for i in range(len(codes) - 1, -1, -1):
        g = groups[i]
        if g >= 0 and use[i]:
            code = codes[i] ^ flip
            if not found[g] or code > best[g]:
                found[g] = True
                best[g] = code
                keep[i] = True
