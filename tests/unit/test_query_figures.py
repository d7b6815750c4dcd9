"""What SHOW QUERIES tells: who shares with whom, and what operators have done, over epochs and changes of the plan."""

from __future__ import annotations

from tidegate.exchange.messages import Tally, WaveReport, decode, encode
from tidegate.language.binder import bind
from tidegate.language.catalog import Catalog, StreamDefinition
from tidegate.language.dialect import parse
from tidegate.language.statements import define
from tidegate.physical.plan import Plan
from tidegate.runtime.figures import Activities, Activity
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


def report(place: str, *given: int) -> WaveReport:
    tally = Tally(*(tuple(factor * g for g in given) for factor in (2, 1, 10, 100)))
    found = decode(encode(WaveReport(place, None, (), 0, {}, {}, tally)))
    assert isinstance(found, WaveReport)
    return found


def test_what_operators_do_is_added_up() -> None:
    orders = {1: ("in", "count"), 2: ("answer",)}
    done = Activities().after(orders, [report("1@0", 4, 1), report("1@1", 2, 0), report("2@0", 5)])
    assert done.by_id == {
        "in": Activity(12, 6, 12, 6, 60, 600),
        "count": Activity(2, 1, 2, 1, 10, 100),
        "answer": Activity(10, 5, 10, 5, 50, 500),
    }
    done = done.after(orders, [report("1@0", 1, 1), report("1@1", 0, 0)])
    assert done.by_id["in"] == Activity(2, 1, 14, 7, 10, 100)
    assert done.by_id["answer"] == Activity(0, 0, 10, 5, 0, 0)
    # A query leaves, and another order is told: what is still there goes on to be counted.
    done = done.after({1: ("other", "in")}, [report("1@0", 3, 2)])
    assert done.by_id == {"other": Activity(6, 3, 6, 3, 30, 300), "in": Activity(4, 2, 18, 9, 20, 200)}
