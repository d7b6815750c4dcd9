"""Operators on multiplicities against their definition on snapshots."""

from __future__ import annotations

from collections import Counter

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.algebra.operators import Distinct, Except, Intersect, Scan, UnionAll
from tidegate.kernels.sweep_groups import group_rows
from tidegate.kernels.sweep_ranks import Order, _dense_ranks, _ranked_by_all, _ranked_by_first, rank_rows
from tidegate.physical.lowering import compile_plan
from tidegate.time import MAX
from tidegate.types import DOUBLE, INT, STRING, Field, Type, array, normalize

FEW = max(6, settings().max_examples // 4)
"""Per combination: there are many, and the fuzz profile wants more."""

OPERATORS = {
    "union all": (UnionAll, lambda n, m: n + m),
    "except all": (lambda a, b: Except(a, b, True), lambda n, m: max(0, n - m)),
    "except": (Except, lambda n, m: int(n > 0 and m == 0)),
    "intersect all": (lambda a, b: Intersect(a, b, True), min),
    "intersect": (Intersect, lambda n, m: min(1, n, m)),
    "distinct": (lambda a, b: Distinct(a), lambda n, m: min(1, n)),
}


@pytest.mark.parametrize("name", OPERATORS)
@settings(max_examples=FEW)
@given(data=st.data())
def test_multiplicities(name, data, tools, streams):
    left, right = data.draw(streams.physical), data.draw(streams.physical)
    build, result = OPERATORS[name]

    def expected(t):
        n, m = tools.bag(left, t), tools.bag(right, t)
        return Counter({e: k for e in n | m if (k := result(n[e], m[e]))})

    plan = build(tools.scan("L"), tools.scan("R"))
    sources = {"L": tools.frame(left), "R": tools.frame(right)}
    tools.agree(plan, sources, data.draw(streams.boundaries), expected, data.draw(st.booleans()))


def test_an_epoch_logs_what_changed_and_nothing_else(tools):
    program = compile_plan(Distinct(tools.scan("L")))
    many = [((i, "p"), 0, 100, 1) for i in range(50)]
    states, _ = program.step(program.initial(), {"L": tools.frame(many)}, 10)
    states, out = program.step(states, {"L": tools.frame([((7, "p"), 12, 15, 1)])}, 20)
    (state,) = states.values()
    assert out.is_empty()
    assert state["current"].delta.height == 1
    assert state["pending"].delta.is_empty()
    states, out = program.step(states, {}, 101)
    (state,) = states.values()
    assert out.height == 50
    assert state["current"].rows.is_empty()
    assert state["pending"].rows.is_empty()


def test_any_type_has_equal_rows(tools):
    nested = Type("STRUCT", (("k", INT), ("v", array(STRING))))
    schema = (
        Field("a", DOUBLE),
        Field("b", array(INT)),
        Field("c", nested),
        Field("d", Type("MAP", (STRING, INT))),
    )
    nan = float("nan")
    rows = [
        ((nan, (1, None), (1, ("x",)), (("k", 1),)), 0, 5, 1),
        ((nan, (1, None), (1, ("x",)), (("k", 1),)), 3, 9, 1),
        ((-0.0, None, None, None), 0, 5, 1),
        ((0.0, None, None, None), 5, 9, 1),
        ((None, (), (None, None), ()), 1, 2, 1),
    ]
    for boundaries in ([MAX], [2, 4, 6, MAX]):
        plan = Distinct(tools.scan("L", schema))
        result = tools.play(plan, {"L": tools.frame(rows, schema)}, boundaries, restoring=True)
        seen = [[repr(e) for e, n in tools.bag(result, t).items()] for t in range(10)]
        assert all(len(s) == len(set(s)) for s in seen)
        assert [len(s) for s in seen] == [2, 3, 2, 2, 2, 2, 2, 2, 2, 0]


def test_rows_without_columns_are_all_equal(tools):
    rows = [((), 0, 5, 2), ((), 3, 9, 1)]
    frame = pl.DataFrame([r[1:] for r in rows], schema=["ts", "te", "n"], orient="row")
    plan = Distinct(Scan("L", (), relation=True))
    for boundaries in ([MAX], [1, 4, 6, MAX]):
        result = tools.play(plan, {"L": frame}, boundaries, restoring=True)
        assert [tools.bag(result, t)[()] for t in range(11)] == [1] * 9 + [0, 0]


@given(
    rows=st.lists(st.tuples(st.integers(0, 3), st.none() | st.integers(-3, 5)), min_size=1, max_size=30),
    descending=st.booleans(),
    nulls_last=st.booleans(),
)
def test_ranks_without_sorting_are_those_of_sorting(rows, descending, nulls_last):
    group = np.array([g for g, _ in rows], np.int32)
    values = pl.Series("v", [v for _, v in rows], dtype=pl.Int64)
    order = Order("v", descending, nulls_last)
    rank, example = _dense_ranks(group, 4, values, order)
    sorted_rank, _ = rank_rows(pl.DataFrame([pl.Series("g", group), values]), [Order("g"), order])
    assert rank.tolist() == sorted_rank.tolist()
    assert rank[example].tolist() == list(range(len(example)))


@given(
    rows=st.lists(
        st.tuples(st.integers(0, 3), st.none() | st.integers(0, 40), st.sampled_from([None, "", "x", "y"])),
        min_size=1,
        max_size=40,
    ),
    descending=st.booleans(),
)
def test_ranks_by_two_columns_first_are_those_by_all(rows, descending):
    frame = pl.DataFrame(rows, schema={"g": pl.Int32, "v": pl.Int64, "s": pl.String}, orient="row")
    orders = [Order("g"), Order("v", descending), Order("s")]
    rank, _ = _ranked_by_all(frame, orders)
    found = _ranked_by_first(frame, orders)
    ties = Counter((g, v) for g, v, _ in rows)
    if 4 * sum(n for n in ties.values() if n > 1) > len(rows):
        assert found is None
        return
    assert found is not None
    assert found[0].tolist() == rank.tolist()
    assert rank[found[1]].tolist() == list(range(len(found[1])))


KEYS = st.tuples(
    st.none() | st.sampled_from([-(2**63), 0, 1, 2**63 - 1]),
    st.sampled_from([None, "", "x", "y"]),
    st.sampled_from([None, 0.0, -0.0, float("nan"), 1.5]),
)


@given(rows=st.lists(KEYS, min_size=1, max_size=40))
def test_groups_of_several_columns_are_numbered_in_order_of_appearance(rows):
    frame = pl.DataFrame(rows, schema={"a": pl.Int64, "b": pl.String, "c": pl.Float64}, orient="row")
    found = group_rows(frame, frame.columns)
    numbers = {}
    assert found.codes.tolist() == [numbers.setdefault(repr(normalize(r)), len(numbers)) for r in rows]
    assert [repr(r) for r in found.keys.rows()] == list(numbers)
    assert found.locate(frame).tolist() == found.codes.tolist()
