"""Discrete application time: 64-bit ticks (SPEC section 1).

A stream ordered by a TIMESTAMP ticks in microseconds since 1970 (UTC), one ordered by an integer
ticks in that integer. `MIN` stands for "from the beginning", `MAX` for "no known end".

Where streams have batches, instants are pairs (t, i) in order (Astral, definition 2). A pair is one tick again:
t * BATCHES + i, so that whatever is said of ticks holds for pairs.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta

from tidegate.errors import Diagnostic

MIN = -(2**63)
MAX = 2**63 - 1

BATCHES = 1_000
"""How many batches an instant may have: their ids are 0 … BATCHES - 1. Microseconds in batches tick in nanoseconds."""

_MICROSECONDS = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
    "DAY": 86_400_000_000,
    "WEEK": 604_800_000_000,
}
UNITS = {name + plural: ticks for name, ticks in _MICROSECONDS.items() for plural in ("", "S")}
"""Ticks of one unit, for streams ordered by a TIMESTAMP."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_ticks(moment: datetime) -> int:
    """Microseconds since 1970; a moment without a zone is read as UTC.

    >>> to_ticks(datetime(1970, 1, 1, 0, 0, 1))
    1000000
    """
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(microseconds=1)


def ticks_of(instant: int | datetime | str, moments: bool = True) -> int:
    """The tick that a program means: a number of ticks, or, unless time is an integer (not `moments`), a moment or its text.

    >>> ticks_of(7), ticks_of("1970-01-01 00:00:01"), ticks_of(datetime(1970, 1, 1, 0, 0, 1))
    (7, 1000000, 1000000)
    """
    if not moments and isinstance(instant, (str, datetime)):
        raise Diagnostic("TIME_DOMAIN", f"'{instant}' is a moment, and time is an integer here")
    if isinstance(instant, str):
        try:
            return to_ticks(datetime.fromisoformat(instant))
        except ValueError:
            raise Diagnostic(
                "INVALID_INSTANT", f"'{instant}' is no moment", help="say it as '2030-12-31 23:59:59'"
            ) from None
    if isinstance(instant, datetime):
        return to_ticks(instant)
    if not isinstance(instant, int):
        raise Diagnostic(
            "INVALID_INSTANT",
            f"{instant!r} is no instant",
            help="give a number of ticks, a datetime or its text",
        )
    return instant


def to_datetime(ticks: int) -> datetime:
    """The inverse of `to_ticks`.

    >>> to_datetime(1000000).isoformat()
    '1970-01-01T00:00:01+00:00'
    """
    return _EPOCH + timedelta(microseconds=ticks)


def shown(tick: int, timestamps: bool, width: int = 1) -> str:
    """The instant of a tick as people read it.

    >>> shown(7_003, False, 1_000), shown(1_000_000, True)
    ('7', '1970-01-01 00:00:01.000000')
    """
    instant = tick if tick in (MIN, MAX) else tick // width
    if timestamps:
        with suppress(OverflowError):  # beyond Python's calendar
            return to_datetime(instant).strftime("%Y-%m-%d %H:%M:%S.%f")
    return str(instant)


def period(ticks: int, timestamps: bool) -> str:
    """So many ticks as a statement would say them: in the largest unit of which they are a whole number.

    >>> period(300_000_000, True), period(1_500_000, True), period(86_400_000_000, True), period(300, False)
    ('5 MINUTES', '1500 MILLISECONDS', '1 DAY', '300')
    """
    if not timestamps or ticks <= 0:
        return str(ticks)
    unit = next(name for name, size in reversed(_MICROSECONDS.items()) if ticks % size == 0)
    count = ticks // _MICROSECONDS[unit]
    return f"{count} {unit}{'S' * (count != 1)}"


def unit_named(ticks: int) -> str | None:
    """The unit that has so many ticks of a TIMESTAMP, in the plural, if it is not the tick itself.

    >>> unit_named(60_000_000), unit_named(1), unit_named(7)
    ('MINUTES', None, None)
    """
    return next((f"{name}S" for name, size in _MICROSECONDS.items() if size == ticks > 1), None)


def moment(tick: int, timestamps: bool) -> str:
    """An instant as a statement would say it.

    >>> moment(1_500_000, True), moment(0, True), moment(7, False)
    ("'1970-01-01 00:00:01.500000'", "'1970-01-01 00:00:00'", '7')
    """
    return f"'{shown(tick, timestamps).removesuffix('.000000')}'" if timestamps else str(tick)


def add(instant: int, ticks: int) -> int:
    """`instant + ticks`, where MIN and MAX stay what they are.

    >>> add(MAX, 5) == MAX, add(3, 5), add(MAX - 1, 5) == MAX
    (True, 8, True)
    """
    if instant in (MIN, MAX):
        return instant
    return max(MIN, min(MAX, instant + ticks))


def widened(instant: int, width: int) -> int:
    """The first tick of an instant that is `width` ticks wide; MIN and MAX stay what they are.

    >>> widened(7, 1_000), widened(MAX, 1_000) == MAX
    (7000, True)
    """
    return instant if instant in (MIN, MAX) else max(MIN, min(MAX, instant * width))


def next_multiple(instant: int, step: int, origin: int = 0) -> int:
    """The first point `origin + k * step` that is not before `instant`.

    >>> next_multiple(7, 5), next_multiple(10, 5), next_multiple(-3, 5), next_multiple(7, 5, 1)
    (10, 10, 0, 11)
    """
    if instant in (MIN, MAX):
        return instant
    return min(MAX, origin + -((origin - instant) // step) * step)
