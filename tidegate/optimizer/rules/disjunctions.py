"""Conditions with OR: what all of its parts say, and what they say of one side of a join, is known before the pair is."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from tidegate.algebra import operators as op
from tidegate.optimizer.implication import Conditions, disjuncts, plain
from tidegate.optimizer.lifting import never_fails
from tidegate.scalars.expressions import conjoin, conjuncts, index_of, ref, references, substitute, tree_of

MOST = 32
"""Parts of an OR that are looked into; longer ones are lists of values rather than cases."""


def factor_out_of_or(node: op.Node) -> op.Node | None:
    """`σ_{(p and q) or (p and r)}(S) = σ_{p and (q or r)}(S)`, likewise for the predicate of a join; p may then be its key."""
    if not isinstance(node, op.Filter | op.Join) or node.predicate is None:
        return None
    parts = conjuncts(node.predicate)
    factored = [f for part in parts for f in _factored(part)]
    predicate = conjoin(factored)
    return None if predicate is None or factored == parts else replace(node, predicate=predicate)


def _factored(condition: exp.Expression) -> list[exp.Expression]:
    """The conditions that all cases of an OR have in common, and what is left of it.

    >>> import sqlglot
    >>> [c.sql() for c in _factored(sqlglot.parse_one("(c0 = c2 AND c1 > 1) OR (c2 = c0 AND c1 < 5)"))]
    ['c0 = c2', 'c1 > 1 OR c1 < 5']
    >>> [c.sql() for c in _factored(sqlglot.parse_one("(c0 = 1 AND c1 > 1) OR c0 = 1"))]
    ['c0 = 1']
    """
    cases = _cases(condition)
    common = [c for c in cases[0] if all(_among(c, case) for case in cases[1:]) and never_fails(c)]
    if len(cases) == 1 or not common:
        return [condition]
    rest = [conjoin(c for c in case if not _among(c, common)) for case in cases]
    remaining = [r for r in rest if r is not None]
    return common if len(remaining) < len(rest) else [*common, tree_of(exp.Or, remaining)]


def filter_sides_by_or(node: op.Node) -> op.Node | None:
    """`S ⋈_{(p and q) or (r and s)} R = σ_{p or r}(S) ⋈_{(p and q) or (r and s)} R`, p and r reading S alone; likewise for R.

    A side whose rows survive unmatched is left alone, and so is one of which as much is known already.
    """
    if not isinstance(node, op.Join) or node.predicate is None or node.kind in ("full", "right"):
        return None
    width = len(node.left.schema)
    left, right = node.left, node.right
    for part in conjuncts(node.predicate):
        if node.kind in ("inner", "semi"):
            left = _narrowed(left, _implied(part, 0, width))
        right = _narrowed(right, _implied(part, width, width + len(right.schema)))
    return None if left is node.left and right is node.right else replace(node, left=left, right=right)


def _narrowed(plan: op.Node, condition: exp.Expression | None) -> op.Node:
    return plan if condition is None or _known(plan, condition) else op.Filter(plan, condition)


def _implied(condition: exp.Expression, start: int, end: int) -> exp.Expression | None:
    """What an OR says of the columns from `start` to `end` alone; None if a case says nothing of them."""
    cases = _cases(condition)
    said = []
    for case in cases:
        own = [
            c
            for c in case
            if references(c) and all(start <= i < end for i in references(c)) and never_fails(c)
        ]
        said.append(conjoin(substitute(c, lambda i: ref(i - start)) for c in own))
    if len(cases) == 1 or not all(said):
        return None
    return tree_of(exp.Or, [*dict.fromkeys(s for s in said if s is not None)])


def _cases(condition: exp.Expression) -> list[list[exp.Expression]]:
    cases = disjuncts(condition)
    return [conjuncts(case) for case in cases] if len(cases) <= MOST else [[condition]]


def _among(condition: exp.Expression, others: list[exp.Expression]) -> bool:
    return any(plain(condition) == plain(other) for other in others)


def _known(plan: op.Node, condition: exp.Expression) -> bool:
    """Whether a filter below says so already, however far it has moved."""
    if isinstance(plan, op.Filter):
        return Conditions([plan.predicate], plan.schema).imply(condition) or _known(plan.input, condition)
    if isinstance(plan, op.Window | op.Distinct):
        return _known(plan.input, condition)
    if isinstance(plan, op.Aggregate):
        inside = all(i < len(plan.keys) for i in references(condition))
        return inside and _known(plan.input, substitute(condition, lambda i: ref(plan.keys[i])))
    if isinstance(plan, op.Project):
        columns = {i: index_of(plan.expressions[i]) for i in references(condition)}
        if any(c is None for c in columns.values()):
            return False
        return _known(plan.input, substitute(condition, lambda i: plan.expressions[i].copy()))
    if isinstance(plan, op.UnionAll):
        return _known(plan.left, condition) and _known(plan.right, condition)
    if isinstance(plan, op.Join):
        width = len(plan.left.schema)
        if max(references(condition)) < width:
            return plan.kind not in ("right", "full") and _known(plan.left, condition)
        if min(references(condition)) >= width:
            return plan.kind == "inner" and _known(
                plan.right, substitute(condition, lambda i: ref(i - width))
            )
        return plan.kind == "inner" and any(plain(p) == condition for p in conjuncts(plan.predicate))
    return False
