"""What a run has committed: one manifest per epoch, and nothing counts that the newest one does not lead to.

A manifest names the state's segments as they are after its epoch, and the result files that its epoch added. It appears
by one atomic rename. From time to time small result files are merged, and an index takes over what the manifests up to some
epoch say about results: it appears by one rename, too, and then only the last manifests are needed. Segments that no manifest of
the last two epochs names are collected, and so is what a failed attempt left behind. Files that were merged
are deleted at the next merge, so that whoever reads an answer meanwhile finds them.

Nothing that counted may be missing: epochs and batches have no gaps, every name says the size and checksum of its file, manifest and
index carry their own, and all of it is on the disk before a manifest counts. What is no file of ours is neither read nor deleted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from tidegate.codec import from_data, read_signed_json, signed_json, to_data
from tidegate.errors import Diagnostic
from tidegate.exchange.messages import Log, Message, Quarantined, ResultFile, RowCounts, WaveReport
from tidegate.physical.plan import Birth
from tidegate.runtime.checkpoint import Checkpoint
from tidegate.runtime.faults import reach
from tidegate.runtime.holding import Hold
from tidegate.runtime.quality import Change, Record, Records, recorded
from tidegate.storage import BLOCKS, Storage, seal_of
from tidegate.time import MAX, MIN
from tidegate.worker.result_files import QUARANTINE, Section, is_refused, read_directory

FORMAT = 6

INDEX = "index/results.json"

MANIFESTS = 256
"""After so many epochs the index takes over, whether or not there is something to merge."""


@dataclass(frozen=True)
class ResultPart:
    """Rows of one operator in a file: all of it, or (`section`) a part."""

    file: str
    section: Section | None
    counts: RowCounts
    within: tuple[int, int] = (MIN, MAX)
    """The instants for which its rows count."""


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
    shared: Mapping[str, Birth] = field(default_factory=dict)
    """The inputs that ran already when it began, and since when."""
    complete: int | None = MIN
    """The instant from which nothing is missing in its answer; None: not known."""
    reads: tuple[str, ...] = ()
    """The parts of it that ran for others when it began: see `Manifest.views`."""
    as_one: str = ""
    """If it is a condition on the answer that runs for all queries that are alike: which one (see `runtime.alike`)."""
    meaning: str = ""
    """If it runs another plan than the rules alone give: what they give, as an identity."""
    plan: str = ""
    """That plan: see `Manifest.views`."""
    before: tuple[Turn, ...] = ()
    """The plans that have answered it before this one, in their order: see `runtime.migration`."""

    @property
    def first(self) -> int:
        """The first instant of the answer, whoever gave it."""
        return self.before[0].plan.since if self.before else self.since

    @property
    def nothing_missing(self) -> int | None:
        """The instant from which nothing is missing in the answer, as far as it was given by plans of this meaning; None: not known."""
        complete = self.complete
        for turn in reversed(self.before):
            if not turn.same:
                return None if complete is None else max(turn.until, complete)
            earlier = turn.plan.complete
            if earlier is not None and earlier <= turn.until:
                complete = earlier
            elif complete is not None:
                complete = max(turn.until, complete)
        return complete


@dataclass(frozen=True)
class Turn:
    """A plan that has answered a query up to an instant."""

    plan: KnownQuery
    until: int
    same: bool = True
    """Whether it means what the next one means."""


@dataclass(frozen=True)
class SourceProgress:
    """How far a source has come: its newest instant, what it has promised (no row before it will come), and what was refused."""

    newest: int = MIN
    rows: int = 0
    promised: int = MIN
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
    views: Mapping[str, Any] = field(default_factory=dict)
    """The plans that queries read as parts of others, by what they compute."""
    results: tuple[ResultFile, ...] = ()
    """The files of answers, and of rows that were refused, that the epoch added."""
    horizon: int = MIN
    """Answers before this instant may be gone once this epoch counts."""
    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    """What Spark had noted of the stream when the last of its batches began."""
    taken: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The files of inboxes that the epoch has read, by stream: see `runtime.inboxes`."""
    taken_at: tuple[int, int] = (MIN, 0)
    """How far time had passed when it took them, and what the clock said (microseconds)."""
    settings: tuple[Change, ...] = ()
    """What was chosen anew, to hold for rows that have not come yet: see `runtime.quality`."""

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
    settings: tuple[Record, ...] = ()
    """What was chosen in these epochs."""


