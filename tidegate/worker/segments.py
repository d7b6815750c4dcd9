"""State on storage: one log of segments per wave and partition, and each worker's memory of what it restored.

A segment holds what one epoch appended to the tables of all operators of a wave in one partition, or (a base) the tables
themselves, in sections by operator. The state is what the segments stand for, in order; sections of operators that
nobody runs any more are passed over. Names are unique per attempt, so a list of names determines a state: a worker that
remembers the state of a shorter list reads only the rest. A name says its file's size and checksum, which are compared on reading.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

import polars as pl
import pyarrow as pa
from pyarrow import ipc

from tidegate.errors import Diagnostic
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
from tidegate.worker.cache import FairCache, share_of_memory

Tables = Mapping[str, Mapping[str, Frame]]
"""Operator -> table -> rows."""

WAITING = "waiting"
"""The runtime's own section: rows of sources that no epoch has reached yet, by input."""

FORMAT = "3"
"""How segments are written. What was written otherwise is refused."""

BASE = 9
"""The level of a segment that holds whole tables; one that an epoch appended has level 0."""

States = dict[str, State]


def write(storage: Storage, epoch: int, tables: Tables, level: int) -> str:
    """Write a segment; its name."""
    return storage.write_sealed(f"state/{epoch:08d}", "arrow", encode(tables), level)


def read(storage: Storage, name: str, wanted: Container[str]) -> dict[str, dict[str, Frame]]:
    """The tables of some sections of a segment."""
    return decode(storage.read_sealed(name), wanted)


def encode(tables: Tables) -> pa.Buffer:
    """A segment's bytes: an Arrow file with one row per table, whose rows are an Arrow stream."""
    present = [
        (section, name, blocks.encode(frame))
        for section, found in tables.items()
        for name, frame in found.items()
        if not frame.is_empty()
    ]
    sections, names, rows = ([p[i] for p in present] for i in range(3))
    batch = pa.table(
        [pa.array(sections, pa.string()), pa.array(names, pa.string()), pa.array(rows, pa.large_binary())],
        schema=_SCHEMA,
    )
    sink = pa.BufferOutputStream()
    with ipc.new_file(sink, batch.schema) as writer:
        writer.write_table(batch)
    return sink.getvalue()


_SCHEMA = pa.schema(
    [("section", pa.string()), ("table", pa.string()), ("rows", pa.large_binary())],
    metadata={"tidegate.format": FORMAT},
)


def decode(data: pa.Buffer, wanted: Container[str] | None = None) -> dict[str, dict[str, Frame]]:
    """The tables of a segment, of some sections or of all.

    >>> decode(encode({"a1": {"left": pl.DataFrame({"c0": [7]})}}))["a1"]["left"].rows()
    [(7,)]
    """
    found: dict[str, dict[str, Frame]] = {}
    batch = ipc.open_file(data).read_all()
    if (batch.schema.metadata or {}).get(b"tidegate.format") != FORMAT.encode():
        raise Diagnostic(
            "STATE_FORMAT",
            "the state was written by another version of Tidegate",
            help="start with an empty state directory",
        )
    sections, names = batch.column(0).to_pylist(), batch.column(1).to_pylist()
    for section, name, rows in zip(sections, names, batch.column(2), strict=True):
        if wanted is None or section in wanted:
            found.setdefault(section, {})[name] = blocks.decode(rows.as_buffer())
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


_memory: FairCache[Remembered] = FairCache(share_of_memory())


def recall(storage: Storage, place: str, program: Program, segments: Sequence[str], upto: int) -> States:
    """The states that a list of segments stands for after the epoch that ended before `upto`."""
    known = _memory.get(storage.uri, place)
    wanted = tuple(segments)
    # What a failed attempt at this epoch left in memory has lost rows that ended in it.
    if known is not None and known.upto <= upto and wanted[: len(known.segments)] == known.segments:
        states, missing = _matching(program, known.states), wanted[len(known.segments) :]
    else:
        known, states, missing = None, _initial(program), wanted
    if missing or known is None or known.upto != upto:
        states = _read(storage, program, states, missing, upto)
        remember(storage, place, wanted, upto, states)
    return states


def restored(storage: Storage, program: Program, segments: Sequence[str], upto: int) -> States:
    """The same, for one who reads them once."""
    return _read(storage, program, _initial(program), segments, upto)


def _initial(program: Program) -> States:
    return {**program.initial(), WAITING: {}}


def _matching(program: Program, known: States) -> States:
    """Known states, as far as a program has them: operators come and go with queries."""
    fed = {leaf.name for leaf in program.leaves}
    found = _initial(program)
    found |= {section: tables for section, tables in known.items() if section in found}
    found[WAITING] = {name: t for name, t in found[WAITING].items() if name in fed}
    return found


def _read(storage: Storage, program: Program, states: States, more: Sequence[str], upto: int) -> States:
    layouts = program.layouts
    wanted = {WAITING, *layouts}
    for name in more:
        states = _advance(states, read(storage, name, wanted), layouts)
    states = _matching(program, states)
    return {s: {n: table(_current(s, t.rows, upto)) for n, t in found.items()} for s, found in states.items()}


def remember(storage: Storage, place: str, segments: Sequence[str], upto: int, states: States) -> None:
    """Keep states for the next epoch."""
    if not segments:
        _memory.drop(storage.uri, place)
        return
    size = sum(int(t.rows.estimated_size()) for found in states.values() for t in found.values())
    _memory.put(storage.uri, place, Remembered(tuple(segments), upto, states), size)


def deltas(states: States) -> dict[str, dict[str, Frame]]:
    return {s: {name: t.delta for name, t in found.items()} for s, found in states.items()}


def whole(states: States) -> dict[str, dict[str, Frame]]:
    return {s: {name: t.rows for name, t in found.items()} for s, found in states.items()}


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
