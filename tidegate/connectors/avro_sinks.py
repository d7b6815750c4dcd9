"""`avro('directory')` as a sink: a folder per epoch, as the other formats have it, with container files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pyspark.sql import DataFrame

from tidegate.connectors.avro_container import fastavro
from tidegate.connectors.file_sinks import DIRECTORY, FileSink, compression_by, on_this_machine
from tidegate.connectors.protocol import ANSWER, Sink, form_of
from tidegate.errors import unsupported
from tidegate.language.signatures import Signature
from tidegate.spark.values import type_of_arrow
from tidegate.types import Type

_PLAIN = {
    "VOID": "null", "BOOLEAN": "boolean", "TINYINT": "int", "SMALLINT": "int", "INT": "int", "BIGINT": "long", "FLOAT": "float",
    "DOUBLE": "double", "STRING": "string", "BINARY": "bytes",
}  # fmt: skip
_LOGICAL = {
    "DATE": ("int", "date"), "TIMESTAMP": ("long", "timestamp-micros"), "TIMESTAMP_NTZ": ("long", "local-timestamp-micros"),
}  # fmt: skip


@dataclass(frozen=True)
class AvroSink(FileSink):
    """Files of changes or answers, one for each epoch."""

    codec: str = "deflate"

    def save(self, changes: DataFrame, folder: str) -> None:
        rows = changes.toArrow()
        members = [
            {"name": f.name, "type": schema_of(type_of_arrow(f.type), f"{f.name}_{i}")}
            for i, f in enumerate(rows.schema)
        ]
        avro = fastavro()
        # The names of columns are SQL's, which may be more than Avro's specification allows.
        schema = avro.parse_schema(
            {"type": "record", "name": "row", "fields": members}, _ignore_default_error=True
        )
        os.mkdir(folder)
        with open(os.path.join(folder, "part-0.avro"), "wb") as file:
            records = (_record(r) for batch in rows.to_batches() for r in batch.to_pylist())
            avro.writer(file, schema, records, codec=self.codec)
            file.flush()
            os.fsync(file.fileno())


def schema_of(type_: Type, name: str) -> Any:
    """Avro's schema of a type whose values may be NULL; `name` is for the records in it.

    >>> schema_of(Type("ARRAY", (Type("INT"),)), "a")
    ['null', {'type': 'array', 'items': ['null', 'int']}]
    """
    if type_.name == "VOID":
        return "null"
    return ["null", _schema_of(type_, name)]


def _schema_of(type_: Type, name: str) -> Any:
    if type_.name == "DECIMAL":
        precision, scale = type_.params
        return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}
    if type_.name == "ARRAY":
        return {"type": "array", "items": schema_of(type_.params[0], name)}
    if type_.name == "MAP" and type_.params[0].name == "STRING":
        return {"type": "map", "values": schema_of(type_.params[1], name)}
    if type_.name == "STRUCT":
        parts = [{"name": n, "type": schema_of(t, f"{name}_{i}")} for i, (n, t) in enumerate(type_.params)]
        return {"type": "record", "name": f"r_{name}", "fields": parts}
    if type_.name in _LOGICAL:
        kind, logical = _LOGICAL[type_.name]
        return {"type": kind, "logicalType": logical}
    if type_.name not in _PLAIN:
        raise unsupported(f"Avro has no type for {type_}", help="CAST the column in the query")
    return _PLAIN[type_.name]


def _record(row: dict[str, Any]) -> dict[str, Any]:
    return {name: _value(value) for name, value in row.items()}


def _value(value: Any) -> Any:
    """A value as Avro's writer takes it: Arrow gives maps as pairs."""
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return {k: _value(v) for k, v in value}
    if isinstance(value, list):
        return [_value(v) for v in value]
    if isinstance(value, dict):
        return _record(value)
    if isinstance(value, timedelta):
        raise unsupported("Avro has no type for INTERVAL", help="CAST the column in the query")
    return value


class AvroSinks:
    """`avro('directory')`."""

    signature = Signature(
        "avro",
        (DIRECTORY,),
        (ANSWER, compression_by("deflate", "bzip2", "xz")),
        1,
        meaning="Avro's container files",
    )

    def open(self, arguments: Sequence[Any], settings: dict[str, str]) -> Sink:
        fastavro()
        chosen = settings.get("compression", "deflate")
        return AvroSink(
            on_this_machine(str(arguments[0])),
            "avro",
            form=form_of(settings),
            replaces=settings.get(ANSWER.name) == "latest",
            codec="null" if chosen == "none" else chosen,
        )
