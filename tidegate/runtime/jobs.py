"""One epoch: rows of the sources through all waves, messages back to the driver.

It runs as one Spark job, or, where that costs less, in the driver's own process: Spark then reads the sources, and the same tasks are
called for one partition after the other. Both leave the same files, so either may follow the other.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

from tidegate.algebra.failures import WORKER_DIED
from tidegate.algebra.operators import Node, Scan
from tidegate.algebra.quality import Settings
from tidegate.connectors.files import local_path
from tidegate.errors import Diagnostic
from tidegate.exchange.lanes import (
    Boundary,
    Feed,
    Lane,
    boundaries,
    enter,
    hand_over,
    lanes_of,
    one_row,
    tick,
)
from tidegate.exchange.messages import MARK, Failed, Log, Message, decode
from tidegate.kernels.modify import ModifyKernel
from tidegate.kernels.rows import Frame
from tidegate.physical.identity import identity_of
from tidegate.physical.joining import Company, plan_joining
from tidegate.physical.plan import Birth, Plan, SourceRows, only_expire, united, users
from tidegate.physical.printing import captions, numbered
from tidegate.runtime.faults import reach
from tidegate.runtime.plain_tasks import context_of, run_tasks
from tidegate.spark.context import on_one_machine
from tidegate.storage import BLOCKS, Storage
from tidegate.time import MAX
from tidegate.worker.columnar import Reading
from tidegate.worker.tasks import Beginning, Epoch, PackedPlan, ReadTask, WaveTask, WorkerPlan, pack, run_wave

MESSAGES = "meta STRING"


@dataclass(frozen=True)
class Physical:
    """A plan ready to be sent to workers."""

    plan: Plan
    lanes: tuple[Lane, ...]
    boundaries: tuple[Boundary, ...]
    packed: PackedPlan
    places: Mapping[str, int]
    """Who keeps state, and in which wave: operators by their tables, inputs by rows that wait."""
    orders: Mapping[int, tuple[str, ...]]
    """The inputs and operators of each wave, in the order in which tasks tell what they have done."""

    @property
    def waves(self) -> int:
        return len(self.boundaries)

    @cached_property
    def runs_anywhere(self) -> bool:
        """Whether the driver's process will do: between waves nothing is asked of Spark, and the user's code, which may end
        its process, is not called."""
        called = any(getattr(o.kernel, "functions", None) for o in self.plan.operators.values())
        return not called and self.hands_over_blocks

    @cached_property
    def hands_over_blocks(self) -> bool:
        """Whether all rows that a wave emits for others travel as columns."""
        return all(lane.block for lane in self.lanes if lane.born > 0)

    @cached_property
    def captions(self) -> dict[str, tuple[int, str, str]]:
        """The number that each input and operator is shown with, what it is, and more about it."""
        numbers = numbered(self.plan)
        return {id_: (number, *captions(self.plan, id_, numbers)) for id_, number in numbers.items()}

    @cached_property
    def only_expire(self) -> frozenset[str]:
        """The inputs and operators that take rows back only because something has left a window."""
        return only_expire(self.plan)

    @cached_property
    def users(self) -> dict[str, list[str]]:
        """The queries that each input and operator works for."""
        return users(self.plan)

    @property
    def layout(self) -> str:
        """A digest of `places`."""
        return identity_of("layout", self.places)

    def lanes_from(self, source: str | None, births: Collection[Birth] | None = None) -> tuple[Lane, ...]:
        """The lanes that a source feeds (None: the one row without columns), of some births or of all."""
        return tuple(
            lane
            for lane in self.lanes
            if isinstance(lane.input.origin, SourceRows)
            and lane.input.origin.name == source
            and (births is None or lane.input.birth in births)
        )

    def sources(self, births: Collection[Birth] | None = None) -> set[str]:
        """The names of the streams and tables that are read."""
        origins = (x.input.origin for x in self.lanes if births is None or x.input.birth in births)
        return {o.name for o in origins if isinstance(o, SourceRows) and o.name is not None}


def physical(plan: Plan, functions: Mapping[str, Any]) -> Physical:
    """A plan with what its waves exchange, as workers take it."""
    lanes = lanes_of(plan)
    layout = boundaries(lanes)
    programs = {wave: plan.program(wave) for wave in range(1, plan.depth + 1)}
    worker = WorkerPlan(
        lanes, layout, programs, frozenset(plan.answers.values()), _reporters(plan), dict(functions)
    )
    keepers = [*plan.inputs, *(o.id for o in plan.operators.values() if o.kernel.layout)]
    places = {id_: plan.waves[id_] for id_ in keepers}
    orders = {wave: program.ids for wave, program in programs.items()}
    return Physical(plan, lanes, layout, pack(worker), places, orders)


def planned(roots: Mapping[str, Node], functions: Mapping[str, Any], birth: Birth | None = None) -> Plan:
    """The plan of some queries that begin together."""
    found = Plan()
    for name, root in roots.items():
        found = united([found, plan_joining(Company(found), name, root, functions, birth or Birth())])
    return found


def _reporters(plan: Plan) -> dict[str, str]:
    """One operator for each way in which a source's rows modify a relation: what it refuses is refused once."""
    found: dict[str, tuple[str, str]] = {}
    for operator in plan.operators.values():
        if isinstance(operator.kernel, ModifyKernel):
            (below,) = operator.inputs
            entry = plan.inputs.get(below)
            origin = entry.origin if entry is not None else None
            source = origin.name if isinstance(origin, SourceRows) else None
            same = identity_of("anomalies", source, operator.kernel)
            found.setdefault(same, (operator.id, source or "unknown"))
    return dict(found.values())


