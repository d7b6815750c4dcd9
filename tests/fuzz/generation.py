"""Random streams and random queries over them, from a seed.

A query is text with marks for what the two languages say differently: `stream reference with its window`, the guard that
gives an empty scalar aggregation no row, and the order that breaks ties.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from tidegate.language.catalog import Catalog, SourceCall, StreamDefinition
from tidegate.reference.snapshots import Arrivals, Source, Validity
from tidegate.time import MAX, MIN
from tidegate.types import BIGINT, INT, STRING, Field, Row

COLUMNS = {
    "S": (("a", INT), ("b", INT), ("s", STRING)),
    "R": (("a", INT), ("c", INT)),
    "P": (("b", INT), ("d", INT), ("s", STRING)),
    "T": (("a", INT), ("name", STRING)),
}
"""S and R are raw streams, P carries its validity, T is a table."""


@dataclass(frozen=True)
class Case:
    """Streams, and a query in two languages."""

    seed: int
    rows: dict[str, list[tuple[Row, int, int]]]
    text: str
    references: list[tuple[str, str]]

    def tidegate(self) -> str:
        def windowed(k: int) -> str:
            name, window = self.references[k]
            return name + (f" WINDOW({window})" if window else "")

        return self._replace(windowed, guard="", tie=lambda n: "")

    def duckdb(self, instant_table: Callable[[int], str]) -> str:
        """The same query on window contents: reference k is replaced by `instant_table(k)`."""
        guard = " HAVING COUNT(*) > 0"
        return self._replace(
            instant_table, guard, lambda n: "".join(f", {i} ASC NULLS FIRST" for i in range(1, n + 1))
        )

    def _replace(self, reference: Callable[[int], str], guard: str, tie: Callable[[int], str]) -> str:
        parts = self.text.split("§")
        for i in range(1, len(parts), 2):
            mark = parts[i]
            if mark == "guard":
                parts[i] = guard
            else:
                parts[i] = tie(int(mark[3:])) if mark.startswith("tie") else reference(int(mark[3:]))
        return "".join(parts)

    @property
    def catalog(self) -> Catalog:
        catalog = Catalog()
        for name, columns in COLUMNS.items():
            fields = tuple(Field(n, t) for n, t in columns)
            source = SourceCall("memory", (name,))
            if name == "T":
                definition = StreamDefinition(name, fields, source, table=True)
            elif name == "P":
                fields += (Field("vf", BIGINT, False), Field("vt", BIGINT))
                definition = StreamDefinition(name, fields, source, valid=("vf", "vt"))
            else:
                definition = StreamDefinition(
                    name, (*fields, Field("t", BIGINT, False)), source, ordered_by="t"
                )
            catalog = catalog.with_definition(definition)
        return catalog

    @property
    def sources(self) -> dict[str, Source]:
        return {
            "S": Arrivals([((*e, t), t) for e, t, _ in self.rows["S"]]),
            "R": Arrivals([((*e, t), t) for e, t, _ in self.rows["R"]]),
            "P": Validity([((*e, ts), ts, te, 1) for e, ts, te in self.rows["P"]]),
            "T": Validity([(e, MIN, MAX, 1) for e, _, _ in self.rows["T"]]),
        }


@dataclass
class _Item:
    """An item of FROM: its text, alias and columns with types."""

    text: str
    alias: str
    columns: list[tuple[str, str]]


@dataclass
class Generator:
    """Everything is drawn from one seeded source of randomness."""

    seed: int
    references: list[tuple[str, str]] = field(default_factory=list)
    aliases: int = 0

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def case(self) -> Case:
        rows = {name: self._rows(name) for name in COLUMNS}
        text, _ = self._query(self.random.choice([1, 2, 2, 3]), [])
        return Case(self.seed, rows, text, self.references)

    # streams ---------------------------------------------------------------------------------------------------

    def _value(self, kind: object) -> object:
        if self.random.random() < 0.15:
            return None
        return self.random.choice("xyz") if kind is STRING else self.random.randint(0, 3)

    def _rows(self, name: str) -> list[tuple[Row, int, int]]:
        rows = []
        for _ in range(self.random.choice([0, 2, 4, 6, 8])):
            start = self.random.randint(0, 12)
            end = MAX if self.random.random() < 0.2 else start + self.random.randint(1, 6)
            rows.append((tuple(self._value(k) for _, k in COLUMNS[name]), start, end))
        if name in ("S", "R"):
            rows.sort(key=lambda r: r[1])
        return rows

    # queries ---------------------------------------------------------------------------------------------------

    def _chance(self, p: float) -> bool:
        return self.random.random() < p

    def _query(self, depth: int, outer: list[_Item]) -> tuple[str, list[tuple[str, str]]]:
        """A query and its output columns (name, type)."""
        if depth > 1 and self._chance(0.15):
            width = self.random.choice([1, 2])
            left, _ = self._block(depth - 1, outer, ["INT"] * width)
            right, _ = self._block(depth - 1, outer, ["INT"] * width)
            operation = self.random.choice(["UNION", "EXCEPT", "INTERSECT"]) + self.random.choice(
                ["", " ALL"]
            )
            return f"{left} {operation} {right}", [(f"x{i}", "INT") for i in range(width)]
        return self._block(depth, outer, None)

    def _block(
        self, depth: int, outer: list[_Item], wanted: list[str] | None
    ) -> tuple[str, list[tuple[str, str]]]:
        items, source = self._from(depth)
        where = self._where(items, outer, depth)
        grouped = self._chance(0.35)
        distinct = ""
        tail = ""
        if grouped:
            outputs, tail = self._grouping(items, outer, depth, wanted)
        else:
            kinds = wanted or [
                self.random.choice(["INT", "INT", "STRING"]) for _ in range(self.random.randint(1, 3))
            ]
            outputs = [(self._scalar(items, k, depth, outer), k) for k in kinds]
            distinct = "DISTINCT " if self._chance(0.2) else ""
        columns = [(f"x{i}", k) for i, (_, k) in enumerate(outputs)]
        select = ", ".join(f"{e} AS x{i}" for i, (e, _) in enumerate(outputs))
        text = f"SELECT {distinct}{select} FROM {source}{where}{tail}"
        if wanted is None and self._chance(0.12):
            text = f"{text}{self._limit(columns)}"
        return text, columns

    def _limit(self, columns: list[tuple[str, str]]) -> str:
        keys = self.random.sample(range(1, len(columns) + 1), self.random.randint(1, len(columns)))
        terms = [
            f"{k} {self.random.choice(['ASC', 'DESC'])} NULLS {self.random.choice(['FIRST', 'LAST'])}"
            for k in keys
        ]
        offset = f" OFFSET {self.random.randint(1, 2)}" if self._chance(0.2) else ""
        return f" ORDER BY {', '.join(terms)}§tie{len(columns)}§ LIMIT {self.random.randint(1, 3)}{offset}"

    def _alias(self) -> str:
        self.aliases += 1
        return f"q{self.aliases}"

    def _reference(self) -> _Item:
        name = self.random.choice(["S", "S", "R", "R", "P", "T"])
        window = self._window(name) if name in ("S", "R") else ""
        self.references.append((name, window))
        alias = self._alias()
        columns = [(n, "STRING" if k is STRING else "INT") for n, k in COLUMNS[name]]
        return _Item(f"§ref{len(self.references) - 1}§ {alias}", alias, columns)

    def _window(self, name: str) -> str:
        size, slide = self.random.randint(1, 6), self.random.randint(2, 4)
        column = self.random.choice([n for n, _ in COLUMNS[name]])
        return self.random.choice(
            [
                "", f"RANGE {size}", f"RANGE {size}", f"RANGE {size}", "RANGE UNBOUNDED",
                f"RANGE {size} SLIDE {slide}", f"ROWS {size}", f"ROWS {size} SLIDE {slide}",
                f"PARTITION BY {column} ROWS {slide}", f"RANGE {size} SLIDE {slide} ROWS",
                f"PARTITION BY {column} RANGE {size} SLIDE {slide} ROWS", f"ROWS {size} SLIDE {slide} TICKS",
                f"PARTITION BY {column} ROWS {size} SLIDE {slide} TICKS",
            ]
        )  # fmt: skip

    def _item(self, depth: int) -> _Item:
        if depth > 1 and self._chance(0.25):
            text, columns = self._query(depth - 1, [])
            alias = self._alias()
            return _Item(f"({text}) {alias}", alias, columns)
        return self._reference()

    def _from(self, depth: int) -> tuple[list[_Item], str]:
        items = [self._item(depth)]
        text = items[0].text
        visible = items[:]
        for _ in range(self.random.choice([0, 0, 0, 1, 1, 2])):
            item = self._item(depth)
            kind = self.random.choice([",", "JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
            if kind == ",":
                text += f", {item.text}"
                visible = [item]  # a comma binds weaker than JOIN: ON sees only what follows it
            else:
                text += f" {kind} {item.text} ON {self._pair(visible, item)}"
                visible.append(item)
            items.append(item)
        return items, text

    def _pair(self, items: list[_Item], item: _Item) -> str:
        """A join condition between what was there and what comes."""
        operator = self.random.choice(["=", "=", "=", "<", "<>", ">="])
        extra = f" AND {self._comparison([*items, item])}" if self._chance(0.2) else ""
        return f"{self._column(items, 'INT')} {operator} {self._column([item], 'INT')}{extra}"

    def _column(self, items: list[_Item], kind: str) -> str:
        fitting = [f"{i.alias}.{n}" for i in items for n, k in i.columns if k == kind]
        if fitting:
            return self.random.choice(fitting)
        strings = [f"{i.alias}.{n}" for i in items for n, k in i.columns if k == "STRING"]
        if kind == "INT":
            return f"LENGTH({self.random.choice(strings)})" if strings else str(self.random.randint(0, 3))
        return "'x'"

    def _key(self, items: list[_Item]) -> str:
        column = self._column(items, "INT")
        return f"({column} + 0)" if column.isdigit() else column  # a bare number would be an ordinal

    def _scalar(self, items: list[_Item], kind: str, depth: int, outer: list[_Item]) -> str:
        column = self._column(items, kind)
        if kind != "INT":
            return column
        choice = self.random.random()
        if choice < 0.6:
            return column
        if choice < 0.75:
            other = self._column(items, "INT")
            return f"{column} {self.random.choice(['+', '-', '*'])} {other}"
        if choice < 0.85:
            return f"CASE WHEN {self._comparison(items)} THEN {column} ELSE {self.random.randint(0, 3)} END"
        if choice < 0.9:
            return f"COALESCE({column}, {self.random.randint(0, 3)})"
        if depth > 1:
            return f"({self._scalar_query(depth - 1, items)})"
        return column

    def _comparison(self, items: list[_Item]) -> str:
        left = self._column(items, "INT")
        choice = self.random.random()
        if choice < 0.2:
            return f"{left} IS {self.random.choice(['', 'NOT '])}NULL"
        if choice < 0.3:
            return (
                f"{left} {self.random.choice(['', 'NOT '])}IN (0, {self.random.choice(['2', 'NULL', '3'])})"
            )
        if choice < 0.4:
            return f"{left} BETWEEN {self.random.randint(0, 1)} AND {self.random.randint(1, 3)}"
        right = self._column(items, "INT") if self._chance(0.5) else str(self.random.randint(0, 3))
        return f"{left} {self._operator()} {right}"

    def _operator(self) -> str:
        return self.random.choice(["=", "=", "<>", "<", "<=", ">", ">="])

    def _where(self, items: list[_Item], outer: list[_Item], depth: int) -> str:
        conditions = []
        if outer and self._chance(0.7):
            for _ in range(self.random.choice([1, 1, 2])):
                mine, theirs = self._column(items, "INT"), self._column(outer, "INT")
                conditions.append(f"{mine} {self.random.choice(['=', '=', '=', '<', '>=', '<>'])} {theirs}")
        count = self.random.choice([0, 0, 1, 1, 2])
        conditions += [self._condition(items, outer, depth) for _ in range(count)]
        return f" WHERE {' AND '.join(conditions)}" if conditions else ""

    def _condition(self, items: list[_Item], outer: list[_Item], depth: int) -> str:
        if depth > 1 and self._chance(0.55):
            nested = self._nested_condition(items, outer, depth)
            if self._chance(0.2):
                return f"({nested} OR {self._comparison(items)})"
            return f"NOT ({nested})" if self._chance(0.1) else nested
        if self._chance(0.15):
            return f"({self._comparison(items)} OR {self._comparison(items)})"
        return f"NOT ({self._comparison(items)})" if self._chance(0.1) else self._comparison(items)

    def _nested_condition(self, items: list[_Item], outer: list[_Item], depth: int) -> str:
        visible = [*items, *outer] if self._chance(0.3) else items
        correlated = visible if self._chance(0.6) else []
        left = self._scalar(items, "INT", 1, [])
        choice = self.random.random()
        if choice < 0.25:
            query, _ = self._query(depth - 1, correlated)
            return f"{self.random.choice(['', 'NOT '])}EXISTS ({query})"
        if choice < 0.5:
            query, _ = self._block(depth - 1, correlated, ["INT"])
            return f"{left} {self.random.choice(['', 'NOT '])}IN ({query})"
        if choice < 0.75:
            query, _ = self._block(depth - 1, correlated, ["INT"])
            return f"{left} {self._operator()} {self.random.choice(['ANY', 'ALL'])} ({query})"
        query = self._scalar_query(depth - 1, correlated)
        if self._chance(0.3):
            return f"({query}) {self._operator()} {left}"
        return f"{left} {self._operator()} ({query})"

    def _scalar_query(self, depth: int, outer: list[_Item]) -> str:
        items, source = self._from(depth)
        where = self._where(items, outer, depth)
        return f"SELECT {self._aggregate(items, integers=True)} FROM {source}{where}§guard§"

    def _aggregate(self, items: list[_Item], integers: bool) -> str:
        column = self._column(items, "INT")
        options = ["COUNT(*)", f"COUNT({column})", f"SUM({column})", f"MIN({column})", f"MAX({column})",
                   f"COUNT(DISTINCT {column})", f"SUM(DISTINCT {column})"]  # fmt: skip
        if not integers:
            options += [f"AVG({column})", f"VAR_POP({column})", f"STDDEV_SAMP({column})", f"MEDIAN({column})"]
        aggregate = self.random.choice(options)
        if self._chance(0.1):
            aggregate += f" FILTER (WHERE {self._comparison(items)})"
        return aggregate

    def _grouping(
        self, items: list[_Item], outer: list[_Item], depth: int, wanted: list[str] | None
    ) -> tuple[list[tuple[str, str]], str]:
        """SELECT list and GROUP BY … HAVING; without keys it is a scalar aggregation."""
        keys = [] if self._chance(0.3) else [self._key(items)]
        if keys and self._chance(0.3):
            second = self._key(items)
            keys += [second] if second not in keys else []
        width = len(wanted) if wanted else self.random.randint(1, 3)
        outputs = []
        for _ in range(width):
            if keys and self._chance(0.4):
                outputs.append((self.random.choice(keys), "INT"))
            else:
                integers = wanted is not None or self._chance(0.5)
                kind = "INT" if integers else "FLOAT"
                outputs.append((self._aggregate(items, integers), kind))
        tail = f" GROUP BY {', '.join(keys)}" if keys else ""
        having = ""
        if self._chance(0.3):
            having = f"{self._aggregate(items, True)} {self._operator()} {self.random.randint(0, 4)}"
        if not keys:
            # an empty input has no row: the guard says so to an engine that would give one
            return outputs, (f" HAVING COUNT(*) > 0 AND {having}" if having else "§guard§")
        return outputs, tail + (f" HAVING {having}" if having else "")
