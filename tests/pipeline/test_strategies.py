"""Every strategy, schedule and order of simultaneous rows gives the reference's answer at every instant."""

from __future__ import annotations

import os
import random
from collections import Counter

import pytest

from tests.fuzz.players import answerable, described, difference
from tests.fuzz.queries import Case, Generator
from tests.fuzz.streams import INTEGERS, TIMESTAMPS
from tidegate.algebra import operators as op
from tidegate.algebra.modify import Modify
from tidegate.algebra.windows import RowWindow
from tidegate.errors import Diagnostic
from tidegate.pipeline.compiling import Pipeline, compiled
from tidegate.pipeline.elements import Kind, Strategy
from tidegate.pipeline.execution import Answer, Execution
from tidegate.pipeline.operators import Join
from tidegate.pipeline.scheduling import Chance, Fifo, RoundRobin, Scheduler
from tidegate.reference.snapshots import Arrivals, PhysicalRow, Source
from tidegate.time import MAX

CASES = int(os.environ.get("TIDEGATE_PIPELINE_CASES", "60"))
FIRST = int(os.environ.get("TIDEGATE_FUZZ_SEED", "400000"))
BLOCKS = 4


def shuffled(plan: op.Node, sources: dict[str, Source], dice: random.Random) -> dict[str, Source]:
    """The same rows, simultaneous ones in another order, unless the plan counts them."""
    counts = any(
        isinstance(n, Modify)
        or (isinstance(n, op.Window) and isinstance(n.spec, RowWindow))
        or (isinstance(n, op.Scan) and n.arrival)
        for n in plan.walk()
    )
    if counts:
        return sources
    return {
        name: Arrivals(dice.sample(source.rows, len(source.rows))) if isinstance(source, Arrivals) else source
        for name, source in sources.items()
    }


def told_rows(answer: Answer) -> list[PhysicalRow]:
    """The answer as those read it who do not look at ends: what is not taken back stays."""
    signs = {Kind.POSITIVE: 1, Kind.EXPIRED: -1, Kind.INVALID: -1}
    return [(e.row, e.ts, MAX, signs[e.kind]) for e in answer.elements if e.kind in signs]


def schedulers(dice: random.Random) -> Scheduler:
    return dice.choice((Fifo(), RoundRobin(dice.randint(1, 6)), Chance(dice, dice.choice((0.2, 0.5, 0.9)))))


def pipeline_of(case: Case, plan: op.Node, sources: dict[str, Source], strategy: Strategy) -> Pipeline:
    return compiled(plan, sources, strategy, case.catalog.functions, case.catalog.aggregates)


def check(seed: int, seen: Counter[str]) -> bool:
    """Whether a case is one that the pipeline can run; it then has to be right in every way of running it."""
    dice = random.Random(seed)
    try:
        case = Generator(seed, dice.choice((INTEGERS, TIMESTAMPS))).case()
        plan = dice.choice((case.plan, case.optimized))
        sources = case.streams.sources(1)
        pipeline_of(case, plan, sources, Strategy.INPUT)
    except Diagnostic:
        return False
    if not answerable(case):
        return False
    for strategy in Strategy:
        execution = Execution(
            pipeline_of(case, plan, shuffled(plan, sources, dice), strategy), strategy, schedulers(dice)
        )
        answer = execution.run()
        found = difference(case.reference, case.plan, answer.rows())
        if found is None and strategy is Strategy.NEGATIVE:
            found = difference(case.reference, case.plan, told_rows(answer))
        assert found is None, f"seed {seed}, {strategy.value}: {found}\n{described(case)}"
        if strategy is Strategy.INTERVALS:
            assert set(answer.kinds) <= {Kind.POSITIVE}, seed
        seen.update(type(o).__name__ for o in execution.pipeline.operators)
        seen["joins with a message"] += any(
            isinstance(o, Join) and o.tally.given[Kind.MESSAGE] for o in execution.pipeline.operators
        )
    return True


@pytest.mark.parametrize("block", range(BLOCKS))
def test_strategies_equal_the_reference(block: int) -> None:
    seen: Counter[str] = Counter()
    played, seed = 0, FIRST + block * 1_000_000
    while played < CASES // BLOCKS:
        played += check(seed, seen)
        seed += 1
    for kind in ("Join", "Map", "Aggregated", "Partnered"):
        assert seen[kind], (kind, seen)


ONCE_DIFFERENT = (115, 595, 876, 1960, 6184)
"""Cut time messages, rows of equal keys, two tables, rows that end as others begin, tables that are read too late."""


@pytest.mark.parametrize("seed", ONCE_DIFFERENT)
def test_what_once_differed(seed: int) -> None:
    check(seed, Counter())
