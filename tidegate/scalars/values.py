"""The leaves of an expression: columns, literals, and what the user's functions give."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC

from tidegate.errors import Diagnostic
from tidegate.scalars.expressions import span_of
from tidegate.scalars.functions import ScalarFunction
from tidegate.scalars.registry import Function, Resolved, Scalar
from tidegate.types import TIMESTAMP, Row, Value


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

    def run(row: Row) -> Value:
        values = [a(row) for a in args]
        try:
            return function(*values)
        except Diagnostic as diagnostic:
            raise diagnostic.at(span) from diagnostic.__cause__

    return run


ENTRIES = (
    Function("COLUMN", meaning=_column, lazy=True),
    Function("LITERAL", meaning=_constant, lazy=True),
    Function("USER", meaning=_user, lazy=True, by_row="it is written in Python"),
)
