"""A small online auction, as PIPES' running example has it: OpenAuction, ClosedAuction and Bid, from a seed.

Items open at a steady rate, stay open for up to two days and get bids that rise; prices are in dollars.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

HOUR = 3_600_000_000
START = 1_767_225_600_000_000
"""2026-01-01 00:00 UTC, in microseconds."""

SCHEMA = """
CREATE STREAM OpenAuction(itemID INT NOT NULL, sellerID INT, start_price DOUBLE, timestamp TIMESTAMP)
  SOURCE memory('OpenAuction') ORDERED BY timestamp;
CREATE STREAM ClosedAuction(itemID INT NOT NULL, buyerID INT, timestamp TIMESTAMP)
  SOURCE memory('ClosedAuction') ORDERED BY timestamp;
CREATE STREAM Bid(itemID INT NOT NULL, bid_price DOUBLE, bidderID INT, timestamp TIMESTAMP)
  SOURCE memory('Bid') ORDERED BY timestamp;
"""

QUERIES = {
    "Q1 currency conversion": "SELECT itemID, DolToEuro(bid_price) AS euro, bidderID FROM Bid",
    "Q2 selection": """
        SELECT itemID, bid_price FROM Bid
        WHERE itemID = 1007 OR itemID = 1020 OR itemID = 1021 OR itemID = 1022 OR itemID = 1030""",
    "Q3 short auctions": """
        SELECT O.itemID, O.sellerID, O.start_price
        FROM OpenAuction O WINDOW(RANGE 5 HOURS), ClosedAuction C
        WHERE O.itemID = C.itemID""",
    "Q4 highest bid": """
        SELECT itemID, bid_price FROM Bid WINDOW(RANGE 10 MINUTES)
        WHERE bid_price = (SELECT MAX(bid_price) FROM Bid WINDOW(RANGE 10 MINUTES))""",
    "Q5 closing price": "SELECT itemID, sellerID, price FROM ClosingPriceStream",
    "Q6 hot item": """
        SELECT itemID FROM (SELECT B1.itemID AS itemID, COUNT(*) AS num
                            FROM Bid WINDOW(RANGE 60 MINUTES) B1 GROUP BY B1.itemID)
        WHERE num >= ALL (SELECT COUNT(*) FROM Bid WINDOW(RANGE 60 MINUTES) B2 GROUP BY B2.itemID)""",
}
"""PIPES' queries Q1 to Q6."""

VIEWS = """
CREATE STREAM CurrentPrice AS
  SELECT P.itemID, P.price, O.sellerID AS sellerID
  FROM ((SELECT itemID, bid_price AS price FROM Bid WINDOW(RANGE 2 DAYS))
        UNION ALL
        (SELECT itemID, start_price AS price FROM OpenAuction WINDOW(RANGE 2 DAYS))) P,
       ClosedAuction C,
       OpenAuction O WINDOW(RANGE 2 DAYS)
  WHERE P.itemID = C.itemID AND C.itemID = O.itemID;
CREATE STREAM ClosingPriceStream AS
  SELECT itemID, sellerID, MAX(P.price) AS price
  FROM CurrentPrice P
  GROUP BY P.itemID, P.sellerID;
"""


@dataclass(frozen=True)
class Auction:
    """The three streams, each in order of time."""

    open_auction: pa.Table
    closed_auction: pa.Table
    bid: pa.Table

    @property
    def tables(self) -> dict[str, pa.Table]:
        return {"OpenAuction": self.open_auction, "ClosedAuction": self.closed_auction, "Bid": self.bid}

    @property
    def rows(self) -> int:
        return sum(t.num_rows for t in self.tables.values())


def generate(bids: int, seed: int = 1, bids_per_item: int = 20, items_per_hour: int = 60) -> Auction:
    """An auction with about so many bids; the same seed gives the same rows.

    >>> generate(1000).bid.num_rows, generate(1000).bid.equals(generate(1000).bid)
    (1000, True)
    """
    dice = np.random.default_rng(seed)
    items = max(1, bids // bids_per_item)
    ids = np.arange(1000, 1000 + items, dtype=np.int32)
    opened = START + np.sort(dice.integers(0, items * HOUR // items_per_hour + 1, items))
    # most auctions run for some hours, none for more than the two days that the queries' windows cover
    lasting = np.minimum(dice.exponential(8 * HOUR, items), 47 * HOUR).astype(np.int64) + 60_000_000
    first_price = np.round(10 ** dice.uniform(0, 3, items), 2)
    sellers = dice.integers(1, items // 3 + 2, items).astype(np.int32)
    item = dice.integers(0, items, bids)
    when = opened[item] + (dice.random(bids) * lasting[item]).astype(np.int64)
    order = np.argsort(when, kind="stable")
    item, when = item[order], when[order]
    progress = (when - opened[item]) / lasting[item]
    price = np.round(first_price[item] * (1 + progress * dice.uniform(0.2, 3, bids)), 2)
    bidder = dice.integers(1, bids // 10 + 2, bids).astype(np.int32)
    closed = np.argsort(opened + lasting, kind="stable")
    return Auction(
        _table(itemID=ids, sellerID=sellers, start_price=first_price, timestamp=opened),
        _table(
            itemID=ids[closed],
            buyerID=dice.integers(1, bids // 10 + 2, items).astype(np.int32),
            timestamp=(opened + lasting)[closed],
        ),
        _table(itemID=ids[item], bid_price=price, bidderID=bidder, timestamp=when),
    )


def _table(**columns: np.ndarray) -> pa.Table:
    arrays = {name: pa.array(values) for name, values in columns.items()}
    arrays["timestamp"] = arrays["timestamp"].cast(pa.timestamp("us", tz="UTC"))
    return pa.table(arrays)
