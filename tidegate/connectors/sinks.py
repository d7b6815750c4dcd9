"""Opening a query's sink, whichever it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tidegate.connectors.protocol import ANSWER, ForgetfulSink, OwnedSink, PlainSink, Sink
from tidegate.connectors.registry import SINKS
from tidegate.errors import Diagnostic
from tidegate.language.catalog import SourceCall

__all__ = ["Sink", "claim", "forgets", "make_sink", "open_sink", "refuse_taken", "wants_plain"]


def make_sink(function: str, arguments: Sequence[Any] = (), options: Sequence[tuple[str, str]] = ()) -> Sink:
    """The sink of `INSERT INTO function(argument, …) WITH (option = value, …)`.

    >>> make_sink("parquet", ("out/hot",), [("compression", "zstd")])
    FileSink(path='out/hot', format='parquet', options=(('compression', 'zstd'),), form='changes', replaces=False)
    """
    return open_sink(SourceCall(function.lower(), tuple(arguments), tuple(options)))


def open_sink(call: SourceCall, complete: bool = False) -> Sink:
    """The sink that a call means; `complete`: for complete answers, of which it holds the latest unless its options say otherwise."""
    connector = SINKS.named(call)
    if complete and call.option.get(ANSWER.name, "latest") == "changes":
        raise Diagnostic("SINK_FORM", "SELECT COMPLETE gives whole answers, and the sink asks for changes")
    if complete and ANSWER not in connector.signature.options:
        raise Diagnostic(
            "SINK_FORM",
            f"{call.function} takes changes, not complete answers",
            help="SELECT STREAMED, or write to parquet, csv, json, console or a function",
        )
    if complete:
        call = replace(call, options=((ANSWER.name, "latest"), *call.options))
    connector.signature.check_arguments(call.arguments)
    return connector.open(call.arguments, connector.signature.settings(call.options))


def refuse_taken(sink: Sink, owner: str) -> None:
    """A sink holds the answer of one query: what another one left there would pass for delivered."""
    if isinstance(sink, OwnedSink) and sink.owner not in (None, owner):
        whose = "holds the answer of another query" if sink.owner else "holds files that no query has signed"
        raise Diagnostic(
            "SINK_TAKEN",
            f"{sink.place} {whose}",
            help="write to a place of its own, or remove what is there",
        )


def wants_plain(sink: Sink) -> bool:
    """Whether a sink is told an update as a deletion and an insertion."""
    return isinstance(sink, PlainSink) and sink.plain


def forgets(sink: Sink) -> bool:
    """Whether a sink knows what it took only while the program runs."""
    return isinstance(sink, ForgetfulSink) and sink.forgets


def claim(sink: Sink, owner: str) -> None:
    """Make sure that a sink is the owner's before it writes there."""
    if isinstance(sink, OwnedSink):
        sink.claim(owner)
        refuse_taken(sink, owner)
