"""Batches of simultaneous rows (SPEC section 4; Astral, definitions 2 and 5): instants as pairs (t, i), in order.

A pair is one tick, t * BATCHES + i. So operators on snapshots need not know of batches: a snapshot is one at (t, i). What
counts in time (windows, NOW, clocks) counts instants, and is told here how many ticks an instant is wide. The law of windows:

    snapshot(w(S), (t, i)) = snapshot(w(S up to (t, i)), t)

A window shows at (t, i) what it would show at t if the stream ended with that batch.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from tidegate.algebra import operators as op
from tidegate.algebra.modify import Clock, Modify, Restrict, Since, Sync
from tidegate.algebra.points import points_of
from tidegate.algebra.windows import TimeWindow
from tidegate.errors import Diagnostic, unsupported
from tidegate.time import BATCHES


def in_batches(plan: op.Node, batched: Set[str]) -> op.Node:
    """The plan over ticks that are pairs; `batched` names the streams that have batches, others have one per instant.

    >>> from tidegate.algebra.printing import tree
    >>> print(tree(in_batches(op.Scan("S", ()), {"S"})))
    Window RANGE 1 IN BATCHES
      Scan S
    """
    if isinstance(plan, op.Scan):
        # A row of batch i is there until the instant is over; only windows and modifications look at single rows.
        scan = replace(plan, width=BATCHES)
        return scan if plan.relation else op.Window(scan, TimeWindow(1), width=BATCHES)
    if isinstance(plan, op.Rstream):
        raise unsupported(
            "RSTREAM is not available where streams have batches",
            help="synchronize it instead: SYNC BY CLOCK(…)",
        )
    if isinstance(plan, Clock):
        return replace(plan, width=BATCHES)
    if isinstance(plan, (op.Window, Modify)) and is_raw(plan.input):
        raw = plan.with_inputs(_ticking(plan.input))
        return replace(raw, width=BATCHES) if isinstance(raw, op.Window) else raw
    if isinstance(plan, op.Window):
        below = in_batches(plan.input, batched)
        return replace(plan, input=below, granularity=_chronon(plan, batched), width=BATCHES)
    inputs = [in_batches(node, batched) for node in plan.inputs]
    if isinstance(plan, Sync) and points_of(plan.points).events:
        raise unsupported(
            "points that are events are not available where streams have batches",
            help="SYNC BY points of a CLOCK",
        )
    result: op.Node = plan.with_inputs(*inputs)
    return replace(result, width=BATCHES) if isinstance(result, Restrict | Since) else result


def _origin(plan: op.Node) -> op.Node:
    while isinstance(plan, op.Filter | op.Project):
        plan = plan.input
    return plan


def _ticking(plan: op.Node) -> op.Node:
    """Filters and maps above a raw stream whose instants are wide."""
    if isinstance(plan, op.Scan):
        return replace(plan, width=BATCHES)
    above: op.Node = plan.with_inputs(*(_ticking(node) for node in plan.inputs))
    return above


def is_raw(plan: op.Node) -> bool:
    """Whether rows are those of a raw stream: single rows, each with its batch."""
    beneath = _origin(plan)
    return isinstance(beneath, op.Scan) and not beneath.relation


def _chronon(window: op.Window, batched: Set[str]) -> int:
    """How a derived stream is split: changes are single ticks; what lasts is seen once per instant."""
    beneath = _origin(window.input)
    while isinstance(beneath, Restrict):  # STARTING AT
        beneath = _origin(beneath.input)
    if isinstance(beneath, op.Istream | op.Dstream):
        return 1
    names = {node.name for node in window.input.walk() if isinstance(node, op.Scan)}
    if names & batched:
        raise Diagnostic(
            "WINDOW_OVER_BATCHES",
            "a window counts single rows, but rows of a derived stream last over batches",
            help="window its changes with ISTREAM(…)",
        )
    return window.granularity * BATCHES
