"""The type rule of each built-in function: which arguments it takes, where casts go, what it returns.

A rule receives resolved arguments and returns the resolved call, with every implicit cast made explicit, so
that evaluation needs no types of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from tidegate.errors import Diagnostic
from tidegate.scalars.coercion import (
    MAX_PRECISION,
    can_cast,
    common_type,
    common_type_of,
    decimal_of,
    decimal_result,
    string_partner,
)
from tidegate.scalars.expressions import span_of
from tidegate.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    INTERVAL,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    Type,
    array,
    decimal,
)

MONTHS = Type("INTERVAL YEAR TO MONTH")
"""The type of a year-month literal: it may be added to a date or a timestamp, and nothing else."""

WHOLE_DAYS = "whole days"
"""The detail of an interval expression that is a number of days, so that DATE + it is a DATE."""


@dataclass(frozen=True)
class Resolved:
    """An expression with its type, after all implicit casts: a column, a literal, or a call."""

    name: str
    type: Type
    nullable: bool
    node: exp.Expression
    args: tuple[Resolved, ...] = ()
    detail: Any = None
    value: Any = None


@dataclass(frozen=True)
class Pending:
    """A call whose arguments are resolved, about to get its type."""

    name: str
    args: tuple[Resolved, ...]
    node: exp.Expression
    detail: Any = None

    def done(
        self, type: Type, args: Sequence[Resolved] | None = None, nullable: bool | None = None, **more: Any
    ) -> Resolved:
        args = self.args if args is None else tuple(args)
        if nullable is None:
            nullable = any(a.nullable for a in args)
        made = Resolved(self.name, type, nullable, self.node, tuple(args), self.detail)
        return replace(made, **more) if more else made


Rule = Callable[[Pending], Resolved]


def failure(condition: str, message: str, node: exp.Expression, help: str | None = None) -> Diagnostic:
    return Diagnostic(condition, message, help=help).at(span_of(node))


def mismatch(call: Pending, wanted: str | None = None) -> Diagnostic:
    types = " and ".join(str(a.type) for a in call.args) or "no arguments"
    message = f"{call.name} does not take {types}"
    return failure("TYPE_MISMATCH", message, call.node, f"it takes {wanted}" if wanted else None)


def cast(arg: Resolved, target: Type) -> Resolved:
    """The argument as another type; a string may turn out to be no such value."""
    if arg.type == target:
        return arg
    return Resolved("CAST", target, arg.nullable or may_lose(arg.type, target), arg.node, (arg,))


def may_lose(source: Type, target: Type) -> bool:
    """Whether Spark counts on NULL from a cast of a value that is not NULL."""
    floating = source.name in ("FLOAT", "DOUBLE") and target.name == "DECIMAL"
    return floating or (source == STRING != target)


def implicit(arg: Resolved, target: Type, call: Pending) -> Resolved:
    if not can_cast(arg.type, target):
        raise mismatch(call, str(target))
    return cast(arg, target)


# ---------------------------------------------------------------------------------------- arithmetic


def _literal_decimal(arg: Resolved) -> Type:
    """An integer literal beside a decimal is as narrow as its digits."""
    if arg.name == "LITERAL" and arg.type.is_integral and arg.value is not None:
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


def _arithmetic(call: Pending) -> Resolved:
    moved = _datetime_arithmetic(call)
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


def _datetime_arithmetic(call: Pending) -> Resolved | None:
    """Dates, timestamps and intervals under + - * / DIV; None if none is involved."""
    left, right = call.args
    names = (left.type.name, right.type.name)
    dated = {"DATE", "TIMESTAMP", "TIMESTAMP_NTZ"}
    if not (dated | {"INTERVAL", MONTHS.name}) & set(names):
        return None
    if call.name == "+" and names[1] in dated and names[0] not in dated:
        left, right = right, left
    if call.name in ("+", "-") and left.type.name in dated | {"STRING"} and right.type in (INTERVAL, MONTHS):
        return _moved(call, left, right)
    if call.name in ("+", "-") and left.type == DATE and right.type.name in ("INT", "SMALLINT", "TINYINT"):
        days = cast(right, INT)
        return replace(call, name="DATE_ADD" if call.name == "+" else "DATE_SUB").done(DATE, [left, days])
    if call.name == "+" and left.type == STRING == right.type:
        return None
    if call.name == "+" and right.type == STRING and left.type == INTERVAL:
        return _moved(call, right, left)
    if call.name in ("+", "-") and left.type == right.type == INTERVAL:
        whole = left.detail == right.detail == WHOLE_DAYS
        return call.done(INTERVAL, [left, right], detail=WHOLE_DAYS if whole else None)
    if call.name in ("+", "-") and {left.type, right.type} == {INTERVAL, VOID}:
        return call.done(INTERVAL, [cast(left, INTERVAL), cast(right, INTERVAL)])
    if call.name == "+" and right.type == VOID:
        point = cast(left, TIMESTAMP) if left.type == DATE else left
        return replace(call, name="+ INTERVAL").done(point.type, [point, cast(right, INTERVAL)])
    if call.name == "-":
        return _difference(call, left, right)
    if call.name in ("*", "/") and right.type == INTERVAL and call.name == "*":
        left, right = right, left
    if call.name in ("*", "/") and left.type == INTERVAL:
        if right.type in (STRING, VOID):
            right = cast(right, DOUBLE)
        if right.type.is_numeric:
            return replace(call, name=f"INTERVAL {call.name}").done(INTERVAL, [left, right])
    if call.name == "DIV" and left.type == right.type == INTERVAL:
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


def _bitwise(call: Pending) -> Resolved:
    if len(call.args) == 2:
        call = _promote_strings(call)
    common = common_type_of([a.type for a in call.args])
    common = BIGINT if common == VOID else common
    if common is None or not common.is_integral:
        raise mismatch(call, "integers")
    return call.done(common, [cast(a, common) for a in call.args])


def _same_number(call: Pending) -> Resolved:
    (arg,) = call.args
    if arg.type == INTERVAL:
        return call.done(INTERVAL, detail=arg.detail)
    arg = cast(arg, DOUBLE) if arg.type in (STRING, VOID) else arg
    if not arg.type.is_numeric:
        raise mismatch(call, "a number or an interval")
    return call.done(arg.type, [arg])


def _constant_int(call: Pending) -> int:
    """The second argument of ROUND and its kin, which decides the type."""
    arg = call.args[1]
    if arg.name == "LITERAL" and arg.type in (VOID, INT):
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
    arg = call.args[0]
    arg = cast(arg, DOUBLE) if arg.type in (STRING, VOID) else arg
    if not arg.type.is_numeric:
        raise mismatch(call, "a number")
    result = _rounded_decimal(arg.type, digits) if arg.type.name == "DECIMAL" else arg.type
    if len(call.args) == 2 and call.args[1].type == VOID:
        return Resolved("LITERAL", result, True, call.node)
    return call.done(result, [arg], True, detail=digits)


def _ceil(call: Pending) -> Resolved:
    arg = call.args[0]
    arg = cast(arg, DOUBLE) if arg.type in (STRING, VOID) or arg.type.name == "FLOAT" else arg
    if not arg.type.is_numeric:
        raise mismatch(call, "a number")
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


# ------------------------------------------------------------------------- comparisons and conditions


def _comparable(type: Type) -> bool:
    """Whether = and < exist: everything but maps, at any depth."""
    if type.name == "STRUCT":
        return all(_comparable(t) for _, t in type.params)
    return type.name != "MAP" and all(_comparable(t) for t in type.params if isinstance(t, Type))


def _compare(call: Pending) -> Resolved:
    left, right = call.args
    common = common_type(left.type, right.type)
    if common is None or not _comparable(common):
        raise mismatch(call, "two values of one type")
    return call.done(
        BOOLEAN, [cast(left, common), cast(right, common)], False if call.name == "<=>" else None
    )


def _logical(call: Pending) -> Resolved:
    types = [a.type for a in call.args]
    two_strings = len(types) == 2 and STRING in types and BOOLEAN not in types
    if two_strings or any(t not in (BOOLEAN, STRING, VOID) for t in types):
        raise mismatch(call, "BOOLEAN")
    return call.done(BOOLEAN, [cast(a, BOOLEAN) for a in call.args])


def _in(call: Pending) -> Resolved:
    common = common_type_of([a.type for a in call.args])
    if common is None or not _comparable(common):
        raise mismatch(call, "values of one type")
    return call.done(BOOLEAN, [cast(a, common) for a in call.args])


def _condition(call: Pending, arg: Resolved) -> Resolved:
    if arg.type not in (BOOLEAN, VOID):
        raise mismatch(call, "BOOLEAN as a condition")
    return cast(arg, BOOLEAN)


def unified(call: Pending, args: Sequence[Resolved]) -> list[Resolved]:
    common = common_type_of([a.type for a in args])
    if common is None:
        raise mismatch(replace(call, args=tuple(args)), "values of one type")
    return [cast(a, common) for a in args]


def _case(call: Pending) -> Resolved:
    """CASE and IF: condition, value, condition, value, …, and perhaps a last value."""
    pairs = len(call.args) // 2
    conditions = [_condition(call, a) for a in call.args[0 : 2 * pairs : 2]]
    values = list(call.args[1 : 2 * pairs : 2]) + list(call.args[2 * pairs :])
    values = unified(call, values)
    args = [a for pair in zip(conditions, values, strict=False) for a in pair] + values[pairs:]
    nullable = len(values) == pairs or any(v.nullable for v in values)
    return replace(call, name="CASE").done(values[0].type, args, nullable)


def _coalesce(call: Pending) -> Resolved:
    args = unified(call, call.args)
    return call.done(args[0].type, args, all(a.nullable for a in args))


def _extreme(call: Pending) -> Resolved:
    kinds = {a.type == STRING for a in call.args if a.type != VOID}
    if len(kinds) == 2:
        raise mismatch(call, "values of one type")
    args = unified(call, call.args)
    if not _comparable(args[0].type):
        raise mismatch(call, "values that have an order")
    return call.done(args[0].type, args, all(a.nullable for a in args))


# --------------------------------------------------------------------------------- arrays and structs


def _subscript(call: Pending) -> Resolved:
    container, key = call.args
    kind = container.type.name
    if kind == "STRUCT" and call.name == "SUBSCRIPT" and key.name == "LITERAL" and key.type == STRING:
        return field(replace(call, name="FIELD", args=(container,), detail=key.value))
    if kind == "MAP":
        return call.done(
            container.type.params[1], [container, implicit(key, container.type.params[0], call)], True
        )
    if kind != "ARRAY" or not (key.type.is_integral or key.type == VOID):
        raise mismatch(call, "an ARRAY with an integer position or a MAP with a key")
    return call.done(container.type.params[0], [container, cast(key, BIGINT)], True)


def field(call: Pending) -> Resolved:
    """The member of a struct, by name, in any case of letters."""
    (struct,) = call.args
    members = struct.type.params if struct.type.name == "STRUCT" else ()
    for index, (name, type) in enumerate(members):
        if name.lower() == call.detail.lower():
            return call.done(type, nullable=True, detail=index)
    names = ", ".join(name for name, _ in members)
    help = f"existing fields: {names}" if members else "only a STRUCT has fields"
    raise failure("UNKNOWN_FIELD", f"{struct.type} has no field '{call.detail}'", call.node, help)


def _size(call: Pending) -> Resolved:
    if call.args[0].type.name not in ("ARRAY", "MAP", "VOID"):
        raise mismatch(call, "an ARRAY or a MAP")
    return call.done(INT)


def _array(call: Pending) -> Resolved:
    args = unified(call, call.args)
    return call.done(array(args[0].type if args else VOID), args, False)


def _struct(call: Pending) -> Resolved:
    members = tuple((n, a.type) for n, a in zip(call.detail, call.args, strict=True))
    return call.done(Type("STRUCT", members), nullable=False)


def _array_contains(call: Pending) -> Resolved:
    container, value = call.args
    if container.type.name != "ARRAY" or value.type == VOID:
        raise mismatch(call, "an ARRAY and a value")
    element = container.type.params[0]
    common = common_type(element, value.type)
    if common is None or (element == STRING) != (value.type == STRING) or not _comparable(common):
        raise mismatch(call, f"an ARRAY and a value of type {element}")
    return call.done(BOOLEAN, [cast(container, array(common)), cast(value, common)], True)


def typed(result: Type, *params: Type, nullable: bool | None = None) -> Rule:
    """A function of given types, with implicit casts; NULL where an argument is, or as `nullable` says."""

    def rule(call: Pending) -> Resolved:
        args = [implicit(a, t, call) for a, t in zip(call.args, params, strict=False)]
        return call.done(result, args, nullable)

    return rule


def _nullif(call: Pending) -> Resolved:
    return call.done(call.args[1].type, nullable=True)


def _sign(call: Pending) -> Resolved:
    arg = call.args[0]
    return call.done(DOUBLE, [arg if arg.type == INTERVAL else implicit(arg, DOUBLE, call)])


_DOUBLE_1 = (1, 1, typed(DOUBLE, DOUBLE))

RULES: dict[str, tuple[int, int | None, Rule]] = {
    **dict.fromkeys(("+", "-", "*", "/", "%", "DIV", "PMOD"), (2, 2, _arithmetic)),
    **dict.fromkeys(("&", "|", "^"), (2, 2, _bitwise)),
    "~": (1, 1, _bitwise),
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">=", "<=>"), (2, 2, _compare)),
    "AND": (2, 2, _logical),
    "OR": (2, 2, _logical),
    "NOT": (1, 1, _logical),
    "IN": (2, None, _in),
    "ISNULL": (1, 1, lambda call: call.done(BOOLEAN, nullable=False)),
    "ISNOTNULL": (1, 1, lambda call: call.done(BOOLEAN, nullable=False)),
    "CASE": (2, None, _case),
    "IF": (3, 3, _case),
    "COALESCE": (1, None, _coalesce),
    "NULLIF": (2, 2, _nullif),
    "GREATEST": (2, None, _extreme),
    "LEAST": (2, None, _extreme),
    "NEGATIVE": (1, 1, _same_number),
    "ABS": (1, 1, _same_number),
    "ROUND": (1, 2, _round),
    "BROUND": (1, 2, _round),
    "CEIL": (1, 2, _ceil),
    "FLOOR": (1, 2, _ceil),
    "SQRT": _DOUBLE_1,
    "EXP": _DOUBLE_1,
    "LN": (1, 1, typed(DOUBLE, DOUBLE, nullable=True)),
    "LOG": (2, 2, typed(DOUBLE, DOUBLE, DOUBLE, nullable=True)),
    "POWER": (2, 2, typed(DOUBLE, DOUBLE, DOUBLE)),
    "NANVL": (2, 2, typed(DOUBLE, DOUBLE, DOUBLE)),
    "ISNAN": (1, 1, typed(BOOLEAN, DOUBLE, nullable=False)),
    "SIGN": (1, 1, _sign),
    "PI": (0, 0, typed(DOUBLE)),
    "E": (0, 0, typed(DOUBLE)),
    "SUBSCRIPT": (2, 2, _subscript),
    "ELEMENT_AT": (2, 2, _subscript),
    "FIELD": (1, 1, field),
    "SIZE": (1, 1, _size),
    "ARRAY": (0, None, _array),
    "STRUCT": (0, None, _struct),
    "ARRAY_CONTAINS": (2, 2, _array_contains),
}
"""Fewest arguments, most arguments (None: any number), and the rule."""
