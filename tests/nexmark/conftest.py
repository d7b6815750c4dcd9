"""Streams small enough for every run of the tests, as files, with DuckDB beside them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest
from pyspark.sql import SparkSession

from tests.nexmark.oracle import Oracle, Row
from tidegate.nexmark.catalog import query
from tidegate.nexmark.files import write_original, write_stream
from tidegate.nexmark.generator import BASE_TIME, Nexmark
from tidegate.query import Query
from tidegate.runtime.results import Result
from tidegate.session import connect

EVENTS = int(os.environ.get("TIDEGATE_NEXMARK_EVENTS", "20000"))
"""Few by default, so that every run of the tests can afford them; `make test-nexmark` takes 100,000."""
START = datetime.fromtimestamp(BASE_TIME / 1e6, UTC).replace(tzinfo=None)


@dataclass(frozen=True)
class Recorded:
    """Files, and DuckDB over them."""

    place: Path
    oracle: Oracle
    instants: tuple[datetime, ...]


@pytest.fixture(scope="package")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """50 seconds of event time, out of order by up to an eighth of a second, in five files."""
    place = tmp_path_factory.mktemp("slow")
    write_stream(Nexmark(EVENTS, 11, rate=EVENTS // 50, disorder=EVENTS // 400), place, part=EVENTS // 5)
    seconds = (0.9, 7.25, 11.999999, 20, 23.4, 39.9975, 49.9975, 53)
    return Recorded(place, Oracle(place), tuple(START + timedelta(seconds=s) for s in seconds))


@pytest.fixture(scope="package")
def dense(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """A fifth of a second: a hundred events and more happen at every instant."""
    place = tmp_path_factory.mktemp("dense")
    write_stream(Nexmark(EVENTS, 12, rate=EVENTS * 5, disorder=300), place)
    return Recorded(place, Oracle(place), tuple(START + timedelta(milliseconds=m) for m in (0, 77, 199)))


@pytest.fixture(scope="package")
def original(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """The original auction: some days of it."""
    place = tmp_path_factory.mktemp("original")
    write_original(EVENTS * 3 // 10, place, seed=13)
    start = datetime(2026, 1, 1)
    return Recorded(
        place, Oracle(place), tuple(start + timedelta(hours=h) for h in (0.7, 3, 5.55, 9.01, 30, 60))
    )


@pytest.fixture
def ask(spark: SparkSession) -> Callable[..., Query]:
    """A NEXMark query over files, bound in a session of its own."""
    sessions = []

    def bound(name: str, place: Path, options: str = "") -> Query:
        session = connect(spark=spark, partitions=2)
        sessions.append(session)  # a temporary state directory goes with its session
        session.function("count_char", lambda text, c: None if text is None else text.count(c), "INT", 2)
        definitions, text = query(name).statements(place)
        if options:
            definitions = definitions.replace("WITH (", f"WITH ({options}, ")
            definitions = definitions.replace("ORDERED BY arrival;", f"ORDERED BY arrival WITH ({options});")
        session.sql(definitions)
        return session.query(text)

    return bound


@dataclass(frozen=True)
class Answer:
    """The rows of a result, to be looked at instant by instant."""

    rows: pl.DataFrame

    def at(self, instant: datetime) -> list[Row]:
        """The snapshot: what the signed rows add up to."""
        t = round((instant - datetime(1970, 1, 1)) / timedelta(microseconds=1))
        valid = self.rows.filter((pl.col("ts") <= t) & (pl.col("te") > t))
        columns = [c for c in valid.columns if c not in ("ts", "te", "n")]
        counted = valid.group_by(columns).agg(pl.col("n").sum()).filter(pl.col("n") != 0)
        assert (counted["n"] > 0).all()
        return [row[:-1] for row in counted.rows() for _ in range(row[-1])]

    def instants(self) -> list[Row]:
        """All rows of an answer that consists of instants, each with its own."""
        assert (self.rows["te"] == self.rows["ts"] + 1).all()
        assert (self.rows["n"] > 0).all()
        moments = pl.from_epoch("ts", time_unit="us").cast(pl.Datetime("us"))
        rows = self.rows.with_columns(moments).drop("te")
        return [row[:-1] for row in rows.rows() for _ in range(row[-1])]


def answer(result: Result) -> Answer:
    found = pl.from_arrow(result.signed().toArrow())
    assert isinstance(found, pl.DataFrame)
    zoned = [
        pl.col(c).dt.replace_time_zone(None) for c, t in found.schema.items() if isinstance(t, pl.Datetime)
    ]
    return Answer(found.with_columns(zoned))
