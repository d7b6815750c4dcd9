"""DuckDB: the answer at the end of the stream only, as one batch. A lower limit: nothing is maintained, no instant in between is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import duckdb

from tidegate.nexmark.engines.protocol import serve

_INSIDE = "bid b JOIN auction a ON b.auction = a.id AND b.dateTime BETWEEN a.dateTime AND a.expires"
_RANKS = ", ".join(
    f"count({what}) FILTER ({rank})"
    for what in ("*", "DISTINCT bidder", "DISTINCT auction")
    for rank in ("true", "price < 10000", "price >= 10000 AND price < 1000000", "price >= 1000000")
)

QUERIES = {
    "q0": "SELECT auction, bidder, price, channel, url, dateTime, extra FROM bid",
    "q1": "SELECT auction, bidder, 0.908 * price AS price, dateTime, extra FROM bid",
    "q2": "SELECT auction, price FROM bid WHERE auction % 123 = 0",
    "q3": """SELECT name, city, state, a.id FROM auction a JOIN person p ON seller = p.id
             WHERE category = 10 AND state IN ('OR', 'ID', 'CA')""",
    "q4": f"""SELECT category, avg(final) FROM (SELECT a.id, category, max(price) AS final FROM {_INSIDE} GROUP BY a.id, category)
              GROUP BY category""",
    "q5": """WITH c AS (SELECT s, auction, count(*) AS num
                        FROM (SELECT auction, unnest(range(dateTime_us // 2000000 + 1, dateTime_us // 2000000 + 6)) AS s
                              FROM (SELECT auction, epoch_us(dateTime) AS dateTime_us FROM bid))
                        GROUP BY s, auction),
                  m AS (SELECT s, max(num) AS num FROM c GROUP BY s)
             SELECT c.* FROM c JOIN m USING (s, num)""",
    "q7": """WITH m AS (SELECT epoch_us(dateTime) // 10000000 AS s, max(price) AS price FROM bid GROUP BY s)
             SELECT b.auction, b.price, b.bidder, b.dateTime FROM bid b JOIN m ON epoch_us(b.dateTime) // 10000000 = s AND b.price = m.price""",
    "q8": """SELECT DISTINCT p.id, p.name, epoch_us(p.dateTime) // 10000000 AS s FROM person p JOIN auction a
             ON p.id = a.seller AND epoch_us(p.dateTime) // 10000000 = epoch_us(a.dateTime) // 10000000""",
    "q9": f"""SELECT * FROM (SELECT a.id, a.seller, a.category, b.bidder, b.price, b.dateTime,
                             row_number() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.dateTime) AS k FROM {_INSIDE}) WHERE k = 1""",
    "q11": """SELECT bidder, count(*), min(dateTime) FROM
                (SELECT *, sum(fresh::INT) OVER (PARTITION BY bidder ORDER BY dateTime) AS session FROM
                  (SELECT bidder, dateTime, coalesce(dateTime - lag(dateTime) OVER (PARTITION BY bidder ORDER BY dateTime)
                    >= INTERVAL 10 SECOND, true) AS fresh FROM bid)) GROUP BY bidder, session""",
    "q15": f"SELECT strftime(dateTime, '%Y-%m-%d') AS day, {_RANKS} FROM bid GROUP BY day",
    "q16": f"SELECT channel, strftime(dateTime, '%Y-%m-%d') AS day, max(strftime(dateTime, '%H:%M')), {_RANKS} FROM bid GROUP BY channel, day",
    "q17": """SELECT auction, strftime(dateTime, '%Y-%m-%d') AS day, count(*), count(*) FILTER (price < 10000),
                     count(*) FILTER (price >= 10000 AND price < 1000000), count(*) FILTER (price >= 1000000),
                     min(price), max(price), avg(price), sum(price) FROM bid GROUP BY auction, day""",
    "q18": """SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY bidder, auction ORDER BY dateTime DESC) AS k FROM bid) WHERE k = 1""",
    "q19": "SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY auction ORDER BY price DESC) AS k FROM bid) WHERE k <= 10",
    "q20": "SELECT b.*, a.* FROM bid b JOIN auction a ON b.auction = a.id WHERE category = 10",
    # a value per arrival: when a row leaves its window is not shown
    "sliding_max": """SELECT auction, count(*) OVER w, sum(price) OVER w, max(price) OVER w FROM bid WINDOW w AS
                        (PARTITION BY auction ORDER BY dateTime RANGE BETWEEN INTERVAL 59999 MILLISECONDS PRECEDING AND CURRENT ROW)""",
    "interval_join": """SELECT b.auction, b.bidder, b.price, a.seller FROM bid b JOIN auction a ON b.auction = a.id
                          AND b.dateTime > a.dateTime - INTERVAL 10 SECOND AND b.dateTime < a.dateTime + INTERVAL 10 SECOND""",
}


def define(db: duckdb.DuckDBPyConnection, place: str) -> None:
    """The streams below `place` as views."""
    db.execute("SET TimeZone = 'UTC'")
    for table in ("person", "auction", "bid"):
        rows = f"SELECT * EXCLUDE (arrival) FROM read_parquet('{place}/{table}/*.parquet')"
        db.execute(f"CREATE VIEW {table} AS {rows}")


def prepare(name: str, small: str, cores: int) -> tuple[dict[str, Any], Callable[[str], int]]:
    if name not in QUERIES:
        raise NotImplementedError("not written for DuckDB")

    def run(place: str) -> int:
        db = duckdb.connect()
        db.execute(f"SET threads = {cores}")
        define(db, place)
        db.execute(f"CREATE TEMP TABLE answer AS {QUERIES[name]}")
        found = db.execute("SELECT count(*) FROM answer").fetchone()
        assert found is not None
        return int(found[0])

    run(small)
    return {"version": duckdb.__version__, "threads": cores, "output": "the last answer, in memory"}, run


if __name__ == "__main__":
    serve(prepare)
