"""Generated streams: raw ones, one that carries its validity, a table, change logs, and modify streams over them.

Time is one of three: integers, timestamps (an instant is a second), or integers with batches. Rows are written with whole
instants; `Streams.tick` says which tick an instant is.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from functools import lru_cache

from tests.fuzz.kinds import KINDS, ROUGH
from tidegate.connectors import registry
from tidegate.language.catalog import Catalog, StreamDefinition
from tidegate.language.dialect import parse
from tidegate.language.statements import define
from tidegate.reference.snapshots import Arrivals, Source, Validity
from tidegate.scalars.functions import AggregateFunction, ScalarFunction
from tidegate.time import BATCHES, MAX, MIN, to_datetime
from tidegate.types import BIGINT, INT, Row, Value

INTEGERS, TIMESTAMPS, IN_BATCHES = "integers", "timestamps", "batches"
SECOND = 1_000_000
FIRST, LAST = -2, 14
"""Instants of rows."""

COLUMNS = {
    "S": (("a", "INT"), ("b", "INT"), ("s", "STRING"), ("x", "DOUBLE"), ("m", "DECIMAL"), ("k", "STRUCT")),
    "R": (("a", "INT"), ("c", "INT"), ("g", "BIGINT"), ("y", "DOUBLE"), ("f", "BOOLEAN"), ("l", "ARRAY")),
    "P": (("b", "INT"), ("d", "INT"), ("s", "STRING"), ("born", "DATE"), ("seen", "TIMESTAMP")),
    "T": (("a", "INT"), ("name", "STRING"), ("x", "DOUBLE"), ("w", "DECIMAL")),
    "O": (("a", "INT"), ("s", "STRING"), ("b", "INT"), ("x", "DOUBLE")),
}
"""S, R and O are raw streams (O a change log), P carries its validity, T is a table."""

WORDS = ("insert", "c", "update", "U", "delete", "-D", "+U", "upsert", "??", None)
RAW = ("S", "R", "O")

SCRIPT = """
CREATE STREAM K OVER S KEY a;
CREATE STREAM K2 OVER S KEY a, s;
CREATE STREAM Y OVER R KEY y;
CREATE STREAM N OVER R KEY NULL;
CREATE STREAM O1 OVER O KEY a OPERATION op;
CREATE STREAM O2 OVER O KEY a, s OPERATION op;
CREATE STREAMED VIEW Big AS SELECT a, b FROM K WHERE b > 0;
CREATE VIEW Again AS SELECT a, b FROM Big;
"""

FUNCTIONS = {"twice": ScalarFunction("twice", lambda v: None if v is None else 2 * v, INT, 1)}
XOR = AggregateFunction(
    "xor_all", lambda v: v or 0, lambda p, v: (p or 0) ^ (v or 0), lambda p: p or 0, BIGINT, 1
)


def _declared(mode: str) -> str:
    time = "TIMESTAMP" if mode == TIMESTAMPS else "BIGINT"

    def columns(name: str) -> str:
        return ", ".join(f"{c} {KINDS[k].type}" for c, k in COLUMNS[name])

    batch = " BATCH i" if mode == IN_BATCHES else ""
    return (
        f"CREATE STREAM S({columns('S')}, i INT, t {time}) SOURCE memory('S') ORDERED BY t{batch};"
        f"CREATE STREAM R({columns('R')}, t {time}) SOURCE memory('R') ORDERED BY t;"
        f"CREATE STREAM O({columns('O')}, op STRING, t {time}) SOURCE memory('O') ORDERED BY t;"
        f"CREATE STREAM P({columns('P')}, vf {time}, vt {time}) SOURCE memory('P') VALID (vf, vt);"
        f"CREATE TABLE T({columns('T')}) FROM memory('T');{SCRIPT}"
    )


@lru_cache
def catalog(mode: str) -> Catalog:
    """The definitions of all streams in one kind of time."""
    known = replace(registry.catalog(), functions=FUNCTIONS, aggregates={"xor_all": XOR})
    return with_views(known, _declared(mode))


def with_views(known: Catalog, script: str) -> Catalog:
    for statement in parse(script):
        known = define(statement, known, script)  # type: ignore[arg-type]
    return known


@dataclass(frozen=True)
class Arrival:
    """A row of a raw stream: its payload, its instant, its batch. Rows stand in the order in which they arrive."""

    row: Row
    t: int
    batch: int = 0


@dataclass(frozen=True)
class Streams:
    """The rows of every stream. P's rows are (row, from, to); T's are rows."""

    mode: str
    raw: dict[str, list[Arrival]]
    lasting: list[tuple[Row, int, int]]
    table: list[Row]

    @property
    def unit(self) -> int:
        """Ticks from one instant of rows to the next, batches apart."""
        return SECOND if self.mode == TIMESTAMPS else 1

    def moment(self, t: int) -> Value:
        """An instant as the value of a time column."""
        return to_datetime(t * SECOND) if self.mode == TIMESTAMPS else t

    def columns(self, name: str) -> tuple[tuple[str, str], ...]:
        """The payload's columns and kinds."""
        more = {"S": (("i", "INT"),), "O": (("op", "STRING"),)}.get(name, ())
        return (*COLUMNS[name], *more)

    def catalog(self, views: str = "") -> Catalog:
        return with_views(catalog(self.mode), views)

    def definitions(self) -> dict[str, StreamDefinition]:
        found = (catalog(self.mode).find(n) for n in COLUMNS)
        return {d.name: d for d in found if isinstance(d, StreamDefinition)}

    def sources(self, width: int) -> dict[str, Source]:
        """For the reference; `width` is how many ticks an instant has in the query."""

        def tick(t: int, batch: int) -> int:
            return t * self.unit * width + (batch if width > 1 else 0)

        found: dict[str, Source] = {
            n: Arrivals([((*a.row, self.moment(a.t)), tick(a.t, a.batch if n == "S" else 0)) for a in rows])
            for n, rows in self.raw.items()
        }
        found["P"] = Validity(
            [
                ((*e, self.moment(ts)), tick(ts, 0), te if te == MAX else tick(te, 0), 1)
                for e, ts, te in self.lasting
            ]
        )
        found["T"] = Validity([(e, MIN, MAX, 1) for e in self.table])
        return found

    def delivered(self) -> dict[str, list[Row]]:
        """All rows as the sources deliver them."""
        ends = [(*e, self.moment(ts), None if te == MAX else self.moment(te)) for e, ts, te in self.lasting]
        return {
            **{n: [(*a.row, self.moment(a.t)) for a in rows] for n, rows in self.raw.items()},
            "P": ends,
            "T": list(self.table),
        }


