"""Joins by the order of values: what is searched for is what trying every pair finds."""

from __future__ import annotations

import os
import random
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import product

import polars as pl
import pytest
import sqlglot

from tidegate.algebra.operators import Join, Scan
from tidegate.errors import Diagnostic
from tidegate.kernels import pairs
from tidegate.kernels.band import band_of
from tidegate.kernels.join import JoinKernel
from tidegate.kernels.pairs import starting_inside
from tidegate.kernels.rows import from_rows, to_rows
from tidegate.physical.lowering import compile_plan
from tidegate.scalars.meaning import compile_scalar
from tidegate.time import MAX, MIN
from tidegate.types import BIGINT, DATE, DOUBLE, FLOAT, INT, NAN, TIMESTAMP, Field, Type, decimal, normalize
from tidegate.worker.segments import settled

ROUNDS = max(3, int(os.environ.get("TIDEGATE_FUZZ_CASES", "48")) // 16)
INFINITY = float("inf")
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)

NUMBERS = (
    "c0 BETWEEN c2 - 2 AND c2 + 3",
    "c0 >= c2 - 1 AND c0 < c2 + 2 AND c1 <> c3",
    "ABS(c0 - c2) <= 2",
    "ABS(c2 - c0) < 2",
    "3 > c0 - c2 AND c2 - c0 <= 1",
    "c0 < c2",
    "c2 <= c0",
    "c0 > c2 AND c1 = c3",
    "c0 <= c2 AND c1 >= c3",
    "c0 + 1 > c2 AND c0 - 1 < c2 AND c1 = c3",
)
TIMES = (
    "c0 BETWEEN c2 - INTERVAL 2 SECONDS AND c2 + INTERVAL 3 SECONDS",
    "c0 - c2 < INTERVAL 2 SECONDS AND c2 - c0 < INTERVAL 1 SECOND",
    "c0 < c2 AND c1 = c3",
)
DAYS = ("c0 BETWEEN c2 - 2 AND date_add(c2, 3)", "c0 < c2", "c0 >= c2 - INTERVAL 1 DAY AND c0 <= c2")

TYPES: tuple[tuple[Type, tuple[object, ...], tuple[object, ...], tuple[str, ...]], ...] = (
    (INT, tuple(range(-6, 7)), (None, 2**31 - 1, 2**31 - 2, -(2**31), 2**30, 1 - 2**30), NUMBERS),
    (BIGINT, tuple(range(-6, 7)), (None, MAX, MAX - 1, MIN, MIN + 2, 2**62, -(2**61)), NUMBERS),
    (
        DOUBLE,
        (*range(-3, 4), 0.1, 0.2, 0.30000000000000004, -0.0, 2.1, 3.1),
        (None, NAN, INFINITY, -INFINITY, 1e300, -1e300, 2.0**53, 2.0**53 + 2, 5e-324),
        (*NUMBERS, "ABS(c0 - c2) <= 0.1D", "c0 BETWEEN c2 - 0.1D AND c2 + 0.2D"),
    ),
    (FLOAT, (*range(-3, 4), 0.5, 1.5), (None, NAN, INFINITY, -INFINITY, 2.0**30), NUMBERS),
    (
        decimal(10, 2),
        tuple(Decimal(n) / 4 for n in range(-8, 9)),
        (None, Decimal("99999999.99"), Decimal("-99999999.99")),
        NUMBERS,
    ),
    (decimal(38, 0), tuple(map(Decimal, range(-5, 6))), (None, Decimal(10**37), Decimal(-(10**37))), NUMBERS),
    (TIMESTAMP, tuple(NOON + timedelta(seconds=n / 2) for n in range(12)), (None,), TIMES),
    (DATE, tuple(date(2026, 1, 1 + n) for n in range(10)), (None,), DAYS),
)
CASES = [(type_, usual, odd, text) for type_, usual, odd, texts in TYPES for text in texts]


def drawn(dice, type_, usual, odd):
    """Rows of which some values are odd, valid for a while, some of them taken back."""
    rows = []
    for _ in range(dice.randint(0, 14)):
        value = dice.choice(odd if dice.random() < 0.15 else usual)
        value = value if type_.name not in ("DOUBLE", "FLOAT") or value is None else float(value)
        ts = dice.randint(0, 20)
        rows.append(
            ((normalize(value), dice.choice((0, 1, None))), ts, dice.choice((ts + 1, ts + 5, MAX)), 1)
        )
    return rows


