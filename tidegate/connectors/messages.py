"""Messages of a broker as rows: whole batches at once where they are plain, one by one where something is odd.

A batch of JSON objects or separated values is read by Arrow. Where Arrow refuses, the batch is halved until what is odd
stands alone; that is read message by message, and what is no row is kept with the reason.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json

from tidegate.connectors.debezium import UnreadableEventError, decimal_of, decode, shown
from tidegate.connectors.protocol import SourceAwayError
from tidegate.connectors.raw import CORRUPT, REASON
from tidegate.spark.values import array_of, arrow_type
from tidegate.types import TIMESTAMP, Field, Schema, Type

UNREADABLE = "the message cannot be read"
_SMALL = 32
"""So few messages are not worth being halved again."""
_PLAIN = {
    "BOOLEAN": pa.bool_(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "STRING": pa.string(),
}

Single = Callable[[bytes], "tuple[Any, ...] | None"]


class NoRowError(Exception):
    """Why a message gives no row."""


@dataclass(frozen=True)
class Decoder:
    """How the values of messages become rows of some columns; `single` reads one message (None: it is no row)."""

    columns: Schema
    single: Single
    form: str = ""
    separator: str = ","

    def rows(self, values: Sequence[bytes | None]) -> tuple[pa.Table, list[int]]:
        """The rows with CORRUPT and REASON, and which message each one was."""
        if not values:
            return _empty(self.columns), []
        whole = self._whole(values)
        if whole is not None:
            nothing = pa.nulls(whole.num_rows, pa.string())
            return whole.append_column(CORRUPT, nothing).append_column(REASON, nothing), list(
                range(len(values))
            )
        if len(values) <= _SMALL or self.form not in ("json", "csv"):
            return self._singly(values)
        half = len(values) // 2
        (a, first), (b, second) = self.rows(values[:half]), self.rows(values[half:])
        return pa.concat_tables([a, b]), first + [n + half for n in second]

    def _whole(self, values: Sequence[bytes | None]) -> pa.Table | None:
        """All of them at once; None if one of them is not beyond doubt."""
        if self.form not in ("json", "csv") or any(c.type.name not in _READ for c in self.columns):
            return None
        if any(v is None for v in values):
            return None
        text = b"\n".join(values)  # type: ignore[arg-type]
        if text.count(b"\n") != len(values) - 1:
            return None
        try:
            table = self._json(values, text) if self.form == "json" else self._csv(text)
            if table is None or table.num_rows != len(values):
                return None
            return pa.table(
                [_typed(table[c.name], c.type) for c in self.columns], names=[c.name for c in self.columns]
            )
        except (pa.ArrowException, KeyError):
            return None

    def _json(self, values: Sequence[bytes | None], text: bytes) -> pa.Table | None:
        # An object that is cut off could go on in the next message only where that begins otherwise.
        if not all(v[:1] == b"{" and v[-1:] == b"}" for v in values if v is not None):
            return None
        schema = pa.schema([(c.name, _PLAIN.get(c.type.name, pa.string())) for c in self.columns])
        parse = pa_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
        block = pa_json.ReadOptions(block_size=max(1 << 20, len(text) + 1))
        return pa_json.read_json(pa.BufferReader(text), read_options=block, parse_options=parse)

    def _csv(self, text: bytes) -> pa.Table | None:
        if b'"' in text or b"\r" in text or b"\n\n" in text or text[:1] == b"\n" or text[-1:] == b"\n":
            return None
        names = [c.name for c in self.columns]
        types = {c.name: _PLAIN.get(c.type.name, pa.string()) for c in self.columns}
        return pa_csv.read_csv(
            pa.BufferReader(text),
            read_options=pa_csv.ReadOptions(column_names=names, block_size=max(1 << 20, len(text) + 1)),
            parse_options=pa_csv.ParseOptions(delimiter=self.separator),
            convert_options=pa_csv.ConvertOptions(
                column_types=types,
                null_values=[""],
                true_values=["true"],
                false_values=["false"],
                strings_can_be_null=True,
            ),
        )

    def _singly(self, values: Sequence[bytes | None]) -> tuple[pa.Table, list[int]]:
        rows: list[tuple[Any, ...]] = []
        bad: list[tuple[str | None, str | None]] = []
        places: list[int] = []
        for place, value in enumerate(values):
            if value is None:
                continue  # a tombstone
            try:
                row = self.single(value)
            except NoRowError as reason:
                rows.append((None,) * len(self.columns))
                bad.append((value.decode("utf-8", "backslashreplace"), str(reason)))
            except SourceAwayError:
                raise
            except Exception as problem:
                rows.append((None,) * len(self.columns))
                why = f"{UNREADABLE}: {type(problem).__name__}: {problem}"
                bad.append((value.decode("utf-8", "backslashreplace"), why))
            else:
                if row is None:
                    continue
                rows.append(row)
                bad.append((None, None))
            places.append(place)
        arrays = [
            array_of([row[i] for row in rows], arrow_type(column.type))
            for i, column in enumerate(self.columns)
        ]
        arrays += [pa.array([b[i] for b in bad], pa.string()) for i in (0, 1)]
        return pa.table(arrays, names=[*(c.name for c in self.columns), CORRUPT, REASON]), places


_READ = {*_PLAIN, "TIMESTAMP"}


def _empty(columns: Schema) -> pa.Table:
    names = [c.name for c in columns]
    types = [*(arrow_type(c.type) for c in columns), pa.string(), pa.string()]
    return pa.table([pa.array([], t) for t in types], names=[*names, CORRUPT, REASON])


def _typed(found: pa.ChunkedArray, type_: Type) -> pa.ChunkedArray:
    if type_ != TIMESTAMP:
        return found.cast(arrow_type(type_))
    zoned = pc.any(pc.match_substring_regex(found, "(Z|[+-][0-9]{2}:?[0-9]{2})$"), min_count=0).as_py()
    moments = found.cast(pa.timestamp("us", "UTC") if zoned else pa.timestamp("us"))
    return moments if zoned else moments.cast(pa.int64()).cast(pa.timestamp("us", "UTC"))


def json_decoder(columns: Schema) -> Decoder:
    """Objects whose members are the columns.

    >>> from tidegate.types import BIGINT, INT, Field
    >>> decoder = json_decoder((Field("a", INT), Field("t", BIGINT)))
    >>> rows, _ = decoder.rows([b'{"a": 1, "t": 5}', b'{"a": "x", "t": 6}', b"{"])
    >>> rows["a"].to_pylist(), rows["_tidegate_reason"].to_pylist()[:2]
    ([1, None, None], [None, "column 'a' is no INT: x"])
    """

    def single(value: bytes) -> tuple[Any, ...] | None:
        try:
            found = json.loads(value, parse_float=Decimal)
        except (ValueError, RecursionError):
            raise NoRowError(UNREADABLE) from None
        if not isinstance(found, dict):
            raise NoRowError(UNREADABLE)
        return tuple(cell(found.get(c.name), c) for c in columns)

    return Decoder(columns, single, "json")


def csv_decoder(columns: Schema, separator: str) -> Decoder:
    """Separated values in the order of the columns."""

    def single(value: bytes) -> tuple[Any, ...] | None:
        try:
            lines = list(
                csv.reader(io.StringIO(value.decode(), newline=""), delimiter=separator, strict=True)
            )
        except (ValueError, csv.Error):
            raise NoRowError(UNREADABLE) from None
        if len(lines) != 1 or len(lines[0]) != len(columns):
            raise NoRowError(UNREADABLE)
        return tuple(text_cell(t, c) for t, c in zip(lines[0], columns, strict=True))

    return Decoder(columns, single, "csv", separator)


def debezium_decoder(columns: Schema) -> Decoder:
    """Debezium's events."""

    def single(value: bytes) -> tuple[Any, ...] | None:
        try:
            row = decode(value, columns)
        except UnreadableEventError as reason:
            raise NoRowError(str(reason)) from None
        return None if row is None else tuple(row[c.name] for c in columns)

    return Decoder(columns, single)


