"""What a graph's state and work will be: the cost model, corrected by what was measured, over the instants to come.

A row that came under one window size keeps its end when the size changes, so memory follows a change slowly, and how fast is known: the ends are. With the rate r, the
rows that came so far and the size v from now on, at the instant d from now the windows over a stream show as many rows as a window in force for ever of the size

    effective(d, v) = (rows that came before now and are valid then) / r + min(d, v)

So the model that knows sizes at steady state tells the state at any instant; what counts for a budget is the peak. Each operator's estimate is multiplied by what was measured of
it, divided by what the model says of now: the model says how load moves, measurement how large it is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from tidegate.algebra.quality import Knob, Settings, Steps
from tidegate.kernels.endpoints import RangedWindowKernel, TimeWindowKernel
from tidegate.optimizer.cost import Costs
from tidegate.optimizer.formulas import Estimate
from tidegate.optimizer.quality_choice import Load, Values
from tidegate.physical.estimates import estimated
from tidegate.physical.identity import Identity
from tidegate.physical.plan import OperatorRows, Plan
from tidegate.runtime.live_statistics import Flow
from tidegate.runtime.resources import Course

PIECES = 200
"""The rows of the past are remembered as the numbers of rows in so many slices of time, in instants."""
INSTANTS = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0)
"""The parts of the largest window after which the load is looked at."""
SMALL = 1_000.0
"""Bytes of state, and microseconds of work in a second, that are not worth to be corrected by."""
MOST = 30.0
"""By so much the model may be wrong."""
INERTIA = 0.7
"""How much of the correction of an operator's work stays from one epoch to the next."""
SINKING = 0.995
"""So slowly the correction of its state falls: rows that have ended are dropped from time to time, and what counts is how much there is before."""


@dataclass
class Past:
    """How many rows of each stream came when: slices of application time, older than any window in force forgotten."""

    slices: deque[tuple[int, int, Mapping[str, int]]] = field(default_factory=deque)

    def came(self, since: int, upto: int, rows: Mapping[str, int]) -> None:
        """Note the rows of an epoch."""
        if upto > since:
            self.slices.append((since, upto, dict(rows)))
            if len(self.slices) > PIECES:
                self._merge()

    def forget_before(self, instant: int) -> None:
        while self.slices and self.slices[0][1] <= instant:
            self.slices.popleft()

    def _merge(self) -> None:
        """Two neighbours each become one."""
        old, self.slices = list(self.slices), deque()
        for i in range(0, len(old) - 1, 2):
            (since, _, a), (_, upto, b) = old[i], old[i + 1]
            self.slices.append((since, upto, {n: a.get(n, 0) + b.get(n, 0) for n in {*a, *b}}))
        if len(old) % 2:
            self.slices.append(old[-1])

    def left(self, stream: str, size: Steps, instants: Sequence[int]) -> npt.NDArray[np.float64]:
        """How many rows of a stream that came so far are still valid at some instants, if a row of time s is until `s + size(s)`.

        >>> past = Past()
        >>> past.came(0, 10, {"S": 100})
        >>> past.left("S", Steps(20), (10, 25, 30)).tolist()
        [100.0, 50.0, 0.0]
        """
        if not self.slices:
            return np.zeros(len(instants))
        since, upto, rows = (np.array(column) for column in zip(*self._of(stream, size), strict=True))
        ends = upto[:, None] - np.asarray(instants, dtype=np.float64)[None, :]
        parts: npt.NDArray[np.float64] = np.clip(ends / (upto - since)[:, None], 0.0, 1.0)
        return rows @ parts

    def _of(self, stream: str, size: Steps) -> list[tuple[float, float, float]]:
        """The slices of one stream, moved to where their rows end."""
        moved = ((since, upto, size.at(since), rows) for since, upto, rows in self.slices)
        return [(float(a + w), float(b + w), float(rows.get(stream, 0))) for a, b, w, rows in moved]


@dataclass(frozen=True)
class Now:
    """What is known of a graph at a moment."""

    plan: Plan
    costs: Costs
    knobs: Sequence[Knob]
    settings: Settings
    instant: int
    """How far time has passed."""
    operators: Mapping[Identity, Flow]
    ticks_per_second: float
    cores: float = 1.0
    """That the graph's epochs can use."""
    work: float = 0.0
    """The part of them that was at work."""
    width: int = 1
    """Ticks of an instant; sizes and granules are instants."""

    @property
    def memory(self) -> float:
        """Bytes of state."""
        return float(sum(flow.size for flow in self.operators.values()))

    @property
    def load(self) -> Load:
        return Load(self.memory, self.work)

    @property
    def values(self) -> dict[str, int]:
        """The values in force."""
        return {k.name: k.steps(self.settings).at(self.instant) for k in self.knobs}


@dataclass
class Corrections:
    """Of each operator, what was measured divided by what the model said: of its state, and of its work."""

    memory: dict[Identity, float] = field(default_factory=dict)
    work: dict[Identity, float] = field(default_factory=dict)

    def learn(self, now: Now, past: Past) -> None:
        """Take in what an epoch has shown."""
        said = Projection(now, past, self).estimates(0, now.values)
        sizes = _compared(_sizes(now), {i: e.memory_bytes for i, e in said.items()}, SMALL)
        work = _compared(_seconds(now), _worked(said, now), SMALL / 1e6)
        before = {i: f for i, f in self.memory.items() if i in said}
        self.memory = before | {i: max(f, before.get(i, f) * SINKING) for i, f in sizes.items()}
        worked = {i: f for i, f in self.work.items() if i in said}
        self.work = worked | {i: worked.get(i, f) ** INERTIA * f ** (1 - INERTIA) for i, f in work.items()}


