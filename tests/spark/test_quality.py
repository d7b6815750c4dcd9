"""Windows whose size and granule are chosen while they run: the live engine against the reference with the recorded function.

Rows come out of order within the slack, epochs run in the driver's process and as Spark jobs, programs end and begin again, and an epoch fails after a change.
"""

from __future__ import annotations

import os
import random
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.fuzz.players import answerable, described, difference
from tests.fuzz.queries import Generator
from tests.fuzz.streams import generate
from tests.spark.test_engine_against_reference import MODES, SLACK, arrivals, definitions
from tidegate.algebra.adjusting import knobs_of
from tidegate.algebra.quality import Steps
from tidegate.errors import Diagnostic
from tidegate.reference.snapshots import Reference, snapshot
from tidegate.runtime.engine import Engine
from tidegate.runtime.running import LiveQuery
from tidegate.runtime.verification import signed_rows
from tidegate.session import Session, connect
from tidegate.time import MIN
from tidegate.types import Row

ROUNDS = int(os.environ.get("TIDEGATE_ENGINE_ROUNDS", "1"))
FIRST = int(os.environ.get("TIDEGATE_FUZZ_SEED", "950000"))

SIZE, GRANULE = "S RANGE BETWEEN 3 AND 20", "S GRANULARITY BETWEEN 1 AND 7"
TEXTS = {
    "counted": "SELECT k, COUNT(*) AS n FROM S WINDOW(RANGE BETWEEN 3 AND 20 GRANULARITY BETWEEN 1 AND 7) GROUP BY k",
    "met": "SELECT a.v, b.v AS w FROM S WINDOW(RANGE BETWEEN 3 AND 20) a JOIN S WINDOW(RANGE 2) b ON a.k = b.k WHERE a.v < b.v",
    "slid": "SELECT k, v FROM S WINDOW(RANGE BETWEEN 3 AND 20 SLIDE 4 STARTING AT 1)",
}


def opened(spark: SparkSession, place: Path | None, rows: Any = ()) -> tuple[Session, dict[str, LiveQuery]]:
    session = connect(spark=spark, state=None if place is None else str(place), partitions=2)
    session.stream("S", list(rows), schema="k INT, v INT, t BIGINT", ordered_by="t", slack=4)
    if place is None:
        return session, {}
    return session, {n: session.query(text).start(n, begin=False) for n, text in TEXTS.items()}


def in_disorder(rows: int, slack: int, dice: random.Random) -> list[dict[str, int]]:
    made = [{"k": i % 3, "v": (i * 7) % 5, "t": i} for i in range(rows)]
    return sorted(made, key=lambda r: r["t"] + dice.uniform(0, slack))


def failing_once(query: LiveQuery) -> None:
    """An epoch that does all its work and does not come to count; the next attempt must do the same."""
    ledger = query.run.graph.ledger
    commit = ledger.commit
    ledger.commit = lambda manifest: 1 / 0  # type: ignore[method-assign,assignment,return-value]
    with pytest.raises(Diagnostic, match="ZeroDivisionError"):
        query.run.drain()
    ledger.commit = commit  # type: ignore[method-assign]


def test_a_run_in_which_size_and_granule_change_twenty_times(spark: SparkSession, tmp_path: Path) -> None:
    rows = in_disorder(126, 4, random.Random(7))
    session, live = opened(spark, tmp_path)
    passed, said = 0, None
    for number in range(21):
        query = live["counted"]
        graph = query.run.graph
        graph.epochs.asked = "spark" if number in (3, 12) else "driver"
        session.push("S", rows[6 * number : 6 * number + 6])
        if number == 5:
            failing_once(query)
        query.run.drain()
        if number == 10:
            passed = graph.ledger.latest.upto - 1
            said = snapshot(signed_rows(query.result, query.query.schema, here=True), passed)
        if number < 20:
            since = query.adjust(range=3 + 5 * number % 18, granularity=1 + 3 * (number + 1) % 7)
            assert since == graph.ledger.latest.upto
        if number in (8, 15):
            session.close()
            session, live = opened(spark, tmp_path)
    steps = live["counted"].result.settings()
    assert [(len(steps[n].changes), steps[n].first) for n in (SIZE, GRANULE)] == [(20, 20), (20, 1)]
    lines = [r[:-1] for r in session.running.settings() if r[1] == SIZE]
    assert [(r[7], r[8]) for r in lines] == [(20, None), *((v, at) for at, v in steps[SIZE].changes)]
    assert [r[9] for r in lines] == [*(at for at, _ in steps[SIZE].changes), None]
    table = session.sql(
        "SELECT setting, queries, COUNT(*) AS n FROM tidegate.settings GROUP BY setting, queries"
    )
    assert {tuple(r) for r in table.collect()} == {(SIZE, "counted, met, slid", 21), (GRANULE, "counted", 21)}
    live["counted"].finish()
    final = signed_rows(live["counted"].result, live["counted"].query.schema, here=True)
    assert said
    assert snapshot(final, passed) == said, "what was said is taken back"
    whole, _ = opened(spark, None, rows)
    whole.engine.small_here = True
    for name, text in TEXTS.items():
        found = whole.query(text).verify(result=live[name].result)
        assert found, f"{name}: {found}"
        assert not whole.query(text).verify(result=replace(live[name].result, settings=dict)), name
    session.close()


