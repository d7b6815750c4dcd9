"""User-defined aggregates: merged anew where a group changes, or, if partial aggregates can be combined, in a tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import polars as pl

from tidegate.algebra.operators import Aggregation
from tidegate.errors import Diagnostic
from tidegate.kernels.aggregate_sweep import Sweep, Swept
from tidegate.kernels.sweep_groups import Ids
from tidegate.kernels.sweep_ranks import Order
from tidegate.scalars.columns import column_from_values, column_values, dtype
from tidegate.scalars.functions import AggregateFunction
from tidegate.types import Row, Type, Value

NOTHING = object()
"""The partial aggregate of no rows."""


class Partial(Protocol):
    """The partial aggregate of some rows in their order, each valid so many times."""

    @property
    def total(self) -> Value: ...

    def put(self, at: int, times: int) -> None:
        """Let the row at a place be valid so many times."""


class Merged:
    """Merges all rows anew: exact for every function, also for one that changes its partial aggregate in place."""

    def __init__(self, function: AggregateFunction, rows: Sequence[Row], times: Sequence[int]) -> None:
        self.function, self.rows, self.times = function, rows, list(times)

    @property
    def total(self) -> Value:
        valid = [(row, n) for row, n in zip(self.rows, self.times, strict=True) if n > 0]
        return self.function.folded(valid) if valid else NOTHING

    def put(self, at: int, times: int) -> None:
        self.times[at] = times


class Tree:
    """Partial aggregates of neighbours, combined pair by pair: a change costs O(log rows).

    >>> from tidegate.types import BIGINT
    >>> add = AggregateFunction("add", int, lambda p, e: p + e, int, BIGINT, combine=lambda p, q: p + q)
    >>> tree = Tree(add, [(5,), (6,), (7,)], [2, 0, 1])
    >>> tree.total
    17
    >>> tree.put(0, 1)
    >>> tree.total
    12
    """

    def __init__(self, function: AggregateFunction, rows: Sequence[Row], times: Sequence[int]) -> None:
        self.function, self.rows = function, rows
        # A power of two: only then are the leaves below a node neighbours, in their order.
        self.size = 1 << (len(rows) - 1).bit_length() if rows else 1
        leaves = [self._repeated(row, n) for row, n in zip(rows, times, strict=True)]
        self.nodes = [NOTHING] * self.size + leaves + [NOTHING] * (self.size - len(leaves))
        for i in range(self.size - 1, 0, -1):
            self.nodes[i] = self._joined(self.nodes[2 * i], self.nodes[2 * i + 1])

    @property
    def total(self) -> Value:
        return self.nodes[1]

    def put(self, at: int, times: int) -> None:
        i = at + self.size
        self.nodes[i] = self._repeated(self.rows[at], times)
        while i > 1:
            i //= 2
            self.nodes[i] = self._joined(self.nodes[2 * i], self.nodes[2 * i + 1])

    def _joined(self, left: Value, right: Value) -> Value:
        if left is NOTHING:
            return right
        return left if right is NOTHING else self.function.combined(left, right)

    def _repeated(self, row: Row, times: int) -> Value:
        result, partial = NOTHING, self.function.folded([(row, 1)]) if times > 0 else NOTHING
        while times > 0:
            if times & 1:
                result = self._joined(result, partial)
            times >>= 1
            partial = self._joined(partial, partial) if times else partial
        return result


@dataclass(frozen=True)
class UserDefined:
    """An aggregate by init, merge and evaluate. The value shown is kept: to combine anew may round otherwise."""

    index: int
    aggregation: Aggregation
    function: AggregateFunction
    types: tuple[Type, ...]
    needs_elements: bool = True

    @property
    def accumulators(self) -> Mapping[str, pl.DataType]:
        return {f"a{self.index}_v": dtype(self.aggregation.type)}

    def sweep(self, sweep: Sweep) -> Swept:
        try:
            values, last = self._swept(sweep)
        except Diagnostic as diagnostic:
            raise diagnostic.at(self.aggregation.span) from diagnostic.__cause__
        type_ = self.aggregation.type

        def shown(points: Ids) -> pl.Series:
            return column_from_values("v", [values[p] for p in np.asarray(points).tolist()], type_)

        return Swept(shown, {f"a{self.index}_v": column_from_values("v", last, type_)})

    def _swept(self, sweep: Sweep) -> tuple[list[Value], list[Value]]:
        """The value at every point of every group, and each group's last one."""
        line, arguments = sweep.timeline, self.aggregation.arguments
        orders = tuple(Order(f"c{i}") for i in dict.fromkeys(arguments))
        events, universe = sweep.ranked((), self.aggregation.where, orders, self.aggregation.distinct)
        examples = line.elements[universe.example]
        columns = [column_values(examples[f"c{i}"], t) for i, t in zip(arguments, self.types, strict=True)]
        rows: list[Row] = list(zip(*columns, strict=True)) if columns else [()] * len(universe.example)
        counts = universe.initial.tolist()
        before = column_values(sweep.before[f"a{self.index}_v"], self.aggregation.type)
        values: list[Value] = [None] * line.points
        last: list[Value] = [None] * line.groups.count
        form = Merged if self.function.combine is None else Tree
        for g in range(line.groups.count):
            first, end = int(universe.offsets[g]), int(universe.offsets[g + 1])
            partial: Partial = form(self.function, rows[first:end], counts[first:end])
            lead = int(line.group_points[g])
            values[lead] = before[g]
            for p in range(lead + 1, int(line.group_points[g + 1])):
                dirty = set()
                for e in events.events[events.offsets[p] : events.offsets[p + 1]].tolist():
                    row = e if e >= 0 else ~e
                    r = int(universe.rank[row])
                    if r >= 0:
                        counts[r] += int(events.n[row]) if e >= 0 else -int(events.n[row])
                        dirty.add(r)
                for r in dirty:
                    partial.put(r - first, counts[r])
                values[p] = self._shown(partial.total) if dirty else values[p - 1]
                if values[p] is not values[p - 1] and values[p] != values[p - 1]:
                    sweep.changed[p] = True
            last[g] = values[int(line.group_points[g + 1]) - 1]
        return values, last

    def _shown(self, partial: Value) -> Value:
        return None if partial is NOTHING else self.function.evaluated(partial)
