"""The queries that run in a session: started whole or not at all, found by name, asked for what is final.

Queries of one kind of time run in one graph. The first of them decides how often its epochs begin and how long answers are kept.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from tidegate.algebra import operators as op
from tidegate.algebra.adjusting import knobs_of
from tidegate.algebra.failures import located
from tidegate.errors import Diagnostic, did_you_mean, foreign
from tidegate.runtime import quality
from tidegate.runtime.activities import MeasuredEpoch
from tidegate.runtime.advice import warn
from tidegate.runtime.asking import Asked, Asking, check_pace, refuse_shared
from tidegate.runtime.decisions import read_log
from tidegate.runtime.engine import Engine
from tidegate.runtime.equivalence import equivalent
from tidegate.runtime.graph_drawing import drawn, running_graph
from tidegate.runtime.jobs import Progress
from tidegate.runtime.ledger import end_query, latest_manifest
from tidegate.runtime.live import LiveRun
from tidegate.runtime.managing import OVER_BUDGET, Resources
from tidegate.runtime.metrics import operators_of
from tidegate.runtime.migration import not_begun, refuse_others
from tidegate.runtime.notebook import LiveTable, show_once
from tidegate.runtime.notes import Note
from tidegate.runtime.prometheus import Reading, exposition
from tidegate.runtime.queries import Joining, Query
from tidegate.runtime.query_table import QueryLine, running_lines, stopped_lines, table_of
from tidegate.runtime.refusals import check_used
from tidegate.runtime.results import Result
from tidegate.runtime.subscriptions import Subscription
from tidegate.runtime.summary import IN_BATCHES, TIMESTAMPS, describe_state
from tidegate.runtime.tables import Readable
from tidegate.runtime.waiting import WaitingQuery, WaitingRoom
from tidegate.spark.values import table_of as arrow_table
from tidegate.storage import Storage
from tidegate.time import BATCHES, MIN, ticks_of


class Running:
    """The graphs of a session and the queries in them."""

    def __init__(
        self, engine: Callable[[], Engine], partitions: int | None, resources: Resources | None = None
    ) -> None:
        self._engine, self._partitions = engine, partitions
        self.resources, self.waiting = resources or Resources(), WaitingRoom()
        # Replaced, never changed: whoever reads them needs no lock.
        self._runs: Mapping[str, LiveRun] = {}
        self._asked: Mapping[str, Asked] = {}
        self._ended: frozenset[str] = frozenset()
        """Queries, without regard to case, that were stopped or dropped here and not started since: no graph waits for them."""
        self._lock = threading.RLock()
        self._together: list[LiveRun] | None = None

    @contextmanager
    def together(self) -> Iterator[None]:
        """Graphs that are started meanwhile begin at the end, with all their queries: none misses rows that another has read."""
        if self._together is not None:
            yield
            return
        started: list[LiveRun] = []
        self._together = started
        try:
            yield
        finally:
            self._together = None
            for run in started:
                run.begin()

    @property
    def names(self) -> list[str]:
        """The names of the running queries."""
        return [a.name for a in self._asked.values()]

    @property
    def storage(self) -> Storage:
        """Where runs and graphs are kept."""
        return self._engine().storage

    @property
    def runs(self) -> list[LiveRun]:
        """The graphs that run."""
        return list(self._runs.values())

    def lines(self) -> list[QueryLine]:
        """What is known of every query: those that run, and those that the state holds and nobody runs."""
        found = []
        for kind, run in self._runs.items():
            moments, manifest = kind.startswith(TIMESTAMPS), run.graph.figures.manifest
            found += running_lines(run.graph.figures, run.condition, moments)
            # A graph that runs has none of them, and would have to be waited for.
            missing = run.graph.missing() if run.condition == "waiting" else ()
            found += stopped_lines({n: manifest.queries[n] for n in missing}, moments, run.graph.width)
        found += [QueryLine(n, "waiting", moments=True, since=MIN, complete=None) for n in self.waiting.names]
        storage = self._engine().storage
        for kind in sorted(set(storage.names("graphs")) - set(self._runs)):
            if (latest := latest_manifest(storage.below(f"graphs/{kind}"))) is not None:
                width = BATCHES if kind.endswith(IN_BATCHES) else 1
                found += stopped_lines(latest.queries, kind.startswith(TIMESTAMPS), width)
        return found

    def measured(self) -> list[MeasuredEpoch]:
        """What was measured in the last epochs of the graphs that run, and of the last recorded run."""
        live = [epoch for run in self._runs.values() for epoch in run.graph.figures.metrics]
        return [*live, *self._engine().measured]

    def settings(self) -> Iterator[tuple[Any, ...]]:
        """What was in force when in the graphs that run: see `runtime.quality`."""
        return (line for run in self._runs.values() for line in settings_of(run))

    def decisions(self) -> Iterator[tuple[Any, ...]]:
        """What was decided about the graphs that the state holds, whether or not they run: see `runtime.decisions`."""
        storage = self._engine().storage
        for kind in storage.names("graphs"):
            yield from (line.row for line in read_log(storage.below(f"graphs/{kind}")))

    def prometheus(self) -> str:
        """The figures of the graphs that run, in Prometheus' text format."""
        return exposition(map(reading_of, self._runs.values()))

    def table(self) -> pa.Table:
        """SHOW QUERIES."""
        return table_of(self.lines())

    def drawn(self, form: str) -> str:
        """SHOW GRAPH: the graphs that run, as text of a form."""
        return drawn([running_graph(kind, run.graph.figures) for kind, run in self._runs.items()], form)

    def find(self, name: str) -> LiveQuery | None:
        """The running query of a name, without regard to case."""
        asked = self._asked.get(name.lower())
        if asked is None:
            return None
        run = self._runs[asked.kind]
        return LiveQuery(run, run.graph.query(asked.name), self)

    def named(self, name: str) -> LiveQuery | WaitingQuery:
        """The query of a name that runs or waits for room; that there is none is told with what there is."""
        if (found := self.find(name) or self.waiting.find(name)) is not None:
            return found
        help = did_you_mean(name, self.names, "queries")
        raise Diagnostic("UNKNOWN_QUERY", f"there is no running query '{name}'", help=help)

    def same(self, plan: op.Node, instant: int | datetime | str) -> LiveQuery | None:
        """A running query that means the same and whose answer at an instant is complete, or will be."""
        ticks = ticks_of(instant)
        for asked in self._asked.values():
            query = self.find(asked.name) if asked.written == plan else None
            if query is not None and (since := query.complete_from) is not None and since <= ticks:
                return query
        return None

    def start(self, asked: Asked, begin: bool) -> LiveQuery | WaitingQuery:
        """Add a query to the graph of its kind of time, or begin one. What is refused leaves nothing behind; what there is no room for may wait."""
        try:
            return self._start(asked, begin)
        except Diagnostic as problem:
            if problem.condition != OVER_BUDGET or self.resources.admission == "refuse":
                raise
            return self.waiting.add(asked.name, lambda: self._let_in(asked, begin), problem)

    def _let_in(self, asked: Asked, begin: bool) -> LiveQuery:
        found = self._start(asked, begin)
        self.resources.let_in(asked.name, found.run.graph)
        return found

    def _start(self, asked: Asked, begin: bool) -> LiveQuery:
        with self._lock:
            if asked.name.lower() in {*self._asked, *self.waiting.names}:
                raise Diagnostic(
                    "NAME_EXISTS",
                    f"a query '{asked.name}' is running already",
                    help=f"STOP {asked.name} first, or choose another name",
                )
            refuse_shared(asked, self._asked.values())
            known = self._runs.get(asked.kind)
            run = known or self._engine().start(
                {},
                {},
                every=asked.epoch,
                graph=asked.kind,
                retention=asked.kept,
                partitions=self._partitions,
                begin=False,
                epochs=asked.epochs or "auto",
            )
            run.manager = run.manager or self.resources.manage(run.graph)
            run.graph.reoptimize = lambda: self.resources.reoptimize
            try:
                check_pace(run, asked)
                admit = partial(self.resources.admit, asked.name, run.graph)
                joining = Joining(
                    asked.definitions, asked.functions, asked.data, asked.key, asked.history, admit
                )
                query = run.add(asked.name, asked.plan, asked.sinks, joining)
                warn(query.physical, asked.text)
                if known is None:
                    for name in run.graph.missing():
                        if name.lower() in self._ended:
                            run.drop(name)
                    if begin and self._together is None:
                        run.begin()
                    elif begin and self._together is not None:
                        self._together.append(run)
            except BaseException:
                if known is None:
                    run.stop(settled=False)
                    self.resources.release(run.graph)
                raise
            self._runs = {**self._runs, asked.kind: run}
            self._asked = {**self._asked, asked.name.lower(): asked}
            self._ended -= {asked.name.lower()}
            return LiveQuery(run, query, self)

    def alter(self, name: str, query: Asking) -> LiveQuery:
        """Let a running query be answered by another text: one that means the same takes over without a gap, another one succeeds it at an instant."""
        with self._lock:
            live, asked = self.named(name), query.asked(name)
            if isinstance(live, WaitingQuery):
                raise not_begun(name)
            before = self._asked[name.lower()]
            refuse_others(asked.name, before.written.schema, asked.written.schema, before.kind == asked.kind)
            joining = Joining(asked.definitions, asked.functions, asked.data, asked.key)
            running = live.run.graph.query(live.name)
            same = before.plan == asked.plan or equivalent(running.plan, asked.plan)
            if running.plan != asked.plan:
                live.run.change(live.name, asked.plan, same, joining)
            kept = replace(asked, name=live.name, sinks=before.sinks)
            self._asked = {**self._asked, name.lower(): kept}
            return LiveQuery(live.run, live.run.graph.query(live.name), self)

    def shared_by(self, kind: str, plan: op.Node, functions: Mapping[str, Any]) -> list[str]:
        """What a query would read of those that run, if it were started now; nothing if there are none."""
        run = self._runs.get(kind)
        if run is None or not run.graph.queries():
            return []
        return run.graph.preview(plan, functions, moments=kind.startswith(TIMESTAMPS))

    def push(self, name: str, rows: Any) -> None:
        """Hand rows to every graph that reads a stream."""
        more = "; rows that are there already are given with the stream"
        for run in self._reading(name, "the rows would be nowhere", more):
            run.push(name, rows)

    def refuse(self, name: str, refused: Sequence[tuple[str, str]]) -> None:
        """Tell every graph that reads a stream what was handed in and is no row of it."""
        for run in self._reading(name, "what was refused would be nowhere"):
            run.refuse(name, refused)

    def promise(self, name: str, instant: int | datetime | str) -> None:
        """Tell every graph that reads a stream that no row of it before this instant will come."""
        for run in self._reading(name, "nobody would know of the promise"):
            run.graph.promise(name, instant)

    def _reading(self, name: str, lost: str, more: str = "") -> list[LiveRun]:
        """The graphs that read a stream; without any, something would be lost."""
        if found := [run for run in self._runs.values() if name in run.graph.streams()]:
            return found
        raise Diagnostic(
            "NOT_READ", f"no running query reads '{name}': {lost}", help=f"start the query first{more}"
        )

    def stop(self, query: LiveQuery) -> None:
        """Stop a query, if it runs; with the last one its graph stops. It ends for good when its graph goes on without it."""
        with self._lock:
            run, name = query.run, query.name
            if run not in self._runs.values() or not query.is_in_graph:
                return
            self._ended |= {name.lower()}
            if len(run.graph.queries()) > 1:
                run.drop(name)
            else:
                run.stop()
                run.report()
            self._asked = {n: a for n, a in self._asked.items() if n != name.lower()}
            if not any(self._runs[a.kind] is run for a in self._asked.values()):
                self._runs = {kind: r for kind, r in self._runs.items() if r is not run}
                self.resources.release(run.graph)

    def drop(self, name: str, state: str | None, if_exists: bool = False) -> None:
        """End a query that runs, or one that the state still holds."""
        with self._lock:
            graphs = describe_state(state) if state else {}
            stored = [q for g in graphs.values() for q in g["queries"]]
            waiting = [
                (r, q) for r in self._runs.values() for q in r.graph.missing() if q.lower() == name.lower()
            ]
            if (live := self.find(name) or self.waiting.find(name)) is not None:
                live.stop()
            elif waiting:
                waiting[0][0].drop(waiting[0][1])
            elif name.lower() not in map(str.lower, stored) and not if_exists:
                raise Diagnostic(
                    "UNKNOWN_QUERY",
                    f"there is no query '{name}'",
                    help=did_you_mean(name, sorted({*self.names, *stored}), "queries"),
                )
            else:
                # Nobody runs them here, and whoever comes next is not to wait for what has been ended.
                for graph in [g for g in graphs if g not in self._runs]:
                    end_query(Storage(str(state)).below(f"graphs/{graph}"), name)
            self._ended |= {name.lower()}

    def close(self) -> None:
        self.waiting.close()
        with self._lock:
            for run in self._runs.values():
                run.stop()
                run.report()
                self.resources.release(run.graph)
            self._runs, self._asked = {}, {}

    def failure(self, run: LiveRun, diagnostic: Diagnostic | None = None) -> Diagnostic | None:
        """Why a graph has failed, with its place in the query that it happened in.

        An operator that several queries share knows its places in the text of the first of them.
        """
        diagnostic = run.trouble or diagnostic
        if diagnostic is None:
            return None
        asked = [a for a in self._asked.values() if self._runs[a.kind] is run]
        plans = {q.name: q.whole for q in run.graph.queries()}
        owners = [a for a in asked if a.name in plans and diagnostic.operator in plans[a.name].operators]
        return located(diagnostic, [(a.written, a.text, a.functions) for a in owners[:1] or asked])


