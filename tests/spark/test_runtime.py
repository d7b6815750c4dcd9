"""Plans on Spark: recorded and live runs answer what the reference says, whatever the epochs, partitions and restarts."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlglot
from pyspark.sql import SparkSession
from sqlglot import exp

from tidegate.algebra.operators import (
    Aggregate,
    Aggregation,
    Distinct,
    Except,
    Filter,
    Istream,
    Join,
    Node,
    OneRow,
    Project,
    Scan,
    SortKey,
    TopK,
    UnionAll,
    Window,
)
from tidegate.algebra.windows import RowWindow, TimeWindow
from tidegate.errors import Diagnostic
from tidegate.language.catalog import SourceCall, StreamDefinition
from tidegate.reference.snapshots import Arrivals, Reference, Validity, snapshot
from tidegate.runtime.engine import Engine
from tidegate.runtime.results import Result
from tidegate.time import MAX, MIN
from tidegate.types import BIGINT, DOUBLE, INT, STRING, Field, normalize


def sql(text: str) -> exp.Expression:
    return sqlglot.parse_one(text, dialect="spark")


def memory(name: str, *columns: Field, **more: Any) -> StreamDefinition:
    return StreamDefinition(name, columns, SourceCall("memory", (name,)), **more)


S = memory("S", Field("k", INT), Field("v", DOUBLE), Field("t", BIGINT), ordered_by="t", slack=3)
R = memory("R", Field("k", INT), Field("w", STRING), Field("t", BIGINT), ordered_by="t", slack=3)
P = memory("P", Field("k", INT), Field("a", BIGINT), Field("b", BIGINT), valid=("a", "b"))
T = memory("T", Field("k", INT), Field("name", STRING), table=True)
DEFINITIONS = {d.name: d for d in (S, R, P, T)}

COUNT = Aggregation("COUNT", (), BIGINT, "n", nullable=False)


def recent(node: Node, size: int = 10) -> Window:
    return Window(node, TimeWindow(size))


def total(column: int) -> Aggregation:
    return Aggregation("SUM", (column,), DOUBLE, "s")


def plans() -> dict[str, Node]:
    s, r, p, t = S.scan, R.scan, P.scan, T.scan
    counts = Aggregate(recent(s), (0,), (COUNT, total(1)))
    most = Aggregate(counts, (), (Aggregation("MAX", (1,), BIGINT, "m"),))
    named = (Field("k", INT), Field("x", DOUBLE))
    return {
        "raw": Filter(s, sql("c1 > 2")),
        "mapped": Project(s, (sql("c0"), sql("c1 * 2 + c2")), named),
        "grouped": counts,
        "join": Join(recent(s), recent(r, 7), "inner", sql("c0 = c3")),
        "outer": Join(recent(s, 4), recent(r, 5), "full", sql("c0 = c3")),
        "anti": Join(recent(s), recent(r), "anti", sql("c0 = c3 AND c1 > 3")),
        "self": Join(recent(s, 3), recent(s, 4), "inner", sql("c0 = c3 AND c1 < c4")),
        "other key": Aggregate(Join(recent(s), recent(r), "inner", sql("c0 = c3")), (4,), (COUNT,)),
        "distinct": Distinct(Project(recent(s), (sql("c0"),), (Field("k", INT),))),
        "except": Except(
            Project(recent(s), (sql("c0"),), (Field("k", INT),)),
            Project(recent(r), (sql("c0"),), (Field("k", INT),)),
        ),
        "rows": Window(s, RowWindow(3)),
        "rows per key": Aggregate(Window(s, RowWindow(2), (0,)), (0,), (total(1),)),
        "top": TopK(counts, (SortKey(1, True), SortKey(2, True)), 2),
        "most": Join(counts, most, "inner", sql("c1 >= c3")),
        "validity": Join(recent(s), p, "inner", sql("c0 = c3")),
        "table": Join(recent(s), t, "left", sql("c0 = c3")),
        "united": UnionAll(
            Project(counts, (sql("c0"), sql("c1")), (Field("k", INT), Field("n", BIGINT))),
            Aggregate(recent(r), (0,), (COUNT,)),
        ),
        "constant": Join(
            recent(s), Project(OneRow(), (sql("5"),), (Field("five", INT),)), "inner", sql("c1 < c3")
        ),
        "insertions": Istream(counts),
    }


def make_rows(seed: int, count: int = 40) -> dict[str, list[tuple[Any, ...]]]:
    """Rows nearly in order of time, with NULLs, ties and duplicates."""
    choose = random.Random(seed)
    times = sorted(choose.randrange(60) for _ in range(count))
    rows: dict[str, list[tuple[Any, ...]]] = {
        "S": [],
        "R": [],
        "P": [],
        "T": [(1, "one"), (2, "two"), (None, "none")],
    }
    for t in times:
        k = choose.choice([1, 2, 3, None])
        if choose.random() < 0.55:
            rows["S"].append((k, choose.choice([1.0, 2.5, 4.0, -0.0, None]), t))
        else:
            rows["R"].append((k, choose.choice(["x", "y", None]), t))
    for _ in range(6):
        start = choose.randrange(50)
        rows["P"].append((choose.choice([1, 2]), start, choose.choice([start + 5, start + 20, None])))
    rows["P"].sort(key=lambda r: r[1])
    return rows


def judge(rows: dict[str, list[tuple[Any, ...]]]) -> Reference:
    def raw(name: str) -> Arrivals:
        return Arrivals([(tuple(normalize(v) for v in r), r[-1]) for r in rows[name]])

    lasting = [((k, a), a, MAX if b is None else b, 1) for k, a, b in rows["P"]]
    table = [(r, MIN, MAX, 1) for r in rows["T"]]
    return Reference({"S": raw("S"), "R": raw("R"), "P": Validity(lasting), "T": Validity(table)})


def assert_equals(result: Result, plan: Node, reference: Reference, upto: int = MAX) -> None:
    """The signed rows give the reference's snapshot at every change point before `upto`."""
    rows = [(tuple(map(normalize, e)), ts, te, n) for *e, ts, te, n in result.signed().collect()]
    instants = [t for t in reference.change_points(plan) if t < upto]
    assert instants or upto != MAX
    for t in instants:
        expected = reference.snapshot(plan, t)
        found = snapshot(rows, t)
        assert found == expected, (t, found - expected, expected - found)


