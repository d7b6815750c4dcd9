"""The search by cost: it finds the better order of joins, always the same one, within its budget, and what it finds means the same."""

from __future__ import annotations

import os
import random
from dataclasses import replace

import pytest

from tests.fuzz.players import INSTANTS, answerable, difference, frames, play
from tests.fuzz.queries import Case, Generator
from tests.fuzz.streams import INTEGERS, generate
from tidegate.algebra import operators as op
from tidegate.calibration.steady import World, catalog, compared, planned, statistics
from tidegate.kernels.join import JoinKernel
from tidegate.optimizer.cost import Cost, Costs
from tidegate.optimizer.driver import optimize
from tidegate.optimizer.prices import Price, prices
from tidegate.optimizer.search import Budget, join_block, search
from tidegate.optimizer.statistics import SourceStatistics
from tidegate.physical.estimates import Expectations
from tidegate.physical.plan import Birth, Plan
from tidegate.physical.planning import plan_query
from tidegate.time import MAX

CHAIN = (
    "SELECT S.b, P.e FROM S WINDOW(RANGE 3000), R WINDOW(RANGE 3000), Q WINDOW(RANGE 3000), P WINDOW(RANGE 3000) "
    "WHERE S.a = R.a AND R.c = Q.c AND Q.d = P.d"
)
KEYS = {"a": 200, "b": 50, "c": 100, "d": 40, "e": 40}
CASES = int(os.environ.get("TIDEGATE_FUZZ_CASES", "96")) // 6


def costs(**rates: float) -> Costs:
    rows = World(rates, KEYS).rows(10_000)
    return Costs(statistics(planned(CHAIN, catalog()), rows), epoch=1_000.0)


def lowest(plan: op.Node) -> set[str]:
    """The streams of the join that is at the bottom."""
    joins = [n for n in plan.walk() if isinstance(n, op.Join)]
    first = next(j for j in joins if not any(isinstance(n, op.Join) and n is not j for n in j.walk()))
    return {n.name for n in first.walk() if isinstance(n, op.Scan)}


def test_rare_rows_meet_first() -> None:
    plan = planned(CHAIN, catalog())
    found = search(plan, costs(S=1.0, R=1.0, Q=0.1, P=0.01))
    assert lowest(found.plan) == {"Q", "P"}
    assert found.cost.work < 0.8 * found.greedy.work
    other = search(plan, costs(S=0.01, R=0.1, Q=1.0, P=1.0))
    assert lowest(other.plan) == {"S", "R"}


def test_groups_are_made_before_rows_meet() -> None:
    """As in PIPES Fig. 9, where many rows of a group would meet each partner."""
    text = "SELECT S.a, R.c, MAX(S.b) AS m FROM S WINDOW(RANGE 500), R WINDOW(RANGE 500) WHERE S.a = R.a GROUP BY S.a, R.c"
    plan = planned(text, catalog())
    rows = World({"S": 10.0, "R": 1.0, "Q": 0.1, "P": 0.1}, KEYS | {"a": 50}).rows(2_000)
    found = search(plan, Costs(statistics(plan, rows), epoch=500.0))
    join = next(n for n in found.plan.walk() if isinstance(n, op.Join))
    assert any(isinstance(side, op.Aggregate) for side in join.inputs)
    assert found.cost.work < 0.6 * found.greedy.work


def physical(plan: op.Node) -> Plan:
    return plan_query("q", plan, {}, Birth())


def dear_exchanges() -> Costs:
    """Streams of which the cheapest operators are not those over the cheapest exchanges."""
    rows = World({"S": 0.3, "R": 0.3, "Q": 2.0, "P": 2.0}, KEYS | {"a": 4_000, "c": 400, "d": 4_000}).rows(
        10_000
    )
    moving = replace(prices()["Exchange"], taken=4e-6, taken_values=1e-6)
    return Costs(statistics(planned(CHAIN, catalog()), rows), {**prices(), "Exchange": moving}, epoch=1_000.0)


