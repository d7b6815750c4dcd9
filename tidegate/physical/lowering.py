"""From logical operators to physical ones: kernels that are identified by what they compute.

A logical operator becomes one or several kernels, and this is the only place where one variant is chosen among several. Equal
kernels over equal inputs are one operator, whichever queries they come from (`identity`). A program is a set of operators that
run back to back, and it is pure: `step_all(states, chunks, upto)` gives new states and the outputs' rows of the epoch that ends
before `upto`. It may stand for a whole plan or for a part of one, whose leaves are fed with other operators' rows.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import polars as pl
from sqlglot import exp

from tidegate.algebra import operators as op
from tidegate.algebra.quality import RangedWindow, Settings
from tidegate.algebra.sequences import Loop, Periodic, SessionWindow, WindowSequence
from tidegate.algebra.windows import RowsEveryTime, RowWindow, TimeEveryRows, TimeWindow
from tidegate.errors import Diagnostic, internal
from tidegate.kernels.coalescing import CoalesceKernel
from tidegate.kernels.endpoints import (
    AlignKernel,
    ExpireKernel,
    RangedWindowKernel,
    SplitKernel,
    TimeWindowKernel,
)
from tidegate.kernels.expressions import Functions
from tidegate.kernels.join import EquiKey, JoinKernel, split_predicate
from tidegate.kernels.rows import (
    VALIDITY,
    Frame,
    Kernel,
    Layout,
    State,
    empty_chunk,
)
from tidegate.kernels.rowwise import (
    ColumnsKernel,
    FilterKernel,
    OneRowKernel,
    ProjectKernel,
    Stateless,
    SubtractKernel,
    UnionKernel,
    scanned,
)
from tidegate.kernels.screening import Screen
from tidegate.kernels.sequences import (
    RowsByTimeKernel,
    SequenceByRowsKernel,
    SessionKernel,
    TimeSequenceKernel,
)
from tidegate.kernels.standing import PASSING, standing
from tidegate.kernels.streams import ChangesKernel, SingleRowKernel
from tidegate.kernels.sweep import SweepKernel
from tidegate.kernels.windows import RowWindowKernel, TimeEveryRowsKernel
from tidegate.physical import sync_lowering
from tidegate.physical.flow import Bound, Rows, flow
from tidegate.physical.identity import Identity, identity_of
from tidegate.physical.meter import Meter, key_columns
from tidegate.physical.partials import Partials
from tidegate.physical.spark_columns import called_names
from tidegate.scalars.expressions import index_of, ref, span_of
from tidegate.scalars.functions import AggregateFunction, ScalarFunction
from tidegate.time import MIN
from tidegate.types import Field, Schema

States = Mapping[str, State]


@dataclass(frozen=True)
class Leaf:
    """What a program is fed under a name: a scan's rows or another operator's; `seq`: with their order of arrival."""

    id: Identity
    name: str
    schema: Schema
    seq: bool
    rows: Rows
    key: tuple[str, ...] = ()
    """The columns that its rows were exchanged by, where they are plain columns."""


@dataclass(frozen=True)
class Operator:
    """A physical operator: a kernel over what others give, and what was decided about it."""

    id: Identity
    kernel: Kernel
    inputs: tuple[Identity, ...]
    part_of: str
    """The logical operator that it computes, or a part of it."""
    why: str
    """Where there was a choice: why it is this kernel."""
    rows: Rows
    """The rows that it emits."""
    state: Bound
    """What bounds its state."""

    @property
    def name(self) -> str:
        return type(self.kernel).__name__.removesuffix("Kernel")

    def under(self, settings: Settings) -> Operator:
        """The operator while some settings are in force: the same one, with the same state."""
        kernel = self.kernel
        return (
            replace(self, kernel=kernel.under(settings)) if isinstance(kernel, RangedWindowKernel) else self
        )

    @cached_property
    def keys(self) -> tuple[tuple[str, ...], ...]:
        """The columns of each input by whose values it brings rows together."""
        return key_columns(self.kernel)


@dataclass(frozen=True)
class Program:
    """Operators in an order in which each comes after its inputs."""

    leaves: tuple[Leaf, ...]
    operators: tuple[Operator, ...]
    outputs: tuple[Identity, ...]

    @property
    def ids(self) -> tuple[Identity, ...]:
        """Leaves, then operators: the order in which tasks tell what each has done."""
        return (*(leaf.id for leaf in self.leaves), *(o.id for o in self.operators))

    @property
    def layouts(self) -> dict[str, Mapping[str, Layout]]:
        """Which state tables there are, by operator."""
        return {o.id: o.kernel.layout for o in self.operators if o.kernel.layout}

    def initial(self) -> dict[str, State]:
        """The states before any row; operators without state are left out."""
        return {o.id: o.kernel.initial() for o in self.operators if o.kernel.layout}

    def standing(self, states: States, wanted: Iterable[Identity], since: int) -> dict[Identity, Frame]:
        """What some operators and leaves show when the epoch begins at `since`, as rows from then on (see `kernels.standing`)."""
        if since == MIN:
            return {}
        by_id = {o.id: o for o in self.operators}
        found = {leaf.id: empty_chunk(leaf.schema) for leaf in self.leaves}

        def shown(id_: Identity) -> Frame:
            if id_ not in found:
                operator = by_id[id_]
                passes = isinstance(operator.kernel, PASSING)
                inputs = [shown(i) for i in operator.inputs] if passes else []
                found[id_] = standing(operator.kernel, states.get(id_, {}), inputs, since - 1)
            return found[id_]

        lasting = pl.col("te") > since
        return {
            id_: shown(id_).filter(lasting).with_columns(ts=pl.lit(since, dtype=pl.Int64)) for id_ in wanted
        }

    def read_by(self, beginners: Container[Identity]) -> set[Identity]:
        """What running operators and leaves some that begin read."""
        mine = [o for o in self.operators if o.id in beginners]
        return {i for o in mine for i in o.inputs if i not in beginners}

    def step_all(
        self,
        states: States,
        chunks: Mapping[str, Frame],
        upto: int,
        beginners: Container[Identity] = (),
        shown: Mapping[Identity, Frame] | None = None,
        meter: Meter | None = None,
        settings: Settings | None = None,
    ) -> tuple[dict[str, State], tuple[Frame, ...]]:
        """One epoch: new states and the chunk of each output. A leaf that is not fed has no rows.

        Operators that begin get what the running ones that they read have `shown` before (see `standing`). What each leaf and operator
        does is noted by the `meter`. What the runtime may choose is as the `settings` say (see `algebra.quality`).
        """
        meter = Meter(self.ids) if meter is None else meter
        shown = shown or {}
        results: dict[str, Frame] = {}
        after: dict[str, State] = {}
        uses = self._uses()
        for leaf in self.leaves:
            chunk = chunks.get(leaf.name)
            schema = leaf.schema
            if chunk is None:
                chunk = empty_chunk(schema)
                chunk = chunk.with_columns(seq=pl.lit(0, dtype=pl.Int64)) if leaf.seq else chunk
            results[leaf.id] = scanned(chunk, schema, leaf.seq)
            keys = () if self._keyed else (leaf.key,)
            meter.passed(leaf.id, [chunk], chunk, leaf.rows.form, keys)
        screens: dict[Identity, Screen] = {}
        for operator in self.operators:
            begins = operator.id in beginners
            chunks_in = [
                joined_to(shown.get(i), results[i]) if begins else results[i] for i in operator.inputs
            ]
            if isinstance(operator.kernel, Stateless):
                screen = None if begins else screens.setdefault(operator.inputs[0], Screen(chunks_in[0]))
                results[operator.id] = self._passed(operator, chunks_in, screen, meter)
            else:
                state = states.get(operator.id, {})
                running = operator.under(settings or {})
                after[operator.id], results[operator.id] = _stepped(running, state, chunks_in, upto, meter)
            meter.passed(operator.id, chunks_in, results[operator.id], operator.rows.form, operator.keys)
            for i in operator.inputs:
                uses[i] -= 1
                if not uses[i]:
                    del results[i]
        return after, tuple(_emitted(results[o]) for o in self.outputs)

    def _passed(
        self, operator: Operator, chunks: Sequence[Frame], screen: Screen | None, meter: Meter
    ) -> Frame:
        """What an operator without state makes of some rows; where it can make nothing of them, it is not asked."""
        kernel = operator.kernel
        if screen is not None and isinstance(kernel, FilterKernel) and screen.excludes(kernel.needs):
            return screen.nothing
        if any(c.height for c in chunks):
            return _stepped(operator, {}, chunks, 0, meter)[1]
        if operator.id not in self._nothing:
            self._nothing[operator.id] = _stepped(operator, {}, chunks, 0, meter)[1]
        return self._nothing[operator.id]

    @cached_property
    def _keyed(self) -> bool:
        """Whether an operator has keys: they are counted there, and not once more where rows come in."""
        return any(any(o.keys) for o in self.operators)

    @cached_property
    def _nothing(self) -> dict[Identity, Frame]:
        """What operators without state make of no rows."""
        return {}

    def _uses(self) -> dict[Identity, int]:
        uses = dict.fromkeys([*(x.id for x in self.leaves), *(o.id for o in self.operators)], 0)
        for i in [*self.outputs, *(i for o in self.operators for i in o.inputs)]:
            uses[i] += 1
        return uses

    def step(self, states: States, chunks: Mapping[str, Frame], upto: int) -> tuple[dict[str, State], Frame]:
        """`step_all` of a program with one output."""
        after, (out,) = self.step_all(states, chunks, upto)
        return after, out


def _stepped(
    operator: Operator, state: State, chunks: Sequence[Frame], upto: int, meter: Meter
) -> tuple[State, Frame]:
    began = meter.now()
    try:
        return operator.kernel.step(state, chunks, upto)
    except Diagnostic as problem:
        problem.operator = operator.id
        raise
    finally:
        meter.spent(operator.id, began)


def joined_to(before: Frame | None, rows: Frame) -> Frame:
    """What was shown before, if anything was, and what came."""
    if before is None or before.is_empty():
        return rows
    return pl.concat([before, rows.select(before.columns)])


def call_spans(kernel: Kernel, name: str) -> Iterator[tuple[int, int] | None]:
    """Where in a query's text a kernel's expressions call a function."""
    for held in vars(kernel).values():
        for e in held if isinstance(held, tuple) else (held,):
            if isinstance(e, exp.Expression):
                calls = (f for f in e.find_all(exp.Expression) if isinstance(f, exp.Func))
                yield from (span_of(f) for f in calls if name.lower() in called_names(f))


def rows_of_scan(scan: op.Scan) -> Rows:
    """Instants of a raw stream, rows that bring their validity, or those of a table, which has no time."""
    if not scan.relation:
        return Rows("instants", Bound.TIME)
    timed = bool(scan.fields) and scan.fields[-1].hidden
    return Rows("intervals", Bound.TIME if timed else Bound.TABLE)


def _emitted(rows: Frame) -> Frame:
    """Rows as they leave a program: the order of arrival stays inside."""
    if tuple(rows.columns[-len(VALIDITY) :]) == VALIDITY:
        return rows
    payload = [c for c in rows.columns if c not in VALIDITY and c != "seq"]
    return rows.select(*payload, *VALIDITY)


def compile_plan(root: op.Node, functions: Functions | None = None) -> Program:
    """The program of a whole plan, whose leaves are its scans."""
    lowering = Lowering(functions or {})
    output = lowering.id_of(root)
    return Program(tuple(lowering.leaves.values()), tuple(lowering.operators.values()), (output,))


def is_raw_chain(node: op.Node) -> bool:
    """Whether rows are those of a raw stream, filtered or mapped: instants with an order of arrival."""
    while isinstance(node, op.Filter | op.Project):
        node = node.input
    return isinstance(node, op.Scan) and not node.relation


@dataclass
class Lowering:
    """Operators under construction. `feeds` says of scans that stand for rows of elsewhere what they are; others are streams."""

    functions: Mapping[str, ScalarFunction | AggregateFunction]
    feeds: Mapping[str, Feed] = field(default_factory=dict)
    leaves: dict[Identity, Leaf] = field(default_factory=dict)
    operators: dict[Identity, Operator] = field(default_factory=dict)
    _by_node: dict[op.Node, Identity] = field(default_factory=dict)

    def id_of(self, node: op.Node) -> Identity:
        """The operator or leaf that computes a node."""
        if node not in self._by_node:
            if isinstance(node, op.Scan):
                self._by_node[node] = self._leaf(node)
            elif type(node) in _RULES:
                self._by_node[node] = _RULES[type(node)](self, node)
            else:
                raise internal(f"no kernel for {type(node).__name__}")
        return self._by_node[node]

    def _leaf(self, scan: op.Scan) -> Identity:
        given = Feed(identity_of("scan", scan), rows_of_scan(scan))
        feed = self.feeds.get(scan.leaf, given)
        if any(leaf.name == scan.leaf and leaf.id != feed.id for leaf in self.leaves.values()):
            raise internal(f"two leaves are named {scan.leaf!r}")
        self.leaves.setdefault(feed.id, Leaf(feed.id, scan.leaf, scan.schema, feed.ordered, feed.rows))
        return feed.id

    def rows_of(self, id_: Identity) -> Rows:
        """What is known of the rows of an operator or a leaf."""
        return self.leaves[id_].rows if id_ in self.leaves else self.operators[id_].rows

    def add(self, node: op.Node, kernel: Kernel, *inputs: Identity, why: str = "") -> Identity:
        """The operator that applies a kernel, for a node; one is enough for equal kernels over equal inputs."""
        called = getattr(kernel, "functions", {})
        id_ = identity_of(type(kernel).__name__, kernel, called, inputs)
        if id_ not in self.operators:
            rows, state = flow(kernel, [self.rows_of(i) for i in inputs])
            self.operators[id_] = Operator(id_, kernel, inputs, type(node).__name__, why, rows, state)
        return id_

    def called(self, *expressions: exp.Expression | None) -> Functions:
        """The user's functions that some expressions call."""
        names = {name.lower(): name for name in self.functions}
        found = {n for e in expressions if e is not None and names for n in called_names(e) if n in names}
        chosen = {names[n]: self.functions[names[n]] for n in sorted(found)}
        return {name: f for name, f in chosen.items() if isinstance(f, ScalarFunction)}

    def need_order(self, node: op.Node) -> None:
        """The raw stream beneath must come with its order of arrival."""
        while not isinstance(node, op.Scan):
            (node,) = node.inputs
        id_ = self._leaf(node)
        self.leaves[id_] = replace(self.leaves[id_], seq=True)


