"""Plans chosen by cost: recorded runs choose freely, a live query keeps for ever the plan that it began with."""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path

from pyspark.sql import SparkSession

import tidegate
from tidegate.algebra import operators as op

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
