"""Queries that are started with their history over rows that were handed in: they answer as if they had been there from the beginning.

The reference judges: it is given the rows that counted, and asked at every instant. `test_joining.py` does the same for files.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tidegate.errors import Diagnostic
from tidegate.runtime.kept_rows import MANY
from tidegate.runtime.running import LiveQuery
from tidegate.session import Session, connect
from tidegate.time import MIN

ROWS = [{"k": i % 5, "v": (i * 7) % 11, "t": i // 2} for i in range(40)]
TEXTS = {
    "window": "SELECT k, COUNT(*) AS n FROM S WINDOW(RANGE 9) GROUP BY k",
    "rows": "SELECT k, v FROM S WINDOW(PARTITION BY k ROWS 2)",
    "relation": "SELECT k, v FROM K WHERE v > 2",
    "insertions": "SELECT * FROM ISTREAM(SELECT v, COUNT(*) AS n FROM S WINDOW(RANGE 4) GROUP BY v)",
    "named": "SELECT s.v, T.label FROM S WINDOW(RANGE 3) s JOIN T ON s.k = T.k",
}


def opened(spark: SparkSession, place: Path | None, rows: Any = (), **more: Any) -> Session:
    session = connect(spark=spark, state=None if place is None else str(place), partitions=2)
    session.stream("S", list(rows), schema="k INT, v INT, t BIGINT", ordered_by="t", **more)
    session.table("T", [(1, "one"), (2, "two"), (2, "zwei")], schema="k INT, label STRING")
    session.sql("CREATE STREAM K OVER S KEY k")
    return session


def handed_in(query: LiveQuery, session: Session, rows: list[dict[str, Any]], size: int = 3) -> None:
    """Rows in small hand-ins, one per epoch."""
    for i in range(0, len(rows), size):
        session.push("S", rows[i : i + size])
        query.run.drain()


def snapshots(answer: Any, instants: range) -> list[Counter[tuple[Any, ...]]]:
    rows = [tuple(r) for r in answer.intervals().collect()]
    return [
        Counter(r[:-2] for r in rows if (r[-2] is None or r[-2] <= t) and (r[-1] is None or t < r[-1]))
        for t in instants
    ]


def check(spark: SparkSession, live: dict[str, LiveQuery], rows: list[dict[str, Any]]) -> None:
    """Answers over some rows are the reference's, at every instant."""
    whole = opened(spark, None, rows)
    for name, query in live.items():
        judged = whole.query(TEXTS[name])
        recorded = judged.run()
        assert judged.verify(result=recorded), name
        assert snapshots(query, range(40)) == snapshots(recorded, range(40)), name


def test_rows_that_were_handed_in_are_told_again(spark: SparkSession, tmp_path: Path) -> None:
    """Late rows and rows that cannot be used are among them; the program ends before the query starts, and after."""
    session = opened(spark, tmp_path)
    first = session.query("SELECT v FROM S").start("first", begin=False)
    handed_in(first, session, ROWS[:12])
    # Time has passed up to 5: both are late, and one of them would be the newest of its key.
    session.push("S", [{"k": 3, "v": 9, "t": 2}, {"k": 4, "v": 9, "t": 4}])
    first.run.drain()
    assert first.status()["sources"]["S"]["quarantine"] == {"later than promised": 2}
    session.close()
    session = opened(spark, tmp_path)
    first = session.query("SELECT v FROM S").start("first", begin=False)
    handed_in(first, session, ROWS[12:18])
    late = {n: session.query(text).start(n, begin=False, history=True) for n, text in TEXTS.items()}
    # In the same gap, without history: it must not be told what it does not claim.
    beside = session.query(TEXTS["window"]).start("beside", begin=False)
    assert {q.complete_from for q in late.values()} == {MIN}
    assert beside.complete_from == 8 + 9
    assert first.status()["catching_up"] == dict.fromkeys(TEXTS, 0.0)
    assert not late["rows"].catch_up(seconds=0)
    handed_in(first, session, ROWS[18:24])
    told: list[float] = []
    assert late["rows"].catch_up(told.append)
    assert told[-1] == 1.0
    assert first.status()["catching_up"] == {}
    session.close()
    session = opened(spark, tmp_path)
    first = session.query("SELECT v FROM S").start("first", begin=False)
    late = {n: session.query(text).start(n, begin=False, history=True) for n, text in TEXTS.items()}
    beside = session.query(TEXTS["window"]).start("beside", begin=False)
    handed_in(first, session, ROWS[24:], 8)
    first.run.finish()
    check(spark, late, ROWS)
    whole = snapshots(late["window"], range(40))
    assert snapshots(beside, range(17, 40)) == whole[17:]
    assert not any(snapshots(beside, range(8))), "it would have been told rows of before"
    session.close()


