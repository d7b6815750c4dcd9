"""What names mean: streams, tables, views and functions known to a session.

The catalog is a value: registering returns a new one, so a failing statement leaves nothing half-registered.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from time import time_ns
from typing import Any, Literal, cast

from sqlglot import exp

from tidegate.algebra.operators import Scan
from tidegate.algebra.quality import Knob
from tidegate.errors import Diagnostic
from tidegate.language.signatures import Connector
from tidegate.language.sync_syntax import ModifyOver
from tidegate.policy import OPEN, Policy
from tidegate.redaction import learn, masked
from tidegate.scalars.functions import AggregateFunction, ScalarFunction
from tidegate.time import BATCHES, UNITS
from tidegate.types import BIGINT, STRING, TIMESTAMP, Field, Schema, Type

ARRIVAL = "arrival_time"
"""The ordering attribute of a stream without ORDERED BY: assigned once, on entry, and recorded."""
ORDER = Field("(order of arrival)", STRING, nullable=False, hidden=True)

DAY = UNITS["DAY"]
"""How far past the clock the times of live rows may be, unless `ahead` says otherwise."""


@dataclass(frozen=True)
class SourceCall:
    """Where rows come from or go to: `function(argument, …) WITH (option = value, …)`.

    `memory` stands for rows that the program gave itself; its only argument is their name in the session. `connector` is what
    the name stood for when the call was read, so that a name that a session adds means the same wherever the call is used.
    """

    function: str
    arguments: tuple[Any, ...] = ()
    options: tuple[tuple[str, str], ...] = ()
    connector: Connector | None = field(default=None, compare=False, repr=False)
    policy: Policy = field(default=OPEN, compare=False, repr=False)
    """What the call may reach while it is used: files come, and links among them."""

    def __post_init__(self) -> None:
        for name, value in (*(("", a) for a in self.arguments), *self.options):
            learn(name, value)

    def __repr__(self) -> str:
        given = [*map(repr, self.arguments), *(f"{name} = {value!r}" for name, value in self.options)]
        return masked(f"SourceCall({self.function}({', '.join(given)}))")

    @property
    def option(self) -> dict[str, str]:
        return dict(self.options)


@dataclass(frozen=True)
class StreamDefinition:
    """A base stream or table.

    `columns` are all declared columns as the source delivers them. A stream has `ordered_by` (one of them, TIMESTAMP
    or an integer) or, with `valid`, two columns for ts and te. A table has neither: its rows are valid from the beginning.
    `slack` (ticks) bounds the disorder, `idle` (microseconds of wall time without rows) moves the watermark of a
    silent source. `ahead` (microseconds) bounds how far past the clock a time may be, `latest` (a tick) which one is the last that is
    used. Where `behind` is said, the source promises by the clock: no row before so many microseconds ago will come. `beats` is the column that
    marks heartbeats (rows that only have a time), or "" where rows without values are heartbeats. A source that `stops` fails at the first row that it may not use. `entered` (microseconds since 1970) is when the definition was made: recorded rows without a time of their own get
    theirs from then on, one after the other, so that every reading gives them the same. `batch` names the column that orders the rows of one instant into batches; `width` is how many ticks an
    instant has in the query that reads the stream.
    """

    name: str
    columns: Schema
    source: SourceCall
    ordered_by: str | None = None
    valid: tuple[str, str] | None = None
    table: bool = False
    slack: int = 0
    idle: int | None = None
    ahead: int | None = None
    latest: int | None = None
    behind: int | None = None
    beats: str | None = None
    stops: bool = False
    batch: str | None = None
    width: int = 1
    range: Knob | None = None
    """The window of those who read the stream without one, if the stream declares a range of sizes."""
    granularity: Knob | None = None
    """The granule of windows in time over the stream that give none."""
    unnamed: bool = False
    """Whether it stands for a file in FROM: nobody has named it, and no list shows it."""
    entered: int = field(default_factory=lambda: time_ns() // 1_000, compare=False, repr=False)

    @property
    def in_batches(self) -> StreamDefinition:
        """The same stream in a query whose instants are pairs: it ticks in batches, whether it has any or not."""
        if self.table or self.width != 1:
            return self
        return replace(self, width=BATCHES, slack=self.slack * BATCHES)

    @property
    def kind(self) -> str:
        return "TABLES" if self.table else "STREAMS"

    @property
    def is_system(self) -> bool:
        """Whether it is a table of ours, such as `tidegate.metrics`."""
        return self.unnamed and self.name.startswith("tidegate.")

    @property
    def time_type(self) -> Type | None:
        """TIMESTAMP or BIGINT ticks; None for a table, which joins with either."""
        if self.table:
            return None
        if self.valid is None and self.ordered_by is None:
            return TIMESTAMP
        name = self.ordered_by if self.ordered_by is not None else self.valid[0]  # type: ignore[index]
        found = next(c.type for c in self.columns if c.name == name)
        return TIMESTAMP if found in (TIMESTAMP, Type("TIMESTAMP_NTZ")) else BIGINT

    @property
    def time_column(self) -> str | None:
        """The column that gives a row its time: the ordering attribute, or the start of its validity."""
        if self.table:
            return None
        return self.ordered_by or (self.valid[0] if self.valid else ARRIVAL)

    @property
    def stamped(self) -> bool:
        """Whether rows get their time on arrival."""
        return self.time_column == ARRIVAL

    @property
    def by_clock(self) -> int | None:
        """How many microseconds behind the clock the stream's promise is; None: it promises by its rows."""
        return 0 if self.behind is None and self.stamped else self.behind

    def last_tick(self, clock: int, live: bool) -> int | None:
        """The last tick of a row that may be used at a time of the clock (microseconds); None: any.

        Recorded rows may have been made up, so they are compared with the clock only where that is asked for.
        """
        clocked = self.time_type == TIMESTAMP and not self.stamped
        ahead = DAY if self.ahead is None and live else self.ahead
        bounds = [self.latest] if self.latest is not None else []
        bounds += [clock + ahead] if clocked and ahead is not None else []
        return min(bounds) * self.width + self.width - 1 if bounds else None

    @property
    def payload(self) -> Schema:
        """The columns of `*`: all but those that say when."""
        when = {self.ordered_by, *(self.valid or ())}
        return tuple(c for c in self.columns if c.name not in when)

    @property
    def scan(self) -> Scan:
        """The leaf of a plan: the payload, then (hidden) the ordering attribute, readable as TS."""
        fields = self.payload
        if self.time_column is not None and self.time_type is not None:
            declared = {c.name: c.type for c in self.columns}
            when = declared.get(self.time_column, self.time_type)
            fields += (Field(self.time_column, when, nullable=False, hidden=True),)
        return Scan(self.name, fields, relation=self.table or self.valid is not None)

    @property
    def scan_by_arrival(self) -> Scan:
        """The leaf for queries that ask which row came first: see `Scan.arrival`."""
        if self.table:
            return self.scan
        *payload, when = self.scan.fields
        return replace(self.scan, fields=(*payload, ORDER, when), arrival=True)


