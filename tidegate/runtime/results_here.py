"""A small answer read in this process, as a terminal shows it: the rows of `Result.intervals`, without a job of Spark's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl
import pyarrow as pa

from tidegate.kernels.rows import to_arrow
from tidegate.runtime.ledger import ResultPart
from tidegate.runtime.results import Result, changes_within, matched
from tidegate.scalars.columns import dtype
from tidegate.spark.values import arrow_type
from tidegate.time import MAX, MIN
from tidegate.types import TIMESTAMP
from tidegate.worker.result_files import assure, read_section

MOST = 100_000
"""Rows in files up to which they are read here."""


def intervals_here(result: Result) -> pa.Table | None:
    """The rows with `valid_from` and `valid_to`, in this order; None: Spark is to read them."""
    parts = result.parts()
    changing = any(p.counts.negative for p in parts) or not result.instants
    forgotten = result.horizon() != MIN
    rows = None if forgotten or (changing and result.instants) else _rows(result, parts)
    if rows is None:
        return None
    if changing:
        rows = matched(rows, _names(result))
    ends = [
        pl.when(pl.col(c).is_in([MIN, MAX])).then(None).otherwise(pl.col(c)).alias(c) for c in ("ts", "te")
    ]
    # What has no end goes before, as Spark orders NULLs.
    rows = _repeated(rows).with_columns(ends).sort("ts", "te", nulls_last=False, maintain_order=True)
    time = arrow_type(TIMESTAMP) if result.time_type == TIMESTAMP else pa.int64()
    return _table(result, rows, {"ts": pa.field("valid_from", time), "te": pa.field("valid_to", time)})


def snapshot_here(result: Result, tick: int, most: int = MOST) -> pa.Table | None:
    """The rows of `Result.at`; None: Spark is to read them."""
    parts = [p for p in result.parts() if p.counts.min_ts <= tick < p.counts.max_te]
    rows, names = _rows(result, parts, most), _names(result)
    if rows is None:
        return None
    valid = rows.filter((pl.col("ts") <= tick) & (pl.col("te") > tick))
    if (valid["n"] < 0).any():
        valid = matched(valid.with_columns(pl.lit(tick).alias("ts"), pl.lit(tick + 1).alias("te")), names)
    return _table(result, _repeated(valid), {})


def changes_here(result: Result, low: int, high: int, most: int = MOST) -> pa.Table | None:
    """The rows of `Result.delivered` with `op` and `ts` in ticks, in their order; None: Spark is to read them."""
    rows = _rows(result, [p for p in result.parts() if changes_within(p.counts, low, high)], most)
    if rows is None:
        return None
    names = _names(result)
    starts = rows.select(*names, "ts", "n")
    ends = rows.select(*names, pl.col("te").alias("ts"), -pl.col("n"))
    inside = pl.concat([starts, ends]).filter((pl.col("ts") >= low) & (pl.col("ts") < min(high, MAX)))
    net = inside.group_by(*names, "ts").agg(pl.col("n").sum()).filter(pl.col("n") != 0)
    op = pl.when(pl.col("n") > 0).then(pl.lit("+")).otherwise(pl.lit("-")).alias("op")
    tagged = _repeated(net.with_columns(op, pl.col("n").abs()))
    if result.key is not None:
        both = pl.col("op").n_unique().over([f"c{i}" for i in result.key] + ["ts"]) == 2
        tagged = tagged.with_columns(both.alias("both")).filter((pl.col("op") == "+") | ~pl.col("both"))
        updated = pl.when(pl.col("both")).then(pl.lit("u")).otherwise(pl.col("op")).alias("op")
        tagged = tagged.with_columns(updated)
    rank = pl.col("op").replace_strict({"-": 0, "u": 1, "+": 2})
    more = {"op": pa.field("op", pa.string()), "ts": pa.field("ts", pa.int64())}
    return _table(result, tagged.sort("ts", rank), more)


def signed_here(result: Result) -> pl.DataFrame | None:
    """The rows of `Result.signed`, as kernels hold them; None: Spark is to read them."""
    return None if result.horizon() != MIN else _rows(result, result.parts())


def _names(result: Result) -> list[str]:
    return [f"c{i}" for i in range(len(result.schema))]


def _rows(result: Result, parts: Sequence[ResultPart], most: int = MOST) -> pl.DataFrame | None:
    """The signed rows of an answer, if they are few and of types that are the same here."""
    plain = result.selection is None and result.width == 1
    if result.storage.local is None or not plain or sum(p.counts.rows for p in parts) > most:
        return None
    types = [f.type for f in result.schema]
    if any(t.name == "VOID" or pa.types.is_nested(arrow_type(t)) for t in types):
        return None
    names, frames = [*_names(result), "ts", "te", "n"], []
    for part in parts:
        assure(result.storage, part.file, part.section)
        if part.section is None:
            frames.append(pl.read_parquet(result.storage.path(part.file), glob=False))
        else:
            s = part.section
            frames.append(read_section(result.storage, part.file, s.offset, s.length, s.checksum))
    if not frames:
        return pl.DataFrame(schema={**{n: dtype(t) for n, t in zip(names, types, strict=False)}, **_INSTANTS})
    return pl.concat([_clipped(f.select(names), p) for f, p in zip(frames, parts, strict=True)])


def _clipped(rows: pl.DataFrame, part: ResultPart) -> pl.DataFrame:
    """Rows as far as they count."""
    low, high = part.within
    if part.within == (MIN, MAX):
        return rows
    ends = pl.col("ts").clip(lower_bound=low), pl.col("te").clip(upper_bound=high)
    return rows.with_columns(*ends).filter(pl.col("ts") < pl.col("te"))


_INSTANTS = {"ts": pl.Int64, "te": pl.Int64, "n": pl.Int64}


def _repeated(rows: pl.DataFrame) -> pl.DataFrame:
    """Each row as often as it counts."""
    times = pl.lit(1).repeat_by(pl.col("n").cast(pl.UInt32)).alias("n")
    return rows.with_columns(times).explode("n").drop("n")


def _table(result: Result, rows: pl.DataFrame, more: Mapping[str, pa.Field]) -> pa.Table:
    table = to_arrow(rows)
    fields = {f"c{i}": pa.field(f.name, arrow_type(f.type)) for i, f in enumerate(result.schema)}
    wanted = {**fields, **more}
    columns = [table.column(name).cast(field.type) for name, field in wanted.items()]
    return pa.Table.from_arrays(columns, schema=pa.schema(list(wanted.values())))
