"""Changes of a running query as server-sent events, resumable without a gap and without a repetition.

One event tells all changes of one instant, and its id is that instant, in ticks: an instant is final before it is told, so it is never told twice in different
words, whichever epochs, restarts or connections lie between. An event `final` tells how far time has passed.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import partial
from typing import Any

from tidegate.errors import Diagnostic, foreign
from tidegate.runtime.running import LiveQuery
from tidegate.server import reads
from tidegate.server.encoding import told
from tidegate.time import MAX

MOST_STREAMS = 1000
"""So many are followed at once."""
LOOK = 0.05
"""Seconds after which it is looked whether an epoch has come to its end."""
ALIVE = 15.0
"""Seconds after which a silent stream is told that it is alive."""


class Streams:
    """All event streams of a server; one task looks for epochs, and wakes whoever waits."""

    def __init__(self, shared: reads.Shared) -> None:
        self._shared = shared
        self._open = 0
        self._closing = False
        self._news = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None
        self._followed: dict[int, tuple[LiveQuery, int]] = {}

    def close(self) -> None:
        """Let all who wait go."""
        self._closing = True
        self._news.set()

    def enter(self) -> None:
        """Take a place, if there is one."""
        if self._open >= MOST_STREAMS:
            raise Diagnostic(
                "TOO_MANY_STREAMS",
                f"{MOST_STREAMS} event streams are open",
                help="close one, or come back later",
            )
        self._open += 1

    async def events(self, live: LiveQuery, low: int) -> AsyncIterator[bytes]:
        """The changes from a tick on, as they become final, until the query or the server ends."""
        mark = id(object())
        loop = asyncio.get_running_loop()
        try:
            while not self._closing:
                goes_on = live.is_in_graph  # asked first: what was final until then is told below
                high = live.result.upto
                if high > low:
                    key = (live.query.known.owner, "events", low, high)
                    yield await self._shared.get(key, partial(encoded, live, low, high))
                    low = high
                    continue
                if not goes_on or high == MAX:
                    yield b"event: end\ndata: {}\n\n"
                    return
                if live.run.trouble is not None:
                    yield _event("error", None, told(live.run.trouble))
                    return
                self._followed[mark] = (live, high)
                began = loop.time()
                while not self._closing and live.result.upto <= low and loop.time() - began < ALIVE:
                    await self._waited()
                    if not live.is_in_graph or live.run.trouble is not None:
                        break
                else:
                    yield b": alive\n\n"
        except Diagnostic as problem:
            yield _event("error", None, told(problem))
        except Exception as problem:
            yield _event("error", None, told(foreign(problem)))
        finally:
            self._followed.pop(mark, None)
            self._open -= 1

    async def _waited(self) -> None:
        if self._looking is None or self._looking.done():
            self._looking = asyncio.ensure_future(self._look())
        with suppress(TimeoutError):
            await asyncio.wait_for(self._news.wait(), 1.0)

    async def _look(self) -> None:
        """While anybody waits, see whether any query has come further."""
        while self._followed and not self._closing:
            await asyncio.sleep(LOOK)
            reached = {id(live.query): live.result.upto for live, _ in self._followed.values()}
            if any(reached[id(live.query)] > high for live, high in self._followed.values()):
                self._followed = {
                    mark: (live, reached[id(live.query)]) for mark, (live, _) in self._followed.items()
                }
                self._news.set()
                self._news = asyncio.Event()


def encoded(live: LiveQuery, low: int, high: int) -> bytes:
    """The events of [low, high)."""
    result = live.result
    events = [_event("changes", tick, event) for tick, event in reads.changes(result, low, high)]
    final = {"before": reads.said_instant(result, high), "epoch": live.run.graph.figures.manifest.epoch}
    return b"".join([*events, _event("final", high - 1, final)])


def _event(kind: str, id_: int | None, data: dict[str, Any]) -> bytes:
    name = "" if id_ is None else f"id: {id_}\n"
    return f"event: {kind}\n{name}data: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


def resumed(live: LiveQuery, last: str | None, since: int | str | None) -> int:
    """The tick to begin with: behind the last event that was seen, at an instant, or at the first that is kept."""
    if last is None:
        return live.result.first_tick(since)
    if not (last.lstrip("-").isdecimal() and last.isascii()) or abs(int(last)) >= MAX:
        raise Diagnostic("WRONG_ARGUMENTS", "Last-Event-ID is no id of an event of this stream")
    low = int(last) + 1
    live.result.refuse_forgotten(low)
    return low
