"""Operators and numeric functions on values: what each does to arguments that are not NULL."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from datetime import timedelta
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from typing import Any

from tidegate.errors import Diagnostic
from tidegate.scalars.casts import EXACT, checked, fitted, overflow, single
from tidegate.types import NAN, Type, Value

Function = Callable[..., Value]


def divide_by_zero() -> Diagnostic:
    help = "guard the divisor: CASE WHEN d <> 0 THEN n / d END"
    return Diagnostic("DIVIDE_BY_ZERO", "division by zero", help=help)


# ---------------------------------------------------------------------------------------- comparison


def key_of(type: Type) -> Callable[[Value], Any] | None:
    """What to compare instead of the value; None where Python compares as Spark does.

    NaN equals itself and is greater than every number; in arrays and structs NULL comes first.

    >>> from tidegate.types import DOUBLE
    >>> key_of(DOUBLE)(float("nan")) > key_of(DOUBLE)(float("inf"))
    True
    """
    if type.name in ("FLOAT", "DOUBLE"):
        return lambda v: (1, 0.0) if v != v else (0, v)
    if type.name == "ARRAY":
        member = _nulls_first(key_of(type.params[0]))
        return lambda v: tuple(map(member, v))
    if type.name == "STRUCT":
        members = [_nulls_first(key_of(t)) for _, t in type.params]
        return lambda v: tuple(m(x) for m, x in zip(members, v, strict=True))
    return None


def _nulls_first(key: Callable[[Value], Any] | None) -> Callable[[Value], Any]:
    return lambda v: (0,) if v is None else (1, v if key is None else key(v))


_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def comparison(name: str, type: Type) -> Function:
    compare, key = _COMPARE[name], key_of(type)
    if key is None:
        return compare
    return lambda a, b: compare(key(a), key(b))


# ---------------------------------------------------------------------------------------- arithmetic


def _truncated(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _remainder(a: int, b: int) -> int:
    return a - b * _truncated(a, b)


def _float_remainder(a: float, b: float) -> float:
    return NAN if math.isinf(a) or a != a or b != b else math.fmod(a, b)


def _guarded(divide: Function) -> Function:
    def run(a: Any, b: Any) -> Value:
        if b == 0:
            raise divide_by_zero()
        return divide(a, b)

    return run


def _decimal_quotient(a: Decimal, b: Decimal) -> Decimal:
    return EXACT.divide(a, b)


def _decimal_remainder(a: Decimal, b: Decimal) -> Decimal:
    return EXACT.remainder(a, b)


_EXACT: dict[str, Function] = {
    "+": EXACT.add,
    "-": EXACT.subtract,
    "*": EXACT.multiply,
    "/": _guarded(_decimal_quotient),
    "%": _guarded(_decimal_remainder),
}
_INTEGERS: dict[str, Function] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "DIV": _guarded(_truncated),
    "%": _guarded(_remainder),
}
_FLOATS: dict[str, Function] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _guarded(operator.truediv),
    "%": _guarded(_float_remainder),
}


def _wrapping_add(type: Type) -> Function:
    """Java's sum, which wraps around; TINYINT and SMALLINT are added as INT."""
    half = 2**63 if type.name == "BIGINT" else 2**31
    return lambda a, b: (a + b + half) % (2 * half) - half


def _positive(remainder: Function, add: Function) -> Function:
    """PMOD: the remainder moved by the divisor once if negative; of a negative divisor the sign may stay."""

    def run(a: Any, b: Any) -> Value:
        first = remainder(a, b)
        return remainder(add(first, b), b) if first < 0 else first

    return run


def arithmetic(name: str, operand: Type, result: Type) -> Function:
    """`a op b` for two numbers of one type; the exact answer must fit the result.

    >>> from tidegate.types import INT, BIGINT
    >>> arithmetic("%", INT, INT)(-5, 3), arithmetic("DIV", BIGINT, BIGINT)(-7, 2)
    (-2, -3)
    """
    tables = {"DECIMAL": _EXACT, "FLOAT": _FLOATS, "DOUBLE": _FLOATS}
    table = tables.get(operand.name, _INTEGERS)
    if name == "PMOD":
        compute = _positive(table["%"], _wrapping_add(operand) if operand.is_integral else table["+"])
    elif name == "DIV" and operand.name == "DECIMAL":
        compute = _guarded(lambda a, b: int(EXACT.divide_int(a, b)))
    else:
        compute = table[name]
    if result.name == "DECIMAL":
        return lambda a, b: fitted(compute(a, b), result)
    if result.is_integral:
        return lambda a, b: checked(compute(a, b), result)
    if result.name == "FLOAT":
        return lambda a, b: single(compute(a, b))
    return compute


