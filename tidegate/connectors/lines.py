"""Lines of text as rows: JSON, separated values, or Debezium's events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

from tidegate.connectors.change_logs import DEBEZIUM, decoded_events
from tidegate.connectors.raw import CORRUPT, REASON
from tidegate.language.catalog import StreamDefinition
from tidegate.language.signatures import Option
from tidegate.spark.values import schema_ddl
from tidegate.types import STRING, Schema

LINE_FORMAT = Option("format", "choice", "what a line is, 'json' by default", ("json", "csv", DEBEZIUM))
SEPARATOR = Option("separator", "character", "of csv lines, ',' by default", aliases=("sep", "delimiter"))

JSON_TEXT = "get_json_object({0}, concat('$[\\'', {1}, '\\']'))"
"""The text of a member of an object's text."""


def json_columns(columns: Schema) -> Schema:
    """Columns as Spark's JSON reader gives them: it would round decimals, so those are read as texts."""
    return tuple(replace(c, type=STRING) if c.type.name == "DECIMAL" else c for c in columns)


def text_columns(columns: Schema) -> Schema:
    """Columns of separated values, which are all texts."""
    return tuple(replace(c, type=STRING) for c in columns)


def parsed(
    definition: StreamDefinition, text: DataFrame, column: str, settings: Mapping[str, str]
) -> DataFrame:
    """The rows; other columns stay, and a line that cannot be read keeps its text."""
    form = settings.get("format", "json")
    columns = json_columns(definition.columns) if form == "json" else text_columns(definition.columns)
    schema = f"{schema_ddl(columns)}, {CORRUPT} STRING"
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
    if form == DEBEZIUM:
        return decoded_events(definition.columns, text, column, CORRUPT, REASON)
    if form == "csv":
        options |= {"sep": settings.get("separator", ","), "escape": '"'}
    parse = F.from_json if form == "json" else F.from_csv
    rows = text.withColumn("_row", parse(F.col(column), schema, options))
    others = [c for c in text.columns if c != column]
    return rows.select(*others, "_row.*")
