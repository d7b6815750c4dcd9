"""Rules about synchronization (SyncSQL, corollaries 1 to 3): it commutes with every operator on relations.

All of them hold at every instant, not only at the full points: the two sides of a binary operator must have the same points
(for different ones see `tidegate.algebra.synchronization`, whose normal form is equal at full points only).
"""

from __future__ import annotations

from dataclasses import replace

from tidegate.algebra import operators as op
from tidegate.algebra.modify import Sync, width_of
from tidegate.algebra.points import points_of
from tidegate.algebra.properties import properties
from tidegate.algebra.synchronization import BINARY, UNARY
from tidegate.algebra.windows import TimeWindow

ROWWISE = (op.Filter, op.Project)


def drop_sync_at_every_instant(node: op.Node) -> op.Node | None:
    """`R_clock(S) = R(S)`"""
    if isinstance(node, Sync) and points_of(node.points).is_every_instant:
        return node.input
    return None


def drop_sync_of_coarser_rows(node: op.Node) -> op.Node | None:
    """`R_clock(g)(S) = S` where S changes at multiples of g only"""
    period = _period(node)
    if period is None or not isinstance(node, Sync) or properties(node.input).granularity % period:
        return None
    return node.input


def merge_sync_into_window(node: op.Node) -> op.Node | None:
    """`R_clock(g)(ω_{w,s}(S)) = ω_{w,g}(S)`, ω sliding by s, which divides g"""
    period = _period(node)
    if period is None or not isinstance(node, Sync) or not isinstance(node.input, op.Window):
        return None
    window, spec = node.input, node.input.spec
    if not isinstance(spec, TimeWindow) or spec.origin or period % spec.slide:
        return None
    return replace(window, spec=replace(spec, slide=period))


def _period(node: op.Node) -> int | None:
    """The number at whose multiples an input is seen, where instants are ticks."""
    if not isinstance(node, Sync) or width_of(node.points) != 1:
        return None
    return points_of(node.points).period


def merge_syncs(node: op.Node) -> op.Node | None:
    """`R_i(R_j(S)) = R_i(S)` where every point of i is one of j (corollary 1)."""
    if not (isinstance(node, Sync) and isinstance(node.input, Sync)):
        return None
    if points_of(node.points).within(points_of(node.input.points)):
        return Sync(node.input.input, node.points)
    return None


def pull_sync_out_of_unary(node: op.Node) -> op.Node | None:
    """`θ(R_P(S)) = R_P(θ(S))` (corollary 2)"""
    if isinstance(node, UNARY) and isinstance(node.input, Sync):
        return Sync(node.with_inputs(node.input.input), node.input.points)
    return None


def push_sync_into_unary(node: op.Node) -> op.Node | None:
    """`R_P(θ(S)) = θ(R_P(S))` (corollary 2, read backwards)"""
    if isinstance(node, Sync) and isinstance(node.input, UNARY):
        return node.input.with_inputs(Sync(node.input.input, node.points))  # type: ignore[no-any-return]
    return None


def pull_sync_out_of_binary(node: op.Node) -> op.Node | None:
    """`R_P(A) θ R_P(B) = R_P(A θ B)` (corollary 3, for equal points)"""
    if not isinstance(node, BINARY):
        return None
    left, right = node.left, node.right
    if isinstance(left, Sync) and isinstance(right, Sync) and left.points == right.points:
        return Sync(node.with_inputs(left.input, right.input), left.points)
    return None


def push_sync_into_binary(node: op.Node) -> op.Node | None:
    """`R_P(A θ B) = R_P(A) θ R_P(B)` (corollary 3, read backwards)"""
    if isinstance(node, Sync) and isinstance(node.input, BINARY):
        below = node.input
        return below.with_inputs(Sync(below.left, node.points), Sync(below.right, node.points))  # type: ignore[no-any-return]
    return None


def pull_sync_above_rowwise(node: op.Node) -> op.Node | None:
    """Corollary 2 for filters and maps: fewer and smaller rows have to wait for a point."""
    return pull_sync_out_of_unary(node) if isinstance(node, ROWWISE) else None


def push_sync_below_others(node: op.Node) -> op.Node | None:
    """Corollaries 2 and 3 for operators that look at many rows: what changes between two points costs them nothing."""
    if isinstance(node, Sync) and not isinstance(node.input, (*ROWWISE, op.UnionAll, op.SingleRow)):
        return push_sync_into_unary(node) or push_sync_into_binary(node)
    return None
