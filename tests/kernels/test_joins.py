"""Joins of every kind against their definition on snapshots."""

from __future__ import annotations

from collections import Counter

import polars as pl
import pytest
import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.algebra.operators import JOIN_KINDS, Join
from tidegate.kernels.join import split_predicate
from tidegate.kernels.pairs import starting_inside
from tidegate.physical.lowering import compile_plan
from tidegate.time import MAX
from tidegate.types import DOUBLE, INT, Field

FEW = max(6, settings().max_examples // 15)
"""Per combination: there are many, and the fuzz profile wants more."""


def _sql_equal(a, b):
    return a is not None and b is not None and a == b


PREDICATES = {
    "c0 = c2": lambda r: _sql_equal(r[0], r[2]),
    "c0 <=> c2": lambda r: r[0] == r[2],
    "c0 = c2 AND c3 <=> c1": lambda r: _sql_equal(r[0], r[2]) and r[1] == r[3],
    "c0 + 1 = c2 * 2": lambda r: None not in (r[0], r[2]) and r[0] + 1 == r[2] * 2,
    "upper(c1) = upper(c3)": lambda r: _sql_equal(r[1], r[3]),
    "c0 = c2 AND c1 < c3": lambda r: _sql_equal(r[0], r[2]) and None not in (r[1], r[3]) and r[1] < r[3],
    "c0 < c2": lambda r: None not in (r[0], r[2]) and r[0] < r[2],
    "c0 = 1": lambda r: r[0] == 1,
    None: lambda r: True,
}


def joined(kind, left, right, holds, width=2):
    """The relational operator, pair by pair."""
    result = Counter()
    with_partner_left, with_partner_right = set(), set()
    for a, n in left.items():
        for b, m in right.items():
            if holds(a + b):
                with_partner_left.add(a)
                with_partner_right.add(b)
                if kind in ("inner", "left", "right", "full"):
                    result[a + b] += n * m
    for a, n in left.items():
        if kind in ("left", "full") and a not in with_partner_left:
            result[a + (None,) * width] += n
        if (kind == "semi" and a in with_partner_left) or (kind == "anti" and a not in with_partner_left):
            result[a] += n
    for b, m in right.items():
        if kind in ("right", "full") and b not in with_partner_right:
            result[(None,) * width + b] += m
    return result


@pytest.mark.parametrize("kind", JOIN_KINDS)
@pytest.mark.parametrize("predicate", PREDICATES, ids=str)
@settings(max_examples=FEW)
@given(data=st.data())
def test_join(kind, predicate, data, tools, streams):
    left, right = data.draw(streams.physical), data.draw(streams.physical)
    parsed = sqlglot.parse_one(predicate, dialect="spark") if predicate else None
    plan = Join(tools.scan("L"), tools.scan("R", tools.other), kind, parsed)
    sources = {"L": tools.frame(left), "R": tools.frame(right, tools.other)}
    tools.agree(
        plan, sources, data.draw(streams.boundaries),
        lambda t: joined(kind, tools.bag(left, t), tools.bag(right, t), PREDICATES[predicate]),
        restoring=data.draw(st.booleans()),
    )  # fmt: skip


def test_state_forgets_what_ended_and_what_was_retracted(tools):
    rows = [((1, "p"), 0, 5, 1), ((1, "q"), 0, MAX, 1), ((1, "q"), 7, MAX, -1)]
    plan = Join(tools.scan("L"), tools.scan("R", tools.other), "inner", sqlglot.parse_one("c0 = c2"))
    program = compile_plan(plan)
    frame = tools.frame(rows)
    states, _ = program.step(program.initial(), {"L": frame.filter(pl.col("ts") < 5)}, 5)
    (state,) = states.values()
    assert state["left"].rows.select("c1").rows() == [("q",)]
    states, _ = program.step(states, {"L": frame.filter(pl.col("ts") >= 5)}, 10)
    (state,) = states.values()
    assert state["left"].rows.is_empty()
    assert state["left"].delta.height == 1


def test_keys_are_found_on_either_side_and_only_across_the_inputs(tools):
    plan = Join(
        tools.scan("L"), tools.scan("R", tools.other), "inner",
        sqlglot.parse_one("c2 = c0 AND (c3 <=> c1) AND c0 = 1 AND c0 = c0 AND c1 > c3", dialect="spark"),
    )  # fmt: skip
    keys, rest = split_predicate(plan, {})
    assert [(k.left.sql(), k.right.sql(), k.null_safe) for k in keys] == [
        ("c0", "c0", False),
        ("c1", "c1", True),
    ]
    assert rest.sql() == "c0 = 1 AND c0 = c0 AND c1 > c3"


def test_keys_of_different_types_are_compared_as_sql_does(tools):
    left, right = (Field("a", INT),), (Field("b", DOUBLE),)
    plan = Join(tools.scan("L", left), tools.scan("R", right), "inner", sqlglot.parse_one("c0 = c1"))
    sources = {"L": tools.frame([((1,), 0, 9, 1)], left), "R": tools.frame([((1.0,), 3, 5, 1)], right)}
    assert tools.play(plan, sources, [MAX]) == [((1, 1.0), 3, 5, 1)]


def test_nan_meets_nan_and_zero_meets_minus_zero(tools):
    schema = (Field("a", DOUBLE),)
    plan = Join(tools.scan("L", schema), tools.scan("R", schema), "inner", sqlglot.parse_one("c0 = c1"))
    rows = [((float("nan"),), 0, 9, 1), ((-0.0,), 0, 9, 1)]
    other = [((float("nan"),), 0, 9, 1), ((0.0,), 0, 9, 1)]
    result = tools.play(plan, {"L": tools.frame(rows, schema), "R": tools.frame(other, schema)}, [MAX])
    assert sorted(map(repr, result)) == ["((0.0, 0.0), 0, 9, 1)", "((nan, nan), 0, 9, 1)"]


@given(
    a=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(1, 9)), max_size=20),
    b=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(1, 9)), max_size=20),
    block=st.integers(1, 7),
)
def test_each_overlapping_pair_is_found_once_in_blocks_of_any_size(a, b, block):
    def frame(rows):
        data = [(i, k, ts, ts + length) for i, (k, ts, length) in enumerate(rows)]
        return pl.DataFrame(data, schema=dict.fromkeys(("id", "k0", "ts", "te"), pl.Int64), orient="row")

    left, right = frame(a), frame(b)
    found = []
    for x, y in starting_inside(left, right, ["k0"], strict=False, block=block):
        assert x.height <= block
        found += zip(x["id"].to_list(), y["id"].to_list(), strict=True)
    for y, x in starting_inside(right, left, ["k0"], strict=True, block=block):
        found += zip(x["id"].to_list(), y["id"].to_list(), strict=True)
    expected = [
        (i, j)
        for i, (k, ts, length) in enumerate(a)
        for j, (k2, ts2, length2) in enumerate(b)
        if k == k2 and ts < ts2 + length2 and ts2 < ts + length
    ]
    assert sorted(found) == sorted(expected)
