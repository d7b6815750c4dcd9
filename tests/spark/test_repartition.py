"""Runs that are stopped and go on with another number of partitions answer what the reference says."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.fuzz.players import difference
from tests.fuzz.queries import Case
from tests.fuzz.streams import INTEGERS, Arrival, Streams
from tests.fuzz.test_partitions import QUERIES, VIEWS, dense
from tests.spark.test_engine_against_reference import arrivals, definitions
from tidegate.algebra import operators as op
from tidegate.errors import Diagnostic
from tidegate.runtime.engine import Engine
from tidegate.runtime.jobs import physical, planned
from tidegate.runtime.ledger import Ledger
from tidegate.runtime.live import LiveRun
from tidegate.runtime.recorded import Recording
from tidegate.runtime.results import Result
from tidegate.runtime.verification import signed_rows
from tidegate.session import connect
from tidegate.storage import Storage
from tidegate.types import BIGINT

SEED = 7

CHOSEN = (
    "floats", "scalar", "join by expression", "full", "without equality", "band, left", "theta of groups", "not in", "except all", "rank",
    "rows by key, sliding", "slide of counts", "key projected away", "sequence in rows", "insertions", "key stream grouped",
    "synchronized by events", "with a constant", "table",
)  # fmt: skip
"""All of them would take long; the others are played without Spark."""

Batch = dict[str, list[tuple[Any, ...]]]


def batches(streams: Streams, dice: random.Random) -> list[Batch]:
    """The rows in order of arrival, some at a time; no stream runs ahead of another."""
    coming = arrivals(streams)
    found: list[Batch] = []
    while coming:
        batch: Batch = {}
        for name, row in coming[: (take := dice.randint(5, 9))]:
            batch.setdefault(name, []).append(row)
        del coming[:take]
        found.append(batch)
    return found


def asked(streams: Streams, query: str) -> Case:
    return Case(0, streams, query, views=VIEWS)


def world(seed: int) -> tuple[Streams, dict[str, Case]]:
    streams = dense(seed)
    return streams, {n.replace(" ", "_").replace(",", ""): asked(streams, QUERIES[n]) for n in CHOSEN}


def compared(case: Case, result: Result) -> str | None:
    return difference(case.reference, case.plan, signed_rows(result, case.plan.schema))


@pytest.mark.parametrize("counts", [(1, 5, None, 2), (4, 3)])
def test_live_queries_go_on_in_other_partitions(
    spark: SparkSession, tmp_path: Path, counts: tuple[int | None, ...]
) -> None:
    """Without a number, they go on in as many as there are."""
    streams, cases = world(SEED)
    plans: dict[str, op.Node] = {n: c.optimized for n, c in cases.items()}
    parts = batches(streams, random.Random(SEED))
    assert len(parts) >= len(counts)
    expected = counts[0]
    for i, count in enumerate(counts):
        run = Engine(spark, str(tmp_path), count).start(
            plans, definitions(streams), data={"T": streams.delivered()["T"]}, begin=False
        )
        expected = count or expected
        for batch in parts[i * len(parts) // len(counts) : (i + 1) * len(parts) // len(counts)]:
            run.graph.advance(batch)
            assert run.graph.ledger.latest.partitions == expected
        run.stop()
    run.graph.finish()
    for name, case in cases.items():
        found = compared(case, run.result(name))
        assert found is None, f"{name}: {found}"


class StopError(Exception):
    """The run is interrupted."""


def test_recorded_queries_go_on_in_other_partitions(spark: SparkSession, tmp_path: Path) -> None:
    streams, cases = world(SEED)
    plans = {n: c.optimized for n, c in cases.items()}
    boundaries = [3, 6, 9, 12]
    for stop, partitions in ((1, 2), (3, 5), (None, 3)):
        ledger = Ledger(Storage(str(tmp_path)))
        epochs = 0

        def passed(_: float, stop: int | None = stop, ledger: Ledger = ledger) -> None:
            if stop is not None and ledger.latest.upto >= boundaries[stop]:
                raise StopError

        graph = physical(planned(plans, {}), {})
        recording = Recording(spark, graph, definitions(streams), streams.delivered(), partitions)
        before = ledger.latest
        try:
            recording.run(ledger, boundaries, passed)
        except StopError:
            epochs = ledger.latest.epoch - before.epoch
            assert epochs > 0
        else:
            assert stop is None
        assert ledger.latest.partitions == partitions
    assert ledger.latest.finished
    for name, case in cases.items():
        schema = case.plan.schema
        parts = partial(ledger.parts, graph.plan.answers[name])
        result = Result(lambda: spark, ledger.storage, name, schema, BIGINT, parts, lambda: ledger.latest)
        found = compared(case, result)
        assert found is None, f"{name}: {found}"


def started(spark: SparkSession, place: Path, cases: dict[str, Case], count: int) -> LiveRun:
    (streams, *_) = [c.streams for c in cases.values()]
    plans = {n: c.optimized for n, c in cases.items()}
    return Engine(spark, str(place), count).start(plans, definitions(streams), begin=False)


def only(rows: list[tuple[int, int, int]]) -> Streams:
    """A stream S of rows with a, b and a time; nothing else."""
    raw = {"S": [Arrival((a, b, "x", None, None, None, 0), t) for a, b, t in rows], "R": [], "O": []}
    return Streams(INTEGERS, raw, [], [])


def test_state_that_cannot_be_divided_is_refused_and_stays(spark: SparkSession, tmp_path: Path) -> None:
    text = "SELECT * FROM RSTREAM(SELECT COUNT(*) AS n FROM S WINDOW(RANGE 6) GROUP BY a) EVERY 3"
    streams = only([(a, 1, t) for t in range(12) for a in range(3)])
    cases, rows = {"q": asked(streams, text)}, streams.delivered()["S"]
    first = started(spark, tmp_path, cases, 2)
    first.graph.advance({"S": rows[:18]})
    first.stop()
    again = started(spark, tmp_path, cases, 3)
    before = again.graph.ledger.latest
    with pytest.raises(Diagnostic, match="cannot be moved from 2 to 3 partitions") as refused:
        again.graph.advance({"S": rows[18:]})
    assert refused.value.condition == "STATE_NOT_DIVISIBLE"
    assert again.graph.ledger.latest == before == Ledger(again.graph.storage).latest
    again.stop()
    back = started(spark, tmp_path, cases, 2)
    back.graph.advance({"S": rows[18:]})
    back.graph.finish()
    found = compared(cases["q"], back.result("q"))
    assert found is None, found


@pytest.mark.parametrize("gone", ["first", "second"])
def test_a_dropped_query_does_not_move_the_others(spark: SparkSession, tmp_path: Path, gone: str) -> None:
    """Rows without a key go to one partition: the one in which the state is, whatever other queries there are."""
    streams = only([(1, b, b) for b in range(10)])
    total, rows = (
        asked(streams, "SELECT COUNT(*), SUM(b) FROM S WINDOW(RANGE UNBOUNDED)"),
        streams.delivered()["S"],
    )
    run = started(spark, tmp_path, {"first": total, "second": total, "third": total}, 2)
    run.graph.advance({"S": rows[:5]})
    run.drop(gone)
    run.graph.advance({"S": rows[5:]})
    run.graph.finish()
    for name in {"first", "second", "third"} - {gone}:
        found = compared(total, run.result(name))
        assert found is None, f"{name}: {found}"


def test_a_session_asks_for_partitions(spark: SparkSession, tmp_path: Path) -> None:
    seen = []
    for partitions in (2, None, 5):
        session = connect(spark, state=str(tmp_path), partitions=partitions)
        session.stream("S", [{"a": 1, "t": 1}, {"a": 2, "t": 2}], ordered_by="t")
        query = session.query("SELECT a, COUNT(*) AS n FROM S WINDOW(RANGE UNBOUNDED) GROUP BY a")
        live = query.start("counts", begin=False)
        live.run.graph.advance({"S": [{"a": 1, "t": 10 + len(seen)}]})
        seen.append(live.run.graph.ledger.latest.partitions)
        end = live
        live.run.stop()
    assert seen == [2, 2, 5]
    end.run.graph.finish()
    assert sorted(tuple(r) for r in end.at(20).collect()) == [(1, 3)]
