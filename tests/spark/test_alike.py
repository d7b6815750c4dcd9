"""Many queries that are equal up to constants: one plan runs for all, and each has its own name, answer, sink and past."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.test_joining import BATCHES, opened, snapshots
from tidegate.errors import Diagnostic
from tidegate.runtime import alike
from tidegate.time import MIN

TEMPLATES = {
    "rows": "SELECT v, w FROM S WINDOW(RANGE 5) WHERE k = {}",
    "groups": "SELECT k, COUNT(*) AS n FROM S WINDOW(RANGE 7) WHERE k = {} GROUP BY k",
    "hidden": "SELECT COUNT(*) AS n, MAX(w) AS m FROM S WINDOW(RANGE 7) WHERE v = {}",
    "thresholds": "SELECT w, COUNT(*) AS n FROM S WINDOW(RANGE 9) GROUP BY w HAVING COUNT(*) > {}",
    "pairs": "SELECT a.k, b.w FROM K a JOIN (SELECT k, w FROM S WINDOW(RANGE 4)) b ON a.k = b.k AND a.v > {}",
}


@pytest.mark.parametrize("epochs", ["driver", "spark"])
def test_many_that_are_alike(spark: SparkSession, tmp_path: Path, monkeypatch: Any, epochs: Any) -> None:
    """Two of each run by themselves, the third and all that follow as one; some come later, some go; the program ends and goes on."""
    monkeypatch.setattr(alike, "MANY", 3)
    session = opened(spark, tmp_path / "state")
    texts = {f"{name} {c}": text.format(c) for c in range(5) for name, text in TEMPLATES.items()}
    live: dict[str, Any] = {}

    def start(names: list[str]) -> None:
        for name in names:
            live[name] = session.query(texts[name]).start(name, begin=False)

    start([n for n in texts if n[-1] in "01"])
    graph = live["rows 0"].run.graph
    graph.epochs.asked = epochs
    graph.advance({"S": BATCHES[0]})
    start([n for n in texts if n[-1] in "23"])
    answers = {n: q.query.known.answer for n, q in live.items()}
    for name in TEMPLATES:
        assert answers[f"{name} 2"] == answers[f"{name} 3"]
        assert len({answers[f"{name} {c}"] for c in (0, 1, 2)}) == 3
    operators = len(graph._ready().plan.operators)
    graph.advance({"S": BATCHES[1]})
    before = len(graph._ready().plan.operators)
    start([n for n in texts if n[-1] == "4"])
    # One more adds nothing to what is computed, and begins with all that came before.
    assert len(graph._ready().plan.operators) == before == operators
    complete = {name: live[f"{name} 4"].complete_from for name in TEMPLATES}
    assert complete == {name: live[f"{name} 2"].complete_from for name in TEMPLATES}
    # Windows have to fill; the counts of the thresholds ran already.
    newest = BATCHES[0][-1]["t"]
    assert complete == {"rows": newest + 5, "groups": newest + 7, "hidden": newest + 7, "thresholds": newest, "pairs": newest + 4}  # fmt: skip
    told = session.query(TEMPLATES["groups"].format(9)).explain()
    assert "one of many alike: of the answer that runs for all of them, rows with k = 9" in told
    graph.advance({"S": BATCHES[2]})
    gone = "rows 3"
    left = live.pop(gone)
    graph.drop(gone)
    upto = graph.ledger.latest.upto
    graph.advance({"S": BATCHES[3]})
    assert left.result.upto == upto
    session.close()
    session = opened(spark, tmp_path / "state", partitions=3)
    names = list(reversed(live))
    live.clear()
    start(names)
    graph = live["rows 0"].run.graph
    graph.epochs.asked = epochs
    assert len(graph._ready().plan.operators) == operators
    graph.advance({"S": BATCHES[4]})
    graph.finish()
    whole = opened(spark)
    compared = [n for n in names if n[-1] in "034"]
    expected = dict(zip(compared, whole.run([whole.query(texts[n]) for n in compared]), strict=True))
    for name, answer in expected.items():
        since = range(max(live[name].complete_from, 0), 38)
        assert snapshots(live[name], since) == snapshots(answer, since), name
    past = [found["pairs 3"].at(20).collect() for found in (live, expected)]
    assert sorted(map(str, past[0])) == sorted(map(str, past[1])) != []
    session.close()


def test_each_keeps_its_sink(spark: SparkSession, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(alike, "MANY", 2)
    session = opened(spark, tmp_path / "state")
    first = session.query(TEMPLATES["rows"].format(0)).start("first", begin=False)
    alone = first.query.known.answer
    session.query(TEMPLATES["rows"].format(1)).start("second", begin=False)
    # It had not run yet, and so runs as one with the second; whoever holds it reads the same.
    assert first.run.graph.query("first").known.answer != alone
    for c in range(4):
        session.sql(f"START q{c} AS INSERT INTO json('{tmp_path / str(c)}') {TEMPLATES['groups'].format(c)}")
    for batch in BATCHES:
        session.push("S", batch)
    live = session.running.named("q0")
    live.finish()
    whole = opened(spark)
    assert snapshots(first, range(38)) == snapshots(whole.query(TEMPLATES["rows"].format(0)).run(), range(38))
    for c in range(4):
        said = spark.read.json(str(tmp_path / str(c))).select("op", "k", "n", "ts").collect()
        changes = (
            whole.query(TEMPLATES["groups"].format(c)).run().changes().select("op", "k", "n", "ts").collect()
        )
        assert sorted(map(str, said)) == sorted(map(str, changes)) != []
    session.close()


def test_another_constant_is_another_query(spark: SparkSession, tmp_path: Path, monkeypatch: Any) -> None:
    """Under the name of one that has run, only that one goes on; a name that was given up can be taken at once."""
    monkeypatch.setattr(alike, "MANY", 2)
    session = opened(spark, tmp_path)
    text = "SELECT v, w FROM K WHERE k = {}"
    live = [session.query(text.format(c)).start(f"q{c}", begin=False) for c in range(3)]
    graph = live[0].run.graph
    graph.advance({"S": BATCHES[0]})
    session.close()
    session = opened(spark, tmp_path)
    session.query(text.format(0)).start("q0", begin=False)
    with pytest.raises(Diagnostic) as raised:
        session.query(text.format(4)).start("q1", begin=False)
    assert raised.value.condition == "QUERY_CHANGED"
    for c in (1, 2):
        session.query(text.format(c)).start(f"q{c}", begin=False)
    live = [session.running.named(f"q{c}") for c in range(3)]
    graph = live[0].run.graph
    graph.advance({"S": BATCHES[1]})
    live[1].stop()
    again = session.query(text.format(4)).start("q1", begin=False)
    other = session.query("SELECT w, COUNT(*) AS n FROM K GROUP BY w").start("counts", begin=False)
    for batch in BATCHES[2:]:
        graph.advance({"S": batch})
    graph.finish()
    whole = opened(spark)
    for query, asked in ((again, text.format(4)), (other, "SELECT w, COUNT(*) AS n FROM K GROUP BY w")):
        since = range(max(query.complete_from or 0, 0), 38)
        assert snapshots(query, since) == snapshots(whole.query(asked).run(), since), asked
    session.close()


def test_what_runs_is_taken_over(spark: SparkSession, tmp_path: Path, monkeypatch: Any) -> None:
    """One that asks the same reads what runs for its twin; many over a view that is complete are complete; a condition that guards an expression stays below."""
    monkeypatch.setattr(alike, "MANY", 3)
    session = opened(spark, tmp_path)
    view = "SELECT k, w, COUNT(*) AS n FROM S WINDOW(RANGE 6) GROUP BY k, w"
    text = "SELECT k, COUNT(*) AS n FROM S WINDOW(RANGE 6) WHERE k = {} GROUP BY k"
    guarded = "SELECT k, 60 / v AS x FROM S WINDOW(RANGE 5) WHERE v > {}"
    session.query(view).start("view", begin=False)
    live = {f"twin {i}": session.query(text.format(1)).start(f"twin {i}", begin=False) for i in range(2)}
    graph = live["twin 0"].run.graph
    graph.advance({"S": BATCHES[0]})
    texts = {"twin 2": text.format(1), "twin 3": text.format(1)}
    texts |= {f"over {c}": text.format(c) for c in (2, 3, 4)}
    texts |= {f"guarded {c}": guarded.format(c) for c in range(4)}
    live |= {n: session.query(t).start(n, begin=False) for n, t in texts.items()}
    assert live["twin 3"].query.known.answer == live["twin 0"].query.known.answer
    assert live["over 4"].query.known.as_one
    assert not live["guarded 3"].query.known.as_one
    reached = graph.ledger.latest.upto
    complete = {n: live[n].complete_from for n in ("twin 2", "over 2", "over 3", "over 4")}
    assert complete == {"twin 2": MIN, "over 2": reached, "over 3": reached, "over 4": reached}
    for batch in BATCHES[1:]:
        graph.advance({"S": batch})
    graph.finish()
    whole = opened(spark)
    for name in ("twin 3", "over 2", "over 4", "guarded 3"):
        since = range(max(live[name].complete_from or 0, 0), 38)
        assert snapshots(live[name], since) == snapshots(whole.query(texts[name]).run(), since), name
    session.close()
