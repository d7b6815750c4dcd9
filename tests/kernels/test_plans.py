"""Whole plans against the reference: operators above operators, at every instant, over any split into epochs."""

from __future__ import annotations

from collections import Counter

import pytest
import sqlglot
from hypothesis import given
from hypothesis import strategies as st

from tidegate.algebra import operators as op
from tidegate.algebra.windows import RowsEveryTime, RowWindow, TimeEveryRows, TimeWindow
from tidegate.errors import Diagnostic
from tidegate.reference.snapshots import Arrivals, Reference, Validity
from tidegate.time import MAX
from tidegate.types import BIGINT, INT, STRING, Field

SCHEMA = (Field("a", INT), Field("b", STRING))
WINDOWS = [
    TimeWindow(1), TimeWindow(4), TimeWindow(None), TimeWindow(4, 2), RowWindow(2), RowWindow(3, 2),
    RowsEveryTime(2, 3), TimeEveryRows(5, 2),
]  # fmt: skip
PREDICATES = ["c0 > 0", "c1 = 'p' OR c0 IS NULL", "NOT c0 = 1", "upper(c1) = 'Q'"]
JOINS = ["c0 = c2", "c0 = c2 AND c1 <> c3", "c0 <=> c2", "c0 < c2", "c0 = c2 AND c1 = c3"]


def parse(text):
    return sqlglot.parse_one(text, dialect="spark")


def projected(plan, *expressions):
    return op.Project(plan, tuple(map(parse, expressions)), SCHEMA)


@st.composite
def plans(draw, depth=3):
    """A plan of two columns (INT, STRING) over a raw stream S, a raw stream T and a relation R."""
    if depth == 0 or draw(st.integers(0, 5)) == 0:
        leaf = draw(st.sampled_from(["S", "T", "R"]))
        scan = op.Scan(leaf, SCHEMA, leaf == "R")
        if leaf == "R":
            return scan
        return op.Window(scan, draw(st.sampled_from(WINDOWS)), draw(st.sampled_from([(), (1,)])))
    below = plans(depth - 1)
    kind = draw(st.sampled_from(["filter", "map", "union", "distinct", "set", "join", "semi", "window", "istream",
                                 "dstream", "aggregate", "topk", "rstream"]))  # fmt: skip
    first = draw(below)
    if kind == "filter":
        return op.Filter(first, parse(draw(st.sampled_from(PREDICATES))))
    if kind == "map":
        return projected(first, "c0 + 1", "COALESCE(c1, 'q')")
    if kind == "union":
        return op.UnionAll(first, draw(below))
    if kind == "distinct":
        return op.Distinct(first)
    if kind == "set":
        return draw(st.sampled_from([op.Except, op.Intersect]))(first, draw(below), draw(st.booleans()))
    if kind in ("join", "semi"):
        how = draw(
            st.sampled_from(["semi", "anti"] if kind == "semi" else ["inner", "left", "right", "full"])
        )
        join = op.Join(first, draw(below), how, parse(draw(st.sampled_from(JOINS))))
        return join if kind == "semi" else projected(join, "c0", "COALESCE(c3, c1)")
    if kind == "window":
        return op.Window(
            first, draw(st.sampled_from([TimeWindow(3), TimeWindow(4, 2), RowWindow(2)])), granularity=1
        )
    if kind == "aggregate":
        counted = op.Aggregate(first, (1,), (op.Aggregation("COUNT", (), BIGINT, "n", nullable=False),))
        return projected(counted, "CAST(c1 AS INT)", "c0")
    if kind == "topk":
        return op.TopK(first, (op.SortKey(0, True),), 2)
    if kind == "rstream":
        return op.Rstream(first, 2)
    return (op.Istream if kind == "istream" else op.Dstream)(first)


@given(plan=plans(), data=st.data())
def test_engine_and_reference_agree(plan, data, tools, streams):
    s, t = data.draw(streams.arrivals), data.draw(streams.arrivals)
    r = data.draw(streams.physical)
    reference = Reference({"S": Arrivals(s), "T": Arrivals(t), "R": Validity(r)})
    boundaries = data.draw(streams.boundaries)
    sources = {"S": tools.raw(s), "T": tools.raw(t), "R": tools.frame(r)}
    try:
        points = [p for p in reference.change_points(plan) if abs(p) < 1000]
        expected = {p: reference.snapshot(plan, p) for p in points}
    except Diagnostic:
        return  # the reference refuses endless splits; where the engine does is tested with windows
    if any(isinstance(n, op.Rstream) for n in plan.walk()):
        # Endless snapshots have endless points: the engine needs an end, the reference answers instant by instant.
        boundaries = [*(b for b in boundaries if b < 60), 60]
        expected = {p: bag for p, bag in expected.items() if p < 60}
    result = tools.play(plan, sources, boundaries, data.draw(st.booleans()))
    for p, bag in expected.items():
        assert tools.bag(result, p) == Counter(bag), (p, boundaries, result)


@pytest.mark.parametrize("boundaries", [[MAX], [4, 9, MAX], [*range(30), MAX]], ids=len)
def test_the_best_of_each_window_with_its_count(boundaries, tools):
    """A join of an aggregate with its own input: every row with how many share its label."""
    rows = [((i * 7 % 5, "pq"[i % 2]), i) for i in range(12)]
    window = op.Window(op.Scan("S", SCHEMA), TimeWindow(4))
    counted = op.Aggregate(window, (1,), (op.Aggregation("COUNT", (), BIGINT, "n", nullable=False),))
    plan = op.Join(window, counted, "inner", parse("c1 = c2"))
    reference = Reference({"S": Arrivals(rows)})
    result = tools.play(plan, {"S": tools.raw(rows)}, boundaries)
    for t in range(-1, 20):
        assert tools.bag(result, t) == reference.snapshot(plan, t)
