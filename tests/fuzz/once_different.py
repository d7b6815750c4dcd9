"""Queries whose answers once differed, each with the rows that showed it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.fuzz.queries import Case
from tests.fuzz.streams import INTEGERS, RAW, TIMESTAMPS, Arrival, Streams
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


S = [
    ((a, b, "x", None, None, None, 0), t)
    for a, b, t in ((1, 2, 0), (2, 1, 1), (1, 3, 4), (None, 1, 6), (2, 0, 9))
]
R = [((a, c, None, None, None, None), t) for a, c, t in ((1, 1, 1), (2, 2, 3), (1, 0, 8), (None, 3, 8))]

ONCE_DIFFERENT = (
    Recorded(
        "a nested query has conditions on NOW of its own",
        "SELECT a FROM R WINDOW(RANGE 9) WHERE a IN (SELECT a FROM K WHERE NOW < TS + 3)",
        {"S": S, "R": R},
    ),
    Recorded(
        "DISTINCT before one argument twice",
        "SELECT b, COVAR_SAMP(DISTINCT a, a), COVAR_POP(DISTINCT a, a) FROM S WINDOW(RANGE 7) GROUP BY b",
        {"S": S},
    ),
    Recorded(
        "DISTINCT before two arguments",
        "SELECT QUANTILE(DISTINCT b, 0.25), PERCENTILE(DISTINCT a, 0.9), MAX_BY(DISTINCT a, b), TOP_K(DISTINCT b, 2)"
        " FROM S WINDOW(RANGE 7)",
        {"S": S},
    ),
    Recorded(
        "COUNT_IF of DISTINCT truths is one or none",
        "SELECT COUNT_IF(DISTINCT b > 0), COUNT_IF(DISTINCT b > 5) FROM S WINDOW(RANGE 7)",
        {"S": S},
    ),
    Recorded(
        "a table is there before all timestamps",
        "SELECT T.name, q.b FROM T LEFT JOIN (SELECT a, b FROM K WHERE NOW - INTERVAL 2 SECONDS < TS) q ON T.a = q.a",
        {"S": S},
        table=[(1, "one", None, None), (3, "three", None, None)],
        mode=TIMESTAMPS,
    ),
    Recorded(
        "rows of a table may wait for a timestamp",
        "SELECT T.name, K.b FROM T LEFT JOIN K ON T.a = K.a WHERE NOW >= TIMESTAMP '1970-01-01 00:00:04'",
        {"S": S},
        table=[(1, "one", None, None), (3, "three", None, None)],
        mode=TIMESTAMPS,
    ),
    Recorded(
        "a clock of timestamps that begins at one",
        "SELECT a, b FROM K SYNC BY (SELECT Timepoint FROM CLOCK(2 SECONDS) WHERE Timepoint >= TIMESTAMP '1970-01-01 00:00:05')",
        {"S": S},
        mode=TIMESTAMPS,
    ),
)