@dataclass(frozen=True)
class Feed:
    """What stands behind a leaf: rows of an exchange."""

    id: Identity
    rows: Rows
    ordered: bool = False


def _filter(low: Lowering, node: op.Filter) -> Identity:
    kernel = FilterKernel(node.schema, node.predicate, low.called(node.predicate))
    return low.add(node, kernel, low.id_of(node.input))


def _project(low: Lowering, node: op.Project) -> Identity:
    kernel = ProjectKernel(node.input.schema, node.expressions, node.fields, low.called(*node.expressions))
    mapped = low.add(node, kernel, low.id_of(node.input))
    if not _hides_changes(node):
        return mapped
    why = "of what an aggregate says not all is shown: equal rows that follow each other become one"
    return low.add(node, CoalesceKernel(node.schema), mapped, why=why)


def _hides_changes(node: op.Project) -> bool:
    """Whether rows that follow each other in one group may be equal here: not all values of an aggregation are shown as they are."""
    shown = {index_of(e) for e in node.expressions}
    below = node.input
    while isinstance(below, op.Filter | op.Project):
        if isinstance(below, op.Project):
            shown = {index_of(below.expressions[c]) for c in shown if c is not None}
        below = below.input
    if not isinstance(below, op.Aggregate):
        return False
    values = range(len(below.keys), len(below.schema))
    return bool(values) and not shown.issuperset(values)


