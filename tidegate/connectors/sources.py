"""Reading a stream's source, whichever it is."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from tidegate.connectors.files import FileSource, existing, local_files
from tidegate.connectors.raw import RawStream, Shape
from tidegate.connectors.registry import SOURCES
from tidegate.language.catalog import StreamDefinition

__all__ = ["RawStream", "Shape", "check_recorded", "read_live", "read_recorded", "size_in_bytes"]


def read_recorded(spark: SparkSession, definition: StreamDefinition, data: Any = None) -> RawStream:
    """All rows of a source; `data` are those that the session holds for the stream."""
    return SOURCES.named(definition.source).recorded(spark, definition, data)


def check_recorded(definition: StreamDefinition) -> None:
    """Refuse files without the declared columns, as reading them does."""
    source = SOURCES.named(definition.source)
    if isinstance(source, FileSource):
        source.check(definition, local_files(existing(definition)))


def read_live(spark: SparkSession, definition: StreamDefinition, inbox: str | None = None) -> RawStream:
    """The rows of a source as they come; where they are handed in or polled, they are Parquet files put into `inbox`."""
    return SOURCES.named(definition.source).live(spark, definition, inbox)


def size_in_bytes(definition: StreamDefinition, data: Any = None) -> int:
    """About how much a recorded source holds; 0 if unknown."""
    return SOURCES.named(definition.source).size(definition, data)
