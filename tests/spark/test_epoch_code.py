"""An epoch costs what its rows cost: Spark compiles its code once, not again for every watermark."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from tests.spark.test_runtime import DEFINITIONS, plans
from tidegate.runtime.engine import Engine


def test_the_code_of_an_epoch_is_compiled_once(spark: SparkSession, tmp_path: Path) -> None:
    compiled = spark._jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME()  # type: ignore[union-attr]
    setting = "spark.sql.execution.arrow.localRelationThreshold"
    before = spark.conf.get(setting)
    # Otherwise the optimizer computes the few rows itself, and nothing is compiled.
    spark.conf.set(setting, "0")
    try:
        run = Engine(spark, str(tmp_path), partitions=2).start(
            {"q": plans()["join"]}, DEFINITIONS, begin=False
        )
        counts, watermarks = [], []
        for t in range(10, 60, 10):
            run.graph.advance({"S": [(1, 1.0, t)], "R": [(1, "x", t + 1)]})
            counts.append(compiled.getCount())
            watermarks.append(run.graph.ledger.latest.upto)
    finally:
        spark.conf.set(setting, before)
    # The first epoch has no watermark yet, the second is the first that can meet late rows.
    assert counts[0] > 0
    assert counts[2:] == [counts[2]] * 3
    assert len(set(watermarks)) == len(watermarks)
