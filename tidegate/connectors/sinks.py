"""Where changes go: files per epoch, the console, or nowhere. A sink is idempotent by epoch (DESIGN: exactly once)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pyspark.sql import DataFrame

from tidegate.errors import Diagnostic, did_you_mean


class Sink(Protocol):
    """Takes the changes of each epoch once."""

    def has(self, epoch: int) -> bool:
        """Whether the epoch's changes are there."""

    def write(self, epoch: int, changes: DataFrame) -> None:
        """Take an epoch's changes, whole or not at all."""


@dataclass(frozen=True)
class FileSink:
    """A directory with one sub-directory `epoch=N` per epoch, which appears by one rename.

    Readers see whole epochs only: Spark ignores names that begin with an underscore.
    """

    path: str
    format: str = "parquet"

    def has(self, epoch: int) -> bool:
        return os.path.isdir(self._place(epoch))

    def write(self, epoch: int, changes: DataFrame) -> None:
        part = os.path.join(self.path, f"_epoch-{epoch}.part")
        shutil.rmtree(part, ignore_errors=True)
        named = changes.toDF(*distinct_names(changes.columns))
        writer = named.coalesce(1).write.format(self.format)
        if self.format == "csv":
            writer = writer.option("header", "true")
        writer.save(os.path.abspath(part))
        os.replace(part, self._place(epoch))

    def _place(self, epoch: int) -> str:
        return os.path.join(self.path, f"epoch={epoch}")


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


@dataclass
class ConsoleSink:
    """Prints each change on a line, as `+ 1, 2 @ 5`."""

    _done: int = field(default=0)

    def has(self, epoch: int) -> bool:
        return epoch <= self._done

    def write(self, epoch: int, changes: DataFrame) -> None:
        for row in changes.orderBy("ts", "op").toLocalIterator():
            op, *values, ts = row
            print(f"{op} {', '.join('NULL' if v is None else str(v) for v in values)} @ {ts}", flush=True)
        self._done = epoch


@dataclass
class NoSink:
    """Computes the changes and throws them away."""

    _done: int = field(default=0)

    def has(self, epoch: int) -> bool:
        return epoch <= self._done

    def write(self, epoch: int, changes: DataFrame) -> None:
        changes.write.format("noop").mode("overwrite").save()
        self._done = epoch


def make_sink(function: str, arguments: tuple[object, ...] = ()) -> Sink:
    """The sink of `INSERT INTO function(argument, …)`.

    >>> make_sink("parquet", ("out/hot",))
    FileSink(path='out/hot', format='parquet')
    """
    name = function.lower()
    if name in ("parquet", "csv", "json"):
        if len(arguments) != 1:
            raise Diagnostic("SINK_ARGUMENTS", f"{name} needs a path", help=f"{name}('directory')")
        return FileSink(str(arguments[0]), name)
    if name == "console":
        return ConsoleSink()
    if name == "noop":
        return NoSink()
    known = ["parquet", "csv", "json", "console", "noop"]
    raise Diagnostic("SINK_UNKNOWN", f"'{function}' is no sink", help=did_you_mean(function, known, "sinks"))
