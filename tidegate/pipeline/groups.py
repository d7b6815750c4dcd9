"""Operators of class 2 on groups of rows: aggregates and top-k (section 4.6).

A change of a group is told by an invalid tuple with the old value and a positive one with the new value, whatever the strategy.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tidegate.algebra.operators import Aggregate, Aggregation, TopK
from tidegate.pipeline.elements import Element, Kind, Strategy
from tidegate.pipeline.operators import Elements, Kept, Operator, dropped
from tidegate.reference.aggregates import aggregate, order_key, row_key
from tidegate.scalars.functions import AggregateFunction
from tidegate.time import MAX
from tidegate.types import Row, Value

Change = Callable[[Row, int], None]
Read = Callable[[], Value]


class Group:
    """The rows of one group, as far as its aggregates need them.

    Counts and exact sums can be undone by the row that leaves (subtractable); a greatest value needs the values in order; all else is computed from
    the rows by its definition.
    """

    def __init__(self, aggregations: Sequence[Aggregation], user: Mapping[str, AggregateFunction]) -> None:
        self.size = 0
        self._changes: list[Change] = []
        self._reads: list[Read] = []
        self._bag: Counter[Row] | None = None
        for a in aggregations:
            change, read = self._running(a, user)
            self._changes += [] if change is None else [change]
            self._reads.append(read)

    def add(self, row: Row, n: int) -> None:
        self.size += n
        if self._bag is not None:
            self._bag[row] += n
            if not self._bag[row]:
                del self._bag[row]
        for change in self._changes:
            change(row, n)

    @property
    def values(self) -> Row:
        return tuple(read() for read in self._reads)

    def _running(self, a: Aggregation, user: Mapping[str, AggregateFunction]) -> tuple[Change | None, Read]:
        if not a.distinct and a.function == "COUNT":
            return _counting(a)
        if _is_whole_sum(a):
            return _summing(a)
        if a.function in ("MIN", "MAX"):
            return _ordering(a)
        if self._bag is None:
            self._bag = Counter()
        bag = self._bag
        return None, lambda: aggregate(a, bag, user)


def is_subtractable(node: Aggregate) -> bool:
    """Whether a row that leaves is all it takes to undo it, so that no row has to be kept."""
    return all((a.function == "COUNT" and not a.distinct) or _is_whole_sum(a) for a in node.aggregations)


def _is_whole_sum(a: Aggregation) -> bool:
    return a.function == "SUM" and not a.distinct and a.type.name == "BIGINT"


def _counts(a: Aggregation, row: Row) -> bool:
    return (a.where is None or row[a.where] is True) and all(row[i] is not None for i in a.arguments)


def _counting(a: Aggregation) -> tuple[Change, Read]:
    count = 0

    def change(row: Row, n: int) -> None:
        nonlocal count
        count += n * _counts(a, row)

    return change, lambda: count


def _summing(a: Aggregation) -> tuple[Change, Read]:
    """The sum of whole numbers; the definition says what a sum that is too large means."""
    total, count = 0, 0

    def change(row: Row, n: int) -> None:
        nonlocal total, count
        if _counts(a, row):
            total, count = total + n * row[a.arguments[0]], count + n

    def read() -> Value:
        alone = Aggregation(a.function, (0,), a.type, a.name)
        return aggregate(alone, Counter({(total,): 1})) if count else None

    return change, read


def _ordering(a: Aggregation) -> tuple[Change, Read]:
    """The values in order, each as often as it is there."""
    keys: list[Any] = []
    values: dict[Any, tuple[Value, int]] = {}
    place = 0 if a.function == "MIN" else -1

    def change(row: Row, n: int) -> None:
        if not _counts(a, row):
            return
        value = row[a.arguments[0]]
        key = order_key(value)
        known = values.get(key, (value, 0))[1] + n
        if known == n:
            insort(keys, key)
        if known:
            values[key] = value, known
        else:
            del values[key]
            del keys[bisect_left(keys, key)]

    return change, lambda: values[keys[place]][0] if keys else None


class Grouped(Operator):
    """Rows by group; what a group shows is told anew whenever one of its rows comes or goes.

    State: the groups. The rows themselves are kept where nothing but the time tells that they are over; with negative tuples, subtractable aggregates
    keep none.
    """

    def __init__(self, name: str, strategy: Strategy, subtractable: bool = False) -> None:
        super().__init__(name, 1, strategy)
        self._keeps = not (subtractable and strategy is Strategy.NEGATIVE)
        self._kept: dict[Row, list[Kept]] = defaultdict(list)
        self._count = 0
        self.lazy = strategy.by_input

    @property
    def stored(self) -> int:
        return self._count

    def come(self, side: int, element: Element) -> Elements:
        if self._keeps:
            self._kept[element.row].append(self.keep(element))
            self._count += 1
        return self.changed(element.row, 1, element.ts)

    def go(self, side: int, element: Element) -> Elements:
        if self._keeps:
            rows = self._kept[element.row]
            found = dropped(rows, element)
            if not rows:
                del self._kept[element.row]
            if found is None:
                return ()
            self._count -= 1
        return self.changed(element.row, -1, element.ts)

    def over(self, kept: Kept, at: int) -> Elements:
        rows = self._kept[kept.row]
        rows.remove(kept)
        if not rows:
            del self._kept[kept.row]
        self._count -= 1
        return self.changed(kept.row, -1, at)

    def changed(self, row: Row, n: int, at: int) -> Elements:
        raise NotImplementedError


class Aggregated(Grouped):
    """One row per group that is not empty: its keys and its aggregates."""

    def __init__(
        self, name: str, node: Aggregate, user: Mapping[str, AggregateFunction], strategy: Strategy
    ) -> None:
        super().__init__(name, strategy, is_subtractable(node))
        self._node = node
        self._user = user
        self._groups: dict[Row, Group] = {}
        self._shown: dict[Row, Row] = {}

    def changed(self, row: Row, n: int, at: int) -> Elements:
        key = tuple(row[k] for k in self._node.keys)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = Group(self._node.aggregations, self._user)
        group.add(row, n)
        if key in self._shown:
            yield Element(Kind.INVALID, self._shown.pop(key), at)
        if group.size:
            self._shown[key] = key + group.values
            yield Element(Kind.POSITIVE, self._shown[key], at)
        else:
            del self._groups[key]


class First(Grouped):
    """The first rows of each partition in an order; ties by all columns."""

    def __init__(self, name: str, node: TopK, strategy: Strategy) -> None:
        super().__init__(name, strategy)
        self._node = node
        self._rows: dict[Row, Counter[Row]] = defaultdict(Counter)
        self._shown: dict[Row, Counter[Row]] = defaultdict(Counter)

    def changed(self, row: Row, n: int, at: int) -> Elements:
        part = tuple(row[i] for i in self._node.partition_by)
        rows = self._rows[part]
        rows[row] += n
        if not rows[row]:
            del rows[row]
        wanted = Counter(self._first(rows))
        before, self._shown[part] = self._shown[part], wanted
        for gone in (before - wanted).elements():
            yield Element(Kind.INVALID, gone, at, MAX)
        for new in (wanted - before).elements():
            yield Element(Kind.POSITIVE, new, at, MAX)

    def _first(self, rows: Counter[Row]) -> list[Row]:
        ordered = sorted(rows.elements(), key=row_key)
        for key in reversed(self._node.keys):
            ordered.sort(key=lambda r: order_key(r[key.column]), reverse=key.descending)
            ordered.sort(key=lambda r: (r[key.column] is None) != key.nulls_first)
        return ordered[self._node.offset : self._node.offset + self._node.limit]
