"""Files of answers: a Parquet file for one operator's rows, or one file with a section for each of many.

How many files an epoch writes does not depend on how many queries there are. A file of sections ends with its directory, so that the
rows of one operator are read without those of the others. The file's name has the checksum of the directory, which has those of the
sections.
"""

from __future__ import annotations

import io
import json
import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.codec import from_data, to_data
from tidegate.exchange import blocks
from tidegate.exchange.messages import ResultFile, RowCounts
from tidegate.kernels.rows import Frame, to_arrow
from tidegate.storage import Seal, Storage, name_in_path, seal_of

OWN_FILE = 8 << 20
"""Rows of so many bytes get a file of their own, which Spark reads by itself."""

ROW_GROUP = 1 << 18

QUARANTINE = "quarantine"

MAGIC = b"TGR2"

_TAIL = 8 + len(MAGIC)


@dataclass(frozen=True)
class Section:
    """Where the rows of one operator lie in a file of sections."""

    offset: int
    length: int
    checksum: int
    counts: RowCounts


def counted(rows: Frame) -> RowCounts:
    """What readers want to know of some rows, of which there is at least one."""
    found = rows.select(
        pl.len(),
        (pl.col("n") < 0).sum(),
        (pl.col("n") > 1).sum().alias("multiple"),
        pl.col("ts").min().alias("min_ts"),
        pl.col("ts").max().alias("max_ts"),
        pl.col("te").max(),
    ).row(0)
    return RowCounts(*map(int, found))


def write_results(
    storage: Storage, prefix: str, sections: Mapping[str, Frame], level: int = 0
) -> tuple[ResultFile, ...]:
    """Write the rows of some operators; `level` says how often they have been merged. Those without rows are left out."""
    present = {id_: rows for id_, rows in sections.items() if rows.height}
    large = {id_: rows for id_, rows in present.items() if rows.estimated_size() >= OWN_FILE}
    small = {id_: rows for id_, rows in present.items() if id_ not in large}
    if len(small) == 1:
        large, small = large | small, {}
    found = []
    for id_, rows in large.items():
        name = storage.write_sealed(f"results/{prefix}", "parquet", _parquet(rows), level)
        found.append(ResultFile(name, id_, counted(rows)))
    if small:
        counts = {id_: counted(rows) for id_, rows in small.items()}
        encoded = {id_: (blocks.encode(rows), counts[id_]) for id_, rows in small.items()}
        data, checksum = _with_directory(encoded)
        name = Seal(len(data), checksum, level).name(f"results/{prefix}", "sections")
        storage.write(name, data)
        found.append(ResultFile(name, None, summed(list(counts.values()))))
    return tuple(found)


def discard(rows: Frame) -> int:
    """Hand rows over as Arrow columns, as whoever reads them takes them, to nobody; how many there were."""
    return int(rows.to_arrow().num_rows)


def write_refused(storage: Storage, source: str, prefix: str, rows: pa.Table, level: int = 0) -> str:
    """Write rows that a source may not use; the file's name."""
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink)
    return storage.write_sealed(
        f"{QUARANTINE}/{name_in_path(source)}/{prefix}", "parquet", sink.getvalue(), level
    )


def is_refused(file: ResultFile) -> bool:
    """Whether a file holds rows that were refused, and not those of an answer."""
    return file.file.startswith(f"{QUARANTINE}/")


def summed(counts: list[RowCounts]) -> RowCounts:
    return RowCounts(
        sum(c.rows for c in counts),
        sum(c.negative for c in counts),
        sum(c.multiple for c in counts),
        min(c.min_ts for c in counts),
        max(c.max_ts for c in counts),
        max(c.max_te for c in counts),
    )