@dataclass(frozen=True)
class Job:
    """What is the same for all waves of an epoch."""

    spark: SparkSession
    physical: Physical
    partitions: int
    storage: Storage
    number: int
    since: int
    logs: Mapping[str, Log]
    hold: bool = True
    renew: bool = False
    beginning: Beginning = field(default_factory=Beginning)
    keep_answers: bool = True
    settings: Settings = field(default_factory=dict)

    def enter(self, frame: DataFrame, feeds: Sequence[Feed], late: int | None = None) -> DataFrame:
        return enter(frame, feeds, self.physical.boundaries[0], self.partitions, late, self.number)

    def one_row(self, lanes: Sequence[Lane]) -> DataFrame:
        return one_row(self.spark, lanes, self.physical.boundaries[0], self.partitions)

    def feed(self, name: str, lanes: Sequence[Lane]) -> Feed:
        """A source whose frame has its columns as `c0`, …"""
        origin = lanes[0].input.origin
        assert isinstance(origin, SourceRows)
        assert origin.scan is not None
        given = len(origin.scan.schema) - origin.scan.arrival
        return Feed(name, 0, tuple(f"c{i}" for i in range(given)), tuple(lanes))

    def run(self, frames: Sequence[DataFrame], upto: int, reading: Reading | None = None) -> list[Message]:
        """Run the epoch on the union of the frames and what is read as columns; the messages of all tasks."""
        if not self.physical.lanes:
            return []
        first = self.physical.boundaries[0]
        if reading is not None and reading.splits and not frames:
            context = context_of(self.spark) if self._files() is not None else None
            if context is not None and self.physical.hands_over_blocks:
                return self._cleaned(lambda: self._as_tasks(context, reading, upto))
            if self._in_place(upto):
                task = WaveTask(self._epoch(1, upto), reading)
                return self._collected(self._splits(reading).mapInArrow(task, MESSAGES))
        frames = [*frames, *self._read(reading, first, upto)]
        # Spark plans no task for rows that it knows to be empty; where there is state, time must pass all the same.
        if self.logs or not frames:
            frames = [*frames, tick(self.spark, first, self.partitions)]
        frame = _union(frames)
        for boundary in self.physical.boundaries:
            later = boundary.wave < self.physical.waves
            if boundary.wave > 1:
                frame = hand_over(frame, boundary, self.partitions)
                for other in self._read(reading, boundary, upto):
                    frame = frame.unionAll(other)
            if not self._stays(boundary, upto):
                frame = frame.repartitionById(self.partitions, F.col("p"))
            if not any(lane.wave > boundary.wave for lane in boundary.lanes):
                frame = frame.drop("p")
            schema = self.physical.boundaries[boundary.wave].ddl if later else MESSAGES
            frame = frame.mapInArrow(WaveTask(self._epoch(boundary.wave, upto)), schema)
        return self._collected(frame)

    def _as_tasks(self, context: SparkContext, reading: Reading, upto: int) -> list[Message]:
        """Run the epoch on what is read as columns, as one list of tasks after the other."""

        def numbered(read: Reading) -> list[list[pa.RecordBatch]]:
            return [[pa.record_batch({"split": [number]})] for number in range(len(read.splits))]

        with told():
            if self._in_place(upto):
                found = run_tasks(context, WaveTask(self._epoch(1, upto), reading), numbered(reading))
                return delivered(_texts(found))
            found = []
            for boundary in self.physical.boundaries:
                epoch = self._epoch(boundary.wave, upto)
                mine = reading.feeding({lane.number for lane in boundary.arriving()})
                if mine.splits:
                    found += run_tasks(context, ReadTask(epoch, mine), numbered(mine))
                rows = pa.Table.from_batches(found) if found else None
                found = run_tasks(context, WaveTask(epoch), _by_partition(rows, self.partitions))
            return delivered(_texts(found))

    def gathered(self, frames: Sequence[DataFrame]) -> pa.Table | None:
        """The rows of the frames, read into this process; `TooManyRowsError` where Spark sends no more than it has been told to."""
        if not frames or not self.physical.lanes:
            return None
        try:
            with told():
                return _union(frames).toArrow()
        except Exception as problem:
            if "spark.driver.maxResultSize" in str(problem):
                raise TooManyRowsError from problem
            raise

    def run_here(
        self, rows: pa.Table | None, upto: int, read: Mapping[int, Mapping[int, Frame]] | None = None
    ) -> list[Message]:
        """Run the epoch in this process; the messages of what would have been tasks. `read`: partition -> lane -> rows of files."""
        return run_waves(
            self.physical,
            self.partitions,
            lambda wave: replace(self._epoch(wave, upto), files=None),
            rows,
            read,
        )

    def _read(self, reading: Reading | None, boundary: Boundary, upto: int) -> list[DataFrame]:
        """Rows read as columns for the stages of a wave: they need not pass through the waves before it."""
        if reading is None:
            return []
        mine = reading.feeding({lane.number for lane in boundary.arriving()})
        if not mine.splits:
            return []
        task = ReadTask(self._epoch(boundary.wave, upto), mine)
        return [self._splits(mine).mapInArrow(task, boundary.ddl)]

    def _splits(self, reading: Reading) -> DataFrame:
        return self.spark.range(0, len(reading.splits), 1, len(reading.splits))

    def _collected(self, frame: DataFrame) -> list[Message]:
        return self._cleaned(lambda: collected(frame))

    def _cleaned(self, run: Callable[[], list[Message]]) -> list[Message]:
        """The messages of a run, after which no block is left."""
        reach("before state")
        try:
            messages = run()
        finally:
            if self.storage.local is not None:
                self.storage.delete_folder(BLOCKS)
        reach("after state")
        return messages

    def _in_place(self, upto: int) -> bool:
        """Whether the tasks that read can do all that is to be done."""
        return not self.logs and self.physical.waves == 1 and self._stays(self.physical.boundaries[0], upto)

    def _stays(self, boundary: Boundary, upto: int) -> bool:
        """Whether rows can be worked on where they are read: no stage cares, and nothing is kept."""
        return upto == MAX and not self.hold and all(x.input.key is None for x in boundary.lanes)

    def _epoch(self, wave: int, upto: int) -> Epoch:
        return Epoch(
            self.physical.packed,
            wave,
            self.number,
            self.since,
            upto,
            self.storage,
            self.logs,
            upto != MAX,
            self.hold,
            self.partitions,
            self._files(),
            self.renew,
            self.beginning,
            self.keep_answers,
            self.settings,
        )

    def _files(self) -> Storage | None:
        """Where tasks leave large blocks for each other, if they all run on this machine."""
        together = self.storage.local is not None and on_one_machine(self.spark)
        return self.storage.below(BLOCKS) if together else None


