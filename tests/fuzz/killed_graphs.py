"""A live graph that dies at every point of every commit and goes on from its files: the runtime's own graph, ledger and deliveries, in this process.

Epochs run in the driver, on rows that a stand-in for `Gathering` hands to the lanes, so there is no Spark. A kill is an exception that nobody catches at a point of `runtime.faults`: what was in memory is
thrown away, and another graph opens the directory. Each step (queries that come, go or change their plans, and an epoch) is tried until no point is left at which it
has not died.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import polars as pl

from tests.fuzz.partition_runs import Partitioned
from tests.fuzz.players import canonical, frames
from tests.fuzz.queries import Case
from tidegate.algebra import operators as op
from tidegate.kernels.rows import Frame, from_rows, to_rows
from tidegate.physical.plan import Birth, Input, SourceRows
from tidegate.reference.snapshots import PhysicalRow, Source, snapshot
from tidegate.runtime import faults
from tidegate.runtime.gathering import Came
from tidegate.runtime.graph import LiveGraph
from tidegate.runtime.inboxes import Taken
from tidegate.runtime.jobs import Job
from tidegate.runtime.ledger import Manifest
from tidegate.runtime.promises import Seen
from tidegate.runtime.queries import Query
from tidegate.runtime.results import Result
from tidegate.runtime.results_here import _clipped
from tidegate.storage import Storage
from tidegate.time import MAX, MIN
from tidegate.types import Row
from tidegate.worker.result_files import assure, read_section
from tidegate.worker.segments import WAITING, decode

EARLY = 3
"""Rows come up to so many instants before time has passed them."""


class KilledError(BaseException):
    """The process would be gone."""


class NeedsSparkError(Exception):
    """The case cannot be played here."""


class NoSpark:
    """Stands where a session would: whoever asks it has a case that only Spark can run."""

    conf: Mapping[str, str] = {}

    def __getattr__(self, name: str) -> Any:
        raise NeedsSparkError(name)


@dataclass(frozen=True)
class Handed(Taken):
    """Rows of a stream from one instant to another, under a name that the manifest keeps."""

    def __init__(self, names: tuple[str, ...], since: int, limit: int) -> None:
        super().__init__(names, (), lambda: NoSpark().rows)
        object.__setattr__(self, "bounds", (since, limit))


class HandedOut(Partitioned):
    """Stands where `FirstRows` and `Gathering` do: hands the rows of streams and tables to the lanes of the partitions, as files are read."""

    sources: Mapping[str, Source]
    functions: Mapping[str, Any]
    """The rows and functions of the case that is played."""

    def __init__(self, *given: Any) -> None:
        self.given = given

    def of(self, job: Job, queries: Iterable[Query], before: Manifest) -> Any:
        """The births of those that get tables in this epoch."""
        return [q.known.birth for q in queries if not q.has_run(before)]

    def came(self, births: Sequence[Birth], batch: Any, taken: Mapping[str, Any]) -> Came:
        job: Job = self.given[0]
        self.partitions, self.since = job.partitions, job.since
        read: dict[int, dict[int, Frame]] = {p: {} for p in range(job.partitions)}
        seen: dict[str, Seen] = {}
        for lane in job.physical.lanes:
            origin = lane.input.origin
            if not isinstance(origin, SourceRows):
                continue
            rows = from_rows([()], (), [(job.since, MAX, 1)])
            if origin.scan is not None:
                rows = frames(origin.scan, self.sources)[origin.scan.leaf]
            lasting = origin.scan is None or (rows.height and bool((rows["ts"] == MIN).all()))
            if lasting:
                rows = rows.with_columns(ts=pl.lit(job.since, dtype=pl.Int64))
                rows = rows if lane.input.birth in births else rows.clear()
            elif origin.name not in taken:
                rows = rows.clear()
            else:
                low, high = taken[origin.name].bounds
                rows = rows.filter((pl.col("ts") >= low) & (pl.col("ts") < high))
                newest = rows["ts"].max() if rows.height else None
                seen[str(origin.name)] = Seen(newest, rows.height)  # type: ignore[arg-type]
            parts = self._exchanged(lane.input, {"": rows}, {})
            for p, part in enumerate(parts):
                read[p][lane.number] = part.rename({"seq": "o0"}) if "seq" in part.columns else part
        return Came("driver", seen, read=read)

    def _rows(self, entry: Input, come: Mapping[str, Frame], outputs: Mapping[str, list[Frame]]) -> Frame:
        assert isinstance(entry.origin, SourceRows)
        if entry.origin.scan is None:
            return come[""]
        return super()._rows(entry, {entry.origin.scan.leaf: come[""]}, outputs)


Event = tuple[Row, int]


class AnswerHere(Result):
    """An answer whose changes are told without Spark."""

    def rows_here(self) -> list[PhysicalRow]:
        found: list[PhysicalRow] = []
        names = [*(f"c{i}" for i in range(len(self.schema))), "ts", "te", "n"]
        for part in self.parts():
            assure(self.storage, part.file, part.section)
            if part.section is None:
                rows = pl.read_parquet(self.storage.path(part.file), glob=False)
            else:
                s = part.section
                rows = read_section(self.storage, part.file, s.offset, s.length, s.checksum)
            if any(n not in rows.columns for n in names):
                raise NeedsSparkError("columns of no type")
            rows = _clipped(rows.select(names), part)
            ends = rows.select("ts", "te", "n").rows()
            found += [(e, *v) for e, v in zip(to_rows(rows, self.schema), ends, strict=True)]
        return found

    def delivered(self, form: str, low: int, high: int) -> Any:
        """The changes of [low, high): how often a row has come, or gone, at an instant."""
        assert form == "changes"
        found: Counter[Event] = Counter()
        for row, ts, te, n in self.rows_here():
            (shown,) = canonical([row])
            found[shown, ts] += n
            found[shown, te] -= n
        return {e: n for e, n in found.items() if n and low <= e[1] < high and e[1] != MAX}


class Graph(LiveGraph):
    """A graph whose answers are read without Spark."""

    def answer(self, query: Query) -> AnswerHere:
        found = super().answer(query)
        return AnswerHere(**{f.name: getattr(found, f.name) for f in fields(Result)})


@dataclass(frozen=True)
class Shelf:
    """A sink that has each epoch's changes in a file, which appears whole; one that came a second time would be an error."""

    folder: Path
    form: str = "changes"

    @property
    def place(self) -> str:
        return str(self.folder)

    def has(self, epoch: int) -> bool:
        return (self.folder / f"{epoch:08d}").exists()

    def write(self, epoch: int, changes: Any) -> None:
        assert not self.has(epoch), f"epoch {epoch} is delivered a second time"
        self.folder.mkdir(parents=True, exist_ok=True)
        part = self.folder / "part"
        part.write_bytes(pickle.dumps(changes))
        part.rename(self.folder / f"{epoch:08d}")

    def applied(self) -> list[PhysicalRow]:
        """The rows that whoever applies the changes has."""
        found = []
        for file in sorted(self.folder.glob("0*")) if self.folder.exists() else []:
            changes: dict[Event, int] = pickle.loads(file.read_bytes())
            found += [(row, ts, MAX, n) for (row, ts), n in changes.items()]
        return found


