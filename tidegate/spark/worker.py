"""What a task does: restore the states of its partition, run the wave's stages on the epoch's rows, write what changed.

Results and state go straight to storage from here; only small messages travel back to the driver, and nothing
counts until the driver's manifest names it. Every file name is new, so an attempt that fails leaves only litter.
"""

from __future__ import annotations

import io
import json
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import TaskContext, cloudpickle

from tidegate.algebra.operators import Node
from tidegate.kernels.graph import Program, compile_plans
from tidegate.kernels.modify import ModifyKernel, anomalies_of
from tidegate.kernels.rows import Frame, Table, empty_chunk, from_arrow, payload_types, to_arrow
from tidegate.spark import segments
from tidegate.spark.blocks import pack_rows, partitions_of, scatter, unpack_rows
from tidegate.spark.columnar import Reading, read_split
from tidegate.spark.exchange import MESSAGE, Boundary, Lane
from tidegate.spark.segments import WAITING, States
from tidegate.spark.stages import SourceRows, Stage, StageRows
from tidegate.spark.storage import Storage
from tidegate.spark.values import arrow_type
from tidegate.types import Schema

REFUSED = '{"kind":"refused"'
"""How the message of a row begins that was refused on entry."""

COMPACT_AFTER = 24
"""A log of more segments than this is rewritten as one base."""


@dataclass(frozen=True)
class Plan:
    """All stages of a query graph, as workers get them: pickled once, recognized by `identity`."""

    stages: tuple[Stage, ...]
    lanes: tuple[Lane, ...]
    boundaries: tuple[Boundary, ...]
    functions: Mapping[str, Any]
    labels: tuple[str, ...]
    """What the state of each stage is filed under, whatever plan it is part of."""


@dataclass(frozen=True)
class PackedPlan:
    identity: str
    data: bytes


@dataclass(frozen=True)
class Log:
    """The segments that a stage's state in a partition is made of, and how many rows they hold."""

    segments: tuple[str, ...] = ()
    rows: int = 0


def place_name(label: str, partition: int) -> str:
    return f"{label}@{partition}"


@dataclass(frozen=True)
class Epoch:
    """One wave's work in one epoch, as sent to its tasks."""

    plan: PackedPlan
    wave: int
    number: int
    since: int
    upto: int
    storage: Storage
    logs: Mapping[str, Log]
    """`place_name` -> the state's log there."""
    keep_state: bool
    """False where no epoch follows."""
    hold: bool
    """Rows may lie beyond the epoch and have to wait (live); otherwise the source was read up to it."""
    partitions: int


def pack(plan: Plan) -> PackedPlan:
    """The plan as bytes. Nodes are copied first: they remember hashes that mean nothing in another process."""
    stages = tuple(replace(s, outputs=tuple(_fresh(n, {}) for n in s.outputs)) for s in plan.stages)
    data = cloudpickle.dumps(replace(plan, stages=stages))  # type: ignore[no-untyped-call]
    return PackedPlan(uuid.uuid4().hex, data)


def _fresh(node: Node, memo: dict[int, Node]) -> Node:
    if id(node) not in memo:
        memo[id(node)] = node.with_inputs(*(_fresh(i, memo) for i in node.inputs))
    return memo[id(node)]


@dataclass(frozen=True)
class Unpacked:
    """A plan in a worker, with the program of each stage."""

    plan: Plan
    programs: Mapping[int, Program]


_plans: dict[str, Unpacked] = {}


def unpack(packed: PackedPlan) -> Unpacked:
    found = _plans.get(packed.identity)
    if found is None:
        plan: Plan = cloudpickle.loads(packed.data)
        programs = {s.number: compile_plans(s.outputs, plan.functions) for s in plan.stages}
        found = Unpacked(plan, programs)
        while len(_plans) > 4:
            del _plans[next(iter(_plans))]
        _plans[packed.identity] = found
    return found


