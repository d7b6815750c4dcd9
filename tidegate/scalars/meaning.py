"""The meaning of scalar expressions, in plain Python: Spark SQL's, ANSI mode, session time zone UTC.

An expression is resolved once (`typing.resolve`) and becomes a tree of closures over rows. The law is
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
from tidegate.scalars.expressions import index_of, span_of
from tidegate.scalars.functions import ScalarFunction
from tidegate.scalars.intervals import MONTHS
from tidegate.scalars.library import ENTRIES
from tidegate.scalars.registry import Resolved, Scalar
from tidegate.scalars.typing import resolve
from tidegate.types import Row, Schema, Type, Value, normalize

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
    resolved = resolve(expression, schema, functions, refuse)
    if resolved.type == MONTHS:
        raise unsupported("an interval of months has no length of its own")
    scalar = compile_resolved(resolved)
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


def refuse(node: exp.Expression, _: Schema) -> Any:
    raise unsupported_call(node).at(span_of(node))


def _holds_floats(type: Type) -> bool:
    if type.name == "STRUCT":
        return any(_holds_floats(t) for _, t in type.params)
    return type.name in ("FLOAT", "DOUBLE") or any(
        _holds_floats(t) for t in type.params if isinstance(t, Type)
    )


# ------------------------------------------------------------------------------------------ compiling


def compile_resolved(node: Resolved) -> Scalar:
    """The function of a row that a resolved expression stands for."""
    entry = ENTRIES[node.name]
    if entry.meaning is None:
        raise unsupported_call(node.node).at(span_of(node.node))
    args = [compile_resolved(a) for a in node.args]
    scalar: Scalar = entry.meaning(node, args) if entry.lazy else _strict(node, args, entry.meaning(node))
    if node.name not in ("LITERAL", "COLUMN", "USER") and node.is_constant:
        return _folded(scalar)
    return scalar


def _folded(scalar: Scalar) -> Scalar:
    """A constant is computed once; one that fails must fail only where it is asked for."""
    try:
        value = scalar(())
    except Diagnostic:
        return scalar
    return lambda row: value


def _strict(node: Resolved, args: Sequence[Scalar], function: Callable[..., Value]) -> Scalar:
    """A call that is NULL where an argument is. Its errors carry its place in the text."""
    span = span_of(node.node)
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
