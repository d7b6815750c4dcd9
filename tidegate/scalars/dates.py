"""Parts, truncation and texts of dates and timestamps: the proleptic Gregorian calendar, UTC, years 1 to 9999."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import polars as pl
from sqlglot import exp

from tidegate.errors import Diagnostic
from tidegate.scalars.columns import TICKING, dtype, either_error, form
from tidegate.scalars.date_patterns import (
    YEAR_1000,
    YEAR_10000,
    date_format,
    parser,
    polars_pattern,
    time_pattern,
    written,
)
from tidegate.scalars.intervals import add_days, guard, point_form, toward_zero
from tidegate.scalars.limits import EXACT
from tidegate.scalars.registry import (
    Call,
    Column,
    Function,
    Pending,
    Resolved,
    cast,
    each,
    implicit,
    mismatch,
    typed,
)
from tidegate.time import UNITS, to_datetime, to_ticks
from tidegate.types import (
    BIGINT,
    DATE,
    INT,
    INTEGRAL,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    Type,
    Value,
    decimal,
)

_EPOCH = date(1970, 1, 1).toordinal()
_MICROSECOND = timedelta(microseconds=1)

# ---------------------------------------------------------------------------------------- type rules


def _instant(call: Pending) -> Resolved:
    """HOUR and its kin: the fields of a timestamp of either kind."""
    (arg,) = call.args
    arg = arg if arg.type == TIMESTAMP_NTZ else implicit(arg, TIMESTAMP, call)
    return call.done(decimal(8, 6) if call.name == "EXTRACT_SECOND" else INT, [arg])


def _unix(result: Type, point: Type, *also: Type) -> Callable[[Pending], Resolved]:
    def rule(call: Pending) -> Resolved:
        (arg,) = call.args
        if arg.type not in (point, *also, VOID):
            raise mismatch(call, str(point))
        return call.done(result, [cast(arg, point)])

    return rule


def _unix_timestamp(call: Pending) -> Resolved:
    (arg,) = call.args
    if arg.type not in (STRING, DATE, TIMESTAMP, TIMESTAMP_NTZ, VOID):
        raise mismatch(call, "a STRING, a DATE or a TIMESTAMP")
    return call.done(BIGINT, [arg if arg.type == STRING else cast(arg, TIMESTAMP)], arg.nullable)


def _timestamp_of(call: Pending) -> Resolved:
    (arg,) = call.args
    numeric = arg.type.is_integral or (call.name == "TIMESTAMP_SECONDS" and arg.type.is_numeric)
    if not numeric and arg.type != VOID:
        raise mismatch(call, "a number" if call.name == "TIMESTAMP_SECONDS" else "an integer")
    arg = cast(arg, BIGINT) if arg.type == VOID else arg
    return call.done(TIMESTAMP, [arg], arg.nullable or not arg.type.is_integral)


def _to_date(call: Pending) -> Resolved:
    arg = implicit(call.args[0], STRING if call.detail else DATE, call)
    return call.done(DATE, [arg]) if call.detail else arg


# ------------------------------------------------------------------------------------------ meaning


def _make_date(year: int, month: int, day: int) -> date:
    try:
        return date(year, month, day)
    except ValueError as problem:
        raise Diagnostic("INVALID_DATE", f"{year}-{month}-{day} is not a date: {problem}") from None


_FIELDS = {
    **dict.fromkeys(("YEAR", "YYYY", "YY"), "YEAR"),
    **dict.fromkeys(("MONTH", "MON", "MM"), "MONTH"),
    **dict.fromkeys(("DAY", "DD"), "DAY"),
    **{unit: unit for unit in ("QUARTER", "WEEK", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND")},
}
_CALENDAR = {"YEAR": "1y", "QUARTER": "1q", "MONTH": "1mo", "WEEK": "1w"}
"""The fields of a date, as Polars names them."""


def _floor_date(value: Any, field: str) -> Any:
    if field == "YEAR":
        return value.replace(month=1, day=1)
    if field == "QUARTER":
        return value.replace(month=(value.month - 1) // 3 * 3 + 1, day=1)
    if field == "MONTH":
        return value.replace(day=1)
    return add_days(value, -value.weekday())


def _date_trunc(node: Resolved) -> Callable[[datetime], datetime | None]:
    field = _FIELDS.get(node.detail.upper())
    if field is None:
        return lambda value: None
    if field in _CALENDAR:
        midnight = {"hour": 0, "minute": 0, "second": 0, "microsecond": 0}
        return lambda value: _floor_date(value.replace(**midnight), field)  # type: ignore[arg-type]
    step = UNITS[field]
    return lambda value: value - (to_ticks(value) % step) * _MICROSECOND


def _trunc(node: Resolved) -> Callable[[date], date | None]:
    field = _FIELDS.get(node.detail.upper())
    if field not in _CALENDAR:
        return lambda value: None
    return lambda value: _floor_date(value, field)


def _timestamp_from(ticks_per_unit: int) -> Callable[[Any], datetime]:
    @guard
    def run(value: Any) -> datetime:
        if isinstance(value, Decimal):
            exact = EXACT.multiply(value, Decimal(ticks_per_unit))
            if exact != exact.to_integral_value():
                message = f"{value} seconds are not a whole number of microseconds"
                raise Diagnostic("CAST_INVALID_INPUT", message)
            return to_datetime(int(exact))
        return to_datetime(int(value * ticks_per_unit))

    return run


def _seconds(value: datetime) -> Decimal:
    return Decimal(value.second * 1_000_000 + value.microsecond).scaleb(-6)


def _whole_seconds(value: datetime) -> int:
    """UNIX_TIMESTAMP cuts toward 1970; UNIX_SECONDS cuts toward the past."""
    return toward_zero(to_ticks(value), 1_000_000)


def _read_seconds(node: Resolved) -> Callable[[Any], int]:
    if node.args[0].type != STRING:
        return _whole_seconds
    read = parser(node.detail or "yyyy-MM-dd HH:mm:ss")
    return lambda text: _whole_seconds(read(text))


def _parsed_date(node: Resolved) -> Callable[[str], date]:
    read = parser(node.detail)
    return lambda text: read(text).date()


# -------------------------------------------------------------------------------------------- forms


def _trunc_form(node: Resolved, args: Sequence[Column]) -> Column | None:
    (a,) = args
    field = _FIELDS.get(node.detail.upper())
    if field in _CALENDAR:
        return Column(a.value.dt.truncate(_CALENDAR[field]), node.type, a.error)
    if field is None or node.type == DATE:
        return None
    ticks = a.value.to_physical()
    return Column((ticks - ticks % UNITS[field]).cast(dtype(TIMESTAMP)), node.type, a.error)


def _format_form(node: Resolved, args: Sequence[Column]) -> Column | None:
    """DATE_FORMAT with fields of a fixed width; years of another width are written row by row."""
    (a,) = args
    pattern = polars_pattern(node.detail)
    if pattern is None:
        return None
    ticks = a.value.to_physical()
    wide = ((ticks < YEAR_1000) | (ticks >= YEAR_10000)).fill_null(False)
    texts = a.value.map_batches(
        lambda times: written(times, *pattern), return_dtype=pl.String(), is_elementwise=True
    )
    return Column(texts, STRING, either_error(a.error, wide))


def _seconds_form(node: Resolved, args: Sequence[Column]) -> Column | None:
    (a,) = args
    if a.type == STRING:
        return None
    ticks = a.value.to_physical()
    cut = pl.when(ticks >= 0).then(ticks // 1_000_000).otherwise(-(-ticks // 1_000_000))
    return Column(cut, BIGINT, a.error)


# ------------------------------------------------------------------------------------------ entries

_EXTRACTS = {
    **dict.fromkeys(("YEAR", "Y", "YEARS", "YR", "YRS"), "YEAR"),
    **dict.fromkeys(("QUARTER", "QTR"), "QUARTER"),
    **dict.fromkeys(("MONTH", "MON", "MONS", "MONTHS"), "MONTH"),
    **dict.fromkeys(("WEEK", "W", "WEEKS"), "WEEKOFYEAR"),
    **dict.fromkeys(("DAY", "D", "DAYS"), "DAY"),
    **dict.fromkeys(("DAYOFWEEK", "DOW"), "DAYOFWEEK"),
    "DOY": "DAYOFYEAR",
    **dict.fromkeys(("HOUR", "H", "HOURS", "HR", "HRS"), "HOUR"),
    **dict.fromkeys(("MINUTE", "M", "MIN", "MINS", "MINUTES"), "MINUTE"),
    **dict.fromkeys(("SECOND", "S", "SEC", "SECONDS", "SECS"), "EXTRACT_SECOND"),
}


def _extract(part: str, source: exp.Expression) -> Call | None:
    name = _EXTRACTS.get(part.upper())
    return Call(name, (source,)) if name else None


def _read_date_part(node: exp.Anonymous) -> Call | None:
    parts = node.expressions
    return _extract(parts[0].name, parts[1]) if len(parts) == 2 and parts[0].is_string else None


def _read_trunc(name: str) -> Callable[[exp.Expression], Call | None]:
    def read(node: exp.Expression) -> Call | None:
        unit = node.args.get("unit")
        if not isinstance(unit, (exp.Var, exp.Literal)):
            return None
        return Call(name, (node.this,), unit.name.upper())

    return read


def _read_pattern(name: str, needed: bool = False) -> Callable[[exp.Expression], Call | None]:
    """A function with a pattern; only Spark evaluates one that is not constant."""

    def read(node: exp.Expression) -> Call | None:
        source = node.this.this if isinstance(node.this, exp.TimeStrToTime) else node.this
        pattern = time_pattern(node)
        given = needed or node.args.get("format")
        return None if given and pattern is None else Call(name, (source,), pattern)

    return read


_DATED = typed(INT, DATE)


def _part(
    name: str,
    spelled: Sequence[type[exp.Expression] | str],
    meaning: Callable[[Any], Value],
    apply: Callable[[pl.Expr], pl.Expr],
    rule: Callable[[Pending], Resolved] = _DATED,
    names: str = "",
) -> Function:
    readings = {s: "*expressions" if isinstance(s, str) else "this" for s in spelled}
    columns = form(apply, ("DATE", *TICKING))
    return Function(name, readings, (1, 1), rule, each(meaning), columns, names=names or name)


def _from_number(name: str, ticks: int) -> Function:
    most = 2**62 // ticks
    columns = point_form(lambda n: n.cast(pl.Int64).clip(-most, most) * ticks, INTEGRAL)
    meaning = each(_timestamp_from(ticks))
    return Function(name, {name: "*expressions"}, (1, 1), _timestamp_of, meaning, columns, names=name)


def _to_unix(name: str, spelled: type[exp.Expression], ticks: int) -> Function:
    rule = _unix(BIGINT, TIMESTAMP, TIMESTAMP_NTZ)
    columns = form(lambda a: a.to_physical() // ticks, "TIMESTAMP")
    return Function(
        name, {spelled: "this"}, (1, 1), rule, each(lambda v: to_ticks(v) // ticks), columns, names=name
    )


ENTRIES = (
    _part("YEAR", [exp.Year], lambda v: v.year, lambda a: a.dt.year(), names="YEAR EXTRACT DATE_PART"),
    _part("QUARTER", [exp.Quarter], lambda v: (v.month + 2) // 3, lambda a: a.dt.quarter()),
    _part("MONTH", [exp.Month], lambda v: v.month, lambda a: a.dt.month()),
    _part("WEEKOFYEAR", [exp.WeekOfYear], lambda v: v.isocalendar()[1], lambda a: a.dt.week()),
    _part("DAY", [exp.Day, exp.DayOfMonth], lambda v: v.day, lambda a: a.dt.day(), names="DAY DAYOFMONTH"),
    _part("DAYOFWEEK", [exp.DayOfWeek], lambda v: v.isoweekday() % 7 + 1, lambda a: a.dt.weekday() % 7 + 1),
    _part("WEEKDAY", ["WEEKDAY"], lambda v: v.weekday(), lambda a: a.dt.weekday() - 1),
    _part("DAYOFYEAR", [exp.DayOfYear], lambda v: v.timetuple().tm_yday, lambda a: a.dt.ordinal_day()),
    _part("HOUR", [exp.Hour], lambda v: v.hour, lambda a: a.dt.hour(), _instant),
    _part("MINUTE", [exp.Minute], lambda v: v.minute, lambda a: a.dt.minute(), _instant),
    _part("SECOND", [exp.Second], lambda v: v.second, lambda a: a.dt.second(), _instant),
    Function("EXTRACT_SECOND",
        {exp.Extract: lambda n: _extract(n.this.name, n.expression), "DATE_PART": _read_date_part}, (1, 1),
        _instant, each(_seconds), by_row="a decimal made of two fields"),
    Function("DATE_TRUNC", {exp.TimestampTrunc: _read_trunc("DATE_TRUNC")}, (1, 1),
        typed(TIMESTAMP, TIMESTAMP, nullable=True), _date_trunc, _trunc_form, names="DATE_TRUNC"),
    Function("TRUNC", {exp.DateTrunc: _read_trunc("TRUNC")}, (1, 1), typed(DATE, DATE, nullable=True), _trunc,
        _trunc_form, names="TRUNC"),
    Function("TO_DATE", {exp.TsOrDsToDate: _read_pattern("TO_DATE")}, (1, 1), _to_date, _parsed_date,
        names="TO_DATE DATE", by_row="Java's patterns are stricter than those of Polars"),
    Function("TO_TIMESTAMP", {exp.StrToTime: _read_pattern("TO_TIMESTAMP", needed=True)}, (1, 1),
        typed(TIMESTAMP, STRING), lambda node: parser(node.detail), names="TO_TIMESTAMP TIMESTAMP",
        by_row="Java's patterns are stricter than those of Polars"),
    Function("DATE_FORMAT", {exp.TimeToStr: _read_pattern("DATE_FORMAT", needed=True)}, (1, 1),
        typed(STRING, TIMESTAMP), lambda node: date_format(node.detail), _format_form, names="DATE_FORMAT"),
    Function("UNIX_TIMESTAMP", {exp.StrToUnix: _read_pattern("UNIX_TIMESTAMP")}, (1, 1), _unix_timestamp,
        _read_seconds, _seconds_form, names="UNIX_TIMESTAMP"),
    _to_unix("UNIX_SECONDS", exp.UnixSeconds, 1_000_000),
    _to_unix("UNIX_MILLIS", exp.UnixMillis, 1_000),
    _to_unix("UNIX_MICROS", exp.UnixMicros, 1),
    Function("UNIX_DATE", {exp.UnixDate: "this"}, (1, 1), _unix(INT, DATE),
        each(lambda v: v.toordinal() - _EPOCH), form(lambda a: a.to_physical(), "DATE"), names="UNIX_DATE"),
    Function("DATE_FROM_UNIX_DATE", {exp.DateFromUnixDate: "this"}, (1, 1), typed(DATE, INT),
        each(lambda days: add_days(date(1970, 1, 1), days)), point_form(lambda days: days, "INT", days=True),
        names="DATE_FROM_UNIX_DATE"),
    _from_number("TIMESTAMP_SECONDS", 1_000_000),
    _from_number("TIMESTAMP_MILLIS", 1_000),
    _from_number("TIMESTAMP_MICROS", 1),
    Function("LAST_DAY", {exp.LastDay: "this"}, (1, 1), typed(DATE, DATE),
        each(lambda v: v.replace(day=monthrange(v.year, v.month)[1])),
        form(lambda a: a.dt.month_end(), "DATE"), names="LAST_DAY"),
    Function("MAKE_DATE", {"MAKE_DATE": "*expressions"}, (3, 3), typed(DATE, INT, INT, INT), each(_make_date),
        names="MAKE_DATE", by_row="Polars fails as a whole where one date does not exist"),
)  # fmt: skip
