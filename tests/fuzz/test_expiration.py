"""Windows that tell each row that leaves give the same answers, for any epochs, restarts and partitions."""

from __future__ import annotations

import os

import pytest

from tests.fuzz.players import answerable, described, difference, frames, play, players
from tests.fuzz.queries import Generator
from tidegate.errors import Diagnostic
from tidegate.optimizer.cost import cost
from tidegate.optimizer.expiration import expiring, with_told_ends

CASES = int(os.environ.get("TIDEGATE_FUZZ_CASES", "96")) // 4
FIRST = int(os.environ.get("TIDEGATE_FUZZ_SEED", "500000"))


def check(seed: int) -> bool:
    """Whether a case has windows that can tell; it then has to be right in epochs with restarts."""
    case = Generator(seed).case()
    try:
        plan = case.optimized
    except Diagnostic:
        return False
    told = with_told_ends(plan)
    if told == plan or not answerable(case):
        return False
    chunks, functions = (
        frames(plan, case.reference.sources),
        {**case.catalog.functions, **case.catalog.aggregates},
    )
    cheaper = told if cost(told, {}) < cost(plan, {}) else plan
    assert (expiring(plan, "auto"), expiring(plan, "negative"), expiring(plan, "intervals")) == (
        cheaper,
        told,
        plan,
    )
    for player in players(case):
        answer = play(told, chunks, player.boundaries, functions, player.restarts)
        found = difference(case.reference, case.plan, answer)
        assert found is None, f"seed {seed}, {player.name}: {found}\n{described(case)}"
    return True


@pytest.mark.parametrize("block", range(3))
def test_told_ends_equal_the_reference(block: int) -> None:
    played, seed = 0, FIRST + block * 1_000_000
    while played < CASES // 3:
        played += check(seed)
        seed += 1
