"""`csv('path')`: separated values (RFC 4180), by the names in each file's first line where it has them."""

from __future__ import annotations

import csv
import io
import logging
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import IO, Any

from pyspark.sql import DataFrame, SparkSession

from tidegate.connectors.files import (
    CLOSED,
    FILE_ORDER,
    FORMATS,
    PATH,
    PER_TRIGGER,
    FileSource,
    escaped,
    existing,
    file_stream,
    load,
    local_files,
    missing_column,
    opened,
)  # fmt: skip
from tidegate.connectors.inference import SAMPLE, nothing_there, strangers, type_of_texts
from tidegate.connectors.lines import text_columns
from tidegate.connectors.raw import (
    CORRUPT,
    POSITION,
    ROW_NUMBER,
    UNKNOWN,
    RawStream,
    literal,
    shaped,
)  # fmt: skip
from tidegate.errors import Diagnostic
from tidegate.language.catalog import StreamDefinition
from tidegate.language.signatures import Option, Signature
from tidegate.spark.values import quote, schema_ddl
from tidegate.types import STRING, Field, Schema, Type

LOG = logging.getLogger("tidegate")

TEXT_FORM = (
    Option(
        "separator", "character", "between values, ',' by default", spark="sep", aliases=("sep", "delimiter")
    ),
    Option("quote", "character", "around values, '\"' by default; '' for none", spark="quote"),
    Option("escape", "character", "before a quote inside quotes, a second quote by default", spark="escape"),
    Option(
        "null",
        meaning="the text that stands for NULL, as nothing does",
        spark="nullValue",
        aliases=("null_value",),
    ),
)
"""How values are written, for reading and writing alike."""

_NO_TEXT = "\ue000"
"""Stands for NULL within Spark's reader, so that a quoted empty text stays one."""
_CHUNK = 1 << 20

Layout = tuple[str, ...] | None
"""The columns that a file's first line names, in lower case and with their spaces; None if it names none."""


