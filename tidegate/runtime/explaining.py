"""What EXPLAIN says of a query, as text."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.algebra import synchronization
from tidegate.algebra.modify import Sync
from tidegate.algebra.operators import Node
from tidegate.algebra.printing import tree
from tidegate.optimizer.driver import Firing


def explained(
    written: Node, optimized: Node, firings: Sequence[Firing], physical: str, running: Sequence[str]
) -> str:
    """The plan as it was written and as it runs, the rules in between, and what it would share with running queries."""
    parts = ["== Logical plan", tree(written)]
    if firings:
        parts += ["", "== Rules", *map(str, firings)]
    if optimized != written:
        parts += ["", "== Optimized plan", tree(optimized)]
    if any(isinstance(n, Sync) for n in written.walk()):
        parts += ["", "== Synchronization", synchronization.describe(written)]
    parts += ["", "== Physical plan", physical]
    if running:
        parts += ["", "== Beside running queries", *running]
    return "\n".join(parts)
