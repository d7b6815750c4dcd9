"""Coalescing: equal rows that follow each other become one, and no snapshot tells."""

from __future__ import annotations

import os
import random

import polars as pl
import pytest

from tests.fuzz.players import answerable, described, difference, frames, play
from tests.fuzz.queries import Case
from tests.fuzz.streams import INTEGERS, generate
from tidegate.kernels.coalescing import CoalesceKernel
from tidegate.kernels.rows import Frame, change_points, snapshot
from tidegate.physical.lowering import compile_plan
from tidegate.time import MAX
from tidegate.types import DOUBLE, INT, Field

CASES = int(os.environ.get("TIDEGATE_FUZZ_CASES", "12"))
FIRST = int(os.environ.get("TIDEGATE_FUZZ_SEED", "1700000"))
SCHEMA = (Field("a", INT), Field("x", DOUBLE))
UPTO = 20


def rows(dice: random.Random) -> Frame:
    """Group by group, as an aggregation says them: what is taken back, what follows each other, what stays open or ends later."""
    found = []
    for _ in range(dice.randint(0, 4)):
        at = sorted(dice.sample(range(UPTO), dice.randint(2, 6)))
        values = [(dice.choice((1, 2, None)), dice.choice((0.5, float("nan"), None))) for _ in range(2)]
        if dice.random() < 0.6:
            found.append((*dice.choice(values), at[0], MAX, -1))
        for ts, te in zip(at, [*at[1:], dice.choice((MAX, UPTO + 3, at[-1] + 1))], strict=True):
            if dice.random() < 0.9:
                found.append((*dice.choice(values), ts, te, dice.choice((1, 1, 1, 2))))
    types = {"c0": pl.Int32(), "c1": pl.Float64(), **dict.fromkeys(("ts", "te", "n"), pl.Int64())}
    return pl.DataFrame(found, schema=types, orient="row")


def test_no_snapshot_changes() -> None:
    fewer = 0
    for seed in range(300):
        given = rows(random.Random(seed))
        _, made = CoalesceKernel(SCHEMA).step({}, [given], UPTO)
        fewer += given.height - made.height
        assert made.columns == given.columns
        assert made.filter(pl.col("ts") >= UPTO).is_empty(), "said of instants that are not reached"
        for t in [0, *change_points([given]), *change_points([made])]:
            was, is_ = ({str(k): n for k, n in snapshot([f], t, SCHEMA).items() if n} for f in (given, made))
            assert was == is_, f"seed {seed} at {t}\n{given}\n{made}"
    assert fewer > 100


QUERIES = (
    "SELECT a FROM (SELECT a, COUNT(*) AS n FROM S WINDOW(RANGE {w}) x GROUP BY a) WHERE n > 1",
    "SELECT a, n > 1 AS many FROM (SELECT a, COUNT(*) AS n FROM S WINDOW(RANGE {w}) x GROUP BY a)",
    "SELECT n > 2 AS many FROM (SELECT COUNT(*) AS n FROM S WINDOW(ROWS {w}) x)",
    "SELECT DISTINCT many FROM (SELECT a, MAX(b) > 0 AS many, SUM(b) AS s FROM S WINDOW(RANGE {w}) x GROUP BY a)",
    "SELECT p.a, R.c FROM (SELECT a FROM S WINDOW(RANGE {w}) x GROUP BY a HAVING COUNT(*) > 1) p JOIN R WINDOW(RANGE 4) R ON p.a = R.a",
    "SELECT * FROM ISTREAM(SELECT a, SUM(b) > 0 AS up FROM S WINDOW(RANGE {w}) x GROUP BY a)",
    "SELECT COUNT(*) AS k FROM (SELECT b, COUNT(*) >= 2 AS many FROM K GROUP BY b) WHERE many",
)


def operators(case: Case) -> list[str]:
    return [type(o.kernel).__name__ for o in compile_plan(case.optimized).operators]


@pytest.mark.parametrize("query", QUERIES)
def test_projections_of_aggregates_are_the_references(query: str) -> None:
    """In one epoch, in many with restarts, and in one per instant."""
    played = 0
    for seed in range(FIRST, FIRST + CASES // 4):
        dice = random.Random(seed)
        case = Case(seed, generate(dice, INTEGERS, sizes=(14, 20)), query.format(w=dice.randint(2, 6)))
        assert "CoalesceKernel" in operators(case)
        if not answerable(case):
            continue
        some = sorted(dice.sample(range(-2, 20), 5))
        for epochs in ([MAX], [*some, MAX], [*range(-3, 26), MAX]):
            answer = play(
                case.optimized,
                frames(case.optimized, case.streams.sources(1)),
                epochs,
                restarts=range(0, len(epochs) - 1, 2),
            )
            found = difference(case.reference, case.plan, answer)
            assert found is None, f"seed {seed}, epochs {epochs}: {found}\n{described(case)}"
        played += 1
    assert played


def test_it_is_there_where_something_is_hidden() -> None:
    streams = generate(random.Random(0), INTEGERS)
    for query in (
        "SELECT a, COUNT(*) AS n FROM S WINDOW(RANGE 5) x GROUP BY a",
        "SELECT n, a FROM (SELECT a, COUNT(*) AS n FROM S WINDOW(RANGE 5) x GROUP BY a) WHERE n > 1",
        "SELECT a FROM S WINDOW(RANGE 5) x GROUP BY a",
        "SELECT a, b + 1 FROM S WINDOW(RANGE 5) x",
    ):
        assert "CoalesceKernel" not in operators(Case(0, streams, query)), query


def test_a_row_that_nothing_changes_is_said_once() -> None:
    """Twenty rows that come and go change a count, but not whether there are more than two."""
    query = "SELECT n > 2 AS many FROM (SELECT COUNT(*) AS n FROM S WINDOW(RANGE 5) x)"
    case = Case(0, generate(random.Random(0), INTEGERS), query)
    scan = next(f for f in frames(case.optimized, case.streams.sources(1)).values())
    many = pl.concat([scan.clear(), pl.DataFrame({"ts": range(20)}).select(
        *(pl.lit(None, dtype=t).alias(c) for c, t in scan.schema.items() if c not in ("ts", "te", "n", "seq")),
        "ts", te=pl.col("ts") + 1, n=pl.lit(1, pl.Int64), seq=pl.col("ts"),
    )])  # fmt: skip
    answer = play(case.optimized, {"S": many}, [MAX])
    assert sorted(answer, key=lambda r: r[1]) == [
        ((False,), 0, 2, 1),
        ((True,), 2, 22, 1),
        ((False,), 22, 24, 1),
    ]
    # Over epochs nothing is said between.
    assert len(play(case.optimized, {"S": many}, [*range(30), MAX])) <= 6
