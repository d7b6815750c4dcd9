"""Sinks that are directories: `parquet('directory')`, `csv('directory')`, `json('directory')`."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from pyspark.sql import DataFrame

from tidegate.connectors.csv_files import TEXT_FORM
from tidegate.connectors.files import FORMATS, local_path
from tidegate.connectors.protocol import ANSWER, Sink, form_of
from tidegate.errors import unsupported
from tidegate.language.signatures import Option, Signature

DIRECTORY = Option("directory", meaning="where to write; it must not hold an answer already")
OWNER = "_owner"


def compression_by(*codecs: str) -> Option:
    """The option by which a sink's files are compressed."""
    return Option("compression", "choice", "of the files", ("none", *codecs), spark="compression")


@dataclass(frozen=True)
class FileSink:
    """A directory with one sub-directory `epoch=N` per epoch, which appears by one rename.

    Readers see whole epochs only: Spark ignores names that begin with an underscore. Where an answer `replaces` the one before, that is
    deleted when the new one is there.
    """

    path: str
    format: str = "parquet"
    options: tuple[tuple[str, str], ...] = ()
    """As Spark's writer knows them."""
    form: Literal["changes", "complete"] = "changes"
    replaces: bool = False

    @property
    def place(self) -> str:
        return self.path

    @property
    def owner(self) -> str | None:
        signature = os.path.join(self.path, OWNER)
        if os.path.exists(signature):
            with open(signature, encoding="ascii") as file:
                return file.read()
        return "" if os.path.isdir(self.path) and os.listdir(self.path) else None

    def claim(self, owner: str) -> None:
        if self.owner is not None:
            return
        os.makedirs(self.path, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=self.path, prefix="_", encoding="ascii") as file:
            file.write(owner)
            file.flush()
            os.fsync(file.fileno())
            with suppress(FileExistsError):
                os.link(file.name, os.path.join(self.path, OWNER))

    def has(self, epoch: int) -> bool:
        return os.path.isdir(self._directory(epoch)) or (
            self.replaces and max(self._epochs(), default=0) > epoch
        )

    def _epochs(self) -> list[int]:
        names = os.listdir(self.path) if os.path.isdir(self.path) else []
        return [int(n.removeprefix("epoch=")) for n in names if re.fullmatch(r"epoch=\d+", n)]

    def write(self, epoch: int, changes: DataFrame) -> None:
        os.makedirs(self.path, exist_ok=True)
        unfinished = f"_epoch-{epoch}-"
        for name in os.listdir(self.path):
            if name.startswith(unfinished):
                shutil.rmtree(os.path.join(self.path, name), ignore_errors=True)
        part = tempfile.mkdtemp(prefix=unfinished, dir=os.path.abspath(self.path))
        try:
            rows = os.path.join(part, "rows")
            named = changes.toDF(*distinct_names(changes.columns))
            self.save(named, rows)
            os.replace(rows, self._directory(epoch))
        finally:
            shutil.rmtree(part, ignore_errors=True)
        for before in self._epochs() if self.replaces else ():
            if before < epoch:
                shutil.rmtree(self._directory(before))

    def save(self, changes: DataFrame, folder: str) -> None:
        """Write rows into a folder that is not there yet."""
        changes.coalesce(1).write.format(self.format).options(**dict(self.options)).save(folder)

    def _directory(self, epoch: int) -> str:
        return os.path.join(self.path, f"epoch={epoch}")


@dataclass(frozen=True)
class FileSinks:
    """Sinks of one file format."""

    signature: Signature
    defaults: tuple[tuple[str, str], ...] = ()
    """Options of Spark's writer where nothing else was said."""

    def open(self, arguments: Sequence[Any], settings: dict[str, str]) -> Sink:
        options = dict(self.defaults) | self.signature.for_spark(settings.items())
        return FileSink(
            on_this_machine(str(arguments[0])),
            self.signature.name,
            tuple(sorted(options.items())),
            form_of(settings),
            settings.get(ANSWER.name) == "latest",
        )


def on_this_machine(path: str) -> str:
    """The directory that a path or URI means, which is not one of that name below the current one.

    >>> on_this_machine("file:///out/hot"), on_this_machine("out/hot")
    ('/out/hot', 'out/hot')
    """
    if re.match(r"file:(/|///)[^/]", path):
        return local_path(path, follow=False)
    if path.startswith("file:") or "://" in path:
        raise unsupported(
            f"a sink of files is a directory of this machine: {path}",
            help="write there, and copy the folders epoch=N when they are there",
        )
    return path


PARQUET = FileSinks(
    Signature(
        "parquet",
        (DIRECTORY,),
        (ANSWER, compression_by("snappy", "gzip", "lz4", "zstd")),
        1,
        meaning="columnar files",
    )
)
CSV = FileSinks(
    Signature(
        "csv",
        (DIRECTORY,),
        (
            ANSWER,
            Option(
                "header",
                "boolean",
                "whether the first line names the columns, true by default",
                spark="header",
            ),
            *TEXT_FORM,
            Option("quote_all", "boolean", "whether values stand in quotes without need", spark="quoteAll"),
            *FORMATS,
            compression_by("gzip", "bzip2", "lz4", "deflate"),
        ),
        1,
        meaning="separated values",
    ),
    (
        ("escape", '"'),
        ("header", "true"),
        ("ignoreLeadingWhiteSpace", "false"),
        ("ignoreTrailingWhiteSpace", "false"),
    ),
)
JSON = FileSinks(
    Signature(
        "json",
        (DIRECTORY,),
        (
            ANSWER,
            Option(
                "ignore_null_fields",
                "boolean",
                "whether fields that are NULL are left out, true by default",
                spark="ignoreNullFields",
            ),
            *FORMATS,
            compression_by("gzip", "bzip2", "lz4", "deflate"),
        ),
        1,
        meaning="one object per line",
    )
)


def distinct_names(names: Sequence[str]) -> list[str]:
    """The names, with a number where one was there before: files have no two columns of one name.

    >>> distinct_names(["op", "k", "v", "K", "ts"])
    ['op', 'k', 'v', 'K_2', 'ts']
    """
    taken: set[str] = set()
    result = []
    for name in names:
        choice, count = name, 1
        while choice.lower() in taken:
            count += 1
            choice = f"{name}_{count}"
        taken.add(choice.lower())
        result.append(choice)
    return result
