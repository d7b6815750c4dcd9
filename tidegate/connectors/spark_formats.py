"""`spark('format'[, 'path'])`: whatever Spark can read by the name of a format, recorded or live."""

from __future__ import annotations

import uuid
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows
from pyspark.sql.datasource import DataSource

from tidegate.connectors.files import missing_column
from tidegate.connectors.protocol import Source, Traits
from tidegate.connectors.raw import ROW_NUMBER, UNKNOWN, RawStream, shaped, stream_reader
from tidegate.errors import Diagnostic
from tidegate.language.catalog import StreamDefinition
from tidegate.language.signatures import Option, Signature
from tidegate.spark.values import ddl, quote

FORMATS: dict[str, type[DataSource]] = {}
"""Formats written in Python, by name."""


class SparkFormat(Source):
    signature = Signature(
        "spark",
        (Option("format"), Option("path")),
        needed=1,
        further=("",),
        meaning="any format that Spark reads by its name; the format's own options",
    )
    traits = Traits(ordered=False)

    def recorded(self, spark: SparkSession, definition: StreamDefinition, data: Any = None) -> RawStream:
        return shaped(definition, _frame(spark, spark.read, definition), "''", "0", ROW_NUMBER)

    def live(self, spark: SparkSession, definition: StreamDefinition, inbox: str | None = None) -> RawStream:
        frame = _frame(spark, stream_reader(spark, definition), definition)
        return shaped(definition, frame, "''", "0", UNKNOWN)


def _frame(spark: SparkSession, reader: Any, definition: StreamDefinition) -> DataFrame:
    form, *path = (str(a) for a in definition.source.arguments)
    if form in FORMATS:
        form = _registered(spark, form)
    try:
        frame: DataFrame = reader.format(form).options(**definition.source.option).load(*path)
    except AnalysisException as problem:
        raise Diagnostic(
            "SOURCE_NOT_FOUND",
            f"Spark cannot read '{form}' for '{definition.name}': {problem.getMessage() or problem}",
        ) from problem
    found = {n.lower() for n in frame.columns}
    for column in definition.columns:
        if column.name.lower() not in found:
            raise missing_column(definition, column.name, frame.columns, f"Spark reads it as '{form}'")
    return frame.select(*(F.col(quote(c.name)).cast(ddl(c.type)).alias(c.name) for c in definition.columns))


def _registered(spark: SparkSession, form: str) -> str:
    """A format written in Python, made known to a session under a name of its own.

    Spark refuses a name that the active session knows already, also where another session is to learn it.
    """
    alias = f"{form}_{uuid.uuid4().hex}"
    spark.dataSource.register(type(form, (FORMATS[form],), {"name": classmethod(lambda _: alias)}))
    return alias
