"""Operators on numbers: sums, products, quotients, remainders and bits."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import polars as pl
from sqlglot import exp

from tidegate.scalars.coercion import (
    MAX_PRECISION,
    common_type,
    common_type_of,
    decimal_of,
    decimal_result,
    string_partner,
)
from tidegate.scalars.columns import checked_column, dtype, either_error, errors_of, form, quotient
from tidegate.scalars.intervals import datetime_arithmetic, interval_sum, too_long
from tidegate.scalars.limits import EXACT, checked, divide_by_zero, fitted, single
from tidegate.scalars.registry import (
    Column,
    Form,
    Function,
    Pending,
    Resolved,
    cast,
    each,
    mismatch,
)
from tidegate.types import (
    BIGINT,
    DOUBLE,
    INTEGRAL,
    INTERVAL,
    NAN,
    STRING,
    VOID,
    Type,
    Value,
    decimal,
)

Compute = Callable[..., Value]

# ---------------------------------------------------------------------------------------- type rules


def _literal_decimal(arg: Resolved) -> Type:
    """An integer literal beside a decimal is as narrow as its digits."""
    if arg.is_literal and arg.type.is_integral and arg.value is not None:
        return decimal(max(1, len(str(abs(arg.value)))), 0)
    return decimal_of(arg.type)


def _promote_strings(call: Pending) -> Pending:
    left, right = call.args
    if (left.type == STRING) == (right.type == STRING):
        return call
    partner = string_partner(left.type, right.type)
    if partner is None:
        return call
    return replace(call, args=(cast(left, partner), cast(right, partner)))


def _operator(call: Pending) -> Resolved:
    moved = datetime_arithmetic(call)
    if moved is not None:
        return moved
    call = _promote_strings(call)
    left, right = call.args
    divides = call.name in ("/", "%", "DIV", "PMOD")
    if left.type == right.type == VOID:
        target = BIGINT if call.name == "DIV" else DOUBLE
        return call.done(target, [cast(a, target) for a in call.args], True)
    if left.type == VOID or right.type == VOID:
        other = right.type if left.type == VOID else left.type
        left, right = cast(left, other), cast(right, other)
    if not (left.type.is_numeric and right.type.is_numeric):
        raise mismatch(call, "two numbers")
    names = {left.type.name, right.type.name}
    if "DECIMAL" in names and not {"FLOAT", "DOUBLE"} & names:
        left, right = cast(left, _literal_decimal(left)), cast(right, _literal_decimal(right))
        result = BIGINT if call.name == "DIV" else decimal_result(call.name, left.type, right.type)
        return call.done(result, [left, right], True)
    common = common_type(left.type, right.type)
    assert common is not None
    if call.name == "DIV":
        if not common.is_integral:
            raise mismatch(call, "integers, decimals or intervals")
        common = BIGINT
    if call.name == "/":
        common = DOUBLE
    return call.done(common, [cast(left, common), cast(right, common)], True if divides else None)


def _bitwise(call: Pending) -> Resolved:
    if len(call.args) == 2:
        call = _promote_strings(call)
    common = common_type_of([a.type for a in call.args])
    common = BIGINT if common == VOID else common
    if common is None or not common.is_integral:
        raise mismatch(call, "integers")
    return call.done(common, [cast(a, common) for a in call.args])


def number(arg: Resolved, call: Pending, wanted: str = "a number") -> Resolved:
    arg = cast(arg, DOUBLE) if arg.type in (STRING, VOID) else arg
    if not arg.type.is_numeric:
        raise mismatch(call, wanted)
    return arg


def _same_number(call: Pending) -> Resolved:
    (arg,) = call.args
    if arg.type == INTERVAL:
        return call.done(INTERVAL, detail=arg.detail)
    arg = number(arg, call, "a number or an interval")
    return call.done(arg.type, [arg])


# ------------------------------------------------------------------------------------------ meaning


def truncated(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _float_remainder(a: float, b: float) -> float:
    return NAN if math.isinf(a) or a != a or b != b else math.fmod(a, b)


def _guarded(divide: Compute) -> Compute:
    def run(a: Any, b: Any) -> Value:
        if b == 0:
            raise divide_by_zero()
        return divide(a, b)

    return run


_INTEGERS: dict[str, Compute] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "DIV": _guarded(truncated),
    "%": _guarded(lambda a, b: a - b * truncated(a, b)),
}
_FLOATS: dict[str, Compute] = {
    **_INTEGERS,
    "/": _guarded(operator.truediv),
    "%": _guarded(_float_remainder),
}
_DECIMALS: dict[str, Compute] = {
    "+": EXACT.add,
    "-": EXACT.subtract,
    "*": EXACT.multiply,
    "/": _guarded(EXACT.divide),
    "DIV": _guarded(lambda a, b: int(EXACT.divide_int(a, b))),
    "%": _guarded(EXACT.remainder),
}


def _positive(remainder: Compute, add: Compute) -> Compute:
    """PMOD: the remainder moved by the divisor once if negative; of a negative divisor the sign may stay."""

    def run(a: Any, b: Any) -> Value:
        first = remainder(a, b)
        return remainder(add(first, b), b) if first < 0 else first

    return run


def _arithmetic(node: Resolved) -> Compute:
    """`a op b` for two numbers of one type; the exact answer must fit the result."""
    name, operand, result = node.name, node.args[0].type, node.type
    if result == INTERVAL:
        return interval_sum(1 if name == "+" else -1)
    table = {"DECIMAL": _DECIMALS, "FLOAT": _FLOATS, "DOUBLE": _FLOATS}.get(operand.name, _INTEGERS)
    if name == "PMOD":
        add = table["+"]
        if operand.is_integral:
            # Java's sum, which wraps around; TINYINT and SMALLINT are added as INT.
            half = 2**63 if operand.name == "BIGINT" else 2**31
            add = lambda a, b: (a + b + half) % (2 * half) - half  # noqa: E731
        compute = _positive(table["%"], add)
    else:
        compute = table[name]
    if result.name == "DECIMAL":
        return lambda a, b: fitted(compute(a, b), result)
    if result.is_integral:
        return lambda a, b: checked(compute(a, b), result)
    if result.name == "FLOAT":
        return lambda a, b: single(compute(a, b))
    return compute


def _unary(compute: Callable[[Any], Any]) -> Callable[[Resolved], Compute]:
    def meaning(node: Resolved) -> Compute:
        return (lambda v: checked(compute(v), node.type)) if node.type.is_integral else compute

    return meaning


# -------------------------------------------------------------------------------------------- forms


def _wide(type: Type) -> pl.DataType:
    return pl.Int128() if type == BIGINT else pl.Int64()


def _arithmetic_form(apply: Callable[[pl.Expr, pl.Expr], pl.Expr]) -> Form:
    def make(node: Resolved, args: Sequence[Column]) -> Column | None:
        (a, b), operand = (c.value for c in args), args[0].type
        if operand.name in ("FLOAT", "DOUBLE", "INTERVAL"):
            out = too_long(a) | too_long(b) if operand == INTERVAL else None
            return Column(apply(a, b), node.type, either_error(errors_of(args), out))
        if operand.is_integral:
            wide = _wide(operand)
            return checked_column(apply(a.cast(wide), b.cast(wide)), node.type, errors_of(args))
        if operand.name != "DECIMAL" or (node.name != "*" and node.type.params[0] >= MAX_PRECISION):
            return None
        if node.name == "*":
            return _product(node, args)
        return Column(apply(a, b).cast(dtype(node.type)), node.type, errors_of(args))

    return make


def _product(node: Resolved, args: Sequence[Column]) -> Column | None:
    """Polars keeps the larger scale of two factors, Spark their sum: factors that have it already lose nothing.

    Where not every product fits, factors are taken that have half of the digits each; longer ones go row by row.
    """
    (p, s), (q, r) = (a.type.params for a in args)
    scale, digits = s + r, MAX_PRECISION - s - r
    if node.type.params[1] != scale:
        return None  # the result has fewer digits after the point than the exact product
    values, out = [a.value for a in args], None
    if p + q > MAX_PRECISION:
        room = (digits // 2, digits - digits // 2)
        large = [(v.abs() >= 10**n).fill_null(False) for v, n in zip(values, room, strict=True)]
        values, out = [pl.when(~b).then(v) for v, b in zip(values, large, strict=True)], large[0] | large[1]
    left, right = (v.cast(pl.Decimal(MAX_PRECISION, scale)) for v in values)
    return Column((left * right).cast(dtype(node.type)), node.type, either_error(errors_of(args), out))


def _remainder(a: pl.Expr, b: pl.Expr) -> pl.Expr:
    """SQL's remainder has the sign of the dividend, whatever Polars' has."""
    rest = a % b
    return pl.when((rest != 0) & ((rest < 0) != (a < 0))).then(rest - b).otherwise(rest)


def _by_zero(a: pl.Expr, b: pl.Expr) -> pl.Expr:
    return (b == 0) & a.is_not_null()


def _on_integers(apply: Callable[[pl.Expr, pl.Expr], pl.Expr]) -> Form:
    """Division of integers, computed in a type that is wide enough for all."""

    def make(node: Resolved, args: Sequence[Column]) -> Column | None:
        if not args[0].type.is_integral:
            return None
        a, b = (c.value.cast(pl.Int128) for c in args)
        zero = _by_zero(a, b).fill_null(False)
        return checked_column(apply(a, b), node.type, either_error(errors_of(args), zero))

    return make


def _remainder_form(node: Resolved, args: Sequence[Column]) -> Column | None:
    """A remainder is smaller than what it is made of: no wider type is needed, and nothing can be out of range."""
    if not args[0].type.is_integral:
        return None
    a, b = (c.value.cast(dtype(node.type)) for c in args)
    return Column(_remainder(a, b), node.type, either_error(errors_of(args), _by_zero(a, b).fill_null(False)))


def _pmod_form(node: Resolved, args: Sequence[Column]) -> Column | None:
    """Where Java's sum of remainder and divisor would wrap around, row by row."""
    if not args[0].type.is_integral:
        return None
    a, b = (c.value.cast(pl.Int128) for c in args)
    rest = _remainder(a, b)
    half = 2**63 if node.type == BIGINT else 2**31
    out = _by_zero(a, b) | ((rest < 0) & ((rest + b < -half) | (rest + b >= half)))
    moved = pl.when(rest < 0).then(_remainder(rest + b, b)).otherwise(rest)
    return checked_column(moved, node.type, either_error(errors_of(args), out.fill_null(False)))


