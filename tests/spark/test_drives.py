"""Who begins epochs does not show in answers: rows count once, whoever feeds the graph, and whatever was left half done."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidegate.runtime.drives import DirectDrive
from tidegate.runtime.inboxes import Inbox
from tidegate.runtime.running import LiveQuery
from tidegate.session import connect

TEXT = "SELECT COUNT(*) AS n, SUM(a) AS s FROM S WINDOW(RANGE UNBOUNDED)"


class World:
    """A stream that is handed in, or comes as files; sessions on one state come and go."""

    def __init__(self, spark: SparkSession, place: Path, kind: str) -> None:
        self.spark, self.place, self.kind, self.number = spark, place, kind, 0
        (place / "in").mkdir()
        self.more(1)

    def more(self, value: int) -> None:
        """Another row, in a file of its own."""
        self.number += 1
        if self.kind == "csv":
            (self.place / "in" / f"{self.number}.csv").write_text(f"a,t\n{value},{self.number}\n")

    def started(self, structured: bool = False) -> LiveQuery:
        session = connect(self.spark, state=str(self.place / "state"), partitions=2)
        if self.kind == "csv":
            session.sql(f"CREATE STREAM S(a INT, t BIGINT) SOURCE csv('{self.place / 'in'}') ORDERED BY t")
        else:
            session.stream("S", [(1, 1)], schema="a INT, t BIGINT", ordered_by="t")
        live = session.query(TEXT).start("q", begin=False)
        live.run.structured = structured
        return live

    def hand_in(self, live: LiveQuery, value: int) -> None:
        self.more(value)
        if self.kind == "memory":
            live.run.push("S", [(value, self.number)])


def answer(live: LiveQuery) -> list[tuple[int, int]]:
    return [tuple(r) for r in live.latest().collect()]


@pytest.fixture(params=["csv", "memory"])
def world(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> World:
    return World(spark, tmp_path, request.param)


def test_spark_goes_on_with_a_graph_that_was_fed_directly(world: World) -> None:
    first = world.started()
    first.run.drain()
    assert first.run.graph.ledger.latest.batch == -1
    world.hand_in(first, 10)
    first.run.drain()
    world.hand_in(first, 100)  # waits
    first.run.stop()
    second = world.started(structured=True)
    second.run.drain()
    assert second.run.graph.ledger.latest.batch >= 0
    world.hand_in(second, 1000)
    second.run.stop()
    # whoever began to note what was read goes on
    third = world.started()
    third.finish()
    assert third.run.graph.ledger.latest.batch > second.run.graph.ledger.latest.batch
    assert answer(third) == [(4, 1111)]


def test_what_counted_and_was_not_put_away_counts_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    first = world.started()
    first.run.drain()
    with monkeypatch.context() as patch:
        patch.setattr(Inbox, "discard", lambda *_: None)
        world.hand_in(first, 10)
        live = first.run
        DirectDrive(live, world.spark, live._inboxes())._epoch()
        live.stop()
    second = world.started()
    world.hand_in(second, 100)
    second.finish()
    assert answer(second) == [(3, 111)]


def test_what_was_taken_and_did_not_count_is_taken_again(world: World) -> None:
    first = world.started()
    first.run.drain()
    world.hand_in(first, 10)
    first.run.look()
    assert len(first.run._inboxes()["S"].take()) == 1
    first.run.stop()
    second = world.started()
    world.hand_in(second, 100)
    second.finish()
    assert answer(second) == [(3, 111)]


def test_first_rows_that_were_taken_and_did_not_count_are_not_handed_in_again(world: World) -> None:
    first = world.started()
    first.run._made()
    first.run.look()
    assert len(first.run._inboxes()["S"].take()) == 1
    first.run.stop()
    second = world.started()
    second.finish()
    assert answer(second) == [(1, 1)]


def test_a_stop_waits_for_the_epoch_and_ends_the_thread(world: World) -> None:
    live = world.started()
    live.run.start()
    assert live.run.is_active
    names = {t.name for t in threading.enumerate()}
    assert "tidegate-epochs" in names
    live.run.stop()
    assert not live.run.is_active
    assert "tidegate-epochs" not in {t.name for t in threading.enumerate()}


def test_nothing_is_written_while_nothing_happens(world: World) -> None:
    live = world.started()
    live.run.drain()
    before = live.run.graph.ledger.latest.epoch
    live.run.drain()
    assert live.run.graph.ledger.latest.epoch == before
    live.run.stop()
