"""Grouping below a join (PIPES Fig. 9), run by the kernels alone: the closing price of auctions, and a join of two long windows.

    python benchmarks/grouping_below_join.py [--items 20000] [--bids 100] [--runs 3]

Prints tables for docs/performance.md. Processor time of the whole run is the median of interleaved runs, after one that compiles; all answers are
compared. For the second query, work per epoch at steady state, with what the cost model expects.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from statistics import median

import numpy as np
import polars as pl

from tidegate.algebra import operators as op
from tidegate.algebra.printing import formula
from tidegate.calibration import steady
from tidegate.connectors import registry
from tidegate.kernels.rows import Frame
from tidegate.language.binder import bind
from tidegate.language.catalog import Catalog
from tidegate.language.dialect import parse
from tidegate.language.statements import define
from tidegate.optimizer.cost import Costs
from tidegate.optimizer.driver import optimize
from tidegate.optimizer.rules.grouping import push_grouping_below_join, push_partial_grouping_below_join
from tidegate.optimizer.search import search
from tidegate.physical.lowering import Program, compile_plan
from tidegate.time import MAX, MIN, UNITS
from tidegate.worker.segments import settled

STREAMS = """
CREATE STREAM OpenAuction(itemID INT, sellerID INT, start_price REAL, timestamp TIMESTAMP) SOURCE memory('OpenAuction') ORDERED BY timestamp;
CREATE STREAM ClosedAuction(itemID INT, buyerID INT, timestamp TIMESTAMP) SOURCE memory('ClosedAuction') ORDERED BY timestamp;
CREATE STREAM Bid(itemID INT, bid_price REAL, bidderID INT, timestamp TIMESTAMP) SOURCE memory('Bid') ORDERED BY timestamp;
"""

QUERY = """
SELECT P.itemID, O.sellerID, MAX(P.price) AS price
FROM ((SELECT itemID, bid_price AS price FROM Bid WINDOW(RANGE 2 DAYS))
      UNION ALL (SELECT itemID, start_price AS price FROM OpenAuction WINDOW(RANGE 2 DAYS))) P,
     ClosedAuction C, OpenAuction O WINDOW(RANGE 2 DAYS)
