"""The logical algebra: one frozen dataclass per operator (SPEC sections 3, 4 and 6).

Columns are addressed by position: a scalar expression is a sqlglot expression whose columns are
named `c0`, `c1`, … after the positions of the operator's input (a join's right columns follow its
left ones; see `expressions`). Names live in schemas only, so two plans that compute the same are equal as
values, and sharing is a dictionary look-up. What an operator means is in `reference`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

from sqlglot import exp

from tidegate.algebra.windows import WindowSpec
from tidegate.scalars.expressions import index_of
from tidegate.types import BOOLEAN, Field, Schema, Type

JOIN_KINDS = ("inner", "left", "right", "full", "semi", "anti")


@dataclass(frozen=True)
class Node:
    """An operator. `inputs` are its input operators, `schema` the columns of its result."""

    @property
    def inputs(self) -> tuple[Node, ...]:
        return tuple(v for f in fields(self) if isinstance(v := getattr(self, f.name), Node))

    @cached_property
    def schema(self) -> Schema:
        raise AssertionError(f"{type(self).__name__} has no schema")

    def with_inputs(self, *inputs: Node) -> Any:
        """The same operator above other inputs."""
        names = [f.name for f in fields(self) if isinstance(getattr(self, f.name), Node)]
        assert len(names) == len(inputs), (names, inputs)
        return replace(self, **dict(zip(names, inputs, strict=True)))

    @property
    def held_expressions(self) -> tuple[exp.Expression, ...]:
        """The scalar expressions of this operator itself."""
        found: list[exp.Expression] = []
        for f in fields(self):
            value = getattr(self, f.name)
            found += [e for e in (value if isinstance(value, tuple) else (value,)) if _is_scalar(e)]
        return tuple(found)

    def map_expressions(self, change: Callable[[exp.Expression], exp.Expression]) -> Any:
        """The same operator with each of its scalar expressions replaced."""
        changed: dict[str, Any] = {}
        for f in fields(self):
            value = getattr(self, f.name)
            if _is_scalar(value):
                changed[f.name] = change(value)
            elif isinstance(value, tuple) and any(map(_is_scalar, value)):
                changed[f.name] = tuple(change(e) if _is_scalar(e) else e for e in value)
        return replace(self, **changed) if changed else self

    def walk(self) -> Iterator[Node]:
        """Every operator of the plan once, inputs first, however often it is used."""
        seen: set[int] = set()
        todo: list[tuple[Node, bool]] = [(self, False)]
        while todo:
            node, entered = todo.pop()
            if entered:
                yield node
            elif id(node) not in seen:
                seen.add(id(node))
                todo.append((node, True))
                todo += [(i, False) for i in reversed(node.inputs)]

    @cached_property
    def _hash(self) -> int:
        return hash((type(self), tuple(getattr(self, f.name) for f in fields(self) if f.compare)))

    def __hash__(self) -> int:
        return self._hash

    def __getstate__(self) -> dict[str, Any]:
        """Without what was computed on the way: a hash means nothing in another process."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


def _is_scalar(value: object) -> bool:
    return isinstance(value, exp.Expression)


@dataclass(frozen=True)
class Scan(Node):
    """A leaf: a registered stream or table, by name.

    The ordering attribute is the last field, hidden: readable as TS, not part of `*`.
    `relation` says that its rows are valid from the beginning (a table) or carry their own
    validity; then there is no raw stream of instants beneath.
    """

    name: str
    fields: Schema
    relation: bool = False
    width: int = 1
    """How many ticks an instant has: more than one where streams have batches."""
    arrival: bool = False
    """Whether the field before the ordering attribute is hidden, too: a text that orders rows by time, then by arrival."""

    @cached_property
    def schema(self) -> Schema:
        return self.fields

    @property
    def leaf(self) -> str:
        """The name of what it reads: a plan may have both kinds of scans of one stream."""
        return f"{self.name} by arrival" if self.arrival else self.name

    __hash__ = Node.__hash__


@dataclass(frozen=True)
class OneRow(Node):
    """The relation of one row without columns, valid at every instant: FROM-less SELECT."""

    @cached_property
    def schema(self) -> Schema:
        return ()

    __hash__ = Node.__hash__


