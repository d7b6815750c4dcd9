"""Moving the ends of validity: window sizes, slides, and the split of long rows into chronons.

All of it is linear in the rows, so signed rows need no care; a row that is to be shown later is held back until the
epoch passes that instant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import polars as pl

from tidegate.algebra.quality import Knob, RangedWindow, Settings
from tidegate.errors import Diagnostic, Kind
from tidegate.kernels.rows import (
    Frame,
    Layout,
    State,
    Table,
    accumulate,
    columns,
    consolidate,
    empty,
    expire,
    payload_types,
    released,
    table,
)
from tidegate.kernels.sweep import net
from tidegate.time import MAX, MIN
from tidegate.types import Schema

Ints = npt.NDArray[np.int64]

SPLIT_LIMIT = 5_000_000
"""Rows that one step may split into chronons."""


def moved(instant: pl.Expr, by: int) -> pl.Expr:
    """`time.add` on columns: MIN and MAX stay, what passes the end of time stops there."""
    stays = (instant == MIN) | (instant > MAX - by)
    return pl.when(instant == MIN).then(instant).when(stays).then(MAX).otherwise(instant + by)


def aligned(instant: pl.Expr, step: int, origin: int = 0) -> pl.Expr:
    """`time.next_multiple` on columns: the first origin + k * step that is not before the instant."""
    if step == 1:
        return instant
    rest = (
        instant % step - origin
    ) % step  # Polars' remainder may have either sign; only its class counts here.
    gap = (pl.lit(step, dtype=pl.Int64) - rest) % step
    gap = pl.when(gap < 0).then(gap + step).otherwise(gap)
    return (
        pl.when((instant == MIN) | (instant == MAX))
        .then(instant)
        .otherwise(pl.when(instant > MAX - step).then(MAX).otherwise(instant + gap))
    )


def later(tick: pl.Expr, size: int | None, width: int = 1) -> pl.Expr:
    """The first tick of the instant that comes `size` instants after the tick's own; without a size, never."""
    if size is None:
        return pl.lit(MAX, dtype=pl.Int64)
    return widened(moved(instant_of(tick, width), size), width)


