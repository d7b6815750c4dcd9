"""Avro files as sources and sinks: what they hold is what is answered, recorded and live, whatever the codec."""

from __future__ import annotations

import json
import uuid
import zlib
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tidegate.connectors.avro_container import HEADER, MAGIC, blocks, read_header
from tidegate.errors import Diagnostic
from tidegate.runtime.running import LiveQuery
from tidegate.session import connect

SIMPLE = {
    "type": "record",
    "name": "reading",
    "fields": [{"name": "a", "type": ["null", "int"]}, {"name": "t", "type": "long"}],
}
ASIDE = "the file is set aside"


def write(file: Path, rows: Sequence[dict[str, Any]], schema: Any = SIMPLE, **more: Any) -> None:
    with file.open("wb") as data:
        fastavro.writer(data, fastavro.parse_schema(schema), rows, **more)


def recode(file: Path, codec: str) -> None:
    """Write a file's blocks with a codec for which the writer has no library here."""
    with file.open("rb") as data:
        header = read_header(data)
        found = [*blocks(data, header)]
    with file.open("wb") as out:
        meta = {"avro.schema": json.dumps(header.schema).encode(), "avro.codec": codec.encode()}
        fastavro.schemaless_writer(out, HEADER, {"magic": MAGIC, "meta": meta, "sync": header.marker})
        for block in found:
            packed = pa.Codec("zstd" if codec == "zstandard" else codec).compress(block.content, asbytes=True)
            packed += zlib.crc32(block.content).to_bytes(4, "big") if codec == "snappy" else b""
            for number in (block.records, len(packed)):
                fastavro.schemaless_writer(out, "long", number)
            out.write(packed + header.marker)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "in"
    place.mkdir()
    return place


def started(spark: SparkSession, folder: Path, columns: str = "(a INT, t BIGINT)") -> LiveQuery:
    session = connect(spark=spark, state=str(folder.parent / "state"), partitions=2)
    session.sql(f"CREATE STREAM S{columns} SOURCE avro('{folder}') ORDERED BY t")
    return session.query("SELECT a FROM S").start("q", begin=False)


def values(live: LiveQuery) -> list[Any]:
    return sorted(r.a for r in live.intervals().collect())


@pytest.mark.parametrize("codec", ["deflate", "bzip2", "xz", "zstandard", "snappy"])
def test_every_codec_is_read(spark: SparkSession, folder: Path, codec: str) -> None:
    plain = codec if codec in ("deflate", "bzip2", "xz") else "null"
    write(folder / "1.avro", [{"a": i, "t": i} for i in range(5_000)], codec=plain, sync_interval=2_000)
    if plain == "null":
        recode(folder / "1.avro", codec)
    write(folder / "2.avro", [{"a": None, "t": 5_000}])
    session = connect(spark=spark)
    session.sql(f"CREATE STREAM S SOURCE avro('{folder}/*.avro') ORDERED BY t")
    (row,) = (
        session.query("SELECT COUNT(*) AS n, COUNT(a) AS m, SUM(a) AS s FROM S WINDOW(RANGE UNBOUNDED)")
        .at(5_000)
        .collect()
    )
    assert tuple(row) == (5_001, 5_000, 4_999 * 2_500)


