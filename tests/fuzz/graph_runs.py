"""Plays queries that come and go in a running graph through its waves and partitions, as the runtime does, without a JVM."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from tests.fuzz.choices import settings_for
from tests.fuzz.partition_runs import EARLY, Partitioned
from tests.fuzz.players import frames
from tidegate.algebra import operators as op
from tidegate.kernels.rows import Frame, from_rows, to_rows
from tidegate.optimizer.views import Reading, Views
from tidegate.physical.joining import Company, beginners
from tidegate.physical.lowering import Program, joined_to
from tidegate.physical.plan import Input, OperatorRows, Plan, SourceRows, disputed, united
from tidegate.reference.snapshots import PhysicalRow, Source
from tidegate.runtime.answering import Answer, begun, written
from tidegate.runtime.beginnings import Others, joined
from tidegate.runtime.ledger import KnownQuery, Manifest, SourceProgress
from tidegate.runtime.migration import label, taken_over, turns_after
from tidegate.time import MAX, MIN
from tidegate.worker.segments import WAITING, settled
from tidegate.worker.tasks import _hold


@dataclass(frozen=True)
class Member:
    """A query of the graph."""

    root: op.Node
    physical: Plan
    known: KnownQuery
    leaving: tuple[Member, ...] = ()
    """The query as it was planned before."""

    @property
    def boxes(self) -> tuple[Member, ...]:
        return (self, *self.leaving)


def boxes(members: Mapping[str, Member]) -> list[Member]:
    return [box for m in members.values() for box in m.boxes]


def clipped(rows: list[PhysicalRow], low: int, high: int) -> list[PhysicalRow]:
    """Rows as far as they count from one instant to another."""
    ends = ((e, max(ts, low), min(te, high), n) for e, ts, te, n in rows)
    return [r for r in ends if r[1] < r[2]]


class GraphRun(Partitioned):
    """A graph of queries over some sources."""

    def __init__(
        self,
        sources: Mapping[str, Source],
        partitions: int,
        functions: Mapping[str, Any],
        unit: int,
        width: int,
    ) -> None:
        self.sources, self.partitions, self.functions = sources, partitions, functions
        self.instant, self.width = unit * width, width
        self.since, self.number = MIN, 0
        self.members: dict[str, Member] = {}
        self.settled: dict[str, Member] = {}
        self.columns: Mapping[str, tuple[int, ...]] = {}
        self.rows: dict[str, list[PhysicalRow]] = {}
        """What operators have answered, by operator."""
        self.newest: dict[str, int] = {}
        self.read: dict[str, int] = {}
        """Up to where the rows of each stream have come."""
        self.states, self.programs = {}, {}
        self.readings: list[Reading] = []

    @property
    def running(self) -> Plan:
        return united((b.physical for b in boxes(self.settled)), self.columns)

    def _company(self) -> tuple[Manifest, Company, Others]:
        together = united(b.physical for b in boxes(self.members))
        company = Company(together, self.running, lambda id_: id_ in self.rows)
        progress = {n: SourceProgress(newest=t) for n, t in self.newest.items()}
        before = Manifest(self.number, self.since, sources=progress)
        return before, company, [(b.physical, b.known) for b in boxes(self.settled)]

    def add(self, name: str, root: op.Node) -> Member:
        before, company, others = self._company()
        views = Views({n: m.root for n, m in {**self.settled, **self.members}.items()})
        answer, known = joined(name, root, self.functions, before, company, others, self.width, views)
        self._check_restart(name, root, answer, known)
        self.readings += answer.readings
        self.members[name] = Member(answer.runs, answer.physical, known)
        return self.members[name]

    def _check_restart(self, name: str, root: op.Node, answer: Answer, known: KnownQuery) -> None:
        """What a restart plans is what runs."""
        kept = json.loads(json.dumps(written(answer.views)))
        again = begun(name, root, self.functions, known, kept).physical
        assert again.answers == answer.physical.answers
        assert again.operators.keys() == answer.physical.operators.keys()

    def migrate(self, name: str, root: op.Node) -> bool:
        """Let another plan answer a query that has run; whether it can."""
        before, company, others = self._company()
        old = self.settled[name]
        found = taken_over(
            name,
            root,
            self.functions,
            before,
            company,
            others,
            self.width,
            (old.root, old.physical, old.known),
        )
        if found is None:
            return False
        answer, known, until = found
        self._check_restart(name, root, answer, known)
        called = {label(name, old.known): old.known.answer}
        box = replace(old, leaving=(), physical=replace(old.physical, answers=called))
        turns = turns_after(old.known, replace(old.known, before=()), until, same=True)
        self.members[name] = Member(
            answer.runs, answer.physical, replace(known, before=turns), (*old.leaving, box)
        )
        return True

    def release(self) -> None:
        """Plans whose instants have passed are not run any more."""
        for name, m in self.members.items():
            until = {t.plan.answer: t.until for t in m.known.before}
            left = tuple(b for b in m.leaving if until[b.known.answer] > self.since)
            self.members[name] = replace(m, leaving=left)

    def drop(self, name: str) -> None:
        del self.members[name]

    def answer(self, member: Member) -> list[PhysicalRow]:
        """The rows of a query's answer, of each plan those of its turn."""
        found, low = [], MIN
        for turn in member.known.before:
            found += clipped(self.rows.get(turn.plan.answer, []), low, turn.until)
            low = turn.until
        return [*found, *clipped(self.rows.get(member.known.answer, []), low, MAX)]

    def graph_epoch(self, upto: int) -> None:
        self.release()
        whole = united((b.physical for b in boxes(self.members)), self.columns)
        running = self.running
        self.beginners = beginners(running, whole)
        ran = {*running.inputs, *running.operators}
        self.fresh_answers = {
            a for a in whole.answers.values() if a in ran and a not in running.answers.values()
        }
        self.change(whole)
        limit = MAX if upto == MAX else upto + EARLY * self.instant
        come: dict[str, Frame] = {}
        for member in boxes(self.members):
            for leaf, rows in frames(member.root, self.sources).items():
                # Of a stream that nobody has read, or not for a while, rows before the watermark are late.
                seen = max(self.read.get(leaf, self.since), self.since)
                come[leaf] = rows.filter((pl.col("ts") >= seen) & (pl.col("ts") < limit))
        self.tables = {
            leaf: rows
            for m in boxes(self.members)
            for leaf, rows in frames(m.root, self.sources).items()
            if rows.height and (rows["ts"] == MIN).all()
        }
        self.shown: dict[str, list[Frame]] = {}
        self._waves(come, upto)
        for leaf, rows in come.items():
            name = leaf.removesuffix(" by arrival")
            if rows.height and leaf not in self.tables:
                self.newest[name] = max(self.newest.get(name, MIN), rows["ts"].max())  # type: ignore[type-var]
        self.read |= dict.fromkeys(come, limit)
        self.columns = disputed((b.physical for b in boxes(self.members)), whole)
        self.since, self.number = upto, self.number + 1
        self.settled = dict(self.members)

    def _step(
        self, w: int, program: Program, p: int, chunks: dict[str, Frame], upto: int
    ) -> dict[str, Frame]:
        state = self.states[w][p]
        waiting, due = _hold(dict(state[WAITING]), chunks, upto)
        origins = {
            i.origin.operator
            for i in self.physical.plan.inputs.values()
            if i.id in self.beginners and isinstance(i.origin, OperatorRows)
        }
        told = ({*origins, *self.fresh_answers} - self.beginners) & {*program.outputs}
        shown = program.standing(state, program.read_by(self.beginners) | told, self.since)
        after, out = program.step_all(state, due, upto, self.beginners, shown, settings=settings_for(program))
        self.states[w][p] = settled({**after, WAITING: waiting})
        found = dict(zip(program.outputs, out, strict=True))
        for id_ in origins & found.keys():
            self.shown.setdefault(id_, []).append(joined_to(shown.get(id_), found[id_]))
        schemas = {b.known.answer: b.root.schema for b in boxes(self.members)}
        for answer in schemas.keys() & found.keys():
            chunk = joined_to(shown.get(answer) if answer in self.fresh_answers else None, found[answer])
            # What begins in an epoch in which no time passes says at its end what it begins with.
            outside = (pl.col("ts") < self.since) | (pl.col("ts") >= max(upto, self.since + 1))
            assert chunk.filter(outside).is_empty()
            rows = zip(to_rows(chunk, schemas[answer]), chunk.select("ts", "te", "n").rows(), strict=True)
            self.rows.setdefault(answer, []).extend((e, *v) for e, v in rows)
        return found

    def _rows(self, entry: Input, come: Mapping[str, Frame], outputs: Mapping[str, list[Frame]]) -> Frame:
        origin = entry.origin
        begins = entry.id in self.beginners or self.number == 0
        if isinstance(origin, OperatorRows) and begins and origin.operator in self.shown:
            return super()._rows(entry, come, {**outputs, origin.operator: self.shown[origin.operator]})
        if isinstance(origin, SourceRows) and origin.scan is None:
            once = from_rows([()], (), [(self.since, MAX, 1)])
            return once if begins else once.clear()
        if isinstance(origin, SourceRows) and origin.scan is not None:
            leaf = origin.scan.leaf
            if leaf in self.tables:
                rows = self.tables[leaf].with_columns(ts=pl.lit(self.since, dtype=pl.Int64))
                return super()._rows(entry, {**come, leaf: rows if begins else rows.clear()}, outputs)
        return super()._rows(entry, come, outputs)
