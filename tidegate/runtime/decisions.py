"""`tidegate.decisions`: what the resource manager has decided, when and why; kept beside the graph's state, so that a restart still has it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from datetime import UTC, datetime
from typing import Any

from tidegate.storage import Storage
from tidegate.types import BIGINT, DOUBLE, STRING, TIMESTAMP, Field

NAME = "tidegate.decisions"
FILE = "decisions.json"
KEPT = 1_000
"""So many are kept of a graph, the latest."""

COLUMNS = (
    Field("decided_at", TIMESTAMP, nullable=False),
    Field("graph", STRING, nullable=False),
    Field("epoch", BIGINT, nullable=False),
    Field("valid_from", BIGINT),
    Field("action", STRING, nullable=False),
    Field("query", STRING),
    Field("setting", STRING),
    Field("value_before", BIGINT),
    Field("value", BIGINT),
    Field("quality", DOUBLE),
    Field("memory", BIGINT, nullable=False),
    Field("expected_memory", BIGINT, nullable=False),
    Field("memory_budget", BIGINT),
    Field("work", DOUBLE, nullable=False),
    Field("expected_work", DOUBLE, nullable=False),
    Field("work_budget", DOUBLE),
    Field("reason", STRING, nullable=False),
)


@dataclass(frozen=True)
class Line:
    """A decision about one setting, or about a query that was to be started: the columns of the table."""

    decided_at: int
    """Microseconds since 1970."""
    graph: str
    epoch: int
    valid_from: int | None
    action: str
    query: str | None
    setting: str | None
    value_before: int | None
    value: int | None
    quality: float | None
    memory: int
    expected_memory: int
    memory_budget: int | None
    work: float
    expected_work: float
    work_budget: float | None
    reason: str

    @property
    def row(self) -> tuple[Any, ...]:
        """As a row of the table."""
        moment = datetime.fromtimestamp(self.decided_at / 1e6, tz=UTC)
        return (moment, *astuple(self)[1:])


@dataclass
class DecisionLog:
    """The decisions about one graph, in a file of its directory that is replaced as a whole."""

    storage: Storage
    lines: tuple[Line, ...] = ()

    @classmethod
    def of(cls, storage: Storage) -> DecisionLog:
        return cls(storage, tuple(read_log(storage)))

    def add(self, lines: Sequence[Line]) -> None:
        self.lines = (*self.lines, *lines)[-KEPT:]
        self.storage.publish(FILE, json.dumps([astuple(line) for line in self.lines]).encode())


def read_log(storage: Storage) -> Iterator[Line]:
    """The decisions about a graph, the oldest first; none where there is no log."""
    if FILE in storage.names(""):
        for values in json.loads(bytes(storage.read(FILE))):
            yield Line(*values)
