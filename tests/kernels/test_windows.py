"""Windows against their definition: what of the arrivals is seen at each instant."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter

import pytest
import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.algebra.operators import Filter, Project, UnionAll, Window
from tidegate.algebra.windows import RowsEveryTime, RowWindow, TimeEveryRows, TimeWindow
from tidegate.errors import Diagnostic
from tidegate.physical.lowering import compile_plan
from tidegate.time import MAX

FEW = max(6, settings().max_examples // 15)
"""Per combination: there are many, and the fuzz profile wants more."""

SPECS = [
    TimeWindow(1), TimeWindow(5), TimeWindow(None), TimeWindow(5, 3), TimeWindow(2, 5), TimeWindow(None, 4),
    TimeWindow(6, 6),
    RowWindow(1), RowWindow(3), RowWindow(None), RowWindow(3, 2), RowWindow(2, 5), RowWindow(None, 3),
    RowsEveryTime(2, 4), RowsEveryTime(None, 3),
    TimeEveryRows(5, 1), TimeEveryRows(4, 3), TimeEveryRows(None, 2),
]  # fmt: skip


def seen(spec, rows, t):
    """The rows (in order, with their times) that a window shows at t, by SPEC section 4."""
    times = [u for _, u in rows]
    if isinstance(spec, TimeWindow):
        point = t // spec.slide * spec.slide
        return [e for e, u in rows if u <= point and (spec.size is None or u > point - spec.size)]
    if isinstance(spec, TimeEveryRows):
        last = bisect_right(times, t) // spec.every * spec.every
        if not last:
            return []
        point = times[last - 1]
        return [e for e, u in rows if u <= point and (spec.size is None or u > point - spec.size)]
    if isinstance(spec, RowWindow):
        last = bisect_right(times, t) // spec.slide * spec.slide
    else:
        last = bisect_right(times, t // spec.period * spec.period)
    first = 0 if spec.size is None else max(0, last - spec.size)
    return [e for e, _ in rows[first:last]]


def expected(spec, rows, partition_by, t):
    parts = {}
    for e, u in rows:
        parts.setdefault(tuple(e[i] for i in partition_by), []).append((e, u))
    return Counter(e for part in parts.values() for e in seen(spec, part, t))


@pytest.mark.parametrize("partition_by", [(), (0,), (1, 0)], ids=str)
@pytest.mark.parametrize("spec", SPECS, ids=str)
@settings(max_examples=FEW)
@given(data=st.data())
def test_window_over_a_raw_stream(spec, partition_by, data, tools, streams):
    rows = data.draw(streams.arrivals)
    ordered = sorted(rows, key=lambda r: r[1])
    plan = Window(tools.scan("L", relation=False), spec, partition_by)
    tools.agree(
        plan, {"L": tools.raw(rows)}, data.draw(streams.boundaries),
        lambda t: expected(spec, ordered, partition_by, t), data.draw(st.booleans()),
    )  # fmt: skip


@pytest.mark.parametrize("spec", SPECS, ids=str)
@settings(max_examples=FEW)
@given(data=st.data())
def test_window_over_a_derived_stream(spec, data, tools, streams):
    """The definition holds at every instant a row is valid; simultaneous rows are ordered by all columns."""
    rows = data.draw(streams.finite)
    chronon = data.draw(st.sampled_from([1, 2, 3]))
    changes = data.draw(st.booleans())
    given_rows = [
        p for e, a, b, n in rows for p in ([(e, a, MAX, n), (e, b, MAX, -n)] if changes else [(e, a, b, n)])
    ]

    def key(e):
        return [(v is not None, v or (0 if i == 0 else "")) for i, v in enumerate(e)]

    arrivals = [
        (e, t) for t in range(60) if t % chronon == 0 for e in sorted(tools.bag(rows, t).elements(), key=key)
    ]
    plan = Window(tools.scan("L"), spec, (1,), granularity=chronon)
    tools.agree(
        plan, {"L": tools.frame(given_rows)}, data.draw(streams.boundaries),
        lambda t: expected(spec, arrivals, (1,), t), data.draw(st.booleans()),
    )  # fmt: skip


def test_arrival_order_travels_through_filter_and_project(tools):
    rows = [((2, "p"), 5), ((1, "q"), 5), ((0, "p"), 5), ((1, "p"), 5)]
    scan = tools.scan("L", relation=False)
    kept = Filter(scan, sqlglot.parse_one("c0 > 0"))
    mapped = Project(kept, (sqlglot.parse_one("c1"), sqlglot.parse_one("c0")), tuple(reversed(scan.schema)))
    plan = Window(mapped, RowWindow(2))
    assert [leaf.seq for leaf in compile_plan(plan).leaves] == [True]
    assert [leaf.seq for leaf in compile_plan(Window(mapped, TimeWindow(3))).leaves] == [False]
    result = tools.play(plan, {"L": tools.raw(rows)}, [MAX])
    assert tools.bag(result, 5) == Counter({("q", 1): 1, ("p", 1): 1})


def test_a_union_of_raw_streams_is_derived(tools):
    """Its simultaneous rows have no common order of arrival, so their columns decide."""
    left, right = tools.scan("L", relation=False), tools.scan("R", relation=False)
    plan = Window(UnionAll(left, right), RowWindow(1))
    sources = {"L": tools.raw([((2, "p"), 5)]), "R": tools.raw([((1, "p"), 5)])}
    assert tools.bag(tools.play(plan, sources, [MAX]), 5) == Counter({(2, "p"): 1})


def test_a_long_row_beneath_a_window_costs_layers_not_instants(tools):
    """RANGE 6 over a row of a billion chronons: 6 / 2 layers."""
    plan = Window(tools.scan("L"), TimeWindow(6), granularity=2)
    result = tools.play(plan, {"L": tools.frame([((1, "p"), 1, 2_000_000_001, 1)])}, [MAX])
    assert sorted(r[1:] for r in result) == [
        (2, 2_000_000_006, 1),
        (4, 2_000_000_002, 1),
        (6, 2_000_000_004, 1),
    ]


@pytest.mark.parametrize(
    ("spec", "length", "condition"),
    [
        (RowWindow(3), 6_000_000, "WINDOW_SPLIT_TOO_LARGE"),
        (RowWindow(3), MAX, "ENDLESS_INSTANTS"),
        (TimeWindow(None), MAX, "ENDLESS_INSTANTS"),
        (TimeWindow(10_000_000), 6_000_000, "WINDOW_SPLIT_TOO_LARGE"),
    ],
)
def test_too_many_instants_are_refused(spec, length, condition, tools):
    plan = Window(tools.scan("L"), spec)
    with pytest.raises(Diagnostic) as caught:
        tools.play(plan, {"L": tools.frame([((1, "p"), 0, length, 1)])}, [MAX])
    assert caught.value.condition == condition


def test_row_windows_keep_a_ring_not_the_past(tools):
    program = compile_plan(Window(tools.scan("L", relation=False), RowWindow(3), (0,)))
    states = program.initial()
    for t in range(20):
        rows = tools.raw([((k, "p"), t) for k in (0, 1)])
        states, _ = program.step(states, {"L": rows}, t + 1)
        (state,) = states.values()
        assert state["recent"].delta.height == 2
        assert state["recent"].rows.height <= 6
