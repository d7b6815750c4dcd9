"""Rows that sources have refused, read back: when, why, their text, and the file they came from."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

from tidegate.storage import Storage, name_in_path
from tidegate.worker.result_files import QUARANTINE

_COLUMNS = "epoch BIGINT, reason STRING, raw STRING, file STRING"


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


def refused_anywhere(spark: SparkSession, storage: Storage, stream: str) -> DataFrame:
    """What a stream refused in all runs and graphs that a state directory holds."""
    rows = spark.createDataFrame([], f"run STRING, {_COLUMNS}")
    for kind in ("runs", "graphs"):
        for name in storage.names(kind):
            found = refused_rows(spark, storage.below(f"{kind}/{name}"), [stream])
            rows = rows.unionAll(found.select(F.lit(name).alias("run"), *found.columns[1:]))
    return rows
