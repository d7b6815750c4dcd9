"""How rows leave windows is chosen by a setting or a hint, and shows in the plan only."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tidegate.errors import Diagnostic
from tidegate.session import connect

ROWS = [{"k": i % 3, "v": (i * 7) % 11, "t": i // 2} for i in range(40)]
QUERY = "SELECT {}A.k, MAX(A.v) AS top, COUNT(*) AS n FROM S WINDOW(RANGE 5) A JOIN S WINDOW(RANGE 3 SLIDE 2) B ON A.k = B.k GROUP BY A.k"


def test_a_setting_and_a_hint_choose_the_way(spark: SparkSession) -> None:
    tg = connect(spark=spark, partitions=2)
    tg.stream("S", ROWS, ordered_by="t")
    plain = tg.query(QUERY.format(""))
    hinted = tg.query(QUERY.format("/*+ EXPIRATION(negative) */ "))
    assert "ends told" not in plain.explain()
    assert hinted.explain().count("ends told") >= 2
    assert "rows that leave the window are told by rows of their own" in hinted.explain()
    tg.sql("SET expiration = 'negative'")
    assert tg.query(QUERY.format("")).plan == hinted.plan
    assert tg.query(QUERY.format("/*+ EXPIRATION(intervals) */ ")).plan == plain.plan
    assert "equals the reference" in str(hinted.verify())
    hinted.run()
    told = tg.sql(
        "SELECT title, SUM(retractions) AS r, SUM(expired) AS e FROM tidegate.metrics GROUP BY title"
    )
    by_title = Counter[str]()
    for row in told.collect():
        what = next((w for w in ("Window", "Join", "Aggregate") if w in row["title"]), "")
        by_title[what] += row["r"]
        by_title[f"{what}, expired"] += row["e"]
    # 40 rows leave the one window, and those that meet a slide the other; groups change because rows come and go.
    assert by_title["Window"] == by_title["Window, expired"] > 40
    assert by_title["Join"] == by_title["Join, expired"] > 0
    assert by_title["Aggregate, expired"] == 0
    want, have = (sorted(map(tuple, q.run().intervals().collect())) for q in (plain, hinted))
    assert have == want


@pytest.mark.parametrize("epochs", ["driver", "spark"])
def test_live_epochs_and_a_restart_with_other_partitions(
    spark: SparkSession, tmp_path: Path, epochs: Any
) -> None:
    batches, told = [ROWS[:13], ROWS[13:20], ROWS[20:]], QUERY.format("/*+ EXPIRATION(negative) */ ")
    for partitions, some in ((2, batches[:2]), (3, batches[2:])):
        session = connect(spark=spark, state=str(tmp_path), partitions=partitions)
        session.stream("S", [], schema="k INT, v INT, t BIGINT", ordered_by="t")
        live = session.query(told).start("told", begin=False)
        live.run.graph.epochs.asked = epochs
        for batch in some:
            live.run.graph.advance({"S": batch})
        if partitions == 3:
            live.run.graph.finish()
            found = sorted(map(tuple, live.intervals().collect()))
        session.close()
    session = connect(spark=spark, partitions=2)
    session.stream("S", ROWS, ordered_by="t")
    assert found == sorted(map(tuple, session.query(QUERY.format("")).run().intervals().collect()))


def test_a_wrong_value_is_told(spark: SparkSession) -> None:
    with pytest.raises(Diagnostic, match="expiration"):
        connect(spark=spark).sql("SET expiration = 'later'")
