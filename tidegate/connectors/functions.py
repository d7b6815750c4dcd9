"""A program's own functions as sources and sinks: `tg.source(name, read, …)`, `tg.sink(name, write)`.

A source function yields raw items; a converter, if there is one, makes a row of each (PIPES' source functions). Rows are dicts,
tuples or Arrow batches. What it takes is its own Python signature: positional parameters are arguments of the call, those
after `*` are options, with the types of their defaults or annotations.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, Literal

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tidegate.connectors.debezium import decimal_of
from tidegate.connectors.memory import read_inbox, read_taken
from tidegate.connectors.protocol import ANSWER, Sink, Source, SourceAwayError, Traits, form_of
from tidegate.connectors.raw import CORRUPT, POSITION, REASON, RawStream, shaped
from tidegate.errors import Diagnostic
from tidegate.language.catalog import Catalog, SourceCall, StreamDefinition
from tidegate.language.signatures import Connector, Kind, Option, Signature
from tidegate.redaction import masked
from tidegate.spark.values import array_of, arrow_type, infer_columns, schema_ddl, unfit
from tidegate.types import Schema, Type

Read = Callable[..., Iterable[Any]]
Follow = Callable[..., tuple[Iterable[Any], Any]]
Convert = Callable[[Any], Any]


@dataclass(frozen=True)
class FunctionSource(Source):
    """Rows that a function gives: all of them (`read`), or those after an offset (`follow`)."""

    signature: Signature
    traits: Traits
    read: Read | None = None
    follow: Follow | None = None
    convert: Convert | None = None
    _kept: dict[tuple[SourceCall, Schema], pa.Table] = field(default_factory=dict, compare=False, repr=False)
    inbox = True
    polled = True

    def recorded(self, spark: SparkSession, definition: StreamDefinition, data: Any = None) -> RawStream:
        if self.read is None:
            return super().recorded(spark, definition, data)
        table = self._table(definition)
        if table.num_rows:
            return shaped(definition, spark.createDataFrame(table), "''", "0", POSITION)
        return shaped(definition, spark.createDataFrame([], ddl_of_items(definition)), "''", "0", POSITION)

    def live(self, spark: SparkSession, definition: StreamDefinition, inbox: str | None = None) -> RawStream:
        assert inbox is not None
        return read_inbox(spark, definition, inbox, ddl_of_items(definition))

    def taken(self, spark: SparkSession, definition: StreamDefinition, folder: str) -> RawStream:
        return read_taken(spark, definition, folder, ddl_of_items(definition))

    def size(self, definition: StreamDefinition, data: Any = None) -> int:
        kept = self._kept.get((definition.source, definition.columns))
        return 0 if kept is None else int(kept.nbytes)

    def poll(self, definition: StreamDefinition, offset: Any) -> tuple[Any, Any] | None:
        if self.follow is not None:
            with self._named(may_be_away=True):
                items, after = self.follow(offset, *definition.source.arguments, **self._options(definition))
                table = rows_of(definition, items, self.convert)
            return (table, after) if table.num_rows or after != offset else None
        return None if offset is not None else (self._table(definition), "all")

    def _table(self, definition: StreamDefinition) -> pa.Table:
        """All rows; if they cannot be read again, they are kept."""
        assert self.read is not None
        key = (definition.source, definition.columns)
        if key in self._kept:
            return self._kept[key]
        with self._named():
            items = self.read(*definition.source.arguments, **self._options(definition))
            table = rows_of(definition, items, self.convert)
        if not self.traits.again:
            self._kept[key] = table
        return table

    @contextmanager
    def _named(self, may_be_away: bool = False) -> Iterator[None]:
        try:
            yield
        except Diagnostic:
            raise
        except Exception as problem:
            if may_be_away and isinstance(problem, SourceAwayError):
                raise
            raise Diagnostic(
                "SOURCE_FAILED",
                f"the function of the source '{self.signature.name}' fails: {type(problem).__name__}: {problem}",
            ) from problem

    def _options(self, definition: StreamDefinition) -> dict[str, object]:
        given = definition.source.options
        return {name: self.signature.known(name).value(text) for name, text in given}


def function_source(
    name: str, read: Read | None, live: Follow | None, convert: Convert | None, again: bool
) -> FunctionSource:
    """The source that some functions make."""
    if read is None and live is None:
        raise Diagnostic("WRONG_ARGUMENTS", f"the source '{name}' needs a function: read, live or both")
    signature = signature_of(name, read) if read is not None else signature_of(name, live, skip=1)
    return FunctionSource(signature, Traits(read is not None, True, again), read, live, convert)


def signature_of(name: str, function: Callable[..., Any] | None, skip: int = 0) -> Signature:
    """What a function takes, as the language checks it; `skip` parameters are not the caller's.

    >>> signature_of("feed", lambda host, port=1, *, limit=10: []).usage
    "feed('host'[, port])"
    """
    assert function is not None
    parameters: list[Option] = []
    options: list[Option] = []
    needed = 0
    for p in list(inspect.signature(function, eval_str=True).parameters.values())[skip:]:
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            raise Diagnostic(
                "WRONG_ARGUMENTS",
                f"the source '{name}' must name what it takes, not '{p}'",
                help="one parameter each",
            )
        option = Option(p.name, _kind(p))
        (options if p.kind == p.KEYWORD_ONLY else parameters).append(option)
        needed += p.kind != p.KEYWORD_ONLY and p.default is p.empty
    return Signature(
        name.lower(), tuple(parameters), tuple(options), needed, meaning="a function of the program"
    )


def _kind(parameter: inspect.Parameter) -> Kind:
    wanted = parameter.annotation if parameter.annotation is not parameter.empty else type(parameter.default)
    kinds: dict[Any, Kind] = {bool: "boolean", int: "number"}
    return kinds.get(wanted, "text")


@dataclass(frozen=True)
class Item:
    """A row's values, or the text of what is none and the reason."""

    values: tuple[Any, ...]
    raw: str | None = None
    reason: str | None = None


