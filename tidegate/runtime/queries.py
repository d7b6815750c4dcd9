"""The queries of a graph: what is known of one that runs, and what one brings along."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tidegate.algebra.failures import user_calls
from tidegate.algebra.modify import Sync
from tidegate.algebra.operators import Node
from tidegate.algebra.properties import properties
from tidegate.connectors.sinks import Sink
from tidegate.errors import Diagnostic
from tidegate.language.catalog import StreamDefinition
from tidegate.optimizer.lifting import Lifted
from tidegate.physical.plan import Plan
from tidegate.runtime.jobs import source_names
from tidegate.runtime.ledger import KnownQuery
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

    @property
    def runs(self) -> Node:
        """The plan that is computed for it."""
        return self.computed or self.plan

    @property
    def kept_plans(self) -> tuple[Node, ...]:
        """The plans that a restart must know to plan the same."""
        return (*self.views, self.plan) if self.known.plan else self.views

    @property
    def since(self) -> int:
        return self.known.since

    @property
    def schema(self) -> Schema:
        return self.plan.schema

    @cached_property
    def sources(self) -> frozenset[str]:
        """The streams and tables that it reads."""
        return frozenset(source_names({self.name: self.plan}))

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
    called = {n for q in running for n, _ in user_calls(q.plan, joining.functions)}
    for name in sorted(called & set(functions)):
        if code_identity(functions[name]) != code_identity(joining.functions[name]):
            raise Diagnostic(
                "FUNCTION_CHANGED",
                f"'{name}' is not the function that running queries call by this name",
                help="stop them first, or give the new function a name of its own",
            )
    return {**definitions, **joining.definitions}, {**functions, **joining.functions}
