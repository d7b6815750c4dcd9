"""What each physical operator and exchange is expected to cost: the formulas of the optimizer, kernel by kernel, in one visible table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tidegate.algebra.windows import RowWindow, TimeEveryRows, TimeWindow
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
from tidegate.kernels.rows import Kernel
from tidegate.kernels.rowwise import (
    ColumnsKernel,
    FilterKernel,
    OneRowKernel,
    ProjectKernel,
    SubtractKernel,
    UnionKernel,
)
from tidegate.kernels.sequences import SessionKernel, TimeSequenceKernel, _Sequenced
from tidegate.kernels.streams import ChangesKernel, SinceKernel, SingleRowKernel
from tidegate.kernels.sweep import SweepKernel
from tidegate.kernels.sync import PointsKernel, RestrictKernel, SyncEventsKernel, SyncTicksKernel
from tidegate.kernels.topk import TopKKernel
from tidegate.kernels.windows import RowWindowKernel, TimeEveryRowsKernel
from tidegate.optimizer import formulas as f
from tidegate.optimizer.cost import Cost, Costs, scanned, summed
from tidegate.optimizer.formulas import Estimate, Setting
from tidegate.optimizer.selectivity import described
from tidegate.optimizer.statistics import ColumnStatistics
from tidegate.optimizer.window_formulas import expired, sessions, windowed
from tidegate.physical.identity import Identity
from tidegate.physical.plan import Input, OperatorRows, Plan, SourceRows

Inputs = Sequence[Estimate]
Formula = Callable[[Setting, Any, Inputs], Estimate]


def estimated(
    plan: Plan, costs: Costs, known: Mapping[Identity, Estimate] | None = None
) -> dict[Identity, Estimate]:
    """What is expected of every input and operator of a plan; of some it may be known already."""
    found: dict[Identity, Estimate] = dict(known or {})
    on = setting(plan, costs)
    for id_ in (*plan.inputs, *plan.operators):
        _of(plan, id_, on, costs, found)
    return found


def _of(plan: Plan, id_: Identity, on: Setting, costs: Costs, found: dict[Identity, Estimate]) -> Estimate:
    """What is expected of an input or operator; `found` remembers it."""

    def of(other: Identity) -> Estimate:
        return _of(plan, other, on, costs, found)

    if id_ not in found:
        entry = plan.inputs.get(id_)
        if entry is not None:
            found[id_] = exchanged(on, entry, costs, of)
        else:
            operator = plan.operators[id_]
            found[id_] = of_kernel(on, operator.kernel, [of(i) for i in operator.inputs])
    return found[id_]


@dataclass
class Expectations:
    """What inputs and operators are expected to cost, exchanges included, each estimated once whatever plans it is in.

    What runs already costs nothing more: `added(plan, there) = sum of cost(o) over the inputs and operators of the plan that are not there`.
    """

    costs: Costs
    _found: dict[tuple[float, float], dict[Identity, Estimate]] = field(default_factory=dict)
    """By how long streams and epochs last."""

    def added(self, plan: Plan, there: Sequence[Plan] = ()) -> Cost:
        """The cost of what a plan adds to some others."""
        on = setting(plan, self.costs)
        found = self._found.setdefault((on.horizon, on.epoch), {})
        inputs = (i for i in plan.inputs if not any(i in p.inputs for p in there))
        operators = (o for o in plan.operators if not any(o in p.operators for p in there))
        return summed(_of(plan, id_, on, self.costs, found) for id_ in (*inputs, *operators))


def setting(plan: Plan, costs: Costs) -> Setting:
    origins = (i.origin for i in plan.inputs.values())
    scans = [o.scan for o in origins if isinstance(o, SourceRows) and o.scan is not None]
    return costs.setting_of(scans)


def exchanged(on: Setting, entry: Input, costs: Costs, of: Callable[[Identity], Estimate]) -> Estimate:
    """Rows of a source, read, filtered and mapped, or of an operator; each travels once, or to every partition."""
    origin = entry.origin
    if isinstance(origin, OperatorRows):
        rows = of(origin.operator)
        if origin.expressions is not None:
            rows = replace(rows, columns=tuple(described(e, rows.columns) for e in origin.expressions))
        return _moved(on, entry, rows)
    if origin.scan is None:
        return on.made("OneRow", [], 0.0, 1.0, ())
    read = scanned(on, origin.scan, costs.statistics)
    rows = read
    for predicate in origin.predicates:
        rows = f.filtered(on, rows, predicate)
    made = tuple(described(e, rows.columns) for e in origin.expressions)
    moved = _moved(on, entry, replace(rows, columns=made))
    return replace(moved, work_seconds=moved.work_seconds + read.work_seconds, selectivity=_part(rows, read))


def _part(rows: Estimate, read: Estimate) -> float:
    if read.rate:
        return rows.rate / read.rate
    return rows.standing / read.standing if read.standing else 1.0


def _moved(on: Setting, entry: Input, rows: Estimate) -> Estimate:
    needed = [rows.columns[c] for c in sorted(entry.needed)] if entry.needed else list(rows.columns)
    travelling = replace(rows, columns=tuple(needed))
    times = on.partitions if entry.broadcast else 1.0
    work = f.alike(on, "Exchange", travelling).work_seconds * times
    return replace(rows, memory_rows=0.0, memory_bytes=0.0, work_seconds=work)


def of_kernel(on: Setting, kernel: Kernel, inputs: Inputs) -> Estimate:
    """What is expected of a kernel over inputs of which so much is expected."""
    for kinds, formula in FORMULAS.items():
        if isinstance(kernel, kinds):
            return formula(on, kernel, inputs)
    raise internal(f"nobody says what {type(kernel).__name__} costs")


def _columns(on: Setting, kernel: ColumnsKernel, inputs: Inputs) -> Estimate:
    (rows,) = inputs
    padding = ColumnStatistics(1.0, nulls=1.0)
    return f.alike(
        on, "Columns", rows, tuple(padding if p is None else rows.columns[p] for p in kernel.positions)
    )


def _join(on: Setting, kernel: JoinKernel, inputs: Inputs) -> Estimate:
    left, right = inputs
    return f.paired(on, left, right, [(k.left, k.right) for k in kernel.keys], kernel.residual)


def _sweep(on: Setting, kernel: SweepKernel, inputs: Inputs) -> Estimate:
    name, _, all_ = kernel.operation.partition(" ")
    if name == "except":
        return f.without(on, inputs[0], inputs[1], bool(all_))
    if name == "intersect":
        return f.both(on, inputs[0], inputs[1], bool(all_))
    if name in ("semi", "anti"):
        return f.partnered(on, inputs[0], inputs[1], name)
    return f.distinct(on, inputs[0])


def _time_window(on: Setting, kernel: TimeWindowKernel, inputs: Inputs) -> Estimate:
    return windowed(on, inputs[0], TimeWindow(kernel.size, kernel.slide), (), kernel.chronon, kernel.width)


def _row_window(on: Setting, kernel: RowWindowKernel, inputs: Inputs) -> Estimate:
    spec = RowWindow(kernel.size, kernel.slide)
    return windowed(on, inputs[0], spec, kernel.partition_by, kernel.chronon, kernel.width)


def _time_every_rows(on: Setting, kernel: TimeEveryRowsKernel, inputs: Inputs) -> Estimate:
    spec = TimeEveryRows(kernel.size, kernel.every)
    return windowed(on, inputs[0], spec, kernel.partition_by, kernel.chronon, kernel.width)


def _align(on: Setting, kernel: AlignKernel, inputs: Inputs) -> Estimate:
    (rows,) = inputs
    every = float(kernel.step_ticks * kernel.width)
    rate = min(rows.rate, rows.standing / every)
    held = [(rows.rate * every / 2, rows.row_size + 8)]
    return on.made(
        "Align", inputs, rate, rows.standing, rows.columns, granule=every, changes=rows.changes, kept=held
    )


def _split(on: Setting, kernel: SplitKernel, inputs: Inputs) -> Estimate:
    return f.instants(on, inputs[0], "Split", inputs[0].standing / kernel.chronon)


def _aggregate(on: Setting, kernel: AggregateKernel, inputs: Inputs) -> Estimate:
    looks = "lasting" in kernel.layout
    return f.grouped(on, inputs[0], kernel.node.keys, kernel.node.aggregations, looks)


def _top_k(on: Setting, kernel: TopKKernel, inputs: Inputs) -> Estimate:
    node = kernel.node
    return f.first_rows(on, inputs[0], node.partition_by, node.limit + node.offset)


def _points(on: Setting, kernel: PointsKernel, inputs: Inputs) -> Estimate:
    return f.instants(on, inputs[0], "Points", inputs[0].rate)


def _sync_ticks(on: Setting, kernel: SyncTicksKernel, inputs: Inputs) -> Estimate:
    steps = [1.0 / c.step for c in kernel.ticks]
    return f.synchronized(on, inputs[0], sum(steps))


def _sync_events(on: Setting, kernel: SyncEventsKernel, inputs: Inputs) -> Estimate:
    rates = [i.rate for i in inputs[1:]] + [1.0 / c.step for c in kernel.ticks]
    return f.synchronized(on, inputs[0], sum(rates))


FORMULAS: Mapping[type | tuple[type, ...], Formula] = {
    FilterKernel: lambda on, kernel, inputs: f.filtered(on, inputs[0], kernel.predicate),
    ProjectKernel: lambda on, kernel, inputs: f.mapped(on, inputs[0], kernel.expressions, kernel.fields),
    ColumnsKernel: _columns,
    CoalesceKernel: lambda on, kernel, inputs: f.alike(on, "Columns", inputs[0]),
    UnionKernel: lambda on, kernel, inputs: f.united(on, inputs),
    SubtractKernel: lambda on, kernel, inputs: f.subtracted(on, inputs[0], inputs[1]),
    AlignKernel: _align,
    ExpireKernel: lambda on, kernel, inputs: expired(on, inputs[0]),
    OneRowKernel: lambda on, kernel, inputs: on.made("OneRow", inputs, 0.0, 1.0, ()),
    JoinKernel: _join,
    SweepKernel: _sweep,
    SinceKernel: lambda on, kernel, inputs: f.since(on, inputs[0]),
    SingleRowKernel: lambda on, kernel, inputs: f.single(on, inputs[0], kernel.partition_by),
    TimeWindowKernel: _time_window,
    RangedWindowKernel: lambda on, kernel, inputs: windowed(on, inputs[0], kernel.spec, width=kernel.width),
    SplitKernel: _split,
    (TimeSequenceKernel, _Sequenced): lambda on, kernel, inputs: windowed(
        on, inputs[0], kernel.spec, getattr(kernel, "partition_by", ()), kernel.chronon, kernel.width
    ),
    SessionKernel: lambda on, kernel, inputs: sessions(on, inputs[0], kernel.gap, kernel.partition_by),
    RowWindowKernel: _row_window,
    TimeEveryRowsKernel: _time_every_rows,
    AggregateKernel: _aggregate,
    TopKKernel: _top_k,
    ChangesKernel: lambda on, kernel, inputs: f.instants(on, inputs[0], "Changes", inputs[0].rate),
    InsertsKernel: lambda on, kernel, inputs: f.modified(on, inputs[0], None),
    ModifyKernel: lambda on, kernel, inputs: f.modified(on, inputs[0], kernel.key),
    PointsKernel: _points,
    SyncTicksKernel: _sync_ticks,
    SyncEventsKernel: _sync_events,
    RestrictKernel: lambda on, kernel, inputs: f.restricted(on, inputs[0]),
}
"""Of each kernel, the formula that says what it gives, keeps and costs."""
