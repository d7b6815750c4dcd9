"""Sources: a stream's definition becomes a DataFrame of its raw rows (SPEC sections 2 and 8).

A raw frame has the columns `c0`, `c1`, … (those of the definition's scan), `ts` (BIGINT ticks), `te` where rows carry their validity, the order of arrival `o0`, `o1`, `o2`, and for rows that
cannot be read `bad` (the reason) with `raw` (their text). Columns that a query does not use are never read. It is made of
the **given** columns, as the source delivers them, by SQL texts: a live batch is shaped after it was cut off from its stream,
so that the text of a row is made only where the row is refused. Texts, because each column object costs several calls into Java.

Arrival order within a batch is (path, offset of the block, position in it) for files, and the position for rows that a
program hands in: the same for every replay of the batch.
"""

from __future__ import annotations

import csv
import glob
import os
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows
from pyspark.sql.datasource import DataSource

from tidegate.connectors.change_logs import DEBEZIUM, decoded_events
from tidegate.errors import Diagnostic, did_you_mean, unsupported
from tidegate.language.catalog import StreamDefinition
from tidegate.spark.values import ddl, infer_columns, quote, schema_ddl
from tidegate.time import MAX, MIN
from tidegate.types import STRING, TIMESTAMP, TIMESTAMP_NTZ, Field, Schema

FILES = ("csv", "json", "parquet")
LIVE_ONLY = ("socket", "kafka", "rate")
FORMATS: dict[str, type[DataSource]] = {}
"""Formats written in Python, by name: `spark('name')` reads them."""
_CORRUPT = "_tidegate_unreadable"
_REASON = "_tidegate_reason"
_POSITION = "_tidegate_position"
OWN_OPTIONS = ("slack", "idle", "packages")
"""Options that are not for Spark's reader."""


@dataclass(frozen=True)
class Shape:
    """What is made of a source's given columns, as SQL texts over them."""

    columns: tuple[str, ...]
    """The columns of the definition's scan."""
    ts: str
    te: str
    bad: str
    raw: str


@dataclass(frozen=True)
class RawStream:
    """A source's rows as it gives them: columns `g0`, … and the order of arrival `o0`, `o1`, `o2`."""

    definition: StreamDefinition
    given: DataFrame
    names: tuple[str, ...]
    types: tuple[str, ...]
    """The given columns' DDL types."""

    @property
    def frame(self) -> DataFrame:
        """The raw frame."""
        shape = self.shape([f"g{i}" for i in range(len(self.names))])
        made = [f"{text} AS c{i}" for i, text in enumerate(shape.columns)]
        made += [f"{shape.ts} AS ts", f"{shape.te} AS te", "o0", "o1", "o2"]
        return self.given.selectExpr(*made, f"{shape.bad} AS bad", f"{shape.raw} AS raw")

    def shape(self, columns: Sequence[str]) -> Shape:
        """The texts, where the given columns have these names."""
        definition, names = self.definition, dict(zip(self.names, columns, strict=True))
        types = {c.name: c.type for c in definition.columns}
        chosen = [names[c.name] for c in definition.payload]
        bad, te = "CAST(NULL AS STRING)", "CAST(NULL AS BIGINT)"
        if definition.table:
            ts, te = f"({MIN + 1}L - 1L)", f"{MAX}L"
        elif definition.valid is not None:
            ts, end = (_ticks(names[name], types[name]) for name in definition.valid)
            te = f"coalesce({end}, {MAX}L)"
            bad = f"CASE WHEN {te} <= {ts} THEN 'the row ends before it begins' END"
        else:
            time = str(definition.time_column)
            ts = _ticks(names[time], types.get(time, TIMESTAMP))
        if not definition.table:
            bad = f"CASE WHEN {ts} IS NULL THEN 'the time is NULL' ELSE {bad} END"
            chosen.append(names[definition.scan.schema[-1].name])
            if definition.width != 1:
                ts, te, bad = _in_batches(definition, names, ts, te, bad)
        fields = [f"{names[c.name]} AS {quote(c.name)}" for c in definition.columns if c.name in names]
        raw = f"to_json(struct({', '.join(fields)}))"
        if _CORRUPT in names:
            bad = f"CASE WHEN {names[_CORRUPT]} IS NOT NULL THEN 'the row cannot be read' ELSE {bad} END"
            raw = f"coalesce({names[_CORRUPT]}, {raw})"
        if _REASON in names:
            bad = f"coalesce({names[_REASON]}, {bad})"
        return Shape(tuple(chosen), ts, te, bad, raw)


