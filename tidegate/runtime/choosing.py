"""Which plan a live query runs: the cheapest that is known when it begins, and that one for as long as it lives.

State is found by what operators compute, so a query that goes on after a restart must be planned as it was, whatever statistics say then. The manifest keeps the
plan as data where it is another than the rules alone give; `KnownQuery.meaning` says of which query it is the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tidegate.algebra.operators import Node, Project
from tidegate.algebra.writing import from_plain
from tidegate.optimizer.cost import Costs
from tidegate.optimizer.search import has_choice, search
from tidegate.physical.identity import plan_identity
from tidegate.runtime.jobs import source_names
from tidegate.runtime.ledger import KnownQuery
from tidegate.scalars.expressions import ref


def chosen(plan: Node, known: KnownQuery | None, kept: Mapping[str, Any], costs: Callable[[], Costs]) -> Node:
    """The plan that a query runs: the one that it began with, or if it begins, the cheapest; without statistics of all sources, as it is."""
    if known is not None:
        same = known.plan in kept and known.meaning == plan_identity(plan)
        return _named(from_plain(kept[known.plan]), plan) if same else plan
    if not has_choice(plan):
        return plan
    given = costs()
    if not source_names({"": plan}) <= given.statistics.keys():
        return plan
    return search(plan, given).plan


def _named(plan: Node, like: Node) -> Node:
    """Names of columns do not count for what a query means, but people read them."""
    if plan.schema == like.schema:
        return plan
    return Project(plan, tuple(ref(i) for i in range(len(like.schema))), like.schema)


def remembered(known: KnownQuery, asked: Node, plan: Node) -> KnownQuery:
    """What the graph is to remember of a query that runs another plan than the rules alone give."""
    if plan == asked:
        return known
    return replace(known, meaning=plan_identity(asked), plan=plan_identity(plan))
