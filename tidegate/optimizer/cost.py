"""What a plan is expected to cost: memory, and work per tick of application time, summed over its operators (PIPES, cost model).

    cost(plan) = sum of cost(operator) over its operators, each counted once however often it is used

The table `TRANSFER` says which formula of `formulas` holds for which operator. Estimates never decide what is answered, only how.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from tidegate.algebra import operators as op
from tidegate.algebra.modify import Clock, Modify, Restrict, Since, Sync
from tidegate.algebra.windows import TimeWindow
from tidegate.optimizer import formulas as f
from tidegate.optimizer.formulas import Estimate, Setting
from tidegate.optimizer.prices import Prices, prices
from tidegate.optimizer.selectivity import described
from tidegate.optimizer.statistics import ColumnStatistics, Statistics, assumed, columns_of, horizon_of
from tidegate.optimizer.window_formulas import expired, windowed
from tidegate.scalars.expressions import conjoin, conjuncts, references, shift

BYTES = 1e-11
"""By which part a kept byte makes work dearer: of two plans with about equal work, the smaller one is better."""


@dataclass(frozen=True)
class Cost:
    """Bytes that are kept, and seconds of work per tick.

    >>> Cost(100, 2e-3) + Cost(20, 1e-3) == Cost(120, 3e-3)
    True
    """

    memory: float
    work: float

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.memory + other.memory, self.work + other.work)

    def __lt__(self, other: Cost) -> bool:
        return self.weight < other.weight

    @property
    def weight(self) -> float:
        """One number by which plans are compared."""
        return self.work * (1.0 + self.memory * BYTES)


@dataclass(frozen=True)
class Costs:
    """What estimates rest on. `epoch`: its length in ticks; None: as long as the streams last, as in a recorded run."""

    statistics: Statistics
    prices: Prices | None = None
    epoch: float | None = None
    partitions: float = 1.0

    @property
    def without_steps(self) -> Costs:
        """The same, but steps cost nothing: what is left is the price of rows."""
        known = prices() if self.prices is None else self.prices
        return replace(self, prices={name: replace(p, step=0.0) for name, p in known.items()})

    def setting(self, plan: op.Node) -> Setting:
        return self.setting_of([n for n in plan.walk() if isinstance(n, op.Scan)])

    def setting_of(self, scans: Sequence[op.Scan]) -> Setting:
        horizon = horizon_of(self.statistics, scans)
        epoch = horizon if self.epoch is None else min(self.epoch, horizon)
        return Setting(prices() if self.prices is None else self.prices, horizon, epoch, self.partitions)


def estimates(plan: op.Node, on: Statistics | Costs) -> dict[op.Node, Estimate]:
    """What is expected of every operator of a plan.

    >>> from tidegate.types import INT, Field
    >>> from tidegate.optimizer.statistics import SourceStatistics
    >>> scan = op.Scan("S", (Field("a", INT),))
    >>> plan = op.Window(scan, TimeWindow(60))
    >>> found = estimates(plan, {"S": SourceStatistics(2.0, 1e9, 5e8)})[plan]
    >>> found.rate, round(found.validity), round(found.standing)
    (2.0, 60, 120)
    """
    costs = on if isinstance(on, Costs) else Costs(on)
    setting = costs.setting(plan)
    found: dict[op.Node, Estimate] = {}
    for node in plan.walk():
        if node not in found:
            found[node] = estimate(node, [found[i] for i in node.inputs], setting, costs.statistics)
    return found


def estimate(node: op.Node, inputs: list[Estimate], setting: Setting, statistics: Statistics) -> Estimate:
    """What is expected of an operator, given that of its inputs."""
    if isinstance(node, op.Scan):
        return scanned(setting, node, statistics)
    return TRANSFER[type(node)](setting, node, *inputs)


def cost(plan: op.Node, on: Statistics | Costs) -> Cost:
    """Memory and work of a plan; what it uses twice is counted once."""
    return summed(estimates(plan, on).values())


def summed(every: Iterable[Estimate]) -> Cost:
    """The cost of some operators."""
    total = Cost(0.0, 0.0)
    for found in every:
        total += Cost(found.memory_bytes, found.work_seconds)
    return total


# leaves ----------------------------------------------------------------------------------------------------------------


def scanned(on: Setting, node: op.Scan, statistics: Statistics) -> Estimate:
    """Instants of a raw stream, rows that bring their ends, or a table, which is there from the beginning."""
    source = statistics.get(node.name) or assumed(node)
    columns = columns_of(node, source)
    timed = bool(node.fields) and node.fields[-1].hidden
    if node.relation and not timed:
        return on.made("Source", [], 0.0, source.rows, columns)
    validity = source.validity if node.relation else 1.0
    return on.made("Source", [], source.rate, source.rate * on.lasting(validity), columns)


def _one_row(on: Setting, node: op.OneRow) -> Estimate:
    return on.made("OneRow", [], 0.0, 1.0, ())


def _clock(on: Setting, node: Clock) -> Estimate:
    """A tick every so often; nobody runs it."""
    rate = 1.0 / (node.step * node.width)
    column = ColumnStatistics(max(1.0, on.horizon * rate))
    return Estimate(rate, 1.0, rate, (column,))


# operators -------------------------------------------------------------------------------------------------------------


def _window(on: Setting, node: op.Window, input: Estimate) -> Estimate:
    raw = is_raw(node.input)
    if (
        isinstance(node.spec, TimeWindow)
        and node.spec.is_now
        and (raw or node.granularity == 1)
        and node.width == 1
    ):
        return replace(input, memory_rows=0.0, memory_bytes=0.0, work_seconds=0.0)
    found = windowed(on, input, node.spec, node.partition_by, None if raw else node.granularity, node.width)
    return together(expired(on, found), found) if node.told else found


def is_raw(node: op.Node) -> bool:
    """Whether rows are those of a raw stream, filtered or mapped."""
    while isinstance(node, op.Filter | op.Project):
        node = node.input
    return isinstance(node, op.Scan) and not node.relation


def _join(on: Setting, node: op.Join, left: Estimate, right: Estimate) -> Estimate:
    """As it is lowered: outer joins are the inner one and the rows without a partner; those with one meet their partners' distinct keys."""
    keys, residual = split(node)
    if node.kind in ("semi", "anti"):
        return _partnered(on, node.kind, left, right, keys, residual, mirrored=False)
    parts = [f.paired(on, left, right, keys, residual)]
    if node.kind in ("left", "full"):
        alone = _partnered(on, "anti", left, right, keys, residual, mirrored=False)
        parts.append(_padded(on, alone, alone.columns + _nothing(right.columns)))
    if node.kind in ("right", "full"):
        alone = _partnered(on, "anti", left, right, keys, residual, mirrored=True)
        parts.append(_padded(on, alone, _nothing(left.columns) + alone.columns))
    return parts[0] if len(parts) == 1 else together(f.united(on, parts), *parts)


