"""Where the rows of a program's state belong: the key of an exchange, followed from the leaves through the kernels.

The rows of an exchange are in the partition that their key's hash tells. The key is a tuple of values; a leaf says by which
expressions over its columns they are computed. Here each operator learns which expressions over its own rows give the same
values, and each state table by which of them its rows can be told apart. State tables hold rows of an input (or
some columns of them) under the input's names, so what holds for the input holds for the table.

Where a value of the key is projected away, nobody can tell any more which partition a row came from. That does no harm as long
as all that follows is **linear**: it treats a row and its retraction alike wherever they are, so the row may be anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from tidegate.errors import internal
from tidegate.kernels.aggregates import AggregateKernel
from tidegate.kernels.coalescing import CoalesceKernel
from tidegate.kernels.endpoints import (
    AlignKernel,
    ExpireKernel,
    RangedWindowKernel,
    SplitKernel,
    TimeWindowKernel,
)
from tidegate.kernels.join import JoinKernel
from tidegate.kernels.modify import InsertsKernel, ModifyKernel
from tidegate.kernels.rowwise import (
    ColumnsKernel,
    FilterKernel,
    OneRowKernel,
    ProjectKernel,
    SubtractKernel,
    UnionKernel,
)
from tidegate.kernels.sequences import TimeSequenceKernel
from tidegate.kernels.streams import ChangesKernel, SinceKernel, SingleRowKernel
from tidegate.kernels.sweep import SweepKernel
from tidegate.kernels.sync import PointsKernel, RestrictKernel, SyncEventsKernel, SyncTicksKernel
from tidegate.kernels.topk import TopKKernel
from tidegate.kernels.windows import Counted
from tidegate.physical.lowering import Operator, Program
from tidegate.scalars.expressions import index_of, ref, references, shift
from tidegate.types import BIGINT, Field, Schema

Ways = frozenset[exp.Expression]
"""Expressions that give the same value."""


@dataclass(frozen=True)
class Everywhere:
    """The same rows are in every partition."""


@dataclass(frozen=True)
class Spread:
    """Each row is in one partition: that of its key, which can be computed by any way of each value; no way: it is lost."""

    schema: Schema
    ways: tuple[Ways, ...]


@dataclass(frozen=True)
class AtHome:
    """All rows are in one partition: that of this number, modulo how many there are."""

    home: int


Placed = Everywhere | Spread
Placement = Placed | AtHome


@dataclass(frozen=True)
class ByKey:
    """The rows of a table belong where these expressions over its columns hash to."""

    schema: Schema
    key: tuple[exp.Expression, ...]


@dataclass(frozen=True)
class Copied:
    """The table is the same in every partition."""


@dataclass(frozen=True)
class Free:
    """The rows of the table may be in any partition."""


@dataclass(frozen=True)
class Unknown:
    """Nobody can tell where the rows of the table belong."""


Rule = ByKey | Copied | Free | Unknown | AtHome


def by_key(schema: Schema, key: Sequence[exp.Expression]) -> Spread:
    """Rows exchanged by a key; one without values: rows that may be anywhere.

    >>> import sqlglot
    >>> by_key((), [sqlglot.parse_one("(c0 + 1)")]).ways[0] == {sqlglot.parse_one("c0 + 1")}
    True
    """
    return Spread(schema, tuple(frozenset({_bare(e)}) for e in key) or (frozenset(),))


def table_rules(program: Program, leaves: Mapping[str, Placement]) -> dict[str, dict[str, Rule]]:
    """By operator and table, where the table's rows belong; `leaves` says it of the rows that the program is fed, by name."""
    placed: dict[str, Placement] = {leaf.id: leaves[leaf.name] for leaf in program.leaves}
    linear = _linear_from(program)
    found: dict[str, dict[str, Rule]] = {}
    for operator in program.operators:
        inputs = [placed[i] for i in operator.inputs]
        placed[operator.id] = _output(operator, inputs)
        if operator.kernel.layout:
            columns = {name: t.rows.columns for name, t in operator.kernel.initial().items()}
            found[operator.id] = {
                name: _rule(_table(operator, name, inputs), columns[name], operator.id in linear)
                for name in operator.kernel.layout
            }
    return found


