"""Joins in which few keys have most of the rows: those are joined apart, one side spread over all tasks and the other sent to each of them.

    S ⋈_{k = k'} R = (σ_hot(k)(S) ⋈_{k = k'} σ_hot(k')(R)) ∪ (σ_cold(k)(S) ⋈_{k = k'} σ_cold(k')(R))

hot(k) says that k is one of some constants, cold(k) that it is not, or NULL. Rows that meet have equal keys, so both are in the same part, and a row without a partner is without one in
its own part; the law holds for every kind of join and whatever the constants are. In the first part the side with many rows is `spread`. A side whose rows are in the
answer without a partner must see all partners, so only inner joins are split for either side; left, semi and anti joins for the left one, right joins for the
right one, full joins never.

The constants come from statistics (`ColumnStatistics.frequent`) and then belong to the plan: where a row is follows from the row and the plan.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sqlglot import exp

from tidegate.algebra import operators as op
from tidegate.algebra.windows import is_temporal
from tidegate.optimizer.cost import Costs, estimates, split
from tidegate.optimizer.driver import optimize
from tidegate.optimizer.formulas import Estimate
from tidegate.optimizer.statistics import ColumnStatistics, Statistics, columns_of
from tidegate.scalars.expressions import index_of, ref, references

SHARE = 0.2
"""A key is hot if it has at least this part of the rows of a side."""
ROWS = 100_000.0
"""So many rows of hot keys, at least, are worth a second way for them."""
COPIED = 0.5
"""The other side may have so many rows of the hot keys for each one that is spread: they are sent to every task."""

Value = int | str | None

_SPREAD = {"inner": (0, 1), "left": (0,), "semi": (0,), "anti": (0,), "right": (1,), "full": ()}
"""By the kind of a join, the sides whose rows may each meet a part of the answer's other rows."""
_PRESERVED = (("left", 0), ("anti", 0), ("right", 1))


@dataclass(frozen=True)
class HotKeys:
    """A join, the side of it whose rows are to be spread, and the values of its key that many of them have."""

    join: op.Join
    side: int
    values: tuple[Value, ...]
    rows: float
    """How many rows are expected to be spread."""


def spread_hot_keys(plan: op.Node, costs: Costs) -> op.Node:
    """The plan with the join that has most rows of hot keys in two parts; the plan itself where there is none.

    Joins on the same key directly below, on the way to the rows that are spread, are split with it.
    """
    found = max(hot_keys(plan, costs), key=lambda h: h.rows, default=None)
    return plan if found is None else _replaced(plan, found.join, parted(found, costs.statistics))


def can_be_spread(plan: op.Node) -> bool:
    """Whether a join could have hot keys: without one, nobody needs statistics."""
    return any(isinstance(n, op.Join) and _SPREAD[n.kind] and _key(n) is not None for n in plan.walk())


def parted(hot: HotKeys, known: Statistics) -> op.Node:
    """The join as the union of its rows with hot keys and of all others.

    >>> from sqlglot import parse_one
    >>> from tidegate.types import INT, Field
    >>> s, r = (op.Scan(name, (Field("k", INT),)) for name in "SR")
    >>> both = parted(HotKeys(op.Join(s, r, "inner", parse_one("c0 = c1")), 0, (7,), 1e6), {})
    >>> [(i.spread, i.left.predicate.sql(), i.right.predicate.sql()) for i in both.inputs]
    [(0, 'c0 IN (7)', 'c0 IN (7)'), (None, 'c0 IS NULL OR NOT c0 IN (7)', 'c0 IS NULL OR NOT c0 IN (7)')]
    """
    return op.UnionAll(
        *(_part(hot.join, hot.side, _Rows(hot.values, is_hot), known) for is_hot in (True, False))
    )


@dataclass(frozen=True)
class _Rows:
    """Those whose key is one of some values, or all others."""

    values: tuple[Value, ...]
    is_hot: bool

    def condition(self, column: int, nullable: bool) -> exp.Expression:
        """That a column has one of the values, or that it has none of them."""
        literals = [_literal(v) for v in self.values if v is not None]
        among: exp.Expression = exp.In(this=ref(column), expressions=literals) if literals else exp.false()
        null = exp.Is(this=ref(column), expression=exp.Null())
        if self.is_hot:
            return exp.Or(this=null, expression=among) if None in self.values else among
        none = exp.Not(this=among)
        if not nullable:
            return none
        if None in self.values:
            return exp.And(this=exp.Not(this=null), expression=none)
        return exp.Or(this=null, expression=none)


