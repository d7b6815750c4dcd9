"""The resource manager over live graphs: time is what the test says, and memory is what the operators keep."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tidegate.session import Session, connect

RANGED = "SELECT a.k, a.v FROM S WINDOW(RANGE BETWEEN 10 AND 60) a JOIN T ON a.v = T.v"
FIXED = RANGED.replace("RANGE BETWEEN 10 AND 60", "RANGE 60")
BUDGET = 300_000
STEP = 3
"""Seconds of an epoch."""


def load(second: int) -> int:
    """Rows a second: they double, double again, and fall back."""
    return 50 * (1 if second < 70 else 2 if second < 130 else 4 if second < 200 else 1)


class World:
    """A session whose clock goes three seconds with every epoch, and the stream with it."""

    def __init__(self, spark: SparkSession, place: Path, second: int = 0) -> None:
        self.session = connect(spark, state=str(place), partitions=1)
        self.session.stream("S", [], ordered_by="t", schema="k BIGINT, v BIGINT, t BIGINT")
        self.session.stream("R", [], ordered_by="t", schema="k BIGINT, v BIGINT, t BIGINT")
        self.session.table("T", [{"v": v} for v in range(10)])
        self.second = second
        self.memory: list[int] = []
        self.sizes: list[int] = []

    def start(self, name: str, text: str) -> Any:
        found = self.session.query(text).start(name, begin=False, epochs="driver")
        found.run.graph._clock = lambda: float(self.second)
        return found

    def pass_epoch(self, live: Any, rows: int) -> None:
        self.session.push(
            "S", [{"k": i, "v": i % 10, "t": self.second + i % STEP} for i in range(rows * STEP)]
        )
        self.second += STEP
        self.session.advance("S", self.second)
        live.run.drain()
        self.memory.append(sum(a.size for a in live.run.graph.figures.activities.by_id.values()))

    def play(self, live: Any, until: int) -> None:
        while self.second < until:
            self.pass_epoch(live, load(self.second))


@contextmanager
def world(spark: SparkSession, place: Path, second: int = 0) -> Iterator[World]:
    found = World(spark, place, second)
    try:
        yield found
    finally:
        found.session.close()


def decisions(tg: Session) -> list[Any]:
    return tg.sql("SELECT * FROM tidegate.decisions ORDER BY epoch").collect()


def test_memory_stays_within_the_budget_with_ranges_and_leaves_it_without(
    spark: SparkSession, tmp_path: Path
) -> None:
    with world(spark, tmp_path / "fixed") as fixed:
        fixed.play(fixed.start("pairs", FIXED), 200)
    assert max(fixed.memory) > 1.5 * BUDGET
    with world(spark, tmp_path / "ranged") as ranged:
        tg = ranged.session
        tg.sql(f"SET memory = {BUDGET}")
        live = ranged.start("pairs", RANGED)
        ranged.play(live, 150)
        made = decisions(tg)
        assert next(d["action"] for d in made) == "lower"
        # Before the budget is reached, and with the figures.
        assert made[0]["memory"] < BUDGET < made[0]["expected_memory"] / 0.92
        assert (made[0]["graph"], made[0]["memory_budget"]) == ("integers", BUDGET)
        assert made[0]["setting"] == "S RANGE BETWEEN 10 AND 60"
        assert "would be reached" in made[0]["reason"]
        # What was decided is what was in force, for rows from the instant that it names on.
        in_force = {r["valid_from"]: r["value"] for r in tg.sql("SELECT * FROM tidegate.settings").collect()}
        assert all(in_force[d["valid_from"]] == d["value"] for d in made if d["setting"])
        status = live.status()["resources"]
        assert status["quality"] < 1.0
        assert status["memory_budget"] == BUDGET
        assert status["decisions"]
    # Another process goes on without a budget: what was given up is given back.
    shutil.copytree(tmp_path / "ranged", tmp_path / "unlimited")
    with world(spark, tmp_path / "unlimited", ranged.second) as unlimited:
        live = unlimited.start("pairs", RANGED)
        unlimited.play(live, ranged.second + 24)
        last = decisions(unlimited.session)[-1]
        assert (last["action"], last["value"]) == ("raise", 60)
        assert last["reason"] == "there is no budget any more"
        live.adjust(range=20)
        unlimited.play(live, unlimited.second + 9)
        assert decisions(unlimited.session)[-1] == last, "what was chosen by hand stays"
    # Another process goes on: the log and the settings are there, and it is still the same budget.
    with world(spark, tmp_path / "ranged", ranged.second) as again:
        tg, before = again.session, len(made)
        assert len(decisions(tg)) == before
        tg.sql(f"SET memory = {BUDGET}")
        live = again.start("pairs", RANGED)
        again.play(live, 330)
        assert max(*ranged.memory, *again.memory) <= BUDGET
        every = decisions(tg)
        assert every[-1]["action"] == "raise"
        assert every[-1]["quality"] == 1.0
        assert live.status()["resources"]["settings"] == {"S RANGE BETWEEN 10 AND 60": 60}
        assert len(every) < 25
        assert tg.query(RANGED).verify is not None
