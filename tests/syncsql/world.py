"""A script, rows for its sources, and queries asked of the reference and of the kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.changes import Change, tagged
from tests.kernels.conftest import Toolbox
from tidegate.algebra.properties import result_key
from tidegate.connectors import registry
from tidegate.language.binder import BoundQuery, bind
from tidegate.language.catalog import StreamDefinition
from tidegate.language.dialect import parse
from tidegate.language.statements import define
from tidegate.language.syntax import CreateBase, CreateView
from tidegate.reference.snapshots import Arrivals, Reference, Source, Validity
from tidegate.time import MAX, MIN
from tidegate.types import Row

TOOLS = Toolbox()
EPOCHS = ([MAX], [*range(-1, 30), MAX], [3, 4, 9, MAX])
"""All at once, one instant per epoch, odd boundaries."""


class World:
    """The definitions of a script; rows are tuples of the declared columns, in order of arrival."""

    def __init__(self, script: str, rows: Mapping[str, Sequence[Row]]) -> None:
        self.catalog = registry.catalog()
        for statement in parse(script):
            if isinstance(statement, (CreateBase, CreateView)):
                self.catalog = define(statement, self.catalog, script)
        self.sources: dict[str, Source] = {}
        self.frames = {}
        for name, given in rows.items():
            definition = self.catalog.find(name)
            assert isinstance(definition, StreamDefinition)
            names = [c.name for c in definition.columns]
            scan = definition.scan
            order = [names.index(f.name) for f in scan.schema]
            payload = [tuple(row[i] for i in order) for row in given]
            if definition.table:
                lasting = [(e, MIN, MAX, 1) for e in payload]
                self.sources[name] = Validity(lasting)
                self.frames[name] = TOOLS.frame(lasting, scan.schema)
            else:
                arrivals = [(e, e[-1]) for e in payload]
                self.sources[name] = Arrivals(arrivals)
                self.frames[name] = TOOLS.raw(arrivals, scan.schema)

    @property
    def reference(self) -> Reference:
        return Reference(self.sources)

    def bound(self, query: str) -> BoundQuery:
        (statement,) = parse(query)
        return bind(statement, self.catalog, query)

    def expected(self, query: str) -> list[Change]:
        """The tagged stream of a query, by the reference."""
        plan = self.bound(query).plan
        return tagged(self.reference.intervals(plan), result_key(plan))

    def streamed(self, query: str) -> list[str]:
        """The tagged stream of a query, on which the reference and the kernels agree in any epochs."""
        plan = self.bound(query).plan
        texts = [str(c) for c in self.expected(query)]
        for boundaries in EPOCHS:
            for restoring in (False, True):
                rows = TOOLS.play(plan, self.frames, boundaries, restoring)
                assert [str(c) for c in tagged(rows, result_key(plan))] == texts, boundaries
        return texts

    def at(self, query: str, t: int) -> list[Row]:
        """The snapshot by the reference, in order."""
        return sorted(self.reference.snapshot(self.bound(query).plan, t).elements(), key=repr)