def _with_directory(sections: Mapping[str, tuple[bytes, RowCounts]]) -> tuple[bytes, int]:
    """A file's content, and the checksum of its directory."""
    sink = io.BytesIO()
    directory = {}
    for id_, (data, counts) in sections.items():
        directory[id_] = to_data(Section(sink.tell(), len(data), zlib.crc32(data), counts))
        sink.write(data)
    encoded = json.dumps(directory, separators=(",", ":")).encode()
    sink.write(encoded)
    sink.write(len(encoded).to_bytes(8, "little"))
    sink.write(MAGIC)
    return sink.getvalue(), zlib.crc32(encoded)


def read_directory(storage: Storage, file: str) -> dict[str, Section]:
    """The sections of a file, by operator."""
    seal, tail = seal_of(file), bytes(storage.read_range(file, -_TAIL, _TAIL))
    if seal is None or tail[8:] != MAGIC:
        raise storage.damaged(file, "does not end as a file of answers does")
    length = int.from_bytes(tail[:8], "little")
    encoded = bytes(storage.read_range(file, -_TAIL - length, length))
    if zlib.crc32(encoded) != seal.checksum:
        raise storage.damaged(file, "has been changed: the checksum of its directory is another")
    return {id_: from_data(Section, found) for id_, found in json.loads(encoded).items()}


def read_section(storage: Storage, file: str, offset: int, length: int, checksum: int) -> Frame:
    """The rows of a section, if they are as they were written."""
    return blocks.decode(_section(storage, file, offset, length, checksum))


def _section(storage: Storage, file: str, offset: int, length: int, checksum: int) -> pa.Buffer:
    found = storage.read_range(file, offset, length)
    if zlib.crc32(found) != checksum:
        raise storage.damaged(file, "has been changed: the checksum of a section is another")
    return found


def assure(storage: Storage, file: str, section: Section | None) -> None:
    """See that what Spark is going to read of a file of this machine is what was written.

    Whoever asks again is not kept waiting: a file is looked at once, as long as its size and time stay.
    """
    if storage.local is not None:
        try:
            found = os.stat(storage.path(file))
        except FileNotFoundError:
            raise storage.damaged(file, "is missing") from None
        _assured(storage, file, section, found.st_mtime_ns, found.st_size)


@lru_cache(maxsize=1 << 16)
def _assured(storage: Storage, file: str, section: Section | None, changed: int, size: int) -> None:
    if section is None:
        storage.read_sealed(file)
    else:
        _section(storage, file, section.offset, section.length, section.checksum)


def read_rows(storage: Storage, file: ResultFile) -> dict[str, Frame]:
    """All rows of a file, by operator."""
    if file.section is not None:
        rows = pl.from_arrow(pq.read_table(pa.BufferReader(storage.read_sealed(file.file))))
        assert isinstance(rows, pl.DataFrame)
        return {file.section: rows}
    directory = read_directory(storage, file.file)
    return {
        id_: read_section(storage, file.file, s.offset, s.length, s.checksum) for id_, s in directory.items()
    }


def _parquet(rows: Frame) -> Any:
    if pl.String in rows.dtypes:
        # Polars writes texts from where they are and knows which repeat; for numbers alone Arrow is faster. LZ4 takes half
        # of Snappy's time for the same size, and row groups of many rows have fewer texts to write.
        sink = io.BytesIO()
        rows.write_parquet(sink, compression="lz4", statistics=False, row_group_size=ROW_GROUP)
        return pa.py_buffer(sink.getbuffer())
    table = to_arrow(rows)
    numbers = [f.name for f in table.schema if pa.types.is_integer(f.type)]
    buffer = pa.BufferOutputStream()
    pq.write_table(
        table,
        buffer,
        # Differences of neighbours are as small as what a compressor makes of whole numbers, in half the time.
        compression={name: "none" if name in numbers else "snappy" for name in table.column_names},
        column_encoding=dict.fromkeys(numbers, "DELTA_BINARY_PACKED"),
        use_dictionary=False,
        write_statistics=["ts", "te"],
        store_schema=False,
    )
    return buffer.getvalue()
