"""Ordered multisets by group that last from step to step: what stands around a position costs a logarithm, whatever else there is.

A ladder counts how often each value is valid in each group. Values are whole numbers in their order, groups are hashes; whoever asks sees to
it that no two groups share one. It holds a few runs of falling size, each in order of group and value; the count of a value is the sum
over the runs, so a change is an entry more in the smallest, and a run that has grown to an eighth of the one before is merged into that.
Runs are never changed: a step that fails leaves the ladder whole.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from tidegate.kernels.machine_code import compiled_for_many
from tidegate.kernels.sweep_groups import Ints

RUNS = 4
"""How many runs there are: the smallest holds about a 500th of the entries."""

GROWTH = 8
SCANNED = 8
"""As few entries of a run are looked at one by one."""

Each = tuple[Ints, Ints, Ints, Ints]
"""An array of each run."""


@dataclass(frozen=True)
class Run:
    """Entries in order of group and value, all different; `sums[i]` counts the values of those before the i-th."""

    groups: Ints
    codes: Ints
    sums: Ints

    def __len__(self) -> int:
        return len(self.codes)

    def merged(self, other: Run) -> Run:
        if not len(self) or not len(other):
            return self if len(self) else other
        return Run(*_merged(self.groups, self.codes, self.sums, other.groups, other.codes, other.sums))


def _run(groups: Ints, codes: Ints, n: Ints) -> Run:
    rows = pl.DataFrame({"group": groups, "code": codes, "n": n}).sort("group", "code")
    in_order = [rows[c].to_numpy().copy() for c in rows.columns]
    return Run(*_consolidated(*in_order))


NOTHING = Run(np.empty(0, np.int64), np.empty(0, np.int64), np.zeros(1, np.int64))


@dataclass(frozen=True)
class Stretch:
    """A part of each group's values in their order: group i has the entries `offsets[i]` … `offsets[i + 1] - 1` (value and how often),
    and so many values before and behind them."""

    offsets: Ints
    codes: Ints
    counts: Ints
    below: Ints
    above: Ints


@dataclass(frozen=True)
class Ladder:
    """How often each value is valid in each group.

    >>> ladder = Ladder.of(np.array([7, 7, 7, 8]), np.array([30, 10, 20, 5]), np.array([1, 2, 1, 1]))
    >>> ladder = ladder.added(np.array([7]), np.array([20]), np.array([-1]))
    >>> ladder.totals(np.array([7, 9])).tolist(), ladder.counts(np.array([7, 7]), np.array([10, 20])).tolist()
    ([3, 0], [2, 0])
    >>> near = ladder.stretch(np.array([7]), np.array([2]), np.array([3]))
    >>> near.codes.tolist(), near.below.tolist(), near.above.tolist()
    ([30], [2], [0])
    """

    runs: tuple[Run, ...]

    @classmethod
    def of(cls, groups: Ints, codes: Ints, n: Ints) -> Ladder:
        return cls((_run(groups, codes, n), *[NOTHING] * (RUNS - 1)))

    def added(self, groups: Ints, codes: Ints, n: Ints) -> Ladder:
        """With more values, or fewer where n is negative."""
        runs = [*self.runs[:-1], self.runs[-1].merged(_run(groups, codes, n))]
        for i in range(RUNS - 1, 0, -1):
            if GROWTH * len(runs[i]) > len(runs[i - 1]):
                runs[i - 1], runs[i] = runs[i - 1].merged(runs[i]), NOTHING
        return Ladder(tuple(runs))

    def totals(self, groups: Ints) -> Ints:
        """How many values each group has."""
        low, high = self._places(groups)
        each = [r.sums[h] - r.sums[b] for r, b, h in zip(self.runs, low, high, strict=True)]
        total: Ints = np.sum(each, axis=0)
        return total

    def counts(self, groups: Ints, codes: Ints) -> Ints:
        """How often values are valid."""
        return _counts(self._codes, self._sums, *self._places(groups), codes)

    def stretch(self, groups: Ints, first: Ints, last: Ints) -> Stretch:
        """Each group's values at the positions `first` … `last - 1` of their order, which begins at 0."""
        return Stretch(*_stretch(self._codes, self._sums, *self._places(groups), first, last))

    @property
    def _codes(self) -> Each:
        return tuple(r.codes for r in self.runs)  # type: ignore[return-value]

    @property
    def _sums(self) -> Each:
        return tuple(r.sums for r in self.runs)  # type: ignore[return-value]

    def _places(self, groups: Ints) -> tuple[Ints, Ints]:
        """Where the entries of groups begin and end in each run."""
        low = np.stack([np.searchsorted(r.groups, groups, "left") for r in self.runs])
        return low, np.stack([np.searchsorted(r.groups, groups, "right") for r in self.runs])


@compiled_for_many
def _consolidated(groups: Ints, codes: Ints, n: Ints) -> tuple[Ints, Ints, Ints]:
    """Entries in order, each once, without those that count nothing."""
    sums = np.zeros(len(n) + 1, np.int64)
    k = 0
    i = 0
    while i < len(n):
        total = n[i]
        j = i + 1
        while j < len(n) and groups[j] == groups[i] and codes[j] == codes[i]:
            total += n[j]
            j += 1
        if total != 0:
            groups[k] = groups[i]
            codes[k] = codes[i]
            sums[k + 1] = sums[k] + total
            k += 1
        i = j
    return groups[:k].copy(), codes[:k].copy(), sums[: k + 1].copy()


