"""Large and hostile statements on Spark: answered, or refused with a place; nobody meets an error of Spark's."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.limits.shapes import SHAPES
from tidegate import Diagnostic, Session, connect


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> Session:
    found = connect(spark)
    rows = [{"a": i, "b": i + 0.5, "s": "a" * 40 + str(i), "n": 10**9 * i, "t": i} for i in (1, 2)]
    found.stream("S", rows, ordered_by="t", schema="a BIGINT, b DOUBLE, s STRING, n BIGINT, t BIGINT")
    return found


@pytest.mark.parametrize(
    ("name", "size", "rows"),
    [("OR", 300, 2), ("sum", 290, 2), ("UNION", 20, 21), ("UNION ALL", 60, 3), ("columns", 400, 2), ("IN in IN", 8, 2)],
)  # fmt: skip
def test_large_statements_are_answered(session: Session, name: str, size: int, rows: int) -> None:
    result = session.query(SHAPES[name][0](size)).run()
    assert result.at(2).count() == rows


def test_a_long_sum_is_added_from_left_to_right(session: Session) -> None:
    terms = ["b"] + ["1e16", "-1e16"] * 100
    value = 1.5
    for term in terms[1:]:
        value += float(term)
    found = session.query(f"SELECT {' + '.join(terms)} AS x FROM S").run().at(1).collect()
    assert [row.x for row in found] == [value]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT REPEAT(s, CAST(n AS INT)) AS x FROM S",
        "SELECT a FROM S WHERE LENGTH(LPAD(s, CAST(n AS INT), 'y')) > 1",
        "SELECT soundex(REPEAT(s, CAST(n AS INT))) AS x FROM S",
    ],
)
def test_texts_of_any_length_are_refused_where_they_are_made(session: Session, text: str) -> None:
    with pytest.raises(Diagnostic) as caught:
        session.query(text).run()
    assert caught.value.condition == "TEXT_TOO_LONG"
    assert caught.value.position is not None


def test_a_pattern_that_spark_would_try_for_ever_is_searched(session: Session) -> None:
    found = session.query("SELECT a FROM S WHERE s RLIKE '(a+)+$'").run()
    assert found.intervals().count() == 0
    found = session.query("SELECT a FROM S WHERE s RLIKE '(a+)+[0-9]$' AND s LIKE '%a%a%a%a%a%1'").run()
    assert [row.a for row in found.intervals().collect()] == [1]


def test_sparks_own_patterns_are_bounded(session: Session) -> None:
    for text in ("SELECT regexp_count(s, '(a+)+$') AS x FROM S", "SELECT regexp_instr(s, s) AS x FROM S"):
        with pytest.raises(Diagnostic) as caught:
            session.query(text)
        assert caught.value.condition == "PATTERN_UNBOUNDED"
        assert caught.value.position is not None
    assert session.query("SELECT regexp_count(s, 'a') AS x FROM S").run().at(1).collect()[0].x == 40
