"""Quality ranges (SPEC section 4; PIPES section 5 of the overview): windows whose size and granule the runtime may choose.

A range is part of what a query means, and so of the identity of its operators; the value in force is not. Values are step functions of
application time, which are recorded:

    a row of time s is valid in [s, s + w(s)), both ends moved up to the next multiple of g(s)

The time of the row alone decides, so a change from an instant T on touches no row of before T, and one query with the functions w and g
has the same answer however often they have changed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tidegate.time import MIN, period


@dataclass(frozen=True)
class Steps:
    """A step function of time: `first`, and from each instant of `changes` on another value.

    >>> Steps(60, ((100, 20), (300, 40))).at(99), Steps(60, ((100, 20), (300, 40))).at(100)
    (60, 20)
    """

    first: int
    changes: tuple[tuple[int, int], ...] = ()

    def at(self, instant: int) -> int:
        """The value in force at an instant."""
        passed = bisect_right([at for at, _ in self.changes], instant)
        return self.changes[passed - 1][1] if passed else self.first

    def changed(self, since: int, value: int) -> Steps:
        """The function that has a value from an instant on, and before it is as it was.

        >>> Steps(60).changed(5, 20).changed(9, 30).changed(7, 20)
        Steps(first=60, changes=((5, 20),))
        """
        if since == MIN:
            return Steps(value)
        before = Steps(self.first, tuple(c for c in self.changes if c[0] < since))
        return before if before.at(since) == value else Steps(self.first, (*before.changes, (since, value)))

    def since(self, instant: int) -> Steps:
        """The same from an instant on; before it, nobody asks.

        >>> Steps(60, ((100, 20), (300, 40))).since(200)
        Steps(first=20, changes=((300, 40),))
        """
        return Steps(self.at(instant), tuple(c for c in self.changes if c[0] > instant))


Kind = Literal["RANGE", "GRANULARITY"]


@dataclass(frozen=True)
class Knob:
    """What the runtime may choose about windows over a stream: their size or their granule, between two values (ticks, or instants of batches).

    Windows over one stream that give the same range have one knob, of whichever queries they are.

    >>> Knob("Bid", "RANGE", 600_000_000, 3_600_000_000, timestamps=True).name
    'Bid RANGE BETWEEN 10 MINUTES AND 1 HOUR'
    """

    stream: str
    kind: Kind
    lowest: int
    highest: int
    priority: int = 1
    """How much its quality counts beside that of others."""
    timestamps: bool = False

    @property
    def name(self) -> str:
        """What it is called in settings, manifests and tables: no other knob has this name."""
        low, high = (period(n, self.timestamps) for n in (self.lowest, self.highest))
        weight = f" PRIORITY {self.priority}" if self.priority != 1 else ""
        return f"{self.stream} {self.kind} BETWEEN {low} AND {high}{weight}"

    @property
    def best(self) -> int:
        """The value of the best quality, in force until another is chosen: the largest window, the finest granule."""
        return self.highest if self.kind == "RANGE" else self.lowest

    @property
    def worst(self) -> int:
        return self.lowest if self.kind == "RANGE" else self.highest

    def allows(self, value: int) -> bool:
        return self.lowest <= value <= self.highest

    def steps(self, settings: Settings) -> Steps:
        """What was in force when: the best quality, where nothing is recorded."""
        return settings.get(self.name) or Steps(self.best)


Settings = Mapping[str, Steps]
"""The values in force, by the names of knobs; of a knob that is not there, the best."""


@dataclass(frozen=True)
class RangedWindow:
    """`RANGE BETWEEN a AND b [SLIDE slide] [GRANULARITY BETWEEN g AND h]` over a raw stream.

    (e, s) is valid in [s, s + w(s)), both ends moved up to the next origin + k * slide, then to the next multiple of g(s). At least one of
    size and granule is a knob; a size None is UNBOUNDED, a granule None moves nothing.

    >>> window = RangedWindow(Knob("S", "RANGE", 5, 60), Knob("S", "GRANULARITY", 1, 10))
    >>> window.smallest, window.largest, window.coarsest
    (5, 60, 10)
    """

    size: int | Knob | None
    granule: Knob | None = None
    slide: int = 1
    origin: int = 0

    @property
    def knobs(self) -> tuple[Knob, ...]:
        return tuple(k for k in (self.size, self.granule) if isinstance(k, Knob))

    @property
    def largest(self) -> int | None:
        """The largest size that may be chosen."""
        return self.size.highest if isinstance(self.size, Knob) else self.size

    @property
    def smallest(self) -> int | None:
        return self.size.lowest if isinstance(self.size, Knob) else self.size

    @property
    def coarsest(self) -> int:
        """The coarsest granule that may be chosen."""
        return 1 if self.granule is None else self.granule.highest
