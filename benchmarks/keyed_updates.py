"""What an epoch of a keyed update stream costs: against the number of changes, and against the number of keys.

A stream of account updates (KEY id) is joined with a keyed stream of branches and grouped by city: the view keeps count and
sum per city. The kernels run alone, without Spark. Means are given beside medians: state is merged once in a while. Usage: python benchmarks/keyed_updates.py [--keys 1000000]
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np
import polars as pl

from tidegate.connectors import registry
from tidegate.kernels.rows import Frame
from tidegate.language.binder import bind
from tidegate.language.dialect import parse
from tidegate.language.statements import define
from tidegate.physical.lowering import Program, States, compile_plan
from tidegate.worker.segments import settled

SCRIPT = """
REGISTER SOURCE AccountLog(id BIGINT, branch BIGINT, balance BIGINT, t BIGINT) FROM memory('x') ORDERED BY t;
REGISTER SOURCE BranchLog(branch BIGINT, city BIGINT, t BIGINT) FROM memory('x') ORDERED BY t;
CREATE STREAM Accounts OVER AccountLog KEY id;
CREATE STREAM Branches OVER BranchLog KEY branch;
"""
VIEW = """
SELECT b.city, COUNT(*) AS n, SUM(a.balance) AS total
FROM Accounts a JOIN Branches b ON a.branch = b.branch GROUP BY b.city
"""
BRANCHES, CITIES = 1_000, 100
CHANGES = (100, 1_000, 10_000, 100_000)


def program() -> Program:
    catalog = registry.catalog()
    for statement in parse(SCRIPT):
        catalog = define(statement, catalog, SCRIPT)
    return compile_plan(bind(parse(VIEW)[0], catalog, VIEW).plan)


def raw(t: int, *columns: np.ndarray) -> Frame:
    rows = len(columns[0])
    names = [f"c{i}" for i in range(len(columns))]
    data = dict(zip(names, columns, strict=True)) | {f"c{len(columns)}": np.full(rows, t)}
    data |= {
        "ts": np.full(rows, t),
        "te": np.full(rows, t + 1),
        "n": np.ones(rows, np.int64),
        "seq": np.arange(rows),
    }
    return pl.DataFrame(data)


def filled(run: Program, keys: int, rng: np.random.Generator) -> States:
    """The state after every key was inserted."""
    branches = np.arange(BRANCHES)
    chunks = {
        "AccountLog": raw(0, np.arange(keys), rng.integers(0, BRANCHES, keys), rng.integers(0, 1_000, keys)),
        "BranchLog": raw(0, branches, branches % CITIES),
    }
    states, _ = run.step(run.initial(), chunks, 1)
    return settled(states)


def epoch_cost(run: Program, states: States, keys: int, changes: int, rng: np.random.Generator) -> str:
    """Milliseconds of one epoch in which `changes` accounts are updated: median and mean of several."""
    taken = []
    for t in range(1, 8 if changes > 10_000 else 33):
        ids = rng.choice(keys, min(changes, keys), replace=False)
        chunk = raw(t, ids, rng.integers(0, BRANCHES, len(ids)), rng.integers(0, 1_000, len(ids)))
        began = time.perf_counter()
        states, _ = run.step(states, {"AccountLog": chunk}, t + 1)
        taken.append(time.perf_counter() - began)
        states = settled(states)
    return (
        f"{1_000 * statistics.median(taken[2:]):9.1f} ms, mean {1_000 * statistics.mean(taken[2:]):9.1f} ms"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--keys", type=int, default=1_000_000, help="the largest number of keys")
    keys = parser.parse_args().keys
    run, rng = program(), np.random.default_rng(1)
    states = filled(run, keys, rng)
    print(f"{keys:,} keys")
    for changes in CHANGES:
        print(f"  {changes:>9,} changes  {epoch_cost(run, states, keys, changes, rng)}")
    print("1,000 changes")
    for fewer in (keys // 100, keys // 10, keys):
        print(f"  {fewer:>9,} keys     {epoch_cost(run, filled(run, fewer, rng), fewer, 1_000, rng)}")


if __name__ == "__main__":
    main()
