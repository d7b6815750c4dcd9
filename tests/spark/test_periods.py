"""Rows of an answer as periods: what ends where an equal row begins goes on."""

from __future__ import annotations

from pyspark.sql import SparkSession

import tidegate

# in windows of 5: [1, 6), [6, 11) and [7, 12)
ROWS = [{"k": "a", "t": 1}, {"k": "a", "t": 6}, {"k": "a", "t": 7}]


def test_adjacent_equal_rows_are_one_period(spark: SparkSession) -> None:
    tg = tidegate.connect(spark=spark)
    tg.stream("S", ROWS, ordered_by="t")
    result = tg.query("SELECT k FROM S WINDOW(RANGE 5)").run()
    assert sorted(map(tuple, result.intervals().collect())) == [("a", 1, 11), ("a", 7, 12)]
    computed = sorted(map(tuple, result.intervals(raw=True).collect()))
    assert computed == [("a", 1, 6), ("a", 6, 11), ("a", 7, 12)]
    # of rows that end after an instant, the whole period is shown
    assert sorted(map(tuple, result.intervals(since=11).collect())) == [("a", 7, 12)]


def test_a_streams_rows_stay_single_instants(spark: SparkSession) -> None:
    tg = tidegate.connect(spark=spark)
    tg.stream("S", ROWS, ordered_by="t")
    result = tg.query("SELECT k FROM S").run()
    for raw in (False, True):
        rows = sorted(map(tuple, result.intervals(raw=raw).collect()))
        assert rows == [("a", 1, 2), ("a", 6, 7), ("a", 7, 8)]
