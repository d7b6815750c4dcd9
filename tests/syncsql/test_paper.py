"""The numbered examples and figures of the SyncSQL paper, with its own rows and answers.

The paper writes R(S) and R_Sync(S); here the relation of a KEY stream is its name, and SYNC BY says the points.
"""

from __future__ import annotations

from tests.changes import tagged
from tests.syncsql.world import TOOLS, World
from tidegate.algebra import operators as op
from tidegate.algebra.modify import Sync
from tidegate.algebra.points import points_of
from tidegate.algebra.properties import result_key

TEMPERATURE = """
REGISTER SOURCE TemperatureSource(RoomID STRING, Temperature INT, t BIGINT) FROM memory('x') ORDERED BY t;
CREATE STREAM RoomTempStr OVER TemperatureSource KEY RoomID;
CREATE STREAM TempStr OVER TemperatureSource KEY NULL;
"""
SYNCS = """
CREATE STREAMED VIEW Sync2 AS SELECT C.Timepoint FROM CLOCK C WHERE C.Timepoint % 2 = 0;
CREATE STREAMED VIEW Sync3 AS SELECT C.Timepoint FROM CLOCK C WHERE C.Timepoint % 3 = 0;
CREATE STREAMED VIEW Sync4 AS SELECT C.Timepoint FROM CLOCK C WHERE C.Timepoint % 4 = 0;
CREATE STREAMED VIEW Sync5 AS SELECT C.Timepoint FROM CLOCK C WHERE C.Timepoint % 5 = 0;
"""
LETTERS = """
REGISTER SOURCE Letters(Attr1 STRING, o STRING, t BIGINT) FROM memory('x') ORDERED BY t;
CREATE STREAM S OVER Letters KEY Attr1 OPERATION o;
"""
EXAMPLE_2 = {"Letters": [("a", "+", 1), ("b", "+", 3), ("a", "-", 4), ("c", "+", 5)]}


def rooms(text):
    """`a 100 1, b 75 2` as rows."""
    return {
        "TemperatureSource": [(r, int(v), int(t)) for r, v, t in (part.split() for part in text.split(","))]
    }


def test_example_1_raw_and_tagged_streams():
    world = World(TEMPERATURE, rooms("a 100 1, b 75 2, c 80 3, a 95 4, b 85 5"))
    assert world.streamed("SELECT STREAMED * FROM RoomTempStr") == [
        "+<a, 100>1", "+<b, 75>2", "+<c, 80>3", "u<a, 95>4", "u<b, 85>5",
    ]  # fmt: skip
    assert world.streamed("SELECT STREAMED * FROM TempStr") == [
        "+<a, 100>1", "+<b, 75>2", "+<c, 80>3", "+<a, 95>4", "+<b, 85>5",
    ]  # fmt: skip


def test_example_2_figure_1_a_time_varying_relation():
    world = World(LETTERS, EXAMPLE_2)
    relation = "SELECT Attr1, TS FROM S"
    assert [world.at(relation, t) for t in range(6)] == [
        [], [("a", 1)], [("a", 1)], [("a", 1), ("b", 3)], [("b", 3)], [("b", 3), ("c", 5)],
    ]  # fmt: skip
    assert world.streamed("SELECT STREAMED Attr1 FROM S") == ["+<a>1", "+<b>3", "-<a>4", "+<c>5"]


EXAMPLE_3 = "a 78 1, a 105 2, b 70 3, c 95 4, a 76 5, c 103 6"
HOT_ROOMS = "CREATE STREAMED VIEW HotRooms1 AS SELECT RoomID, Temperature FROM RoomTempStr R WHERE R.Temperature > 80;"


def test_example_3_figure_2_hot_rooms():
    world = World(TEMPERATURE, rooms(EXAMPLE_3))
    query = "SELECT STREAMED RoomID, Temperature FROM RoomTempStr R WHERE R.Temperature > 80"
    assert world.bound(query).output == "STREAMED"
    assert world.streamed(query) == ["+<a, 105>2", "+<c, 95>4", "-<a>5", "u<c, 103>6"]


def test_example_4_figure_3_query_composition():
    world = World(TEMPERATURE + HOT_ROOMS, rooms(EXAMPLE_3))
    q3 = world.streamed("SELECT STREAMED RoomID, Temperature FROM HotRooms1 R")
    assert q3 == ["+<a, 105>2", "+<c, 95>4", "-<a>5", "u<c, 103>6"]
    q4 = "SELECT STREAMED RoomID, Temperature FROM {} R WHERE R.Temperature > 100"
    assert world.streamed(q4.format("HotRooms1")) == ["+<a, 105>2", "-<a>5", "+<c, 103>6"]
    assert world.streamed(q4.format("RoomTempStr")) == world.streamed(q4.format("HotRooms1"))


