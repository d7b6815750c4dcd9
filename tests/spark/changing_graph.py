"""A graph in which queries come and go at random, as a program of its own: so that a test can kill it.

What happens is a list of steps that a seed determines. A journal says which steps are done; of the step in which the program was killed, what the state
says has happened is not done again. When a query goes, and at the end, its answer is written down for the test to judge.

Arguments: the directory, the seed, the number of epochs, the retention in ticks (0: for ever).
"""

from __future__ import annotations

import json
import os
import random
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from tests.fuzz.test_migration import somewhere
from tidegate import connect
from tidegate.errors import Diagnostic
from tidegate.exchange.messages import ResultFile
from tidegate.runtime.graph import LiveGraph
from tidegate.runtime.running import LiveQuery
from tidegate.runtime.verification import signed_rows
from tidegate.session import Session
from tidegate.spark.context import spark_session
from tidegate.worker.segments import WAITING, decode

STREAMS = {"S": "k INT, v INT, w STRING, t BIGINT", "R": "k INT, u INT, t BIGINT"}
TABLE = [(0, "zero"), (1, "one"), (2, "two"), (2, "zwei")]
VIEWS = "CREATE STREAM K OVER S KEY k; CREATE VIEW Counts AS SELECT k, COUNT(*) AS n, MAX(v) AS m FROM S WINDOW(RANGE 9) GROUP BY k"

BASE = "base"
"""It stays: rows of streams that nobody reads would be nowhere."""

QUERIES = {
    BASE: "SELECT s.k, s.v, r.u FROM S WINDOW(RANGE 5) s JOIN R WINDOW(RANGE 4) r ON s.k = r.k",
    "counts": "SELECT k, n FROM Counts",
    "many": "SELECT k, m FROM Counts WHERE n > 2",
    "counted": "SELECT n, COUNT(*) AS c FROM Counts GROUP BY n",
    "wider": "SELECT k, SUM(v) AS s FROM S WINDOW(RANGE 14) WHERE v > 3 GROUP BY k",
    "rows": "SELECT k, v, w FROM S WINDOW(PARTITION BY k ROWS 2)",
    "sums": "SELECT k, SUM(v) AS s FROM (SELECT k, v, w FROM S WINDOW(PARTITION BY k ROWS 2)) GROUP BY k",
    "last": "SELECT u FROM R WINDOW(ROWS 3)",
    "relation": "SELECT k, v FROM K WHERE v > 2",
    "grouped": "SELECT w, COUNT(*) AS n, MIN(v) AS low FROM K GROUP BY w",
    "joined": "SELECT a.k, a.v, b.u FROM K a JOIN R WINDOW(RANGE 6) b ON a.k = b.k",
    "outer": "SELECT a.k, a.m, b.u FROM Counts a LEFT JOIN R WINDOW(RANGE 3) b ON a.k = b.k AND b.u > a.m",
    "named": "SELECT s.v, T.label FROM S WINDOW(RANGE 3) s JOIN T ON s.k = T.k",
    "best": "SELECT k, v, w FROM S WINDOW(RANGE 8) ORDER BY v DESC LIMIT 3",
    "without": "SELECT k FROM S WINDOW(RANGE 7) EXCEPT SELECT k FROM R WINDOW(RANGE 7)",
    "distinct": "SELECT DISTINCT w, v FROM S WINDOW(RANGE 6)",
    "inserted": "SELECT * FROM ISTREAM(SELECT k, COUNT(*) AS n FROM S WINDOW(RANGE 5) GROUP BY k)",
    "tumbling": "SELECT w, COUNT(*) AS n FROM S WINDOW(RANGE 6 SLIDE 6) GROUP BY w",
    "now": "SELECT v FROM S WHERE v > 7",
}


@dataclass(frozen=True)
class Step:
    """What happens before an epoch, and its rows."""

    rows: dict[str, list[tuple[Any, ...]]]
    """The streams' rows from the first to those of this epoch."""
    starts: tuple[tuple[str, bool], ...]
    """Names of queries, and whether they are to be told what came before."""
    stops: tuple[str, ...]
    changes: tuple[str, ...]
    """Names of queries whose plans are replaced by others that mean the same."""
    partitions: int | None
    """The program's session ends, and another one goes on with so many partitions."""


def kind_of(name: str) -> str:
    return name.partition("_")[0]


@cache
def steps(seed: int, epochs: int) -> list[Step]:
    dice, running, found = random.Random(seed), list[str](), list[Step]()
    rows: dict[str, list[tuple[Any, ...]]] = {"S": [], "R": []}
    for number in range(epochs):
        for _ in range(dice.choice((0, 1, 3, 5))):
            rows["S"].append((dice.randrange(4), dice.randrange(10), dice.choice("abc"), 2 * number))
        for _ in range(dice.choice((0, 1, 2))):
            rows["R"].append((dice.randrange(4), dice.randrange(10), 2 * number + 1))
        stops = tuple(dice.sample(running, min(len(running), dice.choice((0, 0, 0, 1, 1, 3)))))
        kinds = [k for k in QUERIES if k != BASE]
        starts = [
            (f"{k}_{number}", dice.random() < 0.12) for k in dice.sample(kinds, dice.choice((0, 0, 1, 1, 2)))
        ]
        if len(running) > 12:
            starts = []
        running = [n for n in running if n not in stops] + [n for n, _ in starts]
        again = dice.randint(1, 3) if dice.random() < 0.08 else None
        copied = {name: list(found) for name, found in rows.items()}
        changes = tuple(n for n in (BASE, *running) if dice.random() < 0.25)
        found.append(Step(copied, tuple(starts), stops, changes, again))
    return found


