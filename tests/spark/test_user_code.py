"""User functions on Spark: their contract with every source, recorded and live, and what is told when they break it."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tidegate.errors import Diagnostic
from tidegate.session import Session, connect

ROWS = [(v % 4, v, 2 * v) for v in range(12)]
"""a, b, t"""
COLUMNS = "a BIGINT, b BIGINT, t BIGINT"
SOURCES = ("memory", "csv", "json", "parquet", "debezium", "given")


def half(x: int | None) -> int | None:
    return None if x is None else x // 2


def session(spark: SparkSession, folder: Path, source: str = "memory") -> Session:
    tg = connect(spark, state=str(folder / "state"), partitions=3)
    if source == "memory":
        tg.stream("S", ROWS, ordered_by="t", schema=COLUMNS)
    elif source == "given":
        tg.source("given", lambda: ROWS)
        tg.sql(f"CREATE STREAM S({COLUMNS}) SOURCE given() ORDERED BY t")
    else:
        (folder / "in").mkdir()
        table = pa.table(dict(zip("abt", map(list, zip(*ROWS, strict=True)), strict=True)))
        path = str(folder / "in" / f"rows.{source}")
        if source == "csv":
            pc.write_csv(table, path)
        elif source == "parquet":
            pq.write_table(table, path)
        else:
            rows = table.to_pylist()
            events = rows if source == "json" else [{"op": "c", "after": row} for row in rows]
            Path(path).write_text("\n".join(map(json.dumps, events)), encoding="utf-8")
        call = f"{source.replace('debezium', 'json')}('{folder / 'in'}')"
        more = "WITH (format = 'debezium')" if source == "debezium" else ""
        tg.sql(f"CREATE STREAM S({COLUMNS}) SOURCE {call} ORDERED BY t {more}")
    tg.function("half", half, "BIGINT", 1)
    tg.aggregate("elements", lambda e: 1, lambda c, e: c + 1, lambda c: c, "BIGINT")
    tg.aggregate(
        "listed", lambda e: (e,), lambda p, e: (*p, e), list, "ARRAY<BIGINT>", combine=lambda p, q: p + q
    )
    return tg


def at(t: int, width: int) -> list[tuple[int, int]]:
    return [(a, b) for a, b, ts in ROWS if ts <= t < ts + width]


def grouped(t: int) -> Counter[Any]:
    found: dict[int, list[int]] = {}
    for a, b in at(t, 9):
        found.setdefault(a // 2, []).append(b)
    return Counter((k, len(v), len(v), tuple(sorted(v))) for k, v in found.items())


def joined(t: int) -> Counter[Any]:
    return Counter((x, y) for _, x in at(t, 5) for a, y in at(t, 3) if a == x // 2)


QUERIES = {
    "grouped": (
        "SELECT half(a) AS k, COUNT(*) AS n, elements(b) AS m, listed(b) AS l FROM S WINDOW(RANGE 9) GROUP BY half(a)",
        grouped,
    ),
    "joined": (
        "SELECT x.b AS x, y.b AS y FROM S WINDOW(RANGE 5) x JOIN S WINDOW(RANGE 3) y ON half(x.b) = y.a",
        joined,
    ),
    "apart": (
        "SELECT a FROM S WINDOW(RANGE 5) x WHERE NOT EXISTS"
        " (SELECT 1 FROM S WINDOW(RANGE 3) y WHERE half(y.b) = half(x.a) AND y.b IN (1, 2, 3))",
        lambda t: Counter(
            (a,) for a, _ in at(t, 5) if not any(b // 2 == a // 2 and b in (1, 2, 3) for _, b in at(t, 3))
        ),
    ),
    "last of each": (
        "SELECT k, b FROM (SELECT half(a) AS k, b FROM S) WINDOW(PARTITION BY k ROWS 1)",
        lambda t: Counter({a // 2: (a // 2, b) for a, b, ts in ROWS if ts <= t}.values()),
    ),
}


def bag(frame: Any) -> Counter[Any]:
    return Counter(tuple(tuple(v) if isinstance(v, list) else v for v in r) for r in frame.collect())


@pytest.mark.parametrize("source", SOURCES)
def test_user_functions_are_keys_with_every_source(spark: SparkSession, tmp_path: Path, source: str) -> None:
    tg = session(spark, tmp_path, source)
    asked = {name: tg.query(text) for name, (text, _) in QUERIES.items()}
    results = tg.engine.run_all(
        {name: q.plan for name, q in asked.items()}, asked["grouped"].definitions,
        {n: f for q in asked.values() for n, f in q.functions.items()}, tg.data,
    )  # fmt: skip
    for name, (_, expected) in QUERIES.items():
        for t in (0, 5, 12, 23):
            assert bag(results[name].at(t)) == expected(t), (name, t)


@pytest.mark.parametrize("source", ["memory", "csv"])
def test_and_live(spark: SparkSession, tmp_path: Path, source: str) -> None:
    tg = session(spark, tmp_path, source)
    running = {name: tg.query(text).start(name, begin=False) for name, (text, _) in QUERIES.items()}
    running["grouped"].finish()
    for name, (_, expected) in QUERIES.items():
        for t in (5, 12, 23):
            assert bag(running[name].at(t)) == expected(t), (name, t)


def test_the_contract_of_aggregates_is_verified(spark: SparkSession, tmp_path: Path) -> None:
    tg = session(spark, tmp_path)
    assert tg.query(QUERIES["grouped"][0]).verify()
    tg.aggregate(
        "spread", lambda a, b: abs(a - b), lambda p, a, b: max(p, abs(a - b)), float, "DOUBLE", arity=2
    )
    query = tg.query("SELECT spread(a, b) AS s FROM S WINDOW(RANGE 5)")
    assert [r.s for r in query.at(22).collect()] == [8.0]
    assert query.verify()


WRONG: dict[str, tuple[Any, str, str]] = {
    "text": (
        lambda x: "abc" if x == 2 else x,
        "USER_FUNCTION_RESULT",
        "odd(2) returned 'abc', which is no INT",
    ),
    "range": (lambda x: 2**40, "USER_FUNCTION_RESULT", "returned 1099511627776, which is no INT"),
    "half": (lambda x: x / 2, "USER_FUNCTION_RESULT", "which is no INT"),
    "raises": (lambda x: {}[x], "USER_FUNCTION_FAILED", "raised KeyError"),
    "leaves": (lambda x: sys.exit(f"at {x}"), "USER_FUNCTION_FAILED", "raised SystemExit: at "),
    "ends": (lambda x: os._exit(3), "WORKER_DIED", "a worker's process ended"),
}


def check(found: Diagnostic, condition: str, message: str, text: str) -> None:
    assert found.condition == condition
    assert message in found.message
    assert found.position is not None
    assert text[found.position.start : found.position.end].startswith("odd(b")
    assert "^" in str(found)
    if condition == "WORKER_DIED":
        assert "odd" in (found.help or "")


@pytest.mark.parametrize("wrong", WRONG)
def test_what_goes_wrong_is_named_with_its_place(spark: SparkSession, tmp_path: Path, wrong: str) -> None:
    tg = session(spark, tmp_path)
    function, condition, message = WRONG[wrong]
    tg.function("odd", function, "INT")
    # Of a process that has ended nobody can tell in which of two functions.
    other = "half(b)" if wrong != "ends" else "b"
    text = f"SELECT a,\n  1 + odd(b) AS c FROM S WHERE {other} >= 0"
    with pytest.raises(Diagnostic) as raised:
        tg.query(text).run()
    check(raised.value, condition, message, text)


def test_an_aggregate_that_goes_wrong_is_named_with_its_place(spark: SparkSession, tmp_path: Path) -> None:
    tg = session(spark, tmp_path)
    tg.aggregate("odd", lambda e: 1, lambda c, e: c + 1, lambda c: c / 2, "INT")
    text = "SELECT a, odd(b) AS c FROM S GROUP BY a"
    with pytest.raises(Diagnostic) as raised:
        tg.query(text).run()
    check(raised.value, "USER_FUNCTION_RESULT", "odd.evaluate(1) returned 0.5, which is no INT", text)


def test_what_cannot_be_sent_is_named(spark: SparkSession, tmp_path: Path) -> None:
    tg = session(spark, tmp_path)
    lock = threading.Lock()
    tg.function("odd", lambda x: x if lock.locked() else -x, "INT")
    assert bag(tg.query("SELECT half(b) AS c FROM S WHERE b = 5").at(10)) == Counter([(2,)])
    text = "SELECT half(b) AS c, odd(b) AS d FROM S"
    for run in (lambda q: q.run(), lambda q: q.start(begin=False)):
        with pytest.raises(Diagnostic) as raised:
            run(tg.query(text))
        check(raised.value, "USER_FUNCTION_NOT_SENT", "odd cannot be sent to the workers: TypeError", text)
    assert tg.queries() == []


@pytest.mark.parametrize("wrong", ["text", "leaves", "ends"])
def test_live_failures_show_text_and_caret(spark: SparkSession, tmp_path: Path, wrong: str) -> None:
    tg = session(spark, tmp_path)
    function, condition, message = WRONG[wrong]
    tg.function("odd", function, "INT")
    called = "half(b)" if wrong != "ends" else "b"
    other = tg.query(f"SELECT {called} AS c FROM S").start("other", epoch=0.1, begin=False)
    text = "SELECT a,\n  1 + odd(b) AS c FROM S"
    query = tg.query(text).start("failing")
    query.run.begin()
    for failing in (query, other):
        with pytest.raises(Diagnostic) as raised:
            assert failing.wait(120)
        check(raised.value, condition, message, text)
    failure = query.status()["failure"]
    assert f"error[{condition}] at line 2, column 7: " in failure
    assert message in failure
    assert "    1 + odd(b) AS c FROM S\n        ^^^^^" in failure
    assert not query.status()["running"]
    tg.close()


def test_a_place_in_a_view_is_shown_in_the_views_text(spark: SparkSession, tmp_path: Path) -> None:
    tg = session(spark, tmp_path)
    tg.function("odd", WRONG["text"][0], "INT")
    definition = "CREATE VIEW V AS SELECT a, 7 + odd(b) AS c FROM S"
    tg.sql(definition)
    text = "SELECT c + 1 AS d FROM V"
    with pytest.raises(Diagnostic) as raised:
        tg.query(text).run()
    found = raised.value
    assert found.condition == "USER_FUNCTION_RESULT"
    assert found.position is not None
    assert text[found.position.start : found.position.end] == "V"
