"""Plans as programs of kernels: a graph in which equal sub-plans are computed once.

A program is pure: `step(states, scans, upto)` gives new states and the outputs' chunks of the epoch that ends before
`upto`. It may stand for a whole plan or for a part of one, whose leaves are other operators' chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from tidegate.algebra import operators as op
from tidegate.algebra.sequences import Periodic, SessionWindow, WindowSequence
from tidegate.algebra.windows import RowsEveryTime, RowWindow, TimeEveryRows, TimeWindow
from tidegate.errors import internal
from tidegate.kernels.endpoints import AlignKernel, SplitKernel, TimeWindowKernel
from tidegate.kernels.expressions import Functions
from tidegate.kernels.join import EquiKey, JoinKernel, split_predicate
from tidegate.kernels.rows import (
    VALIDITY,
    Frame,
    Kernel,
    Layout,
    State,
    columns,
    empty_chunk,
)
from tidegate.kernels.rowwise import (
    ColumnsKernel,
    FilterKernel,
    OneRowKernel,
    ProjectKernel,
    SubtractKernel,
    UnionKernel,
    scanned,
)
from tidegate.kernels.sequences import (
    RowsByTimeKernel,
    SequenceByRowsKernel,
    SessionKernel,
    TimeSequenceKernel,
)
from tidegate.kernels.streams import ChangesKernel, SingleRowKernel
from tidegate.kernels.sweep import SweepKernel
from tidegate.kernels.windows import RowWindowKernel, TimeEveryRowsKernel
from tidegate.physical import sync_lowering
from tidegate.scalars.expressions import ref
from tidegate.scalars.functions import AggregateFunction, ScalarFunction
from tidegate.time import MAX, MIN
from tidegate.types import Field, Schema

States = Mapping[str, State]


@dataclass(frozen=True)
class Leaf:
    """What a program is fed under a name: a scan's chunks or another operator's; `seq`: with arrival order."""

    id: str
    name: str
    node: op.Node
    seq: bool


@dataclass(frozen=True)
class Step:
    """A kernel and the ids of what it reads."""

    id: str
    kernel: Kernel
    inputs: tuple[str, ...]


@dataclass(frozen=True)
class Program:
    """Kernels in an order in which each comes after its inputs. Ids depend on the plan only."""

    leaves: tuple[Leaf, ...]
    steps: tuple[Step, ...]
    outputs: tuple[str, ...]
    schemas: tuple[Schema, ...]

    @property
    def scans(self) -> tuple[Leaf, ...]:
        """The leaves that are registered streams or tables."""
        return tuple(leaf for leaf in self.leaves if isinstance(leaf.node, op.Scan))

    @property
    def layouts(self) -> dict[str, Mapping[str, Layout]]:
        """Which state tables there are, by step."""
        return {s.id: s.kernel.layout for s in self.steps if s.kernel.layout}

    def initial(self) -> dict[str, State]:
        """The states before any row; steps without state are left out."""
        return {s.id: s.kernel.initial() for s in self.steps if s.kernel.layout}

    def step_all(
        self, states: States, chunks: Mapping[str, Frame], upto: int
    ) -> tuple[dict[str, State], tuple[Frame, ...]]:
        """One epoch: new states and the chunk of each output. A leaf that is not fed has no rows."""
        results: dict[str, Frame] = {}
        after: dict[str, State] = {}
        uses = self._uses()
        for leaf in self.leaves:
            chunk = chunks.get(leaf.name)
            schema = leaf.node.schema
            if chunk is None:
                chunk = empty_chunk(schema)
                chunk = chunk.with_columns(seq=pl.lit(0, dtype=pl.Int64)) if leaf.seq else chunk
            results[leaf.id] = scanned(chunk, schema, leaf.seq)
        for step in self.steps:
            state, out = step.kernel.step(states.get(step.id, {}), [results[i] for i in step.inputs], upto)
            results[step.id] = out
            if step.kernel.layout:
                after[step.id] = state
            for i in step.inputs:
                uses[i] -= 1
                if not uses[i]:
                    del results[i]
        chunks_out = [
            results[o].select(*columns(len(s)), *VALIDITY)
            for o, s in zip(self.outputs, self.schemas, strict=True)
        ]
        return after, tuple(chunks_out)

    def _uses(self) -> dict[str, int]:
        uses = dict.fromkeys([*(x.id for x in self.leaves), *(s.id for s in self.steps)], 0)
        for i in [*self.outputs, *(i for s in self.steps for i in s.inputs)]:
            uses[i] += 1
        return uses

    def step(self, states: States, chunks: Mapping[str, Frame], upto: int) -> tuple[dict[str, State], Frame]:
        """`step_all` of a program with one output."""
        after, (out,) = self.step_all(states, chunks, upto)
        return after, out


def compile_plan(
    root: op.Node, functions: Functions | None = None, leaves: Mapping[op.Node, str] | None = None
) -> Program:
    """The program of a plan; `leaves` names the operators beneath which nothing is computed here."""
    return compile_plans([root], functions, leaves)


def compile_plans(
    roots: Sequence[op.Node], functions: Functions | None = None, leaves: Mapping[op.Node, str] | None = None
) -> Program:
    """One program with an output for each root."""
    given = functions or {}
    scalars = {name: f for name, f in given.items() if isinstance(f, ScalarFunction)}
    aggregates = {name: f for name, f in given.items() if isinstance(f, AggregateFunction)}
    lowering = _Lowering(scalars, aggregates, leaves or {})
    outputs = tuple(lowering.id_of(r) for r in roots)
    feeds = [Leaf(id_, name, node, node in lowering.ordered) for node, (id_, name) in lowering.feeds.items()]
    return Program(tuple(feeds), tuple(lowering.steps), outputs, tuple(r.schema for r in roots))


def is_raw_chain(node: op.Node) -> bool:
    """Whether rows are those of a raw stream, filtered or mapped: instants with an order of arrival."""
    while isinstance(node, op.Filter | op.Project):
        node = node.input
    return isinstance(node, op.Scan) and not node.relation


@dataclass
class _Lowering:
    functions: Functions
    aggregates: Mapping[str, AggregateFunction]
    leaves: Mapping[op.Node, str]
    feeds: dict[op.Node, tuple[str, str]] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    ordered: set[op.Node] = field(default_factory=set)
    _by_node: dict[op.Node, str] = field(default_factory=dict)
    _by_kernel: dict[tuple[object, ...], str] = field(default_factory=dict)

    def id_of(self, node: op.Node) -> str:
        if node not in self._by_node:
            self._by_node[node] = self._lower(node)
        return self._by_node[node]

    def _lower(self, node: op.Node) -> str:
        if node in self.leaves:
            return self._feed(node, self.leaves[node])
        if isinstance(node, op.Scan):
            return self._feed(node, node.name)
        rule = _RULES.get(type(node))
        if rule is None:
            raise internal(f"no kernel for {type(node).__name__}")
        return rule(self, node)

    def _feed(self, node: op.Node, name: str) -> str:
        id_ = f"leaf:{name}"
        if any(name == other for _, other in self.feeds.values()):
            raise internal(f"two leaves are named {name!r}")
        self.feeds[node] = (id_, name)
        return id_

    def add(self, kernel: Kernel, *inputs: str, like: op.Node | None = None) -> str:
        """The step that applies the kernel; one is enough for equal kernels (or nodes, `like`) over equal inputs."""
        key = (like or kernel, inputs)
        if key not in self._by_kernel:
            name = type(kernel).__name__.removesuffix("Kernel")
            self._by_kernel[key] = f"{len(self.steps)}:{name}"
            self.steps.append(Step(self._by_kernel[key], kernel, inputs))
        return self._by_kernel[key]

    def need_order(self, node: op.Node) -> None:
        """The raw stream beneath must come with its order of arrival."""
        while node not in self.feeds:
            (node,) = node.inputs
        self.ordered.add(node)


def _filter(low: _Lowering, node: op.Filter) -> str:
    return low.add(FilterKernel(node.schema, node.predicate, low.functions), low.id_of(node.input))


def _project(low: _Lowering, node: op.Project) -> str:
    kernel = ProjectKernel(node.input.schema, node.expressions, node.fields, low.functions)
    return low.add(kernel, low.id_of(node.input))


def _union(low: _Lowering, node: op.UnionAll) -> str:
    return low.add(UnionKernel(node.schema), low.id_of(node.left), low.id_of(node.right))


def _distinct(low: _Lowering, node: op.Distinct) -> str:
    return low.add(SweepKernel("distinct", node.schema), low.id_of(node.input))


def _set_operation(name: str) -> Callable[[_Lowering, op.Except | op.Intersect], str]:
    def rule(low: _Lowering, node: op.Except | op.Intersect) -> str:
        kernel = SweepKernel(f"{name} all" if node.all else name, node.schema)
        return low.add(kernel, low.id_of(node.left), low.id_of(node.right))

    return rule


def _join(low: _Lowering, node: op.Join) -> str:
    """Outer joins are the inner one and, padded with NULLs, the rows without a partner."""
    left, right = low.id_of(node.left), low.id_of(node.right)
    if node.kind in ("semi", "anti"):
        return _partnered(low, node, left, right, mirrored=False)
    keys, residual = split_predicate(node, low.functions)
    inner = JoinKernel(node.left.schema, node.right.schema, keys, residual, low.functions)
    result = low.add(inner, left, right)
    parts = [result]
    width, total = len(node.left.schema), len(node.schema)
    if node.kind in ("left", "full"):
        alone = _partnered(
            low, op.Join(node.left, node.right, "anti", node.predicate), left, right, mirrored=False
        )
        positions: list[int | None] = [i if i < width else None for i in range(total)]
        parts.append(low.add(ColumnsKernel(node.schema, tuple(positions)), alone))
    if node.kind in ("right", "full"):
        alone = _partnered(
            low, op.Join(node.left, node.right, "anti", node.predicate), left, right, mirrored=True
        )
        positions = [None if i < width else i - width for i in range(total)]
        parts.append(low.add(ColumnsKernel(node.schema, tuple(positions)), alone))
    return low.add(UnionKernel(node.schema), *parts) if len(parts) > 1 else result


def _partnered(low: _Lowering, node: op.Join, left: str, right: str, mirrored: bool) -> str:
    """The rows with (semi) or without (anti) a partner: of the left input, or mirrored of the right one.

    If equal keys are all that matters, each row meets at most one row of the partners' distinct keys: the join is the
    answer, and what it leaves over is the rest. Otherwise a sweep asks whether a row has any partner.
    """
    keys, residual = split_predicate(node, low.functions)
    mine, other = (right, left) if mirrored else (left, right)
    own = node.right.schema if mirrored else node.left.schema
    if residual is None:
        met = _reduced_join(low, node, keys, mine, other, mirrored)
        return met if node.kind == "semi" else low.add(SubtractKernel(own), mine, met)
    pairs = low.add(
        JoinKernel(node.left.schema, node.right.schema, keys, residual, low.functions), left, right
    )
    offset = len(node.left.schema) if mirrored else 0
    met = low.add(ColumnsKernel(own, tuple(range(offset, offset + len(own)))), pairs)
    return low.add(SweepKernel(node.kind, own), mine, met)


def _reduced_join(
    low: _Lowering, node: op.Join, keys: tuple[EquiKey, ...], mine: str, other: str, mirrored: bool
) -> str:
    own, theirs = node.left.schema, node.right.schema
    if mirrored:
        own, theirs = theirs, own
        keys = tuple(EquiKey(k.right, k.left, k.type, k.null_safe) for k in keys)
    fields = tuple(Field(f"k{i}", k.type) for i, k in enumerate(keys))
    projected = ProjectKernel(theirs, tuple(k.right for k in keys), fields, low.functions)
    distinct = low.add(SweepKernel("distinct", fields), low.add(projected, other))
    by_position = tuple(EquiKey(k.left, ref(i), k.type, k.null_safe) for i, k in enumerate(keys))
    pairs = low.add(JoinKernel(own, fields, by_position, None, low.functions), mine, distinct)
    return low.add(ColumnsKernel(own, tuple(range(len(own)))), pairs)


def _window(low: _Lowering, node: op.Window) -> str:
    below = low.id_of(node.input)
    spec, schema = node.spec, node.schema
    raw = is_raw_chain(node.input)
    chronon = None if raw else node.granularity
    if isinstance(spec, TimeWindow):
        if spec.is_now and (raw or node.granularity == 1) and node.width == 1:
            return below
        return low.add(TimeWindowKernel(schema, spec.size, spec.slide, chronon, node.width), below)
    if isinstance(spec, WindowSequence) and not spec.counts_rows:
        return low.add(TimeSequenceKernel(schema, spec, chronon, node.width), below)
    if raw:
        low.need_order(node.input)
    counted = (schema, node.partition_by, chronon, node.width)
    if isinstance(spec, WindowSequence):
        by_rows = isinstance(spec.schedule, Periodic) and spec.schedule.rows
        kernel = SequenceByRowsKernel if by_rows else RowsByTimeKernel
        return low.add(kernel(*counted, spec), below)
    if isinstance(spec, SessionWindow):
        return low.add(SessionKernel(*counted, spec.gap), below)
    if isinstance(spec, RowWindow):
        return low.add(RowWindowKernel(*counted, spec.size, spec.slide), below)
    if isinstance(spec, RowsEveryTime):
        rows = low.add(RowWindowKernel(*counted, spec.size), below)
        return low.add(AlignKernel(schema, spec.period, node.width), rows)
    assert isinstance(spec, TimeEveryRows), spec
    return low.add(TimeEveryRowsKernel(*counted, spec.size, spec.every), below)


def _aggregate(low: _Lowering, node: op.Aggregate) -> str:
    from tidegate.kernels.aggregates import AggregateKernel

    return low.add(AggregateKernel(node, low.aggregates), low.id_of(node.input), like=node)


def _top_k(low: _Lowering, node: op.TopK) -> str:
    from tidegate.kernels.topk import TopKKernel

    return low.add(TopKKernel(node), low.id_of(node.input), like=node)


def _single_row(low: _Lowering, node: op.SingleRow) -> str:
    return low.add(SingleRowKernel(node.schema, node.partition_by, node.position), low.id_of(node.input))


_RULES: Mapping[type[op.Node], Callable[[_Lowering, Any], str]] = {
    op.OneRow: lambda low, node: low.add(OneRowKernel()),
    op.Window: _window,
    op.Filter: _filter,
    op.Project: _project,
    op.UnionAll: _union,
    op.Join: _join,
    op.Distinct: _distinct,
    op.Except: _set_operation("except"),
    op.Intersect: _set_operation("intersect"),
    op.Aggregate: _aggregate,
    op.TopK: _top_k,
    op.SingleRow: _single_row,
    op.Istream: lambda low, node: low.add(ChangesKernel(node.schema, 1), low.id_of(node.inputs[0])),
    op.Dstream: lambda low, node: low.add(ChangesKernel(node.schema, -1), low.id_of(node.inputs[0])),
    op.Rstream: lambda low, node: low.add(SplitKernel(node.schema, node.period), low.id_of(node.inputs[0])),
    **sync_lowering.RULES,
}


def run(
    plan: op.Node,
    sources: Mapping[str, Frame],
    boundaries: Sequence[int] = (MAX,),
    functions: Functions | None = None,
) -> Frame:
    """Whole recorded streams, played through epochs that end at the boundaries.

    A row belongs to the epoch in which its `ts` lies; the answer does not depend on the boundaries.
    """
    program = compile_plan(plan, functions)
    states: Mapping[str, State] = program.initial()
    chunks: list[Frame] = []
    since = MIN
    for upto in boundaries:
        scans = {
            name: rows.filter((pl.col("ts") >= since) & (pl.col("ts") < upto))
            for name, rows in sources.items()
        }
        states, out = program.step(states, scans, upto)
        chunks.append(out)
        since = upto
    return pl.concat(chunks)
