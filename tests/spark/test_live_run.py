"""A graph that runs by itself: rows come while it runs, queries come and go, it stops and goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.spark.test_runtime import DEFINITIONS, plans
from tidegate.runtime.engine import Engine
from tidegate.runtime.live import LiveRun
from tidegate.session import Session, connect


def until(run: LiveRun, reached: Callable[[dict[str, Any]], bool]) -> None:
    """Wait for a state of the run; its failure is raised, and patience has an end."""
    for _ in range(180):
        status = run.status()
        if reached(status):
            return
        assert not run.wait(1), status
    raise AssertionError(f"not reached: {run.status()}")


def rows(status: dict[str, Any], source: str) -> int:
    return int(status["sources"].get(source, {"rows": 0})["rows"])


def test_a_running_graph_takes_rows_and_queries_and_goes_on_after_a_stop(
    spark: SparkSession, tmp_path: Path
) -> None:
    engine = Engine(spark, str(tmp_path), partitions=2)
    first, second = plans()["grouped"], plans()["join"]
    run = engine.start({"first": first}, DEFINITIONS, every=0.1, graph="running")
    assert run.is_active
    run.push("S", [(1, 1.0, 10), (1, 2.0, 20)])
    run.push("S", [(1, 2.0, 30)])
    # the watermark follows the rows in a later epoch, which the heartbeat begins
    until(run, lambda s: s["watermark"] == 27)
    assert [tuple(r) for r in run.result("first").at(15).collect()] == [(1, 1, 1.0)]
    added = run.add("second", second)
    assert added.since == 31
    assert run.is_active
    run.push("S", [(1, 7.0, 41)])
    run.push("R", [(1, "x", 42)])
    until(run, lambda s: rows(s, "S") == 4 and rows(s, "R") == 1)
    run.drop("first")
    until(run, lambda s: s["watermark"] == 38 and list(s["queries"]) == ["second"])
    run.stop()
    assert not run.is_active
    stopped = run.status()["epoch"]
    resumed = engine.start({"second": second}, DEFINITIONS, every=0.1, graph="running")
    resumed.push("S", [(2, 7.0, 43)])
    resumed.push("R", [(2, "y", 44)])
    until(resumed, lambda s: rows(s, "S") == 5 and rows(s, "R") == 2)
    assert resumed.status()["epoch"] > stopped
    resumed.finish()
    found = {tuple(r) for r in resumed.result("second").intervals().collect()}
    assert found == {(1, 7.0, 41, 1, "x", 42, 42, 49), (2, 7.0, 43, 2, "y", 44, 44, 51)}
    assert not any(any(s["quarantine"].values()) for s in resumed.status()["sources"].values())


def test_a_resumed_session_waits_for_the_queries_that_ran_before(spark: SparkSession, tmp_path: Path) -> None:
    texts = {
        "many": "SELECT COUNT(*) AS n FROM S WINDOW(RANGE UNBOUNDED)",
        "most": "SELECT MAX(a) AS n FROM S WINDOW(RANGE UNBOUNDED)",
    }

    def session() -> Session:
        found = connect(spark, state=str(tmp_path), partitions=2)
        found.stream("S", [{"a": 5, "t": 1}], ordered_by="t")
        return found

    first = session()
    before = {name: first.query(text).start(name, begin=False) for name, text in texts.items()}
    run = before["many"].run
    run.graph.advance({"S": [{"a": 7, "t": 10}]})
    run.graph.advance({"S": [{"a": 6, "t": 20}]})
    epoch = run.status()["epoch"]
    first.close()
    second = session()
    again = second.query(texts["many"]).start("many", epoch=0.1)
    assert again.run.is_active
    assert again.run.status()["epoch"] == epoch
    most = second.query(texts["most"]).start("most", epoch=0.1)
    most.run.push("S", [{"a": 3, "t": 30}])
    until(most.run, lambda s: rows(s, "S") >= 3 and s["watermark"] >= 30)
    most.run.finish()
    assert most.complete_from == before["most"].complete_from
    assert [r.n for r in most.at(30).collect()] == [7]
    assert [r.n for r in again.at(30).collect()] == [again.at(20).collect()[0].n + 1]
