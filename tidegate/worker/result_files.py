"""Files of answers: a Parquet file for one operator's rows, or one file with a section for each of many.

How many files an epoch writes does not depend on how many queries there are. A file of sections ends with its directory, so that the
rows of one operator are read without those of the others.
"""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.codec import from_data, to_data
from tidegate.errors import Diagnostic
from tidegate.exchange import blocks
from tidegate.exchange.messages import ResultFile, RowCounts
from tidegate.kernels.rows import Frame, to_arrow
from tidegate.storage import Storage

OWN_FILE = 8 << 20
"""Rows of so many bytes get a file of their own, which Spark reads by itself."""

MAGIC = b"TGR1"

_TAIL = 8 + len(MAGIC)


@dataclass(frozen=True)
class Section:
    """Where the rows of one operator lie in a file of sections."""

    offset: int
    length: int
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
        name = _new_name(prefix, level, "parquet")
        storage.write(name, _parquet(rows))
        found.append(ResultFile(name, id_, counted(rows)))
    if small:
        name = _new_name(prefix, level, "sections")
        counts = {id_: counted(rows) for id_, rows in small.items()}
        storage.write(
            name, _with_directory({id_: (blocks.encode(r), counts[id_]) for id_, r in small.items()})
        )
        found.append(ResultFile(name, None, _summed(list(counts.values()))))
    return tuple(found)


def _new_name(prefix: str, level: int, kind: str) -> str:
    """A name that no other attempt has."""
    return f"results/{prefix}-{uuid.uuid4().hex[:12]}.{level}.{kind}"


def level_of(file: str) -> int:
    """How often the rows of a file have been merged.

    >>> level_of("results/00000007-0-ab.2.parquet")
    2
    """
    return int(file.split(".")[-2])


def _summed(counts: list[RowCounts]) -> RowCounts:
    return RowCounts(
        sum(c.rows for c in counts),
        sum(c.negative for c in counts),
        sum(c.multiple for c in counts),
        min(c.min_ts for c in counts),
        max(c.max_ts for c in counts),
        max(c.max_te for c in counts),
    )


def _with_directory(sections: Mapping[str, tuple[bytes, RowCounts]]) -> bytes:
    sink = io.BytesIO()
    directory = {}
    for id_, (data, counts) in sections.items():
        directory[id_] = to_data(Section(sink.tell(), len(data), counts))
        sink.write(data)
    encoded = json.dumps(directory, separators=(",", ":")).encode()
    sink.write(encoded)
    sink.write(len(encoded).to_bytes(8, "little"))
    sink.write(MAGIC)
    return sink.getvalue()


def read_directory(storage: Storage, file: str) -> dict[str, Section]:
    """The sections of a file, by operator."""
    tail = bytes(storage.read_range(file, -_TAIL, _TAIL))
    if tail[8:] != MAGIC:
        raise Diagnostic(
            "STATE_DAMAGED", f"{file} does not end as a file of answers does", help="restore it from a copy"
        )
    length = int.from_bytes(tail[:8], "little")
    encoded = bytes(storage.read_range(file, -_TAIL - length, length))
    return {id_: from_data(Section, found) for id_, found in json.loads(encoded).items()}


def read_section(storage: Storage, file: str, section: Section) -> Frame:
    return blocks.decode(storage.read_range(file, section.offset, section.length))


def read_rows(storage: Storage, file: ResultFile) -> dict[str, Frame]:
    """All rows of a file, by operator."""
    if file.section is not None:
        rows = pl.from_arrow(pq.read_table(pa.BufferReader(storage.read(file.file))))
        assert isinstance(rows, pl.DataFrame)
        return {file.section: rows}
    directory = read_directory(storage, file.file)
    return {id_: read_section(storage, file.file, section) for id_, section in directory.items()}


def _parquet(rows: Frame) -> Any:
    if pl.String in rows.dtypes:
        # Polars writes texts from where they are and knows which repeat; for numbers alone Arrow is faster.
        sink = io.BytesIO()
        rows.write_parquet(sink, compression="snappy", statistics=False)
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
