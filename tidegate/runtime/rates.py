"""Where a rate is going: as it was on average, or, if it rises by more than its noise explains, as it will be if it goes on so."""

from __future__ import annotations

import itertools
import math
from collections import deque
from dataclasses import dataclass, field

RECENT, LONG = 4, 16
"""Epochs over which the rate of now and the one before it are taken."""
CERTAIN = 3.0
"""A difference of so many times its standard error is a rise."""


@dataclass
class Rates:
    """The rates of a stream in its last epochs, and where they were going in each of them."""

    samples: deque[float] = field(default_factory=lambda: deque(maxlen=LONG))
    expected: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=1_000))
    """When (seconds), and what was expected then."""

    def add(self, rate: float, now: float) -> None:
        """Note the rate of an epoch."""
        self.samples.append(rate)
        self.expected.append((now, self._going()))

    @property
    def coming(self) -> float:
        """The rate to count with."""
        return self.expected[-1][1] if self.expected else 0.0

    def at_most(self, since: float) -> float:
        """The highest that was to be counted with since a moment, and in the last few epochs."""
        recent = [rate for at, rate in self.expected if at >= since]
        recent += [rate for _, rate in list(self.expected)[-2 * RECENT :]]
        return max(recent, default=0.0)

    def _going(self) -> float:
        """The mean, or if it rises, the mean of late and as much above it as that is above the mean.

        Noise is told by what follows on each other: `variance = mean of squared differences / 2`, which a steady rise hardly changes.
        """
        values = list(self.samples)
        mean, late = _mean(values), _mean(values[-RECENT:])
        if len(values) <= RECENT:
            return max(mean, late)
        differences = [b - a for a, b in itertools.pairwise(values)]
        deviation = math.sqrt(sum(d * d for d in differences) / len(differences) / 2)
        error = deviation * math.sqrt(1 / RECENT + 1 / len(values))
        if late - mean > CERTAIN * error:
            return late + (late - mean)
        return late if mean - late > CERTAIN * error else mean


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0
