"""What modify streams, synchronization and NOW mean, for the reference: definitions, not algorithms."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from heapq import merge
from itertools import takewhile
from math import gcd
from typing import TYPE_CHECKING

from tidegate import time
from tidegate.algebra import operators as op
from tidegate.algebra.modify import (
    Anomaly,
    Clock,
    Modify,
    Restrict,
    Since,
    Sync,
    point_column,
    replay,
    width_of,
)
from tidegate.algebra.now import bounds
from tidegate.algebra.points import Points, points_of
from tidegate.errors import Diagnostic, internal
from tidegate.reference.aggregates import Bag
from tidegate.types import Row, Value

if TYPE_CHECKING:
    from tidegate.reference.snapshots import Arrivals, Reference

_LONG_AGO, _FAR_AWAY = (time.to_ticks(datetime(year, 1, 1)) for year in (2, 9998))

LIMIT = 100_000
"""How many candidates are tried to find a point."""


def modify(self: Reference, node: Modify, t: int) -> Bag:
    """The rows left by all operations with a time up to t."""
    rows = _raw(self, node).between(time.MIN, t)
    if node.key is None:
        return Counter(e for e, _ in rows)
    last: Iterable[tuple[Value, ...]] = ()
    for _, _, current, _ in replay(node, rows):
        last = current.values()
    return Counter(last)


def anomalies(self: Reference, node: Modify) -> list[Anomaly]:
    """The rows that contradict those before them, in order."""
    if node.key is None:
        return []
    return [a for _, _, _, a in replay(node, _raw(self, node).ordered) if a is not None]


def _raw(self: Reference, node: Modify) -> Arrivals:
    rows = self.arrivals(node.input)
    if rows is None:
        raise internal("a modify stream must stand on a raw stream")
    return rows


def clock(self: Reference, node: Clock, t: int) -> Bag:
    """{t} where the step divides t"""
    return Counter({(_moment(t, node.timestamps),): 1}) if t % node.step == 0 else Counter()


def sync(self: Reference, node: Sync, t: int) -> Bag:
    """S(p), p the latest point up to t; all batches of an instant that is a point are points"""
    width = width_of(node.points)
    now = t // width
    p = next((c for c in candidates(self, node.points, now, -1) if is_point(self, node.points, c)), None)
    return Counter() if p is None else self.snapshot(node.input, min(t, p * width + width - 1))


def restrict(self: Reference, node: Restrict, t: int) -> Bag:
    """{e | p(e, t)}, or p(e, u) with u the latest point up to t"""
    holds = self.compiled(node.predicate, node.predicate_schema)
    instant = t // node.width
    if node.points:
        latest = Points(node.points).latest_tick(instant)
        if latest is None:
            return Counter()
        instant = latest
    now = _moment(instant, node.timestamps)
    return Counter({e: n for e, n in self.snapshot(node.input, t).items() if holds((*e, now)) is True})


def since(self: Reference, node: Since, t: int) -> Bag:
    """{(e, u)}: u is when e came; the first of equal rows to come is the first to go"""
    there: dict[Row, deque[int]] = {}
    before: Bag = Counter()
    for p in takewhile(lambda p: p <= t, self.change_points(node.input)):
        now = self.snapshot(node.input, p)
        for e, n in (now - before).items():
            there.setdefault(e, deque()).extend([p] * n)
        for e, n in (before - now).items():
            for _ in range(n):
                there[e].popleft()
        before = now
    return Counter((*e, None if p == time.MIN else _moment(p // node.width, node.timestamps))
                   for e, all_ in there.items() for p in all_)  # fmt: skip


def is_point(self: Reference, points: op.Node, p: int) -> bool:
    """Whether the snapshot at p has a row that says p."""
    column = point_column(points)
    return any(_ticks(e[column]) == p for e in self.snapshot(points, p))


def candidates(self: Reference, points: op.Node, t: int, direction: int) -> Iterator[int]:
    """The instants that may be points, from t on, forwards (1) or backwards (-1): ticks and what events change."""
    steps, instants = _sources(self, points)
    events = sorted({p for p in instants if (p >= t if direction > 0 else p <= t)}, reverse=direction < 0)
    ticks: Iterator[int] = iter(())
    classes = points_of(points).ticks if steps else ()
    if classes:
        # their bounds only say where to stop looking
        step, low, high = gcd(*steps), min(c.first for c in classes), max(c.last for c in classes)
        first = time.next_multiple(max(t, low), step) if direction > 0 else min(t, high) // step * step
        every = (first + direction * k * step for k in range(LIMIT + 1))
        ticks = takewhile(lambda p: low <= p <= high, every)
    for k, p in enumerate(merge(events, ticks, reverse=direction < 0)):
        if k >= LIMIT:
            raise Diagnostic("SYNC_POINTS_RARE", f"{LIMIT:,} instants from {t} on are no points")
        yield p


def _sources(self: Reference, points: op.Node) -> tuple[list[int], set[int]]:
    """The steps of the clocks in a plan of points, and the instants that its other parts name or change at."""
    if isinstance(points, Clock):
        return [points.step], set()
    if not any(isinstance(n, Clock) for n in points.walk()):
        changes = self.change_points(points)
        column = _column_or_none(points)
        said = set() if column is None else {
            _ticks(e[column]) for p in changes for e in self.snapshot(points, p) if e[column] is not None
        }  # fmt: skip
        return [], {*changes, *said}
    parts = [_sources(self, n) for n in points.inputs]
    return [s for steps, _ in parts for s in steps], {p for _, instants in parts for p in instants}


def _column_or_none(points: op.Node) -> int | None:
    try:
        return point_column(points)
    except Diagnostic:
        return None


def changes(self: Reference, plan: op.Node) -> set[int]:
    """Where the snapshots of these operators may change."""
    if isinstance(plan, Modify):
        return set(_raw(self, plan).times)
    if isinstance(plan, Sync):
        found = set()
        for at in self.change_points(plan.input):
            if at == time.MIN:
                found |= {at, *_first(self, plan.points, min(_sources(self, plan.points)[1], default=0))}
            else:
                width = width_of(plan.points)
                found.update(max(at, p * width) for p in _first(self, plan.points, at // width))
        return found
    if isinstance(plan, Since):
        return set(self.change_points(plan.input))
    if isinstance(plan, Restrict):
        return {*self.change_points(plan.input), *_limits(self, plan)}
    raise Diagnostic(
        "CLOCK_WITHOUT_END",
        "a clock changes at every tick, without end",
        help="use it after SYNC BY, or say NOW in a condition",
    )


def _first(self: Reference, points: op.Node, at: int) -> list[int]:
    found = next((p for p in candidates(self, points, at, 1) if is_point(self, points, p)), None)
    return [] if found is None else [found]


def _limits(self: Reference, node: Restrict) -> Iterator[int]:
    for bound in bounds(node.predicate, len(node.input.schema)):
        value = self.compiled(bound.expression, node.input.schema)
        rows = {e for at in self.change_points(node.input) for e in self.snapshot(node.input, at)}
        for e in rows:
            said = value(e)
            if said is not None:
                ends = [p for p in bound.interval(_ticks(said)) if p is not None]
                moved = [Points(node.points).next_tick(p) if node.points else p for p in ends]
                yield from (time.widened(p, node.width) for p in moved if p is not None)


def _ticks(value: Value) -> int:
    return time.to_ticks(value) if isinstance(value, datetime) else int(value)


def _moment(t: int, timestamps: bool) -> Value:
    """The instant as a value; those before and after all dates, where tables begin and end, as a date far away."""
    return time.to_datetime(min(max(t, _LONG_AGO), _FAR_AWAY)) if timestamps else t


MEANINGS: dict[type[op.Node], Callable[..., Bag]] = {
    Modify: modify,
    Clock: clock,
    Sync: sync,
    Restrict: restrict,
    Since: since,
}
