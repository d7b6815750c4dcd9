"""Views over views, mixed with windows, tables and synchronization; anomalies; what happens at one instant."""

from __future__ import annotations

from tests.syncsql.world import World
from tidegate.algebra.modify import Modify
from tidegate.algebra.properties import result_key
from tidegate.reference.synchronization import anomalies
from tidegate.session import connect

SCRIPT = """
REGISTER SOURCE Readings(room STRING, degrees INT, t BIGINT) FROM memory('x') ORDERED BY t;
CREATE STREAM Rooms OVER Readings KEY room;
CREATE STREAM Door(room STRING, t BIGINT) SOURCE memory('x') ORDERED BY t;
CREATE TABLE Building(room STRING, floor INT) FROM memory('x');
CREATE STREAMED VIEW Hot AS SELECT room, degrees FROM Rooms WHERE degrees > 20;
CREATE STREAMED VIEW HotFloors AS
  SELECT b.floor, COUNT(*) AS rooms, MAX(h.degrees) AS top FROM Hot h JOIN Building b ON h.room = b.room GROUP BY b.floor;
CREATE STREAMED VIEW Visits AS SELECT room, COUNT(*) AS n FROM Door WINDOW(RANGE 4) GROUP BY room;
CREATE STREAMED VIEW Busy AS SELECT h.room, h.degrees, v.n FROM Hot h JOIN Visits v ON h.room = v.room;
"""
ROWS = {
    "Readings": [("a", 25, 1), ("b", 18, 2), ("c", 30, 3), ("b", 22, 5), ("a", 19, 8), ("c", 31, 9)],
    "Building": [("a", 1), ("b", 1), ("c", 2)],
    "Door": [("a", 2), ("a", 3), ("c", 4), ("b", 9)],
}


def test_a_view_over_a_view_and_a_table():
    world = World(SCRIPT, ROWS)
    assert world.streamed("SELECT STREAMED * FROM HotFloors") == [
        "+<1, 1, 25>1", "+<2, 1, 30>3", "u<1, 2, 25>5", "u<1, 1, 22>8", "u<2, 1, 31>9",
    ]  # fmt: skip


def test_a_view_over_a_view_and_a_window():
    world = World(SCRIPT, ROWS)
    assert world.streamed("SELECT STREAMED * FROM Busy") == [
        "+<a, 25, 1>2", "u<a, 25, 2>3", "+<c, 30, 1>4", "u<a, 25, 1>6", "-<a>7", "-<c>8", "+<b, 22, 1>9", "-<b>13",
    ]  # fmt: skip
    assert result_key(world.bound("SELECT * FROM Busy").plan) == (0,)


def test_synchronization_at_two_levels():
    """Seen at 3, 6, 9 by the view, at even instants by the query: at 6 what was at 6, at 4 still what was at 3."""
    script = SCRIPT + "CREATE STREAMED VIEW Slow AS SELECT * FROM Hot SYNC BY CLOCK(3);"
    world = World(script, ROWS)
    assert world.streamed("SELECT STREAMED * FROM Slow") == [
        "+<a, 25>3", "+<c, 30>3", "+<b, 22>6", "-<a>9", "u<c, 31>9",
    ]  # fmt: skip
    assert world.streamed("SELECT STREAMED * FROM Slow SYNC BY CLOCK(2)") == [
        "+<a, 25>4", "+<c, 30>4", "+<b, 22>6", "-<a>10", "u<c, 31>10",
    ]  # fmt: skip


def test_a_result_without_its_key_says_minus_and_plus():
    world = World(SCRIPT, ROWS)
    assert world.streamed("SELECT STREAMED top FROM HotFloors") == [
        "+<25>1", "+<30>3", "-<25>8", "+<22>8", "-<30>9", "+<31>9",
    ]  # fmt: skip


LOG = """
REGISTER SOURCE Log(k STRING, v INT, what STRING, t BIGINT) FROM memory('x') ORDERED BY t;
CREATE STREAM S OVER Log KEY k OPERATION what;
"""


def test_contradictions_are_reported_and_change_nothing():
    rows = [
        ("x", 1, "insert", 1), ("x", 2, "insert", 2), ("y", 0, "delete", 3), ("x", 3, "UPDATE", 4), ("x", 9, "merge", 5),
        ("x", 0, "D", 6), ("x", 0, "D", 7), ("x", 5, "+I", 8), ("z", 6, "u", 9), ("z", None, None, 10),
    ]  # fmt: skip
    world = World(LOG, {"Log": rows})
    assert world.streamed("SELECT STREAMED k, v FROM S") == [
        "+<x, 1>1", "u<x, 3>4", "-<x>6", "+<x, 5>8", "+<z, 6>9",
    ]  # fmt: skip
    plan = next(n for n in world.bound("SELECT * FROM S").plan.walk() if isinstance(n, Modify))
    assert [(a.reason, a.instant) for a in anomalies(world.reference, plan)] == [
        ("insert of a known key", 2), ("delete of an unknown key", 3), ("unknown operation", 5),
        ("delete of an unknown key", 7), ("unknown operation", 10),
    ]  # fmt: skip