def _union(low: Lowering, node: op.UnionAll) -> Identity:
    return low.add(node, UnionKernel(node.schema), low.id_of(node.left), low.id_of(node.right))


def _distinct(low: Lowering, node: op.Distinct) -> Identity:
    return low.add(node, SweepKernel("distinct", node.schema), low.id_of(node.input))


def _set_operation(name: str) -> Callable[[Lowering, op.Except | op.Intersect], Identity]:
    def rule(low: Lowering, node: op.Except | op.Intersect) -> Identity:
        kernel = SweepKernel(f"{name} all" if node.all else name, node.schema)
        return low.add(node, kernel, low.id_of(node.left), low.id_of(node.right))

    return rule


def _join(low: Lowering, node: op.Join) -> Identity:
    """Outer joins are the inner one and, padded with NULLs, the rows without a partner."""
    left, right = low.id_of(node.left), low.id_of(node.right)
    if node.kind in ("semi", "anti"):
        return _partnered(low, node, left, right, mirrored=False)
    parts = [_pairs(low, node, left, right)]
    width, total = len(node.left.schema), len(node.schema)
    alone = replace(node, kind="anti")
    if node.kind in ("left", "full"):
        positions: list[int | None] = [i if i < width else None for i in range(total)]
        without = _partnered(low, alone, left, right, mirrored=False)
        parts.append(low.add(node, ColumnsKernel(node.schema, tuple(positions)), without))
    if node.kind in ("right", "full"):
        positions = [None if i < width else i - width for i in range(total)]
        without = _partnered(low, alone, left, right, mirrored=True)
        parts.append(low.add(node, ColumnsKernel(node.schema, tuple(positions)), without))
    return low.add(node, UnionKernel(node.schema), *parts) if len(parts) > 1 else parts[0]


