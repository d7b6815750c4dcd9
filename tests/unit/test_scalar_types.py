"""The types of scalar expressions without a JVM: the ANSI rules as Spark documents them."""

from __future__ import annotations

import pytest
import sqlglot
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp

from tidegate.errors import Diagnostic
from tidegate.scalars.calls import FUNCTIONS
from tidegate.scalars.functions import ScalarFunction
from tidegate.scalars.typing import (
    Typed,
    can_cast,
    common_type,
    infer,
    type_from_sql,
    type_to_spark,
    type_to_sqlglot,
)
from tidegate.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    INTERVAL,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    VOID,
    Field,
    Schema,
    Type,
    array,
    decimal,
)

SCHEMA: Schema = (
    Field("i", INT, nullable=False),
    Field("l", BIGINT),
    Field("e", decimal(10, 2)),
    Field("s", STRING),
    Field("ts", TIMESTAMP, nullable=False),
    Field("d", DATE),
)


def parse(sql: str) -> exp.Expression:
    parsed = sqlglot.parse_one(sql, dialect="spark")
    assert isinstance(parsed, exp.Expression)
    return parsed


def typed(sql: str, **functions: ScalarFunction) -> Typed:
    return infer(parse(sql), SCHEMA, functions)


@pytest.mark.parametrize(
    ("sql", "type"),
    [
        ("1", "INT"),
        ("2147483648", "BIGINT"),
        ("-2147483648", "INT"),
        ("9223372036854775808", "DECIMAL(19,0)"),
        ("1.5", "DECIMAL(2,1)"),
        ("0.05", "DECIMAL(2,2)"),
        ("1e3", "DOUBLE"),
        ("'x'", "STRING"),
        ("NULL", "VOID"),
        ("DATE '2020-01-01'", "DATE"),
        ("TIMESTAMP '2020-01-01'", "TIMESTAMP"),
        ("INTERVAL '1' HOUR", "INTERVAL"),
        ("c0 + c1", "BIGINT"),
        ("c0 / c1", "DOUBLE"),
        ("c0 DIV c0", "BIGINT"),
        ("c2 + c2", "DECIMAL(11,2)"),
        ("c2 * c2", "DECIMAL(21,4)"),
        ("c2 / c2", "DECIMAL(23,13)"),
        ("c2 + c0", "DECIMAL(13,2)"),
        ("c2 + 1", "DECIMAL(11,2)"),
        ("c2 * 1e0", "DOUBLE"),
        ("c4 - c4", "INTERVAL"),
        ("c4 + INTERVAL '1' DAY", "TIMESTAMP"),
        ("c5 + INTERVAL '1' DAY", "DATE"),
        ("c5 + INTERVAL '1' HOUR", "TIMESTAMP"),
        ("CASE WHEN c0 = 1 THEN c0 ELSE c1 END", "BIGINT"),
        ("COALESCE(CAST(1 AS TINYINT), c1, NULL)", "BIGINT"),
        ("STRUCT(c0 AS a, c3 AS b)", "STRUCT<a: INT, b: STRING>"),
        ("ARRAY(1, 2.5)", "ARRAY<DECIMAL(11,1)>"),
        ("SPLIT(c3, ',')", "ARRAY<STRING>"),
        ("EXTRACT(SECOND FROM c4)", "DECIMAL(8,6)"),
    ],
)
def test_types(sql: str, type: str) -> None:
    assert str(typed(sql).type) == type


def test_nullability_follows_the_arguments() -> None:
    assert not typed("c0 + 1").nullable
    assert typed("c0 + c1").nullable
    assert not typed("COALESCE(c1, c0)").nullable
    assert not typed("c3 IS NULL").nullable
    assert typed("CASE WHEN c0 = 1 THEN 1 END").nullable
    assert typed("TRY_CAST(c0 AS TINYINT)").nullable