@dataclass
class Migration:
    """A plan that was replaced, and the points at which the graph died in the steps that matter to it."""

    name: str
    until: int
    deaths: dict[str, set[str]] = field(default_factory=dict)
    """The step in which the turn is committed, the one in which T passes, and the one that lets the old plan go."""

    @property
    def done(self) -> bool:
        return self.deaths.keys() == {"turn", "passing", "release"}


@dataclass(frozen=True)
class Step:
    """What happens before an epoch, and how far that goes."""

    upto: int
    starts: tuple[str, ...] = ()
    stops: tuple[str, ...] = ()
    changes: Mapping[str, op.Node] = field(default_factory=dict)


class KilledGraph:
    """Plays steps over the streams of a case, dying wherever it can."""

    def __init__(self, place: Path, cases: Mapping[str, Case], plans: Mapping[str, op.Node], partitions: int, files: int) -> None:  # fmt: skip
        self.place, self.cases, self.plans, self.partitions, self.files = (
            place,
            cases,
            plans,
            partitions,
            files,
        )
        self.case = next(iter(cases.values()))
        self.running: list[str] = []
        self.read: dict[str, int] = {}
        """Up to where the rows of each stream were handed in."""
        self.number, self.kills = 0, Counter[str]()
        self.migrations: list[Migration] = []
        self.started: Counter[str] = Counter()
        self.graph = self.opened()

    def opened(self) -> Graph:
        """A graph on what is on the disk, with the queries that ran."""
        known = {**self.case.catalog.functions, **self.case.catalog.aggregates}
        definitions = self.case.streams.definitions()
        graph = Graph(NoSpark(), Storage(f"{self.place}/state"), definitions, known, self.partitions, epochs="driver")  # type: ignore[arg-type]  # fmt: skip
        graph.files_limit = self.files
        self.graph = graph
        for name in self.running:
            graph.add(name, self.plans[name], (self.shelf(name),))
        return graph

    def shelf(self, name: str) -> Shelf:
        return Shelf(self.place / f"shelf {name} {self.started[name]}")

    def play(self, step: Step) -> None:
        """Try a step until it has died at each of its points."""
        self.number += 1
        before = self.graph.ledger.latest.upto
        for name in step.starts:
            self.started[name] += 1
        leaving = list(self.running)
        self.running = [n for n in (*leaving, *step.starts) if n not in step.stops]
        sources = sorted(
            {n.name for name in {*self.running, *leaving} for n in self.plans[name].walk() if isinstance(n, op.Scan)}
            | {n.name for p in step.changes.values() for n in p.walk() if isinstance(n, op.Scan)}
        )  # fmt: skip
        taken = {name: self.come(name, before, step.upto) for name in sources}
        died: set[tuple[str, int]] = set()
        fresh: dict[str, int] = {}
        while True:
            with self.dying(died) as alive:
                if died:
                    self.graph = self.opened()
                self.attempt(step, taken, fresh)
                self.graph.merging.wait()
                if self.graph.merging._problem is not None:
                    raise self.graph.merging._problem
            if alive:
                break
        for name in sources:
            self.read[name] = MAX if step.upto == MAX else step.upto + EARLY * self.case.streams.unit * self.case.width  # fmt: skip
        points = {point for point, _ in died}
        self.kills.update(point for point, _ in died)
        self.migrations += [Migration(n, t) for n, t in fresh.items()]
        self.migrations = [m for m in self.migrations if m.name not in step.stops or m.done]
        for m in (m for m in self.migrations if not m.done):
            if m.name in fresh and not m.deaths:
                m.deaths["turn"] = points
            # A plan whose instant has passed goes with the next epoch; one that can take over at once goes with the turn.
            if "passing" in m.deaths or m.until <= before:
                m.deaths.setdefault("passing", points)
                m.deaths["release"] = points
            elif m.until <= step.upto:
                m.deaths["passing"] = points
        self.check_disk()

    def come(self, name: str, since: int, upto: int) -> Taken:
        """The rows that a stream brings in this step."""
        limit = MAX if upto == MAX else upto + EARLY * self.case.streams.unit * self.case.width
        return Handed((f"{name} {self.number}",), max(self.read.get(name, since), since), limit)

    def attempt(self, step: Step, taken: Mapping[str, Taken], fresh: dict[str, int]) -> None:
        """What of a step has not happened yet, after a restart or without one."""
        graph = self.graph
        mine = {name for t in taken.values() for name in t.names}
        if mine.intersection(*[[n for names in graph.ledger.latest.taken.values() for n in names]]):
            graph.deliver()
            graph._tidy()
            return
        here = {q.name for q in graph.queries()}
        for name in step.stops:
            if name in {*here, *graph.missing()}:
                graph.drop(name)
        for name in step.starts:
            if name not in here:
                graph.add(name, self.plans[name], (self.shelf(name),))
        for name, plan in step.changes.items():
            until = self.changed(name, plan)
            if until is not None:
                fresh[name] = until
        read = {n for q in graph.queries() for n in q.sources}
        graph.epoch(None, None, step.upto, taken={n: t for n, t in taken.items() if n in read})

    def changed(self, name: str, plan: op.Node) -> int | None:
        """Let another plan answer a query, if one can and this was not done before the graph died; from which instant on it answers."""
        new = self.graph.change(name, plan)
        return None if new is None else new.known.before[-1].until

    @contextmanager
    def dying(self, died: set[tuple[str, int]]) -> Iterator[list[bool]]:
        """Die at the first point at which that has not happened in this step; true once there is none."""
        reached: Counter[str] = Counter()
        alive: list[bool] = []

        def die(point: str) -> None:
            reached[point] += 1
            # Who has died behind a manifest does not come to what follows it: every second step passes it.
            passes = point == "after manifest" and self.number % 2 == 1
            if (point, reached[point]) not in died and not passes:
                died.add((point, reached[point]))
                raise KilledError(point)

        faults.on_reach = die
        try:
            yield alive
            alive.append(True)
        except KilledError:
            # The system frees the lock of a process that is gone, and ends its threads.
            self.graph.merging.wait()
            self.graph.ledger.release()
        finally:
            faults.on_reach = None

    def check_disk(self) -> None:
        """Nothing is on the disk that no plan and no manifest of the last two epochs uses."""
        graph, ledger = self.graph, self.graph.ledger
        plan, latest = graph._ready().plan, ledger.latest
        # A graph that was opened anew after an instant had passed runs without the old plan; its state goes with the next epoch.
        settled = latest.layout == graph._ready().layout
        for segment in latest.segments() if settled else ():
            sections = decode(graph.storage.read_sealed(segment))
            left = {*sections, *sections.get(WAITING, ())} - {WAITING, *plan.operators, *plan.inputs}
            assert not left, f"{segment} holds what no query uses: {left}"
        state = {f"state/{n}" for n in graph.storage.names("state")}
        assert state <= {*latest.segments(), *ledger._previous}, state
        graph.merging.wait()
        results = {f"results/{n}" for n in graph.storage.names("results")} - {
            f.file for f in graph.merging._after
        }
        assert results <= {*(r.file for r in ledger.results), *ledger._replaced}, results

    def check_answer(self, name: str, upto: int) -> str | None:
        """Whether what a query has answered, and what its sink has got, is the reference's from when on nothing is missing."""
        query, case = self.graph.query(name), self.cases[name]
        known = query.known
        if known.nothing_missing is None:
            return None
        low = max(known.nothing_missing, known.first)
        answer = self.graph.answer(query).rows_here()
        got = self.shelf(name).applied()
        points = {low, *case.reference.change_points(case.plan), *(p for _, a, b, _ in [*answer, *got] for p in (a, b))}  # fmt: skip
        for t in sorted(p for p in points if low <= p < upto and p not in (MIN, MAX)):
            theirs = canonical(case.reference.snapshot(case.plan, t).elements())
            for who, rows in (("the answer", answer), ("the sink", got)):
                shown = snapshot(rows, t)
                if min(shown.values(), default=0) < 0 or canonical(shown.elements()) != theirs:
                    return f"{name} at {t}, {who}: {shown}, reference {theirs}"
        return None