def _pairs(low: Lowering, node: op.Join, left: Identity, right: Identity) -> Identity:
    keys, residual = split_predicate(node, low.called(node.predicate))
    kernel = JoinKernel(node.left.schema, node.right.schema, keys, residual, low.called(node.predicate))
    return low.add(node, kernel, left, right, why=_how_they_meet(kernel) + _where_they_meet(node))


def _where_they_meet(node: op.Join) -> str:
    if node.spread is None:
        return ""
    one, other = ("left", "right") if node.spread == 0 else ("right", "left")
    return (
        f"; of keys with many rows, those of the {one} side are spread and those of the {other} sent to all"
    )


def _how_they_meet(kernel: JoinKernel) -> str:
    """Which pairs a join looks at."""
    if kernel.band is None:
        return "rows meet by equal keys" if kernel.keys else "no equality to meet by: all pairs are compared"
    ends = "a band" if kernel.band.is_closed else "a range"
    if kernel.keys:
        return f"rows meet by equal keys; of many, {ends} of values is searched in sorted order"
    return f"no equality to meet by: {ends} of values is searched in sorted order"


def _partnered(low: Lowering, node: op.Join, left: Identity, right: Identity, mirrored: bool) -> Identity:
    """The rows with (semi) or without (anti) a partner: of the left input, or mirrored of the right one.

    If equal keys are all that matters, each row meets at most one row of the partners' distinct keys: the join is the
    answer, and what it leaves over is the rest. Otherwise a sweep asks whether a row has any partner.
    """
    keys, residual = split_predicate(node, low.called(node.predicate))
    mine, other = (right, left) if mirrored else (left, right)
    own = node.right.schema if mirrored else node.left.schema
    if residual is None:
        met = _reduced_join(low, node, keys, mine, other, mirrored)
        return met if node.kind == "semi" else low.add(node, SubtractKernel(own), mine, met)
    pairs = _pairs(low, node, left, right)
    offset = len(node.left.schema) if mirrored else 0
    met = low.add(node, ColumnsKernel(own, tuple(range(offset, offset + len(own)))), pairs)
    why = "a condition beyond equal keys: each row asks whether it has any partner"
    return low.add(node, SweepKernel(node.kind, own), mine, met, why=why)


