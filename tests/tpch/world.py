"""The 22 queries bound over windowed streams, and DuckDB beside them over the rows that are valid at an instant.

Each query is one text for both: without windows it is the standard's. Orders and items are raw streams with a
window in FROM, or carry their validity, and then need none.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import duckdb
import polars as pl
from sqlglot import exp

from tests.tpch.rows import BEGIN, SCHEMAS, STREAMS, TABLES, Made
from tidegate.algebra import operators as op
from tidegate.connectors import registry
from tidegate.kernels.rows import Frame
from tidegate.language.binder import BoundQuery, bind
from tidegate.language.catalog import Catalog
from tidegate.language.dialect import parse
from tidegate.language.statements import define
from tidegate.runtime.snapshots import without_order
from tidegate.session import Session
from tidegate.time import MAX, MIN

PLACE = Path(__file__).parent / "queries"
QUERIES = {path.stem: path.read_text() for path in sorted(PLACE.glob("q*.sql"))}
WINDOWED, LASTING = "windowed", "lasting"
CLAUSE = " WINDOW(RANGE 2 HOURS)"
INSTANTS = tuple(BEGIN + timedelta(hours=h, seconds=17) for h in (1, 2, 2.5, 3.9))
"""While the window fills, when it is full, and while most of it has been replaced."""


def definitions(shape: str) -> str:
    """Statements that define the eight relations, in memory."""
    made = []
    for name, columns in SCHEMAS.items():
        if name in TABLES:
            made.append(f"CREATE TABLE {name}({columns}) FROM memory('{name}');")
        elif name in STREAMS and shape == WINDOWED:
            made.append(
                f"CREATE STREAM {name}({columns}, placed TIMESTAMP) SOURCE memory('{name}') ORDERED BY placed;"
            )
        else:
            made.append(
                f"CREATE STREAM {name}({columns}, since TIMESTAMP, until TIMESTAMP) SOURCE memory('{name}') VALID (since, until);"
            )
    return "\n".join(made)


def catalog(shape: str) -> Catalog:
    return defined(registry.catalog(), definitions(shape))


def defined(known: Catalog, script: str) -> Catalog:
    for statement in parse(script):
        known = define(statement, known, script)
    return known


def text_of(name: str, shape: str) -> tuple[str, str]:
    """The definitions of a query's own views, and the query."""
    text = QUERIES[name] if shape == WINDOWED else QUERIES[name].replace(CLAUSE, "")
    *views, query = text.split(";")
    return ";".join(views), query.strip()


def bound(name: str, shape: str, known: Catalog) -> BoundQuery:
    """A query as it is asked at instants: its rows are a bag, ordered where LIMIT needs it."""
    views, query = text_of(name, shape)
    statement, _ = without_order(parse(query)[0])
    return bind(statement, defined(known, views), query)


def shuffled(name: str, dice: random.Random) -> op.Node:
    """A query with the tables of each FROM in another order."""
    views, text = text_of(name, WINDOWED)
    statement, _ = without_order(parse(text)[0])
    for select in statement.find_all(exp.Select):
        joins = select.args.get("joins") or []
        if any(j.args.get(k) for j in joins for k in ("on", "using", "side", "kind")):
            continue
        items = [select.args["from_"].this, *(j.this for j in joins)]
        dice.shuffle(items)
        select.args["from_"].set("this", items[0])
        for join, item in zip(joins, items[1:], strict=True):
            join.set("this", item)
    return bind(statement, defined(catalog(WINDOWED), views), text).plan


def register(session: Session, made: Made) -> None:
    """The rows as streams and tables of a session."""
    for name, rows in made.frames.items():
        if name in TABLES:
            session.table(name, rows, SCHEMAS[name])
        elif name in STREAMS:
            session.stream(name, rows, ordered_by="placed", schema=f"{SCHEMAS[name]}, placed TIMESTAMP")
        else:
            schema = f"{SCHEMAS[name]}, since TIMESTAMP, until TIMESTAMP"
            session.stream(name, rows, valid=("since", "until"), schema=schema)


def chunks(made: Made, shape: str) -> dict[str, Frame]:
    """The rows as kernels take them."""
    rows = made if shape == WINDOWED else made.with_validity()
    return {name: _chunk(name, frame) for name, frame in rows.frames.items()}


def _chunk(name: str, frame: Frame) -> Frame:
    if name in TABLES:
        times = {"ts": pl.lit(MIN), "te": pl.lit(MAX)}
        shown = frame
    elif "placed" in frame.columns:
        times = {"ts": pl.col("placed").dt.epoch("us"), "te": pl.col("placed").dt.epoch("us") + 1}
        shown = frame
    else:
        times = {"ts": pl.col("since").dt.epoch("us"), "te": pl.col("until").dt.epoch("us").fill_null(MAX)}
        shown = frame.drop("until")
    payload = [pl.col(c).alias(f"c{i}") for i, c in enumerate(shown.columns)]
    counted = {"n": pl.lit(1, pl.Int64), "seq": pl.int_range(pl.len(), dtype=pl.Int64)}
    return frame.select(*payload, **times, **counted)


def tick(instant: datetime) -> int:
    return round(instant.timestamp() * 1_000_000)


@dataclass
class Judge:
    """DuckDB over the rows that are valid at an instant."""

    made: Made

    def __post_init__(self) -> None:
        self.db = duckdb.connect()
        self.db.execute("SET threads = 1; SET TimeZone = 'UTC'")
        self.shown: datetime | None = None

    def at(self, name: str, instant: datetime) -> list[tuple[object, ...]]:
        """The rows of the answer, in its order."""
        if instant != self.shown:
            for table in SCHEMAS:
                self.db.register("incoming", self.made.shown(table, instant).to_arrow())
                self.db.execute(f"CREATE OR REPLACE TABLE {table} AS SELECT * FROM incoming")
            self.shown = instant
        views, query = text_of(name, LASTING)
        if views:
            self.db.execute(views.replace("CREATE VIEW", "CREATE OR REPLACE VIEW"))
        return self.db.execute(query).fetchall()
