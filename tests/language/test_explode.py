"""Rows of arrays: LATERAL VIEW, UNNEST and explode in SELECT, each element a row."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.language.world import World
from tidegate.errors import Diagnostic


def world(*rows: tuple[int, str, tuple[int | None, ...] | None]) -> World:
    script = "CREATE STREAM S(k STRING, items ARRAY<INT>, t BIGINT) SOURCE memory('S') ORDERED BY t;"
    return World().run(script).arrive("S", rows)


ROWS = ((1, "a", (5, None, 5)), (2, "b", ()), (3, "c", None), (4, "d", (7,)))
WINDOW = "FROM S WINDOW(RANGE 9) x"
ELEMENTS = Counter({("a", 5): 2, ("a", None): 1, ("d", 7): 1})


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT k, item {WINDOW} LATERAL VIEW explode(items) i AS item",
        f"SELECT x.k, i.item {WINDOW} LATERAL VIEW explode(x.items) i AS item",
        f"SELECT k, explode(items) AS item {WINDOW}",
        f"SELECT k, item {WINDOW} CROSS JOIN UNNEST(items) AS i(item)",
        f"SELECT k, item {WINDOW}, LATERAL explode(items) AS i(item)",
        f"SELECT k, item FROM (SELECT k, explode(items) AS item {WINDOW}) y",
    ],
)
def test_each_element_is_a_row(query: str) -> None:
    assert world(*ROWS).at(query, 4) == ELEMENTS


def test_rows_without_elements_may_stay() -> None:
    empty = Counter({("b", None): 1, ("c", None): 1})
    for query in (
        f"SELECT k, item {WINDOW} LATERAL VIEW OUTER explode(items) i AS item",
        f"SELECT k, explode_outer(items) AS item {WINDOW}",
        f"SELECT k, item {WINDOW} LEFT JOIN UNNEST(items) AS i(item) ON TRUE",
    ):
        assert world(*ROWS).at(query, 4) == ELEMENTS + empty


def test_positions_conditions_and_groupings() -> None:
    there = world(*ROWS)
    placed = f"SELECT k, p, item {WINDOW} LATERAL VIEW posexplode(items) i AS p, item WHERE item IS NOT NULL"
    assert there.at(placed, 4) == Counter([("a", 0, 5), ("a", 2, 5), ("d", 0, 7)])
    grouped = f"SELECT item, COUNT(*) AS n {WINDOW} LATERAL VIEW explode(items) i AS item GROUP BY item"
    assert there.at(grouped, 4) == Counter([(5, 2), (None, 1), (7, 1)])
    twice = f"SELECT a, b {WINDOW} LATERAL VIEW explode(items) i AS a LATERAL VIEW explode(ARRAY(a, 0)) j AS b WHERE k = 'd'"
    assert there.at(twice, 4) == Counter([(7, 7), (7, 0)])


def test_long_arrays_are_an_error_and_never_cut() -> None:
    query = f"SELECT item {WINDOW} LATERAL VIEW explode(items) i AS item"
    assert world((1, "a", tuple(range(64)))).at(query, 1) == Counter((n,) for n in range(64))
    with pytest.raises(Diagnostic, match="explode takes arrays of up to 64 elements, found 65"):
        world((1, "a", tuple(range(65)))).at(query, 1)


@pytest.mark.parametrize(
    ("query", "condition"),
    [
        (f"SELECT e {WINDOW} LATERAL VIEW explode(k) i AS e", "TYPE_MISMATCH"),
        (f"SELECT e {WINDOW} LATERAL VIEW explode(items) i AS e, f", "COLUMN_COUNT"),
        (f"SELECT e {WINDOW} LATERAL VIEW json_tuple(k, 'a') i AS e", "UNSUPPORTED"),
    ],
)
def test_wrong_calls(query: str, condition: str) -> None:
    with pytest.raises(Diagnostic) as caught:
        world().plan(query)
    assert caught.value.condition == condition
