"""Rows combined before the exchange: whoever combines which rows, answers are the reference's at every change point.

Generated aggregations over columns of all types, with and without groups, conditions and maps above and below the window; rows are
cut into parts as tasks would read them, some parts are combined and some are not, and what is left is played in epochs.
"""

from __future__ import annotations

import math
import os
import random
import re
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from unittest.mock import patch

import polars as pl
import pytest

from tests.fuzz.players import difference, frames, play
from tidegate.algebra import operators as op
from tidegate.algebra.operators import Node
from tidegate.connectors import registry
from tidegate.errors import Diagnostic
from tidegate.kernels import combining
from tidegate.kernels.combining import Combine, combined
from tidegate.kernels.rows import Frame
from tidegate.language.binder import bind
from tidegate.language.catalog import Catalog
from tidegate.language.dialect import parse
from tidegate.language.statements import define
from tidegate.optimizer.driver import optimize
from tidegate.physical.lowering import compile_plan
from tidegate.physical.partials import Partials, in_two_steps
from tidegate.reference.snapshots import Arrivals, Reference
from tidegate.time import MAX
from tidegate.types import Row, Value

CASES = int(os.environ.get("TIDEGATE_FUZZ_CASES", "60"))
FIRST = int(os.environ.get("TIDEGATE_FUZZ_SEED", "0"))

SCRIPT = """
CREATE STREAM S(k INT, s STRING, i INT, g BIGINT, m DECIMAL(9, 2), w DECIMAL(30, 3), x DOUBLE, d DATE, f BOOLEAN, t BIGINT)
  SOURCE memory('S') ORDERED BY t;
"""
CALLS = (
    "COUNT(*)", "COUNT(g)", "COUNT(i, x)", "SUM(i)", "SUM(g)", "SUM(m)", "AVG(i)", "AVG(g)", "AVG(m)", "MIN(s)", "MAX(s)", "MIN(x)", "MAX(x)",
    "MIN(d)", "MAX(f)", "MIN(w)", "MAX(g)", "MIN(i)", "COUNT(*) FILTER (WHERE i > 1)", "SUM(g) FILTER (WHERE f)", "AVG(m) FILTER (WHERE k = 1)",
    "MAX(x) FILTER (WHERE NOT f)", "MIN(TS)", "MAX(TS)", "SUM(k * 2 + 1)",
)  # fmt: skip
VALUES: tuple[tuple[Value, ...], ...] = (
    (1, 1, 1, 1, 2, None),
    ("a", "b", "", None),
    (0, 1, 2, -3, 2**31 - 1, None),
    (5, -5, 2**62, -(2**62), None),
    (Decimal("1.25"), Decimal("-9999999.99"), None),
    (Decimal("0.001"), Decimal("-7.500"), None),
    (0.5, -2.0, math.nan, math.inf, None),
    (date(2020, 1, 1), date(1999, 5, 5), None),
    (True, False, None),
)


def catalog() -> Catalog:
    known = registry.catalog()
    for statement in parse(SCRIPT):
        known = define(statement, known, SCRIPT)  # type: ignore[arg-type]
    return known


CATALOG = catalog()


def generated(dice: random.Random) -> tuple[str, Node, dict[str, Arrivals]]:
    """A query, its optimized plan and rows."""
    calls = [f"{c} AS v{i}" for i, c in enumerate(dice.sample(CALLS, dice.randint(1, 4)))]
    keys = dice.choice(([], ["k"], ["k", "f"], ["s"], ["i % 2"]))
    slide = dice.randint(2, 4)
    size = dice.choice([slide * dice.randint(1, 3), slide, None])
    text = f"S WINDOW(RANGE {size or 'UNBOUNDED'} SLIDE {slide})"
    if size and dice.random() < 0.3:
        text = f"S WINDOW(RANGE {size} GRANULARITY {slide})"
    elif dice.random() < 0.2:
        text = f"S WINDOW(RANGE {size or 'UNBOUNDED'} SLIDE {slide} STARTING AT 1)"
    where = dice.choice(("", "", " WHERE i < 2", " WHERE g IS NOT NULL AND s <> ''"))
    query = f"SELECT {', '.join([*keys, *calls])} FROM {text}{where}"
    query += f" GROUP BY {', '.join(keys)}" if keys else ""
    rows: list[tuple[Row, int]] = []
    for _ in range(dice.randint(0, 40)):
        t = dice.randint(-3, 12)
        rows.append(((*(dice.choice(v) for v in VALUES), t), t))
    plan, _ = optimize(bind(parse(query)[0], CATALOG, query).plan)
    return query, plan, {"S": Arrivals(rows)}


def parts(rows: Frame, dice: random.Random) -> Iterator[Frame]:
    """The rows as some tasks read them, a file or a part of one at a time."""
    while rows.height:
        size = dice.randint(1, rows.height)
        yield rows.head(size)
        rows = rows.slice(size)


def sent(rows: Frame, combine: Combine, dice: random.Random) -> Frame:
    """What is exchanged: of some parts the rows, of others what they are combined to."""
    found = []
    for part in parts(rows, dice):
        together = dice.random() < 0.8
        given = part.drop("te", "n")
        found.append(combined(given, combine) if together else given)
    every = pl.concat(found) if found else rows.drop("te", "n")
    return every.with_columns(te=pl.col("ts") + 1, n=pl.lit(1, pl.Int64))


def split(plan: Node) -> tuple[op.Aggregate, op.Aggregate] | None:
    (node,) = [n for n in plan.walk() if isinstance(n, op.Aggregate)]
    two = in_two_steps(node, {}, {})
    return None if two is None else (node, two)


