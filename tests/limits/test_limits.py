"""Statements at the limits are answered, as the reference answers them, or refused with a place, in bounded time."""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.fuzz.players import frames, play
from tests.language.world import World
from tests.limits.shapes import SHAPES, statements
from tidegate.errors import Diagnostic
from tidegate.language import limits
from tidegate.language.binder import bind
from tidegate.language.dialect import parse
from tidegate.optimizer.driver import optimize
from tidegate.reference.snapshots import snapshot
from tidegate.runtime.jobs import physical, planned
from tidegate.scalars.limits import LONGEST_TEXT
from tidegate.time import MAX

SECONDS = 20.0
"""Processor time for one statement: read, bound, optimized, planned, packed for workers, and run on a few rows."""
COUNT = int(os.environ.get("TIDEGATE_LIMITS", "100"))
CASES = statements(COUNT, seed=7)


def world() -> World:
    made = World().run(
        "CREATE STREAM S(a BIGINT, b DOUBLE, s STRING, t BIGINT) SOURCE memory('S') ORDERED BY t"
    )
    return made.arrive("S", [(1, 1, 1.5, "x"), (2, 2, 2.5, "y"), (3, 2, None, "z"), (4, None, 0.1, None)])


def outcome(text: str) -> str:
    """'answered', or the condition with which it was refused."""
    made = world()
    try:
        for statement in parse(text):
            bound = bind(statement, made.catalog, text)
            plan = optimize(bound.plan)[0]
            physical(planned({"q": plan}, {}), {})
            rows = play(plan, frames(plan, made.sources), [3, MAX])
            if len(bound.plan.schema) > 50 or len(text) > 20_000:
                continue  # the definition, instant by instant, has no time bound
            wanted = made.reference.snapshot(bound.plan, 3)
            assert snapshot(rows, 3) == Counter(wanted), text[:200]
    except Diagnostic as diagnostic:
        return diagnostic.condition if diagnostic.position is not None else f"nowhere: {diagnostic}"
    return "answered"


@pytest.mark.parametrize(("name", "size", "text"), CASES, ids=[f"{n} {s}" for n, s, _ in CASES])
def test_a_statement_is_answered_or_refused_with_a_place_in_time(name: str, size: int, text: str) -> None:
    began = time.process_time()
    found = outcome(text)
    assert time.process_time() - began < SECONDS
    assert found in ("answered", "STATEMENT_TOO_LARGE", "TYPE_MISMATCH", "ARITHMETIC_OVERFLOW", "UNSUPPORTED")


def test_there_are_enough_statements_and_both_kinds_of_outcome() -> None:
    assert len({text for _, _, text in CASES}) >= 95
    assert {name for name, _, _ in CASES} == set(SHAPES)


@pytest.mark.parametrize(
    ("name", "size"),
    [("OR", 300), ("OR", 2_900), ("AND", 300), ("sum", 290), ("UNION", 100), ("UNION ALL", 300), ("IN in IN", 20),
     ("columns", 1_900), ("joins", 60), ("CASE", 1_000), ("FROM in FROM", 25)],
)  # fmt: skip
def test_what_people_write_by_programs_is_answered(name: str, size: int) -> None:
    assert outcome(SHAPES[name][0](size)) == "answered"


@pytest.mark.parametrize(
    ("name", "size"),
    [("sum", 500), ("parentheses", 6_000), ("columns", 2_001), ("UNION ALL", 501), ("WITH twice", 24),
     ("IN in IN", 40), ("long name", 256), ("long text", 2_001), ("NOT", 3_000)],
)  # fmt: skip
def test_what_is_beyond_a_limit_is_refused(name: str, size: int) -> None:
    assert outcome(SHAPES[name][0](size)) == "STATEMENT_TOO_LARGE"


def test_the_documentation_tells_the_limits() -> None:
    told = (Path(__file__).parents[2] / "docs" / "security.md").read_text(encoding="utf-8")
    numbers = re.findall(r"^\|[^|]+\| ([0-9,]+)(?: characters)? \|$", told, re.MULTILINE)
    wanted = [
        limits.LENGTH, limits.PARTS, limits.DEPTH, limits.QUERIES, limits.WIDTH, limits.OPERANDS, limits.ITEMS, limits.NAME, limits.DIGITS,
        limits.LARGEST - 1, LONGEST_TEXT,
    ]  # fmt: skip
    assert numbers == [f"{n:,}" for n in wanted]
