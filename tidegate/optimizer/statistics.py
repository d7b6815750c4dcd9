"""What is known of the sources before a query runs: how often rows come, how long they last, and which values their columns have.

Statistics decide what a plan is expected to cost, never what it answers. Where nothing is known, what is assumed is stated here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from decimal import Decimal

import polars as pl

from tidegate.algebra import operators as op
from tidegate.types import TIMESTAMP, Field, Schema, Type, Value

DISTINCT = 1_000.0
"""How many values a column is taken to have of which nothing is known."""
ROWS = 1_000_000.0
"""How many rows a stream is taken to have of which nothing is known."""
TABLE_ROWS = 1_000.0
FREQUENT = 0.1
"""A value that at least this part of all rows has is remembered."""
SECOND = 1_000_000.0
RATES = {True: 1_000.0 / SECOND, False: 1.0}
"""Rows per tick of a stream of which nothing is known: a thousand in a second, or one in each whole number of time."""

_SIZES = {"BOOLEAN": 1.0, "TINYINT": 1.0, "SMALLINT": 2.0, "INT": 4.0, "FLOAT": 4.0, "DATE": 4.0}


@dataclass(frozen=True)
class ColumnStatistics:
    """The values of a column: how many different ones, between which bounds, which part is NULL, and their mean size in bytes.

    Bounds are numbers, as `as_number` makes them; without any, values have no place on a line or nobody knows it. Of whole numbers and texts,
    `frequent` are the values that a large part of all rows have, with that part.

    Values of some columns come and go, as the auctions that bids are for: each is about for `lasting` ticks, and `fresh` of them come per tick.
    None: they stay, or nobody knows. Among rows that begin and end at once there are at most `each` different ones.
    """

    distinct: float = DISTINCT
    least: float | None = None
    greatest: float | None = None
    nulls: float = 0.0
    size: float = 8.0
    frequent: tuple[tuple[int | str, float], ...] = ()
    lasting: float | None = None
    fresh: float = 0.0
    each: float = math.inf

    def about(self, ticks: float) -> float:
        """How many values rows of so many ticks can have: those that are about at the first of them, and those that come.

        >>> ColumnStatistics(1000.0, lasting=20.0, fresh=2.0).about(10.0), ColumnStatistics(1000.0).about(10.0)
        (60.0, 1000.0)
        """
        if self.lasting is None:
            return self.distinct
        return max(1.0, min(self.distinct, self.fresh * (self.lasting + ticks)))


@dataclass(frozen=True)
class SourceStatistics:
    """A stream or table.

    `rate` is in rows per tick of application time; a table's is 0. `rows` and `span` (ticks) are those of what is recorded or was seen,
    `validity` the mean number of ticks that a row lasts which brings its own end; an instant lasts one.
    """

    rate: float
    rows: float
    span: float
    validity: float = 1.0
    columns: Mapping[str, ColumnStatistics] = field(default_factory=dict)

    @property
    def row_size(self) -> float:
        """The mean size of a row in bytes."""
        return sum(c.size for c in self.columns.values())


Statistics = Mapping[str, SourceStatistics]
"""By the name of the stream or table."""


def assumed(scan: op.Scan) -> SourceStatistics:
    """What is taken to be true of a source of which nothing is known."""
    timed = bool(scan.fields) and scan.fields[-1].hidden
    columns = {f.name: assumed_column(f.type) for f in scan.fields}
    if scan.relation and not timed:
        return SourceStatistics(0.0, TABLE_ROWS, math.inf, math.inf, columns)
    timestamps = timed and scan.fields[-1].type == TIMESTAMP
    rate = RATES[timestamps] / scan.width
    return SourceStatistics(rate, ROWS, ROWS / rate, 100.0 / rate if scan.relation else 1.0, columns)


def assumed_column(type_: Type) -> ColumnStatistics:
    """A column of which only the type is known."""
    return ColumnStatistics(2.0 if type_.name == "BOOLEAN" else DISTINCT, size=size_of(type_))


def size_of(type_: Type) -> float:
    """The bytes of a value, where its type alone says them; 16 where it does not."""
    if type_.name in _SIZES:
        return _SIZES[type_.name]
    return 16.0 if type_.params or type_.name in ("STRING", "BINARY", "DECIMAL") else 8.0


def as_number(value: Value) -> float | None:
    """A value's place on a line, if it has one: numbers, truth, days, microseconds.

    >>> as_number(True), as_number(date(1970, 1, 2)), as_number("x")
    (1.0, 1.0, None)
    """
    if isinstance(value, bool | int | float | Decimal):
        number = float(value)
        return number if math.isfinite(number) else None
    if isinstance(value, datetime):
        return (
            value.replace(tzinfo=None).timestamp() * SECOND
            if value.tzinfo is None
            else value.timestamp() * SECOND
        )
    if isinstance(value, date):
        return float(value.toordinal() - date(1970, 1, 1).toordinal())
    if isinstance(value, timedelta):
        return value.total_seconds() * SECOND
    return None


def of_frame(
    rows: pl.DataFrame,
    columns: Schema,
    time: str | None,
    until: str | None = None,
    total: float | None = None,
    span: float | None = None,
) -> SourceStatistics:
    """The statistics of rows, or (`total`) of so many of which these are a sample.

    `time` and `until` name the columns of ticks at which rows begin and end; a table has none. Columns that are not among the rows are
    assumed.

    >>> found = of_frame(pl.DataFrame({"t": [0, 10, 20, 29], "a": [1, 2, 2, 1]}), (Field("a", Type("INT")),), "t")
    >>> found.rate, found.rows, found.columns["a"].distinct
    (0.13333333333333333, 4.0, 2.0)
    """
    count = float(rows.height if total is None else total)
    validity = 1.0
    if time is None:
        span, rate, validity = math.inf, 0.0, math.inf
    else:
        if span is None:
            span = 1.0 + float(rows[time].max() - rows[time].min()) if rows.height else 1.0  # type: ignore[operator,arg-type]
        rate = count / max(span, 1.0)
        if until is not None and rows.height:
            validity = float((rows[until].clip(upper_bound=rows[time].max() + int(span)) - rows[time]).mean())  # type: ignore[operator,arg-type]
    known = {c.lower(): c for c in rows.columns}
    found = {
        f.name: of_column(rows[known[f.name.lower()]], f.type, count)
        for f in columns
        if f.name.lower() in known
    }
    if time is not None and rows.height >= count:
        found = {
            name: passing(c, rows[known[name.lower()]], rows[time], span)
            for name, c in found.items()
            if span is not None
        }
    return SourceStatistics(
        rate, count, span, validity, {f.name: assumed_column(f.type) for f in columns} | found
    )


def of_column(values: pl.Series, type_: Type, total: float) -> ColumnStatistics:
    """The statistics of a column of which some values are at hand, of so many."""
    known = values.drop_nulls()
    if known.is_empty():
        return replace(assumed_column(type_), distinct=1.0, nulls=1.0 if len(values) else 0.0)
    nulls = 1.0 - len(known) / len(values)
    if known.dtype.is_nested() or known.dtype == pl.Object:
        return replace(assumed_column(type_), nulls=nulls)
    distinct = extrapolated(known.n_unique(), len(known), total * (1.0 - nulls))
    least, greatest = as_number(known.min()), as_number(known.max())
    size = float(known.str.len_bytes().mean() or 0.0) if known.dtype == pl.String else size_of(type_)  # type: ignore[arg-type]
    return ColumnStatistics(distinct, least, greatest, nulls, size, frequent(values, type_))


PASSING = 0.5
"""Values are taken to come and go if they are about for at most this part of the time that is known."""
WITNESSES = 10.0
"""So much evidence, in values with many rows each, is needed to say so."""


def passing(column: ColumnStatistics, values: pl.Series, at: pl.Series, span: float) -> ColumnStatistics:
    """With how long its values are about, if they come and go.

    Of a value that is about for L ticks, k rows that are spread evenly over them are `L (k - 1) / (k + 1)` apart, the first from the last. So L is the sum
    of those distances by the sum of the factors, and a span has `fresh * (span + L)` values. A value with one row tells nothing, unless values are numbers
    that grow with time: those are about once.

    >>> values, at = pl.Series([i // 10 for i in range(1000)]), pl.Series(range(1000))
    >>> found = passing(ColumnStatistics(100.0), values, at, 1000.0)
    >>> round(found.lasting), round(found.about(1.0)), round(found.about(500.0)), passing(ColumnStatistics(10.0), values % 10, at, 1000.0).lasting
    (11, 1, 51, None)
    """
    if not (values.dtype.is_integer() or values.dtype in (pl.String, pl.Date)):
        return column
    if len(values) < 2 * column.distinct:
        return replace(column, lasting=0.0, fresh=column.distinct / span) if _ascends(values, at) else column
    each = (
        pl.DataFrame({"v": values, "t": at})
        .drop_nulls()
        .group_by("v")
        .agg(apart=pl.col("t").max() - pl.col("t").min(), k=pl.len().cast(pl.Float64))
    )
    factors = float(((each["k"] - 1.0) / (each["k"] + 1.0)).sum())
    lasting = float(each["apart"].sum()) / factors if factors else math.inf
    if factors < WITNESSES or lasting > PASSING * span:
        return column
    return replace(column, lasting=lasting, fresh=column.distinct / (span + lasting))


ASCENDING = 0.9
"""Numbers that are given one after the other follow time at least as closely as this correlation says."""


def _ascends(values: pl.Series, at: pl.Series) -> bool:
    """Whether values that hardly ever come again are numbers that grow with time, as those are that a counter gives."""
    if not values.dtype.is_integer() or len(values) < WITNESSES:
        return False
    found = pl.DataFrame({"v": values, "t": at}).select(pl.corr("v", "t")).item()
    return found is not None and found >= ASCENDING


def frequent(values: pl.Series, type_: Type) -> tuple[tuple[int | str, float], ...]:
    """The values that many rows have, the most frequent first, and which part of all rows has each.

    >>> frequent(pl.Series([7, 7, 7, None]), Type("INT"))
    ((7, 0.75),)
    """
    whole = type_.is_integral and values.dtype.is_integer()
    if not whole and not (type_.name == "STRING" and values.dtype == pl.String):
        return ()
    counts = values.drop_nulls().rename("v").value_counts(name="n")
    many = counts.filter(pl.col("n") >= FREQUENT * len(values)).sort("n", "v", descending=[True, False])
    return tuple((v, n / len(values)) for v, n in many.iter_rows())


def extrapolated(distinct: float, sample: float, total: float) -> float:
    """How many different values all rows have, of which a sample has some: the number D of equally frequent ones of which a sample of
    that size shows as many, `distinct = D (1 - e^(-sample / D))`. Where all of the sample differ, all rows are taken to.

    >>> extrapolated(10, 1000, 1_000_000), extrapolated(500, 500, 1_000_000)
    (10.0, 1000000.0)
    """
    if sample >= total or distinct < 1:
        return float(distinct)
    if distinct >= sample:
        return float(total)
    low, high = float(distinct), float(total)
    for _ in range(60):
        middle = (low + high) / 2
        if seen(middle, sample) < distinct:
            low = middle
        else:
            high = middle
    return min(round(high, 6), float(total))


def seen(domain: float, rows: float) -> float:
    """How many of D equally frequent values so many rows have: `D (1 - e^(-rows / D))`."""
    if domain <= 0 or rows <= 0:
        return 0.0
    return domain * -math.expm1(-rows / domain)


def columns_of(scan: op.Scan, source: SourceStatistics) -> tuple[ColumnStatistics, ...]:
    """Those of a scan's columns, the hidden time included: it has the bounds of the span."""
    known = {name.lower(): c for name, c in source.columns.items()}
    return tuple(known.get(f.name.lower(), _unlisted(f, source)) for f in scan.fields)


def _unlisted(column: Field, source: SourceStatistics) -> ColumnStatistics:
    if column.hidden and math.isfinite(source.span):
        return ColumnStatistics(max(1.0, min(source.rows, source.span)), size=size_of(column.type))
    return assumed_column(column.type)


def horizon_of(statistics: Statistics, scans: Sequence[op.Scan]) -> float:
    """How long the streams of a plan last, in ticks: as long as the longest of them."""
    spans = [statistics.get(s.name, assumed(s)).span for s in scans]
    return max((s for s in spans if math.isfinite(s)), default=ROWS)
