"""Plans chosen by cost: recorded runs choose freely, a live query keeps for ever the plan that it began with."""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tidegate
from tidegate.algebra import operators as op
from tidegate.optimizer import hot_keys

QUERY = "SELECT A.y, C.w FROM A WINDOW(RANGE 300), B WINDOW(RANGE 300), C WINDOW(RANGE 300) WHERE A.x = B.x AND B.z = C.z"


def rows(seed: int, count: int, step: int, **values: int) -> list[dict[str, int]]:
    dice = random.Random(seed)
    return [{**{c: dice.randrange(d) for c, d in values.items()}, "t": i * step} for i in range(count)]


def session(spark: SparkSession, state: Path | None, rare: str) -> tidegate.Session:
    """Three streams, of which one has few rows."""
    tg = tidegate.connect(spark=spark, state=None if state is None else str(state))
    for name, columns in (("A", {"x": 20, "y": 20}), ("B", {"x": 20, "z": 20}), ("C", {"z": 20, "w": 5})):
        count, step = (10, 60) if name == rare else (300, 2)
        tg.stream(name, rows(len(name), count, step, **columns), ordered_by="t")
    return tg


def lowest(plan: op.Node) -> set[str]:
    """The streams that meet first."""
    joins = [n for n in plan.walk() if isinstance(n, op.Join)]
    first = next(j for j in joins if not any(isinstance(i, op.Join) for n in j.inputs for i in n.walk()))
    return {n.name for n in first.walk() if isinstance(n, op.Scan)}


def test_a_recorded_run_takes_the_cheaper_order_and_explains_it(spark: SparkSession) -> None:
    with closing(session(spark, None, rare="C")) as tg:
        query = tg.query(QUERY)
        assert (lowest(query.plan), lowest(query.chosen)) == ({"A", "B"}, {"B", "C"})
        text = query.explain()
        assert "== Search by cost" in text
        assert "== Estimates" in text
        assert query.verify(instants=5)


def test_a_live_query_keeps_its_plan_after_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    with closing(session(spark, tmp_path, rare="C")) as tg:
        live = tg.query(QUERY).start("pairs", begin=False)
        assert lowest(live.query.plan) == {"B", "C"}
        live.run.drain()
        first = live.query.known
        live.stop()
    with closing(session(spark, tmp_path, rare="A")) as tg:
        # Alone, and by the statistics of now, it would be planned otherwise.
        assert lowest(tg.query(QUERY).chosen) == {"A", "B"}
        again = tg.query(QUERY).start("pairs", begin=False)
        assert lowest(again.query.plan) == {"B", "C"}
        assert again.query.known.answer == first.answer
        again.stop()


HOT = "SELECT A.y, B.z FROM A WINDOW(RANGE 40) A LEFT JOIN B WINDOW(RANGE 40) B ON A.x = B.x"


def skewed(spark: SparkSession, state: Path | None, hot: int | None) -> tidegate.Session:
    """Two streams; nine of ten rows of the first have one key."""
    dice = random.Random(3)
    tg = tidegate.connect(spark=spark, state=None if state is None else str(state))
    keys = [hot if hot is not None and dice.random() < 0.9 else dice.randrange(10) for _ in range(300)]
    tg.stream("A", [{"x": x, "y": i % 7, "t": i} for i, x in enumerate(keys)], ordered_by="t")
    tg.stream("B", rows(5, 40, 7, x=10, z=4), ordered_by="t")
    return tg


def spread(plan: op.Node) -> list[str]:
    """The conditions under which rows of a join are spread."""
    joins = [n for n in plan.walk() if isinstance(n, op.Join) and n.spread is not None]
    return [f.predicate.sql() for j in joins for f in j.left.walk() if isinstance(f, op.Filter)]


def test_rows_of_a_hot_key_are_spread(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hot_keys, "ROWS", 100.0)
    with closing(skewed(spark, None, 4)) as tg:
        query = tg.query(HOT)
        assert spread(query.chosen) == ["c0 IN (4)"]
        text = query.explain()
        assert "x IN (4), exchanged by x, t" in text
        assert "those of the left side are spread and those of the right sent to all" in text
        assert query.verify(instants=5)
        monkeypatch.setattr(hot_keys, "ROWS", 1e9)
        assert not spread(tg.query(HOT).chosen)


def test_a_live_query_keeps_the_hot_keys_that_it_began_with(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also after a restart at which other keys are hot."""
    monkeypatch.setattr(hot_keys, "ROWS", 100.0)
    with closing(skewed(spark, tmp_path, 4)) as tg:
        live = tg.query(HOT).start("pairs", begin=False)
        assert spread(live.query.plan) == ["c0 IN (4)"]
        live.run.drain()
        first = live.query.known
        live.stop()
    with closing(skewed(spark, tmp_path, 5)) as tg:
        assert spread(tg.query(HOT).chosen) == ["c0 IN (5)"]
        again = tg.query(HOT).start("pairs", begin=False)
        assert spread(again.query.plan) == ["c0 IN (4)"]
        assert again.query.known.answer == first.answer
        again.stop()
