"""Files by URI: a local path, or anything PyArrow can open.

On this machine's file system they are the owner's alone, and no link is followed when one is written.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyarrow import fs, ipc

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


@dataclass(frozen=True)
class Storage:
    """A directory of files, named relative to it. It can be sent to workers: only the URI travels."""

    uri: str

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
        return Storage(self.path(name))

    def write(self, name: str, data: bytes | pa.Buffer) -> None:
        """Write a file that nobody else writes."""
        if self.local is not None:
            with self._new(name) as sink:
                sink.write(data)
            return
        system, root = self._remote()
        with system.open_output_stream(f"{root}/{name}") as stream:
            stream.write(data)

    def write_rows(self, name: str, rows: pa.Table) -> None:
        """Write a file of this machine that nobody else writes, as an Arrow stream."""
        with self._new(name) as sink, ipc.new_stream(sink, rows.schema) as writer:
            writer.write_table(rows)

    def _new(self, name: str) -> Any:
        full = self.path(name)
        try:
            _create(full)
        except FileNotFoundError:
            _make_private(os.path.dirname(full))
            _create(full)
        return pa.OSFile(full, "wb")

    def publish(self, name: str, data: bytes) -> None:
        """Write a file that appears whole or not at all."""
        if self.local is None:
            # Object stores show an object when its upload is complete.
            self.write(name, data)
            return
        part = f"{name}.{secrets.token_hex(8)}.part"
        self.write(part, data)
        os.replace(self.path(part), self.path(name))

    def read(self, name: str) -> Any:
        """The file's content as a buffer."""
        if self.local is not None:
            with pa.memory_map(self.path(name)) as source:
                return source.read_buffer()
        system, root = self._remote()
        with system.open_input_file(f"{root}/{name}") as source:
            return source.read_buffer()

    def read_range(self, name: str, offset: int, length: int) -> Any:
        """A part of a file; a negative offset counts from its end."""
        if self.local is not None:
            with pa.memory_map(self.path(name)) as source:
                return source.read_buffer().slice(offset if offset >= 0 else source.size() + offset, length)
        system, root = self._remote()
        with system.open_input_file(f"{root}/{name}") as source:
            source.seek(offset if offset >= 0 else source.size() + offset)
            return source.read_buffer(length)

    def names(self, folder: str) -> list[str]:
        """The files in a folder, sorted, without those that are being written."""
        if self.local is not None:
            full = self.path(folder)
            found = os.listdir(full) if os.path.isdir(full) else []
        else:
            system, root = self._remote()
            selector = fs.FileSelector(f"{root}/{folder}", allow_not_found=True)
            found = [info.base_name for info in system.get_file_info(selector)]
        return sorted(n for n in found if not n.endswith(".part"))

    def delete(self, name: str) -> None:
        """Delete a file, if it is there."""
        if self.local is not None:
            if os.path.exists(self.path(name)):
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
        # Hadoop's name for S3 differs from Arrow's.
        system, root = fs.FileSystem.from_uri(self.uri.replace("s3a://", "s3://", 1))
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
