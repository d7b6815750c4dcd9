"""SHOW QUERIES: what is known of every query, as a table, without waiting for an epoch."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession

from tidegate.errors import Diagnostic
from tidegate.session import Session, connect

ROWS = [
    {"room": "a", "degrees": 75, "t": 1},
    {"room": "b", "degrees": 90, "t": 3},
    {"room": "a", "degrees": 85, "t": 4},
    {"room": "c", "degrees": 81, "t": 6},
]
COUNTS = "SELECT room, COUNT(*) AS n FROM Temp WINDOW(RANGE 5) GROUP BY room"


@pytest.fixture
def tg(spark: SparkSession, tmp_path: Path) -> Iterator[Session]:
    session = connect(spark, state=str(tmp_path / "state"), partitions=2)
    session.stream("Temp", [], ordered_by="t", schema="room STRING, degrees INT, t BIGINT")
    session.stream("Moments", [], ordered_by="at", schema="a INT, at TIMESTAMP")
    yield session
    session.close()


def shown(tg: Session) -> dict[str, Row]:
    return {row.name: row for row in tg.sql("SHOW QUERIES").collect()}


def test_queries_are_shown_with_their_figures(tg: Session) -> None:
    plain = tg.query("SELECT room FROM Temp").start("plain", begin=False)
    tg.query(COUNTS).start("counts", begin=False)
    before = shown(tg)["plain"]
    assert (before.rate, before.delay, before.state_rows) == (None, None, None)
    graph = plain.run.graph
    graph._clock = itertools.count().__next__  # a second from one look at the clock to the next
    graph.advance({"Temp": ROWS})
    tg.query(f"SELECT room FROM ({COUNTS}) WHERE n > 1").start("many", begin=False)
    tg.query("SELECT room, MAX(degrees) AS m FROM Temp WINDOW(RANGE 4) GROUP BY room").start(
        "late", begin=False
    )
    tg.query("SELECT room FROM Temp WINDOW(ROWS 2)").start("last", begin=False)
    graph.advance({"Temp": [{"room": "b", "degrees": 1, "t": 6}]})
    found = shown(tg)
    assert list(found) == ["plain", "counts", "many", "late", "last"]
    assert {row.state for row in found.values()} == {"waiting"}
    assert {name: (r.since, r.complete, r.complete_from) for name, r in found.items()} == {
        "plain": (None, "from the beginning", None),
        "counts": (None, "from the beginning", None),
        "many": (6, "from complete_from on", 6),
        # of what it reads by itself, rows up to 6 may be missing; one at 6 would be shown before 10
        "late": (7, "from complete_from on", 10),
        "last": (7, "not known", None),
    }
    # five rows in epochs that began at 0 and ended at 3, each of which took a second
    assert {(round(r.rate, 6), r.delay) for r in found.values()} == {(round(5 / 3, 6), 1.0)}
    # the two rows at 6 are not final yet: they wait, and nothing else is kept for this query
    assert found["plain"].state_rows == 2
    assert found["plain"].state_bytes > 0
    assert found["counts"].state_rows > 2
    assert {name: list(r.shared_with) for name, r in found.items()} == {
        "plain": [],
        "counts": ["many"],
        "many": ["counts"],
        "late": [],
        "last": [],
    }


def test_times_are_times(tg: Session) -> None:
    live = tg.query("SELECT a FROM Moments").start("plain", begin=False)
    live.run.graph.advance({"Moments": [{"a": 1, "at": datetime(2026, 1, 1, 9, tzinfo=UTC)}]})
    tg.query("SELECT COUNT(*) AS n FROM Moments WINDOW(RANGE 1 MINUTE)").start("late", begin=False)
    table = tg.sql("SHOW QUERIES")
    assert dict(table.dtypes)["complete_from"] == "timestamp"
    assert table.where("name = 'late'").select("complete_from").collect()[0][0] == datetime(2026, 1, 1, 9, 1)
    tg.query(COUNTS).start("counts", begin=False)
    found = shown(tg)
    assert (found["late"].complete_from, found["counts"].complete_from) == (
        "2026-01-01 09:01:00.000000",
        None,
    )


def test_the_state_of_a_query_is_told(tg: Session) -> None:
    assert shown(tg) == {}
    first = tg.query("SELECT room, 100 DIV degrees AS d FROM Temp").start("first")
    tg.query(COUNTS).start("second")
    assert {r.state for r in shown(tg).values()} == {"running"}
    first.run.graph.lock.acquire()  # an epoch that goes on for ever: nobody who asks waits for it
    began = time.monotonic()
    assert list(shown(tg)) == ["first", "second"]
    assert time.monotonic() - began < 30
    first.run.graph.lock.release()
    tg.push("Temp", [{"room": "a", "degrees": 0, "t": 1}, {"room": "a", "degrees": 1, "t": 2}])
    with pytest.raises(Diagnostic, match="DIVIDE_BY_ZERO"):
        first.wait(60)
    assert {r.state for r in shown(tg).values()} == {"failed"}
    tg.sql("STOP second; STOP first")
    assert {name: r.state for name, r in shown(tg).items()} == {"first": "stopped"}
    tg.sql("DROP QUERY first")
    assert shown(tg) == {}
