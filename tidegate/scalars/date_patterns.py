"""Datetime patterns, as Java writes them: read, written, and written in columns."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime

import polars as pl
from sqlglot import exp, parse_one
from sqlglot.dialects.dialect import Dialect

from tidegate.errors import Diagnostic, unsupported
from tidegate.time import UNITS

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


def time_pattern(node: exp.Expression) -> str | None:
    """The datetime pattern as the query wrote it: sqlglot keeps a translation; None if it is not constant."""
    format = node.args.get("format")
    if not isinstance(format, exp.Literal) or not format.is_string:
        return None
    written = Dialect.get_or_raise("spark").generator().format_time(node)
    return parse_one(written, dialect="spark").name if written else None


_SECOND, _MINUTE, _HOUR, _DAY = (UNITS[unit] for unit in ("SECOND", "MINUTE", "HOUR", "DAY"))
_FIXED = {
    **{
        field: (f"%{letter}", _DAY)
        for field, letter in zip("yyyy y yy MM M MMM MMMM".split(), "Y Y y m -m b B".split(), strict=True)
    },
    **{
        field: (f"%{letter}", _DAY)
        for field, letter in zip("dd d DDD D E EEE EEEE".split(), "d -d j -j a a A".split(), strict=True)
    },
    **{
        field: (f"%{letter}", _HOUR)
        for field, letter in zip("HH H hh h a".split(), "H -H I -I p".split(), strict=True)
    },
    "mm": ("%M", _MINUTE),
    "m": ("%-M", _MINUTE),
    "ss": ("%S", _SECOND),
    "s": ("%-S", _SECOND),
    "SSS": ("%3f", UNITS["MILLISECOND"]),
    "SSSSSS": ("%6f", 1),
}
"""How Polars writes a field of years of four digits, and the time within which its text does not change."""
YEAR_1000 = int(datetime(1000, 1, 1, tzinfo=UTC).timestamp()) * _SECOND
YEAR_10000 = (int(datetime(9999, 12, 31, tzinfo=UTC).timestamp()) + 86_400) * _SECOND


def polars_pattern(pattern: str) -> tuple[str, int] | None:
    """A pattern as Polars has it, and the time within which its text does not change; None where it has none.

    >>> polars_pattern("yyyy-MM") == ("%Y-%m", UNITS["DAY"]), polars_pattern("SS")
    (True, None)
    """
    parts, unit = [], _DAY
    for text, is_field in pattern_tokens(pattern):
        if is_field and text not in _FIXED:
            return None
        parts.append(_FIXED[text][0] if is_field else text.replace("%", "%%"))
        unit = min(unit, _FIXED[text][1]) if is_field else unit
    return "".join(parts), unit


def written(times: pl.Series, pattern: str, unit: int) -> pl.Series:
    """The times as texts that do not change within a unit: each is written once."""
    units = times.to_physical() // unit
    different = units.unique()
    if 4 * different.len() > times.len():
        return times.dt.strftime(pattern)
    texts = (different * unit).cast(times.dtype).dt.strftime(pattern)
    if different.len() == 1:
        return pl.select(pl.repeat(texts[0], times.len(), dtype=pl.String())).to_series()
    return units.replace_strict(different, texts, return_dtype=pl.String())