def waiting_rule(program: Program, name: str, placement: Placement) -> Rule:
    """Where rows belong that wait to be fed to a leaf."""
    leaf = next((leaf for leaf in program.leaves if leaf.name == name), None)
    if leaf is None:
        return Free()
    columns = [f"c{i}" for i in range(len(leaf.schema))]
    after = [o.id for o in program.operators if leaf.id in o.inputs]
    return _rule(placement, columns, set(after) <= _linear_from(program))


def _rule(placement: Placement, columns: Sequence[str], linear: bool) -> Rule:
    if isinstance(placement, Everywhere):
        return Copied()
    if isinstance(placement, AtHome):
        return placement
    key = []
    for ways in placement.ways:
        usable = [e for e in ways if all(f"c{i}" in columns for i in references(e))]
        if not usable:
            return Free() if linear else Unknown()
        # Any way will do; a column alone needs no evaluation.
        key.append(min(usable, key=lambda e: (index_of(e) is None, e.sql())))
    return ByKey(placement.schema, tuple(key))


# Tables.

_COMMON = ("clock", "emitted")
"""Tables about time alone: every partition has the same."""


def _table(operator: Operator, name: str, inputs: Sequence[Placement]) -> Placement:
    """What is known of a table's rows, as if it were a stream."""
    kernel = operator.kernel
    if name in _COMMON:
        return Everywhere()
    placed = [i for i in inputs if not isinstance(i, AtHome)]
    if len(placed) < len(inputs):
        return _home_of(inputs)
    if isinstance(kernel, JoinKernel):
        return placed[0 if name == "left" else 1]
    if isinstance(kernel, SweepKernel):
        return _both(kernel.schema, placed)
    if isinstance(kernel, SingleRowKernel):
        return _renamed(placed[0], tuple(kernel.schema[i] for i in kernel.partition_by), kernel.partition_by)
    return inputs[0]


# Outputs.


def _output(operator: Operator, inputs: Sequence[Placement]) -> Placement:
    placed = [i for i in inputs if not isinstance(i, AtHome)]
    if len(placed) < len(inputs):
        return _home_of(inputs)
    for kind, rule in _OUTPUTS:
        if isinstance(operator.kernel, kind):
            return rule(operator.kernel, placed)
    raise internal(f"nobody says where the rows of {type(operator.kernel).__name__} belong")


def _home_of(inputs: Sequence[Placement]) -> AtHome:
    """What is in one partition stays there; what it meets is there, or everywhere."""
    homes = {i for i in inputs if isinstance(i, AtHome)}
    if len(homes) != 1 or any(isinstance(i, Spread) for i in inputs):
        raise internal(f"rows of {sorted(map(str, inputs))} cannot meet")
    return homes.pop()


def _same(kernel: Any, inputs: Sequence[Placed]) -> Placed:
    return inputs[0]


def _project(kernel: ProjectKernel, inputs: Sequence[Placed]) -> Placed:
    (only,) = inputs
    if isinstance(only, Everywhere):
        return only
    made = [_bare(e) for e in kernel.expressions]
    return Spread(kernel.fields, tuple(_through(ways, made) for ways in only.ways))


def _columns(kernel: ColumnsKernel, inputs: Sequence[Placed]) -> Placed:
    return _renamed(inputs[0], kernel.schema, kernel.positions)


def _modify(kernel: ModifyKernel, inputs: Sequence[Placed]) -> Placed:
    return _renamed(inputs[0], kernel.schema, tuple(range(len(kernel.schema))))


def _aggregate(kernel: AggregateKernel, inputs: Sequence[Placed]) -> Placed:
    return _renamed(inputs[0], kernel.node.schema, kernel.node.keys)


def _points(kernel: PointsKernel, inputs: Sequence[Placed]) -> Placed:
    if isinstance(inputs[0], Everywhere):
        return inputs[0]
    return Spread((Field("point", BIGINT),), _lost(inputs[0]))


def _union(kernel: UnionKernel | SubtractKernel | SweepKernel, inputs: Sequence[Placed]) -> Placed:
    return _both(kernel.schema, inputs)


def _join(kernel: JoinKernel, inputs: Sequence[Placed]) -> Placed:
    """Rows that meet are in one partition, so the key of a pair is that of either."""
    left, right = inputs
    if isinstance(right, Spread):
        width = len(kernel.left)
        moved = tuple(frozenset(shift(e, width) for e in ways) for ways in right.ways)
        right = Spread(kernel.schema, moved)
    if isinstance(left, Everywhere) or isinstance(right, Everywhere):
        found = right if isinstance(left, Everywhere) else left
        return found if isinstance(found, Everywhere) else Spread(kernel.schema, found.ways)
    return Spread(kernel.schema, tuple(a | b for a, b in zip(left.ways, right.ways, strict=True)))


