"""A band join of two recorded streams: no equality to exchange by, both values within a distance and both rows valid at the same time.

Prints, for several windows, wall and processor seconds, the rows that each partition answered, and the same of DuckDB on the same rows (the
validity as two more conditions). Usage: python benchmarks/band_join.py [--rows 1000000] [--windows 1,60,3600]
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.language.binder import bind
from tidegate.language.catalog import Catalog, SourceCall, StreamDefinition
from tidegate.language.dialect import parse
from tidegate.nexmark.measuring import processor_seconds
from tidegate.optimizer.driver import optimize
from tidegate.runtime.engine import Engine
from tidegate.spark.context import cores, spark_session
from tidegate.types import BIGINT, TIMESTAMP, Field

SPAN, VALUES, DISTANCE = 3_600, 1_000_000_000, 2_500
COLUMNS = (Field("id", BIGINT), Field("x", BIGINT), Field("t", TIMESTAMP))


def write(path: Path, rows: int, seed: int) -> None:
    """Rows spread over an hour, with values in no order."""
    random = np.random.default_rng(seed)
    micros = np.sort(random.integers(0, SPAN * 1_000_000, rows)) + 1_700_000_000_000_000
    table = pa.table(
        {
            "id": np.arange(rows),
            "x": random.integers(0, VALUES, rows),
            "t": pa.array(micros, pa.timestamp("us", "UTC")),
        }
    )
    path.mkdir()
    for i in range(4):
        part = table.slice(i * rows // 4, (i + 1) * rows // 4 - i * rows // 4)
        pq.write_table(part, path / f"{i}.parquet", row_group_size=1 << 18)


def tidegate(engine: Engine, folder: Path, seconds: int) -> tuple[float, float, list[int]]:
    sources = {
        n: StreamDefinition(n, COLUMNS, SourceCall("parquet", (str(folder / n),)), ordered_by="t")
        for n in ("A", "B")
    }
    catalog = Catalog()
    for definition in sources.values():
        catalog = catalog.with_definition(definition)
    window = f"WINDOW(RANGE {seconds} SECONDS)"
    text = f"SELECT a.id, b.id FROM A {window} a JOIN B {window} b ON a.x BETWEEN b.x - {DISTANCE} AND b.x + {DISTANCE}"
    plan = optimize(bind(parse(text)[0], catalog, text).plan)[0]
    before, used = time.perf_counter(), processor_seconds(os.getpid())
    result = engine.run("q", plan, sources)
    rows = [p.counts.rows for p in result.parts()]
    return time.perf_counter() - before, processor_seconds(os.getpid()) - used, rows


def compared(folder: Path, seconds: int, threads: int) -> tuple[float, float, int]:
    db = duckdb.connect()
    db.execute(f"SET threads = {threads}")
    for name in ("A", "B"):
        db.execute(f"CREATE VIEW {name} AS SELECT id, x, epoch_us(t) AS t FROM '{folder}/{name}/*.parquet'")
    before, used = time.perf_counter(), time.process_time()
    text = f"""COPY (SELECT a.id AS l, b.id AS r, greatest(a.t, b.t) AS ts FROM A a JOIN B b
      ON a.x >= b.x - {DISTANCE} AND a.x <= b.x + {DISTANCE}
      AND a.t < b.t + {seconds * 1_000_000} AND b.t < a.t + {seconds * 1_000_000}) TO '{folder}/answer.parquet'"""
    (found,) = db.execute(text).fetchone() or (0,)
    return time.perf_counter() - before, time.process_time() - used, found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--windows", default="1,60,3600")
    given = parser.parse_args()
    spark = spark_session()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for seed, name in enumerate(("A", "B")):
            write(folder / name, given.rows, seed)
        engine = Engine(spark, f"{folder}/state")
        tidegate(engine, folder, 1)
        print("| window | pairs | Tidegate | processors | rows by partition | DuckDB | processors |")
        print("|---|---|---|---|---|---|---|")
        for seconds in map(int, given.windows.split(",")):
            wall, used, rows = tidegate(engine, folder, seconds)
            other, theirs, found = compared(folder, seconds, cores(spark))
            assert sum(rows) == found, (sum(rows), found)
            parts = ", ".join(f"{r:,}" for r in rows)
            print(
                f"| {seconds:,} s | {found:,} | {wall:.1f} s | {used:.1f} s | {parts} | {other:.1f} s | {theirs:.1f} s |"
            )


if __name__ == "__main__":
    main()
