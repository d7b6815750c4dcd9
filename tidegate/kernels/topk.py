"""The first rows of each partition as a sweep (SPEC section 3, top-k)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from tidegate.algebra.operators import TopK
from tidegate.kernels.rows import (
    Frame,
    Layout,
    State,
    Table,
    accumulate,
    columns,
    empty,
    empty_chunk,
    payload_types,
    table,
)
from tidegate.kernels.sweep_groups import Ids, Ints, compiled
from tidegate.kernels.sweep_ranks import (
    Order,
    build_universe,
    fenwick_add,
    fenwick_build,
    fenwick_find,
)
from tidegate.kernels.sweep_timeline import build_timeline, keep_live, sorted_by_end, split_expiring
from tidegate.time import MAX

PARTITION = "g"
"""The key of the only partition where none is named."""


@dataclass(frozen=True)
class TopKKernel:
    """`snapshot(topk(S), t) = the rows number offset + 1 … offset + limit of snapshot(S, t)`, in each partition.

    State: `live` holds the valid rows of which the end is known (with `te` = end + 1), dropped when they end; `lasting` those without,
    dropped when they are retracted. What is shown follows from them.

    >>> from tidegate.algebra.operators import Scan, SortKey
    >>> from tidegate.types import BIGINT, Field
    >>> kernel = TopKKernel(TopK(Scan("S", (Field("a", BIGINT),)), (SortKey(0, descending=True),), 1))
    >>> rows = pl.DataFrame({"c0": [7, 8], "ts": [0, 2], "te": [9, 5], "n": [1, 1]})
    >>> sorted(kernel.step(kernel.initial(), [rows], MAX)[1].rows())
    [(7, 0, 2, 1), (7, 5, 9, 1), (8, 2, 5, 1)]
    """

    node: TopK
    layout: Mapping[str, Layout] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        by = tuple(f"c{i}" for i in dict.fromkeys(self.node.partition_by))
        object.__setattr__(self, "layout", {"live": Layout((), by), "lasting": Layout((), by)})

    def initial(self) -> State:
        types: dict[str, pl.DataType] = {} if self.node.partition_by else {PARTITION: pl.Int8()}
        rows = empty(types | payload_types(self.node.schema), "te", "n")
        return {"live": table(rows), "lasting": table(rows)}

    def step(self, state: State, chunks: Sequence[Frame], upto: int) -> tuple[State, Frame]:
        live = sorted_by_end(state["live"].rows)
        lasting = state["lasting"].rows
        new = chunks[0]
        if not self.node.partition_by:
            new = new.with_columns(pl.lit(0, pl.Int8()).alias(PARTITION))
        new = new.select(*(c for c in live.columns if c not in ("te", "n")), "ts", "te", "n")
        new = new.filter((pl.col("n") != 0) & (pl.col("ts") < pl.col("te")))
        expiring, rest = split_expiring(live, upto)
        keys = self.layout["live"].partition_by or (PARTITION,)
        line = build_timeline(live, expiring.height, [lasting], new, keys, upto)
        after = {name: Table(t.rows, t.delta.clear()) for name, t in state.items()}
        if line is None:
            return after, empty_chunk(self.node.schema)
        after["live"] = Table(*keep_live(rest, new, upto))
        added = new.filter(pl.col("te") == MAX).select(lasting.columns)
        after["lasting"] = Table(accumulate(lasting, added), added)
        universe = build_universe(line, line.elements, np.ones(len(line.n), np.bool_), self._orders())
        number, ts, te, n = _sweep(
            line.group_points, line.times, line.point_events, line.events, line.n,
            universe.rank, universe.offsets, universe.initial, self.node.offset, self.node.limit,
        )  # fmt: skip
        shown = line.elements.select(columns(len(self.node.schema)))[universe.example[number]]
        return after, shown.with_columns(ts=pl.Series(ts), te=pl.Series(te), n=pl.Series(n))

    def _orders(self) -> tuple[Order, ...]:
        """The sort keys, then every other column: the order of rows has no ties."""
        orders: dict[int, Order] = {}
        for key in self.node.keys:
            orders.setdefault(key.column, Order(f"c{key.column}", key.descending, not key.nulls_first))
        for i in range(len(self.node.schema)):
            orders.setdefault(i, Order(f"c{i}"))
        return tuple(orders.values())


@compiled
def _sweep(
    points: Ints, times: Ints, offsets: Ints, events: Ids, n: Ints, rank: Ids, universe: Ints, initial: Ints,
    skip: int, limit: int,
) -> tuple[Ids, Ints, Ints, Ints]:  # fmt: skip
    """What is shown, as (number, ts, te, n); what was shown before and changes is closed by a negative row.

    At each point the window of numbers that hold the positions skip + 1 … skip + limit is read off the tree and
    compared with the one before; both are short lists in ascending order.
    """
    tree = np.empty(len(initial), np.int64)
    count = initial.copy()
    since = np.empty(len(initial), np.int64)
    old_of = np.zeros(len(initial), np.bool_)
    last = 2**63 - 1
    most = 1024
    out = np.empty((most, 4), np.int64)
    k = 0
    width = max(1, min(limit, len(initial)))
    shown = np.empty(width, np.int64)
    times_shown = np.empty(width, np.int64)
    fresh = np.empty(width, np.int64)
    fresh_times = np.empty(width, np.int64)
    for g in range(len(points) - 1):
        first = universe[g]
        size = universe[g + 1] - first
        total = fenwick_build(tree, initial, first, size)
        shown_size = 0
        for p in range(points[g], points[g + 1] + 1):
            # One round past the last point flushes what is still shown.
            flush = p == points[g + 1]
            size_fresh = 0
            if not flush:
                for i in range(offsets[p], offsets[p + 1]):
                    e = events[i]
                    m = n[e] if e >= 0 else -n[~e]
                    r = rank[e if e >= 0 else ~e]
                    fenwick_add(tree, first, size, r - first, m)
                    count[r] += m
                    total += m
                left = min(limit, total - skip)
                position = skip + 1
                while left > 0:
                    r = fenwick_find(tree, first, size, position)
                    inside = count[r]
                    if size_fresh == 0:
                        # The first number may have copies before the window.
                        inside -= skip - _below(tree, first, r - first)
                    inside = min(inside, left)
                    fresh[size_fresh] = r
                    fresh_times[size_fresh] = inside
                    size_fresh += 1
                    left -= inside
                    position += inside
            if p == points[g]:
                for i in range(size_fresh):
                    old_of[fresh[i]] = True
            else:
                a = 0
                b = 0
                t = last if flush else times[p]
                while a < shown_size or b < size_fresh:
                    left_number = shown[a] if a < shown_size else last
                    right_number = fresh[b] if b < size_fresh else last
                    if left_number == right_number and times_shown[a] == fresh_times[b]:
                        a += 1
                        b += 1
                        continue
                    r = min(left_number, right_number)
                    if left_number == r:
                        if not (flush and old_of[r]):
                            if k == most:
                                most *= 2
                                grown = np.empty((most, 4), np.int64)
                                grown[:k] = out
                                out = grown
                            out[k, 0] = r
                            out[k, 1] = t if old_of[r] else since[r]
                            out[k, 2] = last if old_of[r] else t
                            out[k, 3] = -times_shown[a] if old_of[r] else times_shown[a]
                            k += 1
                        a += 1
                    if right_number == r:
                        old_of[r] = False
                        since[r] = t
                        b += 1
            shown, fresh = fresh, shown
            times_shown, fresh_times = fresh_times, times_shown
            shown_size = size_fresh
    done = out[:k]
    return done[:, 0].astype(np.int32), done[:, 1].copy(), done[:, 2].copy(), done[:, 3].copy()


@compiled
def _below(tree: Ints, first: int, i: int) -> int:
    """How many valid values have a number below `first + i`."""
    total = 0
    while i > 0:
        total += tree[first + i - 1]
        i -= i & -i
    return total
