"""The rows of a union as Python tasks see them: what arrives becomes chunks, what leaves becomes rows or blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl
import pyarrow as pa

from tidegate.exchange.blocks import pack_rows, partitions_of, scatter, unpack_rows
from tidegate.exchange.lanes import MESSAGE, Boundary, Lane
from tidegate.exchange.messages import Message, decode, encode
from tidegate.kernels.rows import Frame, empty_chunk, from_arrow, payload_types, to_arrow
from tidegate.spark.values import arrow_type
from tidegate.storage import Storage
from tidegate.types import Schema


@dataclass(frozen=True)
class Sender:
    """The task that sends rows, how many partitions there are, and where large blocks may lie as files."""

    partition: int
    partitions: int
    files: Storage | None = None


def messages_in(rows: pa.Table | None) -> list[Message]:
    """Messages of earlier waves, and rows refused on entry."""
    if rows is None or rows.column("meta").null_count == rows.num_rows:
        return []
    return [decode(text) for text in rows.column("meta").drop_null().to_pylist()]


def by_lane(rows: pa.Table | None) -> dict[int, pa.Table]:
    """The rows of each lane."""
    if rows is None:
        return {}
    lanes = pl.from_arrow(rows.column("lane"))
    assert isinstance(lanes, pl.Series)
    present = lanes.unique().to_list()
    if len(present) == 1:
        return {} if present[0] == MESSAGE else {present[0]: rows}
    found = {}
    for number in present:
        if number != MESSAGE:
            mask = (lanes == number).to_arrow()
            found[number] = rows.filter(mask)
    return found


def chunk_of(rows: pa.Table | None, lane: Lane, boundary: Boundary, epoch: int, since: int) -> Frame:
    """A lane's rows as a chunk: the columns of its schema, ts, te, n, and seq where arrival order counts."""
    if rows is not None and rows.column("block").null_count < rows.num_rows:
        # A lane's rows all travel in the same way.
        return completed(unpack_rows(rows.column("block")), lane, epoch, since)
    if lane.block:
        return _nothing(lane)
    names = {c: f"s{s}" for c, s in zip(lane.columns, boundary.places[lane.number], strict=True)}
    extra = ["ts", *(["te"] if boundary.ends else []), *(["n"] if boundary.counts else [])]
    order = ["o0", "o1", "o2"] if lane.input.ordered else []
    if rows is None:
        rows = _empty(boundary)
    taken = rows.select([*names.values(), *extra, *order])
    taken = taken.rename_columns([*(f"c{c}" for c in names), *extra, *order])
    travelled: Schema = tuple(lane.input.schema[c] for c in names)
    return completed(_normal(taken, list(names), travelled), lane, epoch, since)


def _nothing(lane: Lane) -> Frame:
    frame = empty_chunk(lane.input.schema)
    return frame.with_columns(seq=pl.lit(0, dtype=pl.Int64)) if lane.input.ordered else frame


def completed(frame: Frame, lane: Lane, epoch: int, since: int) -> Frame:
    """A lane's rows with all columns of a chunk; only those travel that cannot be made on arrival."""
    schema = lane.input.schema
    order = [c for c in ("o0", "o1", "o2") if c in frame.columns] if lane.input.ordered else []
    if order:
        # Ranks within the partition are enough: a row window compares rows of one partition only.
        frame = frame.sort(order).with_columns(seq=pl.int_range(pl.len(), dtype=pl.Int64) + (epoch << 40))
    types = payload_types(schema)
    made: list[pl.Expr] = []
    for i, field in enumerate(schema):
        if i in lane.time_columns:
            made.append(_time(field.type.name, types[f"c{i}"]).alias(f"c{i}"))
        elif i not in lane.columns:
            made.append(pl.lit(None, dtype=types[f"c{i}"]).alias(f"c{i}"))
    if lane.input.raw:
        made.append((pl.col("ts") + 1).alias("te"))
    if "n" not in frame.columns:
        made.append(pl.lit(1, dtype=pl.Int64).alias("n"))
    frame = frame.with_columns(made)
    if lane.born == 0 and not lane.input.raw and not lane.input.birth.whole:
        # A stream that began before this query is seen from where the query begins, unless that is told all of it.
        frame = frame.with_columns(ts=pl.max_horizontal("ts", pl.lit(since))).filter(
            pl.col("ts") < pl.col("te")
        )
    return frame.select(*types, "ts", "te", "n", *(["seq"] if order else []))


def _normal(rows: pa.Table, columns: Sequence[int], schema: Schema) -> Frame:
    positions = {f"c{c}": f"c{i}" for i, c in enumerate(columns)}
    renamed = rows.rename_columns([positions.get(n, n) for n in rows.column_names])
    frame = from_arrow(renamed, schema)
    return frame.rename({v: k for k, v in positions.items()})


def _time(type_name: str, wanted: pl.DataType) -> pl.Expr:
    if type_name == "TIMESTAMP":
        return pl.col("ts").cast(pl.Datetime("us")).dt.replace_time_zone("UTC")
    return pl.col("ts").cast(wanted)


def _empty(boundary: Boundary) -> pa.Table:
    return pa.schema([pa.field(n, t) for n, t in _arrow_types(boundary).items()]).empty_table()


