"""What tasks tell the driver: typed values, with one encoder and one decoder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from tidegate.codec import from_data, to_data
from tidegate.errors import Diagnostic, Kind


@dataclass(frozen=True)
class Log:
    """The segments that the state of a wave's operators in a partition is made of, and how many rows they hold."""

    segments: tuple[str, ...] = ()
    rows: int = 0


@dataclass(frozen=True)
class RowCounts:
    """What readers want to know of rows of an answer before they read them. All instants are ticks."""

    rows: int
    negative: int
    multiple: int
    min_ts: int
    max_ts: int
    max_te: int


@dataclass(frozen=True)
class ResultFile:
    """Rows of answers in one file: those of one operator (`section`), or (None) sections of several. Rows that a source
    (`section`) was refused are kept in the same way; their validity is that of their epoch."""

    file: str
    section: str | None
    counts: RowCounts


@dataclass(frozen=True)
class Measured:
    """What was measured of the inputs and operators that had something to do, by their places in `Program.ids`, as columns: see
    `physical.meter`, and for the last five `Detail` (no rows: not measured)."""

    places: tuple[int, ...] = ()
    seconds: tuple[float, ...] = ()
    retracted: tuple[int, ...] = ()
    rows: tuple[int, ...] = ()
    open: tuple[int, ...] = ()
    lasting: tuple[float, ...] = ()
    granule: tuple[int, ...] = ()
    keys: tuple[int, ...] = ()


@dataclass(frozen=True)
class Tally:
    """What each input and operator of a wave did in a task, in the order of `Program.ids`: the rows that it took and
    gave, and the rows and bytes that it keeps; and what was measured of some."""

    taken: tuple[int, ...] = ()
    given: tuple[int, ...] = ()
    kept: tuple[int, ...] = ()
    sizes: tuple[int, ...] = ()
    measured: Measured = field(default_factory=Measured)


@dataclass(frozen=True)
class WaveReport:
    """What a task did: the state it leaves, the files it wrote, how far its sources' rows reach."""

    place: str
    log: Log | None
    results: tuple[ResultFile, ...]
    rows: int
    newest: Mapping[str, int]
    seconds: Mapping[str, float]
    tally: Tally = field(default_factory=Tally)
    discarded: int = 0
    """Rows of answers that were handed to nobody."""


@dataclass(frozen=True)
class Moved:
    """The state of a new partition, after its rows were picked from the old ones."""

    place: str
    log: Log


@dataclass(frozen=True)
class Refused:
    """A row that its source may not use, and where it was: its file and its place in the order of arrival, if they are known."""

    source: str
    reason: str
    raw: str | None = None
    file: str | None = None
    row: int | None = None


@dataclass(frozen=True)
class Quarantined:
    """Refused rows, kept in files: how many, by source and reason, and the first of each source."""

    counts: Mapping[str, Mapping[str, int]]
    files: tuple[ResultFile, ...] = ()
    first: Mapping[str, Refused] = field(default_factory=dict)


@dataclass(frozen=True)
class Failed:
    """A diagnostic that was raised in a task."""

    condition: str
    message: str
    help: str | None
    kind: Kind
    span: tuple[int, int] | None
    operator: str | None
    """The operator in which it happened, if it happened in one."""

    @classmethod
    def of(cls, problem: Diagnostic) -> Failed:
        p = problem
        return cls(p.condition, p.message, p.help, p.kind, p.span, p.operator)

    def diagnostic(self) -> Diagnostic:
        found = Diagnostic(self.condition, self.message, help=self.help, kind=self.kind).at(self.span)
        found.operator = self.operator
        return found


Message = WaveReport | Moved | Refused | Quarantined | Failed

_KINDS = {kind.__name__: kind for kind in (WaveReport, Moved, Refused, Quarantined, Failed)}


def encode(message: Message) -> str:
    """A message as text.

    >>> decode(encode(Refused("S", "no time", "x")))
    Refused(source='S', reason='no time', raw='x', file=None, row=None)
    """
    return json.dumps({"tag": type(message).__name__, **to_data(message)}, separators=(",", ":"))


def decode(text: str) -> Message:
    data = json.loads(text)
    found: Message = from_data(_KINDS[data.pop("tag")], data)
    return found


MARK = "tidegate failed: "
"""How the text of an exception begins that carries a message."""


def raised(problem: Diagnostic) -> RuntimeError:
    """A diagnostic of a task that cannot tell it as a message: Spark passes on the text of an exception."""
    return RuntimeError(MARK + encode(Failed.of(problem)))
