"""The queries of a graph: what is known of one that runs, and what one brings along."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tidegate.algebra.failures import user_calls
from tidegate.algebra.modify import Sync
from tidegate.algebra.operators import Node
from tidegate.algebra.properties import properties
from tidegate.connectors.sinks import Sink
from tidegate.errors import Diagnostic, did_you_mean
from tidegate.language.catalog import StreamDefinition
from tidegate.optimizer.cost import Costs
from tidegate.optimizer.lifting import Lifted
from tidegate.physical.plan import Plan, united
from tidegate.runtime.jobs import source_names
from tidegate.runtime.ledger import KnownQuery, Manifest
from tidegate.scalars.functions import code_identity
from tidegate.types import Schema


@dataclass(frozen=True)
class Query:
    """A query of the graph; `since` is the instant from which its answer holds."""

    name: str
    plan: Node
    physical: Plan
    known: KnownQuery
    sinks: tuple[Sink, ...] = ()
    key: tuple[int, ...] | None = None
    """Of a STREAMED query, the columns that tell its rows apart."""
    history: bool = False
    """Whether its first epoch is to read again what came before."""
    views: tuple[Node, ...] = ()
    """The parts of the plan that ran for others when it began."""
    as_one: Lifted | None = None
    """What runs for it and for all that are alike."""
    computed: Node | None = None
    """The plan that is computed for it; None: its own."""
    leaving: tuple[Query, ...] = ()
    """The query as it was planned before: they go on to answer it up to an instant (`runtime.migration`)."""

    @property
    def runs(self) -> Node:
        """The plan that is computed for it."""
        return self.computed or self.plan

    @property
    def kept_plans(self) -> tuple[Node, ...]:
        """The plans that a restart must know to plan the same."""
        own = (*self.views, self.plan) if self.known.plan else self.views
        return (*own, *(plan for box in self.leaving for plan in box.kept_plans))

    @cached_property
    def whole(self) -> Plan:
        """What is computed for it, by the plans that leave included."""
        if not self.leaving:
            return self.physical
        return united([*(box.physical for box in self.leaving), self.physical])

    @property
    def boxes(self) -> tuple[Query, ...]:
        """The query by each of the plans that run for it."""
        return (self, *self.leaving)

    @property
    def since(self) -> int:
        return self.known.first

    def has_run(self, before: Manifest) -> bool:
        """Whether the graph has gone on with this plan."""
        known = before.queries.get(self.name)
        return known is not None and (known.owner, known.answer) == (self.known.owner, self.known.answer)

    @property
    def schema(self) -> Schema:
        return self.plan.schema

    @cached_property
    def sources(self) -> frozenset[str]:
        """The streams and tables that it reads, for plans that leave included."""
        return frozenset(n for box in self.boxes for n in source_names({box.name: box.plan}))

    @cached_property
    def synchronized(self) -> bool:
        return any(isinstance(node, Sync) for node in self.plan.walk())

    @cached_property
    def instants(self) -> bool:
        return properties(self.plan).chronon


@dataclass(frozen=True)
class Joining:
    """What a query brings along when it joins a graph."""

    definitions: Mapping[str, StreamDefinition] = field(default_factory=dict)
    functions: Mapping[str, Any] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    """Rows of tables, and first rows of `memory` streams."""
    key: tuple[int, ...] | None = None
    """See `Query`."""
    history: bool = False
    """Whether what came before is to be read again."""
    admit: Callable[[Plan, Callable[[], Costs]], None] = lambda plan, costs: None
    """Refuses what there is no room for, by what its sources are found to be."""


def stream_named(definitions: Mapping[str, StreamDefinition], name: str) -> StreamDefinition:
    """The stream or table of a name, if a graph knows it."""
    if name not in definitions:
        raise Diagnostic(
            "UNKNOWN_STREAM",
            f"there is no stream '{name}'",
            help=did_you_mean(name, list(definitions), "streams"),
        )
    return definitions[name]


def unclaimed(names: Sequence[str]) -> Diagnostic:
    """Why no epoch can begin: without a query it would pass by rows that the query needs, and its state be worth nothing."""
    return Diagnostic(
        "UNCLAIMED_STATE",
        f"the state holds what was not started again: {', '.join(names[:5])}{' …' if len(names) > 5 else ''}",
        help=f"start it as before, or end it by DROP QUERY {names[0]}, or choose another state directory",
    )


def brought(
    joining: Joining,
    queries: Collection[Query],
    definitions: Mapping[str, StreamDefinition],
    functions: Mapping[str, Any],
) -> tuple[dict[str, StreamDefinition], dict[str, Any]]:
    """A graph's streams and functions with those of a query that joins; what running queries use stays what it is."""
    others = [n for n, d in joining.definitions.items() if definitions.get(n, d) != d]
    for name in others:
        if any(name in q.sources for q in queries):
            raise Diagnostic(
                "STREAM_CHANGED",
                f"'{name}' is not the stream that running queries read under this name",
                help="stop them first, or give the new stream a name of its own",
            )
    running = queries if joining.functions else ()
    called = {n for q in running for box in q.boxes for n, _ in user_calls(box.plan, joining.functions)}
    for name in sorted(called & set(functions)):
        if code_identity(functions[name]) != code_identity(joining.functions[name]):
            raise Diagnostic(
                "FUNCTION_CHANGED",
                f"'{name}' is not the function that running queries call by this name",
                help="stop them first, or give the new function a name of its own",
            )
    return {**definitions, **joining.definitions}, {**functions, **joining.functions}