def test_many_hand_ins_are_merged_and_read_once(spark: SparkSession, tmp_path: Path) -> None:
    session = opened(spark, tmp_path)
    first = session.query("SELECT v FROM S").start("first", begin=False)
    first.run.graph.epochs.asked = "driver"
    rows = [{"k": i % 3, "v": i % 7, "t": i // 5} for i in range(MANY + 10)]
    handed_in(first, session, rows[:MANY], 1)
    (folder,) = tmp_path.glob("graphs/*/read/S")
    # The rows that were given with the stream, none, are a hand-in, too: the first 64 are one file, and one is by itself.
    assert len(list(folder.iterdir())) == 2
    handed_in(first, session, rows[MANY:], 1)
    assert len(list(folder.iterdir())) == 12
    # A program that dies while it merges leaves files that are in the merged one already.
    held = pq.read_schema(min(folder.iterdir())).metadata[b"tidegate.holds"].decode().split("\n")
    (folder / held[0]).write_bytes(max(folder.iterdir()).read_bytes())
    late = {n: session.query(TEXTS[n]).start(n, begin=False, history=True) for n in ("window", "rows")}
    first.run.finish()
    assert not (folder / held[0]).exists()
    check(spark, late, rows)
    session.close()


def test_rows_that_retention_has_deleted_are_named(spark: SparkSession, tmp_path: Path) -> None:
    session = opened(spark, tmp_path)
    first = session.query("SELECT v FROM S").start("first", begin=False, retention=3)
    first.run.graph.epochs.asked = "driver"
    rows = [{"k": 1, "v": i, "t": i} for i in range(24)]
    handed_in(first, session, rows[:8], 1)
    session.query("SELECT k FROM S").start("early", begin=False, history=True)  # all is still there
    handed_in(first, session, rows[8:], 1)
    # Files go when 16 of them are old: that of no rows and those of 0 … 14, when the horizon, 3 before the newest, has passed 14.
    with pytest.raises(Diagnostic, match=r"HISTORY_GONE.*rows of 'S' before 15 are gone"):
        session.query(TEXTS["rows"]).start("late", begin=False, history=True)
    (folder,) = tmp_path.glob("graphs/*/read/S")
    assert len(list(folder.iterdir())) < 10
    session.close()


def test_stamped_rows_keep_their_stamps(spark: SparkSession, tmp_path: Path) -> None:
    """Rows without a time of their own get one as they are handed in: told again, they have it still."""
    session = connect(spark=spark, state=str(tmp_path), partitions=2)
    session.stream("C", [], schema="page STRING")
    text = "SELECT page, COUNT(*) AS n FROM C WINDOW(RANGE 1 DAY) GROUP BY page"
    first = session.query(text).start("first", begin=False)
    graph, now = first.run.graph, datetime(2026, 1, 1, tzinfo=UTC)
    for hour, page in ((0, "a"), (1, "b"), (2, "a")):
        moment = int((now + timedelta(hours=hour)).timestamp()) * 1_000_000
        graph.wall = lambda moment=moment: moment  # type: ignore[misc]
        session.push("C", [{"page": page}, {"page": "c"}])
        first.run.drain()
    graph.wall = lambda: int((now + timedelta(hours=3)).timestamp()) * 1_000_000
    late = session.query(f"SELECT page FROM ({text}) WHERE n > 1").start("over", begin=False)
    again = session.query("SELECT page, COUNT(*) AS many FROM C WINDOW(RANGE 2 DAYS) GROUP BY page").start(
        "again", begin=False, history=True
    )
    assert late.complete_from != MIN
    first.run.drain()
    first.run.finish()

    def begins(answer: LiveQuery) -> list[Any]:
        return sorted((r[0], r[1], r[2]) for r in answer.intervals().collect() if r[2].day == 1)

    assert begins(first) == begins(again)
    assert len(begins(again)) == 6  # a: 1, 2; b: 1; c: 1, 2, 3
    session.close()
