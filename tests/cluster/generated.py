"""Generated queries on a cluster, recorded and live: every answer is the reference's.

Arguments: the master, the interpreter of its workers, a state directory, the first seed, the number of rounds.
"""

from __future__ import annotations

import sys

from tests.spark.test_engine_against_reference import MODES, play_live, play_recorded
from tidegate.runtime.engine import Engine
from tidegate.spark.context import spark_session

SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
}


def main(master: str, python: str, state: str, first: str, rounds: str) -> None:
    spark = spark_session(master, conf={**SETTINGS, "spark.pyspark.python": python})
    engine = Engine(spark, state, partitions=2)
    recorded = live = 0
    for number in range(int(rounds)):
        seed, mode = int(first) + 1000 * number, MODES[number % len(MODES)]
        recorded += play_recorded(engine, seed, mode, partitions=3)
        live += play_live(engine, seed + 500, mode, f"graph-{number}", 2, places=("spark", "spark", "driver"))
    print(f"compared: {recorded} recorded, {live} live")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
