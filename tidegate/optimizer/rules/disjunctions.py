"""Conditions with OR: what all of its parts say, and what they say of one side of a join, is known before the pair is."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from tidegate.algebra import operators as op
from tidegate.algebra.modify import Modify, Restrict, Since, Sync
from tidegate.optimizer.implication import Conditions, disjuncts, plain
from tidegate.scalars.expressions import conjoin, conjuncts, index_of, ref, references, substitute, tree_of
from tidegate.scalars.total import never_fails
from tidegate.types import Schema

MOST = 32
"""Parts of an OR that are looked into; longer ones are lists of values rather than cases."""


def factor_out_of_or(node: op.Node) -> op.Node | None:
    """`σ_{(p and q) or (p and r)}(S) = σ_{p and (q or r)}(S)`, likewise for the predicate of a join; p may then be its key."""
    if (
        not isinstance(node, op.Filter | op.Join)
        or node.predicate is None
        or node.predicate.find(exp.Or) is None
    ):
        return None
    parts = conjuncts(node.predicate)
    schema = node.pair_schema if isinstance(node, op.Join) else node.schema
    factored = [f for part in parts for f in _factored(part, schema)]
    predicate = conjoin(factored)
    return None if predicate is None or factored == parts else replace(node, predicate=predicate)


def _factored(condition: exp.Expression, schema: Schema) -> list[exp.Expression]:
    """The conditions that all cases of an OR have in common, and what is left of it.

    >>> import sqlglot
    >>> from tidegate.types import INT, Field
    >>> schema = (Field("a", INT), Field("b", INT), Field("c", INT))
    >>> [c.sql() for c in _factored(sqlglot.parse_one("(c0 = c2 AND c1 > 1) OR (c2 = c0 AND c1 < 5)"), schema)]
    ['c0 = c2', 'c1 > 1 OR c1 < 5']
    >>> [c.sql() for c in _factored(sqlglot.parse_one("(c0 = 1 AND c1 > 1) OR c0 = 1"), schema)]
    ['c0 = 1']
    """
    cases = _cases(condition)
    common = [c for c in cases[0] if all(_among(c, case) for case in cases[1:]) and never_fails(c, schema)]
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
    if node.predicate.find(exp.Or) is None:
        return None
    width = len(node.left.schema)
    left, right = node.left, node.right
    for part in conjuncts(node.predicate):
        if node.kind in ("inner", "semi"):
            left = _narrowed(left, _implied(part, 0, width, node.pair_schema))
        right = _narrowed(right, _implied(part, width, len(node.pair_schema), node.pair_schema))
    return None if left is node.left and right is node.right else replace(node, left=left, right=right)


def _narrowed(plan: op.Node, condition: exp.Expression | None) -> op.Node:
    return plan if condition is None or _known(plan, condition) else op.Filter(plan, condition)


def _implied(condition: exp.Expression, start: int, end: int, schema: Schema) -> exp.Expression | None:
    """What an OR says of the columns from `start` to `end` alone; None if a case says nothing of them."""
    cases = _cases(condition)
    said = []
    for case in cases:
        own = [
            c
            for c in case
            if references(c) and all(start <= i < end for i in references(c)) and never_fails(c, schema)
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


_UNCHANGED = (
    op.Window, op.Distinct, op.TopK, op.SingleRow, op.Istream, op.Dstream, op.Rstream, Modify, Restrict, Since, Sync,
)  # fmt: skip
"""Operators whose rows are rows of their input, a column more at most."""


def _known(plan: op.Node, condition: exp.Expression) -> bool:
    """Whether a filter below says so already, however far it has moved."""
    if isinstance(plan, op.Filter):
        return Conditions([plan.predicate], plan.schema).imply(condition) or _known(plan.input, condition)
    if isinstance(plan, _UNCHANGED):
        below = plan.inputs[0]
        return max(references(condition)) < len(below.schema) and _known(below, condition)
    if isinstance(plan, op.Except):
        return _known(plan.left, condition)
    if isinstance(plan, op.Intersect):
        return _known(plan.left, condition) or _known(plan.right, condition)
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