def _reduced_join(
    low: Lowering, node: op.Join, keys: tuple[EquiKey, ...], mine: Identity, other: Identity, mirrored: bool
) -> Identity:
    own, theirs = node.left.schema, node.right.schema
    if mirrored:
        own, theirs = theirs, own
        keys = tuple(EquiKey(k.right, k.left, k.type, k.null_safe) for k in keys)
    fields = tuple(Field(f"k{i}", k.type) for i, k in enumerate(keys))
    called = low.called(node.predicate)
    projected = ProjectKernel(theirs, tuple(k.right for k in keys), fields, called)
    distinct = low.add(node, SweepKernel("distinct", fields), low.add(node, projected, other))
    by_position = tuple(EquiKey(k.left, ref(i), k.type, k.null_safe) for i, k in enumerate(keys))
    why = "equal keys are all that matters: a row meets its partners' distinct keys" + _where_they_meet(node)
    pairs = low.add(node, JoinKernel(own, fields, by_position, None, called), mine, distinct, why=why)
    return low.add(node, ColumnsKernel(own, tuple(range(len(own)))), pairs)


def _window(low: Lowering, node: op.Window) -> Identity:
    below = low.id_of(node.input)
    spec, schema = node.spec, node.schema
    raw = is_raw_chain(node.input)
    chronon = None if raw else node.granularity
    if isinstance(spec, TimeWindow):
        if spec.is_now and (raw or node.granularity == 1) and node.width == 1:
            return below
        kernel = TimeWindowKernel(schema, spec.size, spec.slide, chronon, node.width, spec.origin)
        rows = low.add(node, kernel, below)
        why = "rows that leave the window are told by rows of their own"
        return low.add(node, ExpireKernel(schema), rows, why=why) if node.told else rows
    if isinstance(spec, RangedWindow):
        return low.add(node, RangedWindowKernel(schema, spec, node.width), below)
    if isinstance(spec, WindowSequence) and not spec.counts_rows:
        return low.add(node, TimeSequenceKernel(schema, spec, chronon, node.width), below)
    if raw:
        low.need_order(node.input)
    counted = (schema, node.partition_by, chronon, node.width)
    if isinstance(spec, WindowSequence):
        by_rows = isinstance(spec.schedule, Loop) or (
            isinstance(spec.schedule, Periodic) and spec.schedule.rows
        )
        counting = SequenceByRowsKernel if by_rows else RowsByTimeKernel
        return low.add(node, counting(*counted, spec), below)
    if isinstance(spec, SessionWindow):
        return low.add(node, SessionKernel(*counted, spec.gap), below)
    if isinstance(spec, RowWindow):
        return low.add(node, RowWindowKernel(*counted, spec.size, spec.slide), below)
    if isinstance(spec, RowsEveryTime):
        rows = low.add(node, RowWindowKernel(*counted, spec.size), below)
        return low.add(node, AlignKernel(schema, spec.period, node.width, spec.origin), rows)
    assert isinstance(spec, TimeEveryRows), spec
    return low.add(node, TimeEveryRowsKernel(*counted, spec.size, spec.every), below)


