"""The first rows of each partition as a sweep (SPEC section 3, top-k)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from tidegate.algebra.operators import TopK
from tidegate.kernels.index import Index, Run, index_of, indexed, summed
from tidegate.kernels.ladder import Ladder
from tidegate.kernels.machine_code import compiled_for_many
from tidegate.kernels.rows import (
    Frame,
    Layout,
    State,
    Table,
    columns,
    consolidate,
    empty,
    empty_chunk,
    payload_types,
    table,
)
from tidegate.kernels.sweep_groups import Ids, Ints, gather, group_rows
from tidegate.kernels.sweep_ladders import group_hashes, ladders_pay
from tidegate.kernels.sweep_ranks import (
    Order,
    build_universe,
    fenwick_add,
    fenwick_build,
    fenwick_find,
    has_codes,
    of_codes,
    order_codes,
)
from tidegate.kernels.sweep_timeline import build_timeline, keep_live, sorted_by_end, split_expiring
from tidegate.time import MAX

PARTITION = "g"
"""The key of the only partition where none is named."""


@dataclass(frozen=True)
class Shelf:
    """The valid rows by partition and first sort key, and how that is spread: enough for a step that changes few of them."""

    ladder: Ladder
    rows: Index

    def after(self, gone: Frame, come: Frame, keys: tuple[str, ...], codes: Callable[[Frame], Ints]) -> Shelf:
        """Without some rows, with others."""
        kept = self.rows.runs[0].rows.columns
        change = pl.concat([gone.with_columns(-pl.col("n")).select(kept), come.select(kept)])
        ladder = self.ladder.added(group_hashes(change, keys), codes(change), change["n"].to_numpy())
        return Shelf(ladder, self.rows.added(change, summed))


@dataclass(frozen=True)
class TopKKernel:
    """`snapshot(topk(S), t) = the rows number offset + 1 … offset + limit of snapshot(S, t)`, in each partition.

    State: `live` holds the valid rows of which the end is known (with `te` = end + 1), dropped when they end; `lasting` those without,
    dropped when they are retracted. What is shown follows from them. Where few of many rows change, a shelf finds those that can be shown.

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
        after = {name: t.settled for name, t in state.items()}
        if not expiring.height and not new.height:
            return after, empty_chunk(self.node.schema)
        shelf = self._shelf(state, live, new, expiring.height + new.height)
        near = None if shelf is None else self._near(shelf, expiring, new)
        if near is None:
            valid = consolidate(lasting) if lasting.height and lasting["n"].min() < 0 else lasting  # type: ignore[operator]
            shelf, near = None, (live, expiring.height, [valid], new)
        line = build_timeline(*near, self._keys, upto)
        if upto == MAX:  # no row comes that would be compared with others
            after = dict(self.initial())
        else:
            if shelf is not None:
                shelf = shelf.after(expiring, new.filter(pl.col("te") >= upto), self._keys, self._codes)
            after["live"] = Table(*keep_live(rest, new, upto), shelf)
            added = new.filter(pl.col("te") == MAX).select(lasting.columns)
            after["lasting"] = indexed(index_of(state["lasting"], self._keys), added, summed)
        if line is None:
            return after, empty_chunk(self.node.schema)
        universe = build_universe(line, line.elements, np.ones(len(line.n), np.bool_), self._orders())
        number, ts, te, n = _sweep(
            line.group_points, line.times, line.point_events, line.events, line.n,
            universe.rank, universe.offsets, universe.initial, self.node.offset, self.node.limit,
        )  # fmt: skip
        shown = line.elements.select(columns(len(self.node.schema)))[universe.example[number]]
        return after, shown.with_columns(ts=pl.Series(ts), te=pl.Series(te), n=pl.Series(n))

    @property
    def _keys(self) -> tuple[str, ...]:
        return self.layout["live"].partition_by or (PARTITION,)

    @property
    def _first(self) -> str:
        return f"c{self.node.keys[0].column}"

    def _codes(self, rows: Frame) -> Ints:
        """Whole numbers in the order of the first sort key."""
        codes = order_codes(rows[self._first])
        return ~codes if self.node.keys[0].descending else codes

    def _shelf(self, state: State, live: Frame, new: Frame, changes: int) -> Shelf | None:
        """The rows from before the step, if it changes little of much and the first sort key can be told as numbers."""
        lasting = state["lasting"].rows
        if not self.node.keys or not ladders_pay(live.height + lasting.height, changes):
            return None
        if not has_codes(new.schema[self._first]) or any(
            f[self._first].null_count() for f in (live, lasting, new)
        ):
            return None
        kept = state["live"].index
        if isinstance(kept, Shelf):
            return kept
        rows = pl.concat([live, lasting]).drop("te")
        ladder = Ladder.of(group_hashes(rows, self._keys), self._codes(rows), rows["n"].to_numpy())
        by = tuple(dict.fromkeys((*self._keys, self._first)))
        return Shelf(ladder, Index(by, (Run(rows, by),)))

    def _near(
        self, shelf: Shelf, expiring: Frame, new: Frame
    ) -> tuple[Frame, int, list[Frame], Frame] | None:
        """What a timeline is built from, of those rows alone that can come to be shown; None where partitions cannot be told apart by their hashes.

        As many rows as end or are retracted can make room: behind the first offset + limit + changes, no row is ever shown.
        """
        both = pl.concat([expiring, new.select(expiring.columns)])
        groups = group_rows(both.select(self._keys), self._keys)
        hashes = group_hashes(groups.keys, self._keys)
        changes = np.bincount(groups.codes, np.abs(both["n"].to_numpy()), groups.count).astype(np.int64)
        need = changes + min(self.node.offset + self.node.limit, 1 << 40)
        found = shelf.ladder.stretch(hashes, np.zeros_like(need), need)
        worst = np.full(groups.count, 2**63 - 1)
        cut = found.above > 0
        worst[cut] = found.codes[found.offsets[1:][cut] - 1]
        group = np.repeat(np.arange(groups.count, dtype=np.int32), np.diff(found.offsets))
        values = of_codes(
            ~found.codes if self.node.keys[0].descending else found.codes, both.schema[self._first]
        )
        wanted = gather(groups.keys, group).with_columns(values.alias(self._first))
        rows = shelf.rows.find(wanted)
        place = groups.locate(rows)
        rows, place = rows.filter(place >= 0), place[place >= 0]
        if len(np.unique(hashes)) < len(hashes) or not _same_counts(
            group, found.codes, found.counts, place, self._codes(rows), rows["n"].to_numpy()
        ):
            return None
        shown = self._codes(both) <= worst[groups.codes]
        ending = expiring.filter(shown[: expiring.height])
        starting = new.filter(shown[expiring.height :])
        # What ends is among the rows that were found: there it must not count twice.
        before = pl.concat([rows, ending.select(rows.columns).with_columns(-pl.col("n"))])
        before = before.with_columns(te=pl.lit(MAX, pl.Int64)).select(expiring.columns)
        return ending, ending.height, [before], starting

    def _orders(self) -> tuple[Order, ...]:
        """The sort keys, then every other column: the order of rows has no ties."""
        orders: dict[int, Order] = {}
        for key in self.node.keys:
            orders.setdefault(key.column, Order(f"c{key.column}", key.descending, not key.nulls_first))
        for i in range(len(self.node.schema)):
            orders.setdefault(i, Order(f"c{i}"))
        return tuple(orders.values())


def _same_counts(groups: Ids, codes: Ints, counts: Ints, places: Ids, found: Ints, n: Ints) -> bool:
    """Whether rows, by partition and code, are just as many as were counted."""
    told = pl.DataFrame({"g": groups, "c": codes, "told": counts})
    rows = pl.DataFrame({"g": places, "c": found, "n": n}).group_by("g", "c").agg(pl.col("n").sum())
    both = told.join(rows.filter(pl.col("n") != 0), on=["g", "c"], how="full")
    return bool(both["told"].eq_missing(both["n"]).all())


@compiled_for_many
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


@compiled_for_many
def _below(tree: Ints, first: int, i: int) -> int:
    """How many valid values have a number below `first + i`."""
    total = 0
    while i > 0:
        total += tree[first + i - 1]
        i -= i & -i
    return total
