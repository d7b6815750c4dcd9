"""What EXPLAIN says of a query, as text."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.algebra import synchronization
from tidegate.algebra.modify import Sync
from tidegate.algebra.operators import Node
from tidegate.algebra.printing import tree
from tidegate.optimizer.driver import Firing
from tidegate.optimizer.search import Found


def explained(
    written: Node,
    optimized: Node,
    firings: Sequence[Firing],
    physical: str,
    running: Sequence[str],
    cheapest: Found | None = None,
) -> str:
    """The plan as it was written and as it runs, the rules in between, and what it would share with running queries."""
    parts = ["== Logical plan", tree(written)]
    if firings:
        parts += ["", "== Rules", *map(str, firings)]
    if optimized != written:
        parts += ["", "== Optimized plan", tree(optimized)]
    if cheapest is not None:
        parts += ["", "== Search by cost", *_told(cheapest)]
    if any(isinstance(n, Sync) for n in written.walk()):
        parts += ["", "== Synchronization", synchronization.describe(written)]
    parts += ["", "== Physical plan", physical]
    if running:
        parts += ["", "== Beside running queries", *running]
    return "\n".join(parts)


def _told(found: Found) -> list[str]:
    """How many plans were compared, and which one was found."""
    if found.given_up:
        return ["it took too long: the plan is as the rules leave it"]
    seen = f"{found.expressions} expressions compared: "
    if not found.is_other:
        return [f"{seen}nothing is cheaper than what the rules leave"]
    part = found.cost.work / found.greedy.work if found.greedy.work else 1.0
    return [f"{seen}{part:.0%} of the work of what the rules leave is expected of", tree(found.plan)]
