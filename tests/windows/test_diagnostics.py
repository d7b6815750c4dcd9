"""Illegal windows are refused where they stand in the text."""

from __future__ import annotations

import pytest

from tests.language.world import World
from tests.papers.playing import snapshots
from tidegate.algebra import timetables
from tidegate.errors import Diagnostic

DEFINITIONS = """
CREATE STREAM S(k STRING, v INT, t TIMESTAMP) SOURCE csv('s') ORDERED BY t;
CREATE STREAM N(k STRING, v INT, t BIGINT) SOURCE csv('n') ORDERED BY t;
CREATE TABLE T(k STRING) FROM csv('t');
"""
WORLD = World().run(DEFINITIONS)

CASES = [
    # lower <= upper
    ("N", "FROM «3*i» TO 2*i EVERY 2", "INVALID_WINDOW", "window 1 would begin (3) after its end (2)"),
    ("N", "FROM «i» TO 5 EVERY 1", "INVALID_WINDOW", "window 6 would begin (6) after its end (5)"),
    ("N", "FROM «LEAST(i, 20)» TO 7 EVERY 1", "INVALID_WINDOW", "window 8 would begin (8) after its end (7)"),
    ("N", "FROM «LEAST(3*i, 20)» TO i + 10 EVERY 1", "INVALID_WINDOW", "window 6 would begin (18) after its end (16)"),
    ("N", "FROM «i + i % 2 + 2» TO i + 2 EVERY 1", "INVALID_WINDOW", "window 1 would begin (4) after its end (3)"),
    # lower >= start
    ("N", "FROM «2*i - 4» TO 2*i EVERY 2", "INVALID_WINDOW", "window 0 would begin at -4, before 0"),
    ("N", "FROM «2*i - 4» TO 2*i EVERY 2 STARTING AT 10", "INVALID_WINDOW", "begin at 6, before 10"),
    ("S", "FROM «-1 SECONDS» TO i SECONDS EVERY 1 SECOND", "INVALID_WINDOW", "before 1970-01-01 00:00:00"),
    ("N", "FROM «i ROWS» TO i + 1 ROWS EVERY 1 ROW", "INVALID_WINDOW", "before row 1, the first one"),
    # upper reachable
    ("N", "FROM 0 TO «3*i» EVERY 2", "INVALID_WINDOW", "window 1 would be shown at 2, before its end at 3"),
    ("N", "FROM 0 TO «GREATEST(3*i - 30, 4)» EVERY 2", "INVALID_WINDOW", "window 35 would be shown at 74, before its end at 75"),
    ("N", "FROM 1 ROWS TO «5*i + 1 ROWS» EVERY 3 ROWS", "INVALID_WINDOW", "window 1 would be shown at 4, before its end at 6"),
    ("N", "FROM 0 TO «i*i» EVERY 2", "INVALID_WINDOW", "window 3 would be shown at 6, before its end at 9"),
    ("N", "FOR x = 10 WHILE x < 50 STEP x + 1 FROM x - 5 TO «x + 1»", "INVALID_WINDOW", "shown at 10, before its end at 11"),
    # bounds that fall
    ("N", "FROM «i % 3» TO i + 3 EVERY 2", "INVALID_WINDOW", "the lower bound falls from 2 to 0 at window 3"),
    ("N", "FROM 0 TO «9 - i» EVERY 2", "INVALID_WINDOW", "the upper bound falls from 9 to 8 at window 1"),
    # rates, delays, loops
    ("N", "FROM 0 TO i EVERY «0»", "INVALID_WINDOW", "the rate must be positive"),
    ("N", "FROM 0 TO i EVERY «i»", "INVALID_WINDOW", "may depend on NOW, not on i"),
    ("N", "FROM 0 TO i EVERY «NOW ROWS»", "INVALID_WINDOW", "in time, not in rows"),
    ("N", "FROM 0 TO 0 EVERY «5 - NOW»", "INVALID_WINDOW", "the rate at 5 is not positive"),
    ("N", "FROM 0 TO i EVERY 2 DELAY «2 ROWS»", "INVALID_WINDOW", "the delay is in time if the rate is"),
    ("N", "FROM 0 TO i EVERY 2 DELAY «-1»", "INVALID_WINDOW", "the delay must not be negative"),
    ("N", "FOR x = 10 WHILE «x» STEP x + 5 FROM x - 5 TO x", "TYPE_MISMATCH", "WHILE needs a condition, found BIGINT"),
    ("N", "FOR x = 10 WHILE TRUE STEP «x» FROM x - 5 TO x", "INVALID_WINDOW", "STEP does not move forward from 10"),
    ("N", "SESSION «0»", "INVALID_WINDOW", "must be positive"),
    ("N", "SESSION «5 ROWS»", "INVALID_WINDOW", "not a number of rows"),
    # domains, units, names, types
    ("N", "FROM «1» TO i + 1 ROWS EVERY 2", "INVALID_WINDOW", "one bound is in rows, the other in time"),
    ("N", "FROM 0 TO «NOW» EVERY 2 ROWS", "INVALID_WINDOW", "needs a rate in time"),
    ("N", "FROM 1 ROWS TO «NOW ROWS» EVERY 2", "INVALID_WINDOW", "positions depend on i, not on NOW"),
    ("N", "FROM 2*i TO «2*i + 3 SECONDS» EVERY 2", "TIME_DOMAIN", "needs a stream ordered by a TIMESTAMP"),
    ("S", "FROM «2*i SECUNDS» TO 2*i + 3 SECONDS EVERY 2 SECONDS", "UNKNOWN_UNIT", "there is no unit 'SECUNDS'"),
    ("N", "FROM «v» TO i EVERY 2", "UNKNOWN_COLUMN", "there is no 'v' in a window's bounds"),
    ("N", "FROM «NULL» TO i EVERY 2", "TYPE_MISMATCH", "found VOID"),
    ("S", "FROM «HOUR(NOW)» TO NOW EVERY 1 HOUR", "TYPE_MISMATCH", "expected an instant, found INT"),
    ("N", "FROM 0 TO 5«)»", "SYNTAX_ERROR", "expected EVERY, found ')'"),
    ("N", "FROM 0 «EVERY» 5", "SYNTAX_ERROR", "expected TO, found 'EVERY'"),
    ("N", "«WINDOW» 5", "SYNTAX_ERROR", "expected RANGE, ROWS, FROM, FOR or SESSION"),
]  # fmt: skip


