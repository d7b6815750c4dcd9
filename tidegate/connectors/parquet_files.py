"""`parquet('path')`: columnar files with types of their own."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.connectors.files import (
    FILE_ORDER,
    PATH,
    PER_TRIGGER,
    FileSource,
    columns_in_names,
    existing,
    load,
    missing_column,
    path_of,
    readable,
    values_in_names,
)  # fmt: skip
from tidegate.connectors.inference import type_of_texts
from tidegate.connectors.raw import RawStream, shaped
from tidegate.errors import Diagnostic
from tidegate.language.catalog import StreamDefinition
from tidegate.language.signatures import Signature
from tidegate.spark.values import arrow_type, schema_ddl, type_of_arrow
from tidegate.types import Field, Schema, Type

_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
"""Stands for NULL in the name of a folder."""


class ParquetFiles(FileSource):
    signature = Signature("parquet", (PATH,), (PER_TRIGGER,), 1, meaning="columnar files")

    def check(self, definition: StreamDefinition, files: Sequence[str]) -> None:
        """Each column must be in some file: those that are older may have fewer. Directories may name further ones."""
        found = {name.lower(): name for file in files for name in _schema(definition, file).names}
        found |= {name: name for name in columns_in_names(os.path.abspath(path_of(definition)))}
        for column in definition.columns:
            if files and column.name.lower() not in found:
                raise missing_column(definition, column.name, list(found.values()), path_of(definition))

    def _columns(self, definition: StreamDefinition, files: Sequence[str]) -> Schema:
        """Those of all files that can be read, each as the first that has it, and those in the names of folders."""
        found: dict[str, Field] = {}
        for stored, file in readable(files, lambda f: _schema(definition, f)):
            own = tuple(Field(column.name, _type_of(column, file)) for column in stored)
            _schema(
                replace(definition, columns=own), file
            )  # what cannot be a column is told before anybody reads
            for column in own:
                found.setdefault(column.name.lower(), column)
        for name, values in values_in_names(os.path.abspath(path_of(definition))).items():
            known = [v for v in values if v != _NO_VALUE]
            found.setdefault(name, Field(name, type_of_texts(known)))
        return tuple(found.values())

    def form(self, definition: StreamDefinition, file: str) -> Any:
        _schema(definition, file)
        return None

    def _rows(self, reader: Any, definition: StreamDefinition, position: str) -> RawStream:
        path = existing(definition)
        options = self.signature.for_spark(definition.source.options)
        reader = reader.format("parquet").options(**options).schema(schema_ddl(definition.columns))
        return shaped(definition, load(definition, reader, path), *FILE_ORDER, position)


def _type_of(column: pa.Field, file: str) -> Type:
    try:
        return type_of_arrow(column.type)
    except Diagnostic as diagnostic:
        raise Diagnostic(
            diagnostic.condition,
            f"column '{column.name}' of {file}: {diagnostic.message}",
            help="declare the columns that are needed, without this one",
        ) from None


def _schema(definition: StreamDefinition, file: str) -> pa.Schema:
    """A file's columns, of which those that are declared hold what is declared."""
    try:
        stored = pq.read_schema(file)
    except (pa.ArrowException, OSError) as problem:
        raise Diagnostic("SOURCE_BROKEN", f"{file} cannot be read: {problem}") from problem
    fields = {f.name.lower(): f.type for f in stored}
    for column in definition.columns:
        found = fields.get(column.name.lower())
        if found is not None and pa.types.is_timestamp(found) and found.unit == "ns":
            raise Diagnostic(
                "TYPE_MISMATCH",
                f"column '{column.name}' of '{definition.name}' is stored in nanoseconds in {file}, and instants are microseconds",
                help="write it so: frame.to_parquet(…, coerce_timestamps='us')",
            )
        if found is not None and not fits(column.type, found):
            raise Diagnostic(
                "TYPE_MISMATCH",
                f"column '{column.name}' of '{definition.name}' is {column.type}, and {found} in {file}",
                help="declare it as it is stored, and CAST it in the query",
            )
    return stored


def fits(declared: Type, stored: pa.DataType) -> bool:
    """Whether a column may be declared so: numbers wider than they are stored, as nothing is cut off; all else as it is."""
    wanted = arrow_type(declared)
    if _is_number(wanted) and _is_number(stored):
        return _holds(declared, type_of_arrow(stored))
    if pa.types.is_timestamp(wanted) or pa.types.is_nested(wanted):
        return bool(
            pa.types.is_timestamp(stored) == pa.types.is_timestamp(wanted)
        )  # what is inside, Spark compares
    return type_of_arrow(stored) == declared


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
