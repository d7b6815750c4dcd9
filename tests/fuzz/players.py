"""Plays cases through the kernels in epochs, as the engine does, without a JVM, and compares with the reference."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

import polars as pl

from tests import ladders
from tests.fuzz.choices import settings_for
from tests.fuzz.queries import Case
from tests.fuzz.streams import FIRST, TIMESTAMPS
from tests.state_log import StateLog
from tidegate.algebra import operators as op
from tidegate.algebra.sequences import WindowSequence
from tidegate.errors import Diagnostic
from tidegate.kernels.rows import Frame, from_rows, to_rows
from tidegate.physical.lowering import compile_plan
from tidegate.reference.snapshots import Arrivals, PhysicalRow, Reference, Source, by_arrival, snapshot
from tidegate.time import MAX, MIN
from tidegate.types import Row
from tidegate.worker.segments import settled

INSTANTS = range(FIRST - 1, 26)
"""Whole instants at which streams, windows and slides change."""


def frames(plan: op.Node, sources: Mapping[str, Source]) -> dict[str, Frame]:
    """The sources as chunks; raw streams with their arrival order."""
    scans = {n.leaf: n for n in plan.walk() if isinstance(n, op.Scan)}
    result = {}
    for name, scan in scans.items():
        source = by_arrival(sources[scan.name]) if scan.arrival else sources[scan.name]
        if isinstance(source, Arrivals):
            rows: Sequence[PhysicalRow] = [(e, t, t + 1, 1) for e, t in source.rows]
        else:
            rows = source.rows
        frame = from_rows([r[0] for r in rows], scan.schema, [r[1:] for r in rows])
        result[name] = frame.with_columns(seq=pl.int_range(pl.len(), dtype=pl.Int64))
    return result


def play(
    plan: op.Node,
    sources: Mapping[str, Frame],
    boundaries: Sequence[int],
    functions: Mapping[str, object] | None = None,
    restarts: Iterable[int] = (),
) -> list[PhysicalRow]:
    """The answer as signed rows. After the epochs of these numbers, what the segments alone give back goes on."""
    program = compile_plan(plan, functions)  # type: ignore[arg-type]
    states, log = program.initial(), StateLog(program)
    answer: list[PhysicalRow] = []
    since, again, settings = MIN, {*restarts}, settings_for(program)
    for number, upto in enumerate(boundaries):
        chunks = {
            name: rows.filter((pl.col("ts") >= since) & (pl.col("ts") < upto))
            for name, rows in sources.items()
        }
        states, (out,) = program.step_all(states, chunks, upto, settings=settings)
        outside = out.filter((pl.col("ts") < since) | (pl.col("ts") >= upto))
        assert outside.is_empty(), f"rows outside of the epoch [{since}, {upto}): {outside}"
        payload = to_rows(out, plan.schema)
        validity = out.select("ts", "te", "n").rows()
        answer += [(e, *v) for e, v in zip(payload, validity, strict=True)]
        if again:
            log.append(states)
        states = log.restored(upto) if number in again else settled(states)
        since = upto
    return answer


@dataclass(frozen=True)
class Player:
    """A way to run a query: which plan, in which epochs, and after which of them it is restarted."""

    name: str
    plan: op.Node
    boundaries: list[int]
    restarts: tuple[int, ...] = ()
    ladders: bool = False
    """Whether steps ask ladders, though rows are few."""


def players(case: Case) -> list[Player]:
    """Optimized and not; in one epoch, and in one per instant or in random ones with restarts between some."""
    dice = random.Random(case.seed)
    span = case.streams.unit * case.width
    whole = [t * span for t in INSTANTS]
    odd = [t + 1 for t in whole] if case.streams.mode == TIMESTAMPS else []
    some = sorted(dice.sample([*whole, *odd], 5))
    restarts = tuple(k for k in range(5) if dice.random() < 0.6) or (2,)
    plans = [("", case.plan), ("optimized, ", case.optimized)]
    if dice.random() < 0.5:
        plans.reverse()
    (one, first), (other, second) = plans
    split = dice.choice((
        Player(f"{other}one epoch per instant", second, [*whole, MAX], ladders=case.seed % 2 == 0),
        Player(f"{other}epochs {some}, restarted after {restarts}", second, [*some, MAX], restarts, case.seed % 2 == 0),
        Player(f"{other}epochs {some}, restarted after each", second, [*some, MAX], tuple(range(5))),
    ))  # fmt: skip
    return [Player(f"{one}one epoch", first, [MAX]), split]


REFUSED = (
    "SCALAR_SUBQUERY_ROWS", "INVALID_WINDOW", "ARITHMETIC_OVERFLOW", "SYNC_POINTS_RARE", "WINDOW_OVER_LASTING_ROWS", "RSTREAM_WITHOUT_END",
)  # fmt: skip
"""Errors that rows may cause: there is no answer to compare then."""


def answerable(case: Case) -> bool:
    """Whether the query has an answer at every change point, over these rows.

    A window whose bounds the rows break has none, also where the answer does not depend on it at any instant.
    """
    sequences = [
        n for n in case.plan.walk() if isinstance(n, op.Window) and isinstance(n.spec, WindowSequence)
    ]
    try:
        for plan in (*sequences, case.plan):
            for t in case.reference.change_points(plan):
                case.reference.snapshot(plan, t)
    except Diagnostic as problem:
        if problem.condition not in REFUSED:
            raise
        return False
    return True


def check(case: Case) -> str | None:
    """The first player whose answer is not the reference's; `refused` where there is no answer."""
    if not answerable(case):
        return "refused"
    chunks = frames(case.plan, case.streams.sources(case.width))
    functions = {**case.catalog.functions, **case.catalog.aggregates}
    for player in players(case):
        try:
            with ladders.asked(player.ladders):
                answer = play(player.plan, chunks, player.boundaries, functions, player.restarts)
            found = difference(case.reference, case.plan, answer)
        except Exception as problem:  # whatever else goes wrong is a difference
            if isinstance(problem, Diagnostic) and problem.condition == "SYNC_POINTS_RARE":
                return "refused"
            found = f"{type(problem).__name__}: {problem}"
        if found is not None:
            return f"seed {case.seed}, {player.name}: {found}\n{described(case)}"
    return None