Merge = Callable[[int, Sequence[ResultFile]], list[ResultFile]]
"""Result files after an epoch -> the files that hold the same rows."""


class Ledger:
    """The manifests of a run, on its storage. Who holds it writes, and collects what a failed attempt left; others read."""

    def __init__(self, storage: Storage, hold: Hold | None = None) -> None:
        self.storage = storage
        self._hold = hold
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
        self.settings: Records = {r.knob.name: r for r in self.index.settings}
        """What is in force since when, of all that was ever chosen."""
        for manifest in _read_manifests(storage, self.index):
            self._record(manifest)
        self.horizon = max(self.horizon, self.latest.horizon)
        if hold is not None and hold.epoch > self.latest.epoch:
            raise storage.damaged(_name(hold.epoch), "is missing: it counted")
        self._check_files()
        if hold is not None:
            self._collect_litter()

    @classmethod
    def held(cls, storage: Storage) -> Ledger:
        """The ledger of a directory that is held until it is released."""
        hold = Hold(storage)
        try:
            return cls(storage, hold)
        except BaseException:
            hold.release()
            raise

    def release(self) -> None:
        """Let others write."""
        if self._hold is not None:
            self._hold.release()

    @property
    def released(self) -> bool:
        return self._hold is not None and self._hold.released

    @property
    def results(self) -> tuple[ResultFile, ...]:
        """Every file of answers that is kept, in order of its epoch."""
        return tuple(r for r in self._results if not is_refused(r))

    @property
    def refused(self) -> tuple[ResultFile, ...]:
        """Every file with rows that were refused."""
        return tuple(r for r in self._results if is_refused(r))

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
        before = self.latest
        fresh = {*(manifest.segments() - before.segments()), *(r.file for r in manifest.results)}
        if self._hold is not None:
            self._hold.check()
        self.storage.sync(fresh)
        reach("before manifest")
        self.storage.publish_new(_name(manifest.epoch), _encode(manifest))
        if self._hold is not None:
            self._hold.note(manifest.epoch)
        reach("after manifest")
        self._record(manifest)
        self._collect_refused(manifest)
        # The epoch before may still be read by a task that is late to notice; the one before that may not.
        for name in self._previous - before.segments() - manifest.segments():
            self.storage.delete(name)
        self._previous = before.segments()
        reach("after old state")

    @property
    def files(self) -> tuple[ResultFile, ...]:
        """Every file of answers and of refused rows that is kept."""
        return tuple(self._results)

    def tidy(self, merge: Merge) -> bool:
        """Merge result files, where that is worth it, and let the index take over from all manifests but the last."""
        before = list(self._results)
        after = merge(self.latest.epoch, before)
        if len(self._since) < MANIFESTS and {f.file for f in after} == {f.file for f in before}:
            return False
        reach("before index")
        passed = [e for e, (low, high) in self._since.items() if low != high]
        marked = max([self.index.marked, *passed])
        self.index = Index(
            self.latest.epoch,
            self.latest.upto,
            marked,
            self.horizon,
            tuple(after),
            tuple(self.settings.values()),
        )
        self.storage.sync(f.file for f in after if f not in before)
        self.storage.publish(INDEX, _encode(self.index))
        reach("after index")
        kept = {f.file for f in after}
        replaced = [f for f in before if f.file not in kept]
        # Refused rows are read by the folder, in which none may be twice; an answer is read by the names that its reader got before.
        for file in (*self._replaced, *(f.file for f in replaced if is_refused(f))):
            self.storage.delete(file)
        self._replaced = [f.file for f in replaced if not is_refused(f)]
        self._directories = {f: d for f, d in self._directories.items() if f in kept}
        self._results, self._since = after, {}
        for epoch in _epochs(self.storage):
            if epoch < self.latest.epoch:
                self.storage.delete(_name(epoch))
        return True

    def forget_before(self, horizon: int, in_use: Iterable[ResultFile] = ()) -> None:
        """Drop result files whose rows all ended before the horizon, but those that are being read; an end at the horizon is a change that is kept."""
        reading = {f.file for f in in_use}
        self.horizon = max(self.horizon, horizon)
        # What was refused before any time was known is as old as the first time that is.
        self._results = [
            replace(r, counts=replace(r.counts, max_te=self.latest.upto)) if r.counts.max_te == MIN else r
            for r in self._results
        ]
        gone = [r for r in self._results if r.counts.max_te < horizon and r.file not in reading]
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
            self.settings = recorded(self.settings, manifest.settings)

    def _check_files(self) -> None:
        """All that is named is there, as long as it was. Retention deletes files that manifests still name."""
        sizes = dict(self._files())
        self._results = [r for r in self._results if r.file in sizes or r.counts.max_te >= self.horizon]
        for file in [*sorted(self.latest.segments()), *(r.file for r in self._results)]:
            seal = seal_of(file)
            if file not in sizes:
                raise self.storage.damaged(file, "is missing")
            if seal is not None and sizes[file] != seal.size:
                raise self.storage.damaged(file, f"has {sizes[file]} bytes instead of {seal.size}")

    def _files(self) -> Iterator[tuple[str, int]]:
        """The files that may be ours, with their sizes."""
        refused = (f"{QUARANTINE}/{source}" for source in self.storage.names(QUARANTINE))
        for folder in ("state", "results", *refused):
            for name, size in self.storage.sizes(folder).items():
                yield f"{folder}/{name}", size

    def _collect_litter(self) -> None:
        self.storage.delete_folder(BLOCKS)
        known = {*self.latest.segments(), *(r.file for r in self._results)}
        for file, _ in list(self._files()):
            if file not in known and seal_of(file) is not None:
                self.storage.delete(file)

    def _collect_refused(self, manifest: Manifest) -> None:
        """What failed attempts at an epoch have refused would be there twice."""
        named = {r.file for r in self.refused}
        for folder in {r.file.rpartition("/")[0] for r in manifest.results if is_refused(r)}:
            for name in self.storage.names(folder):
                file, mine = f"{folder}/{name}", name.startswith(f"{manifest.epoch:08d}-")
                if mine and file not in named and seal_of(file) is not None:
                    self.storage.delete(file)


