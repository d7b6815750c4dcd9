"""Expressions in Polars, made of the functions' columnar forms: verified, value by value, to do what Spark does.

A translated expression carries, beside its value, the rows that must be evaluated row by row: those on which Spark would raise
an error (overflow, division by zero), and those outside the set of values for which a form is verified. Evaluation order
counts, so `CASE WHEN b <> 0 THEN a / b END` has none of the former.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import polars as pl
from sqlglot import exp

from tidegate.errors import Diagnostic
from tidegate.scalars.columns import errors_of, literal
from tidegate.scalars.intervals import MONTHS
from tidegate.scalars.library import ENTRIES
from tidegate.scalars.meaning import compile_resolved, refuse
from tidegate.scalars.registry import Column, Resolved
from tidegate.scalars.typing import resolve
from tidegate.types import Schema

_FAILING = "FAILING"
"""A constant whose evaluation is an error, wherever it is asked for."""


def translate(
    expression: exp.Expression, schema: Schema, functions: Mapping[str, Any] | None = None
) -> Column | None:
    """The expression in Polars, or None where it is outside the verified set."""
    try:
        resolved = resolve(expression, schema, functions or {}, refuse)
    except Diagnostic:
        return None
    return None if resolved.type == MONTHS else translated(resolved)


def translated(resolved: Resolved) -> Column | None:
    """The same for an expression that is resolved."""
    return _Translation().column(_folded(resolved))


def _folded(node: Resolved) -> Resolved:
    """The expression with its constants evaluated: they are literals, or fail."""
    if node.name in ("COLUMN", "LITERAL"):
        return node
    if not node.is_constant:
        return replace(node, args=tuple(_folded(a) for a in node.args))
    try:
        return replace(node, name="LITERAL", args=(), value=compile_resolved(node)(()))
    except Diagnostic:
        return replace(node, name=_FAILING, args=())


@dataclass
class _Translation:
    """One expression on its way; where something can fail, what it is made of is written once more, to tell on which rows."""

    left: int = 2_500
    """So many parts may yet be written again: a chain of operations that can fail costs the square of its length."""

    def column(self, node: Resolved) -> Column | None:
        if node.name == "COLUMN":
            return Column(pl.col(f"c{node.value}"), node.type)
        if node.name == "LITERAL":
            return literal(node.value, node.type)
        if node.name == _FAILING:
            return replace(literal(None, node.type), error=pl.lit(True))
        entry = ENTRIES[node.name]
        if entry.columns is None:
            return None
        args = []
        for arg in node.args:
            column = self.column(arg)
            if column is None:
                return None
            args.append(column)
        if not entry.lazy and any(a.name == "LITERAL" and a.value is None for a in node.args):
            return replace(literal(None, node.type), error=errors_of(args))
        found = entry.columns(node, args)
        if found is not None and found.error is not None:
            self.left -= _size(node)
        return found if self.left >= 0 else None


def _size(node: Resolved) -> int:
    return 1 + sum(map(_size, node.args))
