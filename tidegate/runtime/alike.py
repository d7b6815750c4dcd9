"""Queries that are equal up to constants: when they are many, one plan runs for all, and each is a condition on its answer.

Nothing is computed for such a query: what is written is the answer of the general plan, and whoever reads the query's answer filters it. So one more of them costs an
entry in the manifest. Few of them run by themselves: the general plan has the rows of all constants there could be. Those that have not run yet when others
become many are run as one with them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from tidegate.algebra.operators import Node
from tidegate.optimizer.lifting import Lifted, lifted
from tidegate.physical.identity import Identity, plan_identity
from tidegate.types import Schema

MANY = 8
"""So many queries that are alike are run as one."""


@dataclass(frozen=True)
class Selection:
    """Rows of another answer: those for which conditions hold, and of these the first columns."""

    schema: Schema
    """The columns of the answer that is read."""
    conditions: tuple[str, ...]
    """In Spark's SQL, over c0, c1, …"""


def selection(found: Lifted) -> Selection:
    return Selection(found.general.schema, tuple(c.sql(dialect="spark") for c in found.conditions))


class Alike:
    """How many queries of a graph there are of each kind, and which kinds run as one."""

    def __init__(self) -> None:
        self._kinds: dict[str, Identity] = {}
        self._count: Counter[Identity] = Counter()
        self._as_one: Counter[Identity] = Counter()

    def general(self, plan: Node) -> Lifted | None:
        """What is to run for a query instead of itself; None: itself."""
        found = lifted(plan)
        if not found.conditions:
            return None
        kind = plan_identity(found.general)
        return found if self._as_one[kind] or self._count[kind] >= MANY - 1 else None

    def add(self, name: str, plan: Node, as_one: Lifted | None) -> None:
        found = as_one or lifted(plan)
        if found.conditions:
            kind = self._kinds[name] = plan_identity(found.general)
            self._count[kind] += 1
            self._as_one[kind] += as_one is not None

    def is_settled(self, name: str) -> bool:
        """Whether a query is not the first of its kind to run as one with others."""
        return self._as_one[self._kinds[name]] > 1

    def same_kind(self, name: str) -> list[str]:
        """The other queries that are alike."""
        kind = self._kinds.get(name)
        return [n for n, k in self._kinds.items() if k == kind and n != name] if kind is not None else []

    def remove(self, name: str, as_one: Lifted | None) -> bool:
        """Forget a query; whether what ran for it still runs for others that are alike."""
        kind = self._kinds.pop(name, None)
        if kind is None:
            return False
        self._count[kind] -= 1
        self._as_one[kind] -= as_one is not None
        return as_one is not None and self._as_one[kind] > 0
