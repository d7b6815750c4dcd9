"""A graph that runs by itself: queries come and go, rows are handed in, epochs are begun by a drive (`runtime.drives`)."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from tidegate.algebra.operators import Node
from tidegate.connectors.memory import arrow_rows, refused_rows, stamped_rows
from tidegate.connectors.registry import SOURCES
from tidegate.connectors.sinks import Sink
from tidegate.connectors.sources import RawStream, read_live
from tidegate.errors import Diagnostic, foreign
from tidegate.language.base_definitions import check_call
from tidegate.language.catalog import StreamDefinition
from tidegate.redaction import masked
from tidegate.runtime.beginnings import not_kept
from tidegate.runtime.drives import DirectDrive, Drive, StructuredDrive, live_session
from tidegate.runtime.file_gate import FileGate, gate_of
from tidegate.runtime.graph import LiveGraph
from tidegate.runtime.inboxes import Inbox
from tidegate.runtime.jobs import BrokenFileError, source_names
from tidegate.runtime.ledger import SourceProgress
from tidegate.runtime.managing import Manager
from tidegate.runtime.notes import EVERY, Note, write_note
from tidegate.runtime.polling import Polled
from tidegate.runtime.queries import Joining, Query
from tidegate.runtime.query_table import State
from tidegate.runtime.refusals import report
from tidegate.runtime.results import Result
from tidegate.spark.context import part_done
from tidegate.storage import name_in_path

LOG = logging.getLogger("tidegate")
PATIENCE = 5.0
"""Seconds that a resumed graph waits for the queries that ran in it before until it says so."""


class LiveRun:
    """A graph that runs by itself: started, watched, stopped, and resumed on the same storage."""

    def __init__(self, graph: LiveGraph, every: float | None = None) -> None:
        self.graph = graph
        self._asked_pace = every
        self.every = DirectDrive.pace if every is None else every
        """Seconds from one epoch to the next."""
        self.structured = False
        """Whether Spark feeds the graph, though inboxes would do."""
        self.manager: Manager | None = None
        """Keeps the graph within budgets, after each epoch."""
        self._spark = live_session(graph.spark)
        self._drive: Drive | None = None
        self._reading: tuple[str, ...] = ()
        self._life = threading.RLock()
        self._waiting: threading.Timer | None = None
        self.failure: Diagnostic | None = None
        """What ended the run, if it has a name."""
        self._polled: dict[str, Polled] = {}
        self._gates: dict[str, FileGate] = {}
        self._reported: Mapping[str, SourceProgress] = {}
        self._noted = 0.0
        """When the last note was left, by a clock that only runs on."""
        graph.past = self._past

    # Life.

    def begin(self) -> None:
        """Start as soon as all queries that the storage knows are here again; say which are not when patience ends."""
        with self._life:
            if not self.graph.missing():
                self.start()
            elif self._waiting is None:
                self._waiting = threading.Timer(PATIENCE, self._tell)
                self._waiting.daemon = True
                self._waiting.start()

    def _tell(self) -> None:
        with self._life:
            self.failure = self.graph.unclaimed() if self._waiting is not None else None
            if self.failure is not None:
                LOG.warning("%s", self.failure)

    def _wait_no_more(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _claimed(self) -> None:
        self._wait_no_more()
        if (unclaimed := self.graph.unclaimed()) is not None:
            raise unclaimed

    def start(self) -> None:
        """Begin, or go on where the storage says."""
        self._claimed()
        drive = self._made()
        self.every = drive.pace if self._asked_pace is None else self._asked_pace
        self._note("running")
        self.graph.deliveries.patient = True
        drive.start(self.every)

    def drain(self) -> None:
        """Take in what the sources hold now, epoch by epoch, and return."""
        self._claimed()
        if self._drive is not None:
            # Waiting for epochs that go on by themselves would never end.
            self._halt()
            self.drain()
            self.start()
            return
        self.graph.deliveries.patient = False
        try:
            self._made().drain()
        finally:
            self._drive = None
        for name, polled in self._polled.items():
            if polled.away is not None:
                raise Diagnostic(
                    "SOURCE_AWAY",
                    f"the source of '{name}' cannot be reached: {polled.away.error}",
                    help="its rows are taken in when it is back; nothing is lost until then",
                )

    def stop(self, settled: bool = True) -> None:
        """Stop after the current epoch and let go of the directory; nothing is lost, a later start goes on.

        Not `settled`: it never began, so no query ends for good that was to end with it.
        """
        self._halt(settled)
        if settled and self._noted and self.failure is None:
            self._note("stopped")
        self.graph.release()

    def _halt(self, settled: bool = True) -> None:
        self._wait_no_more()
        drive, self._drive = self._drive, None
        if drive is not None:
            drive.stop()
        for polled in self._polled.values():
            polled.close()
        if settled:
            self.graph.settle()

    def report(self) -> None:
        """Say in the log what was refused so far; once."""
        sources = self.graph.ledger.latest.sources
        if sources != self._reported:
            self._reported = sources
            report(sources, self.graph.storage)

    def finish(self) -> None:
        """Take in what is there, stop, and make everything final."""
        self._halt()
        self.drain()
        self.graph.finish()
        self.graph.release()

    @property
    def trouble(self) -> Diagnostic | None:
        """What ended the run, in an epoch or outside of one."""
        drive = self._drive
        problem = None if drive is None else drive.problem
        return self.failure or (None if problem is None else foreign(problem))

    @property
    def condition(self) -> State:
        """Whether its queries run, wait (for others, or until the program lets time pass), have failed, or have come to their end."""
        if self._waiting is not None:
            return "waiting"
        if self.trouble is not None:
            return "failed"
        if self.is_active:
            return "running"
        return "stopped" if self.graph.figures.manifest.finished else "waiting"

    @property
    def is_active(self) -> bool:
        return self._waiting is not None or (self._drive is not None and self._drive.is_active)

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for the end (or some seconds); True if the run has ended. Its failure is raised here."""
        waiting = self._waiting
        if waiting is not None:
            waiting.join(seconds)
        if self._waiting is not None:
            if self.failure is not None:
                raise self.failure
            return False
        with self._life:  # a timer may be starting the drive
            drive = self._drive
        return drive is None or drive.wait(seconds)

    # Queries.

    def add(self, name: str, plan: Node, sinks: Sequence[Sink] = (), joining: Joining | None = None) -> Query:
        """Add a query between two epochs. A source that is not read yet is joined to the stream.

        What can be refused (rows that do not fit, a source that cannot be read) is tried before the query counts.
        """
        joining = joining or Joining()
        with self._life:
            rows = self._first_rows(name, plan, joining)
            known = name in self.graph.ledger.latest.queries
            query = self.graph.add(name, plan, sinks, joining)
            runs = self._drive is not None
            try:
                for stream, encoded in rows.items():
                    self._publish(stream, encoded)
                self._join()
            except BaseException:
                (self.graph.withdraw if known else self.graph.drop)(name)
                if runs and self._drive is None:
                    self.start()
                raise
            return query

    def _first_rows(self, name: str, plan: Node, joining: Joining) -> dict[str, bytes]:
        """The first rows of streams that are not read yet; sources that cannot be read are refused."""
        read = source_names({name: plan}) - set(self.graph.streams())
        fresh = [d for n, d in joining.definitions.items() if n in read and not d.table]
        rows = {
            d.name: self._encoded(d, joining.data[d.name]) for d in fresh if self._is_new(d, joining.data)
        }
        for definition in fresh:
            if definition.source.function != "memory":
                self._try(definition)
        return rows

    def change(self, name: str, plan: Node, same: bool, joining: Joining) -> Query | None:
        """Let another plan answer a query between two epochs: see `LiveGraph.change`."""
        with self._life:
            rows = self._first_rows(name, plan, joining)
            query = self.graph.change(name, plan, same, joining)
            for stream, encoded in rows.items():
                self._publish(stream, encoded)
            self._join()
            return query

    def _try(self, definition: StreamDefinition) -> None:
        """Refuse a source that cannot be read."""
        self._gate(definition)
        if (inbox := self._inbox(definition)) is not None:
            inbox.rows(self._spark, self.graph.wall())
        else:
            self._source(definition)

    def _join(self) -> None:
        """Read what the queries read: begin, or begin again if there is a source more."""
        if self._waiting is not None:
            self.begin()
        elif self._drive is not None and not set(self.graph.streams()) <= set(self._reading):
            self._halt()
            self.start()

    def _is_new(self, definition: StreamDefinition, data: Mapping[str, Any]) -> bool:
        """Whether the first rows of a `memory` stream are still to be handed in: nothing was read of it, nothing waits or was taken."""
        name = name_in_path(definition.name)
        return (
            definition.source.function == "memory"
            and data.get(definition.name) is not None
            and definition.name not in self.graph.ledger.latest.sources
            and not any(self.graph.storage.names(f"{place}/{name}") for place in ("inbox", "taking"))
        )

    def drop(self, name: str) -> None:
        with self._life:
            self.graph.drop(name)
            if self._waiting is not None:
                self.begin()

    def result(self, name: str) -> Result:
        return self.graph.result(name)

    def status(self) -> dict[str, Any]:
        """The graph's figures, and whether it runs; of queries that catch up, which part they have."""
        found = self.graph.status()
        part = part_done(self._spark) if found["catching_up"] else 0.0
        return {
            **found,
            "catching_up": dict.fromkeys(found["catching_up"], part),
            "files": {name: gate.status() for name, gate in self._gates.items()},
            "away": {n: p.away.status() for n, p in self._polled.items() if p.away is not None},
            "sinks": self.graph.sinks_behind(),
            "running": self.is_active,
            "resources": None if self.manager is None else self.manager.status(),
            "waiting_for": self.graph.missing() if self._waiting is not None else [],
            "failure": None if (failure := self.trouble) is None else masked(str(failure)),
        }

    def push(self, name: str, rows: Any) -> None:
        """Hand rows to a `memory` source; they appear whole."""
        definition = self.graph.definitions[name]
        if definition.source.function != "memory":
            raise Diagnostic(
                "NOT_MEMORY", f"'{name}' reads from {definition.source.function}; rows cannot be handed in"
            )
        self._publish(name, self._encoded(definition, rows))

    def refuse(self, name: str, refused: Sequence[tuple[str, str]]) -> None:
        """Put what is no row of a `memory` source (its text, and the reason) into the stream's quarantine, with the next epoch."""
        definition = self.graph.definitions[name]
        self._publish(name, self._written(definition, refused_rows(definition, refused)))

    def _encoded(self, definition: StreamDefinition, rows: Any) -> bytes:
        return self._written(definition, arrow_rows(definition, rows))

    def _written(self, definition: StreamDefinition, table: pa.Table) -> bytes:
        sink = pa.BufferOutputStream()
        pq.write_table(stamped_rows(table, self.graph.wall()) if definition.stamped else table, sink)
        return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]

    def _publish(self, name: str, rows: bytes) -> None:
        file = f"{time.time_ns():020d}-{uuid.uuid4().hex[:8]}.parquet"
        self.graph.storage.publish(f"inbox/{name_in_path(name)}/{file}", rows)

    # What a drive needs.

    def _made(self) -> Drive:
        """A drive for what the queries read now."""
        if self._drive is not None:
            raise Diagnostic("RUNNING", "the graph is running already")
        self.failure = None
        self.graph.hold()
        names = self._reading = tuple(self.graph.streams())
        for name in names:
            self._gate(self.graph.definitions[name])
        self._polled = {
            n: self._polled.get(n) or self._asked(n)
            for n in names
            if SOURCES.named(self.graph.definitions[n].source).polled
        }
        inboxes = self._inboxes()
        begun = self.structured or self.graph.ledger.latest.batch >= 0
        if begun or len(inboxes) < len(names):
            self._drive = StructuredDrive(self, self._spark, self._structured)
        else:
            self._drive = DirectDrive(self, self._spark, inboxes)
        return self._drive

    def _inboxes(self) -> dict[str, Inbox]:
        """The inboxes of the streams that have one."""
        found = {name: self._inbox(self.graph.definitions[name]) for name in self._reading}
        return {name: inbox for name, inbox in found.items() if inbox is not None}

    def _inbox(self, definition: StreamDefinition) -> Inbox | None:
        """Where a stream's files wait; None: Spark alone follows it."""
        source, gate = SOURCES.named(definition.source), self._gates.get(definition.name)
        if self.graph.storage.local is None or (gate is None and not source.inbox):
            return None
        return Inbox(self.graph.storage, definition, source, gate)

    def _past(self, name: str) -> DataFrame | None:
        """The rows of a stream that have counted, read again."""
        latest = self.graph.ledger.latest
        inbox = self._inbox(self.graph.definitions[name]) if latest.batch < 0 else None
        return not_kept(name) if inbox is None else inbox.past(self._spark, latest)

    def ready(self) -> None:
        """Before an epoch: whether what Spark alone follows may still be read (links may have come), and which files are gone."""
        for gate in self._gates.values():
            self.graph.refuse(gate.gone(self.graph.ledger.latest.checkpoint.logs))
        for name in set(self._reading) - set(self._gates):
            _recheck(self.graph.definitions[name])

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Spark passes on the text of an exception only."""
        try:
            yield
        except Exception as problem:
            self.failure = foreign(problem)
            with suppress(Exception):  # what has failed is told, not that there is no room to note it
                self._note("failed")
            raise self.failure from problem
        if self.manager is not None:
            self.manager.look()
        if time.monotonic() - self._noted >= EVERY:
            self._note("running")

    def _note(self, state: str) -> None:
        """Tell those who look at the directory."""
        self._noted = time.monotonic()
        tables = tuple(sorted(n for n, d in self.graph.definitions.items() if d.table))
        failure = None if self.failure is None else masked(str(self.failure))
        write_note(self.graph.storage, Note.of(self.graph.figures, state, failure, tables))

    def look(self) -> bool:
        """Ask the sources that are asked for their rows, let in files; whether one that was asked had something."""
        for gate in self._gates.values():
            self.graph.refuse(gate.look())
        found = sum(polled.advance() for polled in self._polled.values()) > 0
        for name, polled in self._polled.items():
            if (instant := polled.promised) is not None:
                self.graph.promises.say(name, instant * self.graph.definitions[name].width)
        return found

    def set_aside(self, problem: BrokenFileError) -> None:
        """Take out a file that cannot be read."""
        broken = [g.set_aside(problem.file, problem.why) for g in self._gates.values()]
        found = [b for b in broken if b is not None]
        if not found:
            raise problem
        self.graph.refuse(found)

    def _asked(self, name: str) -> Polled:
        definition, known = self.graph.definitions[name], self.graph.ledger.latest.sources.get(name)
        begun = known is not None and known.rows > 0
        return Polled(self.graph.storage, definition, SOURCES.named(definition.source), begun)

    def _structured(self) -> list[RawStream]:
        """The streams as Spark follows them."""
        for inbox in self._inboxes().values():
            inbox.discard(self.graph.ledger.latest)
            inbox.give_back()
        return [self._source(self.graph.definitions[n]) for n in self._reading]

    def _gate(self, definition: StreamDefinition) -> None:
        source = SOURCES.named(definition.source)
        if definition.name not in self._gates and (gate := gate_of(self.graph.storage, definition, source)):
            self._gates[definition.name] = gate
        if definition.name in self._gates:
            self.graph.refuse(self._gates[definition.name].look(starting=True))

    def _source(self, definition: StreamDefinition) -> RawStream:
        if definition.name in self._gates:
            return self._gates[definition.name].rows(self._spark)
        _recheck(definition)
        inbox, source = None, SOURCES.named(definition.source)
        if source.inbox:
            folder = f"inbox/{name_in_path(definition.name)}"
            inbox = self.graph.storage.path(folder)
            self.graph.storage.make_folder(folder)
        return read_live(self._spark, definition, inbox)


def _recheck(definition: StreamDefinition) -> None:
    """Whether what Spark alone follows may still be read: links may have come."""
    call = definition.source
    if call.policy.read is not None:
        check_call(call, "source", SOURCES.named(call), call.policy)
