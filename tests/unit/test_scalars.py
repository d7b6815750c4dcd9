"""The meaning of scalar expressions without a JVM: facts that Spark's documentation states."""

from __future__ import annotations

import math
import pickle
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
import sqlglot
from sqlglot import exp

from tidegate.errors import Diagnostic, Kind
from tidegate.scalars.functions import ScalarFunction
from tidegate.scalars.meaning import compile_scalar, is_supported
from tidegate.types import BIGINT, BOOLEAN, DOUBLE, FLOAT, INT, STRING, TIMESTAMP, Field, Schema, Type, array


def parse(sql: str) -> exp.Expression:
    parsed = sqlglot.parse_one(sql, dialect="spark")
    assert isinstance(parsed, exp.Expression)
    return parsed


def value(sql: str, schema: Schema = (), row: tuple[Any, ...] = (), **functions: ScalarFunction) -> Any:
    return compile_scalar(parse(sql), schema, functions)(row)


DOCUMENTED = [
    ("3 / 2", 1.5),
    ("3 DIV 2", 1),
    ("2 % 1.8", Decimal("0.2")),
    ("PMOD(-10, 3)", 2),
    ("ROUND(2.5, 0)", Decimal(3)),
    ("BROUND(2.5, 0)", Decimal(2)),
    ("CEIL(-0.1)", Decimal(0)),
    ("CEIL(3.1411, 3)", Decimal("3.142")),
    ("CEIL(3.1411, -3)", Decimal(1000)),
    ("FLOOR(-0.1)", Decimal(-1)),
    ("POWER(2, 3)", 8.0),
    ("SQRT(4)", 2.0),
    ("SIGN(40)", 1.0),
    ("GREATEST(10, 9, 2, 4, 3)", 10),
    ("NULLIF(2, 2)", None),
    ("NVL2(NULL, 2, 1)", 1),
    ("COALESCE(NULL, 1, NULL)", 1),
    ("NANVL(CAST('NaN' AS DOUBLE), 123)", 123.0),
    ("IF(1 < 2, 'a', 'b')", "a"),
    ("CASE WHEN 1 > 0 THEN 1 WHEN 2 > 0 THEN 2.0 ELSE 1.2 END", Decimal(1)),
    ("NULL <=> NULL", True),
    ("2 IN (1, 2, 3)", True),
    ("SUBSTRING('Spark SQL', 5)", "k SQL"),
    ("SUBSTRING('Spark SQL', -3)", "SQL"),
    ("SUBSTRING('Spark SQL' FROM 5 FOR 1)", "k"),
    ("SUBSTRING_INDEX('www.apache.org', '.', 2)", "www.apache"),
    ("SPLIT('oneAtwoBthreeC', '[ABC]')", ("one", "two", "three", "")),
    ("SPLIT('oneAtwoBthreeC', '[ABC]', 2)", ("one", "twoBthreeC")),
    ("REGEXP_EXTRACT('100-200', '(\\\\d+)-(\\\\d+)', 1)", "100"),
    ("REGEXP_REPLACE('100-200', '(\\\\d+)', 'num')", "num-num"),
    ("LPAD('hi', 5, '??')", "???hi"),
    ("RPAD('hi', 1, '??')", "h"),
    ("INITCAP('sPark sql')", "Spark Sql"),
    ("INSTR('SparkSQL', 'SQL')", 6),
    ("LOCATE('bar', 'foobarbar', 5)", 7),
    ("CONCAT_WS(' ', 'Spark', 'SQL')", "Spark SQL"),
    ("REPEAT('123', 2)", "123123"),
    ("REPLACE('ABCabc', 'abc', 'DEF')", "ABCDEF"),
    ("TRANSLATE('AaBbCc', 'abc', '123')", "A1B2C3"),
    ("TRIM(BOTH 'SL' FROM 'SSparkSQLS')", "parkSQ"),
    ("LENGTH('Spark SQL ')", 10),
    ("MD5('Spark')", "8cde774d6f7333752ed72cacddb05126"),
    ("SHA2('Spark', 256)", "529bc3b07127ecb7e53a4dcf1991d9152c24537d919178022b2c42657f79a26b"),
    ("SHA1('Spark')", "85f5955f4b27a9a4c2aab6ffe5d7189fc298b92c"),
    ("YEAR('2016-07-30')", 2016),
    ("QUARTER('2016-08-31')", 3),
    ("DAYOFWEEK('2009-07-30')", 5),
    ("WEEKDAY('2009-07-30')", 3),
    ("WEEKOFYEAR('2008-02-20')", 8),
    ("DAYOFYEAR('2016-04-09')", 100),
    ("HOUR('2009-07-30 12:58:59')", 12),
    ("LAST_DAY('2009-01-12')", date(2009, 1, 31)),
    ("DATE_ADD('2016-07-30', 1)", date(2016, 7, 31)),
    ("DATE_SUB('2016-07-30', 1)", date(2016, 7, 29)),
    ("DATEDIFF('2009-07-30', '2009-07-31')", -1),
    ("ADD_MONTHS('2016-08-31', 1)", date(2016, 9, 30)),
    ("TRUNC('2019-08-04', 'week')", date(2019, 7, 29)),
    ("DATE_TRUNC('HOUR', '2015-03-05T09:32:05.359')", datetime(2015, 3, 5, 9, tzinfo=UTC)),
    ("DATE_FORMAT('2016-04-08', 'y')", "2016"),
    ("TO_DATE('2016-12-31', 'yyyy-MM-dd')", date(2016, 12, 31)),
    ("UNIX_DATE(DATE '1970-01-02')", 1),
    ("UNIX_MICROS(TIMESTAMP '1970-01-01 00:00:01Z')", 1000000),
    ("TIMESTAMP_MILLIS(1230219000123)", datetime(2008, 12, 25, 15, 30, 0, 123000, tzinfo=UTC)),
    ("TIMESTAMP '2021-01-01' - TIMESTAMP '2020-12-31 23:00:00'", timedelta(hours=1)),
    ("ELEMENT_AT(ARRAY(1, 2, 3), 2)", 2),
    ("ARRAY_CONTAINS(ARRAY(1, 2, 3), 2)", True),
    ("SIZE(ARRAY('b', 'd', 'c', 'a'))", 4),
    ("CAST('10' AS INT)", 10),
    ("TRY_CAST('a' AS INT)", None),
]


