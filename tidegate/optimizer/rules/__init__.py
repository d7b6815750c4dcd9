"""The rules, in the order in which they are tried, and the alternatives, of which cost decides."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tidegate.algebra import operators as op
from tidegate.optimizer.rules import (
    constants,
    disjunctions,
    filters,
    grouping,
    join_forms,
    joins,
    quantifiers,
    redundant,
    relational,
    sync,
    windows,
)

Rule = Callable[[op.Node], op.Node | None]
"""Gives a plan that means the same and is never worse, or None."""

Alternative = Callable[[op.Node], Iterable[op.Node]]
"""Gives plans that mean the same, each of which may be better or worse."""

RULES: tuple[Rule, ...] = (
    # Constants first: what never holds need not be moved, and what is empty takes all above it along.
    constants.fold_constants,
    constants.drop_conditions_that_hold,
    constants.find_contradictions,
    constants.empty_what_has_no_rows,
    constants.drop_empty_sides,
    filters.merge_filters,
    # Before filters go into joins: an inner join lets more of them pass.
    join_forms.turn_outer_join_inner,
    filters.push_filter_below_project,
    filters.push_filter_below_union,
    filters.push_filter_below_window,
    filters.push_filter_below_distinct,
    filters.push_filter_below_grouping,
    filters.push_filter_below_top_k,
    filters.push_filter_below_single_row,
    filters.push_filter_below_difference,
    filters.push_filter_below_changes,
    filters.push_filter_below_modify,
    disjunctions.factor_out_of_or,
    filters.push_filter_into_join,
    filters.push_join_conditions_down,
    disjunctions.filter_sides_by_or,
    joins.join_connected_first,
    quantifiers.compare_with_extreme,
    redundant.drop_redundant_distinct,
    redundant.drop_distinct_below_insensitive,
    redundant.drop_redundant_grouping,
    redundant.drop_redundant_top_k,
    redundant.drop_redundant_single_row,
    windows.drop_now_window,
    relational.merge_projects,
    relational.remove_identity_project,
    relational.push_projection_below_union,
    windows.push_projection_below_window,
    # After maps are one: what they compute twice shows.
    relational.compute_calls_once,
    sync.drop_sync_at_every_instant,
    sync.drop_sync_of_coarser_rows,
    sync.merge_sync_into_window,
    sync.merge_syncs,
    sync.pull_sync_above_rowwise,
    sync.push_sync_below_others,
)
"""Never worse, tried in this order until none fires."""

ALTERNATIVES: tuple[Alternative, ...] = (
    join_forms.reduce_by_semijoin,
    grouping.push_grouping_below_join,
    grouping.push_partial_grouping_below_join,
    grouping.push_grouping_below_union,
    grouping.push_distinct_below_join,
    grouping.push_distinct_below_union,
    grouping.turn_distinct_join_semi,
    windows.push_map_below_window,
    windows.pull_map_above_window,
    windows.pull_window_above_union,
    windows.push_window_below_union,
)
"""What a search by cost explores beside the rules; maps that only choose columns stand in nobody's way."""

JOIN_ORDER: tuple[Alternative, ...] = (
    join_forms.commute_join,
    join_forms.associate_join,
)
"""Step by step what the search does for small blocks of joins at once: for blocks that are too large for that."""
