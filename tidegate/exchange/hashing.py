"""Spark's `hash(...)` over columns in Python: where a row goes, told without Spark.

Murmur3 (x86, 32 bits) with seed 42. The columns are chained: each one's value is hashed with the result of the columns before it
as seed, and NULL leaves it as it is. Bytes that do not fill a word are mixed one by one, as signed numbers; this is
Spark's own, not Murmur's.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from tidegate.errors import internal
from tidegate.kernels.machine_code import compiled
from tidegate.types import Type

Hashes = npt.NDArray[np.uint32]
Valid = npt.NDArray[np.bool_]

_SEED = 42
_WORDS = ("BOOLEAN", "TINYINT", "SMALLINT", "INT", "DATE")
"""Types that are hashed as one word of 32 bits."""
_LONGS = ("BIGINT", "TIMESTAMP", "TIMESTAMP_NTZ", "INTERVAL")
_SMALL_DECIMAL = 18
"""Decimals of up to so many digits are hashed as the long that holds them."""


def partition_of(
    columns: Sequence[pl.Series], types: Sequence[Type], partitions: int
) -> npt.NDArray[np.int32]:
    """`pmod(hash(columns), partitions)`, row by row; there is at least one column.

    >>> from tidegate.types import BIGINT, STRING
    >>> partition_of([pl.Series([1, None]), pl.Series(["Tidegate", None])], [BIGINT, STRING], 100).tolist()
    [88, 42]
    """
    return _remainders(hash_of(columns, types), partitions)


def hash_of(columns: Sequence[pl.Series], types: Sequence[Type]) -> npt.NDArray[np.int32]:
    """`hash(columns)`, row by row."""
    hashes = np.full(len(columns[0]), _SEED, np.uint32)
    for column, type_ in zip(columns, types, strict=True):
        _mix(column, type_, hashes)
    return hashes.view(np.int32)


def _mix(column: pl.Series, type_: Type, hashes: Hashes) -> None:
    """Chain a column's values to the hashes."""
    if type_.name in _WORDS:
        _mix_words(_numbers(column, pl.Int32), _valid(column), hashes)
    elif type_.name in _LONGS:
        _mix_longs(_numbers(column, pl.Int64), _valid(column), hashes)
    elif type_.name == "FLOAT":
        _mix_words(_canonical(column, np.float32).view(np.int32), _valid(column), hashes)
    elif type_.name == "DOUBLE":
        _mix_longs(_canonical(column, np.float64).view(np.int64), _valid(column), hashes)
    elif type_.name == "DECIMAL":
        _mix_decimals(column, type_, hashes)
    elif type_.name in ("STRING", "BINARY"):
        data, offsets = _bytes(column)
        _mix_bytes(data, offsets, _valid(column), hashes)
    elif type_.name == "ARRAY":
        _mix_lists(column, type_.params[0], hashes)
    elif type_.name == "STRUCT":
        present = column.is_not_null()
        for name, member in type_.params:
            # Members of a NULL struct do not count, whatever stands beneath it.
            values = column.struct.field(name)
            _mix(values.to_frame().select(pl.when(present).then(pl.first())).to_series(), member, hashes)
    elif type_.name != "VOID":
        raise internal(f"Spark does not hash {type_}")


def _mix_lists(column: pl.Series, element: Type, hashes: Hashes) -> None:
    """The members of each list, one after the other: first all first ones, then all second ones, …"""
    lengths = column.list.len().fill_null(0)
    for position in range(int(lengths.max() or 0)):  # type: ignore[arg-type]
        rows = np.flatnonzero((lengths > position).to_numpy())
        members = column.gather(rows).list.get(position)
        part = hashes[rows]
        _mix(members, element, part)
        hashes[rows] = part


def _mix_decimals(column: pl.Series, type_: Type, hashes: Hashes) -> None:
    precision = type_.params[0]
    arrow = column.to_arrow(compat_level=pl.CompatLevel.oldest())
    assert pa.types.is_decimal128(arrow.type), arrow.type
    # Two words of 64 bits each, the low one first.
    words = np.frombuffer(arrow.buffers()[1], np.int64).reshape(-1, 2)[
        arrow.offset : arrow.offset + len(arrow)
    ]
    if precision <= _SMALL_DECIMAL:
        _mix_longs(np.ascontiguousarray(words[:, 0]), _valid(column), hashes)
    else:
        _mix_wide(words, _valid(column), hashes)


def _valid(column: pl.Series) -> Valid:
    """Which values are there; empty: all."""
    return column.is_not_null().to_numpy() if column.null_count() else np.empty(0, np.bool_)


