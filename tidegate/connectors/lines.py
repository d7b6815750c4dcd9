"""Lines of text as rows: JSON, separated values, or Debezium's events."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

from tidegate.connectors.change_logs import DEBEZIUM, decoded_events
from tidegate.connectors.raw import CORRUPT, REASON
from tidegate.language.catalog import StreamDefinition
from tidegate.language.signatures import Option
from tidegate.spark.values import schema_ddl

LINE_FORMAT = Option("format", "choice", "what a line is, 'json' by default", ("json", "csv", DEBEZIUM))
SEPARATOR = Option("separator", "character", "of csv lines, ',' by default", aliases=("sep", "delimiter"))


def parsed(
    definition: StreamDefinition, text: DataFrame, column: str, settings: Mapping[str, str]
) -> DataFrame:
    """The rows; other columns stay, and a line that cannot be read keeps its text."""
    schema = f"{schema_ddl(definition.columns)}, {CORRUPT} STRING"
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
    form = settings.get("format", "json")
    if form == DEBEZIUM:
        return decoded_events(definition.columns, text, column, CORRUPT, REASON)
    if form == "csv":
        options |= {"sep": settings.get("separator", ","), "escape": '"'}
    parse = F.from_json if form == "json" else F.from_csv
    rows = text.withColumn("_row", parse(F.col(column), schema, options))
    others = [c for c in text.columns if c != column]
    return rows.select(*others, "_row.*")
