"""Rules about OR: what they make of queries, what they leave alone, and that the answers stay (generated joins, through the reference)."""

from __future__ import annotations

import random

import pytest

from tests.fuzz.players import INSTANTS, canonical
from tests.fuzz.queries import Generator
from tests.fuzz.streams import INTEGERS, catalog
from tidegate.algebra import operators as op
from tidegate.algebra.printing import details
from tidegate.language.binder import bind
from tidegate.language.dialect import parse
from tidegate.optimizer.driver import optimize
from tidegate.reference.snapshots import Reference

W = "S WINDOW(RANGE 5) x, R WINDOW(RANGE 3) y"


def optimized(text: str) -> tuple[op.Node, list[str]]:
    plan, trace = optimize(bind(parse(text)[0], catalog(INTEGERS), text).plan)
    return plan, [firing.rule for firing in trace]


def below(plan: op.Node, source: str) -> list[str]:
    """The conditions directly above a source."""
    return [
        details(n)
        for n in plan.walk()
        if isinstance(n, op.Filter) and isinstance(n.input, op.Scan) and n.input.name == source
    ]


def test_what_all_cases_say_is_the_joins_key() -> None:
    plan, rules = optimized(
        f"SELECT x.b FROM {W} WHERE (x.a = y.a AND x.b = 1 AND y.c > 2) OR (y.a = x.a AND x.b = 2 AND y.c > 7)"
    )
    join = next(n for n in plan.walk() if isinstance(n, op.Join))
    assert details(join).startswith("`a#1` = `a#2` AND (")
    assert {"factor_out_of_or", "filter_sides_by_or"} <= {*rules}
    assert below(plan, "S") == ["b = 1 OR b = 2"]
    assert below(plan, "R") == ["c > 2 OR c > 7"]
    assert optimize(plan) == (plan, ()), "a second time there is nothing to do"


def test_a_case_that_says_nothing_more_leaves_what_is_common() -> None:
    plan, rules = optimized("SELECT b FROM S WINDOW(RANGE 5) WHERE (a = 1 AND b > 2) OR a = 1")
    assert below(plan, "S") == ["a = 1"]
    assert "factor_out_of_or" in rules


@pytest.mark.parametrize(
    "condition",
    [
        "(x.a = y.a AND x.b = 1) OR (x.b = 2 AND y.c = 3) OR x.s = 'p'",  # one case says nothing of y, nothing is common
        "(x.b > 0 AND 1 / x.b > 0 AND y.c = 1) OR (1 / x.b > 0 AND y.c = 2)",  # what is common may fail
    ],
)
def test_nothing_is_said_of_a_side_that_a_case_leaves_open(condition: str) -> None:
    plan, rules = optimized(f"SELECT x.b FROM {W} WHERE {condition}")
    assert "factor_out_of_or" not in rules
    assert not below(plan, "R") or not below(plan, "S")


def test_rows_that_survive_unmatched_are_kept() -> None:
    text = "SELECT x.b FROM S WINDOW(RANGE 5) x LEFT JOIN R WINDOW(RANGE 3) y ON (x.b = 1 AND y.c = 2) OR (x.b = 2 AND y.c = 3)"
    plan, rules = optimized(text)
    assert below(plan, "S") == []
    assert below(plan, "R") == ["c = 2 OR c = 3"]
    plan, rules = optimized(text.replace("LEFT", "FULL"))
    assert "filter_sides_by_or" not in rules


TERMS = (
    "x.a = y.a",
    "x.b > 0",
    "y.c < 2",
    "x.a IS NULL",
    "y.c IS NOT NULL",
    "x.s = 'p'",
    "x.b = y.c",
    "NOT x.b = 1",
    "y.a IN (0, 2)",
)


@pytest.mark.parametrize("block", range(4))
def test_answers_stay(block: int) -> None:
    """Random cases of random terms with NULLs among the values, under every kind of join."""
    fired: set[str] = set()
    for seed in range(block * 30, block * 30 + 30):
        dice = random.Random(seed)
        streams = Generator(seed).case().streams
        if streams.mode != INTEGERS:
            continue
        cases = [dice.sample(TERMS, dice.randint(1, 3)) for _ in range(dice.randint(2, 3))]
        for case in cases if dice.random() < 0.6 else []:
            case += [t for t in (dice.choice(TERMS[:3]),) if t not in case]
        condition = " OR ".join(f"({' AND '.join(case)})" for case in cases)
        kind = dice.choice(
            ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN")
        )
        text = f"SELECT x.a, x.b FROM S WINDOW(RANGE 5) x {kind} R WINDOW(RANGE 3) y ON {condition}"
        plan = bind(parse(text)[0], catalog(INTEGERS), text).plan
        better, trace = optimize(plan)
        fired |= {firing.rule for firing in trace}
        reference = Reference(streams.sources(1), {}, {})
        for t in INSTANTS:
            ours = canonical(reference.snapshot(better, t).elements())
            assert ours == canonical(reference.snapshot(plan, t).elements()), (seed, t, text)
    assert {"factor_out_of_or", "filter_sides_by_or"} <= fired
