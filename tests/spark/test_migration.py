"""Running queries are answered by other plans and other texts: through Spark, files and restarts nobody who reads an answer notices.

`tests/fuzz/test_migration.py` replaces generated plans by others; `test_changing_graph.py` does so in a graph that is killed.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.spark.test_joining import BATCHES, opened, snapshots
from tidegate.connectors.sinks import make_sink
from tidegate.errors import Diagnostic
from tidegate.runtime.equivalence import equivalent
from tidegate.runtime.graph import LiveGraph
from tidegate.time import MIN
from tidegate.worker.segments import WAITING, decode

COUNTS = "SELECT w, COUNT(*) AS n FROM S WINDOW(RANGE 5) GROUP BY w"
PAIRS = {
    "joins": (
        f"SELECT a.k, a.v, b.w, c.n FROM S WINDOW(RANGE 6) a JOIN S WINDOW(RANGE 4) b ON a.k = b.k JOIN ({COUNTS}) c ON b.w = c.w",
        f"SELECT a.k, a.v, c.w, c.n FROM ({COUNTS}) c JOIN S WINDOW(RANGE 4) b ON c.w = b.w JOIN S WINDOW(RANGE 6) a ON b.k = a.k",
    ),
    "key stream": (
        "SELECT a.k, a.v, b.v AS u FROM K a JOIN S WINDOW(RANGE 5) b ON a.w = b.w",
        "SELECT a.k, a.v, b.v AS u FROM S WINDOW(RANGE 5) b JOIN K a ON b.w = a.w",
    ),
    "last rows": (
        "SELECT a.k, a.v, b.v AS u FROM S WINDOW(PARTITION BY k ROWS 2) a LEFT JOIN K b ON a.w = b.w",
        "SELECT a.k, a.v, b.v AS u FROM K b RIGHT JOIN S WINDOW(PARTITION BY k ROWS 2) a ON a.w = b.w",
    ),
}
"""Texts that mean the same and are planned otherwise."""


def left_on_disk(graph: LiveGraph) -> set[str]:
    """The operators and inputs of which something is on the disk although no plan has them."""
    plan, found = graph._ready().plan, set[str]()
    for segment in graph.ledger.latest.segments():
        sections = decode(graph.storage.read_sealed(segment))
        found |= {*sections, *sections.get(WAITING, ())} - {WAITING}
    return found - {*plan.operators, *plan.inputs}


def applied(out: Path) -> list[Counter[tuple[Any, ...]]]:
    """The snapshots that whoever applies the delivered changes has."""
    rows = [r for f in sorted(out.glob("epoch=*/*.parquet")) for r in pq.read_table(f, partitioning=None).to_pylist()]  # fmt: skip
    found, bag = [], Counter[tuple[Any, ...]]()
    for t in range(38):
        for row in (r for r in rows if r["ts"] == t):
            bag[tuple(v for n, v in row.items() if n not in ("op", "ts"))] += 1 if row["op"] == "+" else -1
        assert min(bag.values(), default=0) >= 0
        found.append(+bag)
    return found


@pytest.mark.parametrize("pair", PAIRS)
def test_an_equivalent_text_takes_over_without_a_gap(spark: SparkSession, tmp_path: Path, pair: str) -> None:
    """The program ends while both plans run, and goes on in more partitions; the changes that a sink has got are those of one plan."""
    first, second = PAIRS[pair]
    session = opened(spark, tmp_path / "state")
    out = tmp_path / "out"
    live = session.query(first).start("q", sink=make_sink("parquet", (str(out),)), begin=False)
    graph = live.run.graph
    graph.epochs.asked = "driver"
    for batch in BATCHES[:2]:
        graph.advance({"S": batch})
    before = set(graph._ready().plan.operators)
    assert equivalent(graph.query("q").plan, session.query(second).plan)
    session.sql(f"ALTER QUERY Q AS {second}")
    (turn,) = graph.query("q").known.before
    assert turn.same
    assert graph.ledger.latest.upto <= turn.until <= graph.ledger.latest.upto + 6
    graph.advance({"S": BATCHES[2]})
    session.close()
    session = opened(spark, tmp_path / "state", partitions=3)
    live = session.query(second).start("q", sink=make_sink("parquet", (str(out),)), begin=False)
    graph = live.run.graph
    graph.epochs.asked = "driver"
    for batch in BATCHES[3:]:
        graph.advance({"S": batch})
    assert set(graph._ready().plan.operators) != before
    assert not graph.query("q").leaving
    assert graph.rests
    assert not left_on_disk(graph)
    assert live.complete_from == MIN
    graph.finish()
    expected = snapshots(opened(spark).query(first).run(), range(38))
    assert snapshots(live, range(38)) == expected
    assert applied(out) == expected
    assert Counter(tuple(r) for r in live.at(12).collect()) == expected[12]
    session.close()


def test_another_text_is_a_successor_and_both_are_in_the_history(spark: SparkSession, tmp_path: Path) -> None:
    """The old text answers until the new one is complete, twice; the program ends before the second successor answers."""
    texts = [f"SELECT k, COUNT(*) AS n FROM S WINDOW(RANGE {r}) GROUP BY k" for r in (4, 7, 3)]
    session = opened(spark, tmp_path)
    live = session.query(texts[0]).start("q", begin=False)
    graph = live.run.graph
    graph.epochs.asked = "driver"
    graph.advance({"S": BATCHES[0]})
    graph.advance({"S": BATCHES[1]})
    live = live.alter(session.query(texts[1]))
    assert [(t.until, t.same) for t in graph.query("q").known.before] == [(18, False)]
    graph.advance({"S": BATCHES[2]})
    assert graph.ledger.latest.upto == 17
    (line,) = session.sql("SHOW QUERIES").collect()
    assert (line.since, line.complete_from, line.altered) == (None, 18, 18)
    graph.advance({"S": BATCHES[3]})
    session.sql(f"ALTER QUERY q AS {texts[2]}")
    graph.advance({"S": BATCHES[4]})
    session.close()
    session = opened(spark, tmp_path)
    live = session.query(texts[2]).start("q", begin=False)
    graph = live.run.graph
    graph.finish()
    ends = [0, *(t.until for t in graph.query("q").known.before), 38]
    assert ends == [0, 18, 26, 38]
    whole = opened(spark)
    expected = [
        snapshot
        for low, high, text in zip(ends, ends[1:], texts, strict=False)
        for snapshot in snapshots(whole.query(text).run(), range(low, high))
    ]
    assert snapshots(live, range(38)) == expected
    assert not left_on_disk(graph)
    session.close()


def test_a_query_is_altered_again_before_the_first_text_has_begun_to_answer(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Two plans answer up to one instant if no time has passed between two alterations; what no epoch has seen before a query was stopped is forgotten."""
    first, *others = (
        f"SELECT k, COUNT(*) AS n FROM S WINDOW(RANGE {size}) WHERE v >= {low} GROUP BY k"
        for size, low in ((4, 0), (7, 0), (7, 1))
    )
    session = opened(spark, tmp_path)
    live = {n: session.query(first).start(n, begin=False) for n in ("twice", "stopped")}
    lasting = session.query("SELECT k, v FROM S WINDOW(RANGE 3)").start("lasting", begin=False)
    graph = lasting.run.graph
    graph.epochs.asked = "driver"
    for batch in BATCHES[:2]:
        graph.advance({"S": batch})
    session.sql(f"ALTER QUERY stopped AS {others[0]}; STOP stopped")
    live["stopped"] = session.query(first).start("stopped", begin=False)
    lasting = lasting.alter(session.query("SELECT k, v FROM S"))
    for text in others:
        session.sql(f"ALTER QUERY twice AS {text}")
        graph.advance({})
    assert [t.until for t in graph.query("twice").known.before] == [18, 18]
    graph.advance({"S": BATCHES[2]})
    assert graph.rests
    graph.advance({"S": BATCHES[3]})
    # No row comes, and yet what the plans kept that have answered goes.
    assert not graph.rests
    graph.advance({})
    assert graph.rests
    assert not left_on_disk(graph)
    graph.advance({"S": BATCHES[4]})
    graph.finish()
    whole = opened(spark)
    expected = snapshots(whole.query(first).run(), range(38))
    assert snapshots(live["stopped"], range(38)) == expected
    after = snapshots(whole.query(others[1]).run(), range(18, 38))
    assert snapshots(live["twice"], range(38)) == [*expected[:18], *after]
    # Rows that last are periods, also beside those of a stream: in microseconds their instants would be too many.
    (turn,) = graph.query("lasting").known.before
    ends = [r.valid_to - r.valid_from for r in lasting.intervals().collect() if r.valid_from < turn.until - 3]
    assert min(ends) == 3
    session.close()


