"""When the windows of one query answer another that starts later (Astral, property 4 and corollary 2)."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.algebra.sequences import Line, Periodic, WindowSequence


@dataclass(frozen=True)
class Transposition:
    """Window j of the later query is window `shift` + j of the earlier one, without the rows before the later start.

    It holds from `first` on, the instant (or the later query's position) at which the later query shows its first
    window; before that the later query shows nothing, whatever the earlier one shows.
    """

    shift: int
    first: int


def transposable(
    window1: WindowSequence, t0: int, window2: WindowSequence, t1: int, rows_between: int | None = None
) -> Transposition | None:
    """Whether `window1` started at t0 answers `window2` started at t1 >= t0; None if that is not certain.

    Both are linear, lower = max(a i + b, start), upper = c i + d, of one domain, with the same a, c, rate r and delay.
    With D the rows from t0 until before t1 (`rows_between`) for rows, 0 for time, and b, d counted from t0 (b', d' from
    t1), the later windows are among the earlier ones iff K = (d' - d + D) / r is a natural number and

    - a != 0: b' = b + a K - D,
    - a = 0: max(start', b') = max(start', b - D),
    - K != 0: c = r.

    >>> from sqlglot import parse_one
    >>> from tidegate.algebra.sequences import Formula
    >>> tumbling = WindowSequence(Formula(parse_one("5 * c0")), Formula(parse_one("5 * c0 + 4")), Periodic(5))
    >>> transposable(tumbling, 0, tumbling, 20), transposable(tumbling, 0, tumbling, 21)
    (Transposition(shift=4, first=24), None)
    """
    first, second = window1.schedule, window2.schedule
    if not isinstance(first, Periodic) or first != second or window1.rows != window2.rows:
        return None
    if first.rows != window1.rows or t1 < t0:
        return None
    lower1, lower2 = _clamped(window1, t0), _clamped(window2, t1)
    upper1, upper2 = _straight(window1, t0), _straight(window2, t1)
    if lower1 is None or lower2 is None or upper1 is None or upper2 is None:
        return None
    if lower1.slope != lower2.slope or upper1.slope != upper2.slope:
        return None
    between = 0
    if window1.rows:
        if rows_between is None:
            return None
        between = rows_between
    slope, rate = lower1.slope, first.rate
    shift, rest = divmod(upper2.offset - upper1.offset + between, rate)
    if rest or shift < 0 or (shift and upper1.slope != rate):
        return None
    start = 1 if window1.rows else t1
    if slope:
        fits = lower2.offset == lower1.offset + slope * shift - between
    else:
        fits = max(start, lower2.offset) == max(start, lower1.offset - between)
    return Transposition(shift, upper2.offset + first.delay) if fits else None


def _straight(window: WindowSequence, start: int) -> Line | None:
    """The upper bound in absolute terms, if nothing bends it."""
    line = window.upper.line
    if line is None or line.least is not None or line.most is not None:
        return None
    return Line(line.slope, line.offset + (0 if window.rows else start))


def _clamped(window: WindowSequence, start: int) -> Line | None:
    """The lower bound in absolute terms, if nothing but the start bends it."""
    line = window.lower.line
    if line is None or line.most is not None or line.least not in (None, 1 if window.rows else 0):
        return None
    return Line(line.slope, line.offset + (0 if window.rows else start))
