"""A live query that writes to Delta: over restarts and a failure at either side of a commit the table holds each change once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tidegate.connectors.sinks import make_sink
from tidegate.runtime.running import LiveQuery
from tidegate.session import connect

ROWS = [(i % 3, i, i) for i in range(30)]
"""k, v, t: the sum of each k grows with its rows, as the window has no end."""


def started(spark: SparkSession, place: Path, answer: str) -> LiveQuery:
    session = connect(spark=spark, state=str(place / "state"), partitions=2)
    session.stream("S", [], ordered_by="t", schema="k INT, v INT, t BIGINT")
    query = session.query("SELECT k, SUM(v) AS s FROM S WINDOW(RANGE UNBOUNDED) GROUP BY k")
    return query.start("q", sink=make_sink("delta", (str(place / "t"),), [("answer", answer)]), begin=False)


@pytest.mark.parametrize("answer", ["changes", "latest"])
@pytest.mark.parametrize("point", ["before sink", "after sink"])
def test_each_change_is_there_once(
    spark: SparkSession, tmp_path: Path, answer: str, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = started(spark, tmp_path, answer)
    live.run.graph.advance({"S": ROWS[:7]})
    live.run.graph.advance({"S": ROWS[7:15]})

    def fail(reached: str) -> None:
        if reached == point:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("tidegate.runtime.deliveries.reach", fail)
        with pytest.raises(KeyboardInterrupt):
            live.run.graph.advance({"S": ROWS[15:20]})
    live.run.stop()
    again = started(spark, tmp_path, answer)
    again.run.graph.advance({"S": ROWS[20:]})
    again.run.graph.finish()
    found = DeltaTable(tmp_path / "t").to_pyarrow_table().to_pylist()
    final = {k: sum(v for key, v, _ in ROWS if key == k) for k in range(3)}
    if answer == "latest":
        assert {r["k"]: r["s"] for r in found} == final
        assert len(found) == 3
        return
    # each row takes back the sum that its group had, if it had one, and says the new one
    expected: list[tuple[str, int, int, int]] = []
    sums: dict[int, int] = {}
    for k, v, t in ROWS:
        expected += [("-", k, sums[k], t)] if k in sums else []
        sums[k] = sums.get(k, 0) + v
        expected.append(("+", k, sums[k], t))
    assert Counter((r["op"], r["k"], r["s"], r["ts"]) for r in found) == Counter(expected)
