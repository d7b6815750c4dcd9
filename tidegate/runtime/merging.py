"""Many small result files become few: the rows stay, so no answer changes.

Files of one level are merged into one of the next, so a row is rewritten as often as there are levels, and their number grows
with the logarithm of the number of epochs. Where answers are kept for a while only, all files are merged into one: a row and its
closing meet there, and what ended before the horizon is left out. Rows that were refused are merged by levels in any case: a file
of them goes when its newest epoch is before the horizon.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.exchange.messages import ResultFile
from tidegate.kernels.rows import Frame
from tidegate.runtime.results import matched
from tidegate.storage import Storage, level_of
from tidegate.worker.result_files import is_refused, read_rows, summed, write_refused, write_results

FILES = 64
"""More files of one level than this are merged."""

LARGE = 2_000_000
"""Files with more rows than this stay as they are: merging happens in memory."""


def merged(
    storage: Storage, epoch: int, files: Sequence[ResultFile], horizon: int | None, limit: int = FILES
) -> list[ResultFile]:
    """The files as they are after merging; new ones are written, old ones still exist."""
    after: list[ResultFile] = []
    for refused, section in dict.fromkeys((is_refused(f), f.section) for f in files):
        mine = [f for f in files if f.section == section and is_refused(f) == refused]
        small = [f for f in mine if f.counts.rows <= LARGE]
        if horizon is not None and len(small) == len(mine) and not refused:
            if len(small) > limit:
                mine = _merge(storage, epoch, small, 1, horizon)
        else:
            for level in range(max((level_of(f.file) for f in small), default=0) + 1):
                same = [f for f in small if level_of(f.file) == level]
                if len(same) > limit:
                    together = (
                        _merge_refused(storage, epoch, same, level + 1)
                        if refused
                        else _merge(storage, epoch, same, level + 1, None)
                    )
                    mine = [f for f in mine if f not in same] + together
        after += mine
    return after


def _merge(
    storage: Storage, epoch: int, files: Sequence[ResultFile], level: int, horizon: int | None
) -> list[ResultFile]:
    parts: dict[str, list[Frame]] = {}
    for file in files:
        for section, rows in read_rows(storage, file).items():
            parts.setdefault(section, []).append(rows)
    sections = {section: _together(rows, horizon) for section, rows in parts.items()}
    return list(write_results(storage, f"{epoch:08d}-m", sections, level))


def _merge_refused(storage: Storage, epoch: int, files: Sequence[ResultFile], level: int) -> list[ResultFile]:
    source = files[0].section
    assert source is not None
    rows = pa.concat_tables([pq.read_table(pa.BufferReader(storage.read_sealed(f.file))) for f in files])
    name = write_refused(storage, source, f"{epoch:08d}-m", rows, level)
    return [ResultFile(name, source, summed([f.counts for f in files]))]


def _together(parts: Sequence[Frame], horizon: int | None) -> Frame:
    rows = pl.concat(parts)
    if horizon is not None:
        payload = [c for c in rows.columns if c not in ("ts", "te", "n")]
        rows = rows.filter(pl.col("te") >= horizon)
        if not any(rows.schema[c].is_nested() for c in payload):
            rows = matched(rows, payload).filter(pl.col("te") >= horizon)
    return rows.sort("ts", maintain_order=True)
