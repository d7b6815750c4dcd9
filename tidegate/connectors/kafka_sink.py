"""`INSERT INTO kafka('servers', 'topic') …`: each epoch is one transaction, which holds its number too.

The number stands in the compacted topic `<topic>.tidegate`, beside the owner's mark. Whoever opens the sink first ends what a dead program
left unfinished (`init_transactions`), which shuts out a program that still lives; then it reads the number. So an epoch is
there whole, once, or not at all, for those who read what is committed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal
from uuid import uuid4

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

from tidegate.connectors.kafka import library_settings
from tidegate.connectors.protocol import ANSWER, Sink, form_of
from tidegate.connectors.topics import client, library
from tidegate.errors import Diagnostic
from tidegate.language.signatures import Option, Signature
from tidegate.spark.values import quote

SUFFIX = ".tidegate"
_SECONDS = 30.0

Message = tuple[str | None, str | None]
"""A key and a value; without a value it is a tombstone."""


@dataclass
class KafkaSink:
    """A topic that holds the answer of one query."""

    servers: str
    topic: str
    settings: Mapping[str, str]
    key: tuple[str, ...] = ()
    upsert: bool = False
    form: Literal["changes", "complete"] = "changes"
    _producer: Any = None
    _noted: tuple[str, int] | None = None
    _claimed: str = ""
    _kafka: Any = field(default_factory=library)

    @property
    def place(self) -> str:
        return f"the topic '{self.topic}' of {self.servers}"

    @property
    def owner(self) -> str | None:
        noted = self._noted or self._read()
        return None if noted is None else noted[0]

    def claim(self, owner: str) -> None:
        if self.owner not in (None, owner):
            return
        self._open(owner)
        if self._noted is None:
            self.deliver(0, ())

    def has(self, epoch: int) -> bool:
        return self._noted is not None and epoch <= self._noted[1]

    def write(self, epoch: int, changes: DataFrame) -> None:
        self.deliver(epoch, self._messages(changes))

    def deliver(self, epoch: int, messages: Iterable[Message]) -> None:
        """Take the messages of an epoch in one transaction with its number."""
        if self._producer is None:
            self._open(self._claimed)
            if self.has(epoch) and epoch:
                return
        with self._named(epoch):
            self._producer.begin_transaction()
            for key, value in messages:
                self._produce(self.topic, key, value)
            note = json.dumps({"owner": self._claimed, "epoch": epoch})
            self._produce(self.topic + SUFFIX, "tidegate", note)
            self._producer.commit_transaction(_SECONDS)
        self._noted = self._claimed, epoch

    def _produce(self, topic: str, key: str | None, value: str | None) -> None:
        while True:
            try:
                self._producer.produce(topic, value, key)
            except BufferError:
                self._producer.poll(0.1)
            else:
                self._producer.poll(0)
                return

    @contextmanager
    def _named(self, epoch: int) -> Iterator[None]:
        """What fails is told; the next attempt begins with a producer of its own, which ends what this one has left."""
        try:
            yield
        except self._kafka.KafkaException as problem:
            self._producer = None
            error = problem.args[0]
            fenced = error.code() in (
                self._kafka.KafkaError._FENCED,
                self._kafka.KafkaError.PRODUCER_FENCED,
                self._kafka.KafkaError.INVALID_PRODUCER_EPOCH,
            )
            raise Diagnostic(
                "SINK_FAILED",
                f"{self.place} does not take epoch {epoch}: {error.str()}",
                help="another program writes the same answer: let one of them run"
                if fenced
                else "what was not taken is written when the query goes on",
            ) from None

    def _open(self, owner: str) -> None:
        """Be the one who writes, and learn what was written."""
        self._claimed = owner
        self._make_topic()
        with self._named(0):
            producer = client(
                self._kafka.Producer,
                {
                    "linger.ms": 5,
                    **self.settings,
                    "transactional.id": f"tidegate.{self.topic}.{owner}",
                    "enable.idempotence": True,
                },
            )
            producer.init_transactions(_SECONDS)
            # Whoever sees this record sees all that was committed before it: a broker that has just come back may show less at first.
            mark = uuid4().hex
            producer.begin_transaction()
            producer.produce(self.topic + SUFFIX, mark, "opened")
            producer.commit_transaction(_SECONDS)
        self._producer = producer
        self._noted = self._read(mark)

    def _make_topic(self) -> None:
        from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

        name = self.topic + SUFFIX
        admin = client(AdminClient, self.settings)
        with self._named(0):
            topics = admin.list_topics(timeout=_SECONDS).topics
            if self.topic not in topics:
                raise Diagnostic("SINK_FAILED", f"there is no topic '{self.topic}'", help="make it first")
            if name not in topics:
                made = NewTopic(name, 1, config={"cleanup.policy": "compact"})
                admin.create_topics([made])[name].result(_SECONDS)

    def _read(self, mark: str | None = None) -> tuple[str, int] | None:
        """Who has written last, and which epoch, as those see it who read what is committed: to the end, or to a mark."""
        name, errors = self.topic + SUFFIX, self._kafka.KafkaError
        reader = client(
            self._kafka.Consumer,
            {
                "group.id": "tidegate",
                **self.settings,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "enable.auto.commit": False,
            },
        )
        try:
            with self._named(0):
                if name not in reader.list_topics(timeout=_SECONDS).topics:
                    return None
                reader.assign([self._kafka.TopicPartition(name, 0, self._kafka.OFFSET_BEGINNING)])
                latest = None
                while True:
                    found = [m for m in [reader.poll(_SECONDS)] if m is not None]
                    if not found:
                        raise Diagnostic("SINK_FAILED", f"{self.place} does not answer")
                    for message in found:
                        error = message.error()
                        if error is None and message.key() == b"tidegate":
                            latest = json.loads(message.value())
                        elif error is None and message.value() != (mark or "").encode():
                            continue
                        elif error is None:
                            return None if latest is None else (latest["owner"], latest["epoch"])
                        elif error.code() == errors._PARTITION_EOF:
                            if mark is not None:
                                continue
                            return None if latest is None else (latest["owner"], latest["epoch"])
                        elif not error.retriable():
                            raise self._kafka.KafkaException(error)
        finally:
            reader.close()

    def _messages(self, changes: DataFrame) -> Iterator[Message]:
        members = ", ".join(quote(c) for c in changes.columns)
        texts = "map('ignoreNullFields', 'false')"
        keys = ", ".join(quote(c) for c in self.key)
        key = f"to_json(struct({keys}), {texts})" if keys else "CAST(NULL AS STRING)"
        gone = self.upsert and self.form == "changes"
        op = "op" if gone else "''"
        value = f"to_json(struct({members}), {texts})"
        table = changes.select(
            F.expr(key).alias("key"), F.expr(value).alias("value"), F.expr(op).alias("op")
        ).toArrow()
        for k, v, o in zip(*(table[n].to_pylist() for n in ("key", "value", "op")), strict=True):
            yield k, None if gone and o == "-" else v


SIGNATURE = Signature(
    "kafka",
    (Option("servers"), Option("topic")),
    (
        ANSWER,
        Option("key", meaning="the columns of the answer that are a message's key, separated by commas"),
        Option(
            "mode",
            "choice",
            "whether a row that goes is a message ('changes', the default) or a tombstone of its key ('upsert')",
            ("changes", "upsert"),
        ),
    ),
    2,
    further=("kafka.",),
    meaning="messages of a topic, one transaction for each epoch",
)


@dataclass(frozen=True)
class KafkaSinks:
    """Topics as sinks."""

    signature: Signature = SIGNATURE

    def open(self, arguments: Sequence[Any], settings: dict[str, str]) -> Sink:
        servers, topic = (str(a) for a in arguments)
        key = tuple(name.strip() for name in settings.get("key", "").split(",") if name.strip())
        upsert = settings.get("mode") == "upsert"
        if upsert and not key:
            raise Diagnostic(
                "WRONG_ARGUMENTS", "tombstones need a key", help="WITH (mode = 'upsert', key = 'column')"
            )
        own = library_settings(servers, settings)
        return KafkaSink(servers, topic, own, key, upsert, form_of(settings))
