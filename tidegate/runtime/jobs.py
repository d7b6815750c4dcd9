"""One epoch as one Spark job: rows of the sources through the waves of all stages, messages back to the driver."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

from tidegate.algebra.failures import WORKER_DIED
from tidegate.algebra.operators import Node, Scan
from tidegate.errors import Diagnostic, Kind
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
from tidegate.physical.planning import plan_stages
from tidegate.physical.stages import SourceRows, Stage, StageInput, StageRows, describe
from tidegate.runtime.faults import reach
from tidegate.spark.context import on_one_machine
from tidegate.storage import BLOCKS, Storage
from tidegate.worker.columnar import Reading
from tidegate.worker.tasks import Epoch, Log, PackedPlan, Plan, ReadTask, WaveTask, pack

MESSAGES = "meta STRING"


@dataclass(frozen=True)
class Group:
    """Queries that were started together and share their stages."""

    label: str
    roots: Mapping[str, Node]


@dataclass(frozen=True)
class Physical:
    """The stages of all groups of a graph, ready to be sent to workers."""

    stages: tuple[Stage, ...]
    lanes: tuple[Lane, ...]
    boundaries: tuple[Boundary, ...]
    packed: PackedPlan
    groups: tuple[str, ...]
    """Per stage, the group it belongs to."""

    @property
    def waves(self) -> int:
        return len(self.boundaries)

    def lanes_from(self, source: str | None, groups: Sequence[str] | None = None) -> tuple[Lane, ...]:
        """The lanes that a source feeds (None: the one row without columns), of some groups or of all."""
        found = []
        for lane in self.lanes:
            origin = lane.input.origin
            if not isinstance(origin, SourceRows):
                continue
            name = None if origin.scan is None else origin.scan.name
            if name == source and (groups is None or self.groups[lane.stage] in groups):
                found.append(lane)
        return tuple(found)

    def sources(self, groups: Sequence[str] | None = None) -> set[str]:
        """The names of the streams and tables that are read."""
        found = set()
        for lane in self.lanes:
            origin = lane.input.origin
            if isinstance(origin, SourceRows) and origin.scan is not None:
                if groups is None or self.groups[lane.stage] in groups:
                    found.add(origin.scan.name)
        return found

    def describe(self) -> str:
        return describe(self.stages)


def physical(groups: Sequence[Group], functions: Mapping[str, Any]) -> Physical:
    """The stages of some groups of queries, numbered through."""
    stages: list[Stage] = []
    owners: list[str] = []
    labels: list[str] = []
    for group in groups:
        own = plan_stages(group.roots, functions)
        for stage in own:
            owners.append(group.label)
            labels.append(f"{group.label}.{stage.number}")
        stages += [_shifted(s, len(stages), group.label) for s in own]
    lanes = lanes_of(stages)
    layout = boundaries(lanes)
    plan = Plan(tuple(stages), lanes, layout, functions, tuple(labels))
    return Physical(tuple(stages), lanes, layout, pack(plan), tuple(owners))


def _shifted(stage: Stage, by: int, label: str) -> Stage:
    # What has no key spreads over the partitions, to where it was, whichever queries come and go.
    home = zlib.crc32(label.encode()) + stage.number

    def moved(entry: StageInput) -> StageInput:
        entry = replace(entry, home=home)
        if isinstance(entry.origin, StageRows):
            return replace(entry, origin=replace(entry.origin, stage=entry.origin.stage + by))
        return entry

    return replace(stage, number=stage.number + by, inputs=tuple(moved(i) for i in stage.inputs))


@dataclass(frozen=True)
class Job:
    """What is the same for all waves of an epoch."""

    spark: SparkSession
    physical: Physical
    partitions: int
    storage: Storage
    number: int
    since: int
    upto: int
    logs: Mapping[str, Log]
    keep_state: bool = True
    hold: bool = True

    def enter(self, frame: DataFrame, feeds: Sequence[Feed], late: int | None = None) -> DataFrame:
        return enter(frame, feeds, self.physical.boundaries[0], self.partitions, late)

    def one_row(self, lanes: Sequence[Lane]) -> DataFrame:
        return one_row(self.spark, lanes, self.physical.boundaries[0], self.partitions)

    def feed(self, name: str, lanes: Sequence[Lane]) -> Feed:
        """A source whose frame has its columns as `c0`, …"""
        origin = lanes[0].input.origin
        assert isinstance(origin, SourceRows)
        assert origin.scan is not None
        return Feed(name, 0, tuple(f"c{i}" for i in range(len(origin.scan.schema))), tuple(lanes))

    def run(self, frames: Sequence[DataFrame], reading: Reading | None = None) -> list[dict[str, Any]]:
        """Run the epoch on the union of the frames and what is read as columns; the messages of all tasks."""
        if not self.physical.stages:
            return []
        first = self.physical.boundaries[0]
        if reading is not None and reading.splits:
            if not frames and not self.logs and self.physical.waves == 1 and self._stays(first):
                task = WaveTask(self._epoch(1), reading)
                return self._collected(self._splits(reading).mapInArrow(task, MESSAGES))
        frames = [*frames, *self._read(reading, first)]
        # Spark plans no task for rows that it knows to be empty; where there is state, time must pass all the same.
        if self.logs or not frames:
            frames = [*frames, tick(self.spark, first, self.partitions)]
        frame, *others = frames
        for other in others:
            frame = frame.unionAll(other)
        for boundary in self.physical.boundaries:
            later = boundary.wave < self.physical.waves
            if boundary.wave > 1:
                frame = hand_over(frame, boundary, self.partitions)
                for other in self._read(reading, boundary):
                    frame = frame.unionAll(other)
            if not self._stays(boundary):
                frame = frame.repartitionById(self.partitions, F.col("p"))
            if not any(lane.wave > boundary.wave for lane in boundary.lanes):
                frame = frame.drop("p")
            schema = self.physical.boundaries[boundary.wave].ddl if later else MESSAGES
            frame = frame.mapInArrow(WaveTask(self._epoch(boundary.wave)), schema)
        return self._collected(frame)

    def _read(self, reading: Reading | None, boundary: Boundary) -> list[DataFrame]:
        """Rows read as columns for the stages of a wave: they need not pass through the waves before it."""
        if reading is None:
            return []
        mine = reading.feeding({lane.number for lane in boundary.arriving()})
        if not mine.splits:
            return []
        return [self._splits(mine).mapInArrow(ReadTask(self._epoch(boundary.wave), mine), boundary.ddl)]

    def _splits(self, reading: Reading) -> DataFrame:
        return self.spark.range(0, len(reading.splits), 1, len(reading.splits))

    def _collected(self, frame: DataFrame) -> list[dict[str, Any]]:
        reach("before state")
        try:
            messages = collected(frame)
        finally:
            if self.storage.local is not None:
                self.storage.delete_folder(BLOCKS)
        reach("after state")
        return messages

    def _stays(self, boundary: Boundary) -> bool:
        """Whether rows can be worked on where they are read: no stage cares, and nothing is kept."""
        return not self.keep_state and not self.hold and all(x.input.key is None for x in boundary.lanes)

    def _epoch(self, wave: int) -> Epoch:
        return Epoch(
            self.physical.packed,
            wave,
            self.number,
            self.since,
            self.upto,
            self.storage,
            self.logs,
            self.keep_state,
            self.hold,
            self.partitions,
            self._files(),
        )

    def _files(self) -> Storage | None:
        """Where tasks leave large blocks for each other, if they all run on this machine."""
        together = self.storage.local is not None and on_one_machine(self.spark)
        return self.storage.below(BLOCKS) if together else None


def collected(frame: DataFrame) -> list[dict[str, Any]]:
    """The messages of all tasks."""
    try:
        return [json.loads(row[0]) for row in frame.collect()]
    except Exception as problem:
        found = _diagnostic(problem)
        if found is None:
            raise
        raise found from problem


def _diagnostic(problem: Exception) -> Diagnostic | None:
    """The diagnostic that a kernel raised in a worker (Spark passes on only its text), or Spark's own complaint as one."""
    text = str(problem)
    start = text.find("tidegate.errors.Diagnostic: ")
    if start < 0 and "Python worker exited unexpectedly" in text:
        return Diagnostic(WORKER_DIED, "a worker's process ended while it ran the query")
    if start < 0:
        condition = problem.getCondition() if isinstance(problem, PySparkException) else None
        if condition is None or "Traceback" in text:
            return None
        message = (
            text.split(" If necessary set", maxsplit=1)[0]
            .split("SQLSTATE", maxsplit=1)[0]
            .split("\n", maxsplit=1)[0]
        )
        return Diagnostic(condition.split(".")[0], message.removeprefix(f"[{condition}] ").strip())
    head, *rest = text[start:].split(": ", 1)[1].split("\n")
    advice = next((line.removeprefix("help: ") for line in rest[:4] if line.startswith("help: ")), None)
    said = _HEAD.match(head)
    if said is None:
        return Diagnostic("EVALUATION", head, help=advice)
    found = Diagnostic(said["condition"], said["message"], help=advice, kind=Kind(said["kind"]))
    return found.at((int(said["start"]), int(said["end"])) if said["start"] else None)


_HEAD = re.compile(
    r"(?P<kind>[a-z ]+)\[(?P<condition>\w+)\](?: at characters (?P<start>\d+) to (?P<end>\d+))?: (?P<message>.*)"
)
"""The first line of a diagnostic that was not located yet: workers do not know the query's text."""


def source_names(roots: Mapping[str, Node]) -> set[str]:
    """The streams and tables that some plans read."""
    return {node.name for root in roots.values() for node in root.walk() if isinstance(node, Scan)}


Progress = Callable[[float], None]
"""Called with the part of the work that is done, from 0 to 1."""
