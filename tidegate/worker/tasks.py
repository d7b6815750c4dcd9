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
from tidegate.exchange.lanes import Boundary, Lane
from tidegate.exchange.tagged_rows import (
    Sender,
    by_lane,
    chunk_of,
    completed,
    emitted,
    last_messages,
    messages_in,
    passed_on,
    sent,
    told,
)
from tidegate.kernels.modify import ModifyKernel, anomalies_of
from tidegate.kernels.rows import Frame, Table, to_arrow
from tidegate.physical.lowering import Program, compile_plans
from tidegate.physical.stages import SourceRows, Stage, StageRows
from tidegate.storage import Storage
from tidegate.worker import segments
from tidegate.worker.columnar import Reading, read_split
from tidegate.worker.segments import WAITING, States

COMPACT_AFTER = 24
"""So many segments of a level a log may have before they are merged."""

SPARE_ROWS = 200_000
"""So many rows a log may have, beyond three times those that it stands for, before it begins anew."""


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
    files: Storage | None = None
    """Where large blocks lie between two waves, if all tasks run on one machine."""

    def sender(self, partition: int) -> Sender:
        return Sender(partition, self.partitions, self.files)


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
    """Reads splits of files and sends their rows, as blocks, to the partitions of a wave."""

    def __init__(self, epoch: Epoch, reading: Reading) -> None:
        self.epoch = epoch
        self.reading = reading

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        plan = unpack(self.epoch.plan).plan
        boundary = plan.boundaries[self.epoch.wave - 1]
        partition = _partition()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                found = read_split(self.reading, number, plan.lanes, self.epoch.partitions)
                for lane, rows, places in found:
                    yield from sent(rows, places, lane, boundary, self.epoch.sender(partition))


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
    messages, refused = messages_in(rows)
    arrivals = by_lane(rows)
    for stage in plan.stages:
        if stage.wave != epoch.wave:
            continue
        chunks = {
            lane.input.name: (
                completed(read[lane.number], lane, epoch.number, epoch.since)
                if read is not None and lane.number in read
                else chunk_of(arrivals.get(lane.number), lane, boundary, epoch.number, epoch.since)
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
                    yield from emitted(outputs[origin.output], lane, after, epoch.sender(partition))
    if refused:
        messages.append(json.dumps(_quarantine(epoch, partition, refused)))
    if after is None:
        yield last_messages(messages)
        return
    for lane in boundary.lanes:
        if lane.wave > epoch.wave and lane.number in arrivals:
            yield from passed_on(arrivals[lane.number], lane, boundary, after)
    yield from told(messages, after)


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
    if names and rows > 3 * live + SPARE_ROWS:
        names, rows = (_write_segment(epoch, segments.whole(states), segments.BASE),), live
    elif added:
        names = _append(epoch, names, changed, partition)
    segments.remember(epoch.storage, place, names, epoch.upto, segments.settled(states))
    return Log(names, rows)


def _append(epoch: Epoch, names: tuple[str, ...], added: segments.Tables, partition: int) -> tuple[str, ...]:
    """The log with what was added; with its newest segments, if there are many of a level, as one of the next.

    So a row of the log is copied once per level, and the rows that it adds to are not copied at all. Partitions
    take turns, so that no epoch merges in all of them. One file is written: what no manifest names, none would
    delete.
    """
    level = 0
    while level < segments.BASE:
        newest = 0
        while newest < len(names) and segments.level_of(names[-1 - newest]) == level:
            newest += 1
        if newest < COMPACT_AFTER + partition % 8:
            break
        names, tail = names[:-newest], names[-newest:]
        added = segments.joined([*(segments.decode(epoch.storage.read(n)) for n in tail), added])
        level += 1
    return (*names, _write_segment(epoch, added, level))


def _write_segment(epoch: Epoch, tables: segments.Tables, level: int) -> str:
    name = segments.new_name(epoch.number, level)
    epoch.storage.write(name, segments.encode(tables))
    return name


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
    rows = to_arrow(chunk)
    numbers = [f.name for f in rows.schema if pa.types.is_integer(f.type)]
    buffer = pa.BufferOutputStream()
    pq.write_table(
        rows,
        buffer,
        # Differences of neighbours are as small as what a compressor makes of whole numbers, in half the time.
        compression={name: "none" if name in numbers else "snappy" for name in rows.column_names},
        column_encoding=dict.fromkeys(numbers, "DELTA_BINARY_PACKED"),
        use_dictionary=False,
        write_statistics=["ts", "te"],
        store_schema=False,
    )
    return buffer.getvalue()


def _quarantine(epoch: Epoch, partition: int, refused: Sequence[str]) -> dict[str, Any]:
    """Rows that cannot be used are kept with the reason and their text, and counted by the reason without its details."""
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
            reason = f["reason"].split(": ", 1)[0]
            counts[source][reason] = counts[source].get(reason, 0) + 1
    return {"kind": "quarantine", "counts": counts, "files": files}
