"""Generated queries over windows with quality ranges, whose size and granule change up to twenty times: judged like any other query.

DuckDB judges the reference on what SPEC section 4 says that a row is seen (`clauses`), and the reference the kernels: in any epochs, after restarts, in
partitions that change, and in a graph in which queries come and go. `tests/spark/test_quality.py` has the runtime choose.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import pytest

from tests.fuzz import test_joining, test_partitions
from tests.fuzz.duckdb_oracle import Oracle
from tests.fuzz.players import answerable, check, described, difference, frames, play
from tests.fuzz.queries import Case, Generator
from tests.fuzz.relations import Relations
from tests.fuzz.streams import IN_BATCHES, INTEGERS, TIMESTAMPS, generate
from tests.fuzz.test_reference_against_duckdb import compare
from tidegate.algebra.adjusting import fixed, knobs_of
from tidegate.algebra.quality import Steps
from tidegate.errors import Diagnostic
from tidegate.kernels.machine_code import few_rows
from tidegate.reference.snapshots import Reference
from tidegate.time import MAX

CASES = int(os.environ.get("TIDEGATE_FUZZ_CASES", "96")) // 12
MODES = (INTEGERS, TIMESTAMPS, IN_BATCHES)
FIRST = int(os.environ.get("TIDEGATE_FUZZ_SEED", "900000"))


@pytest.fixture(autouse=True)
def uncompiled() -> Iterator[None]:
    """Loops as they stand: rows are few."""
    with few_rows():
        yield


def cases(first: int, count: int, slack: int | None = None) -> list[Case]:
    """Queries that leave something to be chosen."""
    found: list[Case] = []
    seed = first
    while len(found) < count:
        case = Generator(seed, ranged=True).case(slack)
        found += [case] if knobs_of(case.plan) else []
        seed += 1
    return found


def windows(first: int, count: int) -> list[Case]:
    """A window alone, in every kind of time: each row shows when it comes and goes, and nothing hides it."""
    found: list[Case] = []
    seed = first
    while len(found) < count:
        dice, mode = random.Random(seed), MODES[seed % len(MODES)]
        leaf = Relations(dice, mode, ranged=True).windowed()
        case = Case(seed, generate(dice, mode, 3), "SELECT q.a AS x0, q.TS AS x1 FROM §0§ q", (leaf,))
        found += [case] if knobs_of(case.plan) else []
        seed += 1
    return found


def test_the_reference_equals_duckdb() -> None:
    oracle = Oracle()
    told = [compare(case, oracle) for case in [*windows(FIRST, 4 * CASES), *cases(FIRST, CASES)]]
    assert [t for t in told if t is not None and not t.startswith("skipped")] == []
    assert told.count(None) >= 2 * CASES


def test_kernels_equal_the_reference() -> None:
    told = [check(case) for case in [*windows(FIRST + 100_000, 4 * CASES), *cases(FIRST + 100_000, CASES)]]
    assert [t for t in told if t is not None and not t.startswith("refused")] == []
    assert told.count(None) >= 4 * CASES


def test_in_partitions_that_change() -> None:
    for case in cases(FIRST + 200_000, CASES // 2, slack=0):
        if answerable(case):
            counts = test_partitions.COUNTS[case.seed % len(test_partitions.COUNTS)]
            found = test_partitions.check(case, case.optimized, counts, random.Random(case.seed))
            assert found in (None, "fixed"), f"seed {case.seed}, {found}\n{described(case)}"


def test_queries_come_and_go() -> None:
    played = 0
    for case in cases(FIRST + 300_000, CASES // 2, slack=0):
        dice = random.Random(case.seed)
        try:
            family = test_joining.family(case, dice)
            mine = {n: c for n, c in family.items() if c.optimized and c.width == case.width}
        except Diagnostic:
            continue
        if answerable(case):
            found = test_joining.check(mine, dice, 1 + case.seed % 3)
            assert found is None, f"seed {case.seed}, {found}\n{described(case)}"
            played += 1
    assert played >= CASES // 4


def test_what_never_changes_is_a_window_without_ranges() -> None:
    """`answer(plan, w) = answer(fixed(plan, v))` where w is v at all times: the plan that the cost model is asked about."""
    played = 0
    for case in cases(FIRST + 400_000, CASES):
        dice, knobs = random.Random(case.seed), knobs_of(case.plan)
        values = {name: dice.randint(k.lowest, k.highest) for name, k in knobs.items()}
        plain = fixed(case.plan, values)
        assert knobs_of(plain) == {}
        if not answerable(case):
            continue
        sources, known = case.streams.sources(case.width), case.catalog
        chosen = {name: Steps(value) for name, value in values.items()}
        judge = Reference(sources, known.functions, known.aggregates, settings=chosen)
        try:
            answer = play(plain, frames(plain, sources), [MAX], {**known.functions, **known.aggregates})
            found = difference(judge, case.plan, answer)
        except Diagnostic:
            continue
        assert found is None, f"seed {case.seed}: {values}: {found}\n{described(case)}"
        played += 1
    assert played >= CASES // 2
