"""Delay and highest rate beside Flink and Structured Streaming: the same files, one engine after another, in one run.

    python benchmarks/live_peers.py --rates 10000 --queries filter,aggregate       # delay
    python benchmarks/live_peers.py --hold --queries filter --seconds 60           # the highest rate that is held

A process creates rows at a rate and writes a Parquet file ten times a second; every engine follows the directory. A row counts from its
creation until the engine has its effect: Tidegate when the epoch is committed to disk, Structured Streaming when a batch has been collected,
Flink when the result row is made (its sink throws nothing away but a sample is all it prints). Flink only after `make bench-peers`.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

BEATS = 10
KEYS = 1000
SAMPLES = 50
"""So many rows of the answer a second are followed: Flink's client brings some three hundred."""
ANSWERED = {"filter": lambda rate: rate / 100, "join": lambda rate: rate * rate * 2.5e-7}
"""Rows of the answer a second, where they are not as many as those that come."""
SAMPLE = re.compile(r"d\D*(\d{16}), (\d{16})")
RECENT = "WINDOW(RANGE 10 SECONDS)"

TIDEGATE = {
    "filter": "SELECT k, v FROM S WHERE v < 10",
    "aggregate": f"SELECT k, COUNT(*) AS n, SUM(v) AS s, MAX(v) AS m FROM S {RECENT} GROUP BY k",
    "join": f"SELECT a.k, a.v, b.v AS w FROM S {RECENT} a, S {RECENT} b WHERE a.k = b.k AND a.v < 5 AND b.v > 994",
    "median": f"SELECT k, MEDIAN(v) AS m FROM S {RECENT} GROUP BY k",
    "rows": "SELECT k, SUM(v) AS s FROM S WINDOW(PARTITION BY k ROWS 5) GROUP BY k",
    "three": f"SELECT a.k, COUNT(*) AS n FROM S {RECENT} a, S {RECENT} b, S {RECENT} c"
    " WHERE a.k = b.k AND b.k = c.k AND a.v < 5 AND b.v > 994 AND c.v = 500 GROUP BY a.k",
}

_NEAR = "{0}.t BETWEEN {1}.t - INTERVAL '10' SECOND AND {1}.t + INTERVAL '10' SECOND"
_OVER = "OVER (PARTITION BY k ORDER BY t RANGE BETWEEN INTERVAL '10' SECOND PRECEDING AND CURRENT ROW)"
FLINK = {
    "filter": "SELECT created, id FROM S WHERE v < 10",
    "aggregate": f"SELECT created, id, COUNT(*) {_OVER} AS n, SUM(v) {_OVER} AS s, MAX(v) {_OVER} AS m FROM S",
    "join": "SELECT GREATEST(a.created, b.created) AS created, a.id * 7 + b.id AS id, a.v, b.v AS w FROM S a, S b"
    f" WHERE a.k = b.k AND a.v < 5 AND b.v > 994 AND {_NEAR.format('a', 'b')}",
    "rows": "SELECT created, id, SUM(v) OVER (PARTITION BY k ORDER BY t ROWS BETWEEN 4 PRECEDING AND CURRENT ROW) AS s FROM S",
}
"""What Flink can say: a value per arrival, never an expiry; no median over rows, and no group over interval joins that forgets."""

SPARK = ("filter", "aggregate", "join")


