"""Operators are known by what they compute: not by names, places in a text or words, but by parameters, inputs and code."""

from __future__ import annotations

import subprocess
import sys
from itertools import permutations
from pathlib import Path

import pytest

from tidegate.kernels.sync import SyncTicksKernel
from tidegate.language.binder import bind
from tidegate.language.catalog import Catalog, SourceCall, StreamDefinition
from tidegate.language.dialect import parse
from tidegate.language.statements import define
from tidegate.optimizer.driver import optimize
from tidegate.physical.joining import Company, plan_joining
from tidegate.physical.plan import Birth, Plan, united
from tidegate.physical.planning import plan_query
from tidegate.runtime.jobs import planned
from tidegate.scalars.functions import ScalarFunction
from tidegate.types import BIGINT, STRING, Field

S = StreamDefinition(
    "S", (Field("k", STRING), Field("v", BIGINT), Field("t", BIGINT)), SourceCall("memory", ("S",)), "t"
)


def catalog(code: int = 1) -> Catalog:
    calls = {1: lambda x: x + 1, 2: lambda x: x + 2}
    return Catalog().with_definition(S).with_function(ScalarFunction("f", calls[code], BIGINT, 1))


def plan(text: str, birth: int = 0, code: int = 1) -> Plan:
    known = catalog(code)
    root = optimize(bind(parse(text)[0], known, text).plan)[0]
    return plan_query("q", root, known.functions, Birth(birth))


COUNT = "SELECT k, COUNT(*) AS n FROM S WINDOW(RANGE 5) WHERE v > 1 GROUP BY k"

SAME = {
    "aliases": "SELECT k AS key, COUNT(*) AS number FROM S WINDOW(RANGE 5) AS x WHERE x.v > 1 GROUP BY k",
    "comments and spaces": "SELECT k, /* how many */ COUNT(*) AS n\n  FROM S WINDOW(RANGE 5) -- so far\n WHERE (v > 1) GROUP BY k",
}
OTHER = {
    "constant": COUNT.replace("v > 1", "v > 2"),
    "window": COUNT.replace("RANGE 5", "RANGE 6"),
    "aggregate": COUNT.replace("COUNT(*)", "SUM(v)"),
    "type": COUNT.replace("v > 1", "v > 1.0"),
}


@pytest.mark.parametrize("name", SAME)
def test_what_only_people_read_does_not_count(name: str) -> None:
    assert plan(SAME[name]).answers == plan(COUNT).answers


@pytest.mark.parametrize("name", OTHER)
def test_what_is_computed_counts(name: str) -> None:
    assert plan(OTHER[name]).answers != plan(COUNT).answers


