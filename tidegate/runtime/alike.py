"""Queries that are equal up to constants: when they are many, one plan runs for all, and each is a condition on its answer.

Nothing is computed for such a query: what is written is the answer of the general plan, and whoever reads the query's answer filters it. So one more of them costs an
entry in the manifest. Few of them run by themselves: the general plan has the rows of all constants there could be. Those that have not run yet when others
become many are run as one with them.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.algebra.operators import Node
from tidegate.optimizer.lifting import Lifted, lifted
from tidegate.physical.identity import Identity, identity_of, plan_identity
from tidegate.runtime.queries import Query
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


def mark(found: Lifted) -> Identity:
    """What tells a query from others that are alike: its conditions."""
    return identity_of("conditions", found.conditions)


class Alike:
    """The queries of a graph by their kind: what they are without their constants."""

    def __init__(self) -> None:
        self._kinds: dict[str, Identity] = {}
        self._marks: dict[str, Identity] = {}
        self._alone: dict[Identity, dict[str, Query]] = {}
        self._as_one: dict[Identity, dict[str, Query]] = {}

    def general(self, plan: Node) -> Lifted | None:
        """What is to run for a query instead of itself; None: itself."""
        found = lifted(plan)
        if not found.conditions:
            return None
        kind = plan_identity(found.general)
        return found if self._as_one.get(kind) or len(self._alone.get(kind, ())) >= MANY - 1 else None

    def example(self, found: Lifted) -> Query | None:
        """A query that runs by itself and is the same, or one of the kind that runs as one with others."""
        kind, which = plan_identity(found.general), mark(found)
        for query in self._alone.get(kind, {}).values():
            if not query.history and not query.known.before and self._marks[query.name] == which:
                return query
        known = self._as_one.get(kind)
        return next(iter(known.values())) if known else None

    def add(self, query: Query) -> None:
        found = query.as_one or lifted(query.plan)
        if found.conditions:
            kind = self._kinds[query.name] = plan_identity(found.general)
            self._marks[query.name] = mark(found)
            kinds = self._alone if query.as_one is None else self._as_one
            kinds.setdefault(kind, {})[query.name] = query

    def alone(self, query: Query) -> list[Query]:
        """If a query is the first of its kind to run as one: those that run by themselves."""
        kind = self._kinds.get(query.name)
        if kind is None or query.as_one is None or len(self._as_one[kind]) > 1:
            return []
        return list(self._alone.get(kind, {}).values())

    def remove(self, query: Query) -> bool:
        """Forget a query; whether what ran for it still runs for others that are alike."""
        kind = self._kinds.pop(query.name, None)
        if kind is None:
            return False
        kinds = self._alone if query.as_one is None else self._as_one
        del kinds[kind][query.name]
        return query.as_one is not None and bool(kinds[kind])
