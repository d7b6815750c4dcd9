"""How far time has passed: what each source promises about the rows that it has still to give.

A promise is an instant before which no row will come. A source makes it by its newest row less its slack (rows that are heartbeats
count), or, where its definition says so and always where rows are stamped on arrival, by the clock; and whoever hands its rows in may
make it by a call. A source that has been silent for its `idle` time holds nobody back. The watermark of an epoch is the least of all
promises; rows that the epoch itself brings count for it. Promises are part of the manifest, so a run that goes on keeps them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from tidegate.language.catalog import StreamDefinition
from tidegate.runtime.ledger import SourceProgress
from tidegate.time import MIN, add


@dataclass(frozen=True)
class Seen:
    """What an epoch's rows of a source were: the newest instant of those that can be used, and how many came."""

    newest: int | None
    rows: int


@dataclass
class Promises:
    """What is known of sources beside their rows: when each was last heard, by a clock, and what was promised by a call."""

    clock: Callable[[], float]
    heard: dict[str, float] = field(default_factory=dict)
    said: dict[str, int] = field(default_factory=dict)
    """The tick before which no row of a stream will come, as a program said."""

    def say(self, name: str, tick: int) -> None:
        self.heard[name] = self.clock()
        self.said[name] = max(tick, self.said.get(name, tick))

    def kept(self, known: Mapping[str, SourceProgress]) -> dict[str, SourceProgress]:
        """How far sources have come with what was said by calls."""
        sources = {name: SourceProgress() for name in self.said} | dict(known)
        return {n: replace(s, promised=max(s.promised, self.said.get(n, MIN))) for n, s in sources.items()}

    def progress(
        self,
        streams: Mapping[str, StreamDefinition],
        known: Mapping[str, SourceProgress],
        seen: Mapping[str, Seen],
        wall: int,
    ) -> dict[str, SourceProgress]:
        """How far the streams have come after some more rows, at a time of the wall clock (microseconds)."""
        sources = self.kept(known)
        for name, definition in streams.items():
            before, found = sources.get(name, SourceProgress()), seen.get(name, Seen(None, 0))
            if found.rows or found.newest is not None:
                self.heard[name] = self.clock()
            newest = before.newest if found.newest is None else max(before.newest, found.newest)
            made = [before.promised]
            if definition.by_clock is None:
                made.append(add(newest, -definition.slack))
            else:
                # Spark stamps rows by milliseconds: those that come later are not before this one.
                made.append((wall - definition.by_clock) // 1000 * 1000 * definition.width)
            sources[name] = replace(before, newest=newest, rows=before.rows + found.rows, promised=max(made))
        return sources

    def watermark(
        self, streams: Mapping[str, StreamDefinition], sources: Mapping[str, SourceProgress], width: int
    ) -> int:
        """What all streams have promised: no row before this instant will come. Epochs end with instants, whatever
        batches they have."""
        now = self.clock()
        silent = [n for n, d in streams.items() if self._is_silent(n, d, now)]
        reached = [sources[n].promised for n in streams if n not in silent]
        if reached:
            return _whole(min(reached), width)
        # If every source is silent, all that was said is final, and nobody holds back what another has promised.
        last = max((sources[n].newest for n in silent), default=MIN)
        promised = max((sources[n].promised for n in silent), default=MIN)
        return max(add(_whole(last, width), width), _whole(promised, width))

    def _is_silent(self, name: str, definition: StreamDefinition, now: float) -> bool:
        heard = self.heard.setdefault(name, now)
        return definition.idle is not None and (now - heard) * 1e6 >= definition.idle


def _whole(tick: int, width: int) -> int:
    """The first tick of its instant."""
    return tick // width * width if tick != MIN else MIN