def _unary_form(apply: Callable[[pl.Expr], pl.Expr]) -> Form:
    def make(node: Resolved, args: Sequence[Column]) -> Column | None:
        (a,) = args
        if a.type.is_integral:
            return checked_column(apply(a.value.cast(pl.Int128)), a.type, a.error)
        if a.type.name in ("FLOAT", "DOUBLE", "DECIMAL"):
            return Column(apply(a.value).cast(dtype(a.type)), a.type, a.error)
        return None

    return make


_SIDES = "this expression"


def _binary(name: str, spelled: type[exp.Expression] | str, columns: Form | None, **more: Any) -> Function:
    keys = "*expressions" if isinstance(spelled, str) else _SIDES
    return Function(name, {spelled: keys}, (2, 2), _operator, _arithmetic, columns, **more)


def _bits(name: str, spelled: type[exp.Expression], compute: Compute) -> Function:
    return Function(name, {spelled: _SIDES}, (2, 2), _bitwise, each(compute), form(compute, INTEGRAL))


ENTRIES = (
    _binary("+", exp.Add, _arithmetic_form(operator.add)),
    _binary("-", exp.Sub, _arithmetic_form(operator.sub)),
    _binary("*", exp.Mul, _arithmetic_form(operator.mul),
        by_row="of decimals whose exact product has more digits than the result"),
    _binary("/", exp.Div, form(quotient, "DOUBLE", fails=_by_zero), by_row="of decimals, Polars keeps the scale"),
    _binary("%", exp.Mod, _remainder_form, names="MOD",
        by_row="of numbers with fractions, Polars computes the remainder of a rounded quotient"),
    _binary("DIV", exp.IntDiv, _on_integers(lambda a, b: (a - _remainder(a, b)) // b)),
    _binary("PMOD", "PMOD", _pmod_form, names="PMOD"),
    Function("NEGATIVE", {exp.Neg: "this"}, (1, 1), _same_number, _unary(operator.neg),
        _unary_form(lambda a: 0 - a)),
    Function("ABS", {exp.Abs: "this"}, (1, 1), _same_number, _unary(abs), _unary_form(lambda a: a.abs()),
        names="ABS"),
    _bits("&", exp.BitwiseAnd, operator.and_),
    _bits("|", exp.BitwiseOr, operator.or_),
    _bits("^", exp.BitwiseXor, operator.xor),
    Function("~", {exp.BitwiseNot: "this"}, (1, 1), _bitwise, each(operator.invert),
        form(operator.invert, INTEGRAL)),
)  # fmt: skip
