"""The graph of `tests.spark.kept_graph` on a cluster, into Parquet sinks, as a driver that a test can kill.

Arguments: the master, the interpreter of its workers, the folder of rows, the state (a directory or URI), the folder of sinks, the number of partitions; then
settings of Spark's. It says when an epoch counts.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.cluster.generated import SETTINGS
from tests.spark.kept_graph import started
from tests.spark.kill_run import survived, take_in, write_answers
from tidegate.runtime.ledger import Ledger, Manifest
from tidegate.spark.context import spark_session

commit = Ledger.commit


def told(ledger: Ledger, manifest: Manifest) -> None:
    commit(ledger, manifest)
    print(f"epoch {manifest.epoch} in {manifest.partitions}", flush=True)


def main(master: str, python: str, rows: str, state: str, out: str, partitions: str, *settings: str) -> None:
    conf = {**SETTINGS, "spark.pyspark.python": python, **dict(s.split("=", 1) for s in settings)}
    spark = spark_session(master, conf=conf)
    Ledger.commit = told  # type: ignore[method-assign]
    run = started(spark, Path(rows), state, int(partitions), Path(out))  # type: ignore[arg-type]
    run.graph.epochs.asked = "spark"
    for step in (lambda: take_in(run), lambda: write_answers(spark, run, Path(out, "answers.json"))):
        while not survived(step):
            pass
    run.stop()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