def _part(join: op.Join, side: int, rows: _Rows, known: Statistics) -> op.Join:
    """The join of the rows with hot keys, or of all others."""
    key = _key(join)
    assert key is not None
    met = rows if key.null_safe else replace(rows, values=tuple(v for v in rows.values if v is not None))
    sides = [*join.inputs]
    sides[side] = _spread(join.inputs[side], key.columns[side], rows, known)
    sides[1 - side] = _filtered(join.inputs[1 - side], key.columns[1 - side], met)
    return replace(join, left=sides[0], right=sides[1], spread=side if rows.is_hot else None)


def _spread(plan: op.Node, column: int, rows: _Rows, known: Statistics) -> op.Node:
    """Those rows of a side that is spread; joins on the same key in it are split, too."""
    if isinstance(plan, op.Filter) or (isinstance(plan, op.Window) and is_temporal(plan.spec)):
        found: op.Node = plan.with_inputs(_spread(plan.inputs[0], column, rows, known))
        return found
    if isinstance(plan, op.Project) and (below := index_of(plan.expressions[column])) is not None:
        return replace(plan, input=_spread(plan.input, below, rows, known))
    if isinstance(plan, op.Join) and column in _carrying(plan):
        shares = {
            side: sum(_share(_origin(i, c, known), v) for v in rows.values)
            for side, (i, c) in enumerate(_sides(plan))
            if side in _SPREAD[plan.kind]
        }
        if shares:
            return _part(plan, max(shares, key=lambda side: shares[side]), rows, known)
    return _filtered(plan, column, rows)


def _filtered(plan: op.Node, column: int, rows: _Rows) -> op.Node:
    return optimize(op.Filter(plan, rows.condition(column, plan.schema[column].nullable)))[0]


def _carrying(join: op.Join) -> set[int]:
    """The columns of a join's rows that have the value of its key, or a NULL in place of it that no partner has."""
    key = _key(join)
    if key is None:
        return set()
    right = key.columns[1] + len(join.left.schema)
    return {"inner": {key.columns[0], right}, "right": {right}, "full": set()}.get(
        join.kind, {key.columns[0]}
    )


def _literal(value: int | str) -> exp.Expression:
    if isinstance(value, str):
        return exp.Literal.string(value)
    number = exp.Literal.number(abs(value))
    return exp.Neg(this=number) if value < 0 else number


# Which joins have hot keys.


def hot_keys(plan: op.Node, costs: Costs) -> Iterator[HotKeys]:
    """The joins of a plan that are worth two parts."""
    joins = [n for n in dict.fromkeys(plan.walk()) if isinstance(n, op.Join) and _key(n) is not None]
    every = (_origin(i, c, costs.statistics) for j in joins for i, c in _sides(j))
    if not any(o is not None and _skew(o) >= SHARE for o in every):
        return
    expected, horizon = estimates(plan, costs), costs.setting(plan).horizon
    for join in joins:
        if _needed_together(plan, join):
            continue
        for side in _SPREAD[join.kind]:
            found = _hot(join, side, expected, horizon, costs.statistics)
            if found is not None:
                yield found


def _hot(
    join: op.Join, side: int, expected: dict[op.Node, Estimate], horizon: float, known: Statistics
) -> HotKeys | None:
    key = _key(join)
    assert key is not None
    (own, mine), (other, theirs) = _sides(join)[side], _sides(join)[1 - side]
    column, met = _origin(own, mine, known), _origin(other, theirs, known)
    if column is None:
        return None
    shares: dict[Value, float] = {v: s for v, s in column.frequent if s >= SHARE}
    if column.nulls >= SHARE and (key.null_safe or (join.kind, side) in _PRESERVED):
        shares[None] = column.nulls
    rows = sum(shares.values()) * _rows(expected[own], horizon)
    copied = sum(_share(met, v) for v in shares if v is not None or key.null_safe)
    if not shares or rows < ROWS or copied * _rows(expected[other], horizon) > COPIED * rows:
        return None
    return HotKeys(join, side, tuple(shares), rows)


