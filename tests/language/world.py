"""A session without an engine: statements change a catalog, queries are answered by the reference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tidegate.algebra import operators as op
from tidegate.connectors import registry
from tidegate.language import syntax
from tidegate.language.binder import BoundQuery, bind
from tidegate.language.catalog import Catalog
from tidegate.language.dialect import parse
from tidegate.language.statements import define
from tidegate.reference.snapshots import Arrivals, PhysicalRow, Reference, Source, Validity
from tidegate.scalars.functions import AggregateFunction, ScalarFunction
from tidegate.time import MAX, MIN
from tidegate.types import Row


@dataclass
class World:
    """Definitions and rows."""

    catalog: Catalog = field(default_factory=registry.catalog)
    sources: dict[str, Source] = field(default_factory=dict)

    def run(self, script: str) -> World:
        """Definitions, one after the other; a wrong one raises and leaves the catalog as it was before it."""
        for statement in parse(script):
            assert isinstance(statement, syntax.Statement), script
            self.catalog = define(statement, self.catalog, script)
        return self

    def function(self, function: ScalarFunction | AggregateFunction) -> World:
        self.catalog = self.catalog.with_function(function)
        return self

    def arrive(self, name: str, rows: Iterable[tuple[int, *Row]]) -> World:
        """Rows of a raw stream, each led by its time; the ordering attribute stands last in its payload."""
        self.sources[name] = Arrivals([((*e, t), t) for t, *e in rows])
        return self

    def last(self, name: str, rows: Iterable[PhysicalRow]) -> World:
        """Rows of a stream with VALID(…): the start of their validity stands last in its payload."""
        self.sources[name] = Validity([((*e, ts), ts, te, n) for e, ts, te, n in rows])
        return self

    def hold(self, name: str, rows: Iterable[Row]) -> World:
        """Rows of a table."""
        self.sources[name] = Validity([(tuple(e), MIN, MAX, 1) for e in rows])
        return self

    def bound(self, query: str) -> BoundQuery:
        return bind(parse(query)[0], self.catalog, query)

    def plan(self, query: str) -> op.Node:
        return self.bound(query).plan

    @property
    def reference(self) -> Reference:
        return Reference(self.sources, self.catalog.functions, self.catalog.aggregates)

    def at(self, query: str, t: int) -> Counter[Row]:
        """The snapshot of a query's visible columns at an instant."""
        plan = self.plan(query)
        return visible(plan, self.reference.snapshot(plan, t))

    def answers(self, query: str, instants: Iterable[int]) -> dict[int, list[Row]]:
        """Snapshots as lists in order, by instant; empty ones are left out."""
        plan = self.plan(query)
        reference = self.reference
        found = {t: listed(visible(plan, reference.snapshot(plan, t))) for t in instants}
        return {t: rows for t, rows in found.items() if rows}

    def intervals(self, query: str) -> list[PhysicalRow]:
        """The whole answer as rows with their validity."""
        return self.reference.intervals(self.plan(query))


def visible(plan: op.Node, bag: Mapping[Row, int]) -> Counter[Row]:
    keep = [i for i, f in enumerate(plan.schema) if not f.hidden]
    result: Counter[Row] = Counter()
    for e, n in bag.items():
        result[tuple(e[i] for i in keep)] += n
    return result


def listed(bag: Counter[Row]) -> list[Row]:
    """Every row as often as it is valid; NULLs first."""
    return sorted(bag.elements(), key=lambda e: [(v is not None, v) for v in e])
