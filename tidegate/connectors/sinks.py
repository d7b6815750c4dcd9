"""Opening a query's sink, whichever it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tidegate.connectors.protocol import Sink
from tidegate.connectors.registry import SINKS
from tidegate.language.catalog import SourceCall

__all__ = ["Sink", "make_sink", "open_sink"]


def make_sink(function: str, arguments: Sequence[Any] = (), options: Sequence[tuple[str, str]] = ()) -> Sink:
    """The sink of `INSERT INTO function(argument, …) WITH (option = value, …)`.

    >>> make_sink("parquet", ("out/hot",), [("compression", "zstd")])
    FileSink(path='out/hot', format='parquet', options=(('compression', 'zstd'),), form='changes')
    """
    return open_sink(SourceCall(function.lower(), tuple(arguments), tuple(options)))


def open_sink(call: SourceCall) -> Sink:
    """The sink that a call means."""
    connector = SINKS.named(call)
    connector.signature.check_arguments(call.arguments)
    return connector.open(call.arguments, connector.signature.settings(call.options))
