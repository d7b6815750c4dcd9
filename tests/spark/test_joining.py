"""A query that joins a running graph: it begins with the relation as it stands, reads what runs already, and says from when on it is complete.

`tests/fuzz/test_joining.py` plays generated queries that come and go; here they pass through Spark, files and restarts.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tidegate.errors import Diagnostic
from tidegate.runtime.first_rows import catching_up
from tidegate.runtime.running import LiveQuery
from tidegate.session import Session, connect
from tidegate.time import MIN

ROWS = [{"k": i % 5, "v": (i * 7) % 11, "w": "abc"[i % 3], "t": i // 2} for i in range(60)]
BATCHES = [ROWS[i : i + 12] for i in range(0, 60, 12)]

COUNTS = "SELECT k, COUNT(*) AS n, MAX(v) AS m FROM S WINDOW(RANGE 6) GROUP BY k"
RUNNING = {
    "relation": "SELECT w, COUNT(*) AS n FROM K GROUP BY w",
    "counts": COUNTS,
    "rows": "SELECT k, v FROM S WINDOW(PARTITION BY k ROWS 2)",
    "joined": "SELECT a.k, a.v, b.w FROM K a JOIN (SELECT k, w FROM S WINDOW(RANGE 5)) b ON a.k = b.k",
}
LATE = {
    "the relation itself": "SELECT k, v, w FROM K",
    "a condition on it": "SELECT k, v FROM K WHERE v > 4",
    "another grouping of it": "SELECT k, MAX(v) AS m FROM K GROUP BY k",
    "a join with it": "SELECT a.k, b.n FROM K a JOIN (SELECT w, COUNT(*) AS n FROM K GROUP BY w) b ON a.w = b.w",
    "many in a window": f"SELECT k, n FROM ({COUNTS}) WHERE n > 1",
    "counts of counts": f"SELECT n, COUNT(*) AS c FROM ({COUNTS}) GROUP BY n",
    "the same counts": COUNTS,
    "sums of last rows": "SELECT k, SUM(v) AS s FROM (SELECT k, v FROM S WINDOW(PARTITION BY k ROWS 2)) GROUP BY k",
    "the best pair": f"SELECT k, v, w FROM ({RUNNING['joined']}) ORDER BY v DESC LIMIT 2",
}
"""Each can be told from what runs: nothing is missing from its first instant on."""


def opened(spark: SparkSession, place: Path | None = None, partitions: int = 2) -> Session:
    session = connect(spark=spark, state=None if place is None else str(place), partitions=partitions)
    session.stream(
        "S", ROWS if place is None else [], schema="k INT, v INT, w STRING, t BIGINT", ordered_by="t"
    )
    session.sql("CREATE STREAM K OVER S KEY k")
    return session


def begun(session: Session, texts: dict[str, str]) -> dict[str, LiveQuery]:
    return {name: session.query(text).start(name, begin=False) for name, text in texts.items()}


def snapshots(answer: Any, instants: range) -> list[Counter[tuple[Any, ...]]]:
    rows = [tuple(r) for r in answer.intervals().collect()]
    return [Counter(r[:-2] for r in rows if _holds(r, t)) for t in instants]


def _holds(row: tuple[Any, ...], t: int) -> bool:
    return (row[-2] is None or row[-2] <= t) and (row[-1] is None or t < row[-1])


@pytest.mark.parametrize("epochs", ["driver", "spark"])
def test_a_query_begins_with_the_relation_as_it_stands(
    spark: SparkSession, tmp_path: Path, epochs: Any
) -> None:
    """Queries come after two epochs; then one goes, on which they stand; then the program ends and goes on in more partitions."""
    session = opened(spark, tmp_path)
    live = begun(session, RUNNING)
    graph = live["relation"].run.graph
    graph.epochs.asked = epochs
    for batch in BATCHES[:2]:
        graph.advance({"S": batch})
    reached = graph.ledger.latest.upto
    inputs = len(graph._ready().plan.inputs)
    late = begun(session, LATE)
    assert {name: q.complete_from for name, q in late.items()} == {
        name: MIN if name == "the same counts" else reached for name in LATE
    }
    # Only what is exchanged by another key than before is brought anew; no stream is read a second time.
    added = [i for i in graph._ready().plan.inputs.values() if i.birth.epoch == 2]
    assert all(hasattr(i.origin, "operator") for i in added), added
    assert len(graph._ready().plan.inputs) == inputs + len(added)
    graph.advance({"S": BATCHES[2]})
    graph.drop("joined")
    graph.drop("counts")
    graph.advance({"S": BATCHES[3]})
    session.close()
    session = opened(spark, tmp_path, partitions=3)
    texts = {name: text for name, text in {**RUNNING, **LATE}.items() if name not in ("joined", "counts")}
    live = begun(session, texts)
    graph = live["relation"].run.graph
    graph.epochs.asked = epochs
    graph.advance({"S": BATCHES[4]})
    graph.finish()
    whole = opened(spark)
    for name, text in texts.items():
        complete = live[name].complete_from
        assert complete is not None
        instants = range(max(complete, 0), 38)
        assert snapshots(live[name], instants) == snapshots(whole.query(text).run(), instants), name
    session.close()


def test_what_cannot_be_told_says_from_when_it_is_complete(spark: SparkSession, tmp_path: Path) -> None:
    session = opened(spark, tmp_path)
    first = session.query(COUNTS).start("first", begin=False)
    graph = first.run.graph
    graph.advance({"S": BATCHES[0]})
    reached, newest = graph.ledger.latest.upto, BATCHES[0][-1]["t"]
    assert reached == newest
    texts = {
        "another window": "SELECT k, COUNT(*) AS n FROM S WINDOW(RANGE 4) GROUP BY k",
        "rows": "SELECT k, v FROM S WINDOW(PARTITION BY k ROWS 2)",
        "a relation that nobody had": "SELECT k, v FROM K",
        "changes of what runs": f"SELECT * FROM ISTREAM({COUNTS})",
        "a window over changes": "SELECT COUNT(*) AS n FROM ISTREAM(SELECT v FROM S WINDOW(RANGE 6)) WINDOW(RANGE 4)",
    }
    late = begun(session, texts)
    assert {n: q.complete_from for n, q in late.items()} == {
        "another window": newest + 4,
        "rows": None,
        "a relation that nobody had": None,
        "changes of what runs": newest + 6 + 1,
        "a window over changes": newest + 6 + 1 + 3,
    }
    # A stream that nobody has read may have had rows all the same.
    session.stream("U", [], schema="u INT, t BIGINT", ordered_by="t")
    session.sql("CREATE STREAM KU OVER U KEY u")
    assert "complete: not known" in session.query("SELECT u FROM KU").explain()
    assert f"complete from {reached}" in session.query("SELECT u FROM U").explain()
    for batch in BATCHES[1:]:
        graph.advance({"S": batch})
    graph.finish()
    whole = opened(spark)
    for name in ("another window", "changes of what runs", "a window over changes"):
        complete = late[name].complete_from
        assert complete is not None
        instants = range(complete, 36)
        assert snapshots(late[name], instants) == snapshots(whole.query(texts[name]).run(), instants)
        assert whole.query(texts[name]).verify(result=late[name].result), name
        early = replace(late[name].result, complete=MIN)
        assert not whole.query(texts[name]).verify(result=early), name
    never = "a relation that nobody had"
    with pytest.raises(Diagnostic, match="is not known at any instant"):
        whole.query(texts[never]).verify(result=late[never].result)
    session.close()


def test_an_answer_that_was_not_kept_for_a_while_begins_anew(spark: SparkSession, tmp_path: Path) -> None:
    """An operator whose answers were kept, then only read by another query, then asked for again: the first answers have gaps."""
    session = opened(spark, tmp_path)
    first = session.query("SELECT k, v, w FROM K").start("first", begin=False)
    graph = first.run.graph
    graph.advance({"S": BATCHES[0]})
    session.query("SELECT w, COUNT(*) AS n FROM K GROUP BY w").start("other", begin=False)
    graph.advance({"S": BATCHES[1]})
    graph.drop("first")
    graph.advance({"S": BATCHES[2]})
    again = session.query("SELECT k, v, w FROM K").start("again", begin=False)
    graph.advance({"S": BATCHES[3]})
    graph.advance({"S": BATCHES[4]})
    graph.finish()
    whole = opened(spark).query("SELECT k, v, w FROM K").run()
    since = again.query.since
    # Keys are five, and each comes again within three instants: then nothing can be missing.
    instants = range(since + 4, 36)
    assert snapshots(again, instants) == snapshots(whole, instants)
    session.close()


def test_statements_start_and_stop_queries(spark: SparkSession, tmp_path: Path) -> None:
    session = opened(spark, tmp_path / "state")
    session.sql(f"START counts AS {COUNTS}")
    out = tmp_path / "out"
    session.sql(f"START many AS INSERT INTO json('{out}') SELECT k, n FROM ({COUNTS}) WHERE n > 1")
    assert session.queries() == ["counts", "many"]
    session.push("S", ROWS)
    live = session.running.named("MANY")
    live.finish()
    assert any(out.glob("epoch=*/*.json"))
    whole = opened(spark).query(f"SELECT k, n FROM ({COUNTS}) WHERE n > 1").run()
    assert snapshots(live, range(38)) == snapshots(whole, range(38))
    session.sql("STOP many; STOP counts")
    assert session.queries() == []
    with pytest.raises(Diagnostic) as raised:
        session.sql("STOP many")
    assert (raised.value.condition, raised.value.position and raised.value.position.column) == (
        "UNKNOWN_QUERY",
        6,
    )
    session.close()


def test_explain_says_what_a_query_would_share(spark: SparkSession, tmp_path: Path) -> None:
    session = opened(spark, tmp_path)
    many = session.query("SELECT page, number FROM (SELECT k AS page, COUNT(*) AS number, MAX(v) AS most FROM S WINDOW(RANGE 6) GROUP BY k) WHERE number > 1")  # fmt: skip
    assert "Beside running queries" not in many.explain()
    live = session.query(COUNTS).start("counts", begin=False)
    live.run.graph.advance({"S": BATCHES[0]})
    told = many.explain().partition("== Beside running queries\n")[2].splitlines()
    assert told == ["'counts' runs Window, Aggregate", "begins: Filter, Project", "complete from 5"]
    other = session.query("SELECT v, COUNT(*) AS n FROM S WINDOW(RANGE 6) GROUP BY v").explain()
    assert other.partition("== Beside running queries\n")[2].splitlines() == [
        "'counts' nearly answers with Aggregate k; COUNT(*), MAX(v): it is not grouped by v",
        "begins: Window, Aggregate",
        "read anew: S",
        "complete from 11",
    ]
    same = session.query(COUNTS.replace("n,", "number,")).explain()
    assert "'counts' runs Window, Aggregate and answers it" in same
    assert session.queries() == ["counts"]
    session.close()


def test_recorded_queries_are_run_together(spark: SparkSession) -> None:
    """Queries over two kinds of time: each kind in one run, whose answers are those of the queries alone."""
    session = opened(spark)
    session.stream(
        "M", [{"a": i, "at": datetime(2026, 1, 1, 0, i, tzinfo=UTC)} for i in range(5)], ordered_by="at"
    )
    session.sql("CREATE VIEW Counts AS SELECT k, COUNT(*) AS n FROM S WINDOW(RANGE 6) GROUP BY k")
    texts = [
        "SELECT k, n FROM Counts WHERE n > 1",
        "SELECT COUNT(*) AS n FROM M WINDOW(RANGE 2 MINUTES)",
        "SELECT n, COUNT(*) AS c FROM Counts GROUP BY n",
    ]
    told: list[float] = []
    answers = session.run([session.query(texts[0]), *texts[1:]], told.append)
    assert told[-1] == 1.0
    assert answers[0].storage.uri == answers[2].storage.uri != answers[1].storage.uri
    for text, answer in zip(texts, answers, strict=True):
        alone = session.query(text).run()
        assert sorted(answer.intervals().collect()) == sorted(alone.intervals().collect()), text
    with pytest.raises(Diagnostic) as raised:
        session.run([texts[0], "SELECT 1 / (v - v) AS x FROM S"])
    assert raised.value.condition == "DIVIDE_BY_ZERO"
    assert raised.value.text == "SELECT 1 / (v - v) AS x FROM S"
    assert session.run([]) == []
    assert len(session.run(texts[0])) == 1
    with pytest.raises(Diagnostic, match="WRONG_ARGUMENTS"):
        session.run([texts[0], None])  # type: ignore[list-item]


def test_a_query_with_history_answers_as_if_it_had_been_there(spark: SparkSession, tmp_path: Path) -> None:
    """It comes after two files, one of which has a row that is refused; another file comes later, and the program ends in between."""
    folder, state = tmp_path / "in", tmp_path / "state"
    folder.mkdir()
    texts = {
        "window": "SELECT k, COUNT(*) AS n FROM F WINDOW(RANGE 9) GROUP BY k",
        "rows": "SELECT k, v FROM F WINDOW(PARTITION BY k ROWS 2)",
        "relation": "SELECT k, v FROM L WHERE v > 2",
        "insertions": "SELECT * FROM ISTREAM(SELECT v, COUNT(*) AS n FROM F WINDOW(RANGE 4) GROUP BY v)",
    }

    def written(number: int, more: str = "") -> None:
        rows = "".join(f"{r['k']},{r['v']},{r['t']}\n" for r in BATCHES[number])
        (folder / f"{number}.csv").write_text("k,v,t\n" + rows + more)

    def begun_again() -> Session:
        session = connect(spark=spark, state=str(state), partitions=2)
        session.sql(
            f"CREATE STREAM F(k INT, v INT, t BIGINT) SOURCE csv('{folder}') ORDERED BY t;"
            "CREATE STREAM L OVER F KEY k"
        )
        return session

    session = begun_again()
    first = session.query("SELECT v FROM F").start("first", begin=False)
    for number, more in ((0, ""), (1, "9,hot,12\n")):
        written(number, more)
        first.run.drain()
    late = {n: session.query(text).start(n, begin=False, history=True) for n, text in texts.items()}
    assert {q.complete_from for q in late.values()} == {MIN}
    written(2)
    first.run.drain()
    session.close()
    session = begun_again()
    first = session.query("SELECT v FROM F").start("first", begin=False)
    late = {n: session.query(text).start(n, begin=False, history=True) for n, text in texts.items()}
    written(3)
    first.run.finish()
    assert first.run.status()["sources"]["F"]["quarantine"] == {"column 'v' is no INT": 1}
    whole = begun_again()
    for name, text in texts.items():
        assert sorted(late[name].intervals().collect()) == sorted(
            whole.query(text).run().intervals().collect()
        ), name
    session.close()


def test_history_that_is_not_there_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    session = opened(spark, tmp_path / "state")
    folder = tmp_path / "in"
    folder.mkdir()
    file = folder / "1.csv"
    file.write_text("a,t\n1,1\n2,20\n")
    session.sql(f"CREATE STREAM F(a INT, t BIGINT) SOURCE csv('{folder}') ORDERED BY t")
    session.sql(f"CREATE STREAM G(a INT, t BIGINT) SOURCE csv('{folder}') ORDERED BY t")
    live = session.query("SELECT a FROM F").start("files", begin=False)
    session.query("SELECT k FROM S").start("rows", begin=False)
    live.run.graph.advance({"S": BATCHES[0]})  # by hand: nothing is kept
    live.run.drain()
    for text, condition in (
        ("START late WITH HISTORY AS SELECT v FROM S WINDOW(ROWS 2)", "HISTORY_GONE"),
        ("START late WITH HISTORY AS SELECT a FROM G WINDOW(ROWS 2)", "HISTORY_LATE"),
    ):
        with pytest.raises(Diagnostic) as raised:
            session.sql(text)
        assert (raised.value.condition, raised.value.position is not None) == (condition, True), text
    # What is refused for another reason leaves nothing behind: nobody would be told what came before.
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "_owner").write_text("somebody else")
    with pytest.raises(Diagnostic, match="SINK_TAKEN"):
        session.sql(f"START late WITH HISTORY AS INSERT INTO json('{taken}') SELECT a FROM F WINDOW(ROWS 2)")
    graph = live.run.graph
    assert not catching_up(graph.queries(), graph.ledger.latest)
    file.write_text("a,t\n7,1\n8,20\n9,21\n")
    with pytest.raises(Diagnostic, match=r"HISTORY_GONE.*1\.csv is gone, or has changed"):
        session.query("SELECT a FROM F WINDOW(ROWS 2)").start("late", begin=False, history=True)
    assert session.queries() == ["files", "rows"]
    session.close()
