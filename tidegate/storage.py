"""Files by URI: a local path, or anything PyArrow can open.

On this machine's file system they are the owner's alone, and no link is followed when one is written. A file whose name is
kept elsewhere is *sealed*: its name says its size and its checksum, and whoever reads it compares.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import shutil
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyarrow import fs, ipc

from tidegate.errors import Diagnostic
from tidegate.object_store import Access, ExistsError

BLOCKS = "blocks"
"""The folder of what tasks leave for each other within an epoch."""


_PLAIN = re.compile(r"(?!.*-[0-9a-f]{24}$)[A-Za-z_][A-Za-z0-9_-]{0,63}")


def name_in_path(name: str) -> str:
    """A stream's or query's name as one part of a path: short, of plain characters, and different for different names.

    A plain name is itself: a session has no two that differ in case alone. Others are told apart also where case does not count.

    >>> name_in_path("Bids"), name_in_path("My bids")[:7], name_in_path("../../x")[:2]
    ('Bids', 'mybids-', 'x-')
    """
    if _PLAIN.fullmatch(name):
        return name
    readable = re.sub(r"[^a-z0-9_]+", "", name.lower())[:40]
    return f"{readable}-{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:24]}"


_SEALED = re.compile(
    r"(?:.*/)?(?:\d{8}|[1-9]\d{8,})(?:-\w+)?-[0-9a-f]{16}"
    r"\.(?P<level>\d)\.(?P<size>[0-9a-f]+)-(?P<checksum>[0-9a-f]{8})\.(?:arrow|parquet|sections)"
)


@dataclass(frozen=True)
class Seal:
    """What a file's name says of its content. A file that is read in parts has the checksum of its directory."""

    size: int
    checksum: int
    level: int = 0
    """How often its rows have been merged."""

    @classmethod
    def of(cls, data: bytes | pa.Buffer, level: int = 0) -> Seal:
        return cls(len(data), zlib.crc32(data), level)

    def name(self, stem: str, ending: str) -> str:
        """A file's name, which no other attempt has."""
        return f"{stem}-{uuid.uuid4().hex[:16]}.{self.level}.{self.size:x}-{self.checksum:08x}.{ending}"


def seal_of(name: str) -> Seal | None:
    """The seal in a file's name, if it has one.

    >>> seal_of(Seal(1000, 7, level=2).name("state/00000003", "arrow"))
    Seal(size=1000, checksum=7, level=2)
    >>> seal_of("state/copy of " + Seal(1000, 7).name("00000003", "arrow"))
    """
    found = _SEALED.fullmatch(name)
    if found is None:
        return None
    return Seal(int(found["size"], 16), int(found["checksum"], 16), int(found["level"]))


def level_of(name: str) -> int:
    """How often the rows of a sealed file have been merged."""
    seal = seal_of(name)
    assert seal is not None, name
    return seal.level