class CsvFiles(FileSource):
    signature = Signature(
        "csv",
        (PATH,),
        (
            Option(
                "header", "boolean", "whether the first line names the columns; by default, if it has a declared name",
                spark="header",
            ),
            *TEXT_FORM,
            Option("comment", "character", "at the start of lines to leave out", spark="comment"),
            Option("encoding", meaning="of the text, UTF-8 by default", spark="encoding"),
            Option(
                "multi_line", "boolean", "whether quoted values may hold line ends; by default, if there are quotes",
                spark="multiLine",
            ),
            *FORMATS,
            PER_TRIGGER,
        ),
        1,
        meaning="separated values",
    )  # fmt: skip

    def foresee(self, definition: StreamDefinition, live: bool) -> None:
        """Recorded files must name the columns; of live ones, those that do not are set aside. Of many files the first tell enough."""
        settings = self.signature.settings(definition.source.options)
        files = local_files(existing(definition))
        for file in () if live else files[:20]:
            if (first := _first_record(file, settings)) is not None:
                _layout(definition, settings.get("header"), first, file)

    def every_row(self, spark: SparkSession, definition: StreamDefinition) -> RawStream:
        """Files with the same first line are read together."""
        path = existing(definition)
        settings = self.signature.settings(definition.source.options)
        quoted = [f for f in local_files(path) if _has_quotes(f, settings)]
        several = "true" if quoted or "://" in path else "false"
        # Where nobody has looked at a first line, Spark does, and refuses another one than the declared.
        looked = bool(local_files(path)) and not any(f.endswith(CLOSED) for f in local_files(path))
        more = {"multiLine": several, "enforceSchema": str(looked).lower()}
        layouts = self._layouts(definition, path)
        parts = []
        for layout, files in layouts.items():
            places = path if len(layouts) == 1 else [escaped(file) for file in files]
            parts.append(self._frame(spark.read, definition, layout, places, ROW_NUMBER, more))
        frame = parts[0]
        for part in parts[1:]:
            frame = frame.unionAll(part)
        return self._shaped(definition, frame)

    def follow(self, spark: SparkSession, definition: StreamDefinition, form: Any) -> RawStream:
        """All files have the same first line; where nobody has looked, Spark refuses another one by the file's name."""
        _, layout = form or self.declared(definition)
        options = {"multiLine": "true", "enforceSchema": "false"}
        reader = file_stream(spark, definition)
        frame = self._frame(reader, definition, layout, existing(definition), UNKNOWN, options)
        return self._shaped(definition, frame)

    def form(self, definition: StreamDefinition, file: str) -> Any:
        super().form(definition, file)
        settings = self.signature.settings(definition.source.options)
        first = _first_record(file, settings)
        if first is None:
            return None
        _has_quotes(file, settings)
        return "layout", _layout(definition, settings.get("header"), first, file)

    def declared(self, definition: StreamDefinition) -> Any:
        return "layout", next(iter(self._layouts(definition, "")))

    def _columns(self, definition: StreamDefinition, files: Sequence[str]) -> Schema:
        """The names in the first line, or Spark's where there are none, and what the first rows hold."""
        settings = self.signature.settings(definition.source.options)
        columns: dict[str, list[str]] = {}
        rows = 0
        for file in files:
            with opened(file) as data:
                records: Iterator[list[str]] = (values for _, values in _records(data, settings))
                first = next(records, None)
                if first is None:
                    continue
                if settings.get("header") == "false":
                    names, records = [f"_c{i}" for i in range(len(first))], chain([first], records)
                else:
                    names = _names(first, file)
                columns = columns or {name: [] for name in names}
                places = [(i, columns[n]) for i, n in enumerate(names) if n in columns]
                for values in islice(records, SAMPLE - rows):
                    rows += 1
                    if len(values) == len(names):
                        for i, texts in places:
                            texts += [v for v in (values[i],) if v not in ("", settings.get("null"))]
        if not rows:
            raise nothing_there(definition.name, files[0])
        found = tuple(Field(name, type_of_texts(texts, settings)) for name, texts in columns.items())
        for field in found:
            if field.type == STRING and (odd := strangers(columns[field.name], settings)) is not None:
                LOG.warning(_said(field.name, len(columns[field.name]), *odd))
        return found

    def place(self, definition: StreamDefinition, file: str, row: int) -> str:
        settings = self.signature.settings(definition.source.options)
        named = None not in self._layouts(definition, file)
        with opened(file) as data:
            records = _records(data, settings)
            line = next((line for number, (line, _) in enumerate(records) if number == row + named), None)
        return f"row {row + 1}" if line is None else f"line {line}"

    def _layouts(self, definition: StreamDefinition, path: str) -> dict[Layout, list[str]]:
        """The files by their first lines; where there is none to look at, the declared columns are expected."""
        settings = self.signature.settings(definition.source.options)
        found: dict[Layout, list[str]] = {}
        for file in local_files(path):
            first = _first_record(file, settings)
            if first is not None:
                found.setdefault(_layout(definition, settings.get("header"), first, file), []).append(file)
        closed = [file for file in local_files(path) if file.endswith(CLOSED)]
        if closed and len(found) > 1:
            raise Diagnostic(
                "SOURCE_BROKEN",
                f"nobody can tell which columns {closed[0]} has: other files have them in different orders",
                help="compress it as .gz or .bz2, or keep it elsewhere",
            )
        declared = tuple(c.name.lower() for c in definition.columns)
        return found or {None if settings.get("header") == "false" else declared: local_files(path)}

    def _frame(
        self,
        reader: Any,
        definition: StreamDefinition,
        layout: Layout,
        places: str | list[str],
        position: str,
        more: Mapping[str, str],
    ) -> DataFrame:
        options = {"escape": '"', "nullValue": _NO_TEXT, **more} | self.signature.for_spark(
            definition.source.options
        )
        options |= {"header": "false" if layout is None else "true", "emptyValue": ""}
        # A row is unreadable or not whatever a query selects.
        options |= {"columnPruning": "false", "mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
        columns = text_columns(definition.columns)
        names = {c.name.lower(): c.name for c in columns}
        if layout is not None:
            columns = tuple(Field(name, STRING) for name in layout)
            names = {name.strip(): name for name in layout}
        schema = f"{schema_ddl(columns)}, {CORRUPT} STRING"
        frame = load(definition, reader.format("csv").options(**options).schema(schema), places)
        chosen = [f"{quote(names[c.name.lower()])} AS {quote(c.name)}" for c in definition.columns]
        o0, o1 = FILE_ORDER
        order = [f"{o0} AS _path", f"{o1} AS _block", f"CAST({position} AS BIGINT) AS {POSITION}"]
        return frame.selectExpr(*chosen, CORRUPT, *order)

    def _shaped(self, definition: StreamDefinition, frame: DataFrame) -> RawStream:
        settings = self.signature.settings(definition.source.options)
        readers: dict[str, str] = {}
        if "timestamp_format" in settings:
            made = f"try_to_timestamp({{}}, {_pattern(settings['timestamp_format'])})"
            readers |= {"TIMESTAMP": made, "TIMESTAMP_NTZ": f"CAST({made} AS TIMESTAMP_NTZ)"}
        if "date_format" in settings:
            readers["DATE"] = f"CAST(try_to_timestamp({{}}, {_pattern(settings['date_format'])}) AS DATE)"
        return shaped(definition, frame, "_path", "_block", POSITION, readers)


def _said(column: str, values: int, nearly: Type, odd: Sequence[str]) -> str:
    """What is said of a column that some values make a text.

    >>> print(_said("v", 9, Type("DOUBLE"), ["n/a"]))
    column 'v' is read as STRING: 8 of 9 values are DOUBLE, but 'n/a' is not. Where it stands for NULL, say WITH (null = 'n/a'); declared columns (v DOUBLE, …) refuse such rows
    """
    shown = odd[0] if len(odd[0]) <= 40 else f"{odd[0][:40]}…"
    null = f"Where it stands for NULL, say WITH (null = '{shown}'); d" if len({*odd}) == 1 else "D"
    return (
        f"column '{column}' is read as STRING: {values - len(odd):,} of {values:,} values are {nearly}, but '{shown}' is not. "
        f"{null}eclared columns ({column} {nearly}, …) refuse such rows"
    )


def _pattern(text: str) -> str:
    """A pattern as a literal of a text that is formatted later."""
    return literal(text).replace("{", "{{").replace("}", "}}")


def _names(first: list[str], file: str) -> list[str]:
    """The names in a file's first line, which must be names."""
    names = [name.strip() for name in first]
    lowered = [name.lower() for name in names]
    if twice := next((n for n in names if n and lowered.count(n.lower()) > 1), None):
        raise Diagnostic("DUPLICATE_COLUMN", f"the first line of {file} has '{twice}' twice")
    value = next((n for n in names if not n or type_of_texts([n]) != STRING), None)
    if value is not None:
        raise Diagnostic(
            "COLUMNS_UNKNOWN",
            f"the first line of {file} does not name the columns: '{value}' is no name",
            help="declare the columns, or say WITH (header = false): they are then _c0, _c1, …",
        )
    return names


def _layout(definition: StreamDefinition, header: str | None, first: list[str], file: str) -> Layout:
    """What a file's first line says, if it names columns; it must then name all that are declared."""
    names = [name.strip() for name in first]
    lowered = [name.lower() for name in names]
    declared = [c.name.lower() for c in definition.columns]
    if header == "false" or (header is None and not set(lowered) & set(declared)):
        if len(names) != len(declared):
            raise Diagnostic(
                "COLUMN_COUNT",
                f"the first line of {file} has {len(names)} values, '{definition.name}' has {len(declared)} columns",
                help="name the columns in the first line, or say the separator",
            )
        return None
    for column in definition.columns:
        if column.name.lower() not in lowered:
            raise missing_column(definition, column.name, names, file)
        if lowered.count(column.name.lower()) > 1:
            raise Diagnostic("DUPLICATE_COLUMN", f"the first line of {file} has '{column.name}' twice")
    # What nobody declared needs no name, except that Spark wants one.
    return tuple(
        name.lower() if plain and lowered.count(plain) == 1 else f"_{i}"
        for i, (name, plain) in enumerate(zip(first, lowered, strict=True))
    )


def _first_record(file: str, settings: Mapping[str, str]) -> list[str] | None:
    """The values of the first line that holds any; None where a file is empty or nobody here can look into it."""
    if file.endswith(CLOSED):
        return None
    with opened(file) as data:
        return next((values for _, values in _records(data, settings)), None)


def _records(data: IO[bytes], settings: Mapping[str, str]) -> Iterator[tuple[int, list[str]]]:
    """The line at which each record begins, and its values; blank lines and comments are none."""
    mark, comment = settings.get("quote", '"'), settings.get("comment")
    form: dict[str, Any] = {"delimiter": settings.get("separator", ",")}
    form |= {"quotechar": mark} if mark else {"quoting": csv.QUOTE_NONE}
    text = io.TextIOWrapper(data, settings.get("encoding", "utf-8"), "replace", "")
    reader = csv.reader((line.removeprefix("\ufeff") for line in text), **form)
    line = 1
    for values in reader:
        blank = len(values) < 2 and not "".join(values).strip()
        if not blank and not (comment and values[0].startswith(comment)):
            yield line, values
        line = reader.line_num + 1


def _has_quotes(file: str, settings: Mapping[str, str]) -> bool:
    """Whether values may hold line ends. Quotes come in pairs: one that is not closed would swallow the rest of its file."""
    mark, escape = settings.get("quote", '"'), settings.get("escape")
    if not mark or "encoding" in settings or file.endswith(CLOSED):
        return bool(mark)
    with opened(file) as data:
        count = sum(chunk.count(mark.encode()) for chunk in _chunks(data))
    if count % 2 and escape in (None, mark) and "comment" not in settings:
        raise Diagnostic(
            "UNCLOSED_QUOTE",
            f"a quote is not closed in {file}",
            help="quote = '' where quotes are part of the values",
        )
    return count > 0


def _chunks(data: IO[bytes]) -> Iterator[bytes]:
    while chunk := data.read(_CHUNK):
        yield chunk