class Play:
    """The program."""

    def __init__(self, spark: SparkSession, place: Path, retention: int) -> None:
        self.spark, self.place, self.retention = spark, place, retention
        (place / "answers").mkdir(parents=True, exist_ok=True)
        self.live: dict[str, LiveQuery] = {}
        self.session = self._opened(None)

    @property
    def graph(self) -> LiveGraph:
        return self.live[BASE].run.graph

    def _opened(self, partitions: int | None) -> Session:
        session = connect(self.spark, state=str(self.place / "state"), partitions=partitions)
        for name, schema in STREAMS.items():
            session.stream(name, [], schema=schema, ordered_by="t")
        session.table("T", TABLE, schema="k INT, label STRING")
        session.sql(VIEWS)
        self.session, self.live = session, {}
        self.start(BASE)
        self.graph.epochs.asked = "driver"
        self.graph.files_limit = 4
        for name in self.graph.missing():
            self.start(name)
        return session

    def start(self, name: str, history: bool = False) -> None:
        query = self.session.query(QUERIES[kind_of(name)])
        kept = self.retention or None
        try:
            self.live[name] = query.start(name, begin=False, retention=kept, history=history)
        except Diagnostic as problem:
            if problem.condition != "HISTORY_GONE" or not kept:
                raise
            self.live[name] = query.start(name, begin=False, retention=kept)

    def stop(self, name: str) -> None:
        self.write_answer(name)
        self.live.pop(name).stop()

    def push(self, step: Step) -> None:
        """Hand in what the state does not have yet."""
        latest, storage = self.graph.ledger.latest, self.graph.storage
        for name, rows in step.rows.items():
            known = latest.sources.get(name)
            counted = 0 if known is None else known.rows
            for folder in (f"inbox/{name}", f"taking/{name}"):
                waiting = set(storage.names(folder)) - set(latest.taken.get(name, ()))
                counted += sum(pq.read_metadata(storage.path(f"{folder}/{f}")).num_rows for f in waiting)
            assert counted <= len(rows), (name, counted, len(rows))
            if counted < len(rows):
                self.session.push(name, rows[counted:])

    def run(self, step: Step) -> None:
        if step.partitions is not None:
            self.session.close()
            self._opened(step.partitions)
        for name in step.stops:
            if name in self.live:
                self.stop(name)
        for name, history in step.starts:
            if name not in self.live:
                self.start(name, history)
        for name in step.changes:
            if name in self.live:
                self.change(name)
        self.push(step)
        self.live[BASE].run.drain()

    def change(self, name: str) -> None:
        """Let another plan answer a query, if one can be made, also while one is being replaced."""
        if not self.graph.query(name).has_run(self.graph.ledger.latest):
            return
        dice = random.Random(f"{name} {self.graph.ledger.latest.epoch}")
        written = self.session.query(QUERIES[kind_of(name)])
        plans = [written.plan, written.bound.plan, *(somewhere(written.plan, dice) for _ in range(2))]
        if self.graph.change(name, dice.choice(plans)) is not None:
            with (self.place / "replaced").open("a") as journal:
                journal.write(f"{name}\n")

    def finish(self) -> None:
        self.live[BASE].run.finish()
        for name in list(self.live):
            self.write_answer(name)

    def write_answer(self, name: str) -> None:
        query, ledger = self.live[name], self.graph.ledger
        rows = signed_rows(query.result, query.query.schema)
        known = self.graph.now(query.query).known
        found = {
            "complete": known.nothing_missing,
            "since": max(known.first, ledger.horizon),
            "upto": query.result.upto,
            "rows": rows,
        }
        path = self.place / "answers" / f"{name}.json"
        path.with_suffix(".part").write_text(json.dumps(found))
        os.replace(path.with_suffix(".part"), path)

    def check_storage(self) -> None:
        """Nothing is on the disk that no query uses, or that retention lets go."""
        graph, ledger = self.graph, self.graph.ledger
        plan, latest = graph._ready().plan, ledger.latest
        assert {q.name for q in graph.queries()} == set(latest.queries), (
            "no epoch has passed since a query came or went"
        )
        for segment in latest.segments():
            sections = decode(graph.storage.read_sealed(segment))
            left = set(sections) - {*plan.operators, WAITING}
            assert not left, f"{segment} holds the state of operators that no query uses: {left}"
            waiting = set(sections.get(WAITING, ())) - set(plan.inputs)
            assert not waiting, f"{segment} holds rows that wait for nobody: {waiting}"
        named = {*latest.segments(), *ledger._previous}
        state = {f"state/{n}" for n in graph.storage.names("state")}
        assert state <= named, f"no manifest of the last two epochs names {sorted(state - named)}"
        kept = {r.file for r in (*ledger.results, *ledger.refused)}
        results = {f"results/{n}" for n in graph.storage.names("results")}
        assert results <= {*kept, *ledger._replaced}, sorted(results - kept - set(ledger._replaced))
        assert not any(_is_old(r, ledger.horizon) for r in ledger.results), "retention has left files"
        for folder in (f"{place}/{name}" for place in ("inbox", "taking") for name in STREAMS):
            assert not graph.storage.names(folder), folder


def _is_old(file: ResultFile, horizon: int) -> bool:
    return file.counts.max_te < horizon


def main(place: str, seed: str, epochs: str, retention: str) -> None:
    journal = Path(place, "journal")
    journal.parent.mkdir(parents=True, exist_ok=True)
    done = int(journal.read_text()) if journal.exists() else 0
    spark = spark_session("local[2]")
    play = Play(spark, Path(place), int(retention))
    for number, step in list(enumerate(steps(int(seed), int(epochs))))[done:]:
        play.run(step)
        play.check_storage()
        journal.with_suffix(".part").write_text(str(number + 1))
        os.replace(journal.with_suffix(".part"), journal)
    if not play.graph.ledger.latest.finished:
        play.finish()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
