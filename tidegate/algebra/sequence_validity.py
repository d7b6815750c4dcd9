"""Whether a window sequence is legal (Astral, definitions 8 and 12): decided for lines, tried out for other bounds.

What cannot be decided here is checked window by window when rows come (`timetables`, and the kernels where rows decide
when a window is shown).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tidegate.algebra.sequences import Formula, Line, Periodic, WindowSequence, check_window, invalid
from tidegate.algebra.timetables import Timetable

TRIALS = 100
"""How many windows of a sequence that is not linear are tried out."""


def check_sequence(spec: WindowSequence) -> None:
    """Raise a Diagnostic if some window of the sequence would be illegal.

    >>> from sqlglot import parse_one
    >>> late = WindowSequence(Formula(parse_one("c0")), Formula(parse_one("3 * c0 + 5")), Periodic(2))
    >>> check_sequence(late)
    Traceback (most recent call last):
    tidegate.errors.Diagnostic: error[INVALID_WINDOW]: window 1 would be shown at 7, before its end at 8 is reached
    help: the upper bound must not advance faster than the windows are shown
    """
    lower, upper, schedule = spec.lower.line, spec.upper.line, spec.schedule
    if lower is None or upper is None or not isinstance(schedule, Periodic):
        for _ in Timetable(spec).first_windows(TRIALS):
            pass
        return
    for name, formula, line in (("lower", spec.lower, lower), ("upper", spec.upper, upper)):
        if line.slope < 0 and line(0) > line(1):
            raise _falling(name, formula, line)
    uniform = schedule.rows == spec.rows
    first = spec.bounds(0, 0)[1]
    moment = Line(schedule.rate, first + schedule.delay)
    lines = (lower, upper, moment)
    suspects = {
        0,
        *_worst(lambda i: upper(i) - lower(i), (lower, upper), upper.final_slope - lower.final_slope),
    }
    if uniform:
        reach = lambda i: moment(i) - _absolute(spec, upper(i))  # noqa: E731
        suspects |= set(_worst(reach, (upper,), schedule.rate - upper.final_slope))
    for i in sorted(suspects):
        low, high = spec.bounds(i, 0)
        check_window(spec, i, low, high, lines[2](i) if uniform else None)


def _absolute(spec: WindowSequence, value: int) -> int:
    return value if spec.rows else value + spec.origin


def _worst(margin: Callable[[int], int], lines: Iterable[Line], final_slope: int) -> list[int]:
    """The numbers among which the margin is negative first, if it ever is: corners, their neighbours, and the far end."""
    corners = sorted({0, *(c + k for line in lines for c in line.corners for k in (0, 1))})
    last = corners[-1] + 1
    negative = [i for i in (*corners, last) if margin(i) < 0]
    if not negative and final_slope < 0:
        negative.append(last + margin(last) // -final_slope + 1)
    if negative and negative[0] > 0:
        # The margin is a line between corners: walk back to the first number at which it is negative.
        low, high = max([c for c in corners if c < negative[0]], default=0), negative[0]
        while low + 1 < high:
            middle = (low + high) // 2
            low, high = (low, middle) if margin(middle) < 0 else (middle, high)
        negative = [high]
    return negative


def _falling(name: str, formula: Formula, line: Line) -> Exception:
    return invalid(
        f"the {name} bound falls from {line(0)} to {line(1)} at window 1",
        formula.span,
        "bounds must not fall, so that a row which has left the window need not be kept",
    )