class WaveTask:
    """The function of a wave, as Spark calls it for each partition; with a `reading`, on what it reads itself."""

    def __init__(self, epoch: Epoch, reading: Reading | None = None) -> None:
        self.epoch = epoch
        self.reading = reading

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        partition = _partition()
        if self.reading is None:
            return run_wave(self.epoch, partition, batches)
        return self._on_splits(self.reading, partition, batches)

    def _on_splits(
        self, reading: Reading, partition: int, batches: Iterable[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        lanes = unpack(self.epoch.plan).plan.lanes
        for batch in batches:
            for number in batch.column(0).to_pylist():
                read: dict[int, list[Frame]] = {}
                for lane, rows, _ in read_split(reading, number, lanes, 1):
                    read.setdefault(lane.number, []).append(rows)
                yield from run_wave(
                    self.epoch, partition, (), {lane: pl.concat(rows) for lane, rows in read.items()}
                )


class ReadTask:
    """Reads splits of files and sends their rows, as blocks, to the partitions of the first wave."""

    def __init__(self, epoch: Epoch, reading: Reading) -> None:
        self.epoch = epoch
        self.reading = reading

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        plan = unpack(self.epoch.plan).plan
        first = plan.boundaries[0]
        partition = _partition()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                found = read_split(self.reading, number, plan.lanes, self.epoch.partitions)
                for lane, rows, places in found:
                    yield from _send(rows, places, lane, first, partition, self.epoch.partitions)


def _partition() -> int:
    context = TaskContext.get()
    return context.partitionId() if context is not None else 0


def run_wave(
    epoch: Epoch,
    partition: int,
    batches: Iterable[pa.RecordBatch],
    read: Mapping[int, Frame] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Run the stages of a wave in one partition; yields rows of later waves and messages.

    `read` are rows of sources, by lane, that did not come through an exchange.
    """
    started = time.perf_counter()
    unpacked = unpack(epoch.plan)
    plan = unpacked.plan
    boundary = plan.boundaries[epoch.wave - 1]
    after = plan.boundaries[epoch.wave] if epoch.wave < len(plan.boundaries) else None
    received = [b for b in batches if b.num_rows]
    arrived = time.perf_counter()
    rows = pa.Table.from_batches(received) if received else None
    messages, refused = _messages(rows)
    by_lane = _by_lane(rows)
    for stage in plan.stages:
        if stage.wave != epoch.wave:
            continue
        chunks = {
            lane.input.name: (
                _completed(read[lane.number], lane, epoch)
                if read is not None and lane.number in read
                else _chunk(by_lane.get(lane.number), lane, boundary, epoch)
            )
            for lane in plan.lanes
            if lane.stage == stage.number
        }
        place = place_name(plan.labels[stage.number], partition)
        message, outputs = _run_stage(epoch, stage, unpacked.programs[stage.number], place, partition, chunks)
        refused += message.pop("refused")
        message["wait"] = arrived - started
        messages.append(json.dumps(message))
        if after is not None:
            for lane in after.lanes:
                origin = lane.input.origin
                if isinstance(origin, StageRows) and origin.stage == stage.number:
                    yield from _emit(outputs[origin.output], lane, after, partition, epoch.partitions)
    if refused:
        messages.append(json.dumps(_quarantine(epoch, partition, refused)))
    if after is None:
        yield _final(messages)
        return
    for lane in boundary.lanes:
        if lane.wave > epoch.wave and lane.number in by_lane:
            yield from _pass_on(by_lane[lane.number], lane, boundary, after)
    yield from _meta(messages, after)


# One stage.


def _run_stage(
    epoch: Epoch, stage: Stage, program: Program, place: str, partition: int, chunks: dict[str, Frame]
) -> tuple[dict[str, Any], tuple[Frame, ...]]:
    begun = time.perf_counter()
    log = epoch.logs.get(place, Log())
    states = segments.recall(epoch.storage, place, program, log.segments, epoch.since)
    restored = time.perf_counter()
    waiting: dict[str, Table] = {}
    if epoch.hold:
        waiting, chunks = _hold(dict(states.get(WAITING, {})), chunks, epoch.upto)
    after, outputs = program.step_all(states, chunks, epoch.upto)
    stepped = time.perf_counter()
    message: dict[str, Any] = {"kind": "stage", "place": place, "refused": _anomalies(stage, program, after)}
    if epoch.keep_state:
        saved_log = _save(epoch, place, partition, log, {**after, WAITING: waiting})
        message |= {"segments": saved_log.segments, "logged": saved_log.rows}
    saved = time.perf_counter()
    message["results"] = [
        _write_result(epoch, name, partition, outputs[o])
        for name, o in stage.answers.items()
        if outputs[o].height
    ]
    done = time.perf_counter()
    message["rows"] = sum(c.height for c in chunks.values())
    message["newest"] = _newest(stage, chunks)
    message["seconds"] = {
        "restore": restored - begun,
        "step": stepped - restored,
        "save": saved - stepped,
        "results": done - saved,
    }
    return message, outputs


def _anomalies(stage: Stage, program: Program, after: States) -> list[str]:
    """Operations of modify streams that could not be applied, as rows refused by their source."""
    names = {leaf.id: leaf.name for leaf in program.leaves}
    origins = {entry.name: entry.origin for entry in stage.inputs}
    found = []
    for step in program.steps:
        if not isinstance(step.kernel, ModifyKernel):
            continue
        origin = origins.get(names.get(step.inputs[0], ""))
        source = origin.scan.name if isinstance(origin, SourceRows) and origin.scan is not None else "unknown"
        fields = [f.name for f in step.kernel.schema]
        for anomaly in anomalies_of(step.kernel, after[step.id]):
            raw = json.dumps(dict(zip(fields, anomaly.row, strict=True)), default=str)
            found.append(
                json.dumps({"kind": "refused", "source": source, "reason": anomaly.reason, "raw": raw})
            )
    return found


def _newest(stage: Stage, chunks: Mapping[str, Frame]) -> dict[str, int]:
    """The newest instant of each source's rows that came this far."""
    found: dict[str, int] = {}
    for entry in stage.inputs:
        origin = entry.origin
        if isinstance(origin, SourceRows) and origin.scan is not None and chunks[entry.name].height:
            newest = chunks[entry.name]["ts"].max()
            assert isinstance(newest, int)
            found[origin.scan.name] = max(newest, found.get(origin.scan.name, newest))
    return found


def _hold(
    waiting: dict[str, Table], chunks: dict[str, Frame], upto: int
) -> tuple[dict[str, Table], dict[str, Frame]]:
    """Rows at or after `upto` wait for a later epoch; those that it reaches leave."""
    after: dict[str, Table] = {}
    due: dict[str, Frame] = {}
    for name, chunk in chunks.items():
        early = chunk.filter(pl.col("ts") >= upto)
        now = chunk.filter(pl.col("ts") < upto) if early.height else chunk
        held = waiting[name].rows if name in waiting else chunk.clear()
        released = held.filter(pl.col("ts") < upto)
        if released.height:
            held = held.filter(pl.col("ts") >= upto)
            now = pl.concat([released, now])
        rows = pl.concat([held, early]) if early.height else held
        if rows.height or early.height or released.height:
            after[name] = Table(rows, early)
        due[name] = now
    return after, due


def _save(
    epoch: Epoch, place: str, partition: int, log: Log, after: Mapping[str, Mapping[str, Table]]
) -> Log:
    """Append what changed to the log, or begin it anew when it is much longer than what it stands for."""
    states: States = dict(after)
    changed = segments.deltas(states)
    added = _count(changed)
    live = _count(segments.whole(states))
    names, rows = log.segments, log.rows + added
    # Partitions take turns, so that no epoch rewrites all of them.
    long = len(names) + 1 > COMPACT_AFTER + partition % 8
    afresh = bool(names) and (long or rows > 3 * live + 200_000)
    if afresh:
        changed, rows, names = segments.whole(states), live, ()
    if added or afresh:
        name = f"state/{epoch.number:08d}-{uuid.uuid4().hex[:16]}.arrow"
        epoch.storage.write(name, segments.encode(changed))
        names = (*names, name)
    segments.remember(epoch.storage, place, names, epoch.upto, segments.settled(states))
    return Log(names, rows)


def _count(tables: Mapping[str, Mapping[str, Frame]]) -> int:
    return sum(f.height for found in tables.values() for f in found.values())


def _write_result(epoch: Epoch, query: str, partition: int, chunk: Frame) -> dict[str, Any]:
    name = f"results/{query}/{epoch.number:08d}-{partition}-{uuid.uuid4().hex[:12]}.parquet"
    epoch.storage.write(name, _parquet(chunk))
    return {
        "query": query,
        "file": name,
        "rows": chunk.height,
        "negative": int((chunk["n"] < 0).sum()),
        "multiple": int((chunk["n"] > 1).sum()),
        "min_ts": chunk["ts"].min(),
        "max_ts": chunk["ts"].max(),
        "max_te": chunk["te"].max(),
    }


def _parquet(chunk: Frame) -> Any:
    if pl.String in chunk.dtypes:
        # Polars writes texts from where they are and knows which repeat; for numbers alone Arrow is faster.
        sink = io.BytesIO()
        chunk.write_parquet(sink, compression="snappy", statistics=False)
        return pa.py_buffer(sink.getbuffer())
    buffer = pa.BufferOutputStream()
    pq.write_table(
        to_arrow(chunk),
        buffer,
        compression="snappy",
        use_dictionary=False,
        write_statistics=["ts", "te"],
        store_schema=False,
    )
    return buffer.getvalue()


def _quarantine(epoch: Epoch, partition: int, refused: Sequence[str]) -> dict[str, Any]:
    """Rows that cannot be used are kept with the reason and their text, and counted."""
    found = [json.loads(text) for text in refused]
    counts: dict[str, dict[str, int]] = {}
    files: dict[str, str] = {}
    for source in sorted({f["source"] for f in found}):
        mine = [f for f in found if f["source"] == source]
        rows = pa.table(
            {
                "epoch": pa.array([epoch.number] * len(mine), pa.int64()),
                "reason": pa.array([f["reason"] for f in mine], pa.string()),
                "raw": pa.array([f.get("raw") for f in mine], pa.string()),
            }
        )
        sink = pa.BufferOutputStream()
        pq.write_table(rows, sink)
        files[source] = f"quarantine/{source}/{epoch.number:08d}-{partition}-{uuid.uuid4().hex[:12]}.parquet"
        epoch.storage.write(files[source], sink.getvalue())
        counts[source] = {}
        for f in mine:
            counts[source][f["reason"]] = counts[source].get(f["reason"], 0) + 1
    return {"kind": "quarantine", "counts": counts, "files": files}


# The union's rows, in and out.


def _messages(rows: pa.Table | None) -> tuple[list[str], list[str]]:
    """Messages of earlier waves, and rows refused on entry."""
    if rows is None or rows.column("meta").null_count == rows.num_rows:
        return [], []
    texts = rows.column("meta").drop_null().to_pylist()
    refused = [t for t in texts if t.startswith(REFUSED)]
    return [t for t in texts if not t.startswith(REFUSED)], refused


def _by_lane(rows: pa.Table | None) -> dict[int, pa.Table]:
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


def _chunk(rows: pa.Table | None, lane: Lane, boundary: Boundary, epoch: Epoch) -> Frame:
    """A lane's rows as a chunk: the columns of its schema, ts, te, n, and seq where arrival order counts."""
    if rows is not None and rows.column("block").null_count < rows.num_rows:
        # A lane's rows all travel in the same way.
        return _completed(unpack_rows(rows.column("block")), lane, epoch)
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
    return _completed(_normal(taken, list(names), travelled), lane, epoch)


def _nothing(lane: Lane) -> Frame:
    frame = empty_chunk(lane.input.schema)
    return frame.with_columns(seq=pl.lit(0, dtype=pl.Int64)) if lane.input.ordered else frame


def _completed(frame: Frame, lane: Lane, epoch: Epoch) -> Frame:
    """A lane's rows with all columns of a chunk; only those travel that cannot be made on arrival."""
    schema = lane.input.schema
    order = [c for c in ("o0", "o1", "o2") if c in frame.columns] if lane.input.ordered else []
    if order:
        # Ranks within the partition are enough: a row window compares rows of one partition only.
        frame = frame.sort(order).with_columns(
            seq=pl.int_range(pl.len(), dtype=pl.Int64) + (epoch.number << 40)
        )
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
    if lane.born == 0 and not lane.input.raw:
        # A stream that began before this query is seen from where the query begins.
        frame = frame.with_columns(ts=pl.max_horizontal("ts", pl.lit(epoch.since))).filter(
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


def _emit(
    chunk: Frame, lane: Lane, after: Boundary, partition: int, partitions: int
) -> Iterator[pa.RecordBatch]:
    """A stage's output for a lane of the next union."""
    if not chunk.height:
        return
    if lane.block:
        key = lane.input.key
        places = partitions_of(chunk, key, lane.input.schema, partitions) if key and partitions > 1 else None
        yield from _send(chunk, places, lane, after, partition, partitions)
        return
    rows = to_arrow(chunk)
    sent = (
        zip(lane.columns, after.places[lane.number], strict=True)
        if lane.made is None
        else zip(lane.given, after.given[lane.number], strict=True)
    )
    values = {f"s{s}": rows.column(f"c{c}") for c, s in sent}
    values |= {"ts": rows.column("ts"), "te": rows.column("te"), "n": rows.column("n")}
    yield from _batches(values, lane.number, chunk.height, after)


def _send(
    chunk: Frame, places: pl.Series | None, lane: Lane, after: Boundary, partition: int, partitions: int
) -> Iterator[pa.RecordBatch]:
    """Rows as blocks, one or more for each partition they go to."""
    wanted = {*(f"c{c}" for c in lane.columns), "ts", "te", "n", "o0"}
    rows = chunk.select(c for c in chunk.columns if c in wanted)
    if lane.input.broadcast:
        parts: Iterable[tuple[int, Frame]] = ((p, rows) for p in range(partitions))
    elif places is not None:
        parts = scatter(rows, places, partitions)
    elif lane.input.key is None:
        parts = [(partition % partitions, rows)]
    else:
        parts = [(lane.input.home % partitions, rows)]
    for p, part in parts:
        for block in pack_rows(part):
            values = {"p": pa.array([p], pa.int32()), "block": pa.array([block], pa.binary())}
            yield from _batches({k: pa.chunked_array([v]) for k, v in values.items()}, lane.number, 1, after)


def _pass_on(rows: pa.Table, lane: Lane, boundary: Boundary, after: Boundary) -> Iterator[pa.RecordBatch]:
    """Rows of a stage further on, moved to the slots of the next union."""
    names = ("block", "ts", "te", "n", "o0", "o1", "o2", "p")
    values = {n: rows.column(n) for n in names if n in rows.column_names}
    if not lane.block:
        before, here = boundary.places[lane.number], after.places[lane.number]
        values |= {f"s{b}": rows.column(f"s{a}") for a, b in zip(before, here, strict=True)}
    if "n" not in values:
        values["n"] = pa.chunked_array([pa.repeat(pa.scalar(1, pa.int64()), rows.num_rows)])
    yield from _batches(values, lane.number, rows.num_rows, after)


def _meta(messages: Sequence[str], after: Boundary) -> Iterator[pa.RecordBatch]:
    values = {
        "meta": pa.chunked_array([pa.array(messages, pa.string())]),
        "p": pa.chunked_array([pa.repeat(pa.scalar(0, pa.int32()), len(messages))]),
    }
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
    yield from pa.table(arrays, names=list(_arrow_types(after))).combine_chunks().to_batches()


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


def _final(messages: Sequence[str]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(messages, pa.string())], names=["meta"])