def settings_of(run: LiveRun) -> Iterator[tuple[Any, ...]]:
    """The lines of `tidegate.settings` about a graph that runs."""
    name = run.graph.storage.uri.rsplit("/", 1)[-1]
    return quality.lines(name, run.graph.ledger.settings, {q.name: q.plan for q in run.graph.queries()})


def reading_of(run: LiveRun) -> Reading:
    """What is known of a graph that runs."""
    figures = run.graph.figures
    note = Note.of(figures, run.condition, None, ())
    name = run.graph.storage.uri.rsplit("/", 1)[-1]
    return Reading(name, figures.manifest, note, run.is_active, figures.width)


@dataclass(frozen=True)
class LiveQuery(Readable):
    """A running query; after its end, what was final then."""

    run: LiveRun
    query: Query
    running: Running

    @property
    def name(self) -> str:
        return self.query.name

    @property
    def result(self) -> Result:
        """What is final so far."""
        return self.run.graph.answer(self.query)

    def status(self) -> dict[str, Any]:
        """Epoch, watermark, speed, quarantine, since when the answer is complete, and what its operators do; at once, whatever the graph is doing.

        Example: `h.status()["watermark"]`
        """
        status, failure = self.run.status(), self.running.failure(self.run)
        status = {**status, "operators": operators_of(self.run.graph.figures, self.name)}
        return status if failure is None else {**status, "failure": str(failure)}

    def prometheus(self) -> str:
        """The figures of the graph that the query runs in, in Prometheus' text format.

        Example: `print(h.prometheus())`
        """
        return exposition([reading_of(self.run)])

    @property
    def complete_from(self) -> int | None:
        """The instant from which the answer is complete; MIN: from the beginning, None: not known.

        A query that joins a running graph begins with what the operators show that it shares with running queries. Of streams that
        it reads by itself it sees the rows from then on: windows must fill before nothing is missing, and what has no bounded validity
        (ROWS, UNBOUNDED, KEY) never stops to depend on what came before.
        """
        complete = self.run.graph.now(self.query).known.nothing_missing
        return complete if complete in (None, MIN) else -(-complete // self.result.width)

    @property
    def is_in_graph(self) -> bool:
        """Whether the graph has not gone on, and will not go on, without it."""
        return any(q.known.owner == self.query.known.owner for q in self.run.graph.queries())

    def __repr__(self) -> str:
        columns = ", ".join(f"{f.name} {f.type}" for f in self.result.schema)
        state = "running" if self.is_in_graph else "ended"
        return f"LiveQuery({self.name}, {state}: {columns}; final before {self.result.reached})"

    def show(self, live: bool = False, every: float = 1.0) -> LiveTable | None:
        """The latest complete answer as a table in a notebook; `live`: drawn anew every so many seconds while the query runs.

        Example: `table = h.show(live=True)`, and later `table.stop()`
        """
        if not live:
            show_once(self._repr_html_())
            return None
        return LiveTable(self._repr_html_, lambda: self.is_in_graph, every)

    def quarantine(self, stream: str | None = None) -> DataFrame:
        """The rows that were refused so far, of all sources or of one.

        Example: `h.quarantine("Bid").show()`
        """
        return self.result.quarantine(stream)

    def metrics(self) -> DataFrame:
        """What was measured of the operators of this query in the last epochs: see `tidegate.metrics`.

        Example: `h.metrics().select("epoch", "title", "rows_in", "rows_out", "state_rows").show()`
        """
        return self.result.metrics()

    def settings(self) -> DataFrame:
        """What was in force when, of what may be chosen about the windows of this query: see `tidegate.settings`.

        Example: `h.settings().select("setting", "value", "valid_from", "valid_to").show()`
        """
        mine = [line for line in settings_of(self.run) if line[1] in knobs_of(self.query.plan)]
        return self.result.spark.createDataFrame(arrow_table(quality.COLUMNS, mine))

    def adjust(
        self,
        range: int | str | None = None,
        granularity: int | str | None = None,
        stream: str | None = None,
        since: int | datetime | str | None = None,
    ) -> int:
        """Choose the size of windows, or their granule, inside the ranges of this query; from which instant on it holds. Other queries that
        have the same range over the stream are adjusted with it.

        Example: `h = tg.query("SELECT room FROM Temp WINDOW(RANGE BETWEEN 2 AND 10)").start("rooms")`, then `h.adjust(range=5)`
        """
        values = quality.chosen(self.query.plan, {"RANGE": range, "GRANULARITY": granularity}, stream)
        return self.run.graph.adjust(values, None if since is None else ticks_of(since))

    def at(self, instant: int | datetime | str, batch: int | None = None) -> DataFrame:
        """The answer at an instant, which must be final.

        Example: `h.at("2026-01-01 12:00").show()`
        """
        return self.result.at(instant, batch)

    def intervals(self, since: int | datetime | str | None = None, raw: bool = False) -> DataFrame:
        """The rows so far with `valid_from` and `valid_to`, as `Result.intervals` gives them.

        Example: `h.intervals(since="2026-01-01 12:00").show()`
        """
        return self.result.intervals(since, raw)

    def changes(
        self, since: int | datetime | str | None = None, until: int | datetime | str | None = None
    ) -> DataFrame:
        """What changed so far, instant by instant.

        Example: `h.changes(since=100, until=200).show()`
        """
        return self.result.changes(since, until)

    def _repr_html_(self) -> str:
        return self.result._repr_html_()

    def latest(self) -> DataFrame:
        """The latest complete answer.

        Example: `h.latest().show()`
        """
        return self.result.latest()

    def subscribe(self, since: int | datetime | str | None = None) -> Subscription:
        """The changes from an instant on (None: all that are kept), one after the other, as they become final: `for change in h.subscribe()`.

        None is missed and none is repeated; the graph does not wait for whoever reads.
        Example: `for change in h.subscribe(): print(change)`
        """
        return Subscription(self, since)

    def wait(self, seconds: int | None = None) -> bool:
        """Wait for the end, or some seconds; a failure of the run is raised here, with its place in the query's text.

        Example: `h.wait(60)`
        """
        try:
            return self.run.wait(seconds)
        except Diagnostic as diagnostic:
            raise self.running.failure(self.run, diagnostic) or diagnostic from None

    def catch_up(self, progress: Progress | None = None, seconds: float | None = None) -> bool:
        """Wait, at most some seconds, until a query that was started with its history has been told it; whether it has.
        `progress` is called with the part that is done, as `run` does.

        Example: `h = q.start("hot", history=True); h.catch_up(seconds=60)`
        """
        graph, end = self.run.graph, None if seconds is None else time.monotonic() + seconds
        while self.name in graph.figures.catching_up and self.is_in_graph:
            if (failure := self.running.failure(self.run)) is not None:
                raise failure
            if progress is not None:
                progress(self.run.status()["catching_up"].get(self.name, 1.0))
            if end is not None and time.monotonic() >= end:
                return False
            with graph.committed:
                graph.committed.wait(0.2)
        if progress is not None:
            progress(1.0)
        return True

    def finish(self) -> None:
        """Take in what the sources hold now and make every answer final: for sources that have an end.

        Example: `h.finish(); h.latest().show()`
        """
        try:
            self.run.finish()
        except Exception as problem:
            diagnostic = foreign(problem)
            raise self.running.failure(self.run, diagnostic) or diagnostic from problem
        self.run.report()
        check_used(self.run.graph.ledger.latest.sources)

    def alter(self, query: Asking) -> LiveQuery:
        """Let this query be answered by another text, with the same columns: one that means the same takes over without a gap; another one succeeds it from
        the instant on at which it is complete, and the history keeps both.

        Example: `h = h.alter(tg.query("SELECT room, degrees FROM Temp WINDOW(RANGE 10)"))`
        """
        return self.running.alter(self.name, query)

    def stop(self) -> None:
        """Stop this query. The last one of a graph stops it; starting it again on the same state goes on.

        Example: `h.stop()`
        """
        self.running.stop(self)
