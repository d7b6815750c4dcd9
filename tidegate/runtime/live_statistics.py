"""Statistics of what runs, from what was measured in the last epochs: what the cost model takes instead of what was known before.

    rate = sum of (rows in an epoch * its weight) / sum of (ticks that passed in it * its weight)

An epoch's weight halves with every `HALF` epochs that followed, so one odd epoch changes little and a lasting change shows soon. Rates are per tick of
application time; `Flows.ticks_per_second` says how many ticks pass in a second by the clock, so that work per tick becomes work per second.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tidegate.kernels.aggregates import AggregateKernel
from tidegate.kernels.coalescing import CoalesceKernel
from tidegate.kernels.endpoints import AlignKernel, ExpireKernel, TimeWindowKernel
from tidegate.kernels.join import JoinKernel
from tidegate.kernels.rowwise import ColumnsKernel, FilterKernel, ProjectKernel
from tidegate.kernels.windows import Counted
from tidegate.language.catalog import StreamDefinition
from tidegate.optimizer.cost import Costs
from tidegate.optimizer.statistics import (
    SECOND,
    ColumnStatistics,
    SourceStatistics,
    Statistics,
    assumed_column,
    extrapolated,
)
from tidegate.physical.identity import Identity
from tidegate.physical.plan import OperatorRows, Plan
from tidegate.runtime.activities import MeasuredEpoch
from tidegate.runtime.figures import EpochPace, Figures
from tidegate.runtime.source_statistics import is_timed_in_microseconds
from tidegate.scalars.expressions import index_of

LONG = 1e13
"""Ticks that a live stream is taken to last, as far as windows are concerned: four months of microseconds."""

HALF = 4.0
"""After so many epochs, what was measured in one counts half."""


@dataclass(frozen=True)
class Flow:
    """What an input or operator did, per tick of application time, and what it keeps now."""

    taken: float
    """Rows."""
    given: float
    seconds: float
    """Processor time."""
    kept: int
    """Rows in its state."""
    size: int
    """Bytes of them."""
    validity: float | None = None
    """Ticks that a row lasts whose end is known."""
    keys: int = -1
    """About how many keys it has had in an epoch; -1: not known."""

    @property
    def selectivity(self) -> float | None:
        """Rows given for each row taken."""
        return self.given / self.taken if self.taken else None


@dataclass(frozen=True)
class Flows:
    """What was measured of a graph in its last epochs."""

    rates: Mapping[str, float] = field(default_factory=dict)
    """Rows per tick of each stream."""
    operators: Mapping[Identity, Flow] = field(default_factory=dict)
    epoch: float = 1.0
    """Ticks of an epoch."""
    ticks_per_second: float = 0.0
    """Of application time, in a second by the clock."""
    seconds_per_tick: float = 0.0
    """By the clock, that epochs took for a tick of application time."""

    @property
    def known(self) -> bool:
        """Whether time has passed in any epoch."""
        return bool(self.rates)


def flows(figures: Figures, half: float = HALF) -> Flows:
    """What was measured in the last epochs of a graph; nothing before application time has passed in two of them."""
    pairs = list(zip(reversed(figures.epochs), reversed(figures.metrics), strict=False))
    pairs = [(p, m) for p, m in pairs if p.ticks > 0]
    if not pairs:
        return Flows()
    weights = [0.5 ** (age / half) for age in range(len(pairs))]
    ticks = sum(w * p.ticks for w, (p, _) in zip(weights, pairs, strict=True))
    streams = {name for p, _ in pairs for name in p.streams}
    rates = {
        name: sum(w * p.streams.get(name, 0) for w, (p, _) in zip(weights, pairs, strict=True)) / ticks
        for name in sorted(streams)
    }
    busy = sum(w * p.seconds for w, (p, _) in zip(weights, pairs, strict=True))
    return Flows(
        rates,
        _operators(pairs, weights, ticks),
        ticks / sum(weights),
        pace_of([p for p, _ in pairs]),
        busy / ticks,
    )


def pace_of(newest_first: Sequence[EpochPace]) -> float:
    """Ticks of application time in a second by the clock, from the end of the oldest epoch to that of the newest; 0: not known.

    >>> epochs = [EpochPace(8.0, 9.0, 5, {}, 20), EpochPace(3.0, 4.0, 5, {}, 70)]
    >>> pace_of(epochs), pace_of(epochs[:1])
    (4.0, 0.0)
    """
    seconds = newest_first[0].ended - newest_first[-1].ended if newest_first else 0.0
    return sum(e.ticks for e in newest_first[:-1]) / seconds if seconds > 0 else 0.0


def _operators(
    pairs: Sequence[tuple[EpochPace, MeasuredEpoch]], weights: Sequence[float], ticks: float
) -> dict[Identity, Flow]:
    found: dict[Identity, Flow] = {}
    latest = pairs[0][1]
    for id_ in latest.by_id:
        done = [(w, m.by_id[id_]) for w, (_, m) in zip(weights, pairs, strict=True) if id_ in m.by_id]
        closed = sum(w * a.closed for w, a in done)
        found[id_] = Flow(
            sum(w * a.taken for w, a in done) / ticks,
            sum(w * a.given for w, a in done) / ticks,
            sum(w * a.seconds for w, a in done) / ticks,
            done[0][1].kept,
            done[0][1].size,
            sum(w * a.lasting for w, a in done) / closed if closed else None,
            max(a.keys for _, a in done),
        )
    return found


def measured_costs(
    figures: Figures, definitions: Mapping[str, StreamDefinition], known: Statistics | None = None
) -> Costs | None:
    """What estimates of running queries rest on, as it is now: the rates of their streams, and how many values the columns have by which rows meet.

    `known`: what was told of sources otherwise; its columns are used where nothing was measured. None: nothing was measured yet.
    """
    found = flows(figures)
    if not found.known:
        return None
    plan = figures.metrics[-1].physical.plan
    values = values_of_keys(figures.metrics, plan)
    before = known or {}
    statistics: dict[str, SourceStatistics] = {}
    for name in sorted(plan.sources & definitions.keys()):
        definition = definitions[name]
        columns: dict[str, ColumnStatistics] = {c.name: assumed_column(c.type) for c in definition.columns}
        if name in before:
            columns |= before[name].columns
        for column in columns.keys() & values.get(name, {}).keys():
            columns[column] = replace(columns[column], distinct=values[name][column])
        if definition.table:
            rows = _table_rows(figures, plan, name)
            statistics[name] = SourceStatistics(0.0, rows, math.inf, math.inf, columns)
        else:
            rate, rows = found.rates.get(name, 0.0), float(figures.manifest.sources[name].rows)
            validity = before[name].validity if name in before else 1.0
            statistics[name] = SourceStatistics(rate, rows, LONG, validity, columns)
    epoch = found.epoch
    if found.ticks_per_second == 0.0 and is_timed_in_microseconds(definitions):
        epoch = SECOND
    return Costs(statistics, epoch=epoch, partitions=float(max(1, figures.manifest.partitions)))


def running_costs(figures: Figures, definitions: Mapping[str, StreamDefinition]) -> Costs:
    """The same; before anything was measured, what is assumed of streams."""
    return measured_costs(figures, definitions) or Costs({})


def _table_rows(figures: Figures, plan: Plan, name: str) -> float:
    """The rows that were read of a table, by the input that got most of them."""
    done = figures.activities.by_id
    inputs = (
        i for i in plan.inputs.values() if not isinstance(i.origin, OperatorRows) and i.origin.name == name
    )
    return float(max((done[i.id].all_taken for i in inputs if i.id in done), default=0))


def values_of_keys(epochs: Sequence[MeasuredEpoch], plan: Plan) -> dict[str, dict[str, float]]:
    """How many values columns of streams have, as far as operators bring rows together by one of them: stream -> column -> values.

    An epoch shows those of its own rows; from a few rows it is told how many all have (`statistics.extrapolated`).
    """
    found: dict[str, dict[str, float]] = {}
    for id_, stream, column in key_columns(plan):
        every = [epoch.by_id[id_] for epoch in epochs if id_ in epoch.by_id]
        total = float(sum(done.taken for done in every))
        values = [extrapolated(d.keys, d.taken, total) for d in every if d.keys > 0 and d.taken > 0]
        if values:
            mine = found.setdefault(stream, {})
            mine[column] = max(mine.get(column, 1.0), *values)
    return found


def key_columns(plan: Plan) -> Iterator[tuple[Identity, str, str]]:
    """The operators that bring rows together by one column of a stream, with the stream and the column."""
    for operator in plan.operators.values():
        kernel = operator.kernel
        places: list[int | None] = []
        if isinstance(kernel, AggregateKernel) and len(kernel.node.keys) == 1:
            places = [kernel.node.keys[0]]
        elif isinstance(kernel, JoinKernel) and len(kernel.keys) == 1:
            places = [index_of(kernel.keys[0].left), index_of(kernel.keys[0].right)]
        for input_, place in zip(operator.inputs, places, strict=False):
            origin = None if place is None else origin_of(plan, input_, place)
            if origin is not None:
                yield operator.id, *origin


def origin_of(plan: Plan, id_: Identity, column: int) -> tuple[str, str] | None:
    """The stream and its column that a column of an input or operator shows as it is; None: it is made of others."""
    place: int | None
    if (entry := plan.inputs.get(id_)) is not None:
        origin = entry.origin
        if isinstance(origin, OperatorRows):
            place = column if origin.expressions is None else index_of(origin.expressions[column])
            return None if place is None else origin_of(plan, origin.operator, place)
        place = index_of(origin.expressions[column]) if column < len(origin.expressions) else None
        if place is None or origin.scan is None:
            return None
        return origin.scan.name, origin.scan.fields[place].name
    operator = plan.operators[id_]
    kernel, inputs = operator.kernel, operator.inputs
    if isinstance(
        kernel, FilterKernel | CoalesceKernel | TimeWindowKernel | ExpireKernel | AlignKernel | Counted
    ):
        return origin_of(plan, inputs[0], column)
    if isinstance(kernel, ProjectKernel):
        place = index_of(kernel.expressions[column])
        return None if place is None else origin_of(plan, inputs[0], place)
    if isinstance(kernel, ColumnsKernel):
        place = kernel.positions[column]
        return None if place is None else origin_of(plan, inputs[0], place)
    return None