def read_recorded(spark: SparkSession, definition: StreamDefinition, data: Any = None) -> RawStream:
    """All rows of a source; `data` are the rows of a `memory` source."""
    source = definition.source
    if source.function == "memory":
        return _shape(definition, _memory(spark, definition, data), "''", "0", _POSITION)
    if source.function in FILES:
        path = _existing(definition)
        if _is_change_log(definition):
            return _change_log(spark.read, definition, path, _ROW_NUMBER)
        reader = spark.read.format(source.function)
        for name, value in _file_options(definition, path).items():
            reader = reader.option(name, value)
        frame = _load(definition, reader.schema(_file_schema(definition, path)), path)
        return _shape(definition, frame, *_FILE_ORDER, _ROW_NUMBER)
    if source.function == "spark":
        frame = _any_format(spark, spark.read, definition)
        return _shape(definition, frame, "''", "0", _ROW_NUMBER)
    if source.function in LIVE_ONLY:
        raise Diagnostic(
            "SOURCE_LIVE",
            f"'{definition.name}' comes from {source.function}, which has no end",
            help="start the query instead of running it",
        )
    raise _unknown(definition)


def read_live(spark: SparkSession, definition: StreamDefinition, inbox: str | None = None) -> RawStream:
    """The rows of a source as they come; a `memory` source reads the Parquet files put into `inbox`."""
    source = definition.source
    # Spark files a source's offsets under its name, which may hold letters, digits and underscores only.
    label = "".join(c if c.isascii() and c.isalnum() else f"_{ord(c):x}_" for c in definition.name)
    if source.function == "spark":
        frame = _any_format(spark, spark.readStream.name(label), definition)
        return _shape(definition, frame, "''", "0", _UNKNOWN)
    form = "parquet" if source.function == "memory" else source.function
    reader = spark.readStream.name(label).format(form)
    if source.function == "memory":
        assert inbox is not None
        declared = f"{schema_ddl(definition.columns)}, {_POSITION} BIGINT"
        reader = reader.schema(declared).option("maxFilesPerTrigger", _per_trigger(definition))
        # Rows are in the state once their batch counts; their files would be listed again at every epoch.
        frame = reader.option("cleanSource", "delete").load(inbox)
        return _shape(definition, frame, "_metadata.file_path", "0", _POSITION)
    if source.function in FILES:
        path = _existing(definition)
        if _is_change_log(definition):
            return _change_log(spark.readStream.name(label), definition, path, _UNKNOWN)
        for name, value in _file_options(definition, path).items():
            reader = reader.option(name, value)
        frame = _load(definition, reader.schema(_file_schema(definition, path)), path)
        return _shape(definition, frame, *_FILE_ORDER, _UNKNOWN)
    if source.function == "socket":
        host, port, *rest = source.arguments
        text = reader.option("host", str(host)).option("port", str(port)).load()
        frame = _parsed(definition, text, "value", rest[0] if rest else source.option.get("format", "json"))
        return _shape(definition, frame, "''", "0", _UNKNOWN)
    if source.function == "kafka":
        return _kafka(reader, definition)
    if source.function == "rate":
        rows = source.arguments[0] if source.arguments else source.option.get("rows_per_second", 1)
        frame = reader.option("rowsPerSecond", str(rows)).load()
        given = dict(zip((c.name for c in definition.columns), ("value", "timestamp"), strict=False))
        shaped = frame.select(
            *(
                F.col(given[c.name]).cast(ddl(c.type)).alias(c.name)
                for c in definition.columns
                if c.name in given
            )
        )
        return _shape(definition, shaped, "''", "0", _UNKNOWN)
    raise _unknown(definition)


