"""Every NEXMark query answers what DuckDB answers over the same rows, at several instants; a few of them live as well."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.nexmark.conftest import EVENTS, Answer, Recorded, answer
from tests.nexmark.oracle import INSTANTS, SNAPSHOTS, difference
from tidegate.nexmark.catalog import queries
from tidegate.nexmark.files import write_stream
from tidegate.nexmark.generator import Nexmark
from tidegate.query import Query
from tidegate.session import connect

PUBLIC = [n for n, q in queries().items() if q.family == "nexmark"]
ORIGINAL = [n for n, q in queries().items() if q.family == "original"]

Ask = Callable[..., Query]


def check(name: str, recorded: Recorded, found: Answer) -> None:
    """At every instant of the recording, and not only where there is nothing to be seen."""
    if name in INSTANTS:
        expected = recorded.oracle.all(INSTANTS[name])
        assert expected
        assert difference(found.instants(), expected) is None
        return
    seen = 0
    for instant in recorded.instants:
        expected = recorded.oracle.at(SNAPSHOTS[name], instant)
        seen += len(expected)
        assert difference(found.at(instant), expected) is None, instant
    assert seen > 0


SLIDING = [n for n, q in queries().items() if q.family == "sliding"]


def test_every_query_has_an_independent_answer() -> None:
    assert sorted([*INSTANTS, *SNAPSHOTS, *SLIDING]) == sorted(queries())


@pytest.mark.parametrize("name", SLIDING)
def test_sliding_queries_equal_the_reference(name: str, spark: SparkSession, tmp_path: Path) -> None:
    # two and a half minutes of event time, so that bids leave the window of 60 seconds
    write_stream(Nexmark(1_500, seed=3, rate=10), tmp_path)
    session = connect(spark=spark)
    definitions, text = queries()[name].statements(tmp_path)
    session.sql(definitions)
    found = session.query(text).verify(60)
    assert found, found


@pytest.mark.parametrize("name", PUBLIC)
def test_recorded(name: str, slow: Recorded, ask: Ask) -> None:
    check(name, slow, answer(ask(name, slow.place).run()))


@pytest.mark.parametrize("name", ["q4", "q6", "q9", "q11", "q15", "q18", "q18_literal", "q19", "q105"])
def test_many_events_at_every_instant(name: str, dense: Recorded, ask: Ask) -> None:
    check(name, dense, answer(ask(name, dense.place).run()))


@pytest.mark.parametrize("name", ORIGINAL)
def test_original(name: str, original: Recorded, ask: Ask) -> None:
    check(name, original, answer(ask(name, original.place).run()))


LIVE = PUBLIC if EVENTS >= 100_000 else ["q4", "q5", "q11", "q18"]


@pytest.mark.parametrize("name", LIVE)
def test_live(name: str, slow: Recorded, ask: Ask) -> None:
    """File by file, each an epoch of its own."""
    live = ask(name, slow.place, "maxFilesPerTrigger = 1").start(begin=False)
    live.finish()
    status = live.status()
    assert status["epoch"] >= 5
    check(name, slow, answer(live.result))
