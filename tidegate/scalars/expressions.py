"""Bound scalar expressions: sqlglot expressions whose columns are positions.

`c3` is the fourth column of the operator's input. An expression is never changed in place: every
function here returns a new one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from sqlglot import exp

from tidegate.errors import Position, position_at

_POSITIONAL = re.compile(r"c(\d+)")


def ref(index: int, like: exp.Expression | None = None) -> exp.Column:
    """The column at a position; `like` passes on its place in the text.

    >>> ref(3).sql()
    'c3'
    """
    column = exp.Column(this=exp.Identifier(this=f"c{index}", quoted=False))
    span = span_of(like) if like is not None else None
    if span is not None:
        column.this.meta.update(start=span[0], end=span[1] - 1)
    return column


def index_of(column: exp.Expression) -> int | None:
    """The position a bound column stands for; None for anything else."""
    if not isinstance(column, exp.Column) or column.args.get("table"):
        return None
    match = _POSITIONAL.fullmatch(column.name)
    return int(match[1]) if match else None


def references(expression: exp.Expression) -> set[int]:
    """The positions an expression reads.

    >>> import sqlglot
    >>> sorted(references(sqlglot.parse_one("c1 + c4 * 2")))
    [1, 4]
    """
    return {i for c in expression.find_all(exp.Column) if (i := index_of(c)) is not None}


def substitute(expression: exp.Expression, make: Callable[[int], exp.Expression]) -> exp.Expression:
    """The expression with each position replaced by what `make` gives for it."""

    def visit(node: exp.Expression) -> exp.Expression:
        index = index_of(node)
        return node if index is None else make(index)

    return expression.copy().transform(visit, copy=False)


def shift(expression: exp.Expression, by: int) -> exp.Expression:
    """All positions moved up, as for the right input of a join."""
    return substitute(expression, lambda i: ref(i + by))


def conjuncts(predicate: exp.Expression | None) -> list[exp.Expression]:
    """The parts of an AND, in order.

    >>> import sqlglot
    >>> [c.sql() for c in conjuncts(sqlglot.parse_one("c0 = 1 AND (c1 > 2 AND c2 < 3)"))]
    ['c0 = 1', 'c1 > 2', 'c2 < 3']
    """
    if predicate is None:
        return []
    if isinstance(predicate, exp.Paren):
        return conjuncts(predicate.this) if isinstance(predicate.this, exp.And) else [predicate]
    if isinstance(predicate, exp.And):
        return conjuncts(predicate.this) + conjuncts(predicate.expression)
    return [predicate]


def conjoin(parts: Iterable[exp.Expression]) -> exp.Expression | None:
    """The AND of all parts; None for no part."""
    result: exp.Expression | None = None
    for part in parts:
        part = exp.paren(part.copy()) if isinstance(part, exp.Or) else part.copy()
        result = part if result is None else exp.And(this=result, expression=part)
    return result


def span_of(expression: exp.Expression) -> tuple[int, int] | None:
    """Where an expression stands in the text: from its first to its last marked part."""
    spans = [(n.meta["start"], n.meta["end"] + 1) for n in expression.walk() if "start" in n.meta]
    return (min(s for s, _ in spans), max(e for _, e in spans)) if spans else None


def locate(expression: exp.Expression, text: str) -> Position | None:
    span = span_of(expression)
    return position_at(text, *span) if span else None
