"""A query that leaves a graph takes nothing along: what the others share with it goes on to be what it was."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tidegate.errors import Diagnostic
from tidegate.runtime.running import LiveQuery
from tidegate.runtime.summary import describe_state
from tidegate.session import Session, connect

WIDE = "SELECT k, v, w FROM S WINDOW(PARTITION BY k ROWS 2)"
NARROW = {
    "window": "SELECT k FROM S WINDOW(PARTITION BY k ROWS 2)",
    "aggregate": "SELECT k, MAX(v) AS m FROM S WINDOW(PARTITION BY k ROWS 2) GROUP BY k",
    "difference": "SELECT k, v FROM S WINDOW(PARTITION BY k ROWS 2) EXCEPT SELECT k, v FROM S WINDOW(RANGE 3)",
}
ROWS = [{"k": i % 3, "v": (i * 5) % 7, "w": "ab"[i % 2], "t": i // 2} for i in range(48)]
BATCHES = [ROWS[i : i + 12] for i in range(0, 48, 12)]


def opened(spark: SparkSession, place: Path, partitions: int) -> Session:
    session = connect(spark=spark, state=str(place), partitions=partitions)
    session.stream("S", [], schema="k INT, v INT, w STRING, t BIGINT", ordered_by="t")
    return session


def answers(result: Any) -> list[Counter[tuple[Any, ...]]]:
    return [Counter(tuple(r) for r in result.at(t).collect()) for t in range(0, 27, 2)]


@pytest.mark.parametrize("again", [False, True], ids=["goes on", "restarted"])
def test_what_was_shared_with_a_dropped_query(spark: SparkSession, tmp_path: Path, again: bool) -> None:
    """The rows in the state have columns that only the dropped query asked for: those that leave must still match them."""
    session = opened(spark, tmp_path, 2)
    session.query(WIDE).start("wide", begin=False)
    live = {n: session.query(q).start(n, begin=False) for n, q in NARROW.items()}
    graph = live["window"].run.graph
    graph.advance({"S": BATCHES[0]})
    graph.advance({"S": BATCHES[1]})
    graph.drop("wide")
    graph.advance({"S": BATCHES[2]})
    if again:
        session.close()
        session = opened(spark, tmp_path, 3)
        live = {n: session.query(q).start(n, begin=False) for n, q in NARROW.items()}
        graph = live["window"].run.graph
    graph.advance({"S": BATCHES[3]})
    graph.finish()
    whole = connect(spark=spark)
    whole.stream("S", ROWS, ordered_by="t")
    for name, text in NARROW.items():
        assert answers(live[name]) == answers(whole.query(text).run()), name
    session.close()


def queries_of(place: Path) -> list[str]:
    return list(describe_state(str(place))["integers"]["queries"])


def test_a_query_that_cannot_go_on_now_is_not_dropped(spark: SparkSession, tmp_path: Path) -> None:
    """Two queries ran; when they are to go on, the files of one are away for a while."""
    state, folder = tmp_path / "state", tmp_path / "in"
    folder.mkdir()
    (folder / "1.csv").write_text("a,t\n1,1\n")

    def begun(name: str, text: str, begin: bool = True) -> LiveQuery:
        session = sessions[-1]
        session.sql(f"CREATE OR REPLACE STREAM F(a INT, t BIGINT) SOURCE csv('{folder}') ORDERED BY t")
        return session.query(text).start(name, begin=begin)

    sessions = [opened(spark, state, 2)]
    first = begun("files", "SELECT a FROM F", begin=False)
    begun("rows", "SELECT k FROM S", begin=False)
    first.run.structured = True
    first.run.drain()
    sessions[-1].close()
    assert queries_of(state) == ["files", "rows"]
    sessions.append(opened(spark, state, 2))
    begun("files", "SELECT a FROM F")
    folder.rename(tmp_path / "away")
    with pytest.raises(Diagnostic, match="SOURCE_NOT_FOUND"):
        sessions[-1].query("SELECT k FROM S").start("rows")
    sessions[-1].close()
    assert queries_of(state) == ["files", "rows"]
    # What was stopped ends for good when its graph goes on without it, which it does not do here.
    (tmp_path / "away").rename(folder)
    sessions.append(opened(spark, state, 2))
    sessions[-1].running._ended = frozenset({"rows"})
    sessions[-1].sql(f"CREATE STREAM F(a INT, t BIGINT) SOURCE csv('{folder}') ORDERED BY t")
    query = sessions[-1].query("SELECT a FROM F")
    (state / "graphs" / "integers" / "checkpoint" / "metadata").rename(tmp_path / "metadata")
    with pytest.raises(Diagnostic, match="STATE_DAMAGED"):
        query.start("files")
    sessions[-1].close()
    assert queries_of(state) == ["files", "rows"]
