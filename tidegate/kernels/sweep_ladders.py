"""Ladders in a sweep: the values from before a step that its answers can lie among, without a look at the rows that have them.

A step with c changes moves an answer by at most about c positions in the order of a group's values. So a sweep over the values around the old
answer, with all those before them taken as one and all those behind them as another, finds the same as one over all values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import polars as pl

from tidegate.kernels.index import hashes
from tidegate.kernels.ladder import Ladder
from tidegate.kernels.rows import Frame
from tidegate.kernels.sweep_groups import Flags, Ids, Ints, take
from tidegate.kernels.sweep_ranks import Numbers, Order, Universe, order_codes, rank_rows
from tidegate.kernels.sweep_timeline import Timeline

Valued = tuple[int, int | None]
"""A column, and a condition on the rows whose values in it count."""

Reach = Callable[[Ints, Ints], tuple[Ints, Ints]]
"""From each group's number of values before a step and a bound on its changes: the positions that answers can lie between."""


MANY = 20_000
FEW = 8


def ladders_pay(rows: int, changes: int) -> bool:
    """Whether it is cheaper to ask a ladder than to look at the rows of the groups that change."""
    return rows >= max(MANY, FEW * changes)


def least(k: int) -> Reach:
    """The k least values: as many as are removed can stand before them."""
    return lambda totals, changes: (np.zeros_like(totals), changes + k)


def greatest(k: int) -> Reach:
    return lambda totals, changes: (np.maximum(totals - changes - k, 0), totals)


def around(fraction: float) -> Reach:
    """The values next to the position (count - 1) * fraction, which itself moves with the count."""

    def reach(totals: Ints, changes: Ints) -> tuple[Ints, Ints]:
        middle = ((totals - 1) * fraction).astype(np.int64)
        return np.maximum(middle - 2 * changes - 2, 0), middle + 2 * changes + 3

    return reach


def counting(rows: Frame, required: Sequence[int], where: int | None) -> Flags:
    """The rows that count: no required column is NULL, and `where` is true."""
    use = np.ones(rows.height, np.bool_)
    for i in required:
        column = rows[f"c{i}"]
        if column.null_count():
            use &= column.is_not_null().to_numpy()
    if where is not None:
        use &= rows[f"c{where}"].fill_null(False).to_numpy()
    return use


def group_hashes(rows: Frame, keys: Sequence[str]) -> Ints:
    return hashes(rows, keys).view(np.int64)


@dataclass(frozen=True)
class Ladders:
    """A ladder per column and condition; in a step, with the hashes of the touched groups."""

    each: Mapping[Valued, Ladder]
    groups: Ints

    @classmethod
    def of(cls, wanted: Iterable[Valued], rows: Frame, keys: Sequence[str]) -> Ladders:
        groups, n = group_hashes(rows, keys), rows["n"].to_numpy()
        found = {}
        for argument, where in wanted:
            use = counting(rows, (argument,), where)
            found[argument, where] = Ladder.of(groups[use], order_codes(rows[f"c{argument}"])[use], n[use])
        return cls(found, groups[:0])

    @cached_property
    def collide(self) -> bool:
        """Whether two of the touched groups have the same hash."""
        return len(np.unique(self.groups)) < len(self.groups)

    def after(self, line: Timeline, upto: int) -> Ladders:
        """As the step leaves them: without what has ended, with what lasts."""
        signs = np.where(line.ends >= upto, 1, 0)
        signs[: line.before] = -1
        groups, n = self.groups[line.group_of_elements()], line.n * signs
        found = {}
        for (argument, where), ladder in self.each.items():
            use = counting(line.elements, (argument,), where) & (n != 0)
            codes = order_codes(line.elements[f"c{argument}"])
            found[argument, where] = ladder.added(groups[use], codes[use], n[use])
        return Ladders(found, self.groups[:0])

    def counted(self, line: Timeline, universe: Universe, argument: int, where: int | None) -> Universe:
        """Numbers of the values that change, with how often each was valid before."""
        ladder, example = self.each[argument, where], universe.example
        groups = self.groups[line.group_of_elements()[example]]
        codes = order_codes(line.elements[f"c{argument}"][example])
        return replace(universe, initial=ladder.counts(groups, codes))


def near(
    line: Timeline, ladders: Ladders, valued: Valued, codes: Ints, use: Flags, reach: Reach
) -> tuple[Numbers, Ints]:
    """Numbers of the values within reach and of those that change, one for all values before them, one for all behind; and their codes.

    `codes` are those of the elements, which all start or end in this step.
    """
    ladder, groups = ladders.each[valued], line.groups.count
    at = np.flatnonzero(use)
    group, values = take(line.group_of_elements(), at.astype(np.int32)), codes[at]
    # What is new may come and go.
    changes = np.bincount(group, np.abs(line.n[at]) * np.where(at < line.before, 1, 2), groups).astype(
        np.int64
    )
    found = ladder.stretch(ladders.groups, *reach(ladder.totals(ladders.groups), changes))
    sizes = np.diff(found.offsets)
    some = sizes > 0
    low, high = np.full(groups, -(2**63)), np.full(groups, 2**63 - 1)
    hidden_below, hidden_above = some & (found.below > 0), some & (found.above > 0)
    low[hidden_below] = found.codes[found.offsets[:-1][hidden_below]]
    high[hidden_above] = found.codes[found.offsets[1:][hidden_above] - 1]
    sides = np.where(values < low[group], 0, np.where(values > high[group], 2, 1))
    every = np.arange(groups)
    entries = [
        (3 * group.astype(np.int64) + sides, np.where(sides == 1, values, 0), np.zeros(len(at), np.int64)),
        (3 * np.repeat(every, sizes) + 1, found.codes, found.counts),
        (3 * every[hidden_below], np.zeros(hidden_below.sum(), np.int64), found.below[hidden_below]),
        (3 * every[hidden_above] + 2, np.zeros(hidden_above.sum(), np.int64), found.above[hidden_above]),
    ]
    places, numbers, counts = (np.concatenate(parts) for parts in zip(*entries, strict=True))
    rank, example = rank_rows(
        pl.DataFrame({"place": places, "code": numbers}), (Order("place"), Order("code"))
    )
    ranks: Ids = np.full(len(use), -1, np.int32)
    ranks[at] = rank[: len(at)]
    initial = np.bincount(rank, counts, len(example)).astype(np.int64)
    offsets = np.searchsorted(places[example], 3 * np.arange(groups + 1)).astype(np.int64)
    return Numbers(offsets, ranks, initial), numbers[example]
