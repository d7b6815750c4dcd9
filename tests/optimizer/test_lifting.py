"""Queries that are equal up to constants have one general plan, and a condition on it gives each of them at every instant."""

from __future__ import annotations

import os
import random

import pytest

from tests.fuzz.players import canonical
from tests.fuzz.view_pairs import Pairs
from tests.optimizer.test_views import PAIR, R6, S6, WORLDS
from tests.syncsql.world import World
from tidegate.algebra import operators as op
from tidegate.errors import Diagnostic
from tidegate.optimizer.driver import optimize
from tidegate.optimizer.lifting import lifted
from tidegate.physical.identity import plan_identity
from tidegate.scalars.expressions import conjoin, ref

CASES = int(os.environ.get("TIDEGATE_FUZZ_PAIRS", "800")) // 4
FIRST = int(os.environ.get("TIDEGATE_FUZZ_SEED", "60000"))

ALIKE = {
    "equality": f"SELECT a, v FROM {S6} WHERE a = {{}}",
    "a column that is not shown": f"SELECT b FROM {S6} WHERE v = {{}}",
    "a range": f"SELECT b, v FROM {S6} WHERE v BETWEEN {{}} AND 4",
    "a prefix": f"SELECT b, v FROM {S6} WHERE b LIKE '{{}}x%'",
    "a group": f"SELECT a, COUNT(*) AS n FROM {S6} WHERE a = {{}} GROUP BY a",
    "a group that is not shown": f"SELECT COUNT(*) AS n, MAX(v) AS m FROM {S6} WHERE a = {{}}",
    "a threshold": f"SELECT b, COUNT(*) AS n FROM {S6} GROUP BY b HAVING COUNT(*) > {{}}",
    "a join": f"SELECT l.b, r.c {PAIR} WHERE r.c > {{}} AND l.v = 2",
    "a join's condition": f"SELECT l.b, r.c FROM {S6} l JOIN {R6} r ON l.a = r.a AND l.v > {{}}",
    "a group of a join": f"SELECT l.b, COUNT(*) AS n {PAIR} WHERE r.c = {{}} GROUP BY l.b",
    "distinct": f"SELECT DISTINCT b FROM {S6} WHERE a = {{}}",
    "a relation": "SELECT id, g FROM K WHERE x > {}",
    "last rows of one": "SELECT v FROM (SELECT * FROM S WINDOW(PARTITION BY a ROWS 2)) WHERE a = {}",
}
DIFFERENT = {
    "a range below a count": f"SELECT COUNT(*) AS n FROM {S6} WHERE v > {{}}",
    "a range below DISTINCT": f"SELECT DISTINCT b FROM {S6} WHERE v > {{}}",
    "rows that are counted": "SELECT v FROM (SELECT * FROM S WHERE v > {}) WINDOW(ROWS 2)",
    "texts but one, counted": f"SELECT a, COUNT(*) AS n FROM {S6} WHERE b NOT LIKE '{{}}x' GROUP BY a",
    "a guarded division": f"SELECT a, 10 / v AS x FROM {S6} WHERE v > {{}}",
    "a guarded division in a condition": f"SELECT a FROM {S6} WHERE v > {{}} AND 10 / v > 2",
    "a guarded division in a join": f"SELECT l.a FROM {S6} l JOIN {R6} r ON 10 / l.v > r.c AND l.v > {{}}",
    "a side that may be missing": f"SELECT l.b, r.c FROM {S6} l LEFT JOIN {R6} r ON l.a = r.a AND r.c > {{}}",
}


def check(world: World, text: str) -> op.Node:
    """The general plan of a query; a condition on it gives the query."""
    plan = optimize(world.bound(text).plan)[0]
    found = lifted(plan)
    width = len(plan.schema)
    predicate = conjoin(found.conditions)
    rows = found.general if predicate is None else op.Filter(found.general, predicate)
    again = op.Project(rows, tuple(ref(i) for i in range(width)), plan.schema)
    assert [f.type for f in found.general.schema[:width]] == [f.type for f in plan.schema]
    for t in range(-1, 27):
        ours = canonical(world.reference.snapshot(again, t).elements())
        assert ours == canonical(world.reference.snapshot(plan, t).elements()), (t, text)
    return found.general


@pytest.mark.parametrize("name", ALIKE)
def test_alike_up_to_constants(name: str) -> None:
    general = {plan_identity(check(world, ALIKE[name].format(c))) for c in (1, 2, 3) for world in WORLDS}
    assert len(general) == 1


@pytest.mark.parametrize("name", DIFFERENT)
def test_where_constants_decide_more(name: str) -> None:
    general = {plan_identity(check(world, DIFFERENT[name].format(c))) for c in (1, 2, 3) for world in WORLDS}
    assert len(general) == 3


def test_generated_queries() -> None:
    for seed in range(FIRST, FIRST + CASES):
        pairs = Pairs(seed)
        pair, world = pairs.pair(), pairs.world
        text = random.Random(seed).choice([pair.query, pair.view])
        try:
            world.bound(text)
        except Diagnostic:
            continue
        check(world, text)