@dataclass(frozen=True)
class ViewDefinition:
    """A derived stream or view: its query is bound where it is used."""

    name: str
    query: exp.Expression
    text: str
    columns: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """Where SHOW lists it: a stream over a source is one of the streams."""
        return "STREAMS" if isinstance(self.query, ModifyOver) else "VIEWS"


Definition = StreamDefinition | ViewDefinition


@dataclass(frozen=True)
class Catalog:
    """All names of a session, looked up without regard to case; those of sources and sinks are in lower case."""

    definitions: Mapping[str, Definition] = field(default_factory=dict)
    functions: Mapping[str, ScalarFunction] = field(default_factory=dict)
    aggregates: Mapping[str, AggregateFunction] = field(default_factory=dict)
    sources: Mapping[str, Connector] = field(default_factory=dict)
    sinks: Mapping[str, Connector] = field(default_factory=dict)
    policy: Policy = OPEN
    """What statements may reach."""

    def find(self, name: str) -> Definition | None:
        return self.definitions.get(name.lower())

    def with_definition(self, definition: Definition, or_replace: bool = False) -> Catalog:
        if not or_replace and definition.name.lower() in self.definitions:
            raise Diagnostic(
                "NAME_EXISTS",
                f"'{definition.name}' exists already",
                help="choose another name, DROP it first, or say CREATE OR REPLACE",
            )
        return replace(self, definitions={**self.definitions, definition.name.lower(): definition})

    def without(self, name: str) -> Catalog:
        rest = {k: v for k, v in self.definitions.items() if k != name.lower()}
        return replace(self, definitions=rest)

    def with_function(self, function: ScalarFunction | AggregateFunction) -> Catalog:
        key = function.name.lower()
        if isinstance(function, ScalarFunction):
            return replace(self, functions={**self.functions, key: function})
        return replace(self, aggregates={**self.aggregates, key: function})

    def with_connector(self, what: Literal["source", "sink"], connector: Connector) -> Catalog:
        """A source or sink under the name of its signature, whatever had that name before."""
        own = {connector.signature.name.lower(): connector}
        policy = self.policy.with_connector(what, connector.signature.name)
        if what == "source":
            return replace(self, sources=ChainMap(own, cast(Any, self.sources)), policy=policy)
        return replace(self, sinks=ChainMap(own, cast(Any, self.sinks)), policy=policy)

    @property
    def named(self) -> list[Definition]:
        """The definitions that somebody made."""
        return [d for d in self.definitions.values() if isinstance(d, ViewDefinition) or not d.unnamed]

    @property
    def names(self) -> list[str]:
        return [d.name for d in self.named]
