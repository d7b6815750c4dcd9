"""State moved to another number of partitions goes on as if nothing had happened: kernels = reference at every change point."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.fuzz.partition_runs import Partitioned
from tests.fuzz.players import answerable, described, difference, frames
from tests.fuzz.queries import Case, Generator
from tests.fuzz.streams import INTEGERS, Streams, generate
from tidegate.algebra import operators as op
from tidegate.physical.plan import disputed, united
from tidegate.runtime.jobs import planned
from tidegate.storage import Storage
from tidegate.time import MAX

CASES = int(os.environ.get("TIDEGATE_FUZZ_CASES", "48"))
FIRST = int(os.environ.get("TIDEGATE_FUZZ_SEED", "500000"))
COUNTS = ((1, 5), (5, 2), (2, 3), (4, 1, 3))

VIEWS = (
    ("Thirds", "SELECT C.Timepoint FROM CLOCK C WHERE C.Timepoint % 3 = 0"),
    ("Events", "SELECT TS FROM R WHERE c > 0"),
)

QUERIES = {
    "grouped": "SELECT a, COUNT(*), SUM(b), MAX(s) FROM S WINDOW(RANGE 6) GROUP BY a",
    "floats": "SELECT a, AVG(b * 0.1D), STDDEV(b * 0.3D) FROM S WINDOW(RANGE 6) GROUP BY a",
    "by expression": "SELECT b + 1, COUNT(*) FROM S WINDOW(RANGE 6) GROUP BY b + 1",
    "scalar": "SELECT COUNT(*), SUM(b) FROM S WINDOW(RANGE 6)",
    "join": "SELECT x.s, y.c FROM S WINDOW(RANGE 6) x JOIN R WINDOW(RANGE 4) y ON x.a = y.a",
    "join by expression": "SELECT x.s, y.c FROM S WINDOW(RANGE 6) x JOIN R WINDOW(RANGE 4) y ON x.a + 1 = y.a * 2 - y.c",
    "join and group": "SELECT y.c, COUNT(*) FROM S WINDOW(RANGE 6) x JOIN R WINDOW(RANGE 4) y ON x.a = y.a GROUP BY y.c",
    "left": "SELECT x.s, x.a, y.c FROM S WINDOW(RANGE 6) x LEFT JOIN R WINDOW(RANGE 4) y ON x.a = y.a",
    "full": "SELECT x.s, x.a, y.c FROM S WINDOW(RANGE 6) x FULL JOIN R WINDOW(RANGE 4) y ON x.a = y.a AND x.b < y.c",
    "without equality": "SELECT x.s, top FROM S WINDOW(RANGE 6) x JOIN (SELECT MAX(c) AS top FROM R WINDOW(RANGE 9)) y ON x.b < top",
    "band": "SELECT x.s, y.c FROM S WINDOW(RANGE 6) x JOIN R WINDOW(RANGE 4) y ON x.b BETWEEN y.c - 1 AND y.c + 2",
    "band, left": "SELECT x.a, x.b, y.c FROM S WINDOW(RANGE 6) x LEFT JOIN R WINDOW(RANGE 4) y ON ABS(x.b - y.c) <= 1 AND x.a <> y.a",
    "band, right": "SELECT x.a, y.c FROM S WINDOW(RANGE 6) x RIGHT JOIN R WINDOW(ROWS 5) y ON x.b >= y.c - 1 AND x.b < y.c + 2",
    "band, full": "SELECT x.a, y.c FROM S WINDOW(RANGE 6) x FULL JOIN R WINDOW(RANGE 4) y ON x.b BETWEEN y.c - 1 AND y.c",
    "theta, left": "SELECT x.s, x.b, y.c FROM S WINDOW(RANGE 6) x LEFT JOIN R WINDOW(RANGE 4) y ON x.b < y.c",
    "theta, anti": "SELECT a, s FROM S WINDOW(RANGE 6) x WHERE NOT EXISTS (SELECT 1 FROM R WINDOW(RANGE 3) y WHERE y.c > x.b)",
    "theta, semi": "SELECT a, s FROM S WINDOW(RANGE 6) x WHERE EXISTS (SELECT 1 FROM R WINDOW(RANGE 3) y WHERE y.c <> x.b)",
    "theta of groups": "SELECT x.a, x.n, y.c FROM (SELECT a, COUNT(*) AS n FROM S WINDOW(RANGE 6) GROUP BY a) x JOIN R WINDOW(RANGE 4) y ON x.n > y.c",
    "theta of key streams": "SELECT K.a, K.b, N.c FROM K JOIN N ON K.b < N.c",
    "band of key streams": "SELECT K.a, K.b, N.c FROM K LEFT JOIN N ON K.b BETWEEN N.c - 1 AND N.c + 1",
    "pairs": "SELECT x.s, y.c FROM S WINDOW(RANGE 2) x CROSS JOIN R WINDOW(RANGE 2) y",
    "small left": "SELECT x.s, top FROM (SELECT MAX(c) AS top FROM R WINDOW(RANGE 9)) y RIGHT JOIN S WINDOW(RANGE 6) x ON x.b < top",
    "in": "SELECT a, s FROM S WINDOW(RANGE 6) WHERE a IN (SELECT a FROM R WINDOW(RANGE 8))",
    "not in": "SELECT a, s FROM S WINDOW(RANGE 6) WHERE a NOT IN (SELECT a FROM R WINDOW(RANGE 8) WHERE c > 0)",
    "exists with more": "SELECT a, s FROM S WINDOW(RANGE 6) x WHERE EXISTS (SELECT 1 FROM R WINDOW(RANGE 8) y WHERE y.a = x.a AND y.c > x.b)",
    "distinct": "SELECT DISTINCT a, b FROM S WINDOW(RANGE 6)",
    "except": "SELECT a FROM S WINDOW(RANGE 6) EXCEPT SELECT a FROM R WINDOW(RANGE 4)",
    "except all": "SELECT a FROM S WINDOW(RANGE 6) EXCEPT ALL SELECT a FROM R WINDOW(RANGE 4)",
    "intersect all": "SELECT a FROM S WINDOW(RANGE 6) INTERSECT ALL SELECT a FROM R WINDOW(RANGE 4)",
    "top": "SELECT a, b, s FROM S WINDOW(RANGE 6) ORDER BY b DESC LIMIT 2",
    "rank": "SELECT a, b FROM (SELECT a, b, ROW_NUMBER() OVER (PARTITION BY a ORDER BY b DESC, s, t) AS r FROM S WINDOW(RANGE 6)) WHERE r <= 2",
    "rows": "SELECT a, b FROM S WINDOW(ROWS 3)",
    "rows by key": "SELECT a, SUM(b) FROM S WINDOW(PARTITION BY a ROWS 2) GROUP BY a",
    "rows by key, sliding": "SELECT a, b FROM S WINDOW(PARTITION BY a ROWS 3 SLIDE 2)",
    "rows, renewed": "SELECT a, b FROM S WINDOW(PARTITION BY a ROWS 3 SLIDE 4)",
    "slide": "SELECT a, COUNT(*) FROM S WINDOW(RANGE 6 SLIDE 4) GROUP BY a",
    "slide of counts": "SELECT a, n FROM (SELECT a, COUNT(*) AS n FROM S WINDOW(RANGE 5) GROUP BY a) WINDOW(RANGE 4 SLIDE 2)",
    "key projected away": "SELECT n FROM (SELECT a, COUNT(*) AS n FROM S WINDOW(RANGE 5) GROUP BY a) WINDOW(RANGE 4 SLIDE 2)",
    "sequence in time": "SELECT a, s FROM S WINDOW(FROM 2*i TO 2*i+3 EVERY 2)",
    "sequence in rows": "SELECT a, s FROM S WINDOW(PARTITION BY a FROM i+1 ROWS TO i+2 ROWS EVERY 1 ROWS)",
    "session": "SELECT a, COUNT(*) FROM S WINDOW(PARTITION BY a SESSION 3) GROUP BY a",
    "insertions": "SELECT * FROM ISTREAM(SELECT a, COUNT(*) AS n FROM S WINDOW(RANGE 6) GROUP BY a)",
    "window over insertions": "SELECT COUNT(*) AS n FROM ISTREAM(SELECT a FROM S WINDOW(RANGE 6)) WINDOW(RANGE 4)",
    "snapshots": "SELECT * FROM RSTREAM(SELECT a, COUNT(*) AS n FROM S WINDOW(RANGE 6) GROUP BY a) EVERY 3",
    "key stream": "SELECT a, b, s FROM K",
    "key streams joined": "SELECT K.a, K.b, N.c FROM K JOIN N ON K.a = N.a",
    "key stream grouped": "SELECT b, COUNT(*) FROM K GROUP BY b",
    "synchronized by ticks": "SELECT a, b FROM K SYNC BY Thirds",
    "synchronized by events": "SELECT a, b FROM K SYNC BY Events",
    "synchronized counts": "SELECT a, COUNT(*) FROM K SYNC BY Events GROUP BY a",
    "now": "SELECT a, b FROM K WHERE TS + 2 <= NOW AND NOW < TS + 7",
    "union": "SELECT a, COUNT(*) FROM (SELECT a FROM S WINDOW(RANGE 6) UNION ALL SELECT a FROM R WINDOW(RANGE 5)) GROUP BY a",
    "with a constant": "SELECT a, COUNT(*) FROM (SELECT a FROM S WINDOW(RANGE 6) UNION ALL SELECT 1) GROUP BY a",
    "table": "SELECT x.s, T.name FROM S WINDOW(RANGE 6) x LEFT JOIN T ON x.a = T.a",
    "validity": "SELECT x.s, P.d FROM S WINDOW(RANGE 6) x JOIN P ON x.b = P.b",
    "aggregates of aggregates": "SELECT n, COUNT(*) FROM (SELECT a, COUNT(*) AS n FROM S WINDOW(RANGE 6) GROUP BY a) GROUP BY n",
    "sub-query as a value": "SELECT a, b FROM S WINDOW(RANGE 6) p WHERE b >= (SELECT MAX(b) FROM S WINDOW(RANGE 6) q WHERE q.a = p.a)",
}


def dense(seed: int) -> Streams:
    """Streams in which most keys have several rows, NULLs among them."""
    return generate(random.Random(seed), INTEGERS, sizes=(24, 30))


def check(
    case: Case, plan: op.Node, counts: tuple[int, ...], dice: random.Random, storage: Storage | None = None
) -> str | None:
    """Some epochs with each number of partitions, one after the other."""
    run = Partitioned(
        plan, counts[0], {**case.catalog.functions, **case.catalog.aggregates}, case.streams.unit * case.width
    )
    if run.fixed:
        return "fixed"
    sources = frames(plan, case.streams.sources(case.width))
    ends = [t * case.streams.unit * case.width for t in sorted(dice.sample(range(-2, 22), 7))]
    moves = sorted(dice.sample(range(1, 8), len(counts) - 1))
    for i, upto in enumerate([*ends, MAX]):
        if i in moves:
            count = counts[1 + moves.index(i)]
            run.move(count) if storage is None else run.move_files(count, storage)
        run.epoch(sources, upto)
    found = difference(case.reference, case.plan, run.answer)
    return None if found is None else f"{counts} partitions, epochs {ends}, moved at {moves}: {found}"


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_goes_on_in_other_partitions(query: str, tmp_path: Path) -> None:
    for seed, counts in enumerate(COUNTS):
        case = Case(seed, dense(seed), QUERIES[query], views=VIEWS)
        found = check(case, case.optimized, counts, random.Random(seed), Storage(str(tmp_path / str(seed))))
        assert found is None, f"seed {seed}, {found}\n{described(case)}"


@pytest.mark.parametrize("block", range(4))
def test_generated_queries_go_on_in_other_partitions(block: int) -> None:
    size = CASES // 4
    fixed = refused = 0
    for seed in range(FIRST + block * size, FIRST + (block + 1) * size):
        case = Generator(seed).case(slack=0)
        if answerable(case):
            found = check(case, case.optimized, COUNTS[seed % len(COUNTS)], random.Random(seed))
            fixed += found == "fixed"
            assert found in (None, "fixed"), f"seed {seed}, {found}\n{described(case)}"
        else:
            refused += 1
    assert fixed + refused <= size // 4, f"{fixed} of {size} queries cannot move, {refused} have no answer"


@pytest.mark.parametrize("seed", range(3))
def test_what_a_dropped_query_needed_goes_on_to_come(seed: int) -> None:
    """Rows that came with its columns are taken back with them, and so meet in the state of the query that stays."""
    groups = "(SELECT a, COUNT(*) AS n, MAX(b) AS m FROM S WINDOW(RANGE 6) GROUP BY a)"
    met = "EXISTS (SELECT 1 FROM R WINDOW(RANGE 8) y WHERE y.a = x.n AND y.c < 3 + x.n)"
    staying, gone = (
        Case(seed, dense(seed), f"SELECT x.a, x.n{more} FROM {groups} x WHERE {met}")
        for more in ("", ", x.m")
    )
    plans = [planned({"q": staying.optimized}, {}), planned({"gone": gone.optimized}, {})]
    together = united(plans)
    run = Partitioned(staying.optimized, 3)
    run.change(together)
    sources = frames(staying.optimized, staying.streams.sources(1))
    for i, upto in enumerate([3, 7, 10, 14, 18, MAX]):
        if i == 2:
            run.change(united(plans[:1], disputed(plans, together)))
        run.epoch(sources, upto)
    found = difference(staying.reference, staying.plan, run.answer)
    assert found is None, found