def _any_format(spark: SparkSession, reader: Any, definition: StreamDefinition) -> DataFrame:
    """`spark('format'[, path])`: whatever Spark can read by the name of a format."""
    if not definition.source.arguments:
        raise Diagnostic("SOURCE_ARGUMENTS", "spark needs a format", help="spark('delta', 'path')")
    form, *path = (str(a) for a in definition.source.arguments)
    if form in FORMATS:
        form = _registered(spark, form)
    reader = reader.format(form)
    for name, value in definition.source.options:
        if name not in OWN_OPTIONS:
            reader = reader.option(name, value)
    try:
        frame: DataFrame = reader.load(*path)
    except AnalysisException as problem:
        raise Diagnostic(
            "SOURCE_NOT_FOUND",
            f"Spark cannot read '{form}' for '{definition.name}': {problem.getMessage() or problem}",
        ) from problem
    missing = [c.name for c in definition.columns if c.name.lower() not in {n.lower() for n in frame.columns}]
    if missing:
        raise Diagnostic(
            "UNKNOWN_COLUMN",
            f"'{form}' gives no column '{missing[0]}'",
            help=did_you_mean(missing[0], frame.columns, "columns"),
        )
    return frame.select(*(F.col(quote(c.name)).cast(ddl(c.type)).alias(c.name) for c in definition.columns))


def _registered(spark: SparkSession, form: str) -> str:
    """A format written in Python, made known to a session under a name of its own.

    Spark refuses a name that the active session knows already, also where another session is to learn it.
    """
    alias = f"{form}_{uuid.uuid4().hex}"
    spark.dataSource.register(type(form, (FORMATS[form],), {"name": classmethod(lambda _: alias)}))
    return alias


def arrow_rows(definition: StreamDefinition, data: Any) -> pa.Table:
    """Rows handed in, as Arrow with the declared types and their positions."""
    if data is None:
        raise Diagnostic("SOURCE_NOT_FOUND", f"no rows were given for '{definition.name}'")
    _, table = infer_columns(data, definition.columns)
    positions = pa.array(range(table.num_rows), pa.int64())
    return table.append_column(_POSITION, positions)


def size_in_bytes(definition: StreamDefinition, data: Any = None) -> int:
    """About how much a recorded source holds; 0 if unknown."""
    if definition.source.function in FILES:
        return sum(os.path.getsize(p) for p in local_files(str(definition.source.arguments[0])))
    if isinstance(data, pa.Table):
        return int(data.nbytes)
    return 0


def _memory(spark: SparkSession, definition: StreamDefinition, data: Any) -> DataFrame:
    if isinstance(data, DataFrame):
        named = data.select(
            *(F.col(quote(c.name)).cast(ddl(c.type)).alias(c.name) for c in definition.columns)
        )
        return named.withColumn(_POSITION, F.monotonically_increasing_id())
    table = arrow_rows(definition, data)
    if table.num_rows == 0:
        return spark.createDataFrame([], f"{schema_ddl(definition.columns)}, {_POSITION} BIGINT")
    return spark.createDataFrame(table)


def _kafka(reader: Any, definition: StreamDefinition) -> RawStream:
    servers, topic, *_ = definition.source.arguments
    options = {k: v for k, v in definition.source.options if k not in (*OWN_OPTIONS, "format")}
    reader = reader.option("kafka.bootstrap.servers", str(servers)).option("subscribe", str(topic))
    for name, value in options.items():
        reader = reader.option(name, value)
    try:
        frame = reader.load()
    except AnalysisException as problem:
        raise Diagnostic(
            "CONNECTOR_MISSING",
            "Spark has no Kafka connector",
            help="connect with packages=['org.apache.spark:spark-sql-kafka-0-10_2.13:4.3.0']",
        ) from problem
    text = frame.select(F.col("value").cast("string").alias("value"), "partition", "offset")
    parsed = _parsed(definition, text, "value", definition.source.option.get("format", "json"))
    return _shape(definition, parsed, "''", "partition", "offset")


