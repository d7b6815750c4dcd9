"""What messages of a real broker may be, what happens on bad days, and answers that go to a topic."""

from __future__ import annotations

import io
import json
import struct
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import fastavro
import pytest
from pyspark.sql import SparkSession

import tidegate
from tests.servers.kafka import Broker
from tests.spark.test_kafka import message, rows, until
from tidegate.errors import Diagnostic

BASE = 1_700_000_000_000
"""The own time of records, in milliseconds."""


def moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(BASE / 1000 + seconds, UTC)


def stream(tg: Any, broker: Broker, topic: str, columns: str, options: str, time: str = "t") -> None:
    tg.sql(
        f"CREATE STREAM S({columns}) SOURCE kafka('{broker.servers}', '{topic}') ORDERED BY {time} WITH ({options})"
    )


def recorded(spark: SparkSession, broker: Broker, topic: str, columns: str, options: str, query: str) -> Any:
    tg = tidegate.connect(spark, partitions=2)
    stream(tg, broker, topic, columns, f"ending_offsets = 'latest', {options}")
    return tg.query(query).run()


def test_lines_bytes_and_what_records_carry_themselves(spark: SparkSession, broker: Broker) -> None:
    topic = broker.topic("carried")
    broker.send(topic, [(b"k1", b'1;"x;y"'), (b"k2", b"2;z"), (b"k3", b"three;z")], timestamp=BASE)
    found = recorded(
        spark, broker, topic, "a INT, b STRING, k STRING, t TIMESTAMP",
        "format = 'csv', separator = ';', record_time = 't', record_key = 'k'",
        "SELECT a, b, k FROM S WINDOW(RANGE 1 HOUR)",
    )  # fmt: skip
    assert rows(found.at(moment(0))) == [(1, "x;y", "k1"), (2, "z", "k2")]
    assert found.at(moment(-1)).collect() == found.at(moment(3600)).collect() == []
    assert [r.reason.partition(":")[0] for r in found.quarantine().collect()] == ["column 'a' is no INT"]
    found = recorded(
        spark, broker, topic, "value BINARY, t TIMESTAMP", "format = 'raw', record_time = 't'",
        "SELECT value FROM S WINDOW(RANGE 1 HOUR)",
    )  # fmt: skip
    assert sorted(bytes(r.value) for r in found.at(moment(0)).collect()) == [b'1;"x;y"', b"2;z", b"three;z"]


SCHEMA = {
    "type": "record",
    "name": "Sale",
    "fields": [
        {"name": "a", "type": ["null", "int"]},
        {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}},
        {"name": "t", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    ],
}


def written(a: int | None, d: str, seconds: float) -> bytes:
    made = io.BytesIO()
    fastavro.schemaless_writer(
        made, fastavro.parse_schema(dict(SCHEMA)), {"a": a, "d": Decimal(d), "t": moment(seconds)}
    )
    return made.getvalue()


