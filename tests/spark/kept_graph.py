"""A live graph with all that keeps state: joins, outer joins, row windows, KEY views, groups; over files that come one by one.

Rows that cannot be used are among them. It runs in a process that tests kill, and on state that they damage.
"""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tidegate import connect
from tidegate.connectors.sinks import make_sink
from tidegate.runtime.live import LiveRun
from tidegate.runtime.results import Result

STREAMS = """
CREATE STREAM L(k INT, v INT, t BIGINT) SOURCE json('{rows}/L') ORDERED BY t WITH (slack = 5, max_files_per_trigger = 1);
CREATE STREAM R(k INT, w INT, t BIGINT) SOURCE json('{rows}/R') ORDERED BY t WITH (slack = 5, max_files_per_trigger = 1);
CREATE STREAM Current OVER L KEY k;
"""

QUERIES = {
    "joined": "SELECT a.k, a.v, b.n FROM L WINDOW(RANGE 10) a,"
    " (SELECT k, COUNT(*) AS n FROM L WINDOW(RANGE 10) GROUP BY k) b WHERE a.k = b.k",
    "outer": "SELECT l.k, l.v, r.w FROM L WINDOW(RANGE 6) l LEFT JOIN R WINDOW(RANGE 9) r ON l.k = r.k",
    "rows": "SELECT k, SUM(v) AS s, COUNT(*) AS n FROM L WINDOW(PARTITION BY k ROWS 3) GROUP BY k",
    "keyed": "SELECT c.k, c.v, r.w FROM Current c, R WINDOW(ROWS 4) r WHERE c.k = r.k",
    "total": "SELECT COUNT(*) AS n, SUM(v) AS s, MAX(v) AS m FROM Current",
}

DELIVERED = ("joined", "keyed")
"""The queries with a sink: each costs as much as an epoch."""

REFUSED = "no number"


def write_file(folder: Path, number: int, below: str = "") -> None:
    """The files of both streams with one number, in a folder below each stream's if one is named."""
    dice = random.Random(number)
    for name, value in (("L", "v"), ("R", "w")):
        rows: list[dict[str, Any]] = [
            {"k": dice.randrange(4), value: dice.randrange(50), "t": 7 * number + dice.randrange(9)}
            for _ in range(6)
        ]
        rows.insert(dice.randrange(6), {"k": REFUSED, value: number, "t": 7 * number})
        path = folder / name / below / f"{number}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}")
        part.write_text("".join(json.dumps(r) + "\n" for r in rows))
        # Spark takes files in order of their age.
        os.utime(part, (1_700_000_000 + number, 1_700_000_000 + number))
        part.rename(path)


def started(
    spark: SparkSession | None,
    rows: Path,
    state: Path | str,
    partitions: int | None = None,
    sinks: Path | None = None,
) -> LiveRun:
    """The graph on its state, not running by itself."""
    session = connect(spark, master="local[2]", state=str(state))
    session.sql(STREAMS.format(rows=rows))
    asked = {name: session.query(text) for name, text in QUERIES.items()}
    run = session.engine.start(
        {name: query.plan for name, query in asked.items()},
        {n: d for query in asked.values() for n, d in query.definitions.items()},
        sinks={name: [make_sink("parquet", (str(sinks / name),))] for name in DELIVERED} if sinks else None,
        partitions=partitions,
        begin=False,
        every=0.05,
    )
    run.graph.files_limit = 3
    return run


def answer(result: Result) -> list[tuple[Any, ...]]:
    """An answer as rows that all count, in one order."""
    return sorted((tuple(r) for r in result.intervals().collect()), key=repr)


def refused(spark: SparkSession, run: LiveRun) -> list[tuple[Any, ...]]:
    """The rows that were refused, wherever they are kept."""
    files = [run.graph.storage.path(f.file) for f in run.graph.ledger.refused]
    return sorted(tuple(r)[1:] for r in spark.read.parquet(*files).collect())
