"""Which sizes and granules windows get inside their ranges: those of the best total quality whose load fits the budgets (PIPES, adaptive resource management).

The quality of a value is its place between the worst and the best one that its range allows, 0 to 1. That of a setting is the mean over its knobs, each counted as often
as its priority says:

    quality(v) = (v - worst) / (best - worst),    total = sum of priority * quality / sum of priorities

What a setting costs is a function that is asked (`Estimating`); nothing is known of it but that worse values cost no more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tidegate.algebra.quality import Knob

Values = Mapping[str, int]
"""By the names of knobs."""

LEVELS = 8
"""A range is walked down in so many steps; between the last two the value is then found by halving."""
HALVINGS = 7


@dataclass(frozen=True)
class Load:
    """Bytes of state, and the part of the cores that is at work."""

    memory: float = 0.0
    work: float = 0.0

    def highest(self, other: Load) -> Load:
        return Load(max(self.memory, other.memory), max(self.work, other.work))


@dataclass(frozen=True)
class Budget:
    """How much of each there may be; None: as much as there is.

    >>> Budget(100.0, 0.5).share(Load(80.0, 0.3)), Budget().share(Load(80.0, 0.3))
    (0.8, 0.0)
    """

    memory: float | None = None
    work: float | None = None

    def __bool__(self) -> bool:
        return self.memory is not None or self.work is not None

    def share(self, load: Load) -> float:
        """Which part of a budget is used: of the one of which most is."""
        return max(self._shares(load), default=0.0)

    def excess(self, load: Load) -> float:
        """How far budgets are passed, in parts of them, added up."""
        return sum(max(0.0, share - 1.0) for share in self._shares(load))

    def times(self, part: float) -> Budget:
        """A part of it."""
        return Budget(*(None if b is None else b * part for b in (self.memory, self.work)))

    def without(self, load: Load) -> Budget:
        """What is left of it beside a load."""
        pairs = ((self.memory, load.memory), (self.work, load.work))
        return Budget(*(None if b is None else max(b - used, 1e-9) for b, used in pairs))

    def _shares(self, load: Load) -> list[float]:
        pairs = ((self.memory, load.memory), (self.work, load.work))
        return [used / budget for budget, used in pairs if budget is not None]


Estimating = Callable[[Values], Load]
"""What some values are expected to cost."""


def quality(knob: Knob, value: int) -> float:
    """The place of a value between the worst and the best.

    >>> knob = Knob("S", "RANGE", 10, 60)
    >>> quality(knob, 60), quality(knob, 35), quality(Knob("S", "GRANULARITY", 1, 11), 11)
    (1.0, 0.5, 0.0)
    """
    return 1.0 if knob.best == knob.worst else abs(value - knob.worst) / (knob.highest - knob.lowest)


def total_quality(knobs: Sequence[Knob], values: Values) -> float:
    """The mean quality, each knob counted as often as its priority says.

    >>> size, granule = Knob("S", "RANGE", 10, 60, priority=3), Knob("S", "GRANULARITY", 1, 11)
    >>> total_quality([size, granule], {size.name: 60, granule.name: 11})
    0.75
    """
    weights = sum(k.priority for k in knobs)
    return sum(k.priority * quality(k, values[k.name]) for k in knobs) / weights if weights else 1.0


@dataclass(frozen=True)
class Choice:
    """A setting, its total quality, what it is expected to cost, and whether that fits."""

    values: Values
    quality: float
    load: Load
    fits: bool


def best_values(knobs: Sequence[Knob]) -> dict[str, int]:
    return {k.name: k.best for k in knobs}


def worst_values(knobs: Sequence[Knob]) -> dict[str, int]:
    return {k.name: k.worst for k in knobs}


def choose(knobs: Sequence[Knob], load_of: Estimating, budget: Budget) -> Choice:
    """The best total quality whose load fits; if none does, the lowest of all.

    From the best values, that knob goes down a step which brings most relief for the quality that it costs, until the load fits; then each gets back what
    there is room for. Where load falls evenly with every knob, as the memory of windows does, nothing is better but by a part of a step.

    >>> sizes = [Knob("S", "RANGE", 10, 100), Knob("R", "RANGE", 10, 100, priority=4)]
    >>> found = choose(sizes, lambda v: Load(memory=sum(v.values())), Budget(memory=150))
    >>> list(found.values.values()), round(found.quality, 2)
    ([50, 100], 0.89)
    """
    found = _Walk(knobs, load_of, budget)
    if not found.down():
        worst = worst_values(knobs)
        return Choice(worst, total_quality(knobs, worst), load_of(worst), fits=False)
    found.fill()
    return Choice(found.values, total_quality(knobs, found.values), found.load, fits=True)


class _Walk:
    """From the best values down until they fit, and up again as far as they do."""

    def __init__(self, knobs: Sequence[Knob], load_of: Estimating, budget: Budget) -> None:
        self.knobs, self.load_of, self.budget = knobs, load_of, budget
        self.values = best_values(knobs)
        self.places = {k.name: LEVELS for k in knobs}
        self.load = load_of(self.values)
        self.touched: list[Knob] = []
        """In the order in which they went down, the last one last."""

    def down(self) -> bool:
        """Whether there are values that fit."""
        reliefs: dict[str, float] = {}
        while self.budget.excess(self.load) > 0.0:
            open_ = [k for k in self.knobs if self.places[k.name] and k.best != k.worst]
            if not open_:
                return False
            for knob in open_:
                if knob.name not in reliefs:
                    reliefs[knob.name] = self._relief(knob)
            best = max(open_, key=lambda k: reliefs[k.name])
            # What the others would bring was told before this one went down: the one that is taken is asked again.
            reliefs[best.name] = self._relief(best)
            if any(reliefs[k.name] > reliefs[best.name] for k in open_):
                continue
            if reliefs[best.name] <= 0.0:
                # One step of one alone changes nothing: all go.
                for knob in open_:
                    self._step(knob)
                reliefs = {}
            else:
                self._step(best)
                reliefs.pop(best.name)
            self.load = self.load_of(self.values)
        return True

    def fill(self) -> None:
        """Give back what there is room for, to the one that went down last first."""
        for knob in dict.fromkeys(reversed(self.touched)):
            low, high = self.values[knob.name], knob.best
            for _ in range(HALVINGS):
                middle = rounded(knob, (low + high) // 2)
                if middle in (low, high):
                    break
                load = self.load_of({**self.values, knob.name: middle})
                if self.budget.excess(load) > 0.0:
                    high = middle
                else:
                    low, self.load = middle, load
            self.values[knob.name] = low

    def _relief(self, knob: Knob) -> float:
        """By how much a step down lowers what is too much, for the quality that it costs."""
        lower = {**self.values, knob.name: self._below(knob)}
        lost = knob.priority * (quality(knob, self.values[knob.name]) - quality(knob, lower[knob.name]))
        if lost <= 0.0:
            return 0.0
        return (self.budget.excess(self.load) - self.budget.excess(self.load_of(lower))) / lost

    def _below(self, knob: Knob) -> int:
        part = (self.places[knob.name] - 1) / LEVELS
        return rounded(knob, knob.worst + round((knob.best - knob.worst) * part))

    def _step(self, knob: Knob) -> None:
        self.values[knob.name] = self._below(knob)
        self.places[knob.name] -= 1
        self.touched.append(knob)


def rounded(knob: Knob, value: int) -> int:
    """A value of at most three digits before its zeros, inside the range: people read it.

    >>> rounded(Knob("S", "RANGE", 10, 9_999), 1_234), rounded(Knob("S", "RANGE", 1_231, 9_999), 1_234)
    (1230, 1231)
    """
    unit: int = 10 ** max(0, len(str(abs(value))) - 3)
    return min(max(value // unit * unit, knob.lowest), knob.highest)
