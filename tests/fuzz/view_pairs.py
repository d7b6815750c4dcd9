"""Generated pairs of a query and a view that are much alike, over small streams."""

from __future__ import annotations

import random
from dataclasses import dataclass
from decimal import Decimal

from tests.syncsql.world import World

SCRIPT = """
CREATE STREAM S(a INT, b STRING, d DOUBLE, v INT, m DECIMAL(8, 2), t BIGINT) SOURCE csv('x') ORDERED BY t;
CREATE STREAM R(a INT, c BIGINT, t BIGINT) SOURCE csv('x') ORDERED BY t;
CREATE STREAM Changes(id INT, x INT, g STRING, o STRING, t BIGINT) SOURCE csv('x') ORDERED BY t;
CREATE STREAM K OVER Changes KEY id OPERATION o;
CREATE TABLE P(a INT, name STRING) SOURCE csv('x');
CREATE VIEW Last3 AS SELECT a, v, TS AS u FROM S WINDOW(RANGE 3);
CREATE VIEW Last6 AS SELECT a, v, TS AS u FROM S WINDOW(RANGE 6);
"""
"""S and R are streams of rows, K is a relation, P a table."""

CONDITIONS = {
    "v": ["{v} > {n}", "{v} >= {n}", "{n} < {v}", "{v} BETWEEN {n} AND {m}", "{v} IN ({n}, {m}, 3)", "{v} = {n}", "{v} <> {n}",
          "NOT ({v} < {n})", "({v} = {n} OR {v} = {m})", "{v} + 1 > {n}", "{v} > -{n}", "NOT {v} IS NULL", "NOT (NOT {v} IS NULL)", "NOT ({v} IS NULL OR {v} > {n})"],
    "b": ["{b} = '{s}'", "{b} LIKE '{s}%'", "{b} IN ('{s}', 'xy')", "{b} >= '{s}'", "{b} <> '{s}'", "{b} LIKE '%'", "NOT ({b} LIKE '{s}%')", "{b} NOT LIKE '{s}%'", "{b} NOT LIKE '{s}'", "{b} NOT IN ('{s}')"],
    "d": ["{d} > {n}.5", "{d} < {n}", "NOT ({d} > 1.5)"],
}  # fmt: skip
AGGREGATES = [
    "COUNT(*) AS n", "COUNT({a}) AS na", "SUM({v}) AS s", "MIN({v}) AS lo", "MAX({b}) AS hi", "AVG({v}) AS av", "SUM({m}) AS sm",
    "SUM({d}) AS sd", "COUNT(DISTINCT {v}) AS dv", "MAX({v}) FILTER (WHERE {v} > 2) AS f", "COUNT({v}) AS nv",
]  # fmt: skip


def rows(dice: random.Random) -> dict[str, list]:
    def times(count: int) -> list[int]:
        return sorted(dice.choices(range(16), k=count))

    return {
        "S": [
            (dice.choice([1, 2, 3, None]), dice.choice(["x", "y", "xy", None]), dice.choice([0.5, 1.5, 2.0, float("nan"), None]),
             dice.choice([0, 1, 2, 3, 4, 5, None]), Decimal(dice.randrange(500)) / 100, t)
            for t in times(10)
        ],
        "R": [(dice.choice([1, 2, 3]), dice.randrange(6), t) for t in times(6)],
        "Changes": [
            (dice.choice([1, 2, 3, 4]), dice.randrange(6), dice.choice(["p", "q"]), dice.choice(["u", "u", "u", "d"]), t) for t in times(10)
        ],
        "P": [(1, "one"), (2, "two")],
    }  # fmt: skip


@dataclass(frozen=True)
class Pair:
    query: str
    view: str


