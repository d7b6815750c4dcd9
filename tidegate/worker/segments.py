"""State on storage: a log of segments per stage and partition, and each worker's memory of what it restored.

A segment holds what one epoch appended to the tables of one stage in one partition, or (a base) the tables
themselves. The state is what the segments stand for, in order. Names are unique per attempt, so a list of names
determines a state: a worker that remembers the state of a shorter list reads only the rest.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl
import pyarrow as pa
from pyarrow import ipc

from tidegate.exchange import blocks
from tidegate.kernels.rows import (
    Frame,
    Layout,
    State,
    accumulate,
    expire,
    replace_latest,
    table,
)
from tidegate.physical.lowering import Program
from tidegate.storage import Storage

Tables = Mapping[str, Mapping[str, Frame]]
"""Step -> table -> rows."""

WAITING = "waiting"
"""The runtime's own step: rows of sources that no epoch has reached yet, by input."""

BASE = 9
"""The level of a segment that holds whole tables; one that an epoch appended has level 0."""

States = dict[str, State]


def new_name(epoch: int, level: int) -> str:
    """A name that no other attempt has."""
    return f"state/{epoch:08d}-{uuid.uuid4().hex[:16]}.{level}.arrow"


def level_of(name: str) -> int:
    """How often the rows of a segment have been merged.

    >>> level_of(new_name(7, 2))
    2
    """
    return int(name.split(".")[-2])


def encode(tables: Tables) -> pa.Buffer:
    """A segment's bytes: an Arrow file with one row per table, whose rows are an Arrow stream."""
    steps, names, rows = [], [], []
    for step, found in tables.items():
        for name, frame in found.items():
            if not frame.is_empty():
                steps.append(step)
                names.append(name)
                rows.append(blocks.encode(frame))
    batch = pa.table(
        [pa.array(steps, pa.string()), pa.array(names, pa.string()), pa.array(rows, pa.large_binary())],
        names=["step", "table", "rows"],
    )
    sink = pa.BufferOutputStream()
    with ipc.new_file(sink, batch.schema) as writer:
        writer.write_table(batch)
    return sink.getvalue()


def decode(data: pa.Buffer) -> dict[str, dict[str, Frame]]:
    """The tables of a segment.

    >>> decode(encode({"0:Join": {"left": pl.DataFrame({"c0": [7]})}}))["0:Join"]["left"].rows()
    [(7,)]
    """
    found: dict[str, dict[str, Frame]] = {}
    batch = ipc.open_file(data).read_all()
    for step, name, rows in zip(*(batch.column(i) for i in range(3)), strict=True):
        found.setdefault(step.as_py(), {})[name.as_py()] = blocks.decode(rows.as_buffer())
    return found


def joined(logged: Sequence[Tables]) -> Tables:
    """What some segments, in order, appended.

    >>> one, two = ({"s": {"rows": pl.DataFrame({"c0": [i]})}} for i in (1, 2))
    >>> joined([one, two])["s"]["rows"].rows()
    [(1,), (2,)]
    """
    found: dict[str, dict[str, list[Frame]]] = {}
    for tables in logged:
        for step, rows in tables.items():
            for name, frame in rows.items():
                found.setdefault(step, {}).setdefault(name, []).append(frame)
    return {s: {n: pl.concat(frames) for n, frames in rows.items()} for s, rows in found.items()}


@dataclass(frozen=True)
class Remembered:
    """States after the epoch that ended before `upto`. Time alone changes states, too: what ends is not logged."""

    segments: tuple[str, ...]
    upto: int
    states: States


_memory: dict[tuple[str, str], Remembered] = {}


def recall(storage: Storage, place: str, program: Program, segments: Sequence[str], upto: int) -> States:
    """The states that a list of segments stands for after the epoch that ended before `upto`."""
    known = _memory.get((storage.uri, place))
    wanted = tuple(segments)
    # What a failed attempt at this epoch left in memory has lost rows that ended in it.
    if known is not None and known.upto <= upto and wanted[: len(known.segments)] == known.segments:
        states, missing = known.states, wanted[len(known.segments) :]
    else:
        states, missing = {**program.initial(), WAITING: {}}, wanted
    if missing or known is None or known.upto != upto:
        states = _read(storage, program, states, missing, upto)
        remember(storage, place, wanted, upto, states)
    return states


def restored(storage: Storage, program: Program, segments: Sequence[str], upto: int) -> States:
    """The same, for one who reads them once."""
    return _read(storage, program, {**program.initial(), WAITING: {}}, segments, upto)


def _read(storage: Storage, program: Program, states: States, more: Sequence[str], upto: int) -> States:
    layouts = program.layouts
    for name in more:
        states = _advance(states, decode(storage.read(name)), layouts)
    return {s: {n: table(_current(s, t.rows, upto)) for n, t in found.items()} for s, found in states.items()}


def remember(storage: Storage, place: str, segments: Sequence[str], upto: int, states: States) -> None:
    """Keep states for the next epoch; those of other runs are dropped, for one run's are enough."""
    for other in [k for k in _memory if k[0] != storage.uri]:
        del _memory[other]
    if segments:
        _memory[storage.uri, place] = Remembered(tuple(segments), upto, states)


def deltas(states: States) -> dict[str, dict[str, Frame]]:
    return {step: {name: t.delta for name, t in found.items()} for step, found in states.items()}


def whole(states: States) -> dict[str, dict[str, Frame]]:
    return {step: {name: t.rows for name, t in found.items()} for step, found in states.items()}


def settled(states: States) -> States:
    """The states as the next epoch finds them, with nothing logged yet."""
    return {s: {n: t.settled for n, t in found.items()} for s, found in states.items()}


def _advance(states: States, logged: Tables, layouts: Mapping[str, Mapping[str, Layout]]) -> States:
    after: States = dict(states)
    for step, found in logged.items():
        tables = dict(after.get(step, {}))
        for name, delta in found.items():
            before = tables[name].rows if name in tables else delta.clear()
            layout = Layout() if step == WAITING else layouts[step][name]
            if step == WAITING:
                rows = pl.concat([before, delta])
            elif layout.latest_by:
                rows = replace_latest(before, _last(delta, layout.latest_by), layout.latest_by)
            else:
                rows = accumulate(before, delta)
            tables[name] = table(rows)
        after[step] = tables
    return after


def _current(step: str, rows: Frame, upto: int) -> Frame:
    # What waits is gone once its instant is reached, however long it is valid.
    return rows.filter(pl.col("ts") >= upto) if step == WAITING else expire(rows, upto)


def _last(delta: Frame, keys: Sequence[str]) -> Frame:
    return delta.unique(subset=list(keys), keep="last", maintain_order=True)
