"""Statistics of what runs, against rows that were counted by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidegate.optimizer.statistics import ColumnStatistics, SourceStatistics
from tidegate.physical.estimates import estimated
from tidegate.runtime.live_statistics import flows, measured_costs
from tidegate.session import Session, connect

TEXT = """SELECT s.k, r.u, COUNT(*) AS n FROM S WINDOW(RANGE 50) s JOIN R WINDOW(RANGE 20) r ON s.k = r.k
          WHERE s.v >= 5 GROUP BY s.k, r.u"""


def passed(tg: Session, upto: int, **rows: list[dict[str, int]]) -> None:
    """An epoch with some rows, up to an instant."""
    for stream, given in rows.items():
        tg.push(stream, given)
    for stream in ("S", "R"):
        tg.advance(stream, upto)
    tg.running.find("pairs").run.drain()  # type: ignore[union-attr]


def test_rates_keys_and_state_are_those_of_the_rows_that_came(spark: SparkSession, tmp_path: Path) -> None:
    tg = connect(spark, state=str(tmp_path), partitions=2)
    tg.stream("S", [], ordered_by="t", schema="k BIGINT, v BIGINT, t BIGINT")
    tg.stream("R", [], ordered_by="t", schema="k BIGINT, u BIGINT, t BIGINT")
    live = tg.query(TEXT).start("pairs", begin=False, epochs="driver")
    graph = live.run.graph
    clock = [0.0]
    graph._clock = lambda: clock[0]
    assert measured_costs(graph.figures, graph.definitions) is None
    for epoch in range(12):
        clock[0] += 5.0
        low = 10 * epoch
        s = [{"k": (t + i) % 7, "v": t % 10, "t": t} for t in range(low, low + 10) for i in range(4)]
        r = [{"k": t % 7, "u": t % 2, "t": t} for t in range(low, low + 10, 2)]
        passed(tg, low + 10, S=s, R=r)
    found = flows(graph.figures)
    assert found.rates == pytest.approx({"S": 4.0, "R": 0.5})
    assert found.ticks_per_second == pytest.approx(2.0)
    assert found.epoch == pytest.approx(10.0)
    # Half of the rows of S pass the condition, which holds for v = 5 … 9; windows last as they say.
    plan = graph.figures.metrics[-1].physical.plan
    by_stream = {
        i.origin.name: found.operators[i.id] for i in plan.inputs.values() if hasattr(i.origin, "name")
    }
    assert by_stream["S"].taken == pytest.approx(2.0)
    validities = {f.validity for f in found.operators.values()}
    assert {20.0, 50.0} <= validities
    values = ColumnStatistics(10, 0, 9)
    told = {"S": SourceStatistics(99.0, 1.0, 1.0, columns={"v": values})}
    costs = measured_costs(graph.figures, graph.definitions, told)
    assert costs is not None
    assert costs.statistics["S"].columns["v"] == values
    statistics = costs.statistics
    assert (statistics["S"].rate, statistics["R"].rate) == pytest.approx((4.0, 0.5))
    # An epoch shows five of the seven keys of R, and all of S: the join meets by the larger number.
    assert statistics["S"].columns["k"].distinct == pytest.approx(7, abs=1)
    assert statistics["R"].columns["k"].distinct == pytest.approx(7, abs=1)
    # The same model that plans are chosen by: the join keeps about rate * validity rows of both sides.
    expected = estimated(plan, costs)
    join = next(o for o in plan.operators.values() if type(o.kernel).__name__ == "JoinKernel")
    assert expected[join.id].memory_rows == pytest.approx(found.operators[join.id].kept, rel=0.25)
    # A rate that changes is known after a few epochs.
    for epoch in range(12, 24):
        clock[0] += 5.0
        low = 10 * epoch
        passed(tg, low + 10, S=[{"k": t % 7, "v": 9, "t": t} for t in range(low, low + 10)])
    assert flows(graph.figures).rates["S"] == pytest.approx(1.0, rel=0.6)
    assert flows(graph.figures, half=1.0).rates["S"] == pytest.approx(1.0, rel=0.01)
    tg.close()
