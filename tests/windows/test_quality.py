"""Quality ranges: what they mean, by hand; where they may stand; and what of them belongs to the identity of what runs."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.language.world import World
from tidegate.algebra import operators as op
from tidegate.algebra.adjusting import knobs_of
from tidegate.algebra.printing import tree
from tidegate.algebra.quality import Knob, RangedWindow, Settings, Steps
from tidegate.algebra.writing import from_plain, to_plain
from tidegate.errors import Diagnostic
from tidegate.language.dialect import parse, text_of
from tidegate.optimizer.driver import optimize
from tidegate.optimizer.matching import MatchError, over
from tidegate.reference.snapshots import Reference
from tidegate.runtime.jobs import planned
from tidegate.runtime.ledger import Ledger, after
from tidegate.runtime.quality import Change, Record, in_force, still_needed
from tidegate.storage import Storage
from tidegate.time import MAX, MIN

DEFINITIONS = """
CREATE STREAM S(k STRING, t BIGINT) SOURCE csv('s') ORDERED BY t;
CREATE STREAM Q(k STRING, t BIGINT) SOURCE csv('q') ORDERED BY t
  RANGE BETWEEN 2 AND 5 GRANULARITY BETWEEN 1 AND 4 PRIORITY 2 WITH (slack = '3');
