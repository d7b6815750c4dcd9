"""Texts that mean the same are known to, and those that differ are not taken for the same."""

from __future__ import annotations

import pytest

from tidegate.algebra.operators import Node
from tidegate.connectors import registry
from tidegate.language.binder import bind
from tidegate.language.dialect import parse
from tidegate.language.statements import define
from tidegate.runtime.equivalence import equivalent

STREAMS = (
    "CREATE STREAM S(a INT, b INT, c DOUBLE, t BIGINT) SOURCE memory('S') ORDERED BY t",
    "CREATE STREAM R(a INT, b INT, c DOUBLE, t BIGINT) SOURCE memory('R') ORDERED BY t",
    "CREATE STREAM Q(a INT, b INT, c DOUBLE, t BIGINT) SOURCE memory('Q') ORDERED BY t",
    "CREATE STREAM K OVER S KEY a",
)

X, Y, Z = "S WINDOW(RANGE 5) x", "R WINDOW(RANGE 5) y", "Q WINDOW(RANGE 7) z"

SAME = {
    "orders of joins": (
        f"SELECT x.a, z.b FROM {X} JOIN {Y} ON x.a = y.a JOIN {Z} ON y.b = z.b",
        f"SELECT x.a, z.b FROM {Z} JOIN {Y} ON z.b = y.b JOIN {X} ON y.a = x.a",
    ),
    "equal columns": (
        f"SELECT x.a, y.b FROM {X} JOIN {Y} ON x.a = y.a JOIN {Z} ON y.a = z.a",
        f"SELECT z.a, y.b FROM {X} JOIN {Z} ON x.a = z.a JOIN {Y} ON x.a = y.a",
    ),
    "left and right": (
        f"SELECT x.a, y.b FROM {X} LEFT JOIN {Y} ON x.a = y.a",
        f"SELECT x.a, y.b FROM {Y} RIGHT JOIN {X} ON y.a = x.a",
    ),
    "places of conditions": (
        f"SELECT x.a FROM {X} JOIN {Y} ON x.a = y.a WHERE x.b > 3 AND y.b < 2",
        "SELECT x.a FROM (SELECT a FROM S WINDOW(RANGE 5) WHERE b > 3) x JOIN (SELECT a FROM R WINDOW(RANGE 5) WHERE b < 2) y ON y.a = x.a",
    ),
    "groups of a join": (
        f"SELECT n, COUNT(*) AS m FROM (SELECT x.a AS n FROM {X} JOIN {Y} ON x.a = y.a) GROUP BY n",
        f"SELECT n, COUNT(*) AS m FROM (SELECT y.a AS n FROM {Y} JOIN {X} ON x.a = y.a) GROUP BY n",
    ),
    "in and exists": (
        f"SELECT a FROM {X} WHERE EXISTS (SELECT 1 FROM {Y} WHERE y.a = x.a AND y.b > 2)",
        f"SELECT a FROM {X} WHERE EXISTS (SELECT 1 FROM {Y} WHERE 2 < y.b AND x.a = y.a)",
    ),
}

OTHER = {
    "size": ("SELECT a FROM S WINDOW(RANGE 5)", "SELECT a FROM S WINDOW(RANGE 6)"),
    "stream": ("SELECT a FROM S WINDOW(RANGE 5)", "SELECT a FROM R WINDOW(RANGE 5)"),
    "column": (f"SELECT x.a, y.b FROM {X} JOIN {Y} ON x.a = y.a", f"SELECT x.a, x.b FROM {X} JOIN {Y} ON x.a = y.a"),
    "condition": (f"SELECT x.a FROM {X} JOIN {Y} ON x.a = y.a", f"SELECT x.a FROM {X} JOIN {Y} ON x.a = y.b"),
    "outer": (f"SELECT x.a FROM {X} JOIN {Y} ON x.a = y.a", f"SELECT x.a FROM {X} LEFT JOIN {Y} ON x.a = y.a"),
    "sides": (
        f"SELECT x.a, y.a AS o FROM {X} LEFT JOIN {Y} ON x.a = y.a",
        f"SELECT x.a, y.a AS o FROM {X} RIGHT JOIN {Y} ON x.a = y.a",
    ),
    "how often": (f"SELECT x.a FROM {X}", f"SELECT DISTINCT x.a FROM {X}"),
    "zeros": (f"SELECT x.c FROM {X} JOIN {Y} ON x.c = y.c", f"SELECT y.c FROM {X} JOIN {Y} ON x.c = y.c"),
    "relation": ("SELECT a FROM K", "SELECT a FROM S WINDOW(PARTITION BY a ROWS 2)"),
    "roles": (
        "SELECT x.b FROM S WINDOW(RANGE 5) x JOIN S WINDOW(RANGE 7) y ON x.a = y.a",
        "SELECT y.b FROM S WINDOW(RANGE 5) x JOIN S WINDOW(RANGE 7) y ON x.a = y.a",
    ),
    "equal relations": (
        "SELECT x.b FROM S WINDOW(RANGE 5) x JOIN S WINDOW(RANGE 5) y ON x.a < y.a",
        "SELECT y.b FROM S WINDOW(RANGE 5) x JOIN S WINDOW(RANGE 5) y ON x.a < y.a",
    ),
}  # fmt: skip


def plan(text: str) -> Node:
    catalog = registry.catalog()
    for stream in STREAMS:
        catalog = define(parse(stream)[0], catalog, stream)
    return bind(parse(text)[0], catalog, text).plan


@pytest.mark.parametrize("pair", SAME)
def test_what_means_the_same_is_known_to(pair: str) -> None:
    one, other = map(plan, SAME[pair])
    assert equivalent(one, other)
    assert equivalent(other, one)


@pytest.mark.parametrize("pair", OTHER)
def test_what_differs_is_not_taken_for_the_same(pair: str) -> None:
    one, other = map(plan, OTHER[pair])
    assert not equivalent(one, other)
    assert not equivalent(other, one)
