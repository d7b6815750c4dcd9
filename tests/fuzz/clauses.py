"""Window clauses: what a query says, and beside it what SPEC section 4 says that it shows, instant by instant.

Nothing of the engine or the reference is used here: a clause shows some of the rows (in order of time, then of arrival) at an
instant t, both counted in whole instants. One more window is one more entry of `WINDOWS`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from tests.fuzz.choices import value_at
from tidegate.types import Row

Rows = Sequence[tuple[Row, int]]
Shows = Callable[[Rows, int], Rows]


class IllegalWindowError(Exception):
    """A row belongs to a window that has been shown without it: the query has no answer."""


@dataclass(frozen=True)
class Clause:
    """`WINDOW(text)`. `ends`: every row leaves after a while, whatever comes."""

    text: str
    shows: Shows
    ends: bool = False
    over_derived: bool = True
    """Whether GRANULARITY can be said with it."""
    has_granule: bool = False
    """Whether it says a GRANULARITY itself."""

    def partitioned(self, column: str, place: int) -> Clause:
        """The same on each sub-stream, united."""

        def shows(rows: Rows, t: int) -> Rows:
            parts: dict[object, list[tuple[Row, int]]] = {}
            for e, u in rows:
                parts.setdefault("NaN" if e[place] != e[place] else e[place], []).append((e, u))
            return [r for part in parts.values() for r in self.shows(part, t)]

        return replace(self, text=f"PARTITION BY {column} {self.text}", shows=shows)


@dataclass(frozen=True)
class Words:
    """How durations and instants are said: bare ticks, or seconds."""

    seconds: bool

    def span(self, n: int | str) -> str:
        return f"{n} SECONDS" if self.seconds else f"{n}"

    def interval(self, n: int) -> str:
        return f"INTERVAL {n} SECONDS" if self.seconds else f"{n}"

    def instant(self, n: int) -> str:
        if not self.seconds:
            return f"{n}"
        return f"TIMESTAMP '{'1970-01-01 00:00' if n >= 0 else '1969-12-31 23:59'}:{n % 60:02d}'"


# sizes and slides ----------------------------------------------------------------------------------------------------


def _now(dice: random.Random, words: Words) -> Clause:
    return Clause("", lambda rows, t: [(e, u) for e, u in rows if u == t], True)


def _range(dice: random.Random, words: Words) -> Clause:
    w = dice.randint(1, 6)
    return Clause(f"RANGE {words.span(w)}", lambda rows, t: [(e, u) for e, u in rows if t - w < u <= t], True)


def _unbounded(dice: random.Random, words: Words) -> Clause:
    return Clause("RANGE UNBOUNDED", lambda rows, t: [(e, u) for e, u in rows if u <= t])


def _range_slide(dice: random.Random, words: Words) -> Clause:
    w, s, origin = dice.randint(1, 6), dice.randint(2, 4), _origin(dice)

    def shows(rows: Rows, t: int) -> Rows:
        d = max(p for p in range(-40 - s, t + 1) if (p - origin) % s == 0)
        return [(e, u) for e, u in _since(origin, rows) if d - w < u <= d]

    return Clause(f"RANGE {words.span(w)} SLIDE {words.span(s)}{_at(words, origin)}", shows, True, not origin)


def _ranged(dice: random.Random, words: Words) -> Clause:
    """A size or a granule that is chosen: each row goes by what is in force at its own instant."""
    low, fine, slide = dice.randint(1, 3), dice.randint(1, 2), dice.choice((1, 1, 1, 2, 3))
    high, coarse = low + dice.randint(0, 5), fine + dice.randint(0, 3)
    form = dice.choice(("size", "size", "both", "granule", "unbounded"))
    sized, granular = form in ("size", "both"), form != "size"

    def moved(t: int, granule: int) -> int:
        while t % slide:
            t += 1
        while t % granule:
            t += 1
        return t

    def sees(u: int, t: int) -> bool:
        granule = value_at("GRANULARITY", fine, coarse, u) if granular else 1
        size = value_at("RANGE", low, high, u) if sized else high
        return moved(u, granule) <= t and (form == "unbounded" or t < moved(u + size, granule))

    def between(a: int, b: int) -> str:
        return f"BETWEEN {words.span(a)} AND {words.span(b)}"

    size = between(low, high) if sized else "UNBOUNDED" if form == "unbounded" else words.span(high)
    text = f"RANGE {size}" + (f" SLIDE {words.span(slide)}" if slide > 1 else "")
    text += f" GRANULARITY {between(fine, coarse)}" if granular else ""
    text += dice.choice(("", " PRIORITY 3")) if granular else ""
    ends = form != "unbounded"
    return Clause(text, lambda rows, t: [(e, u) for e, u in rows if sees(u, t)], ends, False, granular)


def _rows(dice: random.Random, words: Words) -> Clause:
    n = dice.randint(1, 6)
    return Clause(f"ROWS {n}", lambda rows, t: [r for r in rows if r[1] <= t][-n:])


def _rows_slide(dice: random.Random, words: Words) -> Clause:
    n, m = dice.randint(1, 6), dice.randint(2, 4)

    def shows(rows: Rows, t: int) -> Rows:
        come = [r for r in rows if r[1] <= t]
        return come[: len(come) // m * m][-n:]

    return Clause(f"ROWS {n} SLIDE {m}", shows)


def _rows_every_time(dice: random.Random, words: Words) -> Clause:
    n, s, origin = dice.randint(1, 6), dice.randint(2, 4), _origin(dice)

    def shows(rows: Rows, t: int) -> Rows:
        d = max(p for p in range(-40 - s, t + 1) if (p - origin) % s == 0)
        return [r for r in _since(origin, rows) if r[1] <= d][-n:]

    said = words.span(s) if words.seconds else f"{s} TICKS"
    return Clause(f"ROWS {n} SLIDE {said}{_at(words, origin)}", shows, False, not origin)


def _range_every_rows(dice: random.Random, words: Words) -> Clause:
    w, m = dice.randint(1, 6), dice.randint(2, 4)

    def shows(rows: Rows, t: int) -> Rows:
        come = [r for r in rows if r[1] <= t]
        if len(come) < m:
            return []
        last = come[len(come) // m * m - 1][1]
        return [(e, u) for e, u in rows if last - w < u <= last]

    return Clause(f"RANGE {words.span(w)} SLIDE {m} ROWS", shows)


def _session(dice: random.Random, words: Words) -> Clause:
    gap = dice.randint(1, 5)

    def shows(rows: Rows, t: int) -> Rows:
        run: list[tuple[Row, int]] = []
        reach = t
        for e, u in reversed([r for r in rows if r[1] <= t]):
            if reach - u >= gap:
                break
            run.insert(0, (e, u))
            reach = u
        return run

    return Clause(f"SESSION {words.span(gap)}", shows, True, False)


def _origin(dice: random.Random) -> int:
    return dice.choice((0, 0, 1, -3, 5))


def _since(origin: int, rows: Rows) -> Rows:
    """What a window sees that starts at an instant: no earlier row (Astral's t0). Nobody says that it starts at 0."""
    return [r for r in rows if not origin or r[1] >= origin]


def _at(words: Words, origin: int) -> str:
    return f" STARTING AT {words.instant(origin)}" if origin else ""


# sequences: windows listed one by one ------------------------------------------------------------------------------------

Bound = Callable[[int, int], int]
"""(i, the moment of window i) to an instant or a position."""


def _listed(
    lower: Bound, upper: Bound, moments: Callable[[Rows], Iterator[int]], in_rows: bool, start: int | None
) -> Shows:
    """The rows from lower(i) to upper(i), both included, of the last window that is shown up to t."""

    def shows(rows: Rows, t: int) -> Rows:
        seen = [r for r in rows if start is None or r[1] >= start]
        latest = None
        for i, moment in enumerate(moments(seen)):
            if moment > t:
                break
            latest = i, moment
        if latest is None:
            return []
        low, high = lower(*latest), upper(*latest)
        held = seen[low - 1 : high] if in_rows else [r for r in seen if low <= r[1] <= high]
        if any(u > latest[1] for _, u in held):
            raise IllegalWindowError
        return held

    return shows


def _bounds(dice: random.Random, in_rows: bool, rate: int) -> tuple[str, str, Bound, Bound]:
    """Texts and meanings of bounds that do not fall, the upper one no faster than the rate."""
    base = 1 if in_rows else 0
    climb = dice.randint(0, rate)
    slope, size, low = dice.randint(0, climb), dice.randint(0, 5), dice.randint(-4, 2)
    form = dice.choice(("line", "clamped", "bent", "landmark", "fixed"))
    if form == "line" or rate < 2:
        low = abs(low) + base
        return (
            f"{slope} * i + {low}", f"{climb} * i + {low + size}",
            lambda i, _: slope * i + low, lambda i, _: climb * i + low + size,
        )  # fmt: skip
    if form == "clamped":
        top = max(low, base) + size
        return (
            f"LEAST(GREATEST({slope} * i + {low}, {base}), {base + 9})", f"GREATEST({climb} * i + {top}, {base})",
            lambda i, _: min(max(slope * i + low, base), base + 9), lambda i, _: max(climb * i + top, base),
        )  # fmt: skip
    if form == "bent":
        return (
            f"i + i % 2 + {base}", f"i + i % 2 + {base + size}",
            lambda i, _: i + i % 2 + base, lambda i, _: i + i % 2 + base + size,
        )  # fmt: skip
    if form == "landmark":
        return f"{base}", f"i + {base + size}", lambda i, _: base, lambda i, _: i + base + size
    return f"{base + 1}", f"{base + 1 + size}", lambda i, _: base + 1, lambda i, _: base + 1 + size


def _sequence(dice: random.Random, words: Words, in_rows: bool, by_rows: bool) -> Clause:
    rate, delay = dice.randint(1, 4), dice.choice((0, 0, 1, 3))
    start = dice.choice((None, None, 3, 0, -2))
    low, high, lower, upper = _bounds(dice, in_rows, rate)
    origin = 0 if in_rows or start is None else start

    def moments(rows: Rows) -> Iterator[int]:
        first = upper(0, 0) + origin
        if by_rows:
            base = first if in_rows else sum(u <= first for _, u in rows)
            for position in range(base + delay, len(rows) + 1, rate):
                yield first if not in_rows and position == base else rows[position - 1][1]
            return
        if in_rows and first > len(rows):
            return
        at = (rows[first - 1][1] if in_rows else first) + delay
        while True:
            yield at
            at += rate

    def said(text: str, rows: bool) -> str:
        return f"{text} ROWS" if rows else words.span(text)

    text = f"FROM {said(low, in_rows)} TO {said(high, in_rows)} EVERY {said(str(rate), by_rows)}"
    text += f" DELAY {said(str(delay), by_rows)}" if delay else ""
    text += "" if start is None else f" STARTING AT {words.instant(start)}"
    shows = _listed(
        lambda i, m: lower(i, m) + origin, lambda i, m: upper(i, m) + origin, moments, in_rows, start
    )
    return Clause(text, shows, over_derived=False)


def _sequence_of_any(dice: random.Random, words: Words) -> Clause:
    in_rows = dice.random() < 0.4
    by_rows = in_rows if dice.random() < 0.7 else not in_rows
    return _sequence(dice, words, in_rows, by_rows)


def _varying(dice: random.Random, words: Words) -> Clause:
    """Rates that depend on the moment, and bounds that read it (Astral, example 5).

    At t the latest moment is b + floor((t - b) / rate(t)) * rate(t), and never one before another. Timestamps are asked for
    their rate at whole minutes, so these, whose instants are seconds, have one that stays.
    """
    fast, slow, width = dice.randint(1, 2), dice.randint(3, 5), dice.randint(1, 5)
    slow = fast if words.seconds else slow
    start = dice.choice((0, 2))
    seconds = "SECOND(NOW)" if words.seconds else "NOW"
    rate = f"CASE WHEN {seconds} % 8 < 4 THEN {words.interval(fast)} ELSE {words.interval(slow)} END"
    first = f"GREATEST(NOW - {words.interval(width)}, {words.instant(start)})"

    def moment(t: int) -> int:
        step = fast if t % 8 < 4 else slow
        return start + (t - start) // step * step

    def shows(rows: Rows, t: int) -> Rows:
        latest = max((moment(u) for u in range(start, t + 1)), default=None)
        return [] if latest is None else [r for r in rows if max(latest - width, start) <= r[1] <= latest]

    return Clause(
        f"FROM {first} TO NOW EVERY {rate} STARTING AT {words.instant(start)}", shows, over_derived=False
    )


def _loop(dice: random.Random, words: Words) -> Clause:
    first, last, step, width = (
        dice.randint(-1, 5),
        dice.randint(4, 20),
        dice.randint(1, 5),
        dice.randint(0, 5),
    )
    condition = f"v < {words.instant(last)}" if dice.random() < 0.8 else "FALSE"

    def moments(_: Rows) -> Iterator[int]:
        at = first
        while True:
            yield at
            if condition == "FALSE" or at >= last:
                return
            at += step

    text = f"FOR v = {words.instant(first)} WHILE {condition} STEP v + {words.interval(step)}"
    shows = _listed(lambda _, m: m - width, lambda _, m: m, moments, False, None)
    return Clause(f"{text} FROM v - {words.interval(width)} TO v", shows, over_derived=False)


WINDOWS: dict[str, tuple[int, Callable[[random.Random, Words], Clause]]] = {
    "now": (2, _now),
    "range": (5, _range),
    "unbounded": (1, _unbounded),
    "range slide": (2, _range_slide),
    "rows": (2, _rows),
    "rows slide": (1, _rows_slide),
    "rows every time": (1, _rows_every_time),
    "range every rows": (1, _range_every_rows),
    "session": (2, _session),
    "sequence": (3, _sequence_of_any),
    "varying": (1, _varying),
    "loop": (1, _loop),
    "range between": (20, _ranged),
}
"""Weight and maker of every kind of window."""

FIXED = tuple(name for name in WINDOWS if name != "range between")
"""Those of which the runtime chooses nothing."""


def clause(dice: random.Random, words: Words, names: Sequence[str] = FIXED) -> Clause:
    """A window of one of the kinds."""
    (name,) = dice.choices(names, [WINDOWS[n][0] for n in names])
    return WINDOWS[name][1](dice, words)
