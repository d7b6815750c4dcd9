"""Lists in the documentation are those of the code, and its statements parse."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tidegate import time
from tidegate.algebra import operators as op
from tidegate.language.aggregation import SQL_AGGREGATES
from tidegate.language.dialect import STATEMENTS, parse
from tidegate.optimizer.rules import ALTERNATIVES, JOIN_ORDER, RULES, Alternative, Rule
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


@pytest.mark.parametrize(
    ("head", "functions"), [("| rule |", RULES), ("| alternative |", (*ALTERNATIVES, *JOIN_ORDER))]
)
def test_every_rule_is_documented(head: str, functions: tuple[Rule | Alternative, ...]) -> None:
    architecture = (DOCS / "architecture.md").read_text(encoding="utf-8")
    start = architecture.index(head)
    table = architecture[start : (architecture + "\n\n").index("\n\n", start)]
    assert re.findall(r"^\| `(\w+)`", table, re.M) == [r.__name__ for r in functions]


RAISES = ("Diagnostic", "failure", "__init__")
"""Calls whose first argument is a condition."""


def conditions_of(source: str) -> tuple[set[str], set[str]]:
    """The conditions that a module raises, and the beginnings of those that it puts together.

    >>> conditions_of('Diagnostic("A_B", m); Diagnostic(f"UNKNOWN_{x}", m); Diagnostic("C" if x else "D", m)')[1]
    {'UNKNOWN_'}
    """
    tree = ast.parse(source)
    named = {
        t.id: n.value.value
        for n in tree.body
        if isinstance(n, ast.Assign) and isinstance(n.value, ast.Constant)
        for t in n.targets
        if isinstance(t, ast.Name)
    }
    whole, begun = set(), set()
    for call in (n for n in ast.walk(tree) if isinstance(n, ast.Call) and n.args):
        if getattr(call.func, "id", getattr(call.func, "attr", "")) not in RAISES:
            continue
        first = call.args[0]
        if isinstance(first, ast.JoinedStr):
            begun |= {p.value for p in first.values if isinstance(p, ast.Constant)}
            continue
        branches = [first.body, first.orelse] if isinstance(first, ast.IfExp) else [first]
        said = [b.value if isinstance(b, ast.Constant) else named.get(getattr(b, "id", "")) for b in branches]
        whole |= {c for c in said if isinstance(c, str) and re.fullmatch(r"[A-Z_]+", c)}
    return whole, begun


def test_every_condition_is_in_the_guide_to_troubleshooting() -> None:
    page = (DOCS / "guides" / "troubleshooting.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`[A-Z_]+`(?:, `[A-Z_]+`)*) \|", page, re.M)
    told = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert len(told) == len(set(told)), "a condition stands twice"
    raised, begun = {"WORKER_DIED"}, set()
    for module in (DOCS.parent / "tidegate").rglob("*.py"):
        whole, parts = conditions_of(module.read_text(encoding="utf-8"))
        raised |= whole
        begun |= parts
    assert begun == {"UNKNOWN_"}
    assert raised - set(told) == set(), "raised, and not explained"
    assert {c for c in set(told) - raised if not c.startswith("UNKNOWN_")} == set(), (
        "explained, and not raised"
    )


LINK = re.compile(r"\]\(([^)#\s:]*)(?:#([^)\s]*))?\)")


def anchors(page: Path) -> set[str]:
    """What links to headings of a page may name, as GitHub makes them."""
    heads = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in heads}


PAGES = [DOCS.parent / "README.md", *sorted(DOCS.rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(DOCS.parent).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    for path, anchor in LINK.findall(page.read_text(encoding="utf-8")):
        target = page.parent / path if path else page
        assert target.exists(), f"{path} is not there"
        assert not anchor or anchor in anchors(target), f"{path} has no heading '{anchor}'"


@pytest.mark.parametrize("page", sorted(p.relative_to(DOCS).as_posix() for p in DOCS.rglob("*.md")))
def test_statements_in_the_documentation_parse(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    for block in re.findall(r"```sql\n(.*?)```", text, re.S):
        assert parse(block), block