def assert_readable(result: Result, plan: Node, reference: Reference) -> None:
    """What people read says the same: rows with their validity, changes added up, and snapshots."""
    intervals = [tuple(r) for r in result.intervals().collect()]
    changes = [tuple(r) for r in result.changes().collect()]
    points = reference.change_points(plan)
    for t in points:
        expected = reference.snapshot(plan, t)
        valid: Counter[tuple[Any, ...]] = Counter()
        for *row, a, b in intervals:
            if (a is None or a <= t) and (b is None or t < b):
                valid[tuple(map(normalize, row))] += 1
        assert valid == expected, (t, valid - expected, expected - valid)
        summed: Counter[tuple[Any, ...]] = Counter()
        for op, *row, at in changes:
            if at is None or at <= t:
                summed[tuple(map(normalize, row))] += 1 if op == "+" else -1
        assert +summed == expected
        assert not -summed
    middle = points[len(points) // 2]
    found = Counter(tuple(map(normalize, r)) for r in result.at(middle).collect())
    assert found == reference.snapshot(plan, middle)


@pytest.fixture(scope="module")
def engine(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    return Engine(spark, str(tmp_path_factory.mktemp("runtime")))


ROWS = make_rows(7)


@pytest.mark.parametrize(("partitions", "boundaries"), [(1, []), (5, [13, 14, 40])])
def test_recorded_runs_answer_what_the_reference_says(
    engine: Engine, partitions: int, boundaries: list[int]
) -> None:
    reference = judge(ROWS)
    results = engine.run_all(plans(), DEFINITIONS, {}, ROWS, partitions=partitions, boundaries=boundaries)
    for name, plan in plans().items():
        assert_equals(results[name], plan, reference)
    for name in ("grouped", "join", "table"):
        assert_readable(results[name], plans()[name], reference)


def feed(
    rows: dict[str, list[tuple[Any, ...]]], seed: int, step: int
) -> Iterator[dict[str, list[tuple[Any, ...]]]]:
    """All rows of the streams in small batches, moved about within the slack."""
    choose = random.Random(seed)
    every = [(r[1] if n == "P" else r[-1], n, r) for n in ("S", "R", "P") for r in rows[n]]
    every.sort(key=lambda x: x[0] + (choose.random() * 2 if x[1] != "P" else 0))
    for i in range(0, len(every), step):
        batch: dict[str, list[tuple[Any, ...]]] = {}
        for _, name, row in every[i : i + step]:
            batch.setdefault(name, []).append(row)
        yield batch


ORDERED = ("rows", "rows per key")


def test_live_epochs_answer_what_the_reference_says(engine: Engine) -> None:
    chosen = {n: p for n, p in plans().items() if n not in ORDERED}
    run = engine.start(chosen, DEFINITIONS, {}, {"T": ROWS["T"]}, graph="epochs", begin=False, partitions=3)
    for batch in feed(ROWS, 1, 9):
        run.graph.advance(batch)
    reached = run.graph.ledger.latest.upto
    reference = judge(ROWS)
    assert MIN < reached < MAX
    for name in ("grouped", "outer", "top"):
        assert_equals(run.result(name), chosen[name], reference, reached)
    with pytest.raises(Diagnostic, match="not final"):
        run.result("join").at(reached)
    run.graph.finish()
    for name, plan in chosen.items():
        assert_equals(run.result(name), plan, reference)
    assert_readable(run.result("grouped"), chosen["grouped"], reference)
    assert all(not s["quarantine"] for s in run.status()["sources"].values())


def test_one_row_per_epoch_and_a_restart_after_each_third(engine: Engine) -> None:
    rows = make_rows(11, 18)
    plan = plans()["join"]
    queries = {"join": plan, "rows": plans()["rows"], "grouped": plans()["grouped"]}

    def begin() -> Any:
        return engine.start(queries, DEFINITIONS, graph="restarts", begin=False, partitions=2)

    run = begin()
    every = sorted([(r[-1], n, r) for n in ("S", "R") for r in rows[n]], key=lambda x: x[0])
    for i, (_, name, row) in enumerate(every):
        if i % 3 == 2:
            run.stop()
            run = begin()
        run.graph.advance({name: [row]})
    run.graph.finish()
    reference = judge(rows)
    for name, each in queries.items():
        assert_equals(run.result(name), each, reference)


def test_late_and_unreadable_rows_are_counted_and_kept(engine: Engine, spark: SparkSession) -> None:
    run = engine.start({"q": S.scan}, DEFINITIONS, graph="late", begin=False)
    run.graph.advance({"S": [(1, 1.0, 50)]})
    run.graph.advance({"S": [(1, 2.0, 60), (2, 2.0, None)]})
    # The watermark in force is 60 - 3: a row at 57 is in time, one at 56 is not.
    run.graph.advance({"S": [(1, 3.0, 56), (1, 4.0, 57)]})
    run.graph.advance({"S": [(3, 5.0, 55)]})
    run.graph.finish()
    found = {tuple(r)[:2] for r in run.result("q").intervals().collect()}
    assert found == {(1, 1.0), (1, 2.0), (1, 4.0)}
    status = run.status()["sources"]["S"]
    assert status["quarantine"] == {"the time is NULL": 1, "later than promised": 2}
    kept = spark.read.parquet(run.graph.storage.path("quarantine/S")).collect()
    assert sorted(r.reason for r in kept) == ["later than promised"] * 2 + ["the time is NULL"]
    assert any('"v":3.0' in r.raw for r in kept)


def test_a_query_added_later_starts_after_the_rows_seen(engine: Engine) -> None:
    first, second = plans()["grouped"], plans()["join"]
    run = engine.start({"first": first}, DEFINITIONS, graph="added", begin=False)
    run.graph.advance({"S": [(1, 1.0, 10), (1, 2.0, 20)]})
    run.graph.advance({"S": [(1, 2.0, 30)]})
    added = run.add("second", second)
    assert added.since == 31  # the row at 30 has come already, and the new query will not see it
    run.graph.advance({"S": [(1, 7.0, 41)], "R": [(1, "x", 42)]})
    run.drop("first")
    assert [q.name for q in run.graph.queries()] == ["second"]
    run.graph.advance({"S": [(2, 7.0, 43)], "R": [(2, "y", 44)]})
    run.graph.finish()
    found = {tuple(r) for r in run.result("second").intervals().collect()}
    assert found == {(1, 7.0, 41, 1, "x", 42, 42, 49), (2, 7.0, 43, 2, "y", 44, 44, 51)}


def test_silent_sources_do_not_hold_the_others_back(spark: SparkSession, tmp_path: Path) -> None:
    from dataclasses import replace

    from tidegate.runtime.graph import LiveGraph
    from tidegate.storage import Storage

    now = [0.0]
    idle = {"S": replace(S, idle=5_000_000), "R": replace(R, idle=5_000_000)}
    graph = LiveGraph(spark, Storage(str(tmp_path)), idle, clock=lambda: now[0])
    graph.add("q", plans()["join"])
    assert graph.advance({"S": [(1, 1.0, 10)], "R": [(1, "a", 4)]}).upto == 1
    now[0] = 6.0
    assert graph.advance({"S": [(1, 1.0, 20)]}).upto == 17
    now[0] = 20.0
    assert graph.advance({}).upto == 21


def test_another_query_under_the_same_name_is_refused(engine: Engine) -> None:
    run = engine.start({"q": plans()["join"]}, DEFINITIONS, graph="same", begin=False)
    run.graph.advance({})
    run.stop()
    with pytest.raises(Diagnostic, match="another query"):
        engine.start({"q": plans()["top"]}, DEFINITIONS, graph="same", begin=False)


def test_one_exchange_serves_operators_that_agree_on_the_key(engine: Engine) -> None:
    text = engine.explain("q", plans()["grouped"])
    assert text.count("exchanged by k") == 1
    agreeing = Aggregate(Join(recent(S.scan), recent(R.scan), "inner", sql("c0 = c3")), (0, 4), (COUNT,))
    assert engine.explain("q", agreeing).count("wave ") == 1
    assert engine.explain("q", plans()["other key"]).count("wave ") == 2
    assert "sent to every partition" in engine.explain("q", plans()["most"])
    theta = Join(recent(S.scan), recent(R.scan), "full", sql("c1 < c5"))
    assert "all in one partition (there is no key" in engine.explain("q", theta)


def test_answers_do_not_depend_on_how_scans_are_shared(engine: Engine) -> None:
    both: Callable[[Node], Node] = lambda s: UnionAll(s, s)  # noqa: E731 - a name for the shape
    plan = both(Scan("S", S.scan.fields))
    assert_equals(engine.run("q", plan, DEFINITIONS, {}, ROWS), plan, judge(ROWS))
