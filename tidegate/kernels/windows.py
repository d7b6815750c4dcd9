"""Windows that count rows (SPEC section 4): what is shown depends on which rows came after.

Rows have positions 1, 2, … in their partition: by time, simultaneous raw rows by arrival (`seq`), rows of a derived
stream, split into instants, by all their columns. Ends are not known at birth, so these windows speak in changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import polars as pl

from tidegate.kernels.endpoints import SplitKernel, later
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
    replace_latest,
    table,
)
from tidegate.kernels.sweep_groups import Ids, by_group, gather, group_rows
from tidegate.kernels.sweep_timeline import NO_IDS
from tidegate.time import MAX, MIN
from tidegate.types import Schema

Ints = npt.NDArray[np.int64]


def arrivals(rows: Frame, payload: Sequence[str]) -> Frame:
    """The rows as single arrivals in order: a row of multiplicity n comes n times."""
    if rows.height and rows["n"].max() != 1:
        rows = rows[np.repeat(np.arange(rows.height), rows["n"].to_numpy())]
    if "seq" not in rows.columns:
        # Without arrival order the columns decide, NULLs first (SPEC section 4).
        return rows.sort(["ts", *payload], nulls_last=False, maintain_order=True).select(*payload, "ts")
    if not _in_order(rows["ts"].to_numpy(), rows["seq"].to_numpy()):
        rows = rows.sort("ts", "seq", maintain_order=True)
    return rows.select(*payload, "ts")


def _in_order(first: Ints, second: Ints) -> bool:
    rises, stays = first[1:] > first[:-1], first[1:] == first[:-1]
    return bool(np.all(rises | (stays & (second[1:] >= second[:-1]))))


@dataclass(frozen=True)
class Counted:
    """A window over positions: the arrivals of an epoch, of a raw or (`chronon` given) a derived stream.

    Where an instant is `width` ticks wide, epochs end with instants.
    """

    schema: Schema
    partition_by: tuple[int, ...] = ()
    chronon: int | None = None
    width: int = 1

    @property
    def payload(self) -> list[str]:
        return columns(len(self.schema))

    @property
    def keys(self) -> list[str]:
        """The partition's columns; without any, a constant."""
        return [f"c{i}" for i in self.partition_by] or ["g"]

    @property
    def _split(self) -> SplitKernel:
        return SplitKernel(self.schema, self.chronon or 1)

    def _types(self) -> dict[str, pl.DataType]:
        types = payload_types(self.schema)
        return types if self.partition_by else {**types, "g": pl.Int64()}

    def _split_layout(self) -> dict[str, Layout]:
        if self.chronon is None:
            return {}
        by = tuple(f"c{i}" for i in self.partition_by)
        return {"open": Layout((), by), "clock": Layout(("g",))}

    def _split_initial(self) -> dict[str, Table]:
        return {} if self.chronon is None else dict(self._split.initial())

    def _arrivals(self, state: State, chunk: Frame, upto: int) -> tuple[dict[str, Table], Frame]:
        after: dict[str, Table] = {}
        if self.chronon is not None:
            split, chunk = self._split.step(state, [chunk], upto)
            after |= split
        rows = arrivals(chunk, self.payload)
        return after, rows if self.partition_by else rows.with_columns(g=pl.lit(0, dtype=pl.Int64))


@dataclass(frozen=True)
class Positions:
    """Where some rows stand: the position of each in its partition, and what is known of the partition.

    Of the rows of an epoch, `before` of the partition came earlier and all up to `after` are there; the first of them is
    at `offset` among all rows of the epoch, sorted by partition.
    """

    p: Ints
    before: Ints
    after: Ints
    offset: Ints


def grouped(rows: Frame, counts: Frame, keys: Sequence[str]) -> tuple[Ids, Positions, Frame]:
    """The order of arrivals by partition, their positions in that order, and per partition its counts.

    The frame has the keys, `before`, `after` and `offset`, as in `Positions`. No other column of the rows is copied.
    """
    groups = group_rows(rows, keys)
    order, offsets = by_group(groups.codes, NO_IDS, groups.count)
    size = np.diff(offsets)
    touched = groups.keys.with_columns(size=pl.Series(size), offset=pl.Series(offsets[:-1]))
    if counts.is_empty():
        touched = touched.with_columns(before=pl.lit(0, dtype=pl.Int64))
    else:
        known = equijoin(touched, counts, keys, "left")
        touched = known.with_columns(before=pl.col("count").fill_null(0))
    touched = touched.select(*keys, "before", "offset", after=pl.col("before") + pl.col("size"))
    before, after, offset = (np.repeat(touched[c].to_numpy(), size) for c in ("before", "after", "offset"))
    p = np.arange(len(order), dtype=np.int64) - offset + before + 1
    return order, Positions(p, before, after, offset), touched