def _aggregate(low: Lowering, node: op.Aggregate) -> Identity:
    from tidegate.kernels.aggregates import AggregateKernel

    used = {a.function for a in node.aggregations}
    functions = {n: f for n, f in low.functions.items() if n in used and isinstance(f, AggregateFunction)}
    kernel = AggregateKernel(node.with_inputs(_shape(node.input)), functions)
    return low.add(node, kernel, low.id_of(node.input))


def _top_k(low: Lowering, node: op.TopK) -> Identity:
    from tidegate.kernels.topk import TopKKernel

    return low.add(node, TopKKernel(node.with_inputs(_shape(node.input))), low.id_of(node.input))


def _shape(node: op.Node) -> op.Scan:
    """What a kernel has to know of its input: the columns."""
    return op.Scan("", node.schema)


def _single_row(low: Lowering, node: op.SingleRow) -> Identity:
    return low.add(
        node, SingleRowKernel(node.schema, node.partition_by, node.position), low.id_of(node.input)
    )


_RULES: Mapping[type[op.Node], Callable[[Lowering, Any], Identity]] = {
    op.OneRow: lambda low, node: low.add(node, OneRowKernel()),
    op.Window: _window,
    op.Filter: _filter,
    op.Project: _project,
    Partials: _project,
    op.UnionAll: _union,
    op.Join: _join,
    op.Distinct: _distinct,
    op.Except: _set_operation("except"),
    op.Intersect: _set_operation("intersect"),
    op.Aggregate: _aggregate,
    op.TopK: _top_k,
    op.SingleRow: _single_row,
    op.Istream: lambda low, node: low.add(node, ChangesKernel(node.schema, 1), low.id_of(node.inputs[0])),
    op.Dstream: lambda low, node: low.add(node, ChangesKernel(node.schema, -1), low.id_of(node.inputs[0])),
    op.Rstream: lambda low, node: low.add(
        node, SplitKernel(node.schema, node.period), low.id_of(node.inputs[0])
    ),
    **sync_lowering.RULES,
}
