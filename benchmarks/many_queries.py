"""Many different live queries in one graph: how long it takes to start them, what an epoch costs, how many files it writes.

    python benchmarks/many_queries.py 1 10 100 1000           # windows
    python benchmarks/many_queries.py filters 1 10 100 1000
    python benchmarks/many_queries.py templates 5 50 500 10000
    python benchmarks/many_queries.py common 1 10 100 1000
    python benchmarks/many_queries.py apart 1 10 100

Each query counts the rows of a key in a window of its own size, so no two of them are the same; or each has a condition of its own on one
count; or they are of five templates that differ in constants: a key, a group, a range, a prefix, a threshold; or each groups the same counts in its own way,
with the counts in common or apart (each then counts by a condition of its own that always holds). An epoch brings 1,000 rows. Memory is that
of this process, of Java and of Spark's workers, at the end.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import tidegate

EPOCHS = 8
ROWS = 1000


COUNTS = "SELECT k, COUNT(*) AS n FROM S WINDOW(RANGE {}) GROUP BY k"
TEMPLATES = (
    "SELECT k, v, name FROM S WINDOW(RANGE 20) WHERE k = {}",
    "SELECT k, COUNT(*) AS n, SUM(v) AS s FROM S WINDOW(RANGE 30) WHERE k = {} GROUP BY k",
    "SELECT k, v FROM S WINDOW(RANGE 10) WHERE v BETWEEN {} AND {} + 5",
    "SELECT name, MAX(v) AS m FROM S WINDOW(RANGE 20) WHERE name LIKE 'n{}%' GROUP BY name",
    "SELECT k, AVG(v) AS a FROM S WINDOW(RANGE 20) GROUP BY k HAVING AVG(v) > {}",
)
OVER = "SELECT n % {} AS rest, COUNT(*) AS c FROM ({}) GROUP BY n % {}"
APART = "SELECT k, COUNT(*) AS n FROM S WINDOW(RANGE 20) WHERE v + {} >= 0 GROUP BY k"
KINDS = {
    "common": lambda i: OVER.format(i + 2, COUNTS.format(20), i + 2),
    "apart": lambda i: OVER.format(i + 2, APART.format(i), i + 2),
    "templates": lambda i: TEMPLATES[i % 5].replace("{}", str(i // 5)),
    "windows": lambda i: COUNTS.format(10 + i),
    "filters": lambda i: f"SELECT k, n FROM ({COUNTS.format(20)}) WHERE n > {i}",
}


def measured(kind: str, count: int) -> str:
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        session = tidegate.connect(state=folder)
        session.stream("S", [{"k": 0, "v": 0, "name": "n0", "t": 0}], ordered_by="t")
        begun = time.perf_counter()
        texts = {f"q{i}": KINDS[kind](i) for i in range(count)}
        queries = {name: session.query(text) for name, text in texts.items()}
        definitions = queries["q0"].definitions
        run = session.engine.start(
            {name: q.plan for name, q in queries.items()}, definitions, graph="bench", begin=False
        )
        started = time.perf_counter() - begun
        dice = random.Random(1)
        seconds, files = [], []
        for epoch in range(EPOCHS):
            rows = [_row(dice, epoch) for _ in range(ROWS)]
            before = _files(folder)
            begun = time.perf_counter()
            run.graph.advance({"S": rows})
            seconds.append(time.perf_counter() - begun)
            files.append(len(_files(folder) - before))
        size = sum(f.stat().st_size for f in Path(folder).rglob("*") if f.is_file()) / 1e6
        rates = f"{median(seconds[2:]):6.2f} s, {_memory():,.0f} MB"
        return (
            f"{count:5} {kind}: started in {started:6.2f} s, first epoch {seconds[0]:6.2f} s, "
            f"then {rates}; {median(files[2:]):.0f} new files per epoch, {size:.1f} MB in all"
        )


def _row(dice: random.Random, epoch: int) -> dict[str, object]:
    k = dice.randrange(50)
    return {"k": k, "v": dice.randrange(1000), "name": f"n{k}", "t": epoch * 10 + dice.randrange(10)}


def _memory() -> float:
    """Megabytes of this process and of all that it has started."""
    pages: dict[int, int] = {}
    parents: dict[int, int] = {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            pages[int(place.name)] = int((place / "statm").read_text().split()[1])
            parents[int(place.name)] = int((place / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    mine = {os.getpid()}
    while more := {p for p, parent in parents.items() if parent in mine} - mine:
        mine |= more
    return sum(pages[p] for p in mine) * os.sysconf("SC_PAGESIZE") / 1e6


def _files(folder: str) -> set[str]:
    """Files of state and answers."""
    return {str(f) for f in Path(folder).rglob("*") if f.is_file() and {"state", "results"} & set(f.parts)}


if __name__ == "__main__":
    asked = sys.argv[1:]
    chosen = asked.pop(0) if asked and asked[0] in KINDS else "windows"
    for argument in asked or ["1", "10", "100", "1000"]:
        print(measured(chosen, int(argument)), flush=True)
