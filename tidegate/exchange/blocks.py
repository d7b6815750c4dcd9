"""Blocks: rows that one Python task sends to another, as columns.

Spark exchanges rows: each is taken out of its columns, copied into a shuffle file by itself, and put back into columns.
What leaves a kernel is columns already, so it travels as **blocks**: one binary value holds the rows of one lane for one
partition, and the exchange carries few large rows instead of many small ones. The partition is the one that Spark's `hash`
gives, so a wave may read some lanes as blocks and others as rows of Spark.

Where all tasks run on one machine, a large block is a file, and only its name travels: the task that gets it maps the file
into its memory, and no byte of it passes through the JVM.
"""

from __future__ import annotations

import io
import uuid
from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl
import pyarrow as pa
from pyarrow import ipc
from sqlglot import exp

from tidegate.exchange.hashing import partition_of
from tidegate.kernels.expressions import Scalar
from tidegate.kernels.rows import Frame, to_arrow
from tidegate.scalars.columnar import translate
from tidegate.storage import Storage
from tidegate.types import VOID, Schema, Type

BYTES_PER_BLOCK = 32 << 20
"""A block is one row of a shuffle, which should stay far below the size that a row may have."""

BYTES_PER_FILE = 1 << 17
"""A smaller block is not worth a file."""

NAME = b"file:"
"""How the name of a file begins that travels in place of a block; an Arrow stream begins otherwise."""

FEW = 8
"""Up to so many partitions, a pass over the rows for each costs less than sorting them."""


def encode(frame: Frame) -> bytes:
    """The rows as an Arrow stream.

    >>> decode(pa.py_buffer(encode(pl.DataFrame({"c0": [7]})))).rows()
    [(7,)]
    """
    rows = to_arrow(frame)
    sink = io.BytesIO()
    with ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return sink.getvalue()


def decode(data: pa.Buffer) -> Frame:
    frame = pl.from_arrow(ipc.open_stream(data).read_all())
    assert isinstance(frame, pl.DataFrame)
    return frame


def key_types(key: Sequence[exp.Expression], schema: Schema) -> tuple[Type, ...] | None:
    """The types of an exchange's key, where kernels can compute it exactly as Spark does."""
    found = []
    for expression in key:
        column = translate(expression, schema)
        if column is None or column.type == VOID:
            return None
        found.append(column.type)
    return tuple(found)


def partitions_of(rows: Frame, key: Sequence[exp.Expression], schema: Schema, partitions: int) -> pl.Series:
    """The partition that each row's key belongs to."""
    types = key_types(key, schema)
    assert types is not None
    values = [Scalar(e, schema, t)(rows) for e, t in zip(key, types, strict=True)]
    return pl.Series("p", partition_of(values, types, partitions))


def scatter(rows: Frame, places: pl.Series, partitions: int) -> Iterator[tuple[int, Frame]]:
    """The rows by partition, each in the order they had.

    >>> [(p, f["c0"].to_list()) for p, f in scatter(pl.DataFrame({"c0": [7, 8, 9]}), pl.Series([1, 0, 1]), 2)]
    [(0, [8]), (1, [7, 9])]
    """
    if partitions <= FEW:
        for p in range(partitions):
            yield p, rows.filter(places == p)
        return
    # NumPy sorts numbers of 16 bits by counting.
    small = places.to_numpy().astype(np.uint16 if partitions <= 1 << 16 else np.int64)
    found, start = rows[np.argsort(small, kind="stable")], 0
    for p, size in places.rename("p").value_counts().sort("p").iter_rows():
        yield p, found.slice(start, size)
        start += size


def pack_rows(frame: Frame, files: Storage | None = None) -> Iterator[bytes]:
    """The rows as blocks of about the same number of rows; large ones lie in `files`, if there is such a place."""
    size = int(frame.estimated_size())
    pieces = size // BYTES_PER_BLOCK + 1
    for piece in frame.iter_slices(max(1, -(-frame.height // pieces))):
        if files is None or size < pieces * BYTES_PER_FILE:
            yield encode(piece)
            continue
        name = f"{uuid.uuid4().hex}.arrow"
        files.write_rows(name, to_arrow(piece))
        yield NAME + files.path(name).encode()


def unpack_rows(blocks: pa.ChunkedArray) -> Frame:
    """The rows of a column of blocks."""
    return pl.concat([decode(_content(block.as_buffer())) for block in blocks])


def _content(block: pa.Buffer) -> pa.Buffer:
    if block.slice(0, len(NAME)).to_pybytes() != NAME:
        return block
    with pa.memory_map(block.to_pybytes().removeprefix(NAME).decode()) as source:
        return source.read_buffer()