def run_waves(
    physical: Physical,
    partitions: int,
    epoch_of: Callable[[int], Epoch],
    rows: pa.Table | None,
    read: Mapping[int, Mapping[int, Frame]] | None,
) -> list[Message]:
    """The waves of an epoch in this process, one partition after the other; the messages of what would have been tasks."""
    reach("before state")
    for boundary in physical.boundaries:
        epoch = epoch_of(boundary.wave)
        parts = _by_partition(rows, partitions)
        found = [b for p, part in enumerate(parts) for b in run_wave(epoch, p, part, (read or {}).get(p))]
        rows = pa.Table.from_batches(found) if found else None
    reach("after state")
    return delivered([] if rows is None else rows.column("meta").to_pylist())


def _texts(said: Sequence[pa.RecordBatch]) -> list[str]:
    return [text for batch in said for text in batch.column("meta").to_pylist()]


def _union(frames: Sequence[DataFrame]) -> DataFrame:
    return reduce(DataFrame.unionAll, frames)


def _by_partition(rows: pa.Table | None, partitions: int) -> list[list[pa.RecordBatch]]:
    """The rows of a union by the partition they go to."""
    if rows is None:
        return [[] for _ in range(partitions)]
    if partitions == 1:
        return [rows.to_batches()]
    places = pc.fill_null(rows.column("p"), 0)  # messages go anywhere
    return [rows.filter(pc.equal(places, p)).to_batches() for p in range(partitions)]


