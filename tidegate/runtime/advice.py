"""What people should know before a query runs for long: state that nothing bounds, and where the query asks for it."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from sqlglot import exp

from tidegate.errors import Diagnostic, Kind
from tidegate.language.dialect import parse
from tidegate.physical.plan import Plan, unbounded_streams
from tidegate.scalars.expressions import span_of

LOG = logging.getLogger("tidegate")


def unbounded_state(plan: Plan, text: str) -> Iterator[Diagnostic]:
    """A warning for each stream of which rows are kept for ever, at its place in the query's text."""
    for stream, operator in unbounded_streams(plan).items():
        yield (
            Diagnostic(
                "UNBOUNDED_STATE",
                f"nothing bounds the rows of '{stream}' that {operator} has to keep: its state grows with the stream",
                help="give the stream a window (RANGE, ROWS), or a KEY",
                kind=Kind.WARNING,
            )
            .at(_place(stream, text))
            .locate(text)
        )


def warn(plan: Plan, text: str) -> None:
    """Say it in the log, which goes to the terminal unless the program wants it elsewhere."""
    for warning in unbounded_state(plan, text):
        LOG.warning("%s", warning)


def _place(stream: str, text: str) -> tuple[int, int] | None:
    """Where a text first names a stream; None if only a view that it reads does."""
    for statement in parse(text):
        for table in statement.find_all(exp.Table):
            if table.name.lower() == stream.lower():
                return span_of(table)
    return None