@pytest.mark.parametrize(("sql", "expected"), DOCUMENTED, ids=[sql for sql, _ in DOCUMENTED])
def test_documented_examples(sql: str, expected: Any) -> None:
    answer = value(sql)
    assert answer == expected
    assert type(answer) is type(expected)


FAILING = [
    ("2147483647 + 1", "ARITHMETIC_OVERFLOW"),
    ("-(-2147483648)", "ARITHMETIC_OVERFLOW"),
    ("CAST(300 AS TINYINT)", "ARITHMETIC_OVERFLOW"),
    ("CAST(12345 AS DECIMAL(4,0))", "ARITHMETIC_OVERFLOW"),
    ("1 / 0", "DIVIDE_BY_ZERO"),
    ("1 DIV 0", "DIVIDE_BY_ZERO"),
    ("1 % 0", "DIVIDE_BY_ZERO"),
    ("CAST('a' AS INT)", "CAST_INVALID_INPUT"),
    ("CAST('2020-02-30' AS DATE)", "CAST_INVALID_INPUT"),
    ("ARRAY(1, 2)[2]", "INVALID_ARRAY_INDEX"),
    ("ELEMENT_AT(ARRAY(1, 2), 0)", "INVALID_ARRAY_INDEX"),
]


@pytest.mark.parametrize(("sql", "condition"), FAILING)
def test_errors_name_their_condition(sql: str, condition: str) -> None:
    scalar = compile_scalar(parse(sql), (), {})
    with pytest.raises(Diagnostic) as caught:
        scalar(())
    assert caught.value.condition == condition


def test_an_error_knows_its_place() -> None:
    sql = "c0 + 100 / c1"
    with pytest.raises(Diagnostic) as caught:
        value(sql, (Field("a", INT), Field("b", INT)), (1, 0))
    assert caught.value.span is not None
    start, end = caught.value.span
    assert sql[start:end].endswith("c1")
    assert not sql[start:end].startswith("c0")
    assert pickle.loads(pickle.dumps(caught.value)).span == (start, end)
    assert "line 1" in str(caught.value.locate(sql))


def test_a_branch_not_taken_does_not_fail() -> None:
    schema = (Field("a", INT), Field("b", INT))
    scalar = compile_scalar(parse("CASE WHEN c1 <> 0 THEN c0 DIV c1 WHEN FALSE THEN 1 DIV 0 END"), schema, {})
    assert [scalar((7, b)) for b in (2, 0, None)] == [3, None, None]


