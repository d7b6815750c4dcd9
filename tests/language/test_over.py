"""OVER, LAG and Spark's window() by their definitions, instant by instant; what is refused names the form that does the job."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import pytest

from tests.language.test_window_functions import INSTANTS, rows_of, world
from tests.language.world import World
from tidegate.errors import Diagnostic
from tidegate.physical.identity import plan_identity
from tidegate.types import Row

Rows = list[tuple[str, int, int]]


def distinct_times(seed: int) -> World:
    """Rows of different times, so that the order of a partition is the order of time."""
    dice = random.Random(seed)
    times = sorted(dice.sample(range(-9, 21), 12))
    return world().arrive("N", [(t, dice.choice("ab"), dice.randint(0, 9)) for t in times])


FRAMES: dict[str, Callable[[Rows, int], Rows]] = {
    "": lambda rows, t: rows,
    " RANGE BETWEEN 4 PRECEDING AND CURRENT ROW": lambda rows, t: [r for r in rows if t - 4 <= r[2]],
    " RANGE UNBOUNDED PRECEDING": lambda rows, t: rows,
    " ROWS BETWEEN 2 PRECEDING AND CURRENT ROW": lambda rows, t: rows[-3:],
    " ROWS UNBOUNDED PRECEDING": lambda rows, t: rows,
}


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("partition", ["", "PARTITION BY k ", "PARTITION BY UPPER(k) "])
@pytest.mark.parametrize("seed", range(3))
def test_over_along_time(seed: int, partition: str, frame: str) -> None:
    there = distinct_times(seed)
    query = f"SELECT k, v, SUM(v) OVER ({partition}ORDER BY t{frame}) AS s, COUNT(*) OVER ({partition}ORDER BY t{frame}) AS n FROM N WHERE v > 1"
    rows = [r for r in rows_of(there) if r[1] > 1]
    for at in INSTANTS:
        expected: Counter[Row] = Counter()
        for k, v, t in rows:
            if t == at:
                before = [r for r in rows if r[2] <= t and (not partition or r[0] == k)]
                held = FRAMES[frame](before, t)
                expected[(k, v, sum(r[1] for r in held), len(held))] += 1
        assert there.at(query, at) == expected, at


@pytest.mark.parametrize("seed", range(3))
def test_range_frames_hold_all_rows_of_an_instant(seed: int) -> None:
    there = world(seed)
    query = "SELECT v, SUM(v) OVER (ORDER BY t RANGE BETWEEN 4 PRECEDING AND CURRENT ROW) AS s FROM N"
    for at in INSTANTS:
        rows = rows_of(there)
        total = sum(v for _, v, t in rows if at - 4 <= t <= at)
        assert there.at(query, at) == Counter((v, total) for _, v, t in rows if t == at)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("call", "distance", "default"), [("LAG(v)", 1, None), ("LAG(v, 2)", 2, None), ("LAG(v, 1, -1)", 1, -1)])  # fmt: skip
def test_lag(seed: int, call: str, distance: int, default: int | None) -> None:
    there = distinct_times(seed)
    rows = rows_of(there)
    query = f"SELECT k, v, {call} OVER (PARTITION BY k ORDER BY t) AS before FROM N"
    for at in INSTANTS:
        expected: Counter[Row] = Counter()
        for k, v, t in rows:
            if t == at:
                before = [r for r in rows if r[2] < t and r[0] == k]
                expected[(k, v, before[-distance][1] if len(before) >= distance else default)] += 1
        assert there.at(query, at) == expected, at


@pytest.mark.parametrize("partition", ["", "PARTITION BY k"])
def test_over_without_order_is_over_what_is_shown(partition: str) -> None:
    there = world(1)
    query = f"SELECT k, v, v - MAX(v) OVER ({partition}) AS d FROM N WINDOW(RANGE 5) x"
    for at in INSTANTS:
        shown = [r for r in rows_of(there) if at - 5 < r[2] <= at]
        tops = [(k, v, max(w for j, w, _ in shown if not partition or j == k)) for k, v, _ in shown]
        assert there.at(query, at) == Counter((k, v, v - top) for k, v, top in tops)


def test_share_of_the_whole_above_a_grouping() -> None:
    there = world(2)
    inner = "SELECT k, COUNT(*) AS n FROM N WINDOW(RANGE 5) GROUP BY k"
    query = f"SELECT k, n / SUM(n) OVER () AS share FROM ({inner}) g"
    for at in INSTANTS:
        shown = [k for k, _, t in rows_of(there) if at - 5 < t <= at]
        assert there.at(query, at) == Counter((k, shown.count(k) / len(shown)) for k in set(shown))


@pytest.mark.parametrize(
    ("query", "same"),
    [
        (
            "SELECT window.start, window.end, k, COUNT(*) AS n FROM Bid GROUP BY window(bidtime, '10 minutes'), k",
            "SELECT window_start, window_end, k, COUNT(*) FROM TUMBLE(Bid, bidtime, INTERVAL 10 MINUTES) GROUP BY window_start, window_end, k",
        ),
        (
            "SELECT window(bidtime, '10 minutes', '5 minutes').start AS s, SUM(v) FROM Bid b GROUP BY window(bidtime, '10 minutes', '5 minutes')",
            "SELECT window_start, SUM(v) FROM HOP(Bid, bidtime, INTERVAL 5 MINUTES, INTERVAL 10 MINUTES) b GROUP BY window_start, window_end",
        ),
        (
            "SELECT session_window.end, k, COUNT(*) FROM Bid GROUP BY k, session_window(bidtime, '5 minutes')",
            "SELECT window_end, k, COUNT(*) FROM SESSION(Bid PARTITION BY k, bidtime, INTERVAL 5 MINUTES) GROUP BY k, window_start, window_end",
        ),
    ],
)
def test_sparks_windows_are_flinks(query: str, same: str) -> None:
    there = world()
    one, other = there.plan(query), there.plan(same)
    assert [f.type for f in one.schema] == [f.type for f in other.schema]
    assert plan_identity(one) == plan_identity(other)


def test_a_whole_window_is_a_struct() -> None:
    plan = world().plan(
        "SELECT window(bidtime, '1 hour'), COUNT(*) AS n FROM Bid GROUP BY window(bidtime, '1 hour')"
    )
    whole = ("window", "STRUCT<start: TIMESTAMP, end: TIMESTAMP>")
    assert [(f.name, str(f.type)) for f in plan.schema] == [whole, ("n", "BIGINT")]


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("SELECT LEAD(v) OVER (PARTITION BY k ORDER BY t) FROM N", "LAG(v) OVER (PARTITION BY k ORDER BY t"),
        ("SELECT ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) FROM N", "COUNT(*) OVER (PARTITION BY k ORDER BY t)"),
        ("SELECT RANK() OVER (PARTITION BY k ORDER BY v DESC) FROM N WINDOW(RANGE 5)", "FROM N WINDOW(…) y WHERE y.k = x.k AND y.v > x.v"),
        ("SELECT DENSE_RANK() OVER (ORDER BY v) FROM N WINDOW(RANGE 5)", "COUNT(DISTINCT y.v)"),
        ("SELECT SUM(v) OVER (PARTITION BY k ORDER BY v) FROM N", "ORDER BY t goes along a stream"),
        ("SELECT SUM(v) OVER (ORDER BY t) FROM N WINDOW(RANGE 5)", "SUM(v) OVER () is over what the window in FROM shows"),
        ("SELECT SUM(v) OVER (ORDER BY t ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING) FROM N", "ROWS BETWEEN 9 PRECEDING"),
        ("SELECT k, SUM(SUM(v)) OVER () FROM N GROUP BY k", "sub-query"),
        ("SELECT LAG(v) OVER (PARTITION BY k) FROM N", "OVER (PARTITION BY k ORDER BY t)"),
        ("SELECT COUNT(*) FROM N WINDOW(ROWS 3) GROUP BY window(t, '5 minutes')", "TUMBLE(TABLE S"),
        ("SELECT * FROM N MATCH_RECOGNIZE (PARTITION BY k ORDER BY t PATTERN (A B) DEFINE A AS v > 1, B AS B.v < A.v)",
         "SELECT … FROM N B, N WINDOW(RANGE 1 HOUR) A WHERE A.k = B.k AND A.t < B.t AND A.v > 1 AND B.v < A.v"),
        ("SELECT * FROM N x MATCH_RECOGNIZE (ORDER BY t PATTERN (A B+) DEFINE A AS v > 1)", "docs/recipes.md"),
        ("WITH RECURSIVE x AS (SELECT 1) SELECT * FROM x", "recursive queries"),
    ],
)  # fmt: skip
def test_what_is_refused_names_the_right_form(query: str, says: str) -> None:
    with pytest.raises(Diagnostic) as caught:
        world().plan(query)
    assert caught.value.condition == "UNSUPPORTED", caught.value
    assert says in str(caught.value)
    assert caught.value.position is not None
