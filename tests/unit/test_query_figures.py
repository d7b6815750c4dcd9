"""What SHOW QUERIES tells: who shares with whom, and what operators have done, over epochs and changes of the plan."""

from __future__ import annotations

from tidegate.exchange.messages import Measured, Tally, WaveReport, decode, encode
from tidegate.language.binder import bind
from tidegate.language.catalog import Catalog, StreamDefinition
from tidegate.language.dialect import parse
from tidegate.language.statements import define
from tidegate.physical.plan import Plan
from tidegate.runtime.activities import Activities, Activity
from tidegate.runtime.jobs import planned
from tidegate.runtime.query_table import shared_by

COUNTS = "SELECT k, COUNT(*) AS n FROM S WINDOW(RANGE 5) GROUP BY k"
STREAM = "CREATE STREAM S(k INT, v INT, t BIGINT) SOURCE memory('S') ORDERED BY t"


def plans(**texts: str) -> dict[str, Plan]:
    from tidegate.connectors import registry

    catalog: Catalog = define(parse(STREAM)[0], registry.catalog(), STREAM)
    assert isinstance(catalog.find("S"), StreamDefinition)
    roots = {name: bind(parse(text)[0], catalog, text).plan for name, text in texts.items()}
    return {name: planned({name: root}, {}) for name, root in roots.items()}


def test_who_shares_with_whom_is_told_in_order() -> None:
    found = plans(
        many=f"SELECT k FROM ({COUNTS}) WHERE n > 3",
        other="SELECT v FROM S WINDOW(ROWS 2)",
        counts=COUNTS,
        # reads both: what the first compute, and, as another input, the last rows
        both=f"SELECT a.k FROM ({COUNTS}) a WHERE a.n > (SELECT MAX(v) FROM (SELECT v FROM S WINDOW(ROWS 2)))",
    )
    assert shared_by(found) == {
        "many": ("counts", "both"),
        "other": ("both",),
        "counts": ("many", "both"),
        "both": ("many", "other", "counts"),
    }
    assert shared_by({}) == {}


def report(place: str, *given: int, measured: Measured | None = None) -> WaveReport:
    tally = Tally(*(tuple(factor * g for g in given) for factor in (2, 1, 10, 100)), measured or Measured())
    found = decode(encode(WaveReport(place, None, (), 0, {}, {}, tally)))
    assert isinstance(found, WaveReport)
    return found


def test_what_operators_do_is_added_up() -> None:
    orders = {1: ("in", "count"), 2: ("answer",)}
    done = Activities().after(orders, [report("1@0", 4, 1), report("1@1", 2, 0), report("2@0", 5)])
    assert done.by_id == {
        "in": Activity(12, 6, 12, 6, 60, 600, peak=8, tasks=2),
        "count": Activity(2, 1, 2, 1, 10, 100, peak=2, tasks=2),
        "answer": Activity(10, 5, 10, 5, 50, 500, peak=10, tasks=1),
    }
    # 8 of 12 rows in one of two partitions: a third more than the mean
    assert [done.by_id[i].skew for i in ("in", "count", "answer")] == [8 / 6, 2.0, 1.0]
    done = done.after(orders, [report("1@0", 1, 1), report("1@1", 0, 0)])
    assert done.by_id["in"] == Activity(2, 1, 14, 7, 10, 100, peak=2, tasks=2)
    assert done.by_id["answer"] == Activity(0, 0, 10, 5, 0, 0)
    # A query leaves, and another order is told: what is still there goes on to be counted.
    done = done.after({1: ("other", "in")}, [report("1@0", 3, 2)])
    assert done.by_id == {
        "other": Activity(6, 3, 6, 3, 30, 300, peak=6, tasks=1),
        "in": Activity(4, 2, 18, 9, 20, 200, peak=4, tasks=1),
    }


def test_what_tasks_measure_is_one_figure_for_all_partitions() -> None:
    orders = {1: ("in", "count")}
    one = Measured((0, 1), (0.0, 0.25), (0, 2), (4, 5), (0, 1), (60.0, 10.0), (20, 0), (3, -1))
    two = Measured((0,), (0.0,), (0,), (2,), (0,), (30.0,), (50,), (2,))
    done = Activities().after(orders, [report("1@0", 4, 5, measured=one), report("1@1", 2, 0, measured=two)])
    into, count = done.by_id["in"], done.by_id["count"]
    assert (into.validity, into.granule, into.keys, into.open) == ((4 * 60 + 2 * 30) / 6, 10, 5, 0)
    assert (count.retracted, count.open, count.closed, count.seconds, count.validity) == (2, 1, 2, 0.25, 10.0)
    assert (count.keys, count.granule) == (-1, 0)
    # An epoch without rows takes no time and says nothing new of them; one that gives none on still has keys.
    more = Measured((0,), (0.5,), (0,), (0,), (0,), (0.0,), (0,), (7,))
    done = done.after(orders, [report("1@0", 0, 0, measured=more)])
    into, count = done.by_id["in"], done.by_id["count"]
    assert (into.validity, into.granule, into.keys, into.seconds) == (50.0, 10, 7, 0.5)
    assert (count.retracted, count.all_retracted, count.seconds, count.all_seconds) == (0, 2, 0.0, 0.25)
    # Whatever the order is called, what is known stays.
    done = done.after({1: ("count",), 2: ("in",)}, [])
    assert (done.by_id["in"].keys, done.by_id["count"].all_retracted) == (7, 2)