@pytest.mark.parametrize(
    ("sql", "table"),
    [
        ("c0 AND c1", [True, False, None, False, False, False, None, False, None]),
        ("c0 OR c1", [True, True, True, True, False, None, True, None, None]),
    ],
)
def test_three_valued_logic(sql: str, table: list[bool | None]) -> None:
    scalar = compile_scalar(parse(sql), (Field("a", BOOLEAN), Field("b", BOOLEAN)), {})
    domain = (True, False, None)
    assert [scalar((a, b)) for a in domain for b in domain] == table


def test_not_in_with_null_is_unknown() -> None:
    schema = (Field("a", INT),)
    assert [value("c0 NOT IN (1, NULL)", schema, (a,)) for a in (1, 2, None)] == [False, None, None]


def test_not_like_negates() -> None:
    assert [value(f"'abc' {test}") for test in ("NOT LIKE 'a%'", "NOT ILIKE 'X%'", "NOT RLIKE '^b'")] == [
        False,
        True,
        True,
    ]


def test_nan_is_one_value_above_all() -> None:
    schema = (Field("a", DOUBLE), Field("b", DOUBLE))
    nan, inf = float("nan"), float("inf")
    assert value("c0 = c1", schema, (nan, nan)) is True
    assert value("c0 > c1", schema, (nan, inf)) is True
    assert value("c0 IN (c1, 1)", schema, (nan, nan)) is True
    assert math.isnan(value("GREATEST(c0, c1)", schema, (nan, inf)))
    scalar = compile_scalar(parse("c0 + c1"), schema, {})
    assert scalar((nan, 1.0)) is scalar((inf, -inf))


def test_float_is_single_precision() -> None:
    assert value("c0 + c0", (Field("a", FLOAT),), (0.10000000149011612,)) == 0.20000000298023224
    assert value("CAST(0.1 AS FLOAT)") == 0.10000000149011612


def test_timestamps_without_a_zone_are_utc() -> None:
    schema = (Field("a", TIMESTAMP), Field("b", TIMESTAMP))
    zoned, bare = datetime(2020, 1, 1, tzinfo=UTC), datetime(2020, 1, 1)
    assert value("c0 = c1", schema, (zoned, bare)) is True
    assert value("c0", schema, (bare, None)) == zoned


def test_structs_and_arrays() -> None:
    schema = (Field("s", Type("STRUCT", (("A", INT), ("b", STRING)))), Field("x", array(INT)))
    field = exp.Dot(this=parse("c0"), expression=exp.to_identifier("a"))
    assert compile_scalar(field, schema, {})(((5, "x"), None)) == 5
    assert value("c0['b']", schema, ((5, "x"), None)) == "x"
    assert value("c1[c1[0]]", schema, (None, (1, 9))) == 9
    assert value("ARRAY_CONTAINS(c1, 3)", schema, (None, (1, None))) is None


def test_user_functions() -> None:
    double = ScalarFunction("Twice", lambda v: None if v is None else v * 2, DOUBLE, arity=1)
    schema = (Field("a", BIGINT),)
    assert value("1 + TWICE(c0)", schema, (4,), twice=double) == 9.0
    assert value("twice(c0)", schema, (None,), twice=double) is None
    broken = ScalarFunction("broken", lambda v: v / 0, DOUBLE)
    with pytest.raises(Diagnostic) as caught:
        value("broken(c0)", schema, (4,), broken=broken)
    assert caught.value.condition == "USER_FUNCTION_FAILED"
    assert "division by zero" in caught.value.message


def test_what_python_does_not_evaluate_is_refused() -> None:
    assert not is_supported(parse("SOUNDEX(c0)"), {})
    assert not is_supported(parse("UPPER(c0) || SOUNDEX(c0)"), {})
    assert not is_supported(parse("RAND()"), {})
    assert is_supported(parse("UPPER(c0) LIKE 'A%' AND c1 BETWEEN 1 AND 2"), {})
    with pytest.raises(Diagnostic) as caught:
        value("SOUNDEX(c0)", (Field("a", STRING),), ("x",))
    assert caught.value.kind is Kind.UNSUPPORTED
    with pytest.raises(Diagnostic) as caught:
        value("REGEXP_REPLACE('a', '\\\\p{Alpha}', '')")
    assert caught.value.kind is Kind.UNSUPPORTED
