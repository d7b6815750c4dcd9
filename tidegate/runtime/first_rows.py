"""What queries get in their first epoch beside the rows of that: tables, and, with history, the rows that have counted before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tidegate.connectors.sources import read_recorded
from tidegate.language.catalog import StreamDefinition
from tidegate.physical.plan import Birth
from tidegate.runtime.jobs import Job
from tidegate.runtime.ledger import Manifest
from tidegate.runtime.queries import Query

Past = Callable[[str], DataFrame | None]
"""The rows of a stream that have counted, read again; None: there were none."""


def catching_up(queries: Iterable[Query], before: Manifest) -> set[Birth]:
    """The births of inputs that get, in their first epoch, what came before."""
    return {q.known.birth for q in queries if q.history and not q.has_run(before)}


@dataclass(frozen=True)
class FirstRows:
    """The rows of an epoch's queries that have not run before it."""

    spark: SparkSession
    definitions: Mapping[str, StreamDefinition]
    tables: Mapping[str, Any]
    past: Past

    def of(self, job: Job, queries: Iterable[Query], before: Manifest) -> list[DataFrame]:
        fresh = [q for q in queries if not q.has_run(before)]
        if not fresh:
            return []
        births = {q.known.birth for q in fresh}
        return [*self._tables(job, births), *self._history(job, catching_up(fresh, before), before)]

    def _tables(self, job: Job, fresh: set[Birth]) -> list[DataFrame]:
        """Tables, and the one row without columns: read once, in the first epoch of a query."""
        frames, ready = [], job.physical
        for name in sorted(ready.sources(fresh)):
            definition = self.definitions[name]
            if definition.table:
                stream = read_recorded(self.spark, definition, self.tables.get(name))
                lanes = ready.lanes_from(name, fresh)
                frames.append(job.enter(stream.frame, [job.feed(name, lanes)]))
        single = ready.lanes_from(None, fresh)
        return [*frames, job.one_row(single)] if single else frames

    def _history(self, job: Job, births: set[Birth], before: Manifest) -> list[DataFrame]:
        """For queries that asked for it, the rows that have counted; what was refused then is not told again."""
        frames = []
        for name in sorted(job.physical.sources(births) & set(before.sources)):
            if not self.definitions[name].table and (rows := self.past(name)) is not None:
                lanes = job.physical.lanes_from(name, births)
                frames.append(job.enter(rows, [job.feed(name, lanes)]))
        return frames
