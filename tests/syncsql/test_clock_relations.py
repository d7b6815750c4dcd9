"""A clock in FROM by the letter of SyncSQL, examples 13 and 14: the relation of its points so far, of which MAX is NOW."""

from __future__ import annotations

import random

import pytest

from tests.fuzz.partition_runs import Partitioned
from tests.fuzz.players import play
from tests.syncsql.world import World
from tidegate.errors import Diagnostic
from tidegate.optimizer.driver import optimize
from tidegate.reference.snapshots import snapshot
from tidegate.time import MAX

SCRIPT = """
REGISTER SOURCE Road(CarID INT, k INT, t BIGINT) FROM memory('x') ORDERED BY t;
CREATE STREAM Cars OVER Road KEY NULL;
CREATE STREAM Lanes OVER Road KEY k;
CREATE STREAMED VIEW Sync2 AS SELECT C.Timepoint FROM CLOCK C WHERE C.Timepoint % 2 = 0;
CREATE STREAMED VIEW Odd AS SELECT Timepoint FROM CLOCK WHERE Timepoint % 3 = 1 AND Timepoint >= 4;
CREATE STREAMED VIEW NowView AS SELECT 1 AS KEY, MAX(T.Timepoint) AS currTime FROM CLOCK T;
CREATE STREAMED VIEW TwoUnitsSlide AS SELECT 1 AS KEY, MAX(T.Timepoint) AS currTime FROM Sync2 T;
CREATE STREAMED VIEW Rare AS SELECT MAX(T.Timepoint) AS currTime FROM Odd T;
"""


def world(seed: int = 0) -> World:
    dice = random.Random(seed)
    times = sorted(dice.randrange(16) for _ in range(8))
    return World(SCRIPT, {"Road": [(i, dice.randrange(3), t) for i, t in enumerate(times)]})


FIVE = "SELECT R.* FROM Cars R, NowView N WHERE N.currTime - 5 < R.TS AND R.TS <= N.currTime"
FIVE_BY_TWO = (
    "SELECT R.* FROM Cars SYNC BY Sync2 R, TwoUnitsSlide N WHERE N.currTime - 5 < R.TS AND R.TS <= N.currTime"
)


def check(w: World, query: str) -> None:
    """Kernels, in any epochs and partitions, give the reference's answer."""
    plan = optimize(w.bound(query).plan)[0]
    run = Partitioned(plan, 3)
    for upto in (3, 8, 9, MAX):
        run.epoch(w.frames, upto)
    answers = [run.answer, *(play(plan, w.frames, ends) for ends in ([MAX], [*range(30), MAX]))]
    for t in range(-2, 30):
        wanted = w.reference.snapshot(w.bound(query).plan, t)
        for answer in answers:
            assert snapshot(answer, t) == wanted, (query, t)


@pytest.mark.parametrize("seed", range(4))
def test_examples_13_and_14_are_the_windows_that_they_describe(seed: int) -> None:
    w = world(seed)
    for query, window in ((FIVE, "RANGE 5"), (FIVE_BY_TWO, "RANGE 5 SLIDE 2")):
        check(w, query)
        for t in range(30):
            assert w.at(query, t) == w.at(f"SELECT * FROM Road WINDOW({window})", t), (query, t)
        assert w.streamed(query) == w.streamed(f"SELECT * FROM Road WINDOW({window})")


def test_the_greatest_point_so_far_is_the_latest() -> None:
    w = world()
    at = [w.at("SELECT * FROM NowView", t) for t in range(3)]
    assert at == [[(1, 0)], [(1, 1)], [(1, 2)]]
    assert [w.at("SELECT currTime FROM TwoUnitsSlide", t) for t in range(5)] == [
        [(0,)],
        [(0,)],
        [(2,)],
        [(2,)],
        [(4,)],
    ]
    assert [w.at("SELECT currTime FROM Rare", t) for t in (3, 4, 6, 7, 9)] == [
        [],
        [(4,)],
        [(4,)],
        [(7,)],
        [(7,)],
    ]
    assert w.at(
        "SELECT currTime FROM TwoUnitsSlide SYNC BY (SELECT Timepoint FROM CLOCK WHERE Timepoint % 4 = 0)", 7
    ) == [(4,)]


OTHERS = {
    "not synchronized": "SELECT R.* FROM Cars R, TwoUnitsSlide N WHERE N.currTime - 5 < R.TS AND R.TS <= N.currTime",
    "begins late": "SELECT R.* FROM Cars R, Rare N WHERE R.TS + 3 > N.currTime",
    "without a condition": "SELECT R.* FROM Cars R, Rare N",
    "clock first": "SELECT R.CarID, N.KEY FROM TwoUnitsSlide N, Lanes R WHERE R.TS <= N.currTime AND R.k > 0",
    "as a value": "SELECT R.* FROM Cars R WHERE R.TS > (SELECT MAX(Timepoint) - 4 FROM CLOCK)",
    "grouped": "SELECT R.k, COUNT(*) AS n FROM Cars R, Rare N WHERE R.TS BETWEEN N.currTime - 6 AND N.currTime GROUP BY R.k",
    "coarse clock": "SELECT R.* FROM Lanes R, (SELECT MAX(Timepoint) AS p FROM CLOCK(5)) N WHERE R.TS < N.p",
    "constants": "SELECT R.CarID, N.KEY + 1 AS two FROM Cars R, NowView N WHERE R.TS = N.currTime AND N.KEY = R.k",
}  # fmt: skip


@pytest.mark.parametrize("query", OTHERS)
def test_conditions_on_the_latest_point(query: str) -> None:
    """By definition: at t, the join of the relation at t with the one row of the latest point up to t."""
    for seed in range(3):
        check(world(seed), OTHERS[query])


def test_by_definition_of_the_join() -> None:
    w = world(2)
    for t in range(25):
        rows = w.at("SELECT CarID, k, TS FROM Cars", t)
        points = [p for p in range(t + 1) if p % 2 == 0]
        expected = sorted((c, k) for c, k, ts in rows if points and points[-1] - 5 < ts <= points[-1])
        assert w.at(OTHERS["not synchronized"], t) == expected


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM NowView",
        "SELECT R.CarID, N.currTime FROM Cars R, NowView N",
        "SELECT COUNT(*) FROM CLOCK",
        "SELECT R.CarID, C.Timepoint FROM Cars R, CLOCK C WHERE C.Timepoint < R.TS",
        "SELECT MIN(Timepoint) FROM CLOCK",
    ],
)
def test_what_would_need_the_ticks_is_refused(query: str) -> None:
    w = world()
    with pytest.raises(Diagnostic, match="CLOCK has a row for every tick"):
        Partitioned(optimize(w.bound(query).plan)[0], 1)


def test_a_condition_that_is_no_bound_is_refused_with_its_place() -> None:
    with pytest.raises(Diagnostic, match="must say where a row's validity begins or ends"):
        check(world(), "SELECT R.* FROM Cars R, NowView N WHERE N.currTime % 2 = R.TS % 2")
