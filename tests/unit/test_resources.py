"""The controller over a window that stands for a graph: rows with their ends, counted one slice of time after another."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from tidegate.algebra.quality import Knob, Steps
from tidegate.optimizer.quality_choice import Budget, Load, Values, best_values
from tidegate.runtime.load import Past
from tidegate.runtime.rates import Rates
from tidegate.runtime.resources import DWELL, Controller, Course, Decision

KNOB = Knob("S", "RANGE", 10, 120)
ROW = 100.0


@dataclass
class Window:
    """A window over a stream with a rate that changes: a tick is a second, and a row is a hundred bytes."""

    rate: Callable[[int], float]
    budget: Budget
    knob: Knob = KNOB
    steps: Steps = field(default_factory=lambda: Steps(KNOB.best))
    past: Past = field(default_factory=Past)
    now: int = 0
    rates: Rates = field(default_factory=Rates)
    decisions: list[tuple[int, Decision]] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)

    @property
    def knobs(self) -> list[Knob]:
        return [self.knob]

    @property
    def values(self) -> Values:
        return {self.knob.name: self.steps.at(self.now)}

    @property
    def load(self) -> Load:
        return Load(memory=ROW * float(self.past.left("S", self.steps, (self.now,))[0]))

    def coming(self, values: Values) -> Course:
        return self._course(self.rates.coming, values)

    def at_most(self, values: Values) -> Course:
        return self._course(self.rates.at_most(self.now - DWELL), values)

    def _course(self, rate: float, values: Values) -> Course:
        size = values[self.knob.name]
        instants = [self.now + size * part // 4 for part in range(5)]
        left = self.past.left("S", self.steps, instants)
        peak = max(n + rate * (i - self.now) for n, i in zip(left, instants, strict=True))
        return Course(Load(memory=ROW * peak), Load(memory=ROW * rate * size))

    def run(self, seconds: int, controller: Controller | None) -> None:
        for _ in range(seconds):
            rows = round(self.rate(self.now))
            self.past.came(self.now, self.now + 1, {"S": rows})
            self.now += 1
            self.rates.add(float(rows), float(self.now))
            self.past.forget_before(self.now - self.knob.highest)
            self.memory.append(self.load.memory)
            decision = controller.step(self, float(self.now)) if controller else None
            if decision is not None:
                self.decisions.append((self.now, decision))
                self.steps = self.steps.changed(self.now, decision.values[self.knob.name])


def doubling(second: int) -> float:
    """100 rows a second; over a minute they double, over another they double again, and fall back."""
    if second < 180:
        return 100.0
    if second < 240:
        return 100.0 + 100.0 * (second - 180) / 60
    if second < 300:
        return 200.0
    if second < 360:
        return 200.0 + 200.0 * (second - 300) / 60
    return 400.0 if second < 450 else 100.0


BUDGET = Budget(memory=1.6e6)
"""A window of two minutes takes three quarters of it at the usual rate."""


def test_a_load_that_quadruples_stays_within_the_budget_and_quality_recovers() -> None:
    window, without = (Window(doubling, BUDGET) for _ in range(2))
    window.run(800, Controller(BUDGET))
    without.run(800, None)
    assert max(without.memory) > 2.5 * BUDGET.memory  # type: ignore[operator]
    assert max(window.memory) <= BUDGET.memory  # type: ignore[operator]
    sizes = [window.steps.at(t) for t in range(800)]
    assert sizes[170] == 120
    # It acts before the budget is reached, and at the highest rate what is left to the window is what fits.
    first = window.decisions[0][0]
    assert 180 < first < 240
    assert window.memory[first - 1] < 0.9 * BUDGET.memory  # type: ignore[operator]
    assert min(sizes) < 40
    assert sizes[-1] == 120
    assert len(window.decisions) < 30
    actions = [d.action for _, d in window.decisions]
    assert set(actions) == {"lower", "raise"}
    assert "would be reached" in window.decisions[0][1].reason


@pytest.mark.parametrize("seed", range(2))
def test_noise_changes_nothing_for_long(seed: int) -> None:
    dice = random.Random(seed)
    # On average the best window needs a bit more than the budget: the worst place to stand.
    window = Window(lambda _: 120.0 * dice.uniform(0.75, 1.25), Budget(memory=1.4e6))
    window.run(1_000, Controller(window.budget))
    assert max(window.memory[200:]) <= 1.4e6
    settled = [d for at, d in window.decisions if at > 400]
    assert len(settled) <= 4
    turns = [d.action for _, d in window.decisions]
    assert sum(a != b for a, b in itertools.pairwise(turns)) <= 4
    assert window.steps.at(1_000) > 60


def test_what_cannot_be_kept_is_told_once() -> None:
    window = Window(lambda _: 100.0, Budget(memory=5_000.0))
    window.run(300, Controller(window.budget))
    assert window.values == {KNOB.name: KNOB.worst}
    told = [d for _, d in window.decisions if d.action == "exhausted"]
    assert len(told) == 1
    assert "nothing can be made smaller" in told[0].reason


def test_without_a_budget_all_is_given_back() -> None:
    window = Window(lambda _: 100.0, Budget(memory=500_000.0))
    controller = Controller(window.budget)
    window.run(300, controller)
    assert window.steps.at(300) < 60
    controller.budget = Budget()
    window.run(1, controller)
    assert window.values == best_values([KNOB])
    assert window.decisions[-1][1].reason == "there is no budget any more"
