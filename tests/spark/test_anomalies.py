"""Operations that a modify stream cannot apply are reported by their source, recorded and live; nothing is guessed."""

from __future__ import annotations

import json

from pyspark.sql import SparkSession

import tidegate

ROWS = [
    {"id": 1, "v": 10, "op": "insert", "t": 1},
    {"id": 1, "v": 11, "op": "insert", "t": 2},  # known already
    {"id": 2, "v": 20, "op": "delete", "t": 3},  # unknown
    {"id": 3, "v": 30, "op": "explode", "t": 4},  # no such operation
    {"id": 1, "v": 12, "op": "update", "t": 5},
]


def test_anomalies_are_counted_and_kept(spark: SparkSession, tmp_path: object) -> None:
    session = tidegate.connect(spark=spark, state=str(tmp_path))
    session.stream("Log", ROWS, ordered_by="t")
    session.sql("CREATE STREAM Items OVER Log KEY id OPERATION op")
    live = session.query("SELECT id, v FROM Items").start(name="kept", begin=False)
    live.finish()
    answer = {tuple(r) for r in live.intervals().collect()}
    assert answer == {(1, 10, 1, 5), (1, 12, 5, None)}
    refused = live.status()["sources"]["Log"]["quarantine"]
    assert sum(refused.values()) == 3, refused
    kept = spark.read.parquet(live.run.graph.storage.path("quarantine/Log")).collect()
    assert sorted(json.loads(r.raw)["id"] for r in kept) == [1, 2, 3]
    assert len({r.reason for r in kept}) == 3
