"""`memory('name')`: rows that the program hands in, at once or while queries run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

from tidegate.connectors.protocol import Source
from tidegate.connectors.raw import CORRUPT, POSITION, REASON, RawStream, shaped, stream_reader
from tidegate.errors import Diagnostic
from tidegate.language.catalog import ARRIVAL, StreamDefinition
from tidegate.language.signatures import Option, Signature
from tidegate.spark.values import arrow_type, ddl, infer_columns, quote, schema_ddl


class Memory(Source):
    signature = Signature(
        "memory",
        (Option("name", meaning="the name of the rows in the session"),),
        (Option("max_files_per_trigger", "integer", "live: so many hand-ins in one epoch, 1000 by default"),),
        meaning="rows that the program hands in",
    )
    inbox = True

    def recorded(self, spark: SparkSession, definition: StreamDefinition, data: Any = None) -> RawStream:
        return shaped(definition, self._frame(spark, definition, data), "''", "0", POSITION)

    def live(self, spark: SparkSession, definition: StreamDefinition, inbox: str | None = None) -> RawStream:
        assert inbox is not None
        most = self.signature.settings(definition.source.options).get("max_files_per_trigger", "1000")
        return read_inbox(spark, definition, inbox, _ddl(definition), most)

    def taken(self, spark: SparkSession, definition: StreamDefinition, folder: str) -> RawStream:
        return read_taken(spark, definition, folder, _ddl(definition))

    def size(self, definition: StreamDefinition, data: Any = None) -> int:
        return int(data.nbytes) if isinstance(data, pa.Table) else 0

    @staticmethod
    def _frame(spark: SparkSession, definition: StreamDefinition, data: Any) -> DataFrame:
        if isinstance(data, DataFrame):
            columns = (F.col(quote(c.name)).cast(ddl(c.type)).alias(c.name) for c in definition.columns)
            return data.select(*columns).withColumn(POSITION, F.monotonically_increasing_id())
        table = arrow_rows(definition, data)
        if table.num_rows == 0:
            return spark.createDataFrame([], f"{schema_ddl(definition.columns)}, {POSITION} BIGINT")
        return spark.createDataFrame(table)


def read_inbox(
    spark: SparkSession, definition: StreamDefinition, inbox: str, schema: str, most: str = "1000"
) -> RawStream:
    """Rows as their Parquet files appear in a directory.

    They are in the state once their batch counts; their files would be listed again at every epoch.
    """
    reader = stream_reader(spark, definition).format("parquet").schema(schema)
    frame = reader.option("maxFilesPerTrigger", most).option("cleanSource", "delete").load(inbox)
    return shaped(definition, frame, "_metadata.file_path", "0", POSITION)


def read_taken(spark: SparkSession, definition: StreamDefinition, folder: str, schema: str) -> RawStream:
    """The rows of the Parquet files of an inbox that lie in a folder."""
    frame = spark.read.schema(schema).parquet(folder)
    return shaped(definition, frame, "_metadata.file_path", "0", POSITION)


def _ddl(definition: StreamDefinition) -> str:
    stamp = f", {ARRIVAL} TIMESTAMP" if definition.stamped else ""
    return f"{schema_ddl(definition.columns)}, {CORRUPT} STRING, {REASON} STRING, {POSITION} BIGINT{stamp}"


def arrow_rows(definition: StreamDefinition, data: Any) -> pa.Table:
    """Rows handed in, as Arrow with the declared types and their positions."""
    if data is None:
        raise Diagnostic("SOURCE_NOT_FOUND", f"no rows were given for '{definition.name}'")
    _, table = infer_columns(data, definition.columns)
    positions = pa.array(range(table.num_rows), pa.int64())
    return table.append_column(POSITION, positions)


def refused_rows(definition: StreamDefinition, refused: Sequence[tuple[str, str]]) -> pa.Table:
    """What was handed in and is no row of the stream: pairs of its text and the reason, for the quarantine."""
    nothing = [pa.nulls(len(refused), arrow_type(c.type)) for c in definition.columns]
    positions = pa.array(range(len(refused)), pa.int64())
    told = [pa.array([pair[i] for pair in refused], pa.string()) for i in (0, 1)]
    names = [*(c.name for c in definition.columns), POSITION, CORRUPT, REASON]
    return pa.table([*nothing, positions, *told], names=names)


def stamped_rows(rows: pa.Table, now: int) -> pa.Table:
    """Rows with the times (microseconds) at which they were handed in: one after the other, each its own."""
    times = pa.array(range(now, now + rows.num_rows), pa.int64()).cast(pa.timestamp("us", "UTC"))
    return rows.append_column(ARRIVAL, times)
