"""What a connector is. Sources turn a stream's definition into rows, sinks take what queries answer.

A connector is a value that says what it takes (its `signature`: the language checks calls against it, the documentation
lists it) and does its work by methods that get the call's arguments and options. It is registered under the name in its
signature (`connectors.registry`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

from pyspark.sql import DataFrame, SparkSession

from tidegate.connectors.raw import RawStream
from tidegate.errors import Diagnostic
from tidegate.language.catalog import SourceCall, StreamDefinition
from tidegate.language.signatures import Option, Signature

__all__ = [
    "ANSWER",
    "ForgetfulSink",
    "Option",
    "OwnedSink",
    "PlainSink",
    "RawStream",
    "Signature",
    "Sink",
    "SinkConnector",
    "Source",
    "SourceAwayError",
    "SourceCall",
    "Traits",
    "form_of",
]

ANSWER = Option(
    "answer",
    "choice",
    "what an epoch leaves: its changes (the default), the whole answer at its end ('complete'), or that in place of the one before "
    "('latest', which is what SELECT COMPLETE means)",
    ("changes", "complete", "latest"),
)


def form_of(settings: Mapping[str, str]) -> Literal["changes", "complete"]:
    return "changes" if settings.get(ANSWER.name, "changes") == "changes" else "complete"


@dataclass(frozen=True)
class Traits:
    """What is promised of a source: it has an end to read to (`recorded`), it can be followed (`live`), reading it
    `again` gives the same rows, and every reading gives them in the same order of arrival (`ordered`)."""

    recorded: bool = True
    live: bool = True
    again: bool = True
    ordered: bool = True


class SourceAwayError(Exception):
    """A source that is asked cannot be reached now: nothing is wrong with its definition, and it is asked again later."""


class Source:
    """Where rows come from. Subclasses override what their traits promise."""

    signature: Signature
    traits: Traits = Traits()
    inbox: bool = False
    """Whether live rows are files in an inbox of the run: handed in by the program, or asked for."""
    polled: bool = False
    """Whether the run asks for rows by `poll`."""

    def has_end(self, definition: StreamDefinition) -> bool:
        """Whether a stream can be read to its end; a table always is."""
        return definition.table or self.traits.recorded

    def foresee(self, definition: StreamDefinition, live: bool) -> None:
        """Raise what can be told to be wrong without reading, so that nobody waits for Spark to be told."""

    def recorded(self, spark: SparkSession, definition: StreamDefinition, data: Any = None) -> RawStream:
        """All rows; `data` are those that the session holds for the stream."""
        raise Diagnostic(
            "SOURCE_LIVE",
            f"'{definition.name}' comes from {self.signature.name}, which has no end",
            help="start the query instead of running it",
        )

    def live(self, spark: SparkSession, definition: StreamDefinition, inbox: str | None = None) -> RawStream:
        """Rows as they come."""
        raise Diagnostic(
            "SOURCE_RECORDED",
            f"'{definition.name}' comes from {self.signature.name}, which cannot be followed",
            help="run the query instead of starting it",
        )

    def taken(self, spark: SparkSession, definition: StreamDefinition, folder: str) -> RawStream:
        """The rows of the files in a folder: those of an inbox, or links to files that were let in."""
        raise NotImplementedError

    def size(self, definition: StreamDefinition, data: Any = None) -> int:
        """About how many bytes a recorded source holds; 0 if unknown."""
        return 0

    def first_refused(
        self, spark: SparkSession, definition: StreamDefinition, file: str
    ) -> tuple[str, str] | None:
        """Where in a file its first row is that may not be used, in words for people, and why; None if nobody can tell."""
        return None

    def poll(self, definition: StreamDefinition, offset: Any) -> tuple[Any, Any] | None:
        """The rows after an offset (None: from the beginning) as the Arrow table that `live` expects in its inbox, and the next offset.

        None if there is nothing now. Rows are stored together with the next offset before they are used. A source that cannot be reached
        raises `SourceAwayError`.
        """
        raise NotImplementedError

    def close(self, definition: StreamDefinition) -> None:
        """Nobody asks for the rows of a stream any more: let go of connections."""

    def promised(self, definition: StreamDefinition, offset: Any) -> int | None:
        """The instant (microseconds, or the integer that orders) before which no row after an offset will be; None: nobody knows."""
        return None


class Sink(Protocol):
    """A place that takes each epoch of one query once."""

    @property
    def place(self) -> str:
        """Where it stands, in words for people."""

    @property
    def form(self) -> Literal["changes", "complete"]:
        """Whether an epoch is what changed in it, or the whole answer at its end."""

    def has(self, epoch: int) -> bool:
        """Whether the epoch is there."""

    def write(self, epoch: int, changes: DataFrame) -> None:
        """Take an epoch, whole or not at all; taking it again changes nothing."""


@runtime_checkable
class OwnedSink(Protocol):
    """A sink that lasts, and therefore has to know whose it is: what somebody else wrote is not taken for delivered."""

    @property
    def place(self) -> str: ...

    @property
    def owner(self) -> str | None:
        """Who has written to it; None: nobody, empty: nobody known."""

    def claim(self, owner: str) -> None:
        """Belong to an owner from now on, if it belongs to nobody."""


@runtime_checkable
class PlainSink(Protocol):
    """A sink that may ask for an update as a deletion and an insertion, each with its whole row."""

    @property
    def plain(self) -> bool: ...


@runtime_checkable
class ForgetfulSink(Protocol):
    """A sink that may know what it took only while the program runs: it is remembered for it."""

    @property
    def forgets(self) -> bool: ...


class SinkConnector(Protocol):
    """A kind of sink; `open` gives the sink of one call."""

    @property
    def signature(self) -> Signature: ...

    def open(self, arguments: Sequence[Any], settings: dict[str, str]) -> Sink:
        """`settings` are the options by their own names, checked."""
