"""Structured Streaming with its own operators, where they can express the query; results are thrown away.

Each micro-batch reads as many files as there are cores. What it cannot say: an aggregate above a join or above an aggregate unless both are by
time window, the first rows of a key beside an event-time join, windows that move with every row.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any

from pyspark import __version__
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

from tidegate.nexmark.engines.protocol import serve

Read = Callable[[str], DataFrame]

_EUROS = "0.908 * price AS price"
_NO_CHAIN = "no aggregate above a join or an aggregate that is not by time window"
REFUSED = {
    "q4": _NO_CHAIN,
    "q9": _NO_CHAIN,
    "sliding_max": "windows hop; none moves with every row",
    "sliding_join": _NO_CHAIN,
}
"""Why there is no such query."""


def _q3(read: Read) -> DataFrame:
    auctions, persons = (
        read("auction").filter("category = 10"),
        read("person").filter("state IN ('OR', 'ID', 'CA')"),
    )
    return auctions.join(persons, auctions["seller"] == persons["id"]).select(
        "name", "city", "state", auctions["id"]
    )


def _q5(read: Read) -> DataFrame:
    def counts() -> DataFrame:
        hop = F.window("dateTime", "10 seconds", "2 seconds").alias("w")
        return _late(read("bid")).groupBy("auction", hop).agg(F.count("*").alias("num"))

    every = counts().select(F.col("w").alias("v"), "auction", "num")
    most = counts().groupBy("w").agg(F.max("num").alias("most"))
    return every.join(most, (every["v"] == most["w"]) & (every["num"] == most["most"])).select(
        "auction", "num", "v"
    )


def _q7(read: Read) -> DataFrame:
    tumble = F.window("dateTime", "10 seconds")
    bids = _late(read("bid")).select("auction", "price", "bidder", tumble.alias("v"))
    most = _late(read("bid")).groupBy(tumble.alias("w")).agg(F.max("price").alias("most"))
    return bids.join(most, (bids["v"] == most["w"]) & (bids["price"] == most["most"])).drop("w", "most")


def _q8(read: Read) -> DataFrame:
    tumble = F.window("dateTime", "10 seconds")
    p = _late(read("person")).select("id", "name", tumble.alias("w"))
    a = _late(read("auction")).select("seller", tumble.alias("v")).dropDuplicates(["seller", "v"])
    return p.join(a, (p["id"] == a["seller"]) & (p["w"] == a["v"])).select("id", "name", "w")


def _q11(read: Read) -> DataFrame:
    return _late(read("bid")).groupBy("bidder", F.session_window("dateTime", "10 seconds")).count()


_RANKS = ("true", "price < 10000", "price >= 10000 AND price < 1000000", "price >= 1000000")


def _counts() -> list[Column]:
    """Bids, bidders and auctions in all and by rank. Streams refuse COUNT(DISTINCT); the size of a set is the same."""
    found = [F.count_if(F.expr(rank)) for rank in _RANKS]
    for who in ("bidder", "auction"):
        found += [F.size(F.collect_set(F.when(F.expr(rank), F.col(who)))) for rank in _RANKS]
    return [column.alias(f"n{i}") for i, column in enumerate(found)]


def _day() -> Column:
    return F.date_format("dateTime", "yyyy-MM-dd").alias("day")


def _q16(read: Read) -> DataFrame:
    latest = F.max(F.date_format("dateTime", "HH:mm"))
    return read("bid").groupBy("channel", _day()).agg(latest, *_counts())


def _q17(read: Read) -> DataFrame:
    ranks = [F.count_if(F.expr(rank)) for rank in _RANKS]
    return (
        read("bid")
        .groupBy("auction", _day())
        .agg(*ranks, F.min("price"), F.max("price"), F.avg("price"), F.sum("price"))
    )


def _bid() -> Column:
    return F.struct("auction", "bidder", "price", "channel", "url", "dateTime", "extra")


def _q18(read: Read) -> DataFrame:
    return read("bid").groupBy("bidder", "auction").agg(F.max_by(_bid(), "dateTime"))


def _q19(read: Read) -> DataFrame:
    return read("bid").groupBy("auction").agg(F.max_by(_bid(), "price", 10))


def _q20(read: Read) -> DataFrame:
    auctions, bids = read("auction").filter("category = 10"), read("bid")
    return bids.join(auctions, bids["auction"] == auctions["id"])


def _interval_join(read: Read) -> DataFrame:
    bids = _late(read("bid")).select("auction", "bidder", "price", F.col("dateTime").alias("t"))
    auctions = _late(read("auction")).select("id", "seller", F.col("dateTime").alias("u"))
    near = F.expr("auction = id AND t > u - INTERVAL 10 SECONDS AND t < u + INTERVAL 10 SECONDS")
    return bids.join(auctions, near).select("auction", "bidder", "price", "seller")


def _late(frame: DataFrame) -> DataFrame:
    return frame.withWatermark("dateTime", "4 seconds")


_URL_ID = "regexp_extract(url, '(&|^)channel_id=([^&]*)', 2)"
QUERIES: dict[str, tuple[str, Callable[[Read], DataFrame]]] = {
    "q0": ("append", lambda read: read("bid")),
    "q1": ("append", lambda read: read("bid").selectExpr("auction", "bidder", _EUROS, "dateTime", "extra")),
    "q2": ("append", lambda read: read("bid").filter("auction % 123 = 0").select("auction", "price")),
    "q3": ("append", _q3),
    "q5": ("append", _q5),
    "q7": ("append", _q7),
    "q8": ("append", _q8),
    "q11": ("append", _q11),
    "q15": ("update", lambda read: read("bid").groupBy(_day()).agg(*_counts())),
    "q16": ("update", _q16),
    "q17": ("update", _q17),
    "q18": ("update", _q18),
    "q19": ("update", _q19),
    "q20": ("append", _q20),
    "q21": (
        "append",
        lambda read: (
            read("bid")
            .selectExpr("auction", "bidder", "price", "channel", f"{_URL_ID} AS id")
            .filter("id <> ''")
        ),
    ),
    "q22": (
        "append",
        lambda read: read("bid").selectExpr(
            "auction", "bidder", "price", *(f"split_part(url, '/', {k})" for k in (4, 5, 6))
        ),
    ),
    "interval_join": ("append", _interval_join),
}


def prepare(name: str, small: str, cores: int) -> tuple[dict[str, Any], Callable[[str], int]]:
    if name not in QUERIES:
        raise NotImplementedError(REFUSED.get(name, "not written for Structured Streaming"))
    settings = {
        "spark.sql.shuffle.partitions": str(cores),
        "spark.driver.memory": "6g",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
        ),
        "spark.ui.enabled": "false",
    }
    builder = SparkSession.builder.master(f"local[{cores}]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()

    def run(place: str) -> int:
        with tempfile.TemporaryDirectory() as checkpoint:
            writer = stream(spark, name, place, cores).format("noop").trigger(availableNow=True)
            writer.option("checkpointLocation", checkpoint).start().awaitTermination()
            return 0

    run(small)
    return {
        "version": __version__,
        "output": "changes per batch, thrown away",
        "files per batch": cores,
    } | settings, run


def stream(spark: SparkSession, name: str, place: str, files: int) -> Any:
    """A query over the files below `place`, some of them a batch, as a writer that needs a sink."""
    mode, build = QUERIES[name]

    def read(table: str) -> DataFrame:
        schema = spark.read.parquet(f"{place}/{table}").schema
        rows = spark.readStream.schema(schema).option("maxFilesPerTrigger", str(files))
        return rows.parquet(f"{place}/{table}").drop("arrival")

    return build(read).writeStream.outputMode(mode)


if __name__ == "__main__":
    serve(prepare)
