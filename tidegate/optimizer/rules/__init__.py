"""The rules, in the order in which they are tried."""

from __future__ import annotations

from collections.abc import Callable

from tidegate.algebra import operators as op
from tidegate.optimizer.rules import relational

RULES: tuple[Callable[[op.Node], op.Node | None], ...] = (
    relational.merge_filters,
    relational.push_filter_below_project,
    relational.push_filter_below_union,
    relational.push_filter_into_join,
    relational.push_join_conditions_down,
    relational.drop_distinct_below_distinct,
    relational.merge_projects,
    relational.remove_identity_project,
)
