"""Topics of a real broker as streams: recorded and live, with what cannot be read, held back by slow partitions."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import tidegate
from tests.servers.kafka import Broker

TO_ITS_END = "WITH (ending_offsets = 'latest')"


def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    """Wait for a condition."""
    end = time.monotonic() + seconds
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < end, "it has not come about"
        pause.wait(0.05)


def rows(frame: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(r) for r in frame.collect())


def message(**members: Any) -> bytes:
    return json.dumps(members).encode()


def test_a_topic_is_read_to_its_end(spark: SparkSession, broker: Broker) -> None:
    topic = broker.topic("recorded", 3)
    for p in range(3):
        broker.send(topic, [message(k=i % 2, t=3 * i + p) for i in range(20)], p)
    tg = tidegate.connect(spark)
    tg.sql(
        f"CREATE STREAM S(k INT, t BIGINT) SOURCE kafka('{broker.servers}', '{topic}') ORDERED BY t {TO_ITS_END}"
    )
    query = tg.query("SELECT k, COUNT(*) AS n FROM S WINDOW(RANGE UNBOUNDED) GROUP BY k")
    assert rows(query.run().at(59)) == [(0, 30), (1, 30)]
    # What comes later is not part of what was read.
    broker.send(topic, [message(k=0, t=60)], 0)
    assert rows(query.run().at(100)) == [(0, 30), (1, 30)]


def test_what_is_no_row_is_kept_with_its_place(spark: SparkSession, broker: Broker) -> None:
    topic = broker.topic("odd")
    broker.send(topic, [message(k=1, t=1), b"{", message(k="x", t=2), message(k=2, t=3)])
    tg = tidegate.connect(spark)
    tg.sql(
        f"CREATE STREAM S(k INT, t BIGINT) SOURCE kafka('{broker.servers}', '{topic}') ORDERED BY t {TO_ITS_END}"
    )
    result = tg.query("SELECT k FROM S WINDOW(RANGE UNBOUNDED)").run()
    assert rows(result.at(3)) == [(1,), (2,)]
    found = {(r["reason"], r["raw"]) for r in result.quarantine().collect()}
    assert found == {
        ("the message cannot be read: at odd/0@1", "{"),
        ("column 'k' is no INT: x at odd/0@2", '{"k": "x", "t": 2}'),
    }


def test_a_live_query_goes_on_where_it_stopped(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic("live", 2)

    def started() -> Any:
        tg = tidegate.connect(spark, state=str(tmp_path / "state"))
        tg.sql(
            f"CREATE STREAM S(k INT, t BIGINT) SOURCE kafka('{broker.servers}', '{topic}') ORDERED BY t "
            "WITH (starting_offsets = 'earliest')"
        )
        return tg.query("SELECT k, COUNT(*) AS n FROM S WINDOW(RANGE UNBOUNDED) GROUP BY k").start(name="q")

    def read(handle: Any) -> int:
        return int(handle.status()["sources"].get("S", {"rows": 0})["rows"])

    for p in range(2):
        broker.send(topic, [message(k=i % 2, t=i) for i in range(10)], p)
    handle = started()
    until(lambda: read(handle) == 20)
    handle.stop()
    for p in range(2):
        broker.send(topic, [message(k=i % 2, t=i) for i in range(10, 20)], p)
    handle = started()
    until(lambda: read(handle) == 40)
    assert rows(handle.at(18)) == [(0, 20), (1, 18)]
    handle.stop()


@pytest.mark.parametrize("idle", [None, "1 second"])
def test_a_slow_partition_holds_time_back_and_an_idle_one_does_not(
    spark: SparkSession, broker: Broker, idle: str | None
) -> None:
    from tidegate.connectors.registry import SOURCES
    from tidegate.language.catalog import StreamDefinition

    topic = broker.topic(f"slow-{idle is None}", 2)
    tg = tidegate.connect(spark)
    more = f", idle = '{idle}'" if idle else ", idle = '1 hour'"
    tg.sql(
        f"CREATE STREAM S(k INT, t BIGINT) SOURCE kafka('{broker.servers}', '{topic}') ORDERED BY t "
        f"WITH (starting_offsets = 'earliest'{more})"
    )
    definition = tg.catalog.find("S")
    assert isinstance(definition, StreamDefinition)
    source = SOURCES.named(definition.source)
    broker.send(topic, [message(k=0, t=t) for t in range(10)], 0)
    broker.send(topic, [message(k=1, t=4)], 1)
    offset: Any = None
    seen: list[int] = []

    def asked() -> list[int]:
        nonlocal offset
        found = source.poll(definition, offset)
        if found is not None:
            table, offset = found
            seen.extend(table["t"].to_pylist() if table.num_rows else [])
        return sorted(seen)

    until(lambda: asked() == [0, 1, 2, 3, 4, 4])
    if idle is None:
        assert offset == {"0": 5, "1": 1}
        broker.send(topic, [message(k=1, t=7)], 1)
        until(lambda: asked() == [0, 1, 2, 3, 4, 4, 5, 6, 7, 7])
    else:
        until(lambda: asked() == [0, 1, 2, 3, 4, 4, 5, 6, 7, 8, 9])
