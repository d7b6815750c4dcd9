"""The figures of Nile's section 7 and of PIPES' comparison, measured on the pipeline: by counts and in stream time, so that they are the same on every machine.

Only the join's capacity and the processor time beside PIPES' claim are measured by a clock, in one run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from time import process_time

from tidegate.experiments import sales
from tidegate.experiments.sales import SECOND, Workload
from tidegate.pipeline.compiling import compiled
from tidegate.pipeline.elements import Element, Kind, Strategy
from tidegate.pipeline.execution import Execution, Service, at_once
from tidegate.pipeline.groups import Aggregated
from tidegate.pipeline.operators import Join, Operator
from tidegate.pipeline.scheduling import Fifo, RoundRobin, Scheduler
from tidegate.time import MAX, MIN

TICKS_TAKEN, TICKS_GIVEN = 130, 65
"""What the modelled processor takes for an element, and for each that it gives: microseconds of stream time."""

SLOT = 40
"""Elements for which an operator is scheduled at a time."""


def slow(operator: Operator, element: Element, given: int) -> int:
    return TICKS_TAKEN + TICKS_GIVEN * given


@dataclass(frozen=True)
class Run:
    """What one run of a workload showed."""

    execution: Execution
    seconds: float

    @property
    def delays(self) -> list[float]:
        """Seconds between an instant of the answer and when it was known."""
        return [late / SECOND for at, late in self.execution.answer.delays if at != MIN]

    @property
    def mean_delay(self) -> float:
        return sum(self.delays) / max(1, len(self.delays))

    @property
    def join(self) -> Join:
        return next(o for o in self.execution.pipeline.operators if isinstance(o, Join))

    @property
    def group(self) -> Aggregated:
        return next(o for o in self.execution.pipeline.operators if isinstance(o, Aggregated))

    @property
    def travelled(self) -> int:
        """Elements that operators took, all together."""
        return sum(sum(o.tally.taken.values()) for o in self.execution.pipeline.operators)


def played(
    workload: Workload,
    strategy: Strategy,
    scheduler: Scheduler | None = None,
    service: Service = at_once,
    until: int = MAX,
    timed: bool = False,
) -> Run:
    execution = Execution(
        compiled(workload.plan, workload.sources, strategy), strategy, scheduler or Fifo(), service, timed
    )
    began = process_time()
    execution.run(until)
    return Run(execution, process_time() - began)


def undoing(kinds: Mapping[Kind, int]) -> int:
    """How many elements say that something is over."""
    return sum(n for kind, n in kinds.items() if kind is not Kind.POSITIVE)


@dataclass(frozen=True)
class Figure:
    """A figure: for each curve, points (x, y)."""

    name: str
    title: str
    x: str
    y: str
    curves: dict[str, list[tuple[float, float]]]


def figure_7(selectivities: Sequence[float], seconds: float) -> list[Figure]:
    """Average and greatest delay of Q1 by selectivity, for both distributions."""
    mean: dict[str, list[tuple[float, float]]] = {}
    most: dict[str, list[tuple[float, float]]] = {}
    for strategy in (Strategy.INPUT, Strategy.NEGATIVE, Strategy.PIGGYBACK):
        for clustered in (True, False):
            name = f"{strategy.value}, {'clustered' if clustered else 'scattered'}"
            for selectivity in selectivities:
                run = played(
                    sales.favorites(selectivity, clustered, seconds=seconds),
                    strategy,
                    until=int(seconds * SECOND),
                )
                mean.setdefault(name, []).append((selectivity, run.mean_delay))
                most.setdefault(name, []).append((selectivity, max(run.delays, default=0.0)))
    return [
        Figure("7b", "Q1, average output delay", "selectivity", "seconds", mean),
        Figure("7c", "Q1, greatest output delay", "selectivity", "seconds", most),
    ]


def figure_8(multiplicities: Sequence[int], seconds: float) -> Figure:
    """What the join of Q2 says of ends, beside what it says of rows."""
    ratio: dict[str, list[tuple[float, float]]] = {}
    for multiplicity in multiplicities:
        workload = sales.multiplied(multiplicity, seconds=seconds)
        for strategy in (Strategy.INPUT, Strategy.NEGATIVE, Strategy.MESSAGES, Strategy.PIGGYBACK):
            tally = played(workload, strategy, RoundRobin(SLOT)).join.tally
            ratio.setdefault(strategy.value, []).append(
                (multiplicity, undoing(tally.given) / max(1, tally.given[Kind.POSITIVE]))
            )
    title = "Q2, negative tuples and messages per positive tuple behind the join"
    return Figure("8a", title, "join multiplicity", "ratio", ratio)


@dataclass(frozen=True)
class Capacity:
    """What a join got done: tuples that it took, rows of the other side that it looked at, processor seconds."""

    strategy: Strategy
    taken: int
    probes: int
    seconds: float

    @property
    def per_second(self) -> float:
        return self.taken / self.seconds


def capacities(seconds: float, window: float = 30, rounds: int = 3) -> list[Capacity]:
    """Figure 8b: the join of Q2 at 50 tuples a second and stream and a selectivity of 0.01. Of several rounds, in turn, the quickest."""
    workload = sales.stores(0.01, 50, window=window, seconds=seconds)
    best: dict[Strategy, Capacity] = {}
    for _ in range(rounds):
        for strategy in (Strategy.INPUT, Strategy.NEGATIVE, Strategy.MESSAGES, Strategy.PIGGYBACK):
            tally = played(workload, strategy, RoundRobin(SLOT), timed=True).join.tally
            found = Capacity(strategy, sum(tally.taken.values()), tally.probes, tally.seconds)
            best[strategy] = min(best.get(strategy, found), found, key=lambda c: c.seconds)
    return list(best.values())


def figure_9(selectivities: Sequence[float], rate: float, seconds: float) -> list[Figure]:
    """Delay of Q2 on a processor that is slow, and what MAX has to take in negative tuples, by selectivity."""
    delay: dict[str, list[tuple[float, float]]] = {}
    ratio: dict[str, list[tuple[float, float]]] = {}
    for selectivity in selectivities:
        workload = sales.stores(selectivity, rate, seconds=seconds)
        for strategy in (Strategy.INPUT, Strategy.NEGATIVE, Strategy.PIGGYBACK):
            run = played(workload, strategy, RoundRobin(SLOT), slow, until=int(seconds * SECOND))
            taken = run.group.tally.taken
            delay.setdefault(strategy.value, []).append((selectivity * 100, run.mean_delay))
            ratio.setdefault(strategy.value, []).append(
                (selectivity * 100, undoing(taken) / max(1, taken[Kind.POSITIVE]))
            )
    return [
        Figure("9a", "Q2, average output delay", "join selectivity, percent", "seconds", delay),
        Figure(
            "9b",
            "Q2, negative tuples and messages per positive tuple at MAX",
            "join selectivity, percent",
            "ratio",
            ratio,
        ),
    ]


def figure_10(rates: Sequence[float], seconds: float, selectivity: float = 0.01) -> Figure:
    """Answers of Q2 per second, by rate, on a processor that is slow."""
    found: dict[str, list[tuple[float, float]]] = {}
    for rate in rates:
        workload = sales.stores(selectivity, rate, seconds=seconds)
        for strategy in (Strategy.INPUT, Strategy.NEGATIVE, Strategy.PIGGYBACK):
            limit = int(seconds * SECOND)
            answer = played(workload, strategy, RoundRobin(SLOT), slow, limit).execution.answer
            said = sum(1 for at, late in answer.delays if at + late <= limit)
            found.setdefault(strategy.value, []).append((rate, said / seconds))
    return Figure(
        "10", "Q2, throughput", "tuples per second and stream", "changes of the answer per second", found
    )


COMPARED: dict[str, Callable[[float], Workload]] = {
    "Q1: count of favorite items": lambda s: sales.favorites(0.5, clustered=False, seconds=s),
    "Q2: greatest price of a join": lambda s: sales.stores(0.01, 100, seconds=s),
    "join": lambda s: _over(
        "SELECT A.Price, B.Price AS other FROM S1 WINDOW(RANGE {w}) A, S2 WINDOW(RANGE {w}) B WHERE A.StoreID = B.StoreID",
        s,
    ),
    "distinct": lambda s: _over("SELECT DISTINCT StoreID FROM S1 WINDOW(RANGE {w})", s),
    "difference": lambda s: _over(
        "SELECT StoreID FROM S1 WINDOW(RANGE {w}) EXCEPT ALL SELECT StoreID FROM S2 WINDOW(RANGE {w})", s
    ),
    "count per store": lambda s: _over(
        "SELECT StoreID, COUNT(*) AS n FROM S1 WINDOW(RANGE {w}) GROUP BY StoreID", s
    ),
}
"""Plans that PIPES' comparison is done with: the same, with time intervals and with positive and negative tuples."""


