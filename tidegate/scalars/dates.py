"""Functions on dates and timestamps: the proleptic Gregorian calendar, time zone UTC, years 1 to 9999."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from tidegate.errors import Diagnostic, unsupported
from tidegate.scalars.casts import EXACT, overflow
from tidegate.time import UNITS, to_datetime, to_ticks
from tidegate.types import Value

_EPOCH = date(1970, 1, 1).toordinal()
_MICROSECOND = timedelta(microseconds=1)


def _guard(move: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any) -> Any:
        try:
            return move(*args)
        except (OverflowError, ValueError):
            raise overflow("the date is outside the years 1 to 9999") from None

    return run


@_guard
def add_days(start: date, days: int) -> date:
    return start + timedelta(days=days)


@_guard
def plus(point: Any, by: timedelta) -> Any:
    return point + by


@_guard
def minus(point: Any, by: timedelta) -> Any:
    return point - by


@_guard
def add_months(start: Any, months: int) -> Any:
    """The same day of a later month, or its last day if there is no such day.

    >>> add_months(date(2020, 1, 31), 1)
    datetime.date(2020, 2, 29)
    """
    year, month = divmod(start.year * 12 + start.month - 1 + months, 12)
    if not 1 <= year <= 9999:
        raise OverflowError
    return start.replace(year=year, month=month + 1, day=min(start.day, monthrange(year, month + 1)[1]))


def make_date(year: int, month: int, day: int) -> date:
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


def _floor_date(value: Any, field: str) -> Any:
    if field == "YEAR":
        return value.replace(month=1, day=1)
    if field == "QUARTER":
        return value.replace(month=(value.month - 1) // 3 * 3 + 1, day=1)
    if field == "MONTH":
        return value.replace(day=1)
    return minus(value, timedelta(days=value.weekday()))


def date_trunc(unit: str) -> Callable[[datetime], datetime | None]:
    """
    >>> date_trunc("HOUR")(datetime(2020, 2, 3, 4, 5)).isoformat()
    '2020-02-03T04:00:00'
    """
    field = _FIELDS.get(unit.upper())
    if field is None:
        return lambda value: None
    if field in ("YEAR", "QUARTER", "MONTH", "WEEK"):
        midnight = {"hour": 0, "minute": 0, "second": 0, "microsecond": 0}
        return lambda value: _floor_date(value.replace(**midnight), field)  # type: ignore[arg-type]
    step = UNITS[field]
    return lambda value: value - (to_ticks(value) % step) * _MICROSECOND


def trunc(unit: str) -> Callable[[date], date | None]:
    field = _FIELDS.get(unit.upper())
    if field not in ("YEAR", "QUARTER", "MONTH", "WEEK"):
        return lambda value: None
    return lambda value: _floor_date(value, field)


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
    return packed // 32 if packed >= 0 else -(-packed // 32)


def whole_seconds(value: datetime) -> int:
    """UNIX_TIMESTAMP cuts toward 1970; UNIX_SECONDS cuts toward the past."""
    ticks = to_ticks(value)
    return ticks // 1_000_000 if ticks >= 0 else -(-ticks // 1_000_000)


_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}


def timestamp_diff(unit: str) -> Callable[[datetime, datetime], int]:
    """How many whole units lie between, toward zero."""
    if unit in _MONTHS:
        size = _MONTHS[unit]
        return lambda start, end: int(_whole_months(start, end) / size)
    if unit not in UNITS:
        raise unsupported(f"'{unit}' is not a unit of TIMESTAMPDIFF")
    step = UNITS[unit]

    def difference(start: datetime, end: datetime) -> int:
        ticks = (end - start) // _MICROSECOND
        return ticks // step if ticks >= 0 else -(-ticks // step)

    return difference


def timestamp_add(unit: str) -> Callable[[int, datetime], datetime]:
    if unit in _MONTHS:
        size = _MONTHS[unit]
        return lambda amount, start: add_months(start, amount * size)
    if unit not in UNITS:
        raise unsupported(f"'{unit}' is not a unit of TIMESTAMPADD")
    step = UNITS[unit]

    @_guard
    def moved(amount: int, start: datetime) -> Any:
        return start + timedelta(microseconds=amount * step)

    return moved


def timestamp_of(ticks_per_unit: int) -> Callable[[Any], datetime]:
    @_guard
    def run(value: Any) -> datetime:
        if isinstance(value, Decimal):
            exact = EXACT.multiply(value, Decimal(ticks_per_unit))
            if exact != exact.to_integral_value():
                raise Diagnostic(
                    "CAST_INVALID_INPUT", f"{value} seconds are not a whole number of microseconds"
                )
            return to_datetime(int(exact))
        return to_datetime(int(value * ticks_per_unit))

    return run


# ------------------------------------------------------------------------------------------ patterns

_MONTH_NAMES = "January February March April May June July August September October November December".split()
_DAY_NAMES = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
_TOKEN = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|.", re.DOTALL)

_WRITE: dict[str, Callable[[datetime], str]] = {
    "yyyy": lambda v: f"{v.year:04d}",
    "y": lambda v: str(v.year),
    "yy": lambda v: f"{v.year % 100:02d}",
    "MM": lambda v: f"{v.month:02d}",
    "M": lambda v: str(v.month),
    "MMM": lambda v: _MONTH_NAMES[v.month - 1][:3],
    "MMMM": lambda v: _MONTH_NAMES[v.month - 1],
    "dd": lambda v: f"{v.day:02d}",
    "d": lambda v: str(v.day),
    "DDD": lambda v: f"{v.timetuple().tm_yday:03d}",
    "D": lambda v: str(v.timetuple().tm_yday),
    "E": lambda v: _DAY_NAMES[v.weekday()][:3],
    "EEE": lambda v: _DAY_NAMES[v.weekday()][:3],
    "EEEE": lambda v: _DAY_NAMES[v.weekday()],
    "HH": lambda v: f"{v.hour:02d}",
    "H": lambda v: str(v.hour),
    "hh": lambda v: f"{(v.hour - 1) % 12 + 1:02d}",
    "h": lambda v: str((v.hour - 1) % 12 + 1),
    "mm": lambda v: f"{v.minute:02d}",
    "m": lambda v: str(v.minute),
    "ss": lambda v: f"{v.second:02d}",
    "s": lambda v: str(v.second),
    "a": lambda v: "AM" if v.hour < 12 else "PM",
    **{"S" * n: lambda v, n=n: f"{v.microsecond:06d}000"[:n] for n in range(1, 10)},  # type: ignore[misc]
}
_READ = {
    "yyyy": r"(?P<year>\d{4})",
    "MM": r"(?P<month>\d{2})",
    "M": r"(?P<month>\d{1,2})",
    "dd": r"(?P<day>\d{2})",
    "d": r"(?P<day>\d{1,2})",
    "HH": r"(?P<hour>\d{2})",
    "H": r"(?P<hour>\d{1,2})",
    "mm": r"(?P<minute>\d{2})",
    "m": r"(?P<minute>\d{1,2})",
    "ss": r"(?P<second>\d{2})",
    "s": r"(?P<second>\d{1,2})",
    **{"S" * n: rf"(?P<fraction>\d{{{n}}})" for n in range(1, 7)},
}


def pattern_tokens(pattern: str) -> list[tuple[str, bool]]:
    """The pattern's parts: (text, whether it is a field)."""
    result = []
    for match in _TOKEN.finditer(pattern):
        if match[1] is not None:
            result.append((match[1].replace("''", "'") or "'", False))
        else:
            result.append((match[0], match[2] is not None))
    return result


