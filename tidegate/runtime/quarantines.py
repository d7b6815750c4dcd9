"""Rows that sources have refused, read back: when, why, their text, and the file they came from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

from tidegate.language.quarantine_items import COLUMNS
from tidegate.runtime.ledger import latest_manifest
from tidegate.storage import Storage, name_in_path
from tidegate.worker.result_files import QUARANTINE

_COLUMNS = "epoch BIGINT, reason STRING, raw STRING, file STRING, position BIGINT"

_ATTEMPTS = 5
"""So often a folder is read whose files are merged meanwhile."""


def refused_rows(
    spark: SparkSession, storage: Storage, streams: Iterable[str], epoch: int | None = None
) -> DataFrame:
    """What some streams of one run refused, up to an epoch."""
    rows = spark.createDataFrame([], f"stream STRING, {_COLUMNS}")
    for stream in streams:
        folder = f"{QUARANTINE}/{name_in_path(stream)}"
        files = [storage.path(f"{folder}/{name}") for name in storage.names(folder)]
        if files:
            found = spark.read.schema(_COLUMNS).parquet(*files)
            rows = rows.unionAll(found.select(F.lit(stream).alias("stream"), "*"))
    return rows if epoch is None else rows.filter(F.col("epoch") <= epoch)


def refused_lines(storage: Storage, stream: str) -> Iterator[tuple[Any, ...]]:
    """What a stream refused in all runs and graphs, as far as it has counted, read in this process."""
    folder = f"{QUARANTINE}/{name_in_path(stream)}"
    for kind in ("runs", "graphs"):
        for name in storage.names(kind):
            below = storage.below(f"{kind}/{name}")
            rows = _read_all(below, folder)
            counted = latest_manifest(below) if rows else None
            for row in rows:
                if counted is not None and row["epoch"] <= counted.epoch:
                    yield (name, *(row.get(column.name) for column in COLUMNS[1:]))


def _read_all(storage: Storage, folder: str) -> list[dict[str, Any]]:
    """The rows of a folder's files. Files are merged while their graph runs: then those that took their place are read."""
    for _ in range(_ATTEMPTS - 1):
        with suppress(FileNotFoundError):
            return _read_once(storage, folder)
    return _read_once(storage, folder)


def _read_once(storage: Storage, folder: str) -> list[dict[str, Any]]:
    tables = [pq.read_table(pa.BufferReader(storage.read(f"{folder}/{n}"))) for n in storage.names(folder)]
    return [row for table in tables for row in table.to_pylist()]


def refused_anywhere(spark: SparkSession, storage: Storage, stream: str) -> DataFrame:
    """What a stream refused in all runs and graphs that a state directory holds."""
    rows = spark.createDataFrame([], f"run STRING, {_COLUMNS}")
    for kind in ("runs", "graphs"):
        for name in storage.names(kind):
            found = refused_rows(spark, storage.below(f"{kind}/{name}"), [stream])
            rows = rows.unionAll(found.select(F.lit(name).alias("run"), *found.columns[1:]))
    return rows