@pytest.mark.parametrize(("stream", "marked", "condition", "message"), CASES, ids=lambda c: str(c)[:60])
def test_an_illegal_window_is_refused_where_it_stands(
    stream: str, marked: str, condition: str, message: str
) -> None:
    text = f"SELECT *\nFROM {stream} WINDOW({marked}) w"
    start, end = text.index("«"), text.index("»") - 1
    query = text.replace("«", "").replace("»", "")
    with pytest.raises(Diagnostic) as caught:
        WORLD.plan(query)
    assert caught.value.condition == condition, caught.value
    assert message in caught.value.message
    position = caught.value.position
    assert position is not None
    assert position.line == 2
    assert (position.start, position.end) == (start, end), query[position.start : position.end]


def test_a_table_has_no_time_to_be_windowed() -> None:
    with pytest.raises(Diagnostic) as caught:
        WORLD.plan("SELECT * FROM T WINDOW(SESSION 5)")
    assert caught.value.condition == "WINDOW_ON_TABLE"


@pytest.mark.parametrize(
    ("window", "message"),
    [
        # legal for the hundred windows that are tried, not for a later one
        (
            "FROM 0 TO CASE WHEN i < 150 THEN i ELSE 2*i END EVERY 1",
            "window 150 would be shown at 150, before its end",
        ),
        (
            "FROM CASE WHEN i < 150 THEN i ELSE 1 END TO i EVERY 1",
            "the lower bound falls from 149 to 1 at window 150",
        ),
        (
            "FOR x = 1 WHILE TRUE STEP CASE WHEN x < 200 THEN x + 1 ELSE x END FROM 0 TO x",
            "STEP does not move forward",
        ),
        ("FROM 0 TO i * 0 + 300 - 300 / CASE WHEN i < 150 THEN 1 ELSE 0 END EVERY 1", "zero"),
    ],
)
def test_what_cannot_be_decided_before_is_checked_when_rows_come(window: str, message: str) -> None:
    world = World().run(DEFINITIONS).arrive("N", [(t, "a", t) for t in range(0, 400, 40)])
    query = f"SELECT v FROM N WINDOW({window})"
    plan = world.plan(query)
    with pytest.raises(Diagnostic, match=message) as caught:
        snapshots(plan, world.sources, [])
    assert caught.value.locate(query).position is not None


def test_windows_that_would_have_to_be_listed_forever_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timetables, "LIMIT", 1_000)
    world = World().run(DEFINITIONS).arrive("S", [(1_790_000_000_000_000, "a", 1)])
    with pytest.raises(Diagnostic, match="listed one by one") as caught:
        world.intervals("SELECT v FROM S WINDOW(FROM i + i % 2 SECONDS TO i + i % 2 SECONDS EVERY 2 SECONDS)")
    assert "STARTING AT" in (caught.value.help or "")


def test_a_view_does_not_lend_its_places_to_the_query_that_uses_it() -> None:
    world = (
        World()
        .run(DEFINITIONS)
        .run("CREATE VIEW V AS SELECT v FROM N WINDOW(FROM 1 ROWS TO i + 2 ROWS EVERY 10)")
    )
    world.arrive("N", [(t, "a", t) for t in (1, 2, 50)])
    with pytest.raises(Diagnostic, match=r"the upper bound is i [+] 2") as caught:
        snapshots(world.plan("SELECT * FROM V"), world.sources, [])
    assert caught.value.span is None
