"""TUMBLE, HOP and SESSION in FROM, and durations as INTERVALs: by their definitions, instant by instant."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tests.language.world import World
from tidegate.errors import Diagnostic
from tidegate.language.dialect import parse, text_of
from tidegate.reference.snapshots import Arrivals
from tidegate.time import to_datetime
from tidegate.types import Row

SCRIPT = """
CREATE STREAM N(k STRING, v INT, t BIGINT) SOURCE memory('N') ORDERED BY t;
CREATE STREAM Bid(k STRING, v INT, bidtime TIMESTAMP) SOURCE memory('Bid') ORDERED BY bidtime;
CREATE STREAM M OVER N KEY k;
CREATE TABLE T(k STRING) FROM memory('T');
"""
INSTANTS = range(-12, 40)


def world(seed: int = 0) -> World:
    dice = random.Random(seed)
    rows = [(dice.randint(-9, 20), dice.choice("ab"), dice.randint(0, 9)) for _ in range(12)]
    return World().run(SCRIPT).arrive("N", sorted(rows))


def rows_of(there: World) -> list[tuple[str, int, int]]:
    return [(e[0], e[1], t) for e, t in there.sources["N"].rows]  # type: ignore[union-attr,misc]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("slide", "size", "offset"), [(5, 5, 0), (5, 5, 2), (2, 6, 0), (3, 6, 1)])
def test_windows_of_equal_length(seed: int, slide: int, size: int, offset: int) -> None:
    there = world(seed)
    more = f", {offset}" if offset else ""
    call = (
        f"TUMBLE(TABLE N, DESCRIPTOR(t), {size}{more})"
        if slide == size
        else f"HOP(TABLE N, DESCRIPTOR(t), {slide}, {size}{more})"
    )
    plan_text = f"SELECT k, v, t, window_start, window_end FROM {call}"
    for at in INSTANTS:
        expected: Counter[Row] = Counter()
        for k, v, t in rows_of(there):
            for start in range(-40, 60):
                end = start + size
                # a window is shown from its last instant on, until the next one has reached its own
                if (start - offset) % slide == 0 and start <= t < end and end - 1 <= at < end - 1 + slide:
                    expected[(k, v, t, start, end)] += 1
        assert there.at(plan_text, at) == expected, at


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("partition", ["", " PARTITION BY k"])
def test_sessions_come_once_when_they_are_over(seed: int, partition: str) -> None:
    there, gap = world(seed), 3
    sessions: list[list[tuple[str, int, int]]] = []
    for key in "ab" if partition else ("ab",):
        current: list[tuple[str, int, int]] = []
        for row in [r for r in rows_of(there) if r[0] in key]:
            if current and row[2] - current[-1][2] >= gap:
                sessions.append(current)
                current = []
            current.append(row)
        sessions += [current] if current else []
    query = f"SELECT k, v, t, window_start, window_end FROM SESSION(TABLE N{partition}, DESCRIPTOR(t), {gap})"
    for at in INSTANTS:
        expected: Counter[Row] = Counter()
        for session in sessions:
            if session[-1][2] + gap == at:
                expected.update((*row, session[0][2], at) for row in session)
        assert there.at(query, at) == expected, at


SECOND = 1_000_000


def test_flinks_query_over_timestamps() -> None:
    there = World().run(SCRIPT)
    bids = ((0, 1), (599, 2), (600, 4), (1300, 8))
    there.sources["Bid"] = Arrivals([(("a", v, to_datetime(s * SECOND)), s * SECOND) for s, v in bids])
    query = """SELECT window_start, window_end, SUM(v) AS total
               FROM TABLE(TUMBLE(TABLE Bid, DESCRIPTOR(bidtime), INTERVAL '10' MINUTES))
               GROUP BY window_start, window_end"""
    for alike in (
        "TUMBLE(Bid, bidtime, INTERVAL '10 minutes')",
        "TUMBLE(DATA => TABLE Bid, TIMECOL => DESCRIPTOR(bidtime), SIZE => INTERVAL 10 MINUTES)",
    ):
        there.plan(f"SELECT window_start, SUM(v) FROM {alike} GROUP BY window_start")
    shown = {
        t: [(a.isoformat()[11:16], b.isoformat()[11:16], n) for a, b, n in there.at(query, t * SECOND)]
        for t in (598, 599, 600, 1199, 1800)
    }  # type: ignore[union-attr]
    # the window up to 00:10 is complete with its last microsecond, one before the 600th second
    assert shown == {
        598: [],
        599: [],
        600: [("00:00", "00:10", 3)],
        1199: [("00:00", "00:10", 3)],
        1800: [("00:20", "00:30", 8)],
    }
    assert [r[2] for r in there.at(query, 600 * SECOND - 1)] == [3]


@pytest.mark.parametrize(
    ("query", "condition", "says"),
    [
        ("SELECT * FROM TUMBLE(TABLE Bid, DESCRIPTOR(v), INTERVAL '1' DAY)", "TIME_DOMAIN", "DESCRIPTOR(bidtime)"),
        ("SELECT * FROM TUMBLE(TABLE M, DESCRIPTOR(t), 5)", "WINDOW_OVER_DERIVED", "M WINDOW(RANGE"),
        ("SELECT * FROM TUMBLE(TABLE T, DESCRIPTOR(t), 5)", "WINDOW_ON_TABLE", "none"),
        ("SELECT * FROM TUMBLE(TABLE N, DESCRIPTOR(t))", "WRONG_ARGUMENTS", "SIZE"),
        ("SELECT * FROM TUMBLE(TABLE N, DESCRIPTOR(t), 5, 1, 1)", "WRONG_ARGUMENTS", "arguments of TUMBLE"),
        ("SELECT * FROM HOP(TABLE N, DESCRIPTOR(t), 2, 5)", "INVALID_WINDOW", "no multiple"),
        ("SELECT * FROM HOP(TABLE N, DESCRIPTOR(t), 1, 500)", "INVALID_WINDOW", "100 times"),
        ("SELECT * FROM TUMBLE(TABLE N, DESCRIPTOR(t), INTERVAL 5 MINUTES)", "TIME_DOMAIN", "integers"),
        ("SELECT * FROM SESSION(TABLE N PARTITION BY x, DESCRIPTOR(t), 5)", "UNKNOWN_COLUMN", "'x'"),
        (
            "SELECT * FROM CUMULATE(TABLE Bid, DESCRIPTOR(bidtime), INTERVAL '2' MINUTES, INTERVAL '10' MINUTES)",
            "UNSUPPORTED",
            "FROM Bid WINDOW(FROM (i - i % 5) * INTERVAL 2 MINUTES TO (i + 1) * INTERVAL 2 MINUTES - INTERVAL 1 MICROSECOND EVERY 2 MINUTES STARTING AT TIMESTAMP '2026-01-01 00:00:00')",
        ),
    ],
)  # fmt: skip
def test_wrong_windows_name_the_right_form(query: str, condition: str, says: str) -> None:
    with pytest.raises(Diagnostic) as caught:
        world().plan(query)
    assert caught.value.condition == condition
    assert says in str(caught.value)
    if says.startswith("FROM Bid"):
        assert world().plan(f"SELECT v {says}") is not None


@pytest.mark.parametrize(
    "said",
    ["10 MINUTES", "INTERVAL 10 MINUTES", "INTERVAL '10' MINUTE", "INTERVAL '10 minutes'", "'10 minutes'", "INTERVAL '9 minutes 60 seconds'"],
)  # fmt: skip
def test_durations_are_written_in_many_ways(said: str) -> None:
    there = world()
    for form in ("RANGE {}", "RANGE 1 HOUR SLIDE {}", "ROWS 5 SLIDE {}"):
        expected = there.plan(f"SELECT v FROM Bid WINDOW({form.format('10 MINUTES')})")
        assert there.plan(f"SELECT v FROM Bid WINDOW({form.format(said)})") == expected
    stream = "RSTREAM(SELECT v FROM Bid WINDOW(ROWS 1)) EVERY "
    assert there.plan(stream + said) == there.plan(stream + "10 MINUTES")


@pytest.mark.parametrize("said", ["INTERVAL 5", "INTERVAL '5'", "INTERVAL 'x'", "INTERVAL '0' MINUTE", "INTERVAL '5 lunches'", "INTERVAL '1:30' MINUTE"])  # fmt: skip
def test_durations_that_are_none(said: str) -> None:
    with pytest.raises(Diagnostic, match="INVALID_WINDOW"):
        world().plan(f"SELECT v FROM Bid WINDOW(RANGE {said})")


def test_they_are_written_as_they_can_be_read() -> None:
    for text in (
        "SELECT * FROM TUMBLE(TABLE Bid, DESCRIPTOR(bidtime), INTERVAL 10 MINUTES) AS w",
        "SELECT * FROM HOP(TABLE N, DESCRIPTOR(t), 2, 6)",
        "SELECT * FROM SESSION(TABLE N PARTITION BY (k, v), DESCRIPTOR(t), 5)",
    ):
        assert text_of(parse(text)[0]) == text
