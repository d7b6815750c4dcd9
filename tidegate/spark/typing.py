"""Functions Tidegate has no rule for are typed by Spark's own analyzer."""

from __future__ import annotations

import re
from collections.abc import Callable

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession
from sqlglot import exp

from tidegate.errors import Diagnostic
from tidegate.policy import OPEN, Policy
from tidegate.scalars.expressions import ref, references, span_of, substitute
from tidegate.scalars.spark_functions import check
from tidegate.scalars.typing import Typed, type_from_sql
from tidegate.spark.values import ddl
from tidegate.types import Schema


def ask_spark(
    session: Callable[[], SparkSession], policy: Policy = OPEN
) -> Callable[[exp.Expression, Schema], Typed]:
    """The type of an expression over columns `c0`, …, as Spark says; its complaint becomes a Diagnostic."""

    def ask(expression: exp.Expression, schema: Schema) -> Typed:
        check(expression, policy.functions)
        used = sorted(references(expression))
        places = {index: place for place, index in enumerate(used)}
        local = substitute(expression, lambda i: ref(places[i]))
        columns = ", ".join(f"c{places[i]} {ddl(schema[i].type)}" for i in used)
        try:
            frame = session().createDataFrame([], columns) if used else session().range(1)
            field = frame.selectExpr(f"{local.sql(dialect='spark')} AS value").schema["value"]
        except (AnalysisException, PySparkException) as problem:
            message = str(problem).split("SQLSTATE")[0].split("\n")[0].strip()
            names = {f"c{place}": schema[index].name for index, place in places.items()}
            message = re.sub(r"\bc\d+\b", lambda found: names.get(found[0], found[0]), message)
            unknown = "UNRESOLVED_ROUTINE" in str(problem)
            condition = "UNKNOWN_FUNCTION" if unknown else "TYPE_MISMATCH"
            raise Diagnostic(condition, message).at(span_of(expression)) from None
        # What Spark calls VOID is NULL for sqlglot.
        name = re.sub(r"\bvoid(?=[,>]|$)", "null", field.dataType.simpleString())
        try:
            found = type_from_sql(exp.DataType.build(name, dialect="spark"))
        except Diagnostic as problem:
            raise problem.at(span_of(expression)) from None
        return Typed(found, field.nullable or any(schema[i].nullable for i in used))

    return ask
