"""The statements of docs/recipes.md, over a few rows, with answers worked out by hand."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.language.world import World
from tidegate.language.dialect import parse
from tidegate.reference.snapshots import Arrivals
from tidegate.time import to_ticks
from tidegate.types import Row

PAGE = (Path(__file__).parents[2] / "docs" / "recipes.md").read_text(encoding="utf-8")
TEMP = [(1, "a", 90), (3, "b", 70), (4, "a", 90), (5, "a", 86), (8, "a", 75), (10, "b", 88), (26, "b", 88)]
DAY = datetime(2026, 1, 1, tzinfo=UTC)
SALES = [(timedelta(hours=9), "x", 3), (timedelta(hours=23), "x", 4), (timedelta(days=1, hours=1), "x", 5)]


def recipes() -> dict[str, list[str]]:
    """The statements of each section, in order."""
    found = {}
    for section in PAGE.split("\n## "):
        blocks = re.findall(r"```sql\n(.*?)```", section, re.S)
        found[section.split("\n")[0]] = blocks
    return found


def world() -> World:
    there = World()
    for block in recipes()["# Recipes"]:
        there.run(block)
    there.arrive("Temp", TEMP)
    rows = [(*row, DAY + when) for when, *row in SALES]
    there.sources["Sale"] = Arrivals([(row, to_ticks(row[-1])) for row in rows])
    return there


def answers(section: str, number: int = 0, instants: range = range(40)) -> dict[int, list[Row]]:
    there, text = world(), recipes()[section][number]
    *definitions, query = text.strip().split(";\n") if ";\n" in text.strip() else [text]
    for definition in definitions:
        there.run(definition)
    return there.answers(query.rstrip().rstrip(";"), instants)


def lasting(row: Row, start: int, end: int) -> dict[int, list[Row]]:
    return {t: [row] for t in range(start, end)}


def test_holds_for_a_time() -> None:
    # a is hot in [1, 8), b from 10 on
    assert answers("Holds for a time") == lasting(("a",), 6, 8) | lasting(("b",), 15, 40)


def test_gap_since_the_last_row() -> None:
    # a's last row is at 8; b's are at 3, 10 and 26
    expected: dict[int, list[Row]] = {t: [("a",)] for t in range(18, 40)}
    for t in (*range(20, 26), *range(36, 40)):
        expected[t] = [("a",), ("b",)]
    assert answers("Gap since the last row") == expected
    assert answers("Gap since the last row", 1) == {
        1: [("a", None)], 3: [("b", None)], 4: [("a", 3)], 5: [("a", 1)], 8: [("a", 3)], 10: [("b", 7)], 26: [("b", 16)],
    }  # fmt: skip


def test_change_of_a_value() -> None:
    assert answers("Change of a value") == {
        1: [("a", None, 90)], 3: [("b", None, 70)], 5: [("a", 90, 86)], 8: [("a", 86, 75)], 10: [("b", 70, 88)],
    }  # fmt: skip
    assert answers("Change of a value", 1) == {
        1: [("a", 90)], 3: [("b", 70)], 5: [("a", 86)], 8: [("a", 75)], 10: [("b", 88)],
    }  # fmt: skip


def test_rate_per_time() -> None:
    found = answers("Rate per time")
    # at 8 a has sent at 1, 4, 5 and 8, b at 3; at 14 the last ten ticks are (4, 14]
    assert found[8] == [("a", 0.4), ("b", 0.1)]
    assert found[14] == [("a", 0.2), ("b", 0.1)]
    assert 20 not in found
    slopes = answers("Rate per time", 1)
    assert slopes[5] == [("a", -4.0)]
    assert slopes[8] == [("a", -11 / 3)]
    assert slopes[10] == [("b", 18 / 7)]


def test_cumulative_per_day() -> None:
    there, (query,) = world(), recipes()["Cumulative per day"]
    hours = {8: [], 9: [("x", 3)], 23: [("x", 7)], 24: [], 25: [("x", 5)], 47: [("x", 5)], 48: []}
    for hour, expected in hours.items():
        found = there.at(query.rstrip().rstrip(";"), to_ticks(DAY + timedelta(hours=hour)))
        assert list(found.elements()) == expected, hour


def test_one_after_the_other() -> None:
    # a is 90 at 4 and 86 at 5 within (2, 8]; 90 at 1 is gone
    assert answers("One after the other") == {8: [("a", 86, 75), ("a", 90, 75)]}


def test_one_without_the_other() -> None:
    # a's 90 at 1 leaves at 7, before 75 comes at 8; those of 4 and 5 leave at 10 and 11, when 75 is there; b's leave at 16 and 32
    assert answers("One without the other") == {7: [("a", 90)], 16: [("b", 88)], 32: [("b", 88)]}


def test_every_recipe_is_tried() -> None:
    tried = set(
        re.findall(r'(?:answers\(|recipes\(\)\[)"([^"]+)"', Path(__file__).read_text(encoding="utf-8"))
    )
    assert tried == set(recipes())
    for blocks in recipes().values():
        for block in blocks:
            assert parse(block)
