"""A query with its meaning: to be run over recorded data, started over live data, explained, or verified."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any, Literal, Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

from tidegate.algebra import operators as op
from tidegate.algebra import synchronization
from tidegate.algebra.failures import anywhere, located, user_calls
from tidegate.algebra.printing import to_graphviz, to_json, to_mermaid
from tidegate.algebra.properties import has_timestamps, result_key
from tidegate.algebra.quality import Settings
from tidegate.algebra.windows import Expiration
from tidegate.connectors import registry
from tidegate.connectors.sinks import Sink, claim, open_sink, refuse_taken
from tidegate.errors import Diagnostic, foreign, told_at
from tidegate.language.base_definitions import check_call
from tidegate.language.binder import BoundQuery
from tidegate.language.catalog import SourceCall, StreamDefinition
from tidegate.optimizer.cost import Costs
from tidegate.optimizer.driver import Firing, optimize
from tidegate.optimizer.expiration import expiring
from tidegate.optimizer.hot_keys import can_be_spread, spread_hot_keys
from tidegate.optimizer.search import Found, has_choice, search
from tidegate.physical.estimates import Expectations
from tidegate.physical.identity import identity_of, plan_identity
from tidegate.physical.plan import Birth
from tidegate.physical.planning import plan_query
from tidegate.physical.printing import describe, describe_estimates
from tidegate.runtime.asking import Asked
from tidegate.runtime.engine import Engine
from tidegate.runtime.explaining import explained
from tidegate.runtime.metrics import measured_lines
from tidegate.runtime.notebook import NotebookProgress, in_notebook
from tidegate.runtime.places import Epochs
from tidegate.runtime.previews import SIZES, heads_of
from tidegate.runtime.results import Result
from tidegate.runtime.running import LiveQuery, Running
from tidegate.runtime.settings import check_said
from tidegate.runtime.source_statistics import gathered
from tidegate.runtime.system_tables import system_tables_in
from tidegate.runtime.verification import Verification, verify
from tidegate.runtime.waiting import WaitingQuery
from tidegate.time import BATCHES, MAX, MIN, widened
from tidegate.types import TIMESTAMP, Field

Progress = Callable[[float], None]


class Host(Protocol):
    """What a query needs of the session that it was asked in."""

    live: bool
    unnamed: str | None
    epoch: float | None
    retention: int | None
    epochs: Epochs | None
    expiration: Expiration
    running: Running

    @property
    def spark(self) -> SparkSession: ...

    @property
    def engine(self) -> Engine: ...

    def start(self, asked: Asked, begin: bool) -> LiveQuery | WaitingQuery: ...


@dataclass(frozen=True)
class Query:
    """A query with its meaning, not started."""

    session: Host
    bound: BoundQuery
    name: str
    data: Mapping[str, Any]
    """The rows of streams and tables that the program holds itself."""

    def __repr__(self) -> str:
        text = " ".join(self.bound.text.split())
        columns = ", ".join(f"{f.name} {f.type}" for f in self.schema if not f.hidden)
        return f"Query({columns}: {text if len(text) <= 80 else text[:79] + '…'})"

    @cached_property
    def optimized(self) -> tuple[op.Node, tuple[Firing, ...]]:
        """The plan that runs, and the rules that made it from the one that was written."""
        plan, firings = optimize(self.bound.plan)
        return expiring(plan, self.bound.expiration or self.session.expiration), firings

    @property
    def plan(self) -> op.Node:
        return self.optimized[0]

    @cached_property
    def costs(self) -> Costs:
        """What is known of the sources, and so what plans are expected to cost."""
        return Costs(gathered(self.definitions, self.data))

    @cached_property
    def cheapest(self) -> Found | None:
        """What a search by cost has found for a run over recorded data; None: there is no choice."""
        if not has_choice(self.plan):
            return None
        expected = Expectations(self.costs)
        return search(
            self.plan,
            self.costs,
            whole=lambda plan: expected.added(plan_query("", plan, self.functions, Birth())),
        )

    @cached_property
    def chosen(self) -> op.Node:
        """The plan of a run over recorded data: the cheapest that is known, rows of hot keys spread."""
        plan = self.plan if self.cheapest is None else self.cheapest.plan
        return spread_hot_keys(plan, self.costs) if can_be_spread(plan) else plan

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
            # A stream may be read by whoever may name it: what it reaches was decided by the session's policy when it was defined.
            rules = call.policy if what == "source" else self.bound.catalog.policy
            check_call(call, what, known.named(call), rules)
        except Diagnostic as diagnostic:
            place = max(0, self.bound.text.lower().find(name.lower()))
            raise diagnostic.at((place, place + len(name))).locate(self.bound.text) from None

    def foresee(self, live: bool) -> None:
        """Tell what is wrong with sources as far as that shows without Spark.

        Example: `tg.query("SELECT * FROM S").foresee(live=False)`
        """
        for definition in self.definitions.values():
            place = max(0, self.bound.text.lower().find(definition.name.lower()))
            with told_at((place, place + len(definition.name)), self.bound.text):
                registry.SOURCES.named(definition.source).foresee(definition, live)

    @property
    def is_live(self) -> bool:
        """Whether a source has no end, or is to be read as if it had none."""
        return self.session.live or not all(map(registry.has_end, self.definitions.values()))

    def run(
        self,
        progress: Progress | None = None,
        boundaries: Sequence[int] | None = None,
        settings: Settings | None = None,
    ) -> Result:
        """The answer over recorded data, to the end of the sources; `boundaries` are instants at which epochs end. Windows with quality ranges
        are at their best, or as the `settings` say, by the names of knobs.

        In a notebook, a run of more than a second shows how far it is, unless `progress` is told.
        Example: `r = tg.query("SELECT room FROM Temp WINDOW(RANGE 5)").run()`
        """
        if progress is None and in_notebook():
            progress = NotebookProgress(self.name)
        if boundaries is not None and self.bound.batches:
            boundaries = [widened(b, BATCHES) for b in boundaries]
        with self._located():
            self.foresee(live=False)
            result = self.session.engine.run(
                self.name,
                self.chosen,
                self.definitions,
                self.functions,
                self.data,
                progress,
                boundaries,
                settings=settings,
            )
        return replace(result, key=self.key)

    def discard(self, progress: Progress | None = None) -> int:
        """Compute the answer over recorded data with all its changes, and throw it away; how many rows it had.

        What an answer costs without its keeping.
        Example: `tg.query("SELECT room FROM Temp WINDOW(RANGE 5)").discard()`
        """
        with self._located():
            self.foresee(live=False)
            return self.session.engine.discard(
                self.name, self.chosen, self.definitions, self.functions, self.data, progress
            )

    def preview(self, rows: int) -> DataFrame:
        """The first rows of the answer over recorded data, with their validity, from no more of the sources than they need.

        Example: `tg.query("SELECT room FROM Temp WINDOW(RANGE 5)").preview(10).show()`
        """
        if self.is_live:
            raise Diagnostic(
                "SOURCE_LIVE",
                "PREVIEW looks at recorded streams",
                help="start the query, and ask AS OF an instant",
            )
        with self._located():
            self.foresee(live=False)
            for size in SIZES:
                heads = heads_of(self.session.spark, self.definitions, self.data, size)
                if heads.whole:
                    break
                answers = self.session.engine.run_all(
                    {self.name: self.plan}, self.definitions, self.functions, self.data, heads=heads
                )
                first = answers[self.name].intervals().orderBy("valid_from", "valid_to").limit(rows)
                if first.count() >= rows:
                    return first
        return self.run().intervals().orderBy("valid_from", "valid_to").limit(rows)

    @property
    def key(self) -> tuple[int, ...] | None:
        """Of a STREAMED query, the columns that tell rows of an answer apart, if they are known."""
        return result_key(self.bound.plan) if self.bound.output == "STREAMED" else None

    def at(self, instant: int | datetime | str, batch: int | None = None) -> DataFrame:
        """The answer over recorded data at one instant, after its last batch or after the one given.

        Example: `tg.query("SELECT room FROM Temp WINDOW(RANGE 5)").at(4).show()`
        """
        return self.run().at(instant, batch)

    def now(self) -> DataFrame:
        """The answer of a query over tables alone, which is the same at every instant.

        Example: `tg.query("SELECT title, cpu_seconds FROM tidegate.metrics").now().show()`
        """
        if streams := [n for n, d in self.definitions.items() if not d.table]:
            raise Diagnostic(
                "STREAM_BESIDE_TABLES",
                f"'{streams[0]}' is a stream: how things are now is asked of tables such as tidegate.metrics",
                help="ask for the table by itself, or join it with other tables",
            ).locate(self.bound.text)
        return self.run().at(0)

    def start(
        self,
        name: str | None = None,
        epoch: float | None = None,
        retention: int | None = None,
        sink: Sink | None = None,
        begin: bool = True,
        epochs: Epochs | None = None,
        history: bool = False,
    ) -> Any:
        """Run over live data: an epoch every `epoch` seconds (0.2, or 1 where a source is Spark's). Answers older than `retention` ticks may be dropped.
        `epochs` says where they run: as Spark jobs, in the driver's process, or (auto) wherever they cost less.

        Queries over the same kind of time run in one graph: the first one decides all three, and a later one that asks for others is
        refused. On the same state directory, a query of the same name goes on where it stopped. With `begin` False, the
        graph advances only when it is told to. With `history`, what came before is read again, where it can be: the answer is then that of a
        query which was there from the beginning.

        Gives the running query (`LiveQuery`), or, where there is no room for it and `SET admission = 'wait'`, one that waits (`WaitingQuery`).
        Example: `h = tg.query("SELECT room FROM Temp WINDOW(RANGE 5)").start("hot", epoch=0.5)`
        """
        check_said(epoch, retention, epochs)
        if table := next(system_tables_in(self.bound.plan, self.bound.catalog), None):
            raise Diagnostic(
                "METRICS_LIVE",
                f"{table.name} says how things are now: a running query cannot read it",
                help="ask for it by a SELECT, as often as needed",
            ).locate(self.bound.text)
        if sink is not None and hasattr(sink, "path"):
            self.bound.catalog.policy.check_value("sink", "", "path", sink.path)
        with self._located():
            self.foresee(live=True)
            asked = self.asked(name, sink, epoch, retention, epochs)
            return self.session.start(replace(asked, history=history), begin)

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
            name or self.session.unnamed or self.stable_name(sink), self.bound.text, self.bound.plan, self.plan, self.bound.domain, self.bound.batches,
            self.definitions, self.functions, self.data, self.key, () if sink is None else (sink,),
            self.session.epoch if epoch is None else epoch,
            self.session.retention if retention is None else retention, epochs or self.session.epochs,
        )  # fmt: skip

    def into(
        self,
        sink: SourceCall,
        progress: Progress | None = None,
        name: str | None = None,
        history: bool = False,
    ) -> Any:
        """Write the changes of the answer to a sink: at once over recorded data, epoch by epoch over live data or under a name."""
        target = self.opened(sink)
        if self.is_live or name is not None:
            return self.start(name, sink=target, history=history)
        return self.written(target, lambda: self.run(progress))

    def opened(self, sink: SourceCall) -> Sink:
        """The sink of a call, if rows may go there."""
        self._check("sink", sink)
        with self._located():
            return open_sink(sink, complete=self.bound.output == "COMPLETE")

    def written(self, target: Sink, run: Callable[[], Result]) -> Result:
        """The answer of a run over recorded data, which the sink gets; a sink that is another query's is refused before."""
        owner = uuid.uuid4().hex
        refuse_taken(target, owner)
        result = run()
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
        """Run, and compare with the reference at every change point, or at a sample of them.

        Example: `assert tg.query("SELECT room FROM Temp WINDOW(RANGE 5)").verify()`
        """
        with self._located():
            return verify(
                lambda: self.session.spark,
                self.bound.plan,
                result or self.run(progress),
                self.definitions,
                self.bound.catalog.functions,
                self.bound.catalog.aggregates,
                self.data,
                instants,
                progress,
                self.session.engine.small_here,
            )

    def points(self, since: int, upto: int) -> synchronization.Report:
        """The full and partial synchronization points of [since, upto), in ticks, over recorded data.

        Example: `tg.query("SELECT * FROM Hot").points(0, 100)`
        """

        def events(plan: op.Node) -> set[int]:
            run = self.session.engine.run(
                "points", optimize(plan)[0], self.definitions, self.functions, self.data
            )
            column = F.unix_micros("c0") if run.time_type == TIMESTAMP else F.col("c0").cast("bigint")
            said = run.signed().select(column.alias("p"), "ts", "te", "n").filter("ts <= p AND p < te")
            return {r.p for r in said.groupBy("p").agg(F.sum("n").alias("n")).filter("n > 0").collect()}

        return synchronization.report(self.bound.plan, since, upto, events)

    def explain(self, form: str = "text", analyze: bool = False) -> str:
        """The plan: as text with the rules that fired and the stages, or as json, graphviz or mermaid. With `analyze`, the query is run over
        recorded data first, and what was measured stands beside each operator.

        Example: `print(q.explain())`
        """
        if analyze:
            return self._analyzed()
        if form != "text":
            return {"json": to_json, "graphviz": to_graphviz, "mermaid": to_mermaid}[form](self.plan)
        with self._located():
            plan = self.plan if self.is_live else self.chosen
            physical = self.session.engine.explain(self.name, plan, self.functions, self.costs)
            running = self.session.running.shared_by(self.asked().kind, self.plan, self.functions)
        other = None if self.is_live else self.cheapest
        return explained(self.bound.plan, self.plan, self.optimized[1], physical, running, other)

    def _analyzed(self) -> str:
        if self.is_live:
            raise Diagnostic(
                "SOURCE_LIVE",
                "EXPLAIN ANALYZE runs a query over recorded streams",
                help="start the query, and ask SELECT * FROM tidegate.metrics",
            )
        began = time.perf_counter()
        epochs = self.run().measured()
        seconds = time.perf_counter() - began
        ran = epochs[-1].physical.plan
        text = describe(ran, self.functions, measured_lines(epochs))
        text += f"\n{len(epochs)} epoch{'s' * (len(epochs) != 1)} in {seconds:.2f} s"
        text += f"\n\n== Estimates\n{describe_estimates(ran, self.costs, has_timestamps(self.plan))}"
        return explained(self.bound.plan, self.plan, self.optimized[1], text, [], self.cheapest)

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


def run_together(queries: Sequence[Query], progress: Progress | None = None) -> list[Result]:
    """The answers to some queries, those over the same kind of time in one run."""
    for query in queries:
        query.foresee(live=False)
    found: dict[int, Result] = {}
    kinds = sorted({q.asked().kind for q in queries})
    for kind in kinds:
        group = {i: q for i, q in enumerate(queries) if q.asked().kind == kind}
        found |= _run_group(group, progress if len(kinds) == 1 else None)
        if progress is not None:
            progress(len(found) / len(queries))
    return [found[i] for i in range(len(queries))]


def _run_group(group: Mapping[int, Query], progress: Progress | None) -> dict[int, Result]:
    definitions: dict[str, StreamDefinition] = {}
    functions: dict[str, Any] = {}
    data: dict[str, Any] = {}
    for query in group.values():
        definitions |= query.definitions
        functions |= query.functions
        data |= query.data
    engine = next(iter(group.values())).session.engine
    names = {i: q.name for i, q in group.items()}
    if len(set(names.values())) < len(names):
        names = {i: f"{name} {i}" for i, name in names.items()}
    plans = {names[i]: q.plan for i, q in group.items()}
    try:
        results = engine.run_all(plans, definitions, functions, data, progress)
    except Diagnostic as diagnostic:
        raise located(
            diagnostic, [(q.bound.plan, q.bound.text, q.functions) for q in group.values()]
        ) from None
    except Exception as problem:
        first = next(iter(group.values()))
        raise foreign(problem).at(anywhere(first.bound.plan)).locate(first.bound.text) from problem
    return {i: replace(results[names[i]], name=q.name, key=q.key) for i, q in group.items()}
