"""Plays a case through the kernels in epochs, as the engine does, without a JVM."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import polars as pl

from tests.fuzz.generation import Case
from tests.state_log import StateLog
from tidegate.algebra import operators as op
from tidegate.kernels.rows import Frame, from_rows, to_rows
from tidegate.physical.lowering import compile_plan
from tidegate.reference.snapshots import Arrivals, PhysicalRow, Reference, Source
from tidegate.time import MAX, MIN
from tidegate.worker.segments import settled


def frames(plan: op.Node, sources: Mapping[str, Source]) -> dict[str, Frame]:
    """The sources as chunks; raw streams with their arrival order."""
    scans = {n.name: n for n in plan.walk() if isinstance(n, op.Scan)}
    result = {}
    for name, scan in scans.items():
        source = sources[name]
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
    from_log: bool = False,
) -> list[PhysicalRow]:
    """The answer as signed rows. With `from_log`, every epoch starts from what the logs alone restore."""
    program = compile_plan(plan, functions)  # type: ignore[arg-type]
    states = program.initial()
    log = StateLog(program)
    answer: list[PhysicalRow] = []
    since = MIN
    for upto in boundaries:
        chunks = {
            name: rows.filter((pl.col("ts") >= since) & (pl.col("ts") < upto))
            for name, rows in sources.items()
        }
        states, out = program.step(states, chunks, upto)
        outside = out.filter((pl.col("ts") < since) | (pl.col("ts") >= upto))
        assert outside.is_empty(), f"rows outside of the epoch [{since}, {upto}): {outside}"
        payload = to_rows(out, plan.schema)
        validity = out.select("ts", "te", "n").rows()
        answer += [(e, *v) for e, v in zip(payload, validity, strict=True)]
        log.append(states)
        states = log.restored(upto) if from_log else settled(states)
        since = upto
    return answer


def splits(case: Case) -> dict[str, list[int]]:
    """Ways to cut time into epochs."""
    dice = random.Random(case.seed)
    some = sorted(dice.sample(range(22), 4))
    return {
        "one epoch": [MAX],
        "one per instant": [*range(24), MAX],
        "random": [*some, MAX],
    }


def difference(reference: Reference, plan: op.Node, answer: list[PhysicalRow]) -> str | None:
    """The first change point at which an answer is not the reference's."""
    from tests.fuzz.duckdb_oracle import canonical
    from tidegate.reference.snapshots import snapshot

    points = sorted({*reference.change_points(plan), *(p for _, ts, te, _ in answer for p in (ts, te))})
    for t in points:
        if t == MAX:
            continue
        ours = canonical(snapshot(answer, t).elements())
        theirs = canonical(reference.snapshot(plan, t).elements())
        if ours != theirs:
            return f"at {t}: kernels {ours}, reference {theirs}"
    return None
