"""The same questions as batch SQL for DuckDB, over the same rows, written from the questions and not from Tidegate's queries.

`SNAPSHOTS` answer at one instant `t` (the views `b`, `a`, `p` hold what had happened by then); `INSTANTS` answer for the whole stream, the
last column being the instant at which a row is true.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from math import isclose
from pathlib import Path
from typing import Any

import duckdb

Row = tuple[Any, ...]


class Oracle:
    """DuckDB over the files of a stream."""

    def __init__(self, place: Path) -> None:
        self.db = duckdb.connect()
        self.db.execute("SET TimeZone = 'UTC'; SET threads = 1")
        for folder in sorted(p for p in place.iterdir() if any(p.glob("*.parquet"))):
            table = folder.name
            self.db.execute(
                f"CREATE TABLE {table} AS SELECT *, file_row_number AS pos, filename AS part "
                f"FROM read_parquet('{folder}/*.parquet', file_row_number = true, filename = true)"
            )
            for column, kind in self.db.execute(
                f"SELECT column_name, column_type FROM (DESCRIBE {table})"
            ).fetchall():
                if kind == "TIMESTAMP WITH TIME ZONE":
                    self.db.execute(
                        f"ALTER TABLE {table} ALTER {column} TYPE TIMESTAMP USING {column} AT TIME ZONE 'UTC'"
                    )
        self.db.execute("CREATE MACRO t() AS getvariable('t')")
        # the latest multiple of a number of seconds
        self.db.execute(
            "CREATE MACRO latest(x, s) AS make_timestamp(epoch_us(x) // (s * 1000000) * (s * 1000000))"
        )
        self.db.execute("CREATE MACRO day(x) AS strftime(x, '%Y-%m-%d')")
        self.db.execute("SET VARIABLE t = TIMESTAMP '1970-01-01'")
        existing = {
            name
            for (name,) in self.db.execute(
                "SELECT table_name FROM (SHOW ALL TABLES) x(d, s, table_name, a, b, c)"
            ).fetchall()
        }
        for view, table in {"b": "bid", "a": "auction", "p": "person"}.items():
            if "auction" in existing and table in existing:
                self.db.execute(f"CREATE VIEW {view} AS SELECT * FROM {table} WHERE dateTime <= t()")

    def at(self, query: str, instant: datetime) -> list[Row]:
        self.db.execute(f"SET VARIABLE t = TIMESTAMP '{instant:%Y-%m-%d %H:%M:%S.%f}'")
        return self.db.execute(query).fetchall()

    def all(self, query: str) -> list[Row]:
        return self.db.execute(query).fetchall()


def difference(found: list[Row], expected: list[Row]) -> str | None:
    """The first rows in which two bags differ; numbers that are not whole may differ in the last places."""
    left, right = _sorted(found), _sorted(expected)
    for x, y in zip(left, right, strict=False):
        if len(x) != len(y) or not all(_same(u, v) for u, v in zip(x, y, strict=True)):
            return f"found {x}, expected {y}"
    if len(left) != len(right):
        return f"found {len(left)} rows, expected {len(right)}"
    return None


def _sorted(rows: list[Row]) -> list[Row]:
    def key(row: Row) -> tuple[Any, ...]:
        exact = [(v is None, str(v)) for v in row if not isinstance(v, (float, Decimal))]
        return (exact, [float(v) for v in row if isinstance(v, (float, Decimal))])

    return sorted(rows, key=key)


def _same(x: Any, y: Any) -> bool:
    if isinstance(x, float) or isinstance(y, float):
        return x is not None and y is not None and isclose(x, y, rel_tol=1e-9)
    return bool(x == y)


PRICED = """
    count(*), count(*) FILTER (price < 10000), count(*) FILTER (price BETWEEN 10000 AND 999999),
    count(*) FILTER (price >= 1000000)"""
COUNTED = ", ".join(
    f"count(DISTINCT {who}) FILTER ({what})"
    for who in ("bidder", "auction")
    for what in ("true", "price < 10000", "price BETWEEN 10000 AND 999999", "price >= 1000000")
)
INSIDE = "b JOIN a ON b.auction = a.id AND b.dateTime >= a.dateTime AND b.dateTime <= a.expires"


def _first(columns: str, source: str, partition: str, order: str, k: int) -> str:
    numbered = (
        f"SELECT {columns}, row_number() OVER (PARTITION BY {partition} ORDER BY {order}) AS k FROM {source}"
    )
    names = ", ".join(c.split(".")[-1].split(" AS ")[-1] for c in columns.split(", "))
    return f"SELECT {names} FROM ({numbered}) WHERE k <= {k}"


def _most(key: str, rows: str) -> str:
    return f"""WITH c AS (SELECT {key}, count(*) AS num FROM bid WHERE {rows} GROUP BY {key})
               SELECT * FROM c WHERE num = (SELECT max(num) FROM c)"""


def _highest(columns: str, price: str, rows: str) -> str:
    return f"WITH w AS (SELECT * FROM bid WHERE {rows}) SELECT {columns} FROM w WHERE {price} = (SELECT max({price}) FROM w)"


_CLOSED_WITH_WINNER = """
    SELECT x.seller, x.id, x.expires, max(y.price) AS final
    FROM auction x JOIN bid y ON y.auction = x.id AND y.dateTime BETWEEN x.dateTime AND x.expires
    WHERE x.expires <= t() GROUP BY ALL"""
_CLOSING = """
    SELECT c.itemID, o.sellerID, greatest(o.start_price, max(b.bid_price)) AS price, c.timestamp
    FROM closedauction c JOIN openauction o USING (itemID)
         LEFT JOIN bid b ON b.itemID = c.itemID AND b.timestamp <= c.timestamp
    GROUP BY c.itemID, o.sellerID, o.start_price, c.timestamp"""

SNAPSHOTS = {
    "q3": """SELECT name, city, state, a.id FROM p JOIN a ON seller = p.id
             WHERE category = 10 AND (state = 'OR' OR state = 'ID' OR state = 'CA')""",
    "q4": f"""SELECT category, avg(final)
              FROM (SELECT id, category, max(price) AS final FROM {INSIDE} GROUP BY ALL) GROUP BY category""",
    "q5": _most("auction", "dateTime > latest(t(), 2) - INTERVAL 10 SECOND AND dateTime <= latest(t(), 2)"),
    "q5_literal": _most(
        "auction",
        """dateTime >= latest(t() + INTERVAL 1 MICROSECOND, 2) - INTERVAL 10 SECOND
           AND dateTime < latest(t() + INTERVAL 1 MICROSECOND, 2)""",
    ),
    "q6": f"""SELECT seller, avg(final) FROM (
                SELECT seller, final, row_number() OVER (PARTITION BY seller ORDER BY expires DESC, id DESC) AS k
                FROM ({_CLOSED_WITH_WINNER})) WHERE k <= 10 GROUP BY seller""",
    "q7": _highest(
        "auction, price, bidder, dateTime",
        "price",
        "dateTime > latest(t(), 10) - INTERVAL 10 SECOND AND dateTime <= latest(t(), 10)",
    ),
    "q7_literal": _highest(
        "auction, price, bidder, dateTime",
        "price",
        """dateTime >= latest(t() + INTERVAL 1 MICROSECOND, 10) - INTERVAL 10 SECOND
           AND dateTime < latest(t() + INTERVAL 1 MICROSECOND, 10)""",
    ),
    "q8": """SELECT DISTINCT p.id, name FROM person p, auction a WHERE p.id = seller
             AND p.dateTime > latest(t(), 10) - INTERVAL 10 SECOND AND p.dateTime <= latest(t(), 10)
             AND a.dateTime > latest(t(), 10) - INTERVAL 10 SECOND AND a.dateTime <= latest(t(), 10)""",
    "q9": _first(
        "a.id, a.seller, a.category, b.bidder, b.price, b.dateTime", INSIDE, "a.id",
        "b.price DESC, b.dateTime, b.bidder", 1,
    ),
    "q9_literal": _first(
        "a.id, a.itemName, a.description, a.initialBid, a.reserve, a.dateTime AS opened, a.expires, a.seller, a.category, "
        "a.extra, b.auction, b.bidder, b.price, b.dateTime AS bidTime, b.extra AS bidExtra",
        INSIDE, "a.id", "b.price DESC, b.dateTime, b.bidder, b.extra", 1,
    ),
    "q11": """
        WITH gaps AS (SELECT bidder, dateTime, coalesce(dateTime - lag(dateTime) OVER w >= INTERVAL 10 SECOND, true) AS fresh
                      FROM b WINDOW w AS (PARTITION BY bidder ORDER BY dateTime)),
             numbered AS (SELECT *, sum(fresh::INT) OVER (PARTITION BY bidder ORDER BY dateTime) AS session FROM gaps)
        SELECT bidder, count(*), min(dateTime) FROM numbered GROUP BY bidder, session
        HAVING t() < max(dateTime) + INTERVAL 10 SECOND""",
    "q12": """SELECT bidder, count(*) FROM bid
              WHERE arrival > latest(t(), 10) - INTERVAL 10 SECOND AND arrival <= latest(t(), 10) GROUP BY bidder""",
    "q15": f"SELECT day(dateTime), {PRICED}, {COUNTED} FROM b GROUP BY 1",
    "q16": f"SELECT channel, day(dateTime), max(strftime(dateTime, '%H:%M')), {PRICED}, {COUNTED} FROM b GROUP BY 1, 2",
    "q17": f"SELECT auction, day(dateTime), {PRICED}, min(price), max(price), avg(price), sum(price)::BIGINT FROM b GROUP BY 1, 2",
    "q18": _first(
        "auction, bidder, price, channel, url, dateTime, extra", "b", "auction, bidder", "dateTime DESC, part DESC, pos DESC", 1
    ),
    "q18_literal": _first(
        "auction, bidder, price, channel, url, dateTime, extra", "b", "auction, bidder",
        "dateTime DESC, price, channel, url, extra", 1,
    ),
    "q19": _first(
        "auction, bidder, price, channel, url, dateTime, extra", "b", "auction",
        "price DESC, bidder, channel, url, dateTime, extra", 10,
    ),
    "q20": """SELECT auction, bidder, price, channel, url, b.dateTime, b.extra, itemName, description, initialBid, reserve,
                     a.dateTime, expires, seller, category, a.extra FROM a JOIN b ON id = auction AND category = 10""",
    "q23": """SELECT auction, bidder, price, b.dateTime, name, city, state, a.id, itemName, category
              FROM b, p, a WHERE seller = bidder AND p.id = seller""",
    "q101": "SELECT id, any_value(itemName), max(price) FROM a LEFT JOIN b ON auction = id GROUP BY id",
    "q102": """SELECT id, itemName, n FROM a JOIN (SELECT auction, count(*) AS n FROM b GROUP BY auction) ON auction = id
               WHERE n >= (SELECT count(*) / count(DISTINCT auction) FROM b)""",
    "q103": "SELECT id, itemName FROM a WHERE (SELECT count(*) FROM b WHERE auction = id) >= 20",
    "q104": "SELECT id, itemName FROM a WHERE (SELECT count(*) FROM b WHERE auction = id) < 20",
    "q105": """SELECT id, itemName, count(*) FROM a JOIN b ON auction = id GROUP BY id, itemName
               ORDER BY 3 DESC, id, itemName LIMIT 1000""",
    "local_items": """SELECT p.name, city, itemID FROM openauction o, person p, item i
                      WHERE greatest(o.timestamp, p.timestamp, i.timestamp) <= t()
                      AND sellerID = p.id AND itemID = i.id AND state = 'OR' AND categoryID = 10""",
    "open_auctions": """SELECT itemID, sellerID, start_price FROM openauction o WHERE timestamp <= t()
                        AND NOT EXISTS (FROM closedauction c WHERE c.itemID = o.itemID AND c.timestamp <= t())""",
    "current_price": """SELECT o.itemID, greatest(start_price, max(bid_price))
                        FROM openauction o LEFT JOIN bid b ON b.itemID = o.itemID AND b.timestamp <= t()
                        WHERE o.timestamp <= t() AND (SELECT count(*) FROM closedauction c WHERE c.itemID = o.itemID AND c.timestamp <= t()) = 0
                        GROUP BY o.itemID, start_price""",
    "category_price": f"""SELECT k.name, avg(price) FROM ({_CLOSING}) x JOIN item i ON i.id = itemID JOIN category k ON k.id = categoryID
                          WHERE x.timestamp > t() - INTERVAL 1 HOUR AND x.timestamp <= t() GROUP BY k.name""",
    "hot_items": _most("itemID", "timestamp > latest(t(), 60) - INTERVAL 1 HOUR AND timestamp <= latest(t(), 60)"),
    "seller_price": f"""SELECT sellerID, avg(price) FROM (
                          SELECT *, row_number() OVER (PARTITION BY sellerID ORDER BY timestamp DESC, itemID DESC) AS k
                          FROM ({_CLOSING}) WHERE timestamp <= t()) WHERE k <= 10 GROUP BY sellerID""",
    "highest_bid": _highest(
        "itemID, bid_price",
        "bid_price",
        "timestamp > latest(t(), 600) - INTERVAL 10 MINUTE AND timestamp <= latest(t(), 600)",
    ),
}  # fmt: skip
SNAPSHOTS["q19_literal"], SNAPSHOTS["q5_all"] = SNAPSHOTS["q19"], SNAPSHOTS["q5"]

_EUROS = "price::DECIMAL(18, 0) * 0.908::DECIMAL(4, 3)"
_RATED = f"""
    SELECT auction, bidder, {_EUROS}, CASE WHEN hour(dateTime) BETWEEN 8 AND 18 THEN 'dayTime'
             WHEN hour(dateTime) = 7 OR hour(dateTime) = 19 THEN 'otherTime' ELSE 'nightTime' END,
           dateTime, extra, len(list_filter(string_split(extra, ''), lambda x: x = 'c'))::INT, dateTime
    FROM bid WHERE {_EUROS} > 1000000 AND {_EUROS} < 50000000"""

INSTANTS = {
    "q0": "SELECT auction, bidder, price, channel, url, dateTime, extra, dateTime FROM bid",
    "q1": f"SELECT auction, bidder, {_EUROS}, dateTime, extra, dateTime FROM bid",
    "q2": "SELECT auction, price, dateTime FROM bid WHERE auction % 123 = 0",
    "q10": "SELECT auction, bidder, price, dateTime, extra, day(dateTime), strftime(dateTime, '%H:%M'), dateTime FROM bid",
    "q13": "SELECT auction, bidder, price, dateTime, value, dateTime FROM bid, side WHERE key = auction % 10000",
    "q14": _RATED,
    "q14_literal": _RATED,
    "q21": """SELECT auction, bidder, price, channel, coalesce(list_position(['Apple', 'Google', 'Facebook', 'Baidu'], channel) - 1,
                     nullif(split_part(url, '&channel_id=', 2), '')::BIGINT)::VARCHAR AS number, dateTime
              FROM bid WHERE number IS NOT NULL""",
    "q22": "SELECT auction, bidder, price, channel, url[25:29], url[31:35], url[37:41], dateTime FROM bid",
    "currency": "SELECT itemID, bid_price * 0.92::DOUBLE, bidderID, timestamp FROM bid",
    "selection": "SELECT itemID, bid_price, timestamp FROM bid WHERE itemID = 1007 OR itemID BETWEEN 1020 AND 1022 OR itemID = 1030",
    "closing_price": _CLOSING,
    "short_auctions": """SELECT itemID, sellerID, start_price, c.timestamp FROM openauction o JOIN closedauction c USING (itemID)
                         WHERE c.timestamp - o.timestamp < INTERVAL 5 HOUR""",
    "new_users": """SELECT p.id, p.name, itemID, o.timestamp FROM person p JOIN openauction o ON sellerID = p.id
                    WHERE o.timestamp >= p.timestamp AND o.timestamp - p.timestamp < INTERVAL 12 HOUR""",
}  # fmt: skip
