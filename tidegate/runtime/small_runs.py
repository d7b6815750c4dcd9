"""Small recorded runs in this process, without Spark: of few rows, in files whose columns can be read here.

The tasks are those of any other run (`runtime.jobs.run_waves`), so the answer is the same. What cannot be read here, or needs the user's code, or
Spark's functions, is a run on Spark. The rows that such a run reads are read here for the reference, too.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from polars.exceptions import PolarsError

from tidegate.algebra.quality import Settings
from tidegate.connectors.memory import arrow_rows
from tidegate.connectors.plain_csv import plain_rows
from tidegate.kernels.machine_code import few_rows
from tidegate.kernels.rows import Frame
from tidegate.language.catalog import StreamDefinition
from tidegate.runtime.activities import RunMetrics
from tidegate.runtime.jobs import Physical, run_waves
from tidegate.runtime.ledger import Ledger, after
from tidegate.storage import Storage
from tidegate.time import MAX, MIN
from tidegate.worker.columnar import Columnar, all_rows, of_files, parquet_files, read_here
from tidegate.worker.tasks import Epoch

MOST = 20_000
"""Rows of all streams up to which a run is a small one: reading and working on them costs less than a job's price."""

FEW = 500
"""Rows of all streams up to which loops need no machine code: joins of so many look at some ten thousand pairs."""

PAIRS = 4_000_000
"""So many combinations of rows joins may have to look at."""

QUICK = frozenset(
    "TimeWindow RangedWindow RowWindow Filter Project Columns Union Join Sweep Subtract Aggregate TopK Changes Modify".split()
)
"""Kernels that never say much more than they are told, joins apart. Others may split a row into all of its instants."""


def run_small(
    ledger: Ledger,
    physical: Physical,
    definitions: Mapping[str, StreamDefinition],
    data: Mapping[str, Any],
    metrics: RunMetrics | None = None,
    settings: Settings | None = None,
) -> bool:
    """Run it here, if it can be; whether it was."""
    if ledger.storage.local is None or not physical.runs_anywhere or physical.lanes_from(None):
        return False
    most = _most_rows([o.name for o in physical.plan.operators.values()])
    streams: list[Columnar] = []
    for number, (name, definition) in enumerate(sorted(definitions.items())):
        found = _columns(ledger.storage, physical, name, definition, data.get(name), number)
        if found is None or sum(s.rows for s in streams) + found.rows > most:
            return False
        streams.append(found)
    try:
        read = read_here(streams, physical.lanes, 1)
    except (PolarsError, OSError):  # Spark tells what is wrong with a file
        return False

    def epoch(wave: int) -> Epoch:
        return Epoch(
            physical.packed, wave, 1, MIN, MAX, ledger.storage, {}, keep_state=False, hold=False, partitions=1,
            settings=settings or {},
        )  # fmt: skip

    with few_rows(sum(s.rows for s in streams) <= FEW):
        messages = run_waves(physical, 1, epoch, None, read)
    ledger.commit(after(ledger.latest, messages, upto=MAX, partitions=1))
    if metrics is not None:
        metrics.note(1, MAX, messages)
    return True


def _most_rows(kernels: Sequence[str]) -> int:
    """How many rows are few for some kernels: whoever types a question must not wait for this process, nor lose it.

    >>> _most_rows(["TimeWindow", "Aggregate"]), _most_rows(["Join"]), _most_rows(["Join", "Join"]), _most_rows(["Split"])
    (20000, 2000, 158, 0)
    """
    if not QUICK.issuperset(kernels):
        return 0
    return min(MOST, int(PAIRS ** (1 / (kernels.count("Join") + 1))))


def _columns(
    storage: Storage, physical: Physical, name: str, definition: StreamDefinition, data: Any, number: int
) -> Columnar | None:
    """A stream's rows as columns: of Parquet files as they are, of others by a file of this run."""
    files = _files(storage, definition, data, f"read/{number}")
    return None if files is None else of_files(definition, physical.lanes_from(name), files)


def rows_here(storage: Storage, definition: StreamDefinition, data: Any, number: int) -> Frame | None:
    """All rows of a stream in the order of arrival, with their columns `c0`, … and their times `ts`; None: they are Spark's to read."""
    if storage.local is None or (files := _files(storage, definition, data, f"verified/{number}")) is None:
        return None
    try:
        rows = all_rows(definition, files)
    except (PolarsError, OSError):
        return None
    return rows if rows is not None and rows.height <= MOST else None


def _files(storage: Storage, definition: StreamDefinition, data: Any, label: str) -> list[str] | None:
    """Parquet files with a stream's rows: its own, or one that is written here."""
    if definition.table or definition.stamped:
        return None
    if definition.last_tick(definition.entered, live=False) is not None:
        return None
    if definition.source.function == "parquet":
        return parquet_files(definition)
    rows: pa.Table | None = None
    if definition.source.function == "memory" and isinstance(data, pa.Table) and data.num_rows <= MOST:
        rows = arrow_rows(definition, data)
    elif definition.source.function == "csv":
        rows = plain_rows(definition)
    if rows is None:
        return None
    file = f"{label}-{uuid.uuid4().hex[:8]}.parquet"
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink)
    storage.write(file, sink.getvalue())
    return [storage.path(file)]