def instant_of(tick: pl.Expr, width: int) -> pl.Expr:
    """The instant a tick belongs to, where one is `width` ticks wide; MIN and MAX stay."""
    if width == 1:
        return tick
    return pl.when((tick == MIN) | (tick == MAX)).then(tick).otherwise(tick // width)


def widened(instant: pl.Expr, width: int) -> pl.Expr:
    """`time.widened` on columns: the first tick of an instant."""
    if width == 1:
        return instant
    inside = (instant > MIN // width) & (instant <= MAX // width)
    return pl.when(inside).then(instant * width).otherwise(pl.when(instant < 0).then(MIN).otherwise(MAX))


def raised(tick: pl.Expr, to: Callable[[pl.Expr], pl.Expr], width: int) -> pl.Expr:
    """The tick, or the first one of the instant to which its own is moved, if that is later.

    >>> frame = pl.DataFrame({"t": [5001, 6002]})
    >>> frame.select(raised(pl.col("t"), lambda t: aligned(t, 3), 1_000))["t"].to_list()
    [6000, 6002]
    """
    return to(tick) if width == 1 else pl.max_horizontal(tick, widened(to(instant_of(tick, width)), width))


def hold(state: State, name: str, rows: Frame, payload: Sequence[str], upto: int) -> tuple[State, Frame]:
    """Emit the rows that start before `upto`, the waiting ones among them; keep the others waiting."""
    rows = rows.filter(pl.col("ts") < pl.col("te")).select(*payload, "ts", "te", "n")
    if state[name].rows.is_empty() and (rows.is_empty() or rows["ts"].max() < upto):  # type: ignore[operator]
        return {name: state[name].settled}, rows  # as without a slide: nothing waits
    at_once = pl.col("ts") < upto
    later = rows.filter(~at_once & (pl.col("ts") < MAX)).select(
        *payload, (pl.col("ts") + 1).alias("te"), pl.col("te").alias("end"), "n"
    )
    later = consolidate(later)
    due, rest = released(state[name].rows, upto)
    due = due.select(*payload, (pl.col("te") - 1).alias("ts"), pl.col("end").alias("te"), "n")
    return {name: Table(accumulate(rest, later), later)}, pl.concat([rows.filter(at_once), due])


@dataclass(frozen=True)
class Holding:
    """A kernel that moves ends of rows. State: `held` are the rows whose start is not before W; `end` is where they will end."""

    schema: Schema
    layout: Mapping[str, Layout] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "layout", {"held": Layout((), tuple(columns(len(self.schema))))})

    def initial(self) -> State:
        return {"held": table(empty(payload_types(self.schema), "te", "end", "n"))}

    def step(self, state: State, chunks: Sequence[Frame], upto: int) -> tuple[State, Frame]:
        return hold(state, "held", self.moved(chunks[0]), columns(len(self.schema)), upto)

    def moved(self, rows: Frame) -> Frame:
        """The rows with their new ends; one that vanishes by this is never seen."""
        raise AssertionError(f"{type(self).__name__} does not say what it does")


@dataclass(frozen=True)
class AlignKernel(Holding):
    """Both ends of each row move up to the next origin + k * step; ticks of such an instant stay (`width` ticks an instant)."""

    step_ticks: int
    width: int = 1
    origin: int = 0

    def moved(self, rows: Frame) -> Frame:
        move = lambda t: aligned(t, self.step_ticks, self.origin)  # noqa: E731
        return rows.with_columns(raised(pl.col(c), move, self.width) for c in ("ts", "te"))


@dataclass(frozen=True)
class ExpireKernel(Holding):
    """`(e, [a, b), n) = (e, [a, MAX), n) + (e, [b, MAX), -n)`: ends are told by rows of their own (negative tuples; Nile's EXPIRE).

    State: `held` are the negative tuples of the rows that are not over.
    """

    def moved(self, rows: Frame) -> Frame:
        never = pl.lit(MAX, dtype=pl.Int64)
        ends = rows.filter(pl.col("te") < MAX).with_columns(-pl.col("n"), ts=pl.col("te"), te=never)
        return pl.concat([rows.with_columns(te=never), ends])


@dataclass(frozen=True)
class TimeWindowKernel:
    """`RANGE size SLIDE slide`: (e, t) is valid in [t, t + size), both ends moved up to the next origin + k * slide.

    Over a derived stream (`chronon` given) the definition holds at every instant t = k * chronon at which a row
    is valid. If the chronon divides the size, the copies [t, t + size) of one row follow each other seamlessly in
    size / chronon layers, so that many rows suffice however long the row lasts. Otherwise there is one
    copy per instant. An instant is `width` ticks wide: a row ends with an instant, whichever batch it began in.
    State: `held` rows that start later; `open` rows still to be split (see `SplitKernel`).
    """

    schema: Schema
    size: int | None
    slide: int = 1
    chronon: int | None = None
    width: int = 1
    origin: int = 0
    layout: Mapping[str, Layout] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        payload = tuple(columns(len(self.schema)))
        layout = {"held": Layout((), payload)}
        if not self._layered:
            layout |= SplitKernel(self.schema, self.chronon or 1).layout
        object.__setattr__(self, "layout", layout)

    @property
    def _layered(self) -> bool:
        """Whether no split into single instants is needed."""
        if self.chronon is None:
            return True
        whole = self.chronon % self.width == 0
        return whole and self.size is not None and self.size * self.width % self.chronon == 0

    def initial(self) -> State:
        state = dict(AlignKernel(self.schema, 1).initial())
        if not self._layered:
            state |= SplitKernel(self.schema, self.chronon or 1).initial()
        return state

    def step(self, state: State, chunks: Sequence[Frame], upto: int) -> tuple[State, Frame]:
        (rows,) = chunks
        after: dict[str, Table] = {}
        if self.chronon is not None and self._layered:
            assert self.size is not None
            rows = _layers(rows, self.size * self.width, self.chronon)
        else:
            if self.chronon is not None:
                split, rows = SplitKernel(self.schema, self.chronon).step(state, chunks, upto)
                after |= split
            rows = rows.with_columns(te=later(pl.col("ts"), self.size, self.width))
        move = lambda t: aligned(t, self.slide, self.origin)  # noqa: E731
        rows = rows.with_columns(raised(pl.col(c), move, self.width) for c in ("ts", "te"))
        held, out = hold(state, "held", rows, columns(len(self.schema)), upto)
        return after | dict(held), out


@dataclass(frozen=True)
class RangedWindowKernel(Holding):
    """`RANGE BETWEEN a AND b`, `GRANULARITY BETWEEN g AND h` over a raw stream: (e, s) is valid in [s, s + w(s)), both ends moved up.

    The functions w and g are given with the epoch (`under`). They are no part of what the kernel is, and a row that is held knows its end, so
    state outlives every change of them.
    """

    spec: RangedWindow
    width: int = 1
    settings: Settings = field(default_factory=dict, compare=False, repr=False)

    def under(self, settings: Settings) -> RangedWindowKernel:
        """The kernel while some settings are in force."""
        return replace(self, settings=settings)

    def moved(self, rows: Frame) -> Frame:
        spec, tick = self.spec, rows["ts"].to_numpy()
        instant = tick // self.width
        size = self._in_force(spec.size, instant) if isinstance(spec.size, Knob) else spec.size
        granule = 1 if spec.granule is None else self._in_force(spec.granule, instant)
        begin = _next_point(_next_point(instant, spec.slide, spec.origin), granule)
        start = np.maximum(tick, _first_tick(begin, self.width))
        if size is None:
            end = np.full(len(tick), MAX, np.int64)
        else:
            over = np.where(instant > MAX - size, MAX, instant + size)
            end = _first_tick(_next_point(_next_point(over, spec.slide, spec.origin), granule), self.width)
        return rows.with_columns(ts=pl.Series(start, dtype=pl.Int64), te=pl.Series(end, dtype=pl.Int64))

    def _in_force(self, knob: Knob, instant: Ints) -> Ints | int:
        """The value at each instant, or the one for all."""
        steps = knob.steps(self.settings)
        if not steps.changes:
            return steps.first
        at = np.array([at for at, _ in steps.changes], np.int64)
        values = np.array([steps.first, *(value for _, value in steps.changes)], np.int64)
        found: Ints = values[np.searchsorted(at, instant, side="right")]
        return found


def _next_point(instant: Ints, step: Ints | int, origin: int = 0) -> Ints:
    """`time.next_multiple` on arrays."""
    gap = (origin - instant) % step
    return np.where(instant > MAX - gap, MAX, instant + gap)


def _first_tick(instant: Ints, width: int) -> Ints:
    """`time.widened` on arrays of instants at which rows are."""
    if width == 1:
        return instant
    inside = instant <= MAX // width
    return np.where(inside, np.where(inside, instant, 0) * width, MAX)


def _layers(rows: Frame, size: int, chronon: int) -> Frame:
    """The sum of [t, t + size) over the multiples t of the chronon in [ts, te), as few rows as possible.

    With t1 the first of k instants and r = size / chronon: layer j < min(k, r) is
    [t1 + j * chronon, t1 + j * chronon + size * ceil((k - j) / r)).
    """
    rows = rows.with_columns(first=aligned(pl.col("ts"), chronon), stop=aligned(pl.col("te"), chronon))
    rows = rows.filter(pl.col("first") < pl.col("stop"))
    if rows.is_empty():
        return rows
    if rows["first"].min() == MIN:
        raise Diagnostic(
            "WINDOW_OVER_RELATION",
            "a window counts the instants of its input, but a row of it is valid from the beginning of time",
            help="window the stream before it meets the table",
        )
    r = size // chronon
    endless = rows["stop"].to_numpy() == MAX
    first = rows["first"].to_numpy()
    count = np.where(endless, r, (rows["stop"].to_numpy() - np.where(endless, 0, first)) // chronon)
    layers = np.minimum(count, r)
    _refuse_if_too_many(int(layers.sum()), chronon)
    index = np.repeat(np.arange(rows.height), layers)
    j = np.arange(len(index)) - np.repeat(np.cumsum(layers) - layers, layers)
    start = first[index] + j * chronon
    length = -((j - count[index]) // r) * size
    end = np.where(endless[index], MAX, start + length)
    return rows[index].with_columns(ts=pl.Series(start), te=pl.Series(end))


def _refuse_if_too_many(rows: int, chronon: int) -> None:
    if rows > SPLIT_LIMIT:
        raise Diagnostic(
            "WINDOW_SPLIT_TOO_LARGE",
            f"a window over a derived stream would split its rows into {rows:,} instants of {chronon:,} tick(s)",
            help="declare a coarser granularity, or window the changes: ISTREAM(…)",
            kind=Kind.UNSUPPORTED,
        )


def chronons_of(rows: Frame, chronon: int) -> Frame:
    """Each row as single instants [t, t + 1), t the multiples of the chronon in its validity."""
    rows = rows.with_columns(first=aligned(pl.col("ts"), chronon), stop=aligned(pl.col("te"), chronon))
    rows = rows.filter(pl.col("first") < pl.col("stop"))
    first, stop = rows["first"].to_numpy(), rows["stop"].to_numpy()
    if len(first) and (first.min() == MIN or stop.max() == MAX):
        raise Diagnostic(
            "ENDLESS_INSTANTS",
            "a row that has no known end (or beginning) stands for endlessly many instants",
            help="give the input a bounded window, or stop the query at an instant",
            kind=Kind.UNSUPPORTED,
        )
    count = (stop - first) // chronon
    _refuse_if_too_many(int(count.sum()), chronon)
    index = np.repeat(np.arange(rows.height), count)
    at = first[index] + (np.arange(len(index)) - np.repeat(np.cumsum(count) - count, count)) * chronon
    return rows[index].drop("first", "stop").with_columns(ts=pl.Series(at), te=pl.Series(at + 1))


@dataclass(frozen=True)
class SplitKernel:
    """The input's snapshot at each multiple of `chronon`, as instants; nothing in between (`RSTREAM(q) EVERY p`).

    State: `open` are the rows still valid at W, consolidated; `clock` is W.
    """

    schema: Schema
    chronon: int
    layout: Mapping[str, Layout] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        by = tuple(columns(len(self.schema)))
        object.__setattr__(self, "layout", {"open": Layout((), by), "clock": Layout(("g",))})

    def initial(self) -> State:
        return {
            "open": table(empty(payload_types(self.schema), "te", "n")),
            "clock": table(empty({}, "g", "at", "n")),
        }

    def step(self, state: State, chunks: Sequence[Frame], upto: int) -> tuple[State, Frame]:
        payload = columns(len(self.schema))
        clock = state["clock"].rows
        new = chunks[0].select(*payload, "ts", "te", "n")
        old = state["open"].rows
        if clock.height:
            began = pl.lit(clock["at"][0], dtype=pl.Int64).alias("ts")
            due = pl.concat([old.select(*payload, began, "te", "n"), new])
        else:
            due = new
        clipped = due.with_columns(te=pl.min_horizontal("te", pl.lit(upto, dtype=pl.Int64)))
        clipped = clipped.filter(pl.col("ts") < pl.col("te"))
        if (clipped["n"] < 0).any():
            # A row and its retraction would each be split to the end of the epoch, only to cancel out.
            clipped = net(clipped, payload)
            clipped = clipped.with_columns(te=pl.min_horizontal("te", pl.lit(upto, dtype=pl.Int64)))
        instants = consolidate(chronons_of(clipped, self.chronon))
        delta = consolidate(expire(new, upto).select(*payload, "te", "n"))
        now = pl.DataFrame({"g": [0], "at": [upto], "n": [1]})
        after = {
            "open": Table(accumulate(expire(old, upto), delta), delta),
            "clock": Table(now, now),
        }
        return after, instants
