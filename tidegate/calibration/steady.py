"""Plans at steady state, without Spark: kernels run epoch by epoch on generated rows, and what each takes, gives, keeps and works is measured."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from tidegate.algebra import operators as op
from tidegate.connectors import registry
from tidegate.kernels.rows import Frame, State
from tidegate.kernels.rowwise import scanned
from tidegate.language.binder import bind
from tidegate.language.catalog import Catalog
from tidegate.language.dialect import parse
from tidegate.language.statements import define
from tidegate.optimizer.cost import Costs
from tidegate.optimizer.cost import scanned as of_scan
from tidegate.optimizer.driver import optimize
from tidegate.optimizer.formulas import Estimate, Setting
from tidegate.optimizer.statistics import SourceStatistics, of_frame
from tidegate.physical.estimates import of_kernel
from tidegate.physical.identity import Identity
from tidegate.physical.lowering import Program, compile_plan
from tidegate.time import MIN
from tidegate.worker.segments import settled

SCRIPT = """
CREATE STREAM S (a INT, b INT, x DOUBLE, s STRING, t BIGINT) SOURCE memory('S') ORDERED BY t;
CREATE STREAM R (a INT, c INT, y DOUBLE, t BIGINT) SOURCE memory('R') ORDERED BY t;
CREATE STREAM Q (c INT, d INT, t BIGINT) SOURCE memory('Q') ORDERED BY t;
CREATE STREAM P (d INT, e INT, t BIGINT) SOURCE memory('P') ORDERED BY t;
CREATE TABLE T (a INT, name STRING) SOURCE memory('T');
CREATE STREAM K OVER S KEY a;
"""

TABLE_ROWS = 500


@dataclass(frozen=True)
class World:
    """Streams with so many rows per tick, whose key columns have so many values, evenly spread over time and values."""

    rates: Mapping[str, float]
    keys: Mapping[str, int]
    seed: int = 1

    def rows(self, span: int) -> dict[str, Frame]:
        """The rows of all streams, as chunks in the order of time."""
        dice = np.random.default_rng(self.seed)
        found = {}
        for name, columns in COLUMNS.items():
            count = TABLE_ROWS if name == "T" else max(1, int(self.rates[name] * span))
            made = {c: self._values(dice, c, count) for c in columns}
            at = np.full(count, MIN) if name == "T" else np.sort(dice.integers(0, span, count))
            end = np.full(count, np.iinfo(np.int64).max) if name == "T" else at + 1
            frame = pl.DataFrame({f"c{i}": v for i, v in enumerate(made.values())})
            if name != "T":
                frame = frame.with_columns(pl.Series(f"c{len(made)}", at))
            found[name] = frame.with_columns(
                ts=pl.Series(at),
                te=pl.Series(end),
                n=pl.lit(1, dtype=pl.Int64),
                seq=pl.int_range(pl.len(), dtype=pl.Int64),
            )
        return found

    def _values(self, dice: np.random.Generator, column: str, count: int) -> pl.Series:
        if column in ("x", "y"):
            return pl.Series(np.round(dice.random(count) * 100, 3))
        drawn = dice.integers(0, self.keys.get(column, 100), count)
        if column in ("s", "name"):
            return pl.Series([f"text {v}" for v in drawn])
        return pl.Series(drawn.astype(np.int32))


COLUMNS = {
    "S": ("a", "b", "x", "s"), "R": ("a", "c", "y"), "Q": ("c", "d"), "P": ("d", "e"), "T": ("a", "name"),
}  # fmt: skip


def catalog() -> Catalog:
    """The streams of a world."""
    found = Catalog(sources=registry.SOURCES)
    for statement in parse(SCRIPT):
        found = define(statement, found, SCRIPT)
    return found


def planned(text: str, known: Catalog) -> op.Node:
    """A query over a world, as the rules leave it."""
    return optimize(bind(parse(text)[0], known, text).plan)[0]


def statistics(plan: op.Node, rows: Mapping[str, Frame]) -> dict[str, SourceStatistics]:
    """What is known of the sources of a plan, exactly."""
    found = {}
    for scan in (n for n in plan.walk() if isinstance(n, op.Scan)):
        named = rows[scan.name].rename({f"c{i}": f.name for i, f in enumerate(scan.schema)})
        found[scan.name] = of_frame(named, scan.schema, None if scan.name == "T" else "ts")
    return found


@dataclass(frozen=True)
class Work:
    """What an operator does in an epoch: rows and columns that come and go, rows and bytes kept, in the mean; seconds of processors, in the median."""

    kernel: str
    taken: float
    width: float
    given: float
    made: float
    kept: float
    size: float
    seconds: float


def measured(
    program: Program, rows: Mapping[str, Frame], epoch: int, warm: int, epochs: int
) -> dict[Identity, Work]:
    """The mean over some epochs, of seconds the median, after some others have brought operators to their steady state."""
    states: dict[str, State] = dict(program.initial())
    counts: dict[Identity, list[tuple[float, ...]]] = {o.id: [] for o in program.operators}
    for number in range(warm + epochs):
        since, upto = (MIN if number == 0 else number * epoch), (number + 1) * epoch
        results = {}
        for leaf in program.leaves:
            chunk = rows[leaf.name].filter((pl.col("ts") >= since) & (pl.col("ts") < upto))
            results[leaf.id] = scanned(chunk, leaf.schema, leaf.seq)
        after: dict[str, State] = {}
        for o in program.operators:
            chunks = [results[i] for i in o.inputs]
            begun = time.process_time()
            state, results[o.id] = o.kernel.step(states.get(o.id, {}), chunks, upto)
            seconds = time.process_time() - begun
            if o.kernel.layout:
                after[o.id] = state
            if number >= warm:
                counts[o.id].append((*_counted(chunks, results[o.id], state), seconds))
        states = dict(settled(after))
    found = {}
    for o in program.operators:
        each = np.array(counts[o.id])
        means = [*each[:, :-1].mean(axis=0), np.median(each[:, -1])]
        found[o.id] = Work(o.name, *(float(v) for v in means))
    return found


def _counted(chunks: list[Frame], out: Frame, state: State) -> tuple[float, ...]:
    taken = sum(c.height for c in chunks)
    width = sum(c.height * (c.width - 3) for c in chunks) / taken if taken else 0.0
    kept = [t.rows for t in state.values()]
    size = sum(f.estimated_size() for f in kept)
    return taken, width, out.height, out.width - 3, sum(f.height for f in kept), size


def expected(plan: op.Node, program: Program, costs: Costs) -> tuple[Setting, dict[Identity, Estimate]]:
    """What the model says of the same operators."""
    on = costs.setting(plan)
    scans = {n.leaf: n for n in plan.walk() if isinstance(n, op.Scan)}
    found = {leaf.id: of_scan(on, scans[leaf.name], costs.statistics) for leaf in program.leaves}
    for o in program.operators:
        found[o.id] = of_kernel(on, o.kernel, [found[i] for i in o.inputs])
    return on, found


@dataclass(frozen=True)
class Comparison:
    """An operator of a plan: what was measured in an epoch, and what was expected."""

    plan: str
    work: Work
    taken: float
    given: float
    kept: float
    size: float
    seconds: float


def compared(
    text: str, known: Catalog, world: World, epoch: int, lasts: int, epochs: int, costs: Costs | None = None
) -> list[Comparison]:
    """A query at steady state, operator by operator; no row lasts longer than `lasts` ticks."""
    plan = planned(text, known)
    warm = -(-lasts // epoch) + 2
    rows = world.rows((warm + epochs) * epoch)
    program = compile_plan(plan)
    found = measured(program, rows, epoch, warm, epochs)
    given = costs or Costs({})
    steady = Costs(_endless(statistics(plan, rows)), given.prices, float(epoch))
    on, estimates = expected(plan, program, steady)
    result = []
    for o in program.operators:
        e = estimates[o.id]
        taken = sum(estimates[i].given for i in o.inputs)
        result.append(
            Comparison(
                text,
                replace(found[o.id], kernel=e.priced or found[o.id].kernel),
                taken * on.epoch,
                e.given * on.epoch,
                e.memory_rows,
                e.memory_bytes,
                e.work_seconds * on.epoch,
            )
        )
    return result


def _endless(found: Mapping[str, SourceStatistics]) -> dict[str, SourceStatistics]:
    """Streams that go on as they do: at steady state nothing is felt of their beginning."""
    return {
        n: replace(s, span=s.span * 1_000, rows=s.rows * 1_000) if s.rate else s for n, s in found.items()
    }
