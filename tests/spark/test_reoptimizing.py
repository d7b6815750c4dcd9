"""Streams flip: the side of a join that was selective is not any more. With `SET reoptimize = 'on'` a running query goes on by another plan, and nobody who reads its answer notices."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.test_joining import snapshots
from tests.spark.test_migration import left_on_disk
from tidegate.runtime import reoptimizing
from tidegate.session import Session, connect

SCHEMAS = {"A": "k INT, v INT, t BIGINT", "B": "k INT, j INT, t BIGINT", "C": "j INT, w INT, t BIGINT"}
TEXT = "SELECT a.v, b.k, c.w FROM A WINDOW(RANGE 6) a JOIN B WINDOW(RANGE 6) b ON a.k = b.k JOIN C WINDOW(RANGE 6) c ON b.j = c.j"
FLIP, END = 12, 40


def come(t: int) -> dict[str, list[tuple[int, ...]]]:
    """The rows of an instant: first A and B hardly meet and C is full, then A and B meet all the time and C hardly says anything."""
    if t < FLIP:
        return {"A": [(1000 + t, t, t)], "B": [(1000 + t, i, t) for i in range(2)], "C": [(i % 40, i, t) for i in range(40)]}  # fmt: skip
    few = [(0, t, t)] if t % 12 == 0 else []
    return {"A": [(i % 2, i, t) for i in range(200)], "B": [(i % 2, i, t) for i in range(120)], "C": few}


def opened(spark: SparkSession, rows: dict[str, list[Any]], place: Path | None = None) -> Session:
    session = connect(spark=spark, state=None if place is None else str(place), partitions=1)
    for name, schema in SCHEMAS.items():
        session.stream(name, rows.get(name, []), schema=schema, ordered_by="t")
    return session


def test_a_plan_is_replaced_when_streams_are_not_as_expected(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reoptimizing, "EVERY", 4)
    session = opened(spark, {}, tmp_path)
    session.sql("SET reoptimize = 'on'")
    live = session.query(TEXT).start("q", begin=False)
    graph = live.run.graph
    graph.epochs.asked = "driver"
    every: dict[str, list[Any]] = {name: [] for name in SCHEMAS}
    plans = {}
    for t in range(END):
        for name, rows in come(t).items():
            every[name] += rows
            if rows:
                session.push(name, rows)
            graph.promise(name, t + 1)
        live.run.drain()
        plans[t] = graph.query("q").known.answer
    assert len({plans[t] for t in range(FLIP)}) == 1, "nothing is replaced while streams are as they were"
    replaced = graph.reoptimizer.replaced
    assert replaced, "a plan was replaced"
    assert plans[END - 1] != plans[FLIP - 1]
    turn = graph.query("q").known.before[0]
    assert turn.same
    assert turn.until > FLIP
    told = session.sql("SELECT action, query, epoch, valid_from, reason FROM tidegate.decisions").collect()
    assert [(r.action, r.query, r.epoch, r.valid_from) for r in told] == [
        ("replaced", "q", r.epoch, r.until) for r in replaced
    ]
    assert all("instead of" in r.reason for r in told)
    assert not graph.query("q").leaving
    assert not left_on_disk(graph)
    live.run.finish()
    expected = snapshots(opened(spark, every).query(TEXT).run(), range(END + 8))
    assert sum(map(len, expected)) > 100
    assert snapshots(live, range(END + 8)) == expected
    assert Counter(tuple(r) for r in live.at(turn.until).collect()) == expected[turn.until]
    session.close()
