"""The one error type that people see: what is wrong, where, and what would work."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum

from tidegate.redaction import masked


class Kind(Enum):
    """Who has to act: the writer of the query, the builders of Tidegate, or nobody yet."""

    USER = "error"
    UNSUPPORTED = "unsupported"
    INTERNAL = "internal error"
    WARNING = "warning"


@dataclass(frozen=True)
class Position:
    """A span of the statement's text: offsets count characters, line and column count from 1."""

    line: int
    column: int
    start: int
    end: int


def position_at(text: str, start: int, end: int | None = None) -> Position:
    """The position of ``text[start:end]``.

    >>> position_at("SELECT a\\nFROM S", 14, 15)
    Position(line=2, column=6, start=14, end=15)
    """
    start = max(0, min(start, len(text)))
    line = text.count("\n", 0, start) + 1
    column = start - (text.rfind("\n", 0, start) + 1) + 1
    return Position(line, column, start, max(start + 1, end if end is not None else start + 1))


class Diagnostic(Exception):  # noqa: N818 - it is the word users read
    """Condition, message, position with a caret, and help. Secrets in any of them are starred out.

    >>> print(Diagnostic("UNKNOWN_STREAM", "there is no stream 'Bidd'",
    ...     position_at("SELECT * FROM Bidd", 14, 18), "SELECT * FROM Bidd", help="did you mean 'Bid'?"))
    error[UNKNOWN_STREAM] at line 1, column 15: there is no stream 'Bidd'
      SELECT * FROM Bidd
                    ^^^^
    help: did you mean 'Bid'?
    """

    span: tuple[int, int] | None = None
    """Offsets in a text that the raising layer does not know; `locate` turns them into a position."""

    operator: str | None = None
    """The physical operator in which it happened, if it happened in one."""

    def __init__(
        self,
        condition: str,
        message: str,
        position: Position | None = None,
        text: str | None = None,
        help: str | None = None,
        kind: Kind = Kind.USER,
    ) -> None:
        message = masked(message)
        super().__init__(message)
        self.condition = condition
        self.message = message
        self.position = position
        self.text = None if text is None else masked(text)
        self.help = None if help is None else masked(help)
        self.kind = kind

    def at(self, span: tuple[int, int] | None) -> Diagnostic:
        """Say where, unless it is known."""
        if self.span is None:
            self.span = span
        return self

    def locate(self, text: str) -> Diagnostic:
        """Give the text; offsets become a line and a column. What is already known stays."""
        if self.text is None:
            self.text = masked(text)
        if self.position is None and self.span is not None and self.text == masked(text):
            self.position = position_at(text, *self.span)
        return self

    def __str__(self) -> str:
        where = ""
        if self.position is not None:
            where = f" at line {self.position.line}, column {self.position.column}"
        elif self.span is not None:
            where = f" at characters {self.span[0]} to {self.span[1]}"
        lines = [f"{self.kind.value}[{self.condition}]{where}: {self.message}"]
        if self.position is not None and self.text is not None:
            source = self.text.split("\n")[self.position.line - 1]
            indent = "".join("\t" if c == "\t" else " " for c in source[: self.position.column - 1])
            width = max(1, min(self.position.end - self.position.start, len(source) - len(indent)))
            lines += [f"  {source}", f"  {indent}{'^' * width}"]
        if self.help:
            lines.append(f"help: {self.help}")
        return "\n".join(lines)

    def _render_traceback_(self) -> list[str]:
        """What IPython and notebooks show: the error itself, and for a defect of Tidegate how it came about."""
        if self.kind is Kind.INTERNAL:
            return traceback.format_exception(self)
        return str(self).split("\n")

    def __reduce__(self) -> tuple[object, ...]:
        return (
            Diagnostic,
            (self.condition, self.message, self.position, self.text, self.help, self.kind),
            {"span": self.span, "operator": self.operator},
        )


def unsupported(message: str, position: Position | None = None, help: str | None = None) -> Diagnostic:
    """A meaningful request that Tidegate cannot serve."""
    return Diagnostic("UNSUPPORTED", message, position, help=help, kind=Kind.UNSUPPORTED)


@contextmanager
def told_at(span: tuple[int, int] | None, text: str) -> Iterator[None]:
    """What goes wrong meanwhile has a place in a text, unless it knows a better one."""
    try:
        yield
    except Diagnostic as diagnostic:
        raise diagnostic.at(span).locate(text) from None


def internal(message: str) -> Diagnostic:
    """A broken promise of Tidegate's own code."""
    return Diagnostic(
        "INTERNAL",
        message,
        kind=Kind.INTERNAL,
        help="this is a defect of Tidegate, not of the query; please report the statement that shows it",
    )


def foreign(problem: Exception) -> Diagnostic:
    """What a library raised, as a diagnostic: nobody should meet anything else."""
    if isinstance(problem, Diagnostic):
        return problem
    # The stack of Java's calls says nothing to whoever wrote the statement.
    said = re.split(r"\n\s*(?:JVM stacktrace|at [\w.$]+\(|Traceback)", str(problem), maxsplit=1)[0].strip()[
        :2_000
    ]
    if isinstance(problem, RecursionError):
        return Diagnostic(
            "STATEMENT_TOO_LARGE", "the statement is nested too deeply", help="split it by views"
        )
    if isinstance(problem, MemoryError):
        return Diagnostic("OUT_OF_MEMORY", "there is not enough memory for this statement")
    if isinstance(problem, OSError):
        return Diagnostic("IO_FAILED", said)
    if type(problem).__module__.split(".")[0] in ("pyspark", "py4j"):
        return Diagnostic("SPARK_FAILED", f"Spark cannot do this: {said}")
    return internal(f"{type(problem).__name__}: {said}")


def did_you_mean(name: str, existing: list[str], what: str) -> str:
    """Help for a name that does not exist: the nearest one, or the list.

    >>> did_you_mean("prise", ["price", "itemID"], "columns")
    "did you mean 'price'?"
    >>> did_you_mean("zzz", ["price", "itemID"], "columns")
    'existing columns: price, itemID'
    """
    from difflib import get_close_matches

    lowered = {e.lower(): e for e in existing}
    near = get_close_matches(name.lower(), list(lowered), n=1, cutoff=0.6)
    if near:
        return f"did you mean '{lowered[near[0]]}'?"
    if len(existing) > 30:
        return f"there are {len(existing)} {what}; none has a name like it"
    return f"existing {what}: {', '.join(existing)}" if existing else f"there are no {what} yet"
