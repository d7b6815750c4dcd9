"""Joins in an order in which nothing is multiplied: what becomes of queries, and that the answers stay."""

from __future__ import annotations

import random

import pytest

from tests.fuzz.players import INSTANTS, canonical
from tests.fuzz.queries import Generator
from tests.fuzz.streams import INTEGERS, catalog
from tidegate.algebra import operators as op
from tidegate.kernels.join import split_predicate
from tidegate.language.binder import bind
from tidegate.language.dialect import parse
from tidegate.optimizer.driver import optimize
from tidegate.reference.snapshots import Reference

ITEMS = ("S WINDOW(RANGE 5) s", "R WINDOW(RANGE 3) r", "P p", "T t")
EQUAL = ("s.a = r.a", "s.a = t.a", "r.a = t.a", "s.b = p.b", "r.c = p.d", "p.d = t.a")


def optimized(text: str) -> tuple[op.Node, op.Node, list[str]]:
    plan = bind(parse(text)[0], catalog(INTEGERS), text).plan
    better, trace = optimize(plan)
    return plan, better, [firing.rule for firing in trace]


def keyless(plan: op.Node) -> int:
    return sum(isinstance(n, op.Join) and not split_predicate(n, {})[0] for n in plan.walk())


@pytest.mark.parametrize(
    "text",
    [
        "SELECT s.b, r.c FROM S WINDOW(RANGE 5) s, R WINDOW(RANGE 3) r, T t WHERE s.a = t.a AND r.a = t.a",
        # the product stands higher first, and a later join connects it
        "SELECT s.b, r.c FROM S WINDOW(RANGE 5) s, R WINDOW(RANGE 3) r, P p, T t WHERE r.c = p.d AND s.a = t.a AND r.a = t.a",
        # below the right side of a join
        "SELECT s.b FROM T t JOIN (SELECT s.a, s.b, r.c FROM S WINDOW(RANGE 5) s, R WINDOW(RANGE 3) r) s ON t.a = s.a AND t.a = s.c",
        # a condition that is no equality does not connect
        "SELECT s.b FROM S WINDOW(RANGE 5) s, R WINDOW(RANGE 3) r, T t WHERE s.b < r.c AND s.a = t.a AND r.a = t.a",
    ],
)  # fmt: skip
def test_what_a_third_input_connects_is_not_multiplied(text: str) -> None:
    plan, better, rules = optimized(text)
    assert keyless(plan) == 1
    assert keyless(better) == 0
    assert "join_connected_first" in rules
    assert optimize(better) == (better, ()), "a second time there is nothing to do"


@pytest.mark.parametrize(
    "text",
    [
        # one row multiplies nothing
        "SELECT s.b FROM S WINDOW(RANGE 5) s, (SELECT MAX(c) AS c FROM R WINDOW(RANGE 3)) r, T t WHERE s.a = t.a AND r.c = t.a",
        # rows that survive unmatched are not moved
        "SELECT s.b FROM (S WINDOW(RANGE 5) s CROSS JOIN R WINDOW(RANGE 3) r) LEFT JOIN T t ON s.a = t.a AND r.a = t.a",
        # nothing connects, whatever the order
        "SELECT s.b FROM S WINDOW(RANGE 5) s, R WINDOW(RANGE 3) r, T t WHERE s.a < t.a AND r.a > t.a",
    ],
)
def test_other_joins_stay_as_they_are(text: str) -> None:
    assert "join_connected_first" not in optimized(text)[2]


@pytest.mark.parametrize("block", range(3))
def test_answers_stay(block: int) -> None:
    """Four inputs in any order, connected by some equalities and a condition that is none."""
    fired = 0
    for seed in range(block * 20, block * 20 + 20):
        dice = random.Random(seed)
        streams = Generator(seed).case().streams
        if streams.mode != INTEGERS:
            continue
        items = dice.sample(ITEMS, 4)
        conditions = dice.sample(EQUAL, dice.randint(2, 4)) + ["s.b <= p.d"] * dice.randint(0, 1)
        columns = dice.sample(["s.a", "r.c", "p.b", "p.d", "t.a", "t.name"], 3)
        text = f"SELECT {', '.join(f'{c} AS c{i}' for i, c in enumerate(columns))} FROM {', '.join(items)} WHERE {' AND '.join(conditions)}"
        plan, better, rules = optimized(text)
        fired += "join_connected_first" in rules
        reference = Reference(streams.sources(1), {}, {})
        for t in INSTANTS:
            ours = canonical(reference.snapshot(better, t).elements())
            assert ours == canonical(reference.snapshot(plan, t).elements()), (seed, t, text)
    assert fired
