"""User-defined aggregates: partial aggregates in a tree, so that an event costs O(log live) merges."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from tidegate.algebra.operators import Aggregation
from tidegate.errors import Diagnostic
from tidegate.kernels.aggregate_sweep import Sweep, Swept
from tidegate.kernels.sweep_groups import Ids
from tidegate.kernels.sweep_ranks import Order
from tidegate.scalars.columns import column_from_values, column_values, dtype
from tidegate.scalars.functions import AggregateFunction
from tidegate.types import Type, Value, normalize

_NOTHING = object()
"""The partial aggregate of no rows."""


class Tree:
    """Partial aggregates of some values, each valid so many times, and of all of them.

    >>> tree = Tree(3, lambda a, b: a + b)
    >>> tree.put(0, 5, 2)
    >>> tree.put(2, 7, 1)
    >>> tree.total
    17
    """

    def __init__(self, size: int, merge: Callable[[Value, Value], Value]) -> None:
        self.size = max(1, size)
        self.merge = merge
        self.nodes: list[Value] = [_NOTHING] * (2 * self.size)

    @property
    def total(self) -> Value:
        return self.nodes[1]

    def put(self, at: int, partial: Value, times: int) -> None:
        """Let the value at a place be valid so many times."""
        i = at + self.size
        self.nodes[i] = self._repeated(partial, times)
        i //= 2
        while i:
            self.nodes[i] = self._joined(self.nodes[2 * i], self.nodes[2 * i + 1])
            i //= 2

    def _joined(self, left: Value, right: Value) -> Value:
        if left is _NOTHING:
            return right
        return left if right is _NOTHING else self.merge(left, right)

    def _repeated(self, partial: Value, times: int) -> Value:
        result = _NOTHING
        while times > 0:
            if times & 1:
                result = self._joined(result, partial)
            times >>= 1
            partial = self.merge(partial, partial) if times else partial
        return result


@dataclass(frozen=True)
class UserDefined:
    """An aggregate by init, merge and evaluate. The value shown is kept: to merge anew may round otherwise."""

    index: int
    aggregation: Aggregation
    function: AggregateFunction
    types: tuple[Type, ...]
    needs_elements: bool = True

    @property
    def accumulators(self) -> Mapping[str, pl.DataType]:
        return {f"a{self.index}_v": dtype(self.aggregation.type)}

    def sweep(self, sweep: Sweep) -> Swept:
        line, arguments = sweep.timeline, self.aggregation.arguments
        orders = tuple(Order(f"c{i}") for i in dict.fromkeys(arguments))
        events, universe = sweep.ranked((), self.aggregation.where, orders, self.aggregation.distinct)
        examples = line.elements[universe.example]
        columns = [column_values(examples[f"c{i}"], t) for i, t in zip(arguments, self.types, strict=True)]
        rows = list(zip(*columns, strict=True)) if columns else [()] * len(universe.example)
        partials = [self._call(self.function.init, *row) for row in rows]
        counts = universe.initial.tolist()
        before = column_values(sweep.before[f"a{self.index}_v"], self.aggregation.type)
        values: list[Value] = [None] * line.points
        last: list[Value] = [None] * line.groups.count
        for g in range(line.groups.count):
            first, end = int(universe.offsets[g]), int(universe.offsets[g + 1])
            tree = Tree(end - first, lambda a, b: self._call(self.function.merge, a, b))
            for r in range(first, end):
                if counts[r] > 0:
                    tree.put(r - first, partials[r], counts[r])
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
                    tree.put(r - first, partials[r], counts[r])
                values[p] = values[p - 1]
                if dirty:
                    values[p] = None if tree.total is _NOTHING else self._shown(tree.total)
                if values[p] is not values[p - 1] and values[p] != values[p - 1]:
                    sweep.changed[p] = True
            last[g] = values[int(line.group_points[g + 1]) - 1]
        type_ = self.aggregation.type

        def shown(points: Ids) -> pl.Series:
            return column_from_values("v", [values[p] for p in np.asarray(points).tolist()], type_)

        return Swept(shown, {f"a{self.index}_v": column_from_values("v", last, type_)})

    def _shown(self, partial: Value) -> Value:
        return normalize(self._call(self.function.evaluate, partial))

    def _call(self, function: Callable[..., Value], *values: Value) -> Value:
        try:
            return function(*values)
        except Diagnostic:
            raise
        except Exception as error:
            raise Diagnostic(
                "USER_FUNCTION_FAILED",
                f"the aggregate function {self.function.name} failed: {type(error).__name__}: {error}",
                help="it is called with every row's values, NULLs (None) included",
            ) from error
