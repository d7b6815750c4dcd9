"""Live queries on the terminal: their names, where they go on, and where they stopped."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from tidegate.runtime.running import LiveQuery
from tidegate.runtime.summary import describe_state
from tidegate.session import Session, connect
from tidegate.terminal.watching import beginning, figures, stopped


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "in"
    found.mkdir()
    (found / "1.csv").write_text("a,t\n1,1\n2,2\nhot,2\n3,7\n")
    return found


def opened(spark: SparkSession, folder: Path) -> Session:
    session = connect(spark=spark, state=str(folder.parent / "state"))
    session.live, session.epochs = True, "driver"
    session.sql(f"CREATE STREAM S(a INT, t BIGINT) SOURCE csv('{folder}') ORDERED BY t")
    return session


def test_queries_say_where_they_begin_and_stop(spark: SparkSession, folder: Path) -> None:
    session = opened(spark, folder)
    session.unnamed = "counted"
    with session.running.together():
        queries = list(
            session.results(
                "INSERT INTO noop() AS latest SELECT a FROM S WINDOW(ROWS 1);"
                "SELECT COUNT(*) AS n FROM S WINDOW(RANGE 5)"
            )
        )
        assert [beginning(q) for q in queries] == ["query latest is new", "query counted is new"]
    wait_for(queries[0], 7)
    shown = Console(width=150)
    with shown.capture() as text:
        shown.print(figures(session, queries))
    lines = {line.split()[0]: line.split() for line in text.get().splitlines() if line.strip()}
    assert lines["latest"][1:3] == lines["counted"][1:3] == ["running", "7"]
    assert lines["latest"][6] == "1"  # the row whose a is no INT
    session.close()
    # Four rows were read, one of them refused; the newest is at 7, which is not final itself.
    assert stopped(queries[0]) == "query latest stopped at 7, after epoch 1 and 4 rows"
    (known,) = describe_state(str(folder.parent / "state")).values()
    assert (known["state"], known["failure"], known["queries"]) == ("stopped", None, ["counted", "latest"])

    again = opened(spark, folder)
    again.unnamed = "counted"
    with again.running.together():
        queries = list(
            again.results(
                "SELECT COUNT(*) AS n FROM S WINDOW(RANGE 5); INSERT INTO noop() AS latest SELECT a FROM S WINDOW(ROWS 1);"
                "START more AS SELECT a FROM S WINDOW(RANGE 3)"
            )
        )
        assert [beginning(q) for q in queries] == [
            "query counted goes on from 7, after epoch 1",
            "query latest goes on from 7, after epoch 1",
            "query more is new: the others have come to 7, and its answer is complete from 10 on"
            " (START name WITH HISTORY AS … reads what came before)",
        ]
    again.close()


def test_a_query_over_tables_only_says_that_it_is_one(spark: SparkSession, folder: Path) -> None:
    session = connect(spark=spark)
    session.live, session.epochs = True, "driver"
    with session.running.together():
        (query,) = session.results(f"START still AS SELECT a FROM '{folder}/1.csv'")
        assert beginning(query).startswith("query still is new. It reads tables only")
    session.close()
    assert stopped(query).startswith("query still stopped before its first answer, after epoch ")


def test_a_name_is_for_live_queries_only(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    session = connect(spark=spark)
    session.sql(f"CREATE STREAM S(a INT, t BIGINT) SOURCE csv('{folder}') ORDERED BY t")
    result = session.sql(f"INSERT INTO json('{tmp_path / 'out'}') AS hot SELECT a FROM S")
    assert not isinstance(result, LiveQuery)
    assert session.queries() == []


def wait_for(query: LiveQuery, instant: int) -> None:
    """Until an answer is final up to an instant: the query's own changes tell."""
    for _ in range(600):
        if query.result.upto >= instant:
            return
        assert not query.wait(1), "the run has ended"
    raise AssertionError("it took too long")
