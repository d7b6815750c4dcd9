"""`kafka('servers', 'topic')`: messages of a topic, by Spark's connector."""

from __future__ import annotations

import pyspark
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

from tidegate.connectors.lines import LINE_FORMAT, SEPARATOR, parsed
from tidegate.connectors.protocol import Source, Traits
from tidegate.connectors.raw import RawStream, shaped, stream_reader
from tidegate.errors import Diagnostic
from tidegate.language.catalog import StreamDefinition
from tidegate.language.signatures import Option, Signature

PACKAGE = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"


class Kafka(Source):
    signature = Signature(
        "kafka",
        (Option("servers"), Option("topic")),
        (
            LINE_FORMAT,
            SEPARATOR,
            Option(
                "starting_offsets",
                meaning="where to begin: 'latest' by default, 'earliest', or offsets",
                spark="startingOffsets",
            ),
            Option(
                "max_offsets_per_trigger",
                "integer",
                "so many messages in one epoch",
                spark="maxOffsetsPerTrigger",
            ),
            Option(
                "fail_on_data_loss",
                "boolean",
                "whether lost messages stop the stream",
                spark="failOnDataLoss",
            ),
        ),
        2,
        further=("kafka.",),
        meaning="messages of a topic",
    )
    traits = Traits(recorded=False)

    def live(self, spark: SparkSession, definition: StreamDefinition, inbox: str | None = None) -> RawStream:
        servers, topic = (str(a) for a in definition.source.arguments)
        options = {"kafka.bootstrap.servers": servers, "subscribe": topic}
        options |= self.signature.for_spark(definition.source.options)
        try:
            frame = stream_reader(spark, definition).format("kafka").options(**options).load()
        except AnalysisException as problem:
            raise Diagnostic(
                "CONNECTOR_MISSING",
                "Spark has no Kafka connector",
                help=f"fetch it at the start: connect(packages=['{PACKAGE}']), or --packages {PACKAGE} on the command line",
            ) from problem
        text = frame.select(F.col("value").cast("string").alias("value"), "partition", "offset")
        rows = parsed(definition, text, "value", self.signature.settings(definition.source.options))
        return shaped(definition, rows, "''", "partition", "offset")
