"""`socket('host', port)`: lines of text from a server, which may go and come back.

A thread for each stream reads lines as they come. They are stored before they are used, as all rows are that are asked for. Nobody can ask a
socket for what it has sent before, so what the server sends while nobody listens is lost, and so is a line without its end.
"""

from __future__ import annotations

import socket
import threading
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tidegate.connectors.lines import LINE_FORMAT, SEPARATOR, parsed
from tidegate.connectors.protocol import Source, SourceAwayError, Traits
from tidegate.connectors.raw import POSITION, RawStream, shaped, stream_reader
from tidegate.language.catalog import StreamDefinition
from tidegate.language.signatures import Option, Signature

CONNECTING = 5.0
"""Seconds that a server has to answer."""

_STORED = f"value STRING, {POSITION} BIGINT"

MOST_LINES = 100_000
"""Lines that wait to be asked for; the server waits when there are more."""


class _Reader:
    """A connection, and the lines that have come through it."""

    def __init__(self, host: str, port: int) -> None:
        try:
            self._socket = socket.create_connection((host, port), CONNECTING)
        except OSError as problem:
            raise SourceAwayError(f"{host}:{port}: {problem}") from None
        self._socket.settimeout(None)
        self._lines: deque[str] = deque()
        self._room = threading.Semaphore(MOST_LINES)
        self.ended = threading.Event()
        threading.Thread(target=self._read, name="tidegate-socket", daemon=True).start()

    def _read(self) -> None:
        try:
            with self._socket, self._socket.makefile("rb") as lines:
                for line in lines:
                    if line.endswith(b"\n"):
                        self._room.acquire()
                        self._lines.append(line.rstrip(b"\r\n").decode("utf-8", "replace"))
        except (OSError, ValueError):
            pass  # whoever asks is told that it has ended
        self.ended.set()

    def taken(self) -> list[str]:
        """The lines that have come since the last call."""
        found = []
        while self._lines:
            found.append(self._lines.popleft())
            self._room.release()
        return found

    def close(self) -> None:
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # it is closed


@dataclass
class SocketLines(Source):
    signature = Signature(
        "socket",
        (Option("host"), Option("port", "integer"), LINE_FORMAT),
        (LINE_FORMAT, SEPARATOR),
        2,
        meaning="lines from a server",
    )
    traits = Traits(recorded=False, again=False, ordered=False)
    inbox = True
    polled = True
    _readers: dict[str, _Reader] = field(default_factory=dict)

    def live(self, spark: SparkSession, definition: StreamDefinition, inbox: str | None = None) -> RawStream:
        reader = stream_reader(spark, definition).format("parquet").schema(_STORED)
        return self._rows(definition, reader.option("cleanSource", "delete").load(inbox))

    def taken(self, spark: SparkSession, definition: StreamDefinition, folder: str) -> RawStream:
        return self._rows(definition, spark.read.schema(_STORED).parquet(folder))

    def _rows(self, definition: StreamDefinition, lines: DataFrame) -> RawStream:
        settings = self.signature.settings(definition.source.options)
        if len(definition.source.arguments) > 2:
            settings["format"] = str(definition.source.arguments[2]).lower()
        placed = lines.selectExpr("value", POSITION, "_metadata.file_path AS _file")
        return shaped(definition, parsed(definition, placed, "value", settings), "_file", "0", POSITION)

    def poll(self, definition: StreamDefinition, offset: Any) -> tuple[Any, Any] | None:
        host, port = definition.source.arguments[:2]
        reader = self._readers.get(definition.name)
        if reader is None:
            reader = self._readers[definition.name] = _Reader(str(host), int(port))
        ended, lines = reader.ended.is_set(), reader.taken()
        if lines:
            positions = pa.array(range(len(lines)), pa.int64())
            rows = pa.table({"value": pa.array(lines, pa.string()), POSITION: positions})
            return rows, (offset or 0) + len(lines)
        if ended:
            del self._readers[definition.name]
            raise SourceAwayError(f"{host}:{port} has closed the connection")
        return None

    def close(self, definition: StreamDefinition) -> None:
        if (reader := self._readers.pop(definition.name, None)) is not None:
            reader.close()
