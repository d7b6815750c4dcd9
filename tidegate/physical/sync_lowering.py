"""From modify streams, synchronization and NOW to their kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from sqlglot import exp

from tidegate.algebra import operators as op
from tidegate.algebra.modify import Clock, Modify, Restrict, Since, Sync, point_column, width_of
from tidegate.algebra.points import points_of
from tidegate.errors import unsupported
from tidegate.kernels.expressions import Functions
from tidegate.kernels.modify import InsertsKernel, ModifyKernel
from tidegate.kernels.rows import Kernel
from tidegate.kernels.streams import SinceKernel
from tidegate.kernels.sync import PointsKernel, RestrictKernel, SyncEventsKernel, SyncTicksKernel
from tidegate.physical.identity import Identity


class Lowering(Protocol):
    """What a rule needs of the operators under construction."""

    def id_of(self, node: op.Node) -> Identity: ...

    def add(self, node: op.Node, kernel: Kernel, *inputs: Identity, why: str = "") -> Identity: ...

    def called(self, *expressions: exp.Expression | None) -> Functions: ...

    def need_order(self, node: op.Node) -> None: ...


def _modify(low: Lowering, node: Modify) -> Identity:
    below = low.id_of(node.input)
    if node.key is None:
        return low.add(node, InsertsKernel(node.schema), below)
    low.need_order(node.input)
    return low.add(node, ModifyKernel(node.input.schema, node.key, node.operation), below)


def _sync(low: Lowering, node: Sync) -> Identity:
    below = low.id_of(node.input)
    points = points_of(node.points)
    if points.is_every_instant:
        return below
    if not points.events:
        return low.add(node, SyncTicksKernel(node.schema, points.ticks, width_of(node.points)), below)
    marks = [
        low.add(node, PointsKernel(e.plan.schema, point_column(e.plan), e.within), low.id_of(e.plan))
        for e in points.events
    ]
    return low.add(node, SyncEventsKernel(node.schema, points.ticks), below, *marks)


def _restrict(low: Lowering, node: Restrict) -> Identity:
    kernel = RestrictKernel(node.schema, node.predicate, low.called(node.predicate), node.width, node.points)
    return low.add(node, kernel, low.id_of(node.input))


def _since(low: Lowering, node: Since) -> Identity:
    return low.add(node, SinceKernel(node.input.schema, node.timestamps, node.width), low.id_of(node.input))


def _clock(low: Lowering, node: Clock) -> Identity:
    raise unsupported(
        "CLOCK has a row for every tick, without end, and is never run as a stream",
        help="use it after SYNC BY, compare with NOW in WHERE, or join MAX(Timepoint) and select none of it",
    )


RULES: Mapping[type[op.Node], Callable[[Any, Any], Identity]] = {
    Modify: _modify,
    Sync: _sync,
    Restrict: _restrict,
    Since: _since,
    Clock: _clock,
}
