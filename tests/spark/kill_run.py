"""A live graph from files into Parquet sinks, as a program of its own: so that a test can kill it.

Arguments: the directory with the rows' files, the state directory, the sinks' directory, the number of partitions. A worker that dies
ends an epoch; the graph goes on from the last one that counted. At the end, the answers are written beside the sinks.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.spark.kept_graph import QUERIES, answer, refused, started
from tidegate.algebra.failures import WORKER_DIED
from tidegate.errors import Diagnostic
from tidegate.runtime.jobs import worker_died
from tidegate.runtime.live import LiveRun
from tidegate.runtime.places import EPOCHS
from tidegate.spark.context import spark_session


def survived(step: Callable[[], Any]) -> bool:
    """Whether no worker died during a step."""
    try:
        step()
    except Exception as problem:
        died = isinstance(problem, Diagnostic) and problem.condition == WORKER_DIED
        if died or worker_died(str(problem)):
            return False
        raise
    return True


def take_in(run: LiveRun) -> None:
    if not run.graph.ledger.latest.finished:
        run.drain()
        run.graph.finish()
    run.graph.deliver()


def write_answers(spark: SparkSession, run: LiveRun, path: Path) -> None:
    found = {name: answer(run.result(name)) for name in QUERIES} | {"refused": refused(spark, run)}
    path.write_text(json.dumps(found))


def main(rows: str, state: str, out: str, partitions: str) -> None:
    spark = spark_session("local[2]")
    run = started(spark, Path(rows), Path(state), int(partitions), Path(out))
    # Every process runs its epochs elsewhere, and the first one decides who feeds the graph.
    run.graph.epochs.asked = random.choice(EPOCHS)
    run.structured = random.random() < 0.5
    print(f"started: {run.graph.epochs.asked}, {'structured' if run.structured else 'direct'}", flush=True)
    for step in (lambda: take_in(run), lambda: write_answers(spark, run, Path(out, "answers.json"))):
        while not survived(step):
            pass
    run.stop()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
