"""The choice of sizes and granules, against trying all of them."""

from __future__ import annotations

import random
from itertools import product

import pytest

from tidegate.algebra.quality import Knob
from tidegate.optimizer.quality_choice import (
    Budget,
    Load,
    Values,
    best_values,
    choose,
    total_quality,
    worst_values,
)

STEPS = 12


def tried(knobs: list[Knob], load_of: object, budget: Budget) -> float | None:
    """The best quality among all combinations of evenly spaced values; None: no combination fits."""
    values = [[k.worst + (k.best - k.worst) * i // STEPS for i in range(STEPS + 1)] for k in knobs]
    names = [k.name for k in knobs]
    fitting = [
        total_quality(knobs, found)
        for v in product(*values)
        if budget.excess(load_of(found := dict(zip(names, v, strict=True)))) == 0.0  # type: ignore[operator]
    ]
    return max(fitting, default=None)


def world(seed: int) -> tuple[list[Knob], object, Budget]:
    """A few knobs; memory grows with sizes, work with sizes and falls with granules; some sizes share a join."""
    dice = random.Random(seed)
    knobs = []
    for number in range(dice.randint(1, 3)):
        low = dice.randint(1, 50)
        high = low * dice.randint(2, 30)
        kind = dice.choice(("RANGE", "RANGE", "GRANULARITY"))
        knobs.append(Knob(f"S{number}", kind, low, high, priority=dice.choice((1, 1, 2, 5))))
    prices = {k.name: dice.uniform(0.1, 10.0) for k in knobs}
    joined = dice.random() < 0.3

    def load_of(values: Values) -> Load:
        sizes = [values[k.name] for k in knobs if k.kind == "RANGE"]
        memory = sum(prices[k.name] * values[k.name] for k in knobs if k.kind == "RANGE")
        work = sum(
            prices[k.name] * (values[k.name] / k.highest if k.kind == "RANGE" else k.lowest / values[k.name])
            for k in knobs
        )
        return Load(memory, work * (1.0 + (sum(sizes) / 1_000 if joined else 0.0)))

    worst, best = load_of(worst_values(knobs)), load_of(best_values(knobs))
    part = dice.uniform(-0.1, 1.1)
    memory = worst.memory + part * (best.memory - worst.memory)
    work = worst.work + dice.uniform(0.0, 1.1) * (best.work - worst.work)
    budgets = ((memory or 1.0, None), (None, work), (memory or 1.0, work))
    return knobs, load_of, Budget(*(b and max(b, 1e-6) for b in dice.choice(budgets)))


@pytest.mark.parametrize("seed", range(60))
def test_it_is_about_as_good_as_the_best_of_all(seed: int) -> None:
    knobs, load_of, budget = world(seed)
    found, best = choose(knobs, load_of, budget), tried(knobs, load_of, budget)  # type: ignore[arg-type]
    assert all(k.allows(found.values[k.name]) for k in knobs)
    if found.fits:
        assert budget.excess(load_of(found.values)) == 0.0  # type: ignore[operator]
        assert found.quality >= (best or 0.0) - 0.1
    else:
        assert best is None
        assert found.values == worst_values(knobs)


def test_quality_stays_where_priority_is() -> None:
    knobs = [Knob("S", "RANGE", 10, 100), Knob("R", "RANGE", 10, 100, priority=3)]
    found = choose(knobs, lambda v: Load(memory=float(sum(v.values()))), Budget(memory=130.0))
    assert found.values[knobs[1].name] == 100
    assert found.values[knobs[0].name] == pytest.approx(30, abs=1)
    # What helps nothing stays as it is.
    only = choose(knobs, lambda v: Load(memory=float(v[knobs[1].name])), Budget(memory=50.0))
    assert only.values == {knobs[0].name: 100, knobs[1].name: pytest.approx(50, abs=1)}


def test_many_knobs_are_asked_for_a_few_hundred_times() -> None:
    knobs = [Knob(f"S{i}", "RANGE", 10, 1_000, priority=1 + i % 3) for i in range(12)]
    asked = 0

    def load_of(values: Values) -> Load:
        nonlocal asked
        asked += 1
        return Load(memory=float(sum(values.values())))

    found = choose(knobs, load_of, Budget(memory=6_000.0))
    assert found.fits
    assert asked < 500
