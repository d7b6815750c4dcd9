"""Snapshot-reducibility: at every instant the reference's snapshot is DuckDB's answer on the window contents."""

from __future__ import annotations

import os

import pytest

from tests.fuzz.duckdb_oracle import Oracle, canonical
from tests.fuzz.generation import Case, Generator
from tidegate.language.binder import bind
from tidegate.language.dialect import parse
from tidegate.reference.snapshots import Reference
from tidegate.time import MAX

INSTANTS = list(range(-1, 22))
PAIRS = int(os.environ.get("TIDEGATE_FUZZ_PAIRS", "500"))
FIRST = int(os.environ.get("TIDEGATE_FUZZ_SEED", "0"))
R = [
    ((0, 0), 3, 4),
    ((None, 3), 4, 5),
    ((1, 0), 4, 5),
    ((0, 0), 5, 6),
    ((2, 2), 7, 8),
    ((2, 1), 8, 9),
    ((0, None), 12, 13),
]
P = [((1, 3, "x"), 1, 6), ((None, None, "x"), 7, MAX), ((3, None, None), 8, 11), ((2, 1, "y"), 5, 10)]
FAILED_BEFORE = (
    # a comma binds weaker than FULL JOIN
    Case(
        191,
        {"S": [], "R": R, "P": P, "T": []},
        "SELECT q1.c AS x0, q3.a AS x1 FROM §ref0§ q1, §ref1§ q2 FULL JOIN §ref2§ q3 ON q2.b < q3.a AND q3.c < 0",
        [("R", "RANGE 2 SLIDE 2"), ("P", ""), ("R", "ROWS 6 SLIDE 2")],
    ),
    # DuckDB's optimizer gets a FULL JOIN wrong whose condition holds NOT IN (…, NULL): the oracle runs without it
    Case(
        856,
        {"S": [((2, 0, "x"), 6, 7), ((None, 1, "y"), 12, 13)], "R": [], "P": [], "T": []},
        "SELECT q3.b AS x0 FROM §ref0§ q1 LEFT JOIN §ref1§ q2 ON q1.b = q2.a FULL JOIN §ref2§ q3 "
        "ON q2.b = q3.b AND q1.b NOT IN (0, NULL) GROUP BY q3.b HAVING SUM(DISTINCT q1.b) <= 0",
        [("S", "RANGE UNBOUNDED"), ("S", "RANGE 2"), ("S", "ROWS 5 SLIDE 3")],
    ),
)
"""Cases that once showed a difference."""


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


@pytest.mark.parametrize("case", FAILED_BEFORE, ids=lambda c: f"seed {c.seed}")
def test_what_failed_before(case: Case) -> None:
    found = difference(case, Oracle())
    assert found is None, found
