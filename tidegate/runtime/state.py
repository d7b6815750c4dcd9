"""What a run has committed: one manifest per epoch, and nothing counts that the newest one does not lead to.

A manifest names the state's segments as they are after its epoch, and the result files that its epoch added. It appears
by one atomic rename. Manifests stay as long as their results do; segments that no manifest of the last
two epochs names are collected, and so is what a failed attempt left behind.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from tidegate.errors import Diagnostic
from tidegate.runtime.faults import reach
from tidegate.spark.storage import Storage
from tidegate.spark.worker import Log
from tidegate.time import MAX, MIN

FORMAT = 1


@dataclass(frozen=True)
class ResultFile:
    """Rows of an answer in one file. All instants are ticks."""

    query: str
    file: str
    rows: int
    negative: int
    multiple: int
    min_ts: int
    max_ts: int
    max_te: int


@dataclass(frozen=True)
class SourceProgress:
    """How far a source has come: its newest instant, and what was refused."""

    newest: int = MIN
    rows: int = 0
    refused: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Manifest:
    """The state of a run after an epoch; everything before `upto` is final."""

    epoch: int = 0
    upto: int = MIN
    batch: int = -1
    partitions: int = 0
    sources: Mapping[str, SourceProgress] = field(default_factory=dict)
    queries: Mapping[str, Any] = field(default_factory=dict)
    """Name -> what the graph remembers of it: the label of its group, since when it runs, the plan's fingerprint."""
    logs: Mapping[str, Log] = field(default_factory=dict)
    results: tuple[ResultFile, ...] = ()

    @property
    def finished(self) -> bool:
        return self.upto == MAX

    def segments(self) -> set[str]:
        return {name for log in self.logs.values() for name in log.segments}


class Ledger:
    """The manifests of a run, on its storage."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self._results: list[ResultFile] = []
        self._since: dict[int, tuple[int, int]] = {}
        self._previous: set[str] = set()
        self.latest = Manifest()
        for name in storage.names("manifests"):
            manifest = _decode(bytes(storage.read(f"manifests/{name}")))
            self._record(manifest)
        self._collect_litter()

    @property
    def results(self) -> tuple[ResultFile, ...]:
        """Every result file that is kept, in order of its epoch."""
        return tuple(self._results)

    def bounds(self, epoch: int) -> tuple[int, int] | None:
        """[W0, W1) of a committed epoch."""
        return self._since.get(epoch)

    @property
    def epochs(self) -> list[int]:
        return sorted(self._since)

    def commit(self, manifest: Manifest) -> None:
        """Make an epoch count."""
        reach("before manifest")
        before = self.latest
        self.storage.publish(_name(manifest.epoch), _encode(manifest))
        reach("after manifest")
        self._record(manifest)
        # The epoch before may still be read by a task that is late to notice; the one before that may not.
        for name in self._previous - before.segments() - manifest.segments():
            self.storage.delete(name)
        self._previous = before.segments()

    def forget_before(self, horizon: int) -> None:
        """Drop result files whose rows all ended at or before the horizon, and manifests that have none left."""
        gone = [r for r in self._results if r.max_te <= horizon]
        if not gone:
            return
        for result in gone:
            self.storage.delete(result.file)
        names = {r.file for r in gone}
        self._results = [r for r in self._results if r.file not in names]

    def _record(self, manifest: Manifest) -> None:
        if manifest.epoch > self.latest.epoch or self.latest.epoch == 0:
            self._since[manifest.epoch] = (self.latest.upto, manifest.upto)
            self.latest = manifest
        self._results += manifest.results

    def _collect_litter(self) -> None:
        known = self.latest.segments()
        for name in self.storage.names("state"):
            if f"state/{name}" not in known:
                self.storage.delete(f"state/{name}")
        self._results = [r for r in self._results if r.file in self._existing()] if self._results else []

    def _existing(self) -> set[str]:
        queries = {r.query for r in self._results}
        return {f"results/{q}/{n}" for q in queries for n in self.storage.names(f"results/{q}")}


def after(before: Manifest, messages: Iterable[Mapping[str, Any]], **changes: Any) -> Manifest:
    """The manifest of the next epoch: what the tasks reported, on top of the one before."""
    logs = dict(before.logs)
    results: list[ResultFile] = []
    sources = dict(changes.pop("sources", before.sources))
    for message in messages:
        if message["kind"] == "stage":
            if "segments" in message:
                logs[message["place"]] = Log(tuple(message["segments"]), message["logged"])
            results += [ResultFile(**r) for r in message["results"]]
            for name, newest in message["newest"].items():
                known = sources.get(name, SourceProgress())
                sources[name] = replace(known, newest=max(known.newest, newest))
        elif message["kind"] == "quarantine":
            for name, counts in message["counts"].items():
                known = sources.get(name, SourceProgress())
                total = dict(known.refused)
                for reason, count in counts.items():
                    total[reason] = total.get(reason, 0) + count
                sources[name] = replace(known, refused=total)
    return replace(
        before, epoch=before.epoch + 1, logs=logs, results=tuple(results), sources=sources, **changes
    )


def _name(epoch: int) -> str:
    return f"manifests/{epoch:08d}.json"


def _encode(manifest: Manifest) -> bytes:
    return json.dumps({"format": FORMAT, **asdict(manifest)}, separators=(",", ":")).encode()


def _decode(data: bytes) -> Manifest:
    found = json.loads(data)
    if found.pop("format", None) != FORMAT:
        raise Diagnostic(
            "STATE_FORMAT",
            "the state was written by another version of Tidegate",
            help="start with an empty state directory",
        )
    found["logs"] = {k: Log(tuple(v["segments"]), v["rows"]) for k, v in found["logs"].items()}
    found["results"] = tuple(ResultFile(**r) for r in found["results"])
    found["sources"] = {k: SourceProgress(**v) for k, v in found["sources"].items()}
    return Manifest(**found)
