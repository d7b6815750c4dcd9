"""Answering a query from a view (SyncSQL section 5.2): match the data, then the points."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from sqlglot import exp

from tidegate.algebra import operators as op
from tidegate.algebra.modify import Sync
from tidegate.algebra.synchronization import skinned
from tidegate.scalars.expressions import conjoin, conjuncts, index_of, references, substitute


@dataclass(frozen=True)
class _Shape:
    """`project(filter(base))`; without a projection, all columns of the base."""

    base: op.Node
    conditions: tuple[exp.Expression, ...]
    outputs: tuple[exp.Expression, ...] | None
    fields: tuple[object, ...]


def answer_from_view(query: op.Node, view: op.Node) -> op.Node | None:
    """The query as a plan over the view, if the view has all its rows and all its points; None: it has not.

    The result equals the query at the query's full points (at every instant, where the query has one input).
    """
    wanted, given = skinned(query), skinned(view)
    if not wanted.instants.within(given.instants):
        return None
    return _over(wanted.data, given.data, view, wanted.points)


def _over(data: op.Node, known: op.Node, view: op.Node, points: op.Node | None) -> op.Node | None:
    source: op.Node = view if points is None else Sync(view, points)
    if data == known:
        return source
    mine, other = _shape(data), _shape(known)
    if mine.base != other.base or not all(_implied(c, mine.conditions) for c in other.conditions):
        return None
    places = _places(other, len(other.base.schema))
    rest = [c for c in mine.conditions if c not in other.conditions]
    outputs = mine.outputs
    if outputs is None:
        outputs = tuple(exp.column(f"c{i}") for i in range(len(mine.base.schema)))
    needed = set().union(*(references(e) for e in [*rest, *outputs])) if (rest or outputs) else set()
    if not needed <= places.keys():
        return None
    moved = [substitute(c, lambda i: exp.column(f"c{places[i]}")) for c in rest]
    predicate = conjoin(moved)
    filtered = op.Filter(source, predicate) if predicate is not None else source
    mapped = tuple(substitute(e, lambda i: exp.column(f"c{places[i]}")) for e in outputs)
    if [index_of(e) for e in mapped] == [*range(len(source.schema))] and data.schema == source.schema:
        return filtered
    return op.Project(filtered, mapped, data.schema)


def _shape(plan: op.Node) -> _Shape:
    outputs: tuple[exp.Expression, ...] | None = None
    fields = plan.schema
    if isinstance(plan, op.Project):
        outputs, plan = plan.expressions, plan.input
    conditions: list[exp.Expression] = []
    while isinstance(plan, op.Filter):
        conditions += conjuncts(plan.predicate)
        plan = plan.input
    return _Shape(plan, tuple(conditions), outputs, fields)


def _places(shape: _Shape, width: int) -> dict[int, int]:
    """Column of the base -> where the view shows it."""
    if shape.outputs is None:
        return {i: i for i in range(width)}
    found: dict[int, int] = {}
    for place, expression in enumerate(shape.outputs):
        column = index_of(expression)
        if column is not None:
            found.setdefault(column, place)
    return found


def _implied(condition: exp.Expression, given: tuple[exp.Expression, ...]) -> bool:
    """Whether a condition follows from one of the given: they are equal, or both bound one expression by a number.

    >>> from sqlglot import parse_one
    >>> _implied(parse_one("c0 > 80"), (parse_one("c0 > 100"),)), _implied(parse_one("c0 > 80"), (parse_one("c0 >= 80"),))
    (True, False)
    """
    if condition in given:
        return True
    mine = _bound(condition)
    return mine is not None and any(_tighter(other, mine) for g in given if (other := _bound(g)) is not None)


_Bound = tuple[exp.Expression, str, Decimal]
_SIGNS: dict[type[exp.Expression], str] = {
    exp.GT: ">",
    exp.GTE: ">=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.EQ: "=",
}


def _bound(condition: exp.Expression) -> _Bound | None:
    sign, value = _SIGNS.get(type(condition)), condition.args.get("expression")
    if sign is None or not isinstance(value, exp.Literal) or value.is_string:
        return None
    return condition.this, sign, Decimal(value.this)


def _tighter(given: _Bound, wanted: _Bound) -> bool:
    expression, sign, value = given
    other, comparison, limit = wanted
    if expression != other:
        return False
    if comparison[0] == ">" and sign[0] in ">=":
        return value > limit or (value == limit and (comparison == ">=" or sign == ">"))
    if comparison[0] == "<" and sign[0] in "<=":
        return value < limit or (value == limit and (comparison == "<=" or sign == "<"))
    return comparison == sign and value == limit