CREATE STREAM M(k STRING, t TIMESTAMP) SOURCE csv('m') ORDERED BY t;
CREATE STREAM P(k STRING, a BIGINT, b BIGINT) SOURCE csv('p') VALID (a, b);
CREATE TABLE T(k STRING) FROM csv('t');
CREATE STREAM K OVER S KEY k;
"""
WORLD = World().run(DEFINITIONS)
SIZE, GRANULE = Knob("S", "RANGE", 2, 6), Knob("S", "GRANULARITY", 1, 4)


def shown(query: str, rows: list[tuple[int, str]], settings: Settings, instants: range) -> list[str]:
    """What a query shows at each instant, as a word."""
    world = World().run(DEFINITIONS).arrive("S", rows).arrive("Q", rows)
    reference = Reference(world.sources, settings=settings)
    plan = world.plan(query)
    return ["".join(sorted(e[0] for e in reference.snapshot(plan, t).elements())) for t in instants]


ROWS = [(0, "a"), (3, "b"), (5, "c")]


def test_a_row_goes_by_the_size_that_is_in_force_at_its_own_time() -> None:
    """a, of 0: [0, 6). From 3 on, the size is 2: b [3, 5). From 5 on it is 4: c [5, 9). a keeps the end it had."""
    query = "SELECT k FROM S WINDOW(RANGE BETWEEN 2 AND 6)"
    steps = {SIZE.name: Steps(6, ((3, 2), (5, 4)))}
    assert shown(query, ROWS, steps, range(-1, 10)) == [
        "",
        "a",
        "a",
        "a",
        "ab",
        "ab",
        "ac",
        "c",
        "c",
        "c",
        "",
    ]
    # Without a record the best quality is in force.
    assert shown(query, ROWS, {}, range(3, 12)) == ["ab", "ab", "abc", "bc", "bc", "bc", "c", "c", ""]


def test_both_ends_move_to_the_granule_that_is_in_force_at_the_time_of_the_row() -> None:
    """Of size 3: a [0, 3) on granule 1; b of 3 on granule 4: [3, 6) becomes [4, 8); c of 5 on granule 3: [5, 8) becomes [6, 9)."""
    query = "SELECT k FROM S WINDOW(RANGE 3 GRANULARITY BETWEEN 1 AND 4)"
    steps = {GRANULE.name: Steps(1, ((1, 4), (5, 3)))}
    assert shown(query, ROWS, steps, range(10)) == ["a", "a", "a", "", "b", "b", "bc", "bc", "c", ""]


def test_slides_come_before_granules() -> None:
    """SLIDE 2, then granule 3 from 2 on. a of 0, size 6: [0, 6). b of 3, size 2: [3, 5), slid [4, 6), on the granule [6, 6): never seen.
    c of 5, size 4: [5, 9), slid [6, 10), on the granule [6, 12)."""
    query = "SELECT k FROM S WINDOW(RANGE BETWEEN 2 AND 6 SLIDE 2 GRANULARITY BETWEEN 1 AND 4)"
    steps = {SIZE.name: Steps(6, ((3, 2), (5, 4))), GRANULE.name: Steps(1, ((2, 3),))}
    assert shown(query, ROWS, steps, range(13)) == ["a"] * 6 + ["c"] * 6 + [""]


def test_a_stream_declares_ranges_for_all_who_read_it() -> None:
    size, granule = Knob("Q", "RANGE", 2, 5, 2), Knob("Q", "GRANULARITY", 1, 4, 2)
    definition = WORLD.catalog.find("Q")
    assert (definition.range, definition.granularity, definition.slack) == (size, granule, 3)  # type: ignore[union-attr]
    specs = {
        "Q": RangedWindow(size, granule),
        "Q WINDOW(RANGE 9)": RangedWindow(9, granule),
        "Q WINDOW(RANGE 9 SLIDE 3)": RangedWindow(9, granule, 3),
        "Q WINDOW(RANGE BETWEEN 1 AND 2)": RangedWindow(Knob("Q", "RANGE", 1, 2), granule),
        "(SELECT k FROM Q WINDOW(RANGE 7) WHERE k > 'a')": RangedWindow(7, granule),
    }
    for item, spec in specs.items():
        (window,) = (n for n in WORLD.plan(f"SELECT k FROM {item}").walk() if isinstance(n, op.Window))
        assert window.spec == spec, item
    # A window of one instant, of rows, or with a granularity of its own does not take the stream's.
    for item in (
        "Q WINDOW(RANGE 1)",
        "Q WINDOW(ROWS 3)",
        "Q WINDOW(RANGE 9 GRANULARITY 2)",
        "Q WINDOW(SESSION 3)",
    ):
        assert knobs_of(WORLD.plan(f"SELECT k FROM {item}")) == {}, item
    assert shown("SELECT k FROM Q", ROWS, {size.name: Steps(5, ((3, 2),))}, range(8)) == [
        "a", "a", "a", "ab", "ab", "c", "c", "",
    ]  # fmt: skip


REFUSED = [
    ("S", "ROWS «BETWEEN» 2 AND 3", "UNSUPPORTED", "a number of rows cannot be chosen"),
    ("S", "ROWS 3 GRANULARITY «BETWEEN» 2 AND 3", "UNSUPPORTED", "the granularity of this window cannot be chosen"),
    ("S", "SESSION 3 GRANULARITY «BETWEEN» 2 AND 3", "UNSUPPORTED", "the granularity of this window"),
    ("S", "FROM i TO i EVERY 1 GRANULARITY «BETWEEN» 2 AND 3", "UNSUPPORTED", "the granularity of this window"),
    ("S", "RANGE «BETWEEN 2 AND 6» SLIDE 2 ROWS", "UNSUPPORTED", "renewed by rows has no quality range"),
    ("S", "RANGE «BETWEEN 6 AND 2»", "INVALID_WINDOW", "begins with the smaller value"),
    ("S", "RANGE 5 GRANULARITY «BETWEEN 6 AND 2»", "INVALID_WINDOW", "begins with the smaller value"),
    ("S", "RANGE BETWEEN «0» AND 2", "INVALID_WINDOW", "must be a positive whole number"),
    ("S", "RANGE BETWEEN «2 ROWS» AND 6", "INVALID_WINDOW", "a period of time, not of rows"),
    ("S", "RANGE BETWEEN 2 AND «6 MINUTES»", "TIME_DOMAIN", "needs a stream ordered by a TIMESTAMP"),
    ("M", "RANGE BETWEEN «10» AND 20 MINUTES", "INVALID_WINDOW", "one end of RANGE BETWEEN has a unit"),
    ("M", "RANGE 1 HOUR GRANULARITY BETWEEN 1 SECOND AND «20»", "INVALID_WINDOW", "one end of GRANULARITY BETWEEN"),
    ("S", "RANGE BETWEEN 2 «6»", "SYNTAX_ERROR", "expected AND"),
    ("S", "RANGE BETWEEN 2 AND 6 PRIORITY «0»", "SYNTAX_ERROR", "a whole number from 1 on"),
    ("S", "RANGE BETWEEN 2 AND 6 PRIORITY 2 «GRANULARITY» 2", "SYNTAX_ERROR", "expected ., found"),
    ("S", "RANGE 6 PRIORITY «2»", "INVALID_WINDOW", "PRIORITY weighs a quality range"),
    ("K", "RANGE «BETWEEN 2 AND 6»", "UNSUPPORTED", "this is a derived stream"),
    ("P", "RANGE «BETWEEN 2 AND 6»", "UNSUPPORTED", "this is a derived stream"),
    ("(SELECT k FROM S WINDOW(RANGE 3))", "RANGE «BETWEEN 2 AND 6»", "UNSUPPORTED", "this is a derived stream"),
    ("S", "PARTITION BY «j» RANGE BETWEEN 2 AND 6", "UNKNOWN_COLUMN", "there is no column 'j'"),
]  # fmt: skip


@pytest.mark.parametrize(("item", "window", "condition", "message"), REFUSED)
def test_where_no_range_can_stand(item: str, window: str, condition: str, message: str) -> None:
    marked = f"SELECT k FROM {item} WINDOW({window})"
    text, place = marked.replace("«", "").replace("»", ""), marked.index("«")
    with pytest.raises(Diagnostic, match=message) as problem:
        WORLD.plan(text)
    assert problem.value.condition == condition
    assert problem.value.position is not None
    assert problem.value.position.column == place + 1


@pytest.mark.parametrize(
    ("clause", "message"),
    [
        ("ORDERED BY t RANGE 5", "expected BETWEEN"),
        ("ORDERED BY t GRANULARITY BETWEEN 5 AND 1", "begins with the smaller value"),
        ("VALID (t, u) RANGE BETWEEN 1 AND 5", "rows that carry their validity have no quality range"),
    ],
)
def test_what_a_stream_cannot_declare(clause: str, message: str) -> None:
    with pytest.raises(Diagnostic, match=message):
        World().run(f"CREATE STREAM X(k STRING, t BIGINT, u BIGINT) SOURCE csv('x') {clause}")


def test_a_range_is_written_as_it_was_read() -> None:
    text = "SELECT k FROM M WINDOW(RANGE BETWEEN 10 MINUTES AND 1 HOUR SLIDE 1 MINUTE GRANULARITY BETWEEN 1 SECOND AND 5 SECONDS PRIORITY 3)"
    assert text_of(parse(text)[0]) == text
    plan = WORLD.plan(text)
    said = "RANGE BETWEEN 10 MINUTES AND 1 HOUR SLIDE 1 MINUTE GRANULARITY BETWEEN 1 SECOND AND 5 SECONDS PRIORITY 3"
    assert f"Window {said}" in tree(plan)
    assert from_plain(json.loads(json.dumps(to_plain(plan)))) == plan
    assert list(knobs_of(plan)) == [
        "M RANGE BETWEEN 10 MINUTES AND 1 HOUR PRIORITY 3", "M GRANULARITY BETWEEN 1 SECOND AND 5 SECONDS PRIORITY 3",
    ]  # fmt: skip


def test_queries_with_equal_ranges_share_the_window_and_others_do_not() -> None:
    def operators(*texts: str) -> Counter[str]:
        plans = {str(i): optimize(WORLD.plan(text))[0] for i, text in enumerate(texts)}
        return Counter(o.name for o in planned(plans, {}).operators.values())

    counted = "SELECT k, COUNT(*) AS n FROM S WINDOW({}) GROUP BY k"
    ranged = counted.format("RANGE BETWEEN 2 AND 6")
    assert operators(ranged, ranged.replace("COUNT(*)", "MAX(k)"))["RangedWindow"] == 1
    for other in (
        "RANGE BETWEEN 2 AND 5",
        "RANGE BETWEEN 2 AND 6 PRIORITY 3",
        "RANGE BETWEEN 2 AND 6 SLIDE 2",
    ):
        assert operators(ranged, counted.format(other))["RangedWindow"] == 2
    beside = operators(ranged, counted.format("RANGE 6"))
    assert (beside["RangedWindow"], beside["TimeWindow"]) == (1, 1)


def test_a_filter_passes_a_range_and_a_fixed_window_is_not_answered_by_one() -> None:
    plan, fired = optimize(WORLD.plan("SELECT k FROM S WINDOW(RANGE BETWEEN 2 AND 6) WHERE k > 'a'"))
    assert "push_filter_below_window" in [f.rule for f in fired]
    assert any(isinstance(n, op.Window) and isinstance(n.input, op.Project | op.Filter) for n in plan.walk())
    windows = [op.Window(op.Scan("S", WORLD.plan("SELECT k FROM S").inputs[0].schema), spec) for spec in (
        RangedWindow(SIZE), RangedWindow(Knob("S", "RANGE", 2, 7)), RangedWindow(6, GRANULE),
    )]  # fmt: skip
    for one in windows:
        for other in windows:
            if one is other:
                assert over(one, other) is not None
            else:
                with pytest.raises(MatchError):
                    over(one, other)


def test_what_is_recorded_survives_and_is_as_short_as_can_be(tmp_path: Path) -> None:
    ledger = Ledger(Storage(str(tmp_path)))
    for at, value in ((MIN, 5), (10, 3), (20, 6), (40, 2)):
        ledger.commit(after(ledger.latest, (), upto=at, settings=(Change(SIZE, at, value),)))
        assert ledger.latest.settings == (Change(SIZE, at, value),)
    ledger.commit(after(ledger.latest, (), upto=60))
    assert ledger.latest.settings == (), "a manifest names changes only"
    expected = {SIZE.name: Steps(5, ((10, 3), (20, 6), (40, 2)))}
    assert in_force(ledger.settings) == expected
    assert in_force(Ledger(Storage(str(tmp_path))).settings) == expected
    ledger._since = dict.fromkeys(range(1000), (0, 1))  # so many epochs that an index takes over
    assert ledger.tidy(lambda epoch, files: list(files))
    assert in_force(Ledger(Storage(str(tmp_path))).settings) == expected


def test_retention_keeps_what_rows_that_are_seen_have_needed() -> None:
    """Of a window of up to 6 with slide 1 and no granule, rows of before horizon - 8 are never seen again."""
    records = {SIZE.name: Record(SIZE, Steps(5, ((10, 3), (20, 6), (40, 2))))}
    plans = [WORLD.plan("SELECT k FROM S WINDOW(RANGE BETWEEN 2 AND 6)")]
    assert in_force(still_needed(records, plans, 31))[SIZE.name] == Steps(6, ((40, 2),))
    assert in_force(still_needed(records, plans, 27))[SIZE.name] == Steps(3, ((20, 6), (40, 2)))
    assert still_needed(records, [], 31) == records, "nobody knows how far it reaches"
    endless = WORLD.plan("SELECT k FROM S WINDOW(RANGE UNBOUNDED GRANULARITY BETWEEN 1 AND 4)")
    other = {GRANULE.name: Record(GRANULE, Steps(1, ((10, 3),)))}
    assert still_needed(other, [endless], MAX - 1) == other


@pytest.mark.parametrize(
    "query",
    [
        "SELECT k FROM S WINDOW(RANGE BETWEEN 2 AND 6)",
        "SELECT k FROM S WINDOW(RANGE BETWEEN 2 AND 6 GRANULARITY 25)",
        "SELECT k FROM (DSTREAM(SELECT k FROM S WINDOW(RANGE BETWEEN 2 AND 6))) WINDOW(RANGE 9)",
        "SELECT k FROM (DSTREAM(SELECT k FROM S WINDOW(RANGE BETWEEN 2 AND 6))) WINDOW(RANGE 9 SLIDE 4)",
        "SELECT k FROM (DSTREAM(SELECT k FROM S WINDOW(RANGE BETWEEN 2 AND 6))) WINDOW(ROWS 4)",
        "SELECT k FROM (SELECT k FROM S WINDOW(RANGE BETWEEN 2 AND 6)) WINDOW(RANGE 9)",
        "SELECT k FROM (RSTREAM(SELECT k FROM S WINDOW(RANGE BETWEEN 2 AND 6)) EVERY 5) WINDOW(RANGE 10)",
        "SELECT k FROM V SYNC BY CLOCK(25)",
        "SELECT k FROM V SYNC BY (SELECT TS FROM S WHERE k = 'm')",
    ],
)
def test_what_retention_forgets_changes_no_answer_from_the_horizon_on(query: str) -> None:
    world = World().run(DEFINITIONS + "CREATE VIEW V AS SELECT k FROM S WINDOW(RANGE BETWEEN 2 AND 6);")
    world.arrive("S", [(i, "abcdefghijklmnopqrstuvwxyz"[i % 26]) for i in range(60)])
    records = {SIZE.name: Record(SIZE, Steps(6, tuple((i, 2 + i * 3 % 5) for i in range(1, 60))))}
    plan = world.plan(query)
    whole = Reference(world.sources, settings=in_force(records))
    for horizon in range(10, 60, 3):
        part = Reference(world.sources, settings=in_force(still_needed(records, [plan], horizon)))
        for t in range(horizon, horizon + 12):
            assert part.snapshot(plan, t) == whole.snapshot(plan, t), (horizon, t)
