"""The resource manager: keeps the graphs of a session within its budgets, and lets no query begin for which there is no room.

One manager belongs to each graph. After an epoch it learns how well the model fits (`runtime.load`), asks the controller (`runtime.resources`), and lets what that decides hold for
the rows from the watermark on. Figures of the clock decide here, but only which values are in force: what is answered follows from those alone.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tidegate.algebra.quality import Knob
from tidegate.errors import Diagnostic
from tidegate.optimizer.cost import Costs
from tidegate.optimizer.quality_choice import Budget, Load, Values, total_quality, worst_values
from tidegate.optimizer.statistics import SECOND
from tidegate.physical.estimates import estimated
from tidegate.physical.flow import Bound
from tidegate.physical.plan import Plan
from tidegate.runtime.decisions import DecisionLog, Line
from tidegate.runtime.figures import EpochPace, Figures
from tidegate.runtime.graph import LiveGraph
from tidegate.runtime.live_statistics import flows, measured_costs
from tidegate.runtime.load import Corrections, Now, Past, Projection, knobs_in, plan_with
from tidegate.runtime.quality import in_force
from tidegate.runtime.rates import RECENT, Rates
from tidegate.runtime.resources import DWELL, Controller, Course, Decision, in_bytes, of_budget
from tidegate.spark.context import cores
from tidegate.time import MAX, MIN

LOG = logging.getLogger("tidegate")

Admission = Literal["refuse", "wait"]
ADMISSIONS: tuple[Admission, ...] = ("refuse", "wait")

OVER_BUDGET = "OVER_BUDGET"
EPOCHS = 8
"""Over so many epochs the work is taken."""


@dataclass(frozen=True)
class _Controlled:
    """A graph after an epoch, as the controller sees it."""

    now: Now
    going: Projection
    high: Projection

    @property
    def knobs(self) -> tuple[Knob, ...]:
        return tuple(self.now.knobs)

    @property
    def values(self) -> Values:
        return self.now.values

    @property
    def load(self) -> Load:
        return self.now.load

    def coming(self, values: Values) -> Course:
        return self.going.course(values)

    def at_most(self, values: Values) -> Course:
        return self.high.course(values)


class Manager:
    """Keeps one graph within what the others leave of the budgets."""

    def __init__(self, graph: LiveGraph, budget: Callable[[Manager], Budget]) -> None:
        self.graph, self._budget = graph, budget
        self.name = graph.storage.uri.rsplit("/", 1)[-1]
        self.controller, self.log = Controller(), DecisionLog.of(graph.storage)
        self.past, self.corrections = Past(), Corrections()
        self.rates: dict[str, Rates] = {}
        self.latest: _Controlled | None = None
        self._looked: EpochPace | None = None
        self._waiting: dict[str, int] = {}
        """Rows that came while no time passed."""
        self._worked: deque[tuple[float, float]] = deque(maxlen=EPOCHS)
        """When epochs ended, and the seconds that their tasks worked."""
        self._resumed = graph.ledger.latest.epoch > 0
        self._replaced = 0
        """How many replacements of plans have been noted."""

    def look(self) -> None:
        """Decide after an epoch, if one has passed. Nothing that is wrong here may stop a query."""
        self._tell_replaced()
        figures = self.graph.figures
        if not figures.epochs or figures.epochs[-1] is self._looked:
            return
        self._looked = figures.epochs[-1]
        try:
            decision = self._decided(figures, figures.epochs[-1])
        except (ArithmeticError, ValueError, LookupError) as problem:
            LOG.warning("the load of %s cannot be foreseen: %r", self.name, problem, exc_info=True)
            return
        if decision is not None:
            self._carry_out(decision)

    def _tell_replaced(self) -> None:
        """Note plans that were replaced because others have become much cheaper."""
        replaced = self.graph.reoptimizer.replaced
        for done in replaced[self._replaced :]:
            since = self.graph._instant(done.until)
            self._tell("replaced", self.load, self.load, done.reason, query=done.query, since=since)
        self._replaced = len(replaced)

    def _decided(self, figures: Figures, pace: EpochPace) -> Decision | None:
        self._note(figures, pace)
        budget = self._budget(self)
        knobs = knobs_in(figures.metrics[-1].physical.plan)
        now = self._now(figures, knobs) if budget or self._has_lowered(knobs) else None
        if now is None:
            return None
        self.corrections.learn(now, self.past)
        rates = {n: s.rate for n, s in now.costs.statistics.items() if s.rate > 0 and n in self.rates}
        coming = {n: self.rates[n].coming / rate for n, rate in rates.items()}
        most = {n: self.rates[n].at_most(pace.ended - DWELL) / rate for n, rate in rates.items()}
        going = Projection(now, self.past, self.corrections, coming)
        self.latest = _Controlled(now, going, Projection(now, self.past, self.corrections, most))
        begun = all(len(self.rates[n].samples) >= RECENT for n in rates)
        return self.controller.step(self.latest, pace.ended, budget) if knobs and begun else None

    def _has_lowered(self, knobs: tuple[Knob, ...]) -> bool:
        """Whether a value in force was lowered by a decision, of this process or of one before: without a budget that is taken back, and
        what somebody chose by hand stays."""
        last = {line.setting: line.value for line in self.log.lines}
        settings = in_force(self.graph.ledger.settings)
        return any(k.best != last.get(k.name) == k.steps(settings).at(MAX - 1) for k in knobs)

    def _note(self, figures: Figures, pace: EpochPace) -> None:
        """Remember the rows and the work of an epoch."""
        worked = sum(sum(task.seconds.values()) for task in self.graph.last_tasks)
        self._worked.append((pace.ended, worked))
        upto, width = figures.metrics[-1].upto, figures.width
        rows = {n: self._waiting.get(n, 0) + c for n, c in pace.streams.items()}
        if upto not in (MIN, MAX) and not self.past.slices and not self._resumed:
            # Nobody knows when the first rows began to come.
            self.past.came(upto // width - 1, upto // width, rows)
            return
        if upto in (MIN, MAX) or pace.ticks <= 0:
            self._waiting = rows
            return
        self._waiting = {}
        since, until = (upto - pace.ticks) // width, upto // width
        knobs = knobs_in(figures.metrics[-1].physical.plan)
        longest = max((k.highest for k in knobs if k.kind == "RANGE"), default=0)
        if self._resumed and longest:
            # What came before is in the state, and nobody counted it here: as if it had come as it comes now.
            earlier = {n: round(c * longest * width / pace.ticks) for n, c in rows.items()}
            self.past.came(since - longest, since, earlier)
        self._resumed = False
        self.past.came(since, until, rows)
        self.past.forget_before(until - longest)
        for name, count in rows.items():
            self.rates.setdefault(name, Rates()).add(count / pace.ticks, pace.ended)

    def _now(self, figures: Figures, knobs: tuple[Knob, ...]) -> Now | None:
        found, costs = flows(figures), measured_costs(figures, self.graph.definitions)
        if costs is None:
            return None
        usable = cores(self.graph.spark) if self.graph.epochs.last == "spark" else 1
        seconds = self._worked[-1][0] - self._worked[0][0]
        worked = sum(w for _, w in list(self._worked)[1:]) / seconds if seconds > 0 else 0.0
        return Now(
            figures.metrics[-1].physical.plan,
            costs,
            knobs,
            in_force(self.graph.ledger.settings),
            figures.metrics[-1].upto // figures.width,
            found.operators,
            found.ticks_per_second,
            float(usable),
            worked / usable,
            figures.width,
        )

    def _carry_out(self, decision: Decision) -> None:
        changes = decision.changes
        since = self.graph.adjust({name: new for name, (_, new) in changes.items()}) if changes else None
        about = (decision.action, decision.load, decision.expected, decision.reason)
        for name, values in changes.items() or [(None, (None, None))]:
            self._tell(*about, since=since, setting=name, values=values, quality=decision.quality)
        LOG.info("%s: %s: %s", self.name, decision.action, decision.reason)

    def _tell(
        self,
        action: str,
        load: Load,
        expected: Load,
        reason: str,
        query: str | None = None,
        since: int | None = None,
        setting: str | None = None,
        values: tuple[int | None, int | None] = (None, None),
        quality: float | None = None,
    ) -> None:
        budget = self._budget(self)
        line = Line(
            self.graph.wall(),
            self.name,
            self.graph.ledger.latest.epoch,
            since,
            action,
            query,
            setting,
            *values,
            quality,
            round(load.memory),
            round(expected.memory),
            None if budget.memory is None else round(budget.memory),
            load.work,
            expected.work,
            budget.work,
            reason,
        )
        self.log.add([line])

    def turned_away(self, query: str, action: str, expected: Load, reason: str) -> None:
        """Note, once, that there is no room for a query."""
        last = self.log.lines[-1] if self.log.lines else None
        if last is None or (last.action, last.query) != (action, query):
            self._tell(action, self.load, expected, reason, query=query)

    def let_in(self, query: str) -> None:
        """Note that a query begins that has waited."""
        self._tell("admitted", self.load, self.lowest, "there is room now", query=query)

    @property
    def load(self) -> Load:
        """As it was measured last."""
        if self.latest is not None:
            return self.latest.load
        return Load(float(sum(a.size for a in self.graph.figures.activities.by_id.values())))

    @property
    def lowest(self) -> Load:
        """What its queries need in the end at the lowest quality of all, at the rates of now."""
        if self.latest is None or not self.latest.knobs:
            return self.load
        return self.latest.coming(worst_values(self.latest.knobs)).settled

    def status(self) -> dict[str, Any]:
        """Load, what is expected, budgets, quality, and the last decisions."""
        budget, latest = self._budget(self), self.latest
        load = self.load
        found: dict[str, Any] = {
            "memory": round(load.memory),
            "work": load.work,
            "memory_budget": None if budget.memory is None else round(budget.memory),
            "work_budget": budget.work,
            "quality": None,
            "decisions": [
                f"{line.action} {line.setting or ''}: {line.reason}" for line in self.log.lines[-5:]
            ],
        }
        if latest is not None and latest.knobs:
            values = {k.name: k.steps(in_force(self.graph.ledger.settings)).at(MAX - 1) for k in latest.knobs}
            found |= {"quality": total_quality(latest.knobs, values), "settings": values}
        return found


@dataclass
class Resources:
    """The budgets of a session, and the managers of its graphs."""

    budget: Budget = field(default_factory=Budget)
    admission: Admission = "refuse"
    reoptimize: bool = False
    """Whether plans of running queries are replaced when others have become much cheaper."""
    managers: Mapping[str, Manager] = field(default_factory=dict)

    def manage(self, graph: LiveGraph) -> Manager:
        found = Manager(graph, self.left_for)
        self.managers = {**self.managers, found.name: found}
        return found

    def release(self, graph: LiveGraph) -> None:
        self.managers = {n: m for n, m in self.managers.items() if m.graph is not graph}

    def left_for(self, manager: Manager) -> Budget:
        """The budgets without what other graphs use."""
        others = [m.load for m in self.managers.values() if m is not manager]
        used = Load(sum(o.memory for o in others), sum(o.work for o in others))
        return self.budget.without(used) if others else self.budget

    def admit(self, name: str, graph: LiveGraph, plan: Plan, costs: Callable[[], Costs]) -> None:
        """Refuse a query for which there is no room even if all that runs, and it too, had the lowest quality.

        Its sources are taken to be as they were measured, or as they are found; a query over a source of which nothing is known is let in, and so is state
        that nothing bounds: nobody can say what they need.
        """
        if not self.budget or name in graph.ledger.latest.queries:
            return
        need = self._need(graph, plan, costs)
        if need is None:
            return
        lowest = [m.lowest for m in self.managers.values()]
        used = Load(sum(o.memory for o in lowest), sum(o.work for o in lowest))
        every = Load(used.memory + need.memory, used.work + need.work)
        if self.budget.share(every) <= 1.0:
            return
        told = f"it needs {in_bytes(need.memory)} and {need.work:.2g} of the cores even at the lowest quality; with what runs, {of_budget(every, self.budget)}"
        for manager in self._of(graph):
            manager.turned_away(name, "waits" if self.admission == "wait" else "refused", every, told)
        raise Diagnostic(
            OVER_BUDGET,
            f"there is no room for '{name}': {told}",
            help="stop other queries, give its windows a smaller RANGE or a coarser GRANULARITY to choose from, SET memory or work to more, or SET admission = 'wait'",
        )

    def let_in(self, name: str, graph: LiveGraph) -> None:
        """Note that a query begins that has waited."""
        for manager in self._of(graph):
            manager.let_in(name)

    def _of(self, graph: LiveGraph) -> list[Manager]:
        return [m for m in self.managers.values() if m.graph is graph]

    @staticmethod
    def _need(graph: LiveGraph, plan: Plan, costs: Callable[[], Costs]) -> Load | None:
        """What a query adds to what runs, at its lowest quality; None: too little is known."""
        known = measured_costs(graph.figures, graph.definitions)
        given = dict(costs().statistics)
        statistics = given | (dict(known.statistics) if known is not None else {})
        if not plan.sources <= statistics.keys():
            return None
        running = graph.figures.metrics[-1].physical.plan if graph.figures.metrics else Plan()
        base = costs() if known is None else known
        on = Costs(statistics, base.prices, base.epoch, base.partitions)
        said = estimated(plan_with(plan, worst_values(knobs_in(plan))), on)
        fresh = [
            e
            for id_, e in said.items()
            if id_ not in running.operators
            and id_ not in running.inputs
            and not (id_ in plan.operators and plan.operators[id_].state == Bound.NOTHING)
        ]
        pace = flows(graph.figures).ticks_per_second
        if not pace and costs().epoch == SECOND:
            pace = SECOND
        work = sum(e.work_seconds for e in fresh) * pace / cores(graph.spark)
        return Load(sum(e.memory_bytes for e in fresh), work)
