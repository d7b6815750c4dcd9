"""The leaves of an expression: columns, literals, and what the user's functions give."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC

from tidegate.errors import Diagnostic
from tidegate.scalars.expressions import span_of
from tidegate.scalars.functions import ScalarFunction
from tidegate.scalars.registry import Function, Resolved, Scalar
from tidegate.types import TIMESTAMP, Row, Value, normalize


def _column(node: Resolved, args: Sequence[Scalar]) -> Scalar:
    index = node.value
    if node.type != TIMESTAMP:
        return lambda row: row[index]

    def instant(row: Row) -> Value:
        value = row[index]
        return value if value is None or value.tzinfo is not None else value.replace(tzinfo=UTC)

    return instant


def _constant(node: Resolved, args: Sequence[Scalar]) -> Scalar:
    value = node.value
    return lambda row: value


def _user(node: Resolved, args: Sequence[Scalar]) -> Scalar:
    function: ScalarFunction = node.detail
    span = span_of(node.node)
    floating = node.type.name in ("FLOAT", "DOUBLE")

    def run(row: Row) -> Value:
        values = [a(row) for a in args]
        try:
            result = function.call(*values)
        except Exception as problem:
            message = f"{function.name} raised {type(problem).__name__}: {problem}"
            raise Diagnostic("USER_FUNCTION_FAILED", message).at(span) from problem
        if isinstance(result, (list, dict)):
            return normalize(result)
        return float(result) if floating and isinstance(result, int) else result

    return run


ENTRIES = (
    Function("COLUMN", meaning=_column, lazy=True),
    Function("LITERAL", meaning=_constant, lazy=True),
    Function("USER", meaning=_user, lazy=True, by_row="it is written in Python"),
)
