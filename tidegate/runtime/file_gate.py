"""The files of a live source on their way in: each is looked at once, and let in, or set aside by its name.

Spark follows a folder of links to the files that were let in, and takes each link once. A link's name says which file it was
(its size and the time of its last change), so the links are all that has to be remembered: over restarts, too. A file that
is replaced or grows after it was let in is told, not read again: its rows would count twice. One that was set aside is
looked at again when it has changed.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import SparkSession

from tidegate.connectors.files import FileSource, existing, local_files, path_of
from tidegate.connectors.raw import RawStream, label_of
from tidegate.errors import Diagnostic
from tidegate.exchange.messages import Refused
from tidegate.language.catalog import StreamDefinition
from tidegate.runtime.checkpoint import FOLDER, logged
from tidegate.runtime.refusals import ASIDE
from tidegate.storage import Storage, name_in_path

LOG = logging.getLogger("tidegate")

_LINK = re.compile(r"(\d+)-(\d+)-(\d+)(?:[.]|$)")
"""Its number, and the mark of the file."""

_SUFFIX = re.compile(r"[.](?!part$)[A-Za-z0-9]+")
"""By which Spark tells how a file is compressed. What ends otherwise is, in a folder of ours, something under way."""

Mark = tuple[int, int]
"""A file's size, and when it was last changed (nanoseconds)."""


