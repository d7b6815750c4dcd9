"""What windows and stream operators show, instant by instant, worked out by hand."""

from __future__ import annotations

import pytest

from tests.language.world import World
from tidegate.errors import Diagnostic
from tidegate.time import MAX
from tidegate.types import Row

STREAMS = """
CREATE STREAM S(a STRING, k INT, t BIGINT) SOURCE memory('S') ORDERED BY t;
CREATE STREAM P(a STRING, vf BIGINT, vt BIGINT) SOURCE memory('P') VALID(vf, vt);
CREATE TABLE T(a STRING) FROM memory('T');
"""


@pytest.fixture
def world() -> World:
    rows = [(1, "p", 1), (2, "q", 2), (2, "r", 1), (5, "s", 1), (9, "u", 2)]
    world = World().run(STREAMS).arrive("S", rows).hold("T", [("x",)])
    return world.last("P", [(("d",), 2, 5, 1), (("e",), 4, 6, 2)])


def letters(world: World, query: str, instants: range) -> dict[int, str]:
    """The first column of each snapshot, in order, as one word; empty snapshots are left out."""
    return {t: "".join(e[0] for e in rows) for t, rows in world.answers(query, instants).items()}


def test_raw_streams_are_now(world: World) -> None:
    assert letters(world, "SELECT a FROM S", range(12)) == {1: "p", 2: "qr", 5: "s", 9: "u"}


def test_range(world: World) -> None:
    """[t, t + 3)"""
    query = "SELECT a FROM S WINDOW(RANGE 3) x"
    assert letters(world, query, range(13)) == {
        1: "p", 2: "pqr", 3: "pqr", 4: "qr", 5: "s", 6: "s", 7: "s", 9: "u", 10: "u", 11: "u",
    }  # fmt: skip


def test_range_slide_moves_both_ends_up(world: World) -> None:
    """RANGE 3 SLIDE 2: p [1, 4) becomes [2, 4), q and r [2, 5) [2, 6), s [5, 8) [6, 8), u [9, 12) [10, 12)."""
    query = "SELECT a FROM S WINDOW(RANGE 3 SLIDE 2) x"
    assert letters(world, query, range(14)) == {
        2: "pqr", 3: "pqr", 4: "qr", 5: "qr", 6: "s", 7: "s", 10: "u", 11: "u",
    }  # fmt: skip


def test_tumbling(world: World) -> None:
    """RANGE 4 SLIDE 4: what came in (4(k-1), 4k] is shown in [4k, 4(k+1))."""
    query = "SELECT a FROM S WINDOW(RANGE 4 SLIDE 4) x"
    expected = {
        **dict.fromkeys(range(4, 8), "pqr"),
        **dict.fromkeys(range(8, 12), "s"),
        **dict.fromkeys(range(12, 16), "u"),
    }
    assert letters(world, query, range(20)) == expected


def test_unbounded(world: World) -> None:
    assert letters(world, "SELECT a FROM S WINDOW(RANGE UNBOUNDED) x", range(8, 11)) == {
        8: "pqrs",
        9: "pqrsu",
        10: "pqrsu",
    }
    assert world.intervals("SELECT a FROM S WINDOW(ROWS UNBOUNDED) x")[-1] == (("u",), 9, MAX, 1)


def test_rows_by_arrival_among_simultaneous_rows(world: World) -> None:
    """q and r come at 2, q first: the last two rows are q and r, the last one is r."""
    assert letters(world, "SELECT a FROM S WINDOW(ROWS 2) x", range(0, 10, 1)) == {
        1: "p", 2: "qr", 3: "qr", 4: "qr", 5: "rs", 6: "rs", 7: "rs", 8: "rs", 9: "su",
    }  # fmt: skip
    assert letters(world, "SELECT a FROM S WINDOW(ROWS 1) x", range(1, 4)) == {1: "p", 2: "r", 3: "r"}
    world.arrive("S", [(1, "p", 1), (2, "r", 1), (2, "q", 2)])
    assert letters(world, "SELECT a FROM S WINDOW(ROWS 1) x", range(1, 4)) == {1: "p", 2: "q", 3: "q"}


def test_late_rows_count_by_their_time(world: World) -> None:
    """Arrival decides among simultaneous rows only."""
    world.arrive("S", [(5, "z", 1), (3, "y", 1), (3, "x", 1)])
    assert letters(world, "SELECT a FROM S WINDOW(ROWS 2) w", range(3, 7)) == {
        3: "xy",
        4: "xy",
        5: "xz",
        6: "xz",
    }


