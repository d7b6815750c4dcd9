"""`avro('path')`: object container files, decoded by the workers.

Spark's own reader of Avro is no part of its package. Spark says which files there are, and follows them; a worker opens each.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import IO, Any

import pyarrow as pa

from tidegate.connectors.avro_container import (
    Block,
    BrokenFileError,
    Converter,
    Header,
    blocks,
    columns_of,
    converter,
    decompressed,
    fastavro,
    read_header,
    without_logical_types,
)
from tidegate.connectors.files import (
    PATH,
    PER_TRIGGER,
    FileSource,
    existing,
    load,
    local_path,
    missing_column,
    opened,
    path_of,
    readable,
)
from tidegate.connectors.parquet_files import fits
from tidegate.connectors.raw import CORRUPT, POSITION, REASON, RawStream, shaped
from tidegate.errors import Diagnostic
from tidegate.language.catalog import StreamDefinition
from tidegate.language.signatures import Signature
from tidegate.spark.values import arrow_type, schema_ddl, unfit
from tidegate.types import Field, Schema

_FILES = "path STRING, modificationTime TIMESTAMP, length BIGINT, content BINARY"
"""What Spark tells of files that it does not look into."""
_ROWS = 10_000
"""So many rows are handed on together."""


class AvroFiles(FileSource):
    signature = Signature("avro", (PATH,), (PER_TRIGGER,), 1, meaning="Avro's container files")

    def foresee(self, definition: StreamDefinition, live: bool) -> None:
        super().foresee(definition, live)
        fastavro()

    def check(self, definition: StreamDefinition, files: Sequence[str]) -> None:
        """Each column must be in some file: those that are older may have fewer."""
        found = {m["name"].lower(): m["name"] for f in files for m in _checked(definition, f).members}
        for column in definition.columns:
            if files and column.name.lower() not in found:
                raise missing_column(definition, column.name, list(found.values()), path_of(definition))

    def form(self, definition: StreamDefinition, file: str) -> Any:
        _checked(definition, file)
        return None

    def place(self, definition: StreamDefinition, file: str, row: int) -> str:
        return f"record {row + 1}"

    def _columns(self, definition: StreamDefinition, files: Sequence[str]) -> Schema:
        """Those of all files that can be read, each as the first that has it: reading refuses or sets aside what differs."""
        found: dict[str, Field] = {}
        for header, file in readable(files, lambda f: _checked(replace(definition, columns=()), f)):
            for column in _told(file, columns_of(header)):
                found.setdefault(column.name.lower(), column)
        return tuple(found.values())

    def _rows(self, reader: Any, definition: StreamDefinition, position: str) -> RawStream:
        path = existing(definition)
        options = self.signature.for_spark(definition.source.options)
        files = load(definition, reader.format("binaryFile").options(**options).schema(_FILES), path)
        # Files of this machine are opened where their rows are needed, and are never whole in memory.
        content = "content" if "://" in path else "CAST(NULL AS BINARY) AS content"
        named = files.selectExpr("_metadata.file_path AS _path", content)
        schema = f"_path STRING, {POSITION} BIGINT, {schema_ddl(definition.columns)}, {CORRUPT} STRING, {REASON} STRING"
        frame = named.mapInArrow(_Decoder(definition.columns), schema)
        return shaped(definition, frame, "_path", "0", POSITION)


def _checked(definition: StreamDefinition, file: str) -> Header:
    """A file's header, if its blocks are whole and its columns hold what is declared."""
    fastavro()
    with opened(file) as data:
        try:
            header = read_header(data)
            for _ in blocks(data, header, contents=False):
                pass
        except BrokenFileError as problem:
            raise Diagnostic("SOURCE_BROKEN", f"{file} cannot be read: {problem}") from problem
    if not header.members:
        raise Diagnostic("SOURCE_BROKEN", f"{file} cannot be read: its rows are no records")
    declared = {c.name.lower(): c for c in definition.columns}
    stored = _told(file, columns_of(header, declared))
    for column in stored:
        wanted = declared[column.name.lower()]
        if column.type.name != "VOID" and not fits(wanted.type, arrow_type(column.type)):
            raise Diagnostic(
                "TYPE_MISMATCH",
                f"column '{wanted.name}' of '{definition.name}' is {wanted.type}, and {column.type} in {file}",
                help="declare it as it is stored, and CAST it in the query",
            )
    return header