def _share(column: ColumnStatistics | None, value: Value) -> float:
    """The part of a column's rows that has a value."""
    if column is None:
        return 1.0
    if value is None:
        return column.nulls
    known = dict(column.frequent)
    return known.get(value, (1.0 - sum(known.values())) / max(1.0, column.distinct))


def _rows(expected: Estimate, horizon: float) -> float:
    return expected.given * horizon if expected.rate else expected.standing


@dataclass(frozen=True)
class _Key:
    """The one equality of a join, between two columns; `columns` are places in the left and in the right input."""

    columns: tuple[int, int]
    null_safe: bool


def _key(join: op.Join) -> _Key | None:
    """The key of a join that meets by one column of each side."""
    pairs, _ = split(join)
    if len(pairs) != 1:
        return None
    left, right = map(index_of, pairs[0])
    if left is None or right is None or join.left.schema[left].type != join.right.schema[right].type:
        return None
    safe = join.predicate is not None and _is_null_safe(join.predicate, left, right + len(join.left.schema))
    return _Key((left, right), safe)


def _is_null_safe(predicate: exp.Expression, left: int, right: int) -> bool:
    return any(references(e) == {left, right} for e in predicate.find_all(exp.NullSafeEQ))


def _sides(join: op.Join) -> list[tuple[op.Node, int]]:
    key = _key(join)
    return [] if key is None else list(zip(join.inputs, key.columns, strict=True))


def _skew(column: ColumnStatistics) -> float:
    """The part of the rows that the most frequent value has."""
    return max((column.nulls, *(s for _, s in column.frequent)))


def _origin(plan: op.Node, column: int, known: Statistics) -> ColumnStatistics | None:
    """What is known of the column of a source that a plan's column is, if rows come from there without having been brought together."""
    while not isinstance(plan, op.Scan):
        if isinstance(plan, op.Project):
            below = index_of(plan.expressions[column])
            if below is None:
                return None
            plan, column = plan.input, below
        elif isinstance(plan, op.Filter) or (isinstance(plan, op.Window) and is_temporal(plan.spec)):
            plan = plan.inputs[0]
        elif isinstance(plan, op.Join):
            if column in _carrying(plan):
                every = [_origin(i, c, known) for i, c in _sides(plan)]
                return max((o for o in every if o is not None), key=_skew, default=None)
            width = len(plan.left.schema)
            plan, column = (plan.left, column) if column < width else (plan.right, column - width)
        else:
            return None
    source = known.get(plan.name)
    return None if source is None else columns_of(plan, source)[column]


def _needed_together(plan: op.Node, join: op.Join) -> bool:
    """Whether an operator above a join needs all rows of one key in one place, so that to spread them is no use."""
    todo: list[tuple[op.Node, set[int]]] = [(join, _carrying(join))]
    above: dict[op.Node, list[op.Node]] = {}
    for node in dict.fromkeys(plan.walk()):
        for i in node.inputs:
            above.setdefault(i, []).append(node)
    while todo:
        below, columns = todo.pop()
        for node in above.get(below, ()):
            if isinstance(node, op.Project):
                kept = {i for i, e in enumerate(node.expressions) if index_of(e) in columns}
                todo += [(node, kept)] if kept else []
            elif isinstance(node, op.Filter) or (isinstance(node, op.Window) and is_temporal(node.spec)):
                todo.append((node, columns))
            elif isinstance(node, op.Aggregate):
                if node.keys and set(node.keys) <= columns:
                    return True
            elif isinstance(node, op.Join) and any(i is below and c in columns for i, c in _sides(node)):
                return True
    return False


def _replaced(plan: op.Node, old: op.Node, new: op.Node) -> op.Node:
    """A plan in which one operator stands in the place of another."""
    if plan == old:
        return new
    inputs = [_replaced(i, old, new) for i in plan.inputs]
    if all(a is b for a, b in zip(inputs, plan.inputs, strict=True)):
        return plan
    changed: op.Node = plan.with_inputs(*inputs)
    return changed