@dataclass(frozen=True)
class Window(Node):
    """What of the input is seen at an instant; with `partition_by`, on each sub-stream, united."""

    input: Node
    spec: WindowSpec
    partition_by: tuple[int, ...] = ()
    granularity: int = 1
    """The chronon of a derived input: it is split into instants that are multiples of this many ticks."""
    width: int = 1
    """Ticks of an instant: more than one where it has batches. Sizes and bounds in time are in instants."""
    told: bool = False
    """Whether rows that leave are told by rows of their own, although their ends are known: what is seen is the same."""

    @cached_property
    def schema(self) -> Schema:
        return self.input.schema

    __hash__ = Node.__hash__


@dataclass(frozen=True)
class Filter(Node):
    """The rows for which the predicate is true."""

    input: Node
    predicate: exp.Expression

    @cached_property
    def schema(self) -> Schema:
        return self.input.schema

    __hash__ = Node.__hash__


@dataclass(frozen=True)
class Project(Node):
    """Map: each row becomes the values of the expressions. `fields` names and types them."""

    input: Node
    expressions: tuple[exp.Expression, ...]
    fields: Schema

    @cached_property
    def schema(self) -> Schema:
        return self.fields

    @property
    def only_names(self) -> bool:
        """Whether every row stays what it is, and only the names of columns change."""
        same = [f.type for f in self.fields] == [f.type for f in self.input.schema]
        return same and [index_of(e) for e in self.expressions] == [*range(len(self.expressions))]

    __hash__ = Node.__hash__


@dataclass(frozen=True)
class UnionAll(Node):
    """Multiplicities add."""

    left: Node
    right: Node

    @cached_property
    def schema(self) -> Schema:
        return _either(self.left.schema, self.right.schema)

    __hash__ = Node.__hash__


@dataclass(frozen=True)
class Join(Node):
    """Pairs of rows valid at the same instant that satisfy the predicate (None: all pairs).

    `kind` is inner, left, right or full (outer), semi or anti (these keep left columns only).
    The predicate sees left columns first, then right ones, for every kind. `spread` changes nothing of what it means: rows of that side (0: left)
    meet copies of the other's instead of equal keys, because few keys have most of them.
    """

    left: Node
    right: Node
    kind: str = "inner"
    predicate: exp.Expression | None = None
    spread: int | None = None

    def __post_init__(self) -> None:
        assert self.kind in JOIN_KINDS, self.kind

    @cached_property
    def schema(self) -> Schema:
        if self.kind in ("semi", "anti"):
            return self.left.schema
        left = _nullable(self.left.schema) if self.kind in ("right", "full") else self.left.schema
        right = _nullable(self.right.schema) if self.kind in ("left", "full") else self.right.schema
        return left + right

    @cached_property
    def pair_schema(self) -> Schema:
        """What the predicate sees."""
        return self.left.schema + self.right.schema

    __hash__ = Node.__hash__


@dataclass(frozen=True)
class Distinct(Node):
    """Each row once."""

    input: Node

    @cached_property
    def schema(self) -> Schema:
        return self.input.schema

    __hash__ = Node.__hash__


@dataclass(frozen=True)
class Except(Node):
    """`all`: max(0, n - m); otherwise the distinct left rows that are not among the right ones."""

    left: Node
    right: Node
    all: bool = False

    @cached_property
    def schema(self) -> Schema:
        return self.left.schema

    __hash__ = Node.__hash__


@dataclass(frozen=True)
class Intersect(Node):
    """`all`: min(n, m); otherwise the distinct rows that are on both sides."""

    left: Node
    right: Node
    all: bool = False

    @cached_property
    def schema(self) -> Schema:
        return _either(self.left.schema, self.right.schema)

    __hash__ = Node.__hash__


