"""Sources that are files: which they are, that they exist, and the order of arrival of their rows."""

from __future__ import annotations

import glob
import os
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from tidegate.connectors.protocol import Source
from tidegate.connectors.raw import ROW_NUMBER, UNKNOWN, RawStream, stream_reader
from tidegate.errors import Diagnostic, did_you_mean
from tidegate.language.catalog import StreamDefinition
from tidegate.language.signatures import Option

FILE_ORDER = "_metadata.file_path", "_metadata.file_block_start"
PATH = Option("path", meaning="a file, a directory, or a pattern")
PER_TRIGGER = Option(
    "max_files_per_trigger", "integer", "live: so many new files in one epoch", spark="maxFilesPerTrigger"
)
FORMATS = (
    Option("timestamp_format", meaning="how TIMESTAMPs are written", spark="timestampFormat"),
    Option("date_format", meaning="how DATEs are written", spark="dateFormat"),
)


class FileSource(Source):
    """Files, or a directory of them that grows."""

    def recorded(self, spark: SparkSession, definition: StreamDefinition, data: Any = None) -> RawStream:
        return self._rows(spark.read, definition, ROW_NUMBER)

    def live(self, spark: SparkSession, definition: StreamDefinition, inbox: str | None = None) -> RawStream:
        return self._rows(stream_reader(spark, definition), definition, UNKNOWN)

    def size(self, definition: StreamDefinition, data: Any = None) -> int:
        return sum(os.path.getsize(p) for p in local_files(path_of(definition)))

    def _rows(self, reader: Any, definition: StreamDefinition, position: str) -> RawStream:
        raise NotImplementedError


def path_of(definition: StreamDefinition) -> str:
    return str(definition.source.arguments[0])


def existing(definition: StreamDefinition) -> str:
    """The path, which must lead somewhere."""
    path = path_of(definition)
    if "://" in path:
        return path
    if not glob.glob(path):
        raise _not_found(definition, path)
    return os.path.abspath(path)


def local_files(path: str) -> list[str]:
    """The files of a source on this machine, as Spark finds them."""
    if "://" in path:
        return []
    found: list[str] = []
    for place in sorted(glob.glob(path)):
        if os.path.isdir(place):
            for folder, _, names in os.walk(place):
                found += [os.path.join(folder, n) for n in names if not n.startswith(("_", "."))]
        else:
            found.append(place)
    return sorted(found)


def load(definition: StreamDefinition, reader: Any, path: str | list[str]) -> DataFrame:
    """What Spark's reader finds there."""
    try:
        frame: DataFrame = reader.load(path)
    except AnalysisException as problem:
        if "PATH_NOT_FOUND" not in str(problem):
            raise
        raise _not_found(definition, path_of(definition)) from problem
    return frame


def missing_column(definition: StreamDefinition, name: str, existing: list[str], where: str) -> Diagnostic:
    return Diagnostic(
        "UNKNOWN_COLUMN",
        f"the source of '{definition.name}' has no column '{name}': {where}",
        help=did_you_mean(name, existing, "columns"),
    )


def _not_found(definition: StreamDefinition, path: str) -> Diagnostic:
    folder = os.path.dirname(os.path.abspath(path))
    beside = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    return Diagnostic(
        "SOURCE_NOT_FOUND",
        f"the source of '{definition.name}' does not exist: {path}",
        help=did_you_mean(os.path.basename(path), beside[:20], "files")
        if beside
        else f"there is no directory {folder}",
    )
