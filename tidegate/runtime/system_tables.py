"""Tables that say how things are now, as `tidegate.metrics` does: their columns, and where their lines come from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
from sqlglot import exp

from tidegate.algebra.operators import Node, Scan
from tidegate.language.catalog import Catalog, SourceCall, StreamDefinition, ViewDefinition
from tidegate.language.quarantine_items import COLUMNS as QUARANTINE_COLUMNS
from tidegate.language.quarantine_items import QuarantineDefinition, QuarantineReference
from tidegate.runtime import decisions, metrics, quality
from tidegate.runtime.quarantines import refused_lines
from tidegate.runtime.running import Running
from tidegate.spark.values import table_of
from tidegate.types import Schema


@dataclass(frozen=True)
class SystemTable:
    """A table under a name of ours; `lines` asks what runs, each time that somebody reads it."""

    name: str
    columns: Schema
    lines: Callable[[Running], Iterable[tuple[Any, ...]]]

    @property
    def definition(self) -> StreamDefinition:
        return StreamDefinition(
            self.name, self.columns, SourceCall("memory", (self.name,)), table=True, unnamed=True
        )

    def rows(self, running: Running) -> pa.Table:
        return table_of(self.columns, self.lines(running))


SYSTEM_TABLES = {
    table.name: table
    for table in (
        SystemTable(metrics.NAME, metrics.COLUMNS, lambda running: metrics.lines(running.measured())),
        SystemTable(quality.NAME, quality.COLUMNS, lambda running: running.settings()),
        SystemTable(decisions.NAME, decisions.COLUMNS, lambda running: running.decisions()),
    )
}


def system_tables_in(plan: Node, catalog: Catalog) -> Iterator[SystemTable]:
    """Those that a plan reads, quarantines among them."""
    names = {node.name for node in plan.walk() if isinstance(node, Scan)}
    yield from (table for name, table in SYSTEM_TABLES.items() if name in names)
    for name in sorted(names):
        if isinstance(definition := catalog.find(name), QuarantineDefinition):
            yield SystemTable(name, QUARANTINE_COLUMNS, partial(_refused, definition.stream))


def _refused(stream: str, running: Running) -> Iterable[tuple[Any, ...]]:
    return refused_lines(running.storage, stream)


def mentions_system_tables(statement: exp.Expression, catalog: Catalog) -> bool:
    """Whether a statement reads one of them, or views of one."""
    for table in statement.find_all(exp.Table):
        if isinstance(table, QuarantineReference):
            return True
        if f"{table.db}.{table.name}".lower() in SYSTEM_TABLES:
            return True
        view = catalog.find(table.name)
        if isinstance(view, ViewDefinition) and view.query is not statement:
            if mentions_system_tables(view.query, catalog.without(view.name)):
                return True
    return False
