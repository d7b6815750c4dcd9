"""`socket('host', port)`: lines of text from a server."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tidegate.connectors.lines import LINE_FORMAT, SEPARATOR, parsed
from tidegate.connectors.protocol import Source, Traits
from tidegate.connectors.raw import UNKNOWN, RawStream, shaped, stream_reader
from tidegate.language.catalog import StreamDefinition
from tidegate.language.signatures import Option, Signature


class SocketLines(Source):
    signature = Signature(
        "socket",
        (Option("host"), Option("port", "integer"), LINE_FORMAT),
        (LINE_FORMAT, SEPARATOR),
        2,
        meaning="lines from a server",
    )
    traits = Traits(recorded=False, again=False, ordered=False)

    def live(self, spark: SparkSession, definition: StreamDefinition, inbox: str | None = None) -> RawStream:
        host, port, *rest = (str(a) for a in definition.source.arguments)
        settings = self.signature.settings(definition.source.options)
        if rest:
            settings["format"] = rest[0].lower()
        text = stream_reader(spark, definition).format("socket").options(host=host, port=port).load()
        return shaped(definition, parsed(definition, text, "value", settings), "''", "0", UNKNOWN)
