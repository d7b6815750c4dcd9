"""Standard operators and the language above them, on snapshots small enough to check by hand."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.language.world import World
from tidegate.errors import Diagnostic
from tidegate.scalars.functions import AggregateFunction, ScalarFunction
from tidegate.types import BIGINT, DOUBLE, INT, STRING, Row, Value

STREAMS = """
CREATE STREAM S(a INT, b INT, t BIGINT) SOURCE memory('S') ORDERED BY t;
CREATE STREAM R(a INT, c INT, t BIGINT) SOURCE memory('R') ORDERED BY t;
CREATE TABLE X(v INT) FROM memory('X');
CREATE TABLE Y(w INT) FROM memory('Y');
CREATE TABLE L(id INT, name STRING) FROM memory('L');
CREATE TABLE M(id INT, city STRING) FROM memory('M');
"""


def world() -> World:
    return World().run(STREAMS)


def rows(world: World, query: str, t: int = 0) -> list[Row]:
    return world.answers(query, [t]).get(t, [])


# NULL: what SQL's three truth values make of IN, ANY and ALL ----------------------------------------------------

TRUTH: list[tuple[str, list[Value], list[Value], bool | None]] = [
    # predicate over v and the column w of Y, v, Y, truth
    ("v IN (SELECT w FROM Y)", [1], [1, 2], True),
    ("v IN (SELECT w FROM Y)", [3], [1, 2], False),
    ("v IN (SELECT w FROM Y)", [3], [1, None], None),
    ("v IN (SELECT w FROM Y)", [1], [1, None], True),
    ("v IN (SELECT w FROM Y)", [None], [1, 2], None),
    ("v IN (SELECT w FROM Y)", [None], [], False),
    ("v NOT IN (SELECT w FROM Y)", [3], [1, 2], True),
    ("v NOT IN (SELECT w FROM Y)", [1], [1, None], False),
    ("v NOT IN (SELECT w FROM Y)", [3], [1, None], None),
    ("v NOT IN (SELECT w FROM Y)", [None], [1], None),
    ("v NOT IN (SELECT w FROM Y)", [None], [], True),
    ("v > ALL (SELECT w FROM Y)", [3], [1, 2], True),
    ("v > ALL (SELECT w FROM Y)", [2], [1, 2], False),
    ("v > ALL (SELECT w FROM Y)", [3], [1, None], None),
    ("v > ALL (SELECT w FROM Y)", [1], [2, None], False),
    ("v > ALL (SELECT w FROM Y)", [None], [1], None),
    ("v > ALL (SELECT w FROM Y)", [None], [], True),
    ("v > ANY (SELECT w FROM Y)", [2], [1, 3], True),
    ("v > ANY (SELECT w FROM Y)", [1], [1, 3], False),
    ("v > ANY (SELECT w FROM Y)", [1], [3, None], None),
    ("v > ANY (SELECT w FROM Y)", [4], [3, None], True),
    ("v > ANY (SELECT w FROM Y)", [None], [1], None),
    ("v > ANY (SELECT w FROM Y)", [None], [], False),
    ("v = SOME (SELECT w FROM Y)", [1], [1], True),
    ("v <> ALL (SELECT w FROM Y)", [1], [2, None], None),
    ("EXISTS (SELECT w FROM Y)", [1], [None], True),
    ("EXISTS (SELECT w FROM Y)", [1], [], False),
    ("NOT EXISTS (SELECT w FROM Y)", [1], [], True),
    ("v = (SELECT MAX(w) FROM Y)", [2], [1, 2, None], True),
    ("v = (SELECT MAX(w) FROM Y)", [2], [], None),  # no row: the value is NULL
    ("v < (SELECT MAX(w) FROM Y)", [2], [None], None),  # the maximum of NULLs is NULL
]


@pytest.mark.parametrize(("predicate", "v", "w", "truth"), TRUTH)
def test_truth_of_nested_predicates(
    predicate: str, v: list[Value], w: list[Value], truth: bool | None
) -> None:
    """In WHERE only true counts, under NOT only false; as a value all three are seen."""
    there = world().hold("X", [(x,) for x in v]).hold("Y", [(y,) for y in w])
    assert rows(there, f"SELECT 1 FROM X WHERE {predicate}") == ([(1,)] if truth is True else [])
    assert rows(there, f"SELECT 1 FROM X WHERE NOT ({predicate})") == ([(1,)] if truth is False else [])
    assert rows(there, f"SELECT ({predicate}) AS truth FROM X") == [(truth,)]
    assert rows(there, f"SELECT 1 FROM X WHERE ({predicate}) OR v = 99") == ([(1,)] if truth is True else [])
    assert rows(there, f"SELECT 1 FROM X WHERE ({predicate}) IS NULL") == ([(1,)] if truth is None else [])


def test_in_compares_several_columns() -> None:
    there = world().arrive("S", [(1, 1, 2), (1, 3, None)]).arrive("R", [(1, 1, 2), (1, 3, 4)])
    assert rows(there, "SELECT a FROM S WHERE (a, b) IN (SELECT a, c FROM R)", 1) == [(1,)]
    # (3, NULL) against (3, 4) is unknown: neither in nor not in
    assert rows(there, "SELECT a FROM S WHERE (a, b) NOT IN (SELECT a, c FROM R)", 1) == []


def test_semijoins_keep_multiplicities() -> None:
    there = world().hold("X", [(1,), (1,), (2,)]).hold("Y", [(1,), (1,), (1,)])
    assert rows(there, "SELECT v FROM X WHERE v IN (SELECT w FROM Y)") == [(1,), (1,)]
    assert rows(there, "SELECT v FROM X LEFT SEMI JOIN Y ON v = w") == [(1,), (1,)]
    assert rows(there, "SELECT v FROM X LEFT ANTI JOIN Y ON v = w") == [(2,)]


def test_correlated_sub_queries() -> None:
    there = world().arrive("S", [(1, 1, 10), (1, 2, 20)]).arrive("R", [(1, 1, 5), (1, 1, 7)])
    # the maximum of R's rows with the same a: 7 for a = 1, none for a = 2
    assert rows(there, "SELECT a, (SELECT MAX(c) FROM R WHERE R.a = S.a) AS m FROM S", 1) == [
        (1, 7),
        (2, None),
    ]
    assert rows(there, "SELECT a FROM S WHERE b > (SELECT SUM(c) FROM R WHERE R.a < S.a)", 1) == [(2,)]
    assert rows(there, "SELECT a FROM S WHERE NOT EXISTS (SELECT 1 FROM R WHERE R.a = S.a)", 1) == [(2,)]


def test_scalar_sub_queries_have_one_row() -> None:
    there = world().hold("X", [(1,)]).hold("Y", [(1,), (2,)])
    query = "SELECT v FROM X\nWHERE v = (SELECT w FROM Y)"
    plan = there.plan(query)
    with pytest.raises(Diagnostic) as raised:
        there.reference.snapshot(plan, 0)
    found = raised.value.locate(query)
    assert found.condition == "SCALAR_SUBQUERY_ROWS"
    assert found.position is not None
    assert (found.position.line, found.position.column) == (2, 12)
    assert rows(there.hold("Y", [(1,)]), query) == [(1,)]
    assert rows(there.hold("Y", []), query) == []


def test_one_row_per_outer_row_is_enough() -> None:
    there = world().hold("X", [(1,), (2,)]).hold("L", [(1, "p"), (2, "q")])
    query = "SELECT v, (SELECT name FROM L WHERE L.id = X.v) AS n FROM X"
    assert rows(there, query) == [(1, "p"), (2, "q")]
    there.hold("L", [(1, "p"), (1, "q")])
    with pytest.raises(Diagnostic, match="more than one row"):
        rows(there, query)


# top-k ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tail", "expected"),
    [
        (
            "ORDER BY b LIMIT 2",
            [(3, None), (1, 10)],
        ),  # NULLs first when ascending; the tie at 10 goes to the least a
        ("ORDER BY b DESC LIMIT 2", [(2, 20), (1, 10)]),  # NULLs last when descending
        ("ORDER BY b NULLS LAST LIMIT 1", [(1, 10)]),
        ("ORDER BY b DESC NULLS FIRST LIMIT 1", [(3, None)]),
        ("ORDER BY b LIMIT 2 OFFSET 1", [(1, 10), (1, 10)]),  # an equal row counts as often as it is valid
        ("ORDER BY 2 DESC, 1 DESC LIMIT 3", [(2, 20), (4, 10), (1, 10)]),
        ("ORDER BY -a LIMIT 1", [(4, 10)]),
        ("LIMIT 1", [(1, 10)]),
        ("ORDER BY b LIMIT 0", []),
        ("ORDER BY a LIMIT 99 OFFSET 4", [(4, 10)]),
    ],
)
def test_top_k(tail: str, expected: list[Row]) -> None:
    there = world().arrive("S", [(1, 1, 10), (1, 1, 10), (1, 2, 20), (1, 3, None), (1, 4, 10)])
    assert Counter(rows(there, f"SELECT a, b FROM S {tail}", 1)) == Counter(expected)


def test_top_k_by_an_alias_and_by_a_hidden_column() -> None:
    there = world().arrive("S", [(1, 1, 10), (1, 2, 5), (1, 3, 7)])
    assert rows(there, "SELECT a, b * -1 AS a2 FROM S ORDER BY a2 LIMIT 1", 1) == [(1, -10)]
    assert rows(there, "SELECT a FROM S ORDER BY b LIMIT 1", 1) == [(2,)]
    # an output's name hides the column of the same name
    assert rows(there, "SELECT a, -b AS b FROM S ORDER BY b LIMIT 1", 1) == [(1, -10)]
    grouped = "SELECT a, COUNT(*) AS n FROM S GROUP BY a ORDER BY SUM(b) DESC LIMIT 1"
    assert rows(there, grouped, 1) == [(1, 1)]


# joins ---------------------------------------------------------------------------------------------------------


def people() -> World:
    return world().hold("L", [(1, "p"), (2, "q"), (None, "r")]).hold("M", [(1, "u"), (3, "v"), (None, "w")])


@pytest.mark.parametrize(
    ("query", "columns", "expected"),
    [
        ("SELECT * FROM L JOIN M USING (id)", ["id", "name", "city"], [(1, "p", "u")]),
        ("SELECT * FROM L NATURAL JOIN M", ["id", "name", "city"], [(1, "p", "u")]),
        (
            "SELECT * FROM L LEFT JOIN M USING (ID)", ["id", "name", "city"],
            [(None, "r", None), (1, "p", "u"), (2, "q", None)],
        ),
        (
            "SELECT * FROM L RIGHT JOIN M USING (id)", ["id", "name", "city"],
            [(None, None, "w"), (1, "p", "u"), (3, None, "v")],
        ),
        (
            "SELECT * FROM L FULL JOIN M USING (id)", ["id", "name", "city"],
            [(None, None, "w"), (None, "r", None), (1, "p", "u"), (2, "q", None), (3, None, "v")],
        ),
        ("SELECT id, L.id, M.id AS other FROM L JOIN M USING (id)", ["id", "id", "other"], [(1, 1, 1)]),
        ("SELECT L.*, city FROM L JOIN M ON L.id = M.id", ["id", "name", "city"], [(1, "p", "u")]),
        ("SELECT name, city FROM L JOIN M ON L.id <=> M.id", ["name", "city"], [("p", "u"), ("r", "w")]),
        ("SELECT name FROM L LEFT ANTI JOIN M USING (id)", ["name"], [("q",), ("r",)]),
        ("SELECT COUNT(*) AS n FROM L CROSS JOIN M", ["n"], [(9,)]),
    ],
)  # fmt: skip
def test_joins(query: str, columns: list[str], expected: list[Row]) -> None:
    there = people()
    assert [f.name for f in there.plan(query).schema] == columns
    assert rows(there, query) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("X LEFT JOIN (L JOIN M ON L.id = M.id) ON v = L.id", [(1, "p", "u"), (2, None, None)]),
        ("X LEFT JOIN L ON v = L.id JOIN M ON L.id = M.id", [(1, "p", "u")]),
        ("(X JOIN L ON v = L.id) LEFT JOIN M ON M.id = v", [(1, "p", "u"), (2, "q", None)]),
        ("X JOIN (L LEFT JOIN M ON L.id = M.id) ON v = L.id", [(1, "p", "u"), (2, "q", None)]),
        ("M, (X JOIN L ON v = L.id) WHERE M.id = v + 2", [(1, "p", "v")]),
    ],
)
def test_parentheses_say_which_join_comes_first(source: str, expected: list[Row]) -> None:
    there = people().hold("X", [(1,), (2,)])
    assert rows(there, f"SELECT v, name, city FROM {source}") == expected


def test_semijoin_with_parentheses() -> None:
    there = people().hold("X", [(1,), (2,)])
    assert rows(there, "SELECT * FROM X LEFT SEMI JOIN (L JOIN M ON L.id = M.id) ON v = L.id") == [(1,)]
    assert rows(there, "SELECT * FROM X LEFT ANTI JOIN (L JOIN M ON L.id = M.id) ON v = L.id") == [(2,)]


def test_an_outer_join_follows_its_partner_through_time() -> None:
    there = world().arrive("S", [(1, 1, 10), (3, 1, 30)]).arrive("R", [(2, 1, 7)])
    query = "SELECT b, c FROM S WINDOW(RANGE 2) LEFT JOIN R WINDOW(RANGE 2) ON S.a = R.a"
    assert there.answers(query, range(6)) == {1: [(10, None)], 2: [(10, 7)], 3: [(30, 7)], 4: [(30, None)]}


# grouping ------------------------------------------------------------------------------------------------------


def test_star_above_a_grouping_takes_columns_by_name() -> None:
    there = world().arrive("S", [(1, 1, 10), (1, 1, 10)])
    assert rows(there, "SELECT *, COUNT(*) FROM S GROUP BY b, a", 1) == [(1, 10, 2)]


def test_groups_and_having() -> None:
    there = world().arrive("S", [(1, 1, 10), (1, 1, None), (1, 2, 5), (1, None, 5)])
    query = "SELECT a, COUNT(*), COUNT(b), SUM(b) FROM S GROUP BY a"
    assert rows(there, query, 1) == [(None, 1, 1, 5), (1, 2, 1, 10), (2, 1, 1, 5)]
    assert rows(there, f"{query} HAVING COUNT(*) > 1", 1) == [(1, 2, 1, 10)]
    assert rows(there, "SELECT COUNT(*) FROM S WHERE a > 9", 1) == [], "an empty input has no row"
    assert rows(there, "SELECT a + 1 AS k, MAX(b) FROM S GROUP BY a + 1", 1) == [(None, 5), (2, 10), (3, 5)]
    assert rows(there, "SELECT a + 1 AS k, MAX(b) FROM S GROUP BY k", 1) == [(None, 5), (2, 10), (3, 5)]
    assert rows(there, "SELECT a AS k, MAX(b) FROM S GROUP BY 1", 1) == [(None, 5), (1, 10), (2, 5)]


def test_aggregates() -> None:
    there = world().arrive("S", [(1, 1, 10), (1, 2, 20), (1, 2, 20), (1, 3, None)])
    expected = {
        "COUNT(DISTINCT b)": 2,
        "COUNT(DISTINCT *)": 2,  # (1, 10) and (2, 20): a row with a NULL does not count
        "COUNT(a, b)": 3,
        "SUM(DISTINCT b)": 30,
        "AVG(b)": 50 / 3,
        "MEDIAN(b)": 20.0,
        "QUANTILE(a, 0.5)": 2.0,
        "TOP_K(b, 2)": (20, 20),
        "ARG_MAX(a, b)": 2,
        "MIN_BY(a, b)": 1,
        "COUNT(*) FILTER (WHERE b = 20)": 2,
        "COUNT_IF(b IS NULL)": 1,
        "VAR_POP(a)": 0.5,
        "SUM(b) + MAX(a)": 53,
    }
    query = "SELECT " + ", ".join(expected) + " FROM S"
    assert rows(there, query, 1) == [tuple(expected.values())]


def test_first_and_last_are_by_time() -> None:
    there = world().arrive("S", [(3, 1, 30), (1, 1, 10), (2, 1, 20)])
    query = "SELECT FIRST(b), LAST(b) FROM S WINDOW(RANGE 2) x"
    assert there.answers(query, range(6)) == {1: [(10, 10)], 2: [(10, 20)], 3: [(20, 30)], 4: [(30, 30)]}


# user-defined functions ----------------------------------------------------------------------------------------

GEOMETRIC = AggregateFunction(
    "geo", lambda x: (x, 1), lambda p, x: (p[0] * x, p[1] + 1), lambda p: p[0] ** (1 / p[1]), DOUBLE, 1
)


def test_user_defined_aggregates_merge_as_often_as_a_row_is_valid() -> None:
    there = world().function(GEOMETRIC).arrive("S", [(1, 1, 2), (1, 1, 8), (1, 2, 3), (1, 2, 3)])
    assert rows(there, "SELECT a, geo(b) FROM S GROUP BY a", 1) == [(1, 4.0), (2, 3.0)]
    assert rows(there, "SELECT GEO(DISTINCT b) FROM S WHERE a = 2", 1) == [(3.0,)]


def test_user_defined_aggregates_merge_elements_one_by_one() -> None:
    """PIPES section 7.5.2, example 13: a count is init = 1, merge(c, e) = c + 1, whatever the elements are."""
    count = AggregateFunction("many", lambda e: 1, lambda c, e: c + 1, lambda c: c, BIGINT, 1)
    there = world().function(count).arrive("S", [(1, 1, 20), (1, 1, 30), (1, 1, None), (2, 1, 30)])
    assert there.answers("SELECT many(b) FROM S WINDOW(RANGE 2) x", range(5)) == {
        1: [(3,)],
        2: [(4,)],
        3: [(1,)],
    }


def test_user_defined_aggregates_merge_in_ascending_order() -> None:
    text = AggregateFunction(
        "joined", lambda a, b: f"{a}{b}", lambda p, a, b: f"{p} {a}{b}", lambda p: p, STRING, 2
    )
    there = world().function(text).arrive("S", [(1, 2, 5), (1, 1, 7), (1, 2, None), (1, 1, 7), (1, 1, 6)])
    assert rows(there, "SELECT joined(a, b) FROM S", 1) == [("16 17 17 2None 25",)]


def test_a_failing_aggregate_is_named() -> None:
    there = world().function(GEOMETRIC).arrive("S", [(1, 1, None), (1, 1, 1)])
    with pytest.raises(Diagnostic) as raised:
        rows(there, "SELECT geo(b) FROM S", 1)
    assert raised.value.condition == "USER_FUNCTION_FAILED"
    assert "geo" in raised.value.message


def test_user_defined_scalar_functions() -> None:
    there = world().function(ScalarFunction("triple", lambda x: None if x is None else 3 * x, INT, 1))
    there.arrive("S", [(1, 1, 2), (1, 2, None)])
    assert rows(there, "SELECT Triple(b) + 1 FROM S WHERE a < triple(a)", 1) == [(None,), (7,)]


# views and WITH ------------------------------------------------------------------------------------------------


def test_views_over_views() -> None:
    there = world().arrive("S", [(1, 1, 10), (2, 1, 20), (2, 2, 5)])
    there.run("""
        CREATE VIEW Sums AS SELECT a, SUM(b) AS total FROM S WINDOW(RANGE 2) GROUP BY a;
        CREATE VIEW Big(k) AS SELECT a FROM Sums WHERE total > 9;
        CREATE STREAM Both AS SELECT k, total FROM Big JOIN Sums ON k = a;
    """)
    assert there.answers("SELECT * FROM Both", range(5)) == {1: [(1, 10)], 2: [(1, 30)], 3: [(1, 20)]}
    inlined = "SELECT x.a, y.total FROM (SELECT a, SUM(b) AS total FROM S WINDOW(RANGE 2) GROUP BY a) x \
        JOIN (SELECT a, SUM(b) AS total FROM S WINDOW(RANGE 2) GROUP BY a) y ON x.a = y.a WHERE x.total > 9"
    assert there.answers(inlined, range(5)) == there.answers("SELECT * FROM Both", range(5))


def test_with() -> None:
    there = world().hold("X", [(1,), (2,)])
    assert rows(
        there, "WITH d AS (SELECT v * 2 AS v FROM X), e(q) AS (SELECT v + 1 FROM d) SELECT q FROM e"
    ) == [(3,), (5,)]
    # a name of WITH hides a stream of that name, inside its own query too
    assert rows(there, "WITH X AS (SELECT v + 10 AS v FROM X) SELECT v FROM X") == [(11,), (12,)]
    assert rows(there, "SELECT v FROM X WHERE v IN (WITH d AS (SELECT 2 AS w) SELECT w FROM d)") == [(2,)]


# set operations and duplicates ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ("UNION ALL", [None, 1, 1, 1, 1, 2]),
        ("UNION", [None, 1, 2]),
        ("EXCEPT ALL", [1, 1, 2]),
        ("EXCEPT", [2]),
        ("INTERSECT ALL", [1]),
        ("INTERSECT", [1]),
    ],
)
def test_set_operations(operation: str, expected: list[Value]) -> None:
    there = world().hold("X", [(1,), (1,), (1,), (2,)]).hold("Y", [(1,), (None,)])
    assert rows(there, f"SELECT v FROM X {operation} SELECT w FROM Y") == [(v,) for v in expected]


def test_set_operations_take_nulls_as_equal() -> None:
    there = world().hold("X", [(None,), (None,)]).hold("Y", [(None,)])
    assert rows(there, "SELECT v FROM X EXCEPT ALL SELECT w FROM Y") == [(None,)]
    assert rows(there, "SELECT v FROM X EXCEPT SELECT w FROM Y") == []
    assert rows(there, "SELECT DISTINCT v FROM X") == [(None,)]


def test_order_of_a_set_operation_sees_its_result() -> None:
    there = world().hold("X", [(1,), (5,)]).hold("Y", [(3,)])
    assert rows(there, "SELECT v FROM X UNION ALL SELECT w FROM Y ORDER BY v DESC LIMIT 2") == [(3,), (5,)]


def test_a_query_without_from_is_one_row_at_every_instant() -> None:
    assert world().answers("SELECT 1 + 1 AS two", [-9, 0, 9]) == {-9: [(2,)], 0: [(2,)], 9: [(2,)]}
