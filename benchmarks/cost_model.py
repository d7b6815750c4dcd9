"""The cost model against what happens: estimates beside measurements, and the chosen plan beside all others.

Kernels run epoch by epoch in this process, without Spark; seconds are those of processors (all threads of this process). Writes its
tables into docs/performance.md, between marks.

    python benchmarks/cost_model.py                     # both parts, into the page
    python benchmarks/cost_model.py --part estimates    # 30 generated plans, operator by operator
    python benchmarks/cost_model.py --part choices      # the chosen plan beside the best and the worst
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa

from tidegate import auction
from tidegate.algebra import operators as op
from tidegate.algebra.printing import formula
from tidegate.calibration.steady import Comparison, World, catalog, compared, statistics
from tidegate.connectors import registry
from tidegate.kernels.rows import Frame
from tidegate.language.binder import bind
from tidegate.language.catalog import Catalog
from tidegate.language.dialect import parse
from tidegate.language.statements import define
from tidegate.nexmark.catalog import query as nexmark_query
from tidegate.nexmark.generator import Nexmark
from tidegate.optimizer.cost import Costs, cost
from tidegate.optimizer.driver import optimize
from tidegate.optimizer.rules import ALTERNATIVES
from tidegate.optimizer.search import JoinBlock, join_block, search
from tidegate.physical.lowering import compile_plan
from tidegate.runtime.source_statistics import gathered
from tidegate.scalars.columns import dtype
from tidegate.time import MIN
from tidegate.worker.segments import settled

ROUNDS = 6
"""How often each plan is run; the least time counts."""

PAGE = Path(__file__).resolve().parents[1] / "docs" / "performance.md"

# Estimates -------------------------------------------------------------------------------------------------------------


def generated(dice: random.Random) -> str:
    """A query over the streams of a world: sources, windows, conditions and what is asked are drawn."""
    w = lambda: dice.choice((200, 500, 1_200, 3_000))  # noqa: E731
    where = dice.choice(
        ("", "", f" WHERE S.b < {dice.randint(5, 45)}", f" WHERE S.x > {dice.randint(5, 80)}")
    )
    s = f"S WINDOW(RANGE {w()}{dice.choice(('', '', ' SLIDE 100'))})"
    keys = dice.choice(("a", "b", "a, b", "s"))
    aggregate = dice.choice(("COUNT(*)", "SUM(x)", "MAX(x)", "AVG(x)", "COUNT(DISTINCT b)"))
    both = f"S WINDOW(RANGE {dice.choice((200, 500))}) JOIN R WINDOW(RANGE {dice.choice((200, 500))}) ON S.a = R.a"
    return dice.choice((
        f"SELECT {keys}, {aggregate} AS n FROM {s}{where} GROUP BY {keys}",
        f"SELECT {keys}, {aggregate} AS n FROM {s}{where} GROUP BY {keys}",
        f"SELECT {aggregate} AS n FROM {s}{where}",
        f"SELECT S.x, R.y FROM {both}{where}",
        f"SELECT R.c, COUNT(*) AS n FROM {both}{where} GROUP BY R.c",
        f"SELECT S.x, R.y, Q.d FROM {both} JOIN Q WINDOW(RANGE {dice.choice((100, 300))}) ON R.c = Q.c{where}",
        f"SELECT DISTINCT {keys} FROM {s}{where}",
        f"SELECT a, x FROM {s}{where} ORDER BY x DESC LIMIT {dice.choice((3, 20))}",
        f"SELECT a, x FROM S WINDOW(RANGE {w()}) WHERE a IN (SELECT a FROM R WINDOW(RANGE {dice.choice((100, 400))}))",
        f"SELECT S.x, T.name FROM {s} JOIN T ON S.a = T.a{where}",
        f"SELECT a, {aggregate} AS n FROM S WINDOW(ROWS {dice.choice((300, 2000))}) GROUP BY a",
        f"SELECT b, {aggregate} AS n FROM K GROUP BY b",
        f"SELECT a FROM {s} EXCEPT SELECT a FROM R WINDOW(RANGE {dice.choice((100, 400))})",
        f"SELECT S.x, R.y FROM S WINDOW(RANGE {dice.choice((200, 500))}) LEFT JOIN R WINDOW(RANGE 300) ON S.a = R.a",
        f"SELECT g.n, R.c FROM (SELECT a, {aggregate} AS n FROM {s} GROUP BY a) g JOIN R WINDOW(RANGE 300) ON g.a = R.a",
    ))  # fmt: skip


def estimates(count: int = 30) -> list[Comparison]:
    """Operators of generated plans at steady state, none of them among those that prices were fitted to."""
    known, found = catalog(), []
    for seed in range(count):
        dice = random.Random(7_000 + seed)
        text = generated(dice)
        rate = dice.choice((0.4, 1.0, 2.5))
        world = World(
            {"S": rate, "R": rate * dice.choice((0.3, 1.0)), "Q": rate / 3, "P": 0.1},
            {"a": dice.choice((150, 600)), "b": 50, "c": 120, "d": 40, "e": 40},
            seed,
        )
        print(f"{seed:>2} {text}", file=sys.stderr)
        found += compared(text, known, world, dice.choice((700, 1_700, 5_300)), 3_300, 6)
    return found


def quality(pairs: list[tuple[float, float]]) -> tuple[float, float]:
    """The median of how far estimates are off, and Spearman's rank correlation."""
    measured, estimated = (np.array(v) for v in zip(*pairs, strict=True))
    off = np.median(np.abs(estimated - measured) / measured)
    ranks = [np.argsort(np.argsort(v)) for v in (measured, estimated)]
    return float(off), float(np.corrcoef(*ranks)[0, 1])