def rows_of(definition: StreamDefinition, items: Iterable[Any], convert: Convert | None = None) -> pa.Table:
    """Items as rows of the declared types with their positions; what is no row of the stream is kept with the reason.

    An item of which the converter makes None is no row.
    """
    columns = definition.columns
    tables: list[pa.Table] = []
    waiting: list[Item] = []
    for item in items:
        if convert is None and isinstance(item, (pa.RecordBatch, pa.Table)):
            tables += [table_of(columns, waiting), _from_arrow(columns, item)]
            waiting = []
            continue
        found = _item(item, columns, convert)
        if found is not None:
            waiting.append(found)
    whole = pa.concat_tables([*tables, table_of(columns, waiting)])
    return whole.append_column(POSITION, pa.array(range(whole.num_rows), pa.int64()))


def _item(item: Any, columns: Schema, convert: Convert | None) -> Item | None:
    try:
        row = item if convert is None else convert(item)
    except Exception as problem:
        return refused(item, columns, f"the converter fails: {type(problem).__name__}: {problem}")
    if row is None:
        return None
    if isinstance(row, Mapping):
        return Item(tuple(row.get(c.name) for c in columns))
    if not isinstance(row, Sequence) or isinstance(row, (str, bytes)):
        return refused(item, columns, f"this is no row: {type(row).__name__}")
    if len(row) != len(columns):
        return refused(item, columns, f"a row has {len(columns)} values: not {len(row)}")
    return Item(tuple(row))


def refused(item: Any, columns: Schema, reason: str) -> Item:
    """What is no row, with the reason."""
    return Item((None,) * len(columns), str(item), reason)


def table_of(columns: Schema, items: Sequence[Item]) -> pa.Table:
    """Rows of the declared types. Whole columns are tried first; where one fails, each of its values is."""
    found = list(items)
    arrays = []
    for i, column in enumerate(columns):
        values = [_exact(item.values[i], column.type) for item in found]
        try:
            arrays.append(array_of(values, arrow_type(column.type)))
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            return table_of(columns, [_checked(item, columns) for item in found])
    arrays += [pa.array([getattr(item, name) for item in found], pa.string()) for name in ("raw", "reason")]
    return pa.table(arrays, names=[*(c.name for c in columns), CORRUPT, REASON])


def _exact(value: Any, type_: Type) -> Any:
    """A decimal by the rule of all formats: Arrow would refuse it for zeros at its end."""
    if type_.name != "DECIMAL" or not isinstance(value, Decimal):
        return value
    try:
        return decimal_of(str(value), *type_.params)
    except (ValueError, ArithmeticError):
        return value


def _checked(item: Item, columns: Schema) -> Item:
    problem = unfit([_exact(v, c.type) for v, c in zip(item.values, columns, strict=True)], columns)
    return item if problem is None else refused(item.values, columns, problem)


def _from_arrow(columns: Schema, batch: pa.RecordBatch | pa.Table) -> pa.Table:
    _, table = infer_columns(batch, columns)
    nothing = pa.nulls(table.num_rows, pa.string())
    return table.append_column(CORRUPT, nothing).append_column(REASON, nothing)


def ddl_of_items(definition: StreamDefinition) -> str:
    """The columns of a table of items."""
    return f"{schema_ddl(definition.columns)}, {CORRUPT} STRING, {REASON} STRING, {POSITION} BIGINT"


