"""Reading a topic's partitions by librdkafka, which fetches all of them at once in threads of its own.

Rows are given out up to the instant that every partition has reached, so a slow partition holds time back: what others have
beyond it waits here, and the next offset is that of the first message that waits. A partition whose end was reached and
that has been silent for its idle time holds nobody back.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.connectors.messages import Decoder
from tidegate.connectors.protocol import SourceAwayError
from tidegate.connectors.raw import CORRUPT, POSITION, REASON
from tidegate.errors import Diagnostic
from tidegate.types import Schema

OFFSET, TICK = "_tidegate_offset", "_tidegate_tick"
SECONDS = 10.0
"""So long a broker that does not answer is waited for."""
_MOST_WAITING = 500_000


@dataclass(frozen=True)
class Recipe:
    """How messages become rows: the columns of their values, and which columns the record itself fills."""

    columns: Schema
    decoder: Decoder
    key: str | None = None
    moment: str | None = None
    time: str | None = None
    """The column that orders rows; None: none holds time back."""


@dataclass
class Partition:
    """What is known of one partition."""

    next: int
    """The offset of the first message that was not given out."""
    rows: list[pa.Table] = field(default_factory=list)
    newest: int | None = None
    heard: float = 0.0
    ended: bool = False
    position: int = 0


class Reader:
    """A consumer of one topic."""

    def __init__(
        self, settings: Mapping[str, str], topic: str, recipe: Recipe, idle: float, most: int
    ) -> None:
        self.topic, self.recipe, self.idle, self.most = topic, recipe, idle, most
        self.problem: str | None = None
        self.parts: dict[int, Partition] = {}
        self.used = time.monotonic()
        self.kafka = library()
        self.consumer = client(
            self.kafka.Consumer,
            {
                "group.id": "tidegate",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 50,
                **settings,
                "error_cb": self._told,
            },
        )

    def _told(self, error: Any) -> None:
        if error.code() in (self.kafka.KafkaError._ALL_BROKERS_DOWN, self.kafka.KafkaError._TRANSPORT):
            self.problem = error.str()

    def partitions(self) -> list[int]:
        """The topic's partitions as they are now."""
        try:
            found = self.consumer.list_topics(self.topic, SECONDS).topics[self.topic]
        except self.kafka.KafkaException as problem:
            raise SourceAwayError(f"Kafka cannot be reached: {problem.args[0].str()}") from None
        if found.error is not None or not found.partitions:
            raise Diagnostic(
                "SOURCE_NOT_FOUND", f"there is no topic '{self.topic}'", help="make it, or mend its name"
            )
        return sorted(found.partitions)

    def bounds(self) -> dict[int, tuple[int, int]]:
        """The first offset of each partition, and the one after its last."""
        try:
            return {
                p: self.consumer.get_watermark_offsets(self.kafka.TopicPartition(self.topic, p), SECONDS)
                for p in self.partitions()
            }
        except self.kafka.KafkaException as problem:
            raise SourceAwayError(f"Kafka cannot be reached: {problem.args[0].str()}") from None

    def begin(self, offsets: Mapping[int, int]) -> None:
        """Read from these offsets on."""
        now = time.monotonic()
        self.parts = {p: Partition(o, heard=now, position=o) for p, o in offsets.items()}
        self.consumer.assign([self.kafka.TopicPartition(self.topic, p, o) for p, o in offsets.items()])

    @property
    def offsets(self) -> dict[str, int]:
        """The next offset of each partition, as it is stored."""
        return {str(p): part.next for p, part in sorted(self.parts.items())}

    def ask(self, ends: Mapping[int, int] | None = None) -> pa.Table | None:
        """The next rows that may be given out; None: there are none now. With `ends` it reads to them, and nothing waits."""
        self.used = begun = time.monotonic()
        while True:
            came = self._fetch(self.most, 0.01)
            taken = self._given(ends)
            if taken is not None:
                self.problem = None
                return taken
            done = (
                all(self.parts[p].position >= end for p, end in ends.items())
                if ends is not None
                else all(p.ended or p.rows for p in self.parts.values())
            )
            if done:
                if self.problem is not None and not came and not self._alive():
                    raise SourceAwayError(f"Kafka cannot be reached: {self.problem}")
                self.problem = None
                return None
            if time.monotonic() - begun > SECONDS:
                raise SourceAwayError(f"Kafka does not answer: {self.problem or 'no messages come'}")

    def _alive(self) -> bool:
        try:
            self.consumer.list_topics(self.topic, 1.0)
        except self.kafka.KafkaException:
            return False
        return True

    def _fetch(self, most: int, wait: float) -> int:
        """Take in messages that have come; how many."""
        found: dict[int, list[Any]] = {}
        ended: dict[int, int] = {}
        count = 0
        while count < most:
            messages = self.consumer.consume(min(most - count, 50_000), wait)
            for message in messages:
                error = message.error()
                if error is None:
                    found.setdefault(message.partition(), []).append(message)
                    ended.pop(message.partition(), None)
                    count += 1
                elif error.code() == self.kafka.KafkaError._PARTITION_EOF:
                    ended[message.partition()] = message.offset()
                else:
                    self._refuse(message, error)
            if len(messages) < 1000:
                break
        for number, messages in found.items():
            self._take(self.parts[number], number, messages)
        for number, offset in ended.items():
            part = self.parts[number]
            part.ended, part.position = True, max(part.position, offset)
        return count

    def _refuse(self, message: Any, error: Any) -> None:
        codes = self.kafka.KafkaError
        if error.code() in (codes._AUTO_OFFSET_RESET, codes.OFFSET_OUT_OF_RANGE):
            raise Diagnostic(
                "SOURCE_GONE",
                f"messages of '{self.topic}' that were not read are gone: {error.str()}",
                help="keep messages longer; begin anew with another state directory",
            )
        if error.retriable() or error.code() in (codes._ALL_BROKERS_DOWN, codes._TRANSPORT):
            self.problem = error.str()
            return
        raise Diagnostic("SOURCE_FAILED", f"the topic '{self.topic}' cannot be read: {error.str()}")

    def _take(self, part: Partition, number: int, messages: list[Any]) -> None:
        recipe = self.recipe
        rows, places = recipe.decoder.rows([m.value() for m in messages])
        offsets = pa.array([messages[i].offset() for i in places], pa.int64())
        if recipe.key is not None:
            keys = [messages[i].key() for i in places]
            rows = rows.append_column(
                recipe.key,
                pa.array([None if k is None else k.decode("utf-8", "replace") for k in keys], pa.string()),
            )
        if recipe.moment is not None:
            stamps = pa.array([messages[i].timestamp()[1] * 1000 for i in places], pa.int64())
            rows = rows.append_column(recipe.moment, stamps.cast(pa.timestamp("us", "UTC")))
        rows = rows.select([*(c.name for c in recipe.columns), CORRUPT, REASON])
        if rows[REASON].null_count < rows.num_rows:
            told = [
                r and f"{r}{'' if ':' in r else ':'} at {self.topic}/{number}@{o}"
                for r, o in zip(rows[REASON].to_pylist(), offsets.to_pylist(), strict=True)
            ]
            rows = rows.set_column(rows.column_names.index(REASON), REASON, pa.array(told, pa.string()))
        ticks = pa.nulls(rows.num_rows, pa.int64()) if recipe.time is None else _ticks(rows[recipe.time])
        rows = rows.append_column(OFFSET, offsets).append_column(TICK, ticks)
        newest = pc.max(rows[TICK]).as_py()
        if newest is not None:
            part.newest = newest if part.newest is None else max(part.newest, newest)
        part.heard, part.ended = time.monotonic(), False
        part.position = messages[-1].offset() + 1
        if rows.num_rows:
            part.rows.append(rows)
        elif not part.rows:
            part.next = part.position
        self._hold(number, part)

    def _hold(self, number: int, part: Partition) -> None:
        """Fetch no more of a partition of which much waits."""
        if sum(t.num_rows for t in part.rows) > _MOST_WAITING:
            self.consumer.pause([self.kafka.TopicPartition(self.topic, number)])

    def _frontier(self) -> int | None:
        """The instant that all partitions have reached which are not idle; None: nothing is held back."""
        if self.recipe.time is None or len(self.parts) == 1:
            return None
        now = time.monotonic()
        busy = [p for p in self.parts.values() if not (p.ended and now - p.heard >= self.idle)]
        newest = [p.newest for p in busy]
        if not busy:
            return None
        known = [n for n in newest if n is not None]
        return min(known) if len(known) == len(newest) else -(1 << 62)

    def _given(self, ends: Mapping[int, int] | None) -> pa.Table | None:
        frontier = self._frontier() if ends is None else None
        parts = []
        for number, part in sorted(self.parts.items()):
            if not part.rows:
                continue
            rows = pa.concat_tables(part.rows)
            if ends is not None:
                rows = rows.filter(pc.less(rows[OFFSET], ends[number]))
                rest = rows.slice(0, 0)
            else:
                cut = rows.num_rows if frontier is None else _first_after(rows[TICK], frontier)
                rows, rest = rows.slice(0, cut), rows.slice(cut)
            if rest.num_rows:
                part.rows, part.next = [rest], rest[OFFSET][0].as_py()
            else:
                part.rows, part.next = [], part.position
            if rows.num_rows:
                parts.append(rows)
                self.consumer.resume([self.kafka.TopicPartition(self.topic, number)])
        if not parts:
            return None
        whole = pa.concat_tables(parts).drop_columns([OFFSET, TICK])
        if whole[REASON].null_count == whole.num_rows and ends is None:
            whole = whole.drop_columns([CORRUPT, REASON])  # then it can be read as columns
        return whole.append_column(POSITION, pa.array(range(whole.num_rows), pa.int64()))

    def close(self) -> None:
        self.consumer.close()


def client(kind: Any, settings: Mapping[str, Any]) -> Any:
    """A consumer, producer or administrator; settings that librdkafka does not take are told before any broker is asked."""
    try:
        return kind({"log_level": 0, **settings})
    except library().KafkaException as problem:
        raise Diagnostic(
            "INVALID_OPTION",
            f"Kafka cannot be used with these options: {problem.args[0].str()}",
            help="options that begin with 'kafka.' are those of librdkafka, as kafka.sasl.mechanism, kafka.sasl.username",
        ) from None


def _ticks(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(pa.int64())


def _first_after(ticks: pa.ChunkedArray, frontier: int) -> int:
    """Where the first row beyond an instant is."""
    found = pc.index(pc.greater(ticks, frontier), pa.scalar(True)).as_py()
    return len(ticks) if found < 0 else int(found)


def library() -> Any:
    """The package that speaks with brokers."""
    try:
        import confluent_kafka
    except ImportError:
        raise Diagnostic(
            "PACKAGE_MISSING", "Kafka needs the package confluent-kafka", help="pip install 'tidegate[kafka]'"
        ) from None
    return confluent_kafka
