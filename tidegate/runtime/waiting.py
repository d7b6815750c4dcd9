"""Queries for which there is no room yet: they are tried again until there is."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tidegate.errors import Diagnostic

if TYPE_CHECKING:
    from tidegate.runtime.running import LiveQuery

EVERY = 1.0
"""Seconds from one try to the next."""


@dataclass
class WaitingQuery:
    """A query that begins as soon as there is room for it, of which the rows before that are not part."""

    name: str
    begin: Callable[[], LiveQuery]
    """Begins it, or says why it cannot begin."""
    why: Diagnostic
    """Why it waits."""
    query: LiveQuery | None = None
    """Since it has begun."""
    failure: Diagnostic | None = None
    """Why it never will."""
    _ended: threading.Event = field(default_factory=threading.Event)
    _trying: threading.Lock = field(default_factory=threading.Lock)

    def follow(self) -> None:
        """Try again from time to time, in a thread of its own."""
        threading.Thread(target=self._loop, name=f"tidegate-waiting-{self.name}", daemon=True).start()

    def _loop(self) -> None:
        while not self._ended.wait(EVERY):
            self.retry()

    def retry(self) -> bool:
        """Begin, if there is room; whether it has begun."""
        with self._trying:
            if self._ended.is_set():
                return self.query is not None
            try:
                self.query = self.begin()
            except Diagnostic as problem:
                self.failure = None if problem.condition == self.why.condition else problem
            if self.query is not None or self.failure is not None:
                self._ended.set()
            return self.query is not None

    @property
    def is_waiting(self) -> bool:
        return not self._ended.is_set()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait, at most some seconds, until it has begun; whether it has. What went wrong is raised.

        Example: `tg.sql("SET admission = 'wait'"); w = tg.query("SELECT room FROM Temp WINDOW(RANGE 5)").start("hot"); w.wait(60)`
        """
        self._ended.wait(seconds)
        if self.failure is not None:
            raise self.failure
        return self.query is not None

    def status(self) -> dict[str, Any]:
        """Why it waits, or what it does since it has begun.

        Example: `w.status()["waits"]`
        """
        return {"waits": str(self.why.message)} if self.query is None else self.query.status()

    def stop(self) -> None:
        """Wait no more; stop the query, if it has begun.

        Example: `w.stop()`
        """
        self._ended.set()
        if self.query is not None:
            self.query.stop()

    def __repr__(self) -> str:
        state = "running" if self.query else "waiting" if self.is_waiting else "ended"
        return f"WaitingQuery({self.name}, {state})"


class WaitingRoom:
    """The queries that wait."""

    def __init__(self) -> None:
        self._queries: tuple[WaitingQuery, ...] = ()
        self._lock = threading.Lock()

    def add(self, name: str, begin: Callable[[], LiveQuery], why: Diagnostic) -> WaitingQuery:
        """Let a query wait."""
        found = WaitingQuery(name, lambda: self._begun(found, begin), why)
        with self._lock:
            self._queries = (*self._queries, found)
        found.follow()
        return found

    def _begun(self, query: WaitingQuery, begin: Callable[[], LiveQuery]) -> LiveQuery:
        """Whoever begins waits no more: its name is free for itself."""
        with self._lock:
            self._queries = tuple(q for q in self._queries if q is not query)
        try:
            return begin()
        except Diagnostic as problem:
            if problem.condition == query.why.condition:
                with self._lock:
                    self._queries = (*self._queries, query)
            raise

    @property
    def names(self) -> list[str]:
        """Without regard to case."""
        return [q.name.lower() for q in self._queries if q.is_waiting]

    def find(self, name: str) -> WaitingQuery | None:
        """The query of a name that waits."""
        return next((q for q in self._queries if q.is_waiting and q.name.lower() == name.lower()), None)

    def close(self) -> None:
        for query in self._queries:
            query.stop()
