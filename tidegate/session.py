"""The public interface: connect, register streams, ask queries.

import tidegate
tg = tidegate.connect()
tg.stream("S", [{"a": 1, "t": 0}, {"a": 2, "t": 3}], ordered_by="t")
r = tg.query("SELECT a, COUNT(*) AS n FROM S WINDOW(RANGE 5) GROUP BY a").run()
r.at(4).show()
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from itertools import count
from typing import Any, overload

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from sqlglot import exp

from tidegate.connectors import registry
from tidegate.connectors.functions import OwnConnectors
from tidegate.connectors.raw import literal
from tidegate.connectors.sinks import open_sink
from tidegate.errors import Diagnostic, did_you_mean, told_at
from tidegate.language import syntax
from tidegate.language.aggregation import SQL_AGGREGATES
from tidegate.language.base_definitions import check_times, read_call
from tidegate.language.binder import bind
from tidegate.language.catalog import SourceCall, StreamDefinition, ViewDefinition
from tidegate.language.dialect import parse
from tidegate.language.file_binding import file_definition
from tidegate.language.file_items import FileReference, format_of
from tidegate.language.signatures import parse_period
from tidegate.language.statements import define
from tidegate.policy import OPEN, Policy
from tidegate.query import Query, run_together
from tidegate.redaction import masked
from tidegate.remote import RemoteSession
from tidegate.runtime.asking import Asked
from tidegate.runtime.engine import Engine, check_place
from tidegate.runtime.managing import Resources
from tidegate.runtime.quarantines import refused_anywhere
from tidegate.runtime.results import Result
from tidegate.runtime.results_here import snapshot_here
from tidegate.runtime.running import LiveQuery, Running
from tidegate.runtime.settings import Settings, budget_of
from tidegate.runtime.snapshots import instant_of, refuse_reading, running_in, with_order, without_order
from tidegate.runtime.system_tables import SYSTEM_TABLES, mentions_system_tables, system_tables_in
from tidegate.runtime.waiting import WaitingQuery
from tidegate.scalars.coercion import type_named
from tidegate.scalars.combining import check_combine
from tidegate.scalars.expressions import span_of
from tidegate.scalars.functions import AggregateFunction, ScalarFunction
from tidegate.scalars.meaning import FUNCTIONS
from tidegate.script import Script, complete, described, time_clause
from tidegate.spark.context import checked_conf, spark_session
from tidegate.spark.starting import Starting
from tidegate.spark.typing import ask_spark
from tidegate.spark.values import infer_columns, quote, schema_ddl
from tidegate.types import TIMESTAMP, Schema, Type, Value

Progress = Callable[[float], None]


@overload
def connect(spark: str, *, token: str | None = None) -> RemoteSession: ...


@overload
def connect(
    spark: SparkSession | None = None, master: str | None = None, state: str | None = None, partitions: int | None = None,
    verbose: bool = False, policy: Policy = OPEN, packages: Sequence[str] = (), conf: Mapping[str, str] | None = None,
    memory: str | float | None = None, work: float | None = None,
) -> Session: ...  # fmt: skip


def connect(
    spark: SparkSession | str | None = None,
    master: str | None = None,
    state: str | None = None,
    partitions: int | None = None,
    verbose: bool = False,
    policy: Policy = OPEN,
    packages: Sequence[str] = (),
    conf: Mapping[str, str] | None = None,
    memory: str | float | None = None,
    work: float | None = None,
    token: str | None = None,
) -> Session | RemoteSession:
    """A session. Spark starts when it is first needed: on this machine's cores, or at `master`.

    `state` is a directory or URI for state and results (default: a temporary directory, gone with the session).
    `partitions` says into how many parts work and state are cut (default: as existing state is, or one per core, or
    more where many recorded rows are read); state in another number of parts is cut anew when its queries go on.
    `policy` says what statements may reach: everything, or, for statements of others, `tidegate.CLOSED` and what is named.
    `packages` are connectors that Spark fetches at its start, as `"group:artifact:version"`; `conf` are settings of Spark's.
    `memory` ("2 GB") and `work` (0.7 of the cores) are budgets for live queries: see `SET memory`.
    Given a server's address (`tidegate serve`) and a `token`, the session is that server's, and needs no Spark here.
    Example: `tg = tidegate.connect(state="state")`
    """
    if isinstance(spark, str):
        return RemoteSession(spark, token)
    return Session(spark, master, state, partitions, verbose, policy, packages, conf, memory, work)


class Session(OwnConnectors, Settings):
    """Streams, views and functions by name, and queries over them."""

    def __init__(
        self,
        spark: SparkSession | None = None,
        master: str | None = None,
        state: str | None = None,
        partitions: int | None = None,
        verbose: bool = False,
        policy: Policy = OPEN,
        packages: Sequence[str] = (),
        conf: Mapping[str, str] | None = None,
        memory: str | float | None = None,
        work: float | None = None,
    ) -> None:
        self.catalog = replace(registry.catalog(), policy=policy)
        for table in SYSTEM_TABLES.values():
            self.catalog = self.catalog.with_definition(table.definition)
        self.data: dict[str, Any] = {}
        self._given, self._master, self._state = spark, master, state
        self._partitions, self._verbose = partitions, verbose
        self._packages = (packages,) if isinstance(packages, str) else tuple(packages)
        self._conf, self._numbers = checked_conf(conf or {}), count(1)
        self.resources = Resources(budget_of(memory, work))
        self.running = Running(lambda: self.engine, partitions, self.resources)
        self.starting = Starting(
            lambda: spark_session(self._master, self._given, self._packages, self._verbose, self._conf)
        )

    def __repr__(self) -> str:
        kinds = [d.kind for d in self.catalog.named]
        counts = [f"{kinds.count(k)} {k.lower()}" for k in ("STREAMS", "VIEWS", "TABLES") if k in kinds]
        return f"Session({', '.join([*counts, f'{len(self.queries())} running queries'])})"

    @property
    def spark(self) -> SparkSession:
        """The Spark session that everything runs on."""
        return self.starting.session()

    @cached_property
    def engine(self) -> Engine:
        check_place(self._state)
        small_here = self._given is None and self._master is None
        conf = {**self.spark.conf.getAll, **self._conf} if "://" in (self._state or "") else self._conf
        return Engine(lambda: self.spark, self._state, self._partitions, small_here, conf)

    # definitions -----------------------------------------------------------------------------------------------

    def stream(
        self,
        name: str,
        data: Any,
        ordered_by: str | None = None,
        valid: tuple[str, str] | None = None,
        schema: str | Schema | None = None,
        slack: int | str = 0,
        batch: str | None = None,
    ) -> None:
        """Register rows as a stream: dicts, tuples (with `schema`), pandas, Polars, Arrow (also a RecordBatchReader), a relation of
        DuckDB, a Spark DataFrame, or the path of a CSV, JSON or Parquet file.

        `ordered_by` names the column that gives a row its time, `valid` the two that give its validity, `batch` the one that
        orders the rows of an instant into batches.
        Example: `tg.stream("Temp", [{"room": "a", "degrees": 75, "t": 1}], ordered_by="t")`
        """
        if isinstance(data, (str, os.PathLike)):
            return self._register_file(
                "STREAM", name, data, schema, time_clause(ordered_by, valid, batch), slack
            )
        columns, table = infer_columns(data, self._schema(schema))
        if schema is None:  # rows that are pushed later may hold what these do not
            columns = tuple(replace(c, nullable=True) for c in columns)
        check_times(columns, ordered_by, valid, batch)
        definition = StreamDefinition(
            name, columns, SourceCall("memory", (name,)), ordered_by, valid, batch=batch
        )
        if isinstance(slack, str):
            slack = parse_period(slack, definition.time_type == TIMESTAMP)
        return self._register(replace(definition, slack=slack), table)

    def table(self, name: str, data: Any, schema: str | Schema | None = None) -> None:
        """Register rows, or the path of a file, as a table: valid at every instant.

        Example: `tg.table("Room", [{"room": "a", "floor": 2}])`
        """
        if isinstance(data, (str, os.PathLike)):
            return self._register_file("TABLE", name, data, schema)
        columns, table = infer_columns(data, self._schema(schema))
        return self._register(
            StreamDefinition(name, columns, SourceCall("memory", (name,)), table=True), table
        )

    def _register_file(
        self,
        kind: str,
        name: str,
        place: str | os.PathLike[str],
        schema: str | Schema | None,
        times: str = "",
        slack: int | str = 0,
    ) -> None:
        """A file under a name, by the statement that says so."""
        path = os.fspath(place)
        source = format_of(path)
        if source is None:
            raise Diagnostic(
                "UNKNOWN_FORMAT",
                f"nobody can tell what kind of file '{path}' is",
                help="give it an ending (.csv, .json, .parquet), or say CREATE STREAM … SOURCE csv(…)",
            )
        columns = schema if isinstance(schema, str) else schema_ddl(schema) if schema is not None else None
        declared = f"({columns})" if columns else ""
        word = "SOURCE" if kind == "STREAM" else "FROM"
        promise = f" WITH (slack = '{slack}')" if slack else ""
        text = f"CREATE OR REPLACE {kind} {quote(name)}{declared} {word} {source}({literal(path)}){times}{promise}"
        self.execute(parse(text)[0], text)

    def _register(self, definition: StreamDefinition, table: Any) -> None:
        self._refuse_running(definition.name)
        self.catalog = self.catalog.with_definition(definition, or_replace=True)
        self.data[definition.name] = table

    def _schema(self, schema: str | Schema | None) -> Schema | None:
        if not isinstance(schema, str):
            return schema
        statement = parse(f"CREATE TABLE t({schema}) FROM memory('t')")[0]
        found = define(statement, registry.catalog(), schema).find("t")
        assert isinstance(found, StreamDefinition)
        return found.columns

    def function(
        self, name: str, call: Callable[..., Value], returns: str | Type, arity: int | None = None
    ) -> None:
        """Register a Python function for SQL. It must be deterministic.

        Example: `tg.function("celsius", lambda f: None if f is None else (f - 32) / 1.8, "DOUBLE")`
        """
        self.catalog = self.catalog.with_function(ScalarFunction(name, call, _type(returns), arity))

    def aggregate(
        self,
        name: str,
        init: Callable[..., Value],
        merge: Callable[..., Value],
        evaluate: Callable[[Value], Value],
        returns: str | Type,
        arity: int | None = 1,
        combine: Callable[[Value, Value], Value] | None = None,
        samples: Iterable[Value] | None = None,
    ) -> None:
        """Register an aggregate for SQL by init(element), merge(partial, element), evaluate(partial) (PIPES section 7.5.2).

        An element is the values of the call's arguments: with two, `init(a, b)` and `merge(partial, a, b)`. Rows are merged in
        ascending order of their values. With `combine(partial, partial)` a change costs less; that it does what merge does is
        tried on values of all types, or on `samples`.
        Example: `tg.aggregate("product", init=lambda e: e, merge=lambda p, e: p * e, evaluate=lambda p: p, returns="BIGINT")`
        """
        function = AggregateFunction(name, init, merge, evaluate, _type(returns), arity, combine)
        if combine is not None:
            check_combine(function, samples)
        self.catalog = self.catalog.with_function(function)

    # statements ------------------------------------------------------------------------------------------------

    def sql(self, script: str, progress: Progress | None = None) -> Any:
        """Run a script; returns the last statement's result.

        A definition gives None, or its columns where it does not declare them, a query its Result (over sources that have an end) or its
        running form, AS OF a DataFrame, EXPLAIN and SHOW GRAPH text, VERIFY a Verification, SHOW QUERIES a DataFrame, SHOW of anything
        else and DESCRIBE lists.
        Example: `tg.sql("SELECT room FROM Temp WINDOW(RANGE 5) AS OF 4").show()`
        """
        return next(reversed(deque(self.results(script, progress), maxlen=1)), None)

    def results(self, script: str, progress: Progress | None = None) -> Iterator[Any]:
        """Run a script; what each statement gives, as soon as it is there. Queries over the same recorded streams are run in one go.

        Example: `for answer in tg.results(open("examples/rooms.sql").read()): print(answer)`
        """
        with self.running.together():
            yield from Script(self, script, progress).results()

    def execute(self, statement: exp.Expression, text: str, progress: Progress | None = None) -> Any:
        """Run one parsed statement."""
        text = masked(text)
        match statement:
            case syntax.DropDefinition() if statement.args["kind"] == "QUERY":
                with told_at(span_of(statement.this), text):
                    return self.running.drop(statement.this.name, self._state, bool(statement.args["exists"]))
            case syntax.CreateBase() | syntax.CreateView() | syntax.DropDefinition():
                if not isinstance(statement, syntax.DropDefinition):
                    self._refuse_running(statement.this.name, span_of(statement.this), text)
                refuse_reading(statement, self.running, self.catalog, text)
                self.catalog = define(statement, self.catalog, text, self._ask)
                inferred = isinstance(statement, syntax.CreateBase) and statement.args.get("columns") is None
                return self.describe(statement.this.name) if inferred else None
            case syntax.Explain():
                query = self.bound_query(statement.args["query"], text)
                return query.explain(analyze=bool(statement.args.get("analyze")))
            case syntax.Preview():
                count = 10 if (rows := statement.args.get("rows")) is None else int(rows.this)
                return self.bound_query(statement.args["query"], text).preview(count)
            case syntax.Verify():
                given = statement.args.get("instants")
                instants = "all" if given is None else int(given.this)
                return self.bound_query(statement.args["query"], text).verify(instants, progress)
            case syntax.AsOf():
                return self._as_of(statement, text, progress)
            case syntax.InsertInto():
                return self._insert(statement, text, progress)
            case syntax.StartQuery():
                with told_at(span_of(statement.this), text):
                    return self._start(statement, text, progress)
            case syntax.AlterQuery():
                with told_at(span_of(statement.this), text):
                    query = self.bound_query(statement.args["query"], text)
                    return self.running.alter(statement.this.name, query)
            case syntax.StopQuery():
                with told_at(span_of(statement.this), text):
                    return self.running.named(statement.this.name).stop()
            case syntax.SetOption():
                self.set_option(statement, text)
                return None
            case syntax.ShowDefinitions() if statement.args["kind"] == "GRAPH":
                return self.graph(statement.args.get("form") or "text")
            case syntax.ShowDefinitions() if statement.args["kind"] == "QUARANTINE":
                with told_at(span_of(statement.this), text):
                    return self.quarantine(statement.this.name)
            case syntax.ShowDefinitions():
                return self.shown(str(statement.args.get("kind")))
            case syntax.DescribeDefinition() if isinstance(statement.this, FileReference):
                with told_at(span_of(statement.this.this), text):
                    return described(file_definition(statement.this, self.catalog).scan.schema)
            case syntax.DescribeDefinition():
                return self.describe(statement.this.name, text, statement)
        if self.is_snapshot(statement):
            return self._of_system_tables(statement, text)
        query = self.bound_query(statement, text)
        if query.bound.output == "COMPLETE" and not query.is_live:
            return complete(query.run(progress), self.here)
        return query.start() if query.is_live else query.run(progress)

    def _start(self, statement: syntax.StartQuery, text: str, progress: Progress | None) -> Any:
        asked, name = statement.args["query"], statement.this.name
        history = bool(statement.args.get("history"))
        if isinstance(asked, syntax.InsertInto):
            return self._insert(asked, text, progress, name, history)
        return self.bound_query(asked, text).start(name, history=history)

    def _insert(
        self,
        statement: syntax.InsertInto,
        text: str,
        progress: Progress | None,
        name: str | None = None,
        history: bool = False,
    ) -> Any:
        sink = self.sink_of(statement, text)
        query = self.bound_query(statement.args["query"], text)
        if name is None and statement.this is not None and query.is_live:
            name = statement.this.name
        return query.into(sink, progress, name, history)

    def sink_of(self, statement: syntax.InsertInto, text: str) -> SourceCall:
        """The sink that a statement writes to, checked."""
        call, said = statement.args["sink"], statement.args.get("options")
        with told_at(span_of(call), masked(text)):
            sink = read_call(call, said, self.catalog, "sink")
            open_sink(sink)  # it may be at a place that it cannot be at
        return sink

    def query(self, text: str) -> Query:
        """A query, bound and optimized, not started.

        Example: `q = tg.query("SELECT room FROM Temp WINDOW(RANGE 5)")`
        """
        statements = parse(text)
        if len(statements) != 1:
            raise Diagnostic(
                "SYNTAX_ERROR", f"one query is needed, found {len(statements)} statements", text=text
            )
        return self.bound_query(statements[0], text)

    def run(
        self, queries: Iterable[Query | str] | str | Query, progress: Progress | None = None
    ) -> list[Result]:
        """The answers to several queries over recorded data: what they have in common is read and computed once.

        Example: `hot, cold = tg.run(["SELECT * FROM Hot", "SELECT * FROM Cold"])`
        """
        given = [queries] if isinstance(queries, str | Query) else [*queries]
        if wrong := [q for q in given if not isinstance(q, str | Query)]:
            raise Diagnostic(
                "WRONG_ARGUMENTS", f"{wrong[0]!r} is no query", help="give texts, or what tg.query gave"
            )
        return run_together([self.query(q) if isinstance(q, str) else q for q in given], progress)

    def describe(self, name: str, text: str = "", at: exp.Expression | None = None) -> list[tuple[str, str]]:
        """The columns of a stream, view or table, with their types.

        Example: `tg.describe("Temp")` gives `[("room", "STRING"), ("degrees", "BIGINT"), ("t", "BIGINT (TS)")]`
        """
        if (definition := self.catalog.find(name)) is None:
            if (live := self.running.find(name)) is not None:
                return [(f.name, str(f.type)) for f in live.result.schema]
            raise (
                Diagnostic(
                    "UNKNOWN_STREAM",
                    f"there is no stream, view or table '{name}'",
                    help=did_you_mean(name, self.catalog.names, "streams"),
                )
                .at(span_of(at) if at is not None else None)
                .locate(text)
            )
        if isinstance(definition, ViewDefinition):
            fields = self.query(f"SELECT * FROM {quote(name)}").bound.plan.schema
        else:
            fields = definition.scan.schema
        return described(fields)

    def bound_query(self, statement: exp.Expression, text: str) -> Query:
        """A parsed query, bound; `text` is the script it stands in."""
        text = masked(text)
        refuse_reading(statement, self.running, self.catalog, text)
        bound, data = bind(statement, self.catalog, text, self._ask), self.data
        data = {**data, **{t.name: t.rows(self.running) for t in system_tables_in(bound.plan, bound.catalog)}}
        return Query(self, bound, self._next_name(), data)

    def _next_name(self) -> str:
        return f"q{next(self._numbers)}"

    @cached_property
    def _ask(self) -> Any:
        return ask_spark(lambda: self.spark, self.catalog.policy)

    def shown(self, kind: str) -> list[str] | DataFrame | pa.Table:
        """What SHOW lists: names; of functions, the user's and then all others.

        Example: `tg.shown("STREAMS")`
        """
        if kind == "FUNCTIONS":
            own = [f.name for f in self.catalog.functions.values()]
            own += [a.name for a in self.catalog.aggregates.values()]
            return [*own, *sorted({*SQL_AGGREGATES, *FUNCTIONS})]
        if kind == "QUERIES":
            table = self.running.table()
            return table if self.here else self.spark.createDataFrame(table)
        return [d.name for d in self.catalog.named if d.kind == kind]

    # live queries ----------------------------------------------------------------------------------------------

    def queries(self) -> list[str]:
        """The names of the running queries.

        Example: `tg.queries()` gives `["hot"]`
        """
        return self.running.names

    def graph(self, form: str = "text") -> str:
        """What runs, operator by operator, with what has passed through: as text, json, graphviz or mermaid.

        Example: `print(tg.graph("mermaid"))`
        """
        return self.running.drawn(form)

    def metrics(self) -> DataFrame:
        """What was measured of everything that runs in the last epochs, and in the last run over recorded data: `tidegate.metrics`.

        Example: `tg.metrics().orderBy("cpu_seconds", ascending=False).show()`
        """
        return self.spark.createDataFrame(SYSTEM_TABLES["tidegate.metrics"].rows(self.running))

    def prometheus(self) -> str:
        """The figures of everything that runs, in Prometheus' text format.

        Example: `print(tg.prometheus())`
        """
        return self.running.prometheus()

    def quarantine(self, name: str) -> DataFrame:
        """The rows that a stream or table refused in all runs that the state directory holds: `run`, `epoch`, `reason`, `raw`, `file`, `position`.

        Example: `tg.quarantine("Bid").groupBy("reason").count().show()`
        """
        return refused_anywhere(self.spark, self.engine.storage, self._stream(name))

    def push(self, name: str, rows: Any) -> None:
        """Hand more rows to a stream that the program feeds itself, while queries run over it.

        Example: `tg.push("Temp", [{"room": "b", "degrees": 90, "t": 3}])`
        """
        self.running.push(self._stream(name), rows)

    def advance(self, name: str, instant: int | datetime | str) -> None:
        """Promise that no row of a stream before this instant will come: running queries answer up to it, though it is silent.

        Example: `tg.advance("Temp", 100)`
        """
        self.running.promise(self._stream(name), instant)

    def _stream(self, name: str) -> str:
        if isinstance(definition := self.catalog.find(name), StreamDefinition):
            return definition.name
        known = did_you_mean(name, self.catalog.names, "streams")
        raise Diagnostic("UNKNOWN_STREAM", f"there is no stream '{name}'", help=known)

    def start(self, asked: Asked, begin: bool) -> LiveQuery | WaitingQuery:
        """Add a query to the running graph of its kind of time, or begin one."""
        if self.catalog.find(asked.name) is not None:
            raise Diagnostic(
                "NAME_EXISTS",
                f"'{asked.name}' is a stream, view or table",
                help="choose another name for the query",
            )
        return self.running.start(asked, begin)

    def close(self) -> None:
        """Stop all running queries; what they know is kept in the state directory.

        Example: `tg.close()`
        """
        self.running.close()

    def _as_of(self, statement: syntax.AsOf, text: str, progress: Progress | None) -> Any:
        """A snapshot: of a running query if its name stands in FROM or if it means the same, otherwise of a recorded run."""
        place, batch = statement.args["instant"], statement.args.get("batch")
        number = None if batch is None else int(batch.this)
        asked, order = without_order(statement.args["query"])
        read = running_in(asked, self.running)
        with told_at(span_of(place), text):
            if read:
                instant = instant_of(place, next(q.result.time_type for q in read.values()), text)
                asked, order = with_order(asked, order)
                return order.applied(self._over_snapshots(asked, read, instant, number, text))
            query = self.bound_query(asked, text)
            instant = instant_of(place, query.bound.domain, text)
            if (kept := self.running.same(query.bound.plan, instant)) is not None:
                return order.applied(kept.at(instant, number))
            asked, order = with_order(asked, order)
            result = self.bound_query(asked, text).run(progress)
            rows = snapshot_here(result, result.final_tick(instant, number)) if self.here else None
            if rows is not None and (ordered := order.applied_here(rows)) is not None:
                return ordered
            return order.applied(result.at(instant, number))

    def is_snapshot(self, statement: exp.Expression) -> bool:
        """Whether a query asks how things are now, and so has one answer: it reads a table such as `tidegate.metrics`.

        Example: `from tidegate.language.dialect import parse`, `tg.is_snapshot(parse("SELECT * FROM tidegate.metrics")[0])`
        """
        return isinstance(statement, exp.Query) and mentions_system_tables(statement, self.catalog)

    def _of_system_tables(self, statement: exp.Expression, text: str) -> DataFrame:
        asked, order = with_order(*without_order(statement))
        return order.applied(self.bound_query(asked, text).now())

    def _over_snapshots(
        self,
        asked: exp.Expression,
        read: Mapping[str, LiveQuery],
        instant: int | datetime | str,
        batch: int | None,
        text: str,
    ) -> DataFrame:
        """A query over running queries at one instant: each of them is the table of its snapshot."""
        catalog, data = self.catalog, dict(self.data)
        for name, live in read.items():
            table = StreamDefinition(name, live.result.schema, SourceCall("memory", (name,)), table=True)
            catalog, data[name] = catalog.with_definition(table), live.at(instant, batch)
        query = Query(self, bind(asked, catalog, text, self._ask), self._next_name(), data)
        result = query.run()
        return result.at(instant, batch if result.width > 1 else None)

    def _refuse_running(self, name: str, span: tuple[int, int] | None = None, text: str = "") -> None:
        if self.running.find(name) is not None:
            raise (
                Diagnostic(
                    "NAME_EXISTS",
                    f"'{name}' is a running query",
                    help="choose another name, or stop the query first",
                )
                .at(span)
                .locate(text)
            )


def _type(returns: str | Type) -> Type:
    return returns if isinstance(returns, Type) else type_named(returns)
