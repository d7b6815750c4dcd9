"""Rounding and real functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import timedelta
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from typing import Any

import polars as pl
from sqlglot import exp

from tidegate.scalars.arithmetic import Compute, number
from tidegate.scalars.coercion import MAX_PRECISION, decimal_of
from tidegate.scalars.columns import either_error, first_of, form
from tidegate.scalars.intervals import ticks_of
from tidegate.scalars.limits import EXACT, checked, fitted, overflow, single
from tidegate.scalars.registry import (
    Call,
    Column,
    Form,
    Function,
    Pending,
    Resolved,
    Scalar,
    cast,
    each,
    failure,
    implicit,
    typed,
)
from tidegate.types import BIGINT, BOOLEAN, DOUBLE, INT, INTERVAL, NAN, VOID, Row, Type, Value, decimal

# --------------------------------------------------------------------------------------- type rules


def _constant_int(call: Pending) -> int:
    """The second argument of ROUND and its kin, which decides the type."""
    arg = call.args[1]
    if arg.is_literal and arg.type in (VOID, INT):
        return arg.value or 0
    message = f"the number of decimals of {call.name} must be an integer literal"
    raise failure("TYPE_MISMATCH", message, call.node)


def _rounded_decimal(type: Type, digits: int) -> Type:
    precision, scale = type.params
    integer = precision - scale + 1
    if digits < 0:
        return decimal(min(max(integer, -digits + 1), MAX_PRECISION), 0)
    scale = min(scale, digits)
    return decimal(min(integer + scale, MAX_PRECISION), scale)


def _round(call: Pending) -> Resolved:
    digits = _constant_int(call) if len(call.args) == 2 else 0
    arg = number(call.args[0], call)
    result = _rounded_decimal(arg.type, digits) if arg.type.name == "DECIMAL" else arg.type
    if len(call.args) == 2 and call.args[1].type == VOID:
        return Resolved("LITERAL", result, True, call.node)
    return call.done(result, [arg], True, detail=digits)


def _ceil(call: Pending) -> Resolved:
    arg = number(call.args[0], call)
    arg = cast(arg, DOUBLE) if arg.type.name == "FLOAT" else arg
    if len(call.args) == 2:
        digits = _constant_int(call)
        arg = cast(arg, decimal_of(arg.type))
        if call.args[1].type == VOID:
            return Resolved("LITERAL", _rounded_decimal(arg.type, digits), True, call.node)
        return call.done(_rounded_decimal(arg.type, digits), [arg], True, detail=digits)
    if arg.type.name == "DECIMAL":
        result = arg.type if arg.type.params[1] == 0 else _rounded_decimal(arg.type, 0)
        return call.done(result, [arg], True, detail=0)
    return call.done(BIGINT, [cast(arg, BIGINT) if arg.type.is_integral else arg], True)


def _sign_rule(call: Pending) -> Resolved:
    arg = call.args[0]
    return call.done(DOUBLE, [arg if arg.type == INTERVAL else implicit(arg, DOUBLE, call)])


# ------------------------------------------------------------------------------------------ meaning


_MODES = {"ROUND": ROUND_HALF_UP, "BROUND": ROUND_HALF_EVEN, "CEIL": ROUND_CEILING, "FLOOR": ROUND_FLOOR}


def _rounding(node: Resolved) -> Compute:
    """ROUND and its kin to a number of decimals; of integers, only negative ones matter."""
    mode, operand, result, digits = _MODES[node.name], node.args[0].type, node.type, max(node.detail, -400)

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


def _to_whole(node: Resolved) -> Compute:
    """CEIL and FLOOR; of a DOUBLE as BIGINT, where NaN is 0, as a Java cast has it."""
    if node.type.name == "DECIMAL":
        return _rounding(node)
    if node.args[0].type != DOUBLE:
        return lambda v: v
    whole = math.ceil if node.name == "CEIL" else math.floor

    def run(value: float) -> int:
        if value != value:
            return 0
        if math.isinf(value) or not -(2**63) <= value <= 2**63:
            raise overflow(f"{value} does not fit BIGINT")
        return min(whole(value), 2**63 - 1)

    return run


def _power(a: float, b: float) -> float:
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


def _exponential(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


def _logarithm_to(base: float, value: float) -> float | None:
    if base <= 0 or value <= 0:
        return None
    top, bottom = math.log(value), math.log(base)
    if bottom == 0:
        return NAN if top == 0 or top != top else math.copysign(math.inf, top)
    return NAN if math.isinf(top) and math.isinf(bottom) else top / bottom


def _sign(value: Any) -> float:
    if isinstance(value, timedelta):
        value = float(ticks_of(value))
    return value if value == 0 or value != value else math.copysign(1.0, value)


def _is_nan(node: Resolved, args: Sequence[Scalar]) -> Scalar:
    (arg,) = args
    return lambda row: (a := arg(row)) is not None and a != a


def _nanvl(node: Resolved, args: Sequence[Scalar]) -> Scalar:
    left, right = args

    def run(row: Row) -> Value:
        a = left(row)
        return right(row) if a is not None and a != a else a

    return run


def _number_constant(value: float) -> Callable[[Resolved, Sequence[Scalar]], Scalar]:
    return lambda node, args: lambda row: value


# -------------------------------------------------------------------------------------------- forms


def _integer_rounding(node: Resolved, args: Sequence[Column]) -> Column | None:
    """An integer has no decimals to lose."""
    (a,) = args
    return a if a.type.is_integral and a.type == node.type and (node.detail or 0) >= 0 else None


def _whole_form(apply: Callable[[pl.Expr], pl.Expr]) -> Form:
    def make(node: Resolved, args: Sequence[Column]) -> Column | None:
        (a,) = args
        if a.type != DOUBLE:
            return None
        out = ((a.value.abs() >= 2.0**63) & a.value.is_not_nan()).fill_null(False)
        whole = apply(a.value.fill_nan(0.0)).cast(pl.Int64, strict=False)
        return Column(whole, node.type, either_error(a.error, out))

    return make


# ------------------------------------------------------------------------------------------ entries

_LAST_BIT = "the last bit is that of C's library, as the meaning has it; Spark's is Java's"


def _real(name: str, spelled: type[exp.Expression], compute: Compute, **more: Any) -> Function:
    return Function(name, {spelled: "this"}, (1, 1), typed(DOUBLE, DOUBLE), each(compute), **more)


def _rounds(name: str, spelled: type[exp.Expression] | str, names: str) -> Function:
    keys = "*expressions" if isinstance(spelled, str) else "this decimals"
    by_row = "decimals of the shortest text are rounded; Polars rounds binary fractions"
    return Function(
        name, {spelled: keys}, (1, 2), _round, _rounding, _integer_rounding, names=names, by_row=by_row
    )


def _whole(
    name: str, spelled: type[exp.Expression], apply: Callable[[pl.Expr], pl.Expr], names: str
) -> Function:
    columns = first_of(_integer_rounding, _whole_form(apply))
    return Function(name, {spelled: "this decimals"}, (1, 2), _ceil, _to_whole, columns, names=names)


def _read_log(node: exp.Log) -> Call:
    if node.args.get("expression") is None:
        return Call("LN", (node.this,))
    return Call("LOG", (node.this, node.expression))


ENTRIES = (
    _rounds("ROUND", exp.Round, "ROUND"),
    _rounds("BROUND", "BROUND", "BROUND"),
    _whole("CEIL", exp.Ceil, lambda a: a.ceil(), "CEIL CEILING"),
    _whole("FLOOR", exp.Floor, lambda a: a.floor(), "FLOOR"),
    _real("SQRT", exp.Sqrt, lambda v: math.sqrt(v) if v >= 0 else NAN,
        columns=form(lambda a: a.sqrt(), "DOUBLE"), names="SQRT"),
    _real("EXP", exp.Exp, _exponential, names="EXP", by_row=_LAST_BIT),
    Function("LN", {exp.Ln: "this", exp.Log: _read_log}, (1, 1), typed(DOUBLE, DOUBLE, nullable=True),
        each(lambda v: None if v <= 0 else math.log(v)), names="LN", by_row=_LAST_BIT),
    Function("LOG", {}, (2, 2), typed(DOUBLE, DOUBLE, DOUBLE, nullable=True), each(_logarithm_to),
        names="LOG LOG2 LOG10", by_row=_LAST_BIT),
    Function("POWER", {exp.Pow: "this expression"}, (2, 2), typed(DOUBLE, DOUBLE, DOUBLE), each(_power),
        names="POW POWER", by_row=_LAST_BIT),
    Function("SIGN", {exp.Sign: "this"}, (1, 1), _sign_rule, each(_sign), form(lambda a: a.sign(), "DOUBLE"),
        names="SIGN SIGNUM"),
    Function("ISNAN", {exp.IsNan: "this"}, (1, 1), typed(BOOLEAN, DOUBLE, nullable=False), _is_nan,
        form(lambda a: a.is_nan().fill_null(False), "DOUBLE"), names="ISNAN", lazy=True),
    Function("NANVL", {exp.Nanvl: "this expression"}, (2, 2), typed(DOUBLE, DOUBLE, DOUBLE), _nanvl,
        form(lambda a, b: pl.when(a.is_nan()).then(b).otherwise(a), "DOUBLE"), names="NANVL", lazy=True),
    Function("PI", {exp.Pi: ""}, (0, 0), typed(DOUBLE), _number_constant(math.pi), names="PI", lazy=True),
    Function("E", {"E": "*expressions"}, (0, 0), typed(DOUBLE), _number_constant(math.e), names="E",
        lazy=True),
)  # fmt: skip
