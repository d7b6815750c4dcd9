"""Who runs next: schedulers choose among the operators that have something to do, or let time pass."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Protocol

from tidegate.pipeline.operators import Operator


class Scheduler(Protocol):
    def choose(self, ready: Sequence[Operator], more: bool) -> Operator | None:
        """One of those that are ready; None: time passes first, which it can as long as there is more to come."""


class RoundRobin:
    """Each operator in turn, for so many elements, as in the paper (section 6.1)."""

    def __init__(self, slot: int = 10) -> None:
        self._slot = slot
        self._left = 0
        self._last: Operator | None = None
        self._turns: dict[Operator, int] = {}
        self._turn = 0

    def choose(self, ready: Sequence[Operator], more: bool) -> Operator | None:
        if not ready:
            return None
        if self._last in ready and self._left:
            self._left -= 1
            return self._last
        chosen = min(ready, key=lambda o: self._turns.get(o, -1))
        self._turn += 1
        self._turns[chosen] = self._turn
        self._last, self._left = chosen, self._slot - 1
        return chosen


class Fifo:
    """One element at a time through the whole pipeline: what is nearest to the answer goes first."""

    def choose(self, ready: Sequence[Operator], more: bool) -> Operator | None:
        return ready[-1] if ready else None


class Chance:
    """Anybody, and time passes while elements wait: what must not change an answer."""

    def __init__(self, dice: random.Random, hurry: float = 0.5) -> None:
        self._dice = dice
        self._hurry = hurry

    def choose(self, ready: Sequence[Operator], more: bool) -> Operator | None:
        if not ready or (more and self._dice.random() < self._hurry):
            return None
        return self._dice.choice(ready)