def described(case: Case) -> str:
    """All that it takes to see the case again."""
    views = "".join(f"{n} AS {q}\n" for n, q in case.named_views)
    scanned = {n.name for n in case.plan.walk() if isinstance(n, op.Scan)}
    raw = {n: rows for n, rows in case.streams.raw.items() if n in scanned}
    more = f"P {case.streams.lasting}\n" * ("P" in scanned) + f"T {case.streams.table}\n" * ("T" in scanned)
    return f"{case.streams.mode}\n{views}{case.tidegate()}\n{raw}\n{more}"


def difference(reference: Reference, plan: op.Node, answer: list[PhysicalRow]) -> str | None:
    """The first change point at which an answer is not the reference's."""
    points = sorted({*reference.change_points(plan), *(p for _, ts, te, _ in answer for p in (ts, te))})
    for t in points:
        if t == MAX:
            continue
        ours = canonical(snapshot(answer, t).elements())
        theirs = canonical(reference.snapshot(plan, t).elements())
        if ours != theirs:
            return f"at {t}: kernels {ours}, reference {theirs}"
    return None


def canonical(rows: Iterable[Row]) -> Counter[Row]:
    """Rows whose values compare across engines: floats to nine digits."""
    return Counter(tuple(_comparable(v) for v in row) for row in rows)


def _comparable(value: Any) -> object:
    if isinstance(value, Decimal):
        value = int(value) if value == int(value) else float(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            return str(value)
        rounded = float(f"{value:.9g}")
        return int(rounded) if rounded == int(rounded) else rounded
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    if isinstance(value, dict):
        return tuple(_comparable(v) for v in value.values())
    return tuple(_comparable(v) for v in value) if isinstance(value, (list, tuple)) else value
