"""Windows as data (SPEC section 4): what part of a stream is seen at an instant.

A window is a value of its own, separate from the operator that applies it, so that every operator
gets its windowed form by standing above a `Window` node (PIPES section 4.2). Sizes and slides are in
ticks of the stream's time domain or in rows; `None` as size stands for UNBOUNDED.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from tidegate.algebra.quality import RangedWindow
from tidegate.algebra.sequences import SessionWindow, WindowSequence

Expiration = Literal["intervals", "negative", "auto"]
"""How it is told that a row has left a window: by its end, by a row of its own, or in whichever way costs less."""

EXPIRATIONS: tuple[Expiration, ...] = get_args(Expiration)


@dataclass(frozen=True)
class TimeWindow:
    """`RANGE size [SLIDE slide]`: (e, t) is valid in [t, t + size), both ends moved up to a multiple of slide.

    With an origin, to the next origin + k * slide.

    >>> TimeWindow(60)
    TimeWindow(size=60, slide=1, origin=0)
    """

    size: int | None
    slide: int = 1
    origin: int = 0

    @property
    def is_now(self) -> bool:
        return self.size == 1 and self.slide == 1


@dataclass(frozen=True)
class RowWindow:
    """`ROWS size [SLIDE slide]`: the last `size` rows, evaluated at every `slide`-th row."""

    size: int | None
    slide: int = 1


@dataclass(frozen=True)
class RowsEveryTime:
    """`ROWS size SLIDE period`: the last `size` rows as of the latest origin + k * period (in ticks)."""

    size: int | None
    period: int
    origin: int = 0


@dataclass(frozen=True)
class TimeEveryRows:
    """`RANGE size SLIDE every ROWS`: rows of the last `size` ticks, as of the latest `every`-th row.

    With t' the time of that row, the window holds all rows with a time in (t' - size, t'].
    """

    size: int | None
    every: int


WindowSpec = (
    TimeWindow | RangedWindow | RowWindow | RowsEveryTime | TimeEveryRows | WindowSequence | SessionWindow
)


def is_temporal(spec: WindowSpec) -> bool:
    """Whether a row's own time decides when it is seen, whatever other rows there are (Astral's full temporal windows)."""
    return isinstance(spec, TimeWindow | RangedWindow) or (
        isinstance(spec, WindowSequence) and not spec.counts_rows
    )
