"""Sources that are asked for their rows: what they give is stored with the next offset before it is used.

The rows of an answer are one file of the stream's inbox, which holds the next offset too; then the offset itself is noted. If
the program dies in between, the file that was not noted tells how far the source had come, so no answer is taken twice.

A source that is away is asked again after pauses that grow. Then it is asked by a thread of its own, so that nobody waits for a
connection that does not come.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.codec import read_signed_json, signed_json
from tidegate.connectors.protocol import Source, SourceAwayError
from tidegate.errors import Diagnostic
from tidegate.language.catalog import StreamDefinition
from tidegate.redaction import masked
from tidegate.runtime.inboxes import MOST
from tidegate.storage import Storage, name_in_path

LOG = logging.getLogger("tidegate")

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 30.0
"""Seconds until a source or sink that is away is tried again: doubled each time, up to the longest."""

_NEXT = b"tidegate.next"


@dataclass(frozen=True)
class Away:
    """Somebody who cannot be reached: since when, why, and when it is tried again (seconds since 1970)."""

    since: float
    error: str
    pause: float
    next_try: float

    @classmethod
    def after(cls, before: Away | None, problem: BaseException, now: float) -> Away:
        """One more attempt has failed.

        >>> first = Away.after(None, OSError("refused"), 100.0)
        >>> second = Away.after(first, OSError("refused"), 101.0)
        >>> first.pause, second.pause, second.since, second.next_try
        (0.2, 0.4, 100.0, 101.4)
        """
        pause = FIRST_PAUSE if before is None else min(2 * before.pause, LONGEST_PAUSE)
        return cls(now if before is None else before.since, masked(str(problem)), pause, now + pause)

    def status(self) -> dict[str, Any]:
        return {"since": _moment(self.since), "error": self.error, "next_try": _moment(self.next_try)}


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


class _Attempt:
    """A call in a thread of its own."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call, self.done = call, threading.Event()
        self._found: Any = None
        self._problem: BaseException | None = None
        threading.Thread(target=self._run, name="tidegate-retry", daemon=True).start()

    def _run(self) -> None:
        try:
            self._found = self._call()
        except BaseException as problem:
            self._problem = problem
        self.done.set()

    def result(self) -> Any:
        if self._problem is not None:
            raise self._problem
        return self._found


@dataclass
class Polled:
    """A source of a run, and how far it has come."""

    storage: Storage
    definition: StreamDefinition
    source: Source
    begun: bool
    """Whether rows of it have been used."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _known: tuple[int, Any] | None = None
    away: Away | None = None
    """If it cannot be reached: since when."""
    _attempt: _Attempt | None = None

    def advance(self) -> bool:
        """Ask once; whether there was anything."""
        with self._lock:
            number, offset = self._known = self._known or self._reached()
            found = self._asked(offset)
            if found is None:
                return False
            rows, after = found
            text = self._text(after)
            if rows.num_rows:
                self.storage.publish(self._file(number), _parquet(rows, text))
            self._note(number + 1, text)
            self._known = number + 1, json.loads(text)
            return True

    def close(self) -> None:
        """Let go of the source."""
        self.source.close(self.definition)

    def _asked(self, offset: Any) -> tuple[Any, Any] | None:
        """What the source answers; None also while it is away."""
        try:
            if self.away is None:
                return self.source.poll(self.definition, offset)
            if self._attempt is None:
                if time.time() < self.away.next_try:
                    return None
                self._attempt = _Attempt(lambda: self.source.poll(self.definition, offset))
            if not self._attempt.done.wait(0.02):
                return None
            attempt, self._attempt = self._attempt, None
            found = attempt.result()
        except SourceAwayError as problem:
            if self.away is None:
                LOG.warning("the source of '%s' is away: %s", self.definition.name, masked(str(problem)))
            self.away = Away.after(self.away, problem, time.time())
            return None
        LOG.warning("the source of '%s' is back", self.definition.name)
        self.away = None
        return found  # type: ignore[no-any-return]

    @property
    def promised(self) -> int | None:
        """What the source promises of rows that are not stored, if all that are can be read in one epoch."""
        if (
            self._known is None
            or len(self.storage.names(f"inbox/{name_in_path(self.definition.name)}")) >= MOST
        ):
            return None
        return self.source.promised(self.definition, self._known[1])

    def _reached(self) -> tuple[int, Any]:
        """The number of the next answer, and its offset."""
        name = name_in_path(self.definition.name)
        if f"{name}.json" in self.storage.names("offsets"):
            noted = read_signed_json(self.storage.read(f"offsets/{name}.json").to_pybytes())
            if noted is None:
                raise self.storage.damaged(
                    f"offsets/{name}.json", "has been changed: its checksum is another"
                )
            number, offset = noted["number"], noted["offset"]
        elif self.begun:
            raise self.storage.damaged(
                f"offsets/{name}.json", "is missing: it says what the source has given"
            )
        else:
            number, offset = 0, None
        if self._file(number).rsplit("/", 1)[1] in self.storage.names(f"inbox/{name}"):
            stored = pq.read_schema(pa.BufferReader(self.storage.read(self._file(number))))
            text = stored.metadata[_NEXT].decode()
            self._note(number + 1, text)
            return number + 1, json.loads(text)
        return number, offset

    def _note(self, number: int, offset: str) -> None:
        noted = signed_json({"number": number, "offset": json.loads(offset)})
        self.storage.publish(f"offsets/{name_in_path(self.definition.name)}.json", noted)

    def _file(self, number: int) -> str:
        return f"inbox/{name_in_path(self.definition.name)}/{number:020d}.parquet"

    def _text(self, offset: Any) -> str:
        try:
            return json.dumps(offset)
        except (TypeError, ValueError) as problem:
            raise Diagnostic(
                "OFFSET_NOT_JSON",
                f"the source of '{self.definition.name}' gives an offset that cannot be stored: {problem}",
                help="use numbers, texts, lists and dicts of them",
            ) from None


def _parquet(rows: pa.Table, after: str) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(rows.replace_schema_metadata({_NEXT: after}), sink)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]
