"""Operators that have nothing to do: keys and properties tell."""

from __future__ import annotations

from dataclasses import replace

from tidegate.algebra import operators as op
from tidegate.algebra.properties import properties
from tidegate.scalars.expressions import index_of, ref


def drop_redundant_distinct(node: op.Node) -> op.Node | None:
    """`δ(S) = S` where the rows of a snapshot of S differ: S has a key, as what is distinct or grouped has."""
    if isinstance(node, op.Distinct) and properties(node.input).has_key(range(len(node.schema))):
        return node.input
    return None


def drop_distinct_below_insensitive(node: op.Node) -> op.Node | None:
    """`f(δ(S)) = f(S)` where f does not see how often a row is there: MIN, MAX, aggregates of DISTINCT values, the right side of ⋉ and ▷, - and ∩."""
    if isinstance(node, op.Aggregate):
        blind = all(a.function in ("MIN", "MAX") or a.distinct for a in node.aggregations)
        below = _without_distinct(node.input)
        return replace(node, input=below) if blind and below is not None else None
    if isinstance(node, op.Join) and node.kind in ("semi", "anti"):
        below = _without_distinct(node.right)
        return None if below is None else replace(node, right=below)
    if isinstance(node, op.Except | op.Intersect) and not node.all:
        sides = [_without_distinct(i) or i for i in node.inputs]
        return node.with_inputs(*sides) if tuple(sides) != node.inputs else None
    return None


def _without_distinct(plan: op.Node) -> op.Node | None:
    """A plan with the same rows, more of them, that has no δ on top or below maps; None: it has none."""
    if isinstance(plan, op.Distinct):
        return plan.input
    if not isinstance(plan, op.Project) or any(index_of(e) is None for e in plan.expressions):
        return None
    below = _without_distinct(plan.input)
    return None if below is None else replace(plan, input=below)


def drop_redundant_grouping(node: op.Node) -> op.Node | None:
    """`γ_k(S) = Π_k(S)` without aggregates, where k holds a key of S: every group is one row."""
    if isinstance(node, op.Aggregate) and not node.aggregations and properties(node.input).has_key(node.keys):
        return op.Project(node.input, tuple(map(ref, node.keys)), node.schema)
    return None


def drop_redundant_top_k(node: op.Node) -> op.Node | None:
    """`top_{k, partition}(S) = S` where S has at most one row of a partition and the first one counts."""
    if not isinstance(node, op.TopK) or node.limit < 1 or node.offset:
        return None
    return node.input if properties(node.input).has_key(node.partition_by) else None


def drop_redundant_single_row(node: op.Node) -> op.Node | None:
    """`single_k(S) = S` where k holds a key of S."""
    if isinstance(node, op.SingleRow) and properties(node.input).has_key(node.partition_by):
        return node.input
    return None
