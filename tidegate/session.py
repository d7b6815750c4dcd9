"""The public interface: connect, register streams, ask queries.

import tidegate
tg = tidegate.connect()
tg.stream("S", [{"a": 1, "t": 0}, {"a": 2, "t": 3}], ordered_by="t")
r = tg.query("SELECT a, COUNT(*) AS n FROM S WINDOW(RANGE 5) GROUP BY a").run()
r.at(4).show()
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any, Literal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows
from sqlglot import exp

from tidegate.algebra import operators as op
from tidegate.algebra import synchronization
from tidegate.algebra.failures import anywhere, located, user_calls
from tidegate.algebra.printing import to_graphviz, to_json, to_mermaid
from tidegate.algebra.properties import result_key
from tidegate.connectors import registry
from tidegate.connectors.functions import OwnConnectors
from tidegate.connectors.sinks import Sink, claim, open_sink, refuse_taken
from tidegate.errors import Diagnostic, did_you_mean, foreign, told_at
from tidegate.language import syntax
from tidegate.language.binder import BoundQuery, bind
from tidegate.language.catalog import SourceCall, StreamDefinition, ViewDefinition
from tidegate.language.dialect import parse
from tidegate.language.signatures import parse_period
from tidegate.language.statements import check_call, check_times, define, read_call
from tidegate.optimizer.driver import Firing, optimize
from tidegate.physical.identity import identity_of, plan_identity
from tidegate.policy import OPEN, Policy
from tidegate.redaction import masked
from tidegate.runtime.engine import Engine
from tidegate.runtime.explaining import explained
from tidegate.runtime.places import Epochs
from tidegate.runtime.results import Result
from tidegate.runtime.running import Asked, LiveQuery, Running
from tidegate.runtime.settings import Settings, check_said
from tidegate.runtime.snapshots import instant_of, running_in, tables_in, without_order
from tidegate.runtime.verification import Verification, verify
from tidegate.scalars.coercion import type_named
from tidegate.scalars.combining import check_combine
from tidegate.scalars.expressions import span_of
from tidegate.scalars.functions import AggregateFunction, ScalarFunction
from tidegate.spark.context import spark_session
from tidegate.spark.typing import ask_spark
from tidegate.spark.values import infer_columns, quote
from tidegate.time import BATCHES, MAX, MIN, widened
from tidegate.types import TIMESTAMP, Field, Schema, Type, Value

Progress = Callable[[float], None]


def connect(
    spark: SparkSession | None = None,
    master: str | None = None,
    state: str | None = None,
    partitions: int | None = None,
    verbose: bool = False,
    policy: Policy = OPEN,
) -> Session:
    """A session. Spark starts when it is first needed: on this machine's cores, or at `master`.

    `state` is a directory or URI for state and results (default: a temporary directory, gone with the session).
    `partitions` says into how many parts work and state are cut (default: as existing state is, or one per core, or
    more where many recorded rows are read); state in another number of parts is cut anew when its queries go on.
    `policy` says what statements may reach: everything, or, for statements of others, `tidegate.CLOSED` and what is named.
    """
    return Session(spark, master, state, partitions, verbose, policy)


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
    ) -> None:
        self.catalog = replace(registry.catalog(), policy=policy)
        self.data: dict[str, Any] = {}
        self._given, self._master, self._state = spark, master, state
        self._partitions, self._verbose = partitions, verbose
        self._asked = 0
        self.running = Running(lambda: self.engine, partitions)

    @cached_property
    def spark(self) -> SparkSession:
        """The Spark session that everything runs on."""
        return spark_session(self._master, self._given, verbose=self._verbose)

    @cached_property
    def engine(self) -> Engine:
        return Engine(self.spark, self._state, self._partitions)

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
        """Register rows as a stream: dicts, tuples (with `schema`), pandas, Polars, Arrow or a Spark DataFrame.

        `ordered_by` names the column that gives a row its time, `valid` the two that give its validity, `batch` the one that
        orders the rows of an instant into batches.
        """
        columns, table = infer_columns(data, self._schema(schema))
        if schema is None:  # rows that are pushed later may hold what these do not
            columns = tuple(replace(c, nullable=True) for c in columns)
        check_times(columns, ordered_by, valid, batch)
        definition = StreamDefinition(
            name, columns, SourceCall("memory", (name,)), ordered_by, valid, batch=batch
        )
        if isinstance(slack, str):
            slack = parse_period(slack, definition.time_type == TIMESTAMP)
        self._register(replace(definition, slack=slack), table)

    def table(self, name: str, data: Any, schema: str | Schema | None = None) -> None:
        """Register rows as a table: valid at every instant."""
        columns, table = infer_columns(data, self._schema(schema))
        self._register(StreamDefinition(name, columns, SourceCall("memory", (name,)), table=True), table)

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
        """Register a Python function for SQL. It must be deterministic."""
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
        """
        function = AggregateFunction(name, init, merge, evaluate, _type(returns), arity, combine)
        if combine is not None:
            check_combine(function, samples)
        self.catalog = self.catalog.with_function(function)

    # statements ------------------------------------------------------------------------------------------------

    def sql(self, script: str, progress: Progress | None = None) -> Any:
        """Run a script; returns the last statement's result.

        A definition gives None, a query its Result (over sources that have an end) or its running form, AS OF a DataFrame,
        EXPLAIN text, VERIFY a Verification, SHOW and DESCRIBE lists.
        """
        result: Any = None
        with self.running.together():
            for statement in parse(script):
                result = self.execute(statement, script, progress)
        return result

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
                self._refuse_reading(statement, text)
                self.catalog = define(statement, self.catalog, text, self._ask)
                return None
            case syntax.Explain():
                return self.bound_query(statement.args["query"], text).explain()
            case syntax.Verify():
                count = statement.args.get("instants")
                instants = "all" if count is None else int(count.this)
                return self.bound_query(statement.args["query"], text).verify(instants, progress)
            case syntax.AsOf():
                return self._as_of(statement, text, progress)
            case syntax.InsertInto():
                return self._insert(statement, text, progress)
            case syntax.StartQuery():
                asked, name = statement.args["query"], statement.this.name
                with told_at(span_of(statement.this), text):
                    if isinstance(asked, syntax.InsertInto):
                        return self._insert(asked, text, progress, name)
                    return self.bound_query(asked, text).start(name)
            case syntax.StopQuery():
                with told_at(span_of(statement.this), text):
                    return self.running.named(statement.this.name).stop()
            case syntax.SetOption():
                self.set_option(statement, text)
                return None
            case syntax.ShowDefinitions():
                return self._show(str(statement.args.get("kind")))
            case syntax.DescribeDefinition():
                return self.describe(statement.this.name, text, statement)
        query = self.bound_query(statement, text)
        if query.bound.output == "COMPLETE" and not query.is_live:
            return query.run(progress).latest()
        return query.start() if query.is_live else query.run(progress)

    def _insert(
        self, statement: syntax.InsertInto, text: str, progress: Progress | None, name: str | None = None
    ) -> Any:
        call, said = statement.args["sink"], statement.args.get("options")
        with told_at(span_of(call), text):
            sink = read_call(call, said, self.catalog, "sink")
            open_sink(sink)  # it may be at a place that it cannot be at
        return self.bound_query(statement.args["query"], text).into(sink, progress, name)

    def query(self, text: str) -> Query:
        """A query, bound and optimized, not started."""
        statements = parse(text)
        if len(statements) != 1:
            raise Diagnostic(
                "SYNTAX_ERROR", f"one query is needed, found {len(statements)} statements", text=text
            )
        return self.bound_query(statements[0], text)

    def describe(self, name: str, text: str = "", at: exp.Expression | None = None) -> list[tuple[str, str]]:
        """The columns of a stream, view or table, with their types."""
        definition, live = self.catalog.find(name), self.running.find(name)
        if definition is None and live is not None:
            return [(f.name, str(f.type)) for f in live.result.schema]
        if definition is None:
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
        return [(f.name, str(f.type) + (" (TS)" if f.hidden else "")) for f in fields]

    def bound_query(self, statement: exp.Expression, text: str) -> Query:
        """A parsed query, bound; `text` is the script it stands in."""
        text = masked(text)
        self._refuse_reading(statement, text)
        return Query(self, bind(statement, self.catalog, text, self._ask), self._next_name(), self.data)

    def _next_name(self) -> str:
        self._asked += 1
        return f"q{self._asked}"

    @cached_property
    def _ask(self) -> Any:
        return ask_spark(lambda: self.spark, self.catalog.policy)

    def _show(self, kind: str) -> list[str]:
        definitions = self.catalog.definitions.values()
        if kind == "FUNCTIONS":
            return [*(f.name for f in self.catalog.functions.values()), *(
                a.name for a in self.catalog.aggregates.values()
            )]  # fmt: skip
        if kind == "QUERIES":
            return [str(q) for q in self.queries()]
        return [d.name for d in definitions if d.kind == kind]

    # live queries ----------------------------------------------------------------------------------------------

    def queries(self) -> list[str]:
        """The names of the running queries."""
        return self.running.names

    def push(self, name: str, rows: Any) -> None:
        """Hand more rows to a stream that the program feeds itself, while queries run over it."""
        self.running.push(self._stream(name), rows)

    def advance(self, name: str, instant: int | datetime | str) -> None:
        """Promise that no row of a stream before this instant will come: running queries answer up to it, though it is silent."""
        self.running.promise(self._stream(name), instant)

    def _stream(self, name: str) -> str:
        if isinstance(definition := self.catalog.find(name), StreamDefinition):
            return definition.name
        hint = did_you_mean(name, self.catalog.names, "streams")
        raise Diagnostic("UNKNOWN_STREAM", f"there is no stream '{name}'", help=hint)

    def start(self, asked: Asked, begin: bool) -> LiveQuery:
        """Add a query to the running graph of its kind of time, or begin one."""
        if self.catalog.find(asked.name) is not None:
            raise Diagnostic(
                "NAME_EXISTS",
                f"'{asked.name}' is a stream, view or table",
                help="choose another name for the query",
            )
        return self.running.start(asked, begin)

    def close(self) -> None:
        """Stop all running queries; what they know is kept in the state directory."""
        self.running.close()

    def _as_of(self, statement: syntax.AsOf, text: str, progress: Progress | None) -> DataFrame:
        """A snapshot: of a running query if its name stands in FROM or if it means the same, otherwise of a recorded run."""
        place, batch = statement.args["instant"], statement.args.get("batch")
        number = None if batch is None else int(batch.this)
        asked, order = without_order(statement.args["query"])
        read = running_in(asked, self.running)
        with told_at(span_of(place), text):
            if read:
                instant = instant_of(place, next(q.result.time_type for q in read.values()), text)
                return order.applied(self._over_snapshots(asked, read, instant, number, text))
            query = self.bound_query(asked, text)
            instant = instant_of(place, query.bound.domain, text)
            kept = self.running.same(query.bound.plan, instant)
            return order.applied((kept or query.run(progress)).at(instant, number))

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

    def _refuse_reading(self, statement: exp.Expression, text: str) -> None:
        """A running query can be asked for a snapshot; a query that goes on with it has to say what it computes."""
        for table in tables_in(statement):
            if self.running.find(table.name) is not None and self.catalog.find(table.name) is None:
                raise (
                    Diagnostic(
                        "RUNNING_QUERY",
                        f"'{table.name}' is a running query: it has answers, and is no stream to read from",
                        help=f"ask for a snapshot (SELECT … FROM {table.name} AS OF t), or make a view of its text and read that",
                    )
                    .at(span_of(table.this))
                    .locate(text)
                )