def after(before: Manifest, messages: Iterable[Message], **changes: Any) -> Manifest:
    """The manifest of the next epoch: what the tasks reported, on top of the one before."""
    logs = dict(changes.pop("logs", before.logs))
    results: list[ResultFile] = []
    settings: tuple[Change, ...] = changes.pop("settings", ())
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
            results += message.files
    return replace(
        before,
        epoch=before.epoch + 1,
        logs=logs,
        results=tuple(results),
        sources=sources,
        settings=settings,
        **changes,
    )


def end_query(storage: Storage, name: str) -> None:
    """Commit, for a graph that does not run, that a query of a name (without regard to case) has ended."""
    known = latest_manifest(storage)
    if known is None or name.lower() not in map(str.lower, known.queries):
        return
    ledger = Ledger.held(replace(storage, durable=True))
    try:
        kept = {n: q for n, q in ledger.latest.queries.items() if n.lower() != name.lower()}
        ledger.commit(after(ledger.latest, (), queries=kept))
    finally:
        ledger.release()


def _read_index(storage: Storage) -> Index:
    folder, _, name = INDEX.partition("/")
    if name not in storage.names(folder):
        return Index()
    found: Index = from_data(Index, _content(storage, INDEX))
    return found


def _name(epoch: int) -> str:
    return f"manifests/{epoch:08d}.json"


