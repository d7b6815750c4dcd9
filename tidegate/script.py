"""Scripts: statements one after the other, where queries over the same recorded streams are run in one go.

A query over recorded data has no effect but its answer, so it may wait for those that follow: what they have in common is then read and computed
once. Answers are given, and sinks are written, in the order of the script, and what happens is what would have happened one by one:
a query waits only for others that cannot depend on what its sink gets.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from sqlglot import exp

from tidegate.connectors.file_sinks import FileSink
from tidegate.connectors.files import FileSource, path_of
from tidegate.connectors.registry import SOURCES
from tidegate.connectors.sinks import Sink
from tidegate.language import syntax
from tidegate.language.catalog import SourceCall, StreamDefinition
from tidegate.language.dialect import parse
from tidegate.query import Progress, Query, run_together
from tidegate.runtime.results import Result
from tidegate.runtime.results_here import snapshot_here
from tidegate.spark.values import quote
from tidegate.types import Schema

MOST = 32
"""So many queries are run in one go."""


def needs_spark(statement: exp.Expression) -> bool:
    """Whether a statement is sure to need Spark, which can then be started ahead. Small recorded queries do without."""
    definitions = (syntax.CreateBase, syntax.CreateView, syntax.DropDefinition, syntax.SetOption)
    asked = (syntax.AsOf, syntax.Verify, syntax.Explain, exp.Query)
    shown = (syntax.ShowDefinitions, syntax.DescribeDefinition)
    return not isinstance(statement, (*definitions, *asked, *shown))


def complete(result: Result, here: bool) -> Any:
    """The latest complete answer: a DataFrame, or an Arrow table where it is only to be shown and needs no Spark."""
    rows = snapshot_here(result, result.latest_tick()) if here else None
    return result.latest() if rows is None else rows


class Host(Protocol):
    """What a script needs of its session."""

    here: bool

    def execute(self, statement: exp.Expression, text: str, progress: Progress | None = None) -> Any: ...

    def bound_query(self, statement: exp.Expression, text: str) -> Query: ...

    def is_snapshot(self, statement: exp.Expression) -> bool: ...

    def sink_of(self, statement: syntax.InsertInto, text: str) -> SourceCall: ...


@dataclass(frozen=True)
class _Asked:
    """A query that waits to be run, and where its answer goes."""

    query: Query
    is_live: bool
    sink: Sink | None = None
    name: str | None = None
    """What it is called if it is a live one."""

    def given(self, result: Result, here: bool) -> Any:
        """The answer in the form that was asked for, now that it is its turn; `here`: it is only to be shown."""
        if self.sink is not None:
            return self.query.written(self.sink, lambda: result)
        return complete(result, here) if self.query.bound.output == "COMPLETE" else result


@dataclass(frozen=True)
class _Done:
    """What a statement gave that was not held up by queries before it."""

    result: Any


class Script:
    """A script that is run."""

    def __init__(self, host: Host, text: str, progress: Progress | None = None) -> None:
        self._host, self._text, self._progress = host, text, progress
        self._waiting: list[_Asked | _Done] = []

    def results(self) -> Iterator[Any]:
        """What each statement gives, in order; before an error comes all that stands before it in the script."""
        for statement in parse(self._text):
            try:
                asked = self._asked(statement)
            except Exception:
                yield from self._answers()
                raise
            if asked is not None and asked.is_live:
                yield from self._answers()
                yield asked.query.start(asked.name, sink=asked.sink)
            elif asked is not None:
                if not self._may_join(asked):
                    yield from self._answers()
                self._waiting.append(asked)
            elif self._changes_nothing(statement):
                yield from self._defined(statement)
            else:
                yield from self._answers()
                yield self._host.execute(statement, self._text, self._progress)
        yield from self._answers()

    def _asked(self, statement: exp.Expression) -> _Asked | None:
        """A query, with its sink; None: another statement."""
        if isinstance(statement, exp.Query) and not self._host.is_snapshot(statement):
            query = self._host.bound_query(statement, self._text)
            return _Asked(query, query.is_live)
        if isinstance(statement, syntax.InsertInto):
            call = self._host.sink_of(statement, self._text)
            query = self._host.bound_query(statement.args["query"], self._text)
            name = None if statement.this is None else statement.this.name
            return _Asked(query, query.is_live, query.opened(call), name)
        return None

    def _defined(self, statement: exp.Expression) -> Iterator[Any]:
        """Make a definition, while queries before it wait."""
        try:
            done = _Done(self._host.execute(statement, self._text))
        except Exception:
            yield from self._answers()
            raise
        self._waiting.append(done)

    def _changes_nothing(self, statement: exp.Expression) -> bool:
        """Whether a statement only makes or drops a name: queries that wait are bound already. What sinks get it might look at."""
        definition = isinstance(statement, syntax.CreateBase | syntax.CreateView | syntax.DropDefinition)
        writing = any(a.sink is not None for a in self._group())
        return definition and statement.args["kind"] != "QUERY" and not writing

    def _group(self) -> list[_Asked]:
        return [a for a in self._waiting if isinstance(a, _Asked)]

    def _may_join(self, asked: _Asked) -> bool:
        """Whether a query has something in common with those that wait, and cannot depend on what their sinks get."""
        group, mine = self._group(), asked.query
        if not group:
            return True
        streams = {n: d for a in group for n, d in a.query.definitions.items()}
        functions = {n: f for a in group for n, f in a.query.functions.items()}
        return (
            len(group) < MOST
            and any(name in streams for name in mine.definitions)
            and all(streams.get(name, d) == d for name, d in mine.definitions.items())
            and all(functions.get(name, f) is f for name, f in mine.functions.items())
            and not any(_may_read(d, a.sink) for a in group for d in mine.definitions.values())
        )

    def _answers(self) -> Iterator[Any]:
        """What the statements that wait give, in order."""
        waiting, group = self._waiting, [a.query for a in self._group()]
        self._waiting = []
        found: list[Result] = []
        if len(group) > 1:
            try:
                found = run_together(group, self._progress)
            except Exception:
                # One of them fails. Those before it are answered: each by itself, as is the one that fails.
                found = []
        number = 0
        for each in waiting:
            if isinstance(each, _Done):
                yield each.result
            else:
                yield each.given(found[number] if found else each.query.run(self._progress), self._host.here)
                number += 1


def _may_read(definition: StreamDefinition, sink: Sink | None) -> bool:
    """Whether a stream may be what a sink writes: unless both are files of this machine, nobody knows."""
    source = SOURCES.named(definition.source)
    if sink is None or definition.source.function == "memory":
        return False
    if not isinstance(sink, FileSink) or not isinstance(source, FileSource):
        return True
    read, written = path_of(definition), sink.path
    if "://" in read or "://" in written:
        return True
    fixed = re.split(r"[*?{\[]", read, maxsplit=1)[0]
    whole = os.path.realpath(fixed if fixed == read else os.path.dirname(fixed) or ".")
    place = os.path.realpath(written)
    return os.path.commonpath([whole, place]) in (whole, place)


def time_clause(ordered_by: str | None, valid: tuple[str, str] | None, batch: str | None) -> str:
    """What gives rows their time, as a statement says it."""
    if ordered_by is not None:
        return f" ORDERED BY {quote(ordered_by)}" + (f" BATCH {quote(batch)}" if batch is not None else "")
    return f" VALID ({quote(valid[0])}, {quote(valid[1])})" if valid is not None else ""


def described(fields: Schema) -> list[tuple[str, str]]:
    """Columns with their types; the one that orders rows is marked."""
    return [(f.name, str(f.type) + (" (TS)" if f.hidden else "")) for f in fields]
