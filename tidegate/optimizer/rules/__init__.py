"""The rules, in the order in which they are tried."""

from __future__ import annotations

from collections.abc import Callable

from tidegate.algebra import operators as op
from tidegate.optimizer.rules import quantifiers, relational, sync, windows

RULES: tuple[Callable[[op.Node], op.Node | None], ...] = (
    relational.merge_filters,
    relational.push_filter_below_project,
    relational.push_filter_below_union,
    windows.push_filter_below_window,
    relational.push_filter_into_join,
    relational.push_join_conditions_down,
    quantifiers.compare_with_extreme,
    relational.drop_distinct_below_distinct,
    relational.merge_projects,
    relational.remove_identity_project,
    windows.push_projection_below_window,
    sync.drop_sync_at_every_instant,
    sync.merge_syncs,
    sync.pull_sync_above_rowwise,
    sync.push_sync_below_others,
)
