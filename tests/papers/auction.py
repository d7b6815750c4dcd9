"""The auction of PIPES section 2.8 and its queries (sections 3.2-3.4), and the pair trading of 001.

Queries stand as printed; three whose text the paper only describes (selection, short auctions, highest bid) follow the
description. A comma too many before GROUP BY is left out, and sources are rows in memory.
"""

from __future__ import annotations

from tests.language.world import World
from tidegate.scalars.functions import ScalarFunction
from tidegate.time import UNITS
from tidegate.types import FLOAT

MINUTE, HOUR, DAY = UNITS["MINUTE"], UNITS["HOUR"], UNITS["DAY"]

STREAMS = """
CREATE STREAM OpenAuction(itemID INT, sellerID INT, start_price REAL, timestamp TIMESTAMP)
  SOURCE memory('OpenAuction')
  ORDERED BY timestamp;
CREATE STREAM ClosedAuction(itemID INT, buyerID INT, timestamp TIMESTAMP)
  SOURCE memory('ClosedAuction')
  ORDERED BY timestamp;
CREATE STREAM Bid(itemID INT, bid_price REAL, bidderID INT, timestamp TIMESTAMP)
  SOURCE memory('Bid')
  ORDERED BY timestamp;
CREATE STREAM AG1(price REAL, timestamp TIMESTAMP) SOURCE memory('AG1') ORDERED BY timestamp;
CREATE STREAM AG2(price REAL, timestamp TIMESTAMP) SOURCE memory('AG2') ORDERED BY timestamp;
"""

CURRENCY_CONVERSION = """
SELECT itemID, DolToEuro(bid_price), bidderID
FROM Bid;
"""

SELECTION = """
SELECT *
FROM Bid
WHERE itemID = 1007 OR itemID = 1020 OR
      itemID = 2001 OR itemID = 2019 OR
      itemID = 1087;
"""

SHORT_AUCTIONS = """
SELECT O.*
FROM OpenAuction O WINDOW(RANGE 5 HOURS), ClosedAuction C
WHERE O.itemID = C.itemID;
"""

HIGHEST_BID = """
SELECT itemID, bid_price
FROM Bid WINDOW(RANGE 10 MINUTES)
WHERE bid_price = (SELECT MAX(bid_price)
                   FROM Bid WINDOW(RANGE 10 MINUTES));
"""

CLOSING_PRICE = """
CREATE STREAM CurrentPrice AS
SELECT P.itemID, P.price, O.sellerID AS sellerID
FROM ((SELECT itemID, bid_price AS price
       FROM Bid WINDOW(RANGE 2 DAYS))
      UNION ALL
      (SELECT itemID, start_price AS price
       FROM OpenAuction WINDOW(RANGE 2 DAYS))) P,
     ClosedAuction C,
     OpenAuction O WINDOW(RANGE 2 DAYS)
WHERE P.itemID = C.itemID AND C.itemID = O.itemID;

CREATE STREAM ClosingPriceStream AS
SELECT itemID, sellerID, MAX(P.price) AS price
FROM CurrentPrice P
GROUP BY P.itemID, P.sellerID;
"""

HOT_ITEM = """
SELECT itemID
FROM (SELECT B1.itemID AS itemID, COUNT(*) AS num
      FROM Bid WINDOW(RANGE 60 MINUTES) B1
      GROUP BY B1.itemID)
WHERE num >= ALL(SELECT COUNT(*)
                 FROM Bid WINDOW(RANGE 60 MINUTES) B2
                 GROUP BY B2.itemID);
"""

PAIR_TRADING = """
SELECT *
FROM (SELECT AVG(AG1.price/AG2.price) AS ratio
      FROM AG1 WINDOW(RANGE 10 MINUTES),
           AG2 WINDOW(RANGE 10 MINUTES)) AS SUBQUERY
WHERE ABS(SUBQUERY.ratio - 5/3) > 0.1*5/3;
"""


def auction() -> World:
    """Four auctions and ten bids, times in minutes.

    Item 1007 opens at 0 and closes at 120, 1020 at 30 and 200, 3000 at 60 and 420, 4000 at 250 and 260 without a bid.
    """
    world = World().function(ScalarFunction("DolToEuro", lambda price: price * 0.5, FLOAT, 1))
    world.run(STREAMS).run(CLOSING_PRICE)
    world.arrive(
        "OpenAuction",
        [
            (0, 1007, 1, 10.0),
            (30 * MINUTE, 1020, 2, 20.0),
            (60 * MINUTE, 3000, 1, 5.0),
            (250 * MINUTE, 4000, 3, 8.0),
        ],
    )
    world.arrive(
        "ClosedAuction",
        [
            (120 * MINUTE, 1007, 11),
            (200 * MINUTE, 1020, 13),
            (260 * MINUTE, 4000, None),
            (420 * MINUTE, 3000, 12),
        ],
    )
    bids = [
        (5, 1007, 12.0, 11), (10, 1007, 14.0, 12), (35, 1020, 22.0, 13), (61, 3000, 6.0, 11), (61, 3000, 6.0, 11),
        (64, 1007, 16.0, 11), (70, 3000, 16.0, 12), (100, 1020, 30.0, 13), (150, 1020, 25.0, 11), (400, 3000, 9.0, 12),
    ]  # fmt: skip
    return world.arrive("Bid", [(t * MINUTE, *bid) for t, *bid in bids])
