"""When windows are made smaller or coarser, and when they get back what they had: budgets, kept by acting early and seldom.

    lower  if the load that is coming with the values in force passes ACT of a budget in CONFIRMED epochs: to the best quality that needs no more than AIM of it in the end, and MEANWHILE until then
    raise  if for DWELL seconds nothing was changed, and what came at most in that time leaves room, in the same way, for a quality that is better by GAIN

The gap between what is aimed at and ACT, the highest rates of late as the measure for raising, the least gain, and patience that doubles with every raise
that did not last keep noise from turning decisions back and forth. Rows keep the ends that they
came with, so memory may go on to rise for a while after windows became smaller: what is compared with a budget is the peak (`runtime.load`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

from tidegate.algebra.quality import Knob
from tidegate.optimizer.quality_choice import Budget, Choice, Load, Values, choose, total_quality

ACT = 0.92
"""Of a budget: what is coming must not pass this part of it."""
AIM = 0.8
"""Of a budget: what is chosen is to need no more once rows that came before have gone."""
MEANWHILE = 0.84
"""Of a budget: what is chosen is to need no more until then."""
NARROW = 0.97
"""Of a budget: what may be needed until then, if rows that are there already leave no room for less."""
CONFIRMED = 3
"""Epochs in which it must have been coming, unless it passes URGENT of a budget: one odd epoch is no reason."""
URGENT = 1.2
GAIN = 0.05
"""A raise that is smaller is not worth a change, unless it gives back everything."""
LOSS = 0.03
"""A smaller fall is no relief."""
DWELL = 10.0
"""Seconds."""
LONGEST = 320.0
"""Whoever has to take back a raise soon waits twice as long before the next, up to so many seconds."""

Action = Literal["lower", "raise", "exhausted"]


@dataclass(frozen=True)
class Course:
    """The load with some values from now on: the highest on the way, and the one that it comes to."""

    peak: Load
    settled: Load

    def measured_by(self, aim: float, meanwhile: float) -> Load:
        """A load that passes `aim` of a budget where it is passed in the end, or `meanwhile` of it on the way."""
        part = aim / meanwhile
        return Load(self.peak.memory * part, self.peak.work * part).highest(self.settled)


class Plant(Protocol):
    """What is controlled: a graph, or what stands for one."""

    @property
    def knobs(self) -> Sequence[Knob]: ...

    @property
    def values(self) -> Values:
        """In force."""

    @property
    def load(self) -> Load:
        """As it was measured."""

    def coming(self, values: Values) -> Course:
        """What comes with some values, rates going on as they change now."""

    def at_most(self, values: Values) -> Course:
        """The same with the highest rates of the last DWELL seconds."""


@dataclass(frozen=True)
class Decision:
    """What was decided and why: loads are measured, expected as it was, and expected as it is now."""

    action: Action
    before: Values
    values: Values
    quality_before: float
    quality: float
    load: Load
    expected: Load
    chosen: Load
    budget: Budget

    @property
    def changes(self) -> dict[str, tuple[int, int]]:
        """The knobs whose value has changed: from which to which."""
        return {n: (self.before[n], v) for n, v in self.values.items() if v != self.before[n]}

    @property
    def reason(self) -> str:
        """In one sentence, with the figures."""
        if not self.budget:
            return "there is no budget any more"
        coming, then = of_budget(self.expected, self.budget), of_budget(self.chosen, self.budget)
        if self.action == "exhausted":
            return f"{coming} is expected, and nothing can be made smaller or coarser"
        if self.action == "lower":
            return f"{coming} would be reached; with what is chosen, {then}"
        return f"there is room: {then} at most, at the highest rates of the last {DWELL:g} s"


def of_budget(load: Load, budget: Budget) -> str:
    """The load beside the budgets that there are.

    >>> of_budget(Load(1.2e9, 0.5), Budget(1e9, 0.7))
    'memory 1.2 GB of 1 GB (120%), work 0.5 of 0.7 (71%)'
    """
    found = []
    if budget.memory is not None:
        share = load.memory / budget.memory
        found.append(f"memory {in_bytes(load.memory)} of {in_bytes(budget.memory)} ({share:.0%})")
    if budget.work is not None:
        found.append(f"work {load.work:.2g} of {budget.work:g} ({load.work / budget.work:.0%})")
    return ", ".join(found)


def in_bytes(count: float) -> str:
    """Bytes as people read them.

    >>> in_bytes(0), in_bytes(999), in_bytes(2.5e6), in_bytes(1e9)
    ('0 B', '999 B', '2.5 MB', '1 GB')
    """
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.0f} B"


@dataclass
class Controller:
    """Decides after each epoch; `now` is a clock in seconds."""

    budget: Budget = field(default_factory=Budget)
    changed: float | None = None
    """When it last changed something."""
    raised: float | None = None
    """When it last raised something."""
    patience: float = DWELL
    """Seconds without a change before it raises something."""
    coming: int = 0
    """In how many epochs, one after the other, too much was coming."""
    exhausted: bool = False
    """Whether it has said that nothing is left to be given up."""

    def step(self, plant: Plant, now: float, left: Budget | None = None) -> Decision | None:
        """What is to be done now; None: nothing. `left`: what is left of the budget beside others that use it."""
        budget = self.budget if left is None else left
        knobs, values = plant.knobs, plant.values
        quality = total_quality(knobs, values)
        expected = plant.coming(values).peak
        self.coming = self.coming + 1 if budget.share(expected) > ACT else 0
        if self.coming >= CONFIRMED or budget.share(expected) > URGENT:
            return self._lower(plant, now, budget, quality, expected)
        if self.coming:
            return None
        if budget.share(expected) <= AIM:
            self.exhausted = False
        if quality < 1.0 and (self.changed is None or now - self.changed >= self.patience or not budget):
            return self._raise(plant, now, budget, quality, expected)
        return None

    def _lower(
        self, plant: Plant, now: float, budget: Budget, quality: float, expected: Load
    ) -> Decision | None:
        choice = self._chosen(plant, plant.coming, budget)
        if not choice.fits:
            choice = self._chosen(plant, plant.coming, budget, NARROW)
        least = 0.0 if budget.share(expected) > 1.0 else LOSS
        if choice.quality < quality - least:
            soon = self.raised is not None and now - self.raised < 4 * self.patience
            self.patience = min(2 * self.patience, LONGEST) if soon else max(DWELL, self.patience / 2)
            self.changed, self.raised, self.exhausted = now, None, False
            return self._decided("lower", plant, choice, quality, expected, budget)
        if choice.fits or self.exhausted:
            return None
        self.exhausted = True
        same = Choice(plant.values, quality, expected, fits=False)
        return self._decided("exhausted", plant, same, quality, expected, budget)

    def _raise(
        self, plant: Plant, now: float, budget: Budget, quality: float, expected: Load
    ) -> Decision | None:
        choice = self._chosen(plant, plant.at_most, budget)
        worth = choice.quality >= quality + GAIN or choice.quality == 1.0
        if not choice.fits or not worth:
            return None
        self.changed = self.raised = now
        return self._decided("raise", plant, choice, quality, expected, budget)

    @staticmethod
    def _chosen(
        plant: Plant, course: Callable[[Values], Course], budget: Budget, meanwhile: float = MEANWHILE
    ) -> Choice:
        """The best values that need no more than AIM of the budget in the end, and some part of it until then."""
        found = choose(plant.knobs, lambda v: course(v).measured_by(AIM, meanwhile), budget.times(AIM))
        return replace(found, load=course(found.values).peak)

    @staticmethod
    def _decided(
        action: Action, plant: Plant, choice: Choice, quality: float, expected: Load, budget: Budget
    ) -> Decision:
        return Decision(
            action,
            dict(plant.values),
            dict(choice.values),
            quality,
            choice.quality,
            plant.load,
            expected,
            choice.load,
            budget,
        )