def _both(schema: Schema, inputs: Sequence[Placed]) -> Placed:
    """Rows of all inputs: what can be said of each of them."""
    spread = [i for i in inputs if isinstance(i, Spread)]
    if not spread:
        return Everywhere()
    if len(spread) < len(inputs) or len({len(i.ways) for i in spread}) > 1:
        return Spread(schema, _lost(spread[0]))
    every = zip(*(i.ways for i in spread), strict=True)
    return Spread(schema, tuple(frozenset.intersection(*ways) for ways in every))


def _lost(placement: Spread) -> tuple[Ways, ...]:
    return tuple(frozenset() for _ in placement.ways)


def _renamed(placement: Placed, schema: Schema, positions: Sequence[int | None]) -> Placed:
    """Rows of which the columns at some positions are left."""
    if isinstance(placement, Everywhere):
        return placement
    made = [exp.Null() if p is None else ref(p) for p in positions]
    return Spread(schema, tuple(_through(ways, made) for ways in placement.ways))


def _through(ways: Ways, made: Sequence[exp.Expression]) -> Ways:
    # A literal needs no column; but where one is made of it, only that column may be what others have, too.
    found = (_over(e, made, literals) for e in ways for literals in (True, False))
    return frozenset(e for e in found if e is not None)


def _over(
    expression: exp.Expression, made: Sequence[exp.Expression], literals: bool
) -> exp.Expression | None:
    """An expression over the columns of an input as one over what is made of them, if that is possible."""

    def visit(node: exp.Expression) -> exp.Expression:
        if node not in made or (literals and isinstance(node, exp.Literal)):
            return node
        return exp.Placeholder(this=str(made.index(node)))

    marked = expression.copy().transform(visit, copy=False)
    if references(marked):
        return None
    return marked.transform(lambda n: ref(int(n.name)) if isinstance(n, exp.Placeholder) else n)


def _bare(expression: exp.Expression) -> exp.Expression:
    """Without parentheses: the tree says what belongs together."""
    bare = expression.copy()
    while isinstance(bare, exp.Paren):
        bare = bare.this
    for paren in list(bare.find_all(exp.Paren)):
        paren.replace(paren.this)
    return bare


_OUTPUTS: tuple[tuple[type | tuple[type, ...], Callable[[Any, Sequence[Placed]], Placed]], ...] = (
    (ProjectKernel, _project),
    (ColumnsKernel, _columns),
    (ModifyKernel, _modify),
    (AggregateKernel, _aggregate),
    (PointsKernel, _points),
    (JoinKernel, _join),
    ((UnionKernel, SubtractKernel, SweepKernel), _union),
    (OneRowKernel, lambda kernel, inputs: Everywhere()),
    (
        (
            FilterKernel,
            CoalesceKernel,
            InsertsKernel,
            AlignKernel,
            ExpireKernel,
            SplitKernel,
            TimeWindowKernel,
            RangedWindowKernel,
            TimeSequenceKernel,
            Counted,
            SyncTicksKernel,
            SyncEventsKernel,
            RestrictKernel,
            ChangesKernel,
            SinceKernel,
            SingleRowKernel,
            TopKKernel,
        ),
        _same,
    ),
)


# Linearity.

_LINEAR = (
    FilterKernel,
    ProjectKernel,
    UnionKernel,
    SubtractKernel,
    ColumnsKernel,
    CoalesceKernel,
    JoinKernel,
    InsertsKernel,
    AlignKernel,
    ExpireKernel,
    TimeWindowKernel,
    RangedWindowKernel,
    TimeSequenceKernel,
    SyncTicksKernel,
    SyncEventsKernel,
    RestrictKernel,
)


def _linear_from(program: Program) -> set[str]:
    """The operators that are linear, as is all that follows them."""
    found: set[str] = set()
    readers: dict[str, list[str]] = {}
    for operator in program.operators:
        for i in operator.inputs:
            readers.setdefault(i, []).append(operator.id)
    for operator in reversed(program.operators):
        # A split into instants refuses rows without an end, and has to see their retractions for that.
        own = isinstance(operator.kernel, _LINEAR) and "clock" not in operator.kernel.layout
        if own and found.issuperset(readers.get(operator.id, ())):
            found.add(operator.id)
    return found
