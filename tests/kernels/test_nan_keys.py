"""Floating-point keys in every operator that looks rows up: NaN equals itself and -0.0 equals 0.0, at any depth, in any epochs and partitions."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.fuzz.partition_runs import Partitioned
from tests.fuzz.players import frames, play
from tidegate.algebra import operators as op
from tidegate.language.binder import bind
from tidegate.language.catalog import Catalog, SourceCall, StreamDefinition
from tidegate.language.dialect import parse
from tidegate.language.statements import define
from tidegate.language.syntax import CreateView
from tidegate.optimizer.driver import optimize
from tidegate.reference.snapshots import Arrivals, PhysicalRow, Reference, snapshot
from tidegate.time import MAX
from tidegate.types import BIGINT, DOUBLE, FLOAT, INT, NAN, Field, Type, Value, array, normalize

STRUCT = Type("STRUCT", (("x", DOUBLE), ("y", INT)))
TYPES = (FLOAT, DOUBLE, STRUCT, array(DOUBLE), array(STRUCT))

QUERIES = {
    "distinct": "SELECT DISTINCT k FROM S WINDOW(RANGE 6)",
    "group": "SELECT k, COUNT(*), SUM(v) FROM S WINDOW(RANGE 6) GROUP BY k",
    "group of two": "SELECT k, v, COUNT(*) FROM S WINDOW(RANGE 6) GROUP BY k, v",
    "join": "SELECT x.k, x.v, y.v FROM S WINDOW(RANGE 6) x JOIN R WINDOW(RANGE 4) y ON x.k = y.k",
    "left": "SELECT x.k, x.v, y.v FROM S WINDOW(RANGE 6) x LEFT JOIN R WINDOW(RANGE 4) y ON x.k = y.k",
    "full": "SELECT x.k, y.k FROM S WINDOW(RANGE 6) x FULL JOIN R WINDOW(RANGE 4) y ON x.k = y.k AND x.v < y.v",
    "in": "SELECT k, v FROM S WINDOW(RANGE 6) WHERE k IN (SELECT k FROM R WINDOW(RANGE 8))",
    "not in": "SELECT k, v FROM S WINDOW(RANGE 6) WHERE k NOT IN (SELECT k FROM R WINDOW(RANGE 8))",
    "union": "SELECT k FROM S WINDOW(RANGE 6) UNION SELECT k FROM R WINDOW(RANGE 4)",
    "except": "SELECT k FROM S WINDOW(RANGE 6) EXCEPT SELECT k FROM R WINDOW(RANGE 4)",
    "except all": "SELECT k FROM S WINDOW(RANGE 6) EXCEPT ALL SELECT k FROM R WINDOW(RANGE 4)",
    "intersect": "SELECT k FROM S WINDOW(RANGE 6) INTERSECT SELECT k FROM R WINDOW(RANGE 4)",
    "intersect all": "SELECT k FROM S WINDOW(RANGE 6) INTERSECT ALL SELECT k FROM R WINDOW(RANGE 4)",
    "rank": "SELECT k, v FROM (SELECT k, v, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC, t) AS r FROM S WINDOW(RANGE 6)) WHERE r <= 2",
    "top": "SELECT k, v FROM S WINDOW(RANGE 6) ORDER BY k DESC LIMIT 2",
    "extremes": "SELECT MIN(k), MAX(k), COUNT(DISTINCT k) FROM S WINDOW(RANGE 6)",
    "rows": "SELECT k, v FROM S WINDOW(PARTITION BY k ROWS 2)",
    "rows, sliding": "SELECT k, v FROM S WINDOW(PARTITION BY k ROWS 3 SLIDE 2)",
    "rows, renewed": "SELECT k, v FROM S WINDOW(PARTITION BY k ROWS 2 SLIDE 3 TICKS)",
    "range by rows": "SELECT k, v FROM S WINDOW(PARTITION BY k RANGE 4 SLIDE 2 ROWS)",
    "sequence in rows": "SELECT k, v FROM S WINDOW(PARTITION BY k FROM i+1 ROWS TO i+2 ROWS EVERY 1 ROWS)",
    "sequence by rows": "SELECT k, v FROM S WINDOW(PARTITION BY k FROM 4*i TO 4*i+30 EVERY 1 ROWS)",
    "sequence of rows": "SELECT k, v FROM S WINDOW(PARTITION BY k FROM i+1 ROWS TO i+1 ROWS EVERY 30)",
    "session": "SELECT k, v FROM S WINDOW(PARTITION BY k SESSION 3)",
    "window over a view": "SELECT k, n FROM (SELECT k, COUNT(*) AS n FROM S WINDOW(RANGE 3) GROUP BY k) WINDOW(PARTITION BY k ROWS 2)",
    "key stream": "SELECT k, v FROM K",
    "key stream since": "SELECT k, v, TS FROM K",
    "key streams joined": "SELECT K.k, K.v, L.v FROM K JOIN L ON K.k = L.k",
    "insertions": "SELECT * FROM ISTREAM(SELECT k, COUNT(*) AS n FROM S WINDOW(RANGE 6) GROUP BY k)",
    "deletions": "SELECT * FROM DSTREAM(SELECT DISTINCT k FROM S WINDOW(RANGE 6))",
    "sub-query as a value": "SELECT k, v FROM S WINDOW(RANGE 6) x WHERE v >= (SELECT MAX(v) FROM S WINDOW(RANGE 6) y WHERE y.k = x.k)",
}  # fmt: skip

KEYS = "CREATE STREAM K OVER S KEY k; CREATE STREAM L OVER R KEY k;"


def catalog(type_: Type) -> Catalog:
    fields = (Field("k", type_), Field("v", INT), Field("t", BIGINT, False))
    known = Catalog()
    for name in ("S", "R"):
        known = known.with_definition(
            StreamDefinition(name, fields, SourceCall("memory", (name,)), ordered_by="t")
        )
    for statement in parse(KEYS):
        assert isinstance(statement, CreateView)
        known = define(statement, known, KEYS)
    return known


def key(number: float | None, type_: Type) -> Value:
    """A key that holds a number somewhere."""
    if number is None or type_ in (FLOAT, DOUBLE):
        return number
    if type_ == STRUCT:
        return (number, 1)
    return (key(number, type_.params[0]),)


def sources(type_: Type, rows: int, seed: int) -> dict[str, Arrivals]:
    """Mostly NaN: single ones of it are what libraries forget."""
    dice = random.Random(seed)
    numbers = (NAN, NAN, NAN, 0.0, -0.0, 1.0, None)
    found = {}
    for name in ("S", "R"):
        instants = sorted(dice.randrange(12) for _ in range(rows))
        picked = [NAN if rows == 1 else dice.choice(numbers) for _ in instants]
        # What arrives may be either zero; the reference is given what both are.
        found[name] = Arrivals(
            [((key(k, type_), dice.randrange(3), t), t) for k, t in zip(picked, instants, strict=True)]
        )
    return found


def planned(query: str, type_: Type) -> op.Node:
    text = QUERIES[query]
    return optimize(bind(parse(text)[0], catalog(type_), text).plan)[0]


def difference(given: dict[str, Arrivals], plan: op.Node, answer: list[PhysicalRow]) -> str | None:
    """The first instant at which an answer is not the reference's."""
    judge = Reference({n: Arrivals([(normalize(e), t) for e, t in a.rows]) for n, a in given.items()})
    points = {p for _, ts, te, _ in answer for p in (ts, te)} | {*judge.change_points(plan)}
    for t in sorted(points - {MAX}):
        ours, theirs = snapshot(answer, t), judge.snapshot(plan, t)
        if ours != theirs:
            return f"at {t}: kernels {ours}, reference {theirs}"
    return None


