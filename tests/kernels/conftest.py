"""Playing small streams through kernels and judging the answer at every instant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import polars as pl
import pytest
from hypothesis import strategies as st

from tests.state_log import StateLog
from tidegate.algebra.operators import Node, Scan
from tidegate.kernels.rows import from_rows, to_rows
from tidegate.physical.lowering import compile_plan
from tidegate.time import MAX, MIN
from tidegate.types import INT, STRING, Field, Row, Schema
from tidegate.worker.segments import settled

PhysicalRow = tuple[Row, int, int, int]
Bag = Counter[Row]
HORIZON = range(-1, 46)
"""Every instant at which a test stream, its windows and their slides can change, and some on both sides."""


@dataclass(frozen=True)
class Toolbox:
    """What the tests of kernels share."""

    schema: Schema = (Field("a", INT), Field("b", STRING))
    other: Schema = (Field("x", INT), Field("y", STRING))

    def scan(self, name: str = "L", schema: Schema | None = None, relation: bool = True) -> Scan:
        return Scan(name, schema or self.schema, relation)

    def bag(self, rows: Sequence[PhysicalRow], t: int) -> Bag:
        """The definition of a snapshot, row by row."""
        bag: Bag = Counter()
        for e, ts, te, n in rows:
            if ts <= t < te:
                bag[e] += n
        assert all(n >= 0 for n in bag.values()), bag
        return Counter({e: n for e, n in bag.items() if n})

    def play(
        self,
        plan: Node,
        sources: Mapping[str, pl.DataFrame],
        boundaries: Sequence[int],
        restoring: bool = False,
        functions: Mapping[str, object] | None = None,
    ) -> list[PhysicalRow]:
        """The physical result; with `restoring`, each epoch starts from what the log alone gives back."""
        program = compile_plan(plan, functions or {})
        states = program.initial()
        log = StateLog(program)
        result: list[PhysicalRow] = []
        since = MIN
        for upto in boundaries:
            scans = {
                name: rows.filter((pl.col("ts") >= since) & (pl.col("ts") < upto))
                for name, rows in sources.items()
            }
            states, chunk = program.step(states, scans, upto)
            assert chunk.filter((pl.col("ts") < since) | (pl.col("ts") >= upto)).is_empty(), chunk
            assert (chunk["ts"] < chunk["te"]).all()
            validity = chunk.select("ts", "te", "n").rows()
            payload = to_rows(chunk, plan.schema)
            result += [(e, *v) for e, v in zip(payload, validity, strict=True)]
            log.append(states)
            states = log.restored(upto) if restoring else settled(states)
            since = upto
        return result

    def agree(
        self,
        plan: Node,
        sources: Mapping[str, pl.DataFrame],
        boundaries: Sequence[int],
        expected: Callable[[int], Bag],
        restoring: bool = False,
    ) -> None:
        """The engine's snapshot equals the expected one at every instant."""
        result = self.play(plan, sources, boundaries, restoring)
        for t in HORIZON:
            assert self.bag(result, t) == expected(t), (t, boundaries, result)

    def frame(self, rows: Sequence[PhysicalRow], schema: Schema | None = None) -> pl.DataFrame:
        return from_rows([r[0] for r in rows], schema or self.schema, [r[1:] for r in rows])

    def raw(self, rows: Sequence[tuple[Row, int]], schema: Schema | None = None) -> pl.DataFrame:
        """A raw stream, in order of arrival."""
        validity = [(t, t + 1, 1, seq) for seq, (_, t) in enumerate(rows)]
        return from_rows([e for e, _ in rows], schema or self.schema, validity, ("ts", "te", "n", "seq"))


def _in_form(row: PhysicalRow, changes: bool) -> list[PhysicalRow]:
    e, ts, te, n = row
    return [(e, ts, MAX, n), (e, te, MAX, -n)] if changes and te != MAX else [row]


VALUES = st.tuples(st.sampled_from([0, 1, 2, None]), st.sampled_from(["p", "q", None]))
LENGTHS = st.one_of(st.integers(1, 9), st.just(MAX))


@st.composite
def _physical(draw: st.DrawFn) -> list[PhysicalRow]:
    rows = draw(
        st.lists(st.tuples(VALUES, st.integers(0, 20), LENGTHS, st.integers(1, 2), st.booleans()), max_size=9)
    )
    return [
        part
        for e, ts, length, n, changes in rows
        for part in _in_form((e, ts, min(MAX, ts + length), n), changes)
    ]


physical = _physical()
"""Streams in interval form, change form and any mixture."""

finite = physical.map(lambda rows: [r for r in rows if r[3] > 0 and r[2] != MAX])
arrivals = st.lists(st.tuples(VALUES, st.integers(0, 20)), max_size=12)
boundaries = st.one_of(
    st.just([MAX]),
    st.just([*range(45), MAX]),
    st.sets(st.integers(-3, 40), max_size=6).map(lambda s: [*sorted(s), MAX]),
)
"""All at once, one instant per epoch, and random epochs."""


@pytest.fixture(scope="session")
def tools() -> Toolbox:
    return Toolbox()


@dataclass(frozen=True)
class Streams:
    """Strategies for test streams, to be drawn from by name."""

    physical: st.SearchStrategy[list[PhysicalRow]] = physical
    finite: st.SearchStrategy[list[PhysicalRow]] = finite
    arrivals: st.SearchStrategy[list[tuple[Row, int]]] = arrivals
    boundaries: st.SearchStrategy[list[int]] = boundaries


@pytest.fixture(scope="session")
def streams() -> Streams:
    return Streams()
