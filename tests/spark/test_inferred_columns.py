"""Files whose columns nobody declared: their answers are those of declared columns, in every format."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import tidegate

ROWS = [("a", 1, "2026-01-01T00:00:00Z"), ("b", 2, "2026-01-01T00:00:10Z"), ("a", 3, "2026-01-01T00:00:20Z")]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "r.csv").write_text("k,v,ts\n" + "".join(f"{k},{v},{t}\n" for k, v, t in ROWS))
    objects = [{"k": k, "v": v, "ts": t} for k, v, t in ROWS]
    (tmp_path / "r.json").write_text("\n".join(map(json.dumps, objects)))
    moments = pa.array([datetime.fromisoformat(t) for _, _, t in ROWS], pa.timestamp("us", "UTC"))
    table = pa.table({"k": [k for k, _, _ in ROWS], "v": [v for _, v, _ in ROWS], "ts": moments})
    pq.write_table(table, tmp_path / "r.parquet")
    return tmp_path


@pytest.mark.parametrize("ending", ["csv", "json", "parquet"])
def test_answers_over_inferred_columns(spark: SparkSession, folder: Path, ending: str) -> None:
    tg = tidegate.connect(spark=spark)
    shown = tg.sql(f"CREATE STREAM R SOURCE {ending}('r.{ending}') ORDERED BY ts")
    assert shown == [("k", "STRING"), ("v", "BIGINT"), ("ts", "TIMESTAMP (TS)")] == tg.sql("DESCRIBE R")
    on_the_spot = f"SELECT k, SUM(v) AS s FROM 'r.{ending}' ORDERED BY ts WINDOW(RANGE 15 SECONDS) GROUP BY k"
    at = datetime(2026, 1, 1, 0, 0, 12, tzinfo=UTC)
    for query in (on_the_spot, on_the_spot.replace(f"'r.{ending}' ORDERED BY ts", "R")):
        # at 00:00:12 the rows of (23:59:57, 00:00:12] are a's 1 and b's 2
        assert sorted(map(tuple, tg.query(query).at(at).collect())) == [("a", 1), ("b", 2)]
    assert tg.sql(f"VERIFY {on_the_spot}")
    assert tg.sql(f"DESCRIBE 'r.{ending}'") == [("k", "STRING"), ("v", "BIGINT"), ("ts", "TIMESTAMP")]
    assert tg.sql("SHOW STREAMS") == ["R"]