@pytest.fixture
def registry() -> Iterator[str]:
    """A registry that knows one schema, by its number 7."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = self.path == "/schemas/ids/7"
            self.send_response(200 if known else 404)
            self.end_headers()
            if known:
                self.wfile.write(json.dumps({"schema": json.dumps(SCHEMA)}).encode())

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("numbered", [False, True])
def test_avro_with_a_schema_or_a_registry(
    spark: SparkSession, broker: Broker, registry: str, numbered: bool
) -> None:
    good = [written(1, "10.50", 0), written(None, "0.01", 1)]
    head, said = b"", f"schema = '{json.dumps(SCHEMA)}'"
    if numbered:
        head, said = struct.pack(">bI", 0, 7), f"registry = '{registry}'"
    broken = [struct.pack(">bI", 0, 8) + good[0], good[0], b""] if numbered else [b"\xff\xff\xff", b""]
    topic = broker.topic(f"avro-{numbered}")
    broker.send(topic, [*(head + g for g in good), *broken])
    found = recorded(
        spark, broker, topic, "a INT, d DECIMAL(6, 2), t TIMESTAMP", f"format = 'avro', {said}",
        "SELECT a, d FROM S WINDOW(RANGE 1 HOUR)",
    )  # fmt: skip
    answer = {tuple(r) for r in found.at(moment(1)).collect()}
    assert answer == {(1, Decimal("10.50")), (None, Decimal("0.01"))}
    assert found.quarantine().count() == len(broken)


def test_given_offsets_and_verification(spark: SparkSession, broker: Broker) -> None:
    topic = broker.topic("given", 2)
    for p in range(2):
        broker.send(topic, [message(a=2 * i + p, t=2 * i + p) for i in range(100)], p)
    tg = tidegate.connect(spark, partitions=2)
    options = 'starting_offsets = \'{"0": 10}\', ending_offsets = \'{"0": 60, "1": 100}\''
    stream(tg, broker, topic, "a INT, t BIGINT", options)
    query = tg.query("SELECT a % 2 AS odd, COUNT(*) AS n FROM S WINDOW(RANGE 50) GROUP BY a % 2")
    assert not query.is_live
    result = query.run()
    # Even numbers are in partition 0, from its message 10 (20) to 59 (118); odd ones all up to 199.
    assert rows(result.at(30)) == [(0, 6), (1, 15)]
    assert rows(result.at(199)) == [(1, 25)]
    assert query.verify()


def test_a_stream_that_begins_at_the_end_keeps_its_beginning_over_a_restart(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    topic = broker.topic("latest")
    broker.send(topic, [message(a=100, t=1)])

    def started() -> Any:
        tg = tidegate.connect(spark, partitions=2, state=str(tmp_path))
        stream(tg, broker, topic, "a INT, t BIGINT", "format = 'json'")
        query = tg.query("SELECT COUNT(*) AS n, SUM(a) AS s FROM S WINDOW(RANGE UNBOUNDED)")
        assert query.is_live
        return query.start(name="q", begin=False)

    first = started()
    first.run.drain()
    first.run.stop()
    broker.send(topic, [message(a=7, t=2), message(a=8, t=3)])
    second = started()
    second.finish()
    assert rows(second.at(3)) == [(2, 15)]


def test_a_broker_that_is_killed_is_waited_for(spark: SparkSession, broker: Broker) -> None:
    topic = broker.topic("away")
    broker.send(topic, [message(a=1, t=1)])
    tg = tidegate.connect(spark, partitions=2)
    stream(tg, broker, topic, "a INT, t BIGINT", "starting_offsets = 'earliest'")
    handle = tg.query("SELECT COUNT(*) AS n FROM S WINDOW(RANGE UNBOUNDED)").start(name="q", epoch=0.05)

    def read() -> int:
        return int(handle.status()["sources"].get("S", {"rows": 0})["rows"])

    until(lambda: read() == 1, 120)
    broker.stop(kill=True)
    try:
        until(lambda: "S" in handle.status()["away"], 120)
    finally:
        broker.start()
    broker.send(topic, [message(a=2, t=2), message(a=3, t=3)])
    until(lambda: read() == 3, 120)
    assert handle.status()["away"] == {}
    handle.stop()


def test_messages_that_are_gone_are_told(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    topic = broker.topic("gone")

    def started() -> Any:
        tg = tidegate.connect(spark, partitions=2, state=str(tmp_path))
        stream(tg, broker, topic, "a INT, t BIGINT", "starting_offsets = 'earliest'")
        return tg.query("SELECT a FROM S WINDOW(RANGE UNBOUNDED)").start(name="q", begin=False)

    broker.send(topic, [message(a=i, t=i) for i in range(4)])
    first = started()
    first.run.drain()
    first.run.stop()
    broker.send(topic, [message(a=i, t=i) for i in range(4, 10)])
    admin = AdminClient({"bootstrap.servers": broker.servers})
    next(iter(admin.delete_records([TopicPartition(topic, 0, 6)]).values())).result(30)
    second = started()
    with pytest.raises(Diagnostic, match="are gone"):
        second.run.drain()
    second.run.stop()


@pytest.mark.parametrize(
    ("options", "condition"),
    [
        ("record_time = 'a'", "INVALID_OPTION"),
        ("record_key = 'nobody'", "INVALID_OPTION"),
        ("starting_offsets = 'noon'", "INVALID_OPTION"),
        ("ending_offsets = '[1]'", "INVALID_OPTION"),
        ("kafka.sasl.jaas.config = 'Plain required'", "INVALID_OPTION"),
        ("kafka.fetch.wait.max.ms = 'soon'", "INVALID_OPTION"),
        ("kafka.no.such.setting = '1'", "INVALID_OPTION"),
    ],
)
def test_what_is_said_wrongly(spark: SparkSession, broker: Broker, options: str, condition: str) -> None:
    topic = broker.topic(f"wrong-{options.split(maxsplit=1)[0]}-{len(options)}")
    tg = tidegate.connect(spark, partitions=2)
    stream(tg, broker, topic, "a INT, t BIGINT", options)
    query = tg.query("SELECT a FROM S WINDOW(RANGE 5)")
    with pytest.raises(Diagnostic) as told:
        query.run() if "ending" in options else query.start(begin=False).run.drain()
    assert told.value.condition == condition


def test_no_topic(spark: SparkSession, broker: Broker) -> None:
    tg = tidegate.connect(spark, partitions=2)
    stream(tg, broker, "nowhere", "a INT, t BIGINT", "ending_offsets = 'latest'")
    with pytest.raises(Diagnostic, match="there is no topic 'nowhere'"):
        tg.query("SELECT a FROM S WINDOW(RANGE 5)").run()


@pytest.mark.parametrize("mode", ["changes", "upsert"])
def test_answers_go_from_topic_to_topic_over_restarts(
    spark: SparkSession, broker: Broker, tmp_path: Path, mode: str
) -> None:
    """Readers of what is committed see every change of the definition once, whatever epochs and restarts there were."""
    came, went = broker.topic(f"in-{mode}"), broker.topic(f"out-{mode}")
    given = [{"k": i % 3, "v": i * 7 % 11, "t": i} for i in range(60)]
    text = "SELECT k, MAX(v) AS top FROM S WINDOW(RANGE 7) GROUP BY k"
    for at in range(0, 60, 20):
        broker.send(came, [message(**row) for row in given[at : at + 20]])
        tg = tidegate.connect(spark, partitions=2, state=str(tmp_path))
        options = "starting_offsets = 'earliest', max_offsets_per_trigger = 6"
        stream(tg, broker, came, "k INT, v INT, t BIGINT", options)
        handle = tg.sql(
            f"INSERT INTO kafka('{broker.servers}', '{went}') WITH (key = 'k', mode = '{mode}') SELECT STREAMED {text[7:]}"
        )
        until(lambda h=handle, n=at + 20: h.status()["sources"].get("S", {"rows": 0})["rows"] == n, 120)
        tg.close()
    messages = broker.committed(went)
    reference = tidegate.connect(spark, partitions=2)
    reference.stream("S", given, ordered_by="t", schema="k INT, v INT, t BIGINT")
    final = 58  # the topic promises up to its newest row
    expected = [
        tuple(r)
        for r in reference.query(f"SELECT STREAMED {text[7:]}").run().changes().collect()
        if r.ts <= final
    ]
    if mode == "changes":
        told = [json.loads(m.value()) for m in messages]
        found = [(m["op"], m["k"], m["top"], m["ts"]) for m in told]
        assert sorted(map(str, found)) == sorted(map(str, expected))
        assert [m["ts"] for m in told] == sorted(m["ts"] for m in told)
    else:
        table: dict[bytes, Any] = {}
        for m in messages:
            table.pop(m.key(), None) if m.value() is None else table.__setitem__(
                m.key(), json.loads(m.value())["top"]
            )
        at_end = reference.query(text).run().at(final).collect()
        assert {json.dumps({"k": r.k}).replace(" ", "").encode(): r.top for r in at_end} == table
