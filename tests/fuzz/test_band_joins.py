"""Generated joins without equality, and with a band beside one: kernels = reference over epochs, in some partitions and then in others."""

from __future__ import annotations

import os
import random

import pytest

from tests.fuzz.players import answerable, described
from tests.fuzz.queries import Case
from tests.fuzz.streams import INTEGERS, TIMESTAMPS, generate
from tests.fuzz.test_partitions import COUNTS, check
from tidegate.kernels import pairs

CASES = int(os.environ.get("TIDEGATE_FUZZ_CASES", "24"))
FIRST = int(os.environ.get("TIDEGATE_FUZZ_SEED", "900000"))

SIDES = (
    ("S", {"INT": ("a", "b"), "DOUBLE": ("x",), "DECIMAL": ("m",)}),
    ("R", {"INT": ("a", "c"), "BIGINT": ("g",), "DOUBLE": ("y",)}),
    ("O", {"INT": ("a", "b"), "DOUBLE": ("x",)}),
)
LASTING = (
    ("P", {"INT": ("b", "d"), "DATE": ("born",), "TIMESTAMP": ("seen",)}),
    ("K", {"INT": ("a", "b"), "DOUBLE": ("x",), "DECIMAL": ("m",)}),
    ("N", {"INT": ("a", "c"), "BIGINT": ("g",), "DOUBLE": ("y",)}),
    ("T", {"INT": ("a",), "DOUBLE": ("x",), "DECIMAL": ("w",)}),
)
KINDS = ("JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN")


def item(dice: random.Random, alias: str, unit: str) -> tuple[str, dict[str, list[str]]]:
    """An item of FROM, and its columns by type."""
    n = dice.randint(1, 6)
    windows = (
        f"RANGE {n}{unit}",
        f"RANGE {n + 2}{unit} SLIDE 2{unit}",
        f"ROWS {n}",
        "RANGE UNBOUNDED",
        f"PARTITION BY a ROWS {n}",
    )
    name, columns = dice.choice((*SIDES, *SIDES, *LASTING))
    window = "" if (name, columns) in LASTING else f" WINDOW({dice.choice(windows)})"
    return f"{name}{window} {alias}", {t: [f"{alias}.{c}" for c in cs] for t, cs in columns.items()}


def condition(dice: random.Random, left: dict[str, list[str]], right: dict[str, list[str]]) -> str:
    """A band, a range or any other comparison, perhaps of columns of different types."""
    kind = dice.choice([t for t in left if t in right])
    number = kind not in ("DATE", "TIMESTAMP")
    x = dice.choice(
        left[dice.choice([t for t in left if t not in ("DATE", "TIMESTAMP")])] if number else left[kind]
    )
    y = dice.choice(right[kind])
    if dice.random() < 0.5:
        x, y = y, x
    near, far = dice.randint(0, 2), dice.randint(0, 3)
    by = {"DATE": "INTERVAL {} DAY", "TIMESTAMP": "INTERVAL {} SECOND"}.get(kind, "{}")
    forms = [
        f"{x} BETWEEN {y} - {by.format(near)} AND {y} + {by.format(far)}",
        f"{x} >= {y} - {by.format(near)} AND {x} < {y} + {by.format(far)}",
        f"{x} {dice.choice(('<', '<=', '>', '>='))} {y}",
        f"{x} <> {y}",
    ]
    if number:
        forms += [
            f"ABS({x} - {y}) {dice.choice(('<', '<='))} {far}",
            f"{x} - {y} < {far} AND {near} >= {y} - {x}",
        ]
    text = dice.choice(forms)
    if dice.random() < 0.3:
        text += f" AND {dice.choice(left['INT'])} {dice.choice(('=', '<>', '<'))} {dice.choice(right['INT'])}"
    return text


def drawn(seed: int) -> Case:
    dice = random.Random(seed)
    mode = dice.choice((INTEGERS, INTEGERS, TIMESTAMPS))
    unit = " SECONDS" if mode == TIMESTAMPS else ""
    (one, left), (other, right) = (item(dice, alias, unit) for alias in ("p", "q"))
    kind = dice.choice(KINDS)
    shown = [left] if "SEMI" in kind or "ANTI" in kind else [left, right]
    columns = ", ".join(
        dice.choice(cs) + f" AS o{i}{j}" for i, s in enumerate(shown) for j, cs in enumerate(s.values())
    )
    text = f"SELECT {columns} FROM {one} {kind} {other} ON {condition(dice, left, right)}"
    return Case(seed, generate(dice, mode, sizes=(9, 14)), text)


@pytest.mark.parametrize("block", range(2))
def test_joins_without_equality_go_on_in_other_partitions(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values are searched for in sorted order however few rows there are."""
    monkeypatch.setattr(pairs, "_FEW", 0)
    size = CASES // 2
    played = 0
    for seed in range(FIRST + block * size, FIRST + (block + 1) * size):
        case = drawn(seed)
        if answerable(case):
            found = check(case, case.optimized, COUNTS[seed % len(COUNTS)], random.Random(seed))
            assert found in (None, "fixed"), f"seed {seed}, {found}\n{described(case)}"
            played += found is None
    assert played >= 2 * size // 3