def test_what_cannot_be_altered_is_refused_where_it_is_written(spark: SparkSession, tmp_path: Path) -> None:
    session = opened(spark, tmp_path)
    session.query(COUNTS).start("q", begin=False)

    def refused(text: str) -> tuple[str, int | None]:
        with pytest.raises(Diagnostic) as raised:
            session.sql(text)
        at = raised.value.position
        return raised.value.condition, None if at is None else at.column

    assert refused(f"ALTER QUERY r AS {COUNTS}") == ("UNKNOWN_QUERY", 13)
    assert refused("ALTER QUERY q AS SELECT w FROM S") == ("OTHER_COLUMNS", 13)
    assert refused("ALTER QUERY q AS SELECT w, COUNT(*) AS m FROM S GROUP BY w") == ("OTHER_COLUMNS", 13)
    assert refused(f"ALTER QUERY q AS {COUNTS.replace('5', '6')}") == ("NOT_BEGUN", 13)
    assert refused("ALTER QUERY q AS SELECT nothing FROM S") == ("UNKNOWN_COLUMN", 25)
    assert refused("ALTER STREAM S AS SELECT w FROM S") == ("UNSUPPORTED", 1)
    assert session.running.named("q").run.graph.query("q").known.before == ()
    session.close()


def test_a_restart_that_plans_otherwise_goes_on_with_the_plan_that_is_known(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after an upgrade whose rules give another plan, and with a text that was written otherwise meanwhile."""
    first, second = PAIRS["joins"]
    session = opened(spark, tmp_path)
    graph = session.query(first).start("q", begin=False).run.graph
    graph.advance({"S": BATCHES[0]})
    runs = graph.query("q").known.answer
    session.close()
    session = opened(spark, tmp_path)
    graph = session.query(second).start("q", begin=False).run.graph
    assert graph.query("q").known.answer == runs
    for batch in BATCHES[1:]:
        graph.advance({"S": batch})
    session.close()
    session = opened(spark, tmp_path)
    monkeypatch.setattr("tidegate.query.optimize", lambda plan: (plan, ()))
    live = session.query(first).start("q", begin=False)
    assert live.run.graph.query("q").known.answer == runs
    live.run.graph.finish()
    monkeypatch.undo()
    assert snapshots(live, range(38)) == snapshots(opened(spark).query(first).run(), range(38))
    session.close()
    session = opened(spark, tmp_path)
    with pytest.raises(Diagnostic, match="QUERY_CHANGED"):
        session.query(first.replace("RANGE 6", "RANGE 5")).start("q", begin=False)
    session.close()
