"""What a task does: restore the states of its partition, run the wave's operators on the epoch's rows, write what changed.

Results and state go straight to storage from here; only small messages travel back to the driver, and nothing
counts until the driver's manifest names it. Every file name is new, so an attempt that fails leaves only litter.
"""

from __future__ import annotations

import gc
import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import polars as pl
import pyarrow as pa
from pyspark import TaskContext, cloudpickle

from tidegate.algebra.quality import Settings
from tidegate.errors import Diagnostic
from tidegate.exchange.lanes import Boundary, Lane
from tidegate.exchange.messages import (
    Failed,
    Log,
    Measured,
    Message,
    Refused,
    ResultFile,
    Tally,
    WaveReport,
    raised,
)
from tidegate.exchange.tagged_rows import (
    Sender,
    by_lane,
    chunk_of,
    completed,
    emitted,
    messages_in,
    passed_on,
    sent,
    told,
)
from tidegate.kernels.modify import ModifyKernel, anomalies_of
from tidegate.kernels.rows import Frame, Table
from tidegate.physical.lowering import Program, call_spans, joined_to
from tidegate.physical.meter import NOTHING, Meter
from tidegate.physical.plan import OperatorRows, SourceRows
from tidegate.storage import Storage, level_of
from tidegate.worker import segments
from tidegate.worker.cache import FairCache
from tidegate.worker.columnar import Reading, read_split
from tidegate.worker.quarantine import quarantined
from tidegate.worker.result_files import discard, write_results
from tidegate.worker.segments import WAITING, States
from tidegate.worker.stopping import ending_with

COMPACT_AFTER = 24
"""So many segments of a level a log may have before they are merged."""

SPARE_ROWS = 200_000
"""So many rows a log may have, beyond three times those that it stands for, before it begins anew."""

PLANS = 256 << 20
"""So many bytes of plans a worker remembers."""


@dataclass(frozen=True)
class WorkerPlan:
    """All waves of a query graph, as workers get them."""

    lanes: tuple[Lane, ...]
    boundaries: tuple[Boundary, ...]
    programs: Mapping[int, Program]
    answers: frozenset[str]
    """The operators whose rows are kept as answers."""
    reporters: Mapping[str, str]
    """The operators that tell which rows of a source could not be applied, and the name of the source."""
    functions: Mapping[str, Any]


@dataclass(frozen=True)
class PackedPlan:
    """A plan as bytes, recognized by what it is."""

    identity: str
    data: bytes
    functions: Mapping[str, bytes]


@dataclass(frozen=True)
class Beginning:
    """What begins in an epoch beside what runs: operators and inputs, and running operators that begin to answer."""

    readers: frozenset[str] = frozenset()
    answers: frozenset[str] = frozenset()


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
    renew: bool = False
    """Operators have changed their wave, or are gone: logs begin anew, with what all old ones hold of those that run."""
    beginning: Beginning = field(default_factory=Beginning)
    keep_answers: bool = True
    """False where answers are thrown away as soon as they are made."""
    settings: Settings = field(default_factory=dict)
    """What is in force of what the runtime may choose."""

    def sender(self, partition: int) -> Sender:
        return Sender(partition, self.partitions, self.files)


def place_name(wave: int, partition: int) -> str:
    return f"{wave}@{partition}"


def segments_in(logs: Mapping[str, Log], partition: int) -> list[str]:
    """The segments of all waves in a partition."""
    mine = (log for place, log in logs.items() if place.split("@")[1] == str(partition))
    return [name for log in mine for name in log.segments]


def pack(plan: WorkerPlan) -> PackedPlan:
    """The plan as bytes, with the user's functions by themselves: they are named where they cannot be sent."""
    functions = {name: _sent(plan, name, cloudpickle.dumps, f) for name, f in plan.functions.items()}
    data: bytes = cloudpickle.dumps(plan)  # type: ignore[no-untyped-call]
    return PackedPlan(hashlib.blake2b(data, digest_size=12).hexdigest(), data, functions)


def _sent(plan: WorkerPlan | None, name: str, step: Callable[[Any], Any], function: Any) -> Any:
    """A user's function on its way to a worker: pickled, or restored there."""
    try:
        return step(function)
    except Exception as problem:
        programs = () if plan is None else plan.programs.values()
        kernels = (o.kernel for program in programs for o in program.operators)
        calls = (span for kernel in kernels for span in call_spans(kernel, name))
        raise Diagnostic(
            "USER_FUNCTION_NOT_SENT",
            f"{name} cannot be sent to the workers: {type(problem).__name__}: {' '.join(str(problem).split())}",
            help="what it captures (locks, connections, open files) must be made inside the function, or belong to a module",
        ).at(next(calls, None)) from problem


