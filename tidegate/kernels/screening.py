"""Which filters cannot be true for any row of a chunk, by what its columns hold: many conditions on one stream cost little.

A condition that compares a column with constants is true at most for values within some bounds, or for some values. A chunk's column is looked at
once, whoever asks: a thousand conditions that no row meets cost a thousand comparisons of numbers, and not a look at the rows each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import polars as pl
from sqlglot import exp

from tidegate.kernels.rows import Frame
from tidegate.scalars.expressions import conjuncts, index_of
from tidegate.types import Schema

Constant = int | str


@dataclass(frozen=True)
class Need:
    """What a column must hold if a condition is to be true: a value within bounds (None: there is none), or one of some values."""

    column: int
    low: int | None = None
    high: int | None = None
    values: frozenset[Constant] | None = None


def needs_of(predicate: exp.Expression, schema: Schema) -> tuple[Need, ...]:
    """What must hold for a condition to be true. Nothing is said of one with a part that may fail: its error must show.

    >>> from tidegate.types import BIGINT, Field
    >>> import sqlglot
    >>> needs_of(sqlglot.parse_one("c0 > 5 AND 7 >= c0", dialect="spark"), (Field("n", BIGINT),))
    (Need(column=0, low=6, high=None, values=None), Need(column=0, low=None, high=7, values=None))
    >>> needs_of(sqlglot.parse_one("c0 > 5 AND 1 / c0 < 9", dialect="spark"), (Field("n", BIGINT),))
    ()
    """
    found = [[*_needs(_bare(part), schema)] for part in conjuncts(predicate)]
    return tuple(t for needs in found for t in needs) if all(found) else ()


def _bare(expression: exp.Expression) -> exp.Expression:
    while isinstance(expression, exp.Paren):
        expression = expression.this
    return expression


_MIRRORED: dict[type[exp.Expression], type[exp.Expression]] = {
    exp.GT: exp.LT,
    exp.LT: exp.GT,
    exp.GTE: exp.LTE,
    exp.LTE: exp.GTE,
    exp.EQ: exp.EQ,
}


def _needs(part: exp.Expression, schema: Schema) -> Iterator[Need]:
    kind: type[exp.Expression] = type(part)
    if kind in _MIRRORED:
        left, right = _bare(part.this), _bare(part.expression)
        if index_of(left) is None:
            kind, left, right = _MIRRORED[kind], right, left
        column, value = _column(left, schema), _constant(right)
        if column is None or value is None or not _comparable(schema, column, value):
            return
        if kind is exp.EQ:
            yield Need(column, values=frozenset({value}))
        elif isinstance(value, int):
            yield _bounded(column, kind, value)
    elif isinstance(part, exp.In) and part.args.get("expressions") and part.args.get("query") is None:
        column = _column(_bare(part.this), schema)
        values = [_constant(_bare(e)) for e in part.expressions]
        if column is not None and all(v is not None and _comparable(schema, column, v) for v in values):
            yield Need(column, values=frozenset(v for v in values if v is not None))
    elif isinstance(part, exp.Between):
        column = _column(_bare(part.this), schema)
        low, high = _constant(_bare(part.args["low"])), _constant(_bare(part.args["high"]))
        if column is not None and isinstance(low, int) and isinstance(high, int):
            if _comparable(schema, column, low):
                yield Need(column, low, high)


def _bounded(column: int, kind: type[exp.Expression], value: int) -> Need:
    if kind in (exp.GT, exp.GTE):
        return Need(column, low=value + (kind is exp.GT))
    return Need(column, high=value - (kind is exp.LT))


def _column(expression: exp.Expression, schema: Schema) -> int | None:
    index = index_of(expression)
    return index if index is not None and index < len(schema) else None


def _constant(expression: exp.Expression) -> Constant | None:
    if isinstance(expression, exp.Neg):
        value = _constant(_bare(expression.this))
        return -value if isinstance(value, int) else None
    if not isinstance(expression, exp.Literal):
        return None
    if expression.is_string:
        return str(expression.this)
    return int(expression.this) if str(expression.this).isdigit() else None


def _comparable(schema: Schema, column: int, value: Constant) -> bool:
    """Whether values are compared as they are: whole numbers with whole numbers, texts with texts."""
    type_ = schema[column].type
    return type_.is_integral if isinstance(value, int) else type_.name == "STRING"


@dataclass
class Screen:
    """What the columns of a chunk hold; each is looked at when it is first asked for."""

    rows: Frame
    _zones: dict[int, Zone] = field(default_factory=dict)

    @cached_property
    def nothing(self) -> Frame:
        return self.rows.clear()

    def excludes(self, needs: tuple[Need, ...]) -> bool:
        """Whether no row can pass."""
        return any(not self._zone(t.column).may_hold(t) for t in needs)

    def _zone(self, column: int) -> Zone:
        if column not in self._zones:
            self._zones[column] = Zone(self.rows[f"c{column}"])
        return self._zones[column]


@dataclass(frozen=True)
class Zone:
    """What a column holds."""

    column: pl.Series

    @cached_property
    def least(self) -> Any:
        return self.column.min()

    @cached_property
    def greatest(self) -> Any:
        return self.column.max()

    @cached_property
    def values(self) -> frozenset[Any]:
        return frozenset(self.column.unique().to_list())

    def may_hold(self, need: Need) -> bool:
        if need.values is not None:
            return not self.values.isdisjoint(need.values)
        if self.least is None:  # there are only NULLs
            return False
        return (need.low is None or self.greatest >= need.low) and (
            need.high is None or self.least <= need.high
        )
