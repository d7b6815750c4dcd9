"""Moving in time: dates, timestamps and intervals under + - * /, and the functions that do the same."""

from __future__ import annotations

import math
from calendar import monthrange
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import polars as pl
from sqlglot import exp

from tidegate.errors import unsupported
from tidegate.scalars.columns import TICKING, dtype, either_error, errors_of, form
from tidegate.scalars.limits import EXACT, divide_by_zero, overflow
from tidegate.scalars.registry import (
    Call,
    Column,
    Form,
    Function,
    Pending,
    Resolved,
    cast,
    each,
    implicit,
    mismatch,
    typed,
)
from tidegate.time import UNITS, to_ticks
from tidegate.types import BIGINT, DATE, DOUBLE, INT, INTERVAL, STRING, TIMESTAMP, TIMESTAMP_NTZ, VOID, Type

MONTHS = Type("INTERVAL YEAR TO MONTH")
"""The type of a year-month literal: it may be added to a date or a timestamp, and nothing else."""

WHOLE_DAYS = "whole days"
"""The detail of an interval expression that is a number of days, so that DATE + it is a DATE."""

_DATED = {"DATE", "TIMESTAMP", "TIMESTAMP_NTZ"}
_SMALL = ("INT", "SMALLINT", "TINYINT")

# ---------------------------------------------------------------------------------------- type rules


def datetime_arithmetic(call: Pending) -> Resolved | None:
    """Dates, timestamps and intervals under + - * / DIV; None if none is involved."""
    left, right = call.args
    names = (left.type.name, right.type.name)
    sign = call.name
    if not (_DATED | {"INTERVAL", MONTHS.name}) & set(names):
        return None
    if sign == "+" and names[1] in _DATED and names[0] not in _DATED:
        left, right = right, left
    if sign in ("+", "-") and left.type.name in _DATED | {"STRING"} and right.type in (INTERVAL, MONTHS):
        return _moved(call, left, right)
    if sign in ("+", "-") and left.type == DATE and right.type.name in _SMALL:
        return replace(call, name="DATE_ADD" if sign == "+" else "DATE_SUB").done(
            DATE, [left, cast(right, INT)]
        )
    if sign == "+" and right.type == STRING and left.type == INTERVAL:
        return _moved(call, right, left)
    if sign in ("+", "-") and left.type == right.type == INTERVAL:
        whole = left.detail == right.detail == WHOLE_DAYS
        return call.done(INTERVAL, [left, right], detail=WHOLE_DAYS if whole else None)
    if sign in ("+", "-") and {left.type, right.type} == {INTERVAL, VOID}:
        return call.done(INTERVAL, [cast(left, INTERVAL), cast(right, INTERVAL)])
    if sign == "+" and right.type == VOID:
        point = cast(left, TIMESTAMP) if left.type == DATE else left
        return replace(call, name="+ INTERVAL").done(point.type, [point, cast(right, INTERVAL)])
    if sign == "-":
        return _difference(call, left, right)
    if sign == "*" and right.type == INTERVAL:
        left, right = right, left
    if sign in ("*", "/") and left.type == INTERVAL:
        right = cast(right, DOUBLE) if right.type in (STRING, VOID) else right
        if right.type.is_numeric:
            return replace(call, name=f"INTERVAL {sign}").done(INTERVAL, [left, right])
    if sign == "DIV" and left.type == right.type == INTERVAL:
        return replace(call, name="INTERVAL DIV").done(BIGINT, [left, right], True)
    raise mismatch(call)


def _moved(call: Pending, point: Resolved, by: Resolved) -> Resolved:
    if by.type == MONTHS:
        point = cast(point, TIMESTAMP) if point.type == STRING else point
        return replace(call, name=f"{call.name} MONTHS").done(point.type, [point, by])
    if point.type == DATE and by.detail == WHOLE_DAYS:
        return replace(call, name=f"{call.name} INTERVAL").done(DATE, [point, by])
    instant = point if point.type == TIMESTAMP_NTZ else cast(point, TIMESTAMP)
    moved = replace(call, name=f"{call.name} INTERVAL").done(instant.type, [instant, by])
    return cast(moved, STRING) if point.type == STRING else moved


