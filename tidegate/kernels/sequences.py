"""Window sequences and sessions (SPEC section 4; laws in `algebra.sequences` and `algebra.timetables`).

A row is seen from the moment of the first window that holds it until the moment of the first that no longer does; both
numbers are found once, when the row arrives. Where rows decide when a window is shown, the row waits for its number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from tidegate.algebra.sequences import Periodic, WindowSequence, unreachable
from tidegate.algebra.timetables import NEVER, Ints, Timetable, timetable
from tidegate.kernels.endpoints import SplitKernel, hold, later
from tidegate.kernels.rows import (
    Frame,
    Layout,
    State,
    Table,
    accumulate,
    columns,
    consolidate,
    empty,
    equijoin,
    looked_up,
    payload_types,
    replace_latest,
    table,
)
from tidegate.kernels.windows import Counted, positioned
from tidegate.time import MAX, MIN, widened
from tidegate.types import Schema


def ticks(instants: Ints, width: int) -> pl.Series:
    """The first tick of each instant; MAX stays."""
    beyond = instants > MAX // width
    return pl.Series(np.where(beyond, MAX, np.where(beyond, 0, instants) * width), dtype=pl.Int64)


@dataclass(frozen=True)
class TimeSequenceKernel:
    """Bounds and moments in time: (e, t) is valid from the first window with upper >= t to the first with lower > t.

    A derived stream is split into instants (`chronon` given). State: `held` rows that are seen later; the split's own.
    """

    schema: Schema
    spec: WindowSequence
    chronon: int | None = None
    width: int = 1
    layout: Mapping[str, Layout] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        layout = {"held": Layout((), tuple(columns(len(self.schema))))}
        if self.chronon is not None:
            layout |= SplitKernel(self.schema, self.chronon).layout
        object.__setattr__(self, "layout", layout)

    def initial(self) -> State:
        state = {"held": table(empty(payload_types(self.schema), "te", "end", "n"))}
        if self.chronon is not None:
            state |= SplitKernel(self.schema, self.chronon).initial()
        return state

    def step(self, state: State, chunks: Sequence[Frame], upto: int) -> tuple[State, Frame]:
        (rows,) = chunks
        after: dict[str, Table] = {}
        if self.chronon is not None:
            split, rows = SplitKernel(self.schema, self.chronon).step(state, chunks, upto)
            after |= split
        hours = timetable(self.spec)
        t = rows["ts"].to_numpy() // self.width
        rows = rows.with_columns(
            ts=pl.max_horizontal("ts", ticks(hours.moment(hours.shown(t)), self.width)),
            te=ticks(hours.moment(hours.gone(t)), self.width),
        )
        held, out = hold(state, "held", rows, columns(len(self.schema)), upto)
        return after | dict(held), out


@dataclass(frozen=True)
class _Sequenced(Counted):
    """A sequence in which positions have a say."""

    spec: WindowSequence | None = None

    @property
    def hours(self) -> Timetable:
        assert self.spec is not None
        return timetable(self.spec)

    def _begun(self, rows: Frame) -> Frame:
        """Rows count from the start of the sequence."""
        assert self.spec is not None
        start = self.spec.start
        return rows if start is None else rows.filter(pl.col("ts") >= widened(start, self.width))

    def _numbered(self, rows: Frame) -> Frame:
        """The rows that some window holds, with `shown` and `gone`: the first that does, and the first that no longer does."""
        assert self.spec is not None
        x = rows["p"].to_numpy() if self.spec.rows else rows["ts"].to_numpy() // self.width
        return rows.with_columns(
            shown=pl.Series(self.hours.shown(x), dtype=pl.Int64),
            gone=pl.Series(self.hours.gone(x), dtype=pl.Int64),
        ).filter(pl.col("shown") < pl.col("gone"))

    def _by(self) -> tuple[str, ...]:
        return tuple(f"c{i}" for i in self.partition_by)

    def _of_keys(self) -> dict[str, pl.DataType]:
        types = self._types()
        return {k: types[k] for k in self.keys}


@dataclass(frozen=True)
class SequenceByRowsKernel(_Sequenced):
    """A rate in rows: window i is shown by the row at base + delay + i * rate, or at the position that a loop gives.

    The base is upper(0), or for bounds in time the number of rows up to the instant upper(0), at which window 0 itself
    is shown if there is no delay. State: `counts`, per partition the rows so far and the base; `waiting`, per row the
    numbers (`at`) of the windows that will show it and drop it.
    """

    layout: Mapping[str, Layout] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        layout = {
            "counts": Layout(tuple(self.keys), self._by()),
            "waiting": Layout((), self._by()),
            **self._split_layout(),
        }
        object.__setattr__(self, "layout", layout)

    def initial(self) -> State:
        return {
            "counts": table(empty(self._of_keys(), "count", "base", "n")),
            "waiting": table(empty(self._types(), "at", "n")),
            **self._split_initial(),
        }

    @property
    def _first(self) -> int:
        """upper(0): a position or an instant."""
        assert self.spec is not None
        return self.spec.bounds(0, 0)[1]

    def _position(self, rows: Frame, window: str) -> pl.Series:
        """Of each row, the position that shows the window with the number in a column."""
        assert self.spec is not None
        schedule = self.spec.schedule
        if isinstance(schedule, Periodic):
            return rows["base"] + schedule.delay + rows[window] * schedule.rate
        return pl.Series(self.hours.moment(rows[window].to_numpy()), dtype=pl.Int64)

    def step(self, state: State, chunks: Sequence[Frame], upto: int) -> tuple[State, Frame]:
        after, rows = self._arrivals(state, chunks[0], upto)
        counts, waiting = state["counts"].rows, state["waiting"].rows
        new, touched = positioned(self._begun(rows), counts, self.keys)
        touched = self._with_base(touched, new, counts)
        held = self._numbered(new)
        self._refuse_if_unreachable(held, new, touched)
        one = pl.lit(1, dtype=pl.Int64)
        appear = held.with_columns(at=pl.col("shown"), since=pl.col("ts"), n=one)
        leave = held.filter(pl.col("gone") != NEVER).with_columns(
            at=pl.col("gone"), since=pl.col("ts"), n=-one
        )
        events = [part.select(*waiting.columns, "since") for part in (appear, leave)]
        known = waiting.with_columns(since=pl.lit(MIN, dtype=pl.Int64))
        fired = self._fired(pl.concat([known, *events]), new["ts"].to_numpy(), touched, upto)
        fresh = consolidate(pl.concat(events).select(waiting.columns))
        spent = fired.select(waiting.columns).with_columns(-pl.col("n"))
        delta = consolidate(pl.concat([fresh, spent]))
        counted = touched.select(*self.keys, pl.col("after").alias("count"), "base", one.alias("n"))
        out = fired.select(*self.payload, "ts", pl.lit(MAX, dtype=pl.Int64).alias("te"), "n")
        tables = {
            "counts": Table(replace_latest(counts, counted, self.keys), counted),
            # Events of both signs wait here, so either may meet its opposite.
            "waiting": Table(consolidate(pl.concat([waiting, delta])), delta),
            **after,
        }
        return tables, consolidate(out)

    def _with_base(self, touched: Frame, new: Frame, counts: Frame) -> Frame:
        assert self.spec is not None
        if self.spec.rows:
            return touched.with_columns(base=pl.lit(self._first, dtype=pl.Int64))
        early = (
            new.filter(pl.col("ts") // self.width <= self._first)
            .group_by(self.keys)
            .agg(pl.len().cast(pl.Int64).alias("early"))
        )
        touched = equijoin(touched, counts.select(*self.keys, "base"), self.keys, "left")
        return (
            equijoin(touched, early, self.keys, "left")
            .with_columns(base=pl.col("base").fill_null(0) + pl.col("early").fill_null(0))
            .drop("early")
        )

    def _refuse_if_unreachable(self, held: Frame, new: Frame, touched: Frame) -> None:
        assert self.spec is not None
        if self.spec.rows or held.is_empty():
            return
        instant = (pl.col("ts") // self.width).alias("t")
        earlier = new.group_by(*self.keys, instant).agg((pl.col("p").min() - 1).alias("earlier"))
        placed = looked_up(held.with_columns(instant), earlier, [*self.keys, "t"])
        placed = looked_up(placed, touched, self.keys)
        late = placed.filter((placed["shown"] > 0) & (self._position(placed, "shown") <= placed["earlier"]))
        if late.height:
            raise unreachable(self.spec, int(late["shown"].min()))  # type: ignore[arg-type]

    def _fired(self, events: Frame, times: Ints, touched: Frame, upto: int) -> Frame:
        """The events whose window is shown in this epoch, with the tick `ts`, not before `since`."""
        assert self.spec is not None
        by_time = (
            not self.spec.rows and isinstance(self.spec.schedule, Periodic) and self.spec.schedule.delay == 0
        )
        parts = []
        if by_time:
            first = widened(self._first, self.width)
            if first < upto:
                due = events.filter(pl.col("at") == 0)
                parts.append(due.with_columns(ts=pl.max_horizontal("since", pl.lit(first, dtype=pl.Int64))))
            events = events.filter(pl.col("at") != 0)
        known = equijoin(events, touched, self.keys, "inner")
        known = known.with_columns(p=self._position(known, "at"))
        due = known.filter(pl.col("p") <= pl.col("after"))
        index = (due["offset"] + due["p"] - due["before"] - 1).to_numpy()
        shown = pl.Series(times[index], dtype=pl.Int64)
        parts.append(due.with_columns(ts=pl.max_horizontal("since", shown)).select(*events.columns, "ts"))
        return pl.concat(parts)


@dataclass(frozen=True)
class RowsByTimeKernel(_Sequenced):
    """Bounds in rows, moments in time: they begin when the row at upper(0) comes.

    State: `counts`, per partition the rows so far and the instant of that row (`first`, MAX while unknown); `waiting` for it,
    with their window numbers; `held`, rows that are seen later.
    """

    layout: Mapping[str, Layout] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        layout = {
            "counts": Layout(tuple(self.keys), self._by()),
            "waiting": Layout((), self._by()),
            "held": Layout((), self._by()),
            **self._split_layout(),
        }
        object.__setattr__(self, "layout", layout)

    def initial(self) -> State:
        return {
            "counts": table(empty(self._of_keys(), "count", "first", "n")),
            "waiting": table(empty(self._types(), "shown", "gone", "n")),
            "held": table(empty(payload_types(self.schema), "te", "end", "n")),
            **self._split_initial(),
        }

    def step(self, state: State, chunks: Sequence[Frame], upto: int) -> tuple[State, Frame]:
        after, rows = self._arrivals(state, chunks[0], upto)
        counts, waiting = state["counts"].rows, state["waiting"].rows
        new, touched = positioned(self._begun(rows), counts, self.keys)
        touched = self._with_first(touched, new["ts"].to_numpy(), counts)
        one = pl.lit(1, dtype=pl.Int64)
        fresh = self._numbered(new).with_columns(n=one)
        rows = pl.concat(
            [waiting.with_columns(ts=pl.lit(None, dtype=pl.Int64)), fresh.select(*waiting.columns, "ts")]
        )
        rows = equijoin(rows, touched.select(*self.keys, "first"), self.keys, "left")
        ready = rows.filter(pl.col("first") < MAX)
        freed = ready.filter(pl.col("ts").is_null()).select(waiting.columns).with_columns(-pl.col("n"))
        kept = rows.filter(pl.col("ts").is_not_null() & (pl.col("first") == MAX)).select(waiting.columns)
        delta = consolidate(pl.concat([kept, freed]))
        counted = touched.select(*self.keys, pl.col("after").alias("count"), "first", one.alias("n"))
        held, out = hold(state, "held", self._placed(ready), self.payload, upto)
        tables = {
            "counts": Table(replace_latest(counts, counted, self.keys), counted),
            "waiting": Table(accumulate(waiting, delta), delta),
            **after,
            **held,
        }
        return tables, out

    def _with_first(self, touched: Frame, times: Ints, counts: Frame) -> Frame:
        assert self.spec is not None
        position = self.spec.bounds(0, 0)[1]
        known = equijoin(touched, counts.select(*self.keys, "first"), self.keys, "left")
        before, count, offset = (known[c].to_numpy() for c in ("before", "after", "offset"))
        reached = (before < position) & (position <= count)
        index = np.where(reached, offset + position - before - 1, 0)
        first = known["first"].fill_null(MAX).to_numpy()
        if len(times):
            first = np.where(reached, times[index], first)
        return known.with_columns(first=pl.Series(first, dtype=pl.Int64))

    def _placed(self, ready: Frame) -> Frame:
        """The rows whose moments are known, with their validity; one that comes after its moment is an error."""
        assert self.spec is not None
        first = ready["first"].to_numpy() // self.width
        start, end = (self.hours.moment_from(first, ready[c].to_numpy()) for c in ("shown", "gone"))
        late = pl.Series(start, dtype=pl.Int64) < ready["ts"].fill_null(MIN) // self.width
        if late.any():
            raise unreachable(self.spec, int(ready.filter(late)["shown"].min()))  # type: ignore[arg-type]
        # Nothing is shown before the row at upper(0) has come, nor a row before its own batch.
        return ready.with_columns(
            ts=pl.max_horizontal("ts", "first", ticks(start, self.width)), te=ticks(end, self.width)
        )


@dataclass(frozen=True)
class SessionKernel(Counted):
    """`SESSION gap`: (e, t) is valid from t until `gap` ticks after the last row of its session.

    State: `last`, per partition the time of the last row of a session that may go on; `open`, the rows of such sessions.
    """

    gap: int = 1
    layout: Mapping[str, Layout] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        by = tuple(f"c{i}" for i in self.partition_by)
        layout = {"last": Layout(tuple(self.keys), by), "open": Layout((), by)}
        if self.chronon is not None:
            # The split has an `open` table of its own.
            layout = {"last": layout["last"], "lasting": layout["open"], **self._split_layout()}
        object.__setattr__(self, "layout", layout)

    @property
    def _rows_table(self) -> str:
        return "open" if self.chronon is None else "lasting"

    def initial(self) -> State:
        types = self._types()
        return {
            "last": table(empty({k: types[k] for k in self.keys}, "last", "n")),
            self._rows_table: table(empty(types, "n")),
            **self._split_initial(),
        }

    def step(self, state: State, chunks: Sequence[Frame], upto: int) -> tuple[State, Frame]:
        after, rows = self._arrivals(state, chunks[0], upto)
        last, kept = state["last"].rows, state[self._rows_table].rows
        rows = self._sessions(rows, last)
        one, forever = pl.lit(1, dtype=pl.Int64), pl.lit(MAX, dtype=pl.Int64)
        carried = rows.filter("carried").group_by(self.keys).agg(pl.col("end").first().alias("later"))
        olds = (
            equijoin(last, carried, self.keys, "left")
            .with_columns(end=pl.coalesce("later", later(pl.col("last"), self.gap, self.width)))
            .filter(pl.col("end") < upto)
        )
        closing = equijoin(kept, olds.select(*self.keys, "end"), self.keys, "inner")
        ended = closing.select(*self.payload, pl.col("end").alias("ts"), forever.alias("te"), -pl.col("n"))
        ends = pl.when(pl.col("end") < upto).then(pl.col("end")).otherwise(forever)
        began = rows.select(*self.payload, "ts", ends.alias("te"), one.alias("n"))
        fresh = rows.filter(pl.col("end") >= upto).with_columns(n=one).select(kept.columns)
        delta = consolidate(pl.concat([fresh, closing.with_columns(-pl.col("n")).select(kept.columns)]))
        going = (
            rows.filter(pl.col("end") >= upto)
            .group_by(self.keys)
            .agg(pl.col("ts").max().alias("last"))
            .with_columns(n=one)
            .select(last.columns)
        )
        gone = equijoin(olds, going, self.keys, "anti")
        logged = pl.concat([going, gone.with_columns(n=pl.lit(0, dtype=pl.Int64)).select(last.columns)])
        tables = {
            "last": Table(replace_latest(last, logged, self.keys), logged),
            self._rows_table: Table(accumulate(kept, delta), delta),
            **after,
        }
        return tables, pl.concat([began, ended])

    def _sessions(self, rows: Frame, last: Frame) -> Frame:
        """The rows with the `end` of their session as known now, and whether it is one `carried` over from before."""
        groups = rows.select(self.keys).unique(maintain_order=True).with_row_index("group")
        placed = looked_up(rows, groups, self.keys)
        placed = equijoin(placed, last.select(*self.keys, "last"), self.keys, "left")
        placed = placed.sort("group", maintain_order=True)
        group, t = placed["group"].to_numpy(), placed["ts"].to_numpy()
        leads = np.r_[True, group[1:] != group[:-1]] if len(group) else np.zeros(0, bool)
        has_last = placed["last"].is_not_null().to_numpy()
        before = np.where(leads, placed["last"].fill_null(0).to_numpy(), np.r_[t[:1], t[:-1]])
        breaks = np.where(leads & ~has_last, True, t // self.width - before // self.width >= self.gap)
        run = np.cumsum(breaks | leads)
        carried = pl.Series(leads & ~breaks)
        return placed.with_columns(run=pl.Series(run), carried=carried).with_columns(
            end=later(pl.col("ts").max().over("run"), self.gap, self.width),
            carried=pl.col("carried").any().over("run"),
        )
