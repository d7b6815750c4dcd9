"""Following an answer from Python: its changes one after the other, as they become final.

A subscription reads what the graph has kept, so it misses nothing and repeats nothing, whoever is slow: the graph does not wait for it.
Only retention can be faster; that is an error then, not a gap.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql import Row

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
    """The changes of a running query from an instant on; ends with the query. `for` and `async for` both work."""

    def __init__(self, live: LiveQuery, since: int | datetime | str | None) -> None:
        self._live, self._low = live, live.result.first_tick(since)
        self._closed = False

    def close(self) -> None:
        """Let whoever waits for the next change go."""
        self._closed = True
        with self._live.run.graph.committed:
            self._live.run.graph.committed.notify_all()

    def __iter__(self) -> Iterator[Change]:
        while (changes := self._next()) is not None:
            yield from changes

    async def __aiter__(self) -> AsyncIterator[Change]:
        while (changes := await asyncio.to_thread(self._next)) is not None:
            for change in changes:
                yield change

    def _next(self) -> list[Change] | None:
        """The changes up to what is final, as soon as there is more; None: no more will come."""
        run, result = self._live.run, self._live.result
        while not self._closed:
            goes_on = self._goes_on()  # asked first: what was committed until then is seen below
            with run.graph.committed:
                if (high := result.upto) <= self._low and goes_on:
                    run.graph.committed.wait(PATIENCE)
                    continue
            if high <= self._low:
                if run.failure is not None:
                    self._live.wait(0)
                return None
            low, self._low = self._low, high
            return [self._change(row) for row in result.kept_changes(low, high).collect()]
        return None

    def _goes_on(self) -> bool:
        run = self._live.run
        stopped = run.graph.ledger.released or all(q.name != self._live.name for q in run.graph.queries())
        return not stopped and run.failure is None

    def _change(self, found: Row) -> Change:
        names, values = list(found.__fields__), list(found)
        batch = values.pop() if self._live.result.width > 1 else None
        names = names[1 : len(values) - 1]
        return Change(values[0], _row(names, values[1:-1]), values[-1], batch)


def _row(names: list[str], values: list[Any]) -> Row:
    return Row(*names)(*values) if names else Row()