def collected(frame: DataFrame) -> list[Message]:
    """The messages of all tasks."""
    with told():
        texts = [row[0] for row in frame.collect()]
    return delivered(texts)


def delivered(texts: Sequence[str]) -> list[Message]:
    """Messages as values; what a task failed with is raised here."""
    messages = [decode(text) for text in texts]
    for message in messages:
        if isinstance(message, Failed):
            raise message.diagnostic()
    return messages


@contextmanager
def told() -> Iterator[None]:
    """What a job of Spark's fails with, by its name where it has one."""
    try:
        yield
    except Exception as problem:
        text = str(problem)
        found = _of_task(text)
        # Where Spark calls back, as it does for a live epoch, Java's exceptions come as they are.
        if found is None and isinstance(problem, (PySparkException, Py4JJavaError)):
            found = _of_spark(text)
        if found is None and worker_died(text):
            found = Diagnostic(WORKER_DIED, "a worker's process ended while it ran the query")
        if found is None:
            raise
        raise found from problem


_DIED = (
    "Python worker exited unexpectedly",
    "EOFException occurred while reading the port number from",
    "Python daemon failed to launch worker",
    "Python worker failed to connect back",
)
"""How Spark says that a worker, or the process that starts workers, is gone."""


def worker_died(text: str) -> bool:
    """Whether Spark says that a process of Python's is gone: while it worked, when it is written to, or before it said where to reach it."""
    broken = "java.io.IOException: Broken pipe" in text or "Connection reset" in text
    # What Java writes to a process of its own that has ended: Spark starts no others than Python's.
    gone = "ProcessBuilder$NullOutputStream" in text
    return any(words in text for words in _DIED) or gone or (broken and "org.apache.spark.api.python" in text)


class TooManyRowsError(Exception):
    """More rows came than can be gathered in the driver's process."""


class BrokenFileError(Diagnostic):
    """A file that Spark could not read to its end."""

    def __init__(self, file: str, why: str) -> None:
        super().__init__("SOURCE_BROKEN", f"{os.path.realpath(file)} cannot be read: {why}")
        self.file, self.why = file, why

    @classmethod
    def of(cls, text: str) -> BrokenFileError:
        """What Spark says: the file, and perhaps why; otherwise the last cause tells."""
        found = re.search(r"reading file (\S+)\.\s+(.*?)\s*SQLSTATE", text)
        causes = re.findall(r"^Caused by: (?:[\w.$]*\.)?(\w+(?:: [^\n]*)?)", text, re.MULTILINE)
        file, why = found.groups() if found else ("", "")
        return cls(local_path(file, follow=False), why or (causes[-1] if causes else "it is broken"))


def _of_task(text: str) -> Diagnostic | None:
    """What a task could not tell as a message, and so raised: see `exchange.messages.raised`."""
    _, marked, rest = text.partition(MARK)
    if not marked:
        return None
    message = decode(rest.split("\n", 1)[0])
    return message.diagnostic() if isinstance(message, Failed) else None


def _of_spark(text: str) -> Diagnostic | None:
    """Spark's own complaint about a value or file as a diagnostic."""
    found = re.search(r"\[([A-Z][A-Z0-9_]+)[A-Z0-9_.]*\] ([^\n]*)", text)
    if found is None or "Traceback" in text:
        return None
    condition, message = found.groups()
    if condition == "FAILED_READ_FILE":
        return BrokenFileError.of(text)
    message = message.split(" If necessary set", maxsplit=1)[0].split("SQLSTATE", maxsplit=1)[0]
    # Positions in a plan say nothing to people.
    return Diagnostic(condition, re.sub(r"\b[cgs]\d+\b", "…", message.strip()))


def source_names(roots: Mapping[str, Node]) -> set[str]:
    """The streams and tables that some plans read."""
    return {node.name for root in roots.values() for node in root.walk() if isinstance(node, Scan)}


Progress = Callable[[float], None]
"""Called with the part of the work that is done, from 0 to 1."""