def _difference(call: Pending, left: Resolved, right: Resolved) -> Resolved:
    minus = replace(call, name="DIFFERENCE")
    types = {left.type, right.type}
    if DATE in types and types <= {DATE, STRING}:
        return minus.done(INTERVAL, [cast(left, DATE), cast(right, DATE)], detail=WHOLE_DAYS)
    if types <= {DATE, TIMESTAMP, TIMESTAMP_NTZ, STRING, VOID}:
        zoneless = TIMESTAMP_NTZ in types and types <= {TIMESTAMP_NTZ, DATE, VOID}
        common = TIMESTAMP_NTZ if zoneless else TIMESTAMP
        return minus.done(INTERVAL, [cast(left, common), cast(right, common)])
    raise mismatch(call)


def _date_add(call: Pending) -> Resolved:
    start, days = call.args
    constant = days.type == STRING and days.is_literal
    if days.type.name not in (*_SMALL, "VOID") and not constant:
        raise mismatch(call, "DATE and INT")
    return call.done(DATE, [implicit(start, DATE, call), cast(days, INT)])


def _timestamp_add(call: Pending) -> Resolved:
    amount, start = call.args
    if not amount.type.is_integral and amount.type != VOID:
        raise mismatch(call, "an integer and a TIMESTAMP")
    start = start if start.type == TIMESTAMP_NTZ else implicit(start, TIMESTAMP, call)
    return call.done(start.type, [cast(amount, BIGINT), start])


# ------------------------------------------------------------------------------------------ meaning


def guard(move: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any) -> Any:
        try:
            return move(*args)
        except (OverflowError, ValueError):
            raise overflow("the date is outside the years 1 to 9999") from None

    return run


@guard
def add_days(start: date, days: int) -> date:
    return start + timedelta(days=days)


@guard
def add_months(start: Any, months: int) -> Any:
    """The same day of a later month, or its last day if there is no such day.

    >>> add_months(date(2020, 1, 31), 1)
    datetime.date(2020, 2, 29)
    """
    year, month = divmod(start.year * 12 + start.month - 1 + months, 12)
    if not 1 <= year <= 9999:
        raise OverflowError
    return start.replace(year=year, month=month + 1, day=min(start.day, monthrange(year, month + 1)[1]))


def ticks_of(value: timedelta) -> int:
    return value // timedelta(microseconds=1)


def interval(ticks: int) -> timedelta:
    try:
        return timedelta(microseconds=ticks)
    except OverflowError:
        raise overflow("the interval is too long") from None


def interval_sum(sign: int) -> Callable[[timedelta, timedelta], timedelta]:
    return lambda a, b: interval(ticks_of(a) + sign * ticks_of(b))


def scaled_interval(value: timedelta, by: Any, divide: bool) -> timedelta:
    """An interval times or divided by a number, rounded half up to a microsecond.

    >>> scaled_interval(timedelta(seconds=1), 3, divide=True)
    datetime.timedelta(microseconds=333333)
    """
    if divide and by == 0:
        raise divide_by_zero()
    ticks = ticks_of(value)
    if isinstance(by, float):
        result = ticks / by if divide else ticks * by
        if not math.isfinite(result):
            raise overflow("the interval is too long")
        return interval(math.floor(abs(result) + 0.5) * (1 if result >= 0 else -1))
    compute = EXACT.divide if divide else EXACT.multiply
    return interval(int(compute(Decimal(ticks), Decimal(by)).to_integral_value(ROUND_HALF_UP)))


def toward_zero(ticks: int, step: int) -> int:
    return ticks // step if ticks >= 0 else -(-ticks // step)


def _interval_quotient(a: timedelta, b: timedelta) -> int:
    if not b:
        raise divide_by_zero()
    quotient = toward_zero(abs(ticks_of(a)), abs(ticks_of(b)))
    return quotient if (ticks_of(a) < 0) == (ticks_of(b) < 0) else -quotient


def _whole_months(start: datetime, end: datetime) -> int:
    """Months between, as Java counts them: first the day moves by the time of day, then days decide.

    >>> _whole_months(datetime(2020, 12, 31, 1), datetime(2020, 2, 29, 23))
    -9
    """
    last = end.date()
    if last > start.date() and end.timetz() < start.timetz():
        last -= timedelta(days=1)
    elif last < start.date() and end.timetz() > start.timetz():
        last += timedelta(days=1)
    packed = ((last.year - start.year) * 12 + last.month - start.month) * 32 + last.day - start.day
    return toward_zero(packed, 32)


