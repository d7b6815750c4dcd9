"""Queries for which there is no room: refused with the figures, or started when there is."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.test_resource_manager import RANGED, decisions, world
from tidegate.errors import Diagnostic
from tidegate.runtime.waiting import WaitingQuery

BIG = "SELECT a.k, b.v FROM S WINDOW(RANGE 5000) a JOIN S WINDOW(RANGE 5000) b ON a.k = b.k"
ADAPTABLE = BIG.replace("RANGE 5000", "RANGE BETWEEN 3 AND 5000")


def test_a_query_without_room_is_refused_or_waits(spark: SparkSession, tmp_path: Path) -> None:
    with world(spark, tmp_path) as found:
        tg = found.session
        tg.sql("SET memory = '300 kB'")
        live = found.start("pairs", RANGED)
        found.play(live, 30)
        with pytest.raises(Diagnostic) as error:
            found.start("big", BIG)
        # 50 rows a second for 5,000 seconds, twice, and no row takes less than 16 bytes.
        assert error.value.condition == "OVER_BUDGET"
        assert " MB and " in error.value.message
        assert "of 300 kB" in error.value.message
        assert "SET admission" in str(error.value.help)
        assert tg.queries() == ["pairs"]
        (refused,) = [d for d in decisions(tg) if d["query"] == "big"]
        assert refused["action"] == "refused"
        assert refused["expected_memory"] > 2 * 50 * 5_000 * 16
        # It passes by without a trace, and what can be made small enough is let in.
        found.play(live, 36)
        small = found.start("adaptable", ADAPTABLE)
        found.play(live, 42)
        small.stop()
        tg.sql("SET admission = 'wait'")
        waiting = tg.query(BIG).start("big", begin=False, epochs="driver")
        assert isinstance(waiting, WaitingQuery)
        assert not waiting.retry()
        assert "no room" in waiting.status()["waits"]
        shown = {r["name"]: r["state"] for r in tg.sql("SHOW QUERIES").collect()}
        assert shown["big"] == "waiting"
        tg.sql("SET memory = '1 GB'")
        assert waiting.wait(30)
        assert sorted(tg.queries()) == ["big", "pairs"]
        found.play(live, 48)
        assert [d["action"] for d in decisions(tg) if d["query"] == "big"] == ["refused", "waits", "admitted"]
        # One that is dropped waits no more.
        tg.sql("SET memory = '300 kB'")
        never = tg.query(BIG.replace("5000", "6000")).start("never", begin=False, epochs="driver")
        tg.sql("STOP never")
        assert not never.is_waiting
        assert not never.retry()


def test_a_source_of_which_nothing_is_known_is_no_reason_to_refuse(
    spark: SparkSession, tmp_path: Path
) -> None:
    with world(spark, tmp_path) as found:
        found.session.sql("SET memory = '1 kB'")
        live = found.start("big", BIG)
        found.play(live, 6)
        assert found.session.queries() == ["big"]