def positioned(rows: Frame, counts: Frame, keys: Sequence[str]) -> tuple[Frame, Frame]:
    """The arrivals sorted by partition, with positions `p`; and per partition its counts, as `grouped` gives them."""
    order, positions, touched = grouped(rows, counts, keys)
    return gather(rows, order).with_columns(p=pl.Series(positions.p, dtype=pl.Int64)), touched


def _multiple(position: Ints, step: int) -> Ints:
    return position if step == 1 else -(-position // step) * step


@dataclass(frozen=True)
class RowWindowKernel(Counted):
    """`ROWS size SLIDE slide`: with q the last multiple of slide among the positions so far, rows q - size + 1 … q.

    The row at p is shown from the row at s = the next multiple of slide not below p until the one at the next
    multiple not below p + size. State: `recent`, a ring of slots: per partition the rows that are shown or still to be shown, and
    the last one, which tells the count; a row is gone once another takes its slot.
    """

    size: int | None = 1
    slide: int = 1
    layout: Mapping[str, Layout] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        by = tuple(f"c{i}" for i in self.partition_by)
        layout = {"recent": Layout((*self.keys, "slot"), by), **self._split_layout()}
        object.__setattr__(self, "layout", layout)

    def initial(self) -> State:
        recent = empty(self._types(), "p", "slot", "n")
        return {"recent": table(recent), **self._split_initial()}

    @property
    def _slots(self) -> int:
        return (self.size or 0) + self.slide + 1

    def shown(self, p: Ints) -> Ints:
        return _multiple(p, self.slide)

    def gone(self, p: Ints) -> Ints:
        if self.size is None:
            return np.full(len(p), MAX, np.int64)
        return _multiple(p + self.size, self.slide)

    def step(self, state: State, chunks: Sequence[Frame], upto: int) -> tuple[State, Frame]:
        keys = self.keys
        after, rows = self._arrivals(state, chunks[0], upto)
        recent = state["recent"].rows
        if rows.is_empty():
            nothing = empty(payload_types(self.schema), "ts", "te", "n")
            return {"recent": table(recent), **after}, nothing
        mine = recent if recent.is_empty() else equijoin(recent, rows.select(keys).unique(), keys, "semi")
        counts = mine.group_by(keys).agg(pl.col("p").max().alias("count"))
        order, fresh, touched = grouped(rows, counts, keys)
        times = rows["ts"].to_numpy()[order]
        old = equijoin(mine, touched, keys, "inner")
        known = Positions(*(old[c].to_numpy() for c in ("p", "before", "after", "offset")))
        everything = np.arange(old.height, dtype=np.int32)
        out = pl.concat(
            [
                self._changes(old, everything, known, times),
                self._changes(rows, order, fresh, times),
            ]
        )
        if upto == MAX:  # no row comes that would show or hide another
            return {"recent": table(recent.clear()), **after}, out
        held = [self._held(old, everything, known), self._held(rows, order, fresh)]
        held = [h.select(recent.columns) for h in held]
        others = equijoin(recent, touched, keys, "anti")
        return {"recent": Table(joined(others, pl.concat(held)), held[1]), **after}, out

    def _changes(self, rows: Frame, order: Ids, at: Positions, times: Ints) -> Frame:
        """What some rows, those of `order`, show anew or no more; only those that do are copied."""
        start, stop = self.shown(at.p), self.gone(at.p)

        def time_of(position: Ints) -> Ints:
            reached = (at.before < position) & (position <= at.after)
            index = np.where(reached, at.offset + np.minimum(position, at.after) - at.before - 1, 0)
            return np.where(reached, times[index], MAX)

        starts, ends = time_of(start), time_of(stop)
        was_shown = start <= at.before
        opened = ~was_shown & (start <= at.after) & (starts < ends)
        closed = was_shown & (at.before < stop) & (stop <= at.after)
        told = opened | closed
        starts, ends, was_shown = starts[told], ends[told], was_shown[told]
        return gather(rows, order[told]).select(
            *self.payload,
            ts=pl.Series(np.where(was_shown, ends, starts), dtype=pl.Int64),
            te=pl.Series(np.where(was_shown, MAX, ends), dtype=pl.Int64),
            n=pl.Series(np.where(was_shown, -1, 1), dtype=pl.Int64),
        )

    def _held(self, rows: Frame, order: Ids, at: Positions) -> Frame:
        """Of some rows, those of `order`, the ones that later rows will show or hide, and the last of each partition."""
        needed = self.shown(at.p) > at.after if self.size is None else self.gone(at.p) > at.after
        needed |= at.p == at.after
        return gather(rows, order[needed]).with_columns(
            p=pl.Series(at.p[needed], dtype=pl.Int64),
            slot=pl.Series(at.p[needed] % self._slots, dtype=pl.Int64),
            n=pl.lit(1, dtype=pl.Int64),
        )


@dataclass(frozen=True)
class TimeEveryRowsKernel(Counted):
    """`RANGE size SLIDE every ROWS`: with t' the time of the latest every-th row, the rows of (t' - size, t'].

    A row with time t appears at the first such t' >= t and disappears at the first t' >= t + size. State: `counts`,
    rows so far per partition; `waiting`, the appearances and disappearances (`at` = t or t + size) that no t' has reached.
    """

    size: int | None = 1
    every: int = 1
    layout: Mapping[str, Layout] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        by = tuple(f"c{i}" for i in self.partition_by)
        layout = {
            "counts": Layout(tuple(self.keys), by),
            "waiting": Layout((), by),
            **self._split_layout(),
        }
        object.__setattr__(self, "layout", layout)

    def initial(self) -> State:
        types = self._types()
        return {
            "counts": table(empty({k: types[k] for k in self.keys}, "count", "n")),
            "waiting": table(empty(types, "at", "n")),
            **self._split_initial(),
        }

    def step(self, state: State, chunks: Sequence[Frame], upto: int) -> tuple[State, Frame]:
        keys, payload = self.keys, self.payload
        after, rows = self._arrivals(state, chunks[0], upto)
        counts, waiting = state["counts"].rows, state["waiting"].rows
        if rows.is_empty():
            nothing = empty(payload_types(self.schema), "ts", "te", "n")
            return {"counts": table(counts), "waiting": table(waiting), **after}, nothing
        new, touched = positioned(rows, counts, keys)
        one = pl.lit(1, dtype=pl.Int64)
        counted = touched.select(*keys, pl.col("after").alias("count"), one.alias("n"))
        # A later batch of the instant t' is seen when it comes, so an appearance waits for t' only, but not before its row.
        appear = later(pl.col("ts"), 0, self.width)
        events = [new.with_columns(at=appear, since=pl.col("ts"), n=one)]
        if self.size is not None:
            events.append(
                new.with_columns(at=later(pl.col("ts"), self.size, self.width), since=pl.col("ts"), n=-one)
            )
        fresh = consolidate(pl.concat(events).select(*waiting.columns, "since"))
        points = new.filter(pl.col("p") % self.every == 0).select(*keys, pl.col("ts").alias("point")).unique()
        known = waiting.with_columns(since=pl.lit(MIN, dtype=pl.Int64)).select(fresh.columns)
        fired = self._fired(pl.concat([known, fresh]), points)
        fresh = fresh.select(waiting.columns)
        delta = consolidate(pl.concat([fresh, fired.select(waiting.columns).with_columns(-pl.col("n"))]))
        out = fired.select(
            *payload,
            pl.max_horizontal("since", "point").alias("ts"),
            pl.lit(MAX, dtype=pl.Int64).alias("te"),
            pl.col("n"),
        )
        tables = {
            "counts": Table(replace_latest(counts, counted, keys), counted),
            "waiting": Table(consolidate(pl.concat([waiting, delta])), delta),
            **after,
        }
        return tables, consolidate(out)

    def _fired(self, events: Frame, points: Frame) -> Frame:
        """The events that a point reaches, each with the first one (`point`)."""
        names = self.keys
        if points.is_empty():
            return events.with_columns(point=pl.lit(0, dtype=pl.Int64)).clear()
        groups = points.select(names).unique().with_row_index("group")
        held = equijoin(events, groups, names, "inner")
        marks = looked_up(points, groups, names).select("group", "point")
        return (
            held.sort("at")
            .join_asof(
                marks.sort("point"),
                left_on="at",
                right_on="point",
                by="group",
                strategy="forward",
                check_sortedness=False,
            )
            .filter(pl.col("point").is_not_null())
            .select(*events.columns, "point")
        )