_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}


def _step(node: Resolved) -> int:
    """The length of the unit in microseconds."""
    if node.detail not in UNITS:
        raise unsupported(f"'{node.detail}' is not a unit of {node.name}")
    return UNITS[node.detail]


def _timestamp_diff(node: Resolved) -> Callable[[datetime, datetime], int]:
    """How many whole units lie between, toward zero."""
    if node.detail in _MONTHS:
        size = _MONTHS[node.detail]
        return lambda start, end: int(_whole_months(start, end) / size)
    step = _step(node)
    return lambda start, end: toward_zero(ticks_of(end - start), step)


def _timestamp_plus(node: Resolved) -> Callable[[int, datetime], datetime]:
    if node.detail in _MONTHS:
        size = _MONTHS[node.detail]
        return lambda amount, start: add_months(start, amount * size)
    step = _step(node)
    return guard(lambda amount, start: start + timedelta(microseconds=amount * step))


# -------------------------------------------------------------------------------------------- forms

FIRST_TICK = to_ticks(datetime(1, 1, 1, tzinfo=UTC))
LAST_TICK = to_ticks(datetime(9999, 12, 31, tzinfo=UTC)) + UNITS["DAY"] - 1
_FIRST_DAY, _LAST_DAY = FIRST_TICK // UNITS["DAY"], LAST_TICK // UNITS["DAY"]
_FAR = 2**62


def too_long(interval: pl.Expr) -> pl.Expr:
    """Intervals whose sums might not fit 64 bits."""
    ticks = interval.to_physical()
    return ((ticks > _FAR) | (ticks < -_FAR)).fill_null(False)


def point_form(move: Callable[..., pl.Expr | None], *kinds: Any, days: bool = False) -> Form:
    """A point in time computed as a number of ticks or days; outside the years 1 to 9999, row by row."""
    first, last = (_FIRST_DAY, _LAST_DAY) if days else (FIRST_TICK, LAST_TICK)
    number = form(move, *kinds)

    def make(node: Resolved, args: Sequence[Column]) -> Column | None:
        ticks = number(replace(node, type=BIGINT), args)
        if ticks is None:
            return None
        out = ((ticks.value < first) | (ticks.value > last)).fill_null(False)
        point = ticks.value.cast(pl.Int32, strict=False) if days else ticks.value
        return Column(point.cast(dtype(node.type), strict=False), node.type, either_error(ticks.error, out))

    return make


def _ticks(point: pl.Expr) -> pl.Expr:
    return point.to_physical().cast(pl.Int64)


