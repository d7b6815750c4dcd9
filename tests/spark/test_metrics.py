"""`tidegate.metrics`, EXPLAIN ANALYZE, status and Prometheus through the doors that people use, against counting by hand."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from tests.unit.test_metrics import parsed
from tidegate.cli import app
from tidegate.errors import Diagnostic
from tidegate.session import Session, connect

COUNTS = "SELECT k, COUNT(*) AS n FROM S WINDOW(RANGE 60) WHERE v >= 10 GROUP BY k"
ROWS = [{"k": 7 if i % 10 else i, "v": i, "t": 20 * i} for i in range(300)]
"""Nine of ten rows have one key."""


def used() -> list[dict[str, int]]:
    return [r for r in ROWS if r["v"] >= 10]


def by_title(rows: Any) -> dict[str, dict[str, Any]]:
    return {r["title"].split(" ")[0]: r.asDict() for r in rows.collect()}


def skew(spark: SparkSession, keys: list[int], partitions: int) -> float:
    """What the largest partition has against the mean, if Spark spreads rows by a key."""
    frame = spark.createDataFrame([(k,) for k in keys], "k BIGINT")
    places = Counter(r[0] for r in frame.selectExpr(f"pmod(hash(k), {partitions})").collect())
    return max(places.values()) * partitions / len(keys)


def test_a_recorded_run_is_measured(spark: SparkSession) -> None:
    tg = connect(spark, partitions=2)
    tg.stream("S", ROWS, ordered_by="t")
    result = tg.query(COUNTS).run()
    found, keys = by_title(result.metrics()), [r["k"] for r in used()]
    source, window, aggregate = found["source"], found["Window"], found["Aggregate"]
    assert (source["rows_in"], source["rows_out"], source["validity"], source["granule"]) == (
        290,
        290,
        1.0,
        20,
    )
    assert (window["rows_in"], window["rows_out"], window["validity"], window["granule"]) == (
        290,
        290,
        60.0,
        20,
    )
    assert (aggregate["rows_in"], aggregate["rows_out"]) == (290, result.signed().count())
    assert aggregate["selectivity"] == aggregate["rows_out"] / 290
    assert aggregate["keys"] == len(set(keys))
    assert aggregate["skew"] == pytest.approx(skew(spark, keys, 2)) == source["skew"]
    assert aggregate["cpu_seconds"] > 0
    assert {r["queries"] for r in found.values()} == {result.name}
    # The same in SQL, as people ask; the questions themselves leave no trace.
    slow = tg.sql(
        "SELECT title, rows_in FROM tidegate.metrics WHERE rows_in > 5 ORDER BY cpu_seconds DESC LIMIT 1"
    )
    assert [tuple(r) for r in slow.collect()] == [("Aggregate", 290)]
    ordered = tg.sql("SELECT m.number FROM tidegate.metrics m ORDER BY m.number DESC").collect()
    assert [r[0] for r in ordered] == sorted((r["number"] for r in found.values()), reverse=True)
    total = tg.sql(
        "SELECT graph, SUM(rows_in) AS n, MAX(watermark) AS w FROM tidegate.metrics GROUP BY graph"
    )
    assert [tuple(r) for r in total.collect()] == [("run", sum(r["rows_in"] for r in found.values()), None)]
    described = tg.sql("DESCRIBE tidegate.metrics")
    assert [name for name, _ in described] == tg.metrics().columns
    assert tg.sql("SHOW TABLES") == []
    for text, condition in (
        ("SELECT * FROM tidegate.metrics, S WINDOW(RANGE 5)", "STREAM_BESIDE_TABLES"),
        ("START m AS SELECT * FROM tidegate.metrics", "METRICS_LIVE"),
        ("SELECT * FROM tidegate.metric", "UNSUPPORTED"),
    ):
        with pytest.raises(Diagnostic) as error:
            tg.sql(text)
        assert error.value.condition == condition


def test_explain_analyze_says_what_each_operator_did(spark: SparkSession) -> None:
    tg = connect(spark, partitions=2)
    tg.stream("S", ROWS, ordered_by="t")
    text = tg.sql(f"EXPLAIN ANALYZE {COUNTS}")
    lines = text.split("== Physical plan\n")[1].split("\n")
    place = next(i for i, line in enumerate(lines) if " Aggregate of " in line)
    assert lines[place + 1].strip().startswith("290 rows in, ")
    assert f"{len({r['k'] for r in used()})} keys" in lines[place + 1]
    assert any(line.startswith("1 epoch in ") for line in lines)
    # Without ANALYZE nothing runs, and nothing is measured.
    assert "rows in" not in tg.sql(f"EXPLAIN {COUNTS}")
    tg.live = True
    with pytest.raises(Diagnostic) as error:
        tg.query(COUNTS).explain(analyze=True)
    assert error.value.condition == "SOURCE_LIVE"


def started(spark: SparkSession, place: Path, epochs: Any) -> tuple[Session, Any]:
    tg = connect(spark, state=str(place), partitions=2)
    tg.stream("S", [], ordered_by="t", schema="k BIGINT, v BIGINT, t BIGINT")
    return tg, tg.query("SELECT k, v FROM S WINDOW(PARTITION BY k ROWS 3)").start(
        "last", begin=False, epochs=epochs
    )


@pytest.mark.parametrize("epochs", ["driver", "spark"])
def test_a_live_graph_is_measured_epoch_by_epoch(spark: SparkSession, tmp_path: Path, epochs: str) -> None:
    tg, live = started(spark, tmp_path, epochs)
    assert live.metrics().count() == 0
    assert live.status()["operators"] == []
    graph = live.run.graph
    graph.advance({"S": [{"k": 1, "v": i, "t": i} for i in range(5)]}, 5)
    graph.advance({"S": [{"k": k, "v": 9, "t": 10 + k} for k in (1, 1, 2)]}, 20)
    lines = {(r["epoch"], r["title"].split(" ")[0]): r for r in live.metrics().collect()}
    first, second = lines[1, "Window"], lines[2, "Window"]
    # Five rows of a key, of which a window of three lets two go within the epoch; then two of the three make room.
    assert (first["rows_in"], first["retractions"], first["open_rows"], first["keys"]) == (5, 0, 3, 1)
    assert (second["rows_in"], second["retractions"], second["open_rows"], second["keys"]) == (3, 2, 3, 2)
    assert [lines[e, "Window"]["watermark"] for e in (1, 2)] == [5, 20]
    assert first["skew"] == 2.0
    assert (second["graph"], second["queries"]) == ("integers", "last")
    asked = tg.sql(
        "SELECT epoch, SUM(retractions) AS r FROM tidegate.metrics WHERE graph = 'integers' GROUP BY epoch ORDER BY epoch"
    )
    assert [tuple(r) for r in asked.collect()] == [(1, 0), (2, 2)]
    window = next(o for o in live.status()["operators"] if o["title"].startswith("Window"))
    assert (window["total_rows_in"], window["total_retractions"], window["rows_in"]) == (8, 2, 3)
    types, samples = parsed(live.prometheus())
    own = frozenset({("graph", "integers"), ("operator", window["operator"])})
    assert samples["tidegate_operator_rows_in_total", own] == 8
    assert samples["tidegate_operator_state_rows", own] == window["state_rows"] > 0
    assert types["tidegate_operator_cpu_seconds_total"] == "counter"
    assert tg.prometheus().split("\n")[:2] == live.prometheus().split("\n")[:2]
    live.run._note("running")
    runner = CliRunner()
    _, outside = parsed(runner.invoke(app, ["status", str(tmp_path), "--prometheus"]).stdout)
    assert outside["tidegate_operator_rows_in_total", own] == 8
    assert "Window" in runner.invoke(app, ["status", str(tmp_path)]).stdout
    tg.close()
    # After a restart state is there, and counting begins anew.
    tg, live = started(spark, tmp_path, epochs)
    assert live.metrics().count() == 0
    live.run.graph.advance({"S": [{"k": 2, "v": 1, "t": 30}]}, 40)
    (line,) = [r for r in live.metrics().collect() if r["title"].startswith("Window")]
    assert (line["epoch"], line["rows_in"], line["state_rows"] >= 5) == (3, 1, True)
    again = next(o for o in live.status()["operators"] if o["title"].startswith("Window"))
    assert (again["operator"], again["total_rows_in"]) == (window["operator"], 1)
    tg.close()
