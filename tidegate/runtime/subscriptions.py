"""Following an answer from Python: its changes one after the other, as they become final.

A subscription reads what the graph has kept, so it misses nothing and repeats nothing, whoever is slow: the graph does not wait for it.
Only retention can be faster; that is an error then, not a gap.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql import Row

from tidegate.errors import foreign

if TYPE_CHECKING:
    from tidegate.runtime.running import LiveQuery

PATIENCE = 0.5
"""So many seconds whoever waits for an epoch may need to notice that none will come."""


@dataclass(frozen=True)
class Change:
    """`op` is + (a row has come), - (it has gone), or u (it has taken the place of the one with its key)."""

    op: str
    row: Row
    ts: int | datetime | None
    """When; None: it was there from the beginning."""
    batch: int | None = None
    """The batch of the instant, where streams have batches."""


class Subscription:
    """The changes of a running query from an instant on; ends with the query. `for` and `async for` both work, and whoever leaves a
    loop and comes back goes on where it left."""

    def __init__(self, live: LiveQuery, since: int | datetime | str | None) -> None:
        self._live, self._result = live, live.result
        self._low = self._result.first_tick(since)
        self._read: deque[Change] = deque()
        """Changes that nobody has got yet."""
        self._reading = threading.Lock()
        self._closed = False

    def close(self) -> None:
        """Let whoever waits for the next change go."""
        self._closed = True
        with self._live.run.graph.committed:
            self._live.run.graph.committed.notify_all()

    def __iter__(self) -> Iterator[Change]:
        while self._more():
            while self._read:
                yield self._read.popleft()

    async def __aiter__(self) -> AsyncIterator[Change]:
        # The thread returns from time to time: whoever is cancelled leaves none behind.
        while await asyncio.to_thread(self._more):
            while self._read:
                yield self._read.popleft()

    def _more(self) -> bool:
        """Read the changes up to what is final, if there are any before patience ends; whether there may be more."""
        with self._reading:
            run = self._live.run
            goes_on = self._goes_on()  # asked first: what was committed until then is seen below
            with run.graph.committed:
                if self._result.upto <= self._low and not self._read and goes_on and not self._closed:
                    run.graph.committed.wait(PATIENCE)
            high = self._result.upto
            if self._closed or self._read:
                return not self._closed
            if high > self._low:
                self._read += self._changes(self._low, high)
                self._low = high
                return True
            if self._live.is_in_graph and (failure := self._live.running.failure(run)) is not None:
                raise failure
            return goes_on

    def _changes(self, low: int, high: int) -> list[Change]:
        try:
            return [self._change(row) for row in self._result.kept_changes(low, high).collect()]
        except Exception as problem:
            self._result.refuse_forgotten(low)  # retention may have been faster than Spark
            raise foreign(problem) from problem

    def _goes_on(self) -> bool:
        run = self._live.run
        return self._live.is_in_graph and not run.graph.ledger.released and run.trouble is None

    def _change(self, found: Row) -> Change:
        names, values = list(found.__fields__), list(found)
        batch = values.pop() if self._result.width > 1 else None
        names = names[1 : len(values) - 1]
        return Change(values[0], _row(names, values[1:-1]), values[-1], batch)


def _row(names: list[str], values: list[Any]) -> Row:
    return Row(*names)(*values) if names else Row()
