"""Kernels against the reference: generated modify streams under generated synchronizations, in any epochs, from the log alone."""

from __future__ import annotations

import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels.conftest import Toolbox
from tests.kernels.conftest import boundaries as epochs
from tidegate.algebra import operators as op
from tidegate.algebra.modify import Clock, Modify, Restrict, Sync
from tidegate.kernels.modify import ModifyKernel, anomalies_of
from tidegate.physical.lowering import compile_plan
from tidegate.reference.snapshots import Arrivals, Reference
from tidegate.reference.synchronization import anomalies
from tidegate.time import MAX
from tidegate.types import BIGINT, INT, STRING, Field
from tidegate.worker.segments import settled

TOOLS = Toolbox()
SCHEMA = (Field("k", STRING), Field("v", INT), Field("op", STRING), Field("t", BIGINT, False, hidden=True))
SCAN = op.Scan("S", SCHEMA)
OTHER = op.Scan("E", SCHEMA)
INSTANTS = range(-8, 48)


def parse(text):
    return sqlglot.parse_one(text, dialect="spark")


def rows_of(draw, words):
    raw = draw(
        st.lists(
            st.tuples(
                st.sampled_from(["x", "y", None]),
                st.integers(0, 9),
                st.sampled_from(words),
                st.integers(-5, 25),
            ),
            max_size=14,
        )
    )
    return [((k, v, w, t), t) for k, v, w, t in raw]


@st.composite
def streams(draw):
    return rows_of(draw, ["c", "u", "d", "+I", "-U", "+U", "delete", "??", None])


@st.composite
def points(draw, depth=2):
    """A plan of points: clocks, filtered; events; unions and intersections of both."""
    kind = draw(
        st.sampled_from(["clock", "events", "union", "intersect", "filter"] if depth else ["clock", "events"])
    )
    if kind == "clock":
        clock = Clock(draw(st.sampled_from([1, 1, 2, 3])))
        text = draw(
            st.sampled_from(
                ["c0 % 2 = 0", "c0 % 3 = 1", "c0 % 5 = -2", "c0 % 4 IN (1, 2)", "c0 >= 4 AND c0 < 19", "c0 = 7 OR c0 % 6 = 0",
                 "c0 * c0 % 7 = 2", "c0 BETWEEN 3 AND 30"]
            )
        )  # fmt: skip
        return op.Filter(clock, parse(text)) if draw(st.booleans()) else clock
    if kind == "events":
        fields = (Field("Timepoint", BIGINT),)
        below = op.Filter(OTHER, parse("c1 > 3"))
        if draw(st.booleans()):
            below = Modify(below, draw(st.sampled_from([None, (0,)])))
        return op.Project(below, (parse(draw(st.sampled_from(["c3", "c3 + 2", "c3 - 1"]))),), fields)
    first = draw(points(depth - 1))
    if kind == "filter":
        return op.Filter(first, parse(draw(st.sampled_from(["c0 % 2 = 0", "c0 > 5"]))))
    second = draw(points(depth - 1))
    return op.Distinct(op.UnionAll(first, second)) if kind == "union" else op.Intersect(first, second)


def compare(plan, s, e, draw):
    reference = Reference({"S": Arrivals(s), "E": Arrivals(e)})
    sources = {"S": TOOLS.raw(s, SCHEMA), "E": TOOLS.raw(e, SCHEMA)}
    result = TOOLS.play(plan, sources, draw(epochs), draw(st.booleans()))
    for t in INSTANTS:
        assert TOOLS.bag(result, t) == reference.snapshot(plan, t), (t, result)


@settings(max_examples=80)
@given(
    data=st.data(),
    s=streams(),
    key=st.sampled_from([None, (0,), (0, 1)]),
    operation=st.sampled_from([None, 2]),
)
def test_the_relation_of_a_modify_stream(data, s, key, operation):
    compare(Modify(SCAN, key, operation if key else None), s, [], data.draw)


