"""The normal form of synchronized queries, and what their points mean (SyncSQL sections 4.2 and 5.1).

Every operator on relations commutes with synchronization. So a query falls apart into data, a query over relations at the finest
granularity, and time, the points at which its answer reflects all of its inputs. At these **full** points the answer is that of the
data part; at the other points of any input, the **partial** ones, it reflects some inputs only up to an earlier point.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from sqlglot import exp

from tidegate.algebra import operators as op
from tidegate.algebra.modify import Modify, Sync, point_column
from tidegate.algebra.points import EVERY_INSTANT, Points, intersect, points_of
from tidegate.scalars.expressions import ref
from tidegate.scalars.typing import type_to_sqlglot
from tidegate.types import BIGINT, Field

UNARY = (op.Filter, op.Project, op.Distinct, op.Aggregate, op.TopK, op.SingleRow)
BINARY = (op.UnionAll, op.Join, op.Except, op.Intersect)
"""The operators on relations: what they give at t depends on their inputs at t only, and on nothing they give nothing."""


@dataclass(frozen=True)
class Skinned:
    """A query's normal form: data without synchronization, and the plan of its full points (None: every instant).

    At every full point, `snapshot(query, p) = snapshot(data, p)`.
    """

    data: op.Node
    points: op.Node | None

    @property
    def plan(self) -> op.Node:
        """Data and time put together again: equal to the query at its full points."""
        return self.data if self.points is None else Sync(self.data, self.points)

    @property
    def instants(self) -> Points:
        return EVERY_INSTANT if self.points is None else points_of(self.points)


def skinned(plan: op.Node) -> Skinned:
    """The normal form, by corollaries 2 and 3; an operator that is not one on relations keeps what is beneath it.

    >>> from tidegate.algebra.modify import Clock
    >>> s = op.Scan("S", (Field("a", BIGINT),), relation=True)
    >>> form = skinned(op.Distinct(Sync(s, Clock(2))))
    >>> form.data == op.Distinct(s), str(form.instants)
    (True, 'every 2 ticks')
    """
    if isinstance(plan, Sync):
        below = skinned(plan.input)
        return Skinned(below.data, _both(below.points, plan.points))
    if isinstance(plan, (*UNARY, *BINARY)):
        parts = [skinned(i) for i in plan.inputs]
        points: op.Node | None = None
        for part in parts:
            points = _both(points, part.points)
        return Skinned(plan.with_inputs(*(p.data for p in parts)), points)
    return Skinned(plan, None)


def _both(left: op.Node | None, right: op.Node | None) -> op.Node | None:
    if left is None or right is None or left == right:
        return right if left is None else left
    return op.Intersect(_instants(left), _instants(right))


def _instants(points: op.Node) -> op.Node:
    """A plan of points with exactly one column, so that any two go together."""
    column = point_column(points)
    field = points.schema[column]
    type_ = BIGINT if field.type.is_integral else field.type
    if len(points.schema) == 1 and field.type == type_:
        return points
    value = ref(column) if field.type == type_ else exp.Cast(this=ref(column), to=type_to_sqlglot(type_))
    return op.Project(points, (value,), (Field("Timepoint", type_, field.nullable),))


@dataclass(frozen=True)
class InputPoints:
    """An input of a query, and the points at which the query sees its modifications."""

    name: str
    points: Points


@dataclass(frozen=True)
class Report:
    """The full and partial points of a query within some time."""

    full: tuple[int, ...]
    partial: tuple[int, ...]


def inputs(plan: op.Node) -> tuple[InputPoints, ...]:
    """The streams a query reads with the points of each; without SYNC BY, every instant."""

    def visit(node: op.Node, points: Points) -> list[InputPoints]:
        if isinstance(node, Sync):
            return visit(node.input, intersect(points, points_of(node.points)))
        if isinstance(node, op.Scan):
            return [InputPoints(node.name, points)]
        if isinstance(node, Modify):
            return visit(node.input, points)
        return [p for i in node.inputs for p in visit(i, points)]

    return tuple(dict.fromkeys(visit(plan, EVERY_INSTANT)))


def describe(plan: op.Node) -> str:
    """For EXPLAIN: when each input is seen, and when the answer reflects all of them."""
    found = inputs(plan)
    lines = [f"{p.name}: {p.points}" for p in found]
    full = EVERY_INSTANT
    for p in found:
        full = intersect(full, p.points)
    return "\n".join([*lines, f"full synchronization: {full}"])


def report(
    plan: op.Node, since: int, upto: int, events: Callable[[op.Node], Collection[int]] | None = None
) -> Report:
    """The full and partial points of [since, upto); `events` gives the instants of event plans.

    An input without SYNC BY is seen at every instant: then each point of the others is full for it, and points are those of the others.
    """
    found = [p.points for p in inputs(plan) if not p.points.is_every_instant]
    sets = [_within(points, since, upto, events) for points in found]
    anywhere = set().union(*sets) if sets else set()
    full = anywhere.intersection(*sets) if sets else set()
    return Report(tuple(sorted(full)), tuple(sorted(anywhere - full)))


COUNTED = 100_000
"""So many points are counted one by one."""


def counted(plan: op.Node, since: int, upto: int) -> tuple[int, int] | None:
    """How many full and partial points there are in [since, upto); None where they are events, or too many to count.

    >>> from tidegate.algebra.modify import Clock
    >>> s = op.Scan("S", (), relation=True)
    >>> counted(op.UnionAll(Sync(s, Clock(2)), Sync(s, Clock(3))), 1, 13)
    (2, 6)
    """
    found = [p.points for p in inputs(plan) if not p.points.is_every_instant]
    fastest = min((c.step for p in found for c in p.ticks), default=1)
    if any(p.events for p in found) or upto - since > COUNTED * fastest:
        return None
    passed = report(plan, since, upto)
    return len(passed.full), len(passed.partial)


def _within(
    points: Points, since: int, upto: int, events: Callable[[op.Node], Collection[int]] | None
) -> set[int]:
    instants = set(points.ticks_between(since, upto))
    for event in points.events:
        assert events is not None, "points that are events need their instants"
        said = {p for p in events(event.plan) if since <= p < upto}
        instants |= {p for p in said if event.within is None or any(c.contains(p) for c in event.within)}
    return instants