def _encode(value: Manifest | Index) -> bytes:
    if not isinstance(value, Manifest):
        return signed_json({"format": FORMAT, **to_data(value)})
    alone, same = _folded(value.queries)
    return signed_json({"format": FORMAT, **to_data(replace(value, queries=alone)), "same": same})


Same = dict[str, dict[str, tuple[str, str]]]
"""For one of some queries, the others, each with its owner and its condition."""


def _folded(queries: Mapping[str, KnownQuery]) -> tuple[dict[str, KnownQuery], Same]:
    """Of queries that run as one, which differ in their owners and conditions only, one with those of the others."""
    alone: dict[str, KnownQuery] = {}
    same: Same = {}
    first: dict[str, str] = {}
    for name, known in queries.items():
        found = alone[first[known.answer]] if known.as_one and known.answer in first else None
        if found is not None and _in_common(known) == _in_common(found):
            same[first[known.answer]][name] = known.owner, known.as_one
            continue
        alone[name] = known
        if known.as_one:
            first[known.answer] = name
            same[name] = {}
    return alone, {name: owners for name, owners in same.items() if owners}


def _in_common(known: KnownQuery) -> tuple[object, ...]:
    return known.birth, known.since, known.answer, known.shared, known.complete, known.reads


def _manifest(data: dict[str, Any]) -> Manifest:
    same: Same = data.pop("same", {})
    found: Manifest = from_data(Manifest, data)
    if not same:
        return found
    queries = dict(found.queries)
    for name, others in same.items():
        known = found.queries[name]
        queries |= {n: replace(known, owner=owner, as_one=which) for n, (owner, which) in others.items()}
    return replace(found, queries=queries)


def _content(storage: Storage, name: str) -> dict[str, Any]:
    """What a manifest or index says, if this version can read it."""
    data = bytes(storage.read_named(name))
    found = read_signed_json(data)
    if found is None and not _is_of_another_version(data):
        raise storage.damaged(name, "has been changed: its checksum is another")
    if found is None or found.pop("format", None) != FORMAT:
        raise Diagnostic(
            "STATE_FORMAT",
            "the state was written by another version of Tidegate",
            help="start with an empty state directory",
        )
    return found


def _is_of_another_version(data: bytes) -> bool:
    """Whether data without a checksum are whole and say that they are of a format that had none."""
    try:
        found = json.loads(data)
    except ValueError:
        return False
    return isinstance(found, dict) and "checksum" not in found and found.get("format") in (1, 2, 3)


def _epochs(storage: Storage) -> list[int]:
    """The epochs whose manifests are there."""
    found = (re.fullmatch(r"(\d{8,})\.json", name) for name in storage.names("manifests"))
    return sorted(int(m[1]) for m in found if m and f"manifests/{m[0]}" == _name(int(m[1])))


def read_manifest(storage: Storage, epoch: int) -> Manifest:
    """The manifest of an epoch."""
    found = _manifest(_content(storage, _name(epoch)))
    if found.epoch != epoch:
        raise storage.damaged(_name(epoch), f"is the manifest of epoch {found.epoch}")
    return found


def latest_manifest(storage: Storage) -> Manifest | None:
    """The newest manifest, for one who only looks."""
    epochs = _epochs(storage)
    return read_manifest(storage, epochs[-1]) if epochs else None


def _read_manifests(storage: Storage, index: Index) -> list[Manifest]:
    """The manifests from that of the index on: no epoch and no batch may be left out."""
    first = max(index.epoch, 1)
    epochs = [e for e in _epochs(storage) if e >= first]
    if index.epoch == 0 and epochs and epochs[0] > 1:
        raise storage.damaged(INDEX, f"is missing, or the manifests before epoch {epochs[0]} are")
    for number in range(first, max([index.epoch, *epochs]) + 1):
        if number not in epochs:
            raise storage.damaged(_name(number), "is missing")
    found = [read_manifest(storage, epoch) for epoch in epochs]
    for before, manifest in pairwise(found):
        if manifest.batch not in (before.batch, before.batch + 1):
            raise storage.damaged(_name(manifest.epoch), "does not go on where the one before it ends")
    return found