def date_format(pattern: str) -> Callable[[datetime], str]:
    """
    >>> date_format("E d.M.yyyy HH:mm")(datetime(2020, 2, 3, 4, 5))
    'Mon 3.2.2020 04:05'
    """
    writers: list[Callable[[datetime], str]] = []
    for text, is_field in pattern_tokens(pattern):
        if is_field and text not in _WRITE:
            raise unsupported(f"'{text}' in the pattern '{pattern}' is written by Spark only")
        writers.append(_WRITE[text] if is_field else lambda _, text=text: text)  # type: ignore[misc]
    return lambda value: "".join(write(value) for write in writers)


def parser(pattern: str) -> Callable[[str], datetime]:
    """A reader of timestamps by a pattern of numeric fields.

    >>> parser("yyyyMMdd")("20200103").date()
    datetime.date(2020, 1, 3)
    """
    parts = []
    for text, is_field in pattern_tokens(pattern):
        if is_field and text not in _READ:
            raise unsupported(f"'{text}' in the pattern '{pattern}' is read by Spark only")
        parts.append(_READ[text] if is_field else re.escape(text))
    try:
        compiled = re.compile("".join(parts), re.ASCII)
    except re.error:
        raise unsupported(f"the pattern '{pattern}' is read by Spark only") from None

    def read(text: str) -> datetime:
        match = compiled.fullmatch(text)
        found = {} if match is None else match.groupdict()
        try:
            if match is None:
                raise ValueError
            numbers = [int(found.get(k) or d) for k, d in (("year", 1970), ("month", 1), ("day", 1))]
            clock = [int(found.get(k) or 0) for k in ("hour", "minute", "second")]
            micros = int((found.get("fraction") or "").ljust(6, "0"))
            return datetime(
                numbers[0], numbers[1], numbers[2], clock[0], clock[1], clock[2], micros, tzinfo=UTC
            )
        except ValueError:
            help = "TRY_CAST gives NULL for text that is no timestamp"
            message = f"'{text}' does not follow the pattern '{pattern}'"
            raise Diagnostic("CAST_INVALID_INPUT", message, help=help) from None

    return read


