"""What the forms of aggregate functions share: a step's data, its results, and ways between columns and numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import polars as pl
import pyarrow as pa

from tidegate.algebra.operators import Aggregation
from tidegate.kernels import sweep_ranks as ranks
from tidegate.kernels.rows import Frame
from tidegate.kernels.sweep_groups import Flags, Ids, Ints
from tidegate.kernels.sweep_ladders import Ladders, Reach, counting, near
from tidegate.kernels.sweep_ranks import Events, Numbers, Order, Universe, has_codes, of_codes, order_codes
from tidegate.kernels.sweep_timeline import Timeline


@dataclass
class Sweep:
    """One step of an `Aggregate`: what its forms read, share and mark."""

    timeline: Timeline
    before: Frame
    counts: Ints
    changed: Flags
    ladders: Ladders | None = None
    _masks: dict[tuple[object, ...], Flags] = field(default_factory=dict)
    _universes: dict[tuple[object, ...], Universe] = field(default_factory=dict)
    _distinct: dict[tuple[object, ...], tuple[Events, Universe]] = field(default_factory=dict)
    _queues: Flags | None = None

    def mask(self, required: tuple[int, ...], where: int | None) -> Flags:
        """The elements that count: no required column is NULL, and `where` is true."""
        key = (required, where)
        if key not in self._masks:
            self._masks[key] = counting(self.timeline.elements, required, where)
        return self._masks[key]

    def ranked(
        self, required: tuple[int, ...], where: int | None, orders: tuple[Order, ...], distinct: bool
    ) -> tuple[Events, Universe]:
        """Events and universe of the elements that count; with `distinct`, of their different values."""
        key = (required, where, orders)
        if key not in self._universes:
            use = self.mask(required, where)
            universe = ranks.build_universe(self.timeline, self.timeline.elements, use, orders)
            if self.ladders is not None:
                universe = self.ladders.counted(self.timeline, universe, required[0], where)
            self._universes[key] = universe
        universe = self._universes[key]
        if not distinct:
            line = self.timeline
            return Events(line.point_events, line.events, line.n), universe
        if key not in self._distinct:
            self._distinct[key] = ranks.distinct_events(self.timeline, universe)
        return self._distinct[key]

    def ordered(self, aggregation: Aggregation, reach: Reach) -> tuple[Events, Numbers, pl.Series]:
        """Events, numbers and their values; of the values from before the step those within reach, if ladders tell them."""
        (argument,), where, line = aggregation.arguments, aggregation.where, self.timeline
        column = line.elements[f"c{argument}"]
        if self.ladders is None:
            order = (Order(f"c{argument}"),)
            events, universe = self.ranked((argument,), where, order, aggregation.distinct)
            return events, universe, column[universe.example]
        use = self.mask((argument,), where)
        numbers, codes = near(line, self.ladders, (argument, where), order_codes(column), use, reach)
        return Events(line.point_events, line.events, line.n), numbers, of_codes(codes, column.dtype)

    def summed(self, aggregation: Aggregation) -> tuple[Events, Flags, Ids | None]:
        """Events, which of their elements count, and (with DISTINCT) the row each element stands for."""
        use = self.mask(aggregation.arguments, aggregation.where)
        if not aggregation.distinct:
            line = self.timeline
            return Events(line.point_events, line.events, line.n), use, None
        orders = tuple(Order(f"c{i}") for i in dict.fromkeys(aggregation.arguments))
        events, universe = self.ranked(aggregation.arguments, aggregation.where, orders, True)
        return events, np.ones(len(universe.example), np.bool_), universe.example

    def queues(self) -> Flags:
        """See `queueable`."""
        if self._queues is None:
            line = self.timeline
            self._queues = ranks.queueable(
                line.live_offsets, line.start_offsets, line.before, line.n, line.ends
            )
        return self._queues

    def accumulators(self, index: int, ints: int) -> Ints:
        """An aggregation's accumulators of the touched groups, as an array to move on."""
        return np.column_stack([self.before[f"a{index}_i{k}"].to_numpy() for k in range(ints)])

    def numbers(self, name: str) -> tuple[Ints, Ints]:
        """Long numbers that are kept per group, as offsets and values."""
        lists = self.before[name]
        lengths = lists.list.len().fill_null(0).to_numpy()
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        return offsets, lists.to_arrow().flatten().to_numpy()


@dataclass(frozen=True)
class Swept:
    """The result of a form: the values at chosen points, and the accumulators after the step."""

    values: Callable[[Ids], pl.Series]
    after: Mapping[str, pl.Series] = field(default_factory=dict)


class Form(Protocol):
    """How an aggregation is computed.

    `accumulators` are the columns it keeps per group; `needs_elements` says that it also reads the live rows.
    """

    @property
    def aggregation(self) -> Aggregation: ...

    @property
    def needs_elements(self) -> bool: ...

    @property
    def accumulators(self) -> Mapping[str, pl.DataType]: ...

    def sweep(self, sweep: Sweep) -> Swept: ...


def numbered(index: int, ints: int) -> dict[str, pl.DataType]:
    return {f"a{index}_i{k}": pl.Int64() for k in range(ints)}


def after(index: int, ints: Ints) -> dict[str, pl.Series]:
    return {f"a{index}_i{k}": pl.Series(np.ascontiguousarray(ints[:, k])) for k in range(ints.shape[1])}


def long_numbers(offsets: Ints, values: Ints) -> pl.Series:
    """The inverse of `Sweep.numbers`."""
    series = pl.from_arrow(pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(values)))
    assert isinstance(series, pl.Series)
    return series


def nullable(values: pl.Series, null: Flags, type_: pl.DataType) -> pl.Series:
    """Values of integers or floats inside, NULL where flagged, in the declared type."""
    if null.any():
        values = values.to_frame("v").select(pl.when(~pl.Series(null)).then(pl.col("v"))).to_series()
    if type_ in (pl.Date, pl.Datetime, pl.Duration) and values.dtype == pl.Int64:
        return values.cast(pl.Int32).cast(type_) if type_ == pl.Date else values.cast(type_)
    return values if values.dtype == type_ else values.cast(type_)


def picked(sweep: Sweep, column: int, rows: Ids | None) -> pl.Series:
    series = sweep.timeline.elements[f"c{column}"]
    return series if rows is None else series[rows]


def gathered(values: pl.Series, at: Ints, null: Flags, type_: pl.DataType) -> pl.Series:
    index = pl.Series(at).to_frame("i").select(pl.when(~pl.Series(null)).then(pl.col("i"))).to_series()
    if values.is_empty():
        return pl.Series([None] * len(at), dtype=type_)
    return values.gather(index).cast(type_)


def codes_of(column: pl.Series, type_: pl.DataType) -> tuple[Ints, Callable[[Ints, Flags], pl.Series]]:
    """Whole numbers in the order of the values, and the way back."""
    if has_codes(column.dtype):
        return order_codes(column), lambda at, null: nullable(of_codes(at, column.dtype), null, type_)
    rank, example = ranks.rank_rows(column.to_frame("v"), (Order("v"),))
    values = column[example]
    return rank.astype(np.int64), lambda at, null: gathered(values, at, null, type_)
