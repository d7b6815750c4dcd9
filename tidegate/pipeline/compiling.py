"""A logical plan as a pipeline: one operator for each of the plan's, a source for each scan with its window and conditions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tidegate.algebra import operators as op
from tidegate.algebra.modify import Modify
from tidegate.algebra.printing import details, title
from tidegate.algebra.properties import properties
from tidegate.algebra.windows import RowWindow, TimeWindow
from tidegate.errors import unsupported
from tidegate.kernels.join import split_predicate
from tidegate.pipeline.elements import Strategy
from tidegate.pipeline.groups import Aggregated, First
from tidegate.pipeline.operators import Join, Map, Meeting, Operator, Union
from tidegate.pipeline.sets import Counted, Partnered
from tidegate.pipeline.sources import Entry, Script, Source, in_rows, in_time, modified
from tidegate.reference.aggregates import row_key
from tidegate.reference.snapshots import Arrivals, by_arrival
from tidegate.reference.snapshots import Source as Rows
from tidegate.scalars.functions import AggregateFunction, ScalarFunction
from tidegate.scalars.meaning import compile_scalar
from tidegate.time import MAX, MIN
from tidegate.types import Row

RowChange = Callable[[Row], Row | None]

Part = Source | Operator


@dataclass(frozen=True)
class Pipeline:
    """Sources and operators, inputs before those that read them. The last one answers."""

    sources: tuple[Source, ...]
    operators: tuple[Operator, ...]
    readers: Mapping[Part, tuple[tuple[Operator, int], ...]]
    """Who reads a part, and through which of its queues."""
    feeds: Mapping[Operator, tuple[Part, ...]]
    """What an operator reads."""
    answer: Part

    @property
    def parts(self) -> tuple[Part, ...]:
        return (*self.sources, *self.operators)


def compiled(
    plan: op.Node,
    rows: Mapping[str, Rows],
    strategy: Strategy,
    functions: Mapping[str, ScalarFunction] | None = None,
    aggregates: Mapping[str, AggregateFunction] | None = None,
) -> Pipeline:
    """The pipeline of a plan. What the pipeline cannot do is refused: windows over derived streams, clocks, batches."""
    compiler = _Compiler(rows, strategy, functions or {}, aggregates or {})
    answer = compiler.part(plan)
    sources = tuple(p for p in compiler.parts if isinstance(p, Source))
    operators = tuple(p for p in compiler.parts if isinstance(p, Operator))
    readers: dict[Part, list[tuple[Operator, int]]] = {p: [] for p in compiler.parts}
    for operator, inputs in compiler.feeds.items():
        for side, below in enumerate(inputs):
            readers[below].append((operator, side))
    return Pipeline(sources, operators, {p: tuple(r) for p, r in readers.items()}, compiler.feeds, answer)


@dataclass
class _Compiler:
    rows: Mapping[str, Rows]
    strategy: Strategy
    functions: Mapping[str, ScalarFunction]
    aggregates: Mapping[str, AggregateFunction]
    parts: list[Part] = field(default_factory=list)
    feeds: dict[Operator, tuple[Part, ...]] = field(default_factory=dict)
    _made: dict[op.Node, Part] = field(default_factory=dict)

    def part(self, node: op.Node) -> Part:
        if isinstance(node, op.Project) and node.only_names:
            return self.part(node.input)
        if node not in self._made:
            self._made[node] = self._source(node) or self._operator(node)
        return self._made[node]

    def _add(self, operator: Operator, *inputs: Part) -> Operator:
        self.parts.append(operator)
        self.feeds[operator] = inputs
        return operator

    # Sources.

    def _source(self, node: op.Node) -> Source | None:
        """A leaf with what is row by row above it."""
        changes: list[RowChange] = []
        while isinstance(node, op.Filter | op.Project):
            changes.append(self._change(node))
            node = node.input
        script = self._script(node)
        if script is None:
            return None
        source = Source(_named(node), script, _composed(changes), self.strategy)
        self.parts.append(source)
        return source

    def _script(self, node: op.Node) -> Script | None:
        if isinstance(node, op.OneRow):
            return [Entry((), MIN, MAX)]
        if isinstance(node, op.Scan):
            raw = self._arrivals(node)
            if raw is not None:
                return in_time(raw, TimeWindow(1))
            rows = self._rows(node).rows
            return [Entry(e, ts, te) for e, ts, te, n in rows for _ in range(n) if ts < te]  # type: ignore[misc]
        if isinstance(node, op.Window | Modify):
            raw = self._arrivals(node.input)
            if raw is None:
                return None
            if isinstance(node, Modify):
                return modified(raw, node)
            if isinstance(node.spec, TimeWindow) and node.width == 1:
                return in_time(raw, node.spec)
            if isinstance(node.spec, RowWindow) and node.spec.slide == 1 and node.width == 1:
                return in_rows(raw, node.spec, node.partition_by)
        return None

    def _arrivals(self, node: op.Node) -> list[tuple[Row, int]] | None:
        """The rows of a raw stream by time, then by arrival, filtered and mapped."""
        if isinstance(node, op.Filter | op.Project):
            below, change = self._arrivals(node.input), self._change(node)
            if below is None:
                return None
            made = ((change(row), t) for row, t in below)
            return [(row, t) for row, t in made if row is not None]
        if not isinstance(node, op.Scan) or node.width != 1:
            return None
        rows = self._rows(node)
        return rows.ordered if isinstance(rows, Arrivals) else None

    def _rows(self, scan: op.Scan) -> Rows:
        rows = self.rows[scan.name]
        return by_arrival(rows) if scan.arrival else rows

    # Operators.

    def _operator(self, node: op.Node) -> Operator:
        make = _OPERATORS.get(type(node))
        if make is None:
            raise unsupported(
                f"{title(node)} is not run record by record",
                help="time windows, windows of rows and KEY streams are, with filters, joins, groups and set operations above them",
            )
        return make(self, node)

    def row_by_row(self, node: op.Filter | op.Project) -> Operator:
        return self._add(Map(_named(node), self._change(node), self.strategy), self.part(node.input))

    def union(self, node: op.UnionAll) -> Operator:
        return self._add(Union(_named(node), self.strategy), self.part(node.left), self.part(node.right))

    def counted(self, node: op.Distinct | op.Except | op.Intersect) -> Operator:
        what = type(node).__name__.lower() + (
            " all" if not isinstance(node, op.Distinct) and node.all else ""
        )
        return self._add(Counted(_named(node), what, self.strategy), *(self.part(i) for i in node.inputs))

    def aggregate(self, node: op.Aggregate) -> Operator:
        return self._add(
            Aggregated(_named(node), node, self.aggregates, self.strategy), self.part(node.input)
        )

    def top(self, node: op.TopK) -> Operator:
        return self._add(First(_named(node), node, self.strategy), self.part(node.input))

    def join(self, node: op.Join) -> Operator:
        """Outer joins are the inner one and, padded with NULLs, the rows without a partner."""
        left, right = self.part(node.left), self.part(node.right)
        meeting = self._meeting(node)
        if node.kind in ("semi", "anti"):
            return self._add(
                Partnered(_named(node), meeting, node.kind == "semi", self.strategy), left, right
            )
        tables = frozenset(
            i
            for i, side in enumerate(node.inputs)
            if properties(side).constant and not _reads_table(node.inputs[1 - i])
        )
        found: Operator = self._add(Join(_named(node), meeting, tables, self.strategy), left, right)
        nulls = tuple((None,) * len(side.schema) for side in node.inputs)
        if node.kind in ("left", "full"):
            found = self._padded(node, found, meeting, (left, right), lambda row: row + nulls[1])
        if node.kind in ("right", "full"):
            mirrored = Meeting((meeting.keys[1], meeting.keys[0]), _mirrored(meeting, len(node.right.schema)))
            found = self._padded(node, found, mirrored, (right, left), lambda row: nulls[0] + row)
        return found

    def _padded(
        self,
        node: op.Join,
        pairs: Operator,
        meeting: Meeting,
        inputs: tuple[Part, Part],
        pad: Callable[[Row], Row],
    ) -> Operator:
        alone = self._add(Partnered(f"{_named(node)}, alone", meeting, False, self.strategy), *inputs)
        padded = self._add(Map(f"{_named(node)}, padded", pad, self.strategy), alone)
        return self._add(Union(f"{_named(node)}, both", self.strategy), pairs, padded)

    # Scalar expressions.

    def _change(self, node: op.Filter | op.Project) -> RowChange:
        schema = node.input.schema
        if isinstance(node, op.Filter):
            holds = compile_scalar(node.predicate, schema, self.functions)
            return lambda row: row if holds(row) is True else None
        columns = [compile_scalar(e, schema, self.functions) for e in node.expressions]
        return lambda row: tuple(column(row) for column in columns)

    def _meeting(self, node: op.Join) -> Meeting:
        keys, rest = split_predicate(node, self.functions)
        sides = []
        for side, schema in enumerate((node.left.schema, node.right.schema)):
            parts = [
                (compile_scalar(k.left if side == 0 else k.right, schema, self.functions), k.null_safe)
                for k in keys
            ]
            sides.append(_key_of(parts))
        matches = None if rest is None else _holding(compile_scalar(rest, node.pair_schema, self.functions))
        return Meeting((sides[0], sides[1]), matches)


def _key_of(parts: list[tuple[Callable[[Row], Any], bool]]) -> Callable[[Row], Any]:
    def key(row: Row) -> Any:
        values = tuple(value(row) for value, _ in parts)
        if any(v is None and not null_safe for v, (_, null_safe) in zip(values, parts, strict=True)):
            return None
        return row_key(values)

    return key


def _holding(value: Callable[[Row], Any]) -> Callable[[Row], bool]:
    return lambda row: value(row) is True


def _mirrored(meeting: Meeting, width: int) -> Callable[[Row], bool] | None:
    """The condition for rows whose right part stands first."""
    matches = meeting.matches
    return None if matches is None else lambda row: matches(row[width:] + row[:width])


def _composed(changes: list[RowChange]) -> RowChange:
    def change(row: Row) -> Row | None:
        found: Row | None = row
        for step in reversed(changes):
            if found is None:
                return None
            found = step(found)
        return found

    return change


def _reads_table(plan: op.Node) -> bool:
    """Whether rows may come from the beginning of time on, when tables are not all read yet."""
    return any(properties(leaf).constant for leaf in plan.walk() if not leaf.inputs)


def _named(node: op.Node) -> str:
    return f"{title(node)} {details(node)}".strip()


_OPERATORS: Mapping[type[op.Node], Callable[[_Compiler, Any], Operator]] = {
    op.Filter: _Compiler.row_by_row,
    op.Project: _Compiler.row_by_row,
    op.UnionAll: _Compiler.union,
    op.Distinct: _Compiler.counted,
    op.Except: _Compiler.counted,
    op.Intersect: _Compiler.counted,
    op.Join: _Compiler.join,
    op.Aggregate: _Compiler.aggregate,
    op.TopK: _Compiler.top,
}