def raw_decoder(columns: Schema) -> Decoder:
    """The bytes themselves in the column `value`, BINARY or STRING."""

    def single(value: bytes) -> tuple[Any, ...] | None:
        try:
            return tuple(
                None if c.name.lower() != "value" else value if c.type.name == "BINARY" else value.decode()
                for c in columns
            )
        except UnicodeDecodeError:
            raise NoRowError("this is no UTF-8") from None

    return Decoder(columns, single)


def text_cell(text: str, column: Field) -> Any:
    """A column's value of its text; nothing is NULL."""
    if text == "":
        return None
    kind, stripped = column.type.name, text.strip()
    try:
        if column.type.is_integral:
            return _bounded(int(stripped), column.type)
        if kind in ("FLOAT", "DOUBLE"):
            return float(stripped)
        if kind == "BOOLEAN":
            return {"true": True, "false": False}[stripped.lower()]
        return _cell(text, column.type)
    except (ValueError, KeyError, TypeError, ArithmeticError):
        raise NoRowError(f"column '{column.name}' is no {column.type}: {text}") from None


def cell(value: Any, column: Field) -> Any:
    """A column's value of a value as JSON or Avro knows it."""
    if value is None:
        return None
    try:
        return _cell(value, column.type)
    except (ValueError, TypeError, ArithmeticError):
        raise NoRowError(f"column '{column.name}' is no {column.type}: {shown(value)}") from None


def _cell(value: Any, type_: Type) -> Any:
    kind = type_.name
    if type_.is_integral:
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError
        return _bounded(value, type_)
    if kind in ("FLOAT", "DOUBLE"):
        if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
            raise ValueError
        return float(value)
    if kind == "DECIMAL":
        return decimal_of(str(value), *type_.params)
    if kind == "BOOLEAN":
        if not isinstance(value, bool):
            raise ValueError
        return value
    if kind == "DATE":
        return value if isinstance(value, date) else date.fromisoformat(value)
    if kind in ("TIMESTAMP", "TIMESTAMP_NTZ"):
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(value)
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        return moment if kind == "TIMESTAMP" else moment.replace(tzinfo=None)
    if kind == "BINARY":
        return value if isinstance(value, bytes) else str(value).encode()
    if kind != "STRING":
        raise ValueError
    return value if isinstance(value, str) else json.dumps(value, default=str)


_BITS = {"TINYINT": 7, "SMALLINT": 15, "INT": 31, "BIGINT": 63}


def _bounded(value: int, type_: Type) -> int:
    bits = _BITS.get(type_.name, 63)
    if not -(1 << bits) <= value < 1 << bits:
        raise ValueError
    return value
