"""Plans of running queries are replaced in a graph that dies at every point of every commit: nothing is missing or there twice, and the old plans' state goes."""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path

import pytest

from tests.fuzz.killed_graphs import HandedOut, KilledGraph, Migration, NeedsSparkError, Step
from tests.fuzz.players import REFUSED, answerable, described
from tests.fuzz.queries import Case
from tests.fuzz.test_joining import family
from tests.fuzz.test_migration import case_of, ways
from tidegate.algebra.adjusting import knobs_of
from tidegate.errors import Diagnostic
from tidegate.physical.identity import plan_identity
from tidegate.runtime import graph, ledger, merging
from tidegate.time import MAX

MIGRATIONS = int(os.environ.get("TIDEGATE_MIGRATIONS", "4"))
FIRST = int(os.environ.get("TIDEGATE_FUZZ_SEED", "920000"))
COMMIT = {"before state", "after state", "before manifest"}
COUNTED = {"after manifest", "after old state"}
"""Points at which the graph dies in every step that matters to a migration: all of the first, one of the others."""


def played(place: Path, cases: dict[str, Case], dice: random.Random, number: int) -> tuple[str | None, KilledGraph]:  # fmt: skip
    """Queries run together, come and go, and change their plans; the first difference from the reference."""
    first = next(iter(cases.values()))
    HandedOut.sources = first.streams.sources(first.width)
    HandedOut.functions = {**first.catalog.functions, **first.catalog.aggregates}
    plans = {n: ways(c, dice) for n, c in cases.items()}
    # The first of a query's plans is the one that it is started with, again after each restart.
    run = KilledGraph(
        place, cases, {n: p[0] for n, p in plans.items()}, 1 + number % 2, files=1 if number % 3 else 3
    )
    instant = first.streams.unit * first.width
    ends = [t * instant for t in sorted(dice.choices(range(-2, 24), k=9))]
    waiting = list(cases)
    for i, upto in enumerate([*ends, MAX]):
        starts, stops = [], []
        settled = {q.name for q in run.graph.queries() if q.has_run(run.graph.ledger.latest)}
        if waiting and (i == 0 or dice.random() < 0.4):
            starts.append(waiting.pop(0))
        elif len(settled) > 1 and dice.random() < 0.1:
            stops.append(dice.choice(sorted(settled)))
            found = run.check_answer(stops[0], run.graph.ledger.latest.upto)
            if found is not None:
                return found, run
            waiting += stops
        changes = {}
        for name in sorted(settled - {*stops}):
            query = run.graph.query(name)
            if not query.leaving and dice.random() < 0.9:
                others = [p for p in plans[name] if plan_identity(p) != plan_identity(query.plan)]
                if others:
                    changes[name] = dice.choice(others)
        run.play(Step(upto, tuple(starts), tuple(stops), changes))
    found = next((d for n in run.running if (d := run.check_answer(n, MAX)) is not None), None)
    return found, run


def play(place: Path, number: int) -> KilledGraph | None:
    """A graph of a query and others over it; None: only Spark can run it."""
    case, dice = case_of(number), random.Random(FIRST + number)
    try:
        every = {n: c for n, c in family(case, dice).items() if c.optimized and c.width == case.width}
    except Diagnostic:
        return None
    if not answerable(case) or any(knobs_of(c.plan) for c in every.values()):
        return None
    cases = {n: every[n] for n in list(every)[:2]}
    try:
        found, run = played(place, cases, dice, number)
    except NeedsSparkError:
        return None
    except Diagnostic as problem:
        if problem.condition not in REFUSED:
            raise
        return None
    run.graph.release()
    assert found is None, f"number {number}, {found}\n{described(case)}"
    return run


def test_plans_are_replaced_whenever_the_graph_dies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph, "Gathering", HandedOut)
    monkeypatch.setattr(graph, "FirstRows", HandedOut)
    done: list[Migration] = []
    kills: Counter[str] = Counter()
    number = graphs = 0
    while len(done) < MIGRATIONS:
        # In some graphs the index takes over after every epoch.
        monkeypatch.setattr(ledger, "MANIFESTS", 1 if number % 2 else 5)
        # In some, all result files are merged while epochs go on.
        monkeypatch.setattr(merging, "AT_ONCE", -1 if number % 3 == 0 else 200_000)
        run = play(tmp_path / str(number), number)
        number += 1
        if run is None:
            continue
        graphs += 1
        done += [m for m in run.migrations if m.done]
        kills += run.kills
        print(f"graph {number}: {len(done)} plans replaced, {sum(kills.values())} kills", flush=True)
    for m in done:
        assert all(points >= COMMIT and points & COUNTED for points in m.deaths.values()), m
    met = Counter(point for m in done for point in set().union(*m.deaths.values()))
    later = sum(m.deaths["turn"] is not m.deaths["release"] for m in done)
    assert {"before sink", "after sink", "before index", "after index"} <= met.keys()
    print(
        f"\n{len(done)} plans replaced ({later} with both plans running for a while) in {graphs} graphs ({number - graphs} need Spark), {sum(kills.values())} kills: {dict(kills)}; "
        f"migrations that met each point: {dict(met)}"
    )
