"""Translated expressions against the row-wise evaluator, value by value and error by error."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import product

import polars as pl
import pytest
import sqlglot
from hypothesis import given
from hypothesis import strategies as st

from tidegate.errors import Diagnostic
from tidegate.kernels.expressions import Scalar
from tidegate.kernels.rows import from_rows
from tidegate.scalars.columnar import translate
from tidegate.scalars.columns import column_values
from tidegate.scalars.meaning import compile_scalar
from tidegate.scalars.typing import infer
from tidegate.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    STRING,
    TIMESTAMP,
    TINYINT,
    Field,
    decimal,
    normalize,
)  # fmt: skip

SCHEMA = tuple(
    Field(f"f{i}", t)
    for i, t in enumerate(
        [INT, INT, BIGINT, DOUBLE, DOUBLE, STRING, BOOLEAN, DATE, TIMESTAMP, TINYINT]
        + [decimal(10, 2), decimal(5, 3)]
    )
)
EDGES = [
    [0, 1, -7, 2**31 - 1, -(2**31), None],
    [0, 2, -3, -1, 2**31 - 1, None],
    [0, 5, -(2**63), 2**63 - 1, -1, None],
    [0.0, -0.0, 1.5, math.nan, math.inf, None],
    [0.0, 2.0, -1.5, math.nan, -math.inf, None],
    ["", "a", "B", "é", "ab", None],
    [True, False, None],
    [date(1970, 1, 1), date(2024, 2, 29), None],
    [datetime(1969, 12, 31, 23, 59, 59, 999999, UTC), datetime(2024, 2, 29, 12, 5, 7, tzinfo=UTC), None],
    [0, 127, -128, None],
    [Decimal("0.00"), Decimal("99999999.99"), Decimal("-99999999.99"), Decimal("-0.01"), None],
    [Decimal("0.000"), Decimal("99.999"), Decimal("-1.500"), None],
]
VERIFIED = """
c0 + c1 | c0 - c1 | c0 * c1 | c0 + c2 | c2 * c2 | c2 - c0 | c2 + c2 | -c0 | -c2 | -c3 | abs(c0) | abs(c2) | abs(c3)
c9 + c9 | c9 * 2 | c9 - c0 | -c9 | abs(c9)
c0 / c1 | c2 / c0 | c3 / c4 | c3 / c0 | c0 div c1 | c2 div c0 | c0 % c1 | c2 % c0 | c9 % c1
c3 + c4 | c3 * c4 | c3 - 1 | c3 * 1.5 | c0 + c3 | c3 + c2
c0 = c1 | c0 <> c1 | c0 < c1 | c0 >= c2 | c3 = c4 | c3 < c4 | c3 >= c4 | c3 > c0 | c3 <= 1.5 | c3 <> c3 | c2 < c3
c5 = 'a' | c5 < 'b' | c6 = true | c7 = c7 | c8 <= c8 | c0 <=> c1 | c3 <=> c4 | c5 <=> NULL | c0 = NULL
c6 AND c0 > 1 | c6 OR c0 > 1 | NOT c6 | c6 AND NULL | c6 OR NULL | c0 IS NULL | c0 IS NOT NULL | c6 IS TRUE | c6 IS NOT FALSE
c1 <> 0 AND c0 / c1 > 1 | c1 = 0 OR c0 / c1 > 1 | c0 / c1 > 1 AND c1 <> 0 | c6 AND c0 + c1 > 0
c0 IN (0, 1, -7) | c0 IN (0, NULL) | c0 NOT IN (0, NULL) | c5 IN ('a', 'B') | c3 IN (1.5, 0) | c0 IN (c1, c2)
c0 BETWEEN 0 AND c1 | c0 NOT BETWEEN 0 AND 5 | c3 BETWEEN 0 AND 2
CASE WHEN c1 <> 0 THEN c0 / c1 END | CASE WHEN c6 THEN c0 ELSE c2 END | CASE c0 WHEN 1 THEN 'x' WHEN 0 THEN c5 END
CASE WHEN c6 THEN c0 WHEN c0 > c1 THEN c1 ELSE NULL END | IF(c6, c0, c3) | IF(c0 > 0, c0 + c1, 0) | IF(c6, NULL, c0)
COALESCE(c0, c1) | COALESCE(c0, c2, 7) | COALESCE(c5, 'none') | NULLIF(c0, 1) | NULLIF(c0, c1)
c7 > DATE '2000-01-01' | c8 <= TIMESTAMP '2024-02-29 12:00:00' | CAST('7' AS INT) + c0 | upper('x') = c5
CAST(c0 AS BIGINT) | CAST(c2 AS INT) | CAST(c0 AS TINYINT) | CAST(c0 AS DOUBLE) | CAST(c2 AS DOUBLE) | CAST(c9 AS INT)
c5 || 'x' | c5 || c5 | c0 | 7 | 'text' | NULL | true | 1e3 | (c0 + 1) * 2 | -(-c0)
0.908 * c2 | c2 * 0.908 | c0 + 0.5 | c9 - 1.25 | c10 + c11 | c10 - c11 | c10 * c0 | c10 + 7 | 7 - c11 | c10 * -5
(c10 + c11) * 2 | c10 | c11 + c10 * c9 | c3 * -1.5 | 1.5 | -2.25 | c2 + 0.1 * c9
c10 > 3 | c10 = c11 | c10 <= c11 | c10 <> c2 | c11 < 0.5 | c10 <=> c11 | 0.908 * c2 > 1000000 | c0 >= 0.5 | -0.01 = c10
DATE_FORMAT(c8, 'yyyy-MM-dd') | DATE_FORMAT(c8, 'HH:mm:ss') | DATE_FORMAT(c8, "dd.MM.yyyy 'at' HH%mm") | HOUR(c8) | YEAR(c8) | MONTH(c8)
DAY(c8) | MINUTE(c8) | SECOND(c8) | HOUR(c8) >= 8 AND HOUR(c8) <= 18
"""
EXPRESSIONS = [e.strip() for line in VERIFIED.strip().splitlines() for e in line.split(" | ")]


def by_row(expression, row):
    """The value, or the Diagnostic that evaluating it raises."""
    try:
        return compile_scalar(expression, SCHEMA, {})(row)
    except Diagnostic as error:
        return error.condition


def same(a, b):
    return type(a) is type(b) and repr(normalize(a)) == repr(normalize(b))


def rows_over(expression):
    """All combinations of edge values of the columns that the expression reads."""
    read = {int(c.name[1:]) for c in expression.find_all(sqlglot.exp.Column)}
    return [tuple(r) for r in product(*(EDGES[i] if i in read else [None] for i in range(len(SCHEMA))))]


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_translated_expression(text):
    expression = sqlglot.parse_one(text, dialect="spark")
    column = translate(expression, SCHEMA)
    assert column is not None, "outside the translated set"
    assert column.type == infer(expression, SCHEMA, {}).type
    rows = rows_over(expression)
    frame = from_rows(rows, SCHEMA, [(0, 1, 1)] * len(rows))
    error = pl.lit(False) if column.error is None else column.error
    result = frame.with_columns(value=column.value, failed=error)
    values = column_values(result["value"], column.type)
    for row, value, failed in zip(rows, values, result["failed"].to_list(), strict=True):
        wanted = by_row(expression, row)
        raised = isinstance(wanted, str) and column.type != STRING
        assert failed == raised, (row, value, wanted)
        assert raised or same(value, wanted), (row, value, wanted)


def test_an_error_has_the_wording_of_the_row_wise_evaluator():
    frame = from_rows(
        [(1, 1) + (None,) * 10, (1, 0) + (None,) * 10],
        SCHEMA,
        [(0, 1, 1)] * 2,
    )
    with pytest.raises(Diagnostic) as caught:
        Scalar(sqlglot.parse_one("c0 / c1"), SCHEMA, DOUBLE)(frame)
    assert caught.value.condition == "DIVIDE_BY_ZERO"
    first = Scalar(sqlglot.parse_one("c0 / c1"), SCHEMA, DOUBLE)(frame.head(1))
    assert first.to_list() == [1.0]


@pytest.mark.parametrize(
    ("text", "type_", "wanted"),
    [
        ("initcap(c5)", STRING, ["A", None, "É"]),
        ("'ab' LIKE c5 || '%'", BOOLEAN, [True, None, False]),
        ("CAST(c0 AS DECIMAL(10, 2)) * 0.5 > 0.1", BOOLEAN, [True, False, None]),
        ("ascii(c5) + c0", INT, [98, None, None]),
        ("DATE_FORMAT(TIMESTAMP_SECONDS(c0), 'ss.SS')", STRING, ["01.00", "00.00", None]),
        ("CAST(c0 AS DECIMAL(10, 2)) * 0.5", decimal(13, 3), [Decimal("0.500"), Decimal("0.000"), None]),
    ],
)
def test_everything_else_goes_row_by_row(text, type_, wanted):
    expression = sqlglot.parse_one(text, dialect="spark")
    blank = (None,) * 6
    rows = [(1, None, None, None, None, "a", *blank), (0, None, None, None, None, None, *blank)]
    rows.append((None, None, None, None, None, "é", *blank))
    scalar = Scalar(expression, SCHEMA, type_)
    assert scalar.column is None
    assert column_values(scalar(from_rows(rows, SCHEMA, [(0, 1, 1)] * 3)), type_) == wanted


@given(st.lists(st.tuples(st.sampled_from(EDGES[3]), st.sampled_from(EDGES[5])), max_size=5))
def test_rows_survive_the_way_into_columns_and_back(rows):
    from tidegate.kernels.rows import from_arrow, to_arrow, to_rows

    schema = (Field("a", DOUBLE), Field("b", STRING))
    frame = from_rows(rows, schema, [(0, 1, 1)] * len(rows))
    back = from_arrow(to_arrow(frame), schema)
    assert repr(to_rows(back, schema)) == repr([normalize(r) for r in rows])


def test_equal_arguments_are_evaluated_once():
    from tidegate.scalars.functions import ScalarFunction

    calls = []

    def shout(text):
        calls.append(text)
        return None if text is None else text.upper()

    functions = {"shout": ScalarFunction("shout", shout, STRING, 1)}
    rows = [(None,) * 5 + (v,) + (None,) * 6 for v in ["a", None, "b"] * 1000]
    scalar = Scalar(sqlglot.parse_one("shout(c5)"), SCHEMA, STRING, functions)
    assert scalar(from_rows(rows, SCHEMA, [(0, 1, 1)] * 3000)).to_list() == ["A", None, "B"] * 1000
    assert len(calls) == 3


def test_big_sums_stay_exact():
    assert Scalar(sqlglot.parse_one("c2 + 1"), SCHEMA, BIGINT)(
        from_rows([(None, None, 2**53, *(None,) * 9)], SCHEMA, [(0, 1, 1)])
    ).to_list() == [2**53 + 1]


def test_a_column_with_one_value_throughout_has_as_many_rows_as_the_others():
    frame = pl.DataFrame({"c0": pl.Series([1, 2, 3], dtype=pl.Int32)})
    frame = frame.with_columns(c1=pl.lit(7, dtype=pl.Int32))
    scalar = Scalar(sqlglot.parse_one("COALESCE(2 >= c1, TRUE)"), SCHEMA, BOOLEAN)
    assert scalar(frame).to_list() == [False] * 3


def test_times_that_repeat_are_written_once_and_rightly() -> None:
    moments = [
        datetime(*parts, tzinfo=UTC)
        for parts in [
            (1969, 12, 31, 23, 59, 59, 999_999),
            (1970, 1, 1),
            (2024, 2, 29, 12, 0, 1),
            (2024, 2, 29, 12, 59),
        ]
    ]
    times = [None, *moments] * 40
    frame = pl.DataFrame({"c0": pl.Series(times, dtype=pl.Datetime("us", "UTC"))})
    schema = (Field("a", TIMESTAMP),)
    for pattern, python in (("yyyy-MM-dd", "%Y-%m-%d"), ("HH:mm", "%H:%M"), ("dd HH:mm:ss", "%d %H:%M:%S")):
        call = sqlglot.parse_one(f"DATE_FORMAT(c0, '{pattern}')", dialect="spark")
        assert translate(call, schema) is not None
        found = Scalar(call, schema, STRING)(frame).to_list()
        assert found == [None if t is None else t.strftime(python) for t in times]
