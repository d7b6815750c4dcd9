"""The meaning of scalar expressions, in plain Python: Spark SQL's, ANSI mode, session time zone UTC.

An expression is resolved once (`scalar_types.resolve`) and becomes a tree of closures over rows. The law is
Spark's own answer: for every expression of the set and every row, value, type and error agree; `EXP`, `LN`,
`LOG` and `POWER` may differ in the last bit, because Java's library and C's do.

TIMESTAMP values are datetimes in UTC (one without a zone is read as UTC), TIMESTAMP_NTZ values have no zone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlglot import exp

from tidegate.errors import Diagnostic, unsupported
from tidegate.scalars.calls import FUNCTIONS, call_of, is_nondeterministic, unsupported_call
from tidegate.scalars.casts import cast_function
from tidegate.scalars.dates import (
    DATES,
    date_format,
    date_trunc,
    parser,
    timestamp_add,
    timestamp_diff,
    trunc,
    whole_seconds,
)
from tidegate.scalars.expressions import index_of, span_of
from tidegate.scalars.functions import ScalarFunction
from tidegate.scalars.lazy import LAZY, Scalar, is_constant
from tidegate.scalars.rules import MONTHS, Resolved
from tidegate.scalars.text import TEXT, like
from tidegate.scalars.typing import resolve
from tidegate.scalars.values import (
    absolute,
    arithmetic,
    comparison,
    exponential,
    interval_sum,
    key_of,
    logarithm,
    logarithm_to,
    negative,
    power,
    rounding,
    scaled_interval,
    sign,
    square_root,
    ticks_of,
    to_whole,
)
from tidegate.types import BIGINT, INTERVAL, STRING, Row, Schema, Type, Value, normalize

__all__ = ["FUNCTIONS", "Scalar", "compile_scalar", "is_supported"]


def compile_scalar(
    expression: exp.Expression, schema: Schema, functions: Mapping[str, ScalarFunction]
) -> Scalar:
    """The function of a row that an expression over `schema` stands for.

    >>> import sqlglot
    >>> from tidegate.types import Field, INT
    >>> twice = compile_scalar(sqlglot.parse_one("c0 * 2 + 1", dialect="spark"), (Field("n", INT),), {})
    >>> twice((20,)), twice((None,))
    (41, None)
    """
    resolved = resolve(expression, schema, functions, _refuse)
    if resolved.type == MONTHS:
        raise unsupported("an interval of months has no length of its own")
    scalar = _compile(resolved)
    if _holds_floats(resolved.type):
        return lambda row: normalize(scalar(row))
    return scalar


def is_supported(expression: exp.Expression, functions: Mapping[str, ScalarFunction]) -> bool:
    """Whether everything in an expression is in the set that Python evaluates.

    >>> import sqlglot
    >>> [is_supported(sqlglot.parse_one(s, dialect="spark"), {}) for s in ("UPPER(c0)", "SOUNDEX(c0)")]
    [True, False]
    """
    node = expression.this if isinstance(expression, (exp.Paren, exp.Alias)) else expression
    if node is not expression:
        return is_supported(node, functions)
    if isinstance(node, exp.Column):
        return index_of(node) is not None
    if isinstance(node, (exp.Literal, exp.Boolean, exp.Null, exp.HexString)):
        return True
    if isinstance(node, exp.Interval):
        return isinstance(node.this, exp.Literal)
    if is_nondeterministic(node):
        return False
    if _is_user_function(node, functions):
        return all(is_supported(a, functions) for a in node.iter_expressions())
    call = call_of(node)
    return call is not None and all(is_supported(a, functions) for a in call.args)


def _is_user_function(node: exp.Expression, functions: Mapping[str, ScalarFunction]) -> bool:
    if not functions or not isinstance(node, exp.Func):
        return False
    names = [node.name] if isinstance(node, exp.Anonymous) else type(node).sql_names()
    known = {name.lower() for name in functions}
    return any(name.lower() in known for name in names)


def _refuse(node: exp.Expression, _: Schema) -> Any:
    raise unsupported_call(node).at(span_of(node))


def _holds_floats(type: Type) -> bool:
    if type.name == "STRUCT":
        return any(_holds_floats(t) for _, t in type.params)
    return type.name in ("FLOAT", "DOUBLE") or any(
        _holds_floats(t) for t in type.params if isinstance(t, Type)
    )


# ------------------------------------------------------------------------------------------ compiling


def _compile(node: Resolved) -> Scalar:
    scalar = (
        LAZY[node.name](node, [_compile(a) for a in node.args])
        if node.name in LAZY
        else _strict(node, _function(node))
    )
    if node.name not in ("LITERAL", "COLUMN", "USER") and is_constant(node):
        return _folded(scalar)
    return scalar


def _folded(scalar: Scalar) -> Scalar:
    """A constant is computed once; one that fails must fail only where it is asked for."""
    try:
        value = scalar(())
    except Diagnostic:
        return scalar
    return lambda row: value


def _strict(node: Resolved, function: Callable[..., Value]) -> Scalar:
    """A call that is NULL where an argument is. Its errors carry its place in the text."""
    args, span = [_compile(a) for a in node.args], span_of(node.node)
    if len(args) == 1:
        (first,) = args

        def unary(row: Row) -> Value:
            a = first(row)
            if a is None:
                return None
            try:
                return function(a)
            except Diagnostic as problem:
                raise problem.at(span) from None

        return unary
    if len(args) == 2:
        first, second = args

        def binary(row: Row) -> Value:
            a = first(row)
            if a is None:
                return None
            b = second(row)
            if b is None:
                return None
            try:
                return function(a, b)
            except Diagnostic as problem:
                raise problem.at(span) from None

        return binary

    def call(row: Row) -> Value:
        values = [a(row) for a in args]
        if None in values:
            return None
        try:
            return function(*values)
        except Diagnostic as problem:
            raise problem.at(span) from None

    return call


_REAL: dict[str, Callable[..., Value]] = {
    "SQRT": square_root,
    "EXP": exponential,
    "LN": logarithm,
    "LOG": logarithm_to,
    "POWER": power,
    "SIGN": sign,
    "DATE_SUB": DATES["DATE_SUB"],
}
_BITS: dict[str, Callable[..., int]] = {
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "~": lambda a: ~a,
}
_BY_DETAIL: dict[str, Callable[[str], Callable[..., Value]]] = {
    "DATE_TRUNC": date_trunc,
    "TRUNC": trunc,
    "TIMESTAMPDIFF": timestamp_diff,
    "TIMESTAMPADD": timestamp_add,
    "DATE_FORMAT": date_format,
}


def _function(node: Resolved) -> Callable[..., Value]:
    """What a strict call does to its arguments, none of which is NULL."""
    name, types = node.name, [a.type for a in node.args]
    for table in (TEXT, DATES, _REAL, _BITS):
        if name in table:
            return table[name]
    if name in ("=", "<>", "<", "<=", ">", ">="):
        return comparison(name, types[0])
    if name in ("+", "-") and node.type == INTERVAL:
        step = 1 if name == "+" else -1
        return lambda a, b: interval_sum(a, b, step)
    if name in ("+", "-", "*", "/", "%", "DIV", "PMOD"):
        return arithmetic(name, types[0], node.type)
    if name == "CAST":
        return cast_function(types[0], node.type)
    if name in ("INTERVAL *", "INTERVAL /"):
        divides = name.endswith("/")
        return lambda a, b: scaled_interval(a, b, divides)
    if name == "INTERVAL DIV":
        divide = arithmetic("DIV", BIGINT, BIGINT)
        return lambda a, b: divide(ticks_of(a), ticks_of(b))
    if name == "NEGATIVE":
        return negative(node.type)
    if name == "ABS":
        return absolute(node.type)
    if name in ("ROUND", "BROUND") or (name in ("CEIL", "FLOOR") and node.type.name == "DECIMAL"):
        return rounding(name, types[0], node.type, node.detail)
    if name in ("CEIL", "FLOOR"):
        return to_whole(name) if types[0].name == "DOUBLE" else lambda v: v
    if name in ("LIKE", "ILIKE"):
        return like(_escape(node.detail), name == "ILIKE")
    if name in _BY_DETAIL:
        if node.detail is None:
            raise unsupported(f"the pattern of {name} must be a constant")
        return _BY_DETAIL[name](node.detail)
    return _structured(node)


def _structured(node: Resolved) -> Callable[..., Value]:
    name, types = node.name, [a.type for a in node.args]
    if name == "NOT":
        return lambda v: not v
    if name == "CONCAT":
        empty: Any = "" if node.type == STRING else b""
        return lambda *parts: empty.join(parts)
    if name == "CONCAT_ARRAYS":
        return lambda *parts: tuple(member for part in parts for member in part)
    if name == "SIZE":
        return len
    if name == "FIELD":
        return lambda value: value[node.detail]
    if name in ("SUBSCRIPT", "ELEMENT_AT"):
        return _entry(types[0]) if types[0].name == "MAP" else _member(name)
    if name == "ARRAY_CONTAINS":
        return _contains(types[1])
    if name == "UNIX_TIMESTAMP":
        if types[0] != STRING:
            return whole_seconds
        read = parser(node.detail or "yyyy-MM-dd HH:mm:ss")
        return lambda text: whole_seconds(read(text))
    if name in ("TO_DATE", "TO_TIMESTAMP"):
        if node.detail is None:
            raise unsupported(f"the pattern of {name} must be a constant")
        read = parser(node.detail)
        return read if name == "TO_TIMESTAMP" else lambda text: read(text).date()
    raise unsupported_call(node.node).at(span_of(node.node))


def _escape(detail: Any) -> str | None:
    return None if detail is None else str(detail)


def _member(name: str) -> Callable[[Sequence[Value], int], Value]:
    def at(values: Sequence[Value], index: int) -> Value:
        position = index
        if name == "ELEMENT_AT":
            position = index - 1 if index > 0 else len(values) + index if index < 0 else -1
        if 0 <= position < len(values):
            return values[position]
        counted = "from 1, or from -1 at the end" if name == "ELEMENT_AT" else "from 0"
        message = f"there is no element {index} in an array of {len(values)}"
        raise Diagnostic("INVALID_ARRAY_INDEX", message, help=f"positions count {counted}")

    return at


def _entry(type: Type) -> Callable[[Sequence[tuple[Value, Value]], Value], Value]:
    key = key_of(type.params[0]) or (lambda v: v)

    def at(entries: Sequence[tuple[Value, Value]], wanted: Value) -> Value:
        sought = key(wanted)
        return next((v for k, v in entries if key(k) == sought), None)

    return at


def _contains(type: Type) -> Callable[[Sequence[Value], Value], bool | None]:
    key = key_of(type) or (lambda v: v)

    def contains(values: Sequence[Value], wanted: Value) -> bool | None:
        sought = key(wanted)
        if any(v is not None and key(v) == sought for v in values):
            return True
        return None if None in values else False

    return contains
