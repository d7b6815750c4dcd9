"""PIPES' Fig. 5 (001 section 5): a four-way join is switched from a left-deep to a right-deep tree while it runs.

The boxes are the engine's own kernels, an epoch a second of stream time. The switch is done in three ways, from the instant W on, w being the windows' size:

    GenMig          both boxes get all rows; the old one answers up to T = W + w, the new one from T on (`runtime.migration`)
    parallel track  both boxes get all rows; of the old one's answers those count that have a row of before W in them, and the new one's, which have none, wait until
                    the old one has no such row any more, so that answers stay in order
    moving states   the new box is given at W all rows that the windows show, and answers at once

Rows carry whether they came before W, so that parallel track can tell.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from time import process_time

import polars as pl
from sqlglot import exp

from tidegate.algebra import operators as op
from tidegate.algebra.windows import TimeWindow
from tidegate.kernels.rows import Frame, from_rows
from tidegate.physical.lowering import Program, States, compile_plan
from tidegate.scalars.expressions import ref
from tidegate.time import MAX
from tidegate.types import INT, Field
from tidegate.worker.segments import settled

STREAMS = "ABCD"
VALUES = {"A": 100, "B": 100, "C": 1_000, "D": 1_000}
"""How many values the joined column has in each stream: A and B meet often, C and D seldom."""

FIELDS = (Field("x", INT, nullable=False), Field("late", INT, nullable=False))
SECOND = 1_000


@dataclass(frozen=True)
class Setting:
    """Rows a second and stream, and seconds: of the windows, before the switch, and in all."""

    rate: int = 60
    window: int = 10
    switch: int = 25
    seconds: int = 60

    @property
    def at(self) -> int:
        return self.switch * SECOND

    @property
    def filled(self) -> int:
        """When no row of before the switch is valid any more."""
        return (self.switch + self.window) * SECOND


@dataclass
class Course:
    """What a way showed, second by second: rows of the answer, rows that are kept, processor seconds."""

    way: str
    given: list[int] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    answers: list[Frame] = field(default_factory=list)

    def note(self, answer: Frame, kept: int, seconds: float, continued: int = 0) -> None:
        """An epoch; of its answer, so many rows go on with what was given before."""
        self.given.append(answer.height - continued)
        self.kept.append(kept)
        self.seconds.append(seconds)
        self.answers.append(answer)


def left_deep(window: int) -> op.Node:
    a, b, c, d = (_source(name, window) for name in STREAMS)
    joined = op.Join(a, b, "inner", _equal(0, 2))
    return op.Join(op.Join(joined, c, "inner", _equal(2, 4)), d, "inner", _equal(4, 6))


def right_deep(window: int) -> op.Node:
    a, b, c, d = (_source(name, window) for name in STREAMS)
    joined = op.Join(c, d, "inner", _equal(0, 2))
    return op.Join(a, op.Join(b, joined, "inner", _equal(0, 2)), "inner", _equal(0, 2))


def _equal(left: int, right: int) -> exp.Expression:
    return exp.EQ(this=ref(left), expression=ref(right))


def _source(name: str, window: int) -> op.Node:
    return op.Window(op.Scan(name, FIELDS), TimeWindow(window * SECOND))


def rows_of(setting: Setting, seed: int = 5) -> dict[str, Frame]:
    """The streams: values at random, rows at random within each second."""
    dice, found = random.Random(seed), {}
    for name in STREAMS:
        times = sorted(
            dice.randrange(setting.seconds * SECOND) for _ in range(setting.rate * setting.seconds)
        )
        rows = [(dice.randrange(VALUES[name]), int(t >= setting.at)) for t in times]
        found[name] = from_rows(rows, FIELDS, [(t, t + 1, 1) for t in times])
    return found


class Box:
    """A plan that runs."""

    def __init__(self, plan: op.Node) -> None:
        self.program: Program = compile_plan(plan)
        self.states: States = self.program.initial()
        self.seconds = 0.0

    def step(self, rows: Mapping[str, Frame], upto: int) -> Frame:
        began = process_time()
        after, out = self.program.step(self.states, rows, upto)
        self.states = settled(after)
        self.seconds = process_time() - began
        return out

    @property
    def kept(self) -> int:
        return sum(t.rows.height for state in self.states.values() for t in state.values())


def courses(setting: Setting, rounds: int = 3) -> list[Course]:
    """All ways, and both plans left alone, over the same rows. Of several rounds, in turn, the quickest of each epoch."""
    played = [_round(setting) for _ in range(rounds)]
    for ways in zip(*played, strict=True):
        ways[0].seconds = [min(found) for found in zip(*(w.seconds for w in ways), strict=True)]
    return played[0]


def _round(setting: Setting) -> list[Course]:
    rows = rows_of(setting)
    old, new = left_deep(setting.window), right_deep(setting.window)
    return [
        _alone("left-deep alone", old, rows, setting),
        _alone("right-deep alone", new, rows, setting),
        _genmig(old, new, rows, setting),
        _parallel_track(old, new, rows, setting),
        _moving_states(old, new, rows, setting),
    ]


def _between(rows: Mapping[str, Frame], low: int, high: int) -> dict[str, Frame]:
    within = (pl.col("ts") >= low) & (pl.col("ts") < high)
    return {name: frame.filter(within) for name, frame in rows.items()}


def _epochs(rows: Mapping[str, Frame], setting: Setting) -> list[tuple[int, dict[str, Frame]]]:
    ends = [(second + 1) * SECOND for second in range(setting.seconds)]
    return [(upto, _between(rows, upto - SECOND, upto)) for upto in ends]


def _alone(way: str, plan: op.Node, rows: Mapping[str, Frame], setting: Setting) -> Course:
    course, box = Course(way), Box(plan)
    for upto, come in _epochs(rows, setting):
        out = box.step(come, upto)
        course.note(out, box.kept, box.seconds)
    return course


def clipped(rows: Frame, low: int, high: int) -> Frame:
    """Rows as far as they count from one instant to another."""
    ends = pl.col("ts").clip(lower_bound=low), pl.col("te").clip(upper_bound=high)
    return rows.with_columns(*ends).filter(pl.col("ts") < pl.col("te"))


def _genmig(old: op.Node, new: op.Node, rows: Mapping[str, Frame], setting: Setting) -> Course:
    course, first, second = Course("GenMig"), Box(old), Box(new)
    at, until = setting.at, setting.filled
    for upto, come in _epochs(rows, setting):
        begins, ends = upto > at, upto - SECOND >= until
        answer = [clipped(first.step(come, upto), 0, until)] if not ends else []
        continued = 0
        if begins:
            out = second.step(come, upto)
            answer.append(clipped(out, until, MAX))
            # What the new plan shows from T on and has begun before is what the old plan shows until T.
            continued = answer[-1].height - out.filter(pl.col("ts") >= until).height
        kept = (0 if ends else first.kept) + (second.kept if begins else 0)
        spent = (0.0 if ends else first.seconds) + (second.seconds if begins else 0.0)
        course.note(pl.concat(answer), kept, spent, continued)
    return course


def _parallel_track(old: op.Node, new: op.Node, rows: Mapping[str, Frame], setting: Setting) -> Course:
    course, first, second = Course("parallel track"), Box(old), Box(new)
    waiting: list[Frame] = []
    all_late = pl.all_horizontal(pl.col(f"c{2 * i + 1}") == 1 for i in range(len(STREAMS)))
    for upto, come in _epochs(rows, setting):
        begins, ends = upto > setting.at, upto - SECOND >= setting.filled
        answer = [] if ends else [first.step(come, upto).filter(~all_late)]
        if begins:
            waiting.append(second.step(come, upto))
        if ends:
            answer, waiting = [*answer, *waiting], []
        kept = (0 if ends else first.kept) + (second.kept if begins else 0) + sum(w.height for w in waiting)
        spent = (0.0 if ends else first.seconds) + (second.seconds if begins else 0.0)
        course.note(pl.concat(answer), kept, spent)
    return course


def _moving_states(old: op.Node, new: op.Node, rows: Mapping[str, Frame], setting: Setting) -> Course:
    course, first, second = Course("moving states"), Box(old), Box(new)
    for upto, come in _epochs(rows, setting):
        if upto <= setting.at:
            out = first.step(come, upto)
            course.note(out, first.kept, first.seconds)
            continue
        moved = 0.0
        if upto - SECOND == setting.at:
            second.step(_between(rows, setting.at - setting.window * SECOND, setting.at), setting.at)
            moved = second.seconds
        out = second.step(come, upto)
        course.note(out, second.kept, second.seconds + moved)
    return course


def equal(one: Course, other: Course, setting: Setting) -> bool:
    """Whether two answers are the same bag at every instant at which either changes."""
    sides = pl.concat([*one.answers, *(a.with_columns(-pl.col("n")) for a in other.answers)])
    limit = setting.seconds * SECOND
    payload = [c for c in sides.columns if c not in ("ts", "te", "n")]
    begins = sides.select(*payload, t="ts", n="n")
    ends = sides.select(*payload, t="te", n=-pl.col("n"))
    changes = pl.concat([begins, ends]).filter(pl.col("t") < limit)
    return changes.group_by(*payload, "t").agg(pl.col("n").sum()).filter(pl.col("n") != 0).is_empty()