@pytest.mark.parametrize("query", QUERIES)
def test_keys_in_any_epochs(query: str) -> None:
    for seed, (type_, rows) in enumerate((t, n) for t in TYPES for n in (1, 7)):
        given = sources(type_, rows, seed)
        plan = planned(query, type_)
        for epochs, from_log in (([MAX], False), ([*range(14), MAX], False), ([3, 7, MAX], True)):
            found = difference(
                given,
                plan,
                play(plan, frames(plan, given), epochs, restarts=range(len(epochs)) if from_log else ()),
            )
            assert found is None, f"{type_}, epochs {epochs}, from log {from_log}: {found}\n{given}"


@pytest.mark.parametrize("query", QUERIES)
def test_keys_in_any_partitions(query: str) -> None:
    for seed, (type_, rows) in enumerate((t, n) for t in TYPES for n in (1, 7)):
        given = sources(type_, rows, seed)
        plan = planned(query, type_)
        for partitions in (1, 5):
            run = Partitioned(plan, partitions)
            for i, upto in enumerate((4, 8, MAX)):
                if i == 1 and not run.fixed:
                    run.move(3)
                run.epoch(frames(plan, given), upto)
            found = difference(given, plan, run.answer)
            assert found is None, f"{type_}, {partitions} partitions: {found}\n{given}"


def test_nan_and_zero_that_were_computed_are_the_same_keys() -> None:
    infinity = float("inf")
    rows = [(infinity, 1, 1), (-infinity, 1, 2), (NAN, 2, 3), (-0.0, 3, 4), (0.0, 4, 5)]
    given = {"S": Arrivals([((k, v, t), t) for k, v, t in rows]), "R": Arrivals([])}
    text = "SELECT f, COUNT(*) FROM (SELECT v, SUM(k) * -1 AS f FROM S WINDOW(RANGE 9) GROUP BY v) GROUP BY f"
    plan = bind(parse(text)[0], catalog(DOUBLE), text).plan
    answer = play(plan, frames(plan, given), [MAX])
    assert snapshot(answer, 5) == {(NAN, 2): 1, (0.0, 2): 1}
    assert difference(given, plan, answer) is None


def test_every_join_goes_through_the_one_that_knows_nan() -> None:
    root = Path(__file__).parents[2] / "tidegate"
    strays = [
        f"{path.name}:{number}"
        for path in root.rglob("*.py")
        if path.name != "rows.py"
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if "nulls_equal=True" in line and "is_in(" not in line
    ]
    assert not strays, "use equijoin or looked_up of kernels/rows.py"
