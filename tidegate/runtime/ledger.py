"""What a run has committed: one manifest per epoch, and nothing counts that the newest one does not lead to.

A manifest names the state's segments as they are after its epoch, and the result files that its epoch added. It appears
by one atomic rename. From time to time small result files are merged, and an index takes over what the manifests up to some
epoch say about results: it appears by one rename, too, and then only the last manifests are needed. Segments that no manifest of
the last two epochs names are collected, and so is what a failed attempt left behind. Files that were merged
are deleted at the next merge, so that whoever reads an answer meanwhile finds them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from tidegate.errors import Diagnostic
from tidegate.runtime.faults import reach
from tidegate.storage import BLOCKS, Storage
from tidegate.time import MAX, MIN
from tidegate.worker.tasks import Log

FORMAT = 2

INDEX = "index/results.json"

MANIFESTS = 256
"""After so many epochs the index takes over, whether or not there is something to merge."""


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
    horizon: int = MIN
    """Answers before this instant may be gone once this epoch counts."""

    @property
    def finished(self) -> bool:
        return self.upto == MAX

    def segments(self) -> set[str]:
        return {name for log in self.logs.values() for name in log.segments}


@dataclass(frozen=True)
class Index:
    """Every result file of the epochs up to one, and what sinks must have got of them."""

    epoch: int = 0
    upto: int = MIN
    marked: int = 0
    """The last of these epochs in which time passed; 0: none."""
    horizon: int = MIN
    """Answers before this instant are not kept."""
    results: tuple[ResultFile, ...] = ()


Merge = Callable[[int, Sequence[ResultFile]], list[ResultFile]]
"""Result files after an epoch -> the files that hold the same rows."""


class Ledger:
    """The manifests of a run, on its storage."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self._results: list[ResultFile] = []
        self._since: dict[int, tuple[int, int]] = {}
        self._previous: set[str] = set()
        self._replaced: list[str] = []
        self.latest = Manifest()
        self.index = _read_index(storage)
        self.horizon = self.index.horizon
        """Answers before this instant are not kept."""
        self._results += self.index.results
        for name in storage.names("manifests"):
            manifest = _decode(bytes(storage.read(f"manifests/{name}")))
            self._record(manifest)
        self.horizon = max(self.horizon, self.latest.horizon)
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

    def tidy(self, merge: Merge) -> bool:
        """Merge result files, where that is worth it, and let the index take over from all manifests but the last."""
        before = list(self._results)
        after = merge(self.latest.epoch, before)
        if len(self._since) < MANIFESTS and {f.file for f in after} == {f.file for f in before}:
            return False
        reach("before index")
        passed = [e for e, (low, high) in self._since.items() if low != high]
        marked = max([self.index.marked, *passed])
        self.index = Index(self.latest.epoch, self.latest.upto, marked, self.horizon, tuple(after))
        self.storage.publish(INDEX, _encode_index(self.index))
        reach("after index")
        for file in self._replaced:
            self.storage.delete(file)
        kept = {f.file for f in after}
        self._replaced = [f.file for f in before if f.file not in kept]
        self._results, self._since = after, {}
        for name in self.storage.names("manifests"):
            if int(name.split(".")[0]) < self.latest.epoch:
                self.storage.delete(f"manifests/{name}")
        return True

    def forget_before(self, horizon: int) -> None:
        """Drop result files whose rows all ended before the horizon; an end at the horizon is a change that is kept."""
        self.horizon = max(self.horizon, horizon)
        gone = [r for r in self._results if r.max_te < horizon]
        if not gone:
            return
        for result in gone:
            self.storage.delete(result.file)
        names = {r.file for r in gone}
        self._results = [r for r in self._results if r.file not in names]

    def _record(self, manifest: Manifest) -> None:
        fresh = manifest.epoch > self.index.epoch
        if manifest.epoch > self.latest.epoch or self.latest.epoch == 0:
            if fresh:
                self._since[manifest.epoch] = (self.latest.upto, manifest.upto)
            self.latest = manifest
        if fresh:
            self._results += manifest.results

    def _collect_litter(self) -> None:
        self.storage.delete_folder(BLOCKS)
        known = self.latest.segments()
        for name in self.storage.names("state"):
            if f"state/{name}" not in known:
                self.storage.delete(f"state/{name}")
        # Retention deletes files that manifests still name, and merging leaves files that nobody names.
        queries = {r.query for r in self._results}
        existing = {f"results/{q}/{n}" for q in queries for n in self.storage.names(f"results/{q}")}
        self._results = [r for r in self._results if r.file in existing]
        for file in existing - {r.file for r in self._results}:
            self.storage.delete(file)


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


def _read_index(storage: Storage) -> Index:
    folder, _, name = INDEX.partition("/")
    if name not in storage.names(folder):
        return Index()
    found = _checked(bytes(storage.read(INDEX)))
    return Index(**{**found, "results": tuple(ResultFile(**r) for r in found["results"])})


def _encode_index(index: Index) -> bytes:
    return json.dumps({"format": FORMAT, **asdict(index)}, separators=(",", ":")).encode()


def _name(epoch: int) -> str:
    return f"manifests/{epoch:08d}.json"


def _encode(manifest: Manifest) -> bytes:
    return json.dumps({"format": FORMAT, **asdict(manifest)}, separators=(",", ":")).encode()


def _checked(data: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(data)
    if found.pop("format", None) != FORMAT:
        raise Diagnostic(
            "STATE_FORMAT",
            "the state was written by another version of Tidegate",
            help="start with an empty state directory",
        )
    return found


def _decode(data: bytes) -> Manifest:
    found = _checked(data)
    found["logs"] = {k: Log(tuple(v["segments"]), v["rows"]) for k, v in found["logs"].items()}
    found["results"] = tuple(ResultFile(**r) for r in found["results"])
    found["sources"] = {k: SourceProgress(**v) for k, v in found["sources"].items()}
    return Manifest(**found)
