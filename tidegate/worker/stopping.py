"""Tasks of a run that was stopped or has failed end with it.

Spark lets go of a task that it cancels, but not of what the task does in Python: that would go on, and fill the memory, until
it wants to say something. So a task looks now and then whether its run is marked, and ends its process; Spark starts another when it needs one.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tidegate.storage import Storage

_MARK = "stopped"
LOOK = 0.5
"""Seconds between two looks."""


def mark_stopped(storage: Storage) -> None:
    """Let the tasks end that still work for a run, where they can see its directory."""
    if storage.local is not None:
        with suppress(OSError):
            storage.publish(_MARK, b"")


def unmark(storage: Storage) -> None:
    """A run that goes on is not stopped any more."""
    if storage.local is not None:
        storage.delete(_MARK)


@contextmanager
def ending_with(storage: Storage) -> Iterator[None]:
    """While a task works, end its process when its run is stopped."""
    if storage.local is None:
        yield
        return
    mark, done = storage.path(_MARK), threading.Event()

    def watch() -> None:
        while not done.wait(LOOK):
            if os.path.exists(mark):
                os._exit(0)

    threading.Thread(target=watch, name="tidegate-stopping", daemon=True).start()
    try:
        yield
    finally:
        done.set()
