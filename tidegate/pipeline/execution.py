"""Runs a pipeline: time passes, sources speak, operators are scheduled, and what reaches the answer is noted with its delay.

Time is stream time. An operator takes as long for an element as `service` says (by default no time at all), so delays and the length of queues are the
same on every machine.
"""

from __future__ import annotations

import time as clock
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush

from tidegate.pipeline.compiling import Part, Pipeline
from tidegate.pipeline.elements import Element, Kind, Strategy
from tidegate.pipeline.holding import Holding
from tidegate.pipeline.operators import Operator
from tidegate.pipeline.scheduling import Fifo, Scheduler
from tidegate.pipeline.sources import Source
from tidegate.reference.snapshots import PhysicalRow
from tidegate.time import MAX, MIN

Service = Callable[[Operator, Element, int], int]
"""Ticks that an operator takes for an element for which it gives so many."""


def at_once(operator: Operator, element: Element, given: int) -> int:
    return 0


@dataclass
class Answer:
    """What has reached the end of the pipeline."""

    elements: list[Element] = field(default_factory=list)
    kinds: Counter[Kind] = field(default_factory=Counter)
    delays: list[tuple[int, int]] = field(default_factory=list)
    """For each change of the answer, the instant that it is of, and how much later it was known."""
    _open: list[int] = field(default_factory=list)

    def take(self, element: Element, now: int, strategy: Strategy, flushed: bool) -> None:
        self.elements.append(element)
        self.kinds[element.kind] += 1
        if flushed:
            return
        tells = strategy.by_input or element.since is not None or element.tells_time_only
        while tells and self._open and self._open[0] <= element.ts:
            at = heappop(self._open)
            self.delays.append((at, now - at))
        if element.kind is Kind.POSITIVE:
            self.delays.append((element.ts, now - element.ts))
            if element.ets != MAX:
                heappush(self._open, element.ets)
        elif not element.tells_time_only:
            self.delays.append((element.ts, now - element.ts))

    def rows(self) -> list[PhysicalRow]:
        """The answer as signed rows: a row counts until its end, unless it was taken back before."""
        found: list[PhysicalRow] = []
        for e in self.elements:
            if e.kind is Kind.POSITIVE:
                found.append((e.row, e.ts, e.ets, 1))
            elif e.kind is not Kind.MESSAGE and e.ts < e.ets:
                found.append((e.row, e.ts, e.ets, -1))
        return found


@dataclass
class Execution:
    """One run of a pipeline."""

    pipeline: Pipeline
    strategy: Strategy
    scheduler: Scheduler = field(default_factory=Fifo)
    service: Service = at_once
    timed: bool = False
    """Whether the processor time of operators is measured."""

    def __post_init__(self) -> None:
        self.now = MIN
        self.answer = Answer()
        self._flushing = False
        self._flushed: set[Part] = set()
        holds = self.strategy is Strategy.INTERVALS
        self._held = {
            p: Holding()
            for p in self.pipeline.parts
            if holds and (p.takes_back if isinstance(p, Source) else p.lazy)
        }

    def run(self, until: int = MAX) -> Answer:
        """Play all sources, up to an instant; at the end of all, whatever ends is over."""
        while True:
            ready = [o for o in self.pipeline.operators if self._choice(o) is not None]
            upcoming = min((s.next_time for s in self.pipeline.sources), default=MAX)
            more = upcoming < min(until, MAX)
            chosen = self.scheduler.choose(ready, more)
            if chosen is not None:
                self.schedule(chosen)
            elif more:
                self.advance(upcoming)
            elif not ready:
                break
        if until == MAX:
            self._finish()
        return self.answer

    def advance(self, now: int) -> None:
        """Let time pass: sources say what there is to say."""
        self.now = max(self.now, now)
        for source in self.pipeline.sources:
            self._give(source, list(source.upto(self.now)))

    def schedule(self, operator: Operator) -> None:
        """Let an operator take one element."""
        side, element = self._taken(operator)
        began = clock.process_time() if self.timed else 0.0
        found = operator.take(side, element)
        tally = operator.tally
        if self.timed:
            tally.seconds += clock.process_time() - began
        tally.taken[element.kind] += 1
        tally.stored = max(tally.stored, operator.stored)
        takes = self.service(operator, element, len(found))
        if takes:
            self.advance(self.now + takes)
        self._give(operator, found)

    # The order of time over several inputs.

    def _choice(self, operator: Operator) -> int | None:
        """The queue whose head is next; None: there is none, or an earlier one may still come through another queue."""
        found: int | None = None
        for side, queue in enumerate(operator.inputs):
            if len(queue) and (found is None or _order(queue.head) < _order(operator.inputs[found].head)):
                found = side
        if found is None:
            return None
        head, before = operator.inputs[found].head, self._before(operator, found)
        return found if before >= head.ts or (head.since is not None and before > head.since) else None

    def _before(self, operator: Operator, side: int) -> int:
        """Up to when no other input has anything to say."""
        others = (other for other in range(len(operator.inputs)) if other != side)
        return min((self._next(operator, other) for other in others), default=MAX)

    def _next(self, operator: Operator, side: int) -> int:
        queue = operator.inputs[side]
        return queue.head.ts if len(queue) else self._frontier(self.pipeline.feeds[operator][side])

    def _taken(self, operator: Operator) -> tuple[int, Element]:
        """The next element. One that tells the time over a span is cut where another input has something to say before."""
        side = self._choice(operator)
        assert side is not None
        head, before = operator.inputs[side].head, self._before(operator, side)
        if head.since is not None and before < head.ts:
            first = Element(Kind.MESSAGE, (), before, since=head.since)
            head.since = before
            return side, first
        return side, operator.inputs[side].take()

    def _frontier(self, part: Part) -> int:
        """No element that a part will still give is of an earlier instant."""
        if part in self._flushed:
            return MAX
        held = self._held[part].first if part in self._held else MAX
        if isinstance(part, Source):
            return min(held, MAX if part.next_time == MAX else self.now + 1)
        low = held
        for side, below in enumerate(self.pipeline.feeds[part]):
            queue = part.inputs[side]
            low = min(low, queue.head.time if len(queue) else self._frontier(below))
        return min(low, part.clock + 1) if part.lazy else low

    # What is given.

    def _give(self, part: Part, found: list[Element]) -> None:
        if part in self._held:
            held = self._held[part]
            time = self.now if isinstance(part, Source) else part.clock
            found = [*held.through(found), *held.upto(time)]
        self._pass(part, found)

    def _pass(self, part: Part, found: list[Element]) -> None:
        if isinstance(part, Operator):
            part.tally.given.update(e.kind for e in found)
        for element in found:
            for reader, side in self.pipeline.readers[part]:
                reader.inputs[side].put(element)
            if part is self.pipeline.answer:
                self.answer.take(element, self.now, self.strategy, self._flushing)

    def _finish(self) -> None:
        """The streams have ended: one part after the other says what is left, and those above take it."""
        self._flushing = True
        for part in self.pipeline.parts:
            self._give(part, part.finish() if isinstance(part, Operator) else [])
            if part in self._held:
                self._pass(part, self._held[part].finish())
            self._flushed.add(part)
            while ready := [o for o in self.pipeline.operators if self._choice(o) is not None]:
                self.schedule(ready[0])


def _order(element: Element) -> tuple[int, bool, int]:
    """Earlier instants first; of one instant, elements that tell a span of time last, the longest at the end."""
    return element.time, element.since is not None, element.ts