def _parsed(definition: StreamDefinition, text: DataFrame, column: str, form: str) -> DataFrame:
    """Lines of text as rows; a line that cannot be read keeps its text."""
    schema = f"{schema_ddl(definition.columns)}, {_CORRUPT} STRING"
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    if form == DEBEZIUM:
        return decoded_events(definition.columns, text, column, _CORRUPT, _REASON)
    if form not in ("json", "csv"):
        raise Diagnostic(
            "FORMAT_UNKNOWN",
            f"lines cannot be read as '{form}'",
            help="existing formats: json, csv, debezium",
        )
    parse = F.from_json if form == "json" else F.from_csv
    rows = text.withColumn("_row", parse(F.col(column), schema, options))
    others = [c for c in text.columns if c != column]
    return rows.select(*others, "_row.*")


def _is_change_log(definition: StreamDefinition) -> bool:
    return definition.source.function == "json" and definition.source.option.get("format") == DEBEZIUM


def _change_log(reader: Any, definition: StreamDefinition, path: str, position: str) -> RawStream:
    """Files with one change event per line."""
    for name, value in definition.source.options:
        if name not in (*OWN_OPTIONS, "format"):
            reader = reader.option(name, value)
    lines = _load(definition, reader.format("text"), path)
    o0, o1 = _FILE_ORDER
    chosen = ["value", f"{o0} AS _path", f"{o1} AS _block", f"CAST({position} AS BIGINT) AS {_POSITION}"]
    text = lines.selectExpr(*chosen)
    frame = _parsed(definition, text, "value", DEBEZIUM)
    return _shape(definition, frame, "_path", "_block", _POSITION)


def _shape(definition: StreamDefinition, frame: DataFrame, o0: str, o1: str, o2: str) -> RawStream:
    """A source's rows, where texts over its frame tell the order of arrival."""
    found = frame.columns
    types = {c.name: ddl(c.type) for c in definition.columns if c.name in found}
    types |= {name: "STRING" for name in (_CORRUPT, _REASON) if name in found}
    made = [quote(name) for name in types]
    time = definition.time_column
    if time is not None and time not in types:
        # Spark notes the time of a batch, so that a replay finds the same one.
        types[time] = "TIMESTAMP"
        made.append("current_timestamp()")
    order = [f"CAST({o0} AS STRING) AS o0", f"CAST({o1} AS BIGINT) AS o1", f"CAST({o2} AS BIGINT) AS o2"]
    given = frame.selectExpr(*(f"{text} AS g{i}" for i, text in enumerate(made)), *order)
    return RawStream(definition, given, tuple(types), tuple(types.values()))


def _in_batches(
    definition: StreamDefinition, names: Mapping[str, str], ts: str, te: str, bad: str
) -> tuple[str, str, str]:
    """Where instants are pairs: the first and last tick. A row without a usable batch is refused."""
    width, limit = definition.width, MAX // definition.width - 1
    near = f"BETWEEN {-limit}L AND {limit}L"
    far = f"CASE WHEN {ts} NOT {near} THEN 'the time is too far away for batches' END"
    bad = f"coalesce({bad}, {far})"
    start = f"CASE WHEN {ts} {near} THEN {ts} * {width}L END"
    if definition.batch is not None:
        batch = f"CAST({names[definition.batch]} AS BIGINT)"
        known = f"coalesce({batch} >= 0 AND {batch} < {width}, false)"
        bad = f"coalesce({bad}, CASE WHEN NOT {known} THEN 'the batch is not a number from 0 to {width - 1}' END)"
        start = f"CASE WHEN {known} THEN {start} + {batch} END"
    end = f"CASE WHEN {te} {near} THEN {te} * {width}L ELSE {te} END"
    return start, end, bad


def _ticks(column: str, type_: Any) -> str:
    if type_ == TIMESTAMP:
        return f"unix_micros({column})"
    if type_ == TIMESTAMP_NTZ:
        return f"unix_micros(CAST({column} AS TIMESTAMP))"
    return f"CAST({column} AS BIGINT)"


