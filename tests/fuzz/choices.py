"""What the runtime has chosen in generated runs: for every quality range a step function of its own, with up to twenty changes.

`value_at` is the function as a table that is looked up; `settings_of` says the same to the reference and to kernels.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from functools import lru_cache

from tidegate.algebra.adjusting import knobs_of
from tidegate.algebra.operators import Node
from tidegate.algebra.quality import Knob, Settings, Steps
from tidegate.kernels.endpoints import RangedWindowKernel
from tidegate.physical.lowering import Program

SECOND = 1_000_000


@lru_cache
def table(kind: str, lowest: int, highest: int) -> dict[int, int]:
    """From which instants on another value is in force; all in whole instants."""
    dice = random.Random(f"{kind} {lowest} {highest}")
    instants = dice.sample(range(-4, 20), dice.randint(5, 20))
    return {at: dice.randint(lowest, highest) for at in sorted(instants)}


def value_at(kind: str, lowest: int, highest: int, instant: int) -> int:
    """What is in force at an instant; before all changes the best."""
    found = highest if kind == "RANGE" else lowest
    for at, value in table(kind, lowest, highest).items():
        if at <= instant:
            found = value
    return found


def settings_of(knobs: Iterable[Knob]) -> Settings:
    found = {}
    for knob in knobs:
        unit = SECOND if knob.timestamps else 1
        changes = table(knob.kind, knob.lowest // unit, knob.highest // unit)
        found[knob.name] = Steps(knob.best, tuple((at * unit, value * unit) for at, value in changes.items()))
    return found


def settings_in(plan: Node) -> Settings:
    return settings_of(knobs_of(plan).values())


def settings_for(program: Program) -> Settings:
    """The same for what is computed."""
    kernels = (o.kernel for o in program.operators)
    return settings_of(
        k for kernel in kernels if isinstance(kernel, RangedWindowKernel) for k in kernel.spec.knobs
    )
