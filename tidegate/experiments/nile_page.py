"""Nile's experiments as a page: pictures, tables, and the papers' claims, each with what was measured and whether it holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tidegate.experiments import nile, sales
from tidegate.experiments.nile import Capacity, Comparison, Figure
from tidegate.experiments.pictures import lines
from tidegate.nexmark.report import insert, machine
from tidegate.pipeline.elements import Strategy

Say = Callable[[str], None]


@dataclass(frozen=True)
class Claim:
    """What a paper says, and what was measured."""

    paper: str
    claim: str
    measured: str
    holds: bool


@dataclass(frozen=True)
class Results:
    figures: tuple[Figure, ...]
    capacities: tuple[Capacity, ...]
    comparisons: tuple[Comparison, ...]
    doubled: float
    """Elements that travelled through Q1 with negative tuples, against input-triggered."""

    def figure(self, name: str) -> Figure:
        return next(f for f in self.figures if f.name == name)


def measured(scale: float, say: Say) -> Results:
    """Do all experiments; `scale` shortens the streams (1: as on the page)."""
    say("1 of 5: delay by selectivity (Fig. 7)")
    found = nile.figure_7([0.1, 0.25, 0.5, 0.75, 1.0], 180 * scale)
    say("2 of 5: messages by multiplicity and the join's capacity (Fig. 8)")
    found.append(nile.figure_8([1, 2, 3, 4, 5], 40 * scale))
    capacities = nile.capacities(90 * scale, window=30 * min(1.0, 2 * scale))
    say("3 of 5: delay and negative tuples by selectivity (Fig. 9)")
    found += nile.figure_9([0.001, 0.0025, 0.005, 0.0075, 0.01], 200, 20 * scale)
    say("4 of 5: throughput by rate (Fig. 10)")
    found.append(nile.figure_10([50, 100, 150, 200, 250, 300, 350], 16 * scale))
    say("5 of 5: time intervals and negative tuples (PIPES)")
    compared = tuple(nile.intervals_and_negatives(20 * scale))
    workload = sales.favorites(1.0, clustered=False, seconds=180 * scale)
    ways = (nile.played(workload, s).travelled for s in (Strategy.NEGATIVE, Strategy.INPUT))
    return Results(tuple(found), tuple(capacities), compared, next(ways) / next(ways))


def claims(results: Results) -> list[Claim]:
    """Every claim beside what was measured."""
    capacity = {c.strategy: c.per_second for c in results.capacities}
    gain = capacity[Strategy.MESSAGES] / capacity[Strategy.NEGATIVE]
    delay = {name: dict(points) for name, points in results.figure("7b").curves.items()}
    scattered, clustered = (delay[f"{Strategy.INPUT.value}, {d}"] for d in ("scattered", "clustered"))
    worst = max(
        y for name, points in results.figure("7b").curves.items() if "input" not in name for _, y in points
    )
    nine = {name: [y for _, y in points] for name, points in results.figure("9a").curves.items()}
    negative, pig, ita = (nine[s.value] for s in (Strategy.NEGATIVE, Strategy.PIGGYBACK, Strategy.INPUT))
    over = max(p - min(n, i) for p, n, i in zip(pig, negative, ita, strict=True))
    rows = sum(c.elements[0] for c in results.comparisons) / sum(c.elements[1] for c in results.comparisons)
    work = sum(c.seconds[0] for c in results.comparisons) / sum(c.seconds[1] for c in results.comparisons)
    ten = {name: [y for _, y in points] for name, points in results.figure("10").curves.items()}
    most = {name: max(values) for name, values in ten.items()}
    return [
        Claim("Nile 5", "negative tuples about double the tuples in the pipeline", f"{results.doubled:.2f} times", 1.7 <= results.doubled <= 2.3),
        Claim("Nile 7.2", "the delay of the input-triggered way grows as selectivity falls, and more where rows stand together",
              f"scattered {scattered[1.0]:.3f} to {scattered[0.1]:.3f} s, together {clustered[1.0]:.3f} to {clustered[0.1]:.1f} s",
              scattered[0.1] > scattered[1.0] and clustered[0.1] > scattered[0.1]),
        Claim("Nile 7.2", "that of negative tuples depends on neither", f"at most {worst:.3f} s", worst == 0.0),
        Claim("Nile 7.3", "join messages about double the join's capacity", f"{gain:.2f} times", 1.6 <= gain <= 2.6),
        Claim("Nile 7.4", "piggybacking has the delay of the better of the two at every selectivity", f"at most {over:.2f} s more", over <= 0.15 * max(negative)),
        Claim("Nile 7.5", "with negative tuples the pipeline is saturated first", f"at most {most[Strategy.NEGATIVE.value]:,.0f} changes per second; input-triggered {most[Strategy.INPUT.value]:,.0f}, piggyback {most[Strategy.PIGGYBACK.value]:,.0f}",
              most[Strategy.NEGATIVE.value] < min(most[Strategy.INPUT.value], most[Strategy.PIGGYBACK.value])),
        Claim("Nile 7.5", "with the optimizations throughput is better than input-triggered", f"{most[Strategy.PIGGYBACK.value] / most[Strategy.INPUT.value]:.2f} times",
              most[Strategy.PIGGYBACK.value] > most[Strategy.INPUT.value]),
        Claim("PIPES", "time intervals need half the rows of positive and negative tuples", f"{rows:.2f}", rows <= 0.6),
        Claim("PIPES", "and about half the processor time", f"{work:.2f}", work <= 0.6),
    ]  # fmt: skip


def write(page: Path, results: Results) -> list[Claim]:
    """The sections of the page, and the pictures beside it."""
    found = claims(results)
    insert(
        page,
        "Nile: claims",
        table(
            ("paper", "claim", "measured", "holds"),
            [(c.paper, c.claim, c.measured, "yes" if c.holds else "**no**") for c in found],
        ),
    )
    shown = []
    for figure in results.figures:
        picture = page.with_name(f"nile-{figure.name}.svg")
        picture.write_text(
            lines(f"Fig. {figure.name}: {figure.title}", figure.x, figure.y, figure.curves), encoding="utf-8"
        )
        shown.append(f"![Fig. {figure.name}: {figure.title}]({picture.name})")
    base = next(c.per_second for c in results.capacities if c.strategy is Strategy.NEGATIVE)
    capacity = [
        (
            c.strategy.value,
            f"{c.taken:,}",
            f"{c.probes:,}",
            f"{c.per_second:,.0f}",
            f"{c.per_second / base:.2f}",
        )
        for c in results.capacities
    ]
    shown.append(f"Fig. 8b, the join's capacity by the clock ({machine()}):")
    shown.append(
        table(
            ("strategy", "tuples taken", "rows looked at", "tuples per second", "against negative"), capacity
        )
    )
    insert(page, "Nile: figures", "\n\n".join(shown))
    rows = [
        (c.plan, *(f"{n:,}" for n in c.elements), f"{c.elements[0] / c.elements[1]:.2f}", *(f"{1000 * s:.0f}" for s in c.seconds), f"{c.seconds[0] / c.seconds[1]:.2f}", *(f"{d:.3f}" for d in c.delays))
        for c in results.comparisons
    ]  # fmt: skip
    titles = (
        "plan",
        "elements, intervals",
        "negative",
        "ratio",
        "ms, intervals",
        "negative",
        "ratio",
        "mean delay s, intervals",
        "negative",
    )
    insert(page, "Nile: intervals", table(titles, rows))
    return found


def table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines_ = ["| " + " | ".join(titles) + " |", "|" + "---|" * len(titles)]
    return "\n".join([*lines_, *("| " + " | ".join(row) + " |" for row in rows)])
