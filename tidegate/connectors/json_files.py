"""`json('path')`: files with one object per line, or with one change event of Debezium's per line."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import IO, Any

from tidegate.connectors.change_logs import DEBEZIUM
from tidegate.connectors.files import (
    CLOSED,
    FILE_ORDER,
    FORMATS,
    PATH,
    PER_TRIGGER,
    FileSource,
    existing,
    load,
    missing_column,
    opened,
)
from tidegate.connectors.inference import SAMPLE, columns_of_objects, nothing_there
from tidegate.connectors.lines import JSON_TEXT, json_columns, parsed
from tidegate.connectors.raw import CORRUPT, POSITION, RawStream, shaped
from tidegate.errors import Diagnostic
from tidegate.language.catalog import StreamDefinition
from tidegate.language.signatures import Option, Signature
from tidegate.spark.values import schema_ddl
from tidegate.types import Schema

_CHUNK = 1 << 20


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

    def place(self, definition: StreamDefinition, file: str, row: int) -> str:
        settings = self.signature.settings(definition.source.options)
        if settings.get("multi_line") == "true":
            return f"value {row + 1}"
        every = settings.get("format") == DEBEZIUM
        with opened(file) as data:
            numbers = (n for n, line in enumerate(data, 1) if every or line.strip())
            line = next(islice(numbers, row, None), None)
        return f"row {row + 1}" if line is None else f"line {line}"

    def check(self, definition: StreamDefinition, files: Sequence[str]) -> None:
        """A column that no row has is none of the source's: most often its name is misspelt."""
        settings = self.signature.settings(definition.source.options)
        files = [f for f in files if not f.endswith(CLOSED) and os.path.getsize(f)]
        if not files or "encoding" in settings or settings.get("format") == DEBEZIUM:
            return
        missing = {c.name: json.dumps(c.name, ensure_ascii=False).encode() for c in definition.columns}
        for file in files:
            with opened(file) as data:
                for chunk in _overlapping(data, max(map(len, missing.values()))):
                    # A name may also be written with escapes: then nobody can tell.
                    missing = {
                        n: text for n, text in missing.items() if text not in chunk and b"\\u" not in chunk
                    }
                    if not missing:
                        return
        raise missing_column(definition, next(iter(missing)), _members(files[0]), files[0])

    def _columns(self, definition: StreamDefinition, files: Sequence[str]) -> Schema:
        """The members of the first objects; a line that is none tells nothing."""
        settings = self.signature.settings(definition.source.options)
        if settings.get("format") == DEBEZIUM:
            raise Diagnostic(
                "COLUMNS_UNKNOWN",
                "a change event does not tell all columns of its table",
                help="declare them: CREATE STREAM name(column TYPE, …) SOURCE json(…) WITH (format = 'debezium')",
            )
        objects = [*islice((o for f in files for o in _objects(f, settings)), SAMPLE)]
        columns = columns_of_objects(objects, settings)
        if not columns:
            raise nothing_there(definition.name, files[0], "no object")
        return columns

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


def _objects(file: str, settings: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """The objects of a file, as far as they can be read."""
    encoding = settings.get("encoding", "utf-8")
    with opened(file) as data:
        texts = [data.read()] if settings.get("multi_line") == "true" else data
        for text in texts:
            with suppress(ValueError, RecursionError):
                value = json.loads(text.decode(encoding).removeprefix("\ufeff"))
                yield from (o for o in (value if isinstance(value, list) else [value]) if isinstance(o, dict))


def _overlapping(data: IO[bytes], size: int) -> Iterator[bytes]:
    """The content in parts, each with the end of the one before it."""
    before = b""
    while part := data.read(_CHUNK):
        yield before + part
        before = part[-size:]


def _members(file: str) -> list[str]:
    """The names in a file's first object."""
    with opened(file) as data, suppress(ValueError):
        first = json.loads(next(line for line in data if line.strip()))
        return list(first) if isinstance(first, dict) else []
    return []
