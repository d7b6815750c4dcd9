"""Many small result files become few: the rows stay, so no answer changes.

Files of one level are merged into one of the next, so a row is rewritten as often as there are levels, and their number grows
with the logarithm of the number of epochs. Where answers are kept for a while only, all files are merged into one: a row and its
closing meet there, and what ended before the horizon is left out.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.kernels.rows import Frame, to_arrow
from tidegate.runtime.ledger import ResultFile
from tidegate.runtime.results import matched
from tidegate.storage import Storage

FILES = 64
"""More files of one level than this are merged."""

LARGE = 2_000_000
"""Files with more rows than this stay as they are: merging happens in memory."""

_LEVEL = re.compile(r"/m(\d+)-[^/]*$")


def level_of(file: str) -> int:
    """How often the rows of a file were merged.

    >>> level_of("results/q/00000007-0-ab.parquet"), level_of("results/q/m2-00000640-ab.parquet")
    (0, 2)
    """
    found = _LEVEL.search(file)
    return int(found[1]) if found else 0


def merged(
    storage: Storage, epoch: int, files: Sequence[ResultFile], horizon: int | None, limit: int = FILES
) -> list[ResultFile]:
    """The files as they are after merging; new ones are written, old ones still exist."""
    after: list[ResultFile] = []
    for query in dict.fromkeys(f.query for f in files):
        mine = [f for f in files if f.query == query]
        small = [f for f in mine if f.rows <= LARGE]
        if horizon is not None and len(small) == len(mine):
            if len(small) > limit:
                mine = _merge(storage, epoch, small, 1, horizon)
        else:
            for level in range(max((level_of(f.file) for f in small), default=0) + 1):
                same = [f for f in small if level_of(f.file) == level]
                if len(same) > limit:
                    together = _merge(storage, epoch, same, level + 1, None)
                    mine = [f for f in mine if f not in same] + together
        after += mine
    return after


def _merge(
    storage: Storage, epoch: int, files: Sequence[ResultFile], level: int, horizon: int | None
) -> list[ResultFile]:
    tables = [pq.read_table(pa.BufferReader(storage.read(f.file))) for f in files]
    rows = pl.from_arrow(pa.concat_tables(tables))
    assert isinstance(rows, pl.DataFrame)
    if horizon is not None:
        payload = [c for c in rows.columns if c not in ("ts", "te", "n")]
        rows = rows.filter(pl.col("te") >= horizon)
        if not any(rows.schema[c].is_nested() for c in payload):
            rows = matched(rows, payload).filter(pl.col("te") >= horizon)
    if rows.is_empty():
        return []
    rows = rows.sort("ts", maintain_order=True)
    query = files[0].query
    name = f"results/{query}/m{level}-{epoch:08d}-{uuid.uuid4().hex[:12]}.parquet"
    sink = pa.BufferOutputStream()
    pq.write_table(
        to_arrow(rows), sink, compression="snappy", write_statistics=["ts", "te"], store_schema=False
    )
    storage.write(name, sink.getvalue())
    return [_described(query, name, rows)]


def _described(query: str, name: str, rows: Frame) -> ResultFile:
    times = rows.select(
        pl.col("ts").min().alias("min_ts"),
        pl.col("ts").max().alias("max_ts"),
        pl.col("te").max().alias("max_te"),
    ).row(0)
    negative, multiple = int((rows["n"] < 0).sum()), int((rows["n"] > 1).sum())
    return ResultFile(query, name, rows.height, negative, multiple, *times)
