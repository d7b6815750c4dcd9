"""Engine = reference at every change point, for generated queries on Spark.

Many queries run in one graph over the same streams, so that an epoch of all of them is one job: one row per epoch, random
epochs, rows shuffled within the slack, 1 and 5 partitions; and recorded runs for some.
"""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.fuzz.generation import COLUMNS, Case, Generator
from tests.fuzz.kernel_runs import difference
from tidegate.algebra import operators as op
from tidegate.language.binder import bind
from tidegate.language.catalog import StreamDefinition
from tidegate.language.dialect import parse
from tidegate.optimizer.driver import optimize
from tidegate.reference.snapshots import Arrivals, Reference
from tidegate.runtime.engine import Engine
from tidegate.runtime.verification import signed_rows
from tidegate.time import MAX

ROUNDS = int(os.environ.get("TIDEGATE_ENGINE_ROUNDS", "2"))
QUERIES = int(os.environ.get("TIDEGATE_ENGINE_QUERIES", "12"))
FIRST = int(os.environ.get("TIDEGATE_FUZZ_SEED", "300000"))
SLACK = 3


@pytest.fixture(scope="module")
def engine(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    return Engine(spark, str(tmp_path_factory.mktemp("engine")), partitions=2)


def plans(rows: Case, first: int, count: int) -> dict[str, op.Node]:
    """Queries of other seeds, over the streams of one."""
    found = {}
    for seed in range(first, first + count):
        text = Generator(seed).case().tidegate()
        found[f"q{seed}"] = optimize(bind(parse(text)[0], rows.catalog, text).plan)[0]
    return found


def shuffled(rows: list[tuple[Any, ...]], dice: random.Random) -> list[tuple[Any, ...]]:
    """Another order of arrival, in which no row comes more than the slack later than a newer one."""
    keyed = [(row[-1] + dice.randint(0, SLACK - 1), i, row) for i, row in enumerate(rows)]
    return [row for _, _, row in sorted(keyed, key=lambda k: k[:2])]


def definitions(case: Case) -> dict[str, StreamDefinition]:
    found = {}
    for name in COLUMNS:
        definition = case.catalog.find(name)
        assert isinstance(definition, StreamDefinition)
        found[name] = replace(definition, slack=SLACK) if name in ("S", "R") else definition
    return found


def payload(case: Case, dice: random.Random) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of each stream as the sources deliver them, in order of arrival."""
    return {
        "S": shuffled([(*e, t) for e, t, _ in case.rows["S"]], dice),
        "R": shuffled([(*e, t) for e, t, _ in case.rows["R"]], dice),
        "P": [
            (*e, ts, None if te == MAX else te) for e, ts, te in sorted(case.rows["P"], key=lambda r: r[1])
        ],
        "T": [e for e, _, _ in case.rows["T"]],
    }


def judge(case: Case, data: Mapping[str, list[tuple[Any, ...]]]) -> Reference:
    raw = {n: Arrivals([(row, row[-1]) for row in data[n]]) for n in ("S", "R")}
    return Reference({**case.sources, **raw})


@pytest.mark.parametrize("round_", range(ROUNDS))
@pytest.mark.parametrize("mode", ["one row per epoch", "random epochs"])
@pytest.mark.parametrize("partitions", [1, 5])
def test_live_equals_the_reference(engine: Engine, round_: int, mode: str, partitions: int) -> None:
    first = FIRST + 1000 * round_ + (0 if partitions == 1 else 500)
    dice = random.Random(first)
    case = Generator(first).case()
    data = payload(case, dice)
    queries = plans(case, first, QUERIES)
    graph = f"{mode}-{partitions}-{round_}".replace(" ", "-")
    run = engine.start(
        queries, definitions(case), data={"T": data["T"]}, graph=graph, partitions=partitions, begin=False
    )
    # sources advance together: what a row of one stream promises must not make rows of another late
    arrivals = sorted(
        [(n, row, k) for n in ("S", "R", "P") for k, row in enumerate(data[n])],
        key=lambda a: (max(r[-1] if a[0] != "P" else r[-2] for r in data[a[0]][: a[2] + 1]), a[0], a[2]),
    )
    while arrivals:
        take = 1 if mode == "one row per epoch" else dice.randint(1, 5)
        batch: dict[str, list[tuple[Any, ...]]] = {}
        for name, row, _ in arrivals[:take]:
            batch.setdefault(name, []).append(row)
        del arrivals[:take]
        run.graph.advance(batch)
    run.graph.finish()
    reference = judge(case, data)
    for name, plan in queries.items():
        found = difference(reference, plan, signed_rows(run.result(name), plan.schema))
        assert found is None, f"{name} over the streams of {first}, {mode}, {partitions} partitions: {found}"
    refused = [s["quarantine"] for s in run.status()["sources"].values()]
    assert not any(any(r.values()) for r in refused), refused


def test_time_passes_in_epochs_without_rows(engine: Engine) -> None:
    """Seed 300700: in the last of three epochs nothing came, Spark planned no task, and rows never left."""
    rows = [(2, 1, 2), (3, 1, 3), (1, 0, 4), (None, 0, 5), (1, 2, 10), (0, 0, 12)]
    case = Generator(1).case()
    text = "SELECT 'x' AS x FROM (SELECT DISTINCT c, a FROM R WINDOW(RANGE 6)) ORDER BY 1 LIMIT 2"
    plan = bind(parse(text)[0], case.catalog, text).plan
    result = engine.run(
        "r", plan, definitions(case), data={"R": rows}, boundaries=[10, 14, MAX], partitions=5
    )
    reference = Reference({"R": Arrivals([(row, row[-1]) for row in rows])})
    found = difference(reference, plan, signed_rows(result, plan.schema))
    assert found is None, found


@pytest.mark.parametrize("seed", range(FIRST + 700, FIRST + 700 + 3 * ROUNDS))
def test_recorded_equals_the_reference(engine: Engine, seed: int) -> None:
    dice = random.Random(seed)
    case = Generator(seed).case()
    data = payload(case, dice)
    text = case.tidegate()
    plan = optimize(bind(parse(text)[0], case.catalog, text).plan)[0]
    boundaries = sorted(dice.sample(range(20), dice.choice([0, 2])))
    result = engine.run(
        f"r{seed}",
        plan,
        definitions(case),
        data=data,
        boundaries=[*boundaries, MAX],
        partitions=dice.choice([1, 5]),
    )
    found = difference(judge(case, data), plan, signed_rows(result, plan.schema))
    assert found is None, f"seed {seed}: {found}\n{text}"