def _seconds(value: datetime) -> Decimal:
    return Decimal(value.second * 1_000_000 + value.microsecond).scaleb(-6)


DATES: dict[str, Callable[..., Value]] = {
    "YEAR": lambda v: v.year,
    "QUARTER": lambda v: (v.month + 2) // 3,
    "MONTH": lambda v: v.month,
    "WEEKOFYEAR": lambda v: v.isocalendar()[1],
    "DAY": lambda v: v.day,
    "DAYOFWEEK": lambda v: v.isoweekday() % 7 + 1,
    "WEEKDAY": lambda v: v.weekday(),
    "DAYOFYEAR": lambda v: v.timetuple().tm_yday,
    "HOUR": lambda v: v.hour,
    "MINUTE": lambda v: v.minute,
    "SECOND": lambda v: v.second,
    "EXTRACT_SECOND": _seconds,
    "UNIX_SECONDS": lambda v: to_ticks(v) // 1_000_000,
    "UNIX_MILLIS": lambda v: to_ticks(v) // 1_000,
    "UNIX_MICROS": to_ticks,
    "UNIX_DATE": lambda v: v.toordinal() - _EPOCH,
    "DATE_FROM_UNIX_DATE": lambda days: add_days(date(1970, 1, 1), days),
    "TIMESTAMP_SECONDS": timestamp_of(1_000_000),
    "TIMESTAMP_MILLIS": timestamp_of(1_000),
    "TIMESTAMP_MICROS": timestamp_of(1),
    "DATEDIFF": lambda end, start: (end - start).days,
    "DATE_ADD": add_days,
    "DATE_SUB": lambda start, days: add_days(start, -days),
    "+ INTERVAL": plus,
    "- INTERVAL": minus,
    "+ MONTHS": add_months,
    "- MONTHS": lambda start, months: add_months(start, -months),
    "DIFFERENCE": lambda end, start: end - start,
    "ADD_MONTHS": add_months,
    "LAST_DAY": lambda v: v.replace(day=monthrange(v.year, v.month)[1]),
    "MAKE_DATE": make_date,
}
"""Functions that are NULL where an argument is."""
