"""Snapshot-reducibility: at every instant the reference's snapshot is DuckDB's answer on the window contents."""

from __future__ import annotations

import os

import pytest

from tests.fuzz.duckdb_oracle import Oracle, canonical
from tests.fuzz.generation import Case, Generator
from tidegate.algebra.reference import Reference
from tidegate.language.binder import bind
from tidegate.language.dialect import parse

INSTANTS = list(range(-1, 22))
PAIRS = int(os.environ.get("TIDEGATE_FUZZ_PAIRS", "500"))
FIRST = int(os.environ.get("TIDEGATE_FUZZ_SEED", "0"))
FAILED_BEFORE: tuple[int, ...] = ()
"""Seeds that once showed a difference."""


def difference(case: Case, oracle: Oracle) -> str | None:
    """Where the two disagree, with all that is needed to see why; None where they agree at every instant."""
    text = case.tidegate()
    plan = bind(parse(text)[0], case.catalog, text).plan
    reference = Reference(case.sources)
    oracle.load(case, INSTANTS)
    for t in INSTANTS:
        ours = canonical(reference.snapshot(plan, t).elements())
        theirs = oracle.answer(case, t)
        if ours != theirs:
            return f"seed {case.seed} at {t}\n{text}\nreference {ours}\nDuckDB    {theirs}\nrows {case.rows}"
    changes = set(reference.change_points(plan))
    for t in INSTANTS[1:]:
        if t not in changes and reference.snapshot(plan, t) != reference.snapshot(plan, t - 1):
            return f"seed {case.seed}: a change at {t} is not among the change points\n{text}"
    return None


@pytest.mark.parametrize("block", range(10))
def test_snapshots_equal_duckdb(block: int) -> None:
    oracle = Oracle()
    size = PAIRS // 10
    for seed in range(FIRST + block * size, FIRST + (block + 1) * size):
        found = difference(Generator(seed).case(), oracle)
        assert found is None, found


@pytest.mark.parametrize("seed", FAILED_BEFORE)
def test_what_failed_before(seed: int) -> None:
    found = difference(Generator(seed).case(), Oracle())
    assert found is None, found
