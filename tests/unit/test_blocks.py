"""Blocks hold rows of any size, and rows go where their key says."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
import sqlglot

from tidegate.exchange import blocks
from tidegate.kernels import rows as kernel_rows
from tidegate.storage import Storage
from tidegate.types import BIGINT, STRING, Field

SCHEMA = (Field("a", BIGINT), Field("b", STRING))


def rows(count: int) -> pl.DataFrame:
    texts = [None if i % 7 == 0 else "x" * (i % 40) for i in range(count)]
    return pl.DataFrame({"c0": range(count), "c1": texts}, schema={"c0": pl.Int64, "c1": pl.String})


def test_many_bytes_become_many_blocks_that_hold_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = rows(1000)
    assert len(list(blocks.pack_rows(frame))) == 1
    monkeypatch.setattr(blocks, "BYTES_PER_BLOCK", 1_000)
    packed = list(blocks.pack_rows(frame))
    assert len(packed) > 10
    assert blocks.unpack_rows(pa.chunked_array([pa.array(packed, pa.binary())])).equals(frame)


@pytest.mark.parametrize("partitions", [2, 5, blocks.FEW + 3])
def test_scattered_rows_are_all_there_once_in_order_and_equal_keys_meet(partitions: int) -> None:
    frame = rows(500)
    key = [sqlglot.parse_one("c0 % 10"), sqlglot.parse_one("c1")]
    places = blocks.partitions_of(frame, key, SCHEMA, partitions)
    found = dict(blocks.scatter(frame, places, partitions))
    assert sorted(c for part in found.values() for c in part["c0"]) == list(range(500))
    assert all(part["c0"].is_sorted() for part in found.values())
    seen: dict[tuple[int, str | None], set[int]] = {}
    for p, part in found.items():
        for number, text in part.rows():
            seen.setdefault((number % 10, text), set()).add(p)
    assert all(len(where) == 1 for where in seen.values())
    assert len({p for where in seen.values() for p in where}) == partitions


def test_a_key_that_only_spark_can_compute_has_no_types() -> None:
    assert blocks.key_types([sqlglot.parse_one("soundex(c1)")], SCHEMA) is None
    assert blocks.key_types([sqlglot.parse_one("c1")], SCHEMA) == (STRING,)


def test_large_blocks_are_files_on_one_machine(tmp_path: Path) -> None:
    files = Storage(str(tmp_path)).below("blocks")
    small, large = (
        pl.DataFrame({"c0": [1, 2]}),
        pl.DataFrame({"c0": range(400_000), "c1": ["a", None] * 200_000}),
    )
    for frame, count in ((small, 0), (large, 1)):
        packed = list(blocks.pack_rows(frame, files))
        assert len(list(tmp_path.glob("blocks/*.arrow"))) == count
        assert sum(map(len, packed)) < 1000
        assert blocks.unpack_rows(pa.chunked_array([pa.array(packed, pa.binary())])).equals(frame)


def test_empty_lists_whose_elements_begin_behind_their_end_travel() -> None:
    """As Polars gives them now and then: Arrow's writer would make bytes of them that nobody can read."""
    nothing = pa.Array.from_buffers(pa.int32(), 0, [None, pa.py_buffer(b"")], offset=2)
    lists = pa.LargeListArray.from_arrays(pa.array([0, 0, 0], pa.int64()), nothing)
    for column in (lists, pa.StructArray.from_arrays([lists], ["l"])):
        assert kernel_rows._begins_behind_its_end(column)
        sound = kernel_rows.written_anew(pa.chunked_array([column]))
        assert not any(map(kernel_rows._begins_behind_its_end, sound.chunks))
        assert sound.to_pylist() == column.to_pylist()
    numbers, deep = pl.List(pl.Int64), pl.List(pl.List(pl.Int64))
    some = pl.DataFrame(
        {"c0": [[1, 2], [], [], None], "c1": [[[]], [], [[3]], [[], []]]}, schema={"c0": numbers, "c1": deep}
    )
    for part in (some, some.slice(1, 2), some[[1, 2]], some.filter(pl.col("c0").list.len() == 0)):
        assert blocks.decode(pa.py_buffer(blocks.encode(part))).equals(part)
