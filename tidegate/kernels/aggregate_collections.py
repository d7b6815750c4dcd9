"""COLLECT and HISTOGRAM: arrays of all values of a group, in their order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa

from tidegate.algebra.operators import Aggregation
from tidegate.kernels.aggregate_sweep import Sweep, Swept
from tidegate.kernels.sweep_groups import Ids, Ints
from tidegate.kernels.sweep_ranks import Order
from tidegate.scalars.columns import dtype


@dataclass(frozen=True)
class Collection:
    """Of every point where something changes, which values are there and how often: as much as the answer itself holds."""

    aggregation: Aggregation
    needs_elements: bool = True

    @property
    def accumulators(self) -> Mapping[str, pl.DataType]:
        return {}

    def sweep(self, sweep: Sweep) -> Swept:
        (argument,), line = self.aggregation.arguments, sweep.timeline
        order = (Order(f"c{argument}", self.aggregation.parameter == -1),)
        events, universe = sweep.ranked((argument,), self.aggregation.where, order, self.aggregation.distinct)
        values = line.elements[f"c{argument}"][universe.example]
        counts = universe.initial.astype(np.int64)
        held: list[tuple[Ints, Ints]] = [_NOTHING] * line.points
        for g in range(line.groups.count):
            first, end = int(universe.offsets[g]), int(universe.offsets[g + 1])
            lead = int(line.group_points[g])
            held[lead] = _valid(counts, first, end)
            for p in range(lead + 1, int(line.group_points[g + 1])):
                taken = events.events[events.offsets[p] : events.offsets[p + 1]]
                if _moved(counts, taken, events.n, universe.rank):
                    held[p] = _valid(counts, first, end)
                    sweep.changed[p] = True
                else:
                    held[p] = held[p - 1]
        type_ = dtype(self.aggregation.type)
        return Swept(lambda points: self._shown(held, points, values, type_))

    def _shown(
        self, held: list[tuple[Ints, Ints]], points: Ids, values: pl.Series, type_: pl.DataType
    ) -> pl.Series:
        chosen = [held[p] for p in np.asarray(points).tolist()]
        ranks = np.concatenate([r for r, _ in chosen]) if chosen else np.empty(0, np.int64)
        times = np.concatenate([n for _, n in chosen]) if chosen else np.empty(0, np.int64)
        if self.aggregation.function == "HISTOGRAM":
            members = pl.DataFrame({"value": values.gather(pl.Series(ranks)), "count": times}).to_struct()
            sizes = [len(r) for r, _ in chosen]
        else:
            members = values.gather(pl.Series(np.repeat(ranks, times)))
            sizes = [int(n.sum()) for _, n in chosen]
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        lists = pa.LargeListArray.from_arrays(pa.array(offsets), members.to_arrow())
        series = pl.from_arrow(lists)
        assert isinstance(series, pl.Series)
        return series.cast(type_)


_NOTHING = (np.empty(0, np.int64), np.empty(0, np.int64))


def _valid(counts: Ints, first: int, end: int) -> tuple[Ints, Ints]:
    """The ranks of a group that are there, and how often."""
    there = np.flatnonzero(counts[first:end]) + first
    return there, counts[there]


def _moved(counts: Ints, events: Ids, n: Ints, rank: Ids) -> bool:
    """Let the events of a point happen; whether anything is there more or less often than before."""
    if not len(events):
        return False
    rows = np.where(events >= 0, events, ~events)
    times = np.where(events >= 0, n[rows], -n[rows])
    places = rank[rows]
    use = places >= 0
    places, times = places[use], times[use]
    before = counts[places]
    np.add.at(counts, places, times)
    return bool((counts[places] != before).any())
