"""The graph of `tests.spark.kept_graph` on a cluster, into Parquet sinks, as a driver that a test can kill.

Arguments: the master, the interpreter of its workers, the folder of rows, the state (a directory or URI), the folder of sinks, the number of partitions; then
settings of Spark's. It says when an epoch counts.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pyarrow.parquet as pq

from tests.cluster.generated import SETTINGS
from tests.fuzz.players import difference
from tests.spark.kept_graph import DELIVERED, QUERIES, REFUSED, STREAMS, refused, started
from tests.spark.kill_run import survived, take_in
from tidegate import connect
from tidegate.reference.snapshots import Arrivals, Reference
from tidegate.runtime.ledger import Ledger, Manifest
from tidegate.runtime.live import LiveRun
from tidegate.runtime.verification import signed_rows
from tidegate.spark.context import spark_session

commit = Ledger.commit


def told(ledger: Ledger, manifest: Manifest) -> None:
    commit(ledger, manifest)
    print(f"epoch {manifest.epoch} in {manifest.partitions}", flush=True)


def compare(run: LiveRun, rows: Path, out: Path) -> None:
    """Every answer is the reference's, and every sink has each change of its query once."""
    session = connect(run.graph.spark)
    session.sql(STREAMS.format(rows=rows))
    reference = Reference({name: arrivals(rows / name) for name in ("L", "R")})
    for name, text in QUERIES.items():
        plan = session.query(text).plan
        found = difference(reference, plan, signed_rows(run.result(name), plan.schema))
        assert found is None, f"{name}: {found}"
    for name in DELIVERED:
        given = [
            tuple(r.values())
            for file in (out / name).glob("epoch=*/*.parquet")
            for r in pq.read_table(file, partitioning=None).to_pylist()
        ]
        changes = [tuple(r) for r in run.result(name).changes().collect()]
        assert len(given) > 0
        assert sorted(given, key=repr) == sorted(changes, key=repr), name
    bad = sum(1 for f in rows.glob("*/*.json") for line in f.open() if REFUSED in line)
    assert len(refused(run.graph.spark, run)) == bad
    print("compared", flush=True)


def arrivals(folder: Path) -> Arrivals:
    """The rows of a stream's files that can be used, as they come."""
    files = sorted(folder.glob("*.json"), key=lambda f: int(f.stem))
    rows = [tuple(json.loads(line).values()) for f in files for line in f.open()]
    return Arrivals([(row, row[-1]) for row in rows if row[0] != REFUSED])


def main(master: str, python: str, rows: str, state: str, out: str, partitions: str, *settings: str) -> None:
    conf = {**SETTINGS, "spark.pyspark.python": python, **dict(s.split("=", 1) for s in settings)}
    spark = spark_session(master, conf=conf)
    Ledger.commit = told  # type: ignore[method-assign]
    run = started(spark, Path(rows), state, int(partitions), Path(out))
    run.graph.epochs.asked = "spark"
    for step in (lambda: take_in(run), lambda: compare(run, Path(rows), Path(out))):
        while not survived(step):
            pass
    run.stop()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