def _numbers(column: pl.Series, kind: type[pl.DataType]) -> npt.NDArray[np.signedinteger]:
    plain = column.to_physical().cast(kind)
    return (plain.fill_null(0) if plain.null_count() else plain).to_numpy()


def _canonical(column: pl.Series, kind: type[np.floating]) -> npt.NDArray[np.floating]:
    """One zero and one NaN."""
    values = (column.fill_null(0.0) if column.null_count() else column).to_numpy().astype(kind)
    values[values == 0] = 0
    values[np.isnan(values)] = np.nan
    return values


def _bytes(column: pl.Series) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    arrow = column.to_arrow(compat_level=pl.CompatLevel.oldest())
    _, offsets, data = arrow.buffers()
    ends = np.frombuffer(offsets, np.int64)[arrow.offset : arrow.offset + len(arrow) + 1]
    return np.frombuffer(data or b"", np.uint8), ends


@compiled
def _mixed(h: np.uint32, word: np.uint32) -> np.uint32:
    word = np.uint32(word * np.uint32(0xCC9E2D51))
    word = np.uint32((word << np.uint32(15)) | (word >> np.uint32(17)))
    word = np.uint32(word * np.uint32(0x1B873593))
    h = np.uint32(h ^ word)
    h = np.uint32((h << np.uint32(13)) | (h >> np.uint32(19)))
    return np.uint32(h * np.uint32(5) + np.uint32(0xE6546B64))


@compiled
def _finished(h: np.uint32, length: int) -> np.uint32:
    h = np.uint32(h ^ np.uint32(length))
    h = np.uint32(h ^ (h >> np.uint32(16)))
    h = np.uint32(h * np.uint32(0x85EBCA6B))
    h = np.uint32(h ^ (h >> np.uint32(13)))
    h = np.uint32(h * np.uint32(0xC2B2AE35))
    return np.uint32(h ^ (h >> np.uint32(16)))


@compiled
def _remainders(hashes: npt.NDArray[np.int32], partitions: int) -> npt.NDArray[np.int32]:
    found = np.empty(len(hashes), np.int32)
    by = np.int32(partitions)
    for i in range(len(hashes)):
        # Division of 32 bits is twice as fast as that of 64.
        found[i] = np.int32(hashes[i] % by)
    return found


@compiled
def _mix_words(values: npt.NDArray[np.int32], valid: Valid, hashes: Hashes) -> None:
    for i in range(len(values)):
        if len(valid) == 0 or valid[i]:
            hashes[i] = _finished(_mixed(hashes[i], np.uint32(values[i])), 4)


@compiled
def _mix_longs(values: npt.NDArray[np.int64], valid: Valid, hashes: Hashes) -> None:
    for i in range(len(values)):
        if len(valid) == 0 or valid[i]:
            low = _mixed(hashes[i], np.uint32(values[i] & 0xFFFFFFFF))
            hashes[i] = _finished(_mixed(low, np.uint32((values[i] >> 32) & 0xFFFFFFFF)), 8)


@compiled
def _over_bytes(h: np.uint32, data: npt.NDArray[np.uint8], begin: int, end: int) -> np.uint32:
    length = end - begin
    aligned = begin + (length & ~3)
    for i in range(begin, aligned, 4):
        word = (
            np.uint32(data[i])
            | np.uint32(data[i + 1]) << np.uint32(8)
            | np.uint32(data[i + 2]) << np.uint32(16)
            | np.uint32(data[i + 3]) << np.uint32(24)
        )
        h = _mixed(h, np.uint32(word))
    for i in range(aligned, end):
        h = _mixed(h, np.uint32(np.int32(np.int8(data[i]))))
    return _finished(h, length)


@compiled
def _mix_bytes(
    data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], valid: Valid, hashes: Hashes
) -> None:
    for i in range(len(hashes)):
        if len(valid) == 0 or valid[i]:
            hashes[i] = _over_bytes(hashes[i], data, offsets[i], offsets[i + 1])


@compiled
def _mix_wide(words: npt.NDArray[np.int64], valid: Valid, hashes: Hashes) -> None:
    """The shortest two's complement bytes of each number, the highest first."""
    data = np.empty(16, np.uint8)
    for i in range(len(words)):
        if len(valid) != 0 and not valid[i]:
            continue
        for k in range(8):
            data[7 - k] = (words[i, 1] >> (8 * k)) & 0xFF
            data[15 - k] = (words[i, 0] >> (8 * k)) & 0xFF
        first = 0
        sign = 0xFF if data[0] & 0x80 else 0
        while first < 15 and data[first] == sign and (data[first + 1] & 0x80) == (sign & 0x80):
            first += 1
        hashes[i] = _over_bytes(hashes[i], data, first, 16)
