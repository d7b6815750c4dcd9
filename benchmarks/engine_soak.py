"""A long life: thousands of small epochs on a large state. Memory, files and seconds per epoch must stay flat.

Every key has a row that lives until it is replaced (change form), and a window over recent rows is counted per key (interval
form); answers are kept for a while only, so nothing may grow. One line is printed after each part of the epochs.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from tidegate.algebra.modify import Modify
from tidegate.algebra.operators import Aggregate, Aggregation, Window
from tidegate.algebra.windows import TimeWindow
from tidegate.language.catalog import SourceCall, StreamDefinition
from tidegate.runtime.engine import Engine
from tidegate.spark.context import spark_session
from tidegate.types import BIGINT, Field


def make_batch(start: int, rows: int, keys: int) -> pa.Table:
    random = np.random.default_rng(start)
    times = np.arange(start, start + rows, dtype=np.int64)
    return pa.table(
        {"item": random.integers(0, keys, rows), "price": random.integers(1, 10_000, rows), "t": times}
    )


def memory() -> dict[str, int]:
    """Megabytes held by this process, and by the JVM and the workers below it (where the system tells)."""
    parents: dict[int, int] = {}
    held: dict[int, tuple[str, int]] = {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            facts = dict(
                line.split(":", 1) for line in (place / "status").read_text().splitlines() if ":" in line
            )
        except OSError:
            continue
        number = int(place.name)
        parents[number] = int(facts["PPid"])
        held[number] = facts["Name"].strip(), int(facts.get("VmRSS", "0 kB").split()[0]) // 1024
    found = {"driver": held.get(os.getpid(), ("", 0))[1], "jvm": 0, "workers": 0}
    for number, (name, size) in held.items():
        above = parents.get(number)
        while above and above != os.getpid():
            above = parents.get(above)
        if above:
            found["jvm" if name == "java" else "workers"] += size
    return found


def files(folder: str) -> dict[str, int]:
    """How many there are of each kind; what Spark exchanged is deleted when Java collects its garbage."""
    counted = {"state": 0, "results": 0, "manifests": 0}
    for place, _, names in os.walk(folder):
        for kind in counted:
            if f"{os.sep}{kind}" in place:
                counted[kind] += len(names)
    if exchanged := os.environ.get("SPARK_LOCAL_DIRS"):
        counted["shuffle"] = sum(len(names) for _, _, names in os.walk(exchanged))
    return counted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--state", type=int, default=1_000_000, help="keys, and rows of the window")
    parser.add_argument("--rows", type=int, default=500, help="new rows per epoch")
    parser.add_argument("--epochs", type=int, default=3000)
    parser.add_argument("--partitions", type=int, default=1, help="small epochs are cheapest in one")
    parser.add_argument("--every", type=int, default=250, help="epochs from one line to the next")
    parser.add_argument("--minutes", type=float, default=60, help="stop after so many, whatever was reached")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["SPARK_LOCAL_DIRS"] = scratch
        soak(given)


def soak(given: argparse.Namespace) -> None:
    spark = spark_session()
    columns = (Field("item", BIGINT), Field("price", BIGINT), Field("t", BIGINT))
    bids = StreamDefinition("Bid", columns, SourceCall("memory", ("Bid",)), ordered_by="t")
    count = Aggregation("COUNT", (), BIGINT, "n", nullable=False)
    queries = {
        "latest": Modify(bids.scan, (0,)),
        "recent": Aggregate(Window(bids.scan, TimeWindow(given.state)), (0,), (count,)),
    }
    with tempfile.TemporaryDirectory() as folder:
        run = Engine(spark, folder, given.partitions).start(
            queries, {"Bid": bids}, begin=False, retention=50 * given.rows
        )
        run.graph.advance({"Bid": make_batch(0, given.state, given.state)})
        taken: list[float] = []
        end = time.perf_counter() + 60 * given.minutes
        for i in range(1, given.epochs + 1):
            batch = make_batch(given.state + i * given.rows, given.rows, given.state)
            started = time.perf_counter()
            run.graph.advance({"Bid": batch})
            taken.append(time.perf_counter() - started)
            over = time.perf_counter() > end
            if i % given.every == 0 or over:
                held, kept = memory(), files(folder)
                print(
                    f"epoch {i}: median {statistics.median(taken) * 1000:.0f} ms, worst {max(taken) * 1000:.0f} ms; "
                    + ", ".join(f"{k} {v} MB" for k, v in held.items())
                    + "; files: "
                    + ", ".join(f"{k} {v}" for k, v in kept.items()),
                    flush=True,
                )
                taken = []
            if over:
                break


if __name__ == "__main__":
    main()
