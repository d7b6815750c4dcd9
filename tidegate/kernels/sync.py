"""Synchronization and NOW: the ends of validity move to points, or are clipped.

Both are linear in the rows, so signed rows need no care. Where points are arithmetic, both ends of a row are known at its birth;
where they are events, a row's appearance and disappearance wait for the first point that reaches them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl
from sqlglot import exp

from tidegate.algebra.now import bounds
from tidegate.algebra.points import Classes
from tidegate.kernels.endpoints import Holding, instant_of, widened
from tidegate.kernels.expressions import Functions, Scalar
from tidegate.kernels.rows import (
    Frame,
    Layout,
    State,
    Table,
    accumulate,
    columns,
    consolidate,
    empty,
    payload_types,
    released,
    table,
)
from tidegate.scalars.typing import infer
from tidegate.time import MAX, MIN
from tidegate.types import Schema

Ints = npt.NDArray[np.int64]


def next_ticks(classes: Classes, instants: pl.Series) -> pl.Series:
    """`Points.next_tick` on a column; MAX where no tick follows.

    >>> from tidegate.algebra.points import Ticks
    >>> next_ticks((Ticks(5), Ticks(4, 1)), pl.Series([3, 5, 6, MAX])).to_list() == [5, 5, 9, MAX]
    True
    """
    at: Ints = instants.to_numpy()
    result: Ints = np.full(len(at), MAX, np.int64)
    for c in classes:
        if c.predicates:
            distinct, places = np.unique(at, return_inverse=True)
            found = [MAX if t == MAX else c.next(int(t)) for t in distinct]
            one = np.array([MAX if t is None else t for t in found], np.int64)[places]
        else:
            start = np.maximum(at, c.first)
            fixed = (start == MIN) | (start > MAX - c.step)
            moving = np.where(fixed, 0, start)
            # the remainders first: a difference of far instants could overflow
            gap = (c.offset - moving % c.step) % c.step
            one = np.where(start == MIN, MIN, np.where(fixed, MAX, moving + gap))
            one = np.where(one > c.last, MAX, one)
        result = np.minimum(result, one)
    return pl.Series(result, dtype=pl.Int64)


@dataclass(frozen=True)
class SyncTicksKernel(Holding):
    """Both ends of each row move up to the next tick: `snapshot(sync(S), t) = snapshot(S, latest tick up to t)`.

    State: `held` are the rows that the next tick will show.

    >>> from tidegate.algebra.points import Ticks
    >>> from tidegate.types import INT, Field
    >>> kernel = SyncTicksKernel((Field("a", INT),), (Ticks(4),))
    >>> rows = pl.DataFrame({"c0": [7, 8], "ts": [1, 5], "te": [6, 7], "n": [1, 1]}).cast({"c0": pl.Int32})
    >>> kernel.step(kernel.initial(), [rows], 9)[1].rows()
    [(7, 4, 8, 1)]
    """

    ticks: Classes
    width: int = 1

    def moved(self, rows: Frame) -> Frame:
        return rows.with_columns(self._moved(rows, c) for c in ("ts", "te"))

    def _moved(self, rows: Frame, column: str) -> pl.Series:
        if self.width == 1:
            return next_ticks(self.ticks, rows[column]).alias(column)
        instants = rows.select(instant_of(pl.col(column), self.width))[column]
        point = widened(pl.lit(next_ticks(self.ticks, instants)), self.width)
        return rows.select(pl.max_horizontal(column, point).alias(column))[column]


@dataclass(frozen=True)
class PointsKernel:
    """The points of a stream of events: the instants p at which a row that says p is valid, as rows (p, [p, p + 1), 1).

    A row is a vote of weight n for what it says, if it is valid then. `within`: only points that are ticks of these.
    State: `ahead`, votes for instants to come.
    """

    schema: Schema
    column: int
    within: Classes | None = None
    layout: Mapping[str, Layout] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "layout", {"ahead": Layout()})

    def initial(self) -> State:
        return {"ahead": table(empty({}, "te", "n"))}

    def step(self, state: State, chunks: Sequence[Frame], upto: int) -> tuple[State, Frame]:
        (chunk,) = chunks
        said = chunk.select(pl.col(f"c{self.column}").cast(pl.Int64).alias("p"), "ts", "te", "n")
        votes = said.filter((pl.col("ts") <= pl.col("p")) & (pl.col("p") < pl.col("te")))
        votes = consolidate(votes.select((pl.col("p") + 1).alias("te"), "n"))
        now, later = released(votes, upto)
        due, rest = released(state["ahead"].rows, upto)
        points = consolidate(pl.concat([now, due])).filter(pl.col("n") > 0).select(p=pl.col("te") - 1)
        if self.within is not None:
            points = points.filter(next_ticks(self.within, points["p"]) == points["p"])
        out = points.select(
            pl.col("p").alias("c0"), pl.col("p").alias("ts"), (pl.col("p") + 1).alias("te"),
            pl.lit(1, pl.Int64).alias("n"),
        )  # fmt: skip
        return {"ahead": Table(accumulate(rest, later), later)}, out


@dataclass(frozen=True)
class SyncEventsKernel:
    """The input's modifications at the first point that reaches them: an event, or a tick of `ticks` if that comes first.

    The first chunk is the input's, the others are points. State: `waiting`, appearances and disappearances by their
    instant `at` and the tick `due` after it. Those whose instant is past all wait for the same next point: their
    `at` is MIN, so that what appears and disappears between two points cancels out.
    """

    schema: Schema
    ticks: Classes = ()
    layout: Mapping[str, Layout] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "layout", {"waiting": Layout((), tuple(columns(len(self.schema))))})

    def initial(self) -> State:
        return {"waiting": table(empty(payload_types(self.schema), "at", "due", "n"))}

    def step(self, state: State, chunks: Sequence[Frame], upto: int) -> tuple[State, Frame]:
        payload = columns(len(self.schema))
        rows, *points = chunks
        waiting = state["waiting"].rows
        starts = rows.select(*payload, pl.col("ts").alias("at"), "n")
        ends = rows.filter(pl.col("te") < MAX).select(*payload, pl.col("te").alias("at"), -pl.col("n"))
        fresh = consolidate(pl.concat([starts, ends]))
        fresh = fresh.with_columns(due=next_ticks(self.ticks, fresh["at"])).select(waiting.columns)
        marks = pl.concat([p.select(pl.col("ts").alias("point")) for p in points]).unique().sort("point")
        old, new = self._fired(waiting, marks, upto), self._fired(fresh, marks, upto)
        shown = consolidate(
            pl.concat([old, new])
            .filter(pl.col("point") < upto)
            .select(*payload, pl.col("point").alias("ts"), pl.lit(MAX, pl.Int64).alias("te"), "n")
        )
        # What is logged: new rows that wait, waiting rows that were shown, and those whose instant has passed.
        passed = (pl.col("at") > MIN) & (pl.col("at") < upto)
        kept = new.filter(pl.col("point") >= upto).with_columns(at=_overdue(upto)).select(waiting.columns)
        left = old.filter((pl.col("point") < upto) | passed).select(waiting.columns)
        late = old.filter((pl.col("point") >= upto) & passed).with_columns(at=_overdue(upto))
        delta = consolidate(pl.concat([kept, left.with_columns(-pl.col("n")), late.select(waiting.columns)]))
        return {"waiting": Table(accumulate(waiting, delta), delta)}, shown

    def _fired(self, events: Frame, marks: Frame, upto: int) -> Frame:
        """Each event with the first point that reaches it; MAX: none so far."""
        at, known = events["at"].to_numpy(), marks["point"].to_numpy()
        places = np.searchsorted(known, at, side="left")
        found = np.append(known, MAX)[places]
        return events.with_columns(
            point=pl.Series(np.minimum(found, events["due"].to_numpy()), dtype=pl.Int64)
        )


def _overdue(upto: int) -> pl.Expr:
    return pl.when(pl.col("at") < upto).then(pl.lit(MIN, dtype=pl.Int64)).otherwise(pl.col("at"))


@dataclass(frozen=True)
class RestrictKernel(Holding):
    """`snapshot(restrict(S), t) = {e in snapshot(S, t) | p(e, t)}`: each row is clipped to where its conditions on NOW hold.

    The predicate's last position stands for NOW. State: `held` are rows that begin later.
    """

    predicate: exp.Expression
    functions: Functions = field(default_factory=dict, compare=False)
    width: int = 1
    points: Classes = ()
    """If any: NOW is the latest of these, so bounds move up to the next one."""

    @cached_property
    def limits(self) -> tuple[tuple[str, Scalar], ...]:
        found = []
        for bound in bounds(self.predicate, len(self.schema)):
            type_ = infer(bound.expression, self.schema, self.functions).type
            found.append((bound.comparison, Scalar(bound.expression, self.schema, type_, self.functions)))
        return tuple(found)

    def moved(self, rows: Frame) -> Frame:
        for comparison, value in self.limits:
            limit = value(rows).cast(pl.Int64)
            after = limit + 1
            rows = rows.filter(limit.is_not_null())
            limit, after = (self._tick(v.drop_nulls()) for v in (limit, after))
            if comparison in ("<", "<=", "="):
                end = limit if comparison == "<" else after
                rows = rows.with_columns(te=pl.min_horizontal(pl.col("te"), end))
            if comparison in (">", ">=", "="):
                start = after if comparison == ">" else limit
                rows = rows.with_columns(ts=pl.max_horizontal(pl.col("ts"), start))
        return rows

    def _tick(self, instants: pl.Series) -> pl.Series:
        moved = next_ticks(self.points, instants) if self.points else instants
        return pl.select(widened(pl.lit(moved), self.width)).to_series()
