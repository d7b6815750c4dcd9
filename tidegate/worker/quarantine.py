"""Refused rows, kept in files with the reason, their text and the file they came from."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from tidegate.connectors.files import local_path
from tidegate.exchange.messages import Quarantined, Refused, ResultFile, RowCounts
from tidegate.storage import Storage
from tidegate.worker.result_files import write_refused


def quarantined(
    storage: Storage, epoch: int, bounds: tuple[int, int], part: str, refused: Sequence[Refused]
) -> Quarantined:
    """Write what was refused, a file for each source; `part` tells who writes."""
    counts: dict[str, dict[str, int]] = {}
    files: list[ResultFile] = []
    since, upto = bounds
    for source in sorted({m.source for m in refused}):
        mine = [m for m in refused if m.source == source]
        texts = {"reason": [m.reason for m in mine], "raw": [m.raw for m in mine]}
        texts["file"] = [None if m.file is None else local_path(m.file) for m in mine]
        columns = {name: pa.array(values, pa.string()) for name, values in texts.items()}
        numbers = {"epoch": [epoch] * len(mine), "position": [_position(storage, m) for m in mine]}
        rows = pa.table({**{n: pa.array(v, pa.int64()) for n, v in numbers.items()}, **columns})
        name = write_refused(storage, source, f"{epoch:08d}-{part}", rows)
        files.append(ResultFile(name, source, RowCounts(len(mine), 0, 0, since, upto, upto)))
        counts[source] = {}
        for m in mine:
            # A reason is what is counted, a colon, and the value.
            reason = m.reason.split(": ", 1)[0]
            counts[source][reason] = counts[source].get(reason, 0) + 1
    first = {m.source: m for m in sorted(refused, key=lambda m: (m.file or "", m.row or 0), reverse=True)}
    return Quarantined(counts, tuple(files), first)


def _position(storage: Storage, row: Refused) -> int | None:
    """Where the row was among those that came together. Files of others are read in parts: of them it is not known."""
    of_others = row.file is not None and "/" in row.file
    mine = row.file is not None and local_path(row.file).startswith(storage.path(""))
    return None if of_others and not mine else row.row