class Pairs:
    """Makes pairs: what the view says is often what the query says, or a little less."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)

    @property
    def world(self) -> World:
        return World(SCRIPT, rows(self.dice))

    def pair(self) -> Pair:
        shape = self.dice.choice(
            [self.grouped, self.grouped, self.joined, self.keyed, self.keyed, self.plain, self.both, self.ranked, self.synced, self.sequence, self.nested]
        )  # fmt: skip
        return shape()

    # Parts.

    def condition(self, names: dict[str, str]) -> str:
        kind = self.dice.choice(sorted(names.keys() & CONDITIONS.keys()))
        n = self.dice.randrange(5)
        values = {"n": n, "m": n + self.dice.randrange(3), "s": self.dice.choice("xyp")}
        return self.dice.choice(CONDITIONS[kind]).format(**{**names, **values})

    def wheres(self, names: dict[str, str]) -> tuple[str, str]:
        """Conditions of the query, and of the view: some of the same, some looser, now and then one of its own."""
        mine = [self.condition(names) for _ in range(self.dice.choice([0, 1, 1, 2]))]
        theirs = [c for c in mine if self.dice.random() < 0.3]
        if self.dice.random() < 0.35:
            theirs.append(self.condition(names))
        self.dice.shuffle(theirs)
        return tuple(f" WHERE {' AND '.join(c)}" if c else "" for c in (mine, theirs))  # type: ignore[return-value]

    def windows(self) -> tuple[str, str]:
        size, slide = self.dice.choice([3, 6, 9]), self.dice.choice([1, 1, 2, 3])
        mine = f"RANGE {size}" + (f" SLIDE {slide * self.dice.choice([1, 2])}" if slide > 1 else "")
        theirs = f"RANGE {size + self.dice.choice([0, 0, 0, 3])}" + (f" SLIDE {slide}" if slide > 1 else "")
        if self.dice.random() < 0.2:
            period = self.dice.choice([2, 3])
            mine, theirs = (
                f"ROWS {size} SLIDE {period * 2} TICKS",
                self.dice.choice([f"ROWS {size} SLIDE {period} TICKS", f"ROWS {size}"]),
            )
        if self.dice.random() < 0.1:
            mine = theirs = f"ROWS {size}"
        if self.dice.random() < 0.4:
            theirs = mine
        return f"WINDOW({mine})", f"WINDOW({theirs})"

    def some(self, of: list[str], least: int = 1) -> list[str]:
        return [x for x in of if self.dice.random() < 0.5] or of[:least]

    def wider(self, chosen: list[str], of: list[str]) -> list[str]:
        """What a view has: mostly all of it, and perhaps more."""
        kept = [x for x in chosen if self.dice.random() < 0.9]
        more = [x for x in of if x not in kept and self.dice.random() < 0.4]
        found = kept + more or of[:1]
        self.dice.shuffle(found)
        return found

    # Shapes.

    def grouped(self) -> Pair:
        names = {"v": "v", "b": "b", "d": "d", "a": "a", "m": "m"}
        keys = self.some(["a", "b", "v % 2"]) if self.dice.random() < 0.8 else []
        aggregates = self.some([a.format(**names) for a in AGGREGATES])
        (q, v), (w, wv) = self.wheres(names), self.windows()
        finer = (
            keys
            if self.dice.random() < 0.4
            else list(dict.fromkeys([*keys, *self.some(["a", "b", "d", "v % 2"])]))
        )
        more = self.wider(aggregates, [a.format(**names) for a in AGGREGATES])
        having = self.dice.choice(["", "", f" HAVING COUNT(*) > {self.dice.randrange(3)}"])
        hidden = self.dice.choice(["", having])
        return Pair(
            self.group(keys, aggregates, f"S {w}", q, having), self.group(finer, more, f"S {wv}", v, hidden)
        )

    def group(self, keys: list[str], aggregates: list[str], source: str, where: str, having: str = "") -> str:
        shown = [k if k.isalnum() else f"{k} AS k2" for k in keys]
        by = f" GROUP BY {', '.join(keys)}" if keys else ""
        return f"SELECT {', '.join([*shown, *aggregates])} FROM {source}{where}{by}{having if keys else ''}"

    def joined(self) -> Pair:
        names = {"v": "l.v", "b": "l.b", "d": "l.d"}
        (q, v), (w, wv) = self.wheres(names), self.windows()
        (w2, wv2) = self.windows() if self.dice.random() < 0.3 else (w, wv)
        kind = self.dice.choice(["JOIN", "JOIN", "JOIN", "LEFT JOIN", "FULL JOIN"])
        on = self.dice.choice(["l.a = r.a", "l.a = r.a AND r.c > 1", "l.a = r.a AND l.v < r.c"])
        on_view = on if self.dice.random() < 0.7 else "l.a = r.a"
        columns = self.some(["l.a", "l.b", "r.c", "l.v + 1 AS w", "r.a AS ra"])
        shown = self.wider(
            columns, ["l.a", "l.b", "l.v", "l.d", "r.c", "l.TS AS lt", "r.TS AS rt", "l.v + 1 AS w"]
        )
        made = [f"SELECT {', '.join(columns)} FROM S {w} l {kind} R {w2} r ON {on}{q}"]
        if kind == "JOIN" and self.dice.random() < 0.4:
            made.append(f"SELECT {', '.join(shown)} FROM R {wv2} r JOIN S {wv} l ON {on_view}{v}")
        else:
            made.append(f"SELECT {', '.join(shown)} FROM S {wv} l {kind} R {wv2} r ON {on_view}{v}")
        if self.dice.random() < 0.3:
            made[0] = f"SELECT DISTINCT {made[0][7:]}"
        return Pair(*made)

    def keyed(self) -> Pair:
        names = {"v": "x", "b": "g"}
        q, v = self.wheres(names)
        step = self.dice.choice([2, 3])
        sync = [
            f"SYNC BY (SELECT Timepoint FROM CLOCK WHERE Timepoint % {s} = 0) k"
            for s in (step * self.dice.choice([1, 2, 3]), step)
        ]
        if self.dice.random() < 0.5:
            sync = ["k", "k"]
        elif self.dice.random() < 0.3:
            sync[1] = "k"
        if self.dice.random() < 0.5:
            keys = self.some(["g", "id"])
            finer = list(dict.fromkeys([*keys, *self.some(["g", "id", "x"])]))
            aggregates = ["COUNT(*) AS n", "SUM(x) AS s", "MAX(x) AS hi", "AVG(x) AS av"]
            mine = self.some(aggregates)
            return Pair(
                self.group(keys, mine, f"K {sync[0]}", q),
                self.group(finer, self.wider(mine, aggregates), f"K {sync[1]}", v),
            )
        columns = self.some(["id", "x", "g", "x * 2 AS y"])
        shown = self.wider(columns, ["id", "x", "g", "x * 2 AS y"])
        return Pair(
            f"SELECT {', '.join(columns)} FROM K {sync[0]}{q}",
            f"SELECT {', '.join(shown)} FROM K {sync[1]}{v}",
        )

    def plain(self) -> Pair:
        names = {"v": "v", "b": "b", "d": "d"}
        (q, v), (w, wv) = self.wheres(names), self.windows()
        columns = self.some(["a", "b", "v", "v * 2 AS y", "d"])
        shown = self.wider(columns, ["a", "b", "v", "d", "TS AS ts0"])
        distinct = self.dice.choice([("DISTINCT ", "DISTINCT "), ("DISTINCT ", ""), ("", "")])
        return Pair(
            f"SELECT {distinct[0]}{', '.join(columns)} FROM S {w}{q}",
            f"SELECT {distinct[1]}{', '.join(shown)} FROM S {wv}{v}",
        )

    def both(self) -> Pair:
        names = {"v": "v"}
        (q, v), (w, wv) = self.wheres(names), self.windows()
        operation = self.dice.choice(["UNION ALL", "EXCEPT", "EXCEPT ALL", "INTERSECT", "UNION"])
        columns = self.dice.choice([("v", "c"), ("v, a", "c, a")])
        other = self.dice.choice(["", q.replace("v", "c")])
        mine = f"SELECT {columns[0]} FROM S {w}{q} {operation} SELECT {columns[1]} FROM R {w}{other}"
        theirs = f"SELECT {columns[0]} FROM S {wv}{v} {operation} SELECT {columns[1]} FROM R {wv}{self.dice.choice(['', v.replace('v', 'c')])}"
        if self.dice.random() < 0.5:
            mine = f"SELECT * FROM ({mine}) z WHERE {self.condition(names)}"
        return Pair(mine, theirs)

    def synced(self) -> Pair:
        """Windows that are seen at points, the view's perhaps longer."""
        step = self.dice.choice([2, 4])
        sync = [
            f"SYNC BY (SELECT Timepoint FROM CLOCK WHERE Timepoint % {s} = 0)"
            for s in (step * self.dice.choice([1, 1, 2]), step)
        ]
        (q, v) = self.wheres({"v": "z.v"})
        text = "SELECT {} FROM {} {} z JOIN P ON z.a = P.a{}"
        shown = self.dice.choice(["z.v, P.name", "P.name"])
        return Pair(
            text.format(shown, "Last3", sync[0], q),
            text.format("z.v, z.u, P.name", self.dice.choice(["Last3", "Last6"]), sync[1], v),
        )

    def ranked(self) -> Pair:
        (w, wv) = self.windows()
        inner = f"SELECT b, v FROM S {w}"
        limit = self.dice.choice([1, 2])
        tail = f"ORDER BY v DESC LIMIT {limit}"
        where = self.dice.choice(["", " WHERE v > 2", " WHERE b = 'x'"])
        return Pair(f"SELECT v FROM ({inner} {tail}) z{where}", f"SELECT b, v FROM S {wv} {tail}")

    def sequence(self) -> Pair:
        rate, start = self.dice.choice([2, 3, 5]), self.dice.choice([0, 0, 1, 2])
        width = self.dice.choice([rate, rate + 1, 2])
        lower, later = (
            self.dice.choice(["{r} * i", "{r} * i", "0"]).format(r=rate),
            start + rate * self.dice.choice([0, 1, 2]),
        )
        text = "WINDOW(FROM {} TO {} * i + {} EVERY {} STARTING AT {})"
        mine, theirs = (text.format(lower, rate, width, rate, s) for s in (later, start))
        shown = self.dice.choice(["COUNT(*) AS n", "SUM(v) AS s, COUNT(*) AS n"])
        if self.dice.random() < 0.4:
            return Pair(f"SELECT DISTINCT v FROM S {mine}", f"SELECT DISTINCT v, TS AS u FROM S {theirs}")
        return Pair(f"SELECT COUNT(*) AS n FROM S {mine}", f"SELECT {shown} FROM S {theirs}")

    def nested(self) -> Pair:
        """A part of the query is what the view answers."""
        inner = self.dice.choice([self.grouped, self.keyed, self.joined])()
        outer = self.dice.choice(
            ["SELECT COUNT(*) AS c FROM ({}) z", "SELECT DISTINCT * FROM ({}) z", "SELECT * FROM ({}) z JOIN P ON TRUE",
             "SELECT * FROM ({}) z UNION ALL SELECT * FROM ({}) y"]
        )  # fmt: skip
        return Pair(outer.format(*[inner.query] * outer.count("{}")), inner.view)
