"""What may pass a window (Astral, properties 1 to 3), and when one query's windows answer another (property 4)."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import parse_one

from tests.kernels.conftest import HORIZON, Toolbox, arrivals, finite
from tests.windows.test_sequence_kernels import formula, sequences
from tidegate.algebra import operators as op
from tidegate.algebra.sequences import Periodic, SessionWindow, WindowSequence
from tidegate.algebra.windows import RowsEveryTime, RowWindow, TimeEveryRows, TimeWindow, is_temporal
from tidegate.errors import Diagnostic
from tidegate.optimizer.driver import optimize
from tidegate.optimizer.rules.filters import push_filter_below_window
from tidegate.optimizer.rules.windows import push_projection_below_window
from tidegate.optimizer.transposition import Transposition, transposable
from tidegate.reference.snapshots import Arrivals, Reference, Validity
from tidegate.scalars.expressions import ref

TOOLS = Toolbox()
RAW, DERIVED = TOOLS.scan("L", relation=False), TOOLS.scan("L")
EVERYTHING = WindowSequence(formula("1"), formula("c0 + 1"), Periodic(1, True), rows=True)

PLAIN = st.sampled_from(
    [
        TimeWindow(4), TimeWindow(5, 3), TimeWindow(None), RowWindow(3), RowWindow(None), RowWindow(None, 2),
        RowsEveryTime(None, 3), RowsEveryTime(2, 4), TimeEveryRows(5, 2), TimeEveryRows(None, 2), SessionWindow(3), EVERYTHING,
    ]
)  # fmt: skip
PREDICATES = ["c0 > 0", "c1 = 'p'", "c0 IS NULL AND c1 = 'q'", "c1 = 'p' AND c0 < 2"]


def snapshots(plan, source):
    reference = Reference({"L": source})
    return {t: reference.snapshot(plan, t) for t in HORIZON}


@settings(max_examples=150)
@given(data=st.data())
def test_what_is_moved_below_a_window_changes_nothing(data):
    spec = data.draw(st.one_of(PLAIN, sequences()))
    raw = data.draw(st.booleans())
    rows = data.draw(arrivals if raw else finite)
    partition = () if is_temporal(spec) else data.draw(st.sampled_from([(), (1,), (1, 0)]))
    window = op.Window(RAW if raw else DERIVED, spec, partition)
    plan = op.Filter(window, parse_one(data.draw(st.sampled_from(PREDICATES))))
    if data.draw(st.booleans()):
        plan = op.Project(plan, (ref(1),), TOOLS.schema[1:])
    source = Arrivals(rows) if raw else Validity(rows)
    try:
        expected = snapshots(plan, source)
    except Diagnostic:
        return
    better, _ = optimize(plan)
    assert snapshots(better, source) == expected


@pytest.mark.parametrize(
    "spec",
    [
        TimeWindow(4), TimeWindow(5, 3), TimeWindow(None), RowWindow(None), RowsEveryTime(None, 3), EVERYTHING,
        WindowSequence(formula("2 * c0"), formula("2 * c0 + 3"), Periodic(2)),
    ],
    ids=str,
)  # fmt: skip
def test_a_selection_passes_windows_in_time_and_unbounded_ones(spec):
    predicate = parse_one("c0 > 0")
    moved = push_filter_below_window(op.Filter(op.Window(RAW, spec), predicate))
    assert moved == op.Window(op.Filter(RAW, predicate), spec)


@pytest.mark.parametrize(
    "spec",
    [
        RowWindow(3), RowWindow(None, 2), RowsEveryTime(2, 4), TimeEveryRows(None, 2), SessionWindow(3),
        WindowSequence(formula("1"), formula("c0 + 1"), Periodic(1, True, 1), rows=True),
        WindowSequence(formula("c0 + 1"), formula("c0 + 10"), Periodic(1, True), rows=True),
        WindowSequence(formula("0"), formula("c0"), Periodic(1, True)),
    ],
    ids=str,
)  # fmt: skip
def test_a_selection_stops_at_windows_that_count(spec):
    assert push_filter_below_window(op.Filter(op.Window(RAW, spec), parse_one("c0 > 0"))) is None
    assert (
        push_filter_below_window(op.Filter(op.Window(RAW, spec, (1,)), parse_one("c0 > 0 OR c1 = 'p'")))
        is None
    )


def test_a_condition_on_the_partition_passes_alone():
    plan = op.Filter(op.Window(RAW, RowWindow(2), (1,)), parse_one("c0 > 0 AND c1 = 'p'"))
    moved = push_filter_below_window(plan)
    assert isinstance(moved, op.Filter)
    assert moved.predicate == parse_one("c0 > 0")
    assert moved.input == op.Window(op.Filter(RAW, parse_one("c1 = 'p'")), RowWindow(2), (1,))


def test_a_projection_passes_with_the_partition_columns():
    kept = op.Project(op.Window(RAW, RowWindow(2), (1,)), (ref(1),), TOOLS.schema[1:])
    moved = push_projection_below_window(kept)
    assert moved == op.Window(op.Project(RAW, (ref(1),), TOOLS.schema[1:]), RowWindow(2), (0,))
    lost = op.Project(op.Window(RAW, RowWindow(2), (1,)), (ref(0),), TOOLS.schema[:1])
    assert push_projection_below_window(lost) is None
    ordered = op.Project(op.Window(DERIVED, RowWindow(2)), (ref(1),), TOOLS.schema[1:])
    assert push_projection_below_window(ordered) is None


# property 4 ------------------------------------------------------------------------------------------------------


def linear(a, b, c, d, r, rows=False):
    return WindowSequence(formula(f"{a} * c0 + {b}"), formula(f"{c} * c0 + {d}"), Periodic(r, rows), rows)


Q1, Q2 = linear(2, 3, 5, 3, 5), linear(2, 2, 5, 8, 5)


@pytest.mark.parametrize("t0", [0, 11])
def test_example_7_only_n_1_matches(t0):
    """t1 = t0 + 5 n gives K = 1 + n, and b' fits for n = 1 alone."""
    found = {n: transposable(Q1, t0, Q2, t0 + 5 * n) for n in range(6)}
    assert found == {n: Transposition(2, t0 + 13) if n == 1 else None for n in range(6)}
    assert all(transposable(Q1, t0, Q2, t0 + k) is None for k in range(30) if k != 5)


