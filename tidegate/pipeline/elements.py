"""What travels between operators, and the ways in which operators learn that a row is over.

A positive tuple brings a row and, where it is known, the instant at which the row is over (`ets`). The row then counts in [ts, ets), unless an
invalid tuple takes it back before. Everything else says nothing new about the answer: it only makes operators notice in time.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tidegate.time import MAX
from tidegate.types import Row


class Kind(Enum):
    """What an element says."""

    POSITIVE = "positive"
    """A row begins."""
    EXPIRED = "expired"
    """A row is over because something left a window: a negative tuple that comes in the order of time."""
    INVALID = "invalid"
    """A row is taken back before its time, because another row came (section 3.3)."""
    MESSAGE = "message"
    """No row: what ends at this instant is over (section 5.2)."""


@dataclass(slots=True)
class Element:
    """One entry of a queue: what is said, of which row, from which instant on.

    `since` is the piggybacking flag (section 6): all that ends up to `ts` is over. It names the first instant of which the messages were
    that this element has replaced.
    """

    kind: Kind
    row: Row
    ts: int
    ets: int = MAX
    since: int | None = None

    @property
    def time(self) -> int:
        """The first instant that it says something about."""
        return self.ts if self.since is None else self.since

    @property
    def tells_time_only(self) -> bool:
        """Whether it can be replaced by a later element that tells the time: the row's end is known where the row is kept."""
        return self.kind is Kind.MESSAGE or (self.kind is Kind.EXPIRED and self.ts == self.ets)


class Strategy(Enum):
    """How operators learn that rows of a window are over."""

    INPUT = "input-triggered"
    """From the time of the next row that reaches them: nothing but positive and invalid tuples travels (section 3.1)."""
    NEGATIVE = "negative"
    """By a negative tuple for each (section 3.2)."""
    MESSAGES = "messages"
    """The same, but a join passes on a message instead of joining again (section 5.2)."""
    PIGGYBACK = "piggyback"
    """The same, but a queue holds one message at most, and none if another element can carry it (section 6)."""
    INTERVALS = "intervals"
    """Rows are sent with both ends, when the second is known; nothing is ever taken back (PIPES)."""

    @property
    def by_input(self) -> bool:
        """Whether operators look at the time of each input, and nothing else."""
        return self in (Strategy.INPUT, Strategy.INTERVALS)

    @property
    def by_message(self) -> bool:
        """Whether a join tells that rows are over by a message."""
        return self in (Strategy.MESSAGES, Strategy.PIGGYBACK)
