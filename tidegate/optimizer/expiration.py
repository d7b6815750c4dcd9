"""How it is told that a row has left a window: by the end that it was born with, or by a row of its own (Nile's negative tuples).

    ω(S) = expire(ω(S)): at every instant the same rows are seen

With intervals one row travels where with negative tuples two do, and what is above knows ends in advance. What a graph shares, and what a query that
begins later can be told of a window, is different: a window whose ends are told keeps the rows that it shows.
"""

from __future__ import annotations

from dataclasses import replace

from tidegate.algebra import operators as op
from tidegate.algebra.windows import Expiration, TimeWindow
from tidegate.optimizer.cost import cost


def with_told_ends(plan: op.Node) -> op.Node:
    """The plan with windows in time that tell each row that leaves.

    >>> window = op.Window(op.Scan("S", ()), TimeWindow(60))
    >>> with_told_ends(op.Distinct(window)).inputs[0].told
    True
    """
    made: dict[op.Node, op.Node] = {}
    for node in plan.walk():
        inputs = [made[i] for i in node.inputs]
        changed = any(a is not b for a, b in zip(inputs, node.inputs, strict=True))
        found: op.Node = node.with_inputs(*inputs) if changed else node
        made[node] = replace(found, told=True) if isinstance(found, op.Window) and _can_tell(found) else found
    return made[plan]


def _can_tell(window: op.Window) -> bool:
    spec = window.spec
    return isinstance(spec, TimeWindow) and spec.size is not None and not spec.is_now


def expiring(plan: op.Node, how: Expiration) -> op.Node:
    """The plan in the way that was asked for; `auto`: in the one that costs less as far as the windows tell, so that a restart chooses the same."""
    if how == "intervals":
        return plan
    told = with_told_ends(plan)
    if how == "negative" or told == plan:
        return told
    return told if cost(told, {}) < cost(plan, {}) else plan
