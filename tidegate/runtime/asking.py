"""What is asked of the queries that run in a session, and what those that run together have to agree on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from tidegate.algebra import operators as op
from tidegate.connectors.protocol import OwnedSink
from tidegate.connectors.sinks import Sink
from tidegate.errors import Diagnostic
from tidegate.language.catalog import StreamDefinition
from tidegate.runtime.live import LiveRun
from tidegate.runtime.places import Epochs
from tidegate.runtime.summary import IN_BATCHES, INTEGERS, TIMESTAMPS
from tidegate.time import BATCHES, period
from tidegate.types import BIGINT, TIMESTAMP, Type


@dataclass(frozen=True)
class Asked:
    """A query that is to run, and what it is to run with; `epoch` and `retention` are None where nobody said them."""

    name: str
    text: str
    written: op.Node
    """The plan as it was written, whose expressions know their places in the text."""
    plan: op.Node
    domain: Type | None
    batches: bool
    definitions: Mapping[str, StreamDefinition]
    functions: Mapping[str, Any]
    data: Mapping[str, Any]
    key: tuple[int, ...] | None = None
    sinks: tuple[Sink, ...] = ()
    epoch: float | None = None
    retention: int | None = None
    epochs: Epochs | None = None
    history: bool = False
    """Whether what came before is to be read again."""

    @property
    def kind(self) -> str:
        """The graph that the query belongs to."""
        kind = INTEGERS if self.domain == BIGINT else TIMESTAMPS
        return kind + IN_BATCHES if self.batches else kind

    @property
    def kept(self) -> int | None:
        """How long answers are to be kept, in the graph's ticks."""
        return self.retention * BATCHES if self.batches and self.retention is not None else self.retention

    def lasting(self, ticks: int) -> str:
        """So many of the graph's ticks, as people say them."""
        timestamps = self.domain == TIMESTAMP
        return period(ticks // BATCHES if self.batches else ticks, timestamps).lower() + " ticks" * (
            not timestamps
        )


class Asking(Protocol):
    """A query that is not started."""

    def asked(self, name: str | None = None) -> Asked: ...


def refuse_shared(asked: Asked, others: Iterable[Asked]) -> None:
    """Two queries cannot write to one place: each would take the other's epochs for its own."""
    taken = {s.place: a.name for a in others for s in a.sinks if isinstance(s, OwnedSink)}
    for sink in asked.sinks:
        if sink.place in taken:
            raise Diagnostic(
                "SINK_TAKEN",
                f"{sink.place} belongs to the query '{taken[sink.place]}'",
                help="write to a place of its own",
            )


def check_pace(run: LiveRun, asked: Asked) -> None:
    """A graph has one pace: what a later query asks for must be what it runs with."""
    if asked.epoch is not None and asked.epoch != run.every:
        raise Diagnostic(
            "EPOCH_DIFFERS",
            f"'{asked.name}' asks for an epoch every {asked.epoch:g} seconds, and its graph runs with one every {run.every:g}",
            help="queries over the same kind of time share their epochs: leave `epoch` out, or stop the others first",
        )
    if asked.epochs is not None and asked.epochs != run.graph.epochs.asked:
        raise Diagnostic(
            "EPOCHS_DIFFER",
            f"'{asked.name}' asks for epochs '{asked.epochs}', and its graph runs with '{run.graph.epochs.asked}'",
            help="queries over the same kind of time share their epochs: leave `epochs` out, or stop the others first",
        )
    if asked.kept is not None and asked.kept != run.graph.retention:
        kept = "for ever" if run.graph.retention is None else f"for {asked.lasting(run.graph.retention)}"
        raise Diagnostic(
            "RETENTION_DIFFERS",
            f"'{asked.name}' asks for answers to be kept for {asked.lasting(asked.kept)}, and its graph keeps them {kept}",
            help="queries over the same kind of time share their retention: leave `retention` out, or stop the others first",
        )
