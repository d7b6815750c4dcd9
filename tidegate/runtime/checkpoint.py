"""What Spark keeps of a stream: which rows a batch had. It must be what it was when the newest manifest was written.

Spark believes a checkpoint that lost its newest entries, or all of them, and reads rows again or passes them by. So every manifest
names the checkpoint and how far its logs had come, and both are compared before Spark looks. A batch that Spark has planned and
the graph has not counted may be there or not: it is planned again. On local files Hadoop writes checksums, which are compared, too;
a process that is killed may leave a file without one, and a checksum alone only of an entry that was given up.
"""

from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from tidegate.errors import Diagnostic
from tidegate.storage import Storage

FOLDER = "checkpoint"

_ENTRY = re.compile(r"(0|[1-9]\d*)(\.compact)?")

_UNFINISHED = re.compile(r"\.{1,2}\d+\.[0-9a-f-]{36}\.tmp(\.crc)?")


@dataclass(frozen=True)
class Checkpoint:
    """The state of a checkpoint when an epoch began."""

    identity: str = ""
    logs: Mapping[str, int] = field(default_factory=dict)
    """Source -> the number of the newest entry in its log."""
    place: str = ""
    """Where the graph's directory was."""


def observe(storage: Storage, batch: int) -> Checkpoint:
    """The checkpoint as it is when a batch begins, and see to it that what the batch is made of is on the disk."""
    place = storage.below(FOLDER)
    identity = _identity(place)
    if place.local is None:
        return Checkpoint(identity, place=storage.path(""))
    logs = {s: _entries(place, f"sources/{s}") for s in place.names("sources")}
    newest = {s: max(entries) for s, entries in logs.items() if entries}
    files = ["metadata", f"offsets/{batch}", *(f"sources/{s}/{logs[s][n]}" for s, n in newest.items())]
    beside = (f"{folder}{cut}.{name}.crc" for folder, cut, name in (f.rpartition("/") for f in files))
    place.flush([*files, *(b for b in beside if os.path.exists(place.path(b)))])
    return Checkpoint(identity, newest, storage.path(""))


def check(storage: Storage, known: Checkpoint, batch: int) -> None:
    """Refuse a checkpoint that is not the one of a graph that has counted the batches up to one."""
    place = storage.below(FOLDER)
    _check_sums(place)
    planned, done = _entries(place, "offsets"), _entries(place, "commits")
    if max(done, default=-1) > batch or max(planned, default=-1) > batch + 1:
        raise place.damaged(
            "commits", f"says that batches up to {max([*done, *planned])} counted; manifests end at {batch}"
        )
    if batch < 0:
        return
    if "metadata" not in place.names(""):
        raise place.damaged("metadata", "is missing: without it rows would be read again")
    if _identity(place) != known.identity:
        raise place.damaged("metadata", f"is not that of the checkpoint {known.identity}")
    for number in {batch, max(max(planned, default=-1) - 1, 0)}:
        if number not in planned:
            raise place.damaged(f"offsets/{number}", "is missing: it says which rows have been read")
    for source, newest in known.logs.items():
        _check_log(place, source, newest)
    if known.place != storage.path("") and storage.names("inbox"):
        raise Diagnostic(
            "STATE_MOVED",
            f"{storage.path('')} was {known.place}: Spark knows rows that were handed in by the full names of their files"
            " and would read them again",
            help="move it back",
        )


def logged(storage: Storage, source: str, after: int, upto: int) -> set[str]:
    """The names of the files in a source's log, of the entries behind one and up to another."""
    place, folder, found = storage.below(FOLDER), f"sources/{source}", set()
    for number, name in _entries(place, folder).items():
        if number > after:
            _, *lines = place.read_named(f"{folder}/{name}").to_pybytes().decode().splitlines()
            files = (json.loads(line) for line in lines)
            found |= {f["path"].rpartition("/")[2] for f in files if after < f["batchId"] <= upto}
    return found


def clear(storage: Storage) -> None:
    """Delete what a process that was killed had not finished: Spark begins no first batch beside it."""
    place = storage.below(FOLDER)
    for folder in ("offsets", "commits"):
        for name in place.names(folder):
            if _UNFINISHED.fullmatch(name):
                place.delete(f"{folder}/{name}")


def _identity(place: Storage) -> str:
    try:
        return str(json.loads(place.read_named("metadata").to_pybytes())["id"])
    except (ValueError, TypeError, KeyError):
        return ""


def _check_log(place: Storage, source: str, newest: int) -> None:
    """A source's log is whole from the entry that sums up those before it."""
    folder = f"sources/{source}"
    entries = _entries(place, folder)
    for number in range(_begin(entries, 0), max([newest, *entries]) + 1):
        if number not in entries:
            raise place.damaged(f"{folder}/{number}", "is missing: it says which files have been read")


def _entries(place: Storage, folder: str) -> dict[int, str]:
    """The entries of a log by their numbers; the name of one that sums up those before it says so."""
    found = (_ENTRY.fullmatch(name) for name in place.names(folder))
    return {int(m[1]): m[0] for m in found if m}


def _begin(entries: Mapping[int, str], otherwise: int) -> int:
    """The entry that sums up those before it, which may be given up."""
    return max((n for n, name in entries.items() if name != str(n)), default=otherwise)


def _check_sums(place: Storage) -> None:
    for folder in ("", "offsets/", "commits/", *(f"sources/{s}/" for s in place.names("sources"))):
        names = place.names(folder)
        for beside in (n for n in names if n.endswith(".crc")):
            name = beside.removeprefix(".").removesuffix(".crc")
            entry = _ENTRY.fullmatch(name)
            if not (entry or name == "metadata"):
                continue
            if name not in names:
                entries = _entries(place, folder)
                if entry and int(entry[1]) < _begin(entries, min(entries, default=0)):
                    continue
                raise place.damaged(folder + name, "is missing, though its checksum is there")
            sums = hadoop_sums(place.read_named(folder + name).to_pybytes())
            if place.read_named(folder + beside).to_pybytes() != sums:
                raise place.damaged(folder + name, "has been changed: its checksum is another")


def hadoop_sums(content: bytes, block: int = 512) -> bytes:
    """The content of the file that Hadoop writes beside one of its own.

    >>> hadoop_sums(b"abc").hex()
    '6372630000000200352441c2'
    """
    sums = (zlib.crc32(content[i : i + block]).to_bytes(4, "big") for i in range(0, len(content), block))
    return b"crc\0" + block.to_bytes(4, "big") + b"".join(sums)
