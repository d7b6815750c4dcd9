"""Operators on multiplicities: per payload, walk the endpoint events in time order and emit what changed.

With n and m the multiplicities of a payload in the left and the right input, each operator is one function
f(n, m), applied at every instant (SPEC section 3). Which rows are equal is decided by all columns; NULL
equals NULL here, as in SQL's set operations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from tidegate.kernels.rows import (
    Frame,
    Layout,
    State,
    Table,
    columns,
    consolidate,
    empty,
    payload_types,
    released,
    replace_latest,
    table,
)  # fmt: skip
from tidegate.time import MAX
from tidegate.types import Schema

Multiplicity = Callable[[pl.Expr, pl.Expr], pl.Expr]

MULTIPLICITIES: Mapping[str, Multiplicity] = {
    "all": lambda n, m: n,
    "distinct": lambda n, m: (n > 0).cast(pl.Int64),
    "intersect all": lambda n, m: pl.when(n < m).then(n).otherwise(m),
    "intersect": lambda n, m: ((n > 0) & (m > 0)).cast(pl.Int64),
    "except all": lambda n, m: pl.when(n > m).then(n - m).otherwise(0),
    "except": lambda n, m: ((n > 0) & (m == 0)).cast(pl.Int64),
    "semi": lambda n, m: pl.when(m > 0).then(n).otherwise(0),
    "anti": lambda n, m: pl.when(m == 0).then(n).otherwise(0),
}
"""f(n, m) by name: what a payload's multiplicity in the result is."""


def endpoint_events(chunks: Sequence[Frame], keys: Sequence[str]) -> Frame:
    """The rows of the inputs as jumps: columns keys, `at`, and per input `d0`, `d1`, … (n at ts, -n at te)."""
    parts = []
    for i, chunk in enumerate(chunks):
        jumps = [
            pl.col("n").alias(f"d{j}") if i == j else pl.lit(0, dtype=pl.Int64).alias(f"d{j}")
            for j in range(len(chunks))
        ]
        ends = chunk.filter(pl.col("te") < MAX)
        parts.append(chunk.select(*keys, pl.col("ts").alias("at"), *jumps))
        parts.append(ends.select(*keys, pl.col("te").alias("at"), *jumps).with_columns(-pl.col(f"d{i}")))
    return pl.concat(parts)


def net(rows: Frame, payload: Sequence[str]) -> Frame:
    """The same snapshots in interval form: of each payload, disjoint rows with their multiplicity.

    >>> net(pl.DataFrame({"c0": [7, 7], "ts": [0, 5], "te": [MAX, MAX], "n": [1, -1]}), ["c0"]).rows()
    [(7, 0, 5, 1)]
    """
    keys = list(payload) or ["unit"]
    keyed = rows if payload else rows.with_columns(unit=pl.lit(0, dtype=pl.UInt32))
    jumps = endpoint_events([keyed], keys).with_columns(d1=pl.lit(0, dtype=pl.Int64))
    none = empty({k: keyed.schema[k] for k in keys}, "left", "right", "n")
    return sweep(none, jumps, keys, lambda n, m: n)[2].select(*payload, "ts", "te", "n")


