"""Running queries: asked by name in SQL, started whole or not at all, and told about without waiting."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tidegate.errors import Diagnostic
from tidegate.session import Session, connect

ROWS = [
    {"room": "a", "degrees": 75, "t": 1},
    {"room": "b", "degrees": 90, "t": 3},
    {"room": "a", "degrees": 85, "t": 4},
    {"room": "c", "degrees": 81, "t": 6},
]
HOT = "SELECT room, degrees FROM Temp WINDOW(RANGE 5) WHERE degrees > 80"


@pytest.fixture
def tg(spark: SparkSession, tmp_path: Path) -> Iterator[Session]:
    session = connect(spark, state=str(tmp_path / "state"), partitions=2)
    session.stream("Temp", [], ordered_by="t", schema="room STRING, degrees INT, t BIGINT")
    session.table("Names", [("a", "attic"), ("b", "bath")], schema="room STRING, label STRING")
    yield session
    session.close()


def hot(tg: Session, name: str = "hot", **more: Any) -> Any:
    return tg.query(HOT).start(name, begin=False, **more)


def advanced(tg: Session) -> Any:
    """`hot` with the rows above; final before 100."""
    query = hot(tg)
    query.run.graph.advance({"Temp": ROWS})
    query.run.graph.advance({"Temp": [{"room": "z", "degrees": 0, "t": 100}]})
    query.run.graph.advance({})
    return query


def rows(frame: Any) -> list[tuple[Any, ...]]:
    return [tuple(r) for r in frame.collect()]


def refused(tg: Session, text: str) -> Diagnostic:
    with pytest.raises(Diagnostic) as raised:
        tg.sql(text)
    assert raised.value.position is not None
    return raised.value


# AS OF -------------------------------------------------------------------------------------------------------------


def test_a_running_query_is_asked_by_its_name(tg: Session) -> None:
    advanced(tg)
    # The stream's own rows are none: what is found here can only be the kept answer.
    assert rows(tg.query(HOT).run().at(4)) == []
    assert sorted(rows(tg.sql("SELECT * FROM hot AS OF 4"))) == [("a", 85), ("b", 90)]
    assert rows(tg.sql("SELECT * FROM hot ORDER BY degrees DESC AS OF 7")) == [
        ("b", 90),
        ("a", 85),
        ("c", 81),
    ]
    assert rows(tg.sql("SELECT room FROM hot WHERE degrees < 90 ORDER BY 1 AS OF 6")) == [("a",), ("c",)]
    assert rows(tg.sql("SELECT room FROM hot ORDER BY degrees LIMIT 1 AS OF 6")) == [("c",)]
    assert rows(tg.sql("SELECT COUNT(*) AS n, MAX(degrees) AS m FROM HOT h AS OF 8")) == [(2, 85)]
    found = tg.sql(
        "SELECT n.label, h.degrees + 1 AS d FROM hot h JOIN Names n ON h.room = n.room ORDER BY d AS OF 4"
    )
    assert rows(found) == [("attic", 86), ("bath", 91)]
    assert rows(tg.sql("WITH x AS (SELECT room FROM hot) SELECT * FROM x ORDER BY room AS OF 4")) == [
        ("a",),
        ("b",),
    ]
    assert tg.describe("hot") == [("room", "STRING"), ("degrees", "INT")]
    assert [r.name for r in tg.sql("SHOW QUERIES").collect()] == ["hot"]


def test_the_same_query_is_asked_for_its_kept_answer(tg: Session) -> None:
    advanced(tg)
    assert sorted(rows(tg.sql(f"{HOT} AS OF 4"))) == [("a", 85), ("b", 90)]
    assert sorted(rows(tg.sql(f"{HOT.lower().replace('range 5', 'range  5')} as of 4"))) == [
        ("a", 85),
        ("b", 90),
    ]
    # another one is run over what is recorded
    assert rows(tg.sql(f"{HOT} AND room = 'a' AS OF 4")) == []


@pytest.mark.parametrize(
    ("text", "condition", "place"),
    [
        ("SELECT degree FROM hot AS OF 4", "UNKNOWN_COLUMN", "degree"),
        ("SELECT room + 1 FROM hot x, nowhere AS OF 4", "UNKNOWN_STREAM", "nowhere"),
        ("SELECT room FROM hot ORDER BY cold AS OF 4", "UNKNOWN_COLUMN", "cold"),
        ("SELECT room FROM hot AS OF 1000", "NOT_FINAL", "1000"),
        ("SELECT room FROM hot AS OF 'noon'", "TIME_DOMAIN", "'noon'"),
        ("SELECT room FROM hot", "RUNNING_QUERY", "hot"),
        ("EXPLAIN SELECT room FROM Temp, hot", "RUNNING_QUERY", "hot"),
        ("CREATE VIEW v AS SELECT room FROM hot", "RUNNING_QUERY", "hot"),
        ("CREATE STREAM hot(a INT, t BIGINT) SOURCE memory('hot') ORDERED BY t", "NAME_EXISTS", "hot"),
        ("CREATE OR REPLACE VIEW Hot AS SELECT room FROM Temp", "NAME_EXISTS", "Hot"),
    ],
)
def test_what_cannot_be_asked_is_told_with_its_place(
    tg: Session, text: str, condition: str, place: str
) -> None:
    advanced(tg)
    found = refused(tg, text)
    assert found.condition == condition
    assert found.position is not None
    assert text[found.position.start : found.position.end] == place


def test_names_are_given_once(tg: Session) -> None:
    hot(tg)
    for name in ("hot", "HOT", "Temp", "names"):
        with pytest.raises(Diagnostic, match="NAME_EXISTS"):
            hot(tg, name)
    with pytest.raises(Diagnostic, match="'Hot' is a running query"):
        tg.table("Hot", [{"a": 1}])
    assert tg.queries() == ["hot"]


def test_a_stopped_query_can_be_started_again(tg: Session) -> None:
    query = advanced(tg)
    query.stop()
    assert tg.queries() == []
    assert refused(tg, "SELECT * FROM hot AS OF 4").condition == "UNKNOWN_STREAM"
    hot(tg)
    assert sorted(rows(tg.sql("SELECT * FROM hot AS OF 4"))) == [("a", 85), ("b", 90)]


# starting ----------------------------------------------------------------------------------------------------------


def facts(query: Any) -> tuple[Any, ...]:
    """All that a graph knows of queries."""
    graph = query.run.graph
    inbox = sorted(str(n) for n in graph.storage.names("inbox"))
    return (
        sorted(graph.definitions), sorted(graph.functions), sorted(graph.tables),
        [(q.name, q.key) for q in graph.queries()], graph.status(), inbox,
    )  # fmt: skip


def test_a_query_that_is_refused_leaves_nothing_behind(tg: Session, tmp_path: Path) -> None:
    query = advanced(tg)
    before = facts(query)
    tg.stream("More", [{"a": 1, "t": 1}], ordered_by="t")
    tg.table("Other", [{"a": 1}])
    tg.function("f", lambda x: x, "BIGINT")
    text = "SELECT f(More.a) AS a FROM More WINDOW(RANGE 5), Other WHERE More.a = Other.a"
    lock = threading.Lock()
    tg.function("g", lambda x: x if lock else 0, "BIGINT")
    attempts: list[tuple[str, str, dict[str, Any]]] = [
        ("NAME_EXISTS", "hot", {}),
        ("EPOCH_DIFFERS", "second", {"epoch": 7.0}),
        ("EPOCHS_DIFFER", "second", {"epochs": "spark"}),
        ("RETENTION_DIFFERS", "second", {"retention": 7}),
        ("WRONG_ARGUMENTS", "second", {"epoch": -1}),
        ("WRONG_ARGUMENTS", "second", {"epoch": float("nan")}),
        ("WRONG_ARGUMENTS", "second", {"epochs": "workers"}),
        ("WRONG_ARGUMENTS", "second", {"retention": "1 day"}),
    ]
    tried = [(c, partial(tg.query(text).start, name, **said)) for c, name, said in attempts]
    unsent = partial(tg.query(text.replace("f(", "g(")).start, "second")
    for condition, attempt in [*tried, ("USER_FUNCTION_NOT_SENT", unsent)]:
        with pytest.raises(Diagnostic) as raised:
            attempt()
        assert raised.value.condition == condition
        assert facts(query) == before, condition
    tg.data["More"] = [{"a": "no number", "t": 1}]
    with pytest.raises(Diagnostic):
        tg.query(text).start("second")
    assert facts(query) == before
    tg.sql(f"CREATE STREAM Gone(a BIGINT, t BIGINT) SOURCE csv('{tmp_path / 'nowhere'}') ORDERED BY t")
    with pytest.raises(Diagnostic):
        tg.query("SELECT a FROM Gone").start("second")
    assert facts(query) == before
    assert tg.queries() == ["hot"]


def test_a_first_query_that_is_refused_leaves_nothing_behind(tg: Session) -> None:
    lock = threading.Lock()
    tg.function("g", lambda x: x if lock else 0, "BIGINT")
    with pytest.raises(Diagnostic):
        tg.query("SELECT g(degrees) AS d FROM Temp").start("second", epoch=3.0)
    assert tg.queries() == []
    assert hot(tg, epoch=0.5).run.every == 0.5


def test_what_running_queries_use_stays_what_it_is(tg: Session) -> None:
    tg.function("f", lambda x: x + 1, "BIGINT")
    tg.query("SELECT f(degrees) AS d FROM Temp").start("plus", begin=False)
    tg.function("f", lambda x: x + 1, "BIGINT")
    tg.query("SELECT f(degrees) AS d, room FROM Temp").start("again", begin=False)
    tg.function("f", lambda x: x + 2, "BIGINT")
    with pytest.raises(Diagnostic, match="FUNCTION_CHANGED"):
        tg.query("SELECT f(degrees) AS d FROM Temp WHERE room = 'a'").start("changed", begin=False)
    tg.stream("Temp", [], ordered_by="t", schema="room STRING, degrees BIGINT, t BIGINT")
    with pytest.raises(Diagnostic, match="STREAM_CHANGED"):
        tg.query("SELECT degrees FROM Temp").start("changed", begin=False)
    assert tg.queries() == ["plus", "again"]


def test_later_queries_run_at_the_pace_of_the_first(tg: Session) -> None:
    first = hot(tg, epoch=0.25, retention=50)
    second = tg.query(f"{HOT} AND room = 'a'").start("second", begin=False)
    third = tg.query(f"{HOT} AND room = 'b'").start("third", epoch=0.25, retention=50, begin=False)
    assert first.run is second.run is third.run
    assert (first.run.every, first.run.graph.retention) == (0.25, 50)
    tg.sql("SET epoch = 2")
    with pytest.raises(Diagnostic, match=r"every 2 seconds, and its graph runs with one every 0\.25"):
        tg.query(HOT).start("fourth")


# status ------------------------------------------------------------------------------------------------------------


def test_status_answers_while_an_epoch_is_held_up(tg: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    query = advanced(tg)
    graph = query.run.graph
    before = query.status()
    held, go = threading.Event(), threading.Event()
    run = graph._run

    def hold_run(*given: Any) -> Any:
        held.set()
        assert go.wait(120)
        return run(*given)

    monkeypatch.setattr(graph, "_run", hold_run)
    epoch = threading.Thread(target=graph.advance, args=({"Temp": ROWS[:0]},))
    epoch.start()
    assert held.wait(120)
    answers: list[Any] = []
    asking = threading.Thread(
        target=lambda: answers.append((query.status(), tg.queries(), query.complete_from))
    )
    asking.start()
    asking.join(60)
    assert not asking.is_alive()
    assert answers[0][0] == before
    assert epoch.is_alive()
    go.set()
    epoch.join()
    assert query.status()["epoch"] == before["epoch"] + 1