def _arrow_types(boundary: Boundary) -> dict[str, pa.DataType]:
    plain = {"INT": pa.int32(), "BIGINT": pa.int64(), "STRING": pa.string(), "BINARY": pa.binary()}
    types = {n: plain[d] for n, d in boundary.columns if not n.startswith("s")}
    return types | {f"s{i}": arrow_type(t) for i, t in enumerate(boundary.slots)}


def emitted(chunk: Frame, lane: Lane, after: Boundary, sender: Sender) -> Iterator[pa.RecordBatch]:
    """An operator's rows for a lane of the next union."""
    if not chunk.height:
        return
    if lane.block:
        key, count = lane.input.key, sender.partitions
        places = partitions_of(chunk, key, lane.input.schema, count) if key and count > 1 else None
        yield from sent(chunk, places, lane, after, sender)
        return
    rows = to_arrow(chunk)
    travelling = (
        zip(lane.columns, after.places[lane.number], strict=True)
        if lane.made is None
        else zip(lane.given, after.given[lane.number], strict=True)
    )
    values = {f"s{s}": rows.column(f"c{c}") for c, s in travelling}
    values |= {"ts": rows.column("ts"), "te": rows.column("te"), "n": rows.column("n")}
    yield from _batches(values, lane.number, chunk.height, after)


def sent(
    chunk: Frame, places: pl.Series | None, lane: Lane, after: Boundary, sender: Sender
) -> Iterator[pa.RecordBatch]:
    """Rows as blocks, one or more for each partition they go to."""
    wanted = {*(f"c{c}" for c in lane.columns), "ts", "te", "n", "o0"}
    rows = chunk.select(c for c in chunk.columns if c in wanted)
    for p, part in parts_of(rows, places, lane, sender.partition, sender.partitions):
        for block in pack_rows(part, sender.files):
            values = {"p": pa.array([p], pa.int32()), "block": pa.array([block], pa.binary())}
            yield from _batches({k: pa.chunked_array([v]) for k, v in values.items()}, lane.number, 1, after)


def parts_of(
    rows: Frame, places: pl.Series | None, lane: Lane, partition: int, partitions: int
) -> Iterable[tuple[int, Frame]]:
    """A lane's rows by the partition they go to: of `places` where a key tells it; rows without a key stay in `partition`."""
    if lane.input.broadcast:
        return ((p, rows) for p in range(partitions))
    if places is not None:
        return scatter(rows, places, partitions)
    if lane.input.key is None:
        return [(partition % partitions, rows)]
    return [(lane.input.home % partitions, rows)]


def passed_on(rows: pa.Table, lane: Lane, boundary: Boundary, after: Boundary) -> Iterator[pa.RecordBatch]:
    """Rows that are read further on, moved to the slots of the next union."""
    names = ("block", "ts", "te", "n", "o0", "o1", "o2", "p")
    values = {n: rows.column(n) for n in names if n in rows.column_names}
    if not lane.block:
        before, here = boundary.places[lane.number], after.places[lane.number]
        values |= {f"s{b}": rows.column(f"s{a}") for a, b in zip(before, here, strict=True)}
    if "n" not in values:
        values["n"] = pa.chunked_array([pa.repeat(pa.scalar(1, pa.int64()), rows.num_rows)])
    yield from _batches(values, lane.number, rows.num_rows, after)


def told(messages: Sequence[Message], after: Boundary | None) -> Iterator[pa.RecordBatch]:
    """Messages to the driver: by way of the next union, or from the last wave."""
    texts = pa.array([encode(m) for m in messages], pa.string())
    if after is None:
        yield pa.RecordBatch.from_arrays([texts], names=["meta"])
        return
    nowhere = pa.repeat(pa.scalar(0, pa.int32()), len(messages))
    values = {"meta": pa.chunked_array([texts]), "p": pa.chunked_array([nowhere])}
    yield from _batches(values, MESSAGE, len(messages), after)


def _batches(values: Mapping[str, Any], lane: int, height: int, after: Boundary) -> Iterator[pa.RecordBatch]:
    if not height:
        return
    arrays = []
    for name, type_ in _arrow_types(after).items():
        if name == "lane":
            arrays.append(pa.chunked_array([pa.repeat(pa.scalar(lane, pa.int32()), height)]))
        elif name in values:
            arrays.append(_as(values[name], type_))
        else:
            arrays.append(pa.chunked_array([pa.nulls(height, type_)]))
    table = pa.table(arrays, names=list(_arrow_types(after)))
    # Every batch crosses the border on its own, but blocks are large already.
    yield from (table if "block" in values else table.combine_chunks()).to_batches()


def _as(column: Any, wanted: pa.DataType) -> Any:
    """A kernel's column as Spark takes it: a list of pairs becomes a map again."""
    if not pa.types.is_map(wanted):
        return column if column.type == wanted else column.cast(wanted)
    pairs = column.combine_chunks()
    pairs = pairs.chunk(0) if isinstance(pairs, pa.ChunkedArray) else pairs
    pairs = pairs.cast(pa.list_(pa.struct([("key", wanted.key_type), ("value", wanted.item_type)])))
    entries = pairs.values
    made = pa.MapArray.from_arrays(pairs.offsets, entries.field("key"), entries.field("value"))
    return pa.chunked_array([pa.array(made.to_pylist(), wanted) if pairs.null_count else made])
