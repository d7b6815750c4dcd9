"""In which windows of a sequence a row is seen, found once per row instead of once per window.

With bounds that never fall, the windows that hold a row are neighbours: from the first whose upper bound reaches it up to
the first whose lower bound has passed it. Bounds that are (clamped) lines and a constant rate make both of them arithmetic; any
other sequence is tabulated, window by window, as far as the rows reach, and each entry is checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from threading import RLock

import numpy as np
import numpy.typing as npt

from tidegate.algebra.sequences import (
    Formula,
    Line,
    Loop,
    Periodic,
    Varying,
    WindowSequence,
    check_window,
    holds,
    invalid,
)
from tidegate.errors import Diagnostic, Kind
from tidegate.time import MAX

Ints = npt.NDArray[np.int64]

NEVER = MAX
"""The number of a window that does not exist."""

LIMIT = 1_000_000
"""How many windows may be tabulated."""


@lru_cache(maxsize=64)
def timetable(spec: WindowSequence) -> Timetable:
    """The timetable of a sequence; one is enough for all who ask."""
    return Timetable(spec)


@dataclass
class Timetable:
    """Which windows hold a row at x: an instant or a position, as the bounds count.

    State: the tabulated windows of a sequence that is not arithmetic; a cache, rebuilt from nothing.
    """

    spec: WindowSequence
    _lower: list[int] = field(default_factory=list)
    _upper: list[int] = field(default_factory=list)
    _moments: list[int] = field(default_factory=list)
    _ended: bool = False
    _varied: Iterator[tuple[int, int]] | None = None
    _starts: dict[int, tuple[list[int], Iterator[tuple[int, int]]]] = field(default_factory=dict)
    _lock: RLock = field(default_factory=RLock, repr=False)

    @property
    def _lines(self) -> tuple[Line, Line] | None:
        lower, upper = self.spec.lower.line, self.spec.upper.line
        arithmetic = isinstance(self.spec.schedule, Periodic) and lower is not None and upper is not None
        return (lower, upper) if arithmetic else None  # type: ignore[return-value]

    @property
    def _offset(self) -> int:
        return 0 if self.spec.rows else self.spec.origin

    def shown(self, x: Ints) -> Ints:
        """The first window whose upper bound is not below x."""
        if self._lines is not None:
            return _first_above(self._lines[1], x - self._offset - 1)
        self._tabulate(x)
        found = np.searchsorted(np.array(self._upper, np.int64), x, "left")
        return np.where(found < len(self._upper), found, NEVER)

    def gone(self, x: Ints) -> Ints:
        """The first window whose lower bound is above x."""
        if self._lines is not None:
            return _first_above(self._lines[0], x - self._offset)
        self._tabulate(x)
        found = np.searchsorted(np.array(self._lower, np.int64), x, "right")
        return np.where(found < len(self._lower), found, NEVER)

    def moment(self, i: Ints) -> Ints:
        """When window i is shown, as far as no row has a say in it: an instant or a position; MAX for NEVER."""
        schedule = self.spec.schedule
        if isinstance(schedule, Periodic):
            first = self.spec.bounds(0, 0)[1] + schedule.delay
            return _linear(first, schedule.rate, i)
        return self._listed(self._moments, i)

    def moment_from(self, first: Ints, i: Ints) -> Ints:
        """When window i is shown if upper(0) stands for the instant `first`."""
        schedule = self.spec.schedule
        if isinstance(schedule, Periodic):
            return _linear(first + schedule.delay, schedule.rate, i)
        assert isinstance(schedule, Varying)
        result = np.full(len(i), MAX, np.int64)
        for begin in np.unique(first).tolist():
            mine = (first == begin) & (i != NEVER)
            with self._lock:
                if begin not in self._starts:
                    self._starts[begin] = [], schedule.moments(begin + schedule.delay)
                listed, following = self._starts[begin]
                while mine.any() and len(listed) <= int(i[mine].max()):
                    self._refuse_if_too_many(len(listed))
                    listed.append(next(following)[0])
            result[mine] = np.array(listed, np.int64)[i[mine]]
        return result

    def changes(self, places: Sequence[int], first: int | None = None) -> set[int]:
        """The moments at which rows at these places (instants or positions) appear or disappear.

        `first` is what upper(0) stands for, where rows decide that.
        """
        x = np.array(places, np.int64)
        shown, gone = self.shown(x), self.gone(x)
        windows = np.unique(np.concatenate([shown[shown < gone], gone[shown < gone]]))
        if first is None:
            found = self.moment(windows)
        else:
            found = self.moment_from(np.full(len(windows), first, np.int64), windows)
        return set(found[found != MAX].tolist())

    # tabulation -------------------------------------------------------------------------------------------------

    def _tabulate(self, x: Ints) -> None:
        """Enter windows until both bounds have passed every x, or will never change again."""
        if not len(x):
            return
        furthest = int(x.max())
        with self._lock:
            while not self._ended and not (
                self._passed(self.spec.lower, self._lower, furthest + 1)
                and self._passed(self.spec.upper, self._upper, furthest)
            ):
                self._refuse_if_too_many(len(self._upper))
                self._enter()

    def _passed(self, bound: Formula, column: list[int], x: int) -> bool:
        if not column:
            return False
        line = bound.line
        if column[-1] >= x or line is None or line.final_slope:
            return column[-1] >= x
        return len(column) > max(line.corners, default=0)

    def _enter(self) -> None:
        spec, i = self.spec, len(self._upper)
        following = self._next_moment(i)
        if following is None:
            self._ended = True
            return
        moment, now = following
        lower, upper = spec.bounds(i, now)
        schedule = spec.schedule
        uniform = isinstance(schedule, Loop) or spec.rows == (
            isinstance(schedule, Periodic) and schedule.rows
        )
        check_window(spec, i, lower, upper, moment if uniform else None)
        for name, formula, column, value in (
            ("lower", spec.lower, self._lower, lower),
            ("upper", spec.upper, self._upper, upper),
        ):
            if column and value < column[-1]:
                raise invalid(
                    f"the {name} bound falls from {column[-1]} to {value} at window {i}",
                    formula.span,
                    "bounds must not fall, so that a row which has left the window need not be kept",
                )
        self._lower.append(lower)
        self._upper.append(upper)
        self._moments.append(moment)

    def _next_moment(self, i: int) -> tuple[int, int] | None:
        """When window i is shown, and what NOW is in its bounds."""
        spec, schedule = self.spec, self.spec.schedule
        if isinstance(schedule, Periodic):
            # Where the bounds are in the other domain, only rows can tell, and nobody asks here.
            first = spec.bounds(0, 0)[1] + schedule.delay
            return first + i * schedule.rate, first + i * schedule.rate
        if isinstance(schedule, Varying):
            if spec.rows:
                return 0, 0
            if self._varied is None:
                first = spec.origin if spec.upper.reads_now else spec.bounds(0, 0)[1]
                self._varied = schedule.moments(first + schedule.delay)
            return next(self._varied)
        if not i:
            return schedule.first, schedule.first
        before = self._moments[-1]
        if not holds(schedule.proceed)(before):
            return None
        after = schedule.step.function(0, before)
        if after <= before:
            raise invalid(f"STEP does not move forward from {before}", schedule.step.span)
        return after, after

    def _listed(self, listed: list[int], i: Ints) -> Ints:
        if not listed:
            return np.full(len(i), MAX, np.int64)
        known = np.array(listed, np.int64)
        return np.where(i == NEVER, MAX, known[np.minimum(i, len(listed) - 1)])

    def _refuse_if_too_many(self, count: int) -> None:
        if count > LIMIT:
            raise too_many_windows(self.spec)

    def first_windows(self, count: int) -> Iterator[tuple[int, int, int]]:
        """The first windows as (lower, upper, moment), checked."""
        for i in range(count):
            while len(self._upper) <= i and not self._ended:
                self._enter()
            if len(self._upper) <= i:
                return
            yield self._lower[i], self._upper[i], self._moments[i]


def too_many_windows(spec: WindowSequence) -> Diagnostic:
    return Diagnostic(
        "TOO_MANY_WINDOWS",
        f"more than {LIMIT:,} windows would have to be listed one by one",
        help="let the sequence begin nearer to its rows (STARTING AT), or use linear bounds and a constant rate",
        kind=Kind.UNSUPPORTED,
    ).at(spec.upper.span)


def _first_above(line: Line, x: Ints) -> Ints:
    """The first i with line(i) > x, for a line that does not fall; NEVER if there is none.

    >>> _first_above(Line(2, 1), np.array([0, 1, 2, 3])).tolist()
    [0, 1, 1, 2]
    """
    at_once = x < line(0)
    found = np.full(len(x), NEVER, np.int64)
    if line.slope > 0:
        rising = (x - line.offset) // line.slope + 1
        found = np.where(x < line.most, rising, NEVER) if line.most is not None else rising
    return np.where(at_once, 0, found)


def _linear(first: Ints | int, rate: int, i: Ints) -> Ints:
    """first + i * rate, MAX for NEVER and for what lies beyond the end of time."""
    beyond = i > (MAX - np.maximum(first, 0)) // rate
    return np.where(beyond, MAX, first + np.where(beyond, 0, i) * rate)
