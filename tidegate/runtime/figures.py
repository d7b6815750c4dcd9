"""What `status` tells about a graph: a value of its own, made after each epoch, so that nobody who asks has to wait for one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidegate.algebra.operators import Node
from tidegate.algebra.synchronization import counted
from tidegate.exchange.messages import Message
from tidegate.runtime.ledger import Manifest
from tidegate.time import MAX, MIN


@dataclass
class Pace:
    """Wall-clock figures for `status`; they never decide an answer."""

    epochs: list[tuple[float, float, int]] = field(default_factory=list)
    tasks: list[Message] = field(default_factory=list)
    points: dict[str, tuple[int, int] | None] = field(default_factory=dict)
    """Of synchronized queries, how many full and partial points have passed since the graph was started."""

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
    epochs: tuple[tuple[float, float, int], ...]
    """Begin, end and rows of the last epochs."""
    queries: Mapping[str, int]
    """Since when each query's answer holds."""
    points: Mapping[str, tuple[int, int] | None]
    """Of synchronized queries, how many full and partial points have passed."""
    width: int

    def status(self) -> dict[str, Any]:
        """Epoch, watermark, speed, what was refused, and each source's progress."""
        manifest, recent = self.manifest, self.epochs
        rows = sum(e[2] for e in recent)
        span = recent[-1][1] - recent[0][0] if recent else 0.0
        newest = max((s.newest for s in manifest.sources.values()), default=MIN)
        return {
            "epoch": manifest.epoch,
            "watermark": self._known(manifest.upto),
            "finished": manifest.finished,
            "rows_per_second": rows / span if span > 0 else 0.0,
            "epoch_seconds": [round(e[1] - e[0], 4) for e in recent],
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
                name: {"since": self._known(since), **self._points(name)}
                for name, since in self.queries.items()
            },
        }

    def _points(self, query: str) -> dict[str, Any]:
        if query not in self.points:
            return {}
        passed = self.points[query]
        return {"points": None if passed is None else {"full": passed[0], "partial": passed[1]}}

    def _known(self, tick: int) -> int | None:
        return None if tick == MIN else self._instant(tick)

    def _instant(self, tick: int) -> int:
        return tick if tick in (MIN, MAX) else tick // self.width
