"""Syntax nodes that Tidegate adds to sqlglot's: statements, windows in FROM, streams of a relation."""

from __future__ import annotations

from typing import Any, ClassVar

from sqlglot import exp


class Duration(exp.Expression):
    """A positive number with a unit of time, or ROWS, or nothing (ticks)."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "unit": False}

    @property
    def in_rows(self) -> bool:
        return str(self.args.get("unit") or "").upper() in ("ROWS", "ROW")


class StreamWindow(exp.Expression):
    """`WINDOW([PARTITION BY …] RANGE | ROWS size [SLIDE slide [STARTING AT start]] [GRANULARITY g] [PRIORITY n])`; size None: UNBOUNDED.

    Size and granularity are durations, or a `quality_syntax.QualityRange`.
    """

    arg_types: ClassVar[dict[str, bool]] = {
        "frame": True, "size": False, "slide": False, "start": False, "partition": False, "granularity": False,
        "priority": False,
    }  # fmt: skip


class StreamAlias(exp.TableAlias):
    """What may follow a stream reference in FROM: its window, its synchronization, its alias."""

    arg_types: ClassVar[dict[str, bool]] = {**exp.TableAlias.arg_types, "window": False, "sync": False}


class RelationToStream(exp.Subquery):
    """`ISTREAM(q)`, `DSTREAM(q)`, `RSTREAM(q) EVERY p` (CQL)."""

    arg_types: ClassVar[dict[str, bool]] = {**exp.Subquery.arg_types, "kind": True, "every": False}


class Statement(exp.Expression):
    """A statement of Tidegate's own."""


class CreateBase(Statement):
    """`CREATE STREAM | TABLE`, `REGISTER SOURCE`: a leaf of plans.

    `kind` is STREAM, TABLE or SOURCE; `columns` are sqlglot ColumnDefs, or None: as the source has them; `source` is a call.
    `unnamed`: it stands for a file in FROM.
    """

    arg_types: ClassVar[dict[str, bool]] = {
        "kind": True, "this": True, "columns": False, "source": True, "ordered_by": False, "valid": False,
        "batch": False, "options": False, "replace": False, "unnamed": False, "range": False, "granularity": False,
        "priority": False,
    }  # fmt: skip


class CreateView(Statement):
    """`CREATE STREAM x AS q`, `CREATE [STREAMED] VIEW x [(columns)] AS q`."""

    arg_types: ClassVar[dict[str, bool]] = {
        "kind": True, "this": True, "columns": False, "query": True, "replace": False, "streamed": False,
    }  # fmt: skip


class DropDefinition(Statement):
    arg_types: ClassVar[dict[str, bool]] = {"kind": True, "this": True, "exists": False}


class InsertInto(Statement):
    """`INSERT INTO sink(argument, …) [AS name] query`; a name counts where the query is a live one."""

    arg_types: ClassVar[dict[str, bool]] = {"sink": True, "options": False, "this": False, "query": True}


class StartQuery(Statement):
    """`START name [WITH HISTORY] AS query`, `START name [WITH HISTORY] AS INSERT INTO sink query`."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "query": True, "history": False}


class AlterQuery(Statement):
    """`ALTER QUERY name AS query`."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "query": True}


class StopQuery(Statement):
    """`STOP name`."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class Explain(Statement):
    """`EXPLAIN [ANALYZE] query`; ANALYZE: with what was measured when it ran."""

    arg_types: ClassVar[dict[str, bool]] = {"query": True, "analyze": False}


class Preview(Statement):
    """`PREVIEW [n] query`: the first n rows of an answer, from as little as they need."""

    arg_types: ClassVar[dict[str, bool]] = {"query": True, "rows": False}


class Verify(Statement):
    arg_types: ClassVar[dict[str, bool]] = {"query": True, "instants": False}


class ShowDefinitions(Statement):
    """`SHOW kind`, `SHOW GRAPH [AS form]`, `SHOW QUARANTINE stream`."""

    arg_types: ClassVar[dict[str, bool]] = {"kind": False, "form": False, "this": False}


class DescribeDefinition(Statement):
    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class AsOf(Statement):
    """`query AS OF t [BATCH i]`: the snapshot at an instant; of its batches the last, or that one."""

    arg_types: ClassVar[dict[str, bool]] = {"query": True, "instant": True, "batch": False, "with_": False}


class SetOption(Statement):
    """`SET name = value`: an option of the session."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "value": True}


def modifiers(select: exp.Expression) -> set[str]:
    """STREAMED or COMPLETE, as said after SELECT."""
    found: list[Any] = select.args.get("operation_modifiers") or []
    return {m.name.upper() for m in found}