def _compared(
    measured: Mapping[Identity, float], model: Mapping[Identity, float], least: float
) -> dict[Identity, float]:
    """What was measured divided by what the model says, where both are worth it."""
    both = ((id_, value, model.get(id_, 0.0)) for id_, value in measured.items())
    return {i: min(max(a / b, 1 / MOST), MOST) for i, a, b in both if a > least and b > least}


def _sizes(now: Now) -> dict[Identity, float]:
    return {id_: float(flow.size) for id_, flow in now.operators.items()}


def _seconds(now: Now) -> dict[Identity, float]:
    """Of work in a second by the clock."""
    return {id_: flow.seconds * now.ticks_per_second for id_, flow in now.operators.items()}


def _worked(said: Mapping[Identity, Estimate], now: Now) -> dict[Identity, float]:
    return {id_: e.work_seconds * now.ticks_per_second for id_, e in said.items()}


class Projection:
    """The load of a graph at the instants to come, if some values are in force from now on.

    `growth`: by how much each stream's rate is taken to be another than it was measured.
    """

    def __init__(
        self, now: Now, past: Past, corrections: Corrections, growth: Mapping[str, float] | None = None
    ) -> None:
        self.now, self.past, self.corrections = now, past, corrections
        grown = growth or {}
        known = {n: replace(s, rate=s.rate * grown.get(n, 1.0)) for n, s in now.costs.statistics.items()}
        self._costs = replace(now.costs, statistics=known)
        whole, moved = estimated(plan_with(now.plan, {}), self._costs), depending(now.plan)
        self._steady = {id_: e for id_, e in whole.items() if id_ not in moved}
        """What does not depend on any knob, estimated once."""
        self._overhead = max(0.0, now.work * now.cores - sum(_seconds(now).values()))
        """Seconds of work in a second that no operator has done: reading, writing, planning."""

    def course(self, values: Values) -> Course:
        """The load from now until the largest window has filled, and the one that stays."""
        longest = max((values[k.name] for k in self.now.knobs if k.kind == "RANGE"), default=0)
        settled = self._load(self.estimates(None, values))
        peak = Load(self.now.memory).highest(settled)
        for part in INSTANTS if longest else ():
            peak = peak.highest(self._load(self.estimates(round(part * longest), values)))
        return Course(peak, settled)

    def _load(self, said: Mapping[Identity, Estimate]) -> Load:
        memory = sum(self._memory(id_, e) for id_, e in said.items())
        worked = _worked(said, self.now)
        work = sum(seconds * self.corrections.work.get(id_, 1.0) for id_, seconds in worked.items())
        return Load(memory, (self._overhead + work) / self.now.cores)

    def _memory(self, id_: Identity, said: Estimate) -> float:
        """What the model says, corrected; what it knows nothing of stays as it is."""
        measured = self.now.operators.get(id_)
        if id_ not in self.corrections.memory and measured is not None and said.memory_bytes <= SMALL:
            return float(measured.size)
        return said.memory_bytes * self.corrections.memory.get(id_, 1.0)

    def estimates(self, distance: int | None, values: Values) -> dict[Identity, Estimate]:
        """What the model says of every operator so many instants from now, or (None) in the end."""
        sizes = values if distance is None else self.effective(distance, values)
        return estimated(plan_with(self.now.plan, sizes), self._costs, self._steady)

    def effective(self, distance: int, values: Values) -> dict[str, int]:
        """Sizes that would show, if they had been in force for ever, as many rows as are shown so many ticks from now."""
        found = dict(values)
        for knob in self.now.knobs:
            source = self._costs.statistics.get(knob.stream)
            if knob.kind == "RANGE" and source is not None and source.rate > 0:
                steps = knob.steps(self.now.settings)
                (left,) = self.past.left(knob.stream, steps, (self.now.instant + distance,))
                fresh = min(distance, values[knob.name])
                found[knob.name] = max(1, round(left / (source.rate * self.now.width)) + fresh)
        return found


def plan_with(plan: Plan, values: Values) -> Plan:
    """The plan with windows of fixed sizes and granules, as the model knows them; of a knob without a value, the best."""
    operators = {
        id_: replace(o, kernel=_fixed(o.kernel, values)) if isinstance(o.kernel, RangedWindowKernel) else o
        for id_, o in plan.operators.items()
    }
    return replace(plan, operators=operators)


def _fixed(kernel: RangedWindowKernel, values: Values) -> TimeWindowKernel:
    spec = kernel.spec
    size = values.get(spec.size.name, spec.size.best) if isinstance(spec.size, Knob) else spec.size
    granule = 1 if spec.granule is None else values.get(spec.granule.name, spec.granule.best)
    return TimeWindowKernel(kernel.schema, size, max(spec.slide, granule), width=kernel.width)


def depending(plan: Plan) -> set[Identity]:
    """The inputs and operators that see rows of a window that can be adjusted."""
    found: dict[Identity, bool] = {}

    def look(id_: Identity) -> bool:
        if id_ not in found:
            entry = plan.inputs.get(id_)
            if entry is not None:
                found[id_] = isinstance(entry.origin, OperatorRows) and look(entry.origin.operator)
            else:
                operator = plan.operators[id_]
                below = [look(i) for i in operator.inputs]
                found[id_] = any(below) or isinstance(operator.kernel, RangedWindowKernel)
        return found[id_]

    return {id_ for id_ in (*plan.inputs, *plan.operators) if look(id_)}


def knobs_in(plan: Plan) -> tuple[Knob, ...]:
    """What can be chosen for the queries of a plan."""
    kernels = (o.kernel for o in plan.operators.values())
    specs = (kernel.spec for kernel in kernels if isinstance(kernel, RangedWindowKernel))
    return tuple({knob.name: knob for spec in specs for knob in spec.knobs}.values())
