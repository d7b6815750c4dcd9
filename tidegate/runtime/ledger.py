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
from dataclasses import dataclass, field, replace
from typing import Any

from tidegate.codec import from_data, to_data
from tidegate.errors import Diagnostic
from tidegate.exchange.messages import Log, Message, Quarantined, ResultFile, RowCounts, WaveReport
from tidegate.physical.plan import Birth
from tidegate.runtime.faults import reach
from tidegate.storage import BLOCKS, Storage
from tidegate.time import MAX, MIN
from tidegate.worker.result_files import Section, read_directory

FORMAT = 3

INDEX = "index/results.json"

MANIFESTS = 256
"""After so many epochs the index takes over, whether or not there is something to merge."""


@dataclass(frozen=True)
class ResultPart:
    """Rows of one operator in a file: all of it, or (`section`) a part."""

    file: str
    section: Section | None
    counts: RowCounts


@dataclass(frozen=True)
class KnownQuery:
    """What the graph remembers of a query."""

    birth: Birth
    since: int
    """The instant from which its answer holds."""
    answer: str
    """The identity of the operator that answers it."""
    owner: str = ""
    """Who writes to its sinks: no other query has had this name, in any state."""


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
    queries: Mapping[str, KnownQuery] = field(default_factory=dict)
    logs: Mapping[str, Log] = field(default_factory=dict)
    """Place (a wave in a partition) -> the segments of its operators' state."""
    layout: str = ""
    """Which operators run in which wave, as a digest."""
    columns: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """What inputs bring that not all of their readers need: whoever is left goes on to get it."""
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
        self._directories: dict[str, dict[str, Section]] = {}
        self._since: dict[int, tuple[int, int]] = {}
        self._previous: set[str] = set()
        self._replaced: list[str] = []
        self.latest = Manifest()
        self.index = _read_index(storage)
        self.horizon = self.index.horizon
        """Answers before this instant are not kept."""
        self._results += self.index.results
        for name in storage.names("manifests"):
            self._record(read_manifest(storage, name))
        self.horizon = max(self.horizon, self.latest.horizon)
        self._collect_litter()

    @property
    def results(self) -> tuple[ResultFile, ...]:
        """Every result file that is kept, in order of its epoch."""
        return tuple(self._results)

    def parts(self, operator: str) -> list[ResultPart]:
        """Where the rows of an operator are, in order of epochs."""
        found = []
        for file in self.results:
            if file.section == operator:
                found.append(ResultPart(file.file, None, file.counts))
            elif file.section is None:
                section = self._directory(file.file).get(operator)
                if section is not None:
                    found.append(ResultPart(file.file, section, section.counts))
        return found

    def _directory(self, file: str) -> dict[str, Section]:
        if file not in self._directories:
            self._directories[file] = read_directory(self.storage, file)
        return self._directories[file]

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
        self.storage.publish(INDEX, _encode(self.index))
        reach("after index")
        for file in self._replaced:
            self.storage.delete(file)
        kept = {f.file for f in after}
        self._replaced = [f.file for f in before if f.file not in kept]
        self._directories = {f: d for f, d in self._directories.items() if f in kept}
        self._results, self._since = after, {}
        for name in self.storage.names("manifests"):
            if int(name.split(".")[0]) < self.latest.epoch:
                self.storage.delete(f"manifests/{name}")
        return True

    def forget_before(self, horizon: int) -> None:
        """Drop result files whose rows all ended before the horizon; an end at the horizon is a change that is kept."""
        self.horizon = max(self.horizon, horizon)
        gone = [r for r in self._results if r.counts.max_te < horizon]
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
        existing = {f"results/{n}" for n in self.storage.names("results")}
        self._results = [r for r in self._results if r.file in existing]
        for file in existing - {r.file for r in self._results}:
            self.storage.delete(file)


def after(before: Manifest, messages: Iterable[Message], **changes: Any) -> Manifest:
    """The manifest of the next epoch: what the tasks reported, on top of the one before."""
    logs = dict(changes.pop("logs", before.logs))
    results: list[ResultFile] = []
    sources = dict(changes.pop("sources", before.sources))
    for message in messages:
        if isinstance(message, WaveReport):
            if message.log is not None:
                logs[message.place] = message.log
            results += message.results
            for name, newest in message.newest.items():
                known = sources.get(name, SourceProgress())
                sources[name] = replace(known, newest=max(known.newest, newest))
        elif isinstance(message, Quarantined):
            for name, counts in message.counts.items():
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
    found: Index = from_data(Index, checked(bytes(storage.read(INDEX))))
    return found


def _name(epoch: int) -> str:
    return f"manifests/{epoch:08d}.json"


def _encode(value: Manifest | Index) -> bytes:
    return json.dumps({"format": FORMAT, **to_data(value)}, separators=(",", ":")).encode()


def checked(data: bytes) -> dict[str, Any]:
    """What a manifest or index says, if this version can read it."""
    found: dict[str, Any] = json.loads(data)
    if found.pop("format", None) != FORMAT:
        raise Diagnostic(
            "STATE_FORMAT",
            "the state was written by another version of Tidegate",
            help="start with an empty state directory",
        )
    return found


def read_manifest(storage: Storage, name: str) -> Manifest:
    """A manifest by its file name."""
    found: Manifest = from_data(Manifest, checked(bytes(storage.read(f"manifests/{name}"))))
    return found