def test_combined_rows_give_the_answer_of_all_rows() -> None:
    fewer = 0
    with patch.object(combining, "FEWEST", 1), patch.object(combining, "PAYS", 0):
        for seed in range(FIRST, FIRST + CASES):
            dice = random.Random(seed)
            query, plan, sources = generated(dice)
            found = split(plan)
            assert found is not None, query
            node, two = found
            window = two.input
            assert isinstance(window, op.Window)
            partials = window.input
            assert isinstance(partials, Partials)
            chunks = {n: f.drop("seq") for n, f in frames(node, sources).items()}
            _, single = compile_plan(partials).step({}, chunks, MAX)
            rows = sent(single, partials.combine, dice)
            fewer += single.height - rows.height
            above = two.with_inputs(window.with_inputs(op.Scan("S'", partials.schema)))
            epochs = [*sorted(dice.sample(range(-3, 20), dice.randint(0, 6))), MAX]
            reference = Reference(sources)
            try:
                play(node, frames(node, sources), [MAX])
            except Diagnostic as problem:
                with pytest.raises(Diagnostic, match=re.escape(problem.message)):
                    play(above, {"S'": rows}, epochs)
                continue
            answer = play(above, {"S'": rows}, epochs, restarts=range(0, len(epochs) - 1, 2))
            wrong = difference(reference, node, answer)
            assert wrong is None, f"seed {seed}: {query}\n{sources}\n{wrong}"
    assert fewer > CASES, "hardly anything was combined"


def test_a_sum_that_does_not_fit_is_told_as_without_partial_values() -> None:
    """Four times 2^62 pass 64 bits, in one part or in two; with as many of the opposite they do not, though the parts do."""
    query = "SELECT SUM(g) AS total FROM S WINDOW(RANGE 4 SLIDE 4)"
    plan, _ = optimize(bind(parse(query)[0], CATALOG, query).plan)
    found = split(plan)
    assert found is not None
    two = found[1]
    above = two.with_inputs(two.input.with_inputs(op.Scan("S'", two.input.inputs[0].schema)))

    def rows(*values: int) -> dict[str, Frame]:
        frame = pl.DataFrame(
            {"c0": values, "ts": [1] * len(values), "te": [2] * len(values), "n": [1] * len(values)}
        )
        return {"S'": frame}

    for values in ((2**62,) * 4, (2**63 - 1, 2**62)):
        with pytest.raises(Diagnostic, match=r"SUM as 'SUM.g.' does not fit in BIGINT"):
            play(above, rows(*values), [MAX])
    assert play(above, rows(2**63 - 1, -(2**63), 2**62, 3), [MAX]) == [((2**62 + 2,), 4, 8, 1)]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT COUNT(*) FROM S WINDOW(RANGE 6) x",
        "SELECT COUNT(*) FROM S WINDOW(RANGE 6 SLIDE 4) x",
        "SELECT COUNT(*) FROM S WINDOW(ROWS 6) x",
        "SELECT SUM(x) FROM S WINDOW(RANGE 6 SLIDE 2) y",
        "SELECT SUM(w) FROM S WINDOW(RANGE 6 SLIDE 2) y",
        "SELECT COUNT(DISTINCT i) FROM S WINDOW(RANGE 6 SLIDE 2) x",
        "SELECT MEDIAN(i) FROM S WINDOW(RANGE 6 SLIDE 2) x",
        "SELECT COUNT(*) FROM (SELECT DISTINCT k FROM S WINDOW(RANGE 6 SLIDE 2) x)",
    ],
)
def test_what_is_not_combined(query: str) -> None:
    """Rows that all begin apart, windows that show rows of one slide apart, sums of floats, and what needs every row."""
    plan, _ = optimize(bind(parse(query)[0], CATALOG, query).plan)
    assert split(plan) is None


def test_rows_that_others_read_are_not_combined() -> None:
    query = "SELECT COUNT(*) FROM S WINDOW(RANGE 6 SLIDE 2) x"
    plan, _ = optimize(bind(parse(query)[0], CATALOG, query).plan)
    (node,) = [n for n in plan.walk() if isinstance(n, op.Aggregate)]
    (window,) = [n for n in plan.walk() if isinstance(n, op.Window)]
    assert in_two_steps(node, {}, {window: 1}) is not None
    assert in_two_steps(node, {}, {window: 2}) is None


def test_it_is_combined_where_it_pays_and_cannot_overflow() -> None:
    """Sums that could pass 64 bits on the way are left to the aggregation, which can hold more; so are rows that are all different."""
    many = pl.DataFrame({"c0": [1] * 4_000, "c1": [2**62, -(2**62)] * 2_000, "ts": [5] * 4_000})
    assert combined(many, Combine(1, ("sum",), 10)).height == 4_000
    assert combined(many, Combine(1, ("max",), 10)).rows() == [(1, 2**62, 5)]
    apart = pl.DataFrame({"c0": range(4_000), "c1": [1] * 4_000, "ts": [5] * 4_000})
    assert combined(apart, Combine(1, ("sum",), 10)).height == 4_000
    hot = apart.with_columns(c0=pl.when(pl.col("c0") < 3_000).then(-1).otherwise("c0"))
    assert 1_000 <= combined(hot, Combine(1, ("sum",), 10)).height <= 1_001


def test_partitions_stay_with_their_keys() -> None:
    rows = pl.DataFrame({"c0": [1, 2] * 1_000, "c1": [1] * 2_000, "ts": [9, 11] * 1_000, "p": [0, 1] * 1_000})
    found = combined(rows, Combine(1, ("sum",), 10, 5))
    assert sorted(found.rows()) == [(1, 1_000, 9, 0), (2, 1_000, 11, 1)]