@pytest.mark.parametrize(
    "sql",
    ["c0 + TRUE", "c0 AND TRUE", "c0 = DATE '2020-01-01'", "IF(c0, 1, 2)", "YEAR(c0)", "CAST(c5 AS INT)"],
)
def test_wrong_types_say_which(sql: str) -> None:
    with pytest.raises(Diagnostic) as caught:
        typed(sql)
    assert caught.value.condition == "TYPE_MISMATCH"
    assert "INT" in caught.value.message
    assert caught.value.span is not None


@pytest.mark.parametrize(
    "sql", ["RAND()", "UUID()", "NOW()", "CURRENT_TIMESTAMP", "c0 + UNIX_TIMESTAMP()", "CURRENT_DATE()"]
)
def test_an_answer_has_one_meaning(sql: str) -> None:
    with pytest.raises(Diagnostic) as caught:
        typed(sql)
    assert caught.value.condition == "NONDETERMINISTIC"


def test_unknown_functions_are_asked_for_or_refused() -> None:
    with pytest.raises(Diagnostic) as caught:
        typed("UPER(c3)")
    assert caught.value.condition == "UNKNOWN_FUNCTION"
    assert caught.value.help == "did you mean 'UPPER'?"
    asked: list[str] = []

    def ask(node: exp.Expression, schema: Schema) -> Typed:
        asked.append(node.sql("spark"))
        return Typed(STRING, True)

    assert infer(parse("LENGTH(SOUNDEX(c3)) + 1"), SCHEMA, {}, ask) == Typed(INT, True)
    assert asked == ["SOUNDEX(c3)"]
    with pytest.raises(Diagnostic) as caught:
        infer(parse("SOUNDEX(UUID())"), SCHEMA, {}, ask)
    assert caught.value.condition == "NONDETERMINISTIC"


def test_user_functions_are_found_in_any_case() -> None:
    half = ScalarFunction("Half", lambda v: v / 2, DOUBLE, arity=1)
    assert typed("HALF(c0) + 1", half=half).type == DOUBLE
    with pytest.raises(Diagnostic) as caught:
        typed("half(c0, 1)", half=half)
    assert caught.value.condition == "WRONG_NUMBER_OF_ARGUMENTS"


ATOMIC = (
    TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, BOOLEAN, STRING, BINARY, DATE, TIMESTAMP, TIMESTAMP_NTZ, INTERVAL,
)  # fmt: skip
decimals = st.integers(1, 38).flatmap(lambda p: st.integers(0, p).map(lambda s: decimal(p, s)))
atomic = st.sampled_from(ATOMIC) | decimals
types = st.recursive(
    atomic,
    lambda inner: (
        inner.map(array)
        | st.tuples(inner, inner).map(lambda kv: Type("MAP", kv))
        | st.lists(inner, min_size=1, max_size=3).map(
            lambda ts: Type("STRUCT", tuple((f"f{i}", t) for i, t in enumerate(ts)))
        )
    ),
    max_leaves=5,
)


@given(types)
def test_a_type_survives_its_spelling(type: Type) -> None:
    assert type_from_sql(type_to_sqlglot(type)) == type
    assert type_from_sql(exp.DataType.build(type_to_spark(type), dialect="spark")) == type


@given(types, types)
def test_the_common_type_is_symmetric_and_holds_both(a: Type, b: Type) -> None:
    common = common_type(a, b)
    assert common == common_type(b, a)
    assert common_type(a, a) == common_type(a, VOID) == a
    if common is not None:
        assert can_cast(a, common)
        assert can_cast(b, common)


@pytest.mark.parametrize(
    ("name", "type"),
    [
        ("REAL", FLOAT),
        ("INTEGER", INT),
        ("LONG", BIGINT),
        ("VARCHAR(5)", STRING),
        ("NUMERIC", decimal(10, 0)),
    ],
)
def test_type_names(name: str, type: Type) -> None:
    assert type_from_sql(exp.DataType.build(name, dialect="spark")) == type


def test_the_list_of_functions_is_sorted_and_without_doubles() -> None:
    assert list(FUNCTIONS) == sorted(set(FUNCTIONS))
