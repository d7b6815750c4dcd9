"""SHOW GRAPH over a graph that runs: what has passed through each operator, and who uses it."""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import SparkSession

from tidegate.session import connect

ROWS = [
    {"room": room, "degrees": d, "t": t}
    for room, d, t in (("a", 75, 1), ("b", 90, 3), ("a", 85, 4), ("c", 81, 6))
]
COUNTS = "SELECT room, COUNT(*) AS n FROM Temp WINDOW(RANGE 5) GROUP BY room"


def test_what_has_passed_through_each_operator(spark: SparkSession) -> None:
    tg = connect(spark, partitions=2)
    assert tg.sql("SHOW GRAPH") == "no query runs"
    tg.stream("Temp", [], ordered_by="t", schema="room STRING, degrees INT, t BIGINT")
    live = tg.query(COUNTS).start("counts", begin=False)
    graph = live.run.graph

    def nodes() -> dict[str, dict[str, Any]]:
        (found,) = json.loads(tg.sql("SHOW GRAPH AS json"))["graphs"]
        by_number = {n["number"]: n for n in found["nodes"]}
        for node in found["nodes"]:
            if node["kind"] == "operator" and node["figures"] is not None:
                below = [by_number[i]["figures"]["given"] for i in node["inputs"]]
                assert node["figures"]["taken"] == sum(below), node
        return {n["title"]: n for n in found["nodes"]}

    def flow(node: dict[str, Any]) -> tuple[int, ...]:
        return tuple(node["figures"][k] for k in ("taken", "given", "all_taken", "all_given", "kept"))

    assert {n["figures"] for n in nodes().values()} == {None}
    graph.advance({"Temp": ROWS})
    found = nodes()
    # The row at 6 waits: another one may come at 6.
    assert flow(found["source Temp"]) == (4, 3, 4, 3, 1)
    assert flow(found["Window by TimeWindow"]) == (3, 3, 3, 3, 0)
    assert found["Aggregate"]["figures"]["size"] > 0
    graph.advance({"Temp": [{"room": "a", "degrees": 60, "t": 8}]})
    found = nodes()
    assert flow(found["source Temp"]) == (1, 1, 5, 4, 1)
    assert flow(found["Window by TimeWindow"]) == (1, 1, 4, 4, 0)
    tg.query(f"SELECT room FROM ({COUNTS}) WHERE n > 1").start("many", begin=False)
    found = nodes()
    assert {title: n["queries"] for title, n in found.items() if title != "Project"} == {
        "source Temp": ["counts", "many"],
        "Window by TimeWindow": ["counts", "many"],
        "Aggregate": ["counts", "many"],
        "Filter": ["many"],
        "Project by Coalesce": ["many"],
    }
    assert found["Filter"]["figures"] is None
    assert tg.graph() == tg.sql("SHOW GRAPH AS text")
    assert "keeps 1 row," in tg.graph()
    assert "many is answered by" in tg.graph()
    assert tg.graph("graphviz").startswith("digraph running {")
    assert tg.sql("SHOW GRAPH AS mermaid").startswith("flowchart BT\n")
    tg.close()