@pytest.mark.parametrize("round_", range(ROUNDS))
@pytest.mark.parametrize("mode", MODES if ROUNDS > 1 else MODES[:1])
def test_generated_queries_whose_windows_change(
    spark: SparkSession, tmp_path: Path, mode: str, round_: int
) -> None:
    """Random values, at once and some time ahead; queries that have a range in common are adjusted together."""
    first = FIRST + 1000 * round_ + 100 * MODES.index(mode)
    dice = random.Random(first)
    streams = generate(dice, mode, SLACK)
    made = (Generator(seed, mode, ranged=True).case().over(streams) for seed in range(first, first + 60))
    usable = [c for c in made if knobs_of(c.plan) and c.bound.batches == (mode == MODES[2]) and answerable(c)]
    queries = {f"q{case.seed}": case for case in usable[:3]}
    catalog = streams.catalog()
    run = Engine(spark, str(tmp_path)).start(
        {n: c.optimized for n, c in queries.items()},
        definitions(streams),
        {**catalog.functions, **catalog.aggregates},
        data={"T": streams.delivered()["T"]},
        partitions=2,
        begin=False,
        epochs="driver",
    )
    graph, coming, changes = run.graph, arrivals(streams), 0
    while coming:
        for name, knob in graph.knobs().items():
            passed = graph._instant(graph.ledger.latest.upto)
            ahead = 0 if passed == MIN else passed + dice.randint(1, 4) * streams.unit
            for since in (None, ahead):
                graph.adjust({name: dice.randint(knob.lowest, knob.highest)}, since)
                changes += 1
        take = dice.randint(2, 5)
        batch: dict[str, list[Row]] = {}
        for name, row in coming[:take]:
            batch.setdefault(name, []).append(row)
        del coming[:take]
        graph.advance(batch)
    graph.finish()
    assert changes >= 10
    for name, case in queries.items():
        sources, recorded = case.streams.sources(case.width), run.result(name).settings()
        judge = Reference(sources, catalog.functions, catalog.aggregates, settings=recorded)
        found = difference(judge, case.plan, signed_rows(run.result(name), case.plan.schema, here=True))
        assert found is None, f"{name} over the streams of {first}: {found}\n{described(case)}"
    run.stop()


def test_what_cannot_be_chosen(spark: SparkSession, tmp_path: Path) -> None:
    session, live = opened(spark, tmp_path)
    query, graph = live["counted"], live["counted"].run.graph
    graph.epochs.asked = "driver"
    session.push("S", [{"k": 1, "v": 1, "t": t} for t in range(9)])
    query.run.drain()
    epoch = graph.ledger.latest.epoch
    for values, since, problem in (
        ({"S RANGE BETWEEN 3 AND 2O": 5}, None, r"UNKNOWN_SETTING.*\n.*S RANGE BETWEEN 3 AND 20"),
        ({SIZE: 21}, None, r"OUT_OF_RANGE\]: 21 is not inside .*\n.*from 3 to 20"),
        ({SIZE: 5}, 3, r"SETTING_IS_FINAL\]: what is valid before 4 is final"),
        ({SIZE: 5, GRANULE: 8}, None, "OUT_OF_RANGE"),
    ):
        with pytest.raises(Diagnostic, match=problem):
            graph.adjust(values, since)
    with pytest.raises(Diagnostic, match=r"UNKNOWN_SETTING.*lets nothing be chosen for GRANULARITY"):
        live["met"].adjust(granularity=5)
    for value in (5.5, True, timedelta(seconds=5)):
        with pytest.raises(Diagnostic, match=r"WRONG_ARGUMENTS.*is not a size of windows\n.*'20 minutes'"):
            query.adjust(range=value)  # type: ignore[arg-type]
    assert graph.adjust({SIZE: 20, GRANULE: 1}) == 4
    assert graph.ledger.latest.epoch == epoch, "nothing was to be changed"
    assert graph.adjust({SIZE: 5}, since=9) == 9
    assert graph.adjust({SIZE: 6}) == 4
    assert query.result.settings()[SIZE].changes == ((4, 6),), "what was planned for later is replaced"
    session.close()


@pytest.mark.parametrize(("point", "counts"), [("before manifest", False), ("after manifest", True)])
def test_a_change_counts_whole_or_not_at_all(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str, counts: bool
) -> None:
    """The program ends while a change is committed: the next one finds it with its instant, or finds nothing."""

    def ends(at: str) -> None:
        if at == point:
            raise InterruptedError(at)

    session, live = opened(spark, tmp_path)
    live["slid"].run.graph.epochs.asked = "driver"
    session.push("S", [{"k": 1, "v": 1, "t": t} for t in range(9)])
    live["slid"].run.drain()
    with monkeypatch.context() as broken:
        broken.setattr("tidegate.runtime.ledger.reach", ends)
        with pytest.raises(InterruptedError):
            live["slid"].adjust(range=5)
    session.close()
    session, live = opened(spark, tmp_path)
    assert live["slid"].result.settings() == ({SIZE: Steps(20, ((4, 5),))} if counts else {})
    session.close()
