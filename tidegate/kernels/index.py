"""State tables that are probed by key: an epoch costs what it looks for and changes, not what there is.

An index holds a table's log in runs of falling size. A lookup is a binary search for hashes in each run; a change is one
more run. A run that has grown to half of the one before it is merged into that, so each row is copied a few times
in its life and there are never more than about log2(rows) runs. The index is a value: a step that fails leaves the old one whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl

from tidegate.kernels.rows import Frame, Table, accumulate
from tidegate.time import MAX, MIN

Hashes = npt.NDArray[np.uint64]
Places = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Run:
    """Rows with their hashes in order; sorted when somebody first looks for something."""

    rows: Frame
    keys: tuple[str, ...]

    @cached_property
    def _order(self) -> Places:
        return np.argsort(self._hashes, kind="stable")

    @cached_property
    def _hashes(self) -> Hashes:
        return hashes(self.rows, self.keys)

    @cached_property
    def _sorted(self) -> Hashes:
        return self._hashes[self._order]

    @cached_property
    def last(self) -> int:
        """The greatest end of a row; MAX where rows have none."""
        if "te" not in self.rows.columns:
            return MAX
        found = self.rows["te"].max()
        return found if isinstance(found, int) else MIN

    @cached_property
    def quarter(self) -> int:
        """The instant at which a quarter of the rows has ended."""
        if "te" not in self.rows.columns or not self.rows.height:
            return MAX
        ends = self.rows["te"].to_numpy()
        return int(np.partition(ends, len(ends) // 4)[len(ends) // 4])

    def lasting(self, upto: int) -> Run:
        """The same without rows that have ended, once they are a quarter of all: so three rows are copied at most for each one that goes."""
        return self if self.quarter > upto else Run(self.rows.filter(pl.col("te") > upto), self.keys)

    def find(self, wanted: Hashes) -> Frame:
        """The rows with one of these hashes, which are all different."""
        low = np.searchsorted(self._sorted, wanted, "left")
        many = np.searchsorted(self._sorted, wanted, "right") - low
        first = np.repeat(low - (np.cumsum(many) - many), many)
        return self.rows[self._order[first + np.arange(len(first))]]


def hashes(rows: Frame, keys: Sequence[str]) -> Hashes:
    """A number per row, equal where the keys are equal."""
    return rows.select(keys).hash_rows(seed=0).to_numpy()


Merge = Callable[[Frame, Frame, bool], Frame]
"""Makes one run of an older and a newer one; the third argument says whether there is none before them."""


@dataclass(frozen=True)
class Index:
    """A log of rows, oldest first, that can be asked by key.

    >>> index = Index(("c0",)).added(pl.DataFrame({"c0": [1, 2, 4], "n": [1, 1, 1]}), latest(["c0"]))
    >>> index = index.added(pl.DataFrame({"c0": [2], "n": [0]}), latest(["c0"]))
    >>> index.find(pl.DataFrame({"c0": [2, 3]})).rows()
    [(2, 1), (2, 0)]
    """

    keys: tuple[str, ...]
    runs: tuple[Run, ...] = ()

    @property
    def rows(self) -> Frame:
        """The whole log: what became of a row stands after it."""
        return pl.concat([r.rows for r in self.runs])

    def find(self, wanted: Frame) -> Frame:
        """All rows with a key of these, oldest first; perhaps a few more."""
        if all(r.rows.is_empty() for r in self.runs):
            return self.runs[0].rows
        filled = [r for r in self.runs if r.rows.height]
        if not filled:
            return self.runs[0].rows
        asked = np.unique(hashes(wanted, self.keys))
        return pl.concat([r.find(asked) for r in filled])

    def added(self, rows: Frame, merge: Merge) -> Index:
        """The log with more rows at its end."""
        runs = [*(r for r in self.runs if r.rows.height), Run(rows, self.keys)]
        while len(runs) > 1 and 2 * runs[-1].rows.height >= runs[-2].rows.height:
            merged = merge(runs[-2].rows, runs[-1].rows, len(runs) == 2)
            runs[-2:] = [Run(merged.rechunk(), self.keys)]
        return Index(self.keys, tuple(runs))

    def expired(self, upto: int) -> Index:
        """Of the rows of each run about a quarter at most have ended by `upto`; the oldest stays, empty if need be."""
        kept = [r.lasting(upto) for r in self.runs if r.last > upto]
        if len(kept) == len(self.runs) and all(a is b for a, b in zip(kept, self.runs, strict=True)):
            return self
        return Index(self.keys, tuple(kept) or (Run(self.runs[0].rows.clear(), self.keys),))


def index_of(table: Table, keys: Sequence[str]) -> Index:
    """The index that came with a table, or one of its rows."""
    found = table.index
    return found if isinstance(found, Index) else Index(tuple(keys), (Run(table.rows, tuple(keys)),))


def indexed(index: Index, delta: Frame, merge: Merge) -> Table:
    """The table after a step that logged `delta`."""
    after = index.added(delta, merge) if delta.height else index
    return Table(after.rows, delta, after)


def latest(keys: Sequence[str]) -> Merge:
    """The last row of each key; one with n = 0 says that it is gone, which must be known while older rows are elsewhere."""

    def merge(older: Frame, newer: Frame, oldest: bool) -> Frame:
        last = pl.concat([older, newer]).unique(subset=list(keys), keep="last", maintain_order=True)
        return last.filter(pl.col("n") != 0) if oldest else last

    return merge


def summed(older: Frame, newer: Frame, oldest: bool) -> Frame:
    """Rows of opposite signs cancel out."""
    return accumulate(older, newer)


def in_force(index: Index, wanted: Frame) -> Frame:
    """Of a table of latest rows, those of the wanted keys; perhaps a few more."""
    found = index.find(wanted)
    return latest(index.keys)(found.clear(), found, True)