def estimates_table() -> str:
    found = estimates()
    named = {
        "rows given in an epoch": [(c.work.given, c.given) for c in found if c.work.given >= 1],
        "rows kept": [(c.work.kept, c.kept) for c in found if c.work.kept >= 1 and c.kept],
        "bytes kept": [(c.work.size, c.size) for c in found if c.work.kept >= 1 and c.size],
        "seconds of work": [(c.work.seconds, c.seconds) for c in found],
        "seconds of work, more than 1 ms": [
            (c.work.seconds, c.seconds) for c in found if c.work.seconds > 1e-3
        ],
    }
    lines = [
        "| per operator and epoch | operators | off in the median | rank correlation |",
        "|---|---:|---:|---:|",
    ]
    for name, pairs in named.items():
        off, rank = quality(pairs)
        lines.append(f"| {name} | {len(pairs)} | {off:.0%} | {rank:.3f} |")
    lines += ["", _nothing_kept(found)]
    kernels: dict[str, list[Comparison]] = {}
    for c in found:
        kernels.setdefault(c.work.kernel, []).append(c)
    lines += [
        "",
        "| kernel | operators | ms measured | ms estimated | off in the median |",
        "|---|---:|---:|---:|---:|",
    ]
    for name, every in sorted(kernels.items()):
        off = np.median([abs(c.seconds - c.work.seconds) / max(c.work.seconds, 1e-9) for c in every])
        sums = [sum(v) * 1e3 for v in ((c.work.seconds for c in every), (c.seconds for c in every))]
        lines.append(f"| {name} | {len(every)} | {sums[0]:.1f} | {sums[1]:.1f} | {off:.0%} |")
    return "\n".join(lines)


def _nothing_kept(found: list[Comparison]) -> str:
    """Where nothing is kept or was expected to be, a part of it says nothing: there, how many rows and bytes estimates are off."""
    empty = [c for c in found if not (c.work.kept >= 1 and c.kept)]
    none = sum(c.work.kept < 1 and c.kept < 1 for c in empty)
    rows = [abs(c.work.kept - c.kept) for c in empty]
    sizes = [abs(c.work.size - c.size) for c in empty]
    return (
        f"Not among rows and bytes kept: {len(empty)} operators of which measurement or estimate says that they keep nothing. {none} keep nothing and were expected to; "
        f"the others are off by up to {max(rows):,.0f} rows and {max(sizes):,.0f} bytes ({sum(rows):,.0f} rows and {sum(sizes):,.0f} bytes in all)."
    )


# Choices ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scene:
    """A query over rows: its plan as written, the rows of its sources, and what is known of them."""

    name: str
    written: op.Node
    rows: Mapping[str, Frame]
    costs: Costs
    epochs: int = 8


def all_plans(scene: Scene) -> list[op.Node]:
    """The plan as it was written, as the rules leave it, that with its joins in every order, and with every alternative in every place."""
    greedy = optimize(scene.written)[0]
    found = dict.fromkeys((greedy, scene.written))
    for node in greedy.walk():
        block = join_block(node)
        if block is not None and len(block.relations) > 2:
            for order in orders(block, tuple(range(len(block.relations)))):
                found[optimize(_replaced(greedy, node, block.as_asked(order)))[0]] = None
        for alternative in ALTERNATIVES:
            for other in alternative(node):
                found[optimize(_replaced(greedy, node, other))[0]] = None
    found[search(greedy, scene.costs).plan] = None
    return list(found)[:40]


