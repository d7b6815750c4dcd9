"""Items of FROM whose rows at any instant follow from the definitions: windows, modify streams, SYNC BY, NOW, stream operators.

A `Leaf` is what a query says and, beside it, the rows that SPEC sections 4 to 6 say it shows. Nothing of the engine or the
reference is used: everything is found by trying instants one by one.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

from tests.fuzz.clauses import FIXED, WINDOWS, Clause, Rows, Words, clause
from tests.fuzz.streams import IN_BATCHES, INTEGERS, RAW, TIMESTAMPS, Streams
from tidegate.types import Row, Value

LOW = -8
"""Before this instant nothing has happened."""


@dataclass
class Play:
    """Streams as a query sees them: `width` is how many ticks an instant has."""

    streams: Streams
    width: int
    known: dict[tuple[int, int], list[Row]] = field(default_factory=dict)

    @property
    def span(self) -> int:
        """Ticks from one whole instant to the next."""
        return self.streams.unit * self.width

    def raw(self, name: str, tick: int) -> list[tuple[Row, int]]:
        """The rows up to a tick as (payload with TS, instant): by time, batch and arrival."""

        def at(a: object) -> tuple[int, int]:
            return a.t, a.batch if self.width > 1 else 0  # type: ignore[attr-defined]

        rows = sorted(self.streams.raw[name], key=at)
        come = [a for a in rows if a.t * self.span + (a.batch if self.width > 1 else 0) <= tick]
        return [((*a.row, self.streams.moment(a.t)), a.t) for a in come]

    def sampled(self, tick: int, whole: int) -> int:
        """The tick as of which something is seen that changes at every `whole`-th instant only."""
        instant = tick // self.span
        seen = instant // whole * whole
        return tick if seen == instant else (seen + 1) * self.span - 1

    def instants(self, tick: int) -> range:
        """The whole instants up to a tick."""
        return range(LOW, tick // self.span + 1)


@dataclass(frozen=True)
class Leaf:
    """An item of FROM. `ends`: all its rows leave after a while; `changes`: it is a stream of changes."""

    text: str
    columns: tuple[tuple[str, str], ...]
    meaning: Callable[[Play, int], list[Row]]
    ends: bool = False
    name: bool = False
    """Whether it is a name, so that a window or SYNC BY may follow."""
    changes: bool = False

    def at(self, play: Play, tick: int) -> list[Row]:
        """The rows at a tick."""
        key = id(self), tick
        if key not in play.known:
            play.known[key] = self.meaning(play, tick)
        return play.known[key]


@dataclass
class Relations:
    """Makes leaves over the streams of one kind of time."""

    dice: random.Random
    mode: str
    ranged: bool = False
    """Whether most windows have quality ranges."""

    def __post_init__(self) -> None:
        self.words = Words(self.mode == TIMESTAMPS)
        self.time = "TIMESTAMP" if self.mode == TIMESTAMPS else "BIGINT"

    def leaf(self) -> Leaf:
        """Any item; one more kind is one more entry."""
        makers = {
            self.windowed: 8, self.modified: 4, self.lasting: 2, self.table: 2, self.viewed: 1,
            self.until_now: 2, self.synchronized: 3, self.changes: 2, self.derived: 1,
        }  # fmt: skip
        (maker,) = self.dice.choices(list(makers), list(makers.values()))
        return maker()

    def _columns(self, name: str, ts: bool = True) -> tuple[tuple[str, str], ...]:
        found = Streams(self.mode, {}, [], []).columns(name)
        return (*found, ("TS", self.time)) if ts else found

    # streams, tables, windows ------------------------------------------------------------------------------------------

    def windowed(self) -> Leaf:
        name = self.dice.choice([*RAW, "N"])
        raw = "R" if name == "N" else name
        columns = self._columns(raw)
        window = clause(self.dice, self.words, tuple(WINDOWS) if self.ranged else FIXED)
        if name == "N" and not window.text:
            window = clause(self.dice, self.words, ("range", "rows"))
        if window.text and self.dice.random() < 0.4:
            window = window.partitioned(*self.dice.choice([(n, i) for i, (n, _) in enumerate(columns[:-1])]))
        whole = self.dice.choice((1, 1, 1, 1, 2, 3)) if window.text and not window.has_granule else 1
        grain = f" GRANULARITY {self.words.span(whole)}" if whole > 1 else ""
        text = f"{name} WINDOW({window.text}{grain})" if window.text else name

        def meaning(play: Play, tick: int) -> list[Row]:
            if not window.text and tick % play.span >= play.width:
                return []
            tick = play.sampled(tick, whole)
            return [e for e, _ in window.shows(play.raw(raw, tick), tick // play.span)]

        return Leaf(text, columns, meaning, window.ends, name=not window.text)

    def lasting(self) -> Leaf:
        def meaning(play: Play, tick: int) -> list[Row]:
            t = tick // play.span
            return [(*e, play.streams.moment(ts)) for e, ts, te in play.streams.lasting if ts <= t < te]

        return Leaf("P", self._columns("P"), meaning, name=True)

    def table(self) -> Leaf:
        return Leaf("T", self._columns("T", False), lambda play, _: play.streams.table)

    # modify streams ----------------------------------------------------------------------------------------------------

    def modified(self) -> Leaf:
        name = self.dice.choice([*MODIFIED])
        return self._modified(name)

    def _modified(self, name: str) -> Leaf:
        raw, key, operation = MODIFIED[name]
        columns = self._columns(raw)
        kept = [i for i, (n, _) in enumerate(columns) if n != operation]
        places = None if key is None else [[n for n, _ in columns].index(k) for k in key]
        said = None if operation is None else [n for n, _ in columns].index(operation)

        def meaning(play: Play, tick: int) -> list[Row]:
            rows = play.raw(raw, tick)
            if places is None:
                return [e for e, _ in rows]
            current: dict[Row, Row] = {}
            for e, _ in rows:
                row = tuple(e[i] for i in kept)
                apply("u" if said is None else e[said], tuple(same(e[i]) for i in places), row, current)
            return list(current.values())

        return Leaf(name, tuple(columns[i] for i in kept), meaning, name=True)

    def viewed(self) -> Leaf:
        """A view over a view, whose TS is when a row came into it: of equal rows the first to come is the first to go."""
        base = self._modified("K")
        columns = (("a", "INT"), ("b", "INT"), ("TS", self.time))

        def big(play: Play, tick: int) -> Counter[Row]:
            return Counter((e[0], e[1]) for e in base.at(play, tick) if e[1] is not None and e[1] > 0)

        def meaning(play: Play, tick: int) -> list[Row]:
            there: list[tuple[Row, int]] = []
            ticks = {a.t * play.span + (a.batch if play.width > 1 else 0) for a in play.streams.raw["S"]}
            before: Counter[Row] = Counter()
            for p in sorted(t for t in ticks if t <= tick):
                now = big(play, p)
                for e in (before - now).elements():
                    there.remove(next(r for r in there if r[0] == e))
                there += [(e, p) for e in (now - before).elements()]
                before = now
            return [(*e, play.streams.moment(p // play.span)) for e, p in there]

        return Leaf("Again", columns, meaning, name=True)

    # NOW ---------------------------------------------------------------------------------------------------------------

    def until_now(self) -> Leaf:
        base = self.dice.choice(
            (self._modified("K"), self._modified("N"), self._modified("O1"), self.lasting())
        )
        text, holds, ends = self.dice.choice(now_conditions(self.words))
        columns = base.columns[:2]
        names = ", ".join(n for n, _ in columns)

        def meaning(play: Play, tick: int) -> list[Row]:
            now = Fraction(tick // play.width, play.streams.unit)
            found = []
            for e in base.at(play, tick):
                ts = instant_of(e[-1])
                if holds(ts, now):
                    found.append((*e[:2], e[-1]))
            return found

        query = f"(SELECT {names}, TS AS z FROM {base.text} WHERE {text})"
        return Leaf(query, (*columns, ("z", self.time)), meaning, ends)

    # SYNC BY -----------------------------------------------------------------------------------------------------------

    def synchronized(self) -> Leaf:
        base = self.dice.choice((self.modified, self.modified, self.lasting, self.windowed))()
        points, is_point = self.points(self.dice.choice((0, 0, 1)))

        def meaning(play: Play, tick: int) -> list[Row]:
            for p in reversed(play.instants(tick)):
                if is_point(play, p):
                    return base.at(play, min(tick, p * play.span + play.width - 1))
            return []

        short = points.removeprefix("SELECT Timepoint FROM ")
        bare = points.startswith("SELECT Timepoint FROM CLOCK(") and " " not in short.replace(" SECONDS", "")
        return Leaf(f"{base.text} SYNC BY {short if bare else f'({points})'}", base.columns, meaning)

    def points(self, depth: int) -> tuple[str, Callable[[Play, int], bool]]:
        """A query of points, and whether an instant is one."""
        if depth:
            (a, in_a), (b, in_b) = self.points(depth - 1), self.points(depth - 1)
            a, b = (f"({q})" if depth > 1 else q for q in (a, b))
            # ticks that never come are looked for one by one, and refused in the end
            never = "TS" not in a + b and not _recurring(lambda p: in_a(NOBODY, p) and in_b(NOBODY, p))
            if never or self.dice.random() < 0.5:
                return f"{a} UNION {b}", lambda play, p: in_a(play, p) or in_b(play, p)
            return f"{a} INTERSECT {b}", lambda play, p: in_a(play, p) and in_b(play, p)
        if self.mode != IN_BATCHES and self.dice.random() < 0.4:
            return self._events()
        step = self.dice.randint(1, 4)
        clock = f"CLOCK({self.words.span(step)})"
        if self.dice.random() < 0.3:
            return f"SELECT Timepoint FROM {clock}", lambda _, p: p % step == 0
        condition, holds = self.dice.choice(CLOCK_CONDITIONS[self.mode == TIMESTAMPS])
        if self.mode == TIMESTAMPS and not _recurring(lambda p: p % step == 0 and holds(p)):
            return f"SELECT Timepoint FROM {clock}", lambda _, p: p % step == 0
        query = f"SELECT Timepoint FROM {clock} WHERE {condition}"
        return query, lambda _, p: p % step == 0 and holds(p)

    def _events(self) -> tuple[str, Callable[[Play, int], bool]]:
        name = self.dice.choice(("R", "N", "K", "O1"))
        column, place = {"K": ("b", 1), "O1": ("b", 2)}.get(name, ("c", 1))
        shift = self.dice.choice((0, 0, 1)) if name != "R" else 0
        base = self._modified(name) if name != "R" else None

        def is_point(play: Play, p: int) -> bool:
            tick = p * play.span
            rows = play.raw("R", tick) if base is None else [(e, 0) for e in base.at(play, tick)]
            return any((e[place] or 0) > 0 and instant_of(e[-1]) + shift == p for e, _ in rows)

        said = f"TS + {self.words.interval(shift)} AS z" if shift else "TS"
        return f"SELECT {said} FROM {name} WHERE {column} > 0", is_point

    # stream operators, and windows over derived streams ------------------------------------------------------------------

    def changes(self) -> Leaf:
        """ISTREAM, DSTREAM or RSTREAM."""
        kind = self.dice.choice(("ISTREAM", "DSTREAM", "RSTREAM"))
        if self.mode == IN_BATCHES and kind == "RSTREAM":
            kind = "ISTREAM"
        base = self._ending() if kind == "RSTREAM" else self.dice.choice((self.windowed, self.modified))()
        columns, places = self._some(base)
        period = self.dice.randint(1, 4)

        def some(play: Play, tick: int) -> Counter[Row]:
            return Counter(tuple(map(same, (e[i] for i in places))) for e in base.at(play, tick))

        def meaning(play: Play, tick: int) -> list[Row]:
            if kind == "RSTREAM":
                return list(some(play, tick).elements()) if tick % (period * play.span) == 0 else []
            now, before = some(play, tick), some(play, tick - 1)
            return list((now - before if kind == "ISTREAM" else before - now).elements())

        query = f"{kind}(SELECT {', '.join(n for n, _ in columns)} FROM {base.text})"
        if kind == "RSTREAM":
            query += f" EVERY {period} {'SECONDS' if self.words.seconds else 'TICKS'}"
        return Leaf(query, columns, meaning, True, changes=kind != "RSTREAM")

    def derived(self) -> Leaf:
        """A window over a derived stream: its rows at every instant, simultaneous ones in the order of all columns."""
        base = self.changes() if self.mode == IN_BATCHES else self._ending()
        columns, places = self._some(base)
        window = self.over_derived()
        whole = self.dice.choice((1, 1, 2)) if window.over_derived and self.mode == INTEGERS else 1

        def instants(play: Play, tick: int) -> list[int]:
            if play.width == 1:
                return [p * play.span for p in play.instants(tick) if p % whole == 0]
            return [t for p in play.instants(tick) for b in range(4) if (t := p * play.span + b) <= tick]

        def meaning(play: Play, tick: int) -> list[Row]:
            rows: list[tuple[Row, int]] = []
            tick = play.sampled(tick, whole)
            if base.text in RAW:  # a map of a raw stream keeps the order of arrival
                rows = [(tuple(e[i] for i in places), u) for e, u in play.raw(base.text, tick)]
                return [e for e, _ in window.shows(rows, tick // play.span)]
            for p in instants(play, tick):
                shown = [tuple(e[i] for i in places) for e in base.at(play, p)]
                rows += [(e, p // play.span) for e in sorted(shown, key=in_order)]
            return [e for e, _ in window.shows(rows, tick // play.span)]

        text = window.text
        if window.over_derived and (whole > 1 or self.mode == TIMESTAMPS):
            text += f" GRANULARITY {self.words.span(whole)}"
        query = f"(SELECT {', '.join(n for n, _ in columns)} FROM {base.text}) WINDOW({text})"
        return Leaf(query, columns, meaning, window.ends)

    def over_derived(self) -> Clause:
        names = ("range", "range slide", "rows", "rows slide", "rows every time", "range every rows")
        if self.mode == TIMESTAMPS:
            return clause(self.dice, self.words, names)
        return clause(self.dice, self.words, (*names, "session", "sequence"))

    def _ending(self) -> Leaf:
        while True:
            found = self.dice.choice((self.windowed, self.windowed, self.until_now))()
            if found.ends:
                return found

    def _some(self, base: Leaf) -> tuple[tuple[tuple[str, str], ...], list[int]]:
        """Some columns of an item; not its pseudo-column."""
        named = [
            i for i, (n, k) in enumerate(base.columns) if n != "TS" and k not in ("ARRAY", "STRUCT", "DOUBLE")
        ]
        places = sorted(self.dice.sample(named, min(len(named), self.dice.randint(1, 3))))
        return tuple(base.columns[i] for i in places), places


MODIFIED: dict[str, tuple[str, tuple[str, ...] | None, str | None]] = {
    "K": ("S", ("a",), None),
    "K2": ("S", ("a", "s"), None),
    "Y": ("R", ("y",), None),
    "N": ("R", None, None),
    "O1": ("O", ("a",), "op"),
    "O2": ("O", ("a", "s"), "op"),
}
"""Modify streams: the source, its key, and the column of operations."""


def apply(word: Value, key: Row, row: Row, current: dict[Row, Row]) -> None:
    """One operation (SPEC section 5): an insert of a known key, a delete of an unknown one and an unknown word do nothing."""
    inserts, updates, deletes = ("insert", "c"), ("u", "update", "upsert", "+u"), ("delete", "-d")
    word = word.lower() if isinstance(word, str) else word
    if word in deletes:
        current.pop(key, None)
    elif word in updates or (word in inserts and key not in current):
        current[key] = row


def now_conditions(words: Words) -> list[tuple[str, Callable[[int, Fraction], bool], bool]]:
    """Conditions on NOW and TS, what they mean in whole instants, and whether they make rows end."""
    w = words.interval
    return [
        (f"TS <= NOW AND NOW < TS + {w(5)}", lambda ts, now: ts <= now < ts + 5, True),
        (f"TS + {w(2)} <= NOW AND NOW < TS + {w(7)}", lambda ts, now: ts + 2 <= now < ts + 7, True),
        (f"NOW - {w(4)} < TS", lambda ts, now: now - 4 < ts, True),
        (f"NOW = TS + {w(3)}", lambda ts, now: now == ts + 3, True),
        (f"NOW BETWEEN TS + {w(1)} AND TS + {w(4)}", lambda ts, now: ts + 1 <= now <= ts + 4, True),
        (f"NOW > TS + {w(2)}", lambda ts, now: now > ts + 2, False),
        (f"NOW >= {words.instant(6)}", lambda ts, now: now >= 6, False),
        (f"{words.instant(9)} >= NOW", lambda ts, now: now <= 9, True),
    ]


NOBODY = Play(Streams(INTEGERS, {"S": [], "R": [], "O": []}, [], []), 1)
"""Streams without rows."""


def _recurring(holds: Callable[[int], bool]) -> bool:
    return any(holds(p) for p in range(60, 180))


def _remainder(p: int, n: int) -> int:
    return int(math.fmod(p, n))


CLOCK_CONDITIONS: tuple[list[tuple[str, Callable[[int], bool]]], ...] = (
    [
        ("Timepoint % 2 = 0", lambda p: p % 2 == 0),
        ("Timepoint % 3 = 1", lambda p: _remainder(p, 3) == 1),
        ("Timepoint % 5 = -2", lambda p: _remainder(p, 5) == -2),
        ("Timepoint % 4 IN (1, 2)", lambda p: _remainder(p, 4) in (1, 2)),
        ("Timepoint >= 4 AND Timepoint < 11", lambda p: 4 <= p < 11),
        ("Timepoint = 7 OR Timepoint % 6 = 0", lambda p: p == 7 or p % 6 == 0),
        ("Timepoint BETWEEN 3 AND 30", lambda p: 3 <= p <= 30),
        ("Timepoint * Timepoint % 7 = 2", lambda p: p * p % 7 == 2),
        ("NOT Timepoint % 3 = 0 AND 2 < Timepoint", lambda p: p % 3 != 0 and p > 2),
    ],
    [
        ("SECOND(Timepoint) % 3 = 1", lambda p: p % 60 % 3 == 1),
        ("Timepoint >= TIMESTAMP '1970-01-01 00:00:04'", lambda p: p >= 4),
        ("SECOND(Timepoint) IN (1, 5, 6, 13)", lambda p: p % 60 in (1, 5, 6, 13)),
    ],
)
"""Conditions of CLOCK's filters, of integers and of timestamps."""


def instant_of(moment: Value) -> int:
    """The whole instant that a time column says."""
    return moment if isinstance(moment, int) else round(moment.timestamp())


def same(value: Value) -> Value:
    """One object for NaN, one zero."""
    if isinstance(value, float):
        return math.nan if math.isnan(value) else value + 0.0
    return value


def in_order(row: Row) -> list[tuple[int, Value]]:
    """All columns in turn, NULLs first."""
    return [(0, 0) if v is None else (1, v) for v in row]


__all__ = ["Leaf", "Play", "Relations", "Rows"]
