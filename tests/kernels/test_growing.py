"""A distinct whose rows only come takes a shorter way, and says and keeps what the sweep does."""

from __future__ import annotations

import random
from unittest.mock import patch

import polars as pl

from tidegate.kernels import sweep
from tidegate.kernels.sweep import SweepKernel
from tidegate.time import MAX
from tidegate.types import DOUBLE, INT, Field

SCHEMA = (Field("a", INT), Field("x", DOUBLE))


def chunk(dice: random.Random, since: int, ends: bool) -> pl.DataFrame:
    rows = []
    for _ in range(dice.randint(0, 8)):
        ts = dice.randint(since, since + 9)
        te = dice.choice((MAX, ts + 3)) if ends else MAX
        rows.append(
            (dice.choice((1, 2, None)), dice.choice((0.5, float("nan"), None)), ts, te, dice.choice((1, 2)))
        )
    types = {"c0": pl.Int32(), "c1": pl.Float64(), **dict.fromkeys(("ts", "te", "n"), pl.Int64())}
    return pl.DataFrame(rows, schema=types, orient="row")


def test_the_shorter_way_says_what_the_sweep_does() -> None:
    kernel, taken = SweepKernel("distinct", SCHEMA), 0
    for seed in range(120):
        dice = random.Random(seed)
        chunks = [chunk(dice, 10 * e, ends=dice.random() < 0.3) for e in range(5)]
        ways = []
        for short in (True, False):
            state, said = kernel.initial(), []
            for e, rows in enumerate(chunks):
                grows = sweep._only_grows if short else lambda _: False
                with patch.object(sweep, "_only_grows", grows):
                    state, out = kernel.step(state, [rows], 10 * (e + 1))
                said.append(sorted(map(str, out.rows())))
            ways.append((said, sorted(map(str, state["current"].rows.filter(pl.col("n") != 0).rows()))))
        taken += sum(sweep._only_grows(c) for c in chunks)
        assert ways[0] == ways[1], f"seed {seed}"
    assert taken > 200