AGGREGATES = (
    "COUNT", "SUM", "MIN", "MAX", "AVG", "VAR_SAMP", "VAR_POP", "STDDEV_SAMP", "STDDEV_POP",
    "QUANTILE", "TOP_K", "ARG_MIN", "ARG_MAX", "COLLECT", "HISTOGRAM", "COVAR_POP", "COVAR_SAMP", "CORR",
)  # fmt: skip
"""Built-in aggregates. The SQL names MEDIAN, FIRST and LAST are QUANTILE 0.5, and ARG_MIN / ARG_MAX by arrival."""


@dataclass(frozen=True)
class Aggregation:
    """One aggregate of an `Aggregate`: positions of its arguments in the input.

    COUNT without arguments counts rows; with several it counts rows where none is NULL. Rows with a
    NULL argument are ignored by every built-in aggregate (by ARG_MIN(value, by) and ARG_MAX only where `by` is NULL;
    ties take the least value, NULL last). `where` is the position of a boolean column: other rows do not
    count (FILTER). `parameter` is QUANTILE's fraction, TOP_K's k, or -1 where COLLECT goes down. A user-defined one carries its function's name.
    """

    function: str
    arguments: tuple[int, ...]
    type: Type
    name: str
    distinct: bool = False
    where: int | None = None
    parameter: float | int | None = None
    nullable: bool = True
    span: tuple[int, int] | None = field(default=None, compare=False, repr=False)
    """Where the call stands in the query's text, for errors."""


@dataclass(frozen=True)
class Aggregate(Node):
    """Grouping with aggregation; without keys the whole input is one group. An empty group has no row.

    The result's columns are the keys, then the aggregates.
    """

    input: Node
    keys: tuple[int, ...]
    aggregations: tuple[Aggregation, ...]

    @cached_property
    def schema(self) -> Schema:
        keys = tuple(self.input.schema[k] for k in self.keys)
        return keys + tuple(Field(a.name, a.type, a.nullable) for a in self.aggregations)

    __hash__ = Node.__hash__


@dataclass(frozen=True)
class SortKey:
    """One ORDER BY key: a position."""

    column: int
    descending: bool = False
    nulls_first: bool = True


@dataclass(frozen=True)
class TopK(Node):
    """The first `limit` rows after `offset`, of each partition, by the keys; ties by all columns in order.

    A tie on all keys is broken by all columns ascending, NULLs first. A row's multiplicity counts.
    """

    input: Node
    keys: tuple[SortKey, ...]
    limit: int
    offset: int = 0
    partition_by: tuple[int, ...] = ()

    @cached_property
    def schema(self) -> Schema:
        return self.input.schema

    __hash__ = Node.__hash__


@dataclass(frozen=True)
class SingleRow(Node):
    """The input, of which at most one row per value of `partition_by` may be valid at an instant: a scalar sub-query.

    More than one is an error of the query, reported at `position` (start, end in its text).
    """

    input: Node
    partition_by: tuple[int, ...] = ()
    position: tuple[int, int] = field(default=(0, 0), compare=False)

    @cached_property
    def schema(self) -> Schema:
        return self.input.schema

    __hash__ = Node.__hash__


@dataclass(frozen=True)
class Istream(Node):
    """The insertions of the input, as instants: at t, what is valid at t and was not at the instant before."""

    input: Node

    @cached_property
    def schema(self) -> Schema:
        return self.input.schema

    __hash__ = Node.__hash__


@dataclass(frozen=True)
class Dstream(Node):
    """The deletions of the input, as instants: at t, what was valid at the instant before t and is not at t."""

    input: Node

    @cached_property
    def schema(self) -> Schema:
        return self.input.schema

    __hash__ = Node.__hash__


@dataclass(frozen=True)
class Rstream(Node):
    """The input's whole snapshot at the points `k * period`, as instants; nothing in between."""

    input: Node
    period: int

    @cached_property
    def schema(self) -> Schema:
        return self.input.schema

    __hash__ = Node.__hash__


def _nullable(schema: Schema) -> Schema:
    return tuple(replace(f, nullable=True) for f in schema)


def _either(left: Schema, right: Schema) -> Schema:
    return tuple(replace(a, nullable=a.nullable or b.nullable) for a, b in zip(left, right, strict=True))


def boolean_field(name: str, nullable: bool) -> Field:
    return Field(name, BOOLEAN, nullable)
