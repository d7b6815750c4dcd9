"""A graph's directory belongs to one graph at a time: whoever writes holds its lock, and nobody else collects or deletes.

The system frees the lock with the process that holds it, however that ends. The lock's file says who that is, and the last epoch that
counted: a manifest that counted and is gone is noticed.
"""

from __future__ import annotations

import fcntl
import os
import weakref
import zlib

from tidegate.errors import Diagnostic
from tidegate.storage import Storage

LOCK = "lock"


class Hold:
    """The exclusive right to write in a directory, from its construction to its release. Object stores know no locks."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.epoch = 0
        """The last epoch that is known to have counted."""
        self._handle: int | None = None
        if storage.local is None:
            return
        storage.make_folder("")
        handle = os.open(storage.path(LOCK), os.O_RDWR | os.O_CREAT, 0o600)
        # Whoever forgets to release it does so when the last one who knows it is gone.
        self._close = weakref.finalize(self, os.close, handle)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            found = os.pread(handle, 100, 0)
            self._close()
            raise self._in_use(found) from None
        self._handle = handle
        try:
            self.epoch = self._known(os.pread(handle, 100, 0))
            self.note(self.epoch)
        except BaseException:
            self.release()
            raise

    def note(self, epoch: int) -> None:
        """An epoch counts."""
        self.epoch = epoch
        if self._handle is not None:
            os.pwrite(self._handle, _line(os.getpid(), epoch), 0)

    def check(self) -> None:
        """Nobody may have taken the lock's file away: who came after would hold another one."""
        if self._handle is None:
            return
        try:
            same = os.path.samestat(os.stat(self.storage.path(LOCK)), os.fstat(self._handle))
        except FileNotFoundError:
            same = False
        if not same:
            raise self.storage.damaged(LOCK, "was taken away while the graph ran")

    def release(self) -> None:
        if self._handle is not None:
            self._handle = None
            self._close()

    @property
    def released(self) -> bool:
        return self.storage.local is not None and self._handle is None

    def _known(self, content: bytes) -> int:
        if not content:
            return 0
        pid, epoch, *_ = [*content.split(), b"", b""]
        if not (pid.isdigit() and epoch.isdigit() and content == _line(int(pid), int(epoch))):
            raise self.storage.damaged(LOCK, "has been changed; it says which epoch counted last")
        return int(epoch)

    def _in_use(self, content: bytes) -> Diagnostic:
        pid = content.split()[0].decode(errors="replace") if content.split() else "unknown"
        mine = " (this one)" if pid == str(os.getpid()) else ""
        return Diagnostic(
            "STATE_IN_USE",
            f"process {pid}{mine} runs a graph in {self.storage.local}",
            help="stop that graph first, or give this one another state directory",
        )


def _line(pid: int, epoch: int) -> bytes:
    """Always of the same length, so that it is written over in one piece."""
    said = b"%10d %19d" % (pid, epoch)
    return b"%s %08x\n" % (said, zlib.crc32(said))
