"""Queries whose answers once differed, each with the rows that showed it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.fuzz.queries import Case
from tests.fuzz.streams import INTEGERS, RAW, Arrival, Streams
from tidegate.types import Row


@dataclass(frozen=True)
class Recorded:
    """A query over rows: of raw streams (payload, instant), of P (row, from, to), of T rows."""

    name: str
    query: str
    raw: Mapping[str, Sequence[tuple[Row, int]]] = field(default_factory=dict)
    lasting: Sequence[tuple[Row, int, int]] = ()
    table: Sequence[Row] = ()
    mode: str = INTEGERS

    def case(self, seed: int) -> Case:
        """The seed says in which epochs it is played."""
        raw = {n: [Arrival(e, t, e[-1] if n == "S" else 0) for e, t in self.raw.get(n, ())] for n in RAW}
        return Case(seed, Streams(self.mode, raw, list(self.lasting), list(self.table)), self.query)


ONCE_DIFFERENT: tuple[Recorded, ...] = ()
