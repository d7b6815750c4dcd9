"""Queries that are equal up to constants: their conditions with constants are lifted to the top, and what is left below is one plan for all.

    lifted(plan) = (general, conditions), plan = project(first columns) of filter(conditions) of general

Columns that conditions read, and that the plan does not show, follow the plan's own in `general`. A condition passes a window in time, a projection, a side of a
join whose rows are kept, unless these compute what may fail for rows that the condition would have kept away; a grouping, a row window, a ranking or a KEY stream where it reads what these partition by. A condition that gives a column one value passes a
grouping, and DISTINCT, by that column becoming one more key.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from sqlglot import exp

from tidegate.algebra import operators as op
from tidegate.algebra.modify import Modify, Sync
from tidegate.algebra.windows import is_temporal
from tidegate.optimizer.implication import Conditions
from tidegate.scalars.expressions import conjoin, conjuncts, index_of, ref, references, shift, substitute
from tidegate.scalars.total import never_fails
from tidegate.types import Schema

Expressions = tuple[exp.Expression, ...]

_PLAIN = ("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL", "STRING", "DATE")
"""Types whose values anybody compares in the same way."""


@dataclass(frozen=True)
class Lifted:
    """A plan without its constants, and conditions over its columns; the first columns are those of the plan that it was made of."""

    general: op.Node
    conditions: Expressions = ()


def lifted(plan: op.Node) -> Lifted:
    """A plan as a condition on what is the same for all that differ from it in constants."""
    if isinstance(plan, op.Filter):
        return _filter(plan)
    if isinstance(plan, op.Project):
        return _project(plan)
    if isinstance(plan, op.Window):
        return _window(plan)
    if isinstance(plan, op.Aggregate):
        return _aggregate(plan)
    if isinstance(plan, op.Join):
        return _join(plan)
    if isinstance(plan, op.Distinct):
        return _distinct(plan)
    if isinstance(plan, op.TopK):
        return _passed(plan, plan.partition_by, whole=True)
    if isinstance(plan, Modify) and plan.key is not None and plan.operation is None:
        return _passed(plan, plan.key)
    if isinstance(plan, Sync):
        below = lifted(plan.input)
        return Lifted(replace(plan, input=below.general), below.conditions)
    return Lifted(plan)


def is_liftable(condition: exp.Expression, schema: Schema) -> bool:
    """Whether a condition compares a column with constants."""
    found = Conditions([], schema).constraint(condition)
    column = None if found is None else index_of(found[0])
    return column is not None and schema[column].type.name in _PLAIN


def _single(condition: exp.Expression, schema: Schema) -> bool:
    """Whether a condition gives a column one value."""
    found = Conditions([], schema).constraint(condition)
    if found is None or len(found[1].ranges) != 1:
        return False
    ((low, high),) = found[1].ranges
    return low[0] is not None and low[0] == high[0]


def _filter(plan: op.Filter) -> Lifted:
    below = lifted(plan.input)
    parts = conjuncts(plan.predicate)
    mine = [c for c in parts if is_liftable(c, plan.schema)]
    if not all(never_fails(c, plan.schema) for c in parts if c not in mine):
        return Lifted(plan)
    return Lifted(_filtered(below.general, [c for c in parts if c not in mine]), (*below.conditions, *mine))


def _project(plan: op.Project) -> Lifted:
    below = lifted(plan.input)
    if not below.conditions:
        return Lifted(op.Project(below.general, plan.expressions, plan.fields))
    if not all(never_fails(e, plan.input.schema) for e in plan.expressions):
        return Lifted(plan)
    places = {c: i for i, e in enumerate(plan.expressions) if (c := index_of(e)) is not None}
    read = sorted(set().union(*map(references, below.conditions)) - places.keys())
    places |= {c: len(plan.expressions) + i for i, c in enumerate(read)}
    fields = below.general.schema
    general = op.Project(
        below.general, (*plan.expressions, *map(ref, read)), (*plan.fields, *(fields[c] for c in read))
    )
    return Lifted(general, _moved(below.conditions, places))


def _window(plan: op.Window) -> Lifted:
    if not is_temporal(plan.spec):
        return _passed(plan, plan.partition_by)
    below = lifted(plan.input)
    return Lifted(replace(plan, input=below.general), below.conditions)


def _passed(plan: op.Node, keys: Iterable[int], whole: bool = False) -> Lifted:
    """Only conditions on the columns that an operator treats apart pass it; `whole`: if it sees more columns, its answer is another."""
    (only,) = plan.inputs
    below = lifted(only)
    allowed = set(keys)
    if whole and len(below.general.schema) > len(only.schema):
        return Lifted(plan)
    passing = tuple(c for c in below.conditions if references(c) <= allowed)
    staying = [c for c in below.conditions if c not in passing]
    return Lifted(plan.with_inputs(_filtered(below.general, staying)), passing)


def _aggregate(plan: op.Aggregate) -> Lifted:
    below = lifted(plan.input)
    if any(a.function not in op.AGGREGATES for a in plan.aggregations):
        return Lifted(plan)  # a user's function may fail
    schema = below.general.schema
    keys = list(plan.keys)
    passing: list[exp.Expression] = []
    staying: list[exp.Expression] = []
    for condition in below.conditions:
        if references(condition) <= set(keys):
            passing.append(condition)
        elif _single(condition, schema):
            keys += sorted(references(condition) - set(keys))
            passing.append(condition)
        else:
            staying.append(condition)
    grouped = op.Aggregate(_filtered(below.general, staying), tuple(keys), plan.aggregations)
    places = {k: i for i, k in reversed([*enumerate(keys)])}
    if len(keys) == len(plan.keys):
        return Lifted(grouped, _moved(passing, places))
    # What was added to the keys is shown last.
    old, added, made = len(plan.keys), len(keys) - len(plan.keys), len(plan.aggregations)
    order = [*range(old), *range(len(keys), len(keys) + made), *range(old, len(keys))]
    shown = tuple(grouped.schema[i] for i in order)
    general = op.Project(grouped, tuple(map(ref, order)), shown)
    assert len(order) == old + made + added
    return Lifted(general, _moved(passing, {k: order.index(i) for k, i in places.items()}))


def _distinct(plan: op.Distinct) -> Lifted:
    below = lifted(plan.input)
    width, schema = len(plan.schema), below.general.schema
    hidden = [c for c in below.conditions if not references(c) <= set(range(width))]
    told = set().union(*(references(c) for c in hidden if _single(c, schema))) if hidden else set()
    # A hidden column must have one value, or rows that look the same are several.
    if set(range(width, len(schema))) <= told:
        return Lifted(op.Distinct(below.general), below.conditions)
    return Lifted(plan)


def _join(plan: op.Join) -> Lifted:
    if plan.predicate is not None and not never_fails(plan.predicate, plan.pair_schema):
        return Lifted(plan)
    kept = {"inner": (True, True), "right": (False, True), "full": (False, False)}.get(
        plan.kind, (True, False)
    )
    left, right = (lifted(s) if k else Lifted(s) for s, k in zip((plan.left, plan.right), kept, strict=True))
    width, grown = len(plan.left.schema), len(left.general.schema)
    more_left, more_right = grown - width, len(right.general.schema) - len(plan.right.schema)

    def place(i: int) -> exp.Expression:
        return ref(i if i < width else i + more_left)

    predicate = None if plan.predicate is None else substitute(plan.predicate, place)
    joined = op.Join(left.general, right.general, plan.kind, predicate)
    conditions = (*left.conditions, *(shift(c, grown) for c in right.conditions))
    if plan.kind in ("semi", "anti") or not (more_left or more_right):
        return Lifted(joined, conditions)
    # The plan's columns first, then those that conditions read.
    middle = grown + len(plan.right.schema)
    order = [*range(width), *range(grown, middle), *range(width, grown), *range(middle, middle + more_right)]
    general = op.Project(joined, tuple(map(ref, order)), tuple(joined.schema[i] for i in order))
    return Lifted(general, _moved(conditions, {c: i for i, c in enumerate(order)}))


def _moved(conditions: Iterable[exp.Expression], places: dict[int, int]) -> Expressions:
    return tuple(substitute(c, lambda i: ref(places[i])) for c in conditions)


def _filtered(plan: op.Node, conditions: list[exp.Expression]) -> op.Node:
    predicate = conjoin(conditions)
    return plan if predicate is None else op.Filter(plan, predicate)
