"""Physical plans as data: operators, the exchanges that feed them, and the waves in which they run.

A query's plan is made by itself (`planning`), so what it needs does not depend on which other queries there are. Plans are
united by identity: what two of them compute alike is there once. Operators that hand rows to each other within a partition run in
the same wave; an exchange leads from one wave to a later one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from sqlglot import exp

from tidegate.algebra.operators import Scan
from tidegate.kernels.combining import Combine
from tidegate.kernels.endpoints import ExpireKernel
from tidegate.kernels.join import JoinKernel
from tidegate.kernels.rowwise import ColumnsKernel, FilterKernel, ProjectKernel, UnionKernel
from tidegate.physical.flow import Bound, Rows
from tidegate.physical.identity import Identity
from tidegate.physical.lowering import Leaf, Operator, Program
from tidegate.scalars.expressions import index_of
from tidegate.types import Schema

Key = tuple[exp.Expression, ...]
"""What is hashed for the exchange, over the columns of the rows that are exchanged."""


@dataclass(frozen=True)
class SourceRows:
    """Rows of a source, filtered, then mapped; expressions see the scan's columns.

    `scan` None stands for the one row without columns of `OneRow`.
    """

    scan: Scan | None
    predicates: tuple[exp.Expression, ...] = ()
    expressions: tuple[exp.Expression, ...] = ()
    combine: Combine | None = None
    """How rows may become one before they are exchanged."""

    @property
    def name(self) -> str | None:
        return None if self.scan is None else self.scan.name

    @property
    def by_arrival(self) -> bool:
        return self.scan is not None and self.scan.arrival


@dataclass(frozen=True)
class OperatorRows:
    """Rows that an operator emits, or that an exchange brought; with `expressions`, as Spark maps them on the way."""

    operator: Identity
    given: Schema = ()
    """The columns of the operator, where expressions read them."""
    expressions: tuple[exp.Expression, ...] | None = None


@dataclass(frozen=True)
class Birth:
    """The epoch after which operators began: what came before is not in their state.

    `by_wave`: equal operators of different waves are told apart. Otherwise they are one, and where that would let operators wait for
    themselves, a plan is made anew with this.
    """

    epoch: int = 0
    by_wave: bool = False
    whole: bool = False
    """What came before is read again in the first epoch, so that nothing is missing: for queries that asked for it, and no others."""


Shared = Mapping[Identity, Birth]
"""Content of inputs that a query shares with others -> when those began."""


@dataclass(frozen=True)
class Input:
    """Rows that arrive through an exchange: where they come from, and which partition they go to.

    `key` None: rows may go anywhere; `()`: all to one partition. A broadcast input goes to every partition.
    The key reads the columns of the source or operator that the rows come from; `own_key` is the same over `schema`.
    """

    id: Identity
    content: Identity
    """What it brings, whenever it began."""
    origin: SourceRows | OperatorRows
    schema: Schema
    key: Key | None
    own_key: Key | None
    broadcast: bool
    raw: bool
    """Rows are instants of a raw stream; otherwise they carry their validity."""
    ordered: bool
    """A row window above needs the order of arrival."""
    home: int
    """Where rows without a key go, modulo the number of partitions, whatever other queries there are."""
    birth: Birth
    rows: Rows
    needed: frozenset[int] = frozenset()
    """The columns that somebody reads."""

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The columns of the key, where it is made of plain columns."""
        found = [index_of(e) for e in self.own_key or ()]
        return () if None in found or self.broadcast else tuple(f"c{i}" for i in found)


@dataclass(frozen=True)
class Plan:
    """The operators of some queries; `answers` says which operator, or which input itself, answers each of them."""

    inputs: Mapping[Identity, Input] = field(default_factory=dict)
    operators: Mapping[Identity, Operator] = field(default_factory=dict)
    answers: Mapping[str, Identity] = field(default_factory=dict)

    @cached_property
    def waves(self) -> dict[Identity, int]:
        """The wave of every input and operator. A plan that would wait for itself has none: see `is_circular`."""
        found = _waves(self)
        assert found is not None
        return found

    @property
    def is_circular(self) -> bool:
        """Whether operators of one wave would have to wait for each other: what is shared closes a circle."""
        return _waves(self) is None

    @property
    def sources(self) -> set[str]:
        """The streams and tables that are read."""
        origins = (i.origin for i in self.inputs.values())
        return {o.name for o in origins if isinstance(o, SourceRows) and o.name is not None}

    @property
    def depth(self) -> int:
        return max(self.waves.values(), default=0)

    def program(self, wave: int) -> Program:
        """What runs in a wave; its outputs are what others read or what answers a query."""
        read = {i.origin.operator for i in self.inputs.values() if isinstance(i.origin, OperatorRows)}
        outputs = [i for i in dict.fromkeys([*self.answers.values(), *read]) if self.waves[i] == wave]
        return Program(
            tuple(
                Leaf(i.id, i.id, i.schema, i.ordered, i.rows, i.key_columns)
                for i in self.inputs.values()
                if self.waves[i.id] == wave
            ),
            tuple(o for o in self.operators.values() if self.waves[o.id] == wave),
            tuple(outputs),
        )


def united(plans: Iterable[Plan], kept: Mapping[Identity, Iterable[int]] | None = None) -> Plan:
    """Several plans as one: equal operators run once, and an input brings what any of its readers needs.

    What it has brought it goes on to bring (`kept`): a row is taken back with the columns with which it came.
    """
    kept = kept or {}
    inputs: dict[Identity, Input] = {}
    operators: dict[Identity, Operator] = {}
    answers: dict[str, Identity] = {}
    for plan in plans:
        for i in plan.inputs.values():
            known = inputs.get(i.id)
            brought = kept.get(i.id, ()) if known is None else known.needed
            inputs[i.id] = replace(i, needed=i.needed.union(brought))
        for o in plan.operators.values():
            operators.setdefault(o.id, o)
        answers |= plan.answers
    return Plan(inputs, operators, answers)


