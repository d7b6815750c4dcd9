"""Plans judged twice: by the reference, and by the kernels over several splits into epochs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from tests.fuzz.choices import settings_in
from tests.fuzz.players import frames, play
from tidegate.algebra import operators as op
from tidegate.reference.snapshots import Bag, PhysicalRow, Reference, Source, snapshot
from tidegate.scalars.functions import AggregateFunction
from tidegate.time import MAX
from tidegate.types import Row

SPLITS: tuple[Sequence[int], ...] = ((MAX,), (*range(70), MAX), (3, 4, 9, 12, MAX))
"""All at once, one instant per epoch, and something in between."""


def snapshots(
    plan: op.Node,
    sources: Mapping[str, Source],
    instants: Iterable[int],
    aggregates: Mapping[str, AggregateFunction] | None = None,
) -> dict[int, Bag]:
    """The answer at each instant, after checking that the kernels give the same for every split."""
    reference = Reference(sources, {}, aggregates or {}, settings=settings_in(plan))
    answer = {t: reference.snapshot(plan, t) for t in instants}
    chunks = frames(plan, sources)
    for split in SPLITS:
        rows = play(plan, chunks, split, aggregates or {})
        assert {t: snapshot(rows, t) for t in answer} == answer, split
    return answer


def intervals(
    plan: op.Node, sources: Mapping[str, Source], aggregates: Mapping[str, AggregateFunction] | None = None
) -> list[PhysicalRow]:
    """The coalesced answer, after the same check at every instant at which it can change."""
    reference = Reference(sources, {}, aggregates or {}, settings=settings_in(plan))
    points = {q for p in reference.change_points(plan) for q in (p - 1, p, p + 1)}
    snapshots(plan, sources, points, aggregates)
    return reference.intervals(plan)


def bag(*values: str) -> Counter[Row]:
    """A multiset of one-column rows, written as the papers write it."""
    return Counter((v,) for v in values)
