"""Rows with both ends (PIPES): what an operator says as changes is held until it is known when it is over.

Rows leave in the order of their beginnings, so a row that lasts holds back those that began after it.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from heapq import heappop, heappush

from tidegate.pipeline.elements import Element, Kind
from tidegate.time import MAX
from tidegate.types import Row


class Holding:
    """Turns positive and invalid tuples, in the order of time, into rows with the end that they turned out to have."""

    def __init__(self) -> None:
        self._open: dict[tuple[Row, int], deque[int]] = defaultdict(deque)
        self._ends: list[tuple[int, int, Row]] = []
        self._begun: list[int] = []
        self._done: dict[int, int] = defaultdict(int)
        self._ready: list[tuple[int, int, Row, int]] = []
        self._number = 0
        self.stored = 0

    @property
    def first(self) -> int:
        """When the first row began that is still held; MAX where there is none."""
        while self._begun and self._done[self._begun[0]]:
            self._done[self._begun[0]] -= 1
            heappop(self._begun)
        open_ = self._begun[0] if self._begun else MAX
        return min(open_, self._ready[0][0]) if self._ready else open_

    def through(self, elements: Iterable[Element]) -> list[Element]:
        for element in elements:
            if element.kind is Kind.POSITIVE:
                self._open[element.row, element.ets].append(element.ts)
                heappush(self._begun, element.ts)
                self.stored += 1
                if element.ets != MAX:
                    self._number += 1
                    heappush(self._ends, (element.ets, self._number, element.row))
            elif element.kind is Kind.INVALID:
                self._end(element.row, element.ets, element.ts)
        return self._released()

    def upto(self, now: int) -> list[Element]:
        """Rows whose own end has come are over."""
        while self._ends and self._ends[0][0] <= now:
            ets, _, row = heappop(self._ends)
            if (row, ets) in self._open:
                self._end(row, ets, ets)
        return self._released()

    def finish(self) -> list[Element]:
        """No more input: what has no end lasts."""
        for row, ets in list(self._open):
            while (row, ets) in self._open:
                self._end(row, ets, ets)
        return self._released()

    def _end(self, row: Row, ets: int, at: int) -> None:
        held = self._open[row, ets]
        began = held.popleft()
        if not held:
            del self._open[row, ets]
        self._done[began] += 1
        self.stored -= 1
        if began < at:
            self._number += 1
            heappush(self._ready, (began, self._number, row, at))

    def _released(self) -> list[Element]:
        found = []
        while self._ready and self._ready[0][0] <= self.first:
            began, _, row, at = heappop(self._ready)
            found.append(Element(Kind.POSITIVE, row, began, at))
        return found
