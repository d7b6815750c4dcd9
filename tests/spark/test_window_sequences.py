"""Window sequences and sessions, live on Spark: random epochs, rows out of order within the slack and beyond, several partitions."""

from __future__ import annotations

import random
from itertools import islice
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.fuzz.players import difference
from tests.language.world import World
from tidegate.errors import Diagnostic
from tidegate.language.catalog import StreamDefinition
from tidegate.optimizer.driver import optimize
from tidegate.reference.snapshots import Arrivals, Reference
from tidegate.runtime.engine import Engine
from tidegate.runtime.verification import signed_rows

SLACK = 4
DEFINITION = (
    f"CREATE STREAM S(k STRING, v INT, t BIGINT) SOURCE memory('S') ORDERED BY t WITH (slack = '{SLACK}')"
)

WINDOWS = {
    "time by time": "FROM 2*i TO 2*i + 5 EVERY 2",
    "with a start and a delay": "FROM GREATEST(3*i - 6, 0) TO 3*i EVERY 3 DELAY 2 STARTING AT 7",
    "not linear": "FROM i - i % 3 TO i + i % 2 EVERY 2",
    "rows by rows": "PARTITION BY k FROM 3*i + 1 ROWS TO 3*i + 4 ROWS EVERY 3 ROWS",
    "rows by rows, one partition": "FROM 7*i + 4 ROWS TO 7*(i + 1) ROWS EVERY 7 ROWS",
    "rows by time": "PARTITION BY k FROM i + 1 ROWS TO i + 2 ROWS EVERY 30",
    "time by rows": "PARTITION BY k FROM 0 TO 2*i + 8 EVERY 4 ROWS",
    "aperiodic": "FROM GREATEST(NOW - 8, 0) TO NOW EVERY CASE WHEN NOW % 24 < 12 THEN 2 ELSE 6 END",
    "procedural": "FOR x = 6 WHILE x < 60 STEP x + x DIV 2 FROM x - 5 TO x",
    "session": "PARTITION BY k SESSION 5",
}


def stream(dice: random.Random) -> list[tuple[Any, ...]]:
    """Rows in order of arrival, none more than the slack later than a newer one; a lull lets sessions end."""
    times = sorted(t for t in (dice.randint(0, 80) for _ in range(90)) if not 30 <= t < 44)
    rows = [(dice.choice("abc"), p, t) for p, t in enumerate(times)]
    return sorted(rows, key=lambda row: row[-1] + dice.random() * (SLACK - 1))


@pytest.fixture(scope="module")
def engine(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    return Engine(spark, str(tmp_path_factory.mktemp("windows")), partitions=2)


@pytest.mark.parametrize("partitions", [1, 3])
def test_live_windows_equal_the_reference(engine: Engine, partitions: int) -> None:
    dice = random.Random(partitions)
    rows = stream(dice)
    world = World().run(DEFINITION)
    definition = world.catalog.find("S")
    assert isinstance(definition, StreamDefinition)
    plans = {
        name.replace(" ", "_").replace(",", ""): optimize(
            world.plan(f"SELECT k, COUNT(*) AS n, MIN(v) AS least FROM S WINDOW({window}) GROUP BY k")
        )[0]
        for name, window in WINDOWS.items()
    }
    run = engine.start(
        plans, {"S": definition}, graph=f"windows-{partitions}", partitions=partitions, begin=False
    )
    rest = list(rows)
    while rest:
        take = dice.randint(1, 25)
        run.graph.advance({"S": rest[:take]})
        del rest[:take]
    run.graph.finish()
    reference = Reference({"S": Arrivals([(row, row[-1]) for row in rows])})
    for name, plan in plans.items():
        assert difference(reference, plan, signed_rows(run.result(name), plan.schema)) is None, name
        assert any(reference.snapshot(plan, t) for t in reference.change_points(plan)), name


def generated(dice: random.Random, rows: bool, by_rows: bool) -> str:
    """A window sequence with linear bounds and a periodic rate, in the given domains, with or without partitions."""
    rate = dice.randint(1, 6) if by_rows or not rows else dice.randint(20, 30)
    climb = dice.randint(0, rate) if rows == by_rows else dice.randint(0, 1)
    slope, top = dice.randint(0, climb), dice.randint(1, 8)
    unit, by = " ROWS" if rows else "", " ROWS" if by_rows else ""
    lower = f"GREATEST({slope}*i + {dice.randint(-6, top)}, {int(rows)})"
    partition = "PARTITION BY k " if dice.random() < 0.6 else ""
    delay = f" DELAY {dice.randint(1, 4)}{by}" if dice.random() < 0.3 else ""
    start = f" STARTING AT {dice.choice([3, 7])}" if dice.random() < 0.3 else ""
    return f"{partition}FROM {lower}{unit} TO {climb}*i + {top}{unit} EVERY {rate}{by}{delay}{start}"


def legal(world: World, window: str, rows: list[tuple[Any, ...]]) -> bool:
    """Whether every window is reached before it is shown, which in mixed domains the rows decide."""
    plan = world.plan(f"SELECT k, v FROM S WINDOW({window})")
    reference = Reference({"S": Arrivals([(row, row[-1]) for row in rows])})
    try:
        return any(reference.snapshot(plan, t) for t in reference.change_points(plan))
    except Diagnostic:
        return False


@pytest.mark.parametrize("seed", [1, 2])
def test_generated_windows_with_late_rows_equal_the_reference(engine: Engine, seed: int) -> None:
    """All four combinations of domains, three windows of each. Rows later than promised are refused and counted, not shown."""
    dice = random.Random(seed)
    arrived = stream(dice)
    for _ in range(12):
        arrived.insert(dice.randint(20, len(arrived)), (dice.choice("abc"), 900, dice.randint(0, 20)))
    world = World().run(DEFINITION)
    definition = world.catalog.find("S")
    assert isinstance(definition, StreamDefinition)
    # An epoch reaches up to the watermark of its own rows; rows before where the last one ended are late.
    epochs: list[list[tuple[Any, ...]]] = []
    kept: list[tuple[Any, ...]] = []
    ended = -SLACK - 1
    rest = list(arrived)
    while rest:
        take = dice.randint(1, 25)
        epochs.append(rest[:take])
        kept += [row for row in rest[:take] if row[-1] >= ended]
        ended = max(ended, *(row[-1] - SLACK for row in rest[:take]))
        del rest[:take]
    assert len(kept) < len(arrived)
    plans = {}
    for rows in (False, True):
        for by_rows in (False, True):
            tried = (generated(dice, rows, by_rows) for _ in range(500))
            for i, window in enumerate(islice((w for w in tried if legal(world, w, kept)), 3)):
                query = f"SELECT k, COUNT(*) AS n, MIN(v) AS least FROM S WINDOW({window}) GROUP BY k"
                plans[f"w{int(rows)}{int(by_rows)}_{i}"] = optimize(world.plan(query))[0]
    assert len(plans) == 12
    run = engine.start(plans, {"S": definition}, graph=f"generated-{seed}", partitions=2, begin=False)
    for batch in epochs:
        run.graph.advance({"S": batch})
    run.graph.finish()
    refused = run.status()["sources"]["S"]["quarantine"]
    assert sum(refused.values()) == len(arrived) - len(kept), refused
    reference = Reference({"S": Arrivals([(row, row[-1]) for row in kept])})
    for name, plan in plans.items():
        assert difference(reference, plan, signed_rows(run.result(name), plan.schema)) is None, name
