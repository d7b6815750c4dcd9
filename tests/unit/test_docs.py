"""Lists in the documentation are those of the code, and its statements parse."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tidegate import time
from tidegate.algebra import operators as op
from tidegate.language.aggregation import SQL_AGGREGATES
from tidegate.language.dialect import STATEMENTS, parse
from tidegate.optimizer.rules import RULES
from tidegate.reference.snapshots import _MEANINGS
from tidegate.scalars.meaning import FUNCTIONS

DOCS = Path(__file__).parents[2] / "docs"
LANGUAGE = (DOCS / "language.md").read_text(encoding="utf-8")


def listed(after: str) -> set[str]:
    """The names in the list that follows a text, up to the full stop."""
    start = LANGUAGE.index(after) + len(after)
    match = re.match(r"\s*((?:`[^`]+`,?\s*)+)", LANGUAGE[start:])
    assert match is not None, f"no list after {after!r}"
    return set(re.findall(r"`([^`]+)`", match[1]))


@pytest.mark.parametrize(
    ("after", "names"),
    [
        ("Units:\n", [u.lower() for u in time.UNITS if u.endswith("S")]),
        ("Statements start with: ", STATEMENTS),
        ("## Aggregates\n", SQL_AGGREGATES),
        ("with Spark's answers (each is tested against Spark, value by value):\n", FUNCTIONS),
    ],
    ids=["units", "statements", "aggregates", "functions"],
)
def test_lists_are_those_of_the_code(after: str, names: list[str]) -> None:
    assert listed(after) == set(names)


def test_every_operator_is_documented_and_has_a_meaning() -> None:
    operators = {n.__name__ for n in op.Node.__subclasses__() if n.__module__.startswith("tidegate.")}
    assert {n.__name__ for n in _MEANINGS} == operators
    architecture = (DOCS / "architecture.md").read_text(encoding="utf-8")
    start = architecture.index("| operator |")
    table = architecture[start : architecture.index("\n\n", start)]
    assert set(re.findall(r"^\| `(\w+)`", table, re.M)) == operators


def test_every_rule_is_documented() -> None:
    architecture = (DOCS / "architecture.md").read_text(encoding="utf-8")
    start = architecture.index("| rule |")
    table = architecture[start : (architecture + "\n\n").index("\n\n", start)]
    assert re.findall(r"^\| `(\w+)`", table, re.M) == [r.__name__ for r in RULES]


@pytest.mark.parametrize("page", sorted(p.name for p in DOCS.glob("*.md")))
def test_statements_in_the_documentation_parse(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    for block in re.findall(r"```sql\n(.*?)```", text, re.S):
        assert parse(block), block
