"""Window sequences and sessions: kernels and reference against the windows listed one by one."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import parse_one

from tests.kernels.conftest import HORIZON, Toolbox, arrivals, boundaries, finite
from tidegate.algebra.operators import Window
from tidegate.algebra.sequences import Formula, Loop, Periodic, SessionWindow, Varying, WindowSequence, holds
from tidegate.errors import Diagnostic
from tidegate.physical.lowering import compile_plan
from tidegate.reference.snapshots import Arrivals, Reference, Validity
from tidegate.time import MAX

TOOLS = Toolbox()


def formula(text):
    return Formula(parse_one(text, dialect="spark"))


@st.composite
def linear(draw, rows):
    """Legal clamped lines: lower below upper, upper no faster than the rate."""
    rate = draw(st.integers(1, 6))
    climb = draw(st.integers(0, rate))
    slope = draw(st.integers(0, climb))
    least = 1 if rows else 0
    top = draw(st.integers(least, 8))
    low = draw(st.integers(-6, top))
    lower = f"GREATEST({slope} * c0 + {low}, {least})"
    if draw(st.booleans()) and slope:
        lower = f"LEAST({lower}, {least + 9})"
    upper = f"{climb} * c0 + {max(top, least)}"
    return lower, upper, rate


@st.composite
def bent(draw, rows):
    """Bounds that are no lines: they rise by steps of two, and by square roots."""
    base = 1 if rows else 0
    lower, upper = draw(
        st.sampled_from(
            [
                (f"c0 + c0 % 2 + {base}", f"c0 + c0 % 2 + {base + 3}"),
                (
                    f"CAST(FLOOR(SQRT(c0) * 2) AS BIGINT) + {base}",
                    f"CAST(FLOOR(SQRT(c0) * 2) AS BIGINT) + {base + 5}",
                ),
                (f"{base}", f"c0 + c0 % 2 + {base}"),
                (f"{2 + base}", f"{6 + base}"),
            ]
        )
    )
    return lower, upper, draw(st.integers(2, 5))


@st.composite
def sequences(draw, rows=None, by_rows=None):
    rows = draw(st.booleans()) if rows is None else rows
    lower, upper, rate = draw(st.one_of(linear(rows), bent(rows)))
    by_rows = draw(st.booleans()) if by_rows is None else by_rows
    start = draw(st.sampled_from([None, None, 3, 7, -2]))
    schedule = Periodic(rate, by_rows, draw(st.integers(0, 4)))
    if not by_rows and draw(st.integers(0, 3)) == 0:
        rate_text = f"CASE WHEN c1 % 10 < 5 THEN {rate} ELSE {rate + 3} END"
        schedule = Varying(formula(rate_text), schedule.delay)
    return WindowSequence(formula(lower), formula(upper), schedule, rows, start)


LOOPS = [
    WindowSequence(formula("c1 - 5"), formula("c1"), Loop(6, formula("c1 < 20"), formula("c1 + 4"))),
    WindowSequence(formula("3"), formula("c1 - 1"), Loop(4, formula("TRUE"), formula("c1 + c1 DIV 2"))),
    WindowSequence(formula("2"), formula("9"), Loop(9, formula("FALSE"), formula("c1"))),
    WindowSequence(
        formula("GREATEST(c1 - 4, 4)"),
        formula("c1"),
        Varying(formula("CASE WHEN c1 < 12 THEN 2 ELSE 5 END")),
        start=4,
    ),
]


def listed(spec, times):
    """(moment, lower, upper) of the windows of a sequence over rows at these times, from definitions 8 to 12."""
    times = [t for t in times if spec.start is None or t >= spec.start]
    schedule = spec.schedule
    origin = 0 if spec.rows or isinstance(schedule, Loop) else (spec.start or 0)
    windows = []
    moment = now = None
    for i in range(80):
        if isinstance(schedule, Periodic) and schedule.rows:
            first = spec.upper.function(0, 0) + origin
            base = first if spec.rows else bisect_right(times, first)
            position = base + schedule.delay + i * schedule.rate
            if not spec.rows and position == base:
                moment = first
            elif position <= len(times):
                moment = times[position - 1]
            else:
                break
        elif i == 0:
            if isinstance(schedule, Loop):
                moment = schedule.first
            elif spec.upper.reads_now:
                moment = (spec.start or 0) + schedule.delay
            else:
                first = spec.upper.function(0, 0) + origin
                if spec.rows and first > len(times):
                    break
                moment = (times[first - 1] if spec.rows else first) + schedule.delay
        elif isinstance(schedule, Periodic):
            moment += schedule.rate
        elif isinstance(schedule, Varying):
            # Tick by tick, by Astral's formula: the latest moment is base + floor((t - base) / rate(t)) * rate(t).
            before = now
            while now <= before:
                moment += 1
                rate = schedule.rate.function(0, moment)
                now = windows[0][0] + (moment - windows[0][0]) // rate * rate
        else:
            if not holds(schedule.proceed)(moment):
                break
            moment = schedule.step.function(0, moment)
        if i == 0 or not isinstance(schedule, Varying):
            now = moment
        lower, upper = (f.function(i, now) + (0 if f.reads_now else origin) for f in (spec.lower, spec.upper))
        windows.append((moment, lower, upper))
    return windows


def begun(spec, part):
    return [(e, u) for e, u in part if spec.start is None or u >= spec.start]


def shown(spec, part, windows, t):
    past = [w for w in windows if w[0] <= t]
    return [e for e, _ in held(spec, begun(spec, part), *past[-1][1:])] if past else []


def held(spec, rows, lower, upper):
    return rows[lower - 1 : upper] if spec.rows else [r for r in rows if lower <= r[1] <= upper]


def late(spec, part, windows):
    """Whether a row belongs to a window that is shown before it comes."""
    rows = begun(spec, part)
    return any(u > moment for moment, *bounds in windows for _, u in held(spec, rows, *bounds))


def parts_of(rows, partition_by):
    parts = {}
    for e, u in sorted(rows, key=lambda r: r[1]):
        parts.setdefault(tuple(e[i] for i in partition_by), []).append((e, u))
    return list(parts.values())


def judge(plan, rows, source, frame, cuts, restoring):
    parts = parts_of(rows, plan.partition_by)
    spec = plan.spec
    windows = [listed(spec, [u for _, u in part]) for part in parts]
    if any(late(spec, part, w) for part, w in zip(parts, windows, strict=True)):
        with pytest.raises(Diagnostic, match="before its end"):
            TOOLS.play(plan, {"L": frame}, cuts, restoring)
        return
    result = TOOLS.play(plan, {"L": frame}, cuts, restoring)
    reference = Reference({"L": source})
    points = set(reference.change_points(plan))
    previous = None
    for t in HORIZON:
        expected = Counter(e for part, w in zip(parts, windows, strict=True) for e in shown(spec, part, w, t))
        assert TOOLS.bag(result, t) == expected, (t, cuts)
        assert reference.snapshot(plan, t) == expected, t
        assert t in points or previous is None or previous == expected, (t, points)
        previous = expected


@pytest.mark.parametrize("partition_by", [(), (0,), (1, 0)], ids=str)
@pytest.mark.parametrize("by_rows", [False, True], ids=["every time", "every rows"])
@pytest.mark.parametrize("rows_bound", [False, True], ids=["time bounds", "row bounds"])
@settings(max_examples=15)
@given(data=st.data())
def test_sequence_over_a_raw_stream(rows_bound, by_rows, partition_by, data):
    spec = data.draw(sequences(rows_bound, by_rows))
    rows = data.draw(arrivals)
    plan = Window(TOOLS.scan("L", relation=False), spec, partition_by if spec.counts_rows else ())
    judge(plan, rows, Arrivals(rows), TOOLS.raw(rows), data.draw(boundaries), data.draw(st.booleans()))


@pytest.mark.parametrize("spec", LOOPS, ids=lambda s: type(s.schedule).__name__)
@settings(max_examples=15)
@given(rows=arrivals, cuts=boundaries, restoring=st.booleans())
def test_procedural_and_aperiodic_sequences(spec, rows, cuts, restoring):
    plan = Window(TOOLS.scan("L", relation=False), spec)
    judge(plan, rows, Arrivals(rows), TOOLS.raw(rows), cuts, restoring)


def key(e):
    return [(v is not None, v or (0 if i == 0 else "")) for i, v in enumerate(e)]


@settings(max_examples=30)
@given(data=st.data())
def test_sequence_over_a_derived_stream(data):
    """The definition holds at every instant a row is valid; simultaneous rows are ordered by all columns."""
    spec = data.draw(sequences())
    rows = data.draw(finite)
    chronon = data.draw(st.sampled_from([1, 2, 3]))
    instants = [
        (e, t) for t in range(60) if t % chronon == 0 for e in sorted(TOOLS.bag(rows, t).elements(), key=key)
    ]
    plan = Window(TOOLS.scan("L"), spec, (1,) if spec.counts_rows else (), granularity=chronon)
    judge(plan, instants, Validity(rows), TOOLS.frame(rows), data.draw(boundaries), data.draw(st.booleans()))


def in_session(part, gap, t):
    """The rows of the run that reaches t, found from its end."""
    run = []
    reach = t
    for e, u in reversed([r for r in part if r[1] <= t]):
        if reach - u >= gap:
            break
        run.append(e)
        reach = u
    return run


@pytest.mark.parametrize("partition_by", [(), (0,), (1, 0)], ids=str)
@settings(max_examples=15)
@given(rows=arrivals, gap=st.integers(1, 9), cuts=boundaries, restoring=st.booleans())
def test_session_over_a_raw_stream(partition_by, rows, gap, cuts, restoring):
    plan = Window(TOOLS.scan("L", relation=False), SessionWindow(gap), partition_by)
    parts = parts_of(rows, partition_by)
    result = TOOLS.play(plan, {"L": TOOLS.raw(rows)}, cuts, restoring)
    reference = Reference({"L": Arrivals(rows)})
    for t in HORIZON:
        expected = Counter(e for part in parts for e in in_session(part, gap, t))
        assert TOOLS.bag(result, t) == expected == reference.snapshot(plan, t), (t, cuts)


@settings(max_examples=15)
@given(
    rows=finite,
    gap=st.integers(1, 6),
    chronon=st.sampled_from([1, 2, 3]),
    cuts=boundaries,
    restoring=st.booleans(),
)
def test_session_over_a_derived_stream(rows, gap, chronon, cuts, restoring):
    instants = [(e, t) for t in range(60) if t % chronon == 0 for e in TOOLS.bag(rows, t).elements()]
    plan = Window(TOOLS.scan("L"), SessionWindow(gap), (1,), granularity=chronon)
    parts = parts_of(instants, (1,))
    result = TOOLS.play(plan, {"L": TOOLS.frame(rows)}, cuts, restoring)
    for t in HORIZON:
        expected = Counter(e for part in parts for e in in_session(part, gap, t))
        assert TOOLS.bag(result, t) == expected, (t, cuts)


def test_rows_are_dropped_when_no_window_can_show_them():
    """FROM 10i TO 10i+2 EVERY 10: a row between the windows is never kept, one inside until its window is shown."""
    spec = WindowSequence(formula("10 * c0"), formula("10 * c0 + 2"), Periodic(10))
    program = compile_plan(Window(TOOLS.scan("L", relation=False), spec))
    states = program.initial()
    kept = []
    for t in range(24):
        states, _ = program.step(states, {"L": TOOLS.raw([((t, "p"), t)])}, t + 1)
        (state,) = states.values()
        kept.append(state["held"].rows.height)
    assert kept[:13] == [1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 0]


@pytest.mark.parametrize(
    ("lower", "upper"), [("3 * c0 + 1", "3 * c0 + 2"), ("c0 + c0 % 2 + 1", "c0 + c0 % 2 + 2")]
)
def test_rows_between_row_windows_are_not_kept(lower, upper):
    spec = WindowSequence(formula(lower), formula(upper), Periodic(3, True), rows=True)
    program = compile_plan(Window(TOOLS.scan("L", relation=False), spec, (0,)))
    states = program.initial()
    for t in range(40):
        states, _ = program.step(states, {"L": TOOLS.raw([((k, "p"), t) for k in (0, 1)])}, t + 1)
        (state,) = states.values()
        if lower.startswith("3"):
            assert state["waiting"].rows["n"].abs().sum() <= 2 * 4
        assert state["counts"].rows.height == 2


def test_a_long_stream_of_timestamps_needs_no_listing_of_windows():
    """Linear sequences are arithmetic: a row in 2026 is placed without visiting the windows since 1970."""
    spec = WindowSequence(formula("2000000 * c0"), formula("2000000 * c0 + 3000000"), Periodic(2_000_000))
    plan = Window(TOOLS.scan("L", relation=False), spec)
    t = 1_790_000_001_000_000
    result = TOOLS.play(plan, {"L": TOOLS.raw([((1, "p"), t)])}, [MAX])
    # windows that hold it: [t - 1 s, t + 2 s] and [t - 3 s, t], shown at their ends
    assert [r[1:] for r in result] == [(t, t + 4_000_000, 1)]


def test_a_row_that_the_last_row_before_it_has_overtaken_is_an_error():
    """Window 1, up to 5, is shown by the second row at 2; the third row, at 4, belongs to it."""
    spec = WindowSequence(formula("0"), formula("4 * c0 + 1"), Periodic(1, True))
    plan = Window(TOOLS.scan("L", relation=False), spec)
    frame = TOOLS.raw([((t, "p"), t) for t in (1, 2, 4)])
    for cuts in ([MAX], [2, 4, MAX]):
        with pytest.raises(Diagnostic, match="window 1 was shown before its end"):
            TOOLS.play(plan, {"L": frame}, cuts)
    legal = TOOLS.raw([((t, "p"), t) for t in (1, 2, 6)])
    assert TOOLS.bag(TOOLS.play(plan, {"L": legal}, [MAX]), 6) == Counter({(t, "p"): 1 for t in (1, 2, 6)})


def test_nothing_is_kept_of_a_session_that_has_ended():
    program = compile_plan(Window(TOOLS.scan("L", relation=False), SessionWindow(3), (0,)))
    states = program.initial()
    states, _ = program.step(states, {"L": TOOLS.raw([((k, "p"), k) for k in (0, 1, 2)])}, 3)
    (state,) = states.values()
    assert (state["last"].rows.height, state["open"].rows.height) == (3, 3)
    states, out = program.step(states, {}, 5)
    (state,) = states.values()
    assert sorted(out.select("c0", "ts", "n").rows()) == [(0, 3, -1), (1, 4, -1)]
    assert state["last"].rows["c0"].to_list() == state["open"].rows["c0"].to_list() == [2]