def test_rows_slide(world: World) -> None:
    """ROWS 3 SLIDE 2: evaluated at the 2nd (p q) and the 4th row (q r s)."""
    # the 2nd row comes at 2 together with the 3rd, the 4th at 5
    assert letters(world, "SELECT a FROM S WINDOW(ROWS 3 SLIDE 2) x", range(12)) == {
        2: "pq", 3: "pq", 4: "pq", **dict.fromkeys(range(5, 12), "qrs"),
    }  # fmt: skip


def test_partitions_are_windowed_apart(world: World) -> None:
    """The last row of each k: r replaces p, u replaces q."""
    query = "SELECT a FROM S WINDOW(PARTITION BY k ROWS 1) x"
    assert letters(world, query, range(11)) == {
        1: "p", 2: "qr", 3: "qr", 4: "qr", 5: "qs", 6: "qs", 7: "qs", 8: "qs", 9: "su", 10: "su",
    }  # fmt: skip


def test_partitions_with_null_keys() -> None:
    """NULL is one partition of its own."""
    world = World().run(STREAMS).arrive("S", [(1, "p", None), (2, "q", 1), (3, "r", None)])
    assert letters(world, "SELECT a FROM S WINDOW(PARTITION BY k ROWS 1) x", range(1, 5)) == {
        1: "p", 2: "pq", 3: "qr", 4: "qr",
    }  # fmt: skip


def test_rows_renewed_in_time() -> None:
    """ROWS 2 SLIDE 1 SECOND: the last two rows, as of the latest full second."""
    second = 1_000_000
    world = World().run("CREATE STREAM B(a STRING, t TIMESTAMP) SOURCE memory('B') ORDERED BY t;")
    world.arrive("B", [(1, "p"), (2, "q"), (second, "r"), (second + 1, "s")])
    query = "SELECT a FROM B WINDOW(ROWS 2 SLIDE 1 SECOND) x"
    found = {t: "".join(e[0] for e in rows) for t, rows in world.answers(
        query, [1, 2, second - 1, second, second + 1, 2 * second - 1, 2 * second]
    ).items()}  # fmt: skip
    assert found == {second: "qr", second + 1: "qr", 2 * second - 1: "qr", 2 * second: "rs"}


def test_time_renewed_by_rows(world: World) -> None:
    """RANGE 4 SLIDE 2 ROWS: at the 2nd row (t = 2) the rows in (-2, 2], at the 4th (t = 5) those in (1, 5]."""
    assert letters(world, "SELECT a FROM S WINDOW(RANGE 4 SLIDE 2 ROWS) x", range(12)) == {
        # all rows of instant 2 are seen, also the third: the window is one of time
        2: "pqr", 3: "pqr", 4: "pqr", **dict.fromkeys(range(5, 12), "qrs"),
    }  # fmt: skip


def test_windows_over_derived_streams_split_to_chronons(world: World) -> None:
    """A row valid in [2, 5) is one row at 2, 3 and 4; RANGE 2 counts it once per instant it was valid at."""
    query = "SELECT a FROM P WINDOW(RANGE 2) x"
    assert letters(world, query, range(9)) == {
        2: "d",  # valid at 2
        3: "dd",  # at 2 and 3
        4: "ddee",  # d at 3 and 4; e (twice) at 4
        5: "deeee",  # d at 4; e twice at 4, twice at 5
        6: "ee",  # e at 5
    }


def test_granularity_is_the_chronon_of_the_split(world: World) -> None:
    """GRANULARITY 2: d [2, 5) is split to 2 and 4, e [4, 6) to 4."""
    assert letters(world, "SELECT a FROM P WINDOW(RANGE 2 GRANULARITY 2) x", range(8)) == {
        2: "d", 3: "d", 4: "dee", 5: "dee",
    }  # fmt: skip


def test_granularity_of_a_raw_stream_lets_answers_change_at_its_multiples_only(world: World) -> None:
    """RANGE 3 GRANULARITY 2: p [1, 4) is seen in [2, 4), q and r [2, 5) in [2, 6), s [5, 8) in [6, 8), u [9, 12) in [10, 12)."""
    assert letters(world, "SELECT a FROM S WINDOW(RANGE 3 GRANULARITY 2) x", range(14)) == {
        2: "pqr", 3: "pqr", 4: "qr", 5: "qr", 6: "s", 7: "s", 10: "u", 11: "u",
    }  # fmt: skip


