"""A join in which one key has nine of ten rows of a side: its rows spread over all tasks, and not.

Bids of the last second with the offers of the last minute for the same item. Prints, for the best of some runs, the seconds of the whole run and the
longest of the tasks behind the exchange, without their waiting for rows.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import tidegate
from benchmarks.hot_groups import measured, write_bids

QUERY = """SELECT B.item, B.price, O.reserve FROM Bid WINDOW(RANGE 1 SECOND) B {kind} Offer WINDOW(RANGE 60 SECONDS) O
           ON B.item = O.item"""
BEGIN = 1_700_000_000_000_000


def write_offers(path: Path, rows: int, keys: int, span: int) -> None:
    """Offers of all items alike, over so many microseconds."""
    random = np.random.default_rng(8)
    micros = np.sort(random.integers(0, span, rows)) + BEGIN
    item, reserve = random.integers(0, keys, rows), random.integers(1, 10_000, rows)
    pq.write_table(
        pa.table({"item": item, "reserve": reserve, "t": pa.array(micros, pa.timestamp("us", "UTC"))}), path
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--offers", type=int, default=100_000)
    parser.add_argument("--keys", type=int, default=1_000)
    parser.add_argument("--partitions", type=int, default=2)
    parser.add_argument("--times", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bids, offers = Path(folder) / "bids", Path(folder) / "offers.parquet"
        write_bids(bids, given.rows, given.keys)
        write_offers(offers, given.offers, given.keys, given.rows * 1000)
        tg = tidegate.connect(state=f"{folder}/state")
        tg.sql(f"""
            CREATE STREAM Bid(item BIGINT, price BIGINT, t TIMESTAMP) SOURCE parquet('{bids}') ORDERED BY t;
            CREATE STREAM Offer(item BIGINT, reserve BIGINT, t TIMESTAMP) SOURCE parquet('{offers}') ORDERED BY t;
        """)
        for kind in ("JOIN", "LEFT JOIN", "LEFT SEMI JOIN"):
            query = tg.query(
                QUERY.format(kind=kind).replace(*(", O.reserve", "") if "SEMI" in kind else "--")
            )
            assert query.chosen != query.plan, "no hot key was found"
            found = [
                measured(tg.engine, plan, query.definitions, given.times, given.partitions)
                for plan in (query.plan, query.chosen)
            ]
            (run, task, work, rows), (spread_run, spread_task, spread_work, spread_rows) = found
            assert rows == spread_rows, "the answers differ"
            print(
                f"{given.rows:,} rows, {kind}, {given.partitions} partitions: run {run:.2f} -> {spread_run:.2f} s, "
                f"longest task {task:.2f} -> {spread_task:.2f} s, most work of kernels in a task {work:.2f} -> {spread_work:.2f} "
                f"processor seconds, {rows:,} rows of the answer"
            )
        tg.close()


if __name__ == "__main__":
    main()
