"""The examples, figures and formalizations of the window algebra (Astral), in SQL, on the paper's rows.

Each answer is the paper's; reference and kernels must both give it. The figures' rows are not printed in the text, so
streams are made to match what it says about them.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.language.world import World, listed, visible
from tests.papers.playing import snapshots
from tidegate.errors import Diagnostic
from tidegate.time import UNITS, to_ticks
from tidegate.types import Row

SECOND, MINUTE, HOUR = UNITS["SECOND"], UNITS["MINUTE"], UNITS["HOUR"]

WORLD = """
CREATE STREAM S(v INT, t BIGINT) SOURCE csv('s') ORDERED BY t;
CREATE STREAM M(id STRING, loc STRING, m INT, t BIGINT) SOURCE csv('m') ORDERED BY t;
CREATE STREAM C(v INT, t TIMESTAMP) SOURCE csv('c') ORDERED BY t;
"""


def world() -> World:
    return World().run(WORLD)


def ticks(rows: Iterable[int]) -> World:
    """A stream of one row per given instant, whose value is its position."""
    return world().arrive("S", [(t, p) for p, t in enumerate(rows, 1)])


def answers(w: World, query: str, instants: Iterable[int]) -> dict[int, list[Row]]:
    """Reference and kernels agree, and this is what they say; empty snapshots are left out."""
    plan = w.plan(query)
    found = {t: listed(visible(plan, bag)) for t, bag in snapshots(plan, w.sources, instants).items()}
    return {t: rows for t, rows in found.items() if rows}


def values(w: World, window: str, instants: Iterable[int], stream: str = "S") -> dict[int, list[int]]:
    found = answers(w, f"SELECT v FROM {stream} WINDOW({window})", instants)
    return {t: [v for (v,) in rows] for t, rows in found.items()}


LAST_TEN = "FROM 100*i + 91 ROWS TO 100*(i + 1) ROWS EVERY 100 ROWS"


def test_example_1_the_last_ten_of_every_hundred() -> None:
    found = values(ticks(range(1, 251)), LAST_TEN, [99, 100, 150, 199, 200, 900])
    assert found == {
        100: [*range(91, 101)], 150: [*range(91, 101)], 199: [*range(91, 101)],
        200: [*range(191, 201)], 900: [*range(191, 201)],
    }  # fmt: skip


def test_example_2_the_tenth_window_is_the_last_at_1024() -> None:
    """One row per second: gamma(1024 s) = floor(1024 / 100) - 1 = 9, the rows 991 to 1000."""
    assert values(ticks(range(1, 1101)), LAST_TEN, [1024]) == {1024: [*range(991, 1001)]}


# s1 … s10 of Fig. 1, such that the window [2, 5] holds s4 … s8
FIGURE_1 = [0, 1_000, 1_500, 2_000, 2_500, 3_500, 4_000, 5_000, 5_200, 6_000]


def clock() -> World:
    return world().arrive("C", [(t * 1_000, p) for p, t in enumerate(FIGURE_1, 1)])


def test_example_3_and_figure_1_sliding_windows() -> None:
    window = "FROM 2*i SECONDS TO 2*i + 3 SECONDS EVERY 2 SECONDS"
    at = {s: round(s * SECOND) for s in (2.9, 3, 4.9, 5, 5.5, 7)}
    found = values(clock(), window, at.values(), "C")
    assert found[at[5.5]] == [4, 5, 6, 7, 8]
    assert at[2.9] not in found
    assert found[at[3]] == found[at[4.9]] == [1, 2, 3, 4, 5]
    assert found[at[5]] == [4, 5, 6, 7, 8]
    assert found[at[7]] == [7, 8, 9, 10]


def test_example_4_the_last_value_of_each_location_and_of_each_source() -> None:
    w = world().arrive(
        "M", [(1, "a", "hall", 5), (2, "b", "hall", 6), (3, "c", "roof", 7), (4, "a", "roof", 8)]
    )
    query = "SELECT id, loc, m FROM M WINDOW(PARTITION BY {} FROM i + 1 ROWS TO i + 1 ROWS EVERY 1 ROW)"
    by_location = answers(w, query.format("loc"), [1, 3, 4])
    assert by_location == {
        1: [("a", "hall", 5)], 3: [("b", "hall", 6), ("c", "roof", 7)], 4: [("a", "roof", 8), ("b", "hall", 6)],
    }  # fmt: skip
    by_source = answers(w, query.format("id"), [3, 4])
    assert by_source == {
        3: [("a", "hall", 5), ("b", "hall", 6), ("c", "roof", 7)],
        4: [("a", "roof", 8), ("b", "hall", 6), ("c", "roof", 7)],
    }


@pytest.mark.parametrize(
    ("busy", "quiet", "opens"), [(10, 60, 7), (7, 60, 7), (7, 60, 6.5), (13, 30, 7), (1, 25, 7)]
)
def test_example_5_working_hours(busy: int, quiet: int, opens: float) -> None:
    """gamma(t) = floor((t - b) / r) r + b with one rate in [opens, 20[ and another else; it does not fall."""
    from datetime import datetime

    day = to_ticks(datetime(2026, 3, 2))
    rows = [day + k * 4 * MINUTE for k in range(24 * 15)]
    w = world().arrive("C", [(t, p) for p, t in enumerate(rows, 1)])
    window = (
        "FROM GREATEST(NOW - INTERVAL 30 MINUTES, TIMESTAMP '2026-03-02 00:00:00') TO NOW "
        f"EVERY CASE WHEN HOUR(NOW) * 60 + MINUTE(NOW) >= {int(opens * 60)} AND HOUR(NOW) < 20 "
        f"THEN INTERVAL {busy} MINUTES ELSE INTERVAL {quiet} MINUTES END "
        "STARTING AT TIMESTAMP '2026-03-02 00:00:00'"
    )

    def gamma(t: int) -> int:
        rate = (busy if opens <= (t - day) / HOUR < 20 else quiet) * MINUTE
        return (t - day) // rate * rate + day

    special = [7 * HOUR, 20 * HOUR, 20 * HOUR - 1, 20 * HOUR + 4 * MINUTE, 21 * HOUR, 6 * HOUR + 31 * MINUTE]
    instants = sorted({day + k * 7 * MINUTE for k in range(0, 24 * 60 // 7, 5)} | {day + x for x in special})
    found = values(w, window, instants, "C")
    for t in instants:
        latest = max(gamma(u) for u in (*range(day, t, MINUTE), t))
        assert found[t] == [
            p for p, u in enumerate(rows, 1) if max(latest - 30 * MINUTE, day) <= u <= latest
        ], t
    if (busy, quiet) == (7, 60):
        assert found[day + 20 * HOUR][-1] == 20 * 15 + 1


TEMPERATURES = [3, -1, 4, 1, -5, 9, 2, 6, -5, 3, 5, -8, 9, 7, 9]


def test_example_6_selection_above_and_below_a_row_window() -> None:
    w = world().arrive("S", [(t, temp) for t, temp in enumerate(TEMPERATURES, 1)])
    window = "WINDOW(FROM i + 1 ROWS TO i + 10 ROWS EVERY 1 ROW)"
    above = answers(w, f"SELECT v FROM S {window} WHERE v > 0", range(16))
    below = answers(w, f"SELECT v FROM (SELECT v FROM S WHERE v > 0) {window}", range(16))
    assert above[15] == [(v,) for v in sorted(v for v in TEMPERATURES[5:15] if v > 0)]
    assert below[15] == [(v,) for v in sorted([v for v in TEMPERATURES if v > 0][1:11])]
    assert {len(rows) for rows in below.values()} == {10}
    assert len(above[15]) == 8


def test_property_3_the_unbounded_row_window_lets_selections_pass() -> None:
    w = world().arrive("S", [(t, temp) for t, temp in enumerate(TEMPERATURES, 1)])
    for window in ("FROM 1 ROWS TO i + 1 ROWS EVERY 1 ROW", "ROWS UNBOUNDED"):
        above = answers(w, f"SELECT v FROM S WINDOW({window}) WHERE v > 0", range(16))
        below = answers(w, f"SELECT v FROM (SELECT v FROM S WHERE v > 0) WINDOW({window})", range(16))
        assert above == below
        assert above[4] == [(1,), (3,), (4,)]


def test_figure_3_range_4_slide_2_with_and_without_an_initial_phase() -> None:
    w = ticks(range(9))  # row p at p - 1
    with_phase = values(w, "FROM GREATEST(2*i - 4, 0) TO 2*i EVERY 2", range(9))
    without = values(w, "FROM 2*i TO 2*i + 4 EVERY 2", range(9))
    assert with_phase[0] == with_phase[1] == [1]
    assert with_phase[2] == with_phase[3] == [1, 2, 3]
    assert min(without) == 4
    assert {t: with_phase[t] for t in range(4, 9)} == without
    assert without[4] == [1, 2, 3, 4, 5]
    assert without[7] == [3, 4, 5, 6, 7]


def test_section_6_1_1_the_reading_without_max_is_not_legal() -> None:
    with pytest.raises(Diagnostic, match="window 0 would begin at -4") as caught:
        world().plan("SELECT v FROM S WINDOW(FROM 2*i - 4 TO 2*i EVERY 2)")
    assert caught.value.position is not None
    assert (caught.value.position.line, caught.value.position.column) == (1, 29)


def test_section_6_1_1_a_delay_shifts_every_evaluation() -> None:
    w = ticks(range(12))
    prompt = values(w, "FROM 2*i TO 2*i + 4 EVERY 2", range(20))
    late = values(w, "FROM 2*i TO 2*i + 4 EVERY 2 DELAY 3", range(3, 23))
    assert late == {t + 3: rows for t, rows in prompt.items()}


def test_section_6_1_2_range_alone_slides_by_a_chronon() -> None:
    """RANGE x of SPEC holds (t - x, t]; Astral's bounds are inclusive, so x - 1 ticks back."""
    w = ticks([0, 1, 1, 4, 9])
    assert values(w, "FROM GREATEST(i - 2, 0) TO i EVERY 1", range(15)) == values(w, "RANGE 3", range(15))


def test_section_6_1_3_five_coefficients() -> None:
    """(start, end, rate, start_adv, end_adv) = (1, 4, 5, 2, 3): lower 2i + 1, upper 3i + 4, every 5 from 4 on."""
    found = values(ticks(range(1, 20)), "FROM 2*i + 1 TO 3*i + 4 EVERY 5", [3, 4, 8, 9, 14, 19])
    assert found == {
        4: [1, 2, 3, 4],
        8: [1, 2, 3, 4],
        9: [*range(3, 8)],
        14: [*range(5, 11)],
        19: [*range(7, 14)],
    }


def test_section_6_1_4_a_loop() -> None:
    """u0 = 5, u(n+1) = un + 5 while un < 15; the last window, of u = 15, stays."""
    found = values(
        ticks(range(1, 30)), "FOR x = 5 WHILE x < 15 STEP x + 5 FROM x - 4 TO x", [4, 5, 9, 10, 15, 20, 29]
    )
    assert found == {
        5: [*range(1, 6)], 9: [*range(1, 6)], 10: [*range(6, 11)], 15: [*range(11, 16)],
        20: [*range(11, 16)], 29: [*range(11, 16)],
    }  # fmt: skip


def test_section_6_1_5_the_last_rows_at_a_period() -> None:
    w = world().arrive("C", [(s * SECOND, p) for p, s in enumerate([1, 2, 2, 5, 6, 7, 11], 1)])
    found = values(w, "ROWS 3 SLIDE 5 SECONDS", [s * SECOND for s in (4, 5, 9, 10, 14, 15)], "C")
    assert [found.get(s * SECOND) for s in (4, 5, 9, 10, 14, 15)] == [
        None, [2, 3, 4], [2, 3, 4], [4, 5, 6], [4, 5, 6], [5, 6, 7],
    ]  # fmt: skip


def test_section_2_landmark_fixed_and_tumbling() -> None:
    w = ticks(range(1, 21))
    assert values(w, "FROM 3 TO 4*i + 4 EVERY 4", [3, 4, 8, 11]) == {
        4: [3, 4],
        8: [*range(3, 9)],
        11: [*range(3, 9)],
    }
    fixed = [*range(5, 9)]
    assert values(w, "FOR x = 8 WHILE FALSE STEP x FROM 5 TO 8", [7, 8, 20]) == {8: fixed, 20: fixed}
    assert values(w, "FROM 5 TO 8 EVERY 1", [7, 8, 20]) == {8: fixed, 20: fixed}
    tumbling = values(w, "FROM 4*i TO 4*i + 3 EVERY 4", [3, 7, 8, 11])
    assert tumbling == {3: [1, 2, 3], 7: [4, 5, 6, 7], 8: [4, 5, 6, 7], 11: [8, 9, 10, 11]}


def test_simultaneous_rows_move_a_row_rate_by_several_windows() -> None:
    """Only the latest window of an instant is seen: tau^-1 is the highest position of the batch."""
    w = ticks([1, 2, 2, 2, 2, 6])
    found = values(w, "FROM 2*i + 1 ROWS TO 2*i + 2 ROWS EVERY 2 ROWS", [1, 2, 5, 6])
    assert found == {2: [3, 4], 5: [3, 4], 6: [5, 6]}


def test_row_bounds_at_a_rate_in_time_and_time_bounds_at_a_rate_in_rows() -> None:
    w = ticks([1, 3, 4, 5, 6, 7, 12])
    by_time = values(w, "FROM 2*i + 1 ROWS TO 2*i + 2 ROWS EVERY 3", [2, 3, 5, 6, 9, 11, 12, 20])
    # window 0 when row 2 comes (3), window 1 at 6, window 2 at 9, window 3 at 12 (row 7 only, row 8 never comes)
    assert by_time == {3: [1, 2], 5: [1, 2], 6: [3, 4], 9: [5, 6], 11: [5, 6], 12: [7]}
    by_rows = values(w, "FROM 0 TO i + 3 EVERY 2 ROWS", [2, 3, 4, 5, 7, 11, 12])
    # two rows up to 3; window 1 with row 4 (5), window 2 with row 6 (7), window 3 would need row 8
    assert by_rows == {
        3: [1, 2],
        4: [1, 2],
        5: [1, 2, 3],
        7: [1, 2, 3, 4],
        11: [1, 2, 3, 4],
        12: [1, 2, 3, 4],
    }


def test_an_end_that_is_not_reached_is_an_error_when_a_row_proves_it() -> None:
    w = ticks([1, 2, 50])
    query = "SELECT v FROM S WINDOW(FROM 1 ROWS TO i + 2 ROWS EVERY 10)"
    plan = w.plan(query)
    assert listed(visible(plan, w.reference.snapshot(plan, 5))) == [(1,), (2,)]
    with pytest.raises(Diagnostic, match="window 1 was shown before its end was reached") as caught:
        snapshots(plan, w.sources, [12])
    assert caught.value.locate(query).position is not None


def test_sessions_grow_and_end_together() -> None:
    w = ticks([1, 3, 6, 12, 13])
    found = values(w, "SESSION 4", range(20))
    assert found[1] == found[2] == [1]
    assert found[3] == [1, 2]
    assert found[6] == found[9] == [1, 2, 3]
    assert 10 not in found
    assert found[13] == found[16] == [4, 5]
    assert 17 not in found
    closed = answers(w, "DSTREAM(SELECT v FROM S WINDOW(SESSION 4))", range(20))
    assert closed == {10: [(1,), (2,), (3,)], 17: [(4,), (5,)]}
