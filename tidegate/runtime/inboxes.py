"""The files of a stream on their way into an epoch: handed in by the program, asked for, or let in by the gate.

They wait in `inbox/<stream>`. An epoch takes some of them into `taking/<stream>`, reads that folder, and names them in its manifest.
What a manifest names has counted, and goes to `read/<stream>`: there the gate finds which files it knows, and a query that is started with its
history all rows that came before it (`runtime.kept_rows`). What is in `taking` and no manifest names is taken again.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from pyspark.sql import DataFrame, SparkSession

from tidegate.connectors.protocol import Source
from tidegate.connectors.raw import RawStream
from tidegate.language.catalog import StreamDefinition
from tidegate.runtime.beginnings import not_kept
from tidegate.runtime.file_gate import FileGate
from tidegate.runtime.kept_rows import Entered, KeptRows, usable
from tidegate.runtime.ledger import Manifest
from tidegate.storage import Storage, name_in_path
from tidegate.time import MAX, MIN, shown
from tidegate.types import TIMESTAMP

MOST = 1000
"""So many files one epoch takes of a stream, unless an option says otherwise."""


@dataclass(frozen=True)
class Taken:
    """The files that an epoch reads: their names, where they are, and their rows as Spark reads them."""

    names: tuple[str, ...]
    paths: tuple[str, ...]
    rows: Callable[[], RawStream]


@dataclass(frozen=True)
class Inbox:
    """The files of one stream, on a local storage."""

    storage: Storage
    definition: StreamDefinition
    source: Source
    gate: FileGate | None = None

    def __post_init__(self) -> None:
        for folder in ("inbox", "taking", "read"):
            self.storage.make_folder(self._folder(folder))

    def _folder(self, place: str) -> str:
        return f"{place}/{name_in_path(self.definition.name)}"

    def take(self) -> tuple[str, ...]:
        """The names of the files that the next epoch reads; they are in one folder then."""
        settings = self.source.signature.settings(self.definition.source.options)
        most = int(settings.get("max_files_per_trigger", MOST))
        taken = self.storage.names(self._folder("taking"))
        for name in self.storage.names(self._folder("inbox"))[: max(0, most - len(taken))]:
            self._move(name, "inbox", "taking")
            taken.append(name)
        return tuple(taken)

    def taken(self, spark: SparkSession, now: int) -> Taken | None:
        """What the next epoch reads at a time of the clock (microseconds); None: nothing."""
        names = self.take()
        folder = self.storage.path(self._folder("taking"))
        paths = tuple(f"{folder}/{name}" for name in names)
        return Taken(names, paths, partial(self.rows, spark, now)) if names else None

    def rows(self, spark: SparkSession, now: int) -> RawStream:
        """The rows that were taken at a time of the clock (microseconds)."""
        definition = replace(self.definition, entered=now)
        return self.source.taken(spark, definition, self.storage.path(self._folder("taking")))

    def past(self, spark: SparkSession, latest: Manifest) -> DataFrame | None:
        """All rows of files that have counted; None: there were none. Files that are gone, or are not what they were, are named."""
        self.discard(latest)
        name, progress = self.definition.name, latest.sources[self.definition.name]
        if self.gate is not None:
            if self.definition.stamped:
                return not_kept(name)
            self.gate.check_unchanged(self._folder("read"))
            names = self.storage.names(self._folder("read"))
        else:
            if (gone := self._kept.gone_before) is not None:
                moments = self.definition.time_type == TIMESTAMP
                return not_kept(name, shown(gone, moments, self.definition.width))
            names = self._kept.names()
            # An earlier version has not kept them, or a program has let epochs pass by hand.
            if self._kept.count() < progress.rows:
                return not_kept(name)
        if not names:
            return None
        # Which rows were too far ahead of the clock then, the files' names say.
        definition = replace(self.definition, ahead=None)
        return usable(self.source.taken(spark, definition, self.storage.path(self._folder("read"))))

    def discard(self, latest: Manifest) -> None:
        """Put away what has counted, as the newest manifest says."""
        counted, entered = latest.taken.get(self.definition.name, ()), self._entered(latest)
        moved = [name for name in self.storage.names(self._folder("taking")) if name in counted]
        for name in moved:
            os.rename(
                self.storage.path(f"{self._folder('taking')}/{name}"),
                self.storage.path(f"{self._folder('read')}/{entered.named(name)}"),
            )
            if self.gate is not None:
                self.gate.has_read(name)
        if moved and self.gate is None:
            self._kept.forget(latest.horizon)
            self._kept.merge()

    @property
    def _kept(self) -> KeptRows:
        return KeptRows(self.storage, self.definition)

    def _entered(self, latest: Manifest) -> Entered:
        since, clock = latest.taken_at
        last = self.definition.last_tick(clock, live=True)
        known = latest.sources.get(self.definition.name)
        return Entered(since, MAX if last is None else min(last, MAX), MIN if known is None else known.newest)

    def give_back(self) -> None:
        """Let wait again what was taken and has not counted."""
        for name in self.storage.names(self._folder("taking")):
            self._move(name, "taking", "inbox")

    def _move(self, name: str, old: str, new: str) -> None:
        os.rename(
            self.storage.path(f"{self._folder(old)}/{name}"), self.storage.path(f"{self._folder(new)}/{name}")
        )
