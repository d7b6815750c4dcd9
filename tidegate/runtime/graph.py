"""The graph of running queries: epoch after epoch, with queries added and dropped in between.

An epoch [W0, W1) takes the rows that came, and W1 is what the sources have promised with these rows (`runtime.promises`): a row that no
slack holds back is answered by the epoch that reads it. Rows at or after W1 wait in the state of the stages they go to; rows before W0 were
promised not to come and go to the quarantine. W1 must be known before kernels work: few rows are gathered in the driver, which then knows
them, and works there; of many rows Spark first tells the newest, and then runs the epoch (`runtime.places`).

A query that is added later begins at the watermark of that moment with what the operators show that it shares with others (`physical.joining`); of
streams that it reads by itself it sees the rows that come.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from tidegate.algebra.operators import Node
from tidegate.connectors.sinks import Sink, refuse_taken
from tidegate.connectors.sources import read_recorded
from tidegate.errors import Diagnostic, did_you_mean
from tidegate.exchange.messages import Message, Refused, WaveReport
from tidegate.language.catalog import StreamDefinition
from tidegate.physical.joining import beginners
from tidegate.physical.plan import disputed, united
from tidegate.physical.spark_columns import outsource
from tidegate.runtime.alike import selection
from tidegate.runtime.answering import Answer, begun, goes_on, written
from tidegate.runtime.batches import Batch, combine
from tidegate.runtime.beginnings import apart, complete_line, not_kept, not_read, shared_with
from tidegate.runtime.changing import Changing
from tidegate.runtime.checkpoint import Checkpoint
from tidegate.runtime.choosing import chosen, remembered
from tidegate.runtime.deliveries import Deliveries
from tidegate.runtime.figures import EpochPace, Figures, Pace
from tidegate.runtime.first_rows import FirstRows, Past, catching_up
from tidegate.runtime.gathering import Gathering
from tidegate.runtime.inboxes import Taken
from tidegate.runtime.jobs import Job, Physical, physical, source_names
from tidegate.runtime.ledger import KnownQuery, Ledger, Manifest, SourceProgress, after
from tidegate.runtime.live_statistics import running_costs
from tidegate.runtime.merging import FILES, InBackground
from tidegate.runtime.migration import left_running, parts_of
from tidegate.runtime.neighbours import Moment, Neighbours
from tidegate.runtime.places import Epochs, Place, Places
from tidegate.runtime.promises import Promises
from tidegate.runtime.quality import in_force, still_needed
from tidegate.runtime.queries import Joining, Query, brought, stream_named, unclaimed
from tidegate.runtime.refusals import stop_at_refused
from tidegate.runtime.reoptimizing import Reoptimizer
from tidegate.runtime.repartition import repartition
from tidegate.runtime.results import Result
from tidegate.runtime.source_statistics import live_costs
from tidegate.spark.context import cores
from tidegate.spark.typing import ask_spark
from tidegate.storage import Storage
from tidegate.time import MAX, MIN, add, ticks_of, widened
from tidegate.types import TIMESTAMP, Type
from tidegate.worker.quarantine import quarantined
from tidegate.worker.tasks import Beginning


@dataclass(frozen=True)
class _Done:
    """What an epoch has come to."""

    place: Place
    upto: int
    sources: Mapping[str, SourceProgress]
    rows: int
    messages: list[Message]
    clock: int
    """When it took its rows (microseconds)."""


class LiveGraph(Changing):
    """Queries over live sources, on one storage. All methods may be called from any thread."""

    def __init__(
        self,
        spark: SparkSession,
        storage: Storage,
        definitions: Mapping[str, StreamDefinition],
        functions: Mapping[str, Any] | None = None,
        partitions: int | None = None,
        tables: Mapping[str, Any] | None = None,
        clock: Callable[[], float] = time.monotonic,
        retention: int | None = None,
        epochs: Epochs = "auto",
    ) -> None:
        self.spark = spark
        self.storage = replace(storage, durable=True)
        self.definitions = dict(definitions)
        self.functions = dict(functions or {})
        self.tables = dict(tables or {})
        self.lock = threading.RLock()
        self.committed = threading.Condition()
        """Told whenever an epoch counts."""
        self.ledger = Ledger.held(self.storage)
        # State that exists stays in as many parts as it is, on whatever cores there are now, unless others are asked for.
        self.partitions = partitions or self.ledger.latest.partitions or cores(spark)
        self.retention = retention
        self._clock = clock
        self.wall: Callable[[], int] = lambda: time.time_ns() // 1_000
        """Microseconds since 1970: what rows of TIMESTAMPs must not be far ahead of."""
        self._queries: dict[str, Query] = {}
        self._released: frozenset[str] = frozenset()
        """Queries that the storage knows and that are to end with the next epoch."""
        self.past: Past = not_kept
        self._left: list[Query] = []
        """Queries of the last epoch that have left since."""
        self._ended: dict[str, int] = {}
        """How far time had passed when a query left, by its owner's mark: its answer is not known any further."""
        self.files_limit = FILES
        """More result files of one kind than this are merged."""
        self.merging = InBackground()
        self.deliveries = Deliveries()
        self._physical: Physical | None = None
        self._aside: list[Refused] = []
        self._neighbours = Neighbours()
        self._folded: dict[str, Query] = {}
        """Queries that run otherwise than was said when they were added, by their owner's mark."""
        self._places: Mapping[str, int] | None = None
        """Who kept state in the last epoch, and in which wave."""
        self._pace = Pace(self.storage.uri.rsplit("/", 1)[-1])
        self.promises = Promises(clock)
        self.epochs = Places(epochs)
        self.reoptimizer = Reoptimizer()
        self._publish()

    # The directory.

    def hold(self) -> None:
        """Hold the directory, if it was released: what others have done there meanwhile is taken over."""
        with self.lock:
            if self.ledger.released:
                self.ledger = Ledger.held(self.storage)
                self.deliveries = Deliveries(patient=self.deliveries.patient)
                self._physical, self._places, self._left = None, None, []
                self._publish()

    def release(self) -> None:
        """Let others go on with the directory. Answers can still be read."""
        with self.lock:
            self.merging.abandon()
            self.ledger.release()

    # Queries.

    def add(self, name: str, plan: Node, sinks: Sequence[Sink] = (), joining: Joining | None = None) -> Query:
        """Add a query between two epochs; one that the storage knows continues where it stopped.

        Everything is checked before anything is registered: a query that is refused leaves the graph as it was.
        """
        joining = joining or Joining()
        with self.lock:
            if name in self._queries:
                raise Diagnostic(
                    "NAME_EXISTS",
                    f"a query '{name}' is running already",
                    help="stop it first, or choose another name",
                )
            definitions, functions = brought(
                joining, self._queries.values(), self.definitions, self.functions
            )
            for source in sorted(source_names({name: plan})):
                stream_named(definitions, source)
            asked = outsource(plan, functions, ask_spark(lambda: self.spark))
            latest = self.ledger.latest
            given = partial(live_costs, asked, definitions, joining.data, latest.sources)
            plan = chosen(asked, latest.queries.get(name), latest.views, given, partial(self._neighbours.adding, functions, self._moment()))  # fmt: skip
            answer, known, history = self._answered(name, plan, definitions, functions, joining.history)
            known = remembered(known, asked, plan)
            mine = answer.physical
            if not goes_on(name, answer, known):
                raise Diagnostic(
                    "QUERY_CHANGED",
                    f"the storage holds the state of another query '{name}'",
                    help="drop that query, or choose another name or state directory",
                )
            for sink in sinks:
                refuse_taken(sink, known.owner)
            joining.admit(mine, given)
            if joining.functions:
                physical(mine, joining.functions)  # refuses functions that cannot be sent to workers
            leaving = left_running(name, known, functions, latest.views, latest.upto)
            query = Query(
                name, plan, mine, known, tuple(sinks), joining.key, history, answer.views, answer.as_one, answer.runs, leaving
            )  # fmt: skip
            self.definitions, self.functions = definitions, functions
            self._register(query, joining)
            return query

    def _answered(
        self,
        name: str,
        plan: Node,
        definitions: Mapping[str, StreamDefinition],
        functions: Mapping[str, Any],
        history: bool,
    ) -> tuple[Answer, KnownQuery, bool]:
        """How a query is answered, what is remembered of it, and whether it begins by reading what came before."""
        latest = self.ledger.latest
        if (known := latest.queries.get(name)) is not None:
            self._neighbours.change()
            answer = begun(name, plan, functions, known, latest.views)
            if name not in self._released or goes_on(name, answer, known):
                return answer, known, False
            # Another query takes the name of one that was dropped: that it is gone must count first.
            self.settle()
            latest = self.ledger.latest
        answer, known = self._neighbours.answer(name, plan, functions, self._moment())
        if not history or known.complete == MIN:
            return answer, known, False
        self._check_past(plan, definitions)
        return *apart(name, plan, functions, latest, self._neighbours.together), True

    def _register(self, query: Query, joining: Joining) -> None:
        """Let a query that was checked take part from the next epoch on."""
        known = self.definitions
        self.tables |= {n: r for n, r in joining.data.items() if n in known and known[n].table}
        self._ended.pop(query.known.owner, None)
        self._queries = {**self._queries, query.name: query}
        self._folded.pop(query.known.owner, None)  # A change that no epoch has seen is forgotten.
        self._released -= {query.name}
        self._neighbours.add(query)
        for other in self._neighbours.folded(query, self._queries, self.functions, self._moment()):
            self._queries = {**self._queries, other.name: other}
            self._folded[other.known.owner] = other
        self._physical = None
        self._publish()

    def _moment(self) -> Moment:
        costs = partial(running_costs, self.figures, self.definitions)
        return Moment(
            self.ledger.latest, self._settled, lambda i: bool(self.ledger.parts(i)), self.width, costs
        )

    def _check_past(self, plan: Node, definitions: Mapping[str, StreamDefinition]) -> None:
        """Refuse history that cannot be read again."""
        for stream in sorted(s for s in source_names({"": plan}) if not definitions[s].table):
            self.past(stream) if stream in self.ledger.latest.sources else not_read(stream)

    def preview(self, plan: Node, functions: Mapping[str, Any], moments: bool) -> list[str]:
        """What a query would share with those that run, if it joined now, and from when on it would be complete."""
        with self.lock:
            plan = outsource(plan, functions, ask_spark(lambda: self.spark))
            every = {**self.functions, **functions}
            answer, known = self._neighbours.answer("", plan, every, self._moment())
            lines = self._neighbours.told(answer, plan)
            lines += shared_with(answer.physical, {q.name: q.physical for q in self._queries.values()})
            return [*lines, complete_line(known, moments, self.width)]

    def drop(self, name: str) -> None:
        """End a query after the current epoch, also one that was not added again; its results stay readable."""
        with self.lock:
            if name not in self.missing():
                self.query(name)
            self.withdraw(name)
            self._released |= {name}

    def withdraw(self, name: str) -> None:
        """Take back that a query was added; what the storage knows of it stays."""
        with self.lock:
            if name in self._queries:
                query = self._queries[name]
                self._ended[query.known.owner] = self.ledger.latest.upto
                self.deliveries.leave(query.known.owner)
                if query.has_run(self.ledger.latest):
                    self._left = [*self._left, query]
                self._queries = {n: q for n, q in self._queries.items() if n != name}
                self._neighbours.remove(query, self._queries.values())
                self._neighbours.change()
            self._physical = None
            self._publish()

    def settle(self) -> None:
        """Commit that queries were dropped and what was promised by calls, if no epoch has done so since."""
        with self.lock:
            before = self.ledger.latest
            kept = {n: q for n, q in before.queries.items() if n not in self._released}
            sources = before.sources if before.finished else self.promises.kept(before.sources)
            if len(kept) < len(before.queries) or sources != before.sources:
                self.ledger.commit(after(before, (), queries=kept, sources=sources))

    def queries(self) -> list[Query]:
        return list(self._queries.values())

    def missing(self) -> list[str]:
        """The queries that the storage knows and that were neither added again nor dropped."""
        with self.lock:
            return sorted(set(self.ledger.latest.queries) - set(self._queries) - self._released)

    def unclaimed(self) -> Diagnostic | None:
        """Why no epoch can begin, if none can."""
        return unclaimed(names) if (names := self.missing()) else None

    def result(self, name: str) -> Result:
        """The answer of a query as far as it is final."""
        return self.answer(self.query(name))

    def answer(self, query: Query) -> Result:
        """The answer of a query as far as it is final, also after the query has left."""
        query = self.now(query)
        return Result(
            lambda: self.spark,
            self.storage,
            query.name,
            query.schema,
            self.time_type(query.plan),
            lambda: parts_of(self.now(query).known, self.ledger.parts),
            lambda: self._counted(query),
            query.known.nothing_missing,
            query.key,
            horizon=lambda: self.ledger.horizon,
            width=self.width,
            instants=query.instants and all(t.same for t in query.known.before),
            selection=None if query.as_one is None else selection(query.as_one),
            measured=lambda: self.figures.metrics,
            settings=lambda: in_force(self.ledger.settings),
        )

    def now(self, query: Query) -> Query:
        """A query as it runs."""
        return self._folded.get(query.known.owner, query)

    def _counted(self, query: Query) -> Manifest:
        """What counts of a query: all, or, if it has left, what did then."""
        upto, latest = self._ended.get(query.known.owner), self.ledger.latest
        return latest if upto is None else replace(latest, upto=upto)

    @property
    def width(self) -> int:
        """How many ticks an instant has: more than one where streams have batches."""
        return max((d.width for d in self.definitions.values()), default=1)

    def time_type(self, plan: Node) -> Type | None:
        used = (self.definitions[s] for s in sorted(source_names({"": plan})))
        return next((d.time_type for d in used if d.time_type is not None), None)

    def streams(self) -> list[str]:
        """The streams that the queries read, without tables."""
        definitions = self.definitions
        return sorted(n for n in self._neighbours.together.sources if not definitions[n].table)

    def query(self, name: str) -> Query:
        """The query of a name that runs."""
        if name not in self._queries:
            raise Diagnostic(
                "UNKNOWN_QUERY",
                f"there is no query '{name}'",
                help=did_you_mean(name, list(self._queries), "queries"),
            )
        return self._queries[name]

    def _ready(self) -> Physical:
        if self._physical is None:
            plans = [q.whole for q in self._queries.values()]
            self._physical = physical(united(plans, self.ledger.latest.columns), self.functions)
        return self._physical

    # Epochs.

    def advance(self, rows: Mapping[str, Any], upto: int | None = None) -> Manifest:
        """One epoch by hand, on rows given by stream; without rows, time passes up to what is known."""
        with self.lock:
            frames = [read_recorded(self.spark, self._given(n), data) for n, data in rows.items()]
            batch = combine(frames) if frames else None
            return self.epoch(batch, None, upto)

    def promise(self, name: str, instant: int | datetime | str) -> None:
        """No row of a stream before this instant will come: known from the next epoch on."""
        with self.lock:
            stream = self._given(name)
            tick = widened(ticks_of(instant, moments=stream.time_type == TIMESTAMP), stream.width)
            if tick >= MAX - stream.width:
                raise Diagnostic(
                    "INVALID_INSTANT",
                    f"{instant} is the end of time: no row of '{name}' could come any more",
                    help="finish() makes every answer final",
                )
            self.promises.say(name, tick)

    def refuse(self, files: Iterable[Refused]) -> None:
        """Files that were set aside: told with the next epoch."""
        with self.lock:
            self._aside += files

    def finish(self) -> Manifest:
        """The last epoch: no source says anything more, so everything that waits becomes final."""
        with self.lock:
            return self.epoch(None, None, MAX)

    def epoch(
        self,
        batch: Batch | None,
        batch_id: int | None,
        upto: int | None = None,
        known: Checkpoint | None = None,
        taken: Mapping[str, Taken] | None = None,
    ) -> Manifest:
        """Run one epoch and commit it. A numbered batch that is committed already is skipped, whoever replays it; files that were
        `taken` for a batch without a number are named in the manifest."""
        with self.lock:
            self.hold()
            before = self.ledger.latest
            if batch_id is not None and batch_id <= before.batch:
                self.deliver()
                return before
            if batch_id is not None and batch_id > before.batch + 1:
                raise self.storage.damaged("manifests", f"ends before batch {batch_id - 1}, which counted")
            if before.finished:
                raise Diagnostic("FINISHED", "the run is finished: its last epoch reached the end of time")
            if (problem := self.unclaimed()) is not None:
                raise problem
            started = self._clock()
            self._release()
            repartition(self.spark, self._ready(), self.ledger, self.partitions, self._queries)
            before = self.ledger.latest
            done = self._run(before, batch, upto, taken)
            upto, messages = done.upto, done.messages
            now = self._clock()
            manifest = after(
                before,
                messages,
                upto=upto,
                batch=before.batch if batch_id is None else batch_id,
                partitions=self.partitions,
                queries={q.name: q.known for q in self._queries.values()},
                views=written(v for q in self._queries.values() for v in q.kept_plans),
                sources=done.sources,
                horizon=self._horizon(before.horizon, upto),
                layout=self._ready().layout,
                columns=disputed((q.whole for q in self._queries.values()), self._ready().plan),
                logs={} if self._renews(before) else before.logs,
                checkpoint=known or before.checkpoint,
                taken=before.taken if taken is None else {n: t.names for n, t in taken.items()},
                taken_at=before.taken_at if taken is None else (before.upto, done.clock),
            )
            self.ledger.commit(manifest)
            self._aside, self._left = [], []
            self._places = self._ready().places
            self._note(before, done, started, now)
            with self.committed:
                self.committed.notify_all()
            self.deliver()
            self._tidy()
            self.reconsider()
            return manifest

    def _note(self, before: Manifest, done: _Done, started: float, now: float) -> None:
        """What an epoch that counted took and did, for figures and for the choice of where the next one runs."""
        pace = EpochPace.of(started, now, done.rows, before, done.sources, done.upto)
        self._pace.passed(pace, (before.epoch + 1, done.upto, self.width), self._ready(), done.messages)
        synchronized = {q.name: q.plan for q in self._queries.values() if q.synchronized}
        self._pace.pass_points(synchronized, self._instant(before.upto), self._instant(done.upto))
        if not catching_up(self._queries.values(), before):
            self.epochs.learn(done.place, done.rows, now - started)
        self._publish()

    @property
    def rests(self) -> bool:
        """Whether an epoch without rows would change nothing."""
        with self.lock:
            before, streams = self.ledger.latest, {n: self.definitions[n] for n in self.streams()}
            if self._aside or self.changes:
                return False
            sources = self.promises.progress(streams, before.sources, {}, self.wall())
            return self.promises.watermark(streams, sources, self.width) <= before.upto

    def _horizon(self, before: int, upto: int) -> int:
        if self.retention is None or upto in (MIN, MAX):
            return before
        return max(before, add(upto, -self.retention))

    def _tidy(self) -> None:
        """Keep the number of files flat; answers stay, except those that are older than the retention."""
        if self.deliveries.away:
            return  # what a sink has not got yet must stay as it is
        horizon, ledger, merging = None, self.ledger, self.merging
        if self.retention is not None and ledger.latest.horizon != MIN:
            horizon = ledger.latest.horizon
            ledger.forget_before(horizon, merging.files)
            ledger.settings = still_needed(ledger.settings, self._plans, self._instant(horizon))
        merging.tidy(ledger, horizon, self.files_limit)

    def _run(
        self, before: Manifest, batch: Batch | None, upto: int | None, taken: Mapping[str, Taken] | None
    ) -> _Done:
        """The epoch up to `upto`, or (None) to what the sources promise with its rows."""
        graph, past = self._ready(), catching_up(self._queries.values(), before)
        job = Job(
            self.spark,
            graph,
            self.partitions,
            self.storage,
            before.epoch + 1,
            before.upto,
            before.logs,
            renew=self._renews(before),
            beginning=self._beginning(before),
            settings=in_force(self.ledger.settings, MIN if past else self._instant(before.upto)),
        )
        streams = {n: self.definitions[n] for n in self.streams()}
        # What has come in days is not gathered in this process.
        places = Places("spark") if past else self.epochs
        now = self.wall()
        gathering = Gathering(job, streams, places, now)
        first = FirstRows(self.spark, self.definitions, self.tables, self.past).of(
            job, self._queries.values(), before
        )
        came = gathering.came(first, batch, taken or {})
        sources = self.promises.progress(streams, before.sources, came.seen, now)
        if upto is None:
            upto = self.promises.watermark(streams, sources, self.width)
        upto = max(before.upto, upto)
        if came.place == "driver":
            messages = job.run_here(came.rows, upto, came.read)
        else:
            messages = job.run(came.frames, upto)
        if self._aside:
            messages.append(
                quarantined(self.storage, before.epoch + 1, (before.upto, upto), "files", self._aside)
            )
        stop_at_refused(self.spark, self.definitions, messages)
        return _Done(came.place, upto, sources, came.count, messages, now)

    def _beginning(self, before: Manifest) -> Beginning:
        """What begins with this epoch beside what runs, and so has to be told what that shows."""
        if before.queries.keys() == self._queries.keys() and all(
            q.has_run(before) for q in self._queries.values()
        ):
            return Beginning()
        running, together = self._running(), self._ready().plan
        answers = set(together.answers.values()) - set(running.answers.values())
        return Beginning(
            beginners(running, together),
            frozenset(answers.intersection([*running.inputs, *running.operators])),
        )

    def _renews(self, before: Manifest) -> bool:
        """Whether somebody who keeps state has left its wave, or begins anew: then logs do, without what nobody runs any more."""
        ready, begin = self._ready(), self._beginning(before).readers
        if self._places is None:
            return bool(before.logs) and (before.layout != ready.layout or bool(begin))
        return any(ready.places.get(id_) != wave or id_ in begin for id_, wave in self._places.items())

    def _given(self, name: str) -> StreamDefinition:
        definition = stream_named(self.definitions, name)
        handed = replace(definition.source, function="memory")
        return replace(definition, source=handed, entered=self.wall())

    # Sinks.

    def deliver(self) -> None:
        """Bring every sink up to the last committed epoch."""
        for query in self._queries.values():
            if query.sinks:
                self.deliveries.bring(query.sinks, query.known.owner, self.answer(query), self.ledger)

    def sinks_behind(self) -> dict[str, list[dict[str, Any]]]:
        """The sinks that fail, by query."""
        told = {
            n: self.deliveries.status(q.sinks, q.known.owner, self.ledger) for n, q in self._queries.items()
        }
        return {name: sinks for name, sinks in told.items() if sinks}

    # Figures.

    def _publish(self) -> None:
        pace = self._pace
        self.figures = Figures(
            self.ledger.latest, tuple(pace.epochs[-20:]), self._queries, pace.activities, pace.metrics, dict(pace.points), self.width
        )  # fmt: skip
        """What was true after the last epoch; a value that is replaced, never changed."""

    def status(self) -> dict[str, Any]:
        """Where the graph was after its last epoch; never waits for the one that runs."""
        return self.figures.status()

    def _instant(self, tick: int) -> int:
        return tick if tick in (MIN, MAX) else tick // self.width

    @property
    def last_tasks(self) -> list[WaveReport]:
        """What the tasks of the last epoch reported: rows, and seconds by part of the work."""
        return [m for m in self._pace.tasks if isinstance(m, WaveReport)]
