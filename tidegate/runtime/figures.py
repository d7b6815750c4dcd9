"""What `status` tells about a graph: a value of its own, made after each epoch, so that nobody who asks has to wait for one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from tidegate.algebra.operators import Node
from tidegate.algebra.synchronization import counted
from tidegate.exchange.messages import Message, WaveReport
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

    @classmethod
    def of(
        cls,
        begun: float,
        ended: float,
        rows: int,
        before: Mapping[str, SourceProgress],
        after: Mapping[str, SourceProgress],
    ) -> EpochPace:
        none = SourceProgress()
        return cls(begun, ended, rows, {n: s.rows - before.get(n, none).rows for n, s in after.items()})

    @property
    def seconds(self) -> float:
        return self.ended - self.begun


@dataclass(frozen=True)
class Activity:
    """What an input or operator has done: the rows that it took and gave in the last epoch, and since the graph was started here; the rows
    and bytes that it keeps."""

    taken: int = 0
    given: int = 0
    all_taken: int = 0
    all_given: int = 0
    kept: int = 0
    size: int = 0


@dataclass(frozen=True)
class Activities:
    """What all inputs and operators have done, as columns: a row per input or operator, wave by wave in the order of the tasks' reports."""

    orders: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    columns: Mapping[int, np.ndarray] = field(default_factory=dict)
    """Wave -> the fields of `Activity`, one row each."""

    def after(self, orders: Mapping[int, tuple[str, ...]], messages: Iterable[Message]) -> Activities:
        """The same after an epoch, in which the operators of `orders` ran."""
        if orders is self.orders:
            totals = {wave: found[2:4] for wave, found in self.columns.items()}
        else:
            known = {id_: (done.all_taken, done.all_given) for id_, done in self.by_id.items()}
            totals = {
                wave: np.array([known.get(i, (0, 0)) for i in ids], dtype=np.int64).reshape(-1, 2).T
                for wave, ids in orders.items()
            }
        columns = {w: np.stack([0 * t[0], 0 * t[0], *t, 0 * t[0], 0 * t[0]]) for w, t in totals.items()}
        for message in messages:
            if isinstance(message, WaveReport) and message.tally.given:
                flow, t = (message.tally.taken, message.tally.given), message.tally
                columns[int(message.place.split("@")[0])] += np.array(
                    [*flow, *flow, t.kept, t.sizes], dtype=np.int64
                )
        return Activities(orders, columns)

    @cached_property
    def by_id(self) -> dict[str, Activity]:
        """What each has done, by its identity."""
        return {
            id_: Activity(*(int(v) for v in values))
            for wave, ids in self.orders.items()
            for id_, values in zip(ids, self.columns[wave].T, strict=True)
        }


@dataclass
class Pace:
    """Wall-clock figures for `status`; they never decide an answer."""

    epochs: list[EpochPace] = field(default_factory=list)
    tasks: list[Message] = field(default_factory=list)
    activities: Activities = field(default_factory=Activities)
    points: dict[str, tuple[int, int] | None] = field(default_factory=dict)
    """Of synchronized queries, how many full and partial points have passed since the graph was started."""

    def passed(
        self, epoch: EpochPace, orders: Mapping[int, tuple[str, ...]], messages: list[Message]
    ) -> None:
        """Note what an epoch took and did."""
        self.tasks = messages
        self.activities = self.activities.after(orders, messages)
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
                name: {"since": self._known(query.since), **self._points(name)}
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
