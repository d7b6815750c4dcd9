"""Modify streams and synchronization as operators (SPEC section 5): Modify, Clock, Sync, Restrict.

A modify stream is a sequence of insert, update and delete operations against a relation. Everything above `Modify`
works on that relation; `Sync` decides at which instants its modifications are seen, `Restrict` clips validity by
conditions on the current instant.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING

from sqlglot import exp

from tidegate.algebra.operators import Node
from tidegate.errors import Diagnostic
from tidegate.types import BIGINT, TIMESTAMP, Field, Row, Schema, Type, Value

if TYPE_CHECKING:
    from tidegate.algebra.points import Classes

TIMEPOINT = "Timepoint"
"""The only column of a clock."""


class Operation(Enum):
    """What a row of a modify stream does to the row of its key."""

    INSERT = "insert"
    UPSERT = "upsert"
    DELETE = "delete"


_WORDS = {
    Operation.INSERT: ("insert", "i", "c", "create", "+i", "+"),
    Operation.UPSERT: ("update", "u", "r", "read", "upsert", "+u", "update_after"),
    Operation.DELETE: ("delete", "d", "-d", "-", "-u", "update_before"),
}
CODES: dict[str, Operation] = {word: operation for operation, words in _WORDS.items() for word in words}
"""Words of operation columns, in lower case.

