"""At every instant the reference's snapshot is DuckDB's answer on what the items of the query show by their definitions.

Neither side shares code with the other: windows, sequences, modify streams, points and NOW are found by trying instants one by
one (`relations`), expressions, joins and aggregates are DuckDB's own.
"""

from __future__ import annotations

import os
import random

import duckdb
import pytest

from tests.fuzz.clauses import IllegalWindowError
from tests.fuzz.duckdb_oracle import Oracle
from tests.fuzz.players import INSTANTS, REFUSED, canonical, described
from tests.fuzz.queries import Case, Generator
from tests.fuzz.streams import TIMESTAMPS
from tidegate.errors import Diagnostic

PAIRS = int(os.environ.get("TIDEGATE_FUZZ_PAIRS", "240"))
FIRST = int(os.environ.get("TIDEGATE_FUZZ_SEED", "0"))
ASKED = 16
"""Instants at which a case is compared."""


def ticks(case: Case) -> list[int]:
    """Some of the ticks at which something can happen, and the ones after them."""
    dice, span = random.Random(case.seed), case.streams.unit * case.width
    after = (0, 1, 2) if case.width > 1 else (0, 1) if case.streams.mode == TIMESTAMPS else (0,)
    every = [t * span + k for t in INSTANTS for k in after]
    start = dice.randrange(len(every) - 4)
    return sorted({*dice.sample(every, min(ASKED - 4, len(every))), *every[start : start + 4]})


def compare(case: Case, oracle: Oracle) -> str | None:
    """Where the two disagree, with all that is needed to see why; None where they agree; `skipped: …` without an answer."""
    if not oracle.knows(case):
        return "skipped: DuckDB cannot be asked"
    asked = ticks(case)
    try:
        oracle.load(case, asked)
        changes = {*case.reference.change_points(case.plan)}
        before = None
        for t in asked:
            ours = canonical(case.reference.snapshot(case.plan, t).elements())
            theirs = oracle.answer(case, t)
            if ours != theirs:
                return f"seed {case.seed} at {t}\nreference {ours}\nDuckDB    {theirs}\n{described(case)}"
            if t not in changes and before is not None and before[0] == t - 1 and before[1] != ours:
                return f"seed {case.seed}: a change at {t} is not among the change points\n{described(case)}"
            before = t, ours
    except IllegalWindowError:
        return "skipped: a row belongs to a window that was shown before"
    except duckdb.OutOfRangeException as problem:
        return f"skipped: DuckDB {problem}"  # it refuses variances of infinities
    except Diagnostic as problem:
        if problem.condition not in REFUSED:
            raise
        return f"skipped: {problem.condition}"
    return None


@pytest.mark.parametrize("block", range(8))
def test_snapshots_equal_duckdb(block: int) -> None:
    oracle = Oracle()
    size = PAIRS // 8
    compared = 0
    for seed in range(FIRST + block * size, FIRST + (block + 1) * size):
        found = compare(Generator(seed).case(), oracle)
        assert found is None or found.startswith("skipped"), found
        compared += found is None
    assert compared >= size // 3, f"only {compared} of {size} cases could be compared"
