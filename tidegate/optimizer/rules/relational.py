"""Conventional rules: they hold for streams because they hold for every snapshot (PIPES lemma 6.7)."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from tidegate.algebra import operators as op
from tidegate.scalars.expressions import conjoin, conjuncts, index_of, ref, references, substitute


def merge_filters(node: op.Node) -> op.Node | None:
    """`σ_p(σ_q(S)) = σ_{q and p}(S)`"""
    if isinstance(node, op.Filter) and isinstance(node.input, op.Filter):
        both = conjoin([*conjuncts(node.input.predicate), *conjuncts(node.predicate)])
        assert both is not None
        return op.Filter(node.input.input, both)
    return None


def merge_projects(node: op.Node) -> op.Node | None:
    """`μ_f(μ_g(S)) = μ_{f o g}(S)`, where no computed column of g would be computed twice."""
    if not (isinstance(node, op.Project) and isinstance(node.input, op.Project)):
        return None
    inner = node.input
    uses: dict[int, int] = {}
    for expression in node.expressions:
        for column in expression.find_all(exp.Column):
            index = index_of(column)
            if index is not None:
                uses[index] = uses.get(index, 0) + 1
    if any(count > 1 and not _is_plain(inner.expressions[i]) for i, count in uses.items()):
        return None
    merged = tuple(substitute(e, lambda i: _inlined(inner.expressions[i])) for e in node.expressions)
    return op.Project(inner.input, merged, node.fields)


def _is_plain(expression: exp.Expression) -> bool:
    return index_of(expression) is not None or isinstance(expression, exp.Literal)


def _inlined(expression: exp.Expression) -> exp.Expression:
    copy = expression.copy()
    return copy if _is_plain(copy) or isinstance(copy, (exp.Func, exp.Paren)) else exp.paren(copy)


def remove_identity_project(node: op.Node) -> op.Node | None:
    """`μ_id(S) = S`"""
    if not isinstance(node, op.Project) or node.fields != node.input.schema:
        return None
    return node.input if [index_of(e) for e in node.expressions] == [*range(len(node.fields))] else None


def push_filter_below_project(node: op.Node) -> op.Node | None:
    """`σ_p(μ_f(S)) = μ_f(σ_{p o f}(S))`, where p reads plain columns of f only."""
    if not (isinstance(node, op.Filter) and isinstance(node.input, op.Project)):
        return None
    project = node.input
    if not all(_is_plain(project.expressions[i]) for i in references(node.predicate)):
        return None
    below = substitute(node.predicate, lambda i: project.expressions[i].copy())
    return replace(project, input=op.Filter(project.input, below))


def push_filter_below_union(node: op.Node) -> op.Node | None:
    """`σ_p(S ∪ R) = σ_p(S) ∪ σ_p(R)` (PIPES rule 10)"""
    if not (isinstance(node, op.Filter) and isinstance(node.input, op.UnionAll)):
        return None
    union = node.input
    return op.UnionAll(op.Filter(union.left, node.predicate), op.Filter(union.right, node.predicate))


def push_filter_into_join(node: op.Node) -> op.Node | None:
    """`σ_p(S ⋈_q R) = σ_l(S) ⋈_{q and m} σ_r(R)`: each conjunct to the side whose columns it reads.

    A filter above a left outer, semi- or antijoin moves to the left side if it reads that alone.
    """
    if not (isinstance(node, op.Filter) and isinstance(node.input, op.Join)):
        return None
    join = node.input
    width = len(join.left.schema)
    left, right, middle = [], [], []
    for part in conjuncts(node.predicate):
        read = references(part)
        if read and max(read) < width:
            left.append(part)
        elif read and min(read) >= width:
            right.append(part)
        else:
            middle.append(part)
    if join.kind == "inner":
        lowered = conjoin(substitute(p, lambda i: ref(i - width)) for p in right)
        return op.Join(
            _filtered(join.left, conjoin(left)),
            _filtered(join.right, lowered),
            "inner",
            conjoin([*conjuncts(join.predicate), *middle]),
        )
    if join.kind in ("left", "semi", "anti") and left:
        pushed = replace(join, left=_filtered(join.left, conjoin(left)))
        return _filtered(pushed, conjoin([*right, *middle]))
    return None


def push_join_conditions_down(node: op.Node) -> op.Node | None:
    """`S ⋈_{q and r} R = S ⋈_q σ_r(R)` where r reads R alone; likewise for S where no row of S must survive unmatched."""
    if not isinstance(node, op.Join) or node.predicate is None or node.kind in ("full", "right"):
        return None
    width = len(node.left.schema)
    left, right, middle = [], [], []
    for part in conjuncts(node.predicate):
        read = references(part)
        if read and max(read) < width and node.kind in ("inner", "semi"):
            left.append(part)
        elif read and min(read) >= width:
            right.append(part)
        else:
            middle.append(part)
    if not left and not right:
        return None
    lowered = conjoin(substitute(p, lambda i: ref(i - width)) for p in right)
    return op.Join(
        _filtered(node.left, conjoin(left)), _filtered(node.right, lowered), node.kind, conjoin(middle)
    )


def _filtered(plan: op.Node, predicate: exp.Expression | None) -> op.Node:
    return plan if predicate is None else op.Filter(plan, predicate)


def drop_distinct_below_distinct(node: op.Node) -> op.Node | None:
    """`δ(δ(S)) = δ(S)`; grouping leaves nothing for δ to do either."""
    if isinstance(node, op.Distinct) and isinstance(node.input, (op.Distinct, op.Aggregate)):
        return node.input
    return None
