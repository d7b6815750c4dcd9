"""CAST on values: Spark's ANSI casts in plain Python, one closure per pair of types."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from ctypes import c_float
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any
from zoneinfo import ZoneInfo

from tidegate.errors import Diagnostic, unsupported
from tidegate.time import to_datetime, to_ticks
from tidegate.types import (
    BINARY,
    BOOLEAN,
    DATE,
    INTERVAL,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    Type,
    Value,
)

Convert = Callable[[Any], Value]

EXACT = Context(prec=200, rounding=ROUND_HALF_UP)
LIMITS = {name: 2**bits for name, bits in (("TINYINT", 7), ("SMALLINT", 15), ("INT", 31), ("BIGINT", 63))}
_WHITE = "".join(map(chr, range(33))) + "\x7f"
_INTEGER = re.compile(r"[+-]?[0-9]+")
_FLOATING = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[dDfF]?")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_DATE = re.compile(r"([+-]?\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?", re.ASCII | re.DOTALL)
_TIMESTAMP = re.compile(
    r"([+-]?\d{4,6})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T]"
    r"(?:(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?)?(\s*\S.*)?)?)?)?)?",
    re.ASCII,
)
_ZONE = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?(?::?(\d{2}))?", re.ASCII)
_TRUE = ("t", "true", "y", "yes", "1")
_FALSE = ("f", "false", "n", "no", "0")


def overflow(what: str) -> Diagnostic:
    return Diagnostic("ARITHMETIC_OVERFLOW", what, help="cast to a wider type first")


def malformed(value: Value, target: Type) -> Diagnostic:
    message = f"'{value}' cannot be cast to {target}"
    return Diagnostic("CAST_INVALID_INPUT", message, help="TRY_CAST gives NULL for such values")


def single(value: float) -> float:
    """The nearest single-precision number.

    >>> single(0.1)
    0.10000000149011612
    """
    return c_float(value).value


def fitted(value: Decimal, type: Type) -> Decimal:
    """The value with the scale of the type, rounded half up; too many digits are an error.

    >>> from tidegate.types import decimal
    >>> fitted(Decimal("2.345"), decimal(5, 2))
    Decimal('2.35')
    """
    precision, scale = type.params
    try:
        rounded = value.quantize(Decimal(1).scaleb(-scale), context=EXACT)
    except InvalidOperation:
        raise overflow(f"{value} does not fit {type}") from None
    if rounded and rounded.adjusted() + 1 > precision - scale:
        raise overflow(f"{value} does not fit {type}")
    return rounded if rounded else abs(rounded)


def checked(value: int, type: Type) -> int:
    """The integer itself, if the type holds it."""
    limit = LIMITS[type.name]
    if -limit <= value < limit:
        return value
    raise overflow(f"{value} does not fit {type}")


def text_of_float(value: float, digits: str) -> str:
    """Java's text of a floating-point number, given its shortest digits.

    >>> text_of_float(1e7, repr(1e7)), text_of_float(0.001, repr(0.001)), text_of_float(-12.5, repr(-12.5))
    ('1.0E7', '0.001', '-12.5')
    """
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return "-0.0" if math.copysign(1, value) < 0 else "0.0"
    sign, numbers, exponent = Decimal(digits).normalize().as_tuple()
    figures, minus = "".join(map(str, numbers)), "-" if sign else ""
    point = len(figures) + int(exponent)
    if 1e-3 <= abs(value) < 1e7:
        if point <= 0:
            return f"{minus}0.{'0' * -point}{figures}"
        figures = figures.ljust(point, "0")
        return f"{minus}{figures[:point]}.{figures[point:] or '0'}"
    return f"{minus}{figures[0]}.{figures[1:] or '0'}E{point - 1}"


def _single_digits(value: float) -> str:
    for precision in range(1, 10):
        digits = f"{value:.{precision}g}"
        if single(float(digits)) == value:
            break
    return digits


def text_of_timestamp(value: datetime) -> str:
    """
    >>> text_of_timestamp(datetime(2020, 1, 1, 0, 0, 0, 100000))
    '2020-01-01 00:00:00.1'
    """
    clock = f"{value.hour:02d}:{value.minute:02d}:{value.second:02d}"
    text = f"{value.year:04d}-{value.month:02d}-{value.day:02d} {clock}"
    return f"{text}.{value.microsecond:06d}".rstrip("0") if value.microsecond else text


def _to_text(source: Type) -> Convert:
    name = source.name
    if name in ("STRING",):
        return lambda v: v
    if name == "BOOLEAN":
        return lambda v: "true" if v else "false"
    if source.is_integral:
        return str
    if name == "DOUBLE":
        return lambda v: text_of_float(v, repr(v))
    if name == "FLOAT":
        return lambda v: text_of_float(v, "0" if not math.isfinite(v) else _single_digits(v))
    if name == "DECIMAL":
        return lambda v: format(fitted(v, source), "f")
    if name == "DATE":
        return lambda v: f"{v.year:04d}-{v.month:02d}-{v.day:02d}"
    if name in ("TIMESTAMP", "TIMESTAMP_NTZ"):
        return text_of_timestamp
    if name == "BINARY":
        return lambda v: bytes(v).decode("utf-8", errors="replace")
    if name == "VOID":
        return lambda v: None
    if name == "ARRAY":
        member = _or_null(_to_text(source.params[0]))
        return lambda v: "[" + ", ".join(map(member, v)) + "]"
    if name == "STRUCT":
        members = [_or_null(_to_text(t)) for _, t in source.params]
        return lambda v: "{" + ", ".join(m(x) for m, x in zip(members, v, strict=True)) + "}"
    raise unsupported(f"the text of {source} is written by Spark only")


def _or_null(convert: Convert) -> Callable[[Value], str]:
    return lambda v: "null" if v is None else convert(v)


def to_date(text: str) -> date | None:
    """
    >>> to_date("2020-1-3"), to_date("2020-13-01")
    (datetime.date(2020, 1, 3), None)
    """
    match = _DATE.fullmatch(text.strip(_WHITE))
    if match is None:
        return None
    try:
        return date(int(match[1]), int(match[2] or 1), int(match[3] or 1))
    except ValueError:
        return None


def to_instant(text: str) -> datetime | None:
    """The instant a text names, in UTC unless it says otherwise.

    >>> to_instant("2020-01-03 01:02").isoformat(), to_instant("2020-01-03T01:02:03.5+01:00").isoformat()
    ('2020-01-03T01:02:00+00:00', '2020-01-03T00:02:03.500000+00:00')
    """
    match = _TIMESTAMP.fullmatch(text.strip(_WHITE))
    if match is None:
        return None
    numbers = [int(match[i] or (1 if i < 4 else 0)) for i in range(1, 7)]
    micros = int((match[7] or "").ljust(6, "0")[:6])
    try:
        zone = _zone((match[8] or "").strip())
        moment = datetime(*numbers, micros, tzinfo=zone)  # type: ignore[arg-type, misc]
        return moment.astimezone(UTC)
    except (ValueError, OverflowError, KeyError, OSError):
        return None


def _zone(text: str) -> timezone | ZoneInfo:
    if text in ("", "Z", "UTC", "GMT", "UT"):
        return UTC
    match = _ZONE.fullmatch(text)
    if match is None:
        return ZoneInfo(text)
    offset = timedelta(hours=int(match[2]), minutes=int(match[3] or 0), seconds=int(match[4] or 0))
    if offset > timedelta(hours=18):
        raise ValueError(text)
    return timezone(-offset if match[1] == "-" else offset)


def _from_text(target: Type) -> Convert:
    parse: Callable[[str], Value]
    if target.is_integral:
        limit = LIMITS[target.name]

        def parse(text: str) -> Value:
            if not _INTEGER.fullmatch(text):
                return None
            number = int(text)
            return number if -limit <= number < limit else None
    elif target.name in ("DOUBLE", "FLOAT"):

        def parse(text: str) -> Value:
            lowered = text.lower()
            if (
                lowered.lstrip("+-") in ("inf", "infinity", "nan")
                and len(lowered) - len(lowered.lstrip("+-")) < 2
            ):
                return None if lowered[0] in "+-" and lowered.endswith("nan") else float(lowered)
            if not _FLOATING.fullmatch(text):
                return None
            number = float(text.rstrip("dDfF"))
            return single(number) if target.name == "FLOAT" else number
    elif target.name == "DECIMAL":

        def parse(text: str) -> Value:
            return fitted(Decimal(text), target) if _DECIMAL.fullmatch(text) else None
    elif target == BOOLEAN:

        def parse(text: str) -> Value:
            lowered = text.lower()
            return True if lowered in _TRUE else False if lowered in _FALSE else None
    elif target == DATE:
        parse = to_date
    elif target == TIMESTAMP:
        parse = to_instant
    elif target == TIMESTAMP_NTZ:

        def parse(text: str) -> Value:
            moment = to_instant(text)
            return None if moment is None else moment.replace(tzinfo=None)
    elif target == BINARY:
        return lambda text: text.encode("utf-8")
    else:
        raise unsupported(f"a STRING is cast to {target} by Spark only")

    def convert(text: str) -> Value:
        value = parse(text.strip(_WHITE))
        if value is None:
            raise malformed(text, target)
        return value

    return convert


def _to_integral(source: Type, target: Type) -> Convert:
    if source == TIMESTAMP:
        return lambda v: checked(to_ticks(v) // 1_000_000, target)
    if source == INTERVAL:
        raise unsupported("an INTERVAL is cast to a number by Spark only")

    def convert(value: Any) -> int:
        try:
            return checked(int(value), target)
        except (ValueError, OverflowError):
            raise overflow(f"{value} does not fit {target}") from None

    return convert


def _to_decimal(source: Type, target: Type) -> Convert:
    if source.name in ("FLOAT", "DOUBLE"):

        def convert(value: float) -> Decimal | None:
            # NaN and the infinities are NULL, also in ANSI mode: so Spark has it.
            return fitted(Decimal(repr(value)), target) if math.isfinite(value) else None

        return convert
    if source == TIMESTAMP:
        return lambda v: fitted(Decimal(to_ticks(v)).scaleb(-6, EXACT), target)
    if source == INTERVAL:
        raise unsupported("an INTERVAL is cast to a number by Spark only")
    return lambda v: fitted(Decimal(v), target)


def _to_timestamp(source: Type) -> Convert:
    if source == DATE:
        return lambda v: datetime(v.year, v.month, v.day, tzinfo=UTC)
    if source == TIMESTAMP_NTZ:
        return lambda v: v.replace(tzinfo=UTC)

    def convert(value: Any) -> datetime:
        try:
            return to_datetime(int(value * 1_000_000))
        except (ValueError, OverflowError):
            raise overflow(f"{value} is not a TIMESTAMP of the years 1 to 9999") from None

    return convert


def cast_function(source: Type, target: Type) -> Convert:
    """What CAST does to a value that is not NULL. Raises `Diagnostic` where ANSI mode raises.

    >>> from tidegate.types import INT, DOUBLE
    >>> cast_function(STRING, INT)(" 12 "), cast_function(DOUBLE, STRING)(1e10)
    (12, '1.0E10')
    """
    if source == target or source == VOID:
        return lambda v: v
    if target == STRING:
        return _to_text(source)
    if source == STRING:
        return _from_text(target)
    if target == BOOLEAN:
        return lambda v: v != 0
    if target.is_integral:
        return _to_integral(source, target)
    if target.name in ("FLOAT", "DOUBLE"):
        number: Convert = float if source != TIMESTAMP else lambda v: to_ticks(v) / 1_000_000
        return number if target.name == "DOUBLE" else lambda v: single(number(v))
    if target.name == "DECIMAL":
        return _to_decimal(source, target)
    if target == DATE:
        return lambda v: v.date()
    if target == TIMESTAMP:
        return _to_timestamp(source)
    if target == TIMESTAMP_NTZ:
        instant = _to_timestamp(source) if source == DATE else lambda v: v
        return lambda v: instant(v).replace(tzinfo=None)
    if source.name == target.name and source.name in ("ARRAY", "STRUCT", "MAP"):
        return _cast_members(source, target)
    raise unsupported(f"{source} is cast to {target} by Spark only")


def _cast_members(source: Type, target: Type) -> Convert:
    def lifted(convert: Convert) -> Convert:
        return lambda v: None if v is None else convert(v)

    if source.name == "STRUCT":
        pairs = zip(source.params, target.params, strict=True)
        members = [lifted(cast_function(t, u)) for (_, t), (_, u) in pairs]
        return lambda v: tuple(m(x) for m, x in zip(members, v, strict=True))
    if source.name == "MAP":
        key, value = (lifted(cast_function(t, u)) for t, u in zip(source.params, target.params, strict=True))
        return lambda v: tuple((key(k), value(x)) for k, x in v)
    member = lifted(cast_function(source.params[0], target.params[0]))
    return lambda v: tuple(map(member, v))
