"""The rules, in the order in which they are tried, and the alternatives, of which cost decides."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tidegate.algebra import operators as op
from tidegate.optimizer.rules import disjunctions, joins, quantifiers, relational, sync, windows

Rule = Callable[[op.Node], op.Node | None]
"""Gives a plan that means the same and is never worse, or None."""

Alternative = Callable[[op.Node], Iterable[op.Node]]
"""Gives plans that mean the same, each of which may be better or worse."""

RULES: tuple[Rule, ...] = (
    relational.merge_filters,
    relational.push_filter_below_project,
    relational.push_filter_below_union,
    windows.push_filter_below_window,
    disjunctions.factor_out_of_or,
    relational.push_filter_into_join,
    relational.push_join_conditions_down,
    disjunctions.filter_sides_by_or,
    joins.join_connected_first,
    quantifiers.compare_with_extreme,
    relational.drop_distinct_below_distinct,
    relational.merge_projects,
    relational.remove_identity_project,
    windows.push_projection_below_window,
    sync.drop_sync_at_every_instant,
    sync.drop_sync_of_coarser_rows,
    sync.merge_sync_into_window,
    sync.merge_syncs,
    sync.pull_sync_above_rowwise,
    sync.push_sync_below_others,
)

ALTERNATIVES: tuple[Alternative, ...] = ()
"""What a search by cost explores beside the rules; none of them looks deeper than two operators below the one it is given."""
