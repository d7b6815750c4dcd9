"""A live run from files into a Parquet sink, as a program of its own: so that a test can kill it.

Arguments: the directory with the rows' files, the state directory, the sink's directory, the number of partitions.
"""

from __future__ import annotations

import random
import sys

import sqlglot

from tidegate.algebra.operators import Aggregate, Aggregation, Join, Window
from tidegate.algebra.windows import TimeWindow
from tidegate.connectors.sinks import make_sink
from tidegate.language.catalog import SourceCall, StreamDefinition
from tidegate.runtime.engine import Engine
from tidegate.runtime.places import EPOCHS
from tidegate.spark.context import spark_session
from tidegate.types import BIGINT, INT, Field


def main(rows: str, state: str, out: str, partitions: str) -> None:
    spark = spark_session("local[2]")
    options = (("maxFilesPerTrigger", "1"),)
    columns = (Field("k", INT), Field("v", INT), Field("t", BIGINT))
    source = StreamDefinition("S", columns, SourceCall("json", (rows,), options), ordered_by="t", slack=5)
    recent = Window(source.scan, TimeWindow(10))
    counts = Aggregate(recent, (0,), (Aggregation("COUNT", (), BIGINT, "n", nullable=False),))
    plan = Join(recent, counts, "inner", sqlglot.parse_one("c0 = c3", dialect="spark"))
    run = Engine(spark, state).start(
        {"q": plan},
        {"S": source},
        sinks={"q": [make_sink("parquet", (out,))]},
        partitions=int(partitions),
        begin=False,
    )
    run.graph.files_limit = 2
    run.graph.epochs.asked = random.choice(EPOCHS)
    run.structured = random.random() < 0.5
    if not run.graph.ledger.latest.finished:
        run.drain()
        run.graph.finish()
    else:
        run.graph.deliver()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
