"""Python and notebooks, with Spark: what tg.stream takes, answers as tables of other libraries, quarantines, tables that follow."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from pyspark.sql import SparkSession
from traitlets.config import Config

import tidegate
from tidegate.errors import Diagnostic

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
TABLE = pa.table({"k": ["a", "b"], "t": pa.array([NOON, NOON], pa.timestamp("us", "UTC"))})


def test_streams_of_readers_relations_and_paths(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "it's.csv"
    file.write_text("k,t\na,2026-01-01 12:00:00\nb,2026-01-01T12:00:00Z\n")
    tg = tidegate.connect(spark=spark)
    tg.stream("Reader", pa.RecordBatchReader.from_batches(TABLE.schema, TABLE.to_batches()), ordered_by="t")
    connection = duckdb.connect()
    connection.register("rows", TABLE)
    tg.stream("Relation", connection.sql("SELECT * FROM rows"), ordered_by="t")
    tg.stream("File", file, ordered_by="t", slack="5 seconds")
    tg.stream("Declared", str(file), ordered_by="t", schema="k STRING, t TIMESTAMP")
    tg.table("Known", file)
    for name in ("Reader", "Relation", "File", "Declared"):
        found = tg.query(f"SELECT S.k FROM {name} WINDOW(RANGE 1 HOUR) S JOIN Known USING (k)").at(NOON)
        assert sorted(r[0] for r in found.collect()) == ["a", "b"], name
    with pytest.raises(Diagnostic, match="UNKNOWN_FORMAT"):
        tg.stream("Nothing", tmp_path, ordered_by="t")
    assert repr(tg) == "Session(4 streams, 1 tables, 0 running queries)"


def test_answers_in_other_libraries_are_in_utc(spark: SparkSession) -> None:
    tg = tidegate.connect(spark=spark)
    tg.stream("S", TABLE, ordered_by="t")
    query = tg.query("SELECT k, t AS seen, CAST(t AS TIMESTAMP_NTZ) AS plain FROM S WINDOW(RANGE 1 HOUR)")
    r = query.run()
    assert repr(query).startswith("Query(k STRING, seen TIMESTAMP, plain TIMESTAMP_NTZ: SELECT k, t AS seen")
    assert repr(r).startswith("Result(")
    assert len(repr(r)) < 120
    arrow = r.to_arrow(NOON)
    assert [str(f.type) for f in arrow.schema] == ["string", "timestamp[us, tz=UTC]", "timestamp[us]"]
    assert r.to_polars(NOON).schema == {
        "k": pl.String,
        "seen": pl.Datetime("us", "UTC"),
        "plain": pl.Datetime("us"),
    }
    pandas = r.to_pandas(NOON)
    assert list(pandas["seen"]) == [pd.Timestamp(NOON)] * 2
    assert list(pandas["plain"]) == [pd.Timestamp(NOON.replace(tzinfo=None))] * 2
    moments = r.to_duckdb(NOON).aggregate("epoch(max(seen)), epoch(max(plain))").fetchall()
    assert moments == [(NOON.timestamp(), NOON.timestamp())]


def test_refused_rows_are_read_back(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text("a,t\n1,1\nhot,2\n3,3\n")
    tg = tidegate.connect(spark=spark)
    tg.sql(f"CREATE STREAM S(a INT, t BIGINT) SOURCE csv('{tmp_path / 's.csv'}') ORDERED BY t")
    r = tg.query("SELECT a FROM S WINDOW(ROWS 1)").run()
    (row,) = r.quarantine().collect()
    assert (row.stream, row.reason) == ("S", "column 'a' is no INT: hot")
    assert "hot" in row.raw
    assert row.file.endswith("s.csv")
    assert r.quarantine("other").count() == 0
    assert [x.reason for x in tg.sql("SHOW QUARANTINE S").collect()] == [row.reason]
    with pytest.raises(Diagnostic, match="UNKNOWN_STREAM"):
        tg.sql("SHOW QUARANTINE Nothing")


@pytest.fixture
def displayed() -> Any:
    config = Config()
    config.HistoryManager.enabled = False
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance(config=config)
    shell.display_pub = CapturingDisplayPublisher()
    yield shell.display_pub
    InteractiveShell.clear_instance()


def test_a_table_follows_a_running_query(spark: SparkSession, displayed: Any) -> None:
    tg = tidegate.connect(spark=spark)
    tg.stream("S", [{"k": "a", "t": 1}], ordered_by="t")
    h = tg.query("SELECT k FROM S WINDOW(ROWS 1)").start("last", epoch=0.1)
    table = h.show(live=True, every=0.05)
    assert table is not None
    assert "LiveQuery(last, running: k STRING" in repr(h)
    tg.push("S", [{"k": "<b>", "t": 5}])
    tg.advance("S", 9)
    waiting = threading.Event()
    for _ in range(600):
        if any("&lt;b&gt;" in str(o["data"].get("text/html")) for o in displayed.outputs):
            break
        waiting.wait(0.1)
    table.stop()
    tg.close()
    first, *later = displayed.outputs
    assert later
    assert "&lt;b&gt;" in later[-1]["data"]["text/html"]
    assert {o["transient"]["display_id"] for o in later} == {first["transient"]["display_id"]}
    assert all(o["update"] for o in later)
    assert "stopped" in repr(table)
