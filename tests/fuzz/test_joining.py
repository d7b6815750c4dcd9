"""A query that joins a running graph begins with the relation as it stands: from its `complete_from` on it answers as the reference does."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.fuzz.graph_runs import GraphRun, Member
from tests.fuzz.players import answerable, canonical, described
from tests.fuzz.queries import Case, Generator
from tests.fuzz.test_partitions import QUERIES, VIEWS, dense
from tidegate.errors import Diagnostic
from tidegate.optimizer.expiration import with_told_ends
from tidegate.reference.snapshots import snapshot
from tidegate.time import MAX, MIN

CASES = int(os.environ.get("TIDEGATE_FUZZ_CASES", "48"))
FIRST = int(os.environ.get("TIDEGATE_FUZZ_SEED", "700000"))

OVER = (
    "SELECT COUNT(*) AS n FROM ({}) z",
    "SELECT DISTINCT * FROM ({}) z",
    "SELECT * FROM ({}) z",
    "SELECT * FROM ({}) z EXCEPT SELECT * FROM ({}) y WHERE FALSE",
)
"""What others ask of a query's answer."""

BESIDE = {
    "another relation": "SELECT y, c FROM Y",
    "another window": "SELECT a, COUNT(*) AS n FROM R WINDOW(RANGE 5) GROUP BY a",
    "a window over changes": "SELECT COUNT(*) AS n FROM DSTREAM(SELECT a FROM R WINDOW(RANGE 4)) WINDOW(RANGE 3)",
    "validity": "SELECT b, d FROM P",
    "a table": "SELECT T.name, R.c FROM R JOIN T ON R.a = T.a",
}
"""What asks of streams that perhaps nobody has read."""


def family(case: Case, dice: random.Random) -> dict[str, Case]:
    """A query and some that ask about its answer, or that ask the same."""
    texts = {f"over {i}": o.format(*[case.text] * o.count("{}")) for i, o in enumerate(OVER)}
    found = {"first": case, "same": case}
    found |= {name: replace(case, text=text) for name, text in texts.items()}
    beside = dice.choice(list(BESIDE))
    found[beside] = replace(case, text=BESIDE[beside], leaves=(), views=())
    names = [n for n in found if n != "first"]
    dice.shuffle(names)
    return {n: found[n] for n in ["first", *names]}


def different(case: Case, member: Member, answer: list, upto: int) -> str | None:
    """The first change point from which nothing is to be missing at which an answer is not the reference's."""
    complete = member.known.nothing_missing
    if complete is None:
        return None
    low = max(complete, member.known.first)
    points = {
        *case.reference.change_points(case.plan),
        *(p for _, ts, te, _ in answer for p in (ts, te)),
        low,
    }
    for t in sorted(p for p in points if low <= p < upto and p != MIN):
        ours = canonical(snapshot(answer, t).elements())
        theirs = canonical(case.reference.snapshot(case.plan, t).elements())
        if ours != theirs:
            return f"at {t} (complete from {complete}): kernels {ours}, reference {theirs}"
    return None


def check(cases: Mapping[str, Case], dice: random.Random, partitions: int, told: bool = False) -> str | None:
    """Queries come one after the other, some go and come again; every one is compared at the end and when it goes.

    `told`: windows tell each row that leaves.
    """
    first = next(iter(cases.values()))
    run = GraphRun(
        first.streams.sources(first.width), partitions, {**first.catalog.functions, **first.catalog.aggregates},
        first.streams.unit, first.width,
    )  # fmt: skip
    # Epochs in which no time passes are among them.
    ends = [t * run.instant for t in sorted(dice.choices(range(-2, 22), k=8))]
    if dice.random() < 0.3:
        ends[0] = MIN  # no source has promised anything yet
    waiting, said = list(cases), []
    for i, upto in enumerate([*ends, MAX]):
        if len(run.members) > 1 and dice.random() < 0.4:
            name = dice.choice(list(run.members))
            member = run.members[name]
            found = different(cases[name], member, run.answer(member), run.since)
            if found is not None:
                return f"{name} of {said}, epochs {ends}, {partitions} partitions: {found}"
            run.drop(name)
            waiting.insert(dice.randrange(len(waiting) + 1), name)
            said.append(f"without {name} from {run.since}")
        if waiting and (i == 0 or dice.random() < 0.7):
            name = waiting.pop(0)
            plan = cases[name].optimized
            run.add(name, with_told_ends(plan) if told else plan)
            said.append(f"{name} from {run.since}")
        run.graph_epoch(upto)
    for name, member in run.members.items():
        found = different(cases[name], member, run.answer(member), MAX)
        if found is not None:
            return f"{name} of {said}, epochs {ends}, {partitions} partitions: {found}"
    return None


@pytest.mark.parametrize("query", QUERIES)
def test_queries_come_and_go(query: str) -> None:
    for seed in range(3):
        case = Case(seed, dense(seed), QUERIES[query], views=VIEWS)
        dice = random.Random(seed)
        found = check(family(case, dice), dice, 1 + seed % 3, told=seed == 1)
        assert found is None, f"seed {seed}, {found}\n{described(case)}"


def play(seed: int) -> bool:
    """Play a generated query and others over it; whether all of them can be asked."""
    case, dice = Generator(seed).case(slack=0), random.Random(seed)
    try:
        # Queries over batches and others run in graphs of their own.
        cases = {n: c for n, c in family(case, dice).items() if c.optimized and c.width == case.width}
    except Diagnostic:
        return False
    if not answerable(case):
        return False
    found = check(cases, dice, 1 + seed % 3, told=seed % 3 == 0)
    assert found is None, f"seed {seed}, {found}\n{described(case)}"
    return True


@pytest.mark.parametrize("block", range(4))
def test_generated_queries_come_and_go(block: int) -> None:
    size = CASES // 4
    played = sum(play(seed) for seed in range(FIRST + block * size, FIRST + (block + 1) * size))
    assert played >= size // 2


@pytest.mark.parametrize("seed", [700034, 810229])
def test_what_once_differed(seed: int) -> None:
    """An answer that was kept, left and asked for again; points of one synchronization that were taken for another's."""
    assert play(seed)
