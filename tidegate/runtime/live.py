"""Live queries: one Structured Streaming query feeds the graph, and each of its batches is one epoch.

Spark keeps the sources' offsets and replays a batch that was not finished; the graph's manifest says whether it
counted. A heartbeat among the sources makes every trigger an epoch, so that time passes while nobody speaks.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows
from pyspark.sql.streaming.query import StreamingQuery

from tidegate.algebra.operators import Node
from tidegate.connectors.sinks import Sink
from tidegate.connectors.sources import RawStream, arrow_rows, read_live
from tidegate.errors import Diagnostic
from tidegate.runtime.graph import Batch, LiveGraph, Query, combine
from tidegate.runtime.results import Result
from tidegate.spark.context import own_session

_HEARTBEAT = -1
PATIENCE = 5.0
"""Seconds that a resumed graph waits for the queries that ran in it before."""


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

    # Life.

    def begin(self) -> None:
        """Start as soon as all queries that the storage knows are here again, or when patience ends.

        An epoch without a query would pass its rows by: what it knew would be worth nothing.
        """
        with self._life:
            if not self.graph.missing():
                self.start()
            elif self._waiting is None:
                self._waiting = threading.Timer(PATIENCE, self._start_without)
                self._waiting.daemon = True
                self._waiting.start()

    def _start_without(self) -> None:
        with self._life:
            if self._waiting is not None:
                self.start()

    def _wait_no_more(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def start(self) -> None:
        """Begin, or go on where the storage says."""
        self._wait_no_more()
        self._launch(processingTime=f"{max(0, round(self.every * 1000))} milliseconds")

    def drain(self) -> None:
        """Take in what the sources hold now, epoch by epoch, and return."""
        self._wait_no_more()
        if self._stream is not None:
            # The heartbeat always has something to say, so waiting for the running stream would never end.
            self.stop()
            self.drain()
            self.start()
            return
        self._launch(availableNow=True)
        stream = self._stream
        assert stream is not None
        try:
            stream.awaitTermination()
        finally:
            self._stream = None

    def stop(self) -> None:
        """Stop after the current epoch; nothing is lost, a later start goes on."""
        self._wait_no_more()
        stream, self._stream = self._stream, None
        if stream is None:
            return
        self._stopping = True
        with self.graph.lock:
            pass
        stream.stop()

    def finish(self) -> None:
        """Take in what is there, stop, and make everything final."""
        self.stop()
        self.drain()
        self.graph.finish()

    @property
    def is_active(self) -> bool:
        return self._waiting is not None or (self._stream is not None and self._stream.isActive)

    def wait(self, seconds: int | None = None) -> bool:
        """Wait for the end (or some seconds); True if the run has ended. Its failure is raised here."""
        waiting = self._waiting
        if waiting is not None:
            waiting.join(seconds)
        if self._waiting is not None:
            return False
        if self._stream is None:
            return True
        ended = self._stream.awaitTermination(seconds)
        return ended is not False

    # Queries.

    def add(self, name: str, plan: Node, sinks: Sequence[Sink] = ()) -> Query:
        """Add a query between two epochs. A source that is not read yet is joined to the stream."""
        with self._life:
            query = self.graph.add(name, plan, sinks)
            if self._waiting is not None:
                self.begin()
            elif self._stream is not None and not set(self.graph.streams()) <= set(self._reading):
                self.stop()
                self.start()
            return query

    def drop(self, name: str) -> None:
        self.graph.drop(name)

    def result(self, name: str) -> Result:
        return self.graph.result(name)

    def status(self) -> dict[str, Any]:
        """The graph's figures, and whether it runs."""
        failure = self._stream.exception() if self._stream is not None else None
        return {
            **self.graph.status(),
            "running": self.is_active,
            "failure": None if failure is None else str(failure),
        }

    def push(self, name: str, rows: Any) -> None:
        """Hand rows to a `memory` source; they appear whole."""
        definition = self.graph.definitions[name]
        if definition.source.function != "memory":
            raise Diagnostic(
                "NOT_MEMORY", f"'{name}' reads from {definition.source.function}; rows cannot be handed in"
            )
        sink = pa.BufferOutputStream()
        pq.write_table(arrow_rows(definition, rows), sink)
        file = f"inbox/{name}/{time.time_ns():020d}-{uuid.uuid4().hex[:8]}.parquet"
        self.graph.storage.publish(file, sink.getvalue().to_pybytes())

    # The stream.

    def _launch(self, **trigger: Any) -> None:
        if self._stream is not None:
            raise Diagnostic("RUNNING", "the graph is running already")
        self._stopping = False
        names = self.graph.streams()
        streams = [self._source(n) for n in names]
        heartbeat = (
            self._spark.readStream.name("heartbeat")
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
            .option("checkpointLocation", self.graph.storage.path("checkpoint"))
            .trigger(**trigger)
            .start()
        )

    def _take(self, frame: DataFrame, number: int) -> None:
        # Returning normally would tell Spark that the batch is done with.
        if self._stopping:
            raise RuntimeError("the run is being stopped")
        layout = self._layout
        with self.graph.lock:
            if self._stopping:
                raise RuntimeError("the run is being stopped")
            batch = None if layout is None else Batch(frame, layout.tags, layout.shapes)
            self.graph.epoch(batch, number)

    def _source(self, name: str) -> RawStream:
        definition = self.graph.definitions[name]
        inbox = None
        if definition.source.function == "memory":
            inbox = self.graph.storage.path(f"inbox/{name}")
            self.graph.storage.make_folder(f"inbox/{name}")
        return read_live(self._spark, definition, inbox)


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
