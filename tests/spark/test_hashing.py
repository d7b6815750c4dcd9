"""A row goes where Spark would send it: `partition_of` is Spark's `pmod(hash(...), n)`, value by value."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tidegate.exchange.hashing import hash_of, partition_of
from tidegate.scalars.columns import dtype
from tidegate.spark.values import arrow_type
from tidegate.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    INTERVAL,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    Type,
    Value,
    array,
    decimal,
)

Maker = Callable[[random.Random], Value]


def whole(bits: int) -> Maker:
    """Numbers of any length up to so many bits."""

    def make(rng: random.Random) -> int:
        value = rng.getrandbits(rng.randint(1, bits - 1))
        return rng.choice((value, -value - 1))

    return make


def single(value: float) -> float:
    return struct.unpack("f", struct.pack("f", value))[0]  # type: ignore[no-any-return]


def text(rng: random.Random) -> str:
    return "".join(rng.choice("aZ 0\0é€𝄞ÿ") for _ in range(rng.randint(0, 20)))


def digits(precision: int, scale: int) -> Maker:
    def make(rng: random.Random) -> Decimal:
        value = rng.randrange(10 ** rng.randint(1, precision))
        return Decimal(rng.choice((value, -value))).scaleb(-scale)

    return make


def instant(rng: random.Random) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=rng.randint(-(2**55), 2**55))


NAN = float("nan")
NEGATIVE_NAN = struct.unpack("d", struct.pack("Q", 0xFFF8000000000001))[0]

TYPES: dict[Type, tuple[Maker, tuple[Value, ...]]] = {
    BOOLEAN: (lambda rng: rng.random() < 0.5, (True, False)),
    TINYINT: (whole(8), (-128, 127, 0)),
    SMALLINT: (whole(16), (-(2**15), 2**15 - 1)),
    INT: (whole(32), (-(2**31), 2**31 - 1)),
    BIGINT: (whole(64), (-(2**63), 2**63 - 1, 2**32, -1)),
    FLOAT: (
        lambda rng: single(rng.uniform(-1e9, 1e9)),
        (0.0, -0.0, NAN, NEGATIVE_NAN, math.inf, -math.inf, single(1e-45)),
    ),
    DOUBLE: (
        lambda rng: rng.uniform(-1e300, 1e300),
        (0.0, -0.0, NAN, NEGATIVE_NAN, math.inf, -math.inf, 5e-324),
    ),
    decimal(5, 2): (digits(5, 2), (Decimal("999.99"), Decimal("-0.01"), Decimal("0.00"))),
    decimal(18, 0): (digits(18, 0), (Decimal(10**18 - 1), Decimal(1 - 10**18))),
    decimal(19, 4): (digits(19, 4), (Decimal("0.0000"), Decimal("0.0127"), Decimal("0.0128"))),
    decimal(38, 10): (
        digits(38, 10),
        tuple(Decimal(sign * 2**bits + 1).scaleb(-10) for bits in (7, 8, 63, 64, 120) for sign in (1, -1)),
    ),
    STRING: (text, ("", "a", "ab", "abc", "abcd", "abcde", "é", "x" * 1000)),
    BINARY: (lambda rng: rng.randbytes(rng.randint(0, 13)), (b"", b"\xff", b"\x80\x00\x7f\xff\xfe")),
    DATE: (
        lambda rng: date(1970, 1, 1) + timedelta(days=rng.randint(-200_000, 900_000)),
        (date(1970, 1, 1), date(1, 1, 1), date(9999, 12, 31)),
    ),
    TIMESTAMP: (instant, (datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC),)),
    TIMESTAMP_NTZ: (lambda rng: instant(rng).replace(tzinfo=None), (datetime(1970, 1, 1),)),
    INTERVAL: (
        lambda rng: timedelta(microseconds=rng.randint(-(2**50), 2**50)),
        (timedelta(0), timedelta(-1)),
    ),
}


def nested(element: Type, member: Type) -> dict[Type, tuple[Maker, tuple[Value, ...]]]:
    one, edges = TYPES[element]
    other, _ = TYPES[member]

    def some(rng: random.Random) -> list[Value]:
        return [rng.choice((None, one(rng))) for _ in range(rng.randint(0, 4))]

    pair = Type("STRUCT", (("a", element), ("b", member)))
    deep = array(array(pair))

    def struct_of(rng: random.Random) -> dict[str, Value]:
        return {"a": rng.choice((None, one(rng))), "b": other(rng)}

    return {
        array(element): (some, ([], list(edges), [None])),
        pair: (struct_of, ({"a": None, "b": None},)),
        deep: (
            lambda rng: [
                [struct_of(rng) for _ in range(rng.randint(0, 2))] for _ in range(rng.randint(0, 2))
            ],
            ([], [[]], [[None]], [None]),
        ),
    }


EVERY = TYPES | nested(STRING, BIGINT) | nested(DOUBLE, decimal(38, 10)) | nested(INT, BOOLEAN)


def values_of(type_: Type, rng: random.Random, count: int) -> list[Value]:
    make, edges = EVERY[type_]
    found: list[Value] = [None, *edges, *(make(rng) for _ in range(count)), None]
    rng.shuffle(found)
    return found


def by_spark(spark: SparkSession, columns: list[tuple[Type, list[Value]]], ask: str) -> list[Any]:
    fields = [pa.field(f"c{i}", arrow_type(t)) for i, (t, _) in enumerate(columns)]
    arrays = [pa.array(values, arrow_type(t)) for t, values in columns]
    order = pa.array(range(len(arrays[0])), pa.int64())
    rows = pa.table([*arrays, order], schema=pa.schema([*fields, pa.field("i", pa.int64())]))
    names = ", ".join(f.name for f in fields)
    frame = spark.createDataFrame(rows).selectExpr("i", f"{ask.format(names)} AS found")
    return [row["found"] for row in frame.orderBy("i").collect()]


def as_series(type_: Type, values: list[Value]) -> pl.Series:
    """The column as kernels hold it."""
    found = pl.from_arrow(pa.array(values, arrow_type(type_)))
    assert isinstance(found, pl.Series)
    return found.cast(dtype(type_))


@pytest.mark.parametrize("type_", EVERY, ids=str)
def test_every_value_hashes_as_in_spark(spark: SparkSession, type_: Type) -> None:
    values = values_of(type_, random.Random(str(type_)), 300)
    wanted = by_spark(spark, [(type_, values)], "hash({})")
    found = hash_of([as_series(type_, values)], [type_]).tolist()
    assert [(v, f) for v, f, w in zip(values, found, wanted, strict=True) if f != w] == []


@pytest.mark.parametrize("partitions", [1, 2, 7, 200])
def test_columns_are_chained_and_land_in_sparks_partition(spark: SparkSession, partitions: int) -> None:
    rng = random.Random(partitions)
    types = [STRING, INT, decimal(38, 10), DOUBLE, array(STRING), BIGINT]
    columns = [(t, (values_of(t, rng, 200) * 2)[:200]) for t in types]
    wanted = by_spark(spark, columns, f"pmod(hash({{}}), {partitions})")
    assert partition_of([as_series(t, v) for t, v in columns], types, partitions).tolist() == wanted


@pytest.mark.parametrize("type_", [STRING, BIGINT, decimal(38, 10), decimal(5, 2)], ids=str)
def test_a_part_of_a_column_hashes_as_its_values(type_: Type) -> None:
    """Slices, several chunks and no rows at all: how a column lies in memory does not show."""
    values = values_of(type_, random.Random(1), 50)
    whole_column = as_series(type_, values)
    wanted = hash_of([whole_column], [type_]).tolist()
    halves = pl.concat([whole_column[:20], whole_column[20:]], rechunk=False)
    assert hash_of([halves], [type_]).tolist() == wanted
    assert hash_of([whole_column[11:31]], [type_]).tolist() == wanted[11:31]
    assert hash_of([whole_column[:0]], [type_]).tolist() == []
