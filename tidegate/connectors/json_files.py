"""`json('path')`: files with one object per line, or with one change event of Debezium's per line."""

from __future__ import annotations

from typing import Any

from tidegate.connectors.change_logs import DEBEZIUM
from tidegate.connectors.files import FILE_ORDER, FORMATS, PATH, PER_TRIGGER, FileSource, existing, load
from tidegate.connectors.lines import JSON_TEXT, json_columns, parsed
from tidegate.connectors.raw import CORRUPT, POSITION, RawStream, shaped
from tidegate.language.catalog import StreamDefinition
from tidegate.language.signatures import Option, Signature
from tidegate.spark.values import schema_ddl


class JsonFiles(FileSource):
    signature = Signature(
        "json",
        (PATH,),
        (
            Option("format", "choice", "what a line is, an object by default", ("json", DEBEZIUM)),
            Option(
                "multi_line", "boolean", "whether a file is one value, not one per line", spark="multiLine"
            ),
            Option("encoding", meaning="of the text, UTF-8 by default", spark="encoding"),
            *FORMATS,
            PER_TRIGGER,
        ),
        1,
        meaning="one object per line",
    )

    def _rows(self, reader: Any, definition: StreamDefinition, position: str) -> RawStream:
        path, given = existing(definition), definition.source.options
        options = self.signature.for_spark(given)
        if self.signature.settings(given).get("format") == DEBEZIUM:
            lines = load(definition, reader.format("text").options(**options), path)
            o0, o1 = FILE_ORDER
            chosen = [
                "value",
                f"{o0} AS _path",
                f"{o1} AS _block",
                f"CAST({position} AS BIGINT) AS {POSITION}",
            ]
            frame = parsed(definition, lines.selectExpr(*chosen), "value", {"format": DEBEZIUM})
            return shaped(definition, frame, "_path", "_block", POSITION)
        options |= {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
        schema = f"{schema_ddl(json_columns(definition.columns))}, {CORRUPT} STRING"
        frame = load(definition, reader.format("json").options(**options).schema(schema), path)
        return shaped(definition, frame, *FILE_ORDER, position, text=JSON_TEXT)
