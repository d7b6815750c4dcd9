"""Columnar forms against the row-wise evaluator: every form, every awkward pair of values, constants in every place.

The expressions and values are those that are compared with Spark (tests/spark/scalar_cases.py), so a form that agrees
with the evaluator there agrees with Spark.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from itertools import combinations, product
from typing import Any

import polars as pl
import pytest
import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from tests.spark.scalar_cases import CASES as LETTERS
from tests.spark.scalar_cases import GROUPS, WORDS, Group
from tidegate.errors import Diagnostic
from tidegate.kernels.expressions import Scalar
from tidegate.kernels.rows import from_rows
from tidegate.scalars.columnar import translate
from tidegate.scalars.columns import column_values
from tidegate.scalars.expressions import ref, references
from tidegate.scalars.library import ENTRIES
from tidegate.scalars.limits import LONGEST_TEXT
from tidegate.scalars.meaning import compile_scalar, refuse
from tidegate.scalars.patterns import backtracks
from tidegate.scalars.registry import Resolved
from tidegate.scalars.typing import infer, resolve, type_from_sql, type_to_sqlglot
from tidegate.types import (
    BOOLEAN,
    DOUBLE,
    INT,
    STRING,
    TIMESTAMP,
    Field,
    Row,
    Schema,
    Type,
    Value,
    decimal,
    normalize,
)

ALWAYS = Field("always", INT, nullable=False)
"""A column without NULLs at the end of every schema: `k = k` is true of all rows, and Polars may know it."""


def schema_of(group: Group) -> Schema:
    types = [type_from_sql(exp.DataType.build(type, dialect="spark")) for _, type, _, _ in group.columns]
    return (*(Field(c[0], t) for c, t in zip(group.columns, types, strict=True)), ALWAYS)


def bound(sql: str, schema: Schema) -> exp.Expression:
    positions = {field.name: i for i, field in enumerate(schema)}

    def visit(node: exp.Expression) -> exp.Expression:
        return ref(positions[node.name]) if isinstance(node, exp.Column) and node.name in positions else node

    return sqlglot.parse_one(sql, dialect="spark").transform(visit)


def frame_of(rows: list[Row], schema: Schema) -> pl.DataFrame:
    return from_rows(rows, schema, [(0, 1, 1)] * len(rows))


def by_row(scalar: Any, row: Row) -> tuple[Value, str | None]:
    """The value, or the condition of the error."""
    try:
        return normalize(scalar(row)), None
    except Diagnostic as error:
        return None, error.condition


def same(a: Value, b: Value) -> bool:
    return (
        repr(a) == repr(b)
        if isinstance(a, float) or isinstance(b, float)
        else bool(type(a) is type(b) and a == b)
    )


def agree(expression: exp.Expression, schema: Schema, frames: list[list[Row]]) -> None:
    """The columns give what the rows give, and the error of the first row that has one."""
    type_ = infer(expression, schema, {}).type
    by_rows, by_columns = compile_scalar(expression, schema, {}), Scalar(expression, schema, type_)
    for rows in frames:
        answers = [by_row(by_rows, row) for row in rows]
        good = [row for row, (_, error) in zip(rows, answers, strict=True) if error is None]
        values = column_values(by_columns(frame_of(good, schema)), type_)
        wanted = [value for value, error in answers if error is None]
        for row, value, expected in zip(good, values, wanted, strict=True):
            assert same(value, expected), (expression.sql("spark"), row, value, expected)
        errors = [error for _, error in answers if error is not None]
        if errors:
            with pytest.raises(Diagnostic) as caught:
                by_columns(frame_of(rows, schema))
            assert caught.value.condition == errors[0]


CASES = [(name, sql) for name, group in GROUPS.items() for sql in group.expressions]


def translated(cases: list[tuple[str, str]]) -> list[tuple[str, str]]:
    found = []
    for name, sql in cases:
        schema = schema_of(GROUPS[name])
        if translate(bound(sql, schema), schema) is not None:
            found.append((name, sql))
    return found


TRANSLATED = translated(CASES)


def rows_of(group: Group) -> list[Row]:
    return [(*row, 1) for row in group.rows]


@pytest.mark.parametrize(("name", "sql"), TRANSLATED)
def test_a_form_gives_what_the_rows_give(name: str, sql: str) -> None:
    """Value by value; where the form asks for the rows, only it knows why, but where they fail it must ask."""
    schema, rows = schema_of(GROUPS[name]), rows_of(GROUPS[name])
    expression = bound(sql, schema)
    column = translate(expression, schema)
    assert column is not None
    assert column.type == infer(expression, schema, {}).type
    scalar = compile_scalar(expression, schema, {})
    failed = pl.lit(False) if column.error is None else column.error
    result = frame_of(rows, schema).select("c0", value=column.value, failed=failed)
    assert result["failed"].null_count() == 0
    checked = result.with_columns(value=pl.when(~pl.col("failed")).then("value"))
    values = column_values(checked["value"], column.type)
    for row, value, asks in zip(rows, values, result["failed"].to_list(), strict=True):
        expected, error = by_row(scalar, row)
        assert asks or error is None, (row, value, error)
        assert asks or same(value, expected), (row, value, expected)


def calls(node: Resolved) -> Iterator[str]:
    yield node.name
    for arg in node.args:
        yield from calls(arg)


def test_every_form_is_compared_and_every_other_entry_says_why_it_has_none() -> None:
    compared = set()
    for name, sql in TRANSLATED:
        schema = schema_of(GROUPS[name])
        compared |= set(calls(resolve(bound(sql, schema), schema, {}, refuse)))
    leaves = {"COLUMN", "LITERAL", "PI", "E", "IF"}
    assert {e.name for e in ENTRIES.values() if e.columns is not None} <= compared
    assert {e.name for e in ENTRIES.values() if e.columns is None and not e.by_row} == leaves


# ---------------------------------------------------------------------------- constants in every place


def written(value: Value, type_: Type) -> exp.Expression:
    """A constant expression with this value."""
    if value is None:
        text = "NULL"
    elif isinstance(value, bool):
        return exp.Boolean(this=value)
    elif isinstance(value, bytes):
        return exp.HexString(this=value.hex())
    elif isinstance(value, timedelta):
        return exp.Interval(
            this=exp.Literal.string(f"{value / timedelta(seconds=1):.6f}"), unit=exp.var("SECOND")
        )
    elif isinstance(value, str):
        return exp.Literal.string(value)
    elif isinstance(value, int) and type_ == INT and value >= 0:
        return exp.Literal.number(value)
    else:
        moment = value.isoformat() if isinstance(value, datetime | date) else format(value)
        text = f"'{'Infinity' if value == math.inf else '-Infinity' if value == -math.inf else moment}'"
    return exp.cast(sqlglot.parse_one(text, dialect="spark"), type_to_sqlglot(type_))


def same_for_all(constant: exp.Expression, schema: Schema) -> exp.Expression:
    """The constant, in a form that is not folded: Polars has it as one value for all rows."""
    always = ref(len(schema) - 1)
    condition = exp.EQ(this=always.copy(), expression=always.copy())
    return exp.Case(ifs=[exp.If(this=condition, true=constant)])


def placed(expression: exp.Expression, constants: dict[int, exp.Expression]) -> exp.Expression:
    def visit(node: exp.Expression) -> exp.Expression:
        index = next(iter(references(node)), None) if isinstance(node, exp.Column) else None
        return exp.paren(constants[index]) if index in constants else node

    return expression.copy().transform(visit)


def awkward(values: tuple[Value, ...]) -> list[Value]:
    """NULL, an ordinary value and the last one (often at a limit); NaN where there is one."""
    nan = [v for v in values if isinstance(v, float) and math.isnan(v)]
    ordinary = [v for v in values if v is not None and v not in nan]
    return [None, ordinary[min(2, len(ordinary) - 1)], ordinary[-1], *nan]


def different(cases: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """One expression for each way of calling functions in one another."""
    found: dict[tuple[str, ...], tuple[str, str]] = {}
    for name, sql in cases:
        schema = schema_of(GROUPS[name])
        resolved = resolve(bound(sql, schema), schema, {}, refuse)
        found.setdefault((resolved.type.name, *calls(resolved)), (name, sql))
    return list(found.values())


@pytest.mark.parametrize("kind", ["literal", "same for all"])
@pytest.mark.parametrize(("name", "sql"), different(TRANSLATED))
def test_constants_stand_beside_columns_in_every_place(name: str, sql: str, kind: str) -> None:
    """Frames of no, one and several rows, with and without NULL and NaN."""
    group = GROUPS[name]
    schema, rows = schema_of(group), rows_of(group)
    expression = bound(sql, schema)
    read = sorted(references(expression))
    whole = [row for row in rows if all(row[i] is not None and row[i] == row[i] for i in read)]
    frames = [[], rows[-1:], whole[:: max(1, len(whole) // 4)], rows[:: max(1, len(rows) // 6)]]
    options = {i: awkward(group.columns[i][3]) for i in read}
    for count in {1, len(read)}:
        for number, places in enumerate(combinations(read, count)):
            for turn in (0, 1 + (number + len(sql)) % 3):
                constants = {i: written(options[i][turn % len(options[i])], schema[i].type) for i in places}
                if kind == "same for all":
                    constants = {i: same_for_all(c, schema) for i, c in constants.items()}
                agree(placed(expression, constants), schema, frames)


@pytest.mark.parametrize("rows", [0, 1, 3])
@pytest.mark.parametrize(
    "sql",
    [
        "UPPER('a') <= CASE WHEN c0 = c0 THEN 'x' END",
        "CASE WHEN c0 = c0 THEN 'x' END || 'y'",
        "CONCAT_WS('-', CASE WHEN c0 = c0 THEN 'x' END, 'y')",
        "COALESCE(CASE WHEN c0 <> c0 THEN 'x' END, 'y')",
    ],
)
def test_what_is_the_same_for_all_rows_has_as_many_as_the_others(sql: str, rows: int) -> None:
    schema = (Field("a", STRING),)
    agree(sqlglot.parse_one(sql, dialect="spark"), schema, [[(letter,) for letter in "xyz"[:rows]]])


@given(st.lists(st.tuples(st.floats(), st.sampled_from([3.0, 7.0, 0.1, 1e300])), min_size=1, max_size=5))
def test_a_quotient_is_the_nearest_number_whatever_is_constant(rows: list[Row]) -> None:
    schema = (Field("a", DOUBLE), Field("b", DOUBLE))
    for sql in ("c0 / c1", "c0 / 3", "1 / c1", "c0 / 0.1"):
        agree(sqlglot.parse_one(sql, dialect="spark"), schema, [rows])


OF_ANY_TYPE = """c0 = c1 | c0 < c1 | c0 >= c1 | c0 <=> c1 | c0 IN (c1, NULL) | c0 IN ({0}, {1}) | c0 IN ({0}, NULL) | COALESCE(c0, c1)
    COALESCE(c0, {0}) | NULLIF(c0, c1) | CASE WHEN c0 = c1 THEN c0 ELSE {1} END | IF(c0 IS NULL, c1, c0) | GREATEST(c0, c1) | LEAST(c0, {0})
    ARRAY(c0, c1) | ARRAY(c0, {0}) | STRUCT(c0 AS p, c1 AS q) | STRUCT(c0 AS p, {0} AS q).q | ARRAY(c0, c1)[1] | SIZE(ARRAY(c0))
    ELEMENT_AT(ARRAY({0}, c0), -1) | ARRAY_CONTAINS(ARRAY(c0, {1}), c1) | REVERSE(ARRAY(c0, c1)) | CONCAT(ARRAY(c0), ARRAY(c1))
    CAST(c0 AS STRING) | CONCAT(c0, '/', c1)"""
VALUES_BY_TYPE = {type: values for group in GROUPS.values() for _, type, _, values in group.columns} | {
    "BOOLEAN": (None, True, False)
}


@pytest.mark.parametrize("type", sorted(VALUES_BY_TYPE))
def test_functions_of_any_type_give_what_the_rows_give(type: str) -> None:
    type_ = type_from_sql(exp.DataType.build(type, dialect="spark"))
    schema, values = (Field("c0", type_), Field("c1", type_)), VALUES_BY_TYPE[type]
    rows = [(a, b) for a in values for b in values]
    constants = [written(v, type_).sql("spark") for v in awkward(values)[1:3]]
    for template in OF_ANY_TYPE.replace("\n", " | ").split(" | "):
        expression = sqlglot.parse_one(template.strip().format(*constants), dialect="spark")
        try:
            compile_scalar(expression, schema, {})
        except Diagnostic:
            assert "CONCAT(c0" in template or "CAST" in template, template
            continue
        agree(expression, schema, [rows, rows[-1:]])


@given(
    st.from_regex(r"\A[+-]?[0-9]{1,25}(\.[0-9]{0,25})?\Z"), st.floats(allow_nan=False, allow_infinity=False)
)
def test_numbers_are_read_and_written_alike(text: str, number: float) -> None:
    schema = (Field("c0", STRING),)
    rows = [(text,), (repr(number),), (str(round(number)),)]
    for type in ("DOUBLE", "BIGINT", "INT"):
        agree(sqlglot.parse_one(f"TRY_CAST(c0 AS {type})", dialect="spark"), schema, [[row] for row in rows])


TREES = {
    "INT": """c0 | c1 | 7 | -1 | NULL | {INT} + {INT} | {INT} * {INT} | {INT} % {INT} | LENGTH({TEXT}) | HOUR({TIME}) | ABS({INT})
        CASE WHEN {BOOL} THEN {INT} ELSE {INT} END | COALESCE({INT}, {INT}) | LOCATE('a', {TEXT}) | LEAST({INT}, {INT}) | {INT} & {INT}
        SIZE(SPLIT({TEXT}, 'a')) | STRUCT({INT} AS p, {TEXT} AS q).p | ELEMENT_AT(ARRAY({INT}, {INT}), 2) | {INT} DIV {INT}""",
    "REAL": """c2 | 0.5e0 | CAST({INT} AS DOUBLE) | {REAL} / {REAL} | {REAL} * {REAL} | {REAL} - {REAL} | SQRT({REAL})
        NANVL({REAL}, {REAL}) | IF({BOOL}, {REAL}, {REAL}) | GREATEST({REAL}, {REAL}) | NULLIF({REAL}, {REAL}) | -{REAL}""",
    "TEXT": """c3 | 'aB' | '' | NULL | UPPER({TEXT}) | SUBSTRING({TEXT}, {INT}, 2) | CONCAT({TEXT}, {TEXT}) | REPEAT({TEXT}, 2)
        CAST({INT} AS STRING) | TRIM({TEXT}) | REPLACE({TEXT}, 'aB', 'c') | COALESCE({TEXT}, {TEXT}) | SPLIT_PART({TEXT}, 'a', 1)
        CONCAT_WS('-', {TEXT}, {TEXT}) | CASE WHEN {BOOL} THEN {TEXT} END | LPAD({TEXT}, 4, '*') | DATE_FORMAT({TIME}, 'yyyy HH')
        REGEXP_EXTRACT({TEXT}, '([a-c]+)', 1) | CAST({TIME} AS STRING) | RIGHT({TEXT}, {INT})""",
    "BOOL": """c4 | TRUE | NULL | c5 = c5 | {INT} < {INT} | {TEXT} LIKE 'a%' | {BOOL} AND {BOOL} | {BOOL} OR {BOOL} | NOT {BOOL}
        {REAL} = {REAL} | {REAL} >= {REAL} | {TEXT} IN ({TEXT}, 'a') | {INT} IN (7, -1) | {TIME} <= {TIME} | {TEXT} IS NULL
        {TEXT} <=> {TEXT} | ISNAN({REAL}) | CONTAINS({TEXT}, {TEXT}) | ARRAY_CONTAINS(ARRAY({INT}, 7), {INT})""",
    "TIME": """c6 | TIMESTAMP '2024-02-29 12:00:00' | {TIME} + INTERVAL '1' HOUR | DATE_TRUNC('DAY', {TIME})
        CASE WHEN {BOOL} THEN {TIME} ELSE {TIME} END | TIMESTAMPADD(MINUTE, {INT}, {TIME}) | TIMESTAMP_SECONDS({INT})""",
}
"""What an expression of a type may be made of. `c5` is never NULL."""
GROWN = (
    *(Field(f"c{i}", type_) for i, type_ in enumerate((INT, INT, DOUBLE, STRING, BOOLEAN, INT, TIMESTAMP))),
)


@st.composite
def grown(draw: st.DrawFn, kind: str | None = None, depth: int = 3) -> str:
    kind = kind or draw(st.sampled_from(sorted(TREES)))
    choices = [t.strip() for line in TREES[kind].splitlines() for t in line.split(" | ")]
    template = draw(st.sampled_from([t for t in choices if depth or "{" not in t]))
    parts = re.split(r"\{(\w+)\}", template)
    made = [f"({draw(grown(p, depth - 1))})" if i % 2 else p for i, p in enumerate(parts)]
    return "".join(made)


@st.composite
def frames(draw: st.DrawFn) -> list[Row]:
    times = [datetime(1969, 12, 31, 23, 59, 59, 5, UTC), datetime(2024, 2, 29, 12, tzinfo=UTC)]
    values = (
        [0, 7, 2**31 - 1],
        [-1, 3],
        [0.0, 2.5, math.nan, math.inf],
        ["", "a", "aBc", "é"],
        [True, False],
        [1],
        times,
    )
    holes = draw(st.booleans())
    rows = st.tuples(*(st.sampled_from([*v, None] if holes and len(v) > 1 else v) for v in values))
    return draw(st.lists(rows, max_size=4))


@settings(max_examples=300)
@given(grown(), frames())
def test_forms_in_one_another_give_what_the_rows_give(sql: str, rows: list[Row]) -> None:
    expression = sqlglot.parse_one(sql, dialect="spark")
    try:
        infer(expression, GROWN, {})
    except Diagnostic:
        return
    agree(expression, GROWN, [rows])


ATOMS = (
    r"a b é \. \d \w \W . [a-c] [^ab] [.\]] (a) (b|c) (b|^) ^ (?:ab) (a?) _ - \( $ \b (?i) (?=a) \1".split()
)
REPEATED = ["", "", "*", "+", "?", "{2}", "{1,2}", "*?", "++"]
PATTERNS = st.lists(
    st.tuples(st.sampled_from(ATOMS), st.sampled_from(REPEATED)).map("".join), min_size=1, max_size=4
)
SUBJECTS = ["", "a", "ab", "aab b", "é a", "a.b", "a\nb", "b_b-x", "(a)", "12", "\r\na", "abab", "b]c", None]


def is_refused(expression: exp.Expression, schema: Schema) -> bool:
    """Whether a query with the expression is refused for a pattern that can take for ever."""
    try:
        infer(expression, schema, {})
    except Diagnostic as diagnostic:
        return diagnostic.condition == "PATTERN_UNBOUNDED"
    return False


@settings(max_examples=200)
@given(PATTERNS.map("".join), st.booleans(), st.sampled_from(["", "<$0>", "$1$1", "\\$"]))
def test_patterns_mean_the_same_in_columns(pattern: str, anchored: bool, replacement: str) -> None:
    """Those that Polars is not trusted with go row by row; those that nobody reads are refused either way."""
    schema, text = (Field("x", STRING),), ref(0)
    regex, by = exp.Literal.string("^" * anchored + pattern), exp.Literal.string(replacement)
    for expression in (
        exp.RegexpLike(this=text, expression=regex),
        exp.RegexpExtract(this=text, expression=regex, group=exp.Literal.number(1)),
        exp.RegexpReplace(this=text, expression=regex, replacement=by),
        exp.Like(this=text, expression=regex),
        exp.RegexpSplit(this=text, expression=regex),
    ):
        if is_refused(expression, schema):
            assert backtracks(regex.this)
            continue
        agree(expression.copy(), schema, [[(subject,) for subject in SUBJECTS]])


@pytest.mark.parametrize("sql", LETTERS)
def test_letters_change_in_columns_as_in_rows(sql: str) -> None:
    schema = (Field("x", STRING),)
    agree(bound(sql, schema), schema, [[(word,) for word in WORDS], [("ΑΣ",), ("σas",)]])


@pytest.mark.parametrize("sql", [f"x RLIKE '{'[^a]{999}' * 50}'", "x RLIKE '(a'"])
def test_a_pattern_too_large_for_polars_goes_row_by_row(sql: str) -> None:
    schema = (Field("x", STRING),)
    assert translate(bound(sql, schema), schema) is None


# ------------------------------------------------------------------------------------------- limits

ENDLESS = [
    "REPEAT('x', 2000000000)",
    "REPEAT(c0, 2000000000)",
    "REPEAT('ab', c1)",
    "SPACE(2000000000)",
    "LPAD('x', 2000000000)",
    "RPAD(c0, 2000000000, 'yz')",
    "LPAD(c0, c1)",
    f"CONCAT(REPEAT('x', {LONGEST_TEXT}), c0)",
    f"CONCAT_WS(REPEAT('x', {LONGEST_TEXT}), c0, c0)",
    f"REPLACE(REPEAT('x', {LONGEST_TEXT}), 'x', 'yy')",
    "REPLACE(REPEAT(c0, 1000000), c0, REPEAT('y', 1000))",
    "REGEXP_REPLACE(REPEAT(c0, 1000000), '.', REPEAT('y', 1000))",
]


@pytest.mark.parametrize("sql", ENDLESS)
def test_texts_have_a_limit(sql: str) -> None:
    schema = (Field("a", STRING), Field("n", INT))
    scalar = Scalar(sqlglot.parse_one(sql, dialect="spark"), schema, STRING)
    with pytest.raises(Diagnostic) as caught:
        scalar(frame_of([("x", 2**31 - 1)], schema))
    assert caught.value.condition == "TEXT_TOO_LONG"
    assert str(LONGEST_TEXT) in str(caught.value)


def test_a_text_of_the_greatest_length_is_made() -> None:
    schema = (Field("a", STRING), Field("n", INT))
    repeat = Scalar(sqlglot.parse_one("REPEAT(c0, c1)"), schema, STRING)
    for text, times in (("x", LONGEST_TEXT), ("", 2**31 - 1), ("xy", 1_000), ("xy", 1_001), ("xy", -1)):
        (made,) = repeat(frame_of([(text, times)], schema))
        assert made == text * times


@pytest.mark.parametrize(
    ("sql", "condition"),
    [
        ("ROUND(7, -2000000000)", None),
        ("ROUND(c0, -2000000000)", None),
        (f"CAST('{'9' * 5000}' AS INT)", "CAST_INVALID_INPUT"),
        ("CAST('1e99999999999999999999' AS DECIMAL(5, 2))", "ARITHMETIC_OVERFLOW"),
        ("INTERVAL '999999999999999' DAY = INTERVAL '1' DAY", "INVALID_INTERVAL"),
        ("9" * 5000 + " > c0", "TYPE_MISMATCH"),
    ],
)
def test_what_is_beyond_all_measure_is_answered_or_refused(sql: str, condition: str | None) -> None:
    expression, schema = sqlglot.parse_one(sql, dialect="spark"), (Field("a", DOUBLE),)
    if condition is None:
        assert compile_scalar(expression, schema, {})((1e308,)) == 0
        return
    with pytest.raises(Diagnostic) as caught:
        compile_scalar(expression, schema, {})((1.5,))
    assert caught.value.condition == condition


# ---------------------------------------------------------------------------- products of decimals


@st.composite
def factors(draw: st.DrawFn) -> tuple[Type, list[Value]]:
    """A decimal type, and values of it: at its limits, small, and any."""
    precision = draw(st.integers(1, 38))
    scale = draw(st.integers(0, min(precision, 20)))
    most = 10**precision - 1
    unscaled = st.one_of(st.sampled_from([most, -most, 0, 1]), st.integers(-most, most), st.integers(-9, 9))
    values = draw(st.lists(st.one_of(st.none(), unscaled), min_size=3, max_size=3))
    return decimal(precision, scale), [
        None if v is None else Decimal(v).scaleb(-scale, Context(prec=60)) for v in values
    ]


@given(factors(), factors())
@settings(max_examples=300)
def test_products_of_decimals_have_all_their_digits(
    left: tuple[Type, list[Value]], right: tuple[Type, list[Value]]
) -> None:
    schema = (Field("a", left[0]), Field("b", right[0]))
    rows: list[Row] = list(product(left[1], right[1]))
    agree(bound("a * b", schema), schema, [[row] for row in rows] + [rows])


@given(factors(), factors())
@settings(max_examples=300)
def test_decimals_that_fit_another_type_are_cast_as_columns(
    given: tuple[Type, list[Value]], wanted: tuple[Type, list[Value]]
) -> None:
    schema = (Field("a", given[0]),)
    rows: list[Row] = [(v,) for v in given[1]]
    for call in ("CAST", "TRY_CAST"):
        agree(bound(f"{call}(a AS {wanted[0]})", schema), schema, [[row] for row in rows] + [rows])


@pytest.mark.parametrize(
    ("left", "right"), [((15, 2), (16, 2)), ((32, 4), (16, 2)), ((19, 9), (18, 9)), ((38, 3), (38, 3))]
)
def test_products_as_long_as_prices_and_rates_are_columns(
    left: tuple[int, int], right: tuple[int, int]
) -> None:
    schema = (Field("a", decimal(*left)), Field("b", decimal(*right)))
    assert translate(bound("a * b", schema), schema) is not None
