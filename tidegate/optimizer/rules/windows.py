"""Rules about windows: what may pass them (PIPES rules 12, 14 and 15; Astral, properties 1 to 3). Filters are in `filters`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tidegate.algebra import operators as op
from tidegate.algebra.quality import RangedWindow
from tidegate.algebra.sequences import Line, Periodic, SessionWindow, WindowSequence
from tidegate.algebra.windows import RowsEveryTime, RowWindow, TimeWindow, WindowSpec, is_temporal
from tidegate.scalars.expressions import index_of
from tidegate.scalars.total import never_fails


def shows_everything(spec: WindowSpec) -> bool:
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
    if not orderless and not is_raw(window.input):
        return None
    partition = tuple(kept.index(c) for c in window.partition_by)
    below = op.Project(window.input, node.expressions, node.fields)
    return replace(window, input=below, partition_by=partition)


def drop_now_window(node: op.Node) -> op.Node | None:
    """`ω_1(S) = S` (PIPES rule 12)"""
    if not isinstance(node, op.Window) or not isinstance(node.spec, TimeWindow):
        return None
    return node.input if node.spec.is_now and node.granularity == 1 and node.width == 1 else None


def push_map_below_window(node: op.Node) -> Iterator[op.Node]:
    """`μ_f(ω(S)) = ω(μ_f(S))` (PIPES rule 14), f keeping the PARTITION BY columns; a window that leaves out rows keeps them from an f that may fail.

    Row windows over a derived stream order simultaneous rows by all columns, so only those over a raw one pass.
    """
    if not (isinstance(node, op.Project) and isinstance(node.input, op.Window)):
        return
    window = node.input
    places = {c: i for i, e in reversed([*enumerate(node.expressions)]) if (c := index_of(e)) is not None}
    if not (is_temporal(window.spec) or is_raw(window.input)) or not places.keys() >= set(
        window.partition_by
    ):
        return
    if leaves_nothing_out(window) or all(never_fails(e, window.schema) for e in node.expressions):
        below = op.Project(window.input, node.expressions, node.fields)
        yield replace(window, input=below, partition_by=tuple(places[c] for c in window.partition_by))


def pull_map_above_window(node: op.Node) -> Iterator[op.Node]:
    """`ω(μ_f(S)) = μ_f(ω(S))` (PIPES rule 14, read backwards), the PARTITION BY columns being plain ones of f."""
    if not (isinstance(node, op.Window) and isinstance(node.input, op.Project)):
        return
    project = node.input
    partition = [index_of(project.expressions[c]) for c in node.partition_by]
    if not (is_temporal(node.spec) or is_raw(project.input)):
        return
    if None not in partition:
        below = replace(node, input=project.input, partition_by=tuple(c for c in partition if c is not None))
        yield op.Project(below, project.expressions, project.fields)


def pull_window_above_union(node: op.Node) -> Iterator[op.Node]:
    """`ω(S) ∪ ω(R) = ω(S ∪ R)` (PIPES rule 15) for windows in time: one operator, and one that all above share."""
    if not isinstance(node, op.UnionAll):
        return
    left, right = node.left, node.right
    if isinstance(left, op.Window) and isinstance(right, op.Window) and _is_ours(left):
        if right == replace(left, input=right.input):
            yield replace(left, input=op.UnionAll(left.input, right.input))


def push_window_below_union(node: op.Node) -> Iterator[op.Node]:
    """`ω(S ∪ R) = ω(S) ∪ ω(R)` (PIPES rule 15, read backwards): windows that other queries have too."""
    if isinstance(node, op.Window) and isinstance(node.input, op.UnionAll) and _is_ours(node):
        union = node.input
        yield op.UnionAll(replace(node, input=union.left), replace(node, input=union.right))


def _is_ours(window: op.Window) -> bool:
    """Whether a window in time sees instants as they are, of a raw stream and of a derived one alike."""
    plain = window.granularity == 1 and window.width == 1 and not window.partition_by
    return plain and isinstance(window.spec, TimeWindow)


def leaves_nothing_out(window: op.Window) -> bool:
    """Whether every row of a stream is seen at some instant."""
    spec = window.spec
    if isinstance(spec, RangedWindow):
        return spec.granule is None and (spec.smallest is None or spec.slide <= spec.smallest)
    overlapping = isinstance(spec, TimeWindow) and (spec.size is None or spec.slide <= spec.size)
    return overlapping and window.granularity == 1


def is_raw(node: op.Node) -> bool:
    """Whether rows are those of a raw stream, filtered or mapped."""
    while isinstance(node, op.Filter | op.Project):
        node = node.input
    return isinstance(node, op.Scan) and not node.relation
