"""Delay from a row's creation to the commit of the epoch that shows its effect, for rows that a program hands in.

    python benchmarks/live_delay.py --rates 1000,10000 --queries filter,aggregate
    python benchmarks/live_delay.py --rates 100000 --queries aggregate --soak 30   # a line a minute: delay, epochs, memory, files

A thread creates rows at a rate and hands them in twenty times a second; a row's time is the instant of its creation, and counts from then on
(waiting to be handed in included). The graph runs with its default settings.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
from engine_soak import files, memory

import tidegate
from tidegate.runtime.running import LiveQuery
from tidegate.session import Session
from tidegate.time import MIN

RECENT = "WINDOW(RANGE 10 SECONDS)"
QUERIES = {
    "filter": "SELECT k, v FROM S WHERE v < 10",
    "aggregate": f"SELECT k, COUNT(*) AS n, SUM(v) AS s, MAX(v) AS m FROM S {RECENT} GROUP BY k",
    "join": f"SELECT a.k, a.v, b.v AS w FROM S {RECENT} a, S {RECENT} b WHERE a.k = b.k AND a.v < 5 AND b.v > 994",
    "median": f"SELECT k, MEDIAN(v) AS m FROM S {RECENT} GROUP BY k",
    "rows": "SELECT k, SUM(v) AS s FROM S WINDOW(PARTITION BY k ROWS 5) GROUP BY k",
    "three": f"SELECT a.k, COUNT(*) AS n FROM S {RECENT} a, S {RECENT} b, S {RECENT} c"
    " WHERE a.k = b.k AND b.k = c.k AND a.v < 5 AND b.v > 994 AND c.v = 500 GROUP BY a.k",
}
BEATS = 20
KEYS = 1000


class Creator(threading.Thread):
    """Creates rows at a rate until it is stopped."""

    def __init__(self, session: Session, rate: int) -> None:
        super().__init__(daemon=True)
        self.session, self.rate, self.stopped = session, rate, threading.Event()

    def run(self) -> None:
        dice, last = np.random.default_rng(1), time.time_ns() // 1000
        while not self.stopped.wait(1 / BEATS):
            now = time.time_ns() // 1000
            count = max(1, round((now - last) * self.rate / 1e6))
            times = np.linspace(last, now, count, endpoint=False).astype(np.int64)
            columns = {
                "k": pa.array(dice.integers(0, KEYS, count), pa.int32()),
                "v": pa.array(dice.integers(0, 1000, count), pa.int32()),
                "t": pa.array(times).cast(pa.timestamp("us", "UTC")),
            }
            self.session.push("S", pa.table(columns))
            last = now


def commits(live: LiveQuery, seconds: float) -> Iterator[tuple[int, int, int]]:
    """Begin and end of the time that an epoch makes final, and when it did (microseconds)."""
    graph, end = live.run.graph, time.monotonic() + seconds
    reached = graph.ledger.latest.upto
    while (left := end - time.monotonic()) > 0:
        with graph.committed:
            graph.committed.wait(left)
        now, upto = time.time_ns() // 1000, graph.ledger.latest.upto
        if upto > reached:
            if reached != MIN:
                yield reached, upto, now
            reached = upto


@contextmanager
def running(name: str, rate: int, retention: int | None = None) -> Iterator[tuple[LiveQuery, str]]:
    """A query over rows that are created at a rate, and where its state is."""
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        session = tidegate.connect(state=folder)
        session.stream("S", pa.table({"k": pa.array([], pa.int32()), "v": pa.array([], pa.int32()), "t": pa.array([], pa.timestamp("us", "UTC"))}), ordered_by="t")  # fmt: skip
        live = session.query(QUERIES[name]).start("q", retention=retention)
        creator = Creator(session, rate)
        creator.start()
        yield live, folder
        creator.stopped.set()
        creator.join()
        session.close()


def figures(live: LiveQuery, rate: int, seconds: float) -> str:
    """Delay and epochs during some seconds."""
    delays, places, epochs = [], [], 0
    for low, high, now in commits(live, seconds):
        # Rows are created evenly: every part of the time that became final holds as many.
        delays.append(now - np.linspace(low, high, max(1, round((high - low) * rate / 1e6))))
        places.append(live.run.graph.epochs.last)
        epochs += 1
    taken = np.concatenate(delays) / 1e6 if delays else np.array([float("nan")])
    length = live.run.status()["epoch_seconds"]
    return (
        f"median {np.median(taken):.2f} s, p99 {np.percentile(taken, 99):.2f} s; {epochs} epochs,"
        f" {places.count('driver')} in the driver, median {np.median(length):.3f} s, worst {np.max(length):.2f} s"
    )


def measured(name: str, rate: int, warm: float, seconds: float) -> None:
    with running(name, rate) as (live, _):
        for _ in commits(live, warm):
            pass
        print(f"{name:>9} at {rate:>7,} rows/s: {figures(live, rate, seconds)}", flush=True)


def soak(name: str, rate: int, minutes: int) -> None:
    """Answers are kept for a minute, so nothing may grow."""
    with running(name, rate, retention=60_000_000) as (live, folder):
        for minute in range(1, minutes + 1):
            shown = figures(live, rate, 60)
            held, kept = memory(), files(folder)
            more = [*(f"{k} {v} MB" for k, v in held.items()), *(f"{v} {k} files" for k, v in kept.items())]
            print(f"minute {minute}: {shown}; {', '.join(more)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rates", default="1000,10000,100000")
    parser.add_argument("--queries", default=",".join(QUERIES))
    parser.add_argument("--warm", type=float, default=15, help="seconds before anything is counted")
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--soak", type=int, default=0, help="minutes to run, with a line for each")
    given = parser.parse_args()
    for name in given.queries.split(","):
        for rate in map(int, given.rates.split(",")):
            if given.soak:
                soak(name, rate, given.soak)
            else:
                measured(name, rate, given.warm, given.seconds)


if __name__ == "__main__":
    main()
