"""What an epoch works on, and where: as columns of files, as rows that Spark gathers in this process, or as frames for a job of Spark's.

How far an epoch reaches depends on its rows, so their newest instants must be known before kernels work. Footers of Parquet files tell
them; rows that are gathered tell them on the way; of all else Spark tells them by a pass over the rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import polars as pl
import pyarrow as pa
from pyspark.sql import DataFrame, Observation

from tidegate.kernels.rows import Frame
from tidegate.language.catalog import StreamDefinition
from tidegate.runtime.batches import Batch, combine
from tidegate.runtime.inboxes import Taken
from tidegate.runtime.jobs import Job, TooManyRowsError
from tidegate.runtime.places import Place, Places
from tidegate.runtime.promises import Seen
from tidegate.time import MIN
from tidegate.worker.columnar import Columnar, of_files, read_here


@dataclass(frozen=True)
class Came:
    """What came: frames for a job, or in this process rows that were gathered and rows of files, by partition and lane."""

    place: Place
    seen: Mapping[str, Seen]
    frames: Sequence[DataFrame] = ()
    rows: pa.Table | None = None
    read: Mapping[int, Mapping[int, Frame]] | None = None

    @property
    def count(self) -> int:
        return sum(s.rows for s in self.seen.values())


@dataclass(frozen=True)
class Gathering:
    """Takes in the rows of an epoch; `now` is the time of the clock (microseconds)."""

    job: Job
    streams: Mapping[str, StreamDefinition]
    """Those that the queries read."""
    places: Places
    now: int

    def came(self, tables: Sequence[DataFrame], batch: Batch | None, taken: Mapping[str, Taken]) -> Came:
        """What the epoch works on: rows of tables, and those of a batch or of files that were taken."""
        columns = self._as_columns(taken)
        seen = None
        if columns is not None:
            seen = {c.definition.name: Seen(c.bounds and c.bounds[1], c.rows) for c in columns}
            if self._chosen(sum(s.rows for s in seen.values())) == "driver":
                # A file that is damaged behind its footer is Spark's affair, which tells its name.
                with suppress(pl.exceptions.PolarsError, OSError):
                    read = read_here(columns, self.job.physical.lanes, self.job.partitions)
                    return Came("driver", seen, rows=self.job.gathered(tables), read=read)
        if taken:
            batch = combine([files.rows() for files in taken.values()])
        names = [n for n in self.streams if batch is not None and n in batch.tags]
        if batch is None or not names:
            place = self._chosen(0)
            return Came(place, {}, tables, self.job.gathered(tables) if place == "driver" else None)
        return self._of_batch(tables, self._bounded(batch, names), names, seen)

    def _of_batch(
        self, tables: Sequence[DataFrame], batch: Batch, names: Sequence[str], seen: Mapping[str, Seen] | None
    ) -> Came:
        observed, graph = Observation(), self.job.physical
        # What is expected to be small is read at once; of all else Spark tells first how much it is.
        at_once = seen is None and graph.runs_anywhere and self.places.small
        if seen is None and not at_once:
            seen = batch.look(names)
        frame = batch.frame.observe(observed, *batch.observed(names)) if at_once else batch.frame
        feeds = [batch.feed(n, graph.lanes_from(n)) for n in names]
        late = None if self.job.since == MIN else self.job.since
        # Heartbeats, and streams that no query reads any more, end here.
        frames = [*tables, self.job.enter(frame.filter(batch.wanted(names)), feeds, late)]
        expected = self.places.expected if seen is None else sum(s.rows for s in seen.values())
        if self._chosen(expected or 0) == "driver":
            with suppress(TooManyRowsError):
                rows = self.job.gathered(frames)
                return Came("driver", batch.seen(observed.get, names) if seen is None else seen, frames, rows)
        return Came("spark", batch.look(names) if seen is None else seen, frames)

    def _chosen(self, rows: int) -> Place:
        return self.places.choose(rows, self.job.physical.runs_anywhere)

    def _as_columns(self, taken: Mapping[str, Taken]) -> list[Columnar] | None:
        """The files that were taken, if all of them can be read as columns and none of their rows has to be refused."""
        if not taken or not self.job.physical.runs_anywhere or self.places.asked == "spark":
            return None
        found = []
        for name, files in taken.items():
            definition = self.streams.get(name)
            if definition is None or not _is_plain(definition):
                return None
            columns = of_files(definition, self.job.physical.lanes_from(name), files.paths)
            if columns is None or not self._within(columns):
                return None
            found.append(columns)
        return found

    def _within(self, columns: Columnar) -> bool:
        """Whether no row is later than promised, or too far ahead of the clock."""
        if columns.bounds is None:
            return True
        first, newest = columns.bounds
        last = columns.definition.last_tick(self.now, live=True)
        return first >= self.job.since and (last is None or newest <= last)

    def _bounded(self, batch: Batch, names: Sequence[str]) -> Batch:
        """The batch without rows that are far ahead of the clock: one of them would make all that follow late."""
        shapes = dict(batch.shapes)
        for name in names:
            definition = self.streams[name]
            last = definition.last_tick(self.now, live=True)
            if last is not None:
                shapes[name] = shapes[name].until(last, str(definition.time_column))
            if definition.stamped and self.job.since != MIN:
                shapes[name] = shapes[name].since(self.job.since, definition.width)
        return replace(batch, shapes=shapes)


def _is_plain(definition: StreamDefinition) -> bool:
    """Whether a stream's files are Parquet that holds nothing but rows."""
    call = definition.source
    if call.function == "kafka":
        return True  # messages that are no rows make a file of another kind
    return call.function in ("memory", "parquet") and not set(call.option) - {"max_files_per_trigger"}
