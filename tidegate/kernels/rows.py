"""Physical streams as columns: signed rows (payload, [ts, te), n) in Polars frames (SPEC section 2).

A chunk of an operator is a frame with the payload columns `c0`, `c1`, … and the Int64 columns `ts`, `te`
and `n`. The snapshot at t is the bag with multiplicity sum of n over ts <= t < te. The chunk of the epoch
[W0, W1) holds exactly the rows with W0 <= ts < W1, in any order; te may lie beyond (te = MAX: no known end).

A kernel is a pure function of state and chunks. Its state is a set of named tables; each step says what it
adds to the log of each table, so that an epoch costs what changed, and the log alone restores the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import polars as pl

Frame = pl.DataFrame


@dataclass(frozen=True)
class Layout:
    """How the log of a state table becomes the table again.

    `latest_by` empty: an append-only table of rows; those with `te` <= W are gone, and rows equal in
    everything but n are consolidated (n added, zeros dropped). Otherwise the last logged row of each value of the
    `latest_by` columns is in force, and one with `n` = 0 says that it is gone.
    `partition_by` names the columns by whose hash the rows belong to a partition; empty: one partition only.
    """

    latest_by: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()


@dataclass(frozen=True)
class Table:
    """A state table after a step: its rows, and what the step appended to its log."""

    rows: Frame
    delta: Frame


State = Mapping[str, Table]


class Kernel(Protocol):
    """An operator's physical form."""

    layout: Mapping[str, Layout]

    def initial(self) -> State:
        """The state before any row."""

    def step(self, state: State, chunks: Sequence[Frame], upto: int) -> tuple[State, Frame]:
        """Consume the inputs' chunks of the epoch that ends before `upto`; return new state and own chunk."""
