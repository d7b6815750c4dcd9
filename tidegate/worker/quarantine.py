"""Refused rows, kept in files with the reason, their text and the file they came from."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.connectors.files import local_path
from tidegate.exchange.messages import Quarantined, Refused
from tidegate.storage import Storage, name_in_path


def quarantined(storage: Storage, epoch: int, part: str, refused: Sequence[Refused]) -> Quarantined:
    """Write what was refused, a file for each source; `part` tells who writes."""
    counts: dict[str, dict[str, int]] = {}
    files: dict[str, str] = {}
    for source in sorted({m.source for m in refused}):
        mine = [m for m in refused if m.source == source]
        texts = {"reason": [m.reason for m in mine], "raw": [m.raw for m in mine]}
        texts["file"] = [None if m.file is None else local_path(m.file) for m in mine]
        columns = {name: pa.array(values, pa.string()) for name, values in texts.items()}
        rows = pa.table({"epoch": pa.array([epoch] * len(mine), pa.int64()), **columns})
        sink = pa.BufferOutputStream()
        pq.write_table(rows, sink)
        files[source] = (
            f"quarantine/{name_in_path(source)}/{epoch:08d}-{part}-{uuid.uuid4().hex[:12]}.parquet"
        )
        storage.write(files[source], sink.getvalue())
        counts[source] = {}
        for m in mine:
            # A reason is what is counted, a colon, and the value.
            reason = m.reason.split(": ", 1)[0]
            counts[source][reason] = counts[source].get(reason, 0) + 1
    first = {m.source: m for m in sorted(refused, key=lambda m: (m.file or "", m.row or 0), reverse=True)}
    return Quarantined(counts, files, first)
