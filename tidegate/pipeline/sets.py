"""Operators of class 2 on sets of rows: distinct, intersection, difference, and rows with or without a partner (sections 4.4, 4.5).

What an operator shows of its left rows depends on how many equal ones, or partners, there are; so the end of one row may bring another to light.
A result is told in one of two forms:

- **with its end**, where operators above look at the time themselves: it is one of the left rows, with that row's end, and says nothing when it ends; another
  row may have to take its place (Fig. 3);
- **as changes** otherwise: a result has no end of its own and is followed by a negative tuple.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from tidegate.pipeline.elements import Element, Kind, Strategy
from tidegate.pipeline.operators import Elements, Kept, Meeting, Operator, dropped
from tidegate.time import MAX
from tidegate.types import Row

SHOWN: dict[str, Callable[[int, int], int]] = {
    "distinct": lambda n, m: min(1, n),
    "except": lambda n, m: int(n > 0 and m == 0),
    "except all": lambda n, m: max(0, n - m),
    "intersect": lambda n, m: min(1, n, m),
    "intersect all": min,
}
"""How often a row is shown that is n times on the left and m times on the right."""


class Counted(Operator):
    """Distinct, except and intersect: equal rows are counted. State: the rows of all inputs, and those that are shown."""

    def __init__(self, name: str, what: str, strategy: Strategy) -> None:
        super().__init__(name, 1 if what == "distinct" else 2, strategy)
        self._wanted = SHOWN[what]
        self._kept: tuple[dict[Row, list[Kept]], dict[Row, list[Kept]]] = (
            defaultdict(list),
            defaultdict(list),
        )
        self._shown: dict[Row, list[Kept]] = defaultdict(list)
        self._times: dict[Row, int] = defaultdict(int)
        self._count = 0
        self.lazy = strategy.by_input

    @property
    def stored(self) -> int:
        return self._count

    def come(self, side: int, element: Element) -> Elements:
        self._kept[side][element.row].append(self.keep(element, side))
        self._count += 1
        return self._settled(element.row, element.ts, Kind.INVALID)

    def go(self, side: int, element: Element) -> Elements:
        kept = dropped(self._kept[side][element.row], element)
        if kept is None:
            return
        self._count -= 1
        shown = self._shown[element.row]
        if kept in shown:
            shown.remove(kept)
            yield Element(Kind.INVALID, kept.row, element.ts, kept.ets)
        yield from self._settled(element.row, element.ts, element.kind)

    def over(self, kept: Kept, at: int) -> Elements:
        self._kept[kept.side][kept.row].remove(kept)
        self._count -= 1
        if kept in self._shown[kept.row]:
            self._shown[kept.row].remove(kept)
        return self._settled(kept.row, at, Kind.EXPIRED)

    def _settled(self, row: Row, at: int, cause: Kind) -> Elements:
        """What has to be said so that a row is shown as often as it should be."""
        left, right = (len(side[row]) for side in self._kept)
        wanted = self._wanted(left, right)
        if self.strategy.by_input:
            yield from self._with_ends(row, at, wanted)
        else:
            change = wanted - self._times[row]
            self._times[row] = wanted
            for _ in range(abs(change)):
                yield Element(Kind.POSITIVE if change > 0 else cause, row, at, MAX)
        if not left and not right:
            for table in (*self._kept, self._shown, self._times):
                table.pop(row, None)

    def _with_ends(self, row: Row, at: int, wanted: int) -> Elements:
        shown = self._shown[row]
        hidden = sorted((k for k in self._kept[0][row] if k not in shown), key=lambda k: k.ets)
        while len(shown) < wanted:
            shown.append(hidden.pop())
            yield Element(Kind.POSITIVE, row, at, shown[-1].ets)
        shown.sort(key=lambda k: -k.ets)
        while len(shown) > wanted:
            yield Element(Kind.INVALID, row, at, shown.pop().ets)


class Partnered(Operator):
    """Left rows with (semi) or without (anti) a partner. State: the rows of both inputs, the left ones with how many partners they have."""

    def __init__(self, name: str, meeting: Meeting, semi: bool, strategy: Strategy) -> None:
        super().__init__(name, 2, strategy)
        self._meeting = meeting
        self._semi = semi
        self._buckets: tuple[dict[Any, list[Kept]], dict[Any, list[Kept]]] = (
            defaultdict(list),
            defaultdict(list),
        )
        self._count = 0
        self.lazy = strategy.by_input

    @property
    def stored(self) -> int:
        return self._count

    def _bucket(self, side: int, row: Row) -> list[Kept]:
        # Left rows that meet nothing are kept, too: under a key of their own.
        return self._buckets[side][self._meeting.keys[side](row)]

    def come(self, side: int, element: Element) -> Elements:
        kept = self.keep(element, side)
        self._bucket(side, element.row).append(kept)
        self._count += 1
        if side == 0:
            kept.uses = sum(1 for _ in self._meeting.partners(element.row, 0, self._buckets, self.tally))
            if self._shows(kept):
                yield self._positive(kept, element.ts)
        else:
            yield from self._partners(element.row, element.ts, 1, Kind.INVALID)

    def go(self, side: int, element: Element) -> Elements:
        kept = dropped(self._bucket(side, element.row), element)
        if kept is None:
            return
        self._count -= 1
        if side == 1:
            yield from self._partners(element.row, element.ts, -1, element.kind)
        elif self._shows(kept):
            yield self._negative(kept, element.ts, element.kind)

    def over(self, kept: Kept, at: int) -> Elements:
        self._bucket(kept.side, kept.row).remove(kept)
        self._count -= 1
        if kept.side == 1:
            yield from self._partners(kept.row, at, -1, Kind.EXPIRED)
        elif self._shows(kept) and not self.strategy.by_input:
            yield self._negative(kept, at, Kind.EXPIRED)

    def _partners(self, row: Row, at: int, change: int, cause: Kind) -> Elements:
        """A right row comes or goes: left rows may be shown or hidden."""
        for kept in self._meeting.partners(row, 1, self._buckets, self.tally):
            before = self._shows(kept)
            kept.uses += change
            if self._shows(kept) and not before:
                yield self._positive(kept, at)
            elif before and not self._shows(kept):
                yield self._negative(kept, at, Kind.INVALID if self.strategy.by_input else cause)

    def _shows(self, kept: Kept) -> bool:
        return (kept.uses > 0) == self._semi

    def _positive(self, kept: Kept, at: int) -> Element:
        return Element(Kind.POSITIVE, kept.row, at, kept.ets if self.strategy.by_input else MAX)

    def _negative(self, kept: Kept, at: int, kind: Kind) -> Element:
        if self.strategy.by_input:
            return Element(Kind.INVALID, kept.row, at, kept.ets)
        return Element(kind, kept.row, at, MAX)
