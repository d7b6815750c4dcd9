"""Aggregates and groupings that people bring from other systems: what each means, on a few rows."""

from __future__ import annotations

import math

import pytest

from tests.language.world import World
from tidegate.errors import Diagnostic
from tidegate.scalars.functions import AggregateFunction
from tidegate.types import BIGINT, Row


def world() -> World:
    script = "CREATE STREAM S(a INT, b INT, s STRING, f DOUBLE, c BOOLEAN, t BIGINT) SOURCE memory('S') ORDERED BY t;"
    rows = [
        (1, 1, 10, "x", 1.0, True),
        (1, 1, 20, "w", 3.0, None),
        (1, 2, 20, None, 2.0, False),
        (1, None, 5, "x", 8.0, True),
    ]
    return World().run(script).arrive("S", rows)


def values(select: str, where: str = "") -> Row:
    (found,) = world().at(f"SELECT {select} FROM S{where}", 1)
    return found


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("COLLECT_LIST(a)", (1, 1, 2)),
        ("ARRAY_AGG(b)", (5, 10, 20, 20)),
        ("ARRAY_AGG(b ORDER BY b DESC)", (20, 20, 10, 5)),
        ("ARRAY_AGG(DISTINCT b ORDER BY b)", (5, 10, 20)),
        ("COLLECT_SET(s)", ("w", "x")),
        ("COLLECT_LIST(a) FILTER (WHERE a > 1)", (2,)),
        ("COLLECT_LIST(a) FILTER (WHERE a > 9)", ()),
        ("STRING_AGG(s, ', ')", "w, x, x"),
        ("STRING_AGG(DISTINCT s, ', ')", "w, x"),
        ("LISTAGG(b, '<') WITHIN GROUP (ORDER BY b DESC)", "20<20<10<5"),
        ("LISTAGG(b)", "5102020"),
        ("STRING_AGG(s, ',') FILTER (WHERE a > 9)", None),
        ("STRING_AGG(s, ',') FILTER (WHERE b = 5)", "x"),
        ("APPROX_COUNT_DISTINCT(b)", 3),
        ("APPROX_COUNT_DISTINCT(b, 0.01)", 3),
        ("BOOL_AND(c)", False),
        ("BOOL_OR(c)", True),
        ("EVERY(c) FILTER (WHERE a = 1)", True),
        ("SOME(b > 99)", False),
        ("ANY_VALUE(b)", 5),
        ("HISTOGRAM(b)", ((5, 1), (10, 1), (20, 2))),
        ("HISTOGRAM(DISTINCT a)", ((1, 1), (2, 1))),
        # of (a, f): (1, 1), (1, 3), (2, 2); means 4/3 and 2; products of deviations 1/3 - 1/3 + 0
        ("COVAR_POP(a, f)", 0.0),
        # of (b, f): (10, 1), (20, 3), (20, 2), (5, 8); means 13.75 and 3.5
        ("COVAR_POP(b, f)", (-3.75 * -2.5 + 6.25 * -0.5 + 6.25 * -1.5 - 8.75 * 4.5) / 4),
        ("COVAR_SAMP(b, f)", (-3.75 * -2.5 + 6.25 * -0.5 + 6.25 * -1.5 - 8.75 * 4.5) / 3),
        ("CORR(b, b)", 1.0),
        ("CORR(b, -b)", -1.0),
        ("CORR(b, 1)", None),
        ("CORR(a, f) FILTER (WHERE a = 2)", None),
        ("COVAR_SAMP(a, f) FILTER (WHERE a = 2)", None),
        ("COVAR_POP(a, f) FILTER (WHERE a = 2)", 0.0),
        ("SIZE(COLLECT_LIST(a)) + MAX(a)", 5),
    ],
)
def test_aggregates_of_other_systems(call: str, expected: object) -> None:
    assert values(call) == (expected,)


def test_a_users_aggregate_goes_before_ours() -> None:
    every = AggregateFunction("every", lambda e: 1, lambda p, e: p + 1, lambda p: p, BIGINT, 1)
    (found,) = world().function(every).at("SELECT EVERY(a) FROM S", 1)
    assert found == (4,), "as many as there are rows"


def test_correlation() -> None:
    # spreads: of b 4 * 925 - 55² = 675, of f 4 * 78 - 14² = 116, of both 4 * 150 - 55 * 14 = -170
    (found,) = values("CORR(b, f)")
    assert isinstance(found, float)
    assert math.isclose(found, -170 / math.sqrt(675 * 116), rel_tol=1e-15)


