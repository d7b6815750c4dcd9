"""The central test: for generated queries and streams, kernels = reference at every change point, for any epochs."""

from __future__ import annotations

import os

import pytest

from tests.fuzz.once_different import ONCE_DIFFERENT, Recorded
from tests.fuzz.players import check
from tests.fuzz.queries import Generator
from tidegate.kernels.machine_code import few_rows

CASES = int(os.environ.get("TIDEGATE_FUZZ_CASES", "96"))
FIRST = int(os.environ.get("TIDEGATE_FUZZ_SEED", "100000"))


@pytest.mark.parametrize("block", range(6))
def test_kernels_equal_the_reference(block: int) -> None:
    size = CASES // 6
    refused = 0
    for seed in range(FIRST + block * size, FIRST + (block + 1) * size):
        found = check(Generator(seed).case())
        assert found is None or found.startswith("refused"), found
        refused += found is not None
    assert refused <= size // 8, f"{refused} of {size} queries have no answer"


def test_loops_mean_the_same_where_they_are_not_compiled() -> None:
    size = CASES // 6
    with few_rows():
        for seed in range(FIRST + CASES, FIRST + CASES + size):
            found = check(Generator(seed).case())
            assert found is None or found.startswith("refused"), found


@pytest.mark.parametrize("recorded", ONCE_DIFFERENT, ids=lambda r: r.name)
def test_what_once_differed(recorded: Recorded) -> None:
    for seed in range(6):
        found = check(recorded.case(seed))
        assert found is None, found