def generate(
    dice: random.Random, mode: str, slack: int = 0, sizes: tuple[int, ...] = (0, 2, 4, 6, 9)
) -> Streams:
    """Rows of all streams. With slack, rows come up to so many instants later than newer ones."""
    rough = dice.random() < 0.15

    def value(kind: str) -> Value:
        if dice.random() < 0.15:
            return None
        return dice.choice(ROUGH if rough and kind == "DOUBLE" else KINDS[kind].values)

    def payload(name: str) -> Row:
        return tuple(value(k) for _, k in COLUMNS[name])

    def arrivals(name: str) -> list[Arrival]:
        found = []
        for _ in range(dice.choice(sizes)):
            t, batch = dice.randint(FIRST, LAST), dice.choice((0, 0, 1, 2))
            more = {"S": (batch,), "O": (dice.choice(WORDS),)}.get(name, ())
            found.append(Arrival((*payload(name), *more), t, batch if name == "S" else 0))
        keyed = [((a.t + (dice.randint(0, slack) if slack else 0), i), a) for i, a in enumerate(found)]
        return [a for _, a in sorted(keyed, key=lambda k: k[0])]

    starts = [dice.randint(FIRST, LAST) for _ in range(dice.choice(sizes))]
    lasting = [
        (payload("P"), t, MAX if dice.random() < 0.2 else t + dice.randint(1, 6)) for t in sorted(starts)
    ]
    raw = {name: arrivals(name) for name in RAW}
    return Streams(mode, raw, lasting, [payload("T") for _ in range(dice.choice(sizes))])


def is_rough(streams: Streams) -> bool:
    """Whether there are numbers whose sums only exact arithmetic gets right."""
    rows = [a.row for rows in streams.raw.values() for a in rows] + streams.table
    return any(v in ROUGH[:-1] for row in rows for v in row if isinstance(v, float))


__all__ = ["BATCHES", "Arrival", "Streams", "generate"]