ROAD = """
REGISTER SOURCE Road(CarID INT, CarType STRING, t BIGINT) FROM memory('x') ORDERED BY t;
CREATE STREAM Cars OVER Road KEY NULL;
CREATE STREAMED VIEW FiveUnitsWindow AS SELECT * FROM Cars R WHERE NOW - 5 < R.TS AND R.TS <= NOW;
"""
CARS = {"Road": [(1, "truck", 1), (2, "car", 2), (3, "truck", 4), (4, "bus", 9)]}


def test_example_5_a_window_is_a_condition_on_now():
    world = World(ROAD, CARS)
    assert world.streamed("SELECT STREAMED CarID FROM FiveUnitsWindow") == [
        "+<1>1", "+<2>2", "+<3>4", "-<1>6", "-<2>7", "-<3>9", "+<4>9", "-<4>14",
    ]  # fmt: skip
    assert world.streamed("SELECT CarID FROM FiveUnitsWindow") == world.streamed(
        "SELECT CarID FROM Road WINDOW(RANGE 5)"
    )
    assert world.streamed("SELECT CarID FROM Cars WINDOW(RANGE 5)") == world.streamed(
        "SELECT CarID FROM FiveUnitsWindow"
    )


def test_section_2_2_a_window_join_of_two_streams():
    """Pairs that are less than 5 time units apart, by a condition on TS alone."""
    script = (
        ROAD
        + """
    REGISTER SOURCE Exit(CarID INT, t BIGINT) FROM memory('x') ORDERED BY t; CREATE STREAM Exits OVER Exit KEY NULL;"""
    )
    world = World(script, {**CARS, "Exit": [(1, 5), (2, 8), (4, 9)]})
    query = "SELECT a.CarID, b.CarID FROM Cars a, Exits b WHERE b.TS - 5 < a.TS AND a.TS < b.TS + 5"
    assert world.streamed(query) == [
        "+<1, 1>5", "+<2, 1>5", "+<3, 1>5", "+<3, 2>8", "+<4, 1>9", "+<4, 2>9", "+<4, 4>9",
    ]  # fmt: skip


def test_example_6_counts_over_the_window_view():
    world = World(ROAD, CARS)
    query = "SELECT STREAMED CarType, COUNT(*) AS n FROM FiveUnitsWindow GROUP BY CarType"
    assert world.streamed(query) == [
        "+<truck, 1>1", "+<car, 1>2", "u<truck, 2>4", "u<truck, 1>6", "-<car>7", "-<truck>9", "+<bus, 1>9", "-<bus>14",
    ]  # fmt: skip
    complete = "SELECT COMPLETE CarType, COUNT(*) AS n FROM FiveUnitsWindow GROUP BY CarType"
    assert world.bound(complete).output == "COMPLETE"
    assert world.at(complete, 5) == [("car", 1), ("truck", 2)]


def test_example_7_figure_4_a_synchronized_relation():
    world = World(LETTERS + SYNCS, EXAMPLE_2)
    relation = "SELECT Attr1, TS FROM S SYNC BY Sync2"
    assert [world.at(relation, t) for t in range(7)] == [
        [], [], [("a", 1)], [("a", 1)], [("b", 3)], [("b", 3)], [("b", 3), ("c", 5)],
    ]  # fmt: skip


EXAMPLE_9 = "a 105 1, b 110 3, c 97 4, d 75 5, a 75 7"


def test_examples_8_and_9_figure_5_views_with_their_own_refresh():
    world = World(
        TEMPERATURE + SYNCS + """
        CREATE STREAMED VIEW HotRooms1 AS
          SELECT RoomID, Temperature FROM RoomTempStr SYNC BY Sync2 R WHERE R.Temperature > 80;
        CREATE STREAMED VIEW VeryHot AS
          SELECT RoomID, Temperature FROM HotRooms1 SYNC BY Sync4 R WHERE R.Temperature > 100;""",
        rooms(EXAMPLE_9),
    )  # fmt: skip
    assert world.streamed("SELECT STREAMED * FROM HotRooms1") == [
        "+<a, 105>2",
        "+<b, 110>4",
        "+<c, 97>4",
        "-<a>8",
    ]
    assert world.streamed("SELECT STREAMED * FROM VeryHot") == ["+<a, 105>4", "+<b, 110>4", "-<a>8"]


def point_list(world, name, upto):
    plan = world.bound(f"SELECT Timepoint FROM {name}").plan
    return list(points_of(plan).ticks_between(0, upto))


def test_example_10_a_point_every_two_ticks():
    world = World(SYNCS, {})
    assert point_list(world, "Sync2", 8) == [0, 2, 4, 6]
    assert [world.at("SELECT * FROM Sync2", t) for t in range(4)] == [[(0,)], [], [(2,)], []]