def _over(query: str, seconds: float) -> Workload:
    workload = sales.stores(0.01, 100, seconds=seconds)
    return Workload(sales.plan_of(query.format(w=2 * SECOND)), workload.sources)


@dataclass(frozen=True)
class Comparison:
    """One plan with time intervals and with positive and negative tuples: elements, processor seconds, mean delays."""

    plan: str
    elements: tuple[int, int]
    seconds: tuple[float, float]
    delays: tuple[float, float]


def intervals_and_negatives(seconds: float, rounds: int = 3) -> Iterable[Comparison]:
    """PIPES' comparison (001 section 4, 000 appendix C). Of several rounds, in turn, the quickest."""
    for plan, workload in COMPARED.items():
        runs: dict[Strategy, list[Run]] = {Strategy.INTERVALS: [], Strategy.NEGATIVE: []}
        made = workload(seconds)
        for _ in range(rounds):
            for strategy, found in runs.items():
                found.append(played(made, strategy))
        ways = list(runs.values())
        yield Comparison(
            plan,
            (ways[0][0].travelled + _answered(ways[0][0]), ways[1][0].travelled + _answered(ways[1][0])),
            (min(r.seconds for r in ways[0]), min(r.seconds for r in ways[1])),
            (ways[0][0].mean_delay, ways[1][0].mean_delay),
        )


def _answered(run: Run) -> int:
    return len(run.execution.answer.elements)