def expected(left, right, holds):
    """How often each pair is valid from when to when."""
    bag = Counter()
    for (a, ts, te, n), (b, ts2, te2, m) in product(left, right):
        if max(ts, ts2) < min(te, te2) and holds(a + b):
            bag[a + b, max(ts, ts2), min(te, te2)] += n * m
    return bag


def found(plan, frames, ends):
    program = compile_plan(plan)
    states, bag, since = program.initial(), Counter(), MIN
    for upto in ends:
        now = {n: f.filter((f["ts"] >= since) & (f["ts"] < upto)) for n, f in frames.items()}
        states, chunk = program.step(states, now, upto)
        states, since = settled(states), upto
        validity = chunk.select("ts", "te", "n").rows()
        for e, (ts, te, n) in zip(to_rows(chunk, plan.schema), validity, strict=True):
            bag[e, ts, te] += n
    return bag


@pytest.mark.parametrize(("type_", "usual", "odd", "text"), CASES, ids=lambda v: str(v)[:60])
def test_what_is_searched_for_is_what_every_pair_says(type_, usual, odd, text, monkeypatch):
    monkeypatch.setattr(pairs, "_FEW", 0)
    schema = (Field("x", type_), Field("k", INT))
    predicate = sqlglot.parse_one(text, dialect="spark")
    says = compile_scalar(predicate, schema + schema, {})
    keyed = "c1 = c3" in text

    def holds(row):
        # Rows that do not meet by their keys are not asked for more, which might fail.
        return not (keyed and (row[1] is None or row[1] != row[3])) and says(row)

    plan = Join(Scan("L", schema, True), Scan("R", schema, True), "inner", predicate)
    (kernel,) = (o.kernel for o in compile_plan(plan).operators if isinstance(o.kernel, JoinKernel))
    # Of these, sums and differences are computed in types of their own.
    assert kernel.band is not None or type_.name in ("DECIMAL", "FLOAT")
    failed = 0
    for seed in range(ROUNDS):
        dice = random.Random(f"{type_} {text} {seed}")
        # Where evaluating a row fails, so does the query: odd values come in every other round only.
        left, right = (drawn(dice, type_, usual, odd if seed % 2 else usual) for _ in range(2))
        frames = {
            n: from_rows([r[0] for r in rows], schema, [r[1:] for r in rows])
            for n, rows in (("L", left), ("R", right))
        }
        ends = [*sorted(dice.sample(range(22), dice.randint(0, 5))), MAX]
        try:
            wanted = expected(left, right, holds)
        except Diagnostic:
            failed += 1
            with pytest.raises(Diagnostic):
                found(plan, frames, ends)
            continue
        assert found(plan, frames, ends) == wanted, (seed, ends)
    assert failed <= ROUNDS // 2


@pytest.mark.parametrize("seed", range(20))
def test_each_pair_of_a_band_is_found_once_in_blocks_of_any_size(seed, monkeypatch):
    monkeypatch.setattr(pairs, "_FEW", 0)
    dice = random.Random(seed)
    schema = (Field("x", BIGINT),)
    band = band_of(sqlglot.parse_one("c0 BETWEEN c1 - 2 AND c1 + 2"), schema, schema, {})
    assert band is not None
    assert band.is_closed
    left, right = (
        [
            (i, dice.randint(0, 9), dice.randint(0, 2), ts := dice.randint(0, 30), ts + dice.randint(1, 9))
            for i in range(20)
        ]
        for _ in range(2)
    )
    names = dict.fromkeys(("id", "c0", "k0", "ts", "te"), pl.Int64)
    one, other = (pl.DataFrame(rows, schema=names, orient="row") for rows in (left, right))
    seen = []
    block = dice.randint(1, 7)
    for x, y in starting_inside(
        one, other, ["k0"], False, block, lambda a, b: (band.edges(a, 0), band.edges(b, 1))
    ):
        assert x.height <= block
        seen += zip(x["id"].to_list(), y["id"].to_list(), strict=True)
    for y, x in starting_inside(
        other, one, ["k0"], True, block, lambda a, b: (band.edges(a, 1), band.edges(b, 0))
    ):
        seen += zip(x["id"].to_list(), y["id"].to_list(), strict=True)
    assert sorted(seen) == [
        (i, j)
        for i, x, k, ts, te in left
        for j, y, k2, ts2, te2 in right
        if k == k2 and abs(x - y) <= 2 and ts < te2 and ts2 < te
    ]
