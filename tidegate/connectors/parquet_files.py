"""`parquet('path')`: columnar files with types of their own."""

from __future__ import annotations

from typing import Any

from tidegate.connectors.files import FILE_ORDER, PATH, PER_TRIGGER, FileSource, existing, load
from tidegate.connectors.raw import RawStream, shaped
from tidegate.language.catalog import StreamDefinition
from tidegate.language.signatures import Signature
from tidegate.spark.values import schema_ddl


class ParquetFiles(FileSource):
    signature = Signature("parquet", (PATH,), (PER_TRIGGER,), 1, meaning="columnar files")

    def _rows(self, reader: Any, definition: StreamDefinition, position: str) -> RawStream:
        path = existing(definition)
        options = self.signature.for_spark(definition.source.options)
        reader = reader.format("parquet").options(**options).schema(schema_ddl(definition.columns))
        return shaped(definition, load(definition, reader, path), *FILE_ORDER, position)
