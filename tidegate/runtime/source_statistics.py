"""Statistics of sources: of rows handed in exactly, of Parquet files by their footers and a sample, of text files by their size and a sample.

What cannot be told at little price is not told: a source is then taken to be as `optimizer.statistics` assumes. Nothing here can fail a query.
"""

from __future__ import annotations

import io
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from polars.exceptions import PolarsError

from tidegate.algebra.operators import Node
from tidegate.connectors.files import local_files, path_of
from tidegate.language.catalog import StreamDefinition
from tidegate.optimizer.cost import Costs
from tidegate.optimizer.statistics import SECOND, SourceStatistics, as_number, assumed_column, of_frame
from tidegate.runtime.jobs import source_names
from tidegate.runtime.ledger import SourceProgress
from tidegate.types import TIMESTAMP

SAMPLE = 4_000
"""Rows of a source that are looked at, at its beginning and at its end, where all would be too many."""
ALL = 1_000_000
"""Rows handed in up to which all are looked at."""
FOOTERS = 64
"""Files whose footers are read; of others the size tells."""

BEGIN, END = "(begin)", "(end)"


def gathered(
    definitions: Mapping[str, StreamDefinition], data: Mapping[str, Any]
) -> dict[str, SourceStatistics]:
    """What can be told of some sources before they are read."""
    found = {}
    for name, definition in definitions.items():
        try:
            known = _of_source(definition, data.get(name))
        except (OSError, ValueError, TypeError, OverflowError, PolarsError, pa.ArrowException):
            known = None
        if known is not None:
            found[name] = known
    return found


def _of_source(definition: StreamDefinition, data: Any) -> SourceStatistics | None:
    if isinstance(data, pa.Table):
        rows = data if data.num_rows <= ALL else _ends(data)
        return _of_rows(definition, pl.from_arrow(rows), float(data.num_rows))  # type: ignore[arg-type]
    if definition.source.function == "parquet":
        return _of_parquet(definition, local_files(os.path.abspath(path_of(definition))))
    if definition.source.function in ("csv", "json"):
        return _of_text(definition, local_files(os.path.abspath(path_of(definition))))
    return None


def _ends(rows: pa.Table) -> pa.Table:
    return pa.concat_tables([rows.slice(0, SAMPLE), rows.slice(rows.num_rows - SAMPLE)])


def _of_rows(
    definition: StreamDefinition, rows: pl.DataFrame, total: float, bounds: tuple[float, float] | None = None
) -> SourceStatistics | None:
    """Rows by their declared columns, with the ticks at which they begin and end."""
    if rows.is_empty():
        return None
    known = {c.lower(): c for c in rows.columns}
    begin = until = None
    if not definition.table:
        names = definition.valid or (definition.time_column or "",)
        if names[0].lower() not in known:
            return None
        begin = BEGIN
        rows = rows.with_columns(_ticks(rows, known[names[0].lower()], definition.width).alias(BEGIN))
        rows = rows.drop_nulls(BEGIN)
        if rows.is_empty():
            return None
        if definition.valid is not None and names[-1].lower() in known:
            until = END
            ends = _ticks(rows, known[names[-1].lower()], definition.width)
            rows = rows.with_columns(ends.fill_null(2**62).alias(END))
    span = None if bounds is None else (bounds[1] - bounds[0]) * definition.width + 1.0
    return of_frame(rows, definition.columns, begin, until, total, span)


def _ticks(rows: pl.DataFrame, column: str, width: int) -> pl.Series:
    """A column of times as ticks; a text is read as a time if it is one."""
    values = rows[column]
    if values.dtype == pl.String:
        values = values.str.to_datetime(strict=False, time_unit="us")
    if values.dtype.is_temporal():
        values = values.cast(pl.Datetime("us")).to_physical()
    return values.cast(pl.Int64) * width