def test_granularity_of_the_last_rows(world: World) -> None:
    """ROWS 2 GRANULARITY 4 shows at 4 what ROWS 2 shows at 4, until 8."""
    assert letters(world, "SELECT a FROM S WINDOW(ROWS 2 GRANULARITY 4) x", range(13)) == {
        **dict.fromkeys(range(4, 8), "qr"), **dict.fromkeys(range(8, 12), "rs"), 12: "su",
    }  # fmt: skip


def test_a_granularity_reaches_the_windows_above(world: World) -> None:
    """The inner answer is pqr in [2, 4), qr in [4, 6), s in [6, 8), u in [10, 12): seen at 2, 4, 6 and 10, each for 4 ticks."""
    inner = "SELECT a FROM S WINDOW(RANGE 3 GRANULARITY 2) x"
    assert letters(world, f"SELECT a FROM ({inner}) WINDOW(RANGE 3) y", range(16)) == {
        2: "pqr", 3: "pqr", 4: "pqqrr", 5: "pqqrr", 6: "qrs", 7: "qrs", 8: "s", 9: "s",
        10: "u", 11: "u", 12: "u", 13: "u",
    }  # fmt: skip


def test_filters_and_maps_of_a_raw_stream_keep_its_rows(world: World) -> None:
    """A derived stream that still is one row per arrival is not split, and keeps the order of arrival."""
    query = "SELECT a FROM (SELECT a, k + 1 AS j FROM S WHERE k = 1) WINDOW(ROWS 2) x"
    assert letters(world, query, range(1, 7)) == {1: "p", 2: "pr", 3: "pr", 4: "pr", 5: "rs", 6: "rs"}


def test_a_window_over_rows_without_end_is_refused(world: World) -> None:
    with pytest.raises(Diagnostic) as raised:
        world.at("SELECT * FROM (SELECT a FROM S WINDOW(RANGE UNBOUNDED) x) WINDOW(ROWS 2) y", 3)
    assert raised.value.condition == "WINDOW_OVER_LASTING_ROWS"
    assert "ISTREAM" in (raised.value.help or "")


def test_istream_and_dstream(world: World) -> None:
    window = "SELECT a FROM S WINDOW(RANGE 3) x"
    assert letters(world, f"ISTREAM({window})", range(14)) == {1: "p", 2: "qr", 5: "s", 9: "u"}
    assert letters(world, f"DSTREAM({window})", range(14)) == {4: "p", 5: "qr", 8: "s", 12: "u"}


def test_istream_shows_net_changes() -> None:
    """A row that leaves at the instant an equal one comes is no change."""
    world = World().run(STREAMS).arrive("S", [(1, "p", 1), (4, "p", 1), (5, "p", 1)])
    window = "SELECT a FROM S WINDOW(RANGE 3) x"
    assert letters(world, f"ISTREAM({window})", range(10)) == {1: "p", 5: "p"}
    assert letters(world, f"DSTREAM({window})", range(10)) == {7: "p", 8: "p"}


def test_windows_over_changes(world: World) -> None:
    """ISTREAM(q) WINDOW(…) windows the changes of q, not its instants."""
    query = "SELECT n FROM ISTREAM(SELECT COUNT(*) AS n FROM S WINDOW(RANGE 3) x) WINDOW(RANGE 2) y"
    # counts: 1 from 1, 3 from 2, 2 from 4, 1 from 5, none from 8, 1 from 9, none from 12
    assert world.answers(query, range(1, 12)) == {
        1: [(1,)], 2: [(1,), (3,)], 3: [(3,)], 4: [(2,)], 5: [(1,), (2,)], 6: [(1,)], 9: [(1,)], 10: [(1,)],
    }  # fmt: skip


def test_rstream(world: World) -> None:
    """The whole snapshot at multiples of 2, nothing in between."""
    query = "RSTREAM(SELECT a FROM S WINDOW(RANGE 3) x) EVERY 2"
    assert letters(world, query, range(13)) == {2: "pqr", 4: "qr", 6: "s", 10: "u"}


def test_rstream_of_rows_without_end_is_refused(world: World) -> None:
    with pytest.raises(Diagnostic) as raised:
        world.intervals("RSTREAM(SELECT a FROM S WINDOW(RANGE UNBOUNDED) x) EVERY 2")
    assert raised.value.condition == "RSTREAM_WITHOUT_END"


def test_tables_are_valid_at_every_instant(world: World) -> None:
    pairs: dict[int, list[Row]] = world.answers("SELECT S.a, T.a FROM S, T", range(-5, 7))
    assert pairs == {1: [("p", "x")], 2: [("q", "x"), ("r", "x")], 5: [("s", "x")]}
    assert letters(world, "SELECT a FROM T", range(-3, 0)) == {-3: "x", -2: "x", -1: "x"}