def numbered(frame: Frame, keys: Sequence[str]) -> tuple[Frame, Frame]:
    """The distinct keys, numbered by `g`, and the frame with that number instead of the keys.

    >>> groups, rows = numbered(pl.DataFrame({"c0": ["a", "a", None], "at": [1, 2, 3]}), ["c0"])
    >>> groups.height, rows.columns
    (2, ['g', 'at'])
    """
    groups = frame.select(keys).unique().with_row_index("g")
    rows = frame.join(groups, on=list(keys), how="left", nulls_equal=True)
    return groups, rows.select("g", pl.all().exclude(["g", *keys]))


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
        pending = state["pending"].rows
        waiting, kept = released(pending, upto)
        later = _ends_after(sides, keys, upto)
        jumps = [endpoint_events(sides, keys).filter(pl.col("at") < upto)]
        if len(sides) == 1:
            jumps = [jumps[0].with_columns(d1=pl.lit(0, dtype=pl.Int64))]
        jumps.append(
            waiting.select(
                *keys,
                (pl.col("te") - 1).alias("at"),
                (pl.col("n") * (1 - pl.col("side"))).alias("d0"),
                (pl.col("n") * pl.col("side")).alias("d1"),
            )
        )
        current, delta, out = sweep(
            state["current"].rows, pl.concat(jumps), keys, MULTIPLICITIES[self.operation]
        )
        rest = pl.concat([kept, later])
        if rest.n_chunks() > 16:
            rest = rest.rechunk()
        return (
            {"current": Table(current, delta), "pending": Table(rest, later)},
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
    current: Frame, jumps: Frame, keys: Sequence[str], result: Multiplicity
) -> tuple[Frame, Frame, Frame]:
    """One epoch: the new multiplicities, those that changed, and the rows of the result.

    Equal neighbours coalesce; of the changes c1 < c2 < … of a payload the old row is closed at c1, the
    segments between are closed, and the last stays open.
    """
    names = list(keys)
    if jumps.is_empty():
        return current, current.clear(), empty({k: current.schema[k] for k in names}, "ts", "te", "n")
    groups, rows = numbered(jumps, names)
    before = groups.join(current, on=names, how="left", nulls_equal=True).select(
        "g", l0=pl.col("left").fill_null(0), r0=pl.col("right").fill_null(0)
    )
    steps = (
        rows.sort("g", "at")
        # Sorted runs of equal (g, at) are one instant: only their net effect is visible.
        .with_columns(L0=pl.col("d0").cum_sum(), R0=pl.col("d1").cum_sum())
        .filter((pl.col("g") != pl.col("g").shift(-1)).fill_null(True) | (pl.col("at") != pl.col("at").shift(-1)))
    )
    # Sums run over all groups; a group's own sum starts where the one before it ended.
    first = (pl.col("g") != pl.col("g").shift(1)).fill_null(True)
    base_l = pl.when(first).then(pl.col("L0").shift(1, fill_value=0)).forward_fill()
    base_r = pl.when(first).then(pl.col("R0").shift(1, fill_value=0)).forward_fill()
    steps = (
        steps.with_columns(left=pl.col("L0") - base_l, right=pl.col("R0") - base_r, first=first)
        .join(before, on="g", how="left", maintain_order="left")
        .with_columns(pl.col("left") + pl.col("l0"), pl.col("right") + pl.col("r0"))
        .with_columns(
            v=result(pl.col("left"), pl.col("right")),
            was=result(pl.col("l0"), pl.col("r0")),
            last=(pl.col("g") != pl.col("g").shift(-1)).fill_null(True),
        )
        .with_columns(was=pl.when("first").then("was").otherwise(pl.col("v").shift(1)))
    )
    final = steps.filter("last").select("g", "left", "right")
    changed = final.join(groups, on="g").select(
        *names, "left", "right", n=((pl.col("left") != 0) | (pl.col("right") != 0)).cast(pl.Int64)
    )
    moves = steps.filter(pl.col("v") != pl.col("was")).select("g", "at", "v", "was")
    first = (pl.col("g") != pl.col("g").shift(1)).fill_null(True)
    same_next = (pl.col("g") == pl.col("g").shift(-1)).fill_null(False)
    moves = moves.with_columns(
        te=pl.when(same_next).then(pl.col("at").shift(-1)).otherwise(MAX), first=first
    )
    closing = moves.filter(pl.col("first") & (pl.col("was") != 0)).select(
        "g", ts="at", te=pl.lit(MAX, dtype=pl.Int64), n=-pl.col("was")
    )
    opening = moves.filter(pl.col("v") != 0).select("g", ts="at", te="te", n="v")
    out = pl.concat([closing, opening]).join(groups, on="g").select(*names, "ts", "te", "n")
    return replace_latest(current, changed, names), changed, out
