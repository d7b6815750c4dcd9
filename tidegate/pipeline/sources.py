"""Where rows enter: a stream's scan with its window and what is row by row above it, as one operator (SSCAN and EXPIRE of the paper).

A script says for each row when it begins and, where the window knows it, when it is over. Conditions are merged into it, so that rows which do not
qualify are neither kept nor expired (section 5.2).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from tidegate.algebra.modify import Modify, replay
from tidegate.algebra.windows import RowWindow, TimeWindow
from tidegate.pipeline.elements import Element, Kind, Strategy
from tidegate.time import MAX, next_multiple
from tidegate.types import Row


class Entry(NamedTuple):
    """A row with what is known of it when it begins; `taken_back`: an earlier entry of the same row is over before its time."""

    row: Row
    ts: int
    ets: int
    taken_back: bool = False


Script = list[Entry]


def in_time(rows: Iterable[tuple[Row, int]], window: TimeWindow) -> Script:
    """`(e, t)` is valid in [t, t + size), both ends moved up to a multiple of the slide.

    >>> in_time([(("a",), 7)], TimeWindow(10, 5))
    [Entry(row=('a',), ts=10, ets=20, taken_back=False)]
    """
    found = []
    for row, t in rows:
        begins = next_multiple(t, window.slide, window.origin)
        ends = MAX if window.size is None else next_multiple(t + window.size, window.slide, window.origin)
        if begins < ends:
            found.append(Entry(row, begins, ends))
    return found


def in_rows(rows: Iterable[tuple[Row, int]], window: RowWindow, partition_by: Sequence[int]) -> Script:
    """The last rows of each partition: a row that comes takes the oldest one back."""
    assert window.slide == 1
    shown: dict[Row, deque[Row]] = {}
    found = []
    for row, t in rows:
        part = shown.setdefault(tuple(row[i] for i in partition_by), deque())
        part.append(row)
        found.append(Entry(row, t, MAX))
        if window.size is not None and len(part) > window.size:
            found.append(Entry(part.popleft(), t, MAX, taken_back=True))
    return found


def modified(rows: Sequence[tuple[Row, int]], node: Modify) -> Script:
    """The relation of a modify stream: a row stays until its key is updated or deleted."""
    if node.key is None:
        return [Entry(row, t, MAX) for row, t in rows]
    found: Script = []
    before: dict[Row, Row | None] = {}
    for row, t, current, _ in replay(node, rows):
        key = tuple(row[i] for i in node.key)
        old, new = before.get(key), current.get(key)
        if old is not new:
            found += [] if old is None else [Entry(old, t, MAX, taken_back=True)]
            found += [] if new is None else [Entry(new, t, MAX)]
            before |= {key: new}
    return found


class Source:
    """Plays a script as time passes. State: the rows that are not over, where each has to be followed by a negative tuple."""

    def __init__(
        self, name: str, script: Script, change: Callable[[Row], Row | None], strategy: Strategy
    ) -> None:
        self.name = name
        self._strategy = strategy
        changed = ((change(entry.row), entry) for entry in script)
        entries = (entry._replace(row=row) for row, entry in changed if row is not None)
        self._entries = deque(sorted(entries, key=lambda entry: entry.ts))
        self.takes_back = any(entry.taken_back for entry in self._entries)
        self._over: list[tuple[int, int, Row]] = []
        self._number = 0

    @property
    def next_time(self) -> int:
        """When it will say something again: MAX where it has said all."""
        first = self._entries[0].ts if self._entries else MAX
        return min(first, self._over[0][0]) if self._over else first

    def upto(self, now: int) -> Iterator[Element]:
        """All that is to be said up to an instant, in the order of time; of one instant, what is over first."""
        while self.next_time <= now:
            if self._over and (not self._entries or self._over[0][0] <= self._entries[0].ts):
                at, _, row = heappop(self._over)
                yield Element(Kind.EXPIRED, row, at, at)
                continue
            entry = self._entries.popleft()
            yield Element(Kind.INVALID if entry.taken_back else Kind.POSITIVE, entry.row, entry.ts, entry.ets)
            if not self._strategy.by_input and entry.ets != MAX:
                self._number += 1
                heappush(self._over, (entry.ets, self._number, entry.row))
