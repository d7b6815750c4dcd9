"""Whatever a stream's name is, it can be followed; a place that Spark would misread is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidegate.errors import Diagnostic
from tidegate.session import connect

ROWS = [{"a": 1, "t": 1}, {"a": 2, "t": 2}]


@pytest.mark.parametrize("name", ["heartbeat", "с" * 60, "_" * 200, "a b", "ä.ö/../ü"])
def test_a_stream_of_any_name_is_followed(spark: SparkSession, tmp_path: Path, name: str) -> None:
    """Spark has a source of its own beside the streams, and files what it knows of each by its name."""
    for again in (False, True):
        session = connect(spark=spark, state=str(tmp_path))
        session.stream(name, ROWS, ordered_by="t")
        live = session.query(f"SELECT a FROM `{name}`").start("q", begin=False)
        if again:
            live.finish()
            assert sorted(tuple(r) for r in live.intervals().collect()) == [(1, 1, 2), (2, 2, 3)]
        else:
            live.run.drain()
        session.close()


@pytest.mark.parametrize("place", ["st[1]", "st*", "st?", "{a,b}", "a\\b"])
def test_a_state_directory_is_no_pattern(spark: SparkSession, tmp_path: Path, place: str) -> None:
    """Rows handed in to `st[1]` were never found, and `st*` found, and deleted, those of all its neighbours."""
    session = connect(spark=spark, state=str(tmp_path / place / "deep"))
    session.stream("S", ROWS, ordered_by="t")
    query = session.query("SELECT a FROM S")
    for use in (query.run, query.start):
        with pytest.raises(Diagnostic, match="STATE_PLACE"):
            use()
