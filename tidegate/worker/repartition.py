"""State for another number of partitions: each new partition picks its rows from all the old ones.

The hash of a row's key does not depend on the number of partitions, so where a row of the state belongs follows from the
row (`physical.placement`). A row that is not where its key says is a mistake of ours, and nothing is moved.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa

from tidegate.errors import internal
from tidegate.exchange.hashing import hash_of
from tidegate.exchange.messages import Log, Moved
from tidegate.exchange.tagged_rows import told
from tidegate.kernels.expressions import Functions, Scalar, type_of
from tidegate.kernels.rows import Frame, table
from tidegate.physical.lowering import Program
from tidegate.physical.placement import (
    AtHome,
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
from tidegate.physical.plan import Input
from tidegate.storage import Storage
from tidegate.worker import segments
from tidegate.worker.segments import WAITING, States
from tidegate.worker.tasks import PackedPlan, failures_raised, place_name, segments_in, unpack


@dataclass(frozen=True)
class Moves:
    """Where the rows of a wave's state belong, by operator and table."""

    rules: Mapping[str, Mapping[str, Rule]]
    functions: Functions

    @property
    def unknown(self) -> list[str]:
        """The operators with a table that cannot be cut."""
        return [id_ for id_, found in self.rules.items() if Unknown() in found.values()]


def moves_of(inputs: Iterable[Input], program: Program, functions: Functions) -> Moves:
    """Where the state of a program belongs that some inputs feed."""
    leaves = {i.id: _placement(i) for i in inputs}
    waiting = {name: waiting_rule(program, name, leaves[name]) for name in leaves}
    return Moves({**table_rules(program, leaves), WAITING: waiting}, functions)


def _placement(entry: Input) -> Placement:
    if entry.broadcast:
        return Everywhere()
    return AtHome(entry.home) if entry.own_key == () else by_key(entry.schema, entry.own_key or ())


def picked(moves: Moves, old: Sequence[States], partition: int, partitions: int) -> States:
    """The states of one of the new partitions, given those of all old ones."""
    found: States = {}
    for section in dict.fromkeys(s for states in old for s in states):
        names = dict.fromkeys(n for states in old for n in states.get(section, {}))
        parts = {n: [s[section][n].rows if n in s.get(section, {}) else None for s in old] for n in names}
        found[section] = {
            n: table(_picked(moves.rules[section][n], parts[n], partition, partitions, moves.functions))
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
    assert isinstance(rule, ByKey | AtHome), rule
    found = []
    for q, rows in present:
        hashes = (
            np.full(rows.height, rule.home) if isinstance(rule, AtHome) else _hashes(rule, rows, functions)
        )
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
    """Writes the states of new partitions, one base segment per wave, and tells the driver their names."""

    def __init__(self, cut: Cut) -> None:
        self.cut = cut

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with failures_raised():
            for batch in batches:
                for partition in batch.column(0).to_pylist():
                    yield from told(list(self._moved(partition)), None)

    def _moved(self, partition: int) -> Iterator[Moved]:
        cut = self.cut
        plan = unpack(cut.plan)
        for wave, program in plan.programs.items():
            named = [segments_in(cut.logs, q) for q in range(cut.old)]
            old = [segments.restored(cut.storage, program, names, cut.upto) for names in named]
            inputs = [lane.input for lane in plan.lanes if lane.wave == wave]
            states = picked(moves_of(inputs, program, plan.functions), old, partition, cut.new)
            tables = segments.whole(states)
            rows = sum(f.height for found in tables.values() for f in found.values())
            if rows:
                name = segments.write(cut.storage, cut.epoch, tables, segments.BASE)
                yield Moved(place_name(wave, partition), Log((name,), rows))
