"""Operators of the pipeline: what they have in common, and those of class 1, for which an expired row repeats what it did when it came.

Class 1 (select, map, union, join) can let expired rows pass as messages; class 2 (`sets`, `groups`) has to work on each of them, because something
else may come to light (section 5.1).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any

from tidegate.pipeline.elements import Element, Kind, Strategy
from tidegate.pipeline.queues import Queue
from tidegate.time import MAX, MIN
from tidegate.types import Row

Elements = Iterable[Element]


@dataclass
class Tally:
    """What an operator has done."""

    taken: Counter[Kind] = field(default_factory=Counter)
    given: Counter[Kind] = field(default_factory=Counter)
    probes: int = 0
    """Rows of the other input that a join has looked at."""
    stored: int = 0
    """The most rows that were kept at a time."""
    seconds: float = 0.0


@dataclass(slots=True, eq=False)
class Kept:
    """A row in an operator's state. `uses`: how many results end with it (the reference count of Algorithm 1)."""

    row: Row
    ts: int
    ets: int
    side: int = 0
    uses: int = 0
    gone: bool = False


class Operator:
    """An operator with its input queues. `take` is told one element at a time, in the order of time over all inputs.

    What follows from an element is the same for all strategies: rows that it says are over are handed to `over`, one by one, in the order
    of their ends; then the row itself to `come` or `go`.
    """

    lazy = False
    """Whether rows that end become known only with later input, so that what it gives may be of an earlier instant than what it took."""

    def __init__(self, name: str, inputs: int, strategy: Strategy) -> None:
        self.name = name
        self.strategy = strategy
        self.inputs = [Queue(strategy is Strategy.PIGGYBACK) for _ in range(inputs)]
        self.tally = Tally()
        self.clock = MIN
        self._ends: list[tuple[int, int, Kept]] = []
        self._number = 0
        self._flagged = False

    # One element.

    def take(self, side: int, element: Element) -> list[Element]:
        found: list[Element] = []
        self._flagged = element.since is not None
        if self.strategy.by_input or self._flagged:
            found += self.upto(element.ts)
        self.clock = max(self.clock, element.ts)
        if element.kind is Kind.POSITIVE:
            found += self.come(side, element)
        elif element.kind is Kind.MESSAGE:
            found += self.message(side, element)
        else:
            found += self.go(side, element)
        return self.tagged(element, found)

    def upto(self, now: int) -> list[Element]:
        """All that ends up to an instant is over."""
        found: list[Element] = []
        while self._ends and self._ends[0][0] <= now:
            at, _, kept = heappop(self._ends)
            if not kept.gone:
                kept.gone = True
                found += self.over(kept, at)
        self.clock = max(self.clock, now)
        return found

    def tagged(self, element: Element, found: list[Element]) -> list[Element]:
        """What is given for an element that tells the time: class 1 passes that on."""
        return found

    def message(self, side: int, element: Element) -> Elements:
        """All rows of an input that end at the message's instant are over."""
        return self.upto(element.ts) if element.since is None else ()

    def come(self, side: int, element: Element) -> Elements:
        raise NotImplementedError

    def go(self, side: int, element: Element) -> Elements:
        raise NotImplementedError

    def over(self, kept: Kept, at: int) -> Elements:
        """A row of the state is over, without a tuple of its own."""
        return ()

    def finish(self) -> list[Element]:
        """No more input: all that ends is over."""
        return self.upto(MAX - 1)

    @property
    def stored(self) -> int:
        """How many rows are kept."""
        return 0

    # State with ends.

    def keep(self, element: Element, side: int = 0) -> Kept:
        kept = Kept(element.row, element.ts, element.ets, side)
        if element.ets != MAX and self.strategy is not Strategy.NEGATIVE:
            while self._ends and self._ends[0][2].gone:
                heappop(self._ends)
            self._number += 1
            heappush(self._ends, (element.ets, self._number, kept))
        return kept


def dropped(rows: list[Kept], element: Element) -> Kept | None:
    """Take the row with its end, which an element says is over, out of others."""
    for place, kept in enumerate(rows):
        if kept.ets == element.ets and kept.row == element.row and not kept.gone:
            kept.gone = True
            return rows.pop(place)
    return None


class ClassOne(Operator):
    """Passes on the time that an element tells, with what it gives for it or alone."""

    def tagged(self, element: Element, found: list[Element]) -> list[Element]:
        if element.since is None:
            return found
        if not found:
            return [Element(Kind.MESSAGE, (), element.ts, since=element.since)]
        first = found[0]
        found[0] = Element(first.kind, first.row, first.ts, first.ets, element.since)
        return found

    def message(self, side: int, element: Element) -> Elements:
        return [Element(Kind.MESSAGE, (), element.ts)] if element.since is None else ()


class Map(ClassOne):
    """Select and project, as one: a row becomes another one or, if it does not qualify, none. State: none."""

    def __init__(self, name: str, change: Callable[[Row], Row | None], strategy: Strategy) -> None:
        super().__init__(name, 1, strategy)
        self._change = change

    def come(self, side: int, element: Element) -> Elements:
        row = self._change(element.row)
        return () if row is None else [Element(element.kind, row, element.ts, element.ets)]

    go = come


