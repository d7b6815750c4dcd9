"""The central test: for generated queries and streams, kernels = reference at every change point, for any epochs."""

from __future__ import annotations

import os

import pytest

from tests.fuzz.generation import Case, Generator
from tests.fuzz.kernel_runs import difference, frames, play, splits
from tidegate.language.binder import bind
from tidegate.language.dialect import parse
from tidegate.reference.snapshots import Reference

CASES = int(os.environ.get("TIDEGATE_FUZZ_CASES", "120"))
FIRST = int(os.environ.get("TIDEGATE_FUZZ_SEED", "100000"))


def check(case: Case) -> str | None:
    text = case.tidegate()
    plan = bind(parse(text)[0], case.catalog, text).plan
    reference = Reference(case.sources)
    chunks = frames(plan, case.sources)
    for name, boundaries in splits(case).items():
        for from_log in (False, True) if name == "random" else (False,):
            answer = play(plan, chunks, boundaries, from_log=from_log)
            found = difference(reference, plan, answer)
            if found is not None:
                return f"seed {case.seed}, {name}{', from log' * from_log}: {found}\n{text}\n{case.rows}"
    return None


@pytest.mark.parametrize("block", range(6))
def test_kernels_equal_the_reference(block: int) -> None:
    size = CASES // 6
    for seed in range(FIRST + block * size, FIRST + (block + 1) * size):
        found = check(Generator(seed).case())
        assert found is None, found


@pytest.mark.parametrize("seed", [42000202])
def test_what_once_differed(seed: int) -> None:
    found = check(Generator(seed).case())
    assert found is None, found