def disputed(plans: Iterable[Plan], whole: Plan) -> dict[Identity, tuple[int, ...]]:
    """The columns of those inputs of which some plan needs fewer than are brought."""
    every = (i for plan in plans for i in plan.inputs.values())
    fewer = {i.id for i in every if i.needed != whole.inputs[i.id].needed}
    return {id_: tuple(sorted(whole.inputs[id_].needed)) for id_ in sorted(fewer)}


def _waves(plan: Plan) -> dict[Identity, int] | None:
    """Operators connected within partitions share a wave, one later than those whose rows they wait for."""
    room = _rooms(plan.inputs, plan.operators.values())
    waits: dict[Identity, set[Identity]] = {}
    for i in plan.inputs.values():
        before = waits.setdefault(room[i.id], set())
        if isinstance(i.origin, OperatorRows):
            before.add(room[i.origin.operator])
    found: dict[Identity, int] = {}
    open_: set[Identity] = set()
    for start in waits:
        todo = [start]
        while todo:
            current = todo[-1]
            if current in found:
                todo.pop()
                continue
            missing = [r for r in waits.get(current, ()) if r not in found]
            if not missing:
                found[current] = 1 + max((found[r] for r in waits.get(current, ())), default=0)
                open_.discard(todo.pop())
            elif current in open_:
                return None
            else:
                open_.add(current)
                todo += missing
    return {id_: found.get(r, 1) for id_, r in room.items()}


def _rooms(inputs: Iterable[Identity], operators: Iterable[Operator]) -> dict[Identity, Identity]:
    """For each operator and input one that stands for all that it is connected with inside a partition."""
    leader: dict[Identity, Identity] = {i: i for i in inputs}

    def find(id_: Identity) -> Identity:
        while leader[id_] != id_:
            leader[id_] = leader[leader[id_]]
            id_ = leader[id_]
        return id_

    for operator in operators:
        leader.setdefault(operator.id, operator.id)
        for i in operator.inputs:
            leader[find(i)] = find(operator.id)
    return {id_: find(id_) for id_ in leader}


def users(plan: Plan) -> dict[Identity, list[str]]:
    """The queries that each input and operator works for."""
    found: dict[Identity, list[str]] = {}
    for name, answer in plan.answers.items():
        todo, seen = [answer], set[Identity]()
        while todo:
            if (id_ := todo.pop()) in seen:
                continue
            seen.add(id_)
            found.setdefault(id_, []).append(name)
            if id_ in plan.operators:
                todo += plan.operators[id_].inputs
            elif isinstance(origin := plan.inputs[id_].origin, OperatorRows):
                todo.append(origin.operator)
    return found


def unbounded_streams(plan: Plan) -> dict[str, str]:
    """The streams of which some state keeps rows without any bound, each with the operator that keeps them."""
    found: dict[str, str] = {}
    for operator in plan.operators.values():
        if operator.state == Bound.NOTHING:
            for name in _unbounded_below(plan, operator):
                found.setdefault(name, operator.part_of)
    return found


def _unbounded_below(plan: Plan, operator: Operator) -> Iterator[str]:
    """The sources of the rows without a bound that an operator keeps."""
    lasting = [i for i in operator.inputs if _rows(plan, i).bound == Bound.NOTHING]
    todo, seen = lasting or list(operator.inputs), set[Identity]()
    while todo:
        id_ = todo.pop()
        if id_ in seen:
            continue
        seen.add(id_)
        entry = plan.inputs.get(id_)
        if entry is None:
            below = plan.operators[id_]
            lasting = [i for i in below.inputs if _rows(plan, i).bound == Bound.NOTHING]
            # Where no input is without a bound, this operator is what lets rows stay: all of them.
            todo += lasting or below.inputs
        elif isinstance(entry.origin, OperatorRows):
            todo.append(entry.origin.operator)
        elif entry.origin.name is not None:
            yield entry.origin.name


def only_expire(plan: Plan) -> frozenset[Identity]:
    """Inputs and operators that take rows back only because something has left a window in time, never because another row came.

    Nile calls the former expired, the latter invalid. What is row by row, or pairs rows, passes on which of the two it is told.
    """
    found: dict[Identity, bool] = {}

    def look(id_: Identity) -> bool:
        if id_ not in found:
            entry, below, passes = plan.inputs.get(id_), tuple[Identity, ...](), True
            if entry is not None:
                below = (entry.origin.operator,) if isinstance(entry.origin, OperatorRows) else ()
            else:
                operator = plan.operators[id_]
                below, passes = operator.inputs, isinstance(operator.kernel, _PASSING)
                if isinstance(operator.kernel, ExpireKernel):
                    below, passes = (), True
            told = [i for i in below if _rows(plan, i).form == "changes"]
            takes_back = _rows(plan, id_).form == "changes"
            found[id_] = passes and takes_back and all(look(i) for i in told) and bool(told or not below)
        return found[id_]

    return frozenset(i for i in (*plan.inputs, *plan.operators) if look(i))


_PASSING = (FilterKernel, ProjectKernel, ColumnsKernel, UnionKernel, JoinKernel)


def _rows(plan: Plan, id_: Identity) -> Rows:
    return plan.inputs[id_].rows if id_ in plan.inputs else plan.operators[id_].rows
