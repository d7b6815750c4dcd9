"""Every NEXMark query answers what DuckDB answers over the same rows, at several instants; a few of them live as well."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.nexmark.conftest import Answer, Recorded, answer
from tests.nexmark.oracle import INSTANTS, SNAPSHOTS, difference
from tidegate.nexmark.catalog import queries
from tidegate.session import Query

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


def test_every_query_has_an_independent_answer() -> None:
    assert sorted([*INSTANTS, *SNAPSHOTS]) == sorted(queries())


@pytest.mark.parametrize("name", PUBLIC)
def test_recorded(name: str, slow: Recorded, ask: Ask) -> None:
    check(name, slow, answer(ask(name, slow.place).run()))


@pytest.mark.parametrize("name", ["q4", "q6", "q9", "q11", "q15", "q18", "q18_literal", "q19", "q105"])
def test_many_events_at_every_instant(name: str, dense: Recorded, ask: Ask) -> None:
    check(name, dense, answer(ask(name, dense.place).run()))


@pytest.mark.parametrize("name", ORIGINAL)
def test_original(name: str, original: Recorded, ask: Ask) -> None:
    check(name, original, answer(ask(name, original.place).run()))


@pytest.mark.parametrize("name", ["q4", "q5", "q11", "q18"])
def test_live(name: str, slow: Recorded, ask: Ask) -> None:
    """File by file, each an epoch of its own."""
    live = ask(name, slow.place, ", maxFilesPerTrigger = 1").start(begin=False)
    live.finish()
    status = live.status()
    assert status["epoch"] >= 5
    check(name, slow, answer(live.result))