_FILE_ORDER = "_metadata.file_path", "_metadata.file_block_start"
_ROW_NUMBER = "monotonically_increasing_id()"
_UNKNOWN = "NULL"
"""The position of a row in a live batch: Spark numbers rows only once the batch is one (see `exchange.enter`)."""


def _file_schema(definition: StreamDefinition, path: str) -> str:
    columns: Schema = definition.columns
    if definition.source.function == "parquet":
        return schema_ddl(columns)
    if definition.source.function == "csv":
        # Spark matches CSV columns by position; a header may name them in another order.
        header = _csv_header(definition, path)
        known = {c.name.lower(): c for c in columns}
        if header is not None:
            columns = tuple(known.get(h.lower(), Field(h, STRING)) for h in header)
    return f"{schema_ddl(columns)}, {_CORRUPT} STRING"


def _file_options(definition: StreamDefinition, path: str) -> dict[str, str]:
    options = {k: v for k, v in definition.source.options if k not in OWN_OPTIONS}
    if definition.source.function == "csv":
        named = _csv_header(definition, path) is not None or not local_files(path)
        options.setdefault("header", "true" if named else "false")
        # A row is unreadable or not whatever a query selects.
        options["columnPruning"] = "false"
    if definition.source.function in ("csv", "json"):
        options |= {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    return options


def _per_trigger(definition: StreamDefinition) -> str:
    return definition.source.option.get("maxFilesPerTrigger", "1000")


def _csv_header(definition: StreamDefinition, path: str) -> list[str] | None:
    """The first line of the first file, if it names every declared column."""
    asked = definition.source.option.get("header")
    files = [f for f in local_files(path) if not f.endswith((".gz", ".bz2", ".zst"))]
    if (asked is not None and asked.lower() != "true") or not files:
        return None
    separator = definition.source.option.get("sep") or definition.source.option.get("delimiter") or ","
    with open(files[0], newline="", encoding="utf-8", errors="replace") as lines:
        first = next(csv.reader(lines, delimiter=separator[:1]), [])
    header = [h.strip() for h in first]
    if {c.name.lower() for c in definition.columns} <= {h.lower() for h in header}:
        return header
    return None


def _load(definition: StreamDefinition, reader: Any, path: str) -> DataFrame:
    try:
        frame: DataFrame = reader.load(path)
    except AnalysisException as problem:
        if "PATH_NOT_FOUND" not in str(problem):
            raise
        raise _not_found(definition, path) from problem
    return frame


def _existing(definition: StreamDefinition) -> str:
    if not definition.source.arguments:
        name = definition.source.function
        raise Diagnostic("SOURCE_ARGUMENTS", f"{name} needs a path", help=f"{name}('file or directory')")
    path = str(definition.source.arguments[0])
    if "://" in path:
        return path
    if not glob.glob(path):
        raise _not_found(definition, path)
    return os.path.abspath(path)


def local_files(path: str) -> list[str]:
    """The files of a source on this machine, as Spark finds them."""
    if "://" in path:
        return []
    found: list[str] = []
    for place in sorted(glob.glob(path)):
        if os.path.isdir(place):
            for folder, _, names in os.walk(place):
                found += [os.path.join(folder, n) for n in names if not n.startswith(("_", "."))]
        else:
            found.append(place)
    return sorted(found)


def _not_found(definition: StreamDefinition, path: str) -> Diagnostic:
    folder = os.path.dirname(os.path.abspath(path))
    beside = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    return Diagnostic(
        "SOURCE_NOT_FOUND",
        f"the source of '{definition.name}' does not exist: {path}",
        help=did_you_mean(os.path.basename(path), beside[:20], "files")
        if beside
        else f"there is no directory {folder}",
    )


def _unknown(definition: StreamDefinition) -> Diagnostic:
    known = ("memory", "spark", *FILES, *LIVE_ONLY)
    return unsupported(
        f"'{definition.source.function}' is no source",
        help=did_you_mean(definition.source.function, list(known), "sources"),
    )
