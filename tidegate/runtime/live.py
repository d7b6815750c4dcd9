"""Live queries: one Structured Streaming query feeds the graph, and each of its batches is one epoch.

Spark keeps the sources' offsets and replays a batch that was not finished; the graph's manifest says whether it
counted. A heartbeat among the sources makes every trigger an epoch, so that time passes while nobody speaks.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows
from pyspark.sql.streaming.query import StreamingQuery

from tidegate.algebra.operators import Node
from tidegate.connectors.memory import arrow_rows
from tidegate.connectors.raw import HEARTBEAT
from tidegate.connectors.registry import SOURCES
from tidegate.connectors.sinks import Sink
from tidegate.connectors.sources import RawStream, read_live
from tidegate.errors import Diagnostic, foreign
from tidegate.language.catalog import StreamDefinition
from tidegate.language.statements import check_call
from tidegate.redaction import masked
from tidegate.runtime import checkpoint
from tidegate.runtime.batches import Batch, combine
from tidegate.runtime.file_gate import FileGate, gate_of
from tidegate.runtime.graph import Joining, LiveGraph, Query
from tidegate.runtime.jobs import BrokenFileError, source_names
from tidegate.runtime.ledger import SourceProgress
from tidegate.runtime.polling import Polled
from tidegate.runtime.refusals import report
from tidegate.runtime.results import Result
from tidegate.spark.context import own_session
from tidegate.storage import name_in_path

LOG = logging.getLogger("tidegate")
_HEARTBEAT = -1
PATIENCE = 5.0
"""Seconds that a resumed graph waits for the queries that ran in it before until it says so."""


class LiveRun:
    """A graph that runs by itself: started, watched, stopped, and resumed on the same storage."""

    def __init__(self, graph: LiveGraph, every: float = 0.5) -> None:
        self.graph = graph
        self.every = every
        self._spark = _own_session(graph.spark)
        self._stream: StreamingQuery | None = None
        self._reading: tuple[str, ...] = ()
        self._layout: Batch | None = None
        self._stopping = False
        self._life = threading.RLock()
        self._waiting: threading.Timer | None = None
        self.failure: Diagnostic | None = None
        """What ended the run, if it has a name."""
        self._polled: dict[str, Polled] = {}
        self._gates: dict[str, FileGate] = {}
        self._ended = threading.Event()
        self._reported: Mapping[str, SourceProgress] = {}

    # Life.

    def begin(self) -> None:
        """Start as soon as all queries that the storage knows are here again; say which are not when patience ends."""
        with self._life:
            if not self.graph.missing():
                self.start()
            elif self._waiting is None:
                self._waiting = threading.Timer(PATIENCE, self._tell)
                self._waiting.daemon = True
                self._waiting.start()

    def _tell(self) -> None:
        with self._life:
            self.failure = self.graph.unclaimed() if self._waiting is not None else None
            if self.failure is not None:
                LOG.warning("%s", self.failure)

    def _wait_no_more(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _claimed(self) -> None:
        self._wait_no_more()
        if (unclaimed := self.graph.unclaimed()) is not None:
            raise unclaimed

    def start(self) -> None:
        """Begin, or go on where the storage says."""
        self._claimed()
        self._launch(processingTime=f"{max(0, round(self.every * 1000))} milliseconds")

    def drain(self) -> None:
        """Take in what the sources hold now, epoch by epoch, and return."""
        self._claimed()
        if self._stream is not None:
            # The heartbeat always has something to say, so waiting for the running stream would never end.
            self._halt()
            self.drain()
            self.start()
            return
        self._launch(availableNow=True)
        stream = self._stream
        assert stream is not None
        try:
            self._await(stream, None)
        finally:
            self._stream = None

    def stop(self, settled: bool = True) -> None:
        """Stop after the current epoch and let go of the directory; nothing is lost, a later start goes on.

        Not `settled`: it never began, so no query ends for good that was to end with it.
        """
        self._halt(settled)
        self.graph.release()

    def _halt(self, settled: bool = True) -> None:
        self._wait_no_more()
        stream, self._stream = self._stream, None
        if stream is not None:
            self._stopping = True
            with self.graph.lock:
                pass
            stream.stop()
        if settled:
            self.graph.settle()

    def report(self) -> None:
        """Say in the log what was refused so far; once."""
        sources = self.graph.ledger.latest.sources
        if sources != self._reported:
            self._reported = sources
            report(sources, self.graph.storage.path("quarantine"))

    def finish(self) -> None:
        """Take in what is there, stop, and make everything final."""
        self._halt()
        self.drain()
        self.graph.finish()
        self.graph.release()

    @property
    def is_active(self) -> bool:
        return self._waiting is not None or (self._stream is not None and self._stream.isActive)

    def wait(self, seconds: int | None = None) -> bool:
        """Wait for the end (or some seconds); True if the run has ended. Its failure is raised here."""
        waiting = self._waiting
        if waiting is not None:
            waiting.join(seconds)
        if self._waiting is not None:
            if self.failure is not None:
                raise self.failure
            return False
        with self._life:  # a timer may be starting the stream
            stream = self._stream
        if stream is None:
            return True
        # Not Spark is waited for but whoever watches it: Ctrl-C in the middle of a call to Java leaves it broken.
        return self._ended.wait(seconds) and self._await(stream, None)

    def _watch(self, stream: StreamingQuery) -> None:
        ended = self._ended = threading.Event()

        def watch() -> None:
            with suppress(Exception):  # whoever waits is told
                stream.awaitTermination()
            ended.set()

        threading.Thread(target=watch, name="tidegate-watch", daemon=True).start()

    def _await(self, stream: StreamingQuery, seconds: int | None) -> bool:
        try:
            return stream.awaitTermination(seconds) is not False
        except StreamingQueryException as problem:
            raise self.failure or foreign(problem) from None

    # Queries.

    def add(self, name: str, plan: Node, sinks: Sequence[Sink] = (), joining: Joining | None = None) -> Query:
        """Add a query between two epochs. A source that is not read yet is joined to the stream.

        What can be refused (rows that do not fit, a source that cannot be read) is tried before the query counts.
        """
        joining = joining or Joining()
        with self._life:
            read = source_names({name: plan}) - set(self.graph.streams())
            fresh = [d for n, d in joining.definitions.items() if n in read and not d.table]
            rows = {
                d.name: self._encoded(d, joining.data[d.name]) for d in fresh if self._is_new(d, joining.data)
            }
            for definition in fresh:
                if definition.source.function != "memory":
                    self._source(definition)
            known = name in self.graph.ledger.latest.queries
            query = self.graph.add(name, plan, sinks, joining)
            runs = self._stream is not None
            try:
                for stream, encoded in rows.items():
                    self._publish(stream, encoded)
                self._join()
            except BaseException:
                (self.graph.withdraw if known else self.graph.drop)(name)
                if runs and self._stream is None:
                    self.start()
                raise
            return query

    def _join(self) -> None:
        """Read what the queries read: begin, or begin again if there is a source more."""
        if self._waiting is not None:
            self.begin()
        elif self._stream is not None and not set(self.graph.streams()) <= set(self._reading):
            self._halt()
            self.start()

    def _is_new(self, definition: StreamDefinition, data: Mapping[str, Any]) -> bool:
        """Whether the first rows of a `memory` stream are still to be handed in: nothing was read of it, and nothing waits."""
        return (
            definition.source.function == "memory"
            and data.get(definition.name) is not None
            and definition.name not in self.graph.ledger.latest.sources
            and not self.graph.storage.names(f"inbox/{name_in_path(definition.name)}")
        )

    def drop(self, name: str) -> None:
        with self._life:
            self.graph.drop(name)
            if self._waiting is not None:
                self.begin()

    def result(self, name: str) -> Result:
        return self.graph.result(name)

    def status(self) -> dict[str, Any]:
        """The graph's figures, and whether it runs."""
        failure = self._stream.exception() if self._stream is not None else None
        return {
            **self.graph.status(),
            "files": {name: gate.status() for name, gate in self._gates.items()},
            "running": self.is_active,
            "waiting_for": self.graph.missing() if self._waiting is not None else [],
            "failure": None if (found := self.failure or failure) is None else masked(str(found)),
        }

    def push(self, name: str, rows: Any) -> None:
        """Hand rows to a `memory` source; they appear whole."""
        definition = self.graph.definitions[name]
        if definition.source.function != "memory":
            raise Diagnostic(
                "NOT_MEMORY", f"'{name}' reads from {definition.source.function}; rows cannot be handed in"
            )
        self._publish(name, self._encoded(definition, rows))

    def _encoded(self, definition: StreamDefinition, rows: Any) -> bytes:
        sink = pa.BufferOutputStream()
        pq.write_table(arrow_rows(definition, rows), sink)
        return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]

    def _publish(self, name: str, rows: bytes) -> None:
        file = f"{time.time_ns():020d}-{uuid.uuid4().hex[:8]}.parquet"
        self.graph.storage.publish(f"inbox/{name_in_path(name)}/{file}", rows)

    # The stream.

    def _launch(self, **trigger: Any) -> None:
        if self._stream is not None:
            raise Diagnostic("RUNNING", "the graph is running already")
        self._stopping, self.failure = False, None
        self.graph.hold()
        latest = self.graph.ledger.latest
        checkpoint.check(self.graph.storage, latest.checkpoint, latest.batch)
        checkpoint.clear(self.graph.storage)
        names = self.graph.streams()
        streams = [self._source(self.graph.definitions[n]) for n in names]
        self._polled = {
            n: self._polled.get(n) or self._asked(n)
            for n in names
            if SOURCES.named(self.graph.definitions[n].source).polled
        }
        # What is there now is asked for before Spark looks; a live run asks again after every epoch.
        while self._poll() and "availableNow" in trigger:
            pass
        heartbeat = (
            self._spark.readStream.name(HEARTBEAT)
            .format("rate-micro-batch")
            .option("rowsPerBatch", "1")
            .option("numPartitions", "1")
            .load()
        )
        frame = heartbeat.select(F.lit(_HEARTBEAT).alias("source"))
        if streams:
            batch = combine(streams)
            missing = [
                F.lit(None).cast(f.dataType).alias(f.name) for f in batch.frame.schema if f.name != "source"
            ]
            frame = batch.frame.unionAll(frame.select("source", *missing))
            self._layout = batch
        self._reading = tuple(names)
        self._stream = (
            frame.writeStream.foreachBatch(self._take)
            .option("checkpointLocation", self.graph.storage.path(checkpoint.FOLDER))
            .trigger(**trigger)
            .start()
        )
        self._watch(self._stream)

    def _take(self, frame: DataFrame, number: int) -> None:
        # Returning normally would tell Spark that the batch is done with.
        if self._stopping:
            raise RuntimeError("the run is being stopped")
        layout = self._layout
        with self.graph.lock:
            if self._stopping:
                raise RuntimeError("the run is being stopped")
            batch = None if layout is None else Batch(frame, layout.tags, layout.shapes)
            with self._noted():
                for name in set(self._reading) - set(self._gates):
                    _recheck(self.graph.definitions[name])
                self._epoch(batch, number)
        if not self._stopping:
            with self._noted():
                self._poll()
                for gate in self._gates.values():
                    self.graph.refuse(gate.look())

    @contextmanager
    def _noted(self) -> Iterator[None]:
        """Spark passes on the text of an exception only."""
        try:
            yield
        except Exception as problem:
            self.failure = foreign(problem)
            raise self.failure from problem

    def _epoch(self, batch: Batch | None, number: int) -> None:
        """An epoch; a file that cannot be read is set aside, and the epoch begins again without it."""
        for gate in self._gates.values():
            self.graph.refuse(gate.gone(self.graph.ledger.latest.checkpoint.logs))
        while True:
            try:
                self.graph.epoch(batch, number, known=checkpoint.observe(self.graph.storage, number))
            except BrokenFileError as problem:
                broken = [g.set_aside(problem.file, problem.why) for g in self._gates.values()]
                found = [b for b in broken if b is not None]
                if not found:
                    raise
                self.graph.refuse(found)
            else:
                return

    def _poll(self) -> bool:
        """Ask the sources that are asked for their rows; whether one of them had any."""
        return sum(polled.advance() for polled in self._polled.values()) > 0

    def _asked(self, name: str) -> Polled:
        definition, known = self.graph.definitions[name], self.graph.ledger.latest.sources.get(name)
        begun = known is not None and known.rows > 0
        return Polled(self.graph.storage, definition, SOURCES.named(definition.source), begun)

    def _source(self, definition: StreamDefinition) -> RawStream:
        inbox, source = None, SOURCES.named(definition.source)
        if definition.name not in self._gates and (gate := gate_of(self.graph.storage, definition, source)):
            self._gates[definition.name] = gate
        if definition.name in self._gates:
            gate = self._gates[definition.name]
            self.graph.refuse(gate.look(starting=True))
            return gate.rows(self._spark)
        _recheck(definition)
        if source.inbox:
            folder = f"inbox/{name_in_path(definition.name)}"
            inbox = self.graph.storage.path(folder)
            self.graph.storage.make_folder(folder)
        return read_live(self._spark, definition, inbox)


def _recheck(definition: StreamDefinition) -> None:
    """Whether what Spark alone follows may still be read: links may have come."""
    call = definition.source
    if call.policy.read is not None:
        check_call(call, "source", SOURCES.named(call), call.policy)


def _own_session(spark: SparkSession) -> SparkSession:
    """A session of its own, for settings that concern this stream only."""
    settings = {
        "spark.sql.adaptive.enabled": "false",
        # Sources are told apart by name, so that they can come and go between two starts.
        "spark.sql.streaming.queryEvolution.enableSourceEvolution": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "2000000",
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    }
    return own_session(spark, **settings)
