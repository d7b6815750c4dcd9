"""Engine = reference at every change point, for generated queries on Spark.

Many queries run in one graph over the same streams, so that an epoch of all of them is one job: one row per epoch, random
epochs, as Spark jobs and in the driver's process in turn, of rows that are given or handed in, rows shuffled within the slack, 1 and 5 partitions; and recorded runs for some.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from tests.fuzz.players import answerable, described, difference
from tests.fuzz.queries import Case, Generator
from tests.fuzz.streams import IN_BATCHES, INTEGERS, TIMESTAMPS, Streams, generate
from tidegate.language.catalog import StreamDefinition
from tidegate.reference.snapshots import Arrivals, Reference
from tidegate.runtime.engine import Engine
from tidegate.runtime.places import EPOCHS, Epochs
from tidegate.runtime.verification import signed_rows
from tidegate.time import MAX
from tidegate.types import Row

ROUNDS = int(os.environ.get("TIDEGATE_ENGINE_ROUNDS", "1"))
QUERIES = int(os.environ.get("TIDEGATE_ENGINE_QUERIES", "8"))
FIRST = int(os.environ.get("TIDEGATE_FUZZ_SEED", "300000"))
MODES = (INTEGERS, TIMESTAMPS, IN_BATCHES)
SLACK = 3


@pytest.fixture(scope="module")
def engine(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    return Engine(spark, str(tmp_path_factory.mktemp("engine")), partitions=2)


def cases(streams: Streams, first: int, count: int) -> dict[str, Case]:
    """Queries of other seeds, over the same streams; where these have batches, those that see them."""
    found: dict[str, Case] = {}
    for seed in range(first, first + 4 * count):
        case = Generator(seed, streams.mode).case().over(streams)
        if case.bound.batches != (streams.mode == IN_BATCHES) or not answerable(case):
            continue
        found[f"q{seed}"] = case
        if len(found) == count:
            break
    return found


def definitions(streams: Streams) -> dict[str, StreamDefinition]:
    found = streams.definitions()
    slack = SLACK * streams.unit
    found = {n: replace(d, slack=slack) if d.ordered_by is not None else d for n, d in found.items()}
    return {n: d.in_batches for n, d in found.items()} if streams.mode == IN_BATCHES else found


def arrivals(streams: Streams) -> list[tuple[str, Row]]:
    """The rows of all streams in an order of arrival that keeps what each promises."""
    delivered = streams.delivered()
    keyed = []
    for name, rows in streams.raw.items():
        newest = None
        for k, (a, row) in enumerate(zip(rows, delivered[name], strict=True)):
            newest = a.t if newest is None else max(newest, a.t)
            keyed.append((newest, name, k, row))
    keyed += [(ts, "P", k, delivered["P"][k]) for k, (_, ts, _) in enumerate(streams.lasting)]
    return [(name, row) for _, name, _, row in sorted(keyed, key=lambda a: a[:3])]


@pytest.mark.parametrize("round_", range(ROUNDS))
@pytest.mark.parametrize(
    ("mode", "epochs", "partitions"),
    [(m, "random", 1) for m in MODES]
    + [(m, "one row each", 5) for m in (MODES if ROUNDS > 1 else (INTEGERS,))],
)
def test_live_equals_the_reference(
    engine: Engine, round_: int, mode: str, epochs: str, partitions: int
) -> None:
    first = FIRST + 1000 * round_ + 100 * MODES.index(mode) + partitions
    play_live(engine, first, mode, f"{mode}-{partitions}-{round_}", partitions, epochs)


def play_live(
    engine: Engine,
    first: int,
    mode: str,
    graph: str,
    partitions: int,
    epochs: str = "random",
    places: Sequence[Epochs] = EPOCHS,
) -> int:
    """Compare queries of some seeds in one live graph; how many."""
    dice = random.Random(first)
    streams = generate(dice, mode, SLACK)
    queries = cases(streams, first, QUERIES)
    catalog = streams.catalog()
    run = engine.start(
        {n: c.optimized for n, c in queries.items()},
        definitions(streams),
        {**catalog.functions, **catalog.aggregates},
        data={"T": streams.delivered()["T"]},
        graph=graph,
        partitions=partitions,
        begin=False,
    )
    # sources advance together: what a row of one stream promises must not make rows of another late
    coming = arrivals(streams)
    while coming:
        take = 1 if epochs == "one row each" else dice.randint(2, 9)
        batch: dict[str, list[Row]] = {}
        for name, row in coming[:take]:
            batch.setdefault(name, []).append(row)
        del coming[:take]
        run.graph.epochs.asked = dice.choice(places)
        if dice.random() < 0.5:
            run.graph.advance(batch)
            continue
        for name, rows in batch.items():
            run.push(name, rows)
        run.drain()
    run.graph.finish()
    for name, case in queries.items():
        found = difference(case.reference, case.plan, signed_rows(run.result(name), case.plan.schema))
        assert found is None, (
            f"{name} over the streams of {first}, {partitions} partitions: {found}\n{described(case)}"
        )
    refused = {n: s["quarantine"] for n, s in run.status()["sources"].items() if n != "O"}  # O has anomalies
    assert not any(any(r.values()) for r in refused.values()), refused
    run.stop()
    return len(queries)


def test_time_passes_in_epochs_without_rows(engine: Engine) -> None:
    """In the last of three epochs nothing came, Spark planned no task, and rows never left."""
    rows = [
        ((None, c, None, None, None, None), t) for c, t in ((1, 2), (1, 3), (0, 4), (0, 5), (2, 10), (0, 12))
    ]
    text = "SELECT 'x' AS x FROM (SELECT DISTINCT c, a FROM R WINDOW(RANGE 6)) ORDER BY 1 LIMIT 2"
    case = Case(0, Streams(INTEGERS, {}, [], []), text)
    data = [(*e, t) for e, t in rows]
    result = engine.run(
        "r", case.plan, definitions(case.streams), data={"R": data}, boundaries=[10, 14, MAX], partitions=5
    )
    reference = Reference({"R": Arrivals([(row, row[-1]) for row in data])})
    found = difference(reference, case.plan, signed_rows(result, case.plan.schema))
    assert found is None, found


@pytest.mark.parametrize("round_", range(ROUNDS))
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("partitions", [1, 5])
def test_recorded_equals_the_reference(engine: Engine, round_: int, mode: str, partitions: int) -> None:
    first = FIRST + 700 + 1000 * round_ + 50 * MODES.index(mode) + partitions
    play_recorded(engine, first, mode, partitions)


def play_recorded(engine: Engine, first: int, mode: str, partitions: int) -> int:
    """Compare queries of some seeds in one recorded run; how many."""
    dice = random.Random(first)
    streams = generate(dice, mode, SLACK)
    queries = cases(streams, first, QUERIES)
    span = streams.unit * next(iter(queries.values())).width
    catalog = streams.catalog()
    results = engine.run_all(
        {n: c.optimized for n, c in queries.items()},
        definitions(streams),
        {**catalog.functions, **catalog.aggregates},
        streams.delivered(),
        boundaries=[*(t * span for t in sorted(dice.sample(range(18), dice.choice([0, 2])))), MAX],
        partitions=partitions,
    )
    for name, case in queries.items():
        found = difference(case.reference, case.plan, signed_rows(results[name], case.plan.schema))
        assert found is None, f"{name} over the streams of {first}: {found}\n{described(case)}"
    return len(queries)
