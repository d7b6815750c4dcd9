"""A Kafka broker of its own for tests: KRaft mode, one node, on loopback."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
JARS = ROOT / "build" / "servers" / "kafka" / "lib"
SECONDS = 90


class MissingServerError(Exception):
    """Why there is no broker on this machine."""


def fetch() -> None:
    """Fetch the broker's jars if they are not there."""
    if shutil.which("java") is None:
        raise MissingServerError("there is no java")
    found = subprocess.run(
        [str(ROOT / "scripts/servers/kafka.sh")], capture_output=True, text=True, check=False
    )
    if found.returncode != 0:
        raise MissingServerError(f"the broker cannot be fetched: {found.stderr.strip()[-300:]}")


def _free_port() -> int:
    """A port of the loopback that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@dataclass
class Broker:
    """A broker with its data in a folder; it may be stopped, killed and started again at the same address."""

    folder: Path
    port: int = field(default_factory=_free_port)
    controller: int = field(default_factory=_free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    def format(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "server.properties").write_text(_properties(self))
        identity = self._java("kafka.tools.StorageTool", "random-uuid").strip().splitlines()[-1]
        self._java("kafka.tools.StorageTool", "format", "-t", identity, "-c", self._settings)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        log = (self.folder / "log.txt").open("ab")
        self.process = subprocess.Popen(
            [*_JAVA, "-Xmx512m", "-cp", f"{JARS}/*", "kafka.Kafka", self._settings], stdout=log, stderr=log
        )
        until = time.monotonic() + SECONDS
        while not self._answers():
            assert self.process.poll() is None, (self.folder / "log.txt").read_text()[-3000:]
            assert time.monotonic() < until, "the broker does not answer"

    def stop(self, kill: bool = False) -> None:
        if self.process is not None:
            (self.process.kill if kill else self.process.terminate)()
            self.process.wait(60)
            self.process = None

    def topic(self, name: str, partitions: int = 1) -> str:
        """Make a topic."""
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient({"bootstrap.servers": self.servers})
        admin.create_topics([NewTopic(name, partitions, 1)])[name].result(30)
        return name

    def send(self, topic: str, values: list[Any], partition: int | None = None, **more: Any) -> None:
        """Produce messages, and wait until they are there; a pair is a key and a value."""
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self.servers, "linger.ms": 5})
        place = {} if partition is None else {"partition": partition}
        for each in values:
            key, value = each if isinstance(each, tuple) else (None, each)
            producer.produce(topic, value, key, **place, **more)
            producer.poll(0)
        assert producer.flush(60) == 0

    def committed(self, topic: str) -> list[Any]:
        """All messages of a topic that a reader of committed ones sees, by partition."""
        from confluent_kafka import Consumer, KafkaError, TopicPartition

        reader = Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": "judge",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "enable.auto.commit": False,
            }
        )
        try:
            parts = reader.list_topics(topic, 30).topics[topic].partitions
            reader.assign([TopicPartition(topic, p, 0) for p in parts])
            found: list[Any] = []
            ended: set[int] = set()
            until = time.monotonic() + SECONDS
            while len(ended) < len(parts):
                assert time.monotonic() < until, "the topic has no end"
                for message in reader.consume(10_000, 0.1):
                    if message.error() is None:
                        found.append(message)
                    elif message.error().code() == KafkaError._PARTITION_EOF:
                        ended.add(message.partition())
            return sorted(found, key=lambda m: (m.partition(), m.offset()))
        finally:
            reader.close()

    @property
    def _settings(self) -> str:
        return str(self.folder / "server.properties")

    def _answers(self) -> bool:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        try:
            AdminClient({"bootstrap.servers": self.servers, "log_level": 0}).list_topics(timeout=1)
        except KafkaException:
            return False
        return True

    def _java(self, *words: str) -> str:
        return subprocess.run(
            [*_JAVA, "-cp", f"{JARS}/*", *words], capture_output=True, text=True, check=True
        ).stdout


_JAVA = ("java", "-XX:TieredStopAtLevel=1")


def _properties(broker: Broker) -> str:
    lines = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": f"PLAINTEXT://127.0.0.1:{broker.port},CONTROLLER://127.0.0.1:{broker.controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{broker.port}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"1@127.0.0.1:{broker.controller}",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        "auto.create.topics.enable": "false",
        "log.dirs": os.fspath(broker.folder / "data"),
    }
    return "".join(f"{name}={value}\n" for name, value in lines.items())
