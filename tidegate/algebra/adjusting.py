"""Plans with windows that the runtime may adjust: which knobs they have, and what they are at given values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tidegate.algebra import operators as op
from tidegate.algebra.modify import Clock, Sync
from tidegate.algebra.properties import has_timestamps
from tidegate.algebra.quality import Knob, RangedWindow
from tidegate.algebra.windows import TimeWindow


def knobs_of(plan: op.Node) -> dict[str, Knob]:
    """What can be chosen for a plan, by name.

    >>> window = op.Window(op.Scan("S", ()), RangedWindow(Knob("S", "RANGE", 5, 60)))
    >>> list(knobs_of(op.Distinct(window)))
    ['S RANGE BETWEEN 5 AND 60']
    """
    windows = (n.spec for n in plan.walk() if isinstance(n, op.Window) and isinstance(n.spec, RangedWindow))
    return {knob.name: knob for spec in windows for knob in spec.knobs}


def fixed(plan: op.Node, values: Mapping[str, int]) -> op.Node:
    """The plan that a query would have whose windows were always as the values say; of a knob without one, the best.

    `answer(plan, w) = answer(fixed(plan, v))` where w is v at all times. It has no ranges, so its cost is that of the values.

    >>> window = op.Window(op.Scan("S", ()), RangedWindow(Knob("S", "RANGE", 5, 60)))
    >>> fixed(window, {}).spec, fixed(window, {"S RANGE BETWEEN 5 AND 60": 7}).spec
    (TimeWindow(size=60, slide=1, origin=0), TimeWindow(size=7, slide=1, origin=0))
    """
    made: dict[op.Node, op.Node] = {}
    for node in plan.walk():
        inputs = [made[i] for i in node.inputs]
        changed = any(a is not b for a, b in zip(inputs, node.inputs, strict=True))
        found: op.Node = node.with_inputs(*inputs) if changed else node
        made[node] = _fixed(found, values) if isinstance(found, op.Window) else found
    return made[plan]


def _fixed(window: op.Window, values: Mapping[str, int]) -> op.Node:
    spec = window.spec
    if not isinstance(spec, RangedWindow):
        return window
    size = values.get(spec.size.name, spec.size.best) if isinstance(spec.size, Knob) else spec.size
    shown = replace(window, spec=TimeWindow(size, spec.slide, spec.origin))
    granule = 1 if spec.granule is None else values.get(spec.granule.name, spec.granule.best)
    clock = Clock(granule, timestamps=has_timestamps(window), width=window.width)
    return shown if granule == 1 else Sync(shown, clock)