@settings(max_examples=60)
@given(s=streams(), data=st.data())
def test_anomalies_are_those_of_the_definition(s, data):
    plan = Modify(SCAN, (0,), 2)
    expected = anomalies(Reference({"S": Arrivals(s)}), plan)
    program = compile_plan(plan)
    ((id_, kernel),) = [(x.id, x.kernel) for x in program.operators]
    assert isinstance(kernel, ModifyKernel)
    rows, states, found, since = TOOLS.raw(s, SCHEMA), program.initial(), [], -100
    for upto in data.draw(epochs):
        states, _ = program.step(
            states, {"S": rows.filter(rows["ts"].is_between(since, upto, closed="left"))}, upto
        )
        found += anomalies_of(kernel, states[id_])
        states, since = settled(states), upto
    by_time = sorted(found, key=lambda a: (a.instant, a.reason, repr(a.row)))
    assert by_time == sorted(expected, key=lambda a: (a.instant, a.reason, repr(a.row)))


@settings(max_examples=100)
@given(data=st.data(), s=streams(), p=points())
def test_synchronized_relations(data, s, p):
    e = rows_of(data.draw, ["c"])
    compare(Sync(Modify(SCAN, (0,), 2), p), s, e, data.draw)


@settings(max_examples=40)
@given(data=st.data(), s=streams(), p=points(1), q=points(1))
def test_operators_over_synchronized_relations(data, s, p, q):
    """A join of differently synchronized relations, grouped, synchronized again."""
    e = rows_of(data.draw, ["c"])
    left, right = Sync(Modify(SCAN, (0,), 2), p), Sync(Modify(OTHER, (0,)), q)
    joined = op.Join(left, right, "inner", parse("c0 <=> c4"))
    counted = op.Aggregate(joined, (0,), (op.Aggregation("SUM", (1,), BIGINT, "s"),))
    compare(Sync(counted, data.draw(points(0))), s, e, data.draw)


CONDITIONS = [
    "c3 <= c4 AND c4 < c3 + 5", "c4 - 5 < c3", "c4 - c3 <= c1", "c4 > c3 + c1 AND c4 <= c3 + 9", "c4 = c3 + c1",
    "c3 + c1 - c4 > 0", "c4 BETWEEN c3 + 1 AND c3 + c1", "7 < c4",
]  # fmt: skip


@settings(max_examples=60)
@given(data=st.data(), s=streams(), condition=st.sampled_from(CONDITIONS), key=st.sampled_from([None, (0,)]))
def test_conditions_on_now(data, s, condition, key):
    compare(Restrict(Modify(SCAN, key), parse(condition)), s, [], data.draw)


def test_change_points_are_complete():
    """The reference may be asked at its change points only: between two of them nothing changes."""
    s = [(("x", 4, "c", 1), 1), (("y", 2, "c", 4), 4), (("x", 9, "u", 6), 6), (("y", 0, "d", 11), 11)]
    reference = Reference({"S": Arrivals(s)})
    relation = Modify(SCAN, (0,), 2)
    odd = op.Filter(Clock(), parse("c0 % 4 = 1"))
    recent = Restrict(relation, parse("c3 <= c4 AND c4 < c3 + 5"))
    for plan in (relation, Sync(relation, odd), recent):
        points_ = set(reference.change_points(plan))
        for t in INSTANTS:
            if reference.snapshot(plan, t) != reference.snapshot(plan, t - 1):
                assert t in points_


def test_modifications_between_two_events_cancel_out():
    """A key that is updated at every instant costs one waiting change, not one per update."""
    plan = Sync(Modify(SCAN, (0,)), op.Project(OTHER, (parse("c3"),), (Field("t", BIGINT),)))
    program = compile_plan(plan)
    states = program.initial()
    for t in range(40):
        states, out = program.step(states, {"S": TOOLS.raw([(("x", t, "u", t), t)], SCHEMA)}, t + 1)
        states = settled(states)
        assert out.is_empty()
    waiting = next(s["waiting"].rows for s in states.values() if "waiting" in s)
    assert waiting.height == 1
    states, out = program.step(states, {"E": TOOLS.raw([(("p", 0, "c", 50), 50)], SCHEMA)}, MAX)
    assert out.select("c1", "ts", "n").rows() == [(39, 50, 1)]
