"""Who begins the epochs of a live graph.

`DirectDrive`: a thread of ours takes what waits in the inboxes, and the manifest that makes an epoch count says which files it read: one
log, one truth. It will do where all rows come through inboxes. `StructuredDrive`: one Structured Streaming query feeds the graph, and each of its batches is one epoch. Spark keeps
the sources' offsets and replays a batch that was not finished; the graph's manifest says whether it counted. A heartbeat among the
sources makes every trigger an epoch, so that time passes while nobody speaks. A graph that Spark has fed stays Spark's: only Spark knows
what it has read.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any, ClassVar, Protocol

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows
from pyspark.sql.streaming.query import StreamingQuery

from tidegate.connectors.raw import HEARTBEAT
from tidegate.connectors.sources import RawStream
from tidegate.errors import foreign
from tidegate.runtime import checkpoint
from tidegate.runtime.batches import Batch, combine
from tidegate.runtime.graph import LiveGraph
from tidegate.runtime.inboxes import Inbox
from tidegate.runtime.jobs import BrokenFileError
from tidegate.spark.context import own_session

_HEARTBEAT = -1


class Driven(Protocol):
    """What a drive needs of a run."""

    graph: LiveGraph
    failure: Any

    def noted(self) -> AbstractContextManager[None]:
        """Remember what fails."""

    def look(self) -> bool:
        """Ask sources that are asked, let files in; whether a source that is asked had something."""

    def ready(self) -> None:
        """Look once more at what an epoch is to read."""

    def set_aside(self, problem: BrokenFileError) -> None:
        """Take out a file that cannot be read; raise the problem if nobody knows the file."""


class Drive(Protocol):
    """Begins epochs until it is stopped."""

    pace: ClassVar[float]
    """Seconds from one epoch to the next, where nobody says otherwise: a price that is small beside them."""

    @property
    def is_active(self) -> bool: ...

    def start(self, every: float) -> None:
        """Begin an epoch every so many seconds."""

    def drain(self) -> None:
        """Take in what is there now, and return."""

    def stop(self) -> None:
        """Stop after the current epoch."""

    def wait(self, seconds: float | None) -> bool:
        """Wait for the end; whether it has come. What has failed is raised."""

    @property
    def problem(self) -> Any:
        """What has failed outside epochs."""


class DirectDrive:
    """Epochs that read the files of inboxes."""

    pace: ClassVar[float] = 0.2
    problem = None

    def __init__(self, run: Driven, spark: SparkSession, inboxes: Mapping[str, Inbox]) -> None:
        self._run, self._spark, self._inboxes = run, spark, inboxes
        self._stopping, self._ended = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._discard()

    @property
    def is_active(self) -> bool:
        return self._thread is not None and not self._ended.is_set()

    def start(self, every: float) -> None:
        self._thread = threading.Thread(target=self._loop, args=(every,), name="tidegate-epochs", daemon=True)
        self._thread.start()

    def drain(self) -> None:
        while self._epoch():
            pass

    def stop(self) -> None:
        self._stopping.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def wait(self, seconds: float | None) -> bool:
        ended = self._ended.wait(seconds)
        if ended and self._run.failure is not None:
            raise self._run.failure
        return ended

    def _loop(self, every: float) -> None:
        with suppress(Exception):  # it is noted, and whoever waits is told
            while not self._stopping.is_set():
                begun = time.monotonic()
                self._epoch()
                self._stopping.wait(max(0.0, every - (time.monotonic() - begun)))
        self._ended.set()

    def _epoch(self) -> bool:
        """One epoch, if it would change anything; whether there may be more to take."""
        graph = self._run.graph
        with graph.lock, self._run.noted():
            more = self._run.look()
            while True:
                self._run.ready()
                found = {n: inbox.taken(self._spark, graph.wall()) for n, inbox in self._inboxes.items()}
                taken = {name: files for name, files in found.items() if files is not None}
                if not taken and graph.rests:
                    if graph.deliveries.away:
                        graph.deliver()
                    return more
                try:
                    graph.epoch(None, None, taken=taken)
                except BrokenFileError as problem:
                    self._run.set_aside(problem)
                else:
                    self._discard()
                    return more or bool(taken)

    def _discard(self) -> None:
        for inbox in self._inboxes.values():
            inbox.discard(self._run.graph.ledger.latest)


class StructuredDrive:
    """Epochs that are batches of a Structured Streaming query."""

    pace: ClassVar[float] = 1.0

    def __init__(self, run: Driven, spark: SparkSession, streams: Callable[[], Sequence[RawStream]]) -> None:
        self._run, self._spark, self._streams = run, spark, streams
        self._stopping, self._ended = False, threading.Event()
        self._stream: StreamingQuery | None = None
        self._layout: Batch | None = None

    @property
    def is_active(self) -> bool:
        return self._stream is not None and self._stream.isActive

    @property
    def problem(self) -> Any:
        return None if self._stream is None else self._stream.exception()

    def start(self, every: float) -> None:
        self._launch(processingTime=f"{max(0, round(every * 1000))} milliseconds")

    def drain(self) -> None:
        while self._run.look():  # a live run asks again after every epoch
            pass
        self._launch(availableNow=True)
        self._await()

    def stop(self) -> None:
        if self._stream is not None:
            self._stopping = True
            with self._run.graph.lock:
                pass
            self._stream.stop()

    def wait(self, seconds: float | None) -> bool:
        # Not Spark is waited for but whoever watches it: Ctrl-C in the middle of a call to Java leaves it broken.
        return self._ended.wait(seconds) and self._await()

    def _await(self) -> bool:
        assert self._stream is not None
        try:
            return self._stream.awaitTermination() is not False
        except StreamingQueryException as problem:
            raise self._run.failure or foreign(problem) from None

    def _launch(self, **trigger: Any) -> None:
        graph = self._run.graph
        latest = graph.ledger.latest
        checkpoint.check(graph.storage, latest.checkpoint, latest.batch)
        checkpoint.clear(graph.storage)
        streams = self._streams()
        self._run.look()
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
        self._stream = (
            frame.writeStream.foreachBatch(self._take)
            .option("checkpointLocation", graph.storage.path(checkpoint.FOLDER))
            .trigger(**trigger)
            .start()
        )
        threading.Thread(target=self._watch, args=(self._stream,), name="tidegate-watch", daemon=True).start()

    def _watch(self, stream: StreamingQuery) -> None:
        with suppress(Exception):  # whoever waits is told
            stream.awaitTermination()
        self._ended.set()

    def _take(self, frame: DataFrame, number: int) -> None:
        # Returning normally would tell Spark that the batch is done with.
        if self._stopping:
            raise RuntimeError("the run is being stopped")
        layout = self._layout
        with self._run.graph.lock:
            if self._stopping:
                raise RuntimeError("the run is being stopped")
            batch = None if layout is None else Batch(frame, layout.tags, layout.shapes)
            with self._run.noted():
                self._epoch(batch, number)
        if not self._stopping:
            with self._run.noted():
                self._run.look()

    def _epoch(self, batch: Batch | None, number: int) -> None:
        """An epoch; a file that cannot be read is set aside, and the epoch begins again without it."""
        graph = self._run.graph
        self._run.ready()
        while True:
            try:
                graph.epoch(batch, number, known=checkpoint.observe(graph.storage, number))
            except BrokenFileError as problem:
                self._run.set_aside(problem)
            else:
                return


def live_session(spark: SparkSession) -> SparkSession:
    """A session of its own, for settings that concern live epochs only."""
    settings = {
        "spark.sql.adaptive.enabled": "false",
        # Sources are told apart by name, so that they can come and go between two starts.
        "spark.sql.streaming.queryEvolution.enableSourceEvolution": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "2000000",
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    }
    return own_session(spark, **settings)
