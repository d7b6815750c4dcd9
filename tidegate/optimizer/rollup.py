"""Coarser groups from finer ones: what aggregates of aggregates give the aggregates of a query."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sqlglot import exp

from tidegate.algebra import operators as op
from tidegate.scalars.expressions import ref
from tidegate.scalars.typing import type_to_sqlglot
from tidegate.types import BIGINT, DOUBLE, Field, Schema, Type, decimal

Expressions = tuple[exp.Expression, ...]

_DIGITS = 38


@dataclass(frozen=True)
class Part:
    """An aggregate over what a view shows."""

    function: str
    argument: exp.Expression
    type: Type
    nullable: bool


@dataclass(frozen=True)
class Rollup:
    """A grouping of a view's rows; without parts, each combination of the keys once."""

    keys: Expressions
    parts: tuple[Part, ...]
    fields: Schema
    """The keys' columns."""

    def over(self, change: Callable[[exp.Expression], exp.Expression]) -> Rollup:
        return replace(
            self,
            keys=tuple(map(change, self.keys)),
            parts=tuple(replace(p, argument=change(p.argument)) for p in self.parts),
        )

    def plan(self, view: op.Node) -> op.Node:
        width = len(self.keys)
        arguments = tuple(Field(f"a{i}", p.type, True) for i, p in enumerate(self.parts))
        given = op.Project(view, (*self.keys, *(p.argument for p in self.parts)), (*self.fields, *arguments))
        if not self.parts:
            return op.Distinct(given)
        made = tuple(
            op.Aggregation(p.function, (width + i,), p.type, f"a{i}", nullable=p.nullable)
            for i, p in enumerate(self.parts)
        )
        return op.Aggregate(given, tuple(range(width)), made)


def rolled_up(
    wanted: tuple[op.Aggregation, ...], keys: Expressions, schema: Schema, view: op.Aggregate, same: bool
) -> tuple[Rollup | None, Expressions] | str:
    """The columns of a query's grouping, by what is grouped again of a view's; a text: why that is not possible.

    `keys` are over the view's columns, `wanted` over those of what it groups. With `same`, the groups are the view's own.
    """
    finder = _Finder(view)
    parts: list[Part] = []
    columns: list[exp.Expression] = list(keys) if same else [ref(i) for i in range(len(keys))]

    def part(column: int, function: str, type_: Type, nullable: bool) -> exp.Expression:
        if same:
            return ref(column)
        parts.append(Part(function, ref(column), type_, nullable))
        return ref(len(keys) + len(parts) - 1)

    for aggregation in wanted:
        made = _made(aggregation, finder, part, same)
        if isinstance(made, str):
            return made
        columns.append(made)
    if same:
        return None, tuple(columns)
    return Rollup(keys, tuple(parts), schema[: len(keys)]), tuple(columns)


class _Finder:
    def __init__(self, view: op.Aggregate) -> None:
        self._schema = view.input.schema
        self._places = {
            self.form(a): len(view.keys) + i for i, a in reversed([*enumerate(view.aggregations)])
        }

    def form(self, a: op.Aggregation) -> op.Aggregation:
        """Without its name; a count of values that are never NULL counts rows."""
        arguments = a.arguments
        if a.function == "COUNT" and not a.distinct and not any(self._schema[i].nullable for i in arguments):
            arguments = ()
        return replace(a, name="", arguments=arguments, nullable=True)

    def place(self, a: op.Aggregation) -> int | None:
        return self._places.get(self.form(a))

    def whole(self, a: op.Aggregation) -> bool:
        """Whether an aggregate is of whole numbers whose sum is far from not fitting."""
        return self._schema[a.arguments[0]].type.name in ("TINYINT", "SMALLINT", "INT")


PartOf = Callable[[int, str, Type, bool], exp.Expression]


def _made(a: op.Aggregation, finder: _Finder, part: PartOf, same: bool) -> exp.Expression | str:
    place = finder.place(a)
    missing = f"it does not have {a.name}"
    if same and place is not None:
        return ref(place)
    if a.function == "AVG" and not a.distinct:
        return _average(a, finder, part) or missing
    if place is None:
        return missing
    finer = f"{a.name} of its groups does not tell that of larger ones"
    if a.function in ("MIN", "MAX"):
        return part(place, a.function, a.type, a.nullable)
    if a.distinct or a.function not in ("COUNT", "SUM"):
        return finer
    if a.function == "COUNT":
        return part(place, "SUM", BIGINT, False)
    if a.type == BIGINT:
        return part(place, "SUM", BIGINT, a.nullable)
    if a.type.name == "DECIMAL" and a.type.params[0] + 10 <= _DIGITS:
        precision, scale = a.type.params
        total = part(place, "SUM", decimal(precision + 10, scale), a.nullable)
        return exp.Cast(this=total, to=type_to_sqlglot(a.type))
    return finer  # sums of doubles are rounded


def _average(a: op.Aggregation, finder: _Finder, part: PartOf) -> exp.Expression | None:
    """AVG = SUM / COUNT, where nothing but the quotient is rounded."""
    if a.type != DOUBLE or not finder.whole(a):
        return None
    total = finder.place(replace(a, function="SUM", type=BIGINT))
    count = finder.place(replace(a, function="COUNT", type=BIGINT))
    if total is None or count is None:
        return None
    values = (part(total, "SUM", BIGINT, True), part(count, "SUM", BIGINT, False))
    left, right = (exp.Cast(this=v, to=type_to_sqlglot(DOUBLE)) for v in values)
    # No value, no average: NULL / 0 is an error where NULL is to be shown.
    zero = exp.Cast(this=exp.Literal.number(0), to=type_to_sqlglot(DOUBLE))
    return exp.Div(this=left, expression=exp.Nullif(this=right, expression=zero))
