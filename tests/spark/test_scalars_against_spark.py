"""Scalar expressions mean what Spark says: type, value and error, for every function of the set."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
import sqlglot
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from sqlglot import exp

from tests.spark.scalar_cases import (
    CASES,
    GROUPS,
    LAST_BIT,
    NUMBERS,
    REFUSED,
    ROUND_TRIP_DIFFERS,
    WORDS,
    Group,
)
from tidegate.errors import Diagnostic, Kind
from tidegate.scalars.expressions import ref
from tidegate.scalars.meaning import FUNCTIONS, compile_scalar
from tidegate.scalars.typing import infer, type_from_sql
from tidegate.types import STRING, Field, Schema


def parse(sql: str) -> exp.Expression:
    parsed = sqlglot.parse_one(sql, dialect="spark")
    assert isinstance(parsed, exp.Expression)
    return parsed


def bound(sql: str, schema: Schema) -> exp.Expression:
    positions = {field.name: i for i, field in enumerate(schema)}

    def visit(node: exp.Expression) -> exp.Expression:
        if isinstance(node, exp.Column) and node.name in positions:
            return ref(positions[node.name])
        return node

    return parse(sql).transform(visit)


def schema_of(group: Group) -> Schema:
    return tuple(
        Field(name, type_from_sql(exp.DataType.build(type, dialect="spark")))
        for name, type, _, _ in group.columns
    )


def frame_of(spark: SparkSession, group: Group) -> DataFrame:
    ddl = ", ".join(f"`{name}` {type}" for name, type, _, _ in group.columns)
    rows = [(i, *row) for i, row in enumerate(group.rows)]
    return spark.createDataFrame(rows, "`row number` INT, " + ddl).coalesce(2).cache()


def spark_value(value: Any, zoned: bool = True) -> Any:
    """A collected value as Tidegate has it; Spark hands out instants in the process's own zone."""
    if isinstance(value, datetime) and zoned:
        return value.astimezone(UTC)
    if isinstance(value, (list, tuple)):
        return tuple(spark_value(v) for v in value)
    return bytes(value) if isinstance(value, bytearray) else value


def same(ours: Any, theirs: Any, loose: bool) -> bool:
    if isinstance(ours, tuple) and isinstance(theirs, tuple):
        return len(ours) == len(theirs) and all(same(a, b, loose) for a, b in zip(ours, theirs, strict=True))
    if type(ours) is not type(theirs):
        return False
    if isinstance(ours, float):
        if math.isnan(ours) or math.isnan(theirs):
            return math.isnan(ours) and math.isnan(theirs)
        return ours == theirs or (loose and math.isclose(ours, theirs, rel_tol=4e-16))
    return bool(ours == theirs)


def type_text(text: str) -> str:
    return re.sub(r"interval [a-z ]+", "interval", text.lower()).replace(" ", "")


def evaluate(
    sql: str, schema: Schema, rows: Sequence[tuple[Any, ...]]
) -> tuple[list[Any], dict[int, Diagnostic]]:
    """Our values by row, and the rows where we raise."""
    scalar = compile_scalar(bound(sql, schema), schema, {})
    values: list[Any] = []
    failed: dict[int, Diagnostic] = {}
    for i, row in enumerate(rows):
        try:
            values.append(scalar(row))
        except Diagnostic as problem:
            if problem.kind is not Kind.USER:
                raise
            failed[i] = problem
            values.append(None)
    return values, failed


def guarded(sql: str, failed: dict[int, Diagnostic]) -> str:
    """The expression, not evaluated in rows where an error is expected."""
    if not failed:
        return sql
    return f"CASE WHEN `row number` NOT IN ({', '.join(map(str, failed))}) THEN {sql} END"


def collect(frame: DataFrame, columns: list[tuple[str, str]]) -> list[tuple[Any, ...]]:
    """All columns in one job; if that fails, the test names the expressions whose errors we missed."""
    selected = frame.selectExpr("`row number`", *(f"{text} AS v{i}" for i, (_, text) in enumerate(columns)))
    try:
        return sorted((tuple(r) for r in selected.collect()), key=lambda r: r[0])
    except PySparkException:
        missed = []
        for sql, text in columns:
            try:
                frame.selectExpr(text).collect()
            except PySparkException as problem:
                missed.append(f"{sql}: {str(problem)[:150]}")
        pytest.fail("Spark raises where we do not:\n" + "\n".join(missed))


@pytest.fixture(scope="module", params=sorted(GROUPS))
def compared(request: pytest.FixtureRequest, spark: SparkSession) -> tuple[Group, DataFrame]:
    group = GROUPS[request.param]
    return group, frame_of(spark, group)


