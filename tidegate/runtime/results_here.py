"""A small answer read in this process, as a terminal shows it: the rows of `Result.intervals`, without a job of Spark's."""

from __future__ import annotations

import polars as pl
import pyarrow as pa

from tidegate.kernels.rows import to_arrow
from tidegate.runtime.results import Result, matched
from tidegate.spark.values import arrow_type
from tidegate.time import MAX, MIN
from tidegate.types import TIMESTAMP
from tidegate.worker.result_files import assure, read_section

MOST = 100_000
"""Rows in files up to which they are read here."""


def intervals_here(result: Result) -> pa.Table | None:
    """The rows with `valid_from` and `valid_to`, in this order; None: Spark is to read them."""
    parts = result.parts()
    plain = result.selection is None and result.width == 1 and result.horizon() == MIN
    if result.storage.local is None or not plain or sum(p.counts.rows for p in parts) > MOST:
        return None
    if any(pa.types.is_nested(arrow_type(f.type)) for f in result.schema if f.type.name != "VOID"):
        return None
    changing = any(p.counts.negative for p in parts) or (result.manifest().epoch > 1 and not result.instants)
    if any(f.type.name == "VOID" for f in result.schema) or (changing and result.instants):
        return None
    names = [f"c{i}" for i in range(len(result.schema))]
    frames = []
    for part in parts:
        assure(result.storage, part.file, part.section)
        if part.section is None:
            frames.append(pl.read_parquet(result.storage.path(part.file), glob=False))
        else:
            s = part.section
            frames.append(read_section(result.storage, part.file, s.offset, s.length, s.checksum))
    if not frames:
        return _shown(result, pl.DataFrame(schema=dict.fromkeys((*names, "ts", "te", "n"), pl.Int64)))
    rows = pl.concat([f.select(*names, "ts", "te", "n") for f in frames])
    if changing:
        rows = matched(rows, names)
    return _shown(result, rows)


def _shown(result: Result, rows: pl.DataFrame) -> pa.Table:
    """Each row as often as it counts, with its ends as people see them, in the order of both; what has no end goes before."""
    each = rows.select(pl.exclude("n"), pl.lit(1).repeat_by(pl.col("n").cast(pl.UInt32)).alias("n")).explode(
        "n"
    )
    ends = [
        pl.when(pl.col(c).is_in([MIN, MAX])).then(None).otherwise(pl.col(c)).alias(c) for c in ("ts", "te")
    ]
    table = to_arrow(
        each.drop("n").with_columns(ends).sort("ts", "te", nulls_last=False, maintain_order=True)
    )
    fields = [pa.field(f.name, arrow_type(f.type)) for f in result.schema]
    time = arrow_type(TIMESTAMP) if result.time_type == TIMESTAMP else pa.int64()
    columns = [table.column(f"c{i}").cast(f.type) for i, f in enumerate(fields)]
    columns += [table.column(c).cast(time) for c in ("ts", "te")]
    wanted = pa.schema([*fields, pa.field("valid_from", time), pa.field("valid_to", time)])
    return pa.Table.from_arrays(columns, schema=wanted)
