"""The meaning of windows whose size and granule the runtime chooses (SPEC section 4), given what was in force when."""

from __future__ import annotations

from tidegate import time
from tidegate.algebra.quality import Knob, RangedWindow, Settings


def validity(spec: RangedWindow, s: int, settings: Settings) -> tuple[int, int]:
    """[s, s + w(s)), both ends moved up to the next slide and then to the next multiple of g(s): w and g are those in force at s.

    >>> from tidegate.algebra.quality import Steps
    >>> size, granule = Knob("S", "RANGE", 5, 60), Knob("S", "GRANULARITY", 1, 10)
    >>> settings = {size.name: Steps(60, ((8, 5),)), granule.name: Steps(1, ((9, 10),))}
    >>> [validity(RangedWindow(size, granule), s, settings) for s in (7, 8, 9)]
    [(7, 67), (8, 13), (10, 20)]
    """
    size = spec.size.steps(settings).at(s) if isinstance(spec.size, Knob) else spec.size
    granule = 1 if spec.granule is None else spec.granule.steps(settings).at(s)

    def up(t: int) -> int:
        return time.next_multiple(time.next_multiple(t, spec.slide, spec.origin), granule)

    return up(s), time.MAX if size is None else up(time.add(s, size))


def is_shown(spec: RangedWindow, s: int, t: int, settings: Settings) -> bool:
    """Whether a row of time s is seen at t."""
    start, end = validity(spec, s, settings)
    return start <= t < end


def reach(spec: RangedWindow, t: int) -> int:
    """The instant after which rows lie that may be seen at t, whatever is in force."""
    return time.MIN if spec.largest is None else time.add(t, -spec.largest - spec.slide - spec.coarsest)
