"""Which part of some rows satisfies a condition, and what is known of the values of an expression, from statistics of columns.

Columns are taken to be independent and their values to be equally frequent and evenly spread; that is the whole model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlglot import exp

from tidegate.optimizer.statistics import DISTINCT, ColumnStatistics, as_number
from tidegate.scalars.expressions import conjuncts, index_of, references

Columns = Sequence[ColumnStatistics]

UNKNOWN = 1.0 / 3.0
"""The part that satisfies a condition of which nothing is known."""
PATTERN = 0.1
"""The part that satisfies LIKE."""

_FLIPPED: Mapping[type[exp.Expression], type[exp.Expression]] = {
    exp.LT: exp.GT, exp.LTE: exp.GTE, exp.GT: exp.LT, exp.GTE: exp.LTE, exp.EQ: exp.EQ, exp.NEQ: exp.NEQ,
    exp.NullSafeEQ: exp.NullSafeEQ,
}  # fmt: skip


def kind_of(comparison: exp.Binary) -> type[Any]:
    return type(comparison)


def selectivity(predicate: exp.Expression | None, columns: Columns) -> float:
    """The part of the rows for which a predicate is true.

    >>> from sqlglot import parse_one
    >>> known = [ColumnStatistics(10, 0, 9), ColumnStatistics(100, 0, 99)]
    >>> selectivity(parse_one("c0 = 3 AND c1 < 49.5"), known)
    0.05
    """
    if predicate is None:
        return 1.0
    rule = RULES.get(type(predicate))
    return UNKNOWN if rule is None else min(1.0, max(0.0, rule(predicate, columns)))


def _and(node: exp.And, columns: Columns) -> float:
    return selectivity(node.this, columns) * selectivity(node.expression, columns)


def _or(node: exp.Or, columns: Columns) -> float:
    return 1.0 - (1.0 - selectivity(node.this, columns)) * (1.0 - selectivity(node.expression, columns))


def _not(node: exp.Not, columns: Columns) -> float:
    return 1.0 - selectivity(node.this, columns)


def _compared(node: exp.Binary, columns: Columns) -> float:
    """A value with a constant, or two values: equal ones by how many there are, others by the bounds."""
    left, right = node.this, node.expression
    kind = kind_of(node)
    if constant(left) is not None and constant(right) is None:
        left, right, kind = right, left, _FLIPPED[kind]
    mine, other = described(left, columns), described(right, columns)
    there = (1.0 - mine.nulls) * (1.0 - other.nulls)
    if kind in (exp.EQ, exp.NullSafeEQ, exp.NEQ):
        equal = 1.0 / max(mine.distinct, other.distinct, 1.0)
        value = as_number(constant(right))
        if value is not None and mine.least is not None and mine.greatest is not None:
            equal = equal if mine.least <= value <= mine.greatest else 0.0
        return there * (1.0 - equal if kind is exp.NEQ else equal)
    below = _below(mine, other)
    if below is None:
        return there * UNKNOWN
    return there * (below if kind in (exp.LT, exp.LTE) else 1.0 - below)


def _below(mine: ColumnStatistics, other: ColumnStatistics) -> float | None:
    """How often a value spread evenly over one range is less than one spread over another."""
    a, b, c, d = mine.least, mine.greatest, other.least, other.greatest
    if a is None or b is None or c is None or d is None:
        return None
    if c >= d:
        return _part(a, b, c)
    steps = 32
    return sum(_part(a, b, c + (d - c) * (i + 0.5) / steps) for i in range(steps)) / steps


def _part(least: float, greatest: float, value: float) -> float:
    if least >= greatest:
        return float(least < value)
    return min(1.0, max(0.0, (value - least) / (greatest - least)))


def _between(node: exp.Between, columns: Columns) -> float:
    low = _compared(exp.GTE(this=node.this, expression=node.args["low"]), columns)
    high = _compared(exp.LTE(this=node.this, expression=node.args["high"]), columns)
    return max(0.0, low + high - 1.0) or low * high


def _in(node: exp.In, columns: Columns) -> float:
    mine = described(node.this, columns)
    return (1.0 - mine.nulls) * len(node.expressions) / max(mine.distinct, 1.0)


def _is(node: exp.Is, columns: Columns) -> float:
    return described(node.this, columns).nulls if isinstance(node.expression, exp.Null) else UNKNOWN


def _truth(node: exp.Boolean, columns: Columns) -> float:
    return 1.0 if node.this else 0.0


def _column(node: exp.Column, columns: Columns) -> float:
    return (1.0 - described(node, columns).nulls) * 0.5


RULES: Mapping[type[exp.Expression], Callable[..., float]] = {
    exp.And: _and,
    exp.Or: _or,
    exp.Not: _not,
    exp.Paren: lambda node, columns: selectivity(node.this, columns),
    exp.EQ: _compared,
    exp.NullSafeEQ: _compared,
    exp.NEQ: _compared,
    exp.LT: _compared,
    exp.LTE: _compared,
    exp.GT: _compared,
    exp.GTE: _compared,
    exp.Between: _between,
    exp.In: _in,
    exp.Is: _is,
    exp.Boolean: _truth,
    exp.Null: lambda node, columns: 0.0,
    exp.Column: _column,
    exp.Like: lambda node, columns: PATTERN,
    exp.ILike: lambda node, columns: PATTERN,
    exp.RegexpLike: lambda node, columns: PATTERN,
}
"""Of each kind of condition, the part that satisfies it; `UNKNOWN` for any other."""


def constant(expression: exp.Expression) -> object:
    """The value of a constant; None if it is none, or NULL."""
    while isinstance(expression, exp.Paren | exp.Cast):
        expression = expression.this
    if isinstance(expression, exp.Neg):
        below = constant(expression.this)
        return -below if isinstance(below, int | float) else None
    if isinstance(expression, exp.Boolean):
        return bool(expression.this)
    if isinstance(expression, exp.Literal):
        return str(expression.this) if expression.is_string else float(expression.this)
    return None


def described(expression: exp.Expression, columns: Columns) -> ColumnStatistics:
    """What is known of the values of an expression: at most as many as there are combinations of those that it reads.

    >>> from sqlglot import parse_one
    >>> described(parse_one("c0 % 7"), [ColumnStatistics(100, 0, 99)]).distinct
    7.0
    """
    while isinstance(expression, exp.Paren | exp.Cast):
        expression = expression.this
    index = index_of(expression)
    if index is not None:
        return columns[index] if index < len(columns) else ColumnStatistics()
    value = constant(expression)
    if value is not None:
        return ColumnStatistics(1.0, as_number(value), as_number(value))
    read = [columns[i] for i in sorted(references(expression)) if i < len(columns)]
    distinct = 1.0
    for column in read:
        distinct = min(1e12, distinct * max(1.0, column.distinct))
    distinct = distinct if read else DISTINCT
    made = ColumnStatistics(distinct, nulls=max((c.nulls for c in read), default=0.0))
    if isinstance(expression, exp.Mod):
        by = constant(expression.expression)
        return (
            replace(made, distinct=min(distinct, abs(by)), least=0.0, greatest=abs(by) - 1)
            if isinstance(by, float) and by
            else made
        )
    if isinstance(expression, exp.Add | exp.Sub | exp.Mul):
        return _computed(expression, made, columns)
    if isinstance(expression, exp.Predicate | exp.Connector | exp.Not):
        return replace(made, distinct=min(2.0, distinct), size=1.0)
    return made


def _computed(node: exp.Binary, made: ColumnStatistics, columns: Columns) -> ColumnStatistics:
    left, right = described(node.this, columns), described(node.expression, columns)
    if left.least is None or left.greatest is None or right.least is None or right.greatest is None:
        return made
    if isinstance(node, exp.Add):
        return replace(made, least=left.least + right.least, greatest=left.greatest + right.greatest)
    if isinstance(node, exp.Sub):
        return replace(made, least=left.least - right.greatest, greatest=left.greatest - right.least)
    corners = [a * b for a in (left.least, left.greatest) for b in (right.least, right.greatest)]
    return replace(made, least=min(corners), greatest=max(corners))


def narrowed(predicate: exp.Expression | None, columns: Columns) -> tuple[ColumnStatistics, ...]:
    """The columns of the rows that satisfy a predicate: those it compares with constants have fewer values, between closer bounds."""
    found = list(columns)
    for part in conjuncts(predicate):
        while isinstance(part, exp.Paren):
            part = part.this
        if isinstance(part, exp.Binary) and type(part) in _FLIPPED:
            left, right, kind = part.this, part.expression, kind_of(part)
            if constant(left) is not None:
                left, right, kind = right, left, _FLIPPED[kind]
            index = index_of(left)
            if index is None or index >= len(found):
                continue
            value = as_number(constant(right))
            if constant(right) is not None and kind in (exp.EQ, exp.NullSafeEQ):
                found[index] = replace(found[index], distinct=1.0, least=value, greatest=value, nulls=0.0)
            elif value is not None and kind is not exp.NEQ:
                found[index] = _cut(found[index], value, kind in (exp.LT, exp.LTE))
        elif isinstance(part, exp.In) and (index := index_of(part.this)) is not None:
            count = min(found[index].distinct, float(len(part.expressions)))
            found[index] = replace(found[index], distinct=count, nulls=0.0)
    return tuple(found)


def _cut(column: ColumnStatistics, value: float, below: bool) -> ColumnStatistics:
    if column.least is None or column.greatest is None:
        return replace(column, nulls=0.0)
    part = _part(column.least, column.greatest, value)
    part = part if below else 1.0 - part
    bounds = (
        (column.least, min(column.greatest, value)) if below else (max(column.least, value), column.greatest)
    )
    return replace(
        column,
        distinct=max(1.0, column.distinct * part),
        least=bounds[0],
        greatest=bounds[1],
        nulls=0.0,
        fresh=column.fresh * part,
    )
