"""Recorded streams: the sources are read to their end, in one epoch or in a few."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

from tidegate.algebra.quality import Settings
from tidegate.connectors.sources import RawStream, check_recorded, read_recorded, size_in_bytes
from tidegate.exchange.messages import Message, Quarantined, WaveReport
from tidegate.language.catalog import StreamDefinition
from tidegate.runtime.activities import RunMetrics
from tidegate.runtime.jobs import Job, Physical, Progress
from tidegate.runtime.ledger import Ledger, SourceProgress, after
from tidegate.runtime.previews import Heads
from tidegate.runtime.refusals import all_refused, report, stop_at_refused
from tidegate.runtime.repartition import repartition
from tidegate.spark.context import cores
from tidegate.time import MAX, MIN
from tidegate.worker.columnar import Columnar, columnar, reading
from tidegate.worker.stopping import mark_stopped, unmark

BYTES_PER_EPOCH = 3 << 30
"""How much of the sources' files one epoch may hold; kernels work in memory."""

ROWS_PER_PARTITION = 2_000_000
"""About so many rows a task should work on: memory that the one before it has used costs less than new memory."""

MOST_PARTITIONS = 256


@dataclass(frozen=True)
class Recording:
    """Sources that have an end, and the plan that is run on them."""

    spark: SparkSession
    physical: Physical
    definitions: Mapping[str, StreamDefinition]
    data: Mapping[str, Any]
    asked: int | None
    """So many partitions, whatever the rows are."""
    heads: Heads | None = None
    """The first rows of the sources, where no others are to be read."""
    keep_answers: bool = True
    metrics: RunMetrics | None = None
    """Is told what was measured."""
    settings: Settings = field(default_factory=dict)
    """What is in force of what the runtime may choose; of all else, the best."""

    def run(self, ledger: Ledger, boundaries: Sequence[int] | None, progress: Progress | None) -> int:
        """Play all rows through the epochs that end at the boundaries (the last one is the end of time); how many rows of answers
        were thrown away.

        The answer does not depend on the boundaries. A ledger that holds earlier epochs is continued.
        """
        discarded = 0
        streams, readable = self._streams()
        if self.heads is None:
            ends = [*(self._boundaries() if boundaries is None else boundaries), MAX]
        else:
            ends = [self.heads.upto]
        ends = [e for e in sorted(set(ends)) if e > ledger.latest.upto]
        partitions = self.asked or ledger.latest.partitions or self._partitions(readable)
        repartition(self.spark, self.physical, ledger, partitions)
        unmark(ledger.storage)
        try:
            for done, upto in enumerate(ends):
                if progress is not None:
                    progress(done / len(ends))
                discarded += self._epoch(ledger, streams, readable, upto, partitions)
        except BaseException:
            mark_stopped(ledger.storage)
            raise
        report(ledger.latest.sources, ledger.storage)
        if progress is not None:
            progress(1.0)
        return discarded

    def _streams(self) -> tuple[Mapping[str, RawStream], list[Columnar]]:
        """The sources that Spark reads, and those that are read as columns: of these Spark need not even know."""
        if self.heads is not None:
            return self.heads.streams, []
        found = {n: columnar(d, self.physical.lanes_from(n)) for n, d in self.definitions.items()}
        for columns in filter(None, found.values()):
            check_recorded(columns.definition)
        streams = {n: self._stream(n) for n, columns in found.items() if columns is None}
        return streams, [c for c in found.values() if c is not None]

    def _stream(self, name: str) -> RawStream:
        return read_recorded(self.spark, self.definitions[name], self.data.get(name))

    def _epoch(
        self,
        ledger: Ledger,
        streams: Mapping[str, RawStream],
        columns: Sequence[Columnar],
        upto: int,
        partitions: int,
    ) -> int:
        before = ledger.latest
        job = Job(
            self.spark,
            self.physical,
            partitions,
            ledger.storage,
            before.epoch + 1,
            before.upto,
            before.logs,
            hold=False,
            keep_answers=self.keep_answers,
            settings=self.settings,
        )
        frames = []
        first = before.epoch == 0
        for name, stream in sorted(streams.items()):
            lanes = self.physical.lanes_from(name)
            if not lanes or (stream.definition.table and not first):
                continue
            rows = _between(stream, before.upto, upto, first)
            frames.append(job.enter(rows, [job.feed(name, lanes)]))
        single = self.physical.lanes_from(None)
        if single and first:
            frames.append(job.one_row(single))
        messages = job.run(frames, upto, reading(columns, before.upto, upto, cores(self.spark)))
        stop_at_refused(self.spark, self.definitions, messages)
        manifest = after(before, messages, upto=upto, partitions=partitions)
        if upto == MAX:
            self._check_used(streams, manifest.sources, messages)
        ledger.commit(manifest)
        if self.metrics is not None:
            self.metrics.note(manifest.epoch, upto, messages)
        return sum(m.discarded for m in messages if isinstance(m, WaveReport))

    def _check_used(
        self,
        streams: Mapping[str, RawStream],
        sources: Mapping[str, SourceProgress],
        messages: Sequence[Message],
    ) -> None:
        """A source of which every row was refused has failed. Where rows came through, nobody has to look."""
        for name, source in sorted(sources.items()):
            if not source.refused or source.newest != MIN or name not in streams:
                continue
            if streams[name].frame.filter("bad IS NULL").limit(1).count() == 0:
                examples = [m.first[name] for m in messages if isinstance(m, Quarantined) and name in m.first]
                raise all_refused(name, source, examples[0] if examples else None)

    def _partitions(self, columns: Sequence[Columnar]) -> int:
        """As many for each core, where the number of rows is known."""
        tasks = cores(self.spark)
        rounds = -(-sum(c.rows for c in columns) // (tasks * ROWS_PER_PARTITION))
        return tasks * max(1, min(rounds, MOST_PARTITIONS // tasks))

    def _boundaries(self) -> list[int]:
        sizes = {n: size_in_bytes(d, self.data.get(n)) for n, d in self.definitions.items() if not d.table}
        count = sum(sizes.values()) // BYTES_PER_EPOCH + 1
        if count < 2:
            return []
        largest = max(sizes, key=lambda n: sizes[n])
        parts = [i / count for i in range(1, count)]
        stream = self._stream(largest)
        found = stream.frame.agg(F.percentile_approx("ts", parts, 1000)).first()
        ends = found[0] if found is not None and found[0] else []
        width = stream.definition.width
        return sorted({e // width * width for e in ends})


def _between(stream: RawStream, since: int, upto: int, first: bool) -> DataFrame:
    """The rows of an epoch; rows without a usable time are met once, in the first one."""
    if since == MIN and upto == MAX:
        return stream.frame
    ts = F.col("ts")
    inside = (ts >= F.lit(since)) & (ts < F.lit(upto))
    return stream.frame.filter((inside | ts.isNull()) if first else inside)