def started(spec, t0):
    return WindowSequence(spec.lower, spec.upper, spec.schedule, spec.rows, t0)


def differences(window1, t0, window2, t1, rows):
    """The instants at which the later query differs from the earlier one without the rows before t1."""
    reference = Reference({"L": Arrivals(rows)})
    first, second = op.Window(RAW, started(window1, t0)), op.Window(RAW, started(window2, t1))
    times = dict(rows)
    found = set()
    for t in range(t1, 60):
        left = Counter({e: n for e, n in reference.snapshot(first, t).items() if times[e] >= t1})
        if left != reference.snapshot(second, t):
            found.add(t)
    return found


def test_figure_2_the_transposed_windows_hold_the_same_rows():
    """From the later query's first window on; before it, at 8, the earlier query already shows [5, 8]."""
    rows = [((t, "p"), t) for t in range(40)]
    found = transposable(Q1, 0, Q2, 5)
    assert found is not None
    assert differences(Q1, 0, Q2, 5, rows) == set(range(8, found.first))


@settings(max_examples=60)
@given(
    st.integers(0, 3), st.integers(0, 6), st.integers(0, 5), st.integers(0, 6), st.integers(1, 5), st.integers(0, 12),
    st.integers(0, 6), st.integers(0, 12), st.booleans(),
)  # fmt: skip
def test_what_is_called_transposable_is(a, b, c, d, r, gap, b2, d2, corollary):
    a, c = (a if a < 3 else r), (c if c < 4 else r)
    window1 = linear(a, b, c, b + d, r)
    window2 = window1 if corollary else linear(a, b2, c, b2 + d2, r)
    found = transposable(window1, 2, window2, 2 + gap)
    if found is None:
        return
    rows = [((t, "p"), t) for t in range(1, 50)]
    try:
        differs = differences(window1, 2, window2, 2 + gap, rows)
    except Diagnostic:
        return  # not a legal sequence
    assert not {t for t in differs if t >= found.first}


@pytest.mark.parametrize(("a", "b"), [(5, 0), (0, 0)])
def test_corollary_2_usual_sequences_transpose_by_multiples_of_their_rate(a, b):
    window = WindowSequence(formula(f"GREATEST({a} * c0 + {b}, 0)"), formula("5 * c0 + 2"), Periodic(5))
    shifts = {gap: transposable(window, 3, window, 3 + gap) for gap in range(21)}
    assert {gap for gap, found in shifts.items() if found is not None} == {0, 5, 10, 15, 20}
    assert shifts[10] == Transposition(2, 15)
    rows = WindowSequence(formula(f"{a} * c0 + 1"), formula("5 * c0 + 3"), Periodic(5, True), rows=True)
    assert [n for n in range(16) if transposable(rows, 0, rows, 9, rows_between=n) is not None] == [
        0,
        5,
        10,
        15,
    ]
    assert transposable(rows, 0, rows, 9) is None


def test_an_upper_bound_slower_than_the_rate_does_not_transpose():
    """Landmarks that grow by 1 every 2: the later query's first window ends where no window of the earlier one does."""
    slow = linear(0, 0, 1, 0, 2)
    assert transposable(slow, 0, slow, 0) == Transposition(0, 0)
    assert transposable(slow, 0, slow, 2) is None
    assert differences(slow, 0, slow, 2, [((t, "p"), t) for t in range(30)])


def test_row_windows_transpose_by_the_rows_between():
    window = linear(2, 1, 2, 3, 2, rows=True)
    rows = [((t, "p"), t) for t in range(1, 30)]
    for t1 in range(1, 12):
        found = transposable(window, 1, window, t1, rows_between=t1 - 1)
        assert (found is not None) == ((t1 - 1) % 2 == 0)
        if found is not None:
            # the later query's third row, found.first, comes at t1 + 2
            assert not {t for t in differences(window, 1, window, t1, rows) if t >= t1 + found.first - 1}