def _interval_form(sign: int) -> Form:
    on_ticks = point_form(lambda a, b: _ticks(a) + sign * _ticks(b), TICKING, "INTERVAL")
    on_days = point_form(
        lambda a, b: _ticks(a) + sign * (_ticks(b) // UNITS["DAY"]), "DATE", "INTERVAL", days=True
    )

    def make(node: Resolved, args: Sequence[Column]) -> Column | None:
        column = (on_days if node.type == DATE else on_ticks)(node, args)
        if column is None:
            return None
        return replace(column, error=either_error(column.error, too_long(args[1].value)))

    return make


def _days_form(sign: int) -> Form:
    return point_form(lambda a, b: _ticks(a) + sign * b.cast(pl.Int64), "DATE", "INT", days=True)


_quotient_form = form(
    lambda a, b: (_ticks(a).abs() // _ticks(b).abs()) * _ticks(a).sign() * _ticks(b).sign(),
    "INTERVAL",
    fails=lambda a, b: ((_ticks(b) == 0) & a.is_not_null()) | too_long(a) | too_long(b),
)


def _months_form(sign: int) -> Form:
    """A constant number of months, up to a century."""

    def moved(point: pl.Expr, months: int) -> pl.Expr | None:
        return point.dt.offset_by(f"{sign * months}mo") if abs(months) <= 1200 else None

    def leaves_the_years(point: pl.Expr, months: int) -> pl.Expr:
        month = point.dt.year().cast(pl.Int32) * 12 + point.dt.month() - 1 + sign * months
        return (month < 12) | (month >= 10_000 * 12)

    return form(moved, ("DATE", *TICKING), ("INT", MONTHS.name), constants=(1,), fails=leaves_the_years)


def _unit_form(node: Resolved, args: Sequence[Column]) -> Column | None:
    """TIMESTAMPDIFF in units of a fixed length."""
    if node.detail not in UNITS:
        return None
    between = (args[1].value - args[0].value).to_physical()
    step = UNITS[node.detail]
    whole = pl.when(between >= 0).then(between // step).otherwise(-(-between // step))
    return Column(whole.cast(pl.Int64), BIGINT, errors_of(args))


def _add_unit_form(node: Resolved, args: Sequence[Column]) -> Column | None:
    """TIMESTAMPADD of units of a fixed length; what is far beyond all years is left to the rows."""
    if node.detail not in UNITS:
        return None
    step = UNITS[node.detail]
    column = point_form(lambda n, a: _ticks(a) + n * step, "BIGINT", TICKING)(node, args)
    far = (args[0].value > _FAR // step) | (args[0].value < -(_FAR // step))
    return column and replace(column, error=either_error(column.error, far.fill_null(False)))


def _unit(node: exp.Expression) -> str | None:
    unit = node.args.get("unit")
    return unit.name.upper() if unit else None


def _undated(node: exp.Expression) -> exp.Expression:
    return node.this if isinstance(node, exp.TsOrDsToDate) and not node.args.get("format") else node


def _read_date_diff(node: exp.DateDiff) -> Call:
    sides = (_undated(node.this), _undated(node.expression))
    unit = _unit(node)
    return Call("TIMESTAMPDIFF", sides[::-1], unit) if unit else Call("DATEDIFF", sides)


def _read_by_unit(name: str) -> Callable[[exp.Expression], Call | None]:
    def read(node: exp.Expression) -> Call | None:
        unit = _unit(node)
        return Call(name, (node.expression, node.this), unit) if unit else None

    return read


ENTRIES = (
    Function("+ INTERVAL", meaning=each(guard(lambda a, b: a + b)), columns=_interval_form(1)),
    Function("- INTERVAL", meaning=each(guard(lambda a, b: a - b)), columns=_interval_form(-1)),
    Function("+ MONTHS", meaning=each(add_months), columns=_months_form(1)),
    Function("- MONTHS", meaning=each(lambda start, months: add_months(start, -months)),
        columns=_months_form(-1)),
    Function("DIFFERENCE", meaning=each(lambda end, start: end - start),
        columns=form(lambda end, start: end - start, ("DATE", *TICKING))),
    Function("INTERVAL *", meaning=each(lambda a, b: scaled_interval(a, b, False)),
        by_row="products are rounded half up, exactly"),
    Function("INTERVAL /", meaning=each(lambda a, b: scaled_interval(a, b, True)),
        by_row="quotients are rounded half up, exactly"),
    Function("INTERVAL DIV", meaning=each(_interval_quotient), columns=_quotient_form),
    Function("DATE_ADD", {exp.TsOrDsAdd: lambda node: Call("DATE_ADD", (node.this, node.expression))}, (2, 2),
        _date_add, each(add_days), _days_form(1), names="DATE_ADD DATE_SUB"),
    Function("DATE_SUB", meaning=each(lambda start, days: add_days(start, -days)), columns=_days_form(-1)),
    Function("DATEDIFF", {exp.DateDiff: _read_date_diff}, (2, 2), typed(INT, DATE, DATE),
        each(lambda end, start: (end - start).days),
        form(lambda end, start: _ticks(end) - _ticks(start), "DATE"), names="DATEDIFF DATE_DIFF"),
    Function("TIMESTAMPDIFF", {exp.TimestampDiff: _read_by_unit("TIMESTAMPDIFF")}, (2, 2),
        typed(BIGINT, TIMESTAMP, TIMESTAMP), _timestamp_diff, _unit_form, names="TIMESTAMPDIFF"),
    Function("TIMESTAMPADD", {exp.TimestampAdd: _read_by_unit("TIMESTAMPADD")}, (2, 2), _timestamp_add,
        _timestamp_plus, _add_unit_form, names="TIMESTAMPADD DATEADD"),
    Function("ADD_MONTHS", {exp.AddMonths: "this expression"}, (2, 2), typed(DATE, DATE, INT),
        each(add_months), _months_form(1), names="ADD_MONTHS"),
)  # fmt: skip