def test_exchanges_are_part_of_the_cost() -> None:
    plan, expected = planned(CHAIN, catalog()), Expectations(dear_exchanges())

    def whole(other: op.Node) -> Cost:
        return expected.added(physical(other))

    by_operators = search(plan, expected.costs).plan
    found = search(plan, expected.costs, whole=whole)
    assert whole(found.plan).weight < whole(by_operators).weight
    assert found.cost.weight <= found.greedy.weight


def test_what_runs_already_is_read_instead_of_computed_again() -> None:
    plan, expected = planned(CHAIN, catalog()), Expectations(dear_exchanges())
    running = physical(
        planned("SELECT * FROM Q WINDOW(RANGE 3000), P WINDOW(RANGE 3000) WHERE Q.d = P.d", catalog())
    )
    alone = search(plan, expected.costs, whole=lambda p: expected.added(physical(p)))
    beside = search(plan, expected.costs, whole=lambda p: expected.added(physical(p), (running,)))
    (met,) = [o.id for o in running.operators.values() if isinstance(o.kernel, JoinKernel)]
    assert met in physical(beside.plan).operators
    assert met not in physical(alone.plan).operators
    assert beside.cost.work < 0.8 * expected.added(physical(alone.plan), (running,)).work


def test_the_same_question_gets_the_same_plan() -> None:
    plan, given = planned(CHAIN, catalog()), costs(S=1.0, R=1.0, Q=0.1, P=0.01)
    assert len({search(plan, given).plan for _ in range(3)}) == 1


def test_orders_of_large_blocks_are_tried_step_by_step() -> None:
    plan = planned(CHAIN, catalog())
    rates = costs(S=1.0, R=1.0, Q=0.1, P=0.01)
    found = search(plan, rates, budget=Budget(relations=2, seconds=20.0))
    assert search(plan, rates).cost.weight <= found.cost.weight < found.greedy.weight


@pytest.mark.parametrize(
    "budget",
    [Budget(expressions=0), Budget(seconds=-1.0)],
    ids=["expressions", "time"],
)
def test_beyond_the_budget_the_greedy_plan_stands(budget: Budget) -> None:
    plan = planned(CHAIN, catalog())
    found = search(plan, costs(S=1.0, R=1.0, Q=0.1, P=0.01), budget=budget)
    assert found.plan is plan
    assert not found.is_other
    assert found.given_up == (budget.seconds < 0)
    assert found.expressions <= len([*plan.walk()]) + max(0, budget.expressions)


def test_a_block_knows_its_relations_through_filters_and_choices_of_columns() -> None:
    plan = planned(CHAIN, catalog())
    joins = [n for n in plan.walk() if isinstance(n, op.Join)]
    block = join_block(joins[-1])
    assert block is not None
    assert (len(block.relations), len(block.conditions)) == (4, 3)
    assert block.is_connected((0, 1, 2))
    assert not block.is_connected((0, 2))


def joins_of_three(seed: int) -> Case:
    """A generated query that joins three relations, each with one before it."""
    dice = Generator(seed)
    streams = generate(dice.dice, dice.mode or INTEGERS, 0)
    items = [dice.item(1)]
    source = items[0].text
    for _ in range(2):
        item = dice.item(1)
        source += f" JOIN {item.text} ON {dice.pair(items, item)}"
        items.append(item)
    chosen = [f"{i.alias}.{i.columns[0][0]} AS x{n}" for n, i in enumerate(items)]
    where = dice.where(items, [], 1)
    text = f"SELECT {', '.join(chosen)} FROM {source}{where}"
    return Case(seed, streams, text, tuple(dice.leaves), tuple(dice.views))


def orders(plan: op.Node) -> list[op.Node]:
    """The plan with its first block of joins in every order that the search compares."""
    for node in reversed([*plan.walk()]):
        block = join_block(node)
        if block is None or len(block.relations) < 3:
            continue
        every = tuple(range(len(block.relations)))
        ways = block.ways(every) if block.is_connected(every) else ()
        made = [block.as_asked(block.plan_of(every, *way)) for way in ways]
        return [optimize(_replaced(plan, node, m))[0] for m in made]
    return []


def _replaced(plan: op.Node, old: op.Node, new: op.Node) -> op.Node:
    if plan is old:
        return new
    inputs = [_replaced(i, old, new) for i in plan.inputs]
    return plan.with_inputs(*inputs) if inputs else plan  # type: ignore[no-any-return]


