"""State for another number of partitions: each new partition picks its rows from all the old ones.

The hash of a row's key does not depend on the number of partitions, so where a row of the state belongs follows from the
row (`kernels.placement`). A row that is not where its key says is a mistake of ours, and nothing is moved.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa

from tidegate.errors import internal
from tidegate.exchange.hashing import hash_of
from tidegate.kernels.expressions import Functions, Scalar, type_of
from tidegate.kernels.rows import Frame, table
from tidegate.physical.lowering import Program
from tidegate.physical.placement import (
    ByKey,
    Copied,
    Everywhere,
    Free,
    Placement,
    Rule,
    Unknown,
    by_key,
    table_rules,
    waiting_rule,
)
from tidegate.physical.stages import Stage, StageInput
from tidegate.storage import Storage
from tidegate.worker import segments
from tidegate.worker.segments import WAITING, States
from tidegate.worker.tasks import Log, PackedPlan, place_name, unpack


@dataclass(frozen=True)
class Moves:
    """Where the rows of a stage's state belong, by step and table; `home` not None: all of them in one partition."""

    rules: Mapping[str, Mapping[str, Rule]]
    functions: Functions
    home: int | None = None

    @property
    def unknown(self) -> list[str]:
        """The steps with a table that cannot be cut."""
        return [step for step, found in self.rules.items() if Unknown() in found.values()]


def moves_of(stage: Stage, program: Program, functions: Functions) -> Moves:
    """Where the state of a stage belongs."""
    if all(i.own_key == () and not i.broadcast for i in stage.inputs):
        return Moves({}, functions, stage.inputs[0].home if stage.inputs else 0)
    leaves = {i.name: _placement(i) for i in stage.inputs}
    waiting = {name: waiting_rule(program, name, leaves[name]) for name in leaves}
    return Moves({**table_rules(program, leaves), WAITING: waiting}, functions)


def _placement(entry: StageInput) -> Placement:
    return Everywhere() if entry.broadcast else by_key(entry.schema, entry.own_key or ())


def picked(moves: Moves, old: Sequence[States], partition: int, partitions: int) -> States:
    """The states of one of the new partitions, given those of all old ones."""
    if moves.home is not None:
        here = partition == moves.home % partitions
        return old[moves.home % len(old)] if here else {}
    found: States = {}
    for step in dict.fromkeys(s for states in old for s in states):
        names = dict.fromkeys(n for states in old for n in states.get(step, {}))
        parts = {n: [s[step][n].rows if n in s.get(step, {}) else None for s in old] for n in names}
        found[step] = {
            n: table(_picked(moves.rules[step][n], parts[n], partition, partitions, moves.functions))
            for n in names
        }
    return found


def _picked(
    rule: Rule, old: Sequence[Frame | None], partition: int, partitions: int, functions: Functions
) -> Frame:
    present = [(q, rows) for q, rows in enumerate(old) if rows is not None]
    if isinstance(rule, Copied):
        return next((rows for _, rows in present if rows.height), present[0][1])
    if isinstance(rule, Free):
        mine = [rows for q, rows in present if q % partitions == partition]
        return pl.concat(mine) if mine else present[0][1].clear()
    assert isinstance(rule, ByKey), rule
    found = []
    for q, rows in present:
        hashes = _hashes(rule, rows, functions)
        if (hashes % len(old) != q).any():
            raise internal(f"a row of the state is in partition {q}, but its key says another")
        found.append(rows.filter(pl.Series(hashes % partitions == partition, dtype=pl.Boolean)))
    return pl.concat(found)


def _hashes(rule: ByKey, rows: Frame, functions: Functions) -> np.ndarray:
    values, types = [], []
    for expression in rule.key:
        type_ = type_of(expression, rule.schema, functions)
        assert type_ is not None, expression
        types.append(type_)
        values.append(Scalar(expression, rule.schema, type_, functions)(rows))
    return hash_of(values, types)


@dataclass(frozen=True)
class Cut:
    """What the tasks need to know: state in so many partitions after an epoch, and in how many it shall be."""

    plan: PackedPlan
    epoch: int
    upto: int
    storage: Storage
    logs: Mapping[str, Log]
    old: int
    new: int


class MoveTask:
    """Writes the states of new partitions, one base segment per stage, and tells the driver their names."""

    def __init__(self, cut: Cut) -> None:
        self.cut = cut

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for partition in batch.column(0).to_pylist():
                found = [json.dumps(m) for m in self._moved(partition)]
                yield pa.RecordBatch.from_arrays([pa.array(found, pa.string())], names=["meta"])

    def _moved(self, partition: int) -> Iterator[dict[str, object]]:
        cut = self.cut
        unpacked = unpack(cut.plan)
        plan, programs = unpacked.plan, unpacked.programs
        for stage, label in zip(plan.stages, plan.labels, strict=True):
            logs = [cut.logs.get(place_name(label, q), Log()) for q in range(cut.old)]
            if not any(log.segments for log in logs):
                continue
            program = programs[stage.number]
            old = [segments.restored(cut.storage, program, log.segments, cut.upto) for log in logs]
            states = picked(moves_of(stage, program, plan.functions), old, partition, cut.new)
            tables = segments.whole(states)
            rows = sum(f.height for found in tables.values() for f in found.values())
            names = []
            if rows:
                names = [segments.new_name(cut.epoch, segments.BASE)]
                cut.storage.write(names[0], segments.encode(tables))
            yield {"place": place_name(label, partition), "segments": names, "rows": rows}
