"""Operators on multiplicities: per payload, walk the endpoint events in time order and emit what changed.

With n and m the multiplicities of a payload in the left and the right input, each operator is one function
f(n, m), applied at every instant (SPEC section 3). Which rows are equal is decided by all columns; NULL
equals NULL here, as in SQL's set operations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import polars as pl

from tidegate.kernels import sweep_walk
from tidegate.kernels.index import in_force, index_of, indexed, latest
from tidegate.kernels.rows import (
    Frame,
    Layout,
    State,
    Table,
    columns,
    consolidate,
    empty,
    equijoin,
    joined,
    looked_up,
    payload_types,
    released,
    table,
)  # fmt: skip
from tidegate.kernels.sweep_walk import Ints
from tidegate.time import MAX
from tidegate.types import Schema

OPERATIONS: Mapping[str, int] = {
    "all": sweep_walk.ALL,
    "distinct": sweep_walk.DISTINCT,
    "intersect all": sweep_walk.INTERSECT_ALL,
    "intersect": sweep_walk.INTERSECT,
    "except all": sweep_walk.EXCEPT_ALL,
    "except": sweep_walk.EXCEPT,
    "semi": sweep_walk.SEMI,
    "anti": sweep_walk.ANTI,
}
"""f(n, m) by name: see `sweep_walk.multiplicity`."""


def net(rows: Frame, payload: Sequence[str]) -> Frame:
    """The same snapshots in interval form: of each payload, disjoint rows with their multiplicity.

    >>> net(pl.DataFrame({"c0": [7, 7], "ts": [0, 5], "te": [MAX, MAX], "n": [1, -1]}), ["c0"]).rows()
    [(7, 0, 5, 1)]
    """
    keys = list(payload) or ["unit"]
    keyed = rows if payload else rows.with_columns(unit=pl.lit(0, dtype=pl.UInt32))
    types = {k: keyed.schema[k] for k in keys}
    current, waiting = empty(types, "left", "right", "n"), empty(types, "te", "side", "n")
    return sweep(lambda _: current, waiting, [keyed], keys, "all", MAX)[1].select(*payload, "ts", "te", "n")


@dataclass(frozen=True)
class SweepKernel:
    """Multiplicity by multiplicity: `snapshot(result, t)[e] = f(snapshot(left, t)[e], snapshot(right, t)[e])`.

    State: `current` holds the multiplicities of every payload that is valid at W in an input; `pending` holds the
    jumps that come later, each dropped once it has happened.

    >>> from tidegate.types import INT, Field
    >>> kernel = SweepKernel("distinct", (Field("a", INT),))
    >>> rows = pl.DataFrame({"c0": [7, 7], "ts": [0, 2], "te": [5, 9], "n": [1, 1]}).cast({"c0": pl.Int32})
    >>> kernel.step(kernel.initial(), [rows], MAX)[1].rows()
    [(7, 0, 9, 1)]
    """

    operation: str
    schema: Schema
    layout: Mapping[str, Layout] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        keys = tuple(columns(len(self.schema)))
        # Without payload columns all rows are equal: a constant keeps `current` a keyed table.
        layout = {"current": Layout(keys or ("unit",), keys), "pending": Layout((), keys)}
        object.__setattr__(self, "layout", layout)

    def initial(self) -> State:
        types = payload_types(self.schema) or {"unit": pl.UInt32()}
        return {
            "current": table(empty(types, "left", "right", "n")),
            "pending": table(empty(types, "te", "side", "n")),
        }

    def step(self, state: State, chunks: Sequence[Frame], upto: int) -> tuple[State, Frame]:
        keys = columns(len(self.schema)) or ["unit"]
        if not self.schema:
            chunks = [c.with_columns(unit=pl.lit(0, dtype=pl.UInt32)) for c in chunks]
        sides = [c.select(*keys, "ts", "te", "n") for c in chunks]
        waiting, kept = released(state["pending"].rows, upto)
        later = _ends_after(sides, keys, upto)
        current = index_of(state["current"], keys)
        delta, out = sweep(partial(in_force, current), waiting, sides, keys, self.operation, upto)
        return (
            {"current": indexed(current, delta, latest(keys)), "pending": Table(joined(kept, later), later)},
            out.select(*columns(len(self.schema)), "ts", "te", "n"),
        )


def _ends_after(sides: Sequence[Frame], keys: Sequence[str], upto: int) -> Frame:
    """The ends that are known but not reached: each waits with `te` = its instant + 1 (see `released`)."""
    parts = [
        side.filter((pl.col("te") >= upto) & (pl.col("te") < MAX)).select(
            *keys, pl.col("te") + 1, pl.lit(i, dtype=pl.Int64).alias("side"), -pl.col("n")
        )
        for i, side in enumerate(sides)
    ]
    return consolidate(pl.concat(parts))


def sweep(
    current: Callable[[Frame], Frame],
    waiting: Frame,
    sides: Sequence[Frame],
    keys: Sequence[str],
    operation: str,
    upto: int,
) -> tuple[Frame, Frame]:
    """One epoch: the new multiplicities of the touched payloads, and the rows of the result.

    `current` gives the multiplicities of some payloads before. Equal neighbours coalesce; of the changes c1 < c2 < … of a payload the old row is closed at c1, the
    segments between are closed, and the last stays open.
    """
    names = list(keys)
    if operation == "distinct" and waiting.is_empty() and _only_grows(sides[0]):
        return _grown(current, sides[0], names)
    rows = pl.concat([waiting.select(names), *(side.select(names) for side in sides)])
    if rows.is_empty():
        types = {k: rows.schema[k] for k in names}
        return empty(types, "left", "right", "n"), empty(types, "ts", "te", "n")
    groups = rows.unique().with_row_index("g")
    codes = looked_up(rows, groups, names)["g"]
    before = equijoin(groups, current(groups), names, "left")
    n, m = (before[c].fill_null(0).to_numpy().copy() for c in ("left", "right"))
    jumps = _jumps(waiting, sides, codes.to_numpy().astype(np.int64), upto)
    group, at, was, now = sweep_walk.walk(*jumps, n, m, OPERATIONS[operation])
    touched = groups.select(names)
    changed = touched.with_columns(
        left=pl.Series(n), right=pl.Series(m), n=pl.Series(((n != 0) | (m != 0)).astype(np.int64))
    )
    return changed, _segments(touched, group, at, was, now)


def _only_grows(rows: Frame) -> bool:
    """Whether all rows come to stay: none has an end, none takes another back."""
    return rows.height > 0 and bool((rows["n"] > 0).all()) and bool((rows["te"] == MAX).all())


def _grown(current: Callable[[Frame], Frame], rows: Frame, names: list[str]) -> tuple[Frame, Frame]:
    """`sweep` of a distinct where rows only come: of each payload that was not there, the first one is shown."""
    came = rows.group_by(names).agg(pl.col("ts").min(), pl.col("n").sum().alias("more"))
    after = equijoin(came, current(came), names, "left").with_columns(
        pl.col("left").fill_null(0), pl.col("right").fill_null(0)
    )
    shown = after.filter(pl.col("left") == 0).select(
        *names, "ts", te=pl.lit(MAX, dtype=pl.Int64), n=pl.lit(1, dtype=pl.Int64)
    )
    changed = after.select(
        *names, left=pl.col("left") + pl.col("more"), right="right", n=pl.lit(1, dtype=pl.Int64)
    )
    return changed, shown


def _jumps(waiting: Frame, sides: Sequence[Frame], codes: Ints, upto: int) -> tuple[Ints, Ints, Ints, Ints]:
    """Group, instant, and change of the left and of the right multiplicity, of all jumps before `upto`."""
    size = waiting.height
    change, right = waiting["n"].to_numpy(), waiting["side"].to_numpy()
    parts = [(codes[:size], waiting["te"].to_numpy() - 1, change * (1 - right), change * right)]
    for i, side in enumerate(sides):
        own = codes[size : size + side.height]
        size += side.height
        end, n = side["te"].to_numpy(), side["n"].to_numpy()
        ended = end < upto
        none = np.zeros(side.height, np.int64)
        parts.append((own, side["ts"].to_numpy(), n if i == 0 else none, none if i == 0 else n))
        n, none = -n[ended], none[ended]
        parts.append((own[ended], end[ended], n if i == 0 else none, none if i == 0 else n))
    group, at, left, right = (np.concatenate(p) for p in zip(*parts, strict=True))
    return group, at, left, right


def _segments(payloads: Frame, group: Ints, at: Ints, was: Ints, now: Ints) -> Frame:
    """The rows of the result: what is closed, and what is open from each change to the next of its payload."""
    if not len(group):
        return empty(dict(payloads.schema), "ts", "te", "n")
    same = group[1:] == group[:-1]
    first = np.concatenate([[True], ~same])
    until = np.concatenate([np.where(same, at[1:], MAX), [MAX]])
    closed, opened = first & (was != 0), now != 0
    ends = np.full(int(closed.sum()), MAX, np.int64)
    return payloads[np.concatenate([group[closed], group[opened]])].with_columns(
        ts=pl.Series(np.concatenate([at[closed], at[opened]])),
        te=pl.Series(np.concatenate([ends, until[opened]])),
        n=pl.Series(np.concatenate([-was[closed], now[opened]])),
    )