def test_every_order_of_joins_means_the_same() -> None:
    """All orders = reference, on generated queries, also where the search would not choose them."""
    compared_orders = 0
    for seed in range(400_000, 400_000 + CASES):
        case = joins_of_three(seed)
        if not answerable(case):
            continue
        functions = {**case.catalog.functions, **case.catalog.aggregates}
        whole = [t * case.streams.unit * case.width for t in INSTANTS]
        for plan in orders(case.optimized):
            if plan == case.optimized:
                continue
            chunks = frames(plan, case.streams.sources(case.width))
            answer = play(plan, chunks, [*whole[::5], MAX], functions)
            wrong = difference(case.reference, case.plan, answer)
            assert wrong is None, f"seed {seed}: {wrong}"
            compared_orders += 1
    assert compared_orders >= CASES, compared_orders


def test_what_is_found_means_the_same() -> None:
    """The cheapest plan = reference, on generated queries, whatever prices say."""
    others = 0
    for seed in range(500_000, 500_000 + 3 * CASES):
        case = Generator(seed).case()
        names = sorted({n.name for n in case.optimized.walk() if isinstance(n, op.Scan)})
        given = {n: SourceStatistics(10.0 ** -((seed + i) % 4), 1e4, 1e5) for i, n in enumerate(names)}
        dice = random.Random(seed)
        odd = {
            name: Price(0.0, taken=10.0 ** dice.uniform(-9, -4), given=10.0 ** dice.uniform(-9, -4))
            for name in prices()
        }
        found = search(case.optimized, Costs(given, odd, epoch=1_000.0))
        if not found.is_other or not answerable(case):
            continue
        others += 1
        chunks = frames(found.plan, case.streams.sources(case.width))
        functions = {**case.catalog.functions, **case.catalog.aggregates}
        whole = [t * case.streams.unit * case.width for t in INSTANTS]
        answer = play(found.plan, chunks, [*whole[::5], MAX], functions)
        wrong = difference(case.reference, case.plan, answer)
        assert wrong is None, f"seed {seed}: {wrong}"
    assert others >= CASES // 16, f"only {others} plans were others than the rules alone give"


@pytest.mark.parametrize(
    ("text", "factor"),
    [
        ("SELECT a, COUNT(*) AS n FROM S WINDOW(RANGE 2000) GROUP BY a", 1.15),
        ("SELECT a, MAX(x) AS n FROM S WINDOW(RANGE 2000) GROUP BY a", 1.3),
        ("SELECT S.b, R.c FROM S WINDOW(RANGE 2000) JOIN R WINDOW(RANGE 1500) ON S.a = R.a", 1.3),
        ("SELECT DISTINCT a, b FROM S WINDOW(RANGE 2000)", 1.2),
        ("SELECT a FROM S WINDOW(RANGE 400) EXCEPT SELECT a FROM R WINDOW(RANGE 400)", 1.3),
        ("SELECT a, x FROM S WINDOW(RANGE 1000) WHERE a IN (SELECT a FROM R WINDOW(RANGE 400))", 1.4),
        ("SELECT a, COUNT(*) AS n FROM S WINDOW(ROWS 1000) GROUP BY a", 1.2),
        ("SELECT b, COUNT(*) AS n FROM K GROUP BY b", 1.2),
        ("SELECT a, x FROM S WINDOW(RANGE 2000) ORDER BY x DESC LIMIT 10", 1.6),
        ("SELECT a + b AS z FROM S WHERE b < 10 AND x > 50", 1.2),
    ],
)
def test_formulas_say_what_is_counted(text: str, factor: float) -> None:
    """Rows given and kept by every operator, at steady state of even streams."""
    world = World({"S": 0.5, "R": 0.25, "Q": 0.1, "P": 0.1}, {"a": 200, "b": 50, "c": 100})
    for found in compared(text, catalog(), world, 700, 2_000, 4):
        for counted, estimated in ((found.work.given, found.given), (found.work.kept, found.kept)):
            assert counted / factor - 5 <= estimated <= counted * factor + 5, (text, found)