WHERE P.itemID = C.itemID AND C.itemID = O.itemID
GROUP BY P.itemID, O.sellerID
"""

DAY = UNITS["DAY"]
EPOCHS = 20


def catalog() -> Catalog:
    known = registry.catalog()
    for statement in parse(STREAMS):
        known = define(statement, known, STREAMS)  # type: ignore[arg-type]
    return known


def rows(items: int, bids: int, seed: int = 1) -> dict[str, Frame]:
    """Auctions that open over twenty days and last up to two, with some bids each."""
    dice = np.random.default_rng(seed)
    opened = np.sort(dice.integers(0, EPOCHS * DAY, items))
    length = dice.integers(DAY // 10, 2 * DAY, items)
    item = np.arange(items)
    bid_item = np.repeat(item, bids)
    bid_at = opened[bid_item] + (dice.random(items * bids) * length[bid_item]).astype(np.int64)
    return {
        "OpenAuction": _frame(opened, item, dice.integers(0, 1000, items), dice.random(items)),
        "ClosedAuction": _frame(opened + length, item, dice.integers(0, 1000, items)),
        "Bid": _frame(bid_at, bid_item, dice.random(items * bids), dice.integers(0, 1000, items * bids)),
    }


def _frame(at: np.ndarray, *columns: np.ndarray) -> Frame:
    types = {"f": pl.Float32, "i": pl.Int32}
    made = {f"c{i}": pl.Series(c, dtype=types[c.dtype.kind]) for i, c in enumerate(columns)}
    frame = pl.DataFrame(made).with_columns(
        pl.Series(f"c{len(columns)}", at, dtype=pl.Datetime("us")).dt.replace_time_zone("UTC"),
        ts=pl.Series(at, dtype=pl.Int64),
        te=pl.Series(at + 1, dtype=pl.Int64),
        n=pl.lit(1, dtype=pl.Int64),
    )
    return frame.sort("ts", maintain_order=True).with_columns(seq=pl.int_range(pl.len(), dtype=pl.Int64))


def answered(program: Program, sources: dict[str, Frame]) -> Iterator[Frame]:
    """The answer in epochs of a day."""
    states, since = program.initial(), MIN
    for upto in (*range(DAY, (EPOCHS + 3) * DAY, DAY), MAX):
        chunks = {n: r.filter((pl.col("ts") >= since) & (pl.col("ts") < upto)) for n, r in sources.items()}
        states, out = program.step(states, chunks, upto)
        states, since = settled(states), upto
        yield out


def measured(program: Program, sources: dict[str, Frame]) -> tuple[float, Frame]:
    begun = time.process_time()
    out = pl.concat([*answered(program, sources)])
    return time.process_time() - begun, out


def plans() -> dict[str, op.Node]:
    """The plan that the rules give, the same with its grouping below the upper join, and with a grouping on both sides of it."""
    left, _ = optimize(bind(parse(QUERY)[0], catalog(), QUERY).plan)
    assert isinstance(left, op.Project)
    (grouping,) = [n for n in left.walk() if isinstance(n, op.Aggregate)]
    (below,) = push_grouping_below_join(grouping)
    both = next(iter(push_partial_grouping_below_join(grouping)))
    return {
        "as written": left,
        "grouping below the join, distinct auctions": optimize(left.with_inputs(below))[0],
        "grouping below the join and above": optimize(left.with_inputs(both))[0],
    }


def settled_answer(rows: Frame) -> Frame:
    """Rows with their validity, equal ones added up."""
    names = [c for c in rows.columns if c != "n"]
    return rows.group_by(names).agg(pl.col("n").sum()).filter(pl.col("n") != 0).sort(names)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=20_000)
    parser.add_argument("--bids", type=int, default=100)
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    sources = rows(given.items, given.bids)
    found = plans()
    programs = {name: compile_plan(plan) for name, plan in found.items()}
    answers = {name: settled_answer(measured(p, sources)[1]) for name, p in programs.items()}
    one = answers["as written"]
    assert all(one.equals(other) for other in answers.values()), "the plans differ"
    times: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(given.runs):
        for name, program in programs.items():
            times[name].append(measured(program, sources)[0])
    print("| plan of the closing price | processor time (median, least to most) |")
    print("|---|---|")
    for name, seconds in times.items():
        print(f"| {name} | {median(seconds):.2f} s ({min(seconds):.2f} to {max(seconds):.2f} s) |")
    print(
        f"\n{given.items} auctions with {given.bids} bids each, {len(one)} closing prices, epochs of a day.\n"
    )
    long_windows()


LONG = """
SELECT s.a, r.c, MAX(s.b) AS m FROM S WINDOW(RANGE 500) s JOIN R WINDOW(RANGE 500) r ON s.a = r.a GROUP BY s.a, r.c
"""


def long_windows() -> None:
    """What the search finds for a join of two long windows, and what both plans work in an epoch."""
    world = steady.World(
        {"S": 100.0, "R": 10.0, "Q": 0.1, "P": 0.1}, {"a": 500, "b": 1000, "c": 20, "d": 40, "e": 40}
    )
    plan, streams = steady.planned(LONG, steady.catalog()), world.rows(4_000)
    costs = Costs(steady.statistics(plan, streams), epoch=500.0)
    chosen = search(plan, costs)
    print("| plan of the long windows | measured per epoch | expected per epoch | rows out of the join |")
    print("|---|---|---|---|")
    for name, made, expected in (
        ("as written", plan, chosen.greedy),
        ("found by the search", chosen.plan, chosen.cost),
    ):
        work = steady.measured(compile_plan(made), streams, 500, 2, 5)
        seconds = sum(w.seconds for w in work.values())
        (met,) = [w.given for w in work.values() if w.kernel == "Join"]
        print(f"| {name} | {1e3 * seconds:.0f} ms | {1e3 * expected.work * 500:.0f} ms | {met:,.0f} |")
    print(f"\nFound: {formula(chosen.plan)}")


if __name__ == "__main__":
    main()
