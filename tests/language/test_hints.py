"""Hints say how a query is run, never what it means."""

from __future__ import annotations

import pytest

from tests.language.world import World
from tidegate.errors import Diagnostic

QUERY = "SELECT {} a, COUNT(*) AS n FROM S WINDOW(RANGE 5) GROUP BY a"


def world() -> World:
    return World().run("CREATE STREAM S(a BIGINT, t BIGINT) SOURCE memory('S') ORDERED BY t")


@pytest.mark.parametrize("said", ["negative", "INTERVALS", "auto"])
def test_a_query_says_how_rows_leave_its_windows(said: str) -> None:
    plain = world().bound(QUERY.format(""))
    hinted = world().bound(QUERY.format(f"/*+ EXPIRATION({said}) */"))
    assert (plain.expiration, hinted.expiration) == (None, said.lower())
    assert hinted.plan == plain.plan


def test_hints_of_spark_are_passed_over() -> None:
    assert world().bound(QUERY.format("/*+ BROADCAST(S) */")).expiration is None


@pytest.mark.parametrize("said", ["EXPIRATION(negativ)", "EXPIRATION()", "EXPIRATION(auto, negative)"])
def test_a_wrong_way_is_told_with_its_place(said: str) -> None:
    text = QUERY.format(f"/*+ {said} */")
    with pytest.raises(Diagnostic) as caught:
        world().bound(text)
    assert caught.value.condition == "WRONG_ARGUMENTS"
    assert "intervals, negative, auto" in caught.value.message
