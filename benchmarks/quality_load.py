"""A load that doubles, quadruples and falls back over ten minutes, with quality ranges under a budget and without: memory, delay and quality second by second.

    python benchmarks/quality_load.py run ranges --memory '6 MB' --out ranges.json       # ten minutes by the clock
    python benchmarks/quality_load.py run fixed --out fixed.json
    python benchmarks/quality_load.py run ranges --keys 100 --work 0.5 --out ranges.json   # few keys: the cores are what gets scarce
    python benchmarks/quality_load.py page ranges.json fixed.json docs   # the curves

A thread creates rows at a rate and hands them in twenty times a second; a row's time is the instant of its creation. Memory are the bytes of state that the operators keep, the delay
is the time from a row's creation to the commit of the epoch that makes its instant final, the longest in each second.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import tidegate
from tidegate.experiments.pictures import lines
from tidegate.session import Session
from tidegate.time import MIN

WINDOWS = {"ranges": "RANGE BETWEEN 5 SECONDS AND 60 SECONDS", "fixed": "RANGE 60 SECONDS"}
QUERY = (
    "SELECT a.k, a.v, b.v AS w FROM S WINDOW({window}) a JOIN S WINDOW({window}) b ON a.k = b.k AND a.v < b.v"
)
BEATS = 20
LIMIT = 30.0
"""Seconds of delay after which a run without ranges is ended; at the latest it is when load has fallen back."""


def rate(second: float, seconds: float, base: float) -> float:
    """Rows a second: as usual for a fifth of the time, twice as many from a quarter on, four times from 45 to 65 %, as usual from 70 %."""
    at, factor = second / seconds, [1.0, 1.0, 2.0, 2.0, 4.0, 4.0, 1.0, 1.0]
    return base * float(np.interp(at, [0.0, 0.2, 0.25, 0.4, 0.45, 0.65, 0.7, 1.0], factor))


class Creator(threading.Thread):
    """Creates rows as the load says, until it is stopped."""

    def __init__(self, session: Session, seconds: float, base: float, keys: int) -> None:
        super().__init__(daemon=True)
        self.session, self.seconds, self.base, self.keys = session, seconds, base, keys
        self.stopped = threading.Event()

    def run(self) -> None:
        dice, begun = np.random.default_rng(1), time.time_ns() // 1000
        last, owed = begun, 0.0
        while not self.stopped.wait(1 / BEATS):
            now = time.time_ns() // 1000
            owed += (now - last) / 1e6 * rate((now - begun) / 1e6, self.seconds, self.base)
            count = int(owed)
            owed -= count
            times = np.linspace(last, now, count, endpoint=False).astype(np.int64)
            columns = {
                "k": pa.array(dice.integers(0, self.keys, count), pa.int32()),
                "v": pa.array(dice.integers(0, 1000, count), pa.int32()),
                "t": pa.array(times).cast(pa.timestamp("us", "UTC")),
            }
            if count:
                self.session.push("S", pa.table(columns))
            last = now


def run(
    way: str, seconds: float, base: float, keys: int, memory: str | None, work: float | None
) -> dict[str, Any]:
    """One run; a line for each second."""
    budgets = {"memory": memory, "work": work} if way == "ranges" else {}
    with tempfile.TemporaryDirectory() as place:
        tg = tidegate.connect(state=place, partitions=1, **budgets)
        tg.stream("S", [], ordered_by="t", schema="k INT, v INT, t TIMESTAMP")
        live = tg.query(QUERY.format(window=WINDOWS[way])).start(
            "pairs", epoch=0.5, epochs="driver", retention=10_000_000
        )
        creator, graph = Creator(tg, seconds, base, keys), live.run.graph
        creator.start()
        begun, found, worst, reached = time.monotonic(), [], 0.0, MIN
        while (passed := time.monotonic() - begun) < seconds:
            with graph.committed:
                graph.committed.wait(0.5)
            upto, now = graph.ledger.latest.upto, time.time_ns() // 1000
            if upto > reached:
                worst = max(worst, (now - reached) / 1e6) if reached != MIN else worst
                reached = upto
            elif reached != MIN:
                worst = max(worst, (now - reached) / 1e6)
            if passed >= len(found):
                figures = graph.figures
                status = live.run.manager.status()
                size = (status.get("settings") or {"": 60_000_000}).values()
                found.append(
                    {
                        "second": passed,
                        "rate": rate(passed, seconds, base),
                        "memory": sum(a.size for a in figures.activities.by_id.values()),
                        "delay": worst,
                        "window": min(size) / 1e6,
                        "epoch": figures.epochs[-1].seconds if figures.epochs else 0.0,
                    }
                )
                if len(found) % 20 == 0:
                    print(found[-1], flush=True)
                if way == "fixed" and (worst > LIMIT or passed > 0.75 * seconds):
                    break
                worst = 0.0
        creator.stopped.set()
        made = [[str(v) for v in row] for row in tg.running.decisions()]
        tg.close()
    return {"way": way, "seconds": seconds, "base": base, "budget": memory, "lines": found, "decisions": made}


def page(ranges: dict[str, Any], fixed: dict[str, Any], folder: Path, prefix: str) -> None:
    """The curves as pictures."""
    every = {"with ranges": ranges["lines"], "without": fixed["lines"]}

    def curves(name: str, unit: float = 1.0) -> dict[str, list[tuple[float, float]]]:
        return {way: [(x["second"], x[name] / unit) for x in each[::4]] for way, each in every.items()}

    ends = {}
    if ranges["budget"] is not None:
        budget = float(ranges["budget"].split()[0])
        ends["budget"] = [(0.0, budget), (ranges["seconds"], budget)]
    pictures = {
        "load-rate": lines(
            "Load", "seconds", "rows per second", {"rows handed in": curves("rate")["with ranges"]}
        ),
        "load-memory": lines("State", "seconds", "MB", {**curves("memory", 1e6), **ends}),
        "load-delay": lines("Delay of answers", "seconds", "seconds", curves("delay")),
        "load-quality": lines("Window in force", "seconds", "seconds", curves("window")),
    }
    for name, picture in pictures.items():
        (folder / f"{prefix}{name}.svg").write_text(picture, encoding="utf-8")
    for way, each in every.items():
        tail = [x for x in each if x["second"] > 5]
        print(
            f"{way}: at most {max(x['memory'] for x in tail) / 1e6:.1f} MB, delay at most {max(x['delay'] for x in tail):.1f} s, {len(each)} s"
        )
    print(f"{len(ranges['decisions'])} decisions")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("run")
    one.add_argument("way", choices=WINDOWS)
    one.add_argument("--seconds", type=float, default=600.0)
    one.add_argument("--base", type=float, default=400.0)
    one.add_argument("--keys", type=int, default=4_000)
    one.add_argument("--memory", help="as in '6 MB'")
    one.add_argument("--work", type=float, help="a part of the cores")
    one.add_argument("--out", type=Path, required=True)
    two = commands.add_parser("page")
    two.add_argument("ranges", type=Path)
    two.add_argument("fixed", type=Path)
    two.add_argument("folder", type=Path)
    two.add_argument("--prefix", default="", help="of the pictures' names")
    given = parser.parse_args()
    if given.command == "run":
        given.out.write_text(
            json.dumps(run(given.way, given.seconds, given.base, given.keys, given.memory, given.work))
        )
    else:
        page(*(json.loads(p.read_text()) for p in (given.ranges, given.fixed)), given.folder, given.prefix)


if __name__ == "__main__":
    main()