@dataclass(frozen=True)
class Query:
    """A query with its meaning, not started."""

    session: Session
    bound: BoundQuery
    name: str
    data: Mapping[str, Any]
    """The rows of streams and tables that the program holds itself."""

    @cached_property
    def optimized(self) -> tuple[op.Node, tuple[Firing, ...]]:
        """The plan that runs, and the rules that made it from the one that was written."""
        return optimize(self.bound.plan)

    @property
    def plan(self) -> op.Node:
        return self.optimized[0]

    @property
    def schema(self) -> tuple[Field, ...]:
        return self.bound.plan.schema

    @cached_property
    def definitions(self) -> dict[str, StreamDefinition]:
        """The streams and tables that the query reads."""
        found = {}
        for node in self.bound.plan.walk():
            if isinstance(node, op.Scan):
                definition = self.bound.catalog.find(node.name)
                assert isinstance(definition, StreamDefinition)
                self._check("source", definition.source, definition.name)
                found[node.name] = definition.in_batches if self.bound.batches else definition
        return found

    def _check(self, what: Literal["source", "sink"], call: SourceCall, name: str = "") -> None:
        """Whether the session's policy lets rows come from there, or go there, now."""
        known = registry.SOURCES if what == "source" else registry.SINKS
        try:
            check_call(call, what, known.named(call), self.bound.catalog.policy)
        except Diagnostic as diagnostic:
            place = max(0, self.bound.text.lower().find(name.lower()))
            raise diagnostic.at((place, place + len(name))).locate(self.bound.text) from None

    @property
    def is_live(self) -> bool:
        """Whether a source has no end, or is to be read as if it had none."""
        return self.session.live or not all(map(registry.has_end, self.definitions.values()))

    def run(self, progress: Progress | None = None, boundaries: Sequence[int] | None = None) -> Result:
        """The answer over recorded data, to the end of the sources; `boundaries` are instants at which epochs end."""
        if boundaries is not None and self.bound.batches:
            boundaries = [widened(b, BATCHES) for b in boundaries]
        with self._located():
            result = self.session.engine.run(
                self.name,
                self.plan,
                self.definitions,
                self.functions,
                self.data,
                progress,
                boundaries,
            )
        return replace(result, key=self.key)

    @property
    def key(self) -> tuple[int, ...] | None:
        """Of a STREAMED query, the columns that tell rows of an answer apart, if they are known."""
        return result_key(self.bound.plan) if self.bound.output == "STREAMED" else None

    def at(self, instant: int | datetime | str, batch: int | None = None) -> DataFrame:
        """The answer over recorded data at one instant, after its last batch or after the one given."""
        return self.run().at(instant, batch)

    def start(
        self,
        name: str | None = None,
        epoch: float | None = None,
        retention: int | None = None,
        sink: Sink | None = None,
        begin: bool = True,
        epochs: Epochs | None = None,
    ) -> LiveQuery:
        """Run over live data: an epoch every `epoch` seconds (0.2, or 1 where a source is Spark's). Answers older than `retention` ticks may be dropped.
        `epochs` says where they run: as Spark jobs, in the driver's process, or (auto) wherever they cost less.

        Queries over the same kind of time run in one graph: the first one decides all three, and a later one that asks for others is
        refused. On the same state directory, a query of the same name goes on where it stopped. With `begin` False, the
        graph advances only when it is told to.
        """
        check_said(epoch, retention, epochs)
        if sink is not None and hasattr(sink, "path"):
            self.bound.catalog.policy.check_value("sink", "", "path", sink.path)
        with self._located():
            return self.session.start(self.asked(name, sink, epoch, retention, epochs), begin)

    def asked(
        self,
        name: str | None = None,
        sink: Sink | None = None,
        epoch: float | None = None,
        retention: int | None = None,
        epochs: Epochs | None = None,
    ) -> Asked:
        """The query as it is to run; what is not said here the session says."""
        return Asked(
            name or self.stable_name(sink), self.bound.text, self.bound.plan, self.plan, self.bound.domain, self.bound.batches,
            self.definitions, self.functions, self.data, self.key, () if sink is None else (sink,),
            self.session.epoch if epoch is None else epoch,
            self.session.retention if retention is None else retention, epochs or self.session.epochs,
        )  # fmt: skip

    def into(self, sink: SourceCall, progress: Progress | None = None, name: str | None = None) -> Any:
        """Write the changes of the answer to a sink: at once over recorded data, epoch by epoch over live data or under a name."""
        self._check("sink", sink)
        with self._located():
            target = open_sink(sink, complete=self.bound.output == "COMPLETE")
        if self.is_live or name is not None:
            return self.start(name, sink=target)
        owner = uuid.uuid4().hex
        refuse_taken(target, owner)
        result = self.run(progress)
        with self._located():
            claim(target, owner)
            target.write(1, result.delivered(target.form, MIN, MAX))
        return result

    def stable_name(self, sink: Sink | None = None) -> str:
        """A name that a query of the same meaning has again after a restart, wherever it stands."""
        place = None if sink is None else sink.place
        return f"q{identity_of(plan_identity(self.bound.plan), self.bound.output, place)[:8]}"

    def verify(
        self, instants: str | int = "all", progress: Progress | None = None, result: Result | None = None
    ) -> Verification:
        """Run, and compare with the reference at every change point, or at a sample of them."""
        with self._located():
            return verify(
                self.session.spark,
                self.bound.plan,
                result or self.run(progress),
                self.definitions,
                self.bound.catalog.functions,
                self.bound.catalog.aggregates,
                self.data,
                instants,
                progress,
            )

    def points(self, since: int, upto: int) -> synchronization.Report:
        """The full and partial synchronization points of [since, upto), in ticks, over recorded data."""

        def events(plan: op.Node) -> set[int]:
            run = self.session.engine.run(
                "points", optimize(plan)[0], self.definitions, self.functions, self.data
            )
            column = F.unix_micros("c0") if run.time_type == TIMESTAMP else F.col("c0").cast("bigint")
            said = run.signed().select(column.alias("p"), "ts", "te", "n").filter("ts <= p AND p < te")
            return {r.p for r in said.groupBy("p").agg(F.sum("n").alias("n")).filter("n > 0").collect()}

        return synchronization.report(self.bound.plan, since, upto, events)

    def explain(self, form: str = "text") -> str:
        """The plan: as text with the rules that fired and the stages, or as json, graphviz or mermaid."""
        if form != "text":
            return {"json": to_json, "graphviz": to_graphviz, "mermaid": to_mermaid}[form](self.plan)
        with self._located():
            physical = self.session.engine.explain(self.name, self.plan, self.functions)
            running = self.session.running.shared_by(self.asked().kind, self.plan, self.functions)
        return explained(self.bound.plan, self.plan, self.optimized[1], physical, running)

    @cached_property
    def functions(self) -> dict[str, Any]:
        """The user's functions that the query calls, by name."""
        known = {**self.bound.catalog.functions, **self.bound.catalog.aggregates}
        called = {name for name, _ in user_calls(self.bound.plan, known)}
        return {name: f for name, f in known.items() if name in called}

    @contextmanager
    def _located(self) -> Iterator[None]:
        """Errors that happen while a query runs get the query's text and position."""
        try:
            yield
        except Diagnostic as diagnostic:
            raise located(diagnostic, [(self.bound.plan, self.bound.text, self.functions)]) from None
        except Exception as problem:
            raise foreign(problem).at(anywhere(self.bound.plan)).locate(self.bound.text) from problem


def _type(returns: str | Type) -> Type:
    return returns if isinstance(returns, Type) else type_named(returns)
