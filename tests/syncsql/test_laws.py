"""SyncSQL's laws on generated streams: synchronization commutes, normal forms agree at full points, views answer queries."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.syncsql.test_kernels import OTHER, SCAN, parse, points, rows_of, streams
from tests.syncsql.test_paper import SYNCS, TEMPERATURE, TWO, rooms
from tests.syncsql.world import World
from tidegate.algebra import operators as op
from tidegate.algebra.modify import Clock, Modify, Restrict, Sync
from tidegate.algebra.points import Points, Ticks, intersect, points_of, unite
from tidegate.algebra.synchronization import Skinned, describe, inputs, report, skinned
from tidegate.optimizer.driver import optimize
from tidegate.optimizer.matching import answer_from_view
from tidegate.optimizer.rules import sync as rules
from tidegate.reference.snapshots import Arrivals, Reference
from tidegate.reference.synchronization import is_point
from tidegate.types import BIGINT, Field

FIELDS = (Field("k", SCAN.fields[0].type), Field("v", SCAN.fields[1].type), Field("t", BIGINT))
CHANGED = Modify(SCAN, (0,), 2)
LEFT = op.Project(CHANGED, tuple(map(parse, ["c0", "c1", "c3"])), FIELDS)
RIGHT = op.Project(Modify(OTHER, (0,)), tuple(map(parse, ["c0", "c1", "c3"])), FIELDS)
INSTANTS = range(-8, 40)

UNARIES = [
    lambda x: op.Filter(x, parse("c1 > 3")),
    lambda x: op.Project(x, tuple(map(parse, ["c0", "c1 + 1", "c2"])), FIELDS),
    op.Distinct,
    lambda x: op.Aggregate(
        x, (0,), (op.Aggregation("MAX", (1,), BIGINT, "m"), op.Aggregation("COUNT", (), BIGINT, "n"))
    ),
    lambda x: op.TopK(x, (op.SortKey(1, True),), 1),
]
BINARIES = [
    op.UnionAll,
    lambda x, y: op.Join(x, y, "inner", parse("c0 <=> c3")),
    lambda x, y: op.Join(x, y, "left", parse("c0 = c3")),
    lambda x, y: op.Join(x, y, "anti", parse("c0 = c3")),
    lambda x, y: op.Except(x, y, True),
    op.Intersect,
]


def same(left, right, s, e, instants=INSTANTS):
    reference = Reference({"S": Arrivals(s), "E": Arrivals(e)})
    for t in instants:
        assert reference.snapshot(left, t) == reference.snapshot(right, t), t


@settings(max_examples=40)
@given(data=st.data(), s=streams(), p=points(1), unary=st.sampled_from(UNARIES))
def test_corollary_2(data, s, p, unary):
    outside, inside = Sync(unary(LEFT), p), unary(Sync(LEFT, p))
    assert rules.push_sync_into_unary(outside) == inside
    assert rules.pull_sync_out_of_unary(inside) == outside
    same(outside, inside, s, rows_of(data.draw, ["c"]))


@settings(max_examples=40)
@given(data=st.data(), s=streams(), p=points(1), binary=st.sampled_from(BINARIES))
def test_corollary_3_for_equal_points(data, s, p, binary):
    outside, inside = Sync(binary(LEFT, RIGHT), p), binary(Sync(LEFT, p), Sync(RIGHT, p))
    assert rules.push_sync_into_binary(outside) == inside
    assert rules.pull_sync_out_of_binary(inside) == outside
    same(outside, inside, s, rows_of(data.draw, ["c"]))


@settings(max_examples=40)
@given(
    data=st.data(),
    s=streams(),
    p=points(1),
    q=points(1),
    binary=st.sampled_from(BINARIES),
    unary=st.sampled_from(UNARIES),
)
def test_the_normal_form_agrees_at_full_points(data, s, p, q, binary, unary):
    """Corollary 3 and theorem 2: for different points, at those of both."""
    e = rows_of(data.draw, ["c"])
    plan = binary(unary(Sync(LEFT, p)) if unary in UNARIES[:3] else Sync(LEFT, p), Sync(RIGHT, q))
    form = skinned(plan)
    assert not any(isinstance(n, Sync) for n in form.data.walk())
    reference = Reference({"S": Arrivals(s), "E": Arrivals(e)})
    full = [t for t in INSTANTS if is_point(reference, p, t) and is_point(reference, q, t)]
    assert form.points is not None
    assert [t for t in INSTANTS if is_point(reference, form.points, t)] == full
    same(plan, form.plan, s, e, full)


@settings(max_examples=40)
@given(data=st.data(), s=streams(), p=points(1), q=points(1))
def test_corollary_1(data, s, p, q):
    """The coarser relation can be had from the finer one: R_i(R_j(S)) = R_i(S) where i is part of j."""
    fine = op.Distinct(op.UnionAll(p, q))
    nested = Sync(Sync(LEFT, fine), p)
    e = rows_of(data.draw, ["c"])
    if points_of(p).within(points_of(fine)):
        assert rules.merge_syncs(nested) == Sync(LEFT, p)
    same(nested, Sync(LEFT, p), s, e)


def test_syncs_merge_only_where_points_are_contained():
    two, three, six = (op.Filter(Clock(), parse(f"c0 % {n} = 0")) for n in (2, 3, 6))
    assert rules.merge_syncs(Sync(Sync(LEFT, two), six)) == Sync(LEFT, six)
    assert rules.merge_syncs(Sync(Sync(LEFT, two), three)) is None
    assert rules.drop_sync_at_every_instant(Sync(LEFT, Clock())) == LEFT
    assert rules.drop_sync_at_every_instant(Sync(LEFT, two)) is None


def test_now_does_not_commute():
    """A condition on NOW goes on changing between two points, so no rule may move a synchronization past it."""
    recent = Restrict(LEFT, parse("c3 < c2 + 5"))
    two = op.Filter(Clock(), parse("c0 % 4 = 0"))
    assert rules.push_sync_into_unary(Sync(recent, two)) is None
    reference = Reference({"S": Arrivals([(("x", 1, "c", 1), 1)])})
    moved = Restrict(Sync(LEFT, two), parse("c3 < c2 + 5"))
    assert any(reference.snapshot(Sync(recent, two), t) != reference.snapshot(moved, t) for t in INSTANTS)
    assert skinned(Sync(recent, two)) == Skinned(recent, two)


@settings(max_examples=40)
@given(data=st.data(), s=streams(), p=points(1), q=points(0))
def test_optimized_plans_mean_the_same(data, s, p, q):
    e = rows_of(data.draw, ["c"])
    unary, binary = data.draw(st.sampled_from(UNARIES)), data.draw(st.sampled_from(BINARIES))
    below = op.Filter(Sync(LEFT, p), parse("c1 <> 5"))
    plan = Sync(unary(binary(below, Sync(RIGHT, q))), data.draw(st.sampled_from([p, q])))
    better, _ = optimize(plan)
    same(plan, better, s, e)


def test_synchronization_moves_to_where_it_saves_work():
    four = op.Filter(Clock(), parse("c0 % 4 = 0"))
    counted = UNARIES[3](op.Filter(CHANGED, parse("c1 > 3")))
    better, trace = optimize(Sync(counted, four))
    assert better == UNARIES[3](Sync(op.Filter(CHANGED, parse("c1 > 3")), four))
    assert [f.rule for f in trace] == ["push_sync_below_others"]


@settings(max_examples=60)
@given(
    p=points(2).filter(lambda p: not points_of(p).events),
    q=points(2).filter(lambda q: not points_of(q).events),
)
def test_points_are_sets(p, q):
    """Union, intersection and inclusion of clocks against the sets of their ticks."""
    a, b = points_of(p), points_of(q)
    window = range(-40, 60)

    def ticks(x):
        return set(x.ticks_between(window.start, window.stop))

    reference = Reference({"E": Arrivals([])})
    assert ticks(a) == {t for t in window if is_point(reference, p, t)}
    assert ticks(unite(a, b)) == ticks(a) | ticks(b)
    assert ticks(intersect(a, b)) == ticks(a) & ticks(b)
    if a.within(b):
        assert ticks(a) <= ticks(b)


def test_points_far_away_cost_nothing():
    """Ticks are arithmetic: the next one is found at any distance, and none is ever listed."""
    billion = Points((Ticks(10**9, 7),))
    assert billion.next_tick(10**17 + 8) == 10**17 + 10**9 + 7
    assert (
        str(intersect(Points((Ticks(999_983),)), Points((Ticks(1_000_003),)))) == "every 999985999949 ticks"
    )


def test_example_16_full_and_partial_points():
    world = World(TWO + SYNCS, {})
    plan = world.bound("SELECT * FROM S2 SYNC BY Sync2 R2, S3 SYNC BY Sync3 R3 WHERE R2.ID = R3.ID").plan
    found = report(plan, 1, 10)
    assert found.full == (6,)
    assert found.partial == (2, 3, 4, 8, 9)
    assert describe(plan) == "A: every 2 ticks\nB: every 3 ticks\nfull synchronization: every 6 ticks"


def test_full_and_partial_points_with_events():
    world = World(
        TEMPERATURE + SYNCS + "CREATE STREAMED VIEW Hot AS SELECT TS FROM TempStr WHERE Temperature > 120;",
        rooms("a 125 2, b 90 3, a 130 5, b 121 8"),
    )
    plan = world.bound("SELECT a.RoomID FROM RoomTempStr SYNC BY Hot a, RoomTempStr SYNC BY Sync4 b").plan
    assert {p.name for p in inputs(plan)} == {"TemperatureSource"}
    reference = world.reference

    def events(p):
        return [t for t in range(20) if is_point(reference, p, t)]

    found = report(plan, 0, 12, events)
    assert found.full == (8,)
    assert found.partial == (0, 2, 4, 5)


def test_example_18_the_normal_form_of_a_filtered_join():
    world = World(TWO + SYNCS, {})
    plan = world.bound(
        "SELECT * FROM S2 SYNC BY Sync2 a, S3 SYNC BY Sync3 b WHERE a.ID = b.ID AND a.x < b.y"
    ).plan
    form = skinned(plan)
    assert form.data == world.bound("SELECT * FROM S2 a, S3 b WHERE a.ID = b.ID AND a.x < b.y").plan
    assert str(form.instants) == "every 6 ticks"


def test_example_19_a_query_answered_from_a_view():
    text = "SELECT RoomID, Temperature FROM RoomTempStr SYNC BY {} R WHERE R.Temperature > {}"
    world = World(TEMPERATURE + SYNCS, rooms("a 105 1, b 110 3, c 97 4, d 75 5, a 75 7, c 120 9, b 60 13"))
    hot_rooms, q4 = world.bound(text.format("Sync2", 80)).plan, world.bound(text.format("Sync4", 100)).plan
    answer = answer_from_view(q4, hot_rooms)
    assert answer is not None
    assert hot_rooms in set(answer.walk())
    assert not any(
        isinstance(n, Sync) and isinstance(n.input, Modify) and n not in hot_rooms.walk()
        for n in answer.walk()
    )
    for t in range(20):
        assert world.reference.snapshot(answer, t) == world.reference.snapshot(q4, t)
    assert answer_from_view(hot_rooms, q4) is None


@pytest.mark.parametrize(
    ("query", "view"),
    [
        ("SELECT RoomID FROM RoomTempStr SYNC BY Sync3 WHERE Temperature > 100", "SELECT RoomID, Temperature FROM RoomTempStr SYNC BY Sync2"),
        ("SELECT RoomID FROM RoomTempStr WHERE Temperature > 80", "SELECT RoomID, Temperature FROM RoomTempStr WHERE Temperature > 100"),
        ("SELECT RoomID FROM RoomTempStr WHERE Temperature > 80", "SELECT RoomID FROM RoomTempStr"),
        ("SELECT RoomID FROM TempStr WHERE Temperature > 80", "SELECT RoomID, Temperature FROM RoomTempStr"),
    ],
    ids=["points", "rows", "columns", "stream"],
)  # fmt: skip
def test_a_view_that_lacks_something_answers_nothing(query, view):
    world = World(TEMPERATURE + SYNCS, {})
    assert answer_from_view(world.bound(query).plan, world.bound(view).plan) is None
