"""`kafka('servers', 'topic')`: messages of a topic, by librdkafka; no jar is needed.

Live, the run asks for messages after the offsets that stand in its own state. Recorded, a topic is read to the end that it has when it
is read first. `spark('kafka', …)` is Spark's own connector, for those who have it.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from tidegate.connectors.avro_messages import avro_decoder
from tidegate.connectors.lines import SEPARATOR
from tidegate.connectors.memory import read_inbox, read_taken
from tidegate.connectors.messages import (
    Decoder,
    csv_decoder,
    debezium_decoder,
    json_decoder,
    raw_decoder,
)
from tidegate.connectors.protocol import Source, SourceAwayError, Traits
from tidegate.connectors.raw import CORRUPT, POSITION, REASON, RawStream, shaped
from tidegate.connectors.topics import Reader, Recipe
from tidegate.errors import Diagnostic
from tidegate.language.catalog import StreamDefinition
from tidegate.language.signatures import Option, Signature
from tidegate.spark.values import schema_ddl
from tidegate.types import Schema

IDLE = 5.0
"""Seconds after which a silent partition holds nobody back, where the stream says nothing else."""
_READERS = 16


class Kafka(Source):
    signature = Signature(
        "kafka",
        (Option("servers"), Option("topic")),
        (
            Option(
                "format",
                "choice",
                "what a message is, 'json' by default; 'raw': its bytes, in a column value BINARY or STRING",
                ("json", "csv", "debezium", "avro", "raw"),
            ),
            SEPARATOR,
            Option("schema", meaning="of Avro messages, as JSON"),
            Option("registry", meaning="the address of a schema registry, of Avro messages"),
            Option("record_time", meaning="the TIMESTAMP column that the record's own time fills"),
            Option("record_key", meaning="the STRING column that the record's key fills"),
            Option(
                "starting_offsets",
                meaning="where to begin: 'latest' by default ('earliest' where the end is said), 'earliest', or offsets, as '{\"0\": 17}'",
            ),
            Option(
                "ending_offsets",
                meaning="where the topic ends, which is then a recorded stream: 'latest', or offsets, as '{\"0\": 17}'",
            ),
            Option("max_offsets_per_trigger", "integer", "so many messages in one epoch, about"),
        ),
        2,
        further=("kafka.",),
        meaning="messages of a topic",
    )
    traits = Traits()
    inbox = True
    polled = True

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[tuple[Any, ...], Reader] = {}
        """Readers by what they read and the offsets that they have come to: whoever asks from there may have them."""
        self._ends: dict[tuple[Any, ...], dict[int, int]] = {}

    def has_end(self, definition: StreamDefinition) -> bool:
        """A topic is followed, unless it is said where it ends."""
        return definition.table or "ending_offsets" in self.signature.settings(definition.source.options)

    def foresee(self, definition: StreamDefinition, live: bool) -> None:
        self._reader(definition).close()

    def close(self, definition: StreamDefinition) -> None:
        with self._lock:
            mine = [k for k in self._open if k[:2] == (definition.name, definition.source)]
            closed = [self._open.pop(key) for key in mine]
        for reader in closed:
            reader.close()

    def __reduce__(self) -> tuple[Any, ...]:
        """In a task nobody is connected yet."""
        return (Kafka, ())

    def recorded(self, spark: SparkSession, definition: StreamDefinition, data: Any = None) -> RawStream:
        reader = self._reader(definition)
        try:
            table = self._whole(reader, definition)
        except SourceAwayError as problem:
            raise Diagnostic("SOURCE_FAILED", f"'{definition.name}': {problem}") from None
        finally:
            reader.close()
        frame = (
            spark.createDataFrame(table) if table.num_rows else spark.createDataFrame([], _ddl(definition))
        )
        return shaped(definition, frame, "''", "0", POSITION)

    def _whole(self, reader: Reader, definition: StreamDefinition) -> pa.Table:
        bounds, settings = reader.bounds(), self.signature.settings(definition.source.options)
        key = (definition.source, definition.columns, definition.entered)
        ends = self._ends.setdefault(
            key, _offsets(settings.get("ending_offsets", "latest"), bounds, "ending_offsets")
        )
        starts = _offsets(settings.get("starting_offsets", "earliest"), bounds, "starting_offsets")
        reader.begin({p: o for p, o in starts.items() if o < ends[p]})
        left = {p: ends[p] for p in reader.parts}
        tables = []
        while left and (found := reader.ask(left)) is not None:
            tables.append(found)
        if not tables:
            return pa.table({})
        whole = pa.concat_tables(tables).drop_columns([POSITION])
        return whole.append_column(POSITION, pa.array(range(whole.num_rows), pa.int64()))

    def live(self, spark: SparkSession, definition: StreamDefinition, inbox: str | None = None) -> RawStream:
        assert inbox is not None
        return read_inbox(spark, definition, inbox, _ddl(definition))

    def taken(self, spark: SparkSession, definition: StreamDefinition, folder: str) -> RawStream:
        return read_taken(spark, definition, folder, _ddl(definition))

    def poll(self, definition: StreamDefinition, offset: Any) -> tuple[Any, Any] | None:
        what = (definition.name, definition.source, definition.columns, definition.idle)
        with self._lock:
            reader = self._open.pop((*what, _text(offset)), None)
        if reader is None:
            reader = self._reader(definition)
            try:
                begin = self._begin(reader, definition, offset)
            except BaseException:
                reader.close()
                raise
            if begin != offset:
                # Where it began is stored, so that a restart does not begin at a later end.
                self._keep((*what, _text(begin)), reader)
                return _nothing(definition), begin
        try:
            rows = reader.ask()
        except SourceAwayError:
            self._keep((*what, _text(offset)), reader)
            raise
        except BaseException:
            reader.close()
            raise
        after = reader.offsets
        self._keep((*what, _text(after)), reader)
        if rows is None and after == offset:
            return None
        return (_nothing(definition) if rows is None else rows), after

    def _begin(self, reader: Reader, definition: StreamDefinition, offset: Any) -> dict[str, int]:
        if offset is None:
            settings = self.signature.settings(definition.source.options)
            asked = settings.get("starting_offsets", "latest")
            begin = _offsets(asked, reader.bounds(), "starting_offsets")
        else:
            # A partition that was added later is read from its beginning.
            begin = {p: int(offset.get(str(p), 0)) for p in reader.partitions()}
        reader.begin(begin)
        return reader.offsets

    def _keep(self, key: tuple[Any, ...], reader: Reader) -> None:
        with self._lock:
            closed = [self._open.pop(key, None)]
            self._open[key] = reader
            if len(self._open) > _READERS:
                closed.append(self._open.pop(next(iter(self._open))))
        for old in closed:
            if old is not None:
                old.close()

    def _reader(self, definition: StreamDefinition) -> Reader:
        servers, topic = (str(a) for a in definition.source.arguments)
        settings = self.signature.settings(definition.source.options)
        idle = IDLE if definition.idle is None else definition.idle / 1e6
        most = int(settings.get("max_offsets_per_trigger", "200000"))
        return Reader(library_settings(servers, settings), topic, self._recipe(definition), idle, most)

    def _recipe(self, definition: StreamDefinition) -> Recipe:
        settings = self.signature.settings(definition.source.options)
        key = _named(definition.columns, settings, "record_key", "STRING")
        moment = _named(definition.columns, settings, "record_time", "TIMESTAMP")
        told = tuple(c for c in definition.columns if c.name not in (key, moment))
        time = None
        if not definition.table and not definition.stamped and definition.by_clock is None:
            time = definition.time_column
        return Recipe(definition.columns, _decoder(told, settings), key, moment, time)


def _decoder(columns: Schema, settings: Mapping[str, str]) -> Decoder:
    form = settings.get("format", "json")
    if form == "avro":
        return avro_decoder(columns, settings.get("schema"), settings.get("registry"))
    if form == "csv":
        return csv_decoder(columns, settings.get("separator", ","))
    return {"json": json_decoder, "debezium": debezium_decoder, "raw": raw_decoder}[form](columns)


def _named(columns: Schema, settings: Mapping[str, str], option: str, type_: str) -> str | None:
    """The column that an option names, which must be declared."""
    name = settings.get(option)
    if name is None:
        return None
    found = next((c for c in columns if c.name.lower() == name.lower()), None)
    if found is None or found.type.name != type_:
        raise Diagnostic("INVALID_OPTION", f"'{option}' names no column of type {type_}: '{name}'")
    return found.name


def library_settings(servers: str, settings: Mapping[str, str]) -> dict[str, str]:
    """What librdkafka is told: the servers, and the options that begin with `kafka.`, without that."""
    own = {n[len("kafka.") :]: v for n, v in settings.items() if n.lower().startswith("kafka.")}
    return {**own, "bootstrap.servers": servers}


def _offsets(asked: str, bounds: Mapping[int, tuple[int, int]], option: str) -> dict[int, int]:
    """The offset of each partition that an option asks for."""
    if asked in ("earliest", "latest"):
        return {p: bound[asked == "latest"] for p, bound in bounds.items()}
    try:
        given = {int(p): int(o) for p, o in json.loads(asked).items()}
    except (ValueError, AttributeError, TypeError):
        raise Diagnostic(
            "INVALID_OPTION",
            f"'{asked}' is no value of '{option}'",
            help="it takes 'earliest', 'latest', or offsets by partition, as '{\"0\": 17}'",
        ) from None
    return {p: min(max(given.get(p, first), first), last) for p, (first, last) in bounds.items()}


def _text(offset: Any) -> str:
    return json.dumps(offset, sort_keys=True)


def _nothing(definition: StreamDefinition) -> pa.Table:
    return pa.table({})


def _ddl(definition: StreamDefinition) -> str:
    return f"{schema_ddl(definition.columns)}, {CORRUPT} STRING, {REASON} STRING, {POSITION} BIGINT"
