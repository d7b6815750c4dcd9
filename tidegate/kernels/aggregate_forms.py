"""The physical forms of aggregate functions: what each keeps per group, and how it sweeps over a timeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from tidegate.algebra.operators import Aggregation
from tidegate.errors import Diagnostic, internal
from tidegate.kernels import aggregate_exact as exact
from tidegate.kernels import aggregate_sums as sums
from tidegate.kernels import sweep_ranks as ranks
from tidegate.kernels.aggregate_collections import Collection
from tidegate.kernels.aggregate_comoments import Comoment
from tidegate.kernels.aggregate_decimals import average_words, decimal_series, fits_precision, words_of
from tidegate.kernels.aggregate_sweep import (
    Form,
    Sweep,
    Swept,
    after,
    codes_of,
    gathered,
    long_numbers,
    nullable,
    numbered,
    picked,
)
from tidegate.kernels.aggregate_users import UserDefined
from tidegate.kernels.rows import equijoin
from tidegate.kernels.sweep_groups import Ids, Ints, integers, take
from tidegate.kernels.sweep_ladders import Valued, around, greatest, least
from tidegate.kernels.sweep_ranks import Order, floats_of, has_codes, order_codes
from tidegate.scalars.columns import dtype
from tidegate.scalars.functions import AggregateFunction
from tidegate.types import Schema, Type


@dataclass(frozen=True)
class CountRows:
    """COUNT(*): the number of rows is kept anyway."""

    aggregation: Aggregation
    needs_elements: bool = False

    @property
    def accumulators(self) -> Mapping[str, pl.DataType]:
        return {}

    def sweep(self, sweep: Sweep) -> Swept:
        counts = sweep.counts
        sweep.changed[1:] |= counts[1:] != counts[:-1]
        return Swept(lambda points: pl.Series(take(counts, points)).cast(dtype(self.aggregation.type)))


@dataclass(frozen=True)
class Count:
    """COUNT of rows where no argument is NULL."""

    index: int
    aggregation: Aggregation
    needs_elements: bool

    @property
    def accumulators(self) -> Mapping[str, pl.DataType]:
        return numbered(self.index, 1)

    def sweep(self, sweep: Sweep) -> Swept:
        events, use, _ = sweep.summed(self.aggregation)
        acc = sweep.accumulators(self.index, 1)
        out = np.empty(sweep.timeline.points, np.int64)
        count = np.ascontiguousarray(acc[:, 0])
        sums.sweep_count(
            sweep.timeline.group_points,
            events.offsets,
            events.events,
            events.n,
            use,
            count,
            out,
            sweep.changed,
        )
        return Swept(
            lambda points: pl.Series(take(out, points)).cast(dtype(self.aggregation.type)),
            after(self.index, count[:, None]),
        )


@dataclass(frozen=True)
class IntegerSum:
    """SUM and AVG of whole numbers (and of intervals, which are whole numbers of microseconds)."""

    index: int
    aggregation: Aggregation
    needs_elements: bool

    @property
    def accumulators(self) -> Mapping[str, pl.DataType]:
        return numbered(self.index, 3)

    def sweep(self, sweep: Sweep) -> Swept:
        events, use, rows = sweep.summed(self.aggregation)
        values, _ = integers(picked(sweep, self.aggregation.arguments[0], rows))
        acc = sweep.accumulators(self.index, 3)
        line = sweep.timeline
        averages = self.aggregation.function == "AVG"
        total = np.empty(0 if averages else line.points, np.int64)
        average = np.empty(line.points if averages else 0, np.float64)
        null = np.empty(line.points, np.bool_)
        fits = sums.sweep_integers(
            line.group_points, events.offsets, events.events, events.n, use, values,
            _partial_counts(sweep, self.aggregation), acc, total, average, null, sweep.changed,
        )  # fmt: skip
        type_ = dtype(self.aggregation.type)
        if not fits or (
            not averages and type_ in (pl.Int8, pl.Int16, pl.Int32) and not _within(total, type_)
        ):
            raise _overflow(self.aggregation)

        def shown(points: Ids) -> pl.Series:
            if averages and type_ == pl.Duration:
                return nullable(
                    pl.Series(np.round(average[points]).astype(np.int64)), take(null, points), type_
                )
            return nullable(
                pl.Series(take(average if averages else total, points)), take(null, points), type_
            )

        return Swept(shown, after(self.index, acc))


@dataclass(frozen=True)
class DecimalSum:
    """SUM and AVG of decimals; an average is rounded half up."""

    index: int
    aggregation: Aggregation
    scale: int
    needs_elements: bool

    @property
    def accumulators(self) -> Mapping[str, pl.DataType]:
        return numbered(self.index, 5)

    def sweep(self, sweep: Sweep) -> Swept:
        events, use, rows = sweep.summed(self.aggregation)
        words = words_of(picked(sweep, self.aggregation.arguments[0], rows))
        acc = sweep.accumulators(self.index, 5)
        line = sweep.timeline
        total = np.empty((line.points, 2), np.uint64)
        count = np.empty(line.points, np.int64)
        fits = sums.sweep_decimals(
            line.group_points, events.offsets, events.events, events.n, use, words,
            _partial_counts(sweep, self.aggregation), acc, total, count,
        )  # fmt: skip
        precision, scale = self.aggregation.type.params
        null = count == 0
        if fits and self.aggregation.function == "AVG":
            total = average_words(total, count, scale - self.scale)
        if not fits or not fits_precision(total, precision):
            raise _overflow(self.aggregation)
        sums.mark_words(line.group_points, total, null, sweep.changed)
        return Swept(
            lambda points: decimal_series(total[points], take(null, points), precision, scale),
            after(self.index, acc),
        )


def _partial_counts(sweep: Sweep, aggregation: Aggregation) -> Ints:
    """For how many rows each element stands: a second argument says it of partial sums; without one, empty."""
    if len(aggregation.arguments) == 1:
        return np.empty(0, np.int64)
    return integers(sweep.timeline.elements[f"c{aggregation.arguments[1]}"])[0]


@dataclass(frozen=True)
class FloatSum:
    """SUM and AVG of floats."""

    index: int
    aggregation: Aggregation
    needs_elements: bool

    @property
    def accumulators(self) -> Mapping[str, pl.DataType]:
        return numbered(self.index, 4) | {f"a{self.index}_sum": pl.List(pl.Int64())}

    def sweep(self, sweep: Sweep) -> Swept:
        events, use, rows = sweep.summed(self.aggregation)
        values = floats_of(picked(sweep, self.aggregation.arguments[0], rows)).view(np.int64)
        counts = sweep.accumulators(self.index, 4)
        line = sweep.timeline
        out, null = np.empty(line.points, np.float64), np.empty(line.points, np.bool_)
        kept = exact.sweep_floats(
            line.group_points, events.offsets, events.events, events.n, use, values,
            self.aggregation.function == "AVG", counts, *sweep.numbers(f"a{self.index}_sum"), out, null, sweep.changed,
        )  # fmt: skip
        type_ = dtype(self.aggregation.type)
        return Swept(
            lambda points: nullable(pl.Series(take(out, points)), take(null, points), type_),
            after(self.index, counts) | {f"a{self.index}_sum": long_numbers(*kept)},
        )


@dataclass(frozen=True)
class Variance:
    """VAR_SAMP, VAR_POP, STDDEV_SAMP and STDDEV_POP of any numbers, as floats."""

    index: int
    aggregation: Aggregation
    needs_elements: bool

    @property
    def accumulators(self) -> Mapping[str, pl.DataType]:
        return numbered(self.index, 2) | dict.fromkeys(self._names, pl.List(pl.Int64()))

    @property
    def _names(self) -> tuple[str, str]:
        return f"a{self.index}_sum", f"a{self.index}_squares"

    def sweep(self, sweep: Sweep) -> Swept:
        events, use, rows = sweep.summed(self.aggregation)
        values = floats_of(picked(sweep, self.aggregation.arguments[0], rows)).view(np.int64)
        counts = sweep.accumulators(self.index, 2)
        line = sweep.timeline
        out, null = np.empty(line.points, np.float64), np.empty(line.points, np.bool_)
        kept = exact.sweep_variance(
            line.group_points, events.offsets, events.events, events.n, use, values,
            self.aggregation.function.endswith("SAMP"), self.aggregation.function.startswith("STDDEV"),
            counts, *sweep.numbers(self._names[0]), *sweep.numbers(self._names[1]), out, null, sweep.changed,
        )  # fmt: skip
        type_ = dtype(self.aggregation.type)
        return Swept(
            lambda points: nullable(pl.Series(take(out, points)), take(null, points), type_),
            after(self.index, counts)
            | dict(zip(self._names, (long_numbers(*kept[:2]), long_numbers(*kept[2:])), strict=True)),
        )


@dataclass(frozen=True)
class Extreme:
    """MIN and MAX of any orderable type: of codes in the same order. DISTINCT makes no difference."""

    aggregation: Aggregation
    needs_elements: bool = True

    @property
    def accumulators(self) -> Mapping[str, pl.DataType]:
        return {}

    def sweep(self, sweep: Sweep) -> Swept:
        line = sweep.timeline
        (argument,), where = self.aggregation.arguments, self.aggregation.where
        column = line.elements[f"c{argument}"]
        codes, decode = codes_of(column, dtype(self.aggregation.type))
        lowest = self.aggregation.function == "MIN"
        out, null = np.empty(line.points, np.int64), np.empty(line.points, np.bool_)
        if sweep.ladders is not None:
            events, numbers, values = sweep.ordered(self.aggregation, least(1) if lowest else greatest(1))
            ranks.sweep_kth(
                line.group_points, events.offsets, events.events, events.n, numbers.rank, numbers.offsets,
                numbers.initial, order_codes(values), not lowest, np.zeros(line.groups.count, np.bool_),
                out, null, sweep.changed,
            )  # fmt: skip
            return Swept(lambda points: decode(take(out, points), take(null, points)))
        use, queues = sweep.mask((argument,), where), sweep.queues()
        ranks.sweep_queue(
            line.group_points, line.times, line.live_offsets, line.start_offsets, line.before, line.starts, line.ends,
            use, codes, lowest, queues, out, null, sweep.changed,
        )  # fmt: skip
        if not queues.all():
            rest = use & ~queues[line.group_of_elements()]
            universe = ranks.build_universe(line, pl.DataFrame({"code": codes}), rest, (Order("code"),))
            ranks.sweep_kth(
                line.group_points, line.point_events, line.events, line.n, universe.rank, universe.offsets,
                universe.initial, codes[universe.example], not lowest, queues, out, null, sweep.changed,
            )  # fmt: skip
        return Swept(lambda points: decode(take(out, points), take(null, points)))


@dataclass(frozen=True)
class ArgumentOf:
    """ARG_MIN(value, by) and ARG_MAX(value, by); ties take the least value, NULL last."""

    aggregation: Aggregation
    needs_elements: bool = True

    @property
    def accumulators(self) -> Mapping[str, pl.DataType]:
        return {}

    def sweep(self, sweep: Sweep) -> Swept:
        line = sweep.timeline
        value, by = self.aggregation.arguments
        orders: tuple[Order, ...] = (
            Order(f"c{by}", self.aggregation.function == "ARG_MAX"),
            Order(f"c{value}", nulls_last=True),
        )
        if value == by:
            orders = orders[:1]
        events, universe = sweep.ranked((by,), self.aggregation.where, orders, False)
        shown = line.elements[f"c{value}"][universe.example]
        label, example = ranks.rank_rows(shown.to_frame("v"), (Order("v"),))
        out, null = np.empty(line.points, np.int64), np.empty(line.points, np.bool_)
        ranks.sweep_kth(
            line.group_points, events.offsets, events.events, events.n, universe.rank, universe.offsets,
            universe.initial, label.astype(np.int64), False, np.zeros(line.groups.count, np.bool_),
            out, null, sweep.changed,
        )  # fmt: skip
        type_, by_label = dtype(self.aggregation.type), shown[example]
        return Swept(lambda points: gathered(by_label, take(out, points), take(null, points), type_))


@dataclass(frozen=True)
class Quantile:
    """QUANTILE, by linear interpolation between neighbours."""

    aggregation: Aggregation
    needs_elements: bool = True

    @property
    def accumulators(self) -> Mapping[str, pl.DataType]:
        return {}

    def sweep(self, sweep: Sweep) -> Swept:
        line = sweep.timeline
        fraction = self.aggregation.parameter
        assert fraction is not None
        events, numbers, shown = sweep.ordered(self.aggregation, around(float(fraction)))
        values = floats_of(shown)
        out, null = np.empty(line.points, np.float64), np.empty(line.points, np.bool_)
        ranks.sweep_quantile(
            line.group_points, events.offsets, events.events, events.n, numbers.rank, numbers.offsets,
            numbers.initial, values, float(fraction), out, null, sweep.changed,
        )  # fmt: skip
        type_ = dtype(self.aggregation.type)
        return Swept(lambda points: nullable(pl.Series(take(out, points)), take(null, points), type_))


@dataclass(frozen=True)
class Greatest:
    """TOP_K: an array of the k greatest values, descending."""

    aggregation: Aggregation
    needs_elements: bool = True

    @property
    def accumulators(self) -> Mapping[str, pl.DataType]:
        return {}

    def sweep(self, sweep: Sweep) -> Swept:
        line = sweep.timeline
        k = self.aggregation.parameter
        assert k is not None
        events, numbers, values = sweep.ordered(self.aggregation, greatest(int(k)))
        out = np.empty((line.points, int(k)), np.int32)
        ranks.sweep_greatest(
            line.group_points, events.offsets, events.events, events.n, numbers.rank, numbers.offsets,
            numbers.initial, out, sweep.changed,
        )  # fmt: skip
        type_ = dtype(self.aggregation.type)

        def shown(points: Ids) -> pl.Series:
            chosen = out[points]
            rows = pl.DataFrame({"row": np.repeat(np.arange(len(points)), int(k)), "at": chosen.ravel()})
            rows = rows.filter(pl.col("at") >= 0)
            lists = (
                rows.select("row", values[rows["at"]].alias("v"))
                .group_by("row", maintain_order=True)
                .agg("v")
            )
            every = pl.DataFrame({"row": np.arange(len(points))})
            return equijoin(every, lists, ["row"], "left")["v"].cast(type_)

        return Swept(shown)


def _within(values: Ints, type_: pl.DataType) -> bool:
    bounds: dict[type[pl.DataType], int] = {pl.Int8: 7, pl.Int16: 15, pl.Int32: 31}
    bound = bounds[type(type_)]
    return bool(((values >= -(2**bound)) & (values < 2**bound)).all())


def _overflow(aggregation: Aggregation) -> Diagnostic:
    return Diagnostic(
        "ARITHMETIC_OVERFLOW",
        f"{aggregation.function} as '{aggregation.name}' does not fit in {aggregation.type}",
        help="cast the argument to a wider type, such as DECIMAL(38,0) or DOUBLE",
    ).at(aggregation.span)


def valued(form: Form, schema: Schema) -> Valued | None:
    """The column, and the condition, of which a ladder tells all that a form needs to know of rows from before a step."""
    if isinstance(form, UserDefined | ArgumentOf | CountRows | Collection | Comoment):
        return None
    a = form.aggregation
    ranks_values = isinstance(form, Quantile | Greatest)
    if ranks_values == a.distinct and not isinstance(form, Extreme):
        return None
    fits = len(a.arguments) == 1 and has_codes(dtype(schema[a.arguments[0]].type))
    return (a.arguments[0], a.where) if fits else None


def choose(
    index: int, aggregation: Aggregation, schema: Schema, functions: Mapping[str, AggregateFunction]
) -> Form:
    """The form of an aggregation: by its function and the type of its argument."""
    name, distinct = aggregation.function, aggregation.distinct
    types: list[Type] = [schema[i].type for i in aggregation.arguments]
    if name in functions:
        return UserDefined(index, aggregation, functions[name], tuple(types))
    if name == "COUNT":
        if not aggregation.arguments and aggregation.where is None:
            return CountRows(aggregation)
        return Count(index, aggregation, distinct)
    if name in ("SUM", "AVG"):
        if types[0].name == "DECIMAL" and aggregation.type.name == "DECIMAL":
            return DecimalSum(index, aggregation, types[0].params[1], distinct)
        if types[0].name in ("FLOAT", "DOUBLE", "DECIMAL"):
            return FloatSum(index, aggregation, distinct)
        return IntegerSum(index, aggregation, distinct)
    if name in ("VAR_SAMP", "VAR_POP", "STDDEV_SAMP", "STDDEV_POP"):
        return Variance(index, aggregation, distinct)
    if name in ("COVAR_POP", "COVAR_SAMP", "CORR"):
        return Comoment(index, aggregation, distinct)
    forms: dict[str, Callable[[Aggregation], Form]] = {
        "MIN": Extreme, "MAX": Extreme, "ARG_MIN": ArgumentOf, "ARG_MAX": ArgumentOf,
        "QUANTILE": Quantile, "TOP_K": Greatest, "COLLECT": Collection, "HISTOGRAM": Collection,
    }  # fmt: skip
    if name not in forms:
        raise internal(f"there is no aggregate function {name}")
    return forms[name](aggregation)
