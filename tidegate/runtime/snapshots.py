"""AS OF in SQL: which running queries a statement reads, and the order of what it shows.

A snapshot is shown once, so its rows may have an order, which an answer that goes on has not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

import polars as pl
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows
from sqlglot import exp

from tidegate.errors import Diagnostic, did_you_mean
from tidegate.language.catalog import Catalog
from tidegate.runtime.running import LiveQuery, Running
from tidegate.scalars.expressions import span_of
from tidegate.scalars.meaning import compile_scalar
from tidegate.types import TIMESTAMP, Type


def tables_in(statement: exp.Expression) -> Iterator[exp.Table]:
    """What a statement reads by name, apart from its own WITH."""
    own = {cte.alias.lower() for cte in statement.find_all(exp.CTE)}
    return (t for t in statement.find_all(exp.Table) if t.name.lower() not in own and not t.db)


def running_in(statement: exp.Expression, running: Running) -> dict[str, LiveQuery]:
    """The running queries that a statement reads, by their names."""
    found = (running.find(table.name) for table in tables_in(statement))
    return {query.name: query for query in found if query is not None}


def refuse_reading(statement: exp.Expression, running: Running, catalog: Catalog, text: str) -> None:
    """A running query can be asked for a snapshot; a query that goes on with it has to say what it computes."""
    for table in tables_in(statement):
        if running.find(table.name) is not None and catalog.find(table.name) is None:
            raise (
                Diagnostic(
                    "RUNNING_QUERY",
                    f"'{table.name}' is a running query: it has answers, and is no stream to read from",
                    help=f"ask for a snapshot (SELECT … FROM {table.name} AS OF t), or make a view of its text and read that",
                )
                .at(span_of(table.this))
                .locate(text)
            )


def without_order(statement: exp.Expression) -> tuple[exp.Expression, Ordering]:
    """The statement without an ORDER BY that no LIMIT needs, and the order of what it shows."""
    order, limited = statement.args.get("order"), statement.args.get("limit") is not None
    if order is None:
        return statement, Ordering()
    bare = statement.copy()
    if not limited:
        bare.set("order", None)
    return bare, Ordering(tuple(order.expressions), limited)


HIDDEN = "_tidegate_order_"


def with_order(asked: exp.Expression, order: Ordering) -> tuple[exp.Expression, Ordering]:
    """The statement with columns that it is ordered by and does not select, which are hidden again.

    Where rows are made one (DISTINCT) or come from several queries, only what is selected can order them.
    """
    if not isinstance(asked, exp.Select) or asked.args.get("distinct") is not None:
        return asked, order
    named = {e.alias_or_name.lower() for e in asked.expressions}
    everything = any(e.is_star for e in asked.expressions)
    wider, terms = asked.copy(), []
    for term in order.terms:
        this = term.this
        plain = isinstance(this, exp.Column) and not this.table and (everything or this.name.lower() in named)
        if not plain and not isinstance(this, exp.Literal):
            name = f"{HIDDEN}{len(wider.expressions)}"
            wider.select(exp.alias_(this.copy(), name), copy=False)
            term = term.copy()
            term.set("this", exp.column(name))
        terms.append(term)
    return wider, Ordering(tuple(terms), order.optional)


@dataclass(frozen=True)
class Ordering:
    """Columns of a result, by name or number. Where LIMIT has had its say already, others are left out."""

    terms: tuple[exp.Expression, ...] = ()
    optional: bool = False

    def applied(self, rows: DataFrame) -> DataFrame:
        names = rows.columns
        places = [self._place(t.this, names) for t in self.terms]
        if not places or None in places:
            return rows
        by = [_direction(t, f"c{p}") for t, p in zip(self.terms, places, strict=True)]
        ordered = rows.toDF(*(f"c{i}" for i in range(len(names)))).orderBy(*by)
        shown = [i for i, name in enumerate(names) if not name.startswith(HIDDEN)]
        return ordered.select(*(f"c{i}" for i in shown)).toDF(*(names[i] for i in shown))

    def applied_here(self, rows: pa.Table) -> pa.Table | None:
        """The same for rows of this process; None: Spark is to order them."""
        places = [self._place(t.this, rows.column_names) for t in self.terms]
        if not places or None in places:
            return rows
        numbered = pl.DataFrame([pl.Series(f"c{p}", rows.column(p)) for p in dict.fromkeys(places)])
        if any(t.is_nested() or t == pl.Binary for t in numbered.dtypes):
            return None
        order = numbered.select(
            pl.arg_sort_by(
                [f"c{p}" for p in places],
                descending=[bool(t.args.get("desc")) for t in self.terms],
                nulls_last=[not t.args.get("nulls_first") for t in self.terms],
                maintain_order=True,
            )
        ).to_series()
        shown = [i for i, name in enumerate(rows.column_names) if not name.startswith(HIDDEN)]
        return rows.select(shown).take(order.to_arrow())

    def _place(self, term: exp.Expression, names: list[str]) -> int | None:
        lowered = [n.lower() for n in names]
        if isinstance(term, exp.Column) and term.name.lower() in lowered:
            return lowered.index(term.name.lower())
        numbers = [str(i + 1) for i in range(len(names))]
        if isinstance(term, exp.Literal) and not term.is_string and term.name in numbers:
            return numbers.index(term.name)
        if self.optional:
            return None
        raise Diagnostic(
            "UNKNOWN_COLUMN",
            "ORDER BY without LIMIT takes columns of the result",
            help=did_you_mean(term.name, names, "columns"),
        ).at(span_of(term))


def _direction(term: exp.Expression, name: str) -> Column:
    column, first = F.col(name), bool(term.args.get("nulls_first"))
    if term.args.get("desc"):
        return column.desc_nulls_first() if first else column.desc_nulls_last()
    return column.asc_nulls_first() if first else column.asc_nulls_last()


def instant_of(node: exp.Expression, domain: Type | None, text: str) -> int | datetime:
    """The instant that AS OF names, in the kind of time that a query has."""
    try:
        value = compile_scalar(node, (), {})(())
        if isinstance(value, str) and domain == TIMESTAMP:
            value = compile_scalar(exp.cast(node, "timestamp"), (), {})(())
    except Diagnostic as diagnostic:
        raise diagnostic.at(span_of(node)).locate(text) from None
    expected = datetime if domain == TIMESTAMP else int
    if not isinstance(value, (expected, int)):
        kind = "a TIMESTAMP" if domain == TIMESTAMP else "an integer"
        raise Diagnostic("TIME_DOMAIN", f"AS OF needs {kind} here").at(span_of(node)).locate(text)
    return value
