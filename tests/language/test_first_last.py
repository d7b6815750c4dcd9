"""FIRST and LAST: by time, then by order of arrival; over a derived stream then by all columns (SPEC section 3)."""

from __future__ import annotations

import pytest

from tests.language.world import World
from tidegate.errors import Diagnostic


@pytest.fixture
def world() -> World:
    world = World().run("CREATE STREAM S(a INT, b INT, t BIGINT) SOURCE memory('S') ORDERED BY t")
    # at 4 the first to come is (7, 2), the last (9, 1); a late row of 3 comes after all of them
    return world.arrive("S", [(4, 7, 2), (4, 1, 3), (4, 9, 1), (3, 5, 5)])


@pytest.mark.parametrize(
    ("query", "t", "expected"),
    [
        ("SELECT FIRST(a), LAST(a), FIRST(b), LAST(b) FROM S", 4, (7, 9, 2, 1)),
        ("SELECT FIRST(a), LAST(a) FROM S WINDOW(RANGE 5)", 5, (5, 9)),
        ("SELECT FIRST_VALUE(a), LAST_VALUE(b) FROM S WINDOW(ROWS 2) x", 4, (1, 1)),
        ("SELECT FIRST(x.a + 1) FROM S WINDOW(RANGE 5) x WHERE a > 1 AND b < 4", 5, (8,)),
        ("SELECT FIRST(a) FROM S WINDOW(RANGE 5) x JOIN (SELECT COUNT(*) AS n FROM S) c ON n > 2", 4, (5,)),
        ("SELECT n, m FROM (SELECT LAST(a) AS n, COUNT(*) AS m FROM S) q", 4, (9, 3)),
        ("SELECT LAST(a) FILTER (WHERE b > 1) FROM S", 4, (1,)),
    ],
)
def test_simultaneous_rows_go_by_arrival(world: World, query: str, t: int, expected: tuple[int, ...]) -> None:
    assert world.answers(query, [t]) == {t: [expected]}


def test_rows_of_a_derived_stream_go_by_all_their_columns(world: World) -> None:
    world.run("CREATE STREAM d AS SELECT b, a FROM S")
    assert world.answers("SELECT FIRST(a), LAST(a) FROM d", [4]) == {4: [(9, 1)]}


def test_a_view_that_asks_for_the_first_row(world: World) -> None:
    world.run("CREATE VIEW f AS SELECT b % 2 AS k, FIRST(a) AS a FROM S GROUP BY b % 2")
    assert world.answers("SELECT S.a, f.a FROM S, f WHERE S.b % 2 = f.k", [4]) == {
        4: [(1, 1), (7, 7), (9, 1)]
    }
    assert world.answers("SELECT * FROM f", [3]) == {3: [(1, 5)]}


def test_two_streams_have_no_common_order(world: World) -> None:
    with pytest.raises(Diagnostic, match="NO_TIMESTAMP"):
        world.plan("SELECT FIRST(x.a) FROM S x, S y")
