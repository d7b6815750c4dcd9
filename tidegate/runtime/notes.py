"""What a running graph says of itself to those who only look at its directory: how fast it is, what it reads, why it failed.

A note is about the clock on the wall and nothing depends on it: one that is missing, old or damaged only tells less.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from tidegate.runtime.figures import Figures
from tidegate.runtime.holding import LOCK
from tidegate.runtime.metrics import operators_of
from tidegate.storage import Storage

_FILE = "note.json"
EVERY = 1.0
"""Seconds between two notes of a graph that runs."""
OPERATORS = 200
"""So many operators a note tells of."""


@dataclass(frozen=True)
class Note:
    """The latest word of a graph."""

    at: float = 0.0
    """Seconds since 1970."""
    state: str = "stopped"
    failure: str | None = None
    rates: Mapping[str, float] = field(default_factory=dict)
    """Rows per second of each stream in the last epochs."""
    delay: float | None = None
    """Seconds from the moment at which an epoch takes rows until its answers count."""
    tables: tuple[str, ...] = ()
    operators: tuple[Mapping[str, Any], ...] = ()
    """What inputs and operators have done: see `runtime.metrics`."""

    @classmethod
    def of(cls, figures: Figures, state: str, failure: str | None, tables: tuple[str, ...]) -> Note:
        operators = tuple(operators_of(figures))
        return cls(time.time(), state, failure, figures.rates, figures.delay, tables, operators)

    @property
    def short(self) -> Note:
        """With those operators alone that have worked most."""
        most = sorted(self.operators, key=lambda o: -float(o["total_cpu_seconds"]))[:OPERATORS]
        return replace(self, operators=tuple(sorted(most, key=lambda o: int(o["number"]))))


def write_note(storage: Storage, note: Note) -> None:
    """Leave a note, whole or not at all; where that cannot be, nobody misses it."""
    if storage.local is not None:
        with suppress(OSError):
            replace(storage, durable=False).publish(_FILE, json.dumps(asdict(note.short)).encode())


def read_note(storage: Storage) -> Note:
    """The latest note; where there is none that can be read, one that says nothing."""
    if storage.local is None:
        return Note()
    try:
        with open(storage.path(_FILE), encoding="utf-8") as file:
            said: Any = json.load(file)
        return Note(
            float(said["at"]),
            str(said["state"]),
            None if said["failure"] is None else str(said["failure"]),
            {str(name): float(rate) for name, rate in said["rates"].items()},
            None if said["delay"] is None else float(said["delay"]),
            tuple(map(str, said["tables"])),
            tuple(dict(o) for o in said.get("operators", ())),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return Note()


def is_alive(storage: Storage) -> bool:
    """Whether the process is there that was the last to hold the directory. Its lock is not touched: whoever starts might be refused."""
    if storage.local is None:
        return False
    try:
        with open(storage.path(LOCK), "rb") as file:
            pid = int(file.read(100).split()[0])
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, ValueError, IndexError):
        return False
    return True