def _nothing(columns: f.Columns) -> f.Columns:
    return tuple(replace(c, nulls=1.0, distinct=1.0) for c in columns)


def _padded(on: Setting, input: Estimate, columns: f.Columns) -> Estimate:
    return together(f.alike(on, "Columns", input, columns), input)


def split(node: op.Join) -> tuple[list[tuple[exp.Expression, exp.Expression]], exp.Expression | None]:
    """Pairs of expressions over the left and the right side that must be equal, and what remains of the predicate."""
    width = len(node.left.schema)
    keys, rest = [], []
    for part in conjuncts(node.predicate):
        bare = part
        while isinstance(bare, exp.Paren):
            bare = bare.this
        if isinstance(bare, exp.EQ | exp.NullSafeEQ):
            sides = sorted((bare.this, bare.expression), key=lambda e: min(references(e), default=-1))
            a, b = (references(e) for e in sides)
            if a and b and max(a) < width <= min(b):
                keys.append((sides[0], shift(sides[1], -width)))
                continue
        rest.append(part)
    return keys, conjoin(rest)


def _partnered(
    on: Setting,
    kind: str,
    left: Estimate,
    right: Estimate,
    keys: f.Pairs,
    residual: exp.Expression | None,
    mirrored: bool,
) -> Estimate:
    mine, other = (right, left) if mirrored else (left, right)
    own = [(b, a) for a, b in keys] if mirrored else keys
    if residual is not None:
        pairs = f.paired(on, left, right, keys, residual)
        columns = f.alike(on, "Columns", pairs, mine.columns)
        return together(f.partnered(on, mine, columns, kind), pairs, columns)
    projected = f.alike(on, "Project", other, tuple(described(b, other.columns) for _, b in own))
    once = f.distinct(on, projected)
    by_place = [(a, exp.column(f"c{i}")) for i, (a, _) in enumerate(own)]
    pairs = f.paired(on, mine, once, by_place, None)
    met = f.alike(on, "Columns", pairs, mine.columns)
    if kind == "semi":
        return together(met, projected, once, pairs)
    return together(f.subtracted(on, mine, met), projected, once, pairs, met)


def together(found: Estimate, *parts: Estimate) -> Estimate:
    """An operator that is made of several: its rows are the last one's, its cost is that of all."""
    return replace(
        found,
        memory_rows=found.memory_rows + sum(p.memory_rows for p in parts),
        memory_bytes=found.memory_bytes + sum(p.memory_bytes for p in parts),
        work_seconds=found.work_seconds + sum(p.work_seconds for p in parts),
    )


def _project(on: Setting, node: op.Project, input: Estimate) -> Estimate:
    if node.only_names:
        return replace(input, memory_rows=0.0, memory_bytes=0.0, work_seconds=0.0)
    return f.mapped(on, input, node.expressions, node.fields)


def _sync(on: Setting, node: Sync, input: Estimate, points: Estimate) -> Estimate:
    return f.synchronized(on, input, points.rate)


TRANSFER: Mapping[type[op.Node], Callable[..., Estimate]] = {
    op.OneRow: _one_row,
    op.Window: _window,
    op.Filter: lambda on, node, input: f.filtered(on, input, node.predicate),
    op.Project: _project,
    op.UnionAll: lambda on, node, left, right: f.united(on, [left, right]),
    op.Join: _join,
    op.Distinct: lambda on, node, input: f.distinct(on, input),
    op.Except: lambda on, node, left, right: f.without(on, left, right, node.all),
    op.Intersect: lambda on, node, left, right: f.both(on, left, right, node.all),
    op.Aggregate: lambda on, node, input: f.grouped(on, input, node.keys, node.aggregations),
    op.TopK: lambda on, node, input: f.first_rows(on, input, node.partition_by, node.limit + node.offset),
    op.SingleRow: lambda on, node, input: f.single(on, input, node.partition_by),
    op.Istream: lambda on, node, input: f.instants(on, input, "Changes", input.rate),
    op.Dstream: lambda on, node, input: f.instants(on, input, "Changes", input.rate),
    op.Rstream: lambda on, node, input: f.instants(on, input, "Split", input.standing / node.period),
    Modify: lambda on, node, input: f.modified(on, input, node.key),
    Clock: _clock,
    Sync: _sync,
    Restrict: lambda on, node, input: f.restricted(on, input),
    Since: lambda on, node, input: f.since(on, input),
}
"""What each operator makes of its inputs; leaves read the statistics (`scanned`)."""
