"""Syntax trees to text: how windows, streams of a relation and files in FROM are written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot.dialects.spark import Spark

from tidegate.language import syntax
from tidegate.language.file_items import FileReference, file_sql
from tidegate.language.quality_syntax import QualityRange
from tidegate.language.quarantine_items import QuarantineReference, quarantine_sql
from tidegate.language.sequences import Quantity, SequenceWindow, quantity_sql, sequence_sql
from tidegate.language.sync_syntax import ClockReference, ModifyOver, clock_sql, modify_sql
from tidegate.language.window_functions import WindowFunction, window_function_sql


def _window_sql(self: Any, node: syntax.StreamWindow) -> str:
    parts = []
    if node.args.get("partition"):
        parts.append(f"PARTITION BY {', '.join(self.sql(c) for c in node.args['partition'])}")
    parts.append(f"{node.args['frame']} {self.sql(node, 'size') or 'UNBOUNDED'}")
    words = {
        "slide": "SLIDE", "start": "STARTING AT", "granularity": "GRANULARITY", "priority": "PRIORITY",
    }  # fmt: skip
    parts += [f"{word} {self.sql(node, k)}" for k, word in words.items() if node.args.get(k)]
    return f"WINDOW({' '.join(parts)})"


def _alias_sql(self: Any, node: syntax.StreamAlias) -> str:
    columns = f"({', '.join(self.sql(c) for c in node.columns)})" if node.columns else ""
    sync = f"SYNC BY {self.sql(node, 'sync')}" if node.args.get("sync") else ""
    parts = (self.sql(node, "window"), sync, f"{self.sql(node, 'this')}{columns}")
    return " ".join(p for p in parts if p)


def _relation_to_stream_sql(self: Any, node: syntax.RelationToStream) -> str:
    every = f" EVERY {self.sql(node, 'every')}" if node.args.get("every") else ""
    return f"{node.args['kind']}({self.sql(node, 'this')}){every} {self.sql(node, 'alias')}".rstrip()


class StreamGenerator(Spark.Generator):  # type: ignore[misc,valid-type]
    """Spark SQL and what Tidegate adds to it."""

    TRANSFORMS: ClassVar[dict[Any, Callable[..., str]]] = {
        **Spark.Generator.TRANSFORMS,
        syntax.Duration: lambda _, node: f"{node.this} {node.args.get('unit') or ''}".rstrip(),
        QualityRange: lambda self, node: (
            f"BETWEEN {self.sql(node, 'lowest')} AND {self.sql(node, 'highest')}"
        ),
        syntax.StreamWindow: _window_sql,
        SequenceWindow: sequence_sql,
        Quantity: quantity_sql,
        syntax.StreamAlias: _alias_sql,
        syntax.RelationToStream: _relation_to_stream_sql,
        ClockReference: clock_sql,
        ModifyOver: modify_sql,
        FileReference: file_sql,
        QuarantineReference: quarantine_sql,
        WindowFunction: window_function_sql,
    }
