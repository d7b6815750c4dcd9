"""For every rule, queries on which it must fire and queries on which it must not, over the generated streams of `tests.fuzz`.

`S`, `R`: raw streams; `P` has validity; `T` is a table; `K`, `K2`, `Y`: KEY streams (a; a, s; y), `N` one with KEY NULL, `O1` one with operations.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import parse_one

from tests.fuzz.streams import catalog
from tidegate.algebra import operators as op
from tidegate.algebra.windows import TimeWindow
from tidegate.language.binder import bind
from tidegate.language.dialect import parse
from tidegate.optimizer.rules import ALTERNATIVES, JOIN_ORDER
from tidegate.scalars.expressions import ref

S5, R5 = "S WINDOW(RANGE 5)", "R WINDOW(RANGE 5)"
NONE = f"(SELECT * FROM {R5} WHERE FALSE)"
PAIRS = f"SELECT l.a, l.b, r.c FROM {S5} l JOIN {R5} r ON l.a = r.a"
COUNTED = f"(SELECT a, s, COUNT(*) AS n, MAX(b) AS m FROM {S5} GROUP BY a, s)"
BEST = f"(SELECT a, b, s FROM {S5} QUALIFY ROW_NUMBER() OVER (PARTITION BY a ORDER BY b, s) <= 2)"

Queries = tuple[str, ...]

RULE_QUERIES: dict[str, tuple[Queries, Queries]] = {
    "fold_constants": (
        (f"SELECT a FROM {S5} WHERE a > 3 - 2", f"SELECT a, 2 * 3 AS six FROM {S5}", f"SELECT l.a FROM {S5} l JOIN {R5} r ON l.a = r.a + (2 - 2)", f"SELECT a FROM {S5} WHERE b > 0 OR 1 = 2"),
        (f"SELECT a FROM {S5} WHERE a > 1 / 0", f"SELECT a FROM {S5} WHERE a > 1", f"SELECT a FROM {S5} WHERE twice(1) > a"),
    ),
    "drop_conditions_that_hold": (
        (f"SELECT a FROM {S5} WHERE 1 < 2", f"SELECT l.a FROM {S5} l JOIN {R5} r ON 1 = 1 OR l.a = r.a", f"SELECT n FROM {COUNTED} WHERE NOT n IS NULL"),
        (f"SELECT a FROM {S5} WHERE a = a", f"SELECT a FROM {S5} WHERE NOT a IS NULL"),
    ),
    "find_contradictions": (
        (f"SELECT a FROM {S5} WHERE a > 2 AND a < 1", f"SELECT a FROM {S5} WHERE a = 1 AND a = 2", f"SELECT a FROM {S5} WHERE b IS NULL AND b > 0", f"SELECT l.a, r.c FROM {S5} l LEFT JOIN {R5} r ON l.a = r.a AND r.c > 2 AND r.c < 0"),
        (f"SELECT a FROM {S5} WHERE a >= 1 AND a <= 1", f"SELECT a FROM {S5} WHERE a > 2 AND b < 1", f"SELECT a FROM {S5} WHERE b IS NULL AND a > 0"),
    ),
    "empty_what_has_no_rows": (
        (f"SELECT COUNT(*) AS n FROM {S5} WHERE FALSE", f"SELECT DISTINCT a FROM {S5} WHERE a > 1 AND a < 0", f"SELECT a FROM {S5} ORDER BY b LIMIT 0", "SELECT * FROM K WHERE FALSE", f"ISTREAM(SELECT a FROM {S5} WHERE NULL)"),
        (f"SELECT COUNT(*) AS n FROM {S5} WHERE a > 1", f"SELECT a FROM {S5} ORDER BY b LIMIT 1"),
    ),
    "drop_empty_sides": (
        (f"SELECT l.a, r.c FROM {S5} l JOIN {NONE} r ON l.a = r.a", f"SELECT l.a, r.c FROM {S5} l LEFT JOIN {NONE} r ON l.a = r.a", f"SELECT l.a, r.c FROM {NONE} r RIGHT JOIN {S5} l ON l.a = r.a",
         f"SELECT l.a, r.c FROM {S5} l FULL JOIN {NONE} r ON l.a = r.a", f"SELECT l.a, r.c FROM {S5} l FULL JOIN {R5} r ON FALSE", f"SELECT a FROM {S5} WHERE a NOT IN (SELECT a FROM {NONE})",
         f"SELECT a FROM {S5} UNION ALL SELECT a FROM {NONE}", f"SELECT a FROM {NONE} UNION ALL SELECT a FROM {S5}", f"SELECT a FROM {S5} EXCEPT SELECT a FROM {NONE}", f"SELECT a FROM {S5} INTERSECT SELECT a FROM {NONE}",
         f"SELECT l.a, r.c FROM {NONE} r LEFT JOIN {S5} l ON l.a = r.a"),
        (f"SELECT a FROM {S5} UNION ALL SELECT a FROM {R5} WHERE a > 3", f"SELECT a FROM {S5} EXCEPT SELECT a FROM {R5}"),
    ),
    "merge_filters": (
        (f"SELECT a FROM (SELECT a, b FROM {S5} WHERE a > 0) WHERE b > 1",),
        (f"SELECT a FROM {S5} WHERE a > 0",),
    ),
    "turn_outer_join_inner": (
        (f"SELECT l.a, r.c FROM {S5} l LEFT JOIN {R5} r ON l.a = r.a WHERE r.c > 0", f"SELECT l.a, r.c FROM {S5} l RIGHT JOIN {R5} r ON l.a = r.a WHERE NOT l.b IS NULL",
         f"SELECT l.a, r.c FROM {S5} l FULL JOIN {R5} r ON l.a = r.a WHERE l.b + 1 > 0", f"SELECT l.a, r.c FROM {S5} l FULL JOIN {R5} r ON l.a = r.a WHERE l.b <> r.c",
         f"SELECT l.a, r.c FROM {S5} l LEFT JOIN {R5} r ON l.a = r.a WHERE r.c NOT IN (1, 2) AND l.b > 0"),
        (f"SELECT l.a, r.c FROM {S5} l LEFT JOIN {R5} r ON l.a = r.a WHERE r.c IS NULL", f"SELECT l.a, r.c FROM {S5} l LEFT JOIN {R5} r ON l.a = r.a WHERE COALESCE(r.c, 1) = 1",
         f"SELECT l.a, r.c FROM {S5} l LEFT JOIN {R5} r ON l.a = r.a WHERE r.c > 0 OR l.b > 0", f"SELECT l.a, r.c FROM {S5} l LEFT JOIN {R5} r ON l.a = r.a WHERE r.c <=> NULL"),
    ),
    "push_filter_below_project": (
        (f"SELECT a FROM (SELECT a, b + 1 AS n FROM {S5}) WHERE a > 0", f"SELECT n FROM (SELECT a, b % 3 AS n FROM {S5}) WHERE a > 0 AND n > 1"),
        (f"SELECT a FROM (SELECT a, b + 1 AS n FROM {S5}) WHERE n > 0", f"SELECT n FROM (SELECT a, b % 3 AS n FROM {S5}) WHERE n > 0 AND 10 / a > 1"),
    ),
    "push_filter_below_union": (
        (f"SELECT a FROM (SELECT a FROM {S5} UNION ALL SELECT a FROM {R5}) WHERE a > 0",),
        (f"SELECT a FROM (SELECT a FROM {S5} UNION ALL SELECT a FROM {R5}) GROUP BY a HAVING COUNT(*) > 1",),
    ),
    "push_filter_below_window": (
        (f"SELECT a FROM {S5} WHERE a > 0", "SELECT a, b FROM S WINDOW(PARTITION BY a ROWS 2) WHERE a > 0 AND b > 1", "SELECT a FROM S WINDOW(RANGE 2 SLIDE 4) WHERE a > 0", f"SELECT a FROM {S5} WHERE 10 / (a * a + 1) > 1"),
        ("SELECT a FROM S WINDOW(ROWS 2) WHERE a > 0", "SELECT a FROM S WINDOW(RANGE 2 SLIDE 4) WHERE 10 / (a * a + 1) > 1"),
    ),
    "push_filter_below_distinct": (
        (f"SELECT * FROM (SELECT DISTINCT a, b FROM {S5}) WHERE a > 0 AND b + 1 > 1",),
        (f"SELECT * FROM (SELECT DISTINCT a, b FROM {S5}) WHERE twice(a) > 0", f"SELECT * FROM (SELECT DISTINCT a, b FROM {S5}) WHERE 10 / (a * a + 1) > 1"),
    ),
    "push_filter_below_grouping": (
        (f"SELECT * FROM {COUNTED} WHERE a > 0 AND n > 1", f"SELECT a, COUNT(*) AS n FROM {S5} GROUP BY a HAVING a IS NULL"),
        (f"SELECT * FROM {COUNTED} WHERE n > 1", f"SELECT * FROM {COUNTED} WHERE a > m", f"SELECT a, COUNT(*) AS n FROM {S5} GROUP BY a HAVING 1 / (a * a + 1) > 0"),
    ),
    "push_filter_below_top_k": (
        (f"SELECT * FROM {BEST} WHERE a > 0", f"SELECT * FROM {BEST} WHERE a > 0 AND b > 0"),
        (f"SELECT * FROM {BEST} WHERE b > 0", f"SELECT * FROM (SELECT a, b FROM {S5} ORDER BY b LIMIT 2) WHERE a > 0"),
    ),
    "push_filter_below_single_row": ((), (f"SELECT * FROM {COUNTED} WHERE a > 0",)),
    "push_filter_below_difference": (
        (f"SELECT * FROM (SELECT a FROM {S5} EXCEPT SELECT a FROM {R5}) WHERE a > 0", f"SELECT * FROM (SELECT a FROM {S5} EXCEPT ALL SELECT a FROM {R5}) WHERE a > 0", f"SELECT * FROM (SELECT a FROM {S5} INTERSECT ALL SELECT a FROM {R5}) WHERE a IS NULL"),
        (f"SELECT * FROM (SELECT a FROM {S5} EXCEPT SELECT a FROM {R5}) WHERE twice(a) > 0",),
    ),
    "push_filter_below_changes": (
        (f"SELECT * FROM (ISTREAM(SELECT a, b FROM {S5})) WHERE a > 0", f"SELECT * FROM (DSTREAM(SELECT a FROM {S5})) WHERE a > 0", f"SELECT * FROM (RSTREAM(SELECT a FROM {S5}) EVERY 2) WHERE a > 0", "SELECT a FROM S WINDOW(RANGE UNBOUNDED) WHERE NOW < TS + 4 AND a > 0"),
        (f"SELECT * FROM (ISTREAM(SELECT a, b FROM {S5})) WHERE twice(a) > 0",),
    ),
    "push_filter_below_modify": (
        ("SELECT a, b FROM K WHERE a > 0", "SELECT a, b FROM K2 WHERE s = 'x' AND b > 0", "SELECT a, c FROM N WHERE c > 1"),
        ("SELECT a, b FROM K WHERE b > 0", "SELECT a, b FROM O1 WHERE a > 0", "SELECT a, b FROM K WHERE 10 / (a * a + 1) > 1"),
    ),
    "factor_out_of_or": (
        (f"SELECT a FROM {S5} WHERE (a = 1 AND b > 0) OR (a = 1 AND s = 'x')",),
        (f"SELECT a FROM {S5} WHERE a = 1 OR b = 1", f"SELECT a FROM {S5} WHERE (10 / (a * a + 1) > 1 AND b > 0) OR (10 / (a * a + 1) > 1 AND b < 0)"),
    ),
    "push_filter_into_join": (
        (f"SELECT a, c FROM ({PAIRS}) WHERE b > 0 AND c > 1", f"SELECT l.a, r.c FROM {S5} l LEFT JOIN {R5} r ON l.a = r.a WHERE l.b > 0", f"SELECT l.a, r.c FROM {S5} l RIGHT JOIN {R5} r ON l.a = r.a WHERE r.c > 0", f"SELECT a FROM {S5} l LEFT ANTI JOIN {R5} r ON l.a = r.a WHERE b > 0", f"SELECT a FROM ({PAIRS}) WHERE 10 / (b * b + 1) > c"),
        (f"SELECT l.a, r.c FROM {S5} l LEFT JOIN {R5} r ON l.a = r.a WHERE r.c IS NULL", f"SELECT l.a FROM {S5} l LEFT JOIN {R5} r ON l.a = r.a WHERE 10 / (l.b * l.b + 1) > 1"),
    ),
    "push_join_conditions_down": (
        (f"SELECT a FROM {S5} l LEFT SEMI JOIN {R5} r ON l.a = r.a AND r.c > 0 AND l.b > 1", f"SELECT l.a, r.c FROM {S5} l LEFT JOIN {R5} r ON l.a = r.a AND r.c > 0", f"SELECT l.a, r.c FROM {S5} l RIGHT JOIN {R5} r ON l.a = r.a AND l.b > 0"),
        (f"SELECT l.a, r.c FROM {S5} l LEFT JOIN {R5} r ON l.a = r.a AND l.b > 0", f"SELECT l.a, r.c FROM {S5} l FULL JOIN {R5} r ON l.a = r.a AND r.c > 0", f"{PAIRS} AND 10 / (l.b * l.b + 1) > 1"),
    ),
    "filter_sides_by_or": (
        (f"SELECT l.a FROM {S5} l JOIN {R5} r ON (l.b = 1 AND r.c = 2) OR (l.b = 2 AND r.c = 3)", f"SELECT k.a FROM K2 k LEFT JOIN {BEST} r ON (k.b = 1 AND r.a = 2) OR (k.b = 2 AND r.a = 3)"),
        (f"SELECT l.a FROM {S5} l JOIN {R5} r ON (l.b = 1 AND r.c = 2) OR l.a = r.a",),
    ),
    "join_connected_first": (
        (f"SELECT l.a, k.b FROM (SELECT a, b FROM {S5}) l, (SELECT c FROM {R5}) r, K k WHERE l.a = k.a AND r.c = k.b",),
        (f"SELECT l.a, k.b FROM {S5} l, {R5} r, K k WHERE l.a = r.a AND r.c = k.b",),
    ),
    "compare_with_extreme": (
        (f"SELECT a, b FROM {S5} WHERE b < ANY (SELECT c FROM {R5})", f"SELECT a FROM {S5} q WHERE EXISTS (SELECT 1 FROM {R5} r WHERE r.a = q.a AND r.c < q.b)"),
        (f"SELECT a FROM {S5} WHERE b IN (SELECT c FROM {R5})",),
    ),
    "drop_redundant_distinct": (
        (f"SELECT DISTINCT a, s, n FROM {COUNTED}", f"SELECT DISTINCT a FROM (SELECT DISTINCT a FROM {S5})", "SELECT DISTINCT a, b FROM K", "SELECT DISTINCT a, b FROM (SELECT a, b FROM S WINDOW(PARTITION BY a ROWS 1))"),
        (f"SELECT DISTINCT n FROM {COUNTED}", f"SELECT DISTINCT a FROM {S5}", "SELECT DISTINCT b FROM K", "SELECT DISTINCT a FROM N", f"SELECT DISTINCT l.a, l.n FROM {COUNTED} l JOIN {R5} r ON l.a = r.a"),
    ),
    "drop_distinct_below_insensitive": (
        (f"SELECT MAX(a) AS m FROM (SELECT DISTINCT a, b FROM {S5})", f"SELECT a, COUNT(DISTINCT b) AS n FROM (SELECT DISTINCT a, b FROM {S5}) GROUP BY a", f"SELECT a FROM {S5} WHERE a IN (SELECT DISTINCT a FROM {R5})", f"SELECT a FROM (SELECT DISTINCT a FROM {S5}) EXCEPT SELECT a FROM {R5}"),
        (f"SELECT COUNT(*) AS n FROM (SELECT DISTINCT a, b FROM {S5})", f"SELECT a FROM (SELECT DISTINCT a FROM {S5}) EXCEPT ALL SELECT a FROM {R5}"),
    ),
    "drop_redundant_grouping": (
        ("SELECT a, b FROM K GROUP BY a, b", f"SELECT a, s FROM {COUNTED} GROUP BY a, s"),
        ("SELECT b FROM K GROUP BY b", "SELECT a, COUNT(*) AS n FROM K GROUP BY a", f"SELECT a FROM {S5} GROUP BY a"),
    ),
    "drop_redundant_top_k": (
        (f"SELECT MAX(b) AS m FROM {S5} LIMIT 3", "SELECT a, b FROM K QUALIFY ROW_NUMBER() OVER (PARTITION BY a ORDER BY b) <= 1"),
        (f"SELECT MAX(b) AS m FROM {S5} LIMIT 3 OFFSET 1", "SELECT a, b FROM K ORDER BY b LIMIT 1", "SELECT a, b FROM K QUALIFY ROW_NUMBER() OVER (PARTITION BY b ORDER BY a) <= 1"),
    ),
    "drop_redundant_single_row": ((), (f"SELECT a FROM {S5} WHERE b > (SELECT c FROM {R5} r WHERE r.c = 3 AND r.a = 3)",)),
    "drop_now_window": ((), (f"SELECT a FROM {S5}",)),
    "merge_projects": (
        (f"SELECT n * 2 AS x FROM (SELECT a + 1 AS n FROM {S5})",),
        (f"SELECT n * n AS x FROM (SELECT a + 1 AS n FROM {S5})",),
    ),
    "remove_identity_project": ((), (f"SELECT a AS z FROM {S5}",)),
    "push_projection_below_union": (
        (f"SELECT b FROM (SELECT a, b FROM {S5} UNION ALL SELECT a, c FROM {R5})", f"SELECT a * b AS n FROM (SELECT a, b FROM {S5} UNION ALL SELECT a, c FROM {R5})"),
        (f"SELECT a FROM (SELECT a FROM {S5} EXCEPT ALL SELECT a FROM {R5})",),
    ),
    "push_projection_below_window": (
        (f"SELECT a FROM {S5}", "SELECT a FROM S WINDOW(PARTITION BY a ROWS 2)"),
        ("SELECT b FROM S WINDOW(PARTITION BY a ROWS 2)", f"SELECT a + 1 AS n FROM {S5}"),
    ),
    "compute_calls_once": (
        (f"SELECT UPPER(s) AS u, LENGTH(UPPER(s)) AS n, a FROM {S5}", f"SELECT ABS(b) + a AS u, ABS(b) * 2 AS n FROM {S5}"),
        (f"SELECT UPPER(s) AS u, LOWER(s) AS n FROM {S5}", f"SELECT CASE WHEN a > 0 THEN ABS(b) END AS u, CASE WHEN a < 0 THEN ABS(b) END AS n FROM {S5}", f"SELECT twice(a) AS u, a AS v FROM {S5}"),
    ),
    "drop_sync_at_every_instant": (("SELECT a FROM K SYNC BY (SELECT Timepoint FROM CLOCK) k",), ("SELECT a FROM K SYNC BY (SELECT Timepoint FROM CLOCK WHERE Timepoint % 2 = 0) k",)),
    "drop_sync_of_coarser_rows": (
        ("SELECT a FROM (SELECT DISTINCT a FROM S WINDOW(RANGE 8 SLIDE 4)) SYNC BY (SELECT Timepoint FROM CLOCK WHERE Timepoint % 2 = 0) k",),
        ("SELECT a FROM (SELECT DISTINCT a FROM S WINDOW(RANGE 8 SLIDE 3)) SYNC BY (SELECT Timepoint FROM CLOCK WHERE Timepoint % 2 = 0) k",),
    ),
    "merge_sync_into_window": (("SELECT a FROM S WINDOW(RANGE 6 GRANULARITY 2)",), ("SELECT a FROM S WINDOW(ROWS 6 GRANULARITY 2)",)),
    "merge_syncs": (
        ("SELECT a FROM (SELECT a FROM K SYNC BY (SELECT Timepoint FROM CLOCK WHERE Timepoint % 2 = 0) k) SYNC BY (SELECT Timepoint FROM CLOCK WHERE Timepoint % 4 = 0) j",),
        ("SELECT a FROM (SELECT a FROM K SYNC BY (SELECT Timepoint FROM CLOCK WHERE Timepoint % 2 = 0) k) SYNC BY (SELECT Timepoint FROM CLOCK WHERE Timepoint % 3 = 0) j",),
    ),
    "pull_sync_above_rowwise": (("SELECT a FROM K SYNC BY (SELECT Timepoint FROM CLOCK WHERE Timepoint % 2 = 0) k WHERE b > 0",), ("SELECT a FROM K WHERE b > 0",)),
    "push_sync_below_others": (("SELECT * FROM (SELECT DISTINCT b FROM K) SYNC BY (SELECT Timepoint FROM CLOCK WHERE Timepoint % 2 = 0) k",), ("SELECT a FROM K SYNC BY (SELECT Timepoint FROM CLOCK WHERE Timepoint % 2 = 0) k",)),
}  # fmt: skip

ALTERNATIVE_QUERIES: dict[str, tuple[Queries, Queries]] = {
    "reduce_by_semijoin": (
        (f"SELECT c.a, c.n, r.c FROM {COUNTED} c JOIN {R5} r ON c.a = r.a", f"SELECT c.a, c.m, r.c FROM {R5} r JOIN {COUNTED} c ON c.a = r.a AND c.n < r.c"),
        (PAIRS, f"SELECT c.a, r.c FROM {COUNTED} c JOIN {R5} r ON c.m = r.a", f"SELECT c.a, r.c FROM {COUNTED} c LEFT JOIN {R5} r ON c.a = r.a"),
    ),
    "push_grouping_below_join": (
        (f"SELECT l.a, r.c, MAX(l.b) AS m FROM {S5} l JOIN {R5} r ON l.a = r.a GROUP BY l.a, r.c", f"SELECT r.a, MIN(l.b) AS m FROM {S5} l JOIN {R5} r ON l.a = r.a GROUP BY r.a",
         f"SELECT k.a, k.b, COUNT(*) AS n, SUM(r.c) AS x FROM {R5} r JOIN K k ON r.a = k.a GROUP BY k.a, k.b", f"SELECT r.a, k.s, AVG(r.y) AS n FROM K k JOIN {R5} r ON r.a = k.a GROUP BY r.a, k.s",
         f"SELECT l.a, r.c, MAX(l.b) AS m FROM {S5} l JOIN T t ON l.a = t.a JOIN {R5} r ON t.a = r.a GROUP BY l.a, r.c",
         f"SELECT k.a, COUNT(DISTINCT r.c) AS n FROM {R5} r JOIN {S5} k ON r.a = k.a GROUP BY k.a"),
        (f"SELECT l.a, r.c, COUNT(*) AS m FROM {S5} l JOIN {R5} r ON l.a = r.a GROUP BY l.a, r.c", f"SELECT r.c, MAX(l.b) AS m FROM {S5} l JOIN {R5} r ON l.a = r.a GROUP BY r.c",
         f"SELECT k.a, SUM(r.g) AS x FROM {R5} r JOIN K k ON r.a = k.a GROUP BY k.a, k.b", f"SELECT k.a, xor_all(r.g) AS x FROM {R5} r JOIN K k ON r.a = k.a GROUP BY k.a",
         f"SELECT l.a, MAX(r.c) AS x, MAX(l.b) AS y FROM {S5} l JOIN {R5} r ON l.a = r.a GROUP BY l.a"),
    ),
    "push_partial_grouping_below_join": (
        (f"SELECT r.c, COUNT(*) AS n, MAX(l.b) AS m FROM {S5} l JOIN {R5} r ON l.a = r.a GROUP BY r.c", f"SELECT COUNT(l.b) AS n, MIN(l.x) AS m FROM {S5} l JOIN {R5} r ON l.a < r.c", f"SELECT l.b, COUNT(r.c) FILTER (WHERE r.f) AS n FROM {S5} l JOIN {R5} r ON l.a = r.a GROUP BY l.b",
         f"SELECT l.TS, MIN(r.c) AS m FROM {S5} l JOIN {R5} r ON l.a = r.a GROUP BY l.TS"),
        (f"SELECT r.c, SUM(l.b) AS n FROM {S5} l JOIN {R5} r ON l.a = r.a GROUP BY r.c", f"SELECT r.c, COUNT(DISTINCT l.b) AS n FROM {S5} l JOIN {R5} r ON l.a = r.a GROUP BY r.c"),
    ),
    "push_grouping_below_union": (
        (f"SELECT a, COUNT(*) AS n, MAX(v) AS m FROM (SELECT a, b AS v FROM {S5} UNION ALL SELECT a, c FROM {R5}) GROUP BY a", f"SELECT COUNT(v) AS n FROM (SELECT a, b AS v FROM {S5} UNION ALL SELECT a, c FROM {R5})", f"SELECT t, MIN(v) AS m FROM (SELECT TS AS t, b AS v FROM {S5} UNION ALL SELECT TS, c FROM {R5}) GROUP BY t"),
        (f"SELECT a, SUM(v) AS n FROM (SELECT a, b AS v FROM {S5} UNION ALL SELECT a, c FROM {R5}) GROUP BY a",),
    ),
    "push_distinct_below_join": ((f"SELECT DISTINCT * FROM (SELECT a FROM {S5}) l JOIN (SELECT a, c FROM {R5}) r ON l.a = r.a",), (f"SELECT DISTINCT l.b FROM {S5} l JOIN {R5} r ON l.a = r.a",)),
    "push_distinct_below_union": ((f"SELECT a FROM {S5} UNION SELECT a FROM {R5}",), (f"SELECT a FROM {S5} UNION ALL SELECT a FROM {R5}",)),
    "turn_distinct_join_semi": ((f"SELECT DISTINCT l.b FROM {S5} l JOIN {R5} r ON l.a = r.a", f"SELECT DISTINCT l.a FROM {S5} l, {R5} r WHERE l.b < r.c"), (f"SELECT l.b FROM {S5} l JOIN {R5} r ON l.a = r.a", f"SELECT DISTINCT l.b, r.c FROM {S5} l JOIN {R5} r ON l.a = r.a")),
    "push_map_below_window": ((f"SELECT a % 2 AS n FROM {S5}", "SELECT a, b % 2 AS n FROM S WINDOW(PARTITION BY a ROWS 2)", f"SELECT 10 / (a * a + 1) AS n FROM {S5}"), ("SELECT b % 2 AS n FROM S WINDOW(PARTITION BY a ROWS 2)", "SELECT 10 / (a * a + 1) AS n FROM S WINDOW(RANGE 2 SLIDE 4)")),
    "pull_map_above_window": (("SELECT n FROM (SELECT a % 2 AS n, b FROM S) WINDOW(RANGE 3)", "SELECT * FROM (SELECT b, a % 2 AS n FROM S) WINDOW(PARTITION BY b ROWS 2)"), ("SELECT * FROM (SELECT b, a % 2 AS n FROM S) WINDOW(PARTITION BY n ROWS 2)",)),
    "pull_window_above_union": (("SELECT a FROM S WINDOW(RANGE 3) UNION ALL SELECT a FROM R WINDOW(RANGE 3)",), ("SELECT a FROM S WINDOW(RANGE 3) UNION ALL SELECT a FROM R WINDOW(RANGE 2)", "SELECT a FROM S WINDOW(ROWS 3) UNION ALL SELECT a FROM R WINDOW(ROWS 3)")),
    "push_window_below_union": (("SELECT * FROM (SELECT a FROM S UNION ALL SELECT a FROM R) WINDOW(RANGE 3)",), ("SELECT * FROM (SELECT a FROM S UNION ALL SELECT a FROM R) WINDOW(ROWS 3)",)),
    "commute_join": ((PAIRS, f"SELECT l.a, r.c FROM {S5} l LEFT JOIN {R5} r ON l.a = r.a AND l.b < r.c", f"SELECT l.a, r.c FROM {S5} l FULL JOIN {R5} r ON l.a = r.a"), (f"SELECT a FROM {S5} l LEFT SEMI JOIN {R5} r ON l.a = r.a",)),
    "associate_join": (
        (f"SELECT l.a, r.c, t.name FROM {S5} l JOIN {R5} r ON l.a = r.a JOIN T t ON t.a = r.a", f"SELECT l.a, r.c, p.d FROM {S5} l JOIN P p ON l.b = p.b JOIN {R5} r ON l.a = r.a AND r.c < p.d",
         f"SELECT l.a, k.b FROM {S5} l, K k, T t WHERE l.a = k.a AND k.a = t.a AND l.b > k.b"),
        (PAIRS, f"SELECT l.a, r.c, t.name FROM {S5} l LEFT JOIN {R5} r ON l.a = r.a JOIN T t ON t.a = l.a"),
    ),
}  # fmt: skip


ONE_EACH = f"SELECT a, MAX(b) AS m FROM {S5} WHERE a > 0 GROUP BY a UNION ALL SELECT a, MAX(b) AS m FROM {S5} WHERE a <= 0 GROUP BY a"
"""At most one row of each `a`, though no key says so."""


def made_plans() -> dict[str, op.Node]:
    """For rules about what no query says, plans on which they must fire."""
    unique, keyed, counted = (
        plan_of(ONE_EACH),
        plan_of("SELECT a, b FROM K"),
        plan_of(f"SELECT DISTINCT a FROM {S5}"),
    )
    return {
        "push_filter_below_single_row": op.Filter(op.SingleRow(unique, (0,)), parse_one("c0 > 1 AND c1 > 0")),
        "drop_redundant_single_row": op.SingleRow(keyed, (0,)),
        "drop_now_window": op.Window(counted, TimeWindow(1)),
        "remove_identity_project": op.Project(counted, (ref(0),), counted.schema),
    }


def unmade_plans() -> dict[str, op.Node]:
    """And plans that are nearly so, on which they must not."""
    unique, counted = plan_of(ONE_EACH), plan_of(f"SELECT DISTINCT a, b FROM {S5}")
    return {
        "push_filter_below_single_row": op.Filter(op.SingleRow(unique, (0,)), parse_one("c1 > 0")),
        "drop_redundant_single_row": op.SingleRow(unique, (0,)),
        "drop_now_window": op.Window(counted, TimeWindow(2)),
        "remove_identity_project": op.Project(counted, (ref(1), ref(0)), counted.schema),
    }


def plan_of(text: str) -> op.Node:
    return bind(parse(text)[0], catalog("integers"), text).plan


def variants(plan: op.Node) -> Iterator[tuple[str, op.Node, op.Node]]:
    """All that one alternative makes of a part of a plan: its name, the part, and what may take its place."""
    for alternative in (*ALTERNATIVES, *JOIN_ORDER):
        for node in plan.walk():
            yield from ((alternative.__name__, node, other) for other in alternative(node))


def replaced(plan: op.Node, node: op.Node, other: op.Node) -> op.Node:
    """A plan with one of its parts replaced, wherever it stands."""
    if plan == node:
        return other
    inputs = [replaced(i, node, other) for i in plan.inputs]
    same = all(a is b for a, b in zip(inputs, plan.inputs, strict=True))
    return plan if same else plan.with_inputs(*inputs)