def test_types_and_values(compared: tuple[Group, DataFrame]) -> None:
    group, frame = compared
    schema, rows = schema_of(group), group.rows
    ours = {sql: evaluate(sql, schema, rows) for sql in group.expressions}
    columns = [(sql, guarded(sql, ours[sql][1])) for sql in group.expressions]
    analyzed = frame.selectExpr(*group.expressions).schema.fields
    theirs = collect(frame, columns)
    wrong = []
    for position, (sql, _) in enumerate(columns):
        typed = infer(bound(sql, schema), schema, {})
        values, failed = ours[sql]
        if type_text(str(typed.type)) != type_text(analyzed[position].dataType.simpleString()):
            wrong.append(f"{sql}: type {typed.type}, Spark {analyzed[position].dataType.simpleString()}")
            continue
        loose = sql.startswith(LAST_BIT)
        zoned = typed.type.name != "TIMESTAMP_NTZ"
        for i, row in enumerate(rows):
            expected = spark_value(theirs[i][position + 1], zoned)
            if not same(values[i], expected, loose):
                wrong.append(f"{sql} of {row}: {values[i]!r}, Spark {expected!r}")
                break
            if values[i] is None and not typed.nullable and i not in failed:
                wrong.append(f"{sql} of {row}: NULL, though it is said never to be")
                break
    assert not wrong, "\n".join(wrong)


@pytest.fixture
def quick(spark: SparkSession) -> Iterator[None]:
    """Many one-row jobs: generating code for each would take longer than running it."""
    spark.conf.set("spark.sql.codegen.wholeStage", "false")
    yield
    spark.conf.unset("spark.sql.codegen.wholeStage")


@pytest.mark.usefixtures("quick")
def test_errors(compared: tuple[Group, DataFrame]) -> None:
    """Where we raise, Spark raises: the first failing row of each expression that has one."""
    group, frame = compared
    schema, rows = schema_of(group), group.rows
    wrong = []
    for sql in group.expressions:
        _, failed = evaluate(sql, schema, rows)
        if failed:
            number = next(iter(failed))
            try:
                answer = frame.where(f"`row number` = {number}").selectExpr(sql).collect()
                wrong.append(f"{sql} of {rows[number]}: {failed[number].message}, Spark {answer[0][0]!r}")
            except PySparkException:
                pass
            except ValueError as problem:
                # Spark has years that Python's dates do not; there we must raise, and Spark need not.
                if "out of range" not in str(problem):
                    raise
    assert not wrong, "\n".join(wrong)


def test_round_trip_through_sqlglot(compared: tuple[Group, DataFrame]) -> None:
    """Parsing and generating an expression keeps its type, except where the list says otherwise."""
    group, frame = compared
    written = {sql: parse(sql).sql("spark") for sql in group.expressions}
    changed = set()
    fields = frame.selectExpr(*group.expressions).schema.fields
    for sql, field in zip(group.expressions, fields, strict=True):
        try:
            again = frame.selectExpr(written[sql]).schema.fields[0].dataType
        except PySparkException:
            again = None
        if again != field.dataType:
            changed.add(sql)
    assert changed == {sql for sql in ROUND_TRIP_DIFFERS if sql in group.expressions}


def test_refused_expressions(spark: SparkSession) -> None:
    """What Spark's analyzer refuses, we refuse."""
    frame, schema = frame_of(spark, NUMBERS), schema_of(NUMBERS)
    for sql in REFUSED:
        with pytest.raises(PySparkException):
            frame.selectExpr(sql).schema  # noqa: B018 - analysis is what raises
        with pytest.raises(Diagnostic) as caught:
            infer(bound(sql, schema), schema, {})
        assert caught.value.condition in ("TYPE_MISMATCH", "UNKNOWN_FIELD"), (sql, str(caught.value))


def test_letters_change_as_spark_has_it(spark: SparkSession) -> None:
    frame = spark.createDataFrame(list(enumerate(WORDS)), "i INT, x STRING")
    theirs = sorted(tuple(row) for row in frame.selectExpr("i", *CASES).collect())
    schema = (Field("x", STRING),)
    ours = [evaluate(sql, schema, [(word,) for word in WORDS])[0] for sql in CASES]
    wrong = [
        f"{sql} of {WORDS[row[0]]!r}: {values[row[0]]!r}, Spark {row[n]!r}"
        for n, (sql, values) in enumerate(zip(CASES, ours, strict=True), 1)
        for row in theirs
        if values[row[0]] != row[n]
    ]
    assert not wrong, "\n".join(wrong[:20])


def test_every_function_is_compared() -> None:
    text = " ".join(e.upper() for g in GROUPS.values() for e in g.expressions)
    missing = [f for f in FUNCTIONS if not re.search(rf"(?<![A-Z_0-9]){f}\s*\(", text)]
    assert not missing
