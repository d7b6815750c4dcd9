"""Every window of docs/windows.md parses, binds, prints itself, and shows something."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.language.world import World
from tests.papers.playing import snapshots
from tidegate.algebra.operators import Window
from tidegate.language.dialect import parse, text_of
from tidegate.time import UNITS

PAGE = (Path(__file__).parents[2] / "docs" / "windows.md").read_text(encoding="utf-8")
TABLE = [line.split("|")[1:-1] for line in PAGE.splitlines() if line.startswith("|") and "WINDOW(" in line]
SQL = {kind.strip(): re.search(r"`(.*)`", said)[1] for kind, said, *_ in TABLE}  # type: ignore[index]

DEFINITIONS = """
CREATE STREAM S(k STRING, v INT, t TIMESTAMP) SOURCE csv('s') ORDERED BY t;
CREATE STREAM N(k STRING, v INT, t BIGINT) SOURCE csv('n') ORDERED BY t;
"""
NEW_YEAR = 1_767_225_600 * UNITS["SECOND"]


def test_every_system_is_in_every_row() -> None:
    assert len(SQL) >= 20
    assert {len(row) for row in TABLE} == {7}
    assert all(cell.strip() for row in TABLE for cell in row)


@pytest.mark.parametrize("kind", SQL)
def test_the_window_means_something(kind: str) -> None:
    start = NEW_YEAR if SQL[kind].startswith("S") else 0
    step = 3 * UNITS["SECOND"] if start else 1
    # row bounds at a rate in time want more than ten rows a minute; others are content with these rows
    world = World().run(DEFINITIONS)
    rows = [(start + p * step, "ab"[p % 2], p) for p in range(260)]
    world.arrive("S", rows).arrive("N", rows)
    query = f"SELECT k, v FROM {SQL[kind]}"
    plan = world.plan(query)
    assert sum(isinstance(n, Window) for n in plan.walk()) == 1
    printed = text_of(parse(query)[0]).replace(" AS WINDOW", " WINDOW")
    assert text_of(parse(printed)[0]).replace(" AS WINDOW", " WINDOW") == printed
    assert world.plan(printed).schema == plan.schema
    instants = [start + p * step for p in (0, 2, 100, 200, 259)] + [start + 4 * UNITS["HOUR"]]
    answers = snapshots(plan, world.sources, instants)
    assert any(answers.values())
