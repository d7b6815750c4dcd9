"""What Tidegate is compared with answers the same question: Structured Streaming's rows are those of DuckDB."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import duckdb
import pytest
from pyspark.sql import SparkSession

from tests.nexmark.conftest import START, Recorded
from tests.nexmark.oracle import Row, difference
from tidegate.nexmark.engines import of_duckdb, of_spark

WHOLE = ("q2", "q3", "q8", "q20", "interval_join")
CLOSED = ("q5", "q7")


def rows_of_spark(spark: SparkSession, name: str, place: Path, checkpoint: Path) -> list[Row]:
    table = f"peer_{name}"
    # all files in one batch: rows are out of order, and none shall come too late
    writer = of_spark.stream(spark, name, str(place), files=100).format("memory").queryName(table)
    running = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    running.awaitTermination()
    return [tuple(row) for row in spark.table(table).collect()]


def rows_of_duckdb(name: str, place: Path) -> list[Row]:
    with duckdb.connect() as db:
        of_duckdb.define(db, str(place))
        return db.execute(of_duckdb.QUERIES[name]).fetchall()


@pytest.mark.parametrize("name", WHOLE)
def test_all_rows(name: str, slow: Recorded, spark: SparkSession, tmp_path: Path) -> None:
    expected = rows_of_duckdb(name, slow.place)
    assert expected
    assert len(rows_of_spark(spark, name, slow.place, tmp_path)) == len(expected)


@pytest.mark.parametrize("name", CLOSED)
def test_closed_windows(name: str, slow: Recorded, spark: SparkSession, tmp_path: Path) -> None:
    """Windows that end by the watermark, which is 4 seconds before the last bid."""
    until = START + timedelta(seconds=45.99)
    expected = []
    for row in rows_of_duckdb(name, slow.place):
        if name == "q5":
            number, *payload = row
            end = datetime(1970, 1, 1) + timedelta(seconds=2 * number)
        else:
            *payload, instant = row
            end = START + timedelta(seconds=((instant.replace(tzinfo=None) - START).seconds // 10 + 1) * 10)
        if end <= until:
            expected.append(tuple(payload))
    assert expected
    found = [row[:-1] for row in rows_of_spark(spark, name, slow.place, tmp_path)]
    assert difference(found, expected) is None