def orders(block: JoinBlock, chosen: tuple[int, ...]) -> Iterator[op.Node]:
    """Every tree over some relations, mirror images left out."""
    if len(chosen) == 1:
        yield block._side(chosen)
        return
    for left, right in block.ways(chosen):
        if chosen[0] in left:
            for a, b in product(orders(block, left), orders(block, right)):
                yield _over(block, chosen, left, right, a, b)


def _over(
    block: JoinBlock,
    chosen: tuple[int, ...],
    left: tuple[int, ...],
    right: tuple[int, ...],
    a: op.Node,
    b: op.Node,
) -> op.Node:
    made = block.plan_of(chosen, left, right)
    if isinstance(made, op.Project):
        return made.with_inputs(made.input.with_inputs(a, b))  # type: ignore[no-any-return]
    return made.with_inputs(a, b)  # type: ignore[no-any-return]


def _replaced(plan: op.Node, old: op.Node, new: op.Node) -> op.Node:
    if plan is old:
        return new
    inputs = [_replaced(i, old, new) for i in plan.inputs]
    return plan.with_inputs(*inputs) if inputs else plan  # type: ignore[no-any-return]


def seconds(plan: op.Node, scene: Scene) -> float:
    """Processor time of a plan over the rows; the first epoch warms up and does not count."""
    program = compile_plan(plan)
    times = [rows["ts"] for name, rows in scene.rows.items() if rows.height and rows["ts"].max() != MIN]
    first, last = min(t.min() for t in times if t.min() != MIN), max(t.max() for t in times)  # type: ignore[type-var]
    step = (last - first) // scene.epochs + 1  # type: ignore[operator]
    states, since, spent = program.initial(), MIN, 0.0
    for number in range(scene.epochs):
        upto = first + (number + 1) * step
        chunks = {
            n: rows.filter((pl.col("ts") >= since) & (pl.col("ts") < upto)) for n, rows in scene.rows.items()
        }
        begun = time.process_time()
        states, _out = program.step(states, chunks, upto)
        spent += time.process_time() - begun if number else 0.0
        states, since = settled(states), upto
    return spent


