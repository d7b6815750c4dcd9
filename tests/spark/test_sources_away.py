"""A source that vanishes is asked again, after pauses that grow, and its rows count once."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tidegate
from tidegate import Diagnostic, Session


@pytest.fixture
def tg(spark: SparkSession, tmp_path: Path) -> Iterator[Session]:
    session = tidegate.connect(spark, state=str(tmp_path / "state"), partitions=2)
    yield session
    session.close()


def until(holds: Callable[[], bool], seconds: float = 240) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not come to be in time"
        threading.Event().wait(0.05)


class Feed:
    """Rows of a program, which may be away."""

    def __init__(self, rows: int) -> None:
        self.rows = [{"a": i, "t": i} for i in range(rows)]
        self.away: Exception | None = None
        self.asked = 0

    def __call__(self, offset: int | None) -> tuple[list[dict[str, int]], int]:
        self.asked += 1
        if self.away is not None:
            raise self.away
        start = offset or 0
        return self.rows[start : start + 2], min(start + 2, len(self.rows))


def followed(tg: Session, feed: Feed) -> None:
    tg.source("feed", live=feed)
    tg.sql("CREATE STREAM S(a INT, t BIGINT) SOURCE feed() ORDERED BY t")


COUNT = "SELECT COUNT(*) AS n FROM S WINDOW(RANGE UNBOUNDED)"


def test_a_function_that_is_away_is_asked_again_and_others_go_on(
    tg: Session, caplog: pytest.LogCaptureFixture
) -> None:
    feed = Feed(4)
    feed.away = tidegate.SourceAwayError("no answer from mongodb://ann:sesame@host/db")
    followed(tg, feed)
    tg.stream("Other", [{"b": 1, "t": 1}], ordered_by="t")
    q = tg.query(COUNT).start("q", epoch=0.05)
    other = tg.query("SELECT b FROM Other").start("beside")
    until(lambda: q.status()["sources"].get("Other", {}).get("rows") == 1)
    until(lambda: feed.asked >= 4)
    away = q.status()["away"]["S"]
    assert away["next_try"] > away["since"]
    assert "no answer" in away["error"]
    assert "sesame" not in str(q.status()) + caplog.text
    assert q.status()["failure"] is None
    feed.away = None
    until(lambda: q.status()["sources"].get("S", {}).get("rows") == 4)
    assert q.status()["away"] == {}
    assert caplog.text.count("'S' is away") == caplog.text.count("'S' is back") == 1
    other.stop()
    q.finish()
    assert q.at(100).collect()[0].n == 4


def test_what_is_away_is_not_finished_without_and_goes_on_after_a_restart(
    spark: SparkSession, tmp_path: Path
) -> None:
    feed = Feed(5)
    for rows, away in ((2, tidegate.SourceAwayError("down")), (5, None)):
        session = tidegate.connect(spark, state=str(tmp_path / "state"), partitions=2)
        followed(session, feed)
        q = session.query(COUNT).start("q", begin=False)
        if away is not None:
            feed.rows, rest = feed.rows[:2], feed.rows
            q.run.drain()
            feed.away, feed.rows = away, rest
            with pytest.raises(Diagnostic, match="SOURCE_AWAY"):
                q.finish()
        else:
            feed.away = None
            q.finish()
            assert q.at(100).collect()[0].n == 5
        assert q.status()["sources"]["S"]["rows"] == rows
        session.close()


def test_a_function_that_fails_otherwise_ends_the_run(tg: Session) -> None:
    feed = Feed(2)
    feed.away = OSError("broken")
    followed(tg, feed)
    q = tg.query(COUNT).start("q", epoch=0.05)
    with pytest.raises(Diagnostic, match="SOURCE_FAILED"):
        q.wait(60)


def listening(port: int = 0) -> socket.socket:
    server = socket.create_server(("127.0.0.1", port))
    server.settimeout(60)
    return server


def test_a_socket_is_connected_again(tg: Session) -> None:
    server = listening()
    port = server.getsockname()[1]
    tg.sql(f"CREATE STREAM S(a INT, t BIGINT) SOURCE socket('127.0.0.1', {port}, 'csv') ORDERED BY t")
    q = tg.query(COUNT).start("q", epoch=0.05)

    def rows() -> int:
        return int(q.status()["sources"].get("S", {}).get("rows", 0))

    with closing(server), closing(server.accept()[0]) as connection:
        connection.sendall(b"1,1\nhot,2\n2,3\n9,")
        until(lambda: rows() == 3)
    until(lambda: "S" in q.status()["away"])
    with closing(listening(port)) as server, closing(server.accept()[0]) as connection:
        connection.sendall(b"3,4\r\n4,5\n")
        until(lambda: rows() == 5)
        assert q.status()["away"] == {}
        refused = tg.sql("SELECT reason, position FROM QUARANTINE(S)").collect()
        assert [(r.reason, r.position) for r in refused] == [("column 'a' is no INT: hot", 1)]
        tg.advance("S", 100)
        until(lambda: (q.status()["watermark"] or 0) >= 100)
        assert q.at(50).collect()[0].n == 4
