"""Flink: the public benchmark's SQL, streaming over the same files, with its usual settings for speed; results are thrown away.

Runs in an environment of its own (`make bench-peers`): NEXMARK_FLINK_JARS names the connectors that Flink does not bring.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from typing import Any

from tidegate.nexmark.engines.protocol import serve

SETTINGS = {
    "pipeline.object-reuse": "true",
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "2 s",
    "table.exec.mini-batch.size": "50000",
    "table.optimizer.distinct-agg.split.enabled": "true",
    "state.backend.type": "hashmap",
    "taskmanager.memory.task.heap.size": "4 g",
    "taskmanager.memory.managed.size": "512 m",
    "table.local-time-zone": "UTC",
}

_COLUMNS = {
    "person": "id BIGINT, name STRING, emailAddress STRING, creditCard STRING, city STRING, state STRING, "
    "dateTime TIMESTAMP(3), extra STRING",
    "auction": "id BIGINT, itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT, dateTime TIMESTAMP(3), "
    "expires TIMESTAMP(3), seller BIGINT, category BIGINT, extra STRING",
    "bid": "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, dateTime TIMESTAMP(3), extra STRING",
}

_RANKS = {
    "": "TRUE",
    "rank1": "price < 10000",
    "rank2": "price >= 10000 AND price < 1000000",
    "rank3": "price >= 1000000",
}
_COUNTS = ", ".join(
    f"COUNT({what}) FILTER (WHERE {rank})"
    for what in ("*", "DISTINCT bidder", "DISTINCT auction")
    for rank in _RANKS.values()
)
_INSIDE = "auction A, bid B WHERE A.id = B.auction AND B.dateTime BETWEEN A.dateTime AND A.expires"

QUERIES = {
    "q0": "SELECT auction, bidder, price, channel, url, dateTime, extra FROM bid",
    "q1": "SELECT auction, bidder, 0.908 * price AS price, dateTime, extra FROM bid",
    "q2": "SELECT auction, price FROM bid WHERE MOD(auction, 123) = 0",
    "q3": """SELECT P.name, P.city, P.state, A.id FROM auction AS A INNER JOIN person AS P ON A.seller = P.id
             WHERE A.category = 10 AND (P.state = 'OR' OR P.state = 'ID' OR P.state = 'CA')""",
    "q4": f"""SELECT Q.category, AVG(Q.final) FROM (SELECT MAX(B.price) AS final, A.category FROM {_INSIDE} GROUP BY A.id, A.category) Q
              GROUP BY Q.category""",
    "q5": """
        SELECT AuctionBids.auction, AuctionBids.num
        FROM (SELECT auction, COUNT(*) AS num, window_start AS starttime, window_end AS endtime
              FROM TABLE(HOP(TABLE bid, DESCRIPTOR(dateTime), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
              GROUP BY auction, window_start, window_end) AS AuctionBids
        JOIN (SELECT MAX(CountBids.num) AS maxn, CountBids.starttime, CountBids.endtime
              FROM (SELECT COUNT(*) AS num, window_start AS starttime, window_end AS endtime
                    FROM TABLE(HOP(TABLE bid, DESCRIPTOR(dateTime), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
                    GROUP BY auction, window_start, window_end) AS CountBids
              GROUP BY CountBids.starttime, CountBids.endtime) AS MaxBids
        ON AuctionBids.starttime = MaxBids.starttime AND AuctionBids.endtime = MaxBids.endtime AND AuctionBids.num >= MaxBids.maxn""",
    "q7": """
        SELECT B.auction, B.price, B.bidder, B.dateTime, B.extra
        FROM bid B JOIN (SELECT MAX(price) AS maxprice, window_end AS dateTime
                         FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(dateTime), INTERVAL '10' SECOND)) GROUP BY window_start, window_end) B1
        ON B.price = B1.maxprice WHERE B.dateTime BETWEEN B1.dateTime - INTERVAL '10' SECOND AND B1.dateTime""",
    "q8": """
        SELECT P.id, P.name, P.starttime
        FROM (SELECT id, name, window_start AS starttime, window_end AS endtime
              FROM TABLE(TUMBLE(TABLE person, DESCRIPTOR(dateTime), INTERVAL '10' SECOND)) GROUP BY id, name, window_start, window_end) P
        JOIN (SELECT seller, window_start AS starttime, window_end AS endtime
              FROM TABLE(TUMBLE(TABLE auction, DESCRIPTOR(dateTime), INTERVAL '10' SECOND)) GROUP BY seller, window_start, window_end) A
        ON P.id = A.seller AND P.starttime = A.starttime AND P.endtime = A.endtime""",
    "q9": f"""SELECT id, seller, category, bidder, price, bidTime FROM
                (SELECT A.id, A.seller, A.category, B.bidder, B.price, B.dateTime AS bidTime,
                        ROW_NUMBER() OVER (PARTITION BY A.id ORDER BY B.price DESC, B.dateTime ASC) AS rownum FROM {_INSIDE})
              WHERE rownum <= 1""",
    "q11": """SELECT bidder, COUNT(*) AS bid_count, window_start AS starttime, window_end AS endtime
              FROM TABLE(SESSION(TABLE bid PARTITION BY bidder, DESCRIPTOR(dateTime), INTERVAL '10' SECOND))
              GROUP BY bidder, window_start, window_end""",
    "q15": f"SELECT DATE_FORMAT(dateTime, 'yyyy-MM-dd') AS `day`, {_COUNTS} FROM bid GROUP BY DATE_FORMAT(dateTime, 'yyyy-MM-dd')",
    "q16": f"""SELECT channel, DATE_FORMAT(dateTime, 'yyyy-MM-dd') AS `day`, MAX(DATE_FORMAT(dateTime, 'HH:mm')), {_COUNTS}
               FROM bid GROUP BY channel, DATE_FORMAT(dateTime, 'yyyy-MM-dd')""",
    "q17": """SELECT auction, DATE_FORMAT(dateTime, 'yyyy-MM-dd') AS `day`, COUNT(*), COUNT(*) FILTER (WHERE price < 10000),
                     COUNT(*) FILTER (WHERE price >= 10000 AND price < 1000000), COUNT(*) FILTER (WHERE price >= 1000000),
                     MIN(price), MAX(price), AVG(price), SUM(price)
              FROM bid GROUP BY auction, DATE_FORMAT(dateTime, 'yyyy-MM-dd')""",
    "q18": """SELECT auction, bidder, price, channel, url, dateTime, extra FROM
                (SELECT *, ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY dateTime DESC) AS rank_number FROM bid)
              WHERE rank_number <= 1""",
    "q19": """SELECT auction, bidder, price, channel, url, dateTime, extra FROM
                (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC) AS rank_number FROM bid)
              WHERE rank_number <= 10""",
    "q20": """SELECT auction, bidder, price, channel, url, B.dateTime, B.extra, itemName, description, initialBid, reserve,
                     A.dateTime, expires, seller, category, A.extra
              FROM bid AS B INNER JOIN auction AS A ON B.auction = A.id WHERE A.category = 10""",
    # a value per arrival only: Flink's OVER never says when a row leaves the window
    "sliding_max": """SELECT auction, COUNT(*) OVER w, SUM(price) OVER w, MAX(price) OVER w FROM bid WINDOW w AS
                        (PARTITION BY auction ORDER BY dateTime RANGE BETWEEN INTERVAL '60' SECOND PRECEDING AND CURRENT ROW)""",
    "interval_join": """SELECT B.auction, B.bidder, B.price, A.seller FROM bid B, auction A WHERE B.auction = A.id AND
                        B.dateTime BETWEEN A.dateTime - INTERVAL '10' SECOND AND A.dateTime + INTERVAL '10' SECOND""",
}


def prepare(name: str, small: str, cores: int) -> tuple[dict[str, Any], Callable[[str], int]]:
    if name not in QUERIES:
        raise NotImplementedError("not written for Flink")
    table_api, version = import_module("pyflink.table"), import_module("pyflink.version").__version__
    configure = import_module("pyflink.common").Configuration

    settings = {**SETTINGS, "parallelism.default": str(cores), "taskmanager.numberOfTaskSlots": str(cores)}
    jars = ";".join(f"file://{p}" for p in os.environ["NEXMARK_FLINK_JARS"].split(os.pathsep))

    def quoted(sql: str) -> str:
        return sql.replace("dateTime", "`dateTime`")  # a reserved word of Flink's

    def run(place: str) -> int:
        configuration = configure()
        for key, value in {**settings, "pipeline.jars": jars, "pipeline.classpaths": jars}.items():
            configuration.set_string(key, value)
        environment = (
            table_api.EnvironmentSettings.new_instance()
            .in_streaming_mode()
            .with_configuration(configuration)
            .build()
        )
        tables = table_api.TableEnvironment.create(environment)
        for table, columns in _COLUMNS.items():
            tables.execute_sql(
                quoted(
                    f"CREATE TABLE {table} ({columns}, WATERMARK FOR dateTime AS dateTime - INTERVAL '4' SECOND) "
                )
                + f"WITH ('connector' = 'filesystem', 'path' = 'file://{place}/{table}', 'format' = 'parquet', "
                "'parquet.utc-timezone' = 'true')"
            )
        counted = os.environ.get("NEXMARK_FLINK_COUNT")
        if counted:
            with tables.execute_sql(quoted(QUERIES[name])).collect() as rows:
                return sum(1 for _ in rows)
        tables.execute_sql(
            f"CREATE TABLE nowhere WITH ('connector' = 'blackhole') AS {quoted(QUERIES[name])}"
        ).wait()
        return 0

    run(small)
    return {"version": version, "output": "every change, thrown away"} | settings, run


if __name__ == "__main__":
    serve(prepare)