def _told(file: str, columns: Iterable[Field]) -> Schema:
    """The columns; what is wrong with one is told with the file's name."""
    try:
        return tuple(columns)
    except Diagnostic as problem:
        raise Diagnostic(problem.condition, f"{file}: {problem.message}", help=problem.help) from None


@dataclass(frozen=True)
class _Decoder:
    """Rows of files, by the files' names or contents."""

    columns: Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for path, content in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
                if content is not None:
                    yield from self._rows(path, io.BytesIO(content))
                    continue
                with open(local_path(path, follow=False), "rb") as data:
                    yield from self._rows(path, data)

    def _rows(self, path: str, data: IO[bytes]) -> Iterator[pa.RecordBatch]:
        try:
            header = read_header(data)
        except BrokenFileError:
            if not data.read(1):
                return
            raise
        records = _Records(header, self.columns)
        position = 0
        for block in blocks(data, header):
            rows, problem = records.read(block)
            for start in range(0, len(rows), _ROWS):
                part = rows[start : start + _ROWS]
                yield self._batch(path, position + start, part, [None] * len(part))
            lost = block.records - len(rows)
            if lost:
                reason = f"the block at byte {block.place} cannot be read from its record {len(rows) + 1} on: {problem}"
                empty = [[None] * len(self.columns)] * lost
                yield self._batch(path, position + len(rows), empty, [reason] * lost)
            position += block.records

    def _batch(
        self, path: str, first: int, rows: list[list[Any]], reasons: list[str | None]
    ) -> pa.RecordBatch:
        try:
            values = self._arrays(rows)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            reasons = [unfit(row, self.columns) for row in rows]
            usable = [
                row if why is None else [None] * len(row) for row, why in zip(rows, reasons, strict=True)
            ]
            values = self._arrays(usable)
        # A row that is refused is told by its place.
        texts = [None if why is None else f"record {first + i + 1}" for i, why in enumerate(reasons)]
        order = [
            pa.array([path] * len(rows), pa.string()),
            pa.array(range(first, first + len(rows)), pa.int64()),
        ]
        names = ["_path", POSITION, *(c.name for c in self.columns), CORRUPT, REASON]
        told = [pa.array(texts, pa.string()), pa.array(reasons, pa.string())]
        return pa.RecordBatch.from_arrays([*order, *values, *told], names=names)

    def _arrays(self, rows: list[list[Any]]) -> list[pa.Array]:
        return [pa.array([r[i] for r in rows], arrow_type(c.type)) for i, c in enumerate(self.columns)]


class _Records:
    """Reads the records of one file's blocks as rows of the declared columns."""

    def __init__(self, header: Header, columns: Schema) -> None:
        self._header = header
        self._avro = fastavro()
        self._schema = self._avro.parse_schema(without_logical_types(header.schema))
        named: dict[str, Any] = {}
        members = {m["name"].lower(): (m["name"], converter(m["type"], named)) for m in header.members}
        self._members: list[tuple[str, Converter | None] | None] = [
            members.get(c.name.lower()) for c in columns
        ]

    def read(self, block: Block) -> tuple[list[list[Any]], str]:
        """The rows of a block up to where it breaks, and why it does."""
        rows: list[list[Any]] = []
        try:
            content = io.BytesIO(decompressed(self._header, block))
            records = (
                self._avro.schemaless_reader(content, self._schema, None) for _ in range(block.records)
            )
            rows.extend(map(self._row, records))  # those before the damage stay
        except Exception as problem:  # whatever a damaged block makes a decoder do, only the block is refused
            return rows, type(problem).__name__
        return rows, ""

    def _row(self, record: dict[str, Any]) -> list[Any]:
        return [
            None if m is None else record[m[0]] if m[1] is None else m[1](record[m[0]]) for m in self._members
        ]
