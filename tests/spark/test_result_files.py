"""Result files and manifests stay few over thousands of epochs, and no answer changes by that."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.spark.test_runtime import DEFINITIONS, assert_equals, assert_readable, judge, make_rows, plans
from tidegate.errors import Diagnostic
from tidegate.runtime.engine import Engine
from tidegate.runtime.ledger import INDEX, Ledger
from tidegate.runtime.merging import merged
from tidegate.storage import Storage
from tidegate.time import MAX
from tidegate.worker.result_files import read_rows, write_results

Rows = list[tuple[int, int, int, int]]


def frame(rows: Rows) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=dict.fromkeys(["c0", "ts", "te", "n"], pl.Int64), orient="row")


def commit(ledger: Ledger, rows: Rows, upto: int, others: int = 0) -> None:
    """An epoch as a worker would leave it: the rows of one operator, and of others that answer other queries."""
    epoch = ledger.latest.epoch + 1
    sections = {"q": frame(rows)} | {f"other{i}": frame([(i, upto - 1, upto, 1)]) for i in range(others)}
    files = write_results(ledger.storage, f"{epoch:08d}-0", sections)
    assert len(files) == 1
    ledger.commit(replace(ledger.latest, epoch=epoch, upto=upto, results=files))


def tidied(ledger: Ledger, horizon: int | None, limit: int) -> bool:
    return ledger.tidy(lambda epoch, files: merged(ledger.storage, epoch, files, horizon, limit))


def stored(ledger: Ledger) -> Rows:
    found: Rows = []
    for file in ledger.results:
        sections = read_rows(ledger.storage, file)
        assert sum(rows.height for rows in sections.values()) == file.counts.rows
        found += sections["q"].rows() if "q" in sections else []
    return found


def snapshot(rows: Rows, t: int) -> Counter[int]:
    bag: Counter[int] = Counter()
    for e, ts, te, n in rows:
        if ts <= t < te:
            bag[e] += n
    return +bag


def changes(dice: random.Random, current: dict[int, int], t: int) -> Rows:
    """A counter per key that moves: the old row closes, a new one opens."""
    key = dice.randrange(5)
    closed = [(current[key], t, MAX, -1)] if key in current else []
    current[key] = 10 * t + key
    return [*closed, (current[key], t, MAX, 1)]


@pytest.mark.parametrize("others", [0, 3])
def test_files_grow_with_the_logarithm_of_the_epochs(others: int, tmp_path: Path) -> None:
    dice, current = random.Random(1), dict[int, int]()
    storage = Storage(str(tmp_path))
    ledger, every = Ledger.held(storage), Rows()
    most = 0
    for t in range(1, 1500):
        rows = changes(dice, current, t)
        every += rows
        commit(ledger, rows, t + 1, others)
        tidied(ledger, None, 8)
        if t % 100 == 0:
            ledger.release()
            ledger = Ledger.held(storage)
        most = max(most, len(ledger.storage.names("results")) + len(ledger.storage.names("manifests")))
    # at most 9 of each of 4 levels, as many that were just replaced, and the manifests of as many epochs
    assert most <= 4 * 9 + 9 + 9
    assert Counter(stored(ledger)) == Counter(every)
    assert ledger.latest.epoch == 1499
    assert ledger.storage.names("index") == [INDEX.split("/")[1]]


@pytest.mark.parametrize("others", [0, 3])
def test_what_retention_lets_go_is_gone_and_the_rest_is_exact(others: int, tmp_path: Path) -> None:
    dice, current = random.Random(2), dict[int, int]()
    ledger, every = Ledger(Storage(str(tmp_path))), Rows()
    sizes = []
    for t in range(1, 600):
        rows = changes(dice, current, t)
        every += rows
        commit(ledger, rows, t + 1, others)
        horizon = t - 50
        ledger.forget_before(horizon)
        tidied(ledger, horizon, 8)
        sizes.append(sum(f.counts.rows for f in ledger.results))
        if t % 50 == 0:
            kept = stored(ledger)
            for past in range(max(1, t - 50), t + 1):
                assert snapshot(kept, past) == snapshot(every, past)
    assert max(sizes[300:]) <= max(sizes[60:300]) + 10 * (1 + others), (
        "rows that ended before the horizon are still there"
    )


def test_a_reader_finds_its_files_until_the_merge_after(tmp_path: Path) -> None:
    ledger = Ledger(Storage(str(tmp_path)))
    for t in range(1, 6):
        commit(ledger, [(t, t, t + 1, 1)], t + 1)
    seen = [f.file for f in ledger.results]
    assert tidied(ledger, None, 4)
    assert not any(f.file in seen for f in ledger.results)
    assert all(Path(ledger.storage.path(f)).exists() for f in seen)
    for t in range(6, 11):
        commit(ledger, [(t, t, t + 1, 1)], t + 1)
    assert tidied(ledger, None, 4)
    assert not any(Path(ledger.storage.path(f)).exists() for f in seen)


@pytest.mark.spark
def test_an_answer_that_is_not_kept_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    engine = Engine(spark, str(tmp_path), partitions=1)
    run = engine.start({"q": plans()["grouped"]}, DEFINITIONS, graph="kept", begin=False, retention=20)
    run.graph.advance({"S": [(1, 1.0, 10), (1, 2.0, 60)]})
    run.graph.advance({"S": [(1, 2.0, 60)]})
    assert run.graph.ledger.latest.upto == 57
    assert run.result("q").at(40).collect() == []
    for ask in (
        lambda r: r.at(15),
        lambda r: r.changes(),
        lambda r: r.changes(since=36),
        lambda r: r.intervals(),
        lambda r: r.intervals(since=36),
    ):
        with pytest.raises(Diagnostic, match="kept from 37 on"):
            ask(run.result("q"))
    # A run that goes on knows what it let go, before its next epoch and with another retention.
    run.stop()
    again = engine.start({"q": plans()["grouped"]}, DEFINITIONS, graph="kept", begin=False).result("q")
    with pytest.raises(Diagnostic, match="kept from 37 on"):
        again.changes(since=36)


@pytest.mark.spark
def test_what_is_kept_is_whole_from_the_horizon_on(spark: SparkSession, tmp_path: Path) -> None:
    engine = Engine(spark, str(tmp_path), partitions=1)
    batches = [[(1, 1.0, 10), (2, 2.0, 20)], [(1, 2.0, 30)], [(2, 2.0, 33)], [(1, 4.0, 47)], [(1, 5.0, 60)]]
    kept, everything = (
        engine.start({"q": plans()["grouped"]}, DEFINITIONS, graph=name, begin=False, retention=retention)
        for name, retention in (("kept", 10), ("everything", None))
    )
    for run in (kept, everything):
        run.graph.files_limit = 2
        for batch in batches:
            run.graph.advance({"S": batch})
    horizon = kept.graph.ledger.horizon
    assert 10 < horizon < everything.graph.ledger.latest.upto

    def rows(frame: DataFrame) -> list[tuple[object, ...]]:
        return sorted((tuple(r) for r in frame.collect()), key=repr)

    for since in range(horizon, kept.graph.ledger.latest.upto):
        for ask in ("changes", "intervals"):
            found, expected = (getattr(run.result("q"), ask)(since=since) for run in (kept, everything))
            assert rows(found) == rows(expected), (since, ask)
    before = [c for c in everything.result("q").changes().collect() if c["ts"] < horizon]
    assert before, "nothing was there to be let go"


@pytest.mark.spark
def test_answers_of_a_running_graph_do_not_change_when_files_are_merged(
    spark: SparkSession, tmp_path: Path
) -> None:
    engine = Engine(spark, str(tmp_path), partitions=2)
    rows = make_rows(5, 24)
    queries = {n: plans()[n] for n in ("grouped", "outer")}

    def begin() -> Any:
        run = engine.start(queries, DEFINITIONS, graph="merged", begin=False)
        run.graph.files_limit = 3
        return run

    run = begin()
    arrivals = sorted([(r[-1], n, r) for n in ("S", "R") for r in rows[n]], key=lambda x: x[0])
    for i in range(0, len(arrivals), 3):
        batch: dict[str, list[tuple[Any, ...]]] = {}
        for _, name, row in arrivals[i : i + 3]:
            batch.setdefault(name, []).append(row)
        run.graph.advance(batch)
        if i == 12:
            run.stop()
            run = begin()
    run.graph.finish()
    assert run.graph.ledger.index.epoch > 2
    reference = judge(rows)
    for name, plan in queries.items():
        assert_equals(run.result(name), plan, reference)
        assert_readable(run.result(name), plan, reference)