def negative(type: Type) -> Function:
    return (lambda v: checked(-v, type)) if type.is_integral else lambda v: -v


def absolute(type: Type) -> Function:
    return (lambda v: checked(abs(v), type)) if type.is_integral else abs


def _interval(ticks: int) -> timedelta:
    try:
        return timedelta(microseconds=ticks)
    except OverflowError:
        raise overflow("the interval is too long") from None


def ticks_of(value: timedelta) -> int:
    return value // timedelta(microseconds=1)


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
        return _interval(math.floor(abs(result) + 0.5) * (1 if result >= 0 else -1))
    exact = (
        EXACT.divide(Decimal(ticks), Decimal(by)) if divide else EXACT.multiply(Decimal(ticks), Decimal(by))
    )
    return _interval(int(exact.to_integral_value(ROUND_HALF_UP)))


def interval_sum(a: timedelta, b: timedelta, sign: int) -> timedelta:
    return _interval(ticks_of(a) + sign * ticks_of(b))


# ------------------------------------------------------------------------------------------ rounding

_MODES = {"ROUND": ROUND_HALF_UP, "BROUND": ROUND_HALF_EVEN, "CEIL": ROUND_CEILING, "FLOOR": ROUND_FLOOR}


def rounding(name: str, operand: Type, result: Type, digits: int) -> Function:
    """ROUND and its kin to a number of decimals; of integers, only negative ones matter.

    >>> from tidegate.types import DOUBLE
    >>> rounding("ROUND", DOUBLE, DOUBLE, 2)(2.675)
    2.68
    """
    mode = _MODES[name]

    def exact(value: Decimal) -> Decimal:
        if digits >= 0 and -int(value.as_tuple().exponent) <= digits:
            return value
        return value.quantize(Decimal(1).scaleb(-digits), rounding=mode, context=EXACT)

    if operand.name == "DECIMAL":
        return lambda v: fitted(exact(v), result)
    if operand.is_integral:
        if digits >= 0:
            return lambda v: v
        return lambda v: checked(int(exact(Decimal(v))), result)

    def floating(value: float) -> float:
        if not math.isfinite(value):
            return value
        rounded = float(exact(Decimal(repr(value))))
        return single(rounded) if operand.name == "FLOAT" else rounded

    return floating


def to_whole(name: str) -> Function:
    """CEIL and FLOOR of a DOUBLE as BIGINT; NaN is 0, as a Java cast has it."""
    whole = math.ceil if name == "CEIL" else math.floor

    def run(value: float) -> int:
        if value != value:
            return 0
        if math.isinf(value) or not -(2**63) <= value <= 2**63:
            raise overflow(f"{value} does not fit BIGINT")
        return min(whole(value), 2**63 - 1)

    return run


# ------------------------------------------------------------------------------------- real functions


def power(a: float, b: float) -> float:
    if b == 0:
        return 1.0
    if a != a or b != b or (abs(a) == 1 and math.isinf(b)):
        return NAN
    try:
        return math.pow(a, b)
    except OverflowError:
        return -math.inf if a < 0 and b % 2 == 1 else math.inf
    except ValueError:
        if a == 0:
            return -math.inf if math.copysign(1, a) < 0 and b % 2 == 1 else math.inf
        return NAN


def exponential(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


def square_root(value: float) -> float:
    return math.sqrt(value) if value >= 0 else NAN


def logarithm(value: float) -> float | None:
    return None if value <= 0 else math.log(value)


def logarithm_to(base: float, value: float) -> float | None:
    if base <= 0 or value <= 0:
        return None
    top, bottom = math.log(value), math.log(base)
    if bottom == 0:
        return NAN if top == 0 or top != top else math.copysign(math.inf, top)
    return NAN if math.isinf(top) and math.isinf(bottom) else top / bottom


def sign(value: Any) -> float:
    if isinstance(value, timedelta):
        value = float(ticks_of(value))
    return value if value == 0 or value != value else math.copysign(1.0, value)