def test_example_11_union_and_intersection_of_points():
    world = World(
        SYNCS + """
        CREATE STREAMED VIEW UnionSyncStr AS
          SELECT DISTINCT(Timepoint) FROM (SELECT * FROM Sync2 UNION ALL SELECT * FROM Sync5) S;
        CREATE STREAMED VIEW Both AS SELECT * FROM Sync2 INTERSECT SELECT * FROM Sync5;""",
        {},
    )  # fmt: skip
    assert point_list(world, "UnionSyncStr", 13) == [0, 2, 4, 5, 6, 8, 10, 12]
    assert point_list(world, "Both", 31) == [0, 10, 20, 30]


def test_example_12_points_where_something_happens():
    world = World(
        TEMPERATURE + "CREATE STREAMED VIEW HotSync AS SELECT R.TS FROM TempStr R WHERE R.Temperature > 120;",
        rooms("a 105 1, b 125 3, c 130 4, a 90 5, d 121 8, b 70 9"),
    )
    q5 = "SELECT STREAMED RoomID, Temperature FROM RoomTempStr SYNC BY HotSync R WHERE R.Temperature > 100"
    assert world.streamed(q5) == ["+<a, 105>3", "+<b, 125>3", "+<c, 130>4", "-<a>8", "+<d, 121>8"]


NOW_VIEW = "CREATE STREAMED VIEW NowView AS SELECT 1 AS KEY, MAX(T.Timepoint) AS currTime FROM CLOCK T;"


def test_example_13_the_current_instant_as_a_view():
    world = World(ROAD + NOW_VIEW, CARS)
    plan = world.bound("SELECT STREAMED * FROM NowView").plan
    rows = [(e, t, t + 1, 1) for t in range(4) for e in world.reference.snapshot(plan, t)]
    assert [str(c) for c in tagged(rows, (0,))] == ["+<1, 0>0", "u<1, 1>1", "u<1, 2>2", "u<1, 3>3", "-<1>4"]
    by_view = "SELECT R.* FROM Cars R, NowView N WHERE N.currTime - 5 < R.TS AND R.TS <= N.currTime"
    for t in range(20):
        assert world.at(by_view, t) == world.at("SELECT * FROM FiveUnitsWindow", t)


def test_example_14_range_and_slide():
    world = World(
        ROAD + SYNCS + NOW_VIEW + """
        CREATE STREAMED VIEW TwoUnitsSlide AS SELECT * FROM NowView SYNC BY Sync2;
        CREATE STREAMED VIEW RangeFiveSlideTwo AS
          SELECT R.* FROM Cars SYNC BY Sync2 R, TwoUnitsSlide N WHERE N.currTime - 5 < R.TS AND R.TS <= N.currTime;""",
        CARS,
    )  # fmt: skip
    slid = "SELECT CarID FROM FiveUnitsWindow SYNC BY Sync2"
    assert world.streamed(slid) == ["+<1>2", "+<2>2", "+<3>4", "-<1>6", "-<2>8", "-<3>10", "+<4>10", "-<4>14"]
    assert world.streamed(slid) == world.streamed("SELECT CarID FROM Road WINDOW(RANGE 5 SLIDE 2)")
    for t in range(20):
        assert world.at("SELECT CarID FROM RangeFiveSlideTwo", t) == world.at(slid, t)


def test_examples_15_and_20_figures_6_and_9_release_and_arrival_time():
    """The regulator's output: the arrival time inside, the release time outside."""
    world = World(LETTERS + SYNCS, EXAMPLE_2)
    assert world.streamed("SELECT STREAMED Attr1, TS FROM S SYNC BY Sync2") == [
        "+<a, 1>2", "-<a>4", "+<b, 3>4", "+<c, 5>6",
    ]  # fmt: skip


TWO = """
REGISTER SOURCE A(ID INT, x STRING, t BIGINT) FROM memory('x') ORDERED BY t; CREATE STREAM S2 OVER A KEY ID;
REGISTER SOURCE B(ID INT, y STRING, t BIGINT) FROM memory('x') ORDERED BY t; CREATE STREAM S3 OVER B KEY ID;
"""


def test_example_16_figure_7_a_join_of_differently_synchronized_relations():
    """At 2, 3, 4 the result reflects one side only up to an earlier point; at 6 both sides completely."""
    world = World(
        TWO + SYNCS,
        {"A": [(1, "p", 1), (2, "q", 3), (3, "r", 5)], "B": [(1, "u", 1), (3, "v", 2), (2, "w", 4)]},
    )
    query = (
        "SELECT STREAMED R2.ID, R2.x, R3.y FROM S2 SYNC BY Sync2 R2, S3 SYNC BY Sync3 R3 WHERE R2.ID = R3.ID"
    )
    assert world.streamed(query) == ["+<1, p, u>3", "+<2, q, w>6", "+<3, r, v>6"]
    left, right = "SELECT * FROM S2", "SELECT * FROM S3"
    for t, (a, b) in {2: (2, 0), 3: (2, 3), 4: (4, 3), 6: (6, 6)}.items():
        ids = {r[0] for r in world.at(left, a)} & {r[0] for r in world.at(right, b)}
        assert {r[0] for r in world.at(query, t)} == ids


