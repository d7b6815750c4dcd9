"""`csv('path')`: files of separated values, by the names in each file's first line where they have one."""

from __future__ import annotations

import csv
from typing import Any

from tidegate.connectors.files import (
    FILE_ORDER,
    FORMATS,
    PATH,
    PER_TRIGGER,
    FileSource,
    existing,
    load,
    local_files,
)
from tidegate.connectors.raw import CORRUPT, RawStream, shaped
from tidegate.language.catalog import StreamDefinition
from tidegate.language.signatures import Option, Signature
from tidegate.spark.values import schema_ddl
from tidegate.types import STRING, Field, Schema

HEADER = Option(
    "header",
    "boolean",
    "whether the first line names the columns; by default it does if it does",
    spark="header",
)
TEXT_FORM = (
    Option(
        "separator", "character", "between values, ',' by default", spark="sep", aliases=("sep", "delimiter")
    ),
    Option("quote", "character", "around values, '\"' by default", spark="quote"),
    Option("escape", "character", "before a quote inside quotes", spark="escape"),
    Option(
        "null",
        meaning="the text that stands for NULL, nothing by default",
        spark="nullValue",
        aliases=("null_value",),
    ),
)
"""How values are written, for reading and writing alike."""


class CsvFiles(FileSource):
    signature = Signature(
        "csv",
        (PATH,),
        (
            HEADER,
            *TEXT_FORM,
            Option("comment", "character", "at the start of lines to leave out", spark="comment"),
            Option("encoding", meaning="of the text, UTF-8 by default", spark="encoding"),
            Option("multi_line", "boolean", "whether quoted values may hold line ends", spark="multiLine"),
            *FORMATS,
            PER_TRIGGER,
        ),
        1,
        meaning="separated values",
    )

    def _rows(self, reader: Any, definition: StreamDefinition, position: str) -> RawStream:
        path = existing(definition)
        reader = (
            reader.format("csv").options(**self._options(definition, path)).schema(_schema(definition, path))
        )
        return shaped(definition, load(definition, reader, path), *FILE_ORDER, position)

    def _options(self, definition: StreamDefinition, path: str) -> dict[str, str]:
        options = self.signature.for_spark(definition.source.options)
        named = _header(definition, path) is not None or not local_files(path)
        options.setdefault("header", "true" if named else "false")
        # A row is unreadable or not whatever a query selects.
        return options | {
            "columnPruning": "false",
            "mode": "PERMISSIVE",
            "columnNameOfCorruptRecord": CORRUPT,
        }


def _schema(definition: StreamDefinition, path: str) -> str:
    """Spark matches CSV columns by position; a header may name them in another order."""
    columns: Schema = definition.columns
    header = _header(definition, path)
    known = {c.name.lower(): c for c in columns}
    if header is not None:
        columns = tuple(known.get(h.lower(), Field(h, STRING)) for h in header)
    return f"{schema_ddl(columns)}, {CORRUPT} STRING"


def _header(definition: StreamDefinition, path: str) -> list[str] | None:
    """The first line of the first file, if it names every declared column."""
    settings = CsvFiles.signature.settings(definition.source.options)
    files = [f for f in local_files(path) if not f.endswith((".gz", ".bz2", ".zst"))]
    if settings.get("header", "true") != "true" or not files:
        return None
    with open(files[0], newline="", encoding="utf-8", errors="replace") as lines:
        first = next(csv.reader(lines, delimiter=settings.get("separator", ",")), [])
    header = [h.strip() for h in first]
    if {c.name.lower() for c in definition.columns} <= {h.lower() for h in header}:
        return header
    return None
