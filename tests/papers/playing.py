"""Plans judged twice: by the reference, and by the kernels over several splits into epochs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import polars as pl

from tidegate.algebra import operators as op
from tidegate.kernels.rows import from_rows, to_rows
from tidegate.physical.lowering import run
from tidegate.reference.snapshots import Arrivals, Bag, PhysicalRow, Reference, Source, snapshot
from tidegate.scalars.functions import AggregateFunction
from tidegate.time import MAX
from tidegate.types import Row, Schema

SPLITS: tuple[Sequence[int], ...] = ((MAX,), (*range(70), MAX), (3, 4, 9, 12, MAX))
"""All at once, one instant per epoch, and something in between."""


def snapshots(
    plan: op.Node,
    sources: Mapping[str, Source],
    instants: Iterable[int],
    aggregates: Mapping[str, AggregateFunction] | None = None,
) -> dict[int, Bag]:
    """The answer at each instant, after checking that the kernels give the same for every split."""
    reference = Reference(sources, {}, aggregates or {})
    answer = {t: reference.snapshot(plan, t) for t in instants}
    frames = {n.name: _frame(sources[n.name], n.schema) for n in plan.walk() if isinstance(n, op.Scan)}
    for split in SPLITS:
        rows = _rows(run(plan, frames, split, aggregates or {}), plan.schema)
        assert {t: snapshot(rows, t) for t in answer} == answer, split
    return answer


def intervals(
    plan: op.Node, sources: Mapping[str, Source], aggregates: Mapping[str, AggregateFunction] | None = None
) -> list[PhysicalRow]:
    """The coalesced answer, after the same check at every instant at which it can change."""
    reference = Reference(sources, {}, aggregates or {})
    points = {q for p in reference.change_points(plan) for q in (p - 1, p, p + 1)}
    snapshots(plan, sources, points, aggregates)
    return reference.intervals(plan)


def _frame(source: Source, schema: Schema) -> pl.DataFrame:
    if isinstance(source, Arrivals):
        validity = [(t, t + 1, 1, place) for place, (_, t) in enumerate(source.rows)]
        return from_rows([e for e, _ in source.rows], schema, validity, ("ts", "te", "n", "seq"))
    return from_rows([r[0] for r in source.rows], schema, [r[1:] for r in source.rows])


def _rows(chunk: pl.DataFrame, schema: Schema) -> list[PhysicalRow]:
    validity = chunk.select("ts", "te", "n").rows()
    return [(e, ts, te, n) for e, (ts, te, n) in zip(to_rows(chunk, schema), validity, strict=True)]


def bag(*values: str) -> Counter[Row]:
    """A multiset of one-column rows, written as the papers write it."""
    return Counter((v,) for v in values)