@dataclass
class FunctionSink:
    """A function that takes each epoch's changes; it knows what it took while the program runs, or `seen` tells."""

    name: str
    take: Callable[[int, DataFrame], None]
    seen: Callable[[int], bool] | None
    form: Literal["changes", "complete"] = "changes"
    arguments: tuple[Any, ...] = ()
    _done: int = 0

    @property
    def place(self) -> str:
        return f"the sink '{self.name}'" + (masked(f" {self.arguments!r}") if self.arguments else "")

    @property
    def forgets(self) -> bool:
        return self.seen is None

    def has(self, epoch: int) -> bool:
        with self._named(epoch):
            return self.seen(epoch) if self.seen is not None else epoch <= self._done

    def write(self, epoch: int, changes: DataFrame) -> None:
        with self._named(epoch):
            self.take(epoch, changes)
        self._done = epoch

    @contextmanager
    def _named(self, epoch: int) -> Iterator[None]:
        try:
            yield
        except (Diagnostic, PySparkException, Py4JJavaError):
            raise
        except Exception as problem:
            raise Diagnostic(
                "SINK_FAILED",
                f"the function of {self.place} fails at epoch {epoch}: {type(problem).__name__}: {problem}",
                help="what was not taken is handed in again when the query goes on",
            ) from problem


@dataclass(frozen=True)
class FunctionSinks:
    """`write(epoch, changes, *arguments, **options)` as a kind of sink, and `has(epoch, *arguments, **options)` if there is one."""

    signature: Signature
    take: Callable[..., None]
    seen: Callable[..., bool] | None

    def open(self, arguments: Sequence[Any], settings: dict[str, str]) -> Sink:
        own = {name: text for name, text in settings.items() if name != ANSWER.name}
        options = {name: self.signature.known(name).value(text) for name, text in own.items()}
        seen = self.seen

        def take(epoch: int, changes: DataFrame) -> None:
            self.take(epoch, changes, *arguments, **options)

        def has(epoch: int) -> bool:
            assert seen is not None
            return seen(epoch, *arguments, **options)

        told = has if seen is not None else None
        return FunctionSink(self.signature.name, take, told, form_of(settings), tuple(arguments))


def _check_name(name: str, known: Mapping[str, Connector]) -> None:
    """A program's functions may take the place of others of its own, not of connectors that everybody knows."""
    if name.lower() in known and not isinstance(known[name.lower()], (FunctionSource, FunctionSinks)):
        raise Diagnostic("NAME_EXISTS", f"there is a connector '{name}' already", help="choose another name")


class OwnConnectors:
    """What a session offers for functions of the program."""

    catalog: Catalog

    def source(
        self,
        name: str,
        read: Callable[..., Iterable[Any]] | None = None,
        *,
        live: Callable[..., tuple[Iterable[Any], Any]] | None = None,
        convert: Callable[[Any], Any] | None = None,
        again: bool = False,
    ) -> None:
        """Let streams and tables come from a Python function: `CREATE STREAM S(…) SOURCE name('argument', …) WITH (option = …)`.

        `read(argument, …, *, option=…)` yields all rows: dicts, tuples of the declared columns, Arrow batches, or anything of
        which `convert(item)` makes a row (None: no row). It is asked once and its rows are kept, unless it gives the same
        `again`. `live(offset, argument, …)` gives the rows after an offset (None at first) and the next offset, which must be
        JSON; its rows are stored with the offset before they are used, so that each counts once. What cannot be a
        row goes to the quarantine. If it raises `tidegate.SourceAwayError`, it is asked again later; anything else ends the run.
        Example: `tg.source("lines", lambda path: open(path), convert=lambda line: line.split())`
        """
        made = function_source(name, read, live, convert, again)
        _check_name(name, self.catalog.sources)
        self.catalog = self.catalog.with_connector("source", made)

    def sink(self, name: str, write: Callable[..., None], *, has: Callable[..., bool] | None = None) -> None:
        """Let changes go to a Python function: `INSERT INTO name('argument', …) SELECT …`.

        `write(epoch, changes, argument, …, *, option=…)` takes the changes of an epoch as a DataFrame, ordered by time, whole or
        not at all; of `SELECT COMPLETE …` it takes the whole answer at the end of the epoch.
        Over restarts, an epoch is handed in again only if the program ended before it was noted that it was taken; `has(epoch, argument, …)`, if
        given, tells whether it was.
        Example: `tg.sink("log", lambda epoch, changes: print(epoch, changes.count()))`
        """
        signature = signature_of(name, write, skip=2)
        made = FunctionSinks(replace(signature, options=(*signature.options, ANSWER)), write, has)
        _check_name(name, self.catalog.sinks)
        self.catalog = self.catalog.with_connector("sink", made)
