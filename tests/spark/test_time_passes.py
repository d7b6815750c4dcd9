"""Time passes by promise: rows of the epoch itself, the clock, a call, heartbeats; and epochs run where they cost least."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.spark.test_live_run import until
from tidegate.errors import Diagnostic
from tidegate.runtime.running import LiveQuery
from tidegate.session import Session, connect
from tidegate.time import MAX

BEGUN = 1_700_000_000_000_000
SECOND = 1_000_000


def answer(live: LiveQuery, instant: int) -> list[tuple[Any, ...]]:
    return [tuple(r) for r in live.run.result(live.name).at(instant).collect()]


def stamped(session: Session, text: str, name: str = "q") -> LiveQuery:
    session.stream("S", [], schema="v INT")
    return session.query(text).start(name, begin=False)


def test_a_row_is_answered_by_the_epoch_that_reads_it(spark: SparkSession, tmp_path: Path) -> None:
    session = connect(spark, state=str(tmp_path), partitions=2)
    session.stream("S", [{"k": 1, "t": 1}], ordered_by="t")
    live = session.query("SELECT k, COUNT(*) AS n FROM S WINDOW(RANGE 10) GROUP BY k").start("q", begin=False)
    for number, place in enumerate(("spark", "driver", "auto")):
        live.run.graph.epochs.asked = place  # type: ignore[assignment]
        t = 100 * number
        manifest = live.run.graph.advance({"S": [{"k": 7, "t": t + 1}, {"k": 7, "t": t + 5}]})
        assert manifest.upto == t + 5
        assert answer(live, t + 4) == [(7, 1)]
    session.close()


def test_two_rows_then_silence(spark: SparkSession, tmp_path: Path) -> None:
    """Stamped on arrival: the count appears with the next epoch and expires after the window, without a third row."""
    session = connect(spark, state=str(tmp_path), partitions=1)
    live = stamped(session, "SELECT COUNT(*) AS n FROM S WINDOW(RANGE 2 SECONDS)")
    graph = live.run.graph
    now = [BEGUN]
    graph.wall = lambda: now[0]
    graph.advance({"S": [{"v": 1}, {"v": 2}]})
    now[0] += SECOND
    graph.advance({})
    assert answer(live, BEGUN + SECOND // 2) == [(2,)]
    now[0] += 2 * SECOND
    graph.advance({})
    assert answer(live, BEGUN + 2 * SECOND + SECOND // 2) == []
    assert live.run.status()["sources"]["S"]["promised"] == BEGUN + 3 * SECOND
    session.close()


def test_a_clock_that_is_set_back_makes_no_row_late(spark: SparkSession, tmp_path: Path) -> None:
    session = connect(spark, state=str(tmp_path), partitions=1)
    live = stamped(session, "SELECT v FROM S WINDOW(RANGE 1 SECOND)")
    graph = live.run.graph
    now = [BEGUN]
    graph.wall = lambda: now[0]
    graph.advance({"S": [{"v": 1}]})
    now[0] += 10 * SECOND
    graph.advance({})
    now[0] -= 5 * SECOND
    graph.advance({"S": [{"v": 2}]})
    now[0] += 20 * SECOND
    graph.advance({})
    assert not live.run.status()["sources"]["S"]["quarantine"]
    # it is stamped with what was promised
    assert answer(live, BEGUN + 10 * SECOND + SECOND // 2) == [(2,)]
    session.close()


def test_rows_that_are_handed_in_have_stamps_of_their_own(spark: SparkSession, tmp_path: Path) -> None:
    session = connect(spark, state=str(tmp_path), partitions=1)
    session.stream("S", [], schema="v INT")
    live = session.query("SELECT v, TS AS stamp FROM S WINDOW(RANGE 1 HOUR)").start("q", epoch=0.1)
    for number in range(3):
        session.push("S", [{"v": 10 * number + i} for i in range(4)])
    until(live.run, lambda s: s["sources"].get("S", {"rows": 0})["rows"] == 12)
    live.run.finish()
    rows = live.run.result("q").intervals().collect()
    assert sorted(r.v for r in rows) == sorted(10 * n + i for n in range(3) for i in range(4))
    for number in range(3):
        stamps = [r.stamp for r in sorted(rows, key=lambda r: r.v) if r.v // 10 == number]
        assert stamps == sorted(stamps)
    session.close()


def test_silence_in_a_running_graph(spark: SparkSession, tmp_path: Path) -> None:
    session = connect(spark, state=str(tmp_path), partitions=1)
    session.stream("S", [], schema="v INT")
    live = session.query("SELECT COUNT(*) AS n FROM S WINDOW(RANGE 2 SECONDS)").start("q", epoch=0.1)
    session.push("S", [{"v": 1}, {"v": 2}])
    until(live.run, lambda s: s["sources"].get("S", {"rows": 0})["rows"] == 2)
    newest = live.run.status()["sources"]["S"]["newest"]
    until(live.run, lambda s: s["watermark"] > newest + 2 * SECOND)
    counts = {r.n for r in live.run.result("q").intervals().collect()}
    assert counts == {1, 2}
    assert answer(live, newest) == [(2,)]
    assert answer(live, newest + 2 * SECOND) == []
    session.close()


def test_a_program_promises(spark: SparkSession, tmp_path: Path) -> None:
    session = connect(spark, state=str(tmp_path), partitions=2)
    session.stream("S", [{"v": 1, "t": datetime(2024, 1, 1)}], ordered_by="t")
    live = session.query("SELECT COUNT(*) AS n FROM S WINDOW(RANGE 10 SECONDS)").start("q", begin=False)
    graph = live.run.graph
    graph.advance({"S": [{"v": 1, "t": datetime(2024, 1, 1)}]})
    session.advance("S", datetime(2024, 1, 1, 0, 1))
    graph.advance({})
    assert [r.n for r in live.at(datetime(2024, 1, 1, 0, 0, 9)).collect()] == [1]
    assert live.at(datetime(2024, 1, 1, 0, 0, 59)).collect() == []
    graph.advance({"S": [{"v": 2, "t": datetime(2024, 1, 1, 0, 0, 30)}]})
    assert live.run.status()["sources"]["S"]["quarantine"] == {"later than promised": 1}
    session.close()


def test_what_was_promised_before_the_end_is_kept(spark: SparkSession, tmp_path: Path) -> None:
    """No epoch came between the call and the end of the program."""

    def begun() -> tuple[Session, LiveQuery]:
        session = connect(spark, state=str(tmp_path), partitions=1)
        session.stream("S", [(0, 0)][:0], schema="v INT, t BIGINT", ordered_by="t")
        return session, session.query("SELECT v FROM S WINDOW(RANGE 10)").start("q", begin=False)

    session, live = begun()
    session.push("S", [(1, 1)])
    live.run.drain()
    session.advance("S", 50)
    session.close()
    session, live = begun()
    live.run.drain()
    assert live.run.status()["watermark"] == 50
    assert (answer(live, 10), answer(live, 11)) == ([(1,)], [])
    session.close()


def test_a_promise_that_cannot_be_meant_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """It would make all rows late: a moment where time is an integer, or the end of time. Nor is it one of a stream that nobody reads."""
    session = connect(spark, state=str(tmp_path), partitions=1)
    for name in ("S", "R"):
        session.stream(name, [(0, 0)][:0], schema="v INT, t BIGINT", ordered_by="t")
    live = session.query("SELECT v FROM S WINDOW(RANGE 10)").start("q", begin=False)
    other = session.query("SELECT v FROM R WINDOW(RANGE 10)").start("other", begin=False)
    for said in ("2024-01-01", datetime(2024, 1, 1), MAX, 2**70):
        with pytest.raises(Diagnostic, match=r"TIME_DOMAIN|INVALID_INSTANT"):
            session.advance("S", said)
    other.stop()
    for call in (lambda: session.advance("R", 5), lambda: session.push("R", [(1, 1)])):
        with pytest.raises(Diagnostic, match="NOT_READ"):
            call()
    live.run.graph.advance({"S": [(1, 1), (2, 5)]})
    assert live.run.status()["watermark"] == 5
    for asked in (live.at, live.subscribe, live.changes, live.to_arrow):
        with pytest.raises(Diagnostic, match="TIME_DOMAIN"):
            asked("2024-01-01")
    session.close()


@pytest.mark.parametrize("place", ["driver", "spark"])
@pytest.mark.parametrize(
    ("option", "beat"), [("empty rows", ",,2024-01-01T00:01:00Z"), ("alive", "5,true,2024-01-01T00:01:00Z")]
)
def test_heartbeats_tell_the_time_and_are_no_rows(
    spark: SparkSession, tmp_path: Path, option: str, beat: str, place: str
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.csv").write_text(
        f"v,alive,t\n1,false,2024-01-01T00:00:00Z\n2,,2024-01-01T00:00:01Z\n{beat}\n"
    )
    create = (
        f"CREATE STREAM S(v INT NOT NULL, alive BOOLEAN, t TIMESTAMP) SOURCE csv('{folder}') "
        f"ORDERED BY t WITH (heartbeats = '{option}')"
    )
    text = "SELECT SUM(v) AS s, COUNT(*) AS n FROM S WINDOW(RANGE 10 SECONDS)"
    session = connect(spark, state=str(tmp_path / "state"), partitions=2)
    session.sql(create)
    recorded = session.query(text).run()
    live = session.query(text).start("q", begin=False)
    live.run.graph.epochs.asked = place  # type: ignore[assignment]
    live.run.drain()
    source = live.run.status()["sources"]["S"]
    assert (source["rows"], source["quarantine"]) == (2, {})
    for found in (recorded, live):
        assert [tuple(r) for r in found.at(datetime(2024, 1, 1, 0, 0, 5)).collect()] == [(3, 2)]
        assert [tuple(r) for r in found.at(datetime(2024, 1, 1, 0, 0, 30)).collect()] == []
    session.close()


@pytest.mark.parametrize("place", ["driver", "spark"])
def test_what_is_refused_is_kept_wherever_epochs_run(spark: SparkSession, tmp_path: Path, place: str) -> None:
    """With several lanes, refused rows go to no partition of their own."""
    session = connect(spark, state=str(tmp_path), partitions=3)
    session.stream("S", [(0, 0)][:0], schema="v INT, t BIGINT", ordered_by="t")
    texts = {
        "a": "SELECT v FROM S WINDOW(RANGE 5)",
        "b": "SELECT v, COUNT(*) AS n FROM S WINDOW(RANGE 9) GROUP BY v",
    }
    queries = [session.query(text).start(name, begin=False) for name, text in texts.items()]
    graph = queries[0].run.graph
    graph.epochs.asked = place  # type: ignore[assignment]
    graph.advance({"S": [(1, 10), (2, None), (3, 20)]})
    graph.advance({"S": [(4, 5), (5, None), (6, 30)]})
    assert graph.epochs.last == place
    kept = {"the time is NULL": 2, "later than promised": 1}
    assert queries[0].run.status()["sources"]["S"]["quarantine"] == kept
    rows = session.spark.read.parquet(graph.storage.path("quarantine/S")).collect()
    assert Counter(r.reason for r in rows) == kept
    session.close()


def test_more_rows_than_the_driver_takes_are_sparks(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = connect(spark, state=str(tmp_path), partitions=2)
    session.stream("S", [{"v": 1, "t": 1}], ordered_by="t")
    live = session.query("SELECT COUNT(*) AS n FROM S WINDOW(RANGE 10)").start("q", begin=False)
    graph = live.run.graph
    graph.epochs.asked = "driver"
    graph.advance({"S": [{"v": 1, "t": 1}, {"v": 2, "t": 2}]})
    assert graph.epochs.last == "driver"

    def refuse(frame: DataFrame) -> None:
        raise RuntimeError(
            "Total size of serialized results is bigger than spark.driver.maxResultSize (1024.0 MiB)"
        )

    with monkeypatch.context() as patch:
        patch.setattr(type(spark.range(1)), "toArrow", refuse)
        graph.advance({"S": [{"v": 3, "t": 3}, {"v": 4, "t": 9}]})
    assert graph.epochs.last == "spark"
    assert answer(live, 5) == [(3,)]
    assert live.run.status()["sources"]["S"]["rows"] == 4
    session.close()


def test_the_users_code_runs_in_workers(spark: SparkSession, tmp_path: Path) -> None:
    """It may end its process, which must not be the driver's."""
    session = connect(spark, state=str(tmp_path), partitions=1)
    session.stream("S", [{"v": 1, "t": 1}], ordered_by="t")
    session.function("twice", lambda v: 2 * v, "INT")
    live = session.query("SELECT twice(v) AS w FROM S WINDOW(RANGE 10)").start("q", begin=False)
    live.run.graph.epochs.asked = "driver"
    live.run.graph.advance({"S": [{"v": 4, "t": 1}, {"v": 5, "t": 9}]})
    assert live.run.graph.epochs.last == "spark"
    assert answer(live, 5) == [(8,)]
    session.close()
