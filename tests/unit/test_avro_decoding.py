"""Avro's files as rows, without Spark: what workers do with a file."""

from __future__ import annotations

import zlib
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from tidegate.connectors.avro_container import Block, Header, columns_of, decompressed, read_header
from tidegate.connectors.avro_files import AvroFiles, _Decoder
from tidegate.connectors.raw import POSITION, REASON
from tidegate.errors import Diagnostic
from tidegate.language.catalog import SourceCall, StreamDefinition
from tidegate.types import INT, TIMESTAMP, Field, Type


def written(file: Path, kinds: dict[str, Any], rows: list[dict[str, Any]], **more: Any) -> Path:
    members = [{"name": n, "type": k} for n, k in kinds.items()]
    with file.open("wb") as data:
        fastavro.writer(data, {"type": "record", "name": "row", "fields": members}, rows, **more)
    return file


def decoded(file: Path, columns: tuple[Field, ...] | None = None) -> pa.Table:
    with file.open("rb") as data:
        columns = columns or tuple(columns_of(read_header(data)))
    files = pa.record_batch({"_path": [f"file://{file}"], "content": pa.array([None], pa.binary())})
    return pa.Table.from_batches(_Decoder(columns)([files]))


def test_a_name_stands_for_the_type_it_was_given_to(tmp_path: Path) -> None:
    instant = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
    at = {"type": "long", "logicalType": "timestamp-millis"}
    amount = {
        "type": "fixed",
        "name": "money",
        "size": 16,
        "logicalType": "decimal",
        "precision": 38,
        "scale": 3,
    }
    place = {
        "type": "record",
        "name": "place",
        "namespace": "of.ours",
        "fields": [{"name": "at", "type": ["null", at]}],
    }
    kinds = {
        "here": place,
        "there": ["null", "of.ours.place"],
        "m": ["null", amount],
        "n": "money",
        "k": {"type": "map", "values": ["null", at]},
    }
    most = Decimal("12345678901234567890123456789012345.678")
    row = {"here": {"at": instant}, "there": None, "m": -most, "n": most, "k": {"x": instant, "y": None}}
    found = decoded(written(tmp_path / "1.avro", kinds, [row, row | {"there": {"at": None}, "m": None}]))
    rows = found.drop_columns(["_path", POSITION, "_tidegate_unreadable", REASON]).to_pylist()
    shown = row | {"k": [("x", instant), ("y", None)]}
    assert rows == [shown, shown | {"there": {"at": None}, "m": None}]


def test_a_value_that_does_not_fit_harms_no_other_row(tmp_path: Path) -> None:
    kinds = {"a": "long", "t": {"type": "long", "logicalType": "timestamp-millis"}}
    rows = [{"a": a, "t": t} for a, t in ((1, 5), (2**62, 6), (3, 7))]
    found = decoded(
        written(tmp_path / "1.avro", kinds, rows), (Field("a", INT), Field("t", TIMESTAMP))
    ).to_pylist()
    assert [r["a"] for r in found] == [1, None, 3]
    assert [r[REASON] for r in found] == [None, f"column 'a' is no INT: {2**62}", None]
    # Python's calendar ends long before Avro's instants do: which years are used is told later, row by row.
    far = decoded(written(tmp_path / "2.avro", {"t": kinds["t"]}, [{"t": 2**53}, {"t": 1}, {"t": 2**62}]))
    assert far.column("t").cast(pa.int64()).to_pylist() == [2**53 * 1000, 1000, None]
    assert far.column(REASON).to_pylist() == [None, None, f"column 't' is no TIMESTAMP: {2**62 * 1000}"]


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz"])
def test_every_record_is_used_or_refused_whatever_byte_is_damaged(tmp_path: Path, codec: str) -> None:
    file = written(
        tmp_path / "1.avro",
        {"a": ["null", "int"], "s": "string"},
        [{"a": i, "s": "x" * (i % 7)} for i in range(300)],
        codec=codec,
        sync_interval=500,
    )
    with file.open("rb") as data:
        places = [(b.offset, b.size) for b in fastavro.block_reader(data)]
    whole = file.read_bytes()
    definition = StreamDefinition(
        "S", (Field("a", INT), Field("s", Type("STRING"))), SourceCall("avro", (str(file),))
    )
    source = AvroFiles()
    used = 0
    told: list[tuple[str, bool]] = []
    for byte in range(places[0][0], len(whole), 7):
        file.write_bytes(whole[:byte] + bytes([whole[byte] ^ 0x55]) + whole[byte + 1 :])
        try:
            source.form(definition, file.as_posix())
        except Diagnostic as problem:
            told.append((problem.condition, str(file) in problem.message))
            continue
        rows = decoded(file, definition.columns)
        assert rows.column(POSITION).to_pylist() == [*range(rows.num_rows)]
        assert rows.num_rows == 300 or byte <= places[-1][0] + places[-1][1]
        used += 1
    assert used
    assert set(told) == {("SOURCE_BROKEN", True)}


def test_a_codec_that_nobody_knows_is_named(tmp_path: Path) -> None:
    file = written(tmp_path / "1.avro", {"a": "int"}, [{"a": 1}])
    file.write_bytes(file.read_bytes().replace(b"\x08null", b"\x08nill"))
    definition = StreamDefinition("S", (Field("a", INT),), SourceCall("avro", (str(file),)))
    with pytest.raises(Diagnostic, match="its codec 'nill' is none of null, deflate, snappy"):
        AvroFiles().form(definition, str(file))


@pytest.mark.parametrize(("codec", "packed"), [("zstandard", "zstd"), ("snappy", "snappy")])
def test_codecs_of_arrow(codec: str, packed: str) -> None:
    content = b"stream" * 100
    made = pa.Codec(packed).compress(content, asbytes=True)
    made += zlib.crc32(content).to_bytes(4, "big") if codec == "snappy" else b""
    assert decompressed(Header({}, codec, b""), Block(0, 1, made)) == content
    with pytest.raises((ValueError, OSError)):
        decompressed(Header({}, codec, b""), Block(0, 1, made[:20]))
