"""`rate(rows)`: a counter with the clock, so many rows per second; for trying things out."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

from tidegate.connectors.protocol import Source, Traits
from tidegate.connectors.raw import UNKNOWN, RawStream, shaped, stream_reader
from tidegate.language.catalog import StreamDefinition
from tidegate.language.signatures import Option, Signature
from tidegate.spark.values import ddl

ROWS = Option("rows_per_second", "integer", "1 by default")


class Rate(Source):
    signature = Signature(
        "rate", (ROWS,), (ROWS,), meaning="a counter and the clock, in the first two columns"
    )
    traits = Traits(recorded=False, again=False)

    def live(self, spark: SparkSession, definition: StreamDefinition, inbox: str | None = None) -> RawStream:
        said = self.signature.settings(definition.source.options).get("rows_per_second", "1")
        rows = str(definition.source.arguments[0]) if definition.source.arguments else said
        frame = stream_reader(spark, definition).format("rate").option("rowsPerSecond", rows).load()
        given = zip(definition.columns, ("value", "timestamp"), strict=False)
        chosen = frame.select(*(F.col(name).cast(ddl(c.type)).alias(c.name) for c, name in given))
        return shaped(definition, chosen, "''", "0", UNKNOWN)
