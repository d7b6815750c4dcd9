"""Small CSV files that hold nothing out of the ordinary, read in this process: whoever asks a first question does not wait for Spark.

Only what is beyond doubt is read here: one line of names, no quotes, no empty values, no spaces around values, and every value written in the one way
that all readers of its type agree on. Anything else (also what has to be refused) is Spark's, with its reasons and its quarantine.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa

from tidegate.connectors.files import columns_in_names, existing, local_files
from tidegate.language.catalog import StreamDefinition
from tidegate.spark.values import arrow_type
from tidegate.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, SMALLINT, STRING, TIMESTAMP, TINYINT, Type

LARGEST = 4 << 20
"""Bytes of a stream's files that are read here."""
MOST_FILES = 50
MOST_COLUMNS = 1_000

_WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_REAL = re.compile(r"-?(0|[1-9][0-9]{0,14})(\.[0-9]{1,15})?")
_DAY = r"[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
_DATE = re.compile(_DAY)
_MOMENT = re.compile(rf"{_DAY} (?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{{6}})?")
_BITS: dict[Type, int] = {TINYINT: 8, SMALLINT: 16, INT: 32, BIGINT: 64}
_ODD = re.compile(r"[\"\\\x00-\x09\x0b-\x1f\ue000\ufeff]")
"""Characters that mean something to some reader; of control characters only the end of a line is plain."""


class _OddError(Exception):
    """Something that Spark is to look at."""


def plain_rows(definition: StreamDefinition) -> pa.Table | None:
    """The rows of a stream of CSV files in their order of arrival, with the declared types; None: they are Spark's to read."""
    path = str(definition.source.arguments[0])
    if definition.source.function != "csv" or definition.source.options or "://" in path:
        return None
    files = local_files(existing(definition))
    if (
        not 0 < len(files) <= MOST_FILES
        or sum(map(os.path.getsize, files)) > LARGEST
        or columns_in_names(path)
    ):
        return None
    try:
        columns = [_values(c.type) for c in definition.columns]
        tables = [_read(file, definition, columns) for file in files]
    except (_OddError, OSError, ValueError):
        return None
    return pa.concat_tables(tables)


def _read(file: str, definition: StreamDefinition, readers: list[Callable[[str], Any]]) -> pa.Table:
    if os.path.splitext(file)[1] not in (".csv", ".txt", ""):
        raise _OddError
    with open(file, encoding="utf-8", newline="") as data:
        text = data.read().replace("\r\n", "\n")
    if _ODD.search(text):
        raise _OddError
    first, *lines = text.removesuffix("\n").split("\n")
    names, rows = first.split(","), [line.split(",") for line in lines]
    declared = [c.name.lower() for c in definition.columns]
    lowered = [name.lower() for name in names]
    # The first line must be one of names beyond doubt, each of them once.
    if not set(declared) <= set(lowered) or len(set(lowered)) < len(lowered) or not rows:
        raise _OddError
    if len(names) > MOST_COLUMNS or any(len(row) != len(names) for row in rows):
        raise _OddError
    if any(not value or value != value.strip() for row in (names, *rows) for value in row):
        raise _OddError
    places = [lowered.index(name) for name in declared]
    columns = [
        pa.array([read(row[place]) for row in rows], arrow_type(column.type))
        for read, place, column in zip(readers, places, definition.columns, strict=True)
    ]
    return pa.table(columns, names=[c.name for c in definition.columns])


def _values(type_: Type) -> Callable[[str], Any]:
    """How a value of a type is read; what is written in another way is odd."""
    if type_ == STRING:
        return str
    if type_ in _BITS:
        bound = 1 << (_BITS[type_] - 1)
        return lambda text: _within(int(_matched(_WHOLE, text)), bound)
    if type_ == DOUBLE:
        return lambda text: float(_matched(_REAL, text)) + 0.0
    if type_ == BOOLEAN:
        return _boolean
    if type_ == DATE:
        return lambda text: date.fromisoformat(_matched(_DATE, text))
    if type_ == TIMESTAMP:
        return lambda text: datetime.fromisoformat(_matched(_MOMENT, text)).replace(tzinfo=UTC)
    raise _OddError


def _matched(pattern: re.Pattern[str], text: str) -> str:
    if pattern.fullmatch(text) is None:
        raise _OddError
    return text


def _within(number: int, bound: int) -> int:
    if not -bound <= number < bound:
        raise _OddError
    return number


def _boolean(text: str) -> bool:
    if text not in ("true", "false"):
        raise _OddError
    return text == "true"
