"""Plays a plan through its stages in several partitions, as the runtime does, without a JVM.

Rows that may go anywhere go round, columns that do not travel are NULL, and rows come some instants before their epoch, so
that some have to wait.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl
import pyarrow as pa

from tests.fuzz.choices import settings_for
from tidegate.algebra import operators as op
from tidegate.exchange.hashing import partition_of
from tidegate.exchange.messages import Log
from tidegate.kernels.expressions import Scalar, type_of
from tidegate.kernels.rows import Frame, from_rows, to_rows
from tidegate.kernels.rowwise import FilterKernel, ProjectKernel
from tidegate.physical.lowering import Program
from tidegate.physical.plan import Birth, Input, Plan, SourceRows
from tidegate.reference.snapshots import PhysicalRow
from tidegate.runtime.jobs import physical, planned
from tidegate.runtime.ledger import KnownQuery, Ledger, Manifest
from tidegate.runtime.repartition import repartition
from tidegate.scalars.columns import dtype
from tidegate.storage import Storage
from tidegate.time import MAX, MIN
from tidegate.worker.repartition import moves_of, picked
from tidegate.worker.segments import BASE, WAITING, States, _matching, restored, settled, whole, write
from tidegate.worker.tasks import _hold, place_name

EARLY = 3
"""How many instants before its epoch a row may come."""


@dataclass
class Partitioned:
    """A plan that runs in some partitions; `answer` are the signed rows so far."""

    plan: op.Node
    partitions: int
    functions: Mapping[str, Any] = field(default_factory=dict)
    instant: int = 1
    """Ticks of an instant."""
    answer: list[PhysicalRow] = field(default_factory=list)
    since: int = MIN
    seen: int = MIN

    def __post_init__(self) -> None:
        self.physical = physical(planned({"q": self.plan}, self.functions), self.functions)
        waves = range(1, self.physical.waves + 1)
        self.programs = {wave: self.physical.plan.program(wave) for wave in waves}
        self.states = {w: [fresh(p) for _ in range(self.partitions)] for w, p in self.programs.items()}

    def inputs(self, wave: int) -> list[Input]:
        return [lane.input for lane in self.physical.lanes if lane.wave == wave]

    @property
    def fixed(self) -> list[str]:
        """The operators whose state cannot be moved."""
        found = [moves_of(self.inputs(w), p, self.functions) for w, p in self.programs.items()]
        return [id_ for moves in found for id_ in moves.unknown]

    def change(self, plan: Plan) -> None:
        """Go on with a plan of other queries: what its operators know stays."""
        known: list[dict[str, Any]] = [{WAITING: {}} for _ in range(self.partitions)]
        for parts in self.states.values():
            for found, states in zip(known, parts, strict=True):
                found |= {**states, WAITING: {**found[WAITING], **states[WAITING]}}
        self.physical = physical(plan, self.functions)
        self.programs = {wave: plan.program(wave) for wave in range(1, self.physical.waves + 1)}
        self.states = {w: [_matching(p, found) for found in known] for w, p in self.programs.items()}

    def move(self, partitions: int) -> None:
        """Go on in another number of partitions."""
        for w, program in self.programs.items():
            moves = moves_of(self.inputs(w), program, self.functions)
            self.states[w] = [
                {**fresh(program), **picked(moves, self.states[w], p, partitions)} for p in range(partitions)
            ]
        self.partitions = partitions

    def move_files(self, partitions: int, storage: Storage) -> None:
        """The same by way of segments and manifests, as the runtime does it."""
        ledger = Ledger(storage)
        logs = {}
        for w, parts in self.states.items():
            for p, states in enumerate(parts):
                name = write(storage, ledger.latest.epoch, whole(states), BASE)
                logs[place_name(w, p)] = Log((name,), 1)
        known = {"q": KnownQuery(Birth(), MIN, self.physical.plan.answers["q"])}
        before = Manifest(ledger.latest.epoch + 1, self.since, 7, self.partitions, queries=known, logs=logs)
        ledger.commit(before)
        repartition(Here(), self.physical, ledger, partitions, ["q"])  # type: ignore[arg-type]
        after = Ledger(storage).latest
        assert (after.epoch, after.partitions) == (before.epoch + 1, partitions)
        assert (after.upto, after.batch, after.queries) == (before.upto, before.batch, before.queries)
        self.states = {
            w: [
                restored(storage, program, after.logs.get(place, Log()).segments, self.since)
                for place in (place_name(w, p) for p in range(partitions))
            ]
            for w, program in self.programs.items()
        }
        self.partitions = partitions

    def epoch(self, sources: Mapping[str, Frame], upto: int) -> None:
        """One epoch, on those of the recorded rows that have come by then."""
        limit = MAX if upto == MAX else upto + EARLY * self.instant
        come = {n: f.filter((pl.col("ts") >= self.seen) & (pl.col("ts") < limit)) for n, f in sources.items()}
        self._waves(come, upto)
        self.since, self.seen = upto, limit

    def _waves(self, come: Mapping[str, Frame], upto: int) -> None:
        outputs: dict[str, list[Frame]] = {}
        for w, program in self.programs.items():
            fed = {entry.id: self._exchanged(entry, come, outputs) for entry in self.inputs(w)}
            for p in range(self.partitions):
                chunks = {name: parts[p] for name, parts in fed.items()}
                for id_, chunk in self._step(w, program, p, chunks, upto).items():
                    outputs.setdefault(id_, []).append(chunk)

    def _step(
        self, w: int, program: Program, p: int, chunks: dict[str, Frame], upto: int
    ) -> dict[str, Frame]:
        state = self.states[w][p]
        waiting, due = _hold(dict(state[WAITING]), chunks, upto)
        after, out = program.step_all(state, due, upto, settings=settings_for(program))
        self.states[w][p] = settled({**after, WAITING: waiting})
        found = dict(zip(program.outputs, out, strict=True))
        answer = self.physical.plan.answers["q"]
        if answer in found:
            chunk = found[answer]
            assert chunk.filter((pl.col("ts") < self.since) | (pl.col("ts") >= upto)).is_empty()
            rows = zip(to_rows(chunk, self.plan.schema), chunk.select("ts", "te", "n").rows(), strict=True)
            self.answer += [(e, *v) for e, v in rows]
        return found

    def _exchanged(
        self, entry: Input, come: Mapping[str, Frame], outputs: Mapping[str, list[Frame]]
    ) -> list[Frame]:
        """The rows of an input by partition."""
        rows = self._rows(entry, come, outputs)
        if entry.broadcast:
            return [self._needed(entry, rows)] * self.partitions
        if entry.own_key is None:
            places = pl.int_range(rows.height, eager=True) % self.partitions
        elif not entry.own_key:
            places = pl.repeat(entry.home % self.partitions, rows.height, dtype=pl.Int64, eager=True)
        else:
            types = [type_of(e, entry.schema, self.functions) for e in entry.own_key]
            values = [
                Scalar(e, entry.schema, t, self.functions)(rows)  # type: ignore[arg-type]
                for e, t in zip(entry.own_key, types, strict=True)
            ]
            places = pl.Series(partition_of(values, types, self.partitions))  # type: ignore[arg-type]
        return [self._needed(entry, rows.filter(places == p)) for p in range(self.partitions)]

    def _rows(self, entry: Input, come: Mapping[str, Frame], outputs: Mapping[str, list[Frame]]) -> Frame:
        origin = entry.origin
        if not isinstance(origin, SourceRows):
            rows = pl.concat(outputs[origin.operator])
            if origin.expressions is None:
                return rows
            return ProjectKernel(origin.given, origin.expressions, entry.schema, self.functions).apply([rows])
        if origin.scan is None:
            once = from_rows([()], (), [(MIN, MAX, 1)])
            return once if self.since == MIN and not self.answer and self.seen == MIN else once.clear()
        rows = come[origin.scan.leaf]
        if not entry.ordered:
            rows = rows.drop("seq")
        for predicate in origin.predicates:
            rows = FilterKernel(origin.scan.schema, predicate, self.functions).apply([rows])
        return ProjectKernel(origin.scan.schema, origin.expressions, entry.schema, self.functions).apply(
            [rows]
        )

    def _needed(self, entry: Input, rows: Frame) -> Frame:
        absent = [i for i in range(len(entry.schema)) if i not in entry.needed]
        return rows.with_columns(
            pl.lit(None, dtype=dtype(entry.schema[i].type)).alias(f"c{i}") for i in absent
        )


class Here:
    """As much of a Spark session as it takes to run tasks, one after the other, in this process."""

    def range(self, start: int, end: int, step: int, partitions: int) -> Here:
        self.numbers = [*range(start, end, step)]
        return self

    def mapInArrow(self, task: Any, schema: str) -> Here:  # noqa: N802 - Spark's name
        batches = [
            pa.RecordBatch.from_arrays([pa.array([n], pa.int64())], names=["id"]) for n in self.numbers
        ]
        self.rows = [(value,) for b in batches for out in task([b]) for value in out.column(0).to_pylist()]
        return self

    def collect(self) -> list[tuple[str]]:
        return self.rows


def fresh(program: Program) -> States:
    return {**program.initial(), WAITING: {}}