def test_only_the_net_effect_of_an_instant_is_visible():
    """In order of arrival: x is inserted, updated, deleted and inserted anew; y comes and goes; late rows come later."""
    rows = [
        ("x", 1, "c", 5), ("x", 2, "u", 5), ("y", 1, "c", 5), ("x", 2, "d", 5), ("y", 1, "d", 5), ("x", 4, "c", 5),
        ("x", 5, "u", 7), ("w", 1, "c", 2),
    ]  # fmt: skip
    world = World(LOG, {"Log": rows})
    assert world.streamed("SELECT STREAMED k, v FROM S") == ["+<w, 1>2", "+<x, 4>5", "u<x, 5>7"]


def test_a_retraction_before_its_update_is_an_update():
    """Changelogs that retract the old row first (-U, +U), also where the key changes."""
    rows = [("x", 1, "+I", 1), ("x", 1, "-U", 3), ("x", 2, "+U", 3), ("x", 2, "-U", 5), ("y", 2, "+U", 5)]
    world = World(LOG, {"Log": rows})
    assert world.streamed("SELECT STREAMED k, v FROM S") == ["+<x, 1>1", "u<x, 2>3", "-<x>5", "+<y, 2>5"]


def test_keys_of_several_columns():
    script = LOG + "CREATE STREAM Pairs OVER Log KEY k, v;"
    world = World(script, {"Log": [("x", 1, "c", 1), ("x", 2, "c", 2), ("x", 1, "c", 3)]})
    assert world.streamed("SELECT STREAMED k, v, TS FROM Pairs") == [
        "+<x, 1, 1>1",
        "+<x, 2, 2>2",
        "u<x, 1, 3>3",
    ]


def test_show_lists_streams_over_sources_among_the_streams() -> None:
    tg = connect()
    tg.sql(
        """
        REGISTER SOURCE Log(k INT, v INT, t BIGINT) FROM csv('x') ORDERED BY t;
        CREATE STREAM Keyed OVER Log KEY k;
        CREATE STREAM Derived AS SELECT k FROM Keyed;
        CREATE STREAMED VIEW Counted AS SELECT COUNT(*) AS n FROM Keyed;
        CREATE TABLE Names(k INT, name STRING) FROM csv('y');
        """
    )
    assert tg.sql("SHOW STREAMS") == ["Log", "Keyed"]
    assert tg.sql("SHOW VIEWS") == ["Derived", "Counted"]
    assert tg.sql("SHOW TABLES") == ["Names"]


def test_a_view_tells_when_its_rows_were_modified() -> None:
    """Section 2.1 of SyncSQL: any tagged stream has a relation with TS, the time of its tuples; an answer is such a stream.

    The reading of 28 degrees at 3 changes nothing in `Warm`, so its row is still that of 1.
    """
    script = """
    REGISTER SOURCE Readings(room STRING, degrees INT, t BIGINT) FROM memory('x') ORDERED BY t;
    CREATE STREAM Rooms OVER Readings KEY room;
    CREATE STREAMED VIEW Warm AS SELECT room, degrees > 30 AS hot FROM Rooms WHERE degrees > 20;
    CREATE STREAMED VIEW Degrees AS SELECT degrees FROM Rooms;
    """
    rows = [("a", 25, 1), ("b", 40, 2), ("a", 28, 3), ("a", 35, 5), ("b", 10, 6), ("c", 35, 7), ("a", 1, 9)]
    world = World(script, {"Readings": rows})
    assert world.streamed("SELECT STREAMED room, hot, TS FROM Warm") == [
        "+<a, False, 1>1", "+<b, True, 2>2", "u<a, True, 5>5", "-<b>6", "+<c, True, 7>7", "-<a>9",
    ]  # fmt: skip
    assert world.streamed("SELECT STREAMED w.room, w.TS AS changed, r.TS AS read FROM Warm w, Rooms r WHERE w.room = r.room") == [
        "+<a, 1, 1>1", "+<b, 2, 2>2", "u<a, 1, 3>3", "u<a, 5, 5>5", "-<b>6", "+<c, 7, 7>7", "-<a>9",
    ]  # fmt: skip
    # Of the two rows of 35 degrees the first to come is the first to go.
    assert world.at("SELECT degrees, TS FROM Degrees", 8) == [(10, 6), (35, 5), (35, 7)]
    assert world.at("SELECT degrees, TS FROM Degrees", 9) == [(1, 9), (10, 6), (35, 7)]


def test_a_view_s_own_column_ts_comes_first() -> None:
    script = """
    REGISTER SOURCE Readings(room STRING, t BIGINT) FROM memory('x') ORDERED BY t;
    CREATE STREAMED VIEW Named AS SELECT room AS TS FROM Readings;
    """
    world = World(script, {"Readings": [("a", 1)]})
    assert world.at("SELECT TS FROM Named", 1) == [("a",)]
