"""Between relations and streams: ISTREAM, DSTREAM (SPEC section 6), and the check of scalar sub-queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from tidegate.errors import Diagnostic
from tidegate.kernels.index import index_of, indexed
from tidegate.kernels.rows import (
    VALIDITY,
    Frame,
    Layout,
    State,
    Table,
    accumulate,
    columns,
    consolidate,
    empty,
    equijoin,
    joined,
    payload_types,
    released,
    table,
)
from tidegate.kernels.sweep import SweepKernel
from tidegate.kernels.sweep_groups import group_rows
from tidegate.time import MAX, MIN
from tidegate.types import Schema


def jumps(state: State, chunk: Frame, payload: Sequence[str], upto: int) -> tuple[State, Frame]:
    """What multiplicities change by before `upto`, as rows with `ts` and `n`. State: `pending`, the known ends to come."""
    chunk = chunk.select(*payload, "ts", "te", "n")
    ends = chunk.filter(pl.col("te") < MAX).select(*payload, pl.col("te") + 1, -pl.col("n"))
    now, later = released(ends, upto)
    due, rest = released(state["pending"].rows, upto)
    later = consolidate(later)
    past = pl.concat([now, due]).select(*payload, (pl.col("te") - 1).alias("ts"), "n")
    found = consolidate(pl.concat([chunk.select(*payload, "ts", "n"), past]))
    return {"pending": Table(joined(rest, later), later)}, found


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
        after, found = jumps(state, chunks[0], payload, upto)
        seen = found.filter(pl.col("n") * self.sign > 0)
        return after, seen.select(*payload, "ts", (pl.col("ts") + 1).alias("te"), pl.col("n") * self.sign)


@dataclass(frozen=True)
class SinceKernel:
    """Each row with the instant at which it came; of equal rows the first to come is the first to go.

    State: `pending`, the known ends to come; `open`, the rows in force with the tick `since` which they are.

    >>> from tidegate.types import INT, Field
    >>> kernel = SinceKernel((Field("a", INT),))
    >>> rows = pl.DataFrame({"c0": [7, 7], "ts": [0, 2], "te": [5, 9], "n": [1, 1]}).cast({"c0": pl.Int32})
    >>> kernel.step(kernel.initial(), [rows], MAX)[1].rows()
    [(7, 0, 0, 5, 1), (7, 2, 2, 9, 1)]
    """

    schema: Schema
    timestamps: bool = False
    width: int = 1
    layout: Mapping[str, Layout] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        by = tuple(columns(len(self.schema)))
        object.__setattr__(self, "layout", {"pending": Layout((), by), "open": Layout((), by)})

    def initial(self) -> State:
        types = payload_types(self.schema)
        return {"pending": table(empty(types, "te", "n")), "open": table(empty(types, "since", "n"))}

    def step(self, state: State, chunks: Sequence[Frame], upto: int) -> tuple[State, Frame]:
        payload = columns(len(self.schema))
        after, found = jumps(state, chunks[0], payload, upto)
        index = index_of(state["open"], payload)
        if found.is_empty():
            return {**after, "open": state["open"].settled}, self._named(
                empty(payload_types(self.schema), "since", *VALIDITY)
            )
        groups = group_rows(found, payload)
        known = consolidate(index.find(groups.keys))
        codes = [pl.Series("g", groups.locate(known)), pl.Series("g", groups.codes)]
        old = known.with_columns(codes[0], old=pl.lit(True)).filter(pl.col("g") >= 0)
        new = found.rename({"ts": "since"}).with_columns(codes[1], old=pl.lit(False))
        came = _each(pl.concat([old, new.filter(pl.col("n") > 0).select(old.columns)]), "since")
        went = _each(new.filter(pl.col("n") < 0).with_columns(-pl.col("n")), "since")
        went = went.select("g", "k", pl.col("since").alias("end"))
        rows = equijoin(came, went, ["g", "k"], "left")
        ended = pl.col("end").is_not_null()
        delta = pl.concat(
            [
                rows.filter(~pl.col("old") & ~ended).select(*payload, "since", n=pl.lit(1, dtype=pl.Int64)),
                rows.filter(pl.col("old") & ended).select(*payload, "since", n=pl.lit(-1, dtype=pl.Int64)),
            ]
        )
        out = rows.filter(~pl.col("old") | ended).select(
            *payload,
            "since",
            ts=pl.when("old").then("end").otherwise("since"),
            te=pl.when(pl.col("old") | ~ended).then(MAX).otherwise("end"),
            n=pl.when("old").then(-1).otherwise(1).cast(pl.Int64),
        )
        kept = indexed(index, consolidate(delta), lambda a, b, _: accumulate(a, b))
        return {**after, "open": kept}, self._named(out)

    def _named(self, rows: Frame) -> Frame:
        """The column TS: the instant, NULL for what was always there."""
        kind = pl.Datetime("us", "UTC") if self.timestamps else pl.Int64()
        at = pl.when(pl.col("since") != MIN).then(pl.col("since") // self.width).cast(kind)
        return rows.with_columns(at.alias(f"c{len(self.schema)}")).select(
            *columns(len(self.schema) + 1), *VALIDITY
        )


def _each(rows: Frame, by: str) -> Frame:
    """One row per unit of n, numbered (`k`) within its group in the given order."""
    rows = rows.sort("g", by)
    each = rows[np.repeat(np.arange(rows.height), rows["n"].to_numpy())]
    return each.with_columns(k=pl.int_range(pl.len()).over("g"))


@dataclass(frozen=True)
class SingleRowKernel:
    """The input itself; an error where more than one row of a partition is valid at an instant.

    State: that of a sweep over the partitions.
    """

    schema: Schema
    partition_by: tuple[int, ...] = ()
    position: tuple[int, int] = field(default=(0, 0), compare=False)

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
