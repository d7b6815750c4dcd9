"""Structured Streaming with its own operators, where they can express the query; results are thrown away.

Each micro-batch reads as many files as there are cores. What it cannot say: an aggregate above a join or another aggregate unless both are by time
window, several DISTINCT aggregates, the first k rows of each key.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any

from pyspark import __version__
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

from tidegate.nexmark.engines.protocol import serve

_EUROS = "0.908 * price AS price"
_NO_RANKING = "no ranking of the rows of a key"
_NO_CHAIN = "no aggregate above a join or an aggregate that is not by time window"
REFUSED = {
    "q4": _NO_CHAIN, "q5": _NO_CHAIN, "q7": _NO_CHAIN, "q9": _NO_RANKING, "q15": "no DISTINCT aggregates", "q16": "no DISTINCT aggregates",
    "q19": _NO_RANKING,
}  # fmt: skip
"""Why there is no such query."""


def _q3(read: Callable[[str], DataFrame]) -> DataFrame:
    auctions, persons = (
        read("auction").filter("category = 10"),
        read("person").filter("state IN ('OR', 'ID', 'CA')"),
    )
    return auctions.join(persons, auctions["seller"] == persons["id"]).select(
        "name", "city", "state", auctions["id"]
    )


def _q8(read: Callable[[str], DataFrame]) -> DataFrame:
    persons, auctions = _late(read("person")), _late(read("auction"))
    p = persons.select("id", "name", F.window("dateTime", "10 seconds").alias("w"))
    a = auctions.select("seller", F.window("dateTime", "10 seconds").alias("v"))
    return p.join(a, (p["id"] == a["seller"]) & (p["w"] == a["v"])).select("id", "name", "w")


def _q11(read: Callable[[str], DataFrame]) -> DataFrame:
    return _late(read("bid")).groupBy("bidder", F.session_window("dateTime", "10 seconds")).count()


def _q17(read: Callable[[str], DataFrame]) -> DataFrame:
    ranks = ("price < 10000", "price >= 10000 AND price < 1000000", "price >= 1000000")
    return (
        read("bid")
        .groupBy("auction", F.date_format("dateTime", "yyyy-MM-dd").alias("day"))
        .agg(
            F.count("*"), *(F.count_if(F.expr(r)) for r in ranks), F.min("price"), F.max("price"), F.avg("price"), F.sum("price")
        )
    )  # fmt: skip


def _q18(read: Callable[[str], DataFrame]) -> DataFrame:
    bids = read("bid")
    return bids.groupBy("bidder", "auction").agg(
        F.max_by(F.struct("price", "channel", "url", "dateTime", "extra"), "dateTime")
    )


def _q20(read: Callable[[str], DataFrame]) -> DataFrame:
    auctions, bids = read("auction").filter("category = 10"), read("bid")
    return bids.join(auctions, bids["auction"] == auctions["id"])


def _late(frame: DataFrame) -> DataFrame:
    return frame.withWatermark("dateTime", "4 seconds")


_URL_ID = "regexp_extract(url, '(&|^)channel_id=([^&]*)', 2)"
QUERIES: dict[str, tuple[str, Callable[[Callable[[str], DataFrame]], DataFrame]]] = {
    "q0": ("append", lambda read: read("bid")),
    "q1": ("append", lambda read: read("bid").selectExpr("auction", "bidder", _EUROS, "dateTime", "extra")),
    "q2": ("append", lambda read: read("bid").filter("auction % 123 = 0").select("auction", "price")),
    "q3": ("append", _q3),
    "q8": ("append", _q8),
    "q11": ("append", _q11),
    "q17": ("update", _q17),
    "q18": ("update", _q18),
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
    mode, build = QUERIES[name]

    def run(place: str) -> int:
        def read(table: str) -> DataFrame:
            schema = spark.read.parquet(f"{place}/{table}").schema
            stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", str(cores))
            return stream.parquet(f"{place}/{table}").drop("arrival")

        with tempfile.TemporaryDirectory() as checkpoint:
            writer = build(read).writeStream.format("noop").outputMode(mode).trigger(availableNow=True)
            running = writer.option("checkpointLocation", checkpoint).start()
            running.awaitTermination()
            return 0

    run(small)
    return {
        "version": __version__,
        "output": "changes per batch, thrown away",
        "files per batch": cores,
    } | settings, run


if __name__ == "__main__":
    serve(prepare)
