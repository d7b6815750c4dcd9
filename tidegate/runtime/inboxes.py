"""The files of a stream on their way into an epoch: handed in by the program, asked for, or let in by the gate.

They wait in `inbox/<stream>`. An epoch takes some of them into `taking/<stream>`, reads that folder, and names them in its manifest.
What a manifest names has counted: rows of the program's are deleted then, links to files go to `read/<stream>`, where the gate finds
which ones it knows. What is in `taking` and no manifest names is taken again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import partial

from pyspark.sql import SparkSession

from tidegate.connectors.protocol import Source
from tidegate.connectors.raw import RawStream
from tidegate.language.catalog import StreamDefinition
from tidegate.runtime.file_gate import FileGate
from tidegate.storage import Storage, name_in_path

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

    def past(self, spark: SparkSession) -> RawStream:
        """All rows of files that have counted. A file that is gone, or is not what it was, is named."""
        folder = self._folder("read")
        assert self.gate is not None
        self.gate.check_unchanged(folder)
        return self.source.taken(spark, self.definition, self.storage.path(folder))

    def discard(self, counted: Collection[str]) -> None:
        """Put away what has counted."""
        for name in self.storage.names(self._folder("taking")):
            if name not in counted:
                continue
            if self.gate is None:
                os.remove(self.storage.path(f"{self._folder('taking')}/{name}"))
            else:
                self._move(name, "taking", "read")
                self.gate.has_read(name)

    def give_back(self) -> None:
        """Let wait again what was taken and has not counted."""
        for name in self.storage.names(self._folder("taking")):
            self._move(name, "taking", "inbox")

    def _move(self, name: str, old: str, new: str) -> None:
        os.rename(
            self.storage.path(f"{self._folder(old)}/{name}"), self.storage.path(f"{self._folder(new)}/{name}")
        )
