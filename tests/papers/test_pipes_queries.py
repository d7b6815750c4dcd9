"""Every query printed in PIPES sections 3.2-3.4 and 001 section 2, with answers worked out by hand on a small auction."""

from __future__ import annotations

import pytest

from tests.language.world import World
from tests.papers.auction import (
    CURRENCY_CONVERSION,
    HIGHEST_BID,
    HOT_ITEM,
    MINUTE,
    PAIR_TRADING,
    SELECTION,
    SHORT_AUCTIONS,
    auction,
)
from tidegate.types import Row


@pytest.fixture(scope="module")
def world() -> World:
    return auction()


def answers(world: World, query: str, *minutes: int) -> dict[int, list[Row]]:
    """The answer at whole minutes; empty ones are left out."""
    found = world.answers(query, [m * MINUTE for m in minutes])
    return {t // MINUTE: rows for t, rows in found.items()}


def test_source_streams_hide_their_ordering_attribute(world: World) -> None:
    """PIPES 3.1: the timestamp is not part of the stream's schema."""
    plan = world.plan("SELECT * FROM OpenAuction")
    assert [f.name for f in plan.schema if not f.hidden] == ["itemID", "sellerID", "start_price"]
    assert [str(f.type) for f in plan.schema if not f.hidden] == ["INT", "INT", "FLOAT"]


def test_currency_conversion(world: World) -> None:
    assert answers(world, CURRENCY_CONVERSION, 4, 5, 6, 61) == {
        5: [(1007, 6.0, 11)],  # one dollar is half a euro here; a bid is valid at its instant only
        61: [(3000, 3.0, 11), (3000, 3.0, 11)],  # two equal bids at one instant are two rows
    }


def test_selection(world: World) -> None:
    assert answers(world, SELECTION, 5, 10, 35, 61, 100, 150, 400) == {
        5: [(1007, 12.0, 11)],
        10: [(1007, 14.0, 12)],
        35: [(1020, 22.0, 13)],
        100: [(1020, 30.0, 13)],
        150: [(1020, 25.0, 11)],
        # item 3000, with bids at 61 and 400, is not among the five
    }


def test_short_auctions(world: World) -> None:
    assert answers(world, SHORT_AUCTIONS, 0, 30, 119, 120, 121, 200, 260, 420) == {
        120: [(1007, 1, 10.0)],  # open for 2 hours
        200: [(1020, 2, 20.0)],  # open for 170 minutes
        260: [(4000, 3, 8.0)],  # open for 10 minutes
        # item 3000 closes at 420, 6 hours after its opening
    }


@pytest.mark.parametrize(("closing", "is_short"), [(300 * MINUTE - 1, True), (300 * MINUTE, False)])
def test_an_auction_of_exactly_five_hours_is_not_short(closing: int, is_short: bool) -> None:
    """A window of 5 hours holds (t - 5 h, t]."""
    world = auction().arrive("OpenAuction", [(0, 1, 1, 1.0)]).arrive("ClosedAuction", [(closing, 1, 1)])
    assert world.answers(SHORT_AUCTIONS, [closing]) == ({closing: [(1, 1, 1.0)]} if is_short else {})


def test_closing_price(world: World) -> None:
    current = "SELECT * FROM CurrentPrice"
    assert answers(world, current, 5, 119, 120, 121) == {
        # when item 1007 closes: its three bids, and its start price as if it were one
        120: [(1007, 10.0, 1), (1007, 12.0, 1), (1007, 14.0, 1), (1007, 16.0, 1)],
    }
    assert answers(world, "SELECT * FROM ClosingPriceStream", 0, 100, 119, 120, 121, 200, 260, 420, 421) == {
        120: [(1007, 1, 16.0)],
        200: [(1020, 2, 30.0)],  # the highest of 22, 30 and 25, not the last
        260: [(4000, 3, 8.0)],  # nobody bid: the start price
        420: [(3000, 1, 16.0)],
    }


def test_highest_bid(world: World) -> None:
    assert answers(world, HIGHEST_BID, 4, 5, 10, 14, 15, 19, 20, 61, 64, 70, 71, 73, 74, 79, 80) == {
        5: [(1007, 12.0)],
        10: [(1007, 14.0)],  # 12 is still in the window
        14: [(1007, 14.0)],
        15: [(1007, 14.0)],
        19: [(1007, 14.0)],
        # at 20 the bid of minute 10 has left: no bid, so no maximum and no row
        61: [(3000, 6.0), (3000, 6.0)],
        64: [(1007, 16.0)],
        70: [(1007, 16.0), (3000, 16.0)],  # two bids share the maximum
        71: [(1007, 16.0), (3000, 16.0)],
        73: [(1007, 16.0), (3000, 16.0)],
        74: [(3000, 16.0)],  # the bid of minute 64 has left
        79: [(3000, 16.0)],
    }


def test_hot_item(world: World) -> None:
    assert answers(world, HOT_ITEM, 4, 5, 35, 61, 64, 65, 70, 100, 121, 124, 130, 160, 209, 210, 400) == {
        5: [(1007,)],
        35: [(1007,)],  # two bids against one
        61: [(1007,), (3000,)],  # two bids each, one on 1020
        64: [(1007,)],  # three against two
        65: [(1007,), (3000,)],  # the bid of minute 5 has left
        70: [(3000,)],  # the bid of minute 10 has left, a third on 3000 has come
        100: [(3000,)],
        121: [(1007,), (1020,), (3000,)],  # one each: those of minutes 64, 100 and 70
        124: [(1020,), (3000,)],
        130: [(1020,)],
        160: [(1020,)],  # the bid of minute 100 leaves, that of minute 150 stays
        209: [(1020,)],
        400: [(3000,)],
    }


def test_pair_trading() -> None:
    world = auction()
    world.arrive("AG1", [(0, 5.0), (4 * MINUTE, 7.0)]).arrive("AG2", [(MINUTE, 3.0), (12 * MINUTE, 2.0)])
    found = answers(world, PAIR_TRADING, 0, 1, 3, 4, 9, 10, 11, 12, 13, 14)
    expected = {
        # at 0 there is no AG2 yet, so no ratio; from 1 on it is 5/3, as usual
        4: 2.0,  # the average of 5/3 and 7/3 deviates by 1/3, more than 10% of 5/3
        9: 2.0,
        10: 7 / 3,  # the price 5 of AG1 has left
        # at 11 the price 3 of AG2 has left: no pair, no row
        12: 3.5,
        13: 3.5,
    }
    assert list(found) == list(expected)
    assert {t: rows[0][0] for t, rows in found.items()} == pytest.approx(expected, rel=1e-12)
    assert all(len(rows) == 1 for rows in found.values())


def test_an_auction_as_one_stream_with_validity() -> None:
    """Remark 3.2: with the duration as a time interval, a now-window on Bid gives the current price directly."""
    world = auction().run("""
        CREATE STREAM Auction(itemID INT, sellerID INT, opens TIMESTAMP, closes TIMESTAMP)
        SOURCE memory('Auction') VALID(opens, closes);""")
    world.last("Auction", [((1007, 1), 0, 120 * MINUTE, 1), ((3000, 1), 60 * MINUTE, 65 * MINUTE, 1)])
    query = "SELECT A.sellerID, B.bid_price FROM Auction A, Bid B WHERE A.itemID = B.itemID"
    assert answers(world, query, 5, 35, 61, 64, 70) == {
        5: [(1, 12.0)],
        61: [(1, 6.0), (1, 6.0)],
        64: [(1, 16.0)],
        # the bid of minute 70 comes after the auction of 3000 here
    }