@compiled_for_many
def _merged(
    groups: Ints, codes: Ints, sums: Ints, other_groups: Ints, other_codes: Ints, other_sums: Ints
) -> tuple[Ints, Ints, Ints]:
    most = len(codes) + len(other_codes)
    out_groups = np.empty(most, np.int64)
    out_codes = np.empty(most, np.int64)
    out_sums = np.zeros(most + 1, np.int64)
    i = 0
    j = 0
    k = 0
    while i < len(codes) or j < len(other_codes):
        own = j == len(other_codes) or (
            i < len(codes)
            and (groups[i] < other_groups[j] or (groups[i] == other_groups[j] and codes[i] <= other_codes[j]))
        )
        both = own and i < len(codes) and j < len(other_codes)
        both = both and groups[i] == other_groups[j] and codes[i] == other_codes[j]
        n = 0
        if own:
            out_groups[k] = groups[i]
            out_codes[k] = codes[i]
            n = sums[i + 1] - sums[i]
            i += 1
        else:
            out_groups[k] = other_groups[j]
            out_codes[k] = other_codes[j]
        if both or not own:
            n += other_sums[j + 1] - other_sums[j]
            j += 1
        if n != 0:
            out_sums[k + 1] = out_sums[k] + n
            k += 1
    return out_groups[:k].copy(), out_codes[:k].copy(), out_sums[: k + 1].copy()


@compiled_for_many
def _lower(codes: Ints, low: int, high: int, code: int) -> int:
    """The first place at or after `low` that holds no less."""
    while low < high:
        middle = (low + high) // 2
        if codes[middle] < code:
            low = middle + 1
        else:
            high = middle
    return low


@compiled_for_many
def _counts(codes: Each, sums: Each, low: Ints, high: Ints, wanted: Ints) -> Ints:
    result = np.zeros(len(wanted), np.int64)
    for i in range(len(wanted)):
        for r in range(len(codes)):
            at = _lower(codes[r], low[r, i], high[r, i], wanted[i])
            if at < high[r, i] and codes[r][at] == wanted[i]:
                result[i] += sums[r][at + 1] - sums[r][at]
    return result


@compiled_for_many
def _begin(codes: Each, sums: Each, low: Ints, high: Ints, g: int, first: int, at: Ints) -> int:
    """Move `at` close before the value at a position of group g; how many values come before there."""
    end = np.empty(len(codes), np.int64)
    found = np.empty(len(codes), np.int64)
    for r in range(len(codes)):
        at[r] = low[r, g]
        end[r] = high[r, g]
    while True:
        widest = 0
        for r in range(1, len(codes)):
            if end[r] - at[r] > end[widest] - at[widest]:
                widest = r
        if end[widest] - at[widest] <= SCANNED:
            break
        pivot = codes[widest][(at[widest] + end[widest]) // 2]
        before = 0
        for r in range(len(codes)):
            found[r] = _lower(codes[r], at[r], end[r], pivot)
            before += sums[r][found[r]] - sums[r][low[r, g]]
        if before <= first:
            at[:] = found
        else:
            end[:] = found
    before = 0
    for r in range(len(codes)):
        before += sums[r][at[r]] - sums[r][low[r, g]]
    return before


@compiled_for_many
def _stretch(
    codes: Each, sums: Each, low: Ints, high: Ints, first: Ints, last: Ints
) -> tuple[Ints, Ints, Ints, Ints, Ints]:
    groups = len(first)
    offsets = np.zeros(groups + 1, np.int64)
    below = np.zeros(groups, np.int64)
    above = np.zeros(groups, np.int64)
    room = 0
    for g in range(groups):
        entries = 0
        for r in range(len(codes)):
            entries += high[r, g] - low[r, g]
        room += min(entries, max(1, last[g] - first[g]))
    out = np.empty(room, np.int64)
    counts = np.empty(room, np.int64)
    at = np.empty(len(codes), np.int64)
    k = 0
    for g in range(groups):
        total = 0
        for r in range(len(codes)):
            total += sums[r][high[r, g]] - sums[r][low[r, g]]
        position = _begin(codes, sums, low, high, g, first[g], at)
        below[g] = position
        while position < min(last[g], total):
            code = 2**63 - 1
            for r in range(len(codes)):
                if at[r] < high[r, g]:
                    code = min(code, codes[r][at[r]])
            many = 0
            for r in range(len(codes)):
                if at[r] < high[r, g] and codes[r][at[r]] == code:
                    many += sums[r][at[r] + 1] - sums[r][at[r]]
                    at[r] += 1
            position += many
            if position <= first[g]:
                below[g] = position
            elif many > 0:
                out[k] = code
                counts[k] = many
                k += 1
        offsets[g + 1] = k
        above[g] = total - position
    return offsets, out[:k].copy(), counts[:k].copy(), below, above
