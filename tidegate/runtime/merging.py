"""Many small result files become few: the rows stay, so no answer changes.

Files of one level are merged into one of the next, so a row is rewritten as often as there are levels, and their number grows
with the logarithm of the number of epochs. Where answers are kept for a while only, all files are merged into one: a row and its
closing meet there, and what ended before the horizon is left out.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tidegate.exchange.messages import ResultFile
from tidegate.kernels.rows import Frame
from tidegate.runtime.results import matched
from tidegate.storage import Storage
from tidegate.worker.result_files import level_of, read_rows, write_results

FILES = 64
"""More files of one level than this are merged."""

LARGE = 2_000_000
"""Files with more rows than this stay as they are: merging happens in memory."""


def merged(
    storage: Storage, epoch: int, files: Sequence[ResultFile], horizon: int | None, limit: int = FILES
) -> list[ResultFile]:
    """The files as they are after merging; new ones are written, old ones still exist."""
    after: list[ResultFile] = []
    for section in dict.fromkeys(f.section for f in files):
        mine = [f for f in files if f.section == section]
        small = [f for f in mine if f.counts.rows <= LARGE]
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
    parts: dict[str, list[Frame]] = {}
    for file in files:
        for section, rows in read_rows(storage, file).items():
            parts.setdefault(section, []).append(rows)
    sections = {section: _together(rows, horizon) for section, rows in parts.items()}
    return list(write_results(storage, f"{epoch:08d}-m", sections, level))


def _together(parts: Sequence[Frame], horizon: int | None) -> Frame:
    rows = pl.concat(parts)
    if horizon is not None:
        payload = [c for c in rows.columns if c not in ("ts", "te", "n")]
        rows = rows.filter(pl.col("te") >= horizon)
        if not any(rows.schema[c].is_nested() for c in payload):
            rows = matched(rows, payload).filter(pl.col("te") >= horizon)
    return rows.sort("ts", maintain_order=True)
