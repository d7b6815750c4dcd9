"""What arithmetic can say of a clock in FROM (SPEC section 5): the latest of its points.

In FROM a stream of points is the relation of its points so far. It is never built: the greatest of them, `MAX(Timepoint)`, is the
latest point up to the instant, and a condition that compares it with a row says how long that row is seen.

    MAX(P) at t        =  the clock as of the latest point of P up to t
    S ⋈_{c(row, p)} {p}  =  S restricted to c(row, NOW), its bounds moved up to points of P
"""

from __future__ import annotations

from collections.abc import Set

from sqlglot import exp

from tidegate.algebra import operators as op
from tidegate.algebra.modify import Clock, Restrict, Sync
from tidegate.algebra.now import literal
from tidegate.algebra.points import Classes, Points, points_of
from tidegate.errors import Diagnostic
from tidegate.scalars.expressions import conjoin, conjuncts, ref, references, substitute
from tidegate.time import MIN
from tidegate.types import BIGINT, TIMESTAMP


def by_arithmetic(plan: op.Node) -> op.Node:
    """The plan without joins of clocks, where bounds say as much; what else is done with a clock stays in it."""
    if not any(isinstance(n, Clock) for n in plan.walk()):
        return plan
    return _rewritten(plan, frozenset(range(len(plan.schema))))


def _rewritten(node: op.Node, needed: Set[int]) -> op.Node:
    """The same rows as far as the needed columns tell."""
    if isinstance(node, Clock):
        return node
    if isinstance(node, op.Project):
        read = {i for k in needed for i in references(node.expressions[k])}
        return op.Project(_rewritten(node.input, read), node.expressions, node.fields)
    if isinstance(node, op.Filter):
        if isinstance(node.input, op.Join) and node.input.kind == "inner":
            join = node.input
            both = conjoin([*conjuncts(join.predicate), *conjuncts(node.predicate)])
            return _rewritten(op.Join(join.left, join.right, "inner", both), needed)
        return op.Filter(_rewritten(node.input, {*needed, *references(node.predicate)}), node.predicate)
    if isinstance(node, op.Join) and node.kind in ("inner", "semi"):
        return _joined(node, needed)
    if isinstance(node, op.Aggregate):
        return _greatest(node) or node.with_inputs(_whole(node.input))
    if isinstance(node, Sync):
        # What the points say is read, not run.
        node = Sync(_whole(node.input), node.points)
        return _resynchronized(node) or node
    above: op.Node = node.with_inputs(*(_whole(n) for n in node.inputs))
    return above


def _whole(node: op.Node) -> op.Node:
    return _rewritten(node, frozenset(range(len(node.schema))))


def _greatest(node: op.Aggregate) -> op.Node | None:
    """MAX of points, and of nothing else, is the latest of them."""
    if node.keys or any(a.function != "MAX" or a.where is not None for a in node.aggregations):
        return None
    points = _ticks(node.input)
    if points is None:
        return None
    timestamps = node.input.schema[0].type == TIMESTAMP
    latest = Sync(Clock(timestamps=timestamps), node.input)
    return op.Project(latest, tuple(ref(0) for _ in node.aggregations), node.schema)


def _ticks(plan: op.Node) -> Points | None:
    """The points of a plan that has one column of a clock's ticks and no events."""
    if len(plan.schema) != 1:
        return None
    try:
        points = points_of(plan)
    except Diagnostic:
        return None
    return points if points.ticks and not points.events else None


def _resynchronized(node: Sync) -> op.Node | None:
    """The latest point as of other points: the latest of those, where each is one of the first."""
    found = _latest(node.input)
    points = points_of(node.points)
    if found is None or points.events or not points.within(points_of(found[0].points)):
        return None
    clock, expressions = found
    return op.Project(Sync(clock.input, node.points), expressions, node.schema)


def _latest(plan: op.Node) -> tuple[Sync, tuple[exp.Expression, ...]] | None:
    """A plan with the latest point as its only row: the point, and its columns as expressions over it."""
    if isinstance(plan, Sync) and isinstance(plan.input, Clock) and plan.input.step == 1:
        return (plan, (ref(0),)) if _ticks(plan.points) is not None else None
    if not isinstance(plan, op.Project):
        return None
    below = _latest(plan.input)
    if below is None:
        return None
    return below[0], tuple(_composed(e, below[1]) for e in plan.expressions)


def _composed(expression: exp.Expression, by: tuple[exp.Expression, ...]) -> exp.Expression:
    def make(index: int) -> exp.Expression:
        return by[index].copy() if isinstance(by[index], exp.Column) else exp.paren(by[index].copy())

    return substitute(expression, make)


def _joined(node: op.Join, needed: Set[int]) -> op.Node:
    width = len(node.left.schema)
    read = {*needed, *(references(node.predicate) if node.predicate is not None else ())}
    left = _rewritten(node.left, {i for i in read if i < width})
    right = _rewritten(node.right, {i - width for i in read if i >= width})
    for rows, other, first in ((left, right, 0), (right, left, width)):
        found = _latest(other)
        if found is None or _latest(rows) is not None or (first and node.kind == "semi"):
            continue
        start = 0 if first else width
        shown = [k for k, e in enumerate(found[1]) if start + k in needed and references(e)]
        if not shown:
            return _restricted(node, rows, first, found)
    return op.Join(left, right, node.kind, node.predicate)


def _begun(points: Classes, now: int, timestamps: bool) -> list[exp.Expression]:
    """Before the first point there is no latest one."""
    first = Points(points).next_tick(MIN)
    if first is None or first == MIN:
        return []
    return [exp.GTE(this=ref(now), expression=literal(first, TIMESTAMP if timestamps else BIGINT))]


def _restricted(
    node: op.Join, rows: op.Node, first: int, latest: tuple[Sync, tuple[exp.Expression, ...]]
) -> op.Node:
    """The rows of one side, which begins at position `first`, under the join's conditions on the latest point as NOW."""
    now, count = len(rows.schema), len(latest[1])
    start = 0 if first else now
    clock = latest[0].input
    assert isinstance(clock, Clock)
    said = [substitute(e, lambda _: ref(now)) for e in latest[1]]

    def moved(index: int) -> exp.Expression:
        if start <= index < start + count:
            return said[index - start].copy()
        return ref(index - first)

    parts = [substitute(p, moved) for p in conjuncts(node.predicate)]
    plain, timed = ([p for p in parts if (now in references(p)) == t] for t in (False, True))
    below = conjoin(plain)
    result = rows if below is None else op.Filter(rows, below)
    points = points_of(latest[0].points).ticks
    condition = conjoin([*timed, *_begun(points, now, clock.timestamps)])
    if condition is not None:
        result = Restrict(result, condition, clock.timestamps, points=points)
    if node.kind == "semi":
        return result
    constants = [exp.null() if references(e) else e for e in latest[1]]
    own: list[exp.Expression] = [ref(i) for i in range(now)]
    columns = [*constants, *own] if first else [*own, *constants]
    return op.Project(result, tuple(columns), node.schema)
