"""Random queries as text, from a seed: blocks, joins of every kind, set operations, nested queries, aggregates, top-k.

What stands in FROM comes from `relations`, what is computed from `kinds`. A query says itself in two languages (`kinds.said`); items are
`§n§`, the instant is `§now§`.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field, replace
from functools import cached_property

from tests.fuzz.choices import settings_in
from tests.fuzz.kinds import AGGREGATES, BY_TIME, FUNCTIONS, KINDS, NUMBERS, AggregateForm, both, said
from tests.fuzz.relations import Leaf, Relations
from tests.fuzz.streams import IN_BATCHES, INTEGERS, TIMESTAMPS, Streams, generate
from tidegate.algebra import operators as op
from tidegate.language.binder import BoundQuery, bind
from tidegate.language.catalog import Catalog
from tidegate.language.dialect import parse
from tidegate.optimizer.driver import optimize
from tidegate.reference.snapshots import Reference
from tidegate.time import BATCHES

Column = tuple[str, str]
"""A name and a kind."""

COMPARISONS = ("=", "=", "<>", "<", "<=", ">", ">=", "«<=>¦IS NOT DISTINCT FROM»")


@dataclass(frozen=True)
class Case:
    """Streams and a query over them."""

    seed: int
    streams: Streams
    text: str
    leaves: tuple[Leaf, ...] = ()
    views: tuple[tuple[str, str], ...] = ()

    def tidegate(self) -> str:
        return self._filled(self.text)

    def _filled(self, text: str) -> str:
        text = said(text, duckdb=False).replace("§now§", "NOW")
        for k, leaf in enumerate(self.leaves):
            text = text.replace(f"§{k}§", leaf.text)
        return text.replace("§", "")

    @property
    def named_views(self) -> list[tuple[str, str]]:
        return [(n, self._filled(q)) for n, q in self.views]

    def duckdb(self) -> str:
        """The same for DuckDB; items and the instant are still marks."""
        text = self.text
        for name, query in reversed(self.views):
            text = text.replace(f"§{name}§", f"({query})")
        return said(text, duckdb=True)

    @cached_property
    def catalog(self) -> Catalog:
        return self.streams.catalog("".join(f"CREATE VIEW {n} AS {q};" for n, q in self.named_views))

    @cached_property
    def bound(self) -> BoundQuery:
        text = self.tidegate()
        return bind(parse(text)[0], self.catalog, text)

    @property
    def width(self) -> int:
        return BATCHES if self.bound.batches else 1

    @cached_property
    def plan(self) -> op.Node:
        return self.bound.plan

    @cached_property
    def optimized(self) -> op.Node:
        return optimize(self.plan)[0]

    @cached_property
    def reference(self) -> Reference:
        sources, known = self.streams.sources(self.width), self.catalog
        return Reference(sources, known.functions, known.aggregates, settings=settings_in(self.plan))

    def over(self, streams: Streams) -> Case:
        """The same query over other rows."""
        return replace(self, streams=streams)


@dataclass
class Item:
    """An item of FROM."""

    text: str
    alias: str
    columns: list[Column]
    ends: bool = False
    base: bool = False
    """Whether it is a stream whose own rows have a TS, so that FIRST and LAST know which is first."""

    def named(self, kind: str) -> list[str]:
        return [f"{self.alias}.{n}" for n, k in self.columns if k == kind]

    @property
    def times(self) -> list[str]:
        return [f"{self.alias}.{n}" for n, _ in self.columns if n == "TS"]


@dataclass
class Generator:
    """Everything is drawn from one seeded source of randomness."""

    seed: int
    mode: str | None = None
    ranged: bool = False
    """Whether most windows have quality ranges."""
    leaves: list[Leaf] = field(default_factory=list)
    views: list[tuple[str, str]] = field(default_factory=list)
    aliases: int = 0

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        drawn = self.dice.choice((INTEGERS, INTEGERS, INTEGERS, TIMESTAMPS, IN_BATCHES))
        self.mode = self.mode or drawn
        self.relations = Relations(self.dice, self.mode, self.ranged)

    def case(self, slack: int | None = None) -> Case:
        drawn = self.dice.choice((0, 0, 3))
        streams = generate(self.dice, self.mode or INTEGERS, drawn if slack is None else slack)
        text, _, _ = self.query(self.dice.choice((1, 2, 2, 3)), [])
        return Case(self.seed, streams, text, tuple(self.leaves), tuple(self.views))

    def chance(self, p: float) -> bool:
        return self.dice.random() < p

    # queries -------------------------------------------------------------------------------------------------------------

    def query(self, depth: int, outer: list[Item]) -> tuple[str, list[Column], bool]:
        """A query, its columns, and whether all its rows end."""
        if depth > 1 and self.chance(0.15):
            kinds = self.kinds(self.dice.choice((1, 2)))
            word = self.dice.choice(("UNION", "EXCEPT", "INTERSECT"))
            all_ = self.chance(0.5)
            left, _, a = self.block(depth - 1, outer, kinds, distinct=not all_)
            right, _, b = self.block(depth - 1, outer, kinds, distinct=not all_)
            columns = [(f"x{i}", k) for i, k in enumerate(kinds)]
            return f"{left} {word}{' ALL' if all_ else ''} {right}", columns, a and b
        return self.block(depth, outer, None)

    def kinds(self, count: int) -> list[str]:
        return self.dice.choices(list(KINDS), (5, 2, 2, 2, 3, 1, 1, 1, 1, 1), k=count)

    def present(self, items: list[Item], count: int = 1) -> list[str]:
        """Kinds of which there are columns, most of the time."""
        there = [k for i in items for _, k in i.columns]
        return [k if self.chance(0.2) else self.dice.choice(there) for k in self.kinds(count)]

    def block(
        self, depth: int, outer: list[Item], wanted: list[str] | None, distinct: bool = False
    ) -> tuple[str, list[Column], bool]:
        items, source = self.from_(depth)
        where = self.where(items, outer, depth)
        tail = ""
        if self.chance(0.4):
            outputs, tail = self.grouping(items, wanted)
        else:
            kinds = wanted or self.present(items, self.dice.randint(1, 3))
            outputs = [(self.scalar(items, k, depth, True), k) for k in kinds]
        word = "DISTINCT " if not tail and not distinct and self.chance(0.2) else ""
        columns = [(f"x{i}", k) for i, (_, k) in enumerate(outputs)]
        select = ", ".join(f"{e} AS x{i}" for i, (e, _) in enumerate(outputs))
        text = f"SELECT {word}{select} FROM {source}{where}{tail}"
        if wanted is None and self.chance(0.15):
            text = self.first_rows(text, columns)
        return text, columns, all(i.ends for i in items)

    def first_rows(self, text: str, columns: list[Column]) -> str:
        """ORDER BY … LIMIT, or the first rows of each partition; ties by all columns."""
        names = [n for n, _ in columns]
        keys = self.dice.sample(names, self.dice.randint(1, len(names)))
        terms = ", ".join(
            f"{k} {self.dice.choice(('ASC', 'DESC'))} NULLS {self.dice.choice(('FIRST', 'LAST'))}"
            for k in keys
        )
        tie = "".join(f", {n} ASC NULLS FIRST" for n in names)
        order = terms + both("", tie if all(KINDS[k].ordered for _, k in columns) else None)
        if self.chance(0.7):
            offset = f" OFFSET {self.dice.randint(1, 2)}" if self.chance(0.2) else ""
            return f"SELECT * FROM ({text}) {self.alias()} ORDER BY {order} LIMIT {self.dice.randint(1, 3)}{offset}"
        part = "" if self.chance(0.3) else f"PARTITION BY {self.dice.choice(names)} "
        ranked = f"ROW_NUMBER() OVER ({part}ORDER BY {order}) <= {self.dice.randint(1, 2)}"
        return f"SELECT {', '.join(names)} FROM ({text}) {self.alias()} QUALIFY {ranked}"

    # FROM ----------------------------------------------------------------------------------------------------------------

    def alias(self) -> str:
        self.aliases += 1
        return f"q{self.aliases}"

    def leaf(self, made: Leaf | None = None) -> Item:
        found = made or self.relations.leaf()
        self.leaves.append(found)
        alias = self.alias()
        return Item(
            f"§{len(self.leaves) - 1}§ {alias}", alias, list(found.columns), found.ends, found.text != "Again"
        )

    def item(self, depth: int) -> Item:
        if depth < 2 or self.chance(0.65):
            return self.leaf()
        text, columns, ends = self.query(depth - 1, [])
        alias = self.alias()
        words = self.relations.words
        form = self.dice.choice(("plain", "plain", "with", "view", "view", "changes", "sync", "window"))
        if form == "view":
            self.views.append((f"V{len(self.views)}", text))
            return Item(f"§V{len(self.views) - 1}§ {alias}", alias, columns, ends)
        said_ = f"({text})"
        if form == "with":
            said_ = f"(WITH c{alias} AS ({text}) SELECT * FROM c{alias})"
        elif form == "changes":
            said_ = both(f"{self.dice.choice(('ISTREAM', 'DSTREAM'))}({text})", None)
            ends = True
        elif form == "sync" and self.changes(text):
            points, _ = self.relations.points(0)
            said_ += both(f" SYNC BY ({points})", None)
            ends = False
        elif form == "window" and ends and self.mode != IN_BATCHES:
            window = self.relations.over_derived()
            grain = f" GRANULARITY {words.span(1)}" if words.seconds else ""
            said_ += both(f" WINDOW({window.text}{grain})", None)
            ends = window.ends
        return Item(f"{said_} {alias}", alias, columns, ends)

    def changes(self, text: str) -> bool:
        """Whether a query reads anything but tables."""
        views = dict(self.views)
        for mark in re.findall(r"§(\w+)§", text):
            if (
                self.changes(views[mark])
                if mark in views
                else mark.isdigit() and self.leaves[int(mark)].text != "T"
            ):
                return True
        return False

    def from_(self, depth: int) -> tuple[list[Item], str]:
        items = [self.item(depth)]
        text = items[0].text
        visible = items[:]
        for _ in range(self.dice.choice((0, 0, 0, 1, 1, 2))):
            item = self.item(depth)
            kind = self.dice.choice(
                (",", "JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI", "ANTI", "USING")
            )
            shared = [
                n for n, k in item.columns if n != "TS" and (n, k) in visible[-1].columns and k != "DOUBLE"
            ]
            if kind == "USING" and len(visible) == 1 and shared:
                text += f" {self.dice.choice(('JOIN', 'LEFT JOIN'))} {item.text} USING ({self.dice.choice(shared)})"
                visible.append(item)
            elif kind in (",", "USING"):
                text += f", {item.text}"
                visible = [item]  # a comma binds weaker than JOIN: ON sees only what follows it
            elif kind in ("SEMI", "ANTI"):
                text += (
                    f" {both(f'LEFT {kind} JOIN', f'{kind} JOIN')} {item.text} ON {self.pair(visible, item)}"
                )
                continue
            else:
                text += f" {kind} {item.text} ON {self.pair(visible, item)}"
                visible.append(item)
            items.append(item)
        return items, text

    def pair(self, items: list[Item], item: Item) -> str:
        """A join condition between what was there and what comes."""
        shared = {k for i in items for _, k in i.columns} & {k for _, k in item.columns}
        kind = self.dice.choice(("INT", "INT", *sorted(shared)))
        word = self.dice.choice(("=", "=", "=", "<", "<>", ">=", "«<=>¦IS NOT DISTINCT FROM»"))
        extra = f" AND {self.comparison([*items, item])}" if self.chance(0.2) else ""
        left, right = self.column(items, kind), self.column([item], kind)
        return f"{self.compared(left, word, right, kind)}{extra}"

    # expressions -----------------------------------------------------------------------------------------------------------

    def column(self, items: list[Item], kind: str) -> str:
        fitting = [c for i in items for c in i.named(kind)]
        if fitting:
            return self.dice.choice(fitting)
        made = [f for f in FUNCTIONS if f.result == kind and len(f.arguments) == 1 and f.arguments[0] != kind]
        if kind == "INT" or self.chance(0.5):
            for function in self.dice.sample(made, len(made)):
                below = [c for i in items for c in i.named(function.arguments[0])]
                if below:
                    return function.call([self.dice.choice(below)])
        return self.dice.choice(KINDS[kind].constants)

    def scalar(self, items: list[Item], kind: str, depth: int = 1, nested: bool = False) -> str:
        if nested and depth > 1 and kind in ("BIGINT", "INT") and self.chance(0.1):
            return f"({self.scalar_query(depth - 1, items)})"
        if self.chance(0.6):
            return self.column(items, kind)
        if kind == "BOOLEAN" and self.chance(0.6):
            return f"({self.comparison(items)})"
        function = self.dice.choice([f for f in FUNCTIONS if f.result == kind] or [None])
        if function is None:
            return self.column(items, kind)
        return function.call([
            f"({self.comparison(items)})" if k == "BOOLEAN" and kind != "INT" else self.column(items, k)
            for k in function.arguments
        ])  # fmt: skip

    def compared(self, left: str, word: str, right: str, kind: str) -> str:
        text = f"{left} {word} {right}"
        exact = word in ("=", "<>") or word.startswith("«")
        return text if exact or KINDS[kind].ordered else both(text, None)

    def comparison(self, items: list[Item]) -> str:
        (kind,) = self.present(items)
        left = self.column(items, kind)
        choice = self.dice.random()
        if choice < 0.2:
            return f"{left} IS {self.dice.choice(('', 'NOT '))}NULL"
        if choice < 0.3:
            values = [
                self.dice.choice(KINDS[kind].constants),
                self.dice.choice((*KINDS[kind].constants, "NULL")),
            ]
            return f"{left} {self.dice.choice(('', 'NOT '))}IN ({', '.join(values)})"
        if choice < 0.4 and KINDS[kind].ordered:
            return f"{left} BETWEEN {self.column(items, kind)} AND {self.dice.choice(KINDS[kind].constants)}"
        if choice < 0.45 and kind == "STRING":
            return f"{left} LIKE '%{self.dice.choice('xyz')}%'"
        other = self.dice.choice(NUMBERS) if kind in NUMBERS and self.chance(0.3) else kind
        right = self.column(items, other) if self.chance(0.5) else self.dice.choice(KINDS[other].constants)
        return self.compared(left, self.dice.choice(COMPARISONS), right, kind)

    # conditions ------------------------------------------------------------------------------------------------------------

    def where(self, items: list[Item], outer: list[Item], depth: int) -> str:
        conditions = []
        if outer and self.chance(0.7):
            for _ in range(self.dice.choice((1, 1, 2))):
                kind = self.dice.choice(("INT", "INT", "STRING", "DOUBLE", "BIGINT"))
                word = self.dice.choice(("=", "=", "=", "<", ">=", "<>"))
                conditions.append(f"{self.column(items, kind)} {word} {self.column(outer, kind)}")
        count = self.dice.choice((0, 0, 1, 1, 2))
        conditions += [self.condition(items, outer, depth) for _ in range(count)]
        times = [t for i in items for t in i.times]
        if times and self.chance(0.12):
            conditions.append(self.now_condition(self.dice.choice(times)))
        return f" WHERE {' AND '.join(conditions)}" if conditions else ""

    def now_condition(self, time: str) -> str:
        n, w = self.dice.randint(1, 6), self.relations.words.interval
        return self.dice.choice((
            f"§now§ < {time} + {w(n)}", f"{time} + {w(n)} <= §now§", f"§now§ - {w(n)} < {time}",
            f"§now§ BETWEEN {time} AND {time} + {w(n)}",
        ))  # fmt: skip

    def condition(self, items: list[Item], outer: list[Item], depth: int) -> str:
        if depth > 1 and self.chance(0.55):
            nested = self.nested_condition(items, outer, depth)
            if self.chance(0.2):
                return f"({nested} OR {self.comparison(items)})"
            return f"NOT ({nested})" if self.chance(0.1) else nested
        if self.chance(0.15):
            return f"({self.comparison(items)} OR {self.comparison(items)})"
        return f"NOT ({self.comparison(items)})" if self.chance(0.1) else self.comparison(items)

    def nested_condition(self, items: list[Item], outer: list[Item], depth: int) -> str:
        visible = [*items, *outer] if self.chance(0.3) else items
        correlated = visible if self.chance(0.6) else []
        kind = self.dice.choice(("INT", "INT", "STRING", "DOUBLE", "DECIMAL", "DATE"))
        left, choice = self.scalar(items, kind), self.dice.random()
        if choice < 0.25:
            query, _, _ = self.query(depth - 1, correlated)
            return f"{self.dice.choice(('', 'NOT '))}EXISTS ({query})"
        if choice < 0.75:
            query, _, _ = self.block(depth - 1, correlated, [kind])
            if choice < 0.5:
                return f"{left} {self.dice.choice(('', 'NOT '))}IN ({query})"
            return f"{left} {self.dice.choice(COMPARISONS[:-1])} {self.dice.choice(('ANY', 'ALL'))} ({query})"
        word, query = self.dice.choice(COMPARISONS[:-1]), self.scalar_query(depth - 1, correlated)
        left = self.scalar(items, "INT")
        return f"({query}) {word} {left}" if self.chance(0.3) else f"{left} {word} ({query})"

    # aggregates ------------------------------------------------------------------------------------------------------------

    def scalar_query(self, depth: int, outer: list[Item]) -> str:
        items, source = self.from_(depth)
        where = self.where(items, outer, depth)
        forms = [f for f in AGGREGATES if f.result == "BIGINT"]
        return f"SELECT {self.aggregate(items, forms)[0]} FROM {source}{where}«¦ HAVING COUNT(*) > 0»"

    def aggregate(self, items: list[Item], forms: list[AggregateForm]) -> Column:
        by_time = [f for f in BY_TIME if any(f.result == g.result for g in forms)]
        if by_time and [i.base for i in items] == [True] and items[0].times and self.chance(0.15):
            forms = by_time
        there = {k for i in items for _, k in i.columns}
        fitting = [f for f in forms if there.issuperset(f.arguments)]
        form = self.dice.choice(fitting or forms)
        arguments = [
            self.scalar(items, k) if self.chance(0.3) else self.column(items, k) for k in form.arguments
        ]
        distinct = form.distinct and self.chance(0.25)
        condition = self.comparison(items) if self.chance(0.15) else None
        return form.call(arguments, distinct, condition), form.result

    def grouping(self, items: list[Item], wanted: list[str] | None) -> tuple[list[Column], str]:
        """SELECT list and GROUP BY … HAVING; without keys it is a scalar aggregation."""
        keys = [] if self.chance(0.3) else self.keys(items, self.present(items, self.dice.choice((1, 1, 2))))
        outputs: list[Column] = []
        for kind in wanted or [None] * self.dice.randint(1, 3):
            named = [(e, k) for e, k in keys if kind in (None, k)]
            if named and self.chance(0.4):
                outputs.append(self.dice.choice(named))
                continue
            forms = [f for f in AGGREGATES if kind in (None, f.result)]
            if not forms and kind is not None:  # no aggregate gives this kind: the greatest of it does
                forms = [AggregateForm(kind, (kind,), "MAX({0})", None)]
            outputs.append(self.aggregate(items, forms))
        several = bool(keys) and self.chance(0.2)
        listed = ", ".join(e for e, _ in keys)
        if several:
            sets = f"{self.dice.choice(('ROLLUP', 'CUBE'))} ({listed})"
            listed = sets if self.chance(0.7) else f"GROUPING SETS (({listed}), {keys[0][0]}, ())"
        tail = f" GROUP BY {listed}" if keys else ""
        having = ""
        if self.chance(0.3):
            counts = [f for f in AGGREGATES if f.result == "BIGINT"]
            having = f"{self.aggregate(items, counts)[0]} {self.dice.choice(COMPARISONS[:-1])} {self.dice.randint(0, 4)}"
        if not keys or several:
            # an empty input has no row: the guard says so to an engine that would give one
            return outputs, tail + (
                f" HAVING COUNT(*) > 0 AND {having}" if having else "«¦ HAVING COUNT(*) > 0»"
            )
        return outputs, tail + (f" HAVING {having}" if having else "")

    def keys(self, items: list[Item], kinds: list[str]) -> list[Column]:
        """What is grouped by: columns, or expressions of them; a bare constant would be an ordinal."""
        found = []
        for kind in kinds:
            columns = [c for i in items for c in i.named(kind)]
            if columns:
                found.append((self.dice.choice(columns), kind))
        if not found:
            found = [(f"({self.column(items, 'INT')} + 0)", "INT")]
        return list(dict.fromkeys(found))
