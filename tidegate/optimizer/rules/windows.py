"""Rules about windows: what may pass them (Astral, properties 1 to 3)."""

from __future__ import annotations

from dataclasses import replace

from tidegate.algebra import operators as op
from tidegate.algebra.sequences import Line, Periodic, SessionWindow, WindowSequence
from tidegate.algebra.windows import RowsEveryTime, RowWindow, WindowSpec, is_temporal
from tidegate.scalars.expressions import conjoin, conjuncts, index_of, references


def push_filter_below_window(node: op.Node) -> op.Node | None:
    """`σ_p(ω(S)) = ω(σ_p(S))` for windows in time and unbounded ones; else for conditions on PARTITION BY columns alone.

    A row window counts rows that the condition would take away (Astral, example 6); those of other partitions it
    does not count.
    """
    if not (isinstance(node, op.Filter) and isinstance(node.input, op.Window)):
        return None
    window = node.input
    if is_temporal(window.spec) or _shows_everything(window.spec):
        return replace(window, input=op.Filter(window.input, node.predicate))
    parts = conjuncts(node.predicate)
    passing = [p for p in parts if references(p) and references(p) <= set(window.partition_by)]
    below, above = conjoin(passing), conjoin([p for p in parts if p not in passing])
    if below is None:
        return None
    moved = replace(window, input=op.Filter(window.input, below))
    return moved if above is None else op.Filter(moved, above)


def _shows_everything(spec: WindowSpec) -> bool:
    """Whether a window that counts rows shows all rows so far, so that counting decides nothing (property 3)."""
    if isinstance(spec, RowWindow):
        return spec.size is None and spec.slide == 1
    if isinstance(spec, RowsEveryTime):
        return spec.size is None
    if not isinstance(spec, WindowSequence):
        return False
    return (
        spec.rows
        and spec.schedule == Periodic(1, rows=True)
        and spec.lower.line == Line(0, 1)
        and spec.upper.line == Line(1, 1)
    )


def push_projection_below_window(node: op.Node) -> op.Node | None:
    """`Π(ω(S)) = ω(Π(S))` for projections and renamings that keep the PARTITION BY columns.

    Simultaneous rows of a derived stream are ordered by all their columns, so row windows over one keep them all.
    """
    if not (isinstance(node, op.Project) and isinstance(node.input, op.Window)):
        return None
    window = node.input
    kept = [index_of(e) for e in node.expressions]
    if None in kept or len(kept) >= len(window.schema) or not set(window.partition_by) <= set(kept):
        return None
    orderless = is_temporal(window.spec) or isinstance(window.spec, SessionWindow)
    if not orderless and not _is_raw(window.input):
        return None
    partition = tuple(kept.index(c) for c in window.partition_by)
    below = op.Project(window.input, node.expressions, node.fields)
    return replace(window, input=below, partition_by=partition)


def _is_raw(node: op.Node) -> bool:
    while isinstance(node, op.Filter | op.Project):
        node = node.input
    return isinstance(node, op.Scan) and not node.relation