def _of_parquet(definition: StreamDefinition, files: Sequence[str]) -> SourceStatistics | None:
    """Rows and bounds of the time by footers, values by the first and the last rows."""
    if not files:
        return None
    footers = [pq.read_metadata(f) for f in files[:FOOTERS]]
    total = sum(f.num_rows for f in footers) * len(files) / len(footers)
    wanted = [c.name for c in definition.columns if c.name in pq.read_schema(files[0]).names]
    parts = []
    for file, last in ((files[0], False), (files[-1], True)):
        with pq.ParquetFile(file) as opened:
            if opened.num_row_groups:
                group = opened.read_row_group(opened.num_row_groups - 1 if last else 0, columns=wanted)
                parts.append(group.slice(max(0, group.num_rows - SAMPLE)) if last else group.slice(0, SAMPLE))
    if not parts:
        return None
    rows = pl.from_arrow(pa.concat_tables(parts, promote_options="permissive"))
    assert isinstance(rows, pl.DataFrame)
    bounds = _bounds(footers, definition.time_column) if len(files) <= FOOTERS else None
    return _of_rows(definition, rows, total, bounds)


def _bounds(footers: Sequence[Any], column: str | None) -> tuple[float, float] | None:
    """The least and the greatest value of a column, if all footers tell."""
    found: list[float] = []
    for footer in footers:
        for g in range(footer.num_row_groups):
            group = footer.row_group(g)
            places = [i for i in range(group.num_columns) if group.column(i).path_in_schema == column]
            told = group.column(places[0]).statistics if places else None
            if told is None or not told.has_min_max:
                return None
            ends = (as_number(told.min), as_number(told.max))
            if None in ends:
                return None
            found += [e for e in ends if e is not None]
    return (min(found), max(found)) if found else None


def _of_text(definition: StreamDefinition, files: Sequence[str]) -> SourceStatistics | None:
    """The first rows of the first file; how many there are follows from the size of all."""
    plain = [f for f in files if os.path.getsize(f)]
    if not plain or plain[0].endswith((".gz", ".bz2", ".zst", ".xz")):
        return None
    with open(plain[0], "rb") as opened:
        lines = [line for _, line in zip(range(SAMPLE), opened, strict=False)]
    text = b"".join(lines)
    if definition.source.function == "json":
        rows = pl.read_ndjson(io.BytesIO(text))
    else:
        header = definition.source.option.get("header", "true").lower() != "false"
        rows = pl.read_csv(text, has_header=header, try_parse_dates=True, truncate_ragged_lines=True)
        if not header and rows.width == len(definition.columns):
            rows = rows.rename(dict(zip(rows.columns, (c.name for c in definition.columns), strict=True)))
    total = rows.height * sum(map(os.path.getsize, plain)) / max(1, len(text))
    found = _of_rows(definition, rows, float(rows.height))
    if found is None or definition.table:
        return _of_rows(definition, rows, total) if found is not None else None
    # What was seen is the beginning: rows go on as they come there.
    longer = max(1.0, total / max(1, rows.height))
    return _of_rows(definition, rows, total, (0.0, found.span * longer / definition.width))


def live_costs(
    plan: Node,
    definitions: Mapping[str, StreamDefinition],
    data: Mapping[str, Any],
    sources: Mapping[str, SourceProgress],
) -> Costs:
    """What estimates of a live query rest on: its sources as they are found, and as many rows of each as have come.

    An epoch is taken to be a second, or a tenth of what is known of streams over whole numbers.
    """
    names = source_names({"": plan})
    definitions = {n: d for n, d in definitions.items() if n in names}
    known = gathered(definitions, data)
    counted = {n: float(s.rows) for n, s in sources.items() if n in definitions and s.rows}
    longest = max((s.span for s in known.values() if math.isfinite(s.span)), default=0.0)
    for name, rows in counted.items():
        if name not in known and longest:
            columns = {c.name: assumed_column(c.type) for c in definitions[name].columns}
            known[name] = SourceStatistics(rows / longest, rows, longest, columns=columns)
    if is_timed_in_microseconds(definitions):
        return Costs(known, epoch=SECOND)
    return Costs(known, epoch=max(1.0, longest / 10))


def is_timed_in_microseconds(definitions: Mapping[str, StreamDefinition]) -> bool:
    """Whether a tick is a microsecond."""
    return any(d.time_type == TIMESTAMP for d in definitions.values())