`r` is a row read by a snapshot of the source table, which may be repeated, so it may meet a known key. `-u` retracts the
old row; a `+u` follows and puts the new one in its place.
"""


def operation_of(word: Value) -> Operation | None:
    """The operation a word stands for; None if it is not known.

    >>> operation_of("c"), operation_of("-D").value, operation_of("t")
    (<Operation.INSERT: 'insert'>, 'delete', None)
    """
    return CODES.get(word.strip().lower()) if isinstance(word, str) else None


@dataclass(frozen=True)
class Modify(Node):
    """The relation of a modify stream: of each key the row that modified it last, until it is updated or deleted.

    `snapshot(modify(S), t)` = the rows left by applying all rows of S with a time up to t, in order of time and arrival.
    `key` None: every row inserts. `operation` is the position of a column with operation words; in the relation it
    can be named but is no part of `*`. An insert of a known key, a delete of an unknown one and an unknown word change nothing; they are anomalies. State:
    the current row of each key.
    """

    input: Node
    key: tuple[int, ...] | None
    operation: int | None = None

    def __post_init__(self) -> None:
        assert self.operation is None or self.key is not None, "operations need a key"
        assert self.key is None or (self.key and self.operation not in self.key), self.key

    @cached_property
    def schema(self) -> Schema:
        return tuple(
            replace(f, hidden=True) if i == self.operation else f for i, f in enumerate(self.input.schema)
        )

    __hash__ = Node.__hash__


@dataclass(frozen=True)
class Anomaly:
    """A row of a modify stream that contradicts those before it; it changed nothing."""

    reason: str
    row: Row
    instant: int


UNKNOWN_KEY = "delete of an unknown key"
KNOWN_KEY = "insert of a known key"
UNKNOWN_OPERATION = "unknown operation"


def replay(
    node: Modify, rows: Iterable[tuple[Row, int]]
) -> Iterator[tuple[Row, int, dict[Row, Row], Anomaly | None]]:
    """The modifications one by one: each row, its time, the relation by key after it, and what was wrong with it.

    >>> from tidegate.algebra.operators import Scan
    >>> from tidegate.types import STRING
    >>> node = Modify(Scan("S", (Field("k", STRING), Field("o", STRING))), (0,), 1)
    >>> [a.reason for _, _, _, a in replay(node, [(("x", "d"), 1), (("x", "c"), 2), (("x", "c"), 3)]) if a]
    ['delete of an unknown key', 'insert of a known key']
    """
    assert node.key is not None
    current: dict[Row, Row] = {}
    for row, t in rows:
        key = tuple(row[i] for i in node.key)
        operation = Operation.UPSERT if node.operation is None else operation_of(row[node.operation])
        anomaly = None
        if operation is None:
            anomaly = Anomaly(UNKNOWN_OPERATION, row, t)
        elif operation is Operation.DELETE:
            if key in current:
                del current[key]
            else:
                anomaly = Anomaly(UNKNOWN_KEY, row, t)
        elif operation is Operation.INSERT and key in current:
            anomaly = Anomaly(KNOWN_KEY, row, t)
        else:
            current[key] = row
        yield row, t, current, anomaly


@dataclass(frozen=True)
class Clock(Node):
    """The instants that are multiples of `step` ticks, each as a row of its own time, valid at it only.

    `snapshot(clock, t) = {t}` where step divides t, otherwise nothing. `width` is how many ticks an instant has in the query
    that is synchronized: a clock does not tell the batches of an instant apart.
    """

    step: int = 1
    timestamps: bool = False
    width: int = 1

    @cached_property
    def schema(self) -> Schema:
        return (Field(TIMEPOINT, TIMESTAMP if self.timestamps else BIGINT, nullable=False),)

    __hash__ = Node.__hash__


@dataclass(frozen=True)
class Sync(Node):
    """The input as of the latest point: its modifications are seen at the points only.

    `snapshot(sync(S, P), t) = snapshot(S, p)` with p the latest point of P up to t; nothing before the first. An instant
    p is a point of P iff P's snapshot at p has a row whose first visible column is p. State: the modifications that no
    point has reached yet.
    """

    input: Node
    points: Node

    def __post_init__(self) -> None:
        point_column(self.points)

    @cached_property
    def schema(self) -> Schema:
        return self.input.schema

    __hash__ = Node.__hash__


def width_of(points: Node) -> int:
    """How many ticks of the synchronized query an instant of the points is wide."""
    return max((node.width for node in points.walk() if isinstance(node, Clock)), default=1)


def point_column(points: Node) -> int:
    """The position of the column that says when: the only visible one."""
    visible = [i for i, f in enumerate(points.schema) if not f.hidden]
    if len(visible) != 1 or not is_time(points.schema[visible[0]].type):
        raise Diagnostic(
            "SYNC_POINTS",
            "a stream of points has one column, the time",
            help="as in SELECT Timepoint FROM CLOCK WHERE Timepoint % 2 = 0, or SELECT TS FROM S WHERE …",
        )
    return visible[0]


def is_time(type_: Type) -> bool:
    return type_.is_integral or type_ in (TIMESTAMP, Type("TIMESTAMP_NTZ"))


@dataclass(frozen=True)
class Restrict(Node):
    """The rows for which a condition on the current instant holds; the last position of the predicate stands for NOW.

    `snapshot(restrict(S), t) = {e in snapshot(S, t) | p(e, t)}`. Each conjunct compares NOW with an expression of the
    row, so a row stays valid in one interval. State: rows whose interval begins later.
    """

    input: Node
    predicate: exp.Expression
    timestamps: bool = False
    width: int = 1
    """Ticks of an instant: NOW is the instant, whatever its batch."""
    points: Classes = ()
    """If any: NOW is the latest of these points, and nothing holds before the first."""

    @cached_property
    def schema(self) -> Schema:
        return self.input.schema

    @cached_property
    def now(self) -> Field:
        return Field("NOW", TIMESTAMP if self.timestamps else BIGINT, nullable=False)

    @cached_property
    def predicate_schema(self) -> Schema:
        """What the predicate sees."""
        return (*self.input.schema, self.now)

    __hash__ = Node.__hash__


@dataclass(frozen=True)
class Since(Node):
    """Each row with the instant of the modification that brought it, as a last, hidden column TS: NULL if it was always there.

    An update that changes nothing is none. Of several equal rows the one that came first leaves first. State: the rows in force with
    their instants.
    """

    input: Node
    timestamps: bool = False
    width: int = 1
    """Ticks of an instant: TS is the instant, whatever its batch."""

    @cached_property
    def schema(self) -> Schema:
        return (*self.input.schema, Field("TS", TIMESTAMP if self.timestamps else BIGINT, hidden=True))

    __hash__ = Node.__hash__
