"""`parquet('path')`: columnar files with types of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.connectors.files import (
    FILE_ORDER,
    PATH,
    PER_TRIGGER,
    FileSource,
    existing,
    load,
    local_files,
    missing_column,
    path_of,
)  # fmt: skip
from tidegate.connectors.raw import RawStream, shaped
from tidegate.errors import Diagnostic
from tidegate.language.catalog import StreamDefinition
from tidegate.language.signatures import Signature
from tidegate.spark.values import arrow_type, schema_ddl, type_of_arrow
from tidegate.types import Type


class ParquetFiles(FileSource):
    signature = Signature("parquet", (PATH,), (PER_TRIGGER,), 1, meaning="columnar files")

    def columns(self, definition: StreamDefinition) -> Sequence[str] | None:
        """Those of any file: files that are older may have fewer. Directories may name further ones."""
        declared = {c.name.lower() for c in definition.columns}
        found: dict[str, None] = {}
        for file in local_files(path_of(definition)):
            if "=" in file:
                return None
            try:
                stored = pq.read_schema(file)
            except (pa.ArrowException, OSError):
                return None
            _check_numbers(definition, stored, file)
            found |= dict.fromkeys(stored.names)
            if declared <= {name.lower() for name in found}:
                break
        return list(found) or None

    def _rows(self, reader: Any, definition: StreamDefinition, position: str) -> RawStream:
        path = existing(definition)
        found = self.columns(definition)
        for column in definition.columns:
            if found is not None and column.name.lower() not in {name.lower() for name in found}:
                raise missing_column(definition, column.name, list(found), path)
        options = self.signature.for_spark(definition.source.options)
        reader = reader.format("parquet").options(**options).schema(schema_ddl(definition.columns))
        return shaped(definition, load(definition, reader, path), *FILE_ORDER, position)


def _check_numbers(definition: StreamDefinition, stored: pa.Schema, file: str) -> None:
    """Numbers may be declared wider than they are stored, but nothing is cut off."""
    types = {f.name.lower(): type_of_arrow(f.type) for f in stored if _is_number(f.type)}
    for column in definition.columns:
        found = types.get(column.name.lower())
        if found is None or not _is_number(arrow_type(column.type)) or _holds(column.type, found):
            continue
        raise Diagnostic(
            "TYPE_MISMATCH",
            f"column '{column.name}' of '{definition.name}' is {column.type}, and {found} in {file}",
            help="declare it as it is stored, and CAST it in the query",
        )


def _is_number(type_: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_))


def _holds(declared: Type, stored: Type) -> bool:
    """Whether every number of one type is one of the other.

    >>> from tidegate.types import BIGINT, INT, decimal
    >>> _holds(decimal(10, 3), decimal(6, 3)), _holds(decimal(5, 2), decimal(6, 3)), _holds(INT, BIGINT)
    (True, False, False)
    """
    if declared == stored:
        return True
    digits, places = _digits(declared), _digits(stored)
    if declared.name == "DOUBLE":
        return stored.name in ("TINYINT", "SMALLINT", "INT", "FLOAT")
    return None not in (digits, places) and digits[0] >= places[0] and digits[1] >= places[1]  # type: ignore[index]


def _digits(type_: Type) -> tuple[int, int] | None:
    """Digits before and after the point."""
    if type_.name == "DECIMAL":
        return type_.params[0] - type_.params[1], type_.params[1]
    whole = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 20}.get(type_.name)
    return None if whole is None else (whole, 0)