def test_example_17_figure_8_a_coarser_relation_from_a_finer_one():
    world = World(
        LETTERS + SYNCS + "CREATE STREAMED VIEW Fine AS SELECT Attr1, TS FROM S SYNC BY Sync2;", EXAMPLE_2
    )
    coarse = "SELECT Attr1 FROM S SYNC BY Sync4"
    assert (
        world.streamed("SELECT Attr1 FROM Fine SYNC BY Sync4") == world.streamed(coarse) == ["+<b>4", "+<c>8"]
    )
    sync4, sync2 = (points_of(world.bound(f"SELECT * FROM Sync{n}").plan) for n in (4, 2))
    assert sync4.within(sync2)
    assert not sync2.within(sync4)


PARKING = """
REGISTER SOURCE Entrance(Car STRING, Type STRING, t BIGINT) FROM memory('x') ORDERED BY t;
REGISTER SOURCE Way_out(Car STRING, Type STRING, t BIGINT) FROM memory('x') ORDERED BY t;
CREATE STREAM S1 OVER Entrance KEY NULL;
CREATE STREAM S2 OVER Way_out KEY NULL;
CREATE STREAMED VIEW V1 AS SELECT Car, Type FROM S1 EXCEPT SELECT Car, Type FROM S2;
"""
LOT = {
    "Entrance": [("x", "truck", 1), ("y", "car", 2), ("z", "car", 4)],
    "Way_out": [("y", "car", 7), ("x", "truck", 11)],
}


def test_the_parking_lot():
    """Q1 is the set difference of two append-only relations and not append-only; Q2 is an aggregate over Q1."""
    world = World(PARKING, LOT)
    assert world.streamed("SELECT STREAMED Car FROM V1") == ["+<x>1", "+<y>2", "+<z>4", "-<y>7", "-<x>11"]
    q2 = "SELECT STREAMED Type, COUNT(*) AS n FROM V1 GROUP BY Type"
    assert world.streamed(q2) == ["+<truck, 1>1", "+<car, 1>2", "u<car, 2>4", "u<car, 1>7", "-<truck>11"]
    every_five = "SELECT STREAMED Type, COUNT(*) AS n FROM V1 SYNC BY CLOCK(5) GROUP BY Type"
    assert world.streamed(every_five) == ["+<car, 2>5", "+<truck, 1>5", "u<car, 1>10", "-<truck>15"]


def test_timestamps_and_seconds():
    """The same in application time with a calendar: points every two seconds."""
    from datetime import UTC, datetime

    def second(s):
        return datetime(2026, 3, 1, 12, 0, s, tzinfo=UTC)

    script = """
    REGISTER SOURCE Raw(k STRING, at TIMESTAMP) FROM memory('x') ORDERED BY at; CREATE STREAM S OVER Raw KEY k;
    """
    world = World(script, {})
    query = "SELECT k FROM S SYNC BY CLOCK(2 SECONDS) WHERE NOW < TS + INTERVAL '5' SECOND"
    plan = world.bound(query).plan
    from tidegate.reference.snapshots import Arrivals, Reference
    from tidegate.time import to_ticks

    arrivals = [(("a", second(1)), to_ticks(second(1))), (("b", second(4)), to_ticks(second(4)))]
    reference = Reference({"Raw": Arrivals(arrivals)})
    result = TOOLS.play(plan, {"Raw": TOOLS.raw(arrivals, world.bound("SELECT k FROM Raw").plan.inputs[0].schema)},
                        [to_ticks(second(3)), 2**63 - 1])  # fmt: skip
    seen = {s: sorted(e[0] for e in reference.snapshot(plan, to_ticks(second(s)))) for s in range(12)}
    assert seen == {0: [], 1: [], 2: ["a"], 3: ["a"], 4: ["a", "b"], 5: ["a", "b"], 6: ["b"], 7: ["b"], 8: ["b"],
                    9: [], 10: [], 11: []}  # fmt: skip
    assert {s: sorted(e[0] for e in TOOLS.bag(result, to_ticks(second(s)))) for s in range(12)} == seen


def test_a_view_keeps_its_synchronization_inside_the_plan():
    world = World(TEMPERATURE + SYNCS, {})
    plan = world.bound("SELECT * FROM RoomTempStr SYNC BY Sync2").plan
    assert [type(n) for n in plan.walk()].count(Sync) == 1
    assert isinstance(plan, op.Project)
    assert result_key(plan) == (0,)
