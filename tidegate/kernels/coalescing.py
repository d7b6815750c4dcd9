"""Coalescing (PIPES 7.6): equal rows of which one begins where the other ends become one.

An aggregation says for every group what it shows from one change to the next. Where a projection above leaves out or rounds what has changed, neighbouring
rows are equal. They come group by group in the order of time, so it is enough to compare each row with the one before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from tidegate.kernels.machine_code import compiled_for_many
from tidegate.kernels.rows import Frame, State, columns
from tidegate.kernels.rowwise import Stateless
from tidegate.time import MAX
from tidegate.types import Schema

Ints = npt.NDArray[np.int64]

SAMPLE, PAYS = 4_096, 0.1
"""Of many rows so many are looked at; all are if at least this part of those goes on with the row before."""


@dataclass(frozen=True)
class CoalesceKernel(Stateless):
    """`snapshot(coalesce(S), t) = snapshot(S, t)`, with fewer rows: none of the rows that are given begins where the one before it, being equal, ends.

    `[a, b)` and `[b, c)` become `[a, c)`. A row that takes back what was open before the epoch, and an equal one that begins there, become one that takes
    it back later; if the new one is open, too, nothing has changed and nothing is said.

    >>> from tidegate.types import INT, Field
    >>> rows = pl.DataFrame({"c0": [7, 7, 7, 8, 8, 8], "ts": [3, 3, 5, 1, 4, 6], "te": [MAX, 5, MAX, 4, 6, MAX], "n": [-1, 1, 1, 1, 1, 1]})
    >>> CoalesceKernel((Field("a", INT),)).step({}, [rows], 9)[1].rows() == [(8, 1, MAX, 1)]
    True
    """

    schema: Schema

    def step(self, state: State, chunks: Sequence[Frame], upto: int) -> tuple[State, Frame]:
        (chunk,) = chunks
        names = columns(len(self.schema))
        if chunk.height < 2 or any(chunk.schema[name].is_nested() for name in names):
            return {}, chunk
        if (
            chunk.height > 4 * SAMPLE
            and _going_on(chunk.slice(chunk.height // 2, SAMPLE), names).mean() < PAYS
        ):
            return {}, chunk
        same = _going_on(chunk, names)
        if not same.any():
            return {}, chunk
        ts, te, n = (chunk[c].to_numpy() for c in ("ts", "te", "n"))
        rows, ts, te = _merged(same, ts, te, n, upto)
        return {}, chunk[rows].with_columns(ts=pl.Series(ts), te=pl.Series(te))


def _going_on(chunk: Frame, names: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Of each row, whether it goes on with what the one before it leaves."""
    ts, te, n = (chunk[c].to_numpy() for c in ("ts", "te", "n"))
    same = _meeting(ts, te, n)
    # Values of aggregates come last and differ most.
    for name in reversed(names):
        at = np.flatnonzero(same)
        values = chunk[name]
        same[at] = values.gather(at).eq_missing(values.gather(at - 1)).to_numpy()
    return same


def _meeting(ts: Ints, te: Ints, n: Ints) -> npt.NDArray[np.bool_]:
    """Of each row, whether it goes on with what the one before it leaves, if they are equal."""
    begins = np.where(n[:-1] > 0, (n[1:] == n[:-1]) & (ts[1:] == te[:-1]), False)
    renews = (n[:-1] < 0) & (n[1:] == -n[:-1]) & (te[:-1] == MAX) & (ts[1:] == ts[:-1])
    return np.concatenate([np.zeros(1, np.bool_), begins | renews])


@compiled_for_many
def _merged(
    same: npt.NDArray[np.bool_], ts: Ints, te: Ints, n: Ints, upto: int
) -> tuple[npt.NDArray[np.uint32], Ints, Ints]:
    """The first rows of all runs of rows that go on with each other, and when these begin and end."""
    rows = np.empty(len(ts), np.uint32)
    begins = np.empty(len(ts), np.int64)
    ends = np.empty(len(ts), np.int64)
    last = 2**63 - 1
    k = 0
    i = 0
    while i < len(ts):
        first = i
        while i + 1 < len(ts) and same[i + 1]:
            i += 1
        if n[first] > 0 or i == first:
            rows[k], begins[k], ends[k] = first, ts[first], te[i]
            k += 1
        elif te[i] < upto:
            # What was open before is taken back where the last of the rows that renewed it ends.
            rows[k], begins[k], ends[k] = first, te[i], last
            k += 1
        elif te[i] < last:
            # It ends after the epoch, in which nothing can be said of that yet.
            rows[k], begins[k], ends[k] = first, ts[first], last
            rows[k + 1], begins[k + 1], ends[k + 1] = first + 1, ts[first], te[i]
            k += 2
        i += 1
    return rows[:k], begins[:k], ends[:k]