def choices_table() -> str:
    lines = [
        "| query | plans | best | worst | as written | rules alone | chosen | chosen / best |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for scene in scenes():
        print(scene.name, file=sys.stderr)
        greedy = optimize(scene.written)[0]
        chosen = search(greedy, scene.costs).plan
        plans = all_plans(scene)
        spent = dict.fromkeys(plans, float("inf"))
        for _ in range(ROUNDS):
            for plan in plans:  # in turn, so that what else the machine does meets all of them
                spent[plan] = min(spent[plan], seconds(plan, scene))
        best, worst = min(spent.values()), max(spent.values())
        cells = (best, worst, spent[scene.written], spent[greedy], spent[chosen])
        shown = " | ".join(f"{c * 1e3:,.0f}" for c in cells)
        lines.append(f"| {scene.name} | {len(spent)} | {shown} | {spent[chosen] / best:.2f} |")
        for plan, s in sorted(spent.items(), key=lambda p: p[1])[:3]:
            estimated = cost(plan, scene.costs).work
            print(f"   {s * 1e3:8.1f} ms, estimated {estimated:.3g}: {formula(plan)[:150]}", file=sys.stderr)
    return "\n".join(lines)


def scenes() -> Iterator[Scene]:
    """PIPES' Q5, pair trading, a join of four at three settings of rates, and ten queries of NEXMark."""
    yield _auction()
    yield _pairs()
    known = catalog()
    text = (
        "SELECT S.b, P.e FROM S WINDOW(RANGE 1000), R WINDOW(RANGE 1000), Q WINDOW(RANGE 1000), P WINDOW(RANGE 1000) "
        "WHERE S.a = R.a AND R.c = Q.c AND Q.d = P.d"
    )
    for name, rates in (
        ("falling", {"S": 20.0, "R": 6.0, "Q": 2.0, "P": 0.5}),
        ("rising", {"S": 0.5, "R": 2.0, "Q": 6.0, "P": 20.0}),
        ("even", {"S": 4.0, "R": 4.0, "Q": 4.0, "P": 4.0}),
    ):
        world = World(rates, {"a": 2_000, "b": 50, "c": 2_000, "d": 2_000, "e": 40})
        rows = world.rows(8_000)
        plan = bind(parse(text)[0], known, text).plan
        yield Scene(f"join of four, rates {name}", plan, rows, Costs(statistics(plan, rows), epoch=1_000.0))
    tables = Nexmark(events=120_000, rate=1_000).tables
    for number in ("q2", "q3", "q4", "q5", "q7", "q8", "q9", "q17", "q18", "q20"):
        yield _nexmark(number, tables)


def _defined(script: str) -> Catalog:
    known = registry.catalog()
    for statement in parse(script):
        known = define(statement, known, script)
    return known


def _scene(name: str, known: Catalog, text: str, tables: Mapping[str, pa.Table]) -> Scene:
    plan = bind(parse(text)[0], known, text).plan
    scans = {n.name: n for n in plan.walk() if isinstance(n, op.Scan)}
    by_name = {n.lower(): t for n, t in tables.items()}
    rows = {n: frame(scan, by_name[n.lower()]) for n, scan in scans.items()}
    definitions = {n: known.find(n) for n in scans}
    found = gathered(definitions, {n: by_name[n.lower()] for n in scans})  # type: ignore[arg-type]
    span = max(s.span for s in found.values())
    return Scene(name, plan, rows, Costs(found, epoch=span / 8))


def frame(scan: op.Scan, table: pa.Table) -> Frame:
    """A table's rows as instants of a raw stream, in the order of their time."""
    rows = pl.from_arrow(table.select([f.name for f in scan.schema]))
    assert isinstance(rows, pl.DataFrame)
    rows = rows.rename({f.name: f"c{i}" for i, f in enumerate(scan.schema)})
    rows = rows.cast({f"c{i}": dtype(f.type) for i, f in enumerate(scan.schema)})  # type: ignore[arg-type]
    when = pl.col(f"c{len(scan.schema) - 1}")
    return (
        rows.with_columns(ts=when.cast(pl.Int64), te=when.cast(pl.Int64) + 1, n=pl.lit(1, dtype=pl.Int64))
        .sort("ts", maintain_order=True)
        .with_columns(seq=pl.int_range(pl.len(), dtype=pl.Int64))
    )


def _auction() -> Scene:
    known = _defined(auction.SCHEMA + auction.VIEWS)
    tables = auction.generate(40_000).tables
    return _scene("PIPES Q5, closing price", known, auction.QUERIES["Q5 closing price"], tables)


def _pairs() -> Scene:
    """`examples/pair_trading.sql` over a generated ticker of ten stocks."""
    script = (
        "CREATE STREAM Ticker(stock STRING, price DOUBLE, t BIGINT) SOURCE memory('Ticker') ORDERED BY t;"
        "CREATE STREAM AG1 AS SELECT price FROM Ticker WINDOW(RANGE 10) WHERE stock = 'AG1';"
        "CREATE STREAM AG2 AS SELECT price FROM Ticker WINDOW(RANGE 10) WHERE stock = 'AG2';"
    )
    text = (
        "SELECT ratio FROM (SELECT AVG(AG1.price / AG2.price) AS ratio FROM AG1, AG2) AS average "
        "WHERE ABS(average.ratio - 5/3) > 0.1 * 5/3"
    )
    dice = np.random.default_rng(5)
    count = 80_000
    table = pa.table({
        "stock": [f"AG{v}" for v in dice.integers(1, 11, count)],
        "price": np.round(10 + dice.random(count) * 5, 2),
        "t": np.arange(count) // 20,
    })  # fmt: skip
    return _scene("pair trading", _defined(script), text, {"Ticker": table})


def _nexmark(name: str, tables: Mapping[str, pa.Table]) -> Scene:
    definitions, text = nexmark_query(name).statements("nowhere")
    return _scene(f"NEXMark {name}", _defined(definitions), text, tables)


# The page --------------------------------------------------------------------------------------------------------------


def write(name: str, table: str) -> None:
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    page = PAGE.read_text("utf-8")
    before, _, rest = page.partition(begin)
    if not rest:
        sys.exit(f"{PAGE} has no place for {name}: {begin} … {end}")
    after = rest.partition(end)[2]
    PAGE.write_text(f"{before}{begin}\n{table}\n{end}{after}", "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", choices=("estimates", "choices"))
    parser.add_argument("--dry", action="store_true", help="print the tables and leave the page as it is")
    arguments = parser.parse_args()
    parts = {"estimates": estimates_table, "choices": choices_table}
    for name, make in parts.items():
        if arguments.part in (None, name):
            table = make()
            print(table)
            if not arguments.dry:
                write(f"cost {name}", table)


if __name__ == "__main__":
    main()