ORDERS = {
    "AND": ("SELECT k, COUNT(*) AS n FROM S WINDOW(RANGE 5) WHERE {} AND {} AND {} GROUP BY k", ("v > 1", "k = 'a'", "v < 9")),
    "OR": ("SELECT k FROM S WINDOW(RANGE 5) WHERE {} OR {}", ("v > 1", "k = 'a'")),
    "=": ("SELECT DISTINCT k FROM S WINDOW(RANGE 5) WHERE {} = {}", ("v", "7")),
    "a join's keys": (
        "SELECT x.k FROM S WINDOW(RANGE 5) x JOIN S WINDOW(RANGE 6) y ON {} AND {}", ("x.k = y.k", "x.v = y.v")
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ORDERS)
def test_the_order_of_conditions_does_not_count(name: str) -> None:
    text, parts = ORDERS[name]
    found = [plan(text.format(*order)) for order in permutations(parts)]
    assert {*map(str, (p.answers for p in found))} == {str(found[0].answers)}
    assert all(p.operators.keys() == found[0].operators.keys() for p in found)


def test_operators_that_began_at_different_times_are_different() -> None:
    assert plan(COUNT, birth=3).answers != plan(COUNT, birth=4).answers


def test_the_code_of_a_called_function_counts_and_of_others_does_not() -> None:
    calling = "SELECT f(v) AS w FROM S WINDOW(RANGE 5)"
    assert plan(calling, code=1).answers != plan(calling, code=2).answers
    assert plan(COUNT, code=1).answers == plan(COUNT, code=2).answers


def test_identities_are_the_same_in_another_process() -> None:
    here = plan(COUNT).answers["q"]
    program = (
        f"from tests.physical.test_identity import plan, COUNT; print(plan(COUNT).answers['q'] == {here!r})"
    )
    root = Path(__file__).resolve().parents[2]
    found = subprocess.run(
        [sys.executable, "-c", program],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONHASHSEED": "7"},
    )
    assert found.stdout.strip() == "True"


def test_queries_share_what_they_compute_alike() -> None:
    high, low = (plan(f"SELECT n FROM ({COUNT}) WHERE n {sign} 3") for sign in "><")
    both = united([high, low])
    alone = len(high.operators)
    assert len(both.operators) < 2 * alone
    assert len(both.inputs) == len(high.inputs) == 1


def test_an_input_brings_what_any_of_its_readers_needs() -> None:
    plans = []
    for column in "kv":
        text = f"SELECT {column} FROM S WINDOW(RANGE 5)"
        plans.append(plan_query(column, bind(parse(text)[0], catalog(), text).plan, {}, Birth()))
    assert [[i.needed for i in p.inputs.values()] for p in plans] == [[{0}], [{1}]]
    assert [i.needed for i in united(plans).inputs.values()] == [{0, 1}]


def test_a_plan_that_would_wait_for_itself_tells_its_waves_apart() -> None:
    """The same count before an exchange, and behind it beside what came of it."""
    inner = "SELECT k, COUNT(*) AS n FROM S WINDOW(RANGE 5) GROUP BY k"
    text = (
        f"SELECT a.k, b.m FROM ({inner}) a JOIN (SELECT k, MAX(n) AS m FROM (SELECT n, MIN(k) AS k FROM ({inner}) GROUP BY n)"
        " GROUP BY k) b ON a.k = b.k"
    )
    known = catalog()
    root = optimize(bind(parse(text)[0], known, text).plan)[0]
    found = plan_joining(Company(), "q", root, known.functions, Birth(3))
    assert not found.is_circular
    assert found.depth >= 2
    for entry in found.inputs.values():
        assert entry.birth.epoch == 3


def test_each_node_is_visited_once() -> None:
    """Ten conditions that use all that came before twice: as many visits as there are operators, not two to the tenth."""
    members = " AND ".join(f"(v IN (SELECT v FROM S WINDOW(RANGE {i + 1})) OR k = 'x{i}')" for i in range(10))
    text = f"SELECT k FROM S WINDOW(RANGE 5) WHERE {members}"
    root = bind(parse(text)[0], catalog(), text).plan
    visits = sum(1 for _ in root.walk())
    assert visits == len({id(n) for n in root.walk()}) < 400
    assert len(planned({"q": optimize(root)[0]}, {}).operators) < 1000


def test_points_of_one_synchronization_are_not_taken_for_those_of_another() -> None:
    """Plans of points were remembered by their address, which another plan may have next."""
    steps = (2, 15, 7, 9, 4, 11, 13, 5)
    text = "K"
    for step in steps:
        points = f"SELECT Timepoint FROM CLOCK WHERE Timepoint % {step} = 1"
        text = f"(SELECT k, v FROM {text} SYNC BY ({points} UNION {points} AND Timepoint > 3))"
    script = "CREATE STREAM K OVER S KEY k"
    text, known = text[1:-1], define(parse(script)[0], catalog(), script)
    root = bind(parse(text)[0], known, text).plan
    for _ in range(20):
        found = plan_query("q", root, {}, Birth()).operators.values()
        assert tuple(o.kernel.ticks[0].step for o in found if isinstance(o.kernel, SyncTicksKernel)) == steps
