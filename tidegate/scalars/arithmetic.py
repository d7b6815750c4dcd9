"""Numbers: operators, remainders, bits, rounding and real functions."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
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
from tidegate.scalars.columns import checked_column, dtype, either_error, errors_of, first_of, form, quotient
from tidegate.scalars.intervals import datetime_arithmetic, interval_sum, ticks_of, too_long
from tidegate.scalars.limits import EXACT, checked, divide_by_zero, fitted, overflow, single
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
    mismatch,
    typed,
)
from tidegate.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INT,
    INTEGRAL,
    INTERVAL,
    NAN,
    STRING,
    VOID,
    Row,
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


def _number(arg: Resolved, call: Pending, wanted: str = "a number") -> Resolved:
    arg = cast(arg, DOUBLE) if arg.type in (STRING, VOID) else arg
    if not arg.type.is_numeric:
        raise mismatch(call, wanted)
    return arg


def _same_number(call: Pending) -> Resolved:
    (arg,) = call.args
    if arg.type == INTERVAL:
        return call.done(INTERVAL, detail=arg.detail)
    arg = _number(arg, call, "a number or an interval")
    return call.done(arg.type, [arg])


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
    arg = _number(call.args[0], call)
    result = _rounded_decimal(arg.type, digits) if arg.type.name == "DECIMAL" else arg.type
    if len(call.args) == 2 and call.args[1].type == VOID:
        return Resolved("LITERAL", result, True, call.node)
    return call.done(result, [arg], True, detail=digits)


def _ceil(call: Pending) -> Resolved:
    arg = _number(call.args[0], call)
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
        # Polars keeps the larger scale of two factors, Spark their sum.
        rounds = node.name == "*" and all(c.type.params[1] for c in args if c.type.params)
        if operand.name != "DECIMAL" or rounds or node.type.params[0] >= MAX_PRECISION:
            return None
        return Column(apply(a, b).cast(dtype(node.type)), node.type, errors_of(args))

    return make


def _remainder(a: pl.Expr, b: pl.Expr) -> pl.Expr:
    """SQL's remainder has the sign of the dividend, whatever Polars' has."""
    rest = a % b
    return pl.when((rest != 0) & ((rest < 0) != (a < 0))).then(rest - b).otherwise(rest)


def _by_zero(a: pl.Expr, b: pl.Expr) -> pl.Expr:
    return (b == 0) & a.is_not_null()


def _on_integers(apply: Callable[[pl.Expr, pl.Expr], pl.Expr]) -> Form:
    """Division and remainder of integers, computed in a type that is wide enough for all."""

    def make(node: Resolved, args: Sequence[Column]) -> Column | None:
        if not args[0].type.is_integral:
            return None
        a, b = (c.value.cast(pl.Int128) for c in args)
        zero = _by_zero(a, b).fill_null(False)
        return checked_column(apply(a, b), node.type, either_error(errors_of(args), zero))

    return make


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


_SIDES = "this expression"
_LAST_BIT = "the last bit is that of C's library, as the meaning has it; Spark's is Java's"


def _binary(name: str, spelled: type[exp.Expression] | str, columns: Form | None, **more: Any) -> Function:
    keys = "*expressions" if isinstance(spelled, str) else _SIDES
    return Function(name, {spelled: keys}, (2, 2), _operator, _arithmetic, columns, **more)


def _bits(name: str, spelled: type[exp.Expression], compute: Compute) -> Function:
    return Function(name, {spelled: _SIDES}, (2, 2), _bitwise, each(compute), form(compute, INTEGRAL))


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
    _binary("+", exp.Add, _arithmetic_form(operator.add)),
    _binary("-", exp.Sub, _arithmetic_form(operator.sub)),
    _binary("*", exp.Mul, _arithmetic_form(operator.mul)),
    _binary("/", exp.Div, form(quotient, "DOUBLE", fails=_by_zero)),
    _binary("%", exp.Mod, _on_integers(_remainder), names="MOD"),
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
    Function("POWER", {exp.Pow: _SIDES}, (2, 2), typed(DOUBLE, DOUBLE, DOUBLE), each(_power),
        names="POW POWER", by_row=_LAST_BIT),
    Function("SIGN", {exp.Sign: "this"}, (1, 1), _sign_rule, each(_sign), form(lambda a: a.sign(), "DOUBLE"),
        names="SIGN SIGNUM"),
    Function("ISNAN", {exp.IsNan: "this"}, (1, 1), typed(BOOLEAN, DOUBLE, nullable=False), _is_nan,
        form(lambda a: a.is_nan().fill_null(False), "DOUBLE"), names="ISNAN", lazy=True),
    Function("NANVL", {exp.Nanvl: _SIDES}, (2, 2), typed(DOUBLE, DOUBLE, DOUBLE), _nanvl,
        form(lambda a, b: pl.when(a.is_nan()).then(b).otherwise(a), "DOUBLE"), names="NANVL", lazy=True),
    Function("PI", {exp.Pi: ""}, (0, 0), typed(DOUBLE), _number_constant(math.pi), names="PI", lazy=True),
    Function("E", {"E": "*expressions"}, (0, 0), typed(DOUBLE), _number_constant(math.e), names="E",
        lazy=True),
)  # fmt: skip
