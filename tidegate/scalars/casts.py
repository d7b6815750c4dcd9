"""CAST: Spark's ANSI casts, one function per pair of types, on values and on columns."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal, InvalidOperation
from typing import Any
from zoneinfo import ZoneInfo

import polars as pl
from sqlglot import exp

from tidegate.errors import Diagnostic, Kind, unsupported
from tidegate.scalars.coercion import can_cast_explicitly, type_from_sql
from tidegate.scalars.columns import TICKING, checked_column, dtype, either_error, quotient
from tidegate.scalars.date_patterns import YEAR_1000, YEAR_10000
from tidegate.scalars.expressions import span_of
from tidegate.scalars.intervals import FIRST_TICK, LAST_TICK
from tidegate.scalars.limits import EXACT, LIMITS, checked, fitted, overflow, single
from tidegate.scalars.registry import Call, Column, Function, Pending, Resolved, Scalar, failure, may_lose
from tidegate.time import UNITS, to_datetime, to_ticks
from tidegate.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTERVAL,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    Row,
    Type,
    Value,
)

Convert = Callable[[Any], Value]

_WHITE = "".join(map(chr, range(33))) + "\x7f"
_INTEGER = re.compile(r"[+-]?[0-9]+")
_FLOATING = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[dDfF]?")
_NO_NUMBER = re.compile(r"nan|[+-]?inf(?:inity)?", re.IGNORECASE)
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


def malformed(value: Value, target: Type) -> Diagnostic:
    message = f"'{value}' cannot be cast to {target}"
    return Diagnostic("CAST_INVALID_INPUT", message, help="TRY_CAST gives NULL for such values")


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


_WRITERS: dict[str, Convert] = {
    **dict.fromkeys(LIMITS, str),
    "STRING": lambda v: v,
    "BOOLEAN": lambda v: "true" if v else "false",
    "DOUBLE": lambda v: text_of_float(v, repr(v)),
    "FLOAT": lambda v: text_of_float(v, "0" if not math.isfinite(v) else _single_digits(v)),
    "DATE": lambda v: f"{v.year:04d}-{v.month:02d}-{v.day:02d}",
    "TIMESTAMP": text_of_timestamp,
    "TIMESTAMP_NTZ": text_of_timestamp,
    "BINARY": lambda v: bytes(v).decode("utf-8", errors="replace"),
    "VOID": lambda v: None,
}


def _to_text(source: Type) -> Convert:
    if source.name == "DECIMAL":
        return lambda v: format(fitted(v, source), "f")
    if source.name == "ARRAY":
        member = _or_null(_to_text(source.params[0]))
        return lambda v: "[" + ", ".join(map(member, v)) + "]"
    if source.name == "STRUCT":
        members = [_or_null(_to_text(t)) for _, t in source.params]
        return lambda v: "{" + ", ".join(m(x) for m, x in zip(members, v, strict=True)) + "}"
    if source.name not in _WRITERS:
        raise unsupported(f"the text of {source} is written by Spark only")
    return _WRITERS[source.name]


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


def _read_integer(text: str, target: Type) -> int | None:
    # Python reads no numbers of thousands of digits.
    digits, limit = text.lstrip("+-0") or "0", LIMITS[target.name]
    if not _INTEGER.fullmatch(text) or len(digits) > 19:
        return None
    number = -int(digits) if text[0] == "-" else int(digits)
    return number if -limit <= number < limit else None


def _read_float(text: str, target: Type) -> float | None:
    if _NO_NUMBER.fullmatch(text):
        return float(text)
    if not _FLOATING.fullmatch(text):
        return None
    number = float(text.rstrip("dDfF"))
    return single(number) if target.name == "FLOAT" else number


def _read_decimal(text: str, target: Type) -> Decimal | None:
    try:
        return fitted(Decimal(text), target) if _DECIMAL.fullmatch(text) else None
    except InvalidOperation:
        raise overflow(f"{text} does not fit {target}") from None


def _read_boolean(text: str, target: Type) -> bool | None:
    lowered = text.lower()
    return True if lowered in _TRUE else False if lowered in _FALSE else None


_READERS: dict[str, Callable[[str, Type], Value]] = {
    **dict.fromkeys(LIMITS, _read_integer),
    **dict.fromkeys(("FLOAT", "DOUBLE"), _read_float),
    "DECIMAL": _read_decimal,
    "BOOLEAN": _read_boolean,
    "DATE": lambda text, _: to_date(text),
    "TIMESTAMP": lambda text, _: to_instant(text),
    "TIMESTAMP_NTZ": lambda text, _: (moment := to_instant(text)) and moment.replace(tzinfo=None),
}


def _from_text(target: Type) -> Convert:
    if target == BINARY:
        return lambda text: text.encode("utf-8")
    if target.name not in _READERS:
        raise unsupported(f"a STRING is cast to {target} by Spark only")
    read = _READERS[target.name]

    def convert(text: str) -> Value:
        value = read(text.strip(_WHITE), target)
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


# -------------------------------------------------------------------------------------------- forms

_PLAIN_TEXTS = {
    **dict.fromkeys(LIMITS, r"\A[+-]?[0-9]{1,18}\z"),
    "DOUBLE": r"\A[+-]?[0-9]{1,300}(?:\.[0-9]{0,300})?\z",
    "DATE": r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}\z",
    "TIMESTAMP": r"\A[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-5][0-9]:[0-5][0-9]\z",
}
"""Texts that Polars reads as Spark does; of all others, row by row is decided what they are."""


def _column_from_text(a: pl.Expr, target: Type) -> tuple[pl.Expr, pl.Expr] | None:
    """The value of a text, and which texts must be read row by row."""
    value: pl.Expr
    if target == BINARY:
        return a.cast(pl.Binary), pl.lit(False)
    if target == BOOLEAN:
        lowered = a.str.to_lowercase()
        value = pl.when(lowered == "true").then(True).when(lowered == "false").then(False)
    elif target.name not in _PLAIN_TEXTS:
        return None
    else:
        plain = pl.when(a.str.contains(_PLAIN_TEXTS[target.name])).then(a)
        if target == DATE:
            value = plain.str.to_date("%Y-%m-%d", strict=False)
        elif target == TIMESTAMP:
            value = plain.str.to_datetime("%Y-%m-%d %H:%M:%S", time_unit="us", time_zone="UTC", strict=False)
        else:
            value = plain.cast(dtype(target), strict=False)
    return value, value.is_null() & a.is_not_null()


def _column_to_text(a: pl.Expr, source: Type) -> tuple[pl.Expr, pl.Expr | None] | None:
    if source.is_integral or source.name == "DECIMAL":
        return a.cast(pl.String), None
    if source == BOOLEAN:
        return pl.when(a).then(pl.lit("true")).when(~a).then(pl.lit("false")), None
    if source == DATE or source.name in TICKING:
        ticks = a.cast(pl.Datetime("us")).to_physical()
        # Years of another width are written row by row.
        wide = (ticks < YEAR_1000) | (ticks >= YEAR_10000)
        if source == DATE:
            return a.dt.strftime("%Y-%m-%d"), wide
        text = a.dt.strftime("%Y-%m-%d %H:%M:%S")
        fraction = a.dt.strftime(".%6f").str.strip_chars_end("0")
        return pl.when(ticks % 1_000_000 == 0).then(text).otherwise(text + fraction), wide
    return None


def _column_to_number(a: pl.Expr, source: Type, target: Type) -> tuple[pl.Expr, pl.Expr | None] | None:
    if source == BOOLEAN:
        return None if target.name == "DECIMAL" else (a.cast(dtype(target)), None)
    if source == TIMESTAMP:
        ticks = a.to_physical()
        if target == DOUBLE:
            # Beyond 2^53 a number of ticks is rounded before it is divided.
            return quotient(ticks, pl.lit(1_000_000)), (ticks.abs() > 2**53)
        return (ticks // 1_000_000, None) if target.is_integral else None
    if target.name in ("FLOAT", "DOUBLE"):
        # Up to 15 digits, numerator and denominator are exact numbers, so their quotient is the nearest.
        if source.name == "DECIMAL" and source.params[0] > 15:
            return None
        return a.cast(pl.Float64).cast(dtype(target)), None
    if target.name == "DECIMAL":
        digits = (*source.params, 0)[:2] if source.name == "DECIMAL" else (_DIGITS.get(source.name, 39), 0)
        grows = target.params[1] >= digits[1] and target.params[0] - target.params[1] >= digits[0] - digits[1]
        if grows or source.name != "DECIMAL" or target.params[1] < digits[1]:
            return (a.cast(dtype(target)), None) if grows else None
        fitting = a.cast(dtype(target), strict=False)
        return fitting, fitting.is_null() & a.is_not_null()
    if source.name == "DECIMAL":
        whole = a.cast(pl.Int64, strict=False)
        return whole, whole.is_null() & a.is_not_null()
    if source.name in ("FLOAT", "DOUBLE"):
        whole = pl.when(a >= 0).then(a.floor()).otherwise(a.ceil())
        return whole.cast(pl.Float64), a.is_nan()
    return (a, None) if source.is_integral else None


_DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 19}


def _column_to_point(a: pl.Expr, source: Type, target: Type) -> tuple[pl.Expr, pl.Expr | None] | None:
    if source.is_integral:
        ticks = a.cast(pl.Int128) * 1_000_000
        return ticks.cast(pl.Int64, strict=False), (ticks < FIRST_TICK) | (ticks > LAST_TICK)
    if target == DATE:
        return (a.to_physical() // UNITS["DAY"]).cast(pl.Int32), None
    if source == DATE:
        return a.to_physical().cast(pl.Int64) * UNITS["DAY"], None
    return (a.to_physical(), None) if source.name in TICKING else None


def _cast_form(node: Resolved, args: Sequence[Column]) -> Column | None:
    (a,) = args
    source, target = a.type, node.type
    if source == target:
        return a
    made: tuple[pl.Expr, pl.Expr | None] | None = None
    if source == STRING:
        made = _column_from_text(a.value, target)
    elif target == STRING:
        made = _column_to_text(a.value, source)
    elif target == BOOLEAN:
        made = (a.value != 0, None)
    elif target.is_numeric:
        made = _column_to_number(a.value, source, target)
    elif target in (DATE, TIMESTAMP, TIMESTAMP_NTZ):
        made = _column_to_point(a.value, source, target)
    if made is None:
        return None
    value, by_row = made
    error = either_error(a.error, None if by_row is None else by_row.fill_null(False))
    if target.is_integral and (source.is_numeric or source == TIMESTAMP):
        return checked_column(value, target, error)
    return Column(value.cast(dtype(target), strict=False), target, error)


# ------------------------------------------------------------------------------------------ entries


def _cast_rule(call: Pending) -> Resolved:
    (arg,) = call.args
    try:
        target = type_from_sql(call.detail)
    except Diagnostic as problem:
        raise problem.at(span_of(call.node)) from None
    if not can_cast_explicitly(arg.type, target):
        raise failure("TYPE_MISMATCH", f"{arg.type} cannot be cast to {target}", call.node)
    nullable = arg.nullable or call.name == "TRY_CAST" or may_lose(arg.type, target)
    return call.done(target, nullable=nullable, detail=None)


def _try_cast(node: Resolved, args: Sequence[Scalar]) -> Scalar:
    (arg,) = args
    convert = cast_function(node.args[0].type, node.type)

    def run(row: Row) -> Value:
        value = arg(row)
        try:
            return None if value is None else convert(value)
        except Diagnostic as problem:
            if problem.kind is not Kind.USER:
                raise
            return None

    return run


def _read_cast(node: exp.Cast) -> Call:
    # sqlglot's Spark dialect reads CAST as TryCast, and TRY_CAST as one that is `safe`.
    safe = isinstance(node, exp.TryCast) and bool(node.args.get("safe"))
    return Call("TRY_CAST" if safe else "CAST", (node.this,), node.to)


ENTRIES = (
    Function("CAST", {exp.Cast: _read_cast, exp.TryCast: _read_cast}, (1, 1), _cast_rule,
        lambda node: cast_function(node.args[0].type, node.type), _cast_form, names="CAST"),
    Function("TRY_CAST", {}, (1, 1), _cast_rule, _try_cast, _cast_form, names="TRY_CAST", lazy=True),
)  # fmt: skip
