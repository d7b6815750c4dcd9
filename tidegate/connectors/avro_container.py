"""Avro's object container files: their header, their blocks, and what their types are in SQL.

A file is a header (the writer's schema, the codec, a marker) and blocks, each with the number of its records, its size and the marker. So a
block whose content is damaged can be passed over, and how many records it had is known.
"""

from __future__ import annotations

import bz2
import io
import json
import lzma
import uuid
import zlib
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import IO, Any

import pyarrow as pa

from tidegate.errors import Diagnostic
from tidegate.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    Field,
    Type,
    array,
    decimal,
)

MAGIC = b"Obj\x01"
MARKER = 16
HEADER = {
    "type": "record",
    "name": "header",
    "fields": [
        {"name": "magic", "type": {"type": "fixed", "name": "magic", "size": 4}},
        {"name": "meta", "type": {"type": "map", "values": "bytes"}},
        {"name": "sync", "type": {"type": "fixed", "name": "sync", "size": MARKER}},
    ],
}
_PLAIN = {
    "null": VOID, "boolean": BOOLEAN, "int": INT, "long": BIGINT, "float": FLOAT, "double": DOUBLE, "bytes": BINARY, "string": STRING,
    "enum": STRING, "fixed": BINARY,
}  # fmt: skip
_LOGICAL = {
    "date": DATE, "timestamp-millis": TIMESTAMP, "timestamp-micros": TIMESTAMP, "local-timestamp-millis": TIMESTAMP_NTZ,
    "local-timestamp-micros": TIMESTAMP_NTZ, "uuid": STRING,
}  # fmt: skip
_WITHOUT_TYPE = ("time-millis", "time-micros", "timestamp-nanos", "local-timestamp-nanos", "duration")

_DIGITS = Context(prec=38)
"""Of the longest decimals."""

Converter = Callable[[Any], Any]


class BrokenFileError(Exception):
    """A file that is no whole container."""


def fastavro() -> Any:
    """The package, which is an extra."""
    try:
        import fastavro
    except ImportError:
        raise Diagnostic(
            "PACKAGE_MISSING", "Avro files need a package", help="pip install 'tidegate[avro]'"
        ) from None
    return fastavro


@dataclass(frozen=True)
class Header:
    """What a file says of itself."""

    schema: Any
    """The writer's schema, as JSON has it."""
    codec: str
    marker: bytes

    @property
    def members(self) -> list[dict[str, Any]]:
        """The columns; a file whose rows are no records has none."""
        record = isinstance(self.schema, dict) and self.schema.get("type") == "record"
        return list(self.schema["fields"]) if record else []


@dataclass(frozen=True)
class Block:
    """Records that were written together, as they are in the file."""

    place: int
    records: int
    content: bytes


def read_header(data: IO[bytes]) -> Header:
    """The header of a file that is read from its beginning."""
    if data.read(len(MAGIC)) != MAGIC:
        raise BrokenFileError("it is no Avro container file")
    data.seek(0)
    try:
        found = fastavro().schemaless_reader(data, HEADER, None)
        schema = json.loads(found["meta"]["avro.schema"])
    except (EOFError, ValueError, LookupError, TypeError, IndexError) as problem:
        raise BrokenFileError("its header cannot be read") from problem
    codec = found["meta"].get("avro.codec", b"null").decode(errors="replace")
    if codec not in _CODECS:
        raise BrokenFileError(f"its codec '{codec}' is none of {', '.join(_CODECS)}")
    return Header(schema, codec, found["sync"])


def blocks(data: IO[bytes], header: Header, contents: bool = True) -> Iterator[Block]:
    """The blocks after the header; without `contents` they are passed over."""
    while True:
        place = data.tell()
        records = _number(data)
        if records is None:
            return
        size = _number(data)
        if size is None or size < 0 or records < 0:
            raise BrokenFileError(f"the block at byte {place} cannot be read")
        content = data.read(size) if contents else b""
        if not contents:
            data.seek(size, io.SEEK_CUR)
        if data.read(MARKER) != header.marker:
            raise BrokenFileError(f"the block at byte {place} does not end where it should")
        yield Block(place, records, content)


