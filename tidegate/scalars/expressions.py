"""Bound scalar expressions: sqlglot expressions whose columns are positions.

`c3` is the fourth column of the operator's input. An expression is never changed in place: every
function here returns a new one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import reduce

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
    found: list[exp.Expression] = []
    waiting = [] if predicate is None else [predicate]
    while waiting:
        part = waiting.pop()
        if isinstance(part, exp.Paren) and isinstance(part.this, exp.And):
            part = part.this
        if isinstance(part, exp.And):
            waiting += [part.expression, part.this]
        else:
            found.append(part)
    return found


def conjoin(parts: Iterable[exp.Expression]) -> exp.Expression | None:
    """The AND of all parts; None for no part."""
    operands = [p.copy() for p in parts]
    if len(operands) > 1:
        operands = [exp.paren(p, copy=False) if isinstance(p, exp.Or) else p for p in operands]
    return tree_of(exp.And, operands) if operands else None


def tree_of(kind: type[exp.Expression], operands: Sequence[exp.Expression]) -> exp.Expression:
    """An associative operator over some operands in their order; many of them make a tree of little depth.

    >>> columns = [ref(i) for i in range(40)]
    >>> tree_of(exp.Or, columns[:3]).sql(), max(n.depth for n in tree_of(exp.Or, columns).walk()) < 16
    ('c0 OR c1 OR c2', True)
    """
    if len(operands) > 8:
        middle = len(operands) // 2
        return kind(this=tree_of(kind, operands[:middle]), expression=tree_of(kind, operands[middle:]))
    first, *others = operands
    return reduce(lambda left, right: kind(this=left, expression=right), others, first)


def span_of(expression: exp.Expression) -> tuple[int, int] | None:
    """Where an expression stands in the text: from its first to its last marked part."""
    spans = [(n.meta["start"], n.meta["end"] + 1) for n in expression.walk() if "start" in n.meta]
    return (min(s for s, _ in spans), max(e for _, e in spans)) if spans else None


def locate(expression: exp.Expression, text: str) -> Position | None:
    span = span_of(expression)
    return position_at(text, *span) if span else None