def test_logical_and_nested_types(spark: SparkSession, folder: Path) -> None:
    instant = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
    amount = {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 3}
    place = {
        "type": "record",
        "name": "place",
        "fields": [
            {"name": "x", "type": "double"},
            {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
        ],
    }
    kinds: dict[str, Any] = {
        "ms": {"type": "long", "logicalType": "timestamp-millis"},
        "us": {"type": "long", "logicalType": "timestamp-micros"},
        "local": {"type": "long", "logicalType": "local-timestamp-micros"},
        "day": ["null", {"type": "int", "logicalType": "date"}],
        "amount": ["null", amount],
        "id": {"type": "string", "logicalType": "uuid"},
        "here": place,
        "there": ["null", "place"],
        "tags": {"type": "array", "items": "string"},
        "counts": {"type": "map", "values": "long"},
        "kind": {"type": "enum", "name": "kinds", "symbols": ["A", "B"]},
        "raw": "bytes",
        "flag": "boolean",
        "number": ["null", "int", "long"],
    }
    schema = {"type": "record", "name": "every", "fields": [{"name": n, "type": k} for n, k in kinds.items()]}
    known = uuid.UUID(int=7)
    row = {
        "ms": instant, "us": instant, "local": instant.replace(tzinfo=None), "day": date(2024, 2, 29), "amount": Decimal("12345678901234567890123456789012345.678"),
        "id": known, "here": {"x": 0.5, "at": instant}, "there": None, "tags": ["x", "ä"], "counts": {"k": 2**40}, "kind": "B", "raw": b"\xff\x00", "flag": True,
        "number": 2**40,
    }  # fmt: skip
    write(folder / "1.avro", [row], schema)
    session = connect(spark=spark)
    shown = session.sql(f"CREATE STREAM S SOURCE avro('{folder}') ORDERED BY us")
    assert dict(shown) == {
        "ms": "TIMESTAMP", "us": "TIMESTAMP (TS)", "local": "TIMESTAMP_NTZ", "day": "DATE", "amount": "DECIMAL(38,3)", "id": "STRING",
        "here": "STRUCT<x: DOUBLE, at: TIMESTAMP>", "there": "STRUCT<x: DOUBLE, at: TIMESTAMP>", "tags": "ARRAY<STRING>", "counts": "MAP<STRING, BIGINT>",
        "kind": "STRING", "raw": "BINARY", "flag": "BOOLEAN", "number": "BIGINT",
    }  # fmt: skip
    names = ", ".join(n for n in kinds if n != "us")
    found = (
        session.query(f"SELECT {names} FROM S WINDOW(RANGE UNBOUNDED)")
        .run()
        .at(instant)
        .toArrow()
        .to_pylist()
    )
    expected = {n: row[n] for n in kinds if n != "us"} | {"id": str(known), "counts": [("k", 2**40)]}
    assert found == [expected]


def test_live_files_come_as_they_are(spark: SparkSession, folder: Path) -> None:
    write(folder / "1.avro", [{"a": 1, "t": 1}])
    live = started(spark, folder, "")  # the columns are the file's
    live.run.drain()
    (folder / "2.avro").write_bytes(b"this is none")
    other = {**SIMPLE, "fields": [{"name": "a", "type": "string"}, {"name": "t", "type": "long"}]}
    write(folder / "3.avro", [{"a": "x", "t": 3}], other)
    write(folder / "4.avro", [{"a": 4, "t": 4}] * 100)
    (folder / "4.avro").write_bytes((folder / "4.avro").read_bytes()[:-20])
    write(folder / "5.avro", [{"a": 5, "t": 5}])
    live.run.drain()
    assert live.status()["files"]["S"]["aside"] == [str(folder / f"{i}.avro") for i in (2, 3, 4)]
    assert live.status()["sources"]["S"]["quarantine"] == {ASIDE: 3}
    live.stop()
    write(folder / "4.avro", [{"a": 4, "t": 14}])  # mended
    write(folder / "6.avro", [{"a": 6, "t": 16}])
    again = started(spark, folder, "")
    again.finish()
    assert values(again) == [1, 4, 5, 6]


def test_a_damaged_block_is_refused_and_the_others_are_used(spark: SparkSession, folder: Path) -> None:
    write(folder / "1.avro", [{"a": i, "t": i} for i in range(300)], codec="deflate", sync_interval=400)
    with (folder / "1.avro").open("rb") as data:
        sizes = [(b.offset, b.num_records) for b in fastavro.block_reader(data)]
    assert len(sizes) > 2
    content = bytearray((folder / "1.avro").read_bytes())
    place = sizes[1][0] + 8
    content[place : place + 8] = b"\xff" * 8
    (folder / "1.avro").write_bytes(content)
    session = connect(spark=spark)
    session.sql(f"CREATE STREAM S(a INT, t BIGINT) SOURCE avro('{folder}') ORDERED BY t")
    result = session.query("SELECT a FROM S").run()
    first, damaged = sizes[0][1], sizes[1][1]
    kept = {r.a for r in result.intervals().collect()}
    assert kept >= {*range(first), *range(first + damaged, 300)}
    assert len(kept) + sum(result.refused["S"].values()) == 300
    assert sum(result.refused["S"].values()) > 0


@pytest.mark.parametrize(
    ("columns", "kind", "condition"),
    [
        ("(a STRING, t BIGINT)", "int", "TYPE_MISMATCH"),
        ("(a INT, t BIGINT)", "long", "TYPE_MISMATCH"),
        ("(b INT, t BIGINT)", "int", "UNKNOWN_COLUMN"),
        ("", {"type": "int", "logicalType": "time-millis"}, "TYPE_UNKNOWN"),
        ("", ["null", "int", "string"], "TYPE_UNKNOWN"),
    ],
)
def test_what_cannot_be_read_is_told(folder: Path, columns: str, kind: Any, condition: str) -> None:
    schema = {**SIMPLE, "fields": [{"name": "a", "type": kind}, {"name": "t", "type": "long"}]}
    write(folder / "1.avro", [], schema)
    session = connect()
    with pytest.raises(Diagnostic) as raised:
        session.sql(f"CREATE STREAM S{columns} SOURCE avro('{folder}') ORDERED BY t; SELECT * FROM S")
    assert raised.value.condition == condition
    assert "1.avro" in raised.value.message or str(folder) in raised.value.message


@pytest.mark.parametrize("compression", ["none", "deflate", "xz"])
def test_what_is_written_is_read_again(spark: SparkSession, tmp_path: Path, compression: str) -> None:
    session = connect(spark=spark)
    rows = [
        {"k": "a", "d": Decimal("1.50"), "t": datetime(2026, 1, 1, tzinfo=UTC)},
        {"k": None, "d": None, "t": datetime(2026, 1, 2, tzinfo=UTC)},
    ]
    session.stream("S", rows, ordered_by="t", schema="k STRING, d DECIMAL(9, 2), t TIMESTAMP")
    session.sql(
        f"INSERT INTO avro('{tmp_path / 'out'}') WITH (compression = '{compression}') SELECT STREAMED k, d, ARRAY(k) AS ks FROM S WINDOW(RANGE UNBOUNDED)"
    )
    files = sorted((tmp_path / "out").glob("epoch=*/*.avro"))
    found = [r for file in files for r in fastavro.reader(file.open("rb"))]
    assert [(r["op"], r["k"], r["d"], r["ks"], r["ts"]) for r in found] == [
        ("+", r["k"], r["d"], [r["k"]], r["t"]) for r in rows
    ]
    session.sql(f"CREATE STREAM Back SOURCE avro('{tmp_path / 'out'}') ORDERED BY ts")
    again = (
        session.query("SELECT k, d FROM Back WINDOW(RANGE UNBOUNDED)")
        .at(datetime(2026, 1, 3, tzinfo=UTC))
        .collect()
    )
    assert {tuple(r) for r in again} == {(r["k"], r["d"]) for r in rows}