class Union(ClassOne):
    """Rows of both inputs, in the order of time. State: none."""

    def __init__(self, name: str, strategy: Strategy) -> None:
        super().__init__(name, 2, strategy)

    def come(self, side: int, element: Element) -> Elements:
        return [Element(element.kind, element.row, element.ts, element.ets)]

    go = come


KeyOf = Callable[[Row], Any]
"""What rows meet by, as a value that can be hashed; None: it meets nothing."""


@dataclass(frozen=True)
class Meeting:
    """When two rows meet: by equal keys, and by what remains of the condition."""

    keys: tuple[KeyOf, KeyOf]
    matches: Callable[[Row], bool] | None = None

    def partners(
        self, row: Row, side: int, buckets: Sequence[dict[Any, list[Kept]]], tally: Tally
    ) -> Iterator[Kept]:
        """The rows of the other side that a row of this side meets."""
        key = self.keys[side](row)
        for other in buckets[1 - side].get(key, ()) if key is not None else ():
            tally.probes += 1
            if not other.gone and (
                self.matches is None or self.matches(row + other.row if side == 0 else other.row + row)
            ):
                yield other


class Join(ClassOne):
    """Pairs of rows, valid while both are (section 4.3, Algorithm 1).

    State: the rows of both inputs. Those of a stream that meets a table (`tables`: sides that never change) are not kept: with messages, only the
    ends of those that met something are (the joined tuples table).
    """

    def __init__(self, name: str, meeting: Meeting, tables: frozenset[int], strategy: Strategy) -> None:
        super().__init__(name, 2, strategy)
        self._meeting = meeting
        self._tables = tables
        self._buckets: tuple[dict[Any, list[Kept]], dict[Any, list[Kept]]] = (
            defaultdict(list),
            defaultdict(list),
        )
        self._met: set[int] = set()
        self._last_message = MIN
        self._count = 0

    @property
    def stored(self) -> int:
        return self._count + len(self._met)

    def come(self, side: int, element: Element) -> Elements:
        mine = self._keep(side, element)
        for other in self._meeting.partners(element.row, side, self._buckets, self.tally):
            ends = min(element.ets, other.ets)
            if ends <= element.ts:
                continue
            if other.ets < element.ets:
                other.uses += 1
            elif mine is not None:
                mine.uses += 1
            elif self.strategy.by_message and element.ets != MAX:
                self._met.add(element.ets)
            yield Element(Kind.POSITIVE, _pair(element.row, other.row, side), element.ts, ends)

    def _keep(self, side: int, element: Element) -> Kept | None:
        if (1 - side) in self._tables:
            return None
        key = self._meeting.keys[side](element.row)
        if key is None:
            return None
        kept = self.keep(element, side)
        self._buckets[side][key].append(kept)
        self._count += 1
        return kept

    def go(self, side: int, element: Element) -> Elements:
        mine = self._drop(side, element)
        if element.tells_time_only and self.strategy.by_message:
            if (mine is not None and mine.uses) or element.ts in self._met:
                yield from self._message(element.ts)
            self._met.discard(element.ts)
            return
        if mine is None and (1 - side) not in self._tables:
            return
        began = MIN if mine is None else mine.ts
        for other in self._meeting.partners(element.row, side, self._buckets, self.tally):
            ends = min(element.ets, other.ets)
            if (
                max(began, other.ts) < ends
            ):  # otherwise one ended as the other began, and nothing was said of them
                yield Element(element.kind, _pair(element.row, other.row, side), element.ts, ends)

    def _drop(self, side: int, element: Element) -> Kept | None:
        if (1 - side) in self._tables:
            return None
        key = self._meeting.keys[side](element.row)
        bucket = self._buckets[side].get(key) if key is not None else None
        found = None if bucket is None else dropped(bucket, element)
        if found is not None:
            self._count -= 1
            if not bucket:
                del self._buckets[side][key]
        return found

    def _message(self, at: int) -> Elements:
        """One message for all that ends at an instant."""
        if at > self._last_message:
            self._last_message = at
            yield Element(Kind.MESSAGE, (), at)

    def message(self, side: int, element: Element) -> Elements:
        """Rows that end with the message are forgotten; if any of them had met something, the message goes on."""
        if element.since is not None:
            self._met = {at for at in self._met if at > element.ts}
            return
        before = self._last_message
        yield from self.upto(element.ts)
        if before == self._last_message and element.ts in self._met:
            yield from self._message(element.ts)
        self._met.discard(element.ts)

    def over(self, kept: Kept, at: int) -> Elements:
        key = self._meeting.keys[kept.side](kept.row)
        bucket = self._buckets[kept.side].get(key)
        if bucket is not None and kept in bucket:
            bucket.remove(kept)
            self._count -= 1
            if not bucket:
                del self._buckets[kept.side][key]
        return self._message(at) if kept.uses and self.strategy.by_message and not self._flagged else ()


def _pair(row: Row, other: Row, side: int) -> Row:
    return row + other if side == 0 else other + row
