"""Whenever a view answers a query, the answer is the query's own at every instant."""

from __future__ import annotations

import os
import random
from collections import Counter

import pytest

from tests.fuzz.graph_runs import GraphRun
from tests.fuzz.players import canonical
from tests.fuzz.view_pairs import Pair, Pairs
from tests.syncsql.world import World
from tidegate.algebra.printing import tree
from tidegate.errors import Diagnostic
from tidegate.optimizer.driver import optimize
from tidegate.optimizer.views import Rewriting, Views
from tidegate.reference.snapshots import snapshot
from tidegate.time import MAX

PAIRS = int(os.environ.get("TIDEGATE_FUZZ_PAIRS", "800"))
FIRST = int(os.environ.get("TIDEGATE_FUZZ_SEED", "40000"))
INSTANTS = range(-1, 27)


def answered(world: World, pair: Pair) -> Rewriting | None:
    """The query over the view; every instant is compared."""
    query, view = (optimize(world.bound(text).plan)[0] for text in (pair.query, pair.view))
    found = Views({"view": view}).rewritten(query)
    if found is None:
        return None
    reference = world.reference
    for t in INSTANTS:
        ours = canonical(reference.snapshot(found.plan, t).elements())
        theirs = canonical(reference.snapshot(query, t).elements())
        assert ours == theirs, (
            f"at {t}: {ours}, and not {theirs}\n{pair.query}\n{pair.view}\n{tree(found.plan)}"
        )
    return found


def play(seed: int) -> str:
    pairs = Pairs(seed)
    pair, world = pairs.pair(), pairs.world
    try:
        world.bound(pair.query), world.bound(pair.view)
    except Diagnostic:
        return "cannot be asked"
    found = answered(world, pair)
    return "has nothing in common" if found is None else "answered"


@pytest.mark.parametrize("block", range(4))
def test_generated_pairs(block: int) -> None:
    size = PAIRS // 4
    counts = Counter(play(seed) for seed in range(FIRST + block * size, FIRST + (block + 1) * size))
    assert counts["answered"] >= size // 4, counts
    assert counts["cannot be asked"] <= size // 20, counts


def joins_later(seed: int) -> str:
    """The view runs for some epochs, then the query joins; the view may go. From its `complete_from` on the query is the reference's."""
    dice = random.Random(seed)
    pairs = Pairs(seed)
    pair, world = pairs.pair(), pairs.world
    try:
        plans = [optimize(world.bound(text).plan)[0] for text in (pair.view, pair.query)]
    except Diagnostic:
        return "cannot be asked"
    if Views({"view": plans[0]}).rewritten(plans[1]) is None:
        return "has nothing in common"
    run = GraphRun(world.sources, 1 + seed % 3, {}, 1, 1)
    run.add("view", plans[0])
    ends = sorted(dice.choices(range(-1, 20), k=6))
    late = dice.randrange(4)
    for i, upto in enumerate([*ends, MAX]):
        if i == late:
            run.add("query", plans[1])
        if i == late + 1 and dice.random() < 0.5:
            run.drop("view")
        run.graph_epoch(upto)
    member = run.members["query"]
    if member.known.complete is None:
        return "incomplete"
    low = max(member.known.complete, member.known.since, -1)
    answer = run.answer(member)
    for t in range(low, 27):
        ours = canonical(snapshot(answer, t).elements())
        theirs = canonical(world.reference.snapshot(plans[1], t).elements())
        assert ours == theirs, (
            f"at {t} (complete from {low}): {ours}, and not {theirs}\n{pair}, epochs {ends}, late {late}"
        )
    return "over the view" if run.readings else "by itself"


@pytest.mark.parametrize("block", range(4))
def test_queries_join_views_that_run(block: int) -> None:
    size = max(80, PAIRS // 40)
    counts = Counter(joins_later(seed) for seed in range(FIRST + block * size, FIRST + (block + 1) * size))
    played = size - counts["has nothing in common"]
    assert played >= size // 2, counts
    assert counts["over the view"] >= played // 5, counts