def _number(data: IO[bytes]) -> int | None:
    """A number as Avro writes it; None at the end of the file."""
    value = shift = 0
    while part := data.read(1):
        value |= (part[0] & 127) << shift
        if part[0] < 128:
            return (value >> 1) ^ -(value & 1)
        shift += 7
        if shift > 63:
            raise BrokenFileError(f"there is no number at byte {data.tell()}")
    if shift:
        raise BrokenFileError("it ends within a number")
    return None


def decompressed(header: Header, block: Block) -> bytes:
    """A block's records as bytes."""
    return _CODECS[header.codec](block.content)


def _snappy(content: bytes) -> bytes:
    size = _unsigned(content)
    found: bytes = pa.Codec("snappy").decompress(content[:-4], decompressed_size=size, asbytes=True)
    if zlib.crc32(found) != int.from_bytes(content[-4:], "big"):
        raise ValueError("the checksum of a block is another")
    return found


def _unsigned(content: bytes) -> int:
    """How long Snappy's block is when it is opened."""
    value = 0
    for place, part in enumerate(content[:5]):
        value |= (part & 127) << (7 * place)
        if part < 128:
            return value
    raise ValueError("a block has no length")


def _zstandard(content: bytes) -> bytes:
    found: bytes = pa.CompressedInputStream(pa.BufferReader(content), "zstd").read()
    return found


_CODECS: dict[str, Callable[[bytes], bytes]] = {
    "null": lambda content: content,
    "deflate": lambda content: zlib.decompress(content, -15),
    "snappy": _snappy,
    "zstandard": _zstandard,
    "bzip2": bz2.decompress,
    "xz": lzma.decompress,
}


def columns_of(header: Header, only: Container[str] | None = None) -> Iterator[Field]:
    """The columns of a file, or those of some names in lower case; a type that SQL has not is told by the column's name."""
    named: dict[str, Any] = {}
    for member in header.members:
        converter(member["type"], named)  # learns the types that it defines, which others may name
        if only is None or member["name"].lower() in only:
            yield Field(member["name"], _column_type(member, named))


def _column_type(member: Mapping[str, Any], named: dict[str, Any]) -> Type:
    try:
        return type_of(member["type"], named)
    except Diagnostic as problem:
        raise Diagnostic(
            problem.condition,
            f"column '{member['name']}': {problem.message}",
            help="declare the columns that are needed, without this one",
        ) from None


def type_of(schema: Any, named: dict[str, Any], inside: tuple[str, ...] = ()) -> Type:
    """The SQL type of a schema; `named` are the types that have been met by their names.

    >>> str(type_of(["null", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}], {}))
    'DECIMAL(9,2)'
    >>> str(type_of({"type": "map", "values": {"type": "array", "items": "long"}}, {}))
    'MAP<STRING, ARRAY<BIGINT>>'
    """
    if isinstance(schema, list):
        return _type_of_union([s for s in schema if s != "null"], named, inside)
    if isinstance(schema, str):
        return _PLAIN[schema] if schema in _PLAIN else _type_by_name(schema, named, inside)
    _learn(schema, named)
    kind, logical = schema["type"], schema.get("logicalType")
    if isinstance(kind, (dict, list)):
        return type_of(kind, named, inside)
    if logical in _WITHOUT_TYPE:
        raise Diagnostic("TYPE_UNKNOWN", f"there is no SQL type for Avro's {logical}")
    if logical == "decimal" and schema.get("precision", 0) <= 38:
        return decimal(schema["precision"], schema.get("scale", 0))
    if logical in _LOGICAL:
        return _LOGICAL[logical]
    if kind == "array":
        return array(type_of(schema["items"], named, inside))
    if kind == "map":
        return Type("MAP", (STRING, type_of(schema["values"], named, inside)))
    if kind == "record":
        within = (*inside, _full_name(schema))
        return Type("STRUCT", tuple((f["name"], type_of(f["type"], named, within)) for f in schema["fields"]))
    return type_of(kind, named, inside)


