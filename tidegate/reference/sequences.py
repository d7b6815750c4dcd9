"""What window sequences and sessions show at an instant, straight from their definitions (Astral 8 to 12).

The rows of a stream (or of one partition of it) are given by their times in order; what is shown is always a run of
neighbours, so the answers here are slices.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from tidegate import time
from tidegate.algebra.sequences import (
    Loop,
    Periodic,
    SessionWindow,
    Varying,
    WindowSequence,
    check_window,
    holds,
    invalid,
    unreachable,
)
from tidegate.algebra.timetables import LIMIT, timetable, too_many_windows

NOTHING = slice(0, 0)


def shown_in_session(spec: SessionWindow, times: Sequence[int], t: int) -> slice:
    """The rows of the session that lasts at t.

    >>> shown_in_session(SessionWindow(3), [1, 3, 6, 8], 8), shown_in_session(SessionWindow(3), [1, 3], 6)
    (slice(2, 4, None), slice(0, 0, None))
    """
    end = bisect_right(times, t)
    if end == 0 or t - times[end - 1] >= spec.gap:
        return NOTHING
    first = end - 1
    while first > 0 and times[first] - times[first - 1] < spec.gap:
        first -= 1
    return slice(first, end)


def shown_in_sequence(spec: WindowSequence, times: Sequence[int], t: int) -> slice:
    """The rows of the window that is shown at t.

    >>> from sqlglot import parse_one
    >>> from tidegate.algebra.sequences import Formula
    >>> sliding = WindowSequence(Formula(parse_one("2 * c0")), Formula(parse_one("2 * c0 + 3")), Periodic(2))
    >>> shown_in_sequence(sliding, [0, 1, 2, 4, 5, 6], 6)
    slice(2, 5, None)
    """
    skipped = 0 if spec.start is None else bisect_left(times, spec.start)
    times = times[skipped:]
    found = _latest(spec, times, t)
    if found is None:
        return NOTHING
    i, moment, now = found
    lower, upper = spec.bounds(i, now)
    uniform = not spec.rows and not spec.counts_rows
    check_window(spec, i, lower, upper, moment if uniform else None)
    if spec.rows:
        first, end = min(lower - 1, len(times)), min(upper, len(times))
    else:
        first, end = bisect_left(times, lower), bisect_right(times, upper)
    if end > first and times[end - 1] > moment:
        raise unreachable(spec, i)
    return slice(first + skipped, end + skipped)


def _latest(spec: WindowSequence, times: Sequence[int], t: int) -> tuple[int, int, int] | None:
    """The number of the window shown at t (Astral's delaying function), the instant at which it was shown, and its NOW."""
    schedule = spec.schedule
    if not isinstance(schedule, Periodic):
        return _stepped(spec, times, t)
    _, upper = spec.bounds(0, 0)
    if not schedule.rows:
        first = _first_instant(spec, times)
        if first is None or t < first + schedule.delay:
            return None
        i = (t - first - schedule.delay) // schedule.rate
        moment = first + schedule.delay + i * schedule.rate
        return i, moment, moment
    base = upper if spec.rows else bisect_right(times, upper)
    i = (bisect_right(times, t) - base - schedule.delay) // schedule.rate
    if i < 0 or (not spec.rows and t < upper):
        return None
    position = base + schedule.delay + i * schedule.rate
    moment = upper if not spec.rows and position == base else times[position - 1]
    return i, moment, moment


def _first_instant(spec: WindowSequence, times: Sequence[int]) -> int | None:
    """The instant that upper(0) stands for; None while its row has not come."""
    if isinstance(spec.schedule, Loop):
        return spec.schedule.first
    if spec.upper.reads_now:
        return spec.origin
    _, upper = spec.bounds(0, 0)
    if not spec.rows:
        return upper
    return times[upper - 1] if upper <= len(times) else None


def moments(spec: WindowSequence, first: int) -> Iterator[tuple[int, int]]:
    """The instants at which the windows of an aperiodic sequence are shown, and their NOW."""
    schedule = spec.schedule
    if isinstance(schedule, Loop):
        step, proceed = schedule.step.function, holds(schedule.proceed)
        while True:
            yield first, first
            if not proceed(first):
                return
            following = step(0, first)
            if following <= first:
                raise invalid(f"STEP does not move forward from {first}", schedule.step.span)
            first = following
    assert isinstance(schedule, Varying)
    yield from schedule.moments(first + schedule.delay)


def _stepped(spec: WindowSequence, times: Sequence[int], t: int) -> tuple[int, int, int] | None:
    first = _first_instant(spec, times)
    if first is None:
        return None
    latest = None
    positions = isinstance(spec.schedule, Loop) and spec.rows
    for i, (moment, now) in enumerate(moments(spec, first)):
        if positions and moment <= len(times):
            moment = times[moment - 1]
        elif positions:
            break
        if moment > t:
            break
        if i > LIMIT:
            raise too_many_windows(spec)
        latest = (i, moment, now)
    return latest


def sequence_changes(spec: WindowSequence, times: Sequence[int]) -> set[int]:
    """Every instant at which the sequence may show something else: the moments of windows that gain or lose a row."""
    if not spec.counts_rows:
        return timetable(spec).changes(times)
    points = set(times)
    if isinstance(spec.schedule, Loop) or (isinstance(spec.schedule, Periodic) and spec.schedule.rows):
        return points if spec.rows else points | {spec.bounds(0, 0)[1]}
    kept = [t for t in times if spec.start is None or t >= spec.start]
    first = _first_instant(spec, kept)
    if first is None:
        return points
    return points | timetable(spec).changes(range(1, len(kept) + 1), first)


def session_changes(spec: SessionWindow, times: Sequence[int]) -> set[int]:
    return {p for t in times for p in (t, time.add(t, spec.gap))}
