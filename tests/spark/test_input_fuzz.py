"""Damaged files of every format: rows in = used + quarantined, and the answer is the reference's on the rows that are good."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.fuzz.inputs import CASE_OF, COLUMNS, Case, cases
from tidegate.reference.snapshots import Arrivals, Reference
from tidegate.runtime.refusals import ASIDE
from tidegate.session import connect
from tidegate.time import MAX

SEED = int(os.environ.get("TIDEGATE_FUZZ_SEED", "0"))
QUERIES = {
    "rows": "SELECT id, k, v, s FROM S WINDOW(RANGE 1)",
    "groups": "SELECT k, COUNT(*) AS n, SUM(v) AS total, MAX(s) AS most FROM S WINDOW(RANGE 7) GROUP BY k",
}


def quarantined(result: Any) -> Counter[str]:
    """How many rows of each file were refused."""
    rows = result.spark.read.parquet(result.storage.path("quarantine/S")).filter(
        f"NOT startswith(reason, '{ASIDE}')"
    )
    return Counter(Path(r.file).name.split(".")[0] for r in rows.select("file").collect())


def compare(result: Any, plan: Any, good: list[Case]) -> None:
    rows = [row for case in good for row in case.used]
    arrivals = Arrivals([((r["id"], r["k"], r["v"], r["s"], r["t"]), r["t"]) for r in rows])
    reference = Reference({"S": arrivals})
    answer = [
        (tuple(r)[:-2], r.valid_from, MAX if r.valid_to is None else r.valid_to)
        for r in result.intervals().collect()
    ]
    for t in reference.change_points(plan):
        found = Counter(e for e, ts, te in answer if ts <= t < te)
        assert found == reference.snapshot(plan, t), t


@pytest.mark.parametrize("form", CASE_OF)
def test_nothing_is_lost_and_nothing_invented(spark: SparkSession, tmp_path: Path, form: str) -> None:
    made = cases(form, tmp_path / "in", SEED)
    good = [case for case in made if not case.aside]
    assert sum(c.refused for c in good) > len(made) // 4
    session = connect(spark=spark, state=str(tmp_path / "state"), partitions=2)
    more = "WITH (format = 'debezium')" if form == "debezium" else ""
    call = f"{'json' if form == 'debezium' else form}('{tmp_path / 'in'}')"
    session.sql(f"CREATE STREAM S({COLUMNS}) SOURCE {call} ORDERED BY t {more}")
    queries = {name: session.query(text) for name, text in QUERIES.items()}
    if form == "parquet":
        # A recorded run would name the first broken file and end; a live one sets it aside.
        live = {name: query.start(name, begin=False) for name, query in queries.items()}
        live["rows"].finish()
        results = {name: q.result for name, q in live.items()}
        aside = {f"{i:05d}" for i, case in enumerate(made) if case.aside}
        assert {Path(f).stem for f in live["rows"].status()["files"]["S"]["aside"]} == aside
        assert live["rows"].status()["sources"]["S"]["rows"] == sum(len(c.used) + c.refused for c in good)
    else:
        results = session.engine.run_all({n: q.plan for n, q in queries.items()}, queries["rows"].definitions)
    for name, query in queries.items():
        compare(results[name], query.bound.plan, good)
    expected = Counter({f"{i:05d}": c.refused for i, c in enumerate(made) if not c.aside and c.refused})
    assert quarantined(results["rows"]) == expected