@dataclass
class FileGate:
    """The files of one source, for one run."""

    storage: Storage
    definition: StreamDefinition
    source: FileSource
    let_in: dict[str, Mark] = field(default_factory=dict)
    aside: dict[str, Mark] = field(default_factory=dict)
    changed: dict[str, Mark] = field(default_factory=dict)
    """Files that are others than those that were let in."""
    _waiting: dict[str, str] = field(default_factory=dict)
    """Links that no counted epoch is known to have read, with their files."""
    _logged: int = -1
    """The last entry of Spark's log that was looked at for them."""
    _form: Any = None
    _open: bool = False
    _number: int = 0

    def __post_init__(self) -> None:
        places = [(folder, self.let_in) for folder in self._inside]
        for folder, known in (*places, (self._outside, self.aside)):
            self.storage.make_folder(folder)
            for name in self.storage.names(folder):
                link, parts = self.storage.path(f"{folder}/{name}"), _LINK.match(name)
                if parts is None or not os.path.islink(link):
                    raise self.storage.damaged(
                        f"{folder}/{name}", "is not one of the links to files that were let in"
                    )
                known[os.readlink(link)] = int(parts[2]), int(parts[3])
                if folder in self._inside[:2]:
                    self._waiting[name] = os.readlink(link)
                self._number = max(self._number, int(parts[1]))
        self.aside = {file: mark for file, mark in self.aside.items() if file not in self.let_in}
        if self.source.declared(self.definition) is not None:
            whole = (file for file, mark in sorted(self.let_in.items()) if _mark(file) == mark)
            forms = (self.source.form(self.definition, file) for file in whole)
            self._form = next((form for form in forms if form is not None), None)

    @property
    def _inbox(self) -> str:
        return f"inbox/{name_in_path(self.definition.name)}"

    @property
    def _inside(self) -> tuple[str, ...]:
        """Where links to files are that were let in: see `runtime.inboxes`."""
        name = name_in_path(self.definition.name)
        return self._inbox, f"taking/{name}", f"read/{name}"

    @property
    def _outside(self) -> str:
        return f"aside/{name_in_path(self.definition.name)}"

    def rows(self, spark: SparkSession) -> RawStream:
        """The rows of what is let in. From here on all files are laid out as the first one, or as declared."""
        self._open = True
        place = replace(self.definition.source, arguments=(self.storage.path(self._inbox),))
        return self.source.follow(spark, replace(self.definition, source=place), self._form)

    def look(self, starting: bool = False) -> list[Refused]:
        """Let in what is new; the files that had to be set aside.

        If there are files at the start of a run and none can be let in, the source is not as it was declared.
        """
        if starting:
            existing(self.definition)
        fresh: dict[str, Mark] = {}
        problems: dict[str, Diagnostic] = {}
        for file in local_files(os.path.abspath(path_of(self.definition))):
            mark = _mark(file)
            if mark is None or not mark[0] or mark in (self.let_in.get(file), self.aside.get(file)):
                continue
            if file in self.let_in:
                self._tell_change(file, mark)
                continue
            fresh[file] = mark
            try:
                self._check(file)
            except Diagnostic as problem:
                if self.definition.stops:
                    raise
                problems[file] = problem
        if starting and not self.let_in:
            if problems and len(problems) == len(fresh):
                raise next(iter(problems.values()))
            self.source.check(self.definition, [file for file in fresh if file not in problems])
        # In order of their age, as Spark takes them.
        for file, mark in sorted(fresh.items(), key=lambda f: (f[1][1], f[0])):
            if file not in problems:
                self._waiting[self._link(self._inbox, file, mark)] = file
                self.let_in[file] = mark
                self.aside.pop(file, None)
        return [self._set_aside(file, fresh[file], problem.message) for file, problem in problems.items()]

    def _check(self, file: str) -> None:
        self.definition.source.policy.check_file(file)
        if _in_columns(self.definition, file):
            raise Diagnostic(
                "FORM_DIFFERS",
                f"{file} is in a folder with a column in its name, and the files before it are not",
                help="a live stream has such folders from its start on, or never",
            )
        form = self.source.form(self.definition, file)
        if (self._form is not None or self._open) and form not in (
            None,
            self._form or self.source.declared(self.definition),
        ):
            raise Diagnostic(
                "FORM_DIFFERS",
                f"{file} has other columns, or in another order, than the files before it",
                help="a live stream needs files with the same first line",
            )
        self._form = form if self._form is None else self._form

    def set_aside(self, link: str, why: str) -> Refused | None:
        """Take out a file that was let in and cannot be read; None if it is none of this source's."""
        inside = [self.storage.path(folder) for folder in self._inside]
        if os.path.dirname(link) not in inside or not os.path.islink(link):
            return None
        file = os.readlink(link)
        if self.definition.stops:
            raise Diagnostic("SOURCE_BROKEN", f"{file} cannot be read: {why}")
        mark = self.let_in.pop(file)
        self._waiting.pop(os.path.basename(link), None)
        os.remove(link)
        return self._set_aside(file, mark, f"{file} cannot be read: {why}")

    def check_unchanged(self, folder: str) -> None:
        """Refuse to read files again that are not what they were."""
        for name in self.storage.names(folder):
            file, parts = os.readlink(self.storage.path(f"{folder}/{name}")), _LINK.match(name)
            if parts is None or _mark(file) != (int(parts[2]), int(parts[3])):
                raise Diagnostic(
                    "HISTORY_GONE", f"{file} is gone, or has changed since '{self.definition.name}' read it"
                )

    def has_read(self, link: str) -> None:
        """A link that a counted epoch has read."""
        self._waiting.pop(link, None)

    def gone(self, read: Mapping[str, int]) -> list[Refused]:
        """Take out files that were gone before they were read; `read` says how far counted epochs have come in Spark's logs.

        Spark passes over a link that leads nowhere. Whoever puts the file back has it read.
        """
        label = label_of(self.definition.name)
        last = read.get(label, -1)
        if last > self._logged:
            for name in logged(self.storage, label, self._logged, last):
                self._waiting.pop(name, None)
            self._logged = last
        lost = [(name, file) for name, file in self._waiting.items() if not os.path.exists(file)]
        if lost and self.definition.stops:
            raise Diagnostic("SOURCE_BROKEN", f"{lost[0][1]} was gone before it was read")
        for name, file in lost:
            del self._waiting[name], self.let_in[file]
            for folder in self._inside:
                self.storage.delete(f"{folder}/{name}")
        return [self._set_aside(file, (0, 0), f"{file} was gone before it was read") for _, file in lost]

    def _set_aside(self, file: str, mark: Mark, why: str) -> Refused:
        self._link(self._outside, file, mark)
        self.aside[file] = mark
        LOG.warning("a file of '%s' is set aside: %s", self.definition.name, why)
        return Refused(self.definition.name, f"{ASIDE}: {why}", None, file)

    def _tell_change(self, file: str, mark: Mark) -> None:
        if self.changed.get(file) != mark:
            self.changed[file] = mark
            LOG.warning(
                "%s has changed since '%s' read it, and is not read again: its rows would count twice",
                file,
                self.definition.name,
            )

    def _link(self, folder: str, file: str, mark: Mark) -> str:
        self._number += 1
        suffix = os.path.splitext(file)[1]
        known = suffix if _SUFFIX.fullmatch(suffix) else ""
        name = f"{self._number:012d}-{mark[0]}-{mark[1]}{known}"
        os.symlink(file, self.storage.path(f"{folder}/{name}"))
        return name

    def status(self) -> dict[str, list[str]]:
        return {"aside": sorted(self.aside), "changed": sorted(self.changed)}


def gate_of(storage: Storage, definition: StreamDefinition, source: Any) -> FileGate | None:
    """The gate of a source whose files are on this machine, as the state is; others are followed by Spark alone."""
    if not isinstance(source, FileSource) or storage.local is None or "://" in path_of(definition):
        return None
    existing(definition)
    if name_in_path(definition.name) not in storage.names("inbox"):
        begun = label_of(definition.name) in storage.names(f"{FOLDER}/sources")
        # Whoever began to follow the files goes on: another one would read all of them again.
        if begun or any(_in_columns(definition, file) for file in local_files(path_of(definition))):
            return None
    return FileGate(storage, definition, source)


def _in_columns(definition: StreamDefinition, file: str) -> bool:
    """Whether a file is in a folder that holds a column in its name, which a link would lose."""
    return "=" in os.path.dirname(os.path.relpath(file, os.path.abspath(path_of(definition))))


def _mark(file: str) -> Mark | None:
    try:
        found = os.stat(file)
    except FileNotFoundError:
        return None
    return found.st_size, found.st_mtime_ns