@pytest.mark.parametrize(
    ("call", "condition"),
    [
        ("ARRAY_AGG(a ORDER BY b)", "UNSUPPORTED"),
        ("STRING_AGG(s, ',' ORDER BY b)", "UNSUPPORTED"),
        ("BOOL_AND(a)", "TYPE_MISMATCH"),
        ("CORR(s, a)", "TYPE_MISMATCH"),
        ("CORR(a)", "SYNTAX_ERROR"),
        ("HISTOGRAM(a, b)", "WRONG_ARGUMENTS"),
        ("HISTOGRAM(NULL)", "TYPE_MISMATCH"),
        ("EVERY(a, b)", "WRONG_ARGUMENTS"),
    ],
)
def test_wrong_calls(call: str, condition: str) -> None:
    with pytest.raises(Diagnostic) as caught:
        values(call)
    assert caught.value.condition == condition
    assert caught.value.position is not None


def answers(query: str) -> list[Row]:
    bag = world().at(query, 1)
    return sorted(bag.elements(), key=lambda row: [(v is not None, v) for v in row])


def test_rollup_is_a_union_of_groupings() -> None:
    query = (
        "SELECT a, s, SUM(b) AS n, GROUPING(a) AS no_a, GROUPING_ID(a, s) AS id FROM S GROUP BY ROLLUP(a, s)"
    )
    expected = [
        (None, None, 55, 1, 3),
        (None, None, 5, 0, 1),
        (None, "x", 5, 0, 0),
        (1, None, 30, 0, 1),
        (1, "w", 20, 0, 0),
        (1, "x", 10, 0, 0),
        (2, None, 20, 0, 0),
        (2, None, 20, 0, 1),
    ]
    assert sorted(answers(query), key=str) == sorted(expected, key=str)
    assert answers(query.replace("ROLLUP(a, s)", "a, s WITH ROLLUP")) == answers(query)
    sets = query.replace("ROLLUP(a, s)", "GROUPING SETS ((a, s), a, ())")
    assert answers(sets) == answers(query)
    assert answers(query.replace("ROLLUP(a, s)", "a, s GROUPING SETS ((a, s), (a), ())")) == answers(query)


def test_cube_and_products_of_groupings() -> None:
    cube = "SELECT a, c, COUNT(*) AS n FROM S GROUP BY CUBE(a, c)"
    by_hand = " UNION ALL ".join(
        [
            "SELECT a, c, COUNT(*) AS n FROM S GROUP BY a, c",
            "SELECT a, NULL, COUNT(*) FROM S GROUP BY a",
            "SELECT NULL, c, COUNT(*) FROM S GROUP BY c",
            "SELECT NULL, NULL, COUNT(*) FROM S",
        ]
    )
    assert answers(cube) == answers(by_hand)
    product = "SELECT a, c, s, COUNT(*) AS n FROM S GROUP BY a, ROLLUP(c), CUBE(s)"
    assert len(world().plan(product).schema) == 4
    parts = [("a, c, s", "c", "s"), ("a, c", "c", "NULL"), ("a, s", "NULL", "s"), ("a", "NULL", "NULL")]
    union = " UNION ALL ".join(
        f"SELECT a, {c}, {s}, COUNT(*) AS n FROM S GROUP BY {keys}" for keys, c, s in parts
    )
    assert answers(product) == answers(union)


def test_what_follows_several_groupings_sees_all_of_them() -> None:
    query = "SELECT a + 1 AS k, SUM(b) AS n FROM S GROUP BY ROLLUP(a + 1)"
    assert answers(query) == [(None, 5), (None, 55), (2, 30), (3, 20)]
    assert answers(f"{query} HAVING SUM(b) > 20") == [(None, 55), (2, 30)]
    assert answers(f"{query} ORDER BY n DESC LIMIT 2") == [(None, 55), (2, 30)]
    assert answers("SELECT DISTINCT COUNT(*) AS n FROM S GROUP BY CUBE(a, s)") == [(1,), (2,), (4,)]
    assert answers("SELECT a FROM S GROUP BY ROLLUP(a)") == [(None,), (None,), (1,), (2,)]


@pytest.mark.parametrize(
    ("query", "condition"),
    [
        ("SELECT s FROM S GROUP BY ROLLUP(a)", "NOT_GROUPED"),
        ("SELECT GROUPING(s) FROM S GROUP BY ROLLUP(a)", "NOT_GROUPED"),
        ("SELECT COUNT(*) FROM S GROUP BY CUBE(a, b, s, f, c, a + 1, b + 1)", "TOO_MANY_GROUPINGS"),
        ("SELECT a FROM S GROUP BY ALL", "UNSUPPORTED"),
    ],
)
def test_wrong_groupings(query: str, condition: str) -> None:
    with pytest.raises(Diagnostic) as caught:
        world().plan(query)
    assert caught.value.condition == condition