def _type_of_union(kinds: list[Any], named: dict[str, Any], inside: tuple[str, ...]) -> Type:
    found = list(dict.fromkeys(type_of(kind, named, inside) for kind in kinds))
    if len(found) == 1:
        return found[0]
    if found and set(found) <= {INT, BIGINT}:
        return BIGINT
    if found and set(found) <= {INT, FLOAT, DOUBLE}:
        return DOUBLE
    if not found:
        return VOID
    raise Diagnostic("TYPE_UNKNOWN", f"a union of {', '.join(map(str, found))} is no one SQL type")


def _type_by_name(name: str, named: dict[str, Any], inside: tuple[str, ...]) -> Type:
    known = next((full for full in named if full == name or full.rpartition(".")[2] == name), None)
    if known is None:
        raise Diagnostic("TYPE_UNKNOWN", f"nobody has defined the type '{name}'")
    if known in inside:
        raise Diagnostic("TYPE_UNKNOWN", f"the record '{known}' holds records of its own kind")
    return type_of(named[known], named, inside)


def _learn(schema: Mapping[str, Any], named: dict[str, Any]) -> None:
    if "name" in schema and schema.get("type") in ("record", "enum", "fixed"):
        named[_full_name(schema)] = schema


def _full_name(schema: Mapping[str, Any]) -> str:
    space = schema.get("namespace")
    return f"{space}.{schema['name']}" if space and "." not in schema["name"] else str(schema["name"])


def without_logical_types(schema: Any) -> Any:
    """The schema of the values as they are stored: what they mean is told by `converter`."""
    if isinstance(schema, list):
        return [without_logical_types(s) for s in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {k: v for k, v in schema.items() if k not in ("logicalType", "default", "precision", "scale")}
    for part in ("items", "values", "type"):
        if part in plain:
            plain[part] = without_logical_types(plain[part])
    if "fields" in plain:
        plain["fields"] = [without_logical_types(f) for f in plain["fields"]]
    return plain


def converter(schema: Any, named: dict[str, Any], inside: tuple[str, ...] = ()) -> Converter | None:
    """How a stored value becomes one that Arrow takes as its type; None: it is one.

    >>> converter({"type": "long", "logicalType": "timestamp-millis"}, {})(7)
    7000
    """
    if isinstance(schema, list):
        kinds = [converter(s, named, inside) for s in schema if s != "null"]
        return kinds[0] if len(kinds) == 1 else None
    if isinstance(schema, str):
        known = next((full for full in named if full == schema or full.rpartition(".")[2] == schema), None)
        if schema in _PLAIN or known is None or known in inside:
            return None  # a record within itself has no SQL type
        return converter(named[known], named, (*inside, known))
    _learn(schema, named)
    kind, logical = schema["type"], schema.get("logicalType")
    if logical in ("timestamp-millis", "local-timestamp-millis"):
        return _where_known(lambda value: value * 1000)
    if logical == "decimal" and schema.get("precision", 0) <= 38:
        places = -schema.get("scale", 0)
        return _where_known(
            lambda value: Decimal(int.from_bytes(value, "big", signed=True)).scaleb(places, _DIGITS)
        )
    if logical == "uuid" and kind == "fixed":
        return _where_known(lambda value: str(uuid.UUID(bytes=value)))
    if kind == "array":
        each = converter(schema["items"], named, inside)
        return None if each is None else _where_known(lambda value: [*map(each, value)])
    if kind == "map":
        inner = converter(schema["values"], named, inside) or (lambda value: value)
        return _where_known(lambda value: [(k, inner(v)) for k, v in value.items()])
    if kind == "record":
        within = (*inside, _full_name(schema))
        parts = {f["name"]: converter(f["type"], named, within) for f in schema["fields"]}
        made = {name: part for name, part in parts.items() if part is not None}
        return _where_known(lambda v: v | {n: part(v[n]) for n, part in made.items()}) if made else None
    return converter(kind, named, inside) if isinstance(kind, (dict, list)) else None


def _where_known(convert: Converter) -> Converter:
    return lambda value: None if value is None else convert(value)