@dataclass(frozen=True)
class Storage:
    """A directory of files, named relative to it. It can be sent to workers."""

    uri: str
    durable: bool = False
    """Whether a file is on the disk, not only under way, when its writing is done."""
    temporary: bool = False
    """Gone with the program."""
    access: Access | None = None
    """How an S3 store is reached; None: as the environment says."""

    @property
    def local(self) -> str | None:
        """The directory, if it is on this machine's file system."""
        if self.uri.startswith("file:"):
            path = self.uri.removeprefix("file:")
            return "/" + path.lstrip("/")
        return None if "://" in self.uri else os.path.abspath(self.uri)

    def path(self, name: str) -> str:
        """The file's full name, as Spark reads it."""
        return f"{(self.local or self.uri).rstrip('/')}/{name}"

    def below(self, name: str) -> Storage:
        return replace(self, uri=self.path(name))

    def damaged(self, name: str, what: str) -> Diagnostic:
        """The complaint about a file that is not as it was left."""
        return Diagnostic(
            "STATE_DAMAGED",
            f"{self.path(name)} {what}",
            help="restore the directory from a copy of one moment, or start with an empty one",
        )

    def write(self, name: str, data: bytes | pa.Buffer) -> None:
        """Write a file that nobody else writes."""
        if self.local is not None:
            with self._room_for(name, len(data)), self._new(name, open) as sink:
                sink.write(data)
                sink.flush()
                if self.durable:
                    os.fsync(sink.fileno())
            return
        system, root = self._remote()
        with system.open_output_stream(f"{root}/{name}") as stream:
            stream.write(data)

    def write_rows(self, name: str, rows: pa.Table) -> None:
        """Write a file of this machine that nobody else writes, as an Arrow stream."""
        with (
            self._room_for(name, rows.nbytes),
            self._new(name, pa.OSFile) as sink,
            ipc.new_stream(sink, rows.schema) as writer,
        ):
            writer.write_table(rows)

    @contextmanager
    def _room_for(self, name: str, size: int) -> Iterator[None]:
        """Tell a full disk from other failures, and leave nothing half written behind."""
        try:
            yield
        except OSError as problem:
            if problem.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise
            with suppress(OSError):
                os.remove(self.path(name))
            raise self._full(name, size) from None

    def _full(self, name: str, size: int) -> Diagnostic:
        place = os.path.dirname(self.path(name))
        while not os.path.isdir(place):
            place = os.path.dirname(place)
        found = os.statvfs(place)
        return Diagnostic(
            "DISK_FULL",
            f"{place} has no room for {size:,} bytes more ({found.f_bavail * found.f_frsize:,} bytes are free)",
            help="make room and start again: nothing of what could not be written counts, and nothing is lost",
        )

    def _new(self, name: str, opener: Callable[..., Any]) -> Any:
        full = self.path(name)
        try:
            _create(full)
        except FileNotFoundError:
            _make_private(os.path.dirname(full))
            self.sync(name[:i] for i in range(len(name)) if name[i] == "/")
            _create(full)
        return opener(full, "wb")

    def sync(self, names: Iterable[str]) -> None:
        """See to it that the names of some files are on the disk, as their content is."""
        folders = {name.rpartition("/")[0] for name in names}
        for folder in sorted(folders) if self.durable and self.local is not None else ():
            self._fsync(folder)

    def flush(self, names: Iterable[str]) -> None:
        """See to it that files which somebody else has written are on the disk, with their names."""
        found = list(names)
        for name in found if self.durable and self.local is not None else ():
            self._fsync(name)
        self.sync(found)

    def _fsync(self, name: str) -> None:
        handle = os.open(self.path(name), os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def write_sealed(self, stem: str, ending: str, data: bytes | pa.Buffer, level: int = 0) -> str:
        """Write a file under a name that says what is in it; the name."""
        name = Seal.of(data, level).name(stem, ending)
        self.write(name, data)
        return name

    def read_sealed(self, name: str) -> Any:
        """The content of a file, if it is what its name says."""
        found, seal = self.read_named(name), seal_of(name)
        if seal is None or seal.size != len(found):
            raise self.damaged(name, f"has {len(found)} bytes, which is not what was written")
        if seal.checksum != zlib.crc32(found):
            raise self.damaged(name, "has been changed: its checksum is another")
        return found

    def read_named(self, name: str) -> Any:
        """The content of a file that must be there."""
        try:
            return self.read(name)
        except OSError as problem:
            raise self.damaged(name, f"cannot be read: {_reason(problem)}") from None

    def publish(self, name: str, data: bytes) -> None:
        """Write a file that appears whole or not at all."""
        if self.local is None:
            # Object stores show an object when its upload is complete.
            self.write(name, data)
            return
        part = f"{name}.{secrets.token_hex(8)}.part"
        self.write(part, data)
        os.replace(self.path(part), self.path(name))
        self.sync([name])

    def publish_new(self, name: str, data: bytes) -> None:
        """Write a file that appears whole or not at all, and, in an S3 store, that nobody else has written before.

        Elsewhere a lock sees to it (`runtime.holding`).
        """
        access = self._access()
        if access is None or not access.can_sign:
            self.publish(name, data)
            return
        _, root = self._remote()
        try:
            access.create(f"{root}/{name}", data)
        except ExistsError:
            if bytes(self.read_named(name)) == data:
                return  # an answer was lost on its way, and the request was made again
            raise Diagnostic(
                "STATE_IN_USE",
                f"another program runs a graph in {self.uri}: it has written {name}",
                help="stop that graph first, or give this one another state directory",
            ) from None

    def _access(self) -> Access | None:
        if not self.uri.startswith(("s3a://", "s3://")):
            return None
        return self.access or Access.of({})

    def read(self, name: str) -> Any:
        """The file's content as a buffer."""
        if self.local is not None and os.path.getsize(self.path(name)) == 0:
            return pa.py_buffer(b"")  # nothing cannot be mapped
        with self._source(name) as source:
            return source.read_buffer()

    def read_range(self, name: str, offset: int, length: int) -> Any:
        """A part of a file that must be there; a negative offset counts from its end."""
        try:
            with self._source(name) as source:
                start = offset if offset >= 0 else source.size() + offset
                if not 0 <= start <= start + length <= source.size():
                    raise self.damaged(name, "is shorter than it was")
                source.seek(start)
                return source.read_buffer(length)
        except OSError as problem:
            raise self.damaged(name, f"cannot be read: {_reason(problem)}") from None

    def _source(self, name: str) -> Any:
        if self.local is not None:
            return pa.memory_map(self.path(name))
        system, root = self._remote()
        return system.open_input_file(f"{root}/{name}")

    def names(self, folder: str) -> list[str]:
        """The files in a folder, sorted, without those that are being written."""
        if self.local is not None:
            full = self.path(folder)
            found = os.listdir(full) if os.path.isdir(full) else []
        else:
            found = list(self.sizes(folder))
        return sorted(n for n in found if not n.endswith(".part"))

    def sizes(self, folder: str) -> dict[str, int]:
        """The files and folders in a folder, each with its size."""
        if self.local is not None:
            full = self.path(folder)
            return {e.name: e.stat().st_size for e in os.scandir(full)} if os.path.isdir(full) else {}
        system, root = self._remote()
        selector = fs.FileSelector(f"{root}/{folder}", allow_not_found=True)
        return {info.base_name: info.size or 0 for info in system.get_file_info(selector)}

    def delete(self, name: str) -> None:
        """Delete a file, if it is there."""
        if self.local is not None:
            if os.path.lexists(self.path(name)):
                os.remove(self.path(name))
            return
        system, root = self._remote()
        if system.get_file_info(f"{root}/{name}").type != fs.FileType.NotFound:
            system.delete_file(f"{root}/{name}")

    def make_folder(self, name: str) -> None:
        if self.local is not None:
            _make_private(self.path(name))
            return
        system, root = self._remote()
        system.create_dir(f"{root}/{name}")

    def delete_folder(self, name: str) -> None:
        if self.local is not None:
            shutil.rmtree(self.path(name), ignore_errors=True)
            return
        system, root = self._remote()
        system.delete_dir_contents(f"{root}/{name}", missing_dir_ok=True)

    def _remote(self) -> tuple[Any, str]:
        if (access := self._access()) is not None:
            return access.file_system(), self.uri.partition("://")[2].rstrip("/")
        system, root = fs.FileSystem.from_uri(self.uri)
        return system, root.rstrip("/")


def _create(path: str) -> None:
    """An empty file for its owner alone; a link in its place is an error."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600))


def _make_private(path: str) -> None:
    """A directory, and those above it that are missing, for their owner alone."""
    missing = []
    while not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    for place in reversed(missing):
        with suppress(FileExistsError):
            os.mkdir(place, 0o700)


def _reason(problem: OSError) -> str:
    return "it is missing" if isinstance(problem, FileNotFoundError) else str(problem)
