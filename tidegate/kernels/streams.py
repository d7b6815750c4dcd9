"""Between relations and streams: ISTREAM, DSTREAM (SPEC section 6), and the check of scalar sub-queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from tidegate.errors import Diagnostic
from tidegate.kernels.rows import (
    Frame,
    Layout,
    State,
    Table,
    columns,
    consolidate,
    empty,
    joined,
    payload_types,
    released,
    table,
)
from tidegate.kernels.sweep import SweepKernel
from tidegate.time import MAX
from tidegate.types import Schema


@dataclass(frozen=True)
class ChangesKernel:
    """The insertions (`sign` = 1) or deletions (-1) of the input as instants: what one instant has more than the one before.

    `snapshot(istream(S), t) = snapshot(S, t) - snapshot(S, t - 1)`, as bags. State: `pending`, the known ends to come.

    >>> from tidegate.types import INT, Field
    >>> kernel = ChangesKernel((Field("a", INT),), -1)
    >>> rows = pl.DataFrame({"c0": [7], "ts": [0], "te": [5], "n": [1]}).cast({"c0": pl.Int32})
    >>> kernel.step(kernel.initial(), [rows], MAX)[1].rows()
    [(7, 5, 6, 1)]
    """

    schema: Schema
    sign: int
    layout: Mapping[str, Layout] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "layout", {"pending": Layout((), tuple(columns(len(self.schema))))})

    def initial(self) -> State:
        return {"pending": table(empty(payload_types(self.schema), "te", "n"))}

    def step(self, state: State, chunks: Sequence[Frame], upto: int) -> tuple[State, Frame]:
        payload = columns(len(self.schema))
        chunk = chunks[0].select(*payload, "ts", "te", "n")
        ends = chunk.filter(pl.col("te") < MAX).select(*payload, pl.col("te") + 1, -pl.col("n"))
        now, later = released(ends, upto)
        due, rest = released(state["pending"].rows, upto)
        later = consolidate(later)
        starts = chunk.select(*payload, (pl.col("ts") + 1).alias("te"), "n")
        jumps = consolidate(pl.concat([starts, now, due]))
        seen = jumps.filter(pl.col("n") * self.sign > 0)
        out = seen.select(*payload, (pl.col("te") - 1).alias("ts"), "te", pl.col("n") * self.sign)
        return {"pending": Table(joined(rest, later), later)}, out


@dataclass(frozen=True)
class SingleRowKernel:
    """The input itself; an error where more than one row of a partition is valid at an instant.

    State: that of a sweep over the partitions.
    """

    schema: Schema
    partition_by: tuple[int, ...] = ()
    position: tuple[int, int] = (0, 0)

    @property
    def _sweep(self) -> SweepKernel:
        return SweepKernel("all", tuple(self.schema[i] for i in self.partition_by))

    @property
    def layout(self) -> Mapping[str, Layout]:
        return self._sweep.layout

    def initial(self) -> State:
        return self._sweep.initial()

    def step(self, state: State, chunks: Sequence[Frame], upto: int) -> tuple[State, Frame]:
        keys = [pl.col(f"c{p}").alias(f"c{i}") for i, p in enumerate(self.partition_by)]
        after, counts = self._sweep.step(state, [chunks[0].select(*keys, "ts", "te", "n")], upto)
        if (counts["n"] > 1).any():
            at = counts.filter(pl.col("n") > 1)["ts"].min()
            error = Diagnostic(
                "SCALAR_SUBQUERY_ROWS",
                f"a sub-query used as a value has more than one row at instant {at!r}",
                help="aggregate it (MAX, MIN, …), or use IN, ANY or EXISTS",
            )
            if self.position != (0, 0):
                error.span = self.position
            raise error
        return after, chunks[0].select(*columns(len(self.schema)), "ts", "te", "n")
