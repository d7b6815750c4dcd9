"""ROW_NUMBER() OVER (…) as a filter: the first rows of each partition, at every instant."""

from __future__ import annotations

import pytest

from tests.language.world import World
from tidegate.errors import Diagnostic


@pytest.fixture
def world() -> World:
    rows = [(0, 1, 5, "x"), (1, 1, 7, "y"), (2, 2, 3, "z"), (3, 1, 6, "x"), (4, 2, 3, "a"), (5, 1, 9, "y")]
    stream = "CREATE STREAM S(a INT, b INT, s STRING, t BIGINT) SOURCE memory('S') ORDERED BY t"
    return World().run(stream).arrive("S", rows)


BEST = "ROW_NUMBER() OVER (PARTITION BY a ORDER BY b DESC)"


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT a, b FROM S WINDOW(RANGE 4) QUALIFY {BEST} <= 2",
        f"SELECT a, b FROM S WINDOW(RANGE 4) QUALIFY ({BEST} < 3)",
        f"SELECT a, b FROM S WINDOW(RANGE 4) QUALIFY 2 >= {BEST}",
        f"SELECT a, b FROM (SELECT a, b, {BEST} AS r FROM S WINDOW(RANGE 4)) WHERE r <= 2",
        f"SELECT x.a, x.b FROM (SELECT a, b, {BEST} AS r FROM S WINDOW(RANGE 4)) x WHERE x.r < 3 AND x.b > 0",
        f"SELECT * EXCEPT (r, s) FROM (SELECT *, {BEST} AS r FROM S WINDOW(RANGE 4)) WHERE r <= 2",
    ],
)
def test_the_first_rows_of_each_partition(world: World, query: str) -> None:
    # valid at 3: (1,5) (1,7) (2,3) (1,6); at 5: (2,3) (1,6) (2,3) (1,9)
    assert world.answers(query, [3, 5]) == {3: [(1, 6), (1, 7), (2, 3)], 5: [(1, 6), (1, 9), (2, 3), (2, 3)]}


def test_one_position_of_each_partition(world: World) -> None:
    query = f"SELECT a, b FROM S WINDOW(RANGE 4) QUALIFY {BEST} = 2"
    assert world.answers(query, [3, 5]) == {3: [(1, 6)], 5: [(1, 6), (2, 3)]}


def test_the_order_may_be_by_what_is_not_selected(world: World) -> None:
    query = "SELECT s FROM S WINDOW(RANGE 10) QUALIFY ROW_NUMBER() OVER (PARTITION BY a ORDER BY t DESC) <= 1"
    assert world.answers(query, [4, 5]) == {4: [("a",), ("x",)], 5: [("a",), ("y",)]}


def test_groups_can_be_ranked(world: World) -> None:
    query = """SELECT a, s, SUM(b) AS total FROM S WINDOW(RANGE 10) GROUP BY a, s
               QUALIFY ROW_NUMBER() OVER (PARTITION BY a ORDER BY total DESC) <= 1"""
    assert world.answers(query, [5]) == {5: [(1, "y", 16), (2, "a", 3)]}
    direct = query.replace("ORDER BY total", "ORDER BY SUM(b)")
    assert world.answers(direct, [5]) == {5: [(1, "y", 16), (2, "a", 3)]}


def test_without_partition_it_is_a_limit(world: World) -> None:
    ranked = "SELECT b FROM S WINDOW(RANGE 10) QUALIFY ROW_NUMBER() OVER (ORDER BY b) <= 2"
    limited = "SELECT b FROM S WINDOW(RANGE 10) ORDER BY b LIMIT 2"
    assert world.intervals(ranked) == world.intervals(limited)


def test_a_column_goes_before_an_alias(world: World) -> None:
    query = "SELECT b AS a, a AS k FROM S WINDOW(RANGE 10) QUALIFY ROW_NUMBER() OVER (PARTITION BY a ORDER BY t) <= 1"
    assert world.answers(query, [5]) == {5: [(3, 2), (5, 1)]}


@pytest.mark.parametrize(
    ("query", "condition"),
    [
        (f"SELECT a FROM S QUALIFY {BEST} <= b", "UNSUPPORTED"),
        ("SELECT a FROM S QUALIFY RANK() OVER (ORDER BY b) <= 1", "UNSUPPORTED"),
        ("SELECT a FROM S QUALIFY ROW_NUMBER() OVER (PARTITION BY a) <= 1", "RANK_WITHOUT_ORDER"),
        (f"SELECT a FROM S QUALIFY {BEST} < 1", "INVALID_LIMIT"),
        ("SELECT a FROM S QUALIFY ROW_NUMBER() OVER (ORDER BY nothing) <= 1", "UNKNOWN_COLUMN"),
        (f"SELECT * FROM (SELECT a, {BEST} AS r FROM S) WHERE r <= 1", "UNSUPPORTED"),
        (f"SELECT a, r FROM (SELECT a, {BEST} AS r FROM S) WHERE r <= 1", "UNSUPPORTED"),
    ],
)
def test_what_is_refused(world: World, query: str, condition: str) -> None:
    with pytest.raises(Diagnostic) as caught:
        world.plan(query)
    assert caught.value.condition == condition
    assert caught.value.span is not None
