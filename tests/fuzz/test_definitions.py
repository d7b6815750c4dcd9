"""What reference and kernels share (timetables, points, bounds of NOW) against the definitions, by trying every instant.

The definitions are written again here and in `relations`, from SPEC sections 4 and 5: texts and Python functions side by side.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable

import numpy as np
import pytest

from tests.fuzz.clauses import Clause, Words, _bounds, _loop, _sequence, _varying
from tests.fuzz.relations import Play, Relations, instant_of
from tests.fuzz.streams import INTEGERS, SECOND, TIMESTAMPS, catalog, generate
from tidegate.algebra import operators as op
from tidegate.algebra.modify import Restrict, Sync
from tidegate.algebra.now import bounds
from tidegate.algebra.points import Points, points_of
from tidegate.algebra.sequences import WindowSequence
from tidegate.algebra.timetables import NEVER, timetable
from tidegate.errors import Diagnostic
from tidegate.language.binder import bind
from tidegate.language.dialect import parse
from tidegate.reference.snapshots import Reference
from tidegate.reference.synchronization import candidates, is_point
from tidegate.scalars.meaning import compile_scalar
from tidegate.time import to_datetime

SPECS = int(os.environ.get("TIDEGATE_FUZZ_CASES", "120"))
FIRST = int(os.environ.get("TIDEGATE_FUZZ_SEED", "0"))


def planned(text: str, mode: str) -> op.Node:
    return bind(parse(text)[0], catalog(mode), text).plan


def sequence(text: str, mode: str) -> WindowSequence:
    (window,) = [
        n for n in planned(f"SELECT a FROM S WINDOW({text})", mode).walk() if isinstance(n, op.Window)
    ]
    assert isinstance(window.spec, WindowSequence)
    return window.spec


def test_timetables_place_rows_as_windows_listed_one_by_one() -> None:
    """The first window whose upper bound reaches x, the first whose lower bound has passed it, and when they are shown."""
    for seed in range(FIRST, FIRST + SPECS):
        dice = random.Random(seed)
        mode = dice.choice((INTEGERS, INTEGERS, TIMESTAMPS))
        words, unit = Words(mode == TIMESTAMPS), SECOND if mode == TIMESTAMPS else 1
        in_rows, rate = dice.random() < 0.3, dice.randint(1, 4)
        low, high, lower, upper = _bounds(dice, in_rows, rate)
        start, delay = dice.choice((None, 3, -2)), dice.choice((0, 2))
        said = [f"{b} ROWS" if in_rows else words.span(b) for b in (low, high, rate, delay)]
        text = f"FROM {said[0]} TO {said[1]} EVERY {said[2]} DELAY {said[3]}" if delay else (
            f"FROM {said[0]} TO {said[1]} EVERY {said[2]}"
        )  # fmt: skip
        text += "" if start is None else f" STARTING AT {words.instant(start)}"
        table = timetable(sequence(text, mode))
        origin, scale = (0 if in_rows or start is None else start), 1 if in_rows else unit
        places = [dice.randint(1 if in_rows else -3, 30) for _ in range(8)]
        # a sequence rises to any bound within sixty windows or never
        windows = [((lower(i, 0) + origin), (upper(i, 0) + origin)) for i in range(80)]
        for x in places:
            shown = next((i for i, (_, b) in enumerate(windows) if b >= x), NEVER)
            gone = next((i for i, (a, _) in enumerate(windows) if a > x), NEVER)
            at = np.array([x * scale], np.int64)
            assert (int(table.shown(at)[0]), int(table.gone(at)[0])) == (shown, gone), (
                f"seed {seed}: {x} in {text}"
            )
            if shown != NEVER:
                moment = (upper(0, 0) + origin + delay + shown * rate) * scale
                assert int(table.moment(np.array([shown]))[0]) == moment, (
                    f"seed {seed}: window {shown} of {text}"
                )


@pytest.mark.parametrize("make", [_varying, _loop])
def test_aperiodic_timetables_change_where_the_listed_windows_do(make: Callable[..., object]) -> None:
    for seed in range(FIRST, FIRST + SPECS // 4):
        dice = random.Random(seed)
        mode = dice.choice((INTEGERS, TIMESTAMPS))
        unit = SECOND if mode == TIMESTAMPS else 1
        clause = make(dice, Words(mode == TIMESTAMPS))
        assert isinstance(clause, Clause)
        rows = [((n,), dice.randint(-2, 16)) for n in range(5)]
        rows.sort(key=lambda r: r[1])
        start = sequence(clause.text, mode).start
        times = [u * unit for _, u in rows if start is None or u * unit >= start]
        said = timetable(sequence(clause.text, mode)).changes(times) if times else set()
        before = clause.shows(rows, -4)
        for t in range(-3, 30):
            now = clause.shows(rows, t)
            assert now == before or t * unit in said, f"seed {seed}: a change at {t} in {clause.text}"
            before = now


def test_sequences_over_timestamps_far_from_the_origin() -> None:
    """The same windows sixty years later: arithmetic, not listing."""
    far = 1_790_000_000
    for seed in range(FIRST, FIRST + SPECS // 4):
        dice = random.Random(seed)
        clause = _sequence(dice, Words(True), False, False)
        spec = sequence(clause.text.split(" STARTING")[0], TIMESTAMPS)
        if spec.lower.line is None or spec.upper.line is None or not spec.upper.line.slope:
            continue
        at = np.array([far * SECOND], np.int64)
        shown = int(timetable(spec).shown(at)[0])
        assert spec.bounds(shown, 0)[1] >= far * SECOND > spec.bounds(shown - 1, 0)[1], clause.text


@pytest.mark.parametrize("mode", [INTEGERS, TIMESTAMPS])
def test_points_are_the_instants_that_the_definition_names(mode: str) -> None:
    """Residue classes, filters asked tick by tick, unions, intersections and events: next and previous point of every instant."""
    for seed in range(FIRST, FIRST + SPECS // 2):
        dice = random.Random(seed)
        streams = generate(dice, mode)
        text, named = Relations(dice, mode).points(dice.choice((0, 1, 2)))
        play, unit = Play(streams, 1), streams.unit
        (sync,) = [
            n for n in planned(f"SELECT a FROM K SYNC BY ({text})", mode).walk() if isinstance(n, Sync)
        ]
        points, reference = points_of(sync.points), Reference(streams.sources(1))
        expected = [p for p in range(-8, 40) if named(play, p)]
        for t in range(-8, 30, 2):
            following = next((p * unit for p in expected if p >= t), None)
            if following is None:
                continue  # it may be anywhere, or nowhere
            said = (
                c
                for c in candidates(reference, sync.points, t * unit, 1)
                if is_point(reference, sync.points, c)
            )
            assert next(said) == following, f"seed {seed}: after {t} in {text}"
            assert next_tick(points, t * unit) in (None, following), f"seed {seed}: after {t} in {text}"


def next_tick(points: Points, t: int) -> int | None:
    """What the arithmetic of ticks says; None where events have a say, or where too many ticks would be tried."""
    if points.events:
        return None
    try:
        return points.next_tick(t)
    except Diagnostic as problem:
        if problem.condition != "SYNC_POINTS_RARE":
            raise
        return None


FORMS = (
    "NOW {c} TS + {n}", "TS + {n} {c} NOW", "NOW - {n} {c} TS", "NOW - TS {c} {n}", "{n} - NOW {c} TS",
    "TS - ({n} - NOW) {c} 5", "(NOW) {c} b + TS", "b - (NOW - TS) {c} {n}",
)  # fmt: skip


def test_bounds_of_now_are_where_the_condition_holds() -> None:
    """Each conjunct, solved for NOW, holds at exactly the instants at which it holds as it is written."""
    for form in FORMS:
        for comparison in ("<", "<=", ">", ">=", "="):
            for n in (0, 3):
                text = form.format(c=comparison, n=n)
                plan = planned(f"SELECT a FROM K WHERE {text}", INTEGERS)
                (node,) = [x for x in plan.walk() if isinstance(x, Restrict)]
                place = len(node.input.schema)
                written = text.replace("=", "==").replace("<==", "<=").replace(">==", ">=")
                solved = [
                    (b, compile_scalar(b.expression, node.input.schema, {}))
                    for b in bounds(node.predicate, place)
                ]
                condition = compile(written, "condition", "eval")
                for ts in (-2, 0, 7):
                    row = (1, 2, "x", None, None, None, 0, ts)
                    limits = [bound.interval(value(row)) for bound, value in solved]
                    for now in range(-20, 30):
                        inside = all((a is None or a <= now) and (b is None or now < b) for a, b in limits)
                        holds = eval(condition, {"NOW": now, "TS": ts, "b": 2})
                        assert inside == holds, f"{text} with TS = {ts} at {now}"


def test_now_with_timestamps_is_a_moment() -> None:
    plan = planned(
        "SELECT a FROM K WHERE TS + INTERVAL 2 SECONDS <= NOW AND NOW < TS + INTERVAL 5 SECONDS", TIMESTAMPS
    )
    (node,) = [x for x in plan.walk() if isinstance(x, Restrict)]
    row = (1, 2, "x", None, None, None, 0, to_datetime(3 * SECOND))
    limits = [
        b.interval(to_ticks(compile_scalar(b.expression, node.input.schema, {})(row)))
        for b in bounds(node.predicate, len(node.input.schema))
    ]
    assert sorted(limits, key=str) == sorted([(5 * SECOND, None), (None, 8 * SECOND)], key=str)


def to_ticks(moment: object) -> int:
    return instant_of(moment) * SECOND
