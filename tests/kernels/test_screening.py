"""A filter that is not asked about some rows would have let none of them pass, and would have raised nothing."""

from __future__ import annotations

import random

import pytest
import sqlglot

from tidegate.kernels.rows import from_rows
from tidegate.kernels.rowwise import FilterKernel
from tidegate.kernels.screening import Screen
from tidegate.types import BIGINT, DOUBLE, INT, STRING, Field

SCHEMA = (Field("n", BIGINT), Field("s", STRING), Field("i", INT), Field("x", DOUBLE))


def filter_of(text: str) -> FilterKernel:
    return FilterKernel(SCHEMA, sqlglot.parse_one(text, dialect="spark"))


def condition(dice: random.Random) -> str:
    column, constant = dice.choice(("c0", "c2")), str(dice.randint(-6, 6))
    word = dice.choice(("=", "<", "<=", ">", ">="))
    return dice.choice((
        f"{column} {word} {constant}",
        f"{constant} {word} {column}",
        f"({column} {word} ({constant}))",
        f"{column} BETWEEN {constant} AND {dice.randint(-6, 6)}",
        f"{column} IN ({constant}, {dice.randint(-6, 6)})",
        f"c1 = '{dice.choice('abc')}'",
        f"c1 IN ('{dice.choice('abc')}', 'z')",
        f"c3 > {constant}",
        f"{column} <> {constant}",
        f"{column} IS NOT NULL",
        f"NOT {column} = {constant}",
        f"{column} + 1 > {constant}",
    ))  # fmt: skip


def test_what_is_screened_out_would_not_pass() -> None:
    screened = 0
    for seed in range(3000):
        dice = random.Random(seed)
        kernel = filter_of(" AND ".join(condition(dice) for _ in range(dice.choice((1, 1, 2, 3)))))
        rows = [
            (
                dice.choice((None, dice.randint(-3, 3))),
                dice.choice((None, "a", "b")),
                dice.choice((None, dice.randint(-3, 3))),
                dice.choice((None, 1.0, float("nan"))),
            )
            for _ in range(dice.choice((1, 2, 5)))
        ]
        chunk = from_rows(rows, SCHEMA, [(0, 1, 1)] * len(rows))
        if Screen(chunk).excludes(kernel.needs):
            screened += 1
            assert kernel.apply([chunk]).is_empty(), (seed, kernel.predicate.sql(), rows)
    assert screened > 300


@pytest.mark.parametrize(
    ("text", "excluded"),
    [
        ("c0 > 3", True),
        ("c0 >= 3", False),
        ("3 < c0", True),
        ("c0 = 2", True),
        ("c0 = 3", False),
        ("c0 IN (2, 4)", True),
        ("c0 BETWEEN 4 AND 9", True),
        ("c1 = 'z'", True),
        ("c1 = 'a'", False),
        ("c0 > 1 AND c1 = 'z'", True),
        ("c2 > 0", True),  # it has only NULLs
        ("c0 > 3 AND 1 / (c0 - c0) = 1", False),  # it fails, and that must show
        ("c0 > 3 AND CAST(c1 AS INT) = 1", False),
        ("c3 > 5", False),  # NaN is greater than every number
        ("c0 > 3 OR c0 < 0", False),
    ],
)
def test_what_can_be_told_without_looking_at_rows(text: str, excluded: bool) -> None:
    rows = [(1, "a", None, float("nan")), (3, None, None, 1.0)]
    chunk = from_rows(rows, SCHEMA, [(0, 1, 1)] * 2)
    assert Screen(chunk).excludes(filter_of(text).needs) == excluded
