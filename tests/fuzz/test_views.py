"""Whenever a view answers a query, the answer is the query's own at every instant."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from tests.fuzz.players import canonical
from tests.fuzz.view_pairs import Pair, Pairs
from tests.syncsql.world import World
from tidegate.algebra.printing import tree
from tidegate.errors import Diagnostic
from tidegate.optimizer.driver import optimize
from tidegate.optimizer.views import Rewriting, Views

PAIRS = int(os.environ.get("TIDEGATE_FUZZ_PAIRS", "1600"))
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