_plans: FairCache[WorkerPlan] = FairCache(PLANS)


def unpack(packed: PackedPlan) -> WorkerPlan:
    found = _plans.get("", packed.identity)
    if found is None:
        try:
            found = cloudpickle.loads(packed.data)
        except Exception:
            for name, function in packed.functions.items():
                _sent(None, name, cloudpickle.loads, function)
            raise
        assert isinstance(found, WorkerPlan)
        _plans.put("", packed.identity, found, len(packed.data))
    return found


class WaveTask:
    """The function of a wave, as Spark calls it for each partition; with a `reading`, on what it reads itself."""

    def __init__(self, epoch: Epoch, reading: Reading | None = None) -> None:
        self.epoch = epoch
        self.reading = reading

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return self.run(_partition(), batches)

    def run(self, partition: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with failures_raised(), nullcontext() if self.epoch.hold else ending_with(self.epoch.storage):
            if self.reading is None:
                yield from run_wave(self.epoch, partition, batches)
            else:
                yield from self._on_splits(self.reading, partition, batches)
        settle("wave")

    def _on_splits(
        self, reading: Reading, partition: int, batches: Iterable[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        lanes = unpack(self.epoch.plan).lanes
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
        return self.run(_partition(), batches)

    def run(self, partition: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with failures_raised():
            yield from self._read(partition, batches)
        settle("reading")

    def _read(self, partition: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        plan = unpack(self.epoch.plan)
        boundary = plan.boundaries[self.epoch.wave - 1]
        for batch in batches:
            for number in batch.column(0).to_pylist():
                found = read_split(self.reading, number, plan.lanes, self.epoch.partitions)
                for lane, rows, places in found:
                    yield from sent(rows, places, lane, boundary, self.epoch.sender(partition))


@cache
def settle(task: str) -> None:
    """What a worker has loaded by the end of its first task of a kind stays: Python need not look whether it is garbage.

    Spark has it look after every task, and modules, types and compiled code are so many objects that this takes longer than many a task.
    """
    gc.freeze()


@contextmanager
def failures_raised() -> Iterator[None]:
    """Diagnostics before or beside a wave's own work reach the driver as the text of an exception."""
    try:
        yield
    except Diagnostic as problem:
        raise raised(problem) from problem


def _partition() -> int:
    context = TaskContext.get()
    return context.partitionId() if context is not None else 0


def run_wave(
    epoch: Epoch,
    partition: int,
    batches: Iterable[pa.RecordBatch],
    read: Mapping[int, Frame] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Run the operators of a wave in one partition; yields rows of later waves and messages.

    `read` are rows of sources, by lane, that did not come through an exchange. A diagnostic is a message like any other.
    """
    started = time.perf_counter()
    plan = unpack(epoch.plan)
    boundary = plan.boundaries[epoch.wave - 1]
    after = plan.boundaries[epoch.wave] if epoch.wave < len(plan.boundaries) else None
    received = [b for b in batches if b.num_rows]
    waited = time.perf_counter() - started
    rows = pa.Table.from_batches(received) if received else None
    messages = messages_in(rows)
    if not any(isinstance(m, Failed) for m in messages):
        arrivals = by_lane(rows)
        chunks = {
            lane.input.id: (
                completed(read[lane.number], lane, epoch.number, epoch.since)
                if read is not None and lane.number in read
                else chunk_of(arrivals.get(lane.number), lane, boundary, epoch.number, epoch.since)
            )
            for lane in plan.lanes
            if lane.wave == epoch.wave
        }
        try:
            work = _work(epoch, plan, partition, chunks, waited)
        except Diagnostic as problem:
            messages = [*messages, Failed.of(problem)]
        else:
            messages = [*messages, work.report, *work.refused]
            for lane in after.lanes if after is not None else ():
                origin = lane.input.origin
                if isinstance(origin, OperatorRows) and origin.operator in work.rows:
                    assert after is not None
                    begins = lane.input.id in epoch.beginning.readers
                    before = work.shown.get(origin.operator) if begins else None
                    rows_out = joined_to(before, work.rows[origin.operator])
                    yield from emitted(rows_out, lane, after, epoch.sender(partition))
            for lane in boundary.lanes if after is not None else ():
                if lane.wave > epoch.wave and lane.number in arrivals:
                    assert after is not None
                    yield from passed_on(arrivals[lane.number], lane, boundary, after)
    yield from told(_without_refused(epoch, partition, messages), after)


# One wave in one partition.


@dataclass(frozen=True)
class _Work:
    report: WaveReport
    refused: tuple[Refused, ...]
    rows: Mapping[str, Frame]
    """What operators emitted that others read."""
    shown: Mapping[str, Frame]
    """What running operators have shown before, for those that begin to read them."""


def _work(epoch: Epoch, plan: WorkerPlan, partition: int, chunks: dict[str, Frame], waited: float) -> _Work:
    clock = _Clock({"wait": waited})
    program = plan.programs[epoch.wave]
    place = place_name(epoch.wave, partition)
    log = epoch.logs.get(place, Log())
    states = _begun(epoch, program, _restored(epoch, program, partition, log))
    clock.lap("restore")
    waiting: dict[str, Table] = {}
    arrived = {id_: chunk.height for id_, chunk in chunks.items()}
    if epoch.hold:
        waiting, chunks = _hold(dict(states.get(WAITING, {})), chunks, epoch.upto)
    begins = epoch.beginning
    shown = (
        program.standing(states, _wanted(epoch, plan, program), epoch.since) if begins != Beginning() else {}
    )
    meter = Meter(program.ids, epoch.number)
    after, outputs = program.step_all(
        states, chunks, epoch.upto, begins.readers, shown, meter, epoch.settings
    )
    clock.lap("step")
    kept = _save(epoch, place, partition, log, {**after, WAITING: waiting}) if epoch.keep_state else None
    clock.lap("save")
    rows = dict(zip(program.outputs, outputs, strict=True))
    answers = {
        id_: joined_to(shown.get(id_) if id_ in begins.answers else None, chunk)
        for id_, chunk in rows.items()
        if id_ in plan.answers
    }
    results: tuple[ResultFile, ...] = ()
    discarded = 0
    if epoch.keep_answers:
        results = write_results(epoch.storage, f"{epoch.number:08d}-{partition}", answers)
    else:
        discarded = sum(map(discard, answers.values()))
    clock.lap("results")
    came = sum(c.height for c in chunks.values())
    newest = _newest(plan.lanes, chunks)
    meter.flows |= {i: (count, meter.flows[i][1]) for i, count in arrived.items()}
    tally = _tally(program, meter, after, waiting)
    report = WaveReport(place, kept, results, came, newest, clock.seconds, tally, discarded)
    return _Work(report, tuple(_anomalies(plan, program, after)), rows, shown)


def _tally(
    program: Program,
    meter: Meter,
    after: Mapping[str, Mapping[str, Table]],
    waiting: Mapping[str, Table],
) -> Tally:
    """What each input and operator took, gave and keeps; an input keeps the rows that wait."""
    ids = program.ids
    rows, sizes = dict.fromkeys(ids, 0), dict.fromkeys(ids, 0)
    for id_, tables in (
        *((i, (t,)) for i, t in waiting.items()),
        *((i, s.values()) for i, s in after.items()),
    ):
        for kept in tables:
            if kept.rows.height:
                rows[id_] += kept.rows.height
                sizes[id_] += int(kept.rows.estimated_size())
    taken, given = (tuple(meter.flows[i][side] for i in ids) for side in (0, 1))
    return Tally(taken, given, tuple(rows.values()), tuple(sizes.values()), _measured(program, meter))


def _measured(program: Program, meter: Meter) -> Measured:
    """The notes of a meter about all that had something to do."""
    found = []
    for place, id_ in enumerate(program.ids):
        if id_ in meter.seconds or any(meter.flows[id_]):
            d = meter.details.get(id_, NOTHING)
            noted = (place, meter.seconds.get(id_, 0.0), meter.retracted.get(id_, 0))
            found.append((*noted, d.rows, d.open, d.lasting, d.granule, d.keys))
    return Measured(*zip(*found, strict=True)) if found else Measured()


def _wanted(epoch: Epoch, plan: WorkerPlan, program: Program) -> set[str]:
    """What has to be told of what was shown before the epoch: to operators, later waves and answers that begin."""
    readers = epoch.beginning.readers
    inputs = (lane.input for lane in plan.lanes if lane.input.id in readers)
    origins = (i.origin.operator for i in inputs if isinstance(i.origin, OperatorRows))
    told = {*origins, *epoch.beginning.answers}.difference(readers)
    return program.read_by(readers) | told.intersection(program.outputs)


@dataclass
class _Clock:
    """How long each part of the work took."""

    seconds: dict[str, float]
    _last: float = field(default_factory=time.perf_counter)

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.seconds[name] = now - self._last
        self._last = now


def _restored(epoch: Epoch, program: Program, partition: int, log: Log) -> States:
    if not epoch.renew:
        place = place_name(epoch.wave, partition)
        return segments.recall(epoch.storage, place, program, log.segments, epoch.since)
    return segments.restored(epoch.storage, program, segments_in(epoch.logs, partition), epoch.since)


def _begun(epoch: Epoch, program: Program, states: States) -> States:
    """The states without what is left of operators and inputs that begin anew under an identity that was there before."""
    readers = epoch.beginning.readers
    if not readers:
        return states
    fresh = {id_: state for id_, state in program.initial().items() if id_ in readers}
    waiting = {id_: t for id_, t in states.get(WAITING, {}).items() if id_ not in readers}
    return {**states, **fresh, WAITING: waiting}


def _anomalies(plan: WorkerPlan, program: Program, after: Mapping[str, Any]) -> Iterator[Refused]:
    """Operations of modify streams that could not be applied, as rows refused by their source."""
    for operator in program.operators:
        if operator.id in plan.reporters:
            assert isinstance(operator.kernel, ModifyKernel)
            fields = [f.name for f in operator.kernel.schema]
            for anomaly in anomalies_of(operator.kernel, after[operator.id]):
                raw = json.dumps(dict(zip(fields, anomaly.row, strict=True)), default=str)
                yield Refused(plan.reporters[operator.id], anomaly.reason, raw)


def _newest(lanes: Sequence[Lane], chunks: Mapping[str, Frame]) -> dict[str, int]:
    """The newest instant of each source's rows that came this far."""
    found: dict[str, int] = {}
    for lane in lanes:
        origin, chunk = lane.input.origin, chunks.get(lane.input.id)
        if isinstance(origin, SourceRows) and origin.name is not None and chunk is not None and chunk.height:
            newest = chunk["ts"].max()
            assert isinstance(newest, int)
            found[origin.name] = max(newest, found.get(origin.name, newest))
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
    if epoch.renew or (names and rows > 3 * live + SPARE_ROWS):
        whole = segments.whole(states)
        base = (segments.write(epoch.storage, epoch.number, whole, segments.BASE),) if live else ()
        names, rows = base, live
    elif added:
        names = _append(epoch, names, changed, states, partition)
    segments.remember(epoch.storage, place, names, epoch.upto, segments.settled(states))
    return Log(names, rows)


def _append(
    epoch: Epoch, names: tuple[str, ...], added: segments.Tables, states: States, partition: int
) -> tuple[str, ...]:
    """The log with what was added; with its newest segments, if there are many of a level, as one of the next.

    So a row of the log is copied once per level, and the rows that it adds to are not copied at all. Partitions
    take turns, so that no epoch merges in all of them. One file is written: what no manifest names, none would
    delete.
    """
    level = 0
    while level < segments.BASE:
        newest = 0
        while newest < len(names) and level_of(names[-1 - newest]) == level:
            newest += 1
        if newest < COMPACT_AFTER + partition % 8:
            break
        names, tail = names[:-newest], names[-newest:]
        added = segments.joined([*(segments.read(epoch.storage, n, states) for n in tail), added])
        level += 1
    return (*names, segments.write(epoch.storage, epoch.number, added, level))


def _count(tables: Mapping[str, Mapping[str, Frame]]) -> int:
    return sum(f.height for found in tables.values() for f in found.values())


def _without_refused(epoch: Epoch, partition: int, messages: Sequence[Message]) -> list[Message]:
    """Rows that cannot be used are kept in files and told as numbers."""
    refused = [m for m in messages if isinstance(m, Refused)]
    others: list[Message] = [m for m in messages if not isinstance(m, Refused)]
    if not refused or any(isinstance(m, Failed) for m in others):
        return others
    return [
        *others,
        quarantined(epoch.storage, epoch.number, (epoch.since, epoch.upto), str(partition), refused),
    ]
