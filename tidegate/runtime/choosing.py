"""Which plan a live query runs: the cheapest that is known when it begins, and that one until another takes over (`runtime.migration`).

State is found by what operators compute, so a query that goes on after a restart must be planned as it was, whatever statistics and rules say then. The manifest keeps the
plan as data; `KnownQuery.meaning` says of which query it is the plan. Where rules or texts have changed since, it is the plan as long as it is known to mean the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tidegate.algebra.operators import Node, Project
from tidegate.algebra.writing import from_plain
from tidegate.optimizer.cost import Costs
from tidegate.optimizer.hot_keys import can_be_spread, spread_hot_keys
from tidegate.optimizer.search import Whole, has_choice, search
from tidegate.physical.identity import plan_identity
from tidegate.runtime.equivalence import equivalent
from tidegate.runtime.jobs import source_names
from tidegate.runtime.ledger import KnownQuery
from tidegate.scalars.expressions import ref


def chosen(
    plan: Node,
    known: KnownQuery | None,
    kept: Mapping[str, Any],
    costs: Callable[[], Costs],
    whole: Callable[[Costs], Whole],
) -> Node:
    """The plan that a query runs: the one that it began with, or if it begins, the cheapest; without statistics of all sources, as it is.

    The cheapest is the one that adds least to what runs (`whole`).
    """
    if known is not None:
        if known.plan not in kept:
            return plan
        began: Node = from_plain(kept[known.plan])
        same = known.meaning == plan_identity(plan) or equivalent(began, plan)
        return _named(began, plan) if same else plan
    if not has_choice(plan) and not can_be_spread(plan):
        return plan
    given = costs()
    if not source_names({"": plan}) <= given.statistics.keys():
        return plan
    best = search(plan, given, whole=whole(given)).plan if has_choice(plan) else plan
    return spread_hot_keys(best, given)


def _named(plan: Node, like: Node) -> Node:
    """Names of columns do not count for what a query means, but people read them."""
    if plan.schema == like.schema:
        return plan
    return Project(plan, tuple(ref(i) for i in range(len(like.schema))), like.schema)


def remembered(known: KnownQuery, asked: Node, plan: Node, meaning: str = "") -> KnownQuery:
    """What the graph is to remember of a query: the plan that it runs, unless that runs for others that are alike, too."""
    if known.as_one:
        return known
    return replace(known, meaning=meaning or plan_identity(asked), plan=plan_identity(plan))
