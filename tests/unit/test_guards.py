"""Conditions that may fail are asked of the rows that the query names, whatever the optimizer makes one condition of."""

from __future__ import annotations

import warnings

import pytest

from tidegate.errors import Diagnostic
from tidegate.session import Session, connect

ROWS = [(None, 0, 1.0, 1), (5, 2, float("inf"), 2), (1, 0, float("-inf"), 3), (None, 0, 2.0, 3)]
"""Where x is above 3, y is not 0."""

GUARDED = [
    "SELECT x FROM (SELECT * FROM S WINDOW(RANGE 3) WHERE x > 3) WHERE 1 / y > 0",
    "SELECT x FROM (SELECT * FROM S WINDOW(ROWS 3) WHERE x > 3) WHERE 1 / y > 0",
    "SELECT x FROM (SELECT x, y + 0 AS y FROM S WINDOW(RANGE 3) WHERE x > 3) WHERE 1 / y > 0",
    "SELECT p.x FROM S WINDOW(RANGE 3) p JOIN (SELECT * FROM S WINDOW(RANGE 2) WHERE x IN (5, 6)) q ON 1 / q.y > p.y - 9",
    "SELECT x FROM (SELECT * FROM (SELECT * FROM S WINDOW(RANGE 3) WHERE x > 3) WHERE x < 9) WHERE 1 / y > 0 AND x > 0",
]


@pytest.fixture
def session() -> Session:
    made = connect()
    made.stream("S", ROWS, schema="x INT, y INT, z DOUBLE, t BIGINT", ordered_by="t")
    return made


@pytest.mark.parametrize("text", GUARDED)
def test_what_the_condition_below_does_not_know_is_not_asked(session: Session, text: str) -> None:
    assert session.query(text).verify()


def test_rows_that_a_query_names_are_asked(session: Session) -> None:
    with pytest.raises(Diagnostic, match="DIVIDE_BY_ZERO"):
        session.query("SELECT x FROM (SELECT * FROM S WINDOW(RANGE 3) WHERE x > 0) WHERE 1 / y > 0").run()


def test_values_without_a_number_between_them_say_nothing(session: Session) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert session.query("SELECT MEDIAN(z) AS m FROM S WINDOW(RANGE 2)").verify()
