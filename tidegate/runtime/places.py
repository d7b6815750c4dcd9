"""Where an epoch runs: as a Spark job, or in the driver's own process, whichever has cost less for as many rows.

A job has a price that does not depend on its rows (planning, scheduling, workers), and uses every core; the driver's process has
hardly any, and one core. Either may follow the other, because both leave the same files; but each remembers state of its own, so
changing the place costs a restore, and is done for a gain that is worth it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Literal

Place = Literal["spark", "driver"]
Epochs = Literal["spark", "driver", "auto"]
EPOCHS: tuple[Epochs, ...] = ("auto", "driver", "spark")

FEW = 50_000
"""After an epoch of no more rows than this, the next one is expected to be small, and read at once."""

MOST = 2_000_000
"""More rows than this are not gathered in the driver, whatever it costs."""

COLD = 6.0
"""Seconds that the first epoch at a place costs more than those that follow: processes start, code is loaded. So much must have been lost by
staying before another place is tried for the first time."""

GAIN = 0.75
"""The place changes where it is expected to cost no more than this part of the other."""

WARM = 3
"""The first epochs at a place start processes, load code and restore state; what they take says nothing about the next."""


@dataclass
class Cost:
    """Seconds of an epoch: a price, and so much for each row. Both are learnt from the last epochs, and assumed before."""

    price: float
    per_row: float
    known: deque[tuple[int, float]] = field(default_factory=lambda: deque(maxlen=20))

    def learn(self, rows: int, seconds: float) -> None:
        self.known.append((rows, seconds))

    def of(self, rows: int) -> float:
        """The expected seconds: of the recent epochs as they were, moved to this number of rows. Others may have been at work on the
        machine, so the quicker ones count.

        >>> cost = Cost(0.1, 0.0)
        >>> cost.of(1000)
        0.1
        >>> for seconds in (0.4, 9.0, 0.3, 8.0, 0.3):
        ...     cost.learn(1000, seconds)
        >>> cost.of(1000)
        0.3
        """
        if not self.known:
            return self.price + self.per_row * rows
        # A row costs no more than an epoch did, shared by its rows.
        per_row = min([self.per_row, *(seconds / came for came, seconds in self.known if came)])
        moved = sorted(seconds + per_row * (rows - came) for came, seconds in self.known)
        return max(moved[len(moved) // 4], self.price / 2)


_OTHER: dict[Place, Place] = {"spark": "driver", "driver": "spark"}


@dataclass
class Places:
    """The choice, epoch after epoch."""

    asked: Epochs = "auto"
    costs: dict[Place, Cost] = field(
        default_factory=lambda: {"spark": Cost(0.5, 1.5e-6), "driver": Cost(0.15, 5e-6)}
    )
    last: Place | None = None
    stayed: int = 0
    """How many epochs the last place has had since it was chosen."""
    expected: int | None = None
    """How many rows the next epoch may have; None: nothing is known."""
    used: set[Place] = field(default_factory=set)
    lost: float = 0.0
    """Seconds that the last place is expected to have cost more than the other one would have."""

    def choose(self, rows: int, possible: bool) -> Place:
        """Where an epoch of so many rows runs; `possible`: whether the driver's process will do."""
        if not possible or self.asked == "spark":
            return "spark"
        if self.asked == "driver":
            return "driver"
        if rows > MOST:
            return "spark"
        costs = {place: cost.of(rows) for place, cost in self.costs.items()}
        if self.last is None:
            return min(costs, key=lambda place: costs[place])
        other = _OTHER[self.last]
        worth = costs[other] < GAIN * costs[self.last] and (other in self.used or self.lost > COLD)
        return other if worth else self.last

    @property
    def small(self) -> bool:
        """Whether the next epoch is expected to have few rows."""
        return self.expected is not None and self.expected <= FEW

    def learn(self, place: Place, rows: int, seconds: float) -> None:
        self.stayed = self.stayed + 1 if place == self.last else 1
        if self.stayed > WARM:
            self.costs[place].learn(rows, seconds)
        self.lost = max(0.0, self.lost + self.costs[place].of(rows) - self.costs[_OTHER[place]].of(rows))
        if place != self.last:
            self.lost = 0.0
        self.last, self.expected = place, rows
        self.used.add(place)
