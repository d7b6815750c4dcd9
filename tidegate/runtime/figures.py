"""What `status` tells about a graph: a value of its own, made after each epoch, so that nobody who asks has to wait for one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidegate.algebra.operators import Node
from tidegate.algebra.synchronization import counted
from tidegate.exchange.messages import Message
from tidegate.runtime.activities import Activities, MeasuredEpoch, kept
from tidegate.runtime.jobs import Physical
from tidegate.runtime.ledger import Manifest, SourceProgress
from tidegate.runtime.queries import Query
from tidegate.time import MAX, MIN


@dataclass(frozen=True)
class EpochPace:
    """An epoch by the clock: when it began and ended (seconds), its rows, and those of each stream."""

    begun: float
    ended: float
    rows: int
    streams: Mapping[str, int] = field(default_factory=dict)
    ticks: int = 0
    """Of application time, that passed; 0 also where nobody knows when it began or it has ended."""

    @classmethod
    def of(
        cls,
        begun: float,
        ended: float,
        rows: int,
        before: Manifest,
        sources: Mapping[str, SourceProgress],
        upto: int,
    ) -> EpochPace:
        """An epoch that followed `before` and brought sources and time so far."""
        known, none = before.sources, SourceProgress()
        streams = {n: s.rows - known.get(n, none).rows for n, s in sources.items()}
        ticks = 0 if before.upto == MIN or upto == MAX else upto - before.upto
        return cls(begun, ended, rows, streams, ticks)

    @property
    def seconds(self) -> float:
        return self.ended - self.begun


@dataclass
class Pace:
    """Wall-clock figures for `status`; they never decide an answer."""

    graph: str
    epochs: list[EpochPace] = field(default_factory=list)
    tasks: list[Message] = field(default_factory=list)
    activities: Activities = field(default_factory=Activities)
    metrics: tuple[MeasuredEpoch, ...] = ()
    """What was measured in the last epochs."""
    points: dict[str, tuple[int, int] | None] = field(default_factory=dict)
    """Of synchronized queries, how many full and partial points have passed since the graph was started."""

    def passed(
        self, epoch: EpochPace, place: tuple[int, int, int], physical: Physical, messages: list[Message]
    ) -> None:
        """Note what an epoch took and did; `place`: its number, its watermark and the ticks of an instant."""
        self.tasks = messages
        self.activities = self.activities.after(physical.orders, messages)
        measured = MeasuredEpoch(self.graph, *place, physical, self.activities.epoch)
        self.metrics = kept(self.metrics, measured)
        self.epochs = [*self.epochs[-99:], epoch]

    def pass_points(self, synchronized: Mapping[str, Node], since: int, upto: int) -> None:
        if since == MIN or upto == MAX:
            return
        for name, plan in synchronized.items():
            more, known = counted(plan, since, upto), self.points.get(name, (0, 0))
            counts = None
            if more is not None and known is not None:
                counts = (known[0] + more[0], known[1] + more[1])
            self.points[name] = counts


@dataclass(frozen=True)
class Figures:
    manifest: Manifest
    epochs: tuple[EpochPace, ...]
    """The last epochs."""
    queries: Mapping[str, Query]
    activities: Activities
    metrics: tuple[MeasuredEpoch, ...]
    """What was measured in the last epochs."""
    points: Mapping[str, tuple[int, int] | None]
    """Of synchronized queries, how many full and partial points have passed."""
    width: int

    def status(self) -> dict[str, Any]:
        """Epoch, watermark, speed, what was refused, and each source's progress."""
        manifest, recent = self.manifest, self.epochs
        rows = sum(e.rows for e in recent)
        newest = max((s.newest for s in manifest.sources.values()), default=MIN)
        return {
            "epoch": manifest.epoch,
            "watermark": self._known(manifest.upto),
            "finished": manifest.finished,
            "rows_per_second": rows / self.span if self.span > 0 else 0.0,
            "epoch_seconds": [round(e.seconds, 4) for e in recent],
            "lag": self._instant(newest) - self._instant(manifest.upto)
            if MIN not in (newest, manifest.upto) and not manifest.finished
            else None,
            "sources": {
                n: {
                    "newest": self._known(s.newest),
                    "promised": self._known(s.promised),
                    "rows": s.rows,
                    "quarantine": dict(s.refused),
                }
                for n, s in manifest.sources.items()
            },
            "queries": {
                name: {
                    "since": self._known(query.since),
                    "replaced": [self._known(t.until) for t in query.known.before],
                    **self._points(name),
                }
                for name, query in self.queries.items()
            },
            "catching_up": self.catching_up,
        }

    @property
    def catching_up(self) -> list[str]:
        """The queries that have still to be told what came before."""
        return [n for n, q in self.queries.items() if q.history and n not in self.manifest.queries]

    @property
    def span(self) -> float:
        """Seconds from the begin of the first of the last epochs to the end of the last."""
        return self.epochs[-1].ended - self.epochs[0].begun if self.epochs else 0.0

    @property
    def rates(self) -> dict[str, float]:
        """Rows per second of each stream, in the last epochs."""
        streams = {name for epoch in self.epochs for name in epoch.streams}
        if self.span <= 0:
            return dict.fromkeys(streams, 0.0)
        return {n: sum(e.streams.get(n, 0) for e in self.epochs) / self.span for n in streams}

    @property
    def delay(self) -> float | None:
        """Seconds from the moment at which an epoch takes its rows until its answers count, on average over the last ones."""
        seconds = [e.seconds for e in self.epochs if e.rows]
        return sum(seconds) / len(seconds) if seconds else None

    def _points(self, query: str) -> dict[str, Any]:
        if query not in self.points:
            return {}
        passed = self.points[query]
        return {"points": None if passed is None else {"full": passed[0], "partial": passed[1]}}

    def _known(self, tick: int) -> int | None:
        return None if tick == MIN else self._instant(tick)

    def _instant(self, tick: int) -> int:
        return tick if tick in (MIN, MAX) else tick // self.width
