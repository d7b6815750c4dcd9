"""Batches of simultaneous rows (Astral, definitions 2, 5 and 10): hand-worked answers, then generated streams."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.changes import tagged
from tests.kernels.conftest import VALUES, Toolbox
from tests.windows.test_sequence_kernels import LOOPS, sequences
from tidegate.algebra.batches import in_batches
from tidegate.algebra.operators import Istream, Window
from tidegate.algebra.printing import tree
from tidegate.algebra.properties import result_key
from tidegate.algebra.sequences import SessionWindow
from tidegate.algebra.windows import RowsEveryTime, RowWindow, TimeEveryRows, TimeWindow
from tidegate.connectors import registry
from tidegate.errors import Diagnostic
from tidegate.language.binder import bind
from tidegate.language.catalog import StreamDefinition
from tidegate.language.dialect import parse
from tidegate.language.statements import define
from tidegate.reference.snapshots import Arrivals, Reference
from tidegate.time import BATCHES, MAX

TOOLS = Toolbox()
SCRIPT = """
CREATE STREAM S(v STRING, k INT, b INT, t BIGINT) SOURCE memory('x') ORDERED BY t BATCH b;
CREATE STREAM U(w STRING, t BIGINT) SOURCE memory('x') ORDERED BY t;
CREATE STREAM Current OVER S KEY k;
CREATE STREAMED VIEW Twice AS SELECT k, CONCAT(v, v) AS v FROM Current;
"""
ROWS = {
    # v, k, batch, instant: two batches at 1, two rows in the first; one at 2; batches 3 and 5 at 6
    "S": [("a", 1, 0, 1), ("b", 2, 0, 1), ("c", 1, 1, 1), ("d", 2, 0, 2), ("e", 1, 3, 6), ("f", 1, 5, 6)],
    "U": [("u", 1), ("x", 6)],
}
EPOCHS = ([MAX], [*range(0, 20 * BATCHES, BATCHES), MAX], [2 * BATCHES, 6 * BATCHES, MAX])


def catalog():
    known = registry.catalog()
    for statement in parse(SCRIPT):
        known = define(statement, known, SCRIPT)
    return known


def played(query):
    """The answer as changes `+<row>t.i`, on which reference and kernels agree in any epochs."""
    known = catalog()
    bound = bind(parse(query)[0], known, query)
    sources, frames = {}, {}
    for name, rows in ROWS.items():
        definition = known.find(name)
        assert isinstance(definition, StreamDefinition)
        places = [[c.name for c in definition.columns].index(f.name) for f in definition.scan.schema]
        batch = None if definition.batch is None else [c.name for c in definition.columns].index("b")
        ticks = [
            (tuple(r[i] for i in places), r[-1] * BATCHES + (0 if batch is None else r[batch])) for r in rows
        ]
        sources[name] = Arrivals(ticks)
        frames[name] = TOOLS.raw(ticks, definition.scan.schema)
    key = result_key(bound.plan)
    expected = [str(c) for c in tagged(Reference(sources).intervals(bound.plan), key)]
    for cuts in EPOCHS:
        for restoring in (False, True):
            rows = TOOLS.play(bound.plan, frames, cuts, restoring)
            assert [str(c) for c in tagged(rows, key)] == expected, cuts
    return [paired(text) for text in expected]


def paired(text):
    row, tick = text.rsplit(">", 1)
    return f"{row}>{int(tick) // BATCHES}.{int(tick) % BATCHES}"


def test_a_row_is_there_from_its_batch_until_the_instant_is_over():
    assert played("SELECT v FROM S WHERE k = 1") == [
        "+<a>1.0", "+<c>1.1", "-<a>2.0", "-<c>2.0", "+<e>6.3", "+<f>6.5", "-<e>7.0", "-<f>7.0",
    ]  # fmt: skip


def test_the_relation_may_change_between_batches_of_one_instant():
    """Section 4.1: "the relation may change at batch arrival even if time doesn't change"."""
    assert played("SELECT STREAMED COUNT(*) AS n FROM S") == [
        "+<2>1.0", "u<3>1.1", "u<1>2.0", "-<1>3.0", "+<1>6.3", "u<2>6.5", "-<2>7.0",
    ]  # fmt: skip


def test_one_row_windows_show_the_last_row_of_the_last_batch():
    """Section 4.1: of the last batch, which may have several tuples, the most recent one is selected."""
    assert played("SELECT v FROM S WINDOW(ROWS 1)") == [
        "+<b>1.0", "u<c>1.1", "u<d>2.0", "u<e>6.3", "u<f>6.5",
    ]  # fmt: skip


def test_batches_of_a_window_are_batches_of_the_stream_made_from_it():
    """Section 4.1: "disregarding batch identifiers would lead to the loss of batch grouping"."""
    changes = played("SELECT v FROM ISTREAM(SELECT v FROM S WINDOW(ROWS 1)) WINDOW(RANGE 2)")
    assert changes == ["+<b>1.0", "+<c>1.1", "+<d>2.0", "-<b>3.0", "-<c>3.0", "-<d>4.0",
                       "+<e>6.3", "+<f>6.5", "-<e>8.0", "-<f>8.0"]  # fmt: skip


def test_windows_in_time_end_with_instants():
    assert played("SELECT v FROM S WINDOW(RANGE 2)") == [
        "+<a>1.0", "+<b>1.0", "+<c>1.1", "+<d>2.0", "-<a>3.0", "-<b>3.0", "-<c>3.0", "-<d>4.0",
        "+<e>6.3", "+<f>6.5", "-<e>8.0", "-<f>8.0",
    ]  # fmt: skip


def test_batches_of_an_instant_at_which_a_slide_is_due_are_seen_one_by_one():
    """6 is a multiple of 3: its batches appear as they come. Those of 1 and 2 appear at 3, before any batch of it."""
    assert played("SELECT v FROM S WINDOW(RANGE 3 SLIDE 3)") == [
        "+<a>3.0", "+<b>3.0", "+<c>3.0", "+<d>3.0", "-<a>6.0", "-<b>6.0", "-<c>6.0", "-<d>6.0",
        "+<e>6.3", "+<f>6.5", "-<e>9.0", "-<f>9.0",
    ]  # fmt: skip


def test_a_rate_in_rows_counts_batch_by_batch():
    """Definition 9: γ(t, i) = ⌊(position of the last row of the batch - β(0)) / r⌋, here r = 2, β(0) = 2.

    2 rows at (1, 0): window 0, rows 1 and 2. 3 at (1, 1): still window 0. 4 at (2, 0): rows 3 and 4. 5 at (6, 3), 6 at (6, 5).
    """
    assert played("SELECT v FROM S WINDOW(FROM 2*i + 1 ROWS TO 2*i + 2 ROWS EVERY 2 ROWS)") == [
        "+<a>1.0", "+<b>1.0", "-<a>2.0", "-<b>2.0", "+<c>2.0", "+<d>2.0",
        "-<c>6.5", "-<d>6.5", "+<e>6.5", "+<f>6.5",
    ]  # fmt: skip


def test_the_last_rows_each_two_instants():
    """ROWS 2 SLIDE 2 TICKS shows at (6, 3) and (6, 5) what ROWS 2 shows then, and at 2 the rows c, d."""
    assert played("SELECT v FROM S WINDOW(ROWS 2 SLIDE 2 TICKS)") == [
        "+<c>2.0", "+<d>2.0", "-<c>6.3", "+<e>6.3", "-<d>6.5", "+<f>6.5",
    ]  # fmt: skip


def test_updates_of_one_instant_are_seen_if_their_batches_differ():
    assert played("SELECT STREAMED k, v FROM Current") == [
        "+<1, a>1.0", "+<2, b>1.0", "u<1, c>1.1", "u<2, d>2.0", "u<1, e>6.3", "u<1, f>6.5",
    ]  # fmt: skip


def test_streams_without_batches_have_one_per_instant():
    assert played("SELECT v, w FROM S, U") == [
        "+<a, u>1.0", "+<b, u>1.0", "+<c, u>1.1", "-<a, u>2.0", "-<b, u>2.0", "-<c, u>2.0",
        "+<e, x>6.3", "+<f, x>6.5", "-<e, x>7.0", "-<f, x>7.0",
    ]  # fmt: skip


def test_a_clock_does_not_tell_batches_apart():
    """Points every 3: what changes at 1 and 2 is shown at 3, what changes in the batches of 6 at once."""
    assert played("SELECT STREAMED k, v FROM Current SYNC BY (SELECT Timepoint FROM CLOCK WHERE Timepoint % 3 = 0)") == [
        "+<1, c>3.0", "+<2, d>3.0", "u<1, e>6.3", "u<1, f>6.5",
    ]  # fmt: skip


def test_now_is_the_instant():
    assert played("SELECT v FROM Current WHERE NOW < TS + 2") == [
        "+<a>1.0", "+<b>1.0", "-<a>1.1", "+<c>1.1", "-<b>2.0", "+<d>2.0", "-<c>3.0", "-<d>4.0",
        "+<e>6.3", "-<e>6.5", "+<f>6.5", "-<f>8.0",
    ]  # fmt: skip


def test_the_time_of_a_view_s_rows_is_the_instant():
    assert played("SELECT STREAMED k, v, TS FROM Twice") == [
        "+<1, aa, 1>1.0", "+<2, bb, 1>1.0", "u<1, cc, 1>1.1", "u<2, dd, 2>2.0", "u<1, ee, 6>6.3", "u<1, ff, 6>6.5",
    ]  # fmt: skip


def test_explain_says_where_instants_are_pairs():
    query = "SELECT v FROM S WINDOW(ROWS 2)"
    assert "Window ROWS 2 IN BATCHES" in tree(bind(parse(query)[0], catalog(), query).plan)


def test_the_table_in_the_documentation():
    page = (Path(__file__).parents[2] / "docs" / "windows.md").read_text(encoding="utf-8")
    head, _, *lines = page[page.index("| row | (t, i)") :].split("\n\n")[0].splitlines()
    cells = [[c.strip() for c in line.strip("|").split("|")] for line in lines]
    pairs = [tuple(int(n) for n in c[1].strip("()").split(",")) for c in cells]
    ticks = [
        ((e,), t * BATCHES + i) for c, (t, i) in zip(cells, pairs, strict=True) for e in c[0].split(", ") if e
    ]
    source = Reference({"V": Arrivals(ticks)})
    known = "CREATE STREAM V(v STRING, b INT, t BIGINT) SOURCE memory('x') ORDERED BY t BATCH b"
    stream = define(parse(known)[0], registry.catalog(), known)
    windows = re.findall(r"`([^`]+)`", head)
    assert len(windows) == 4
    for place, window in enumerate(windows, 2):
        query = f"SELECT v FROM V WINDOW({window})"
        plan = bind(parse(query)[0], stream, query).plan
        for c, (t, i) in zip(cells, pairs, strict=True):
            shown = source.snapshot(plan, t * BATCHES + i)
            assert ", ".join(sorted(e for (e,) in shown)) == c[place], (window, t, i)


@pytest.mark.parametrize(
    ("text", "condition", "marked"),
    [
        ("CREATE STREAM X(a INT, t INT) SOURCE memory('x') ORDERED BY t BATCH c;", "UNKNOWN_COLUMN", "c"),
        ("CREATE STREAM X(a STRING, t INT) SOURCE memory('x') ORDERED BY t BATCH a;", "BATCH_COLUMN", "a"),
        ("CREATE STREAM X(a INT, t INT) SOURCE memory('x') ORDERED BY t BATCH t;", "BATCH_COLUMN", "t"),
        ("SELECT v FROM (SELECT v FROM S) WINDOW(RANGE 2)", None, None),
        ("SELECT n FROM (SELECT COUNT(*) AS n FROM S) WINDOW(RANGE 2)", "WINDOW_OVER_BATCHES", "S"),
        ("RSTREAM(SELECT v FROM S WINDOW(RANGE 2)) EVERY 2", "UNSUPPORTED", "S"),
        ("SELECT v FROM Current SYNC BY U", "UNSUPPORTED", "Current"),
    ],
)
def test_what_is_refused_says_where(text, condition, marked):
    statement = parse(text)[0]
    run = (lambda: define(statement, catalog(), text)) if text.startswith("CREATE") else (
        lambda: bind(statement, catalog(), text)
    )  # fmt: skip
    if condition is None:
        run()
        return
    with pytest.raises(Diagnostic) as caught:
        run()
    assert caught.value.condition == condition
    assert caught.value.span is not None
    start, end = caught.value.span
    assert text[start:end] == marked


# generated streams ---------------------------------------------------------------------------------------------------

SPECS = st.one_of(
    st.builds(TimeWindow, st.one_of(st.none(), st.integers(1, 6)), st.integers(1, 4)),
    st.builds(RowWindow, st.one_of(st.none(), st.integers(1, 4)), st.integers(1, 3)),
    st.builds(RowsEveryTime, st.integers(1, 4), st.integers(1, 4)),
    st.builds(TimeEveryRows, st.one_of(st.none(), st.integers(1, 6)), st.integers(1, 4)),
    st.builds(SessionWindow, st.integers(1, 4)),
    st.sampled_from(LOOPS),
    sequences(),
)
BATCHED = st.lists(st.tuples(VALUES, st.integers(0, 12), st.integers(0, 2)), max_size=10)
CUTS = st.one_of(
    st.just([MAX]),
    st.just([*range(0, 40 * BATCHES, BATCHES), MAX]),
    st.sets(st.integers(-2, 30), max_size=5).map(lambda s: [*(t * BATCHES for t in sorted(s)), MAX]),
)
INSTANTS = [(t, i) for t in range(-1, 40) for i in range(4)]


def expected_at(window, rows, t, i):
    """The law: what the window shows at t over the rows up to the batch (t, i), all in plain instants."""
    order = sorted(rows, key=lambda r: (r[1], r[2]))
    past = [(e, u) for e, u, b in order if (u, b) <= (t, i)]
    return Reference({"L": Arrivals(past)}).snapshot(window, t)


def judged(window, rows, cuts, restoring):
    plan = in_batches(window, {"L"})
    ticks = [(e, u * BATCHES + b) for e, u, b in rows]
    try:
        expected = {(t, i): expected_at(window, rows, t, i) for t, i in INSTANTS}
    except Diagnostic:
        with pytest.raises(Diagnostic, match="before its end"):
            TOOLS.play(plan, {"L": TOOLS.raw(ticks)}, cuts, restoring)
        return
    result = TOOLS.play(plan, {"L": TOOLS.raw(ticks)}, cuts, restoring)
    reference = Reference({"L": Arrivals(ticks)})
    points = {*reference.change_points(plan)}
    previous: Counter | None = None
    for (t, i), bag in expected.items():
        tick = t * BATCHES + i
        assert TOOLS.bag(result, tick) == bag == reference.snapshot(plan, tick), (t, i)
        assert tick in points or previous is None or previous == bag, (t, i)
        previous = bag


@pytest.mark.parametrize("partition_by", [(), (0,)], ids=str)
@settings(max_examples=50)
@given(spec=SPECS, rows=BATCHED, cuts=CUTS, restoring=st.booleans())
def test_kernels_and_reference_follow_the_law(partition_by, spec, rows, cuts, restoring):
    """Time and row bounds, time and row rates, sessions; epochs of one instant, of several, of all; state from the log."""
    judged(Window(TOOLS.scan("L", relation=False), spec, partition_by), rows, cuts, restoring)


@settings(max_examples=20)
@given(spec=SPECS, rows=BATCHED, cuts=CUTS, restoring=st.booleans())
def test_windows_over_the_changes_of_a_window(spec, rows, cuts, restoring):
    """ISTREAM of the last two rows has its own batches; what is windowed again is what each batch brought."""
    inner = Istream(Window(TOOLS.scan("L", relation=False), RowWindow(2)))
    order = sorted(rows, key=lambda r: (r[1], r[2]))
    brought = []
    for t, i in INSTANTS:
        past = [e for e, u, b in order if (u, b) <= (t, i)][-2:]
        before = [e for e, u, b in order if (u, b) < (t, i)][-2:]
        fresh = Counter(past) - Counter(before)
        brought += [(e, t, i) for e in sorted(fresh.elements(), key=TEXT)]
    plan = in_batches(Window(inner, spec), {"L"})
    ticks = [(e, u * BATCHES + b) for e, u, b in rows]
    window = Window(TOOLS.scan("L", relation=False), spec)
    try:
        expected = {(t, i): expected_at(window, brought, t, i) for t, i in INSTANTS}
    except Diagnostic:
        return
    result = TOOLS.play(plan, {"L": TOOLS.raw(ticks)}, cuts, restoring)
    for (t, i), bag in expected.items():
        assert TOOLS.bag(result, t * BATCHES + i) == bag, (t, i)


def TEXT(e):  # noqa: N802 - a constant function
    return [(v is not None, v or (0 if i == 0 else "")) for i, v in enumerate(e)]