def produce(folder: str, rate: Any, stopped: Any) -> None:
    """Write rows at a rate that may change, until stopped."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    dice, number, rows, last = np.random.default_rng(1), 0, 0, time.time_ns() // 1000
    next_beat = time.monotonic()
    while not stopped.is_set():
        next_beat = max(next_beat + 1 / BEATS, time.monotonic() - 1)
        time.sleep(max(0.0, next_beat - time.monotonic()))
        now = time.time_ns() // 1000
        count = max(1, round((now - last) * rate.value / 1e6))
        created = np.linspace(last, now, count, endpoint=False).astype(np.int64)
        table = pa.table({
            "id": pa.array(np.arange(rows, rows + count)),
            "k": pa.array(dice.integers(0, KEYS, count), pa.int32()),
            "v": pa.array(dice.integers(0, 1000, count), pa.int32()),
            "created": pa.array(created),
            "t": pa.array(created).cast(pa.timestamp("us", "UTC")),
        })  # fmt: skip
        hidden = Path(folder).parent / "next.parquet"
        pq.write_table(table, hidden, compression="none")
        hidden.rename(Path(folder) / f"part-{number:08}.parquet")
        number, rows, last = number + 1, rows + count, now


def told(now: int, created: int) -> None:
    print(f"d {now}, {created}", flush=True)


def run_tidegate(query: str, folder: str, step: int) -> None:
    import tidegate
    from tidegate.time import MIN

    session = tidegate.connect(state=tempfile.mkdtemp(prefix="tidegate-bench-", dir=Path(folder).parent))
    session.live = True
    session.sql(
        "REGISTER SOURCE S(id BIGINT, k INT, v INT, created BIGINT, t TIMESTAMP)"
        f" FROM parquet('{folder}') ORDERED BY t"
    )
    live = session.query(TIDEGATE[query]).start("q")
    graph, reached = live.run.graph, MIN
    print("ready", flush=True)
    while True:
        with graph.committed:
            graph.committed.wait(1)
        now, upto = time.time_ns() // 1000, graph.ledger.latest.upto
        if live.run.failure is not None:
            raise live.run.failure
        if reached != MIN:
            for created in range(reached, upto, 10_000):
                told(now, created)
        reached = upto


def run_spark(query: str, folder: str, step: int) -> None:
    from pyspark.sql import functions as f

    from tidegate.spark.context import spark_session

    spark = spark_session("local[2]")
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider")  # fmt: skip
    rows = spark.readStream.schema("id BIGINT, k INT, v INT, created BIGINT, t TIMESTAMP").parquet(folder)
    if query == "filter":
        answer = rows.where("v < 10").select("created", "id")
    elif query == "aggregate":
        windows = rows.withWatermark("t", "0 seconds").groupBy(f.window("t", "10 seconds", "1 second"), "k")
        answer = windows.agg(f.count("*"), f.sum("v"), f.max("v"), f.max("created").alias("created"), f.max("id").alias("id"))  # fmt: skip
    else:
        sides = [
            rows.where(c).withWatermark("t", "0 seconds").alias(a)
            for a, c in (("a", "v < 5"), ("b", "v > 994"))
        ]
        near = f.expr(f"a.k = b.k AND {_NEAR.format('a', 'b')}")
        answer = sides[0].join(sides[1], near).select(
            f.greatest("a.created", "b.created").alias("created"), (f.col("a.id") * 7 + f.col("b.id")).alias("id")
        )  # fmt: skip

    def seen(batch: Any, number: int) -> None:
        found = batch.select("created", "id").toPandas()
        now = time.time_ns() // 1000
        for created in found["created"][found["id"] % step == 0].head(5000):
            told(now, created)

    place = tempfile.mkdtemp(prefix="spark-bench-", dir=Path(folder).parent)
    mode = "update" if query == "aggregate" else "append"
    running = (
        answer.writeStream.outputMode(mode).foreachBatch(seen).option("checkpointLocation", place).start()
    )
    print("ready", flush=True)
    running.awaitTermination()


def run_flink(query: str, folder: str, step: int) -> None:
    from pyflink.common import Configuration
    from pyflink.table import EnvironmentSettings, TableEnvironment

    jars = ";".join(f"file://{p}" for p in os.environ["NEXMARK_FLINK_JARS"].split(os.pathsep))
    settings = {
        "pipeline.object-reuse": "true", "state.backend.type": "hashmap", "taskmanager.memory.task.heap.size": "4 g",
        "taskmanager.memory.managed.size": "512 m", "table.local-time-zone": "UTC", "parallelism.default": "2",
        "taskmanager.numberOfTaskSlots": "2", "pipeline.jars": jars, "pipeline.classpaths": jars,
        # A reader that is given no file must not hold time back.
        "table.exec.source.idle-timeout": "100 ms",
    }  # fmt: skip
    configuration = Configuration()
    for key, value in settings.items():
        configuration.set_string(key, value)
    environment = (
        EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(configuration).build()
    )
    tables = TableEnvironment.create(environment)
    # Times before the rows' newest by up to a beat are not late: files are read by two tasks.
    tables.execute_sql(
        "CREATE TABLE S (id BIGINT, k INT, v INT, created BIGINT, t AS TO_TIMESTAMP_LTZ(created / 1000, 3),"
        " WATERMARK FOR t AS t - INTERVAL '0.2' SECOND) WITH ('connector' = 'filesystem', 'format' = 'parquet',"
        f" 'path' = 'file://{folder}', 'source.monitor-interval' = '100 ms')"
    )
    now = "UNIX_TIMESTAMP(CAST(CURRENT_ROW_TIMESTAMP() AS STRING)) * 1000000 + EXTRACT(MILLISECOND FROM CURRENT_ROW_TIMESTAMP()) * 1000"
    sampled = f"SELECT {now}, created FROM ({FLINK[query]}) WHERE MOD(id, {step}) = 0"
    with tables.execute_sql(sampled).collect() as found:
        print("ready", flush=True)
        for row in found:
            told(row[0], row[1])


ENGINES: dict[str, tuple[Callable[[str, str, int], None], tuple[str, ...]]] = {
    "tidegate": (run_tidegate, tuple(TIDEGATE)),
    "flink": (run_flink, tuple(FLINK)),
    "spark": (run_spark, SPARK),
}


class Samples(threading.Thread):
    """What an engine prints: when a row's effect was there, and when the row was created."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        super().__init__(daemon=True)
        self.process, self.ready, self.found = process, threading.Event(), []

    def run(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("ready"):
                self.ready.set()
            elif match := SAMPLE.match(line):
                self.found.append((int(match[1]), int(match[2])))
        self.ready.set()


@contextmanager
def engine(name: str, query: str, folder: Path, step: int) -> Iterator[Samples]:
    """An engine in a process of its own that follows a directory."""
    python, environment = sys.executable, dict(os.environ)
    if name == "flink":
        python = "build/peers/flink/bin/python"
        jars = sorted(str(p.absolute()) for p in Path("build/peers/jars").glob("*.jar"))
        environment["NEXMARK_FLINK_JARS"] = os.pathsep.join(jars)
    errors = (folder.parent / f"{name}.log").open("w")
    command = [
        python,
        __file__,
        "--engine",
        name,
        "--queries",
        query,
        "--folder",
        str(folder),
        "--step",
        str(step),
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment, start_new_session=True)  # fmt: skip
    samples = Samples(process)
    samples.start()
    try:
        yield samples
    finally:
        os.killpg(process.pid, 9)
        process.wait()
        errors.close()


def measured(name: str, query: str, rate: int, warm: float, seconds: float) -> list[tuple[int, int]]:
    """Samples of the measured time, in order: microseconds of effect and creation."""
    place = Path(tempfile.mkdtemp(prefix="live-peers-"))
    folder = place / "rows"
    folder.mkdir()
    # Few rows at first, so that what came while the engine started is soon done; enough for a join to find pairs.
    wanted, stopped = multiprocessing.Value("d", min(float(rate), 10_000.0)), multiprocessing.Event()
    producer = multiprocessing.Process(target=produce, args=(str(folder), wanted, stopped), daemon=True)
    producer.start()
    try:
        step = max(1, int(ANSWERED.get(query, float)(rate)) // SAMPLES)
        with engine(name, query, folder, step) as samples:
            samples.ready.wait(120)
            end = time.monotonic() + 90
            while not samples.found and time.monotonic() < end and samples.process.poll() is None:
                time.sleep(0.5)
            if not samples.found:
                raise RuntimeError((place / f"{name}.log").read_text()[-2000:])
            wanted.value = float(rate)
            time.sleep(warm)
            begin = time.time_ns() // 1000
            time.sleep(seconds)
            end_at = time.time_ns() // 1000
        # A row that was created before the end and has had no effect by then has waited at least so long.
        found = [(now, created) for now, created in samples.found if begin <= now]
        newest = max((created for _, created in found), default=begin)
        if newest < end_at - 1_000_000:
            found += [(end_at, created) for created in range(newest, end_at, 10_000)]
        return found
    finally:
        stopped.set()
        producer.join()
        shutil.rmtree(place, ignore_errors=True)


def figures(found: list[tuple[int, int]]) -> tuple[float, float, float, float]:
    """Median and 99th percentile of the delay, and the medians of the first and the last quarter, in seconds."""
    import numpy as np

    delays = np.array([now - created for now, created in sorted(found)]) / 1e6
    quarter = max(1, len(delays) // 4)
    return (
        float(np.median(delays)), float(np.percentile(delays, 99)),
        float(np.median(delays[:quarter])), float(np.median(delays[-quarter:])),
    )  # fmt: skip


def held(first: float, last: float) -> bool:
    """Whether the delay stays bounded: it does not grow, and the last rows are not far behind."""
    return last < 3 and last < 1.5 * first + 0.5


def highest(name: str, query: str, rate: int, warm: float, seconds: float) -> tuple[int, tuple[float, ...]]:
    """The highest rate of a rising series that is held."""
    best: tuple[int, tuple[float, ...]] = (0, ())
    while True:
        found = figures(measured(name, query, rate, warm, seconds))
        print(
            f"    {name} {query} at {rate:,}: {' '.join(f'{x:.2f}' for x in found)}",
            file=sys.stderr,
            flush=True,
        )
        if not held(found[2], found[3]):
            return best
        best = rate, found
        rate = int(rate * 1.5)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--queries", default=",".join(TIDEGATE))
    parser.add_argument("--rates", default="10000")
    parser.add_argument("--hold", action="store_true", help="raise the rate by half until the delay grows")
    parser.add_argument("--warm", type=float, default=15)
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--engine", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    parser.add_argument("--step", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.engine:
        ENGINES[given.engine][0](given.queries, given.folder, given.step)
        return
    for query in given.queries.split(","):
        for rate in map(int, given.rates.split(",")):
            for name in given.engines.split(","):
                if query not in ENGINES[name][1]:
                    print(json.dumps({"query": query, "engine": name, "rate": None}), flush=True)
                    continue
                if given.hold:
                    rate_held, found = highest(name, query, rate, given.warm, given.seconds)
                else:
                    rate_held, found = rate, figures(measured(name, query, rate, given.warm, given.seconds))
                shown = dict(
                    zip(("median", "p99", "first", "last"), (round(x, 3) for x in found), strict=False)
                )
                print(json.dumps({"query": query, "engine": name, "rate": rate_held} | shown), flush=True)


if __name__ == "__main__":
    main()
