"""Joins: their order, their kind, and what they need of either side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from tidegate.algebra import operators as op
from tidegate.algebra.properties import equal_columns
from tidegate.scalars.expressions import conjoin, conjuncts, index_of, ref, references, substitute
from tidegate.scalars.total import never_fails

_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Like)
_STRICT = (exp.Paren, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.Neg)
_MIRRORED = {"inner": "inner", "left": "right", "right": "left", "full": "full"}


def turn_outer_join_inner(node: op.Node) -> op.Node | None:
    """`σ_p(S ⟕ R) = σ_p(S ⋈ R)` where p is not true of a row without a partner; a full join becomes one that keeps one side."""
    if not (isinstance(node, op.Filter) and isinstance(node.input, op.Join)):
        return None
    join = node.input
    if join.kind not in ("left", "right", "full"):
        return None
    width = len(join.left.schema)
    on_left, on_right = set(range(width)), set(range(width, len(join.schema)))
    left_there = any(rejects_nulls(p, on_left) for p in conjuncts(node.predicate))
    right_there = any(rejects_nulls(p, on_right) for p in conjuncts(node.predicate))
    keep_left = join.kind in ("left", "full") and not right_there
    keep_right = join.kind in ("right", "full") and not left_there
    kind = {(True, True): "full", (True, False): "left", (False, True): "right"}.get(
        (keep_left, keep_right), "inner"
    )
    return None if kind == join.kind else op.Filter(replace(join, kind=kind), node.predicate)


def rejects_nulls(condition: exp.Expression, columns: set[int]) -> bool:
    """Whether a condition is never true of a row that has NULL in all of some columns.

    >>> from sqlglot import parse_one
    >>> [rejects_nulls(parse_one(c), {1, 2}) for c in ("c1 > c0", "NOT c2 IS NULL", "c1 = 1 OR c2 = 1", "c1 IN (1, NULL)")]
    [True, True, True, True]
    >>> [rejects_nulls(parse_one(c), {1, 2}) for c in ("c0 > 1", "c1 IS NULL", "c1 = 1 OR c0 = 1", "NOT c1 IN (1)", "c1 <=> 1")]
    [False, False, False, True, False]
    """
    if isinstance(condition, exp.Paren):
        return rejects_nulls(condition.this, columns)
    if isinstance(condition, exp.And):
        return any(rejects_nulls(p, columns) for p in (condition.this, condition.expression))
    if isinstance(condition, exp.Or):
        return all(rejects_nulls(p, columns) for p in (condition.this, condition.expression))
    if isinstance(condition, exp.Not):
        inner = condition.this
        while isinstance(inner, exp.Paren):
            inner = inner.this
        if isinstance(inner, exp.Is) and isinstance(inner.expression, exp.Null):
            return _is_null(inner.this, columns)
        return isinstance(inner, (*_COMPARISONS, exp.In)) and rejects_nulls(inner, columns)
    if isinstance(condition, exp.Between):
        return _is_null(condition.this, columns)
    if isinstance(condition, exp.In):
        return not condition.args.get("query") and _is_null(condition.this, columns)
    if isinstance(condition, _COMPARISONS):
        return _is_null(condition.this, columns) or _is_null(condition.expression, columns)
    return False


def _is_null(expression: exp.Expression, columns: set[int]) -> bool:
    """Whether an expression is NULL where all of some columns are."""
    if index_of(expression) is not None:
        return index_of(expression) in columns
    return isinstance(expression, _STRICT) and any(
        _is_null(p, columns) for p in expression.iter_expressions()
    )


def commute_join(node: op.Node) -> Iterator[op.Node]:
    """`S ⋈ R = R ⋈ S`, the columns put in order again; a left outer join becomes a right one."""
    if not isinstance(node, op.Join) or node.kind not in _MIRRORED:
        return
    left, right = len(node.left.schema), len(node.right.schema)
    predicate = None
    if node.predicate is not None:
        predicate = substitute(node.predicate, lambda i: ref(i + right if i < left else i - left))
    turned = op.Join(node.right, node.left, _MIRRORED[node.kind], predicate)
    order = [*range(right, right + left), *range(right)]
    yield op.Project(turned, tuple(map(ref, order)), node.schema)


@dataclass(frozen=True)
class _Factor:
    """An input of a chain of inner joins, and where its columns are among those of all inputs."""

    plan: op.Node
    start: int

    @property
    def columns(self) -> range:
        return range(self.start, self.start + len(self.plan.schema))


def associate_join(node: op.Node) -> Iterator[op.Node]:
    """`(A ⋈ B) ⋈ C = A ⋈ (B ⋈ C) = (A ⋈ C) ⋈ B` (PIPES rule 9), each condition as soon as its columns are there.

    Maps that only choose columns stand in nobody's way. A condition that may fail is asked last. No product is made where there was none.
    """
    if not isinstance(node, op.Join) or node.kind != "inner":
        return
    for on_left in (True, False):
        inner, others = (node.left, node.right) if on_left else (node.right, node.left)
        pair, columns = chosen(inner)
        if not isinstance(pair, op.Join) or pair.kind != "inner":
            continue
        a = _Factor(pair.left, 0)
        b = _Factor(pair.right, len(pair.left.schema))
        c = _Factor(others, len(pair.pair_schema))
        shown = [*columns, *c.columns] if on_left else [*c.columns, *columns]
        parts = [*conjuncts(pair.predicate)]
        parts += [substitute(p, lambda i, s=shown: ref(s[i])) for p in conjuncts(node.predicate)]  # type: ignore[misc]
        products = _is_product(pair) + _is_product(node)
        for first, second, last in ((b, c, a), (a, c, b)):
            made = _joined(first, second, last, parts)
            if _products(made) <= products:
                yield op.Project(made, _positions(shown, (first, second, last)), node.schema)


def _joined(first: _Factor, second: _Factor, last: _Factor, parts: Sequence[exp.Expression]) -> op.Join:
    inside = {*first.columns, *second.columns}
    early = [p for p in parts if references(p) and references(p) <= inside]
    below = op.Join(first.plan, second.plan, "inner", conjoin(_moved(early, (first, second))))
    kept = [
        p
        for p, m in zip(early, _moved(early, (first, second)), strict=True)
        if never_fails(m, below.pair_schema)
    ]
    below = op.Join(first.plan, second.plan, "inner", conjoin(_moved(kept, (first, second))))
    late = [p for p in parts if not any(p is k for k in kept)]
    return op.Join(below, last.plan, "inner", conjoin(_moved(late, (first, second, last))))


def _places(factors: Sequence[_Factor]) -> dict[int, int]:
    return {c: i for i, c in enumerate(c for f in factors for c in f.columns)}


def _moved(parts: Sequence[exp.Expression], factors: Sequence[_Factor]) -> list[exp.Expression]:
    places = _places(factors)
    return [substitute(p, lambda i: ref(places[i])) for p in parts]


def _positions(shown: Sequence[int], factors: Sequence[_Factor]) -> tuple[exp.Expression, ...]:
    places = _places(factors)
    return tuple(ref(places[c]) for c in shown)


def _is_product(join: op.Join) -> int:
    """1 for a join whose condition does not tell its sides apart, as a product of two inputs."""
    width = len(join.left.schema)
    sides = [references(p) for p in conjuncts(join.predicate)]
    return int(not any(min(s) < width <= max(s) for s in sides if s))


def _products(join: op.Join) -> int:
    assert isinstance(join.left, op.Join)
    return _is_product(join) + _is_product(join.left)


def chosen(plan: op.Node) -> tuple[op.Node, list[int]]:
    """What stands below maps that only choose columns, and which columns these are."""
    columns = [*range(len(plan.schema))]
    while isinstance(plan, op.Project):
        places = [index_of(e) for e in plan.expressions]
        if None in places:
            break
        columns = [int(places[c] or 0) for c in columns]
        plan = plan.input
    return plan, columns


def reduce_by_semijoin(node: op.Node) -> Iterator[op.Node]:
    """`γ_{k; f}(S) ⋈_k R = γ_{k; f}(S ⋉_k R) ⋈_k R`: groups that meet nobody are not made."""
    if not isinstance(node, op.Join) or node.kind != "inner":
        return
    for on_left in (True, False):
        mine, other = (node.left, node.right) if on_left else (node.right, node.left)
        grouped, columns = chosen(mine)
        if not isinstance(grouped, op.Aggregate) or is_reduced(grouped.input):
            continue
        pairs = equal_columns(node)
        width = len(node.left.schema)
        met = [(a, b - width) if on_left else (b - width, a) for a, b in pairs]
        met = [(columns[a], b) for a, b in met if columns[a] < len(grouped.keys)]
        if not met:
            continue
        size = len(grouped.input.schema)
        equal = [exp.NullSafeEQ(this=ref(grouped.keys[a]), expression=ref(size + b)) for a, b in met]
        reduced = op.Join(grouped.input, other, "semi", conjoin(equal))
        made = _instead(mine, replace(grouped, input=reduced))
        yield replace(node, left=made) if on_left else replace(node, right=made)


def _instead(plan: op.Node, below: op.Node) -> op.Node:
    """Maps that choose columns, over something else."""
    return replace(plan, input=_instead(plan.input, below)) if isinstance(plan, op.Project) else below


def is_reduced(plan: op.Node) -> bool:
    while isinstance(plan, op.Filter | op.Project):
        plan = plan.input
    return isinstance(plan, op.Join) and plan.kind == "semi"
