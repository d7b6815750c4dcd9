"""Calls that decide themselves what NULL means: conditions, constructors, user functions.

Each takes its node and its compiled arguments, and evaluates no more of them than Spark does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC
from typing import Any

from tidegate.errors import Diagnostic, Kind
from tidegate.scalars.casts import cast_function
from tidegate.scalars.expressions import span_of
from tidegate.scalars.functions import ScalarFunction
from tidegate.scalars.rules import Resolved
from tidegate.scalars.text import concat_ws, locate
from tidegate.scalars.values import key_of
from tidegate.types import TIMESTAMP, Row, Value

Scalar = Callable[[Row], Value]

_CONSTANTS = {"PI": math.pi, "E": math.e}


def is_constant(node: Resolved) -> bool:
    return node.name not in ("COLUMN", "USER") and all(is_constant(a) for a in node.args)


def _column(node: Resolved, args: Sequence[Scalar]) -> Scalar:
    index = node.value
    if node.type != TIMESTAMP:
        return lambda row: row[index]

    def instant(row: Row) -> Value:
        value = row[index]
        return value if value is None or value.tzinfo is not None else value.replace(tzinfo=UTC)

    return instant


def _constant(node: Resolved, args: Sequence[Scalar]) -> Scalar:
    value = _CONSTANTS.get(node.name, node.value)
    return lambda row: value


def _and(node: Resolved, args: Sequence[Scalar]) -> Scalar:
    left, right = args

    def run(row: Row) -> Value:
        a = left(row)
        if a is False:
            return False
        b = right(row)
        if b is False:
            return False
        return None if a is None or b is None else True

    return run


def _or(node: Resolved, args: Sequence[Scalar]) -> Scalar:
    left, right = args

    def run(row: Row) -> Value:
        a = left(row)
        if a is True:
            return True
        b = right(row)
        if b is True:
            return True
        return None if a is None or b is None else False

    return run


def _null_safe_equal(node: Resolved, args: Sequence[Scalar]) -> Scalar:
    left, right = args
    key = key_of(node.args[0].type) or (lambda v: v)

    def run(row: Row) -> bool:
        a, b = left(row), right(row)
        if a is None or b is None:
            return a is b
        return bool(key(a) == key(b))

    return run


def _is_null(node: Resolved, args: Sequence[Scalar]) -> Scalar:
    (arg,) = args
    if node.name == "ISNULL":
        return lambda row: arg(row) is None
    return lambda row: arg(row) is not None


def _is_nan(node: Resolved, args: Sequence[Scalar]) -> Scalar:
    (arg,) = args
    return lambda row: (a := arg(row)) is not None and a != a


def _nanvl(node: Resolved, args: Sequence[Scalar]) -> Scalar:
    left, right = args

    def run(row: Row) -> Value:
        a = left(row)
        return right(row) if a is not None and a != a else a

    return run


def _in(node: Resolved, args: Sequence[Scalar]) -> Scalar:
    this, *options = args
    key = key_of(node.args[0].type) or (lambda v: v)
    if all(is_constant(a) for a in node.args[1:]):
        try:
            values = [o(()) for o in options]
            return _in_constants(this, key, values)
        except (Diagnostic, TypeError):
            pass

    def run(row: Row) -> Value:
        a = this(row)
        if a is None:
            return None
        sought, unknown = key(a), False
        for option in options:
            b = option(row)
            if b is None:
                unknown = True
            elif key(b) == sought:
                return True
        return None if unknown else False

    return run


def _in_constants(this: Scalar, key: Callable[[Value], Any], values: Sequence[Value]) -> Scalar:
    keys = frozenset(key(v) for v in values if v is not None)
    missing = None if None in values else False

    def run(row: Row) -> Value:
        a = this(row)
        return None if a is None else True if key(a) in keys else missing

    return run


def _case(node: Resolved, args: Sequence[Scalar]) -> Scalar:
    parts = args
    branches = list(zip(parts[0::2], parts[1::2], strict=False))
    default = parts[-1] if len(parts) % 2 else (lambda row: None)

    def run(row: Row) -> Value:
        for condition, value in branches:
            if condition(row):
                return value(row)
        return default(row)

    return run


def _coalesce(node: Resolved, args: Sequence[Scalar]) -> Scalar:

    def run(row: Row) -> Value:
        for arg in args:
            value = arg(row)
            if value is not None:
                return value
        return None

    return run


def _nullif(node: Resolved, args: Sequence[Scalar]) -> Scalar:
    equal, value = args
    return lambda row: None if equal(row) else value(row)


def _extreme(node: Resolved, args: Sequence[Scalar]) -> Scalar:
    key = key_of(node.type)
    pick = max if node.name == "GREATEST" else min

    def run(row: Row) -> Value:
        values = [v for a in args if (v := a(row)) is not None]
        return pick(values, key=key) if values else None

    return run


def _members(node: Resolved, args: Sequence[Scalar]) -> Scalar:
    return lambda row: tuple([a(row) for a in args])


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


def _concat_ws(node: Resolved, args: Sequence[Scalar]) -> Scalar:

    def run(row: Row) -> Value:
        separator, *parts = (a(row) for a in args)
        return None if separator is None else concat_ws(separator, *parts)

    return run


def _locate(node: Resolved, args: Sequence[Scalar]) -> Scalar:

    def run(row: Row) -> Value:
        part, text, *start = (a(row) for a in args)
        if start and start[0] is None:
            return 0
        return None if part is None or text is None else locate(part, text, start[0] if start else 1)

    return run


def _user(node: Resolved, args: Sequence[Scalar]) -> Scalar:
    function: ScalarFunction = node.detail
    span = span_of(node.node)

    def run(row: Row) -> Value:
        values = [a(row) for a in args]
        try:
            return function(*values)
        except Diagnostic as diagnostic:
            raise diagnostic.at(span) from diagnostic.__cause__

    return run


LAZY: dict[str, Callable[[Resolved, Sequence[Scalar]], Scalar]] = {
    "COLUMN": _column,
    "LITERAL": _constant,
    "PI": _constant,
    "E": _constant,
    "AND": _and,
    "OR": _or,
    "<=>": _null_safe_equal,
    "ISNULL": _is_null,
    "ISNOTNULL": _is_null,
    "ISNAN": _is_nan,
    "NANVL": _nanvl,
    "IN": _in,
    "CASE": _case,
    "COALESCE": _coalesce,
    "NULLIF": _nullif,
    "GREATEST": _extreme,
    "LEAST": _extreme,
    "ARRAY": _members,
    "STRUCT": _members,
    "TRY_CAST": _try_cast,
    "CONCAT_WS": _concat_ws,
    "LOCATE": _locate,
    "USER": _user,
}
"""Calls that decide themselves what NULL means."""
