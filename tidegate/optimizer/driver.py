"""The optimizer's driver: tries named rules until none fires, and distrusts each of them.

A rule is a function `rule(node) -> Node | None` that looks at one operator (and what stands directly beneath it) and returns a plan that
means the same, or None. After every firing the columns must be what they were and no stream may be read that was not; the error names the rule. A rule after
which a key or property is not known that was known before is not followed there: what is known is worth more. What a rule needs of rows that it does not see, it asks
`never_fails`, `properties` and the kinds of operators: conventional rules match operators on relations only, so they stay inside snapshot-reducible
sub-plans (PIPES 6.4.1), and what passes a window is said by rules about windows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tidegate.algebra import operators as op
from tidegate.algebra.printing import formula
from tidegate.algebra.properties import Properties, properties
from tidegate.errors import internal
from tidegate.optimizer.rules import RULES, Rule

LIMIT = 150
"""Firings one upon the result of the other, after which the rules are taken to run in circles."""


MANY = 20_000
"""So many plans are remembered of which no rule makes another."""

_SETTLED: dict[op.Node, None] = {}


@dataclass(frozen=True)
class Firing:
    """One step of an optimization: which rule made what of which part."""

    rule: str
    before: op.Node
    after: op.Node

    def __str__(self) -> str:
        return f"{self.rule}: {formula(self.before)}  =>  {formula(self.after)}"


def optimize(
    plan: op.Node, rules: Sequence[Rule] = RULES, strict: bool = False
) -> tuple[op.Node, tuple[Firing, ...]]:
    """A plan that means the same and costs less, and how it came about.

    A rule that forgets a key or property is not followed there; with `strict`, that is an error, too.
    """
    trace: list[Firing] = []
    done: dict[op.Node, op.Node] = {}
    known: dict[op.Node, Properties] = {}

    settled = _SETTLED if rules is RULES else {}
    if len(settled) > MANY:
        settled.clear()

    def visit(node: op.Node, fired: int) -> op.Node:
        if node in done:
            return done[node]
        if node in settled:
            return node
        inputs = [visit(i, fired) for i in node.inputs]
        current: op.Node = node
        if any(a is not b for a, b in zip(inputs, node.inputs, strict=True)):
            current = node.with_inputs(*inputs)
        for rule in rules:
            better = rule(current)
            if better is None or better == current:
                continue
            problem = broken(current, better)
            if problem is None:
                problem = forgotten(current, better, known)
                if problem is not None and not strict:
                    continue
            if problem is not None:
                raise internal(f"rule {rule.__name__} {problem}")
            trace.append(Firing(rule.__name__, current, better))
            if fired > LIMIT:
                raise internal(f"the rules run in circles; the last one was {rule.__name__}")
            current = visit(better, fired + 1)
            break
        done[node] = current
        settled[current] = None
        return current

    return visit(plan, 0), tuple(trace)


def broken(before: op.Node, after: op.Node) -> str | None:
    """What shows that a plan cannot take the place of another: other columns, or other streams."""
    expected, found = before.schema, after.schema
    if [(f.name, f.type, f.hidden) for f in expected] != [(f.name, f.type, f.hidden) for f in found]:
        return f"changed the schema from {_columns(before)} to {_columns(after)}"
    read, had = ({n.leaf for n in plan.walk() if isinstance(n, op.Scan)} for plan in (after, before))
    return f"reads {', '.join(sorted(read - had))}, which was not read before" if read - had else None


def forgotten(before: op.Node, after: op.Node, known: dict[op.Node, Properties] | None = None) -> str | None:
    """A key or property that was known of a plan and is not of the one that is to replace it. `known` remembers properties of plans."""
    was, is_ = properties(before, known), properties(after, known)
    lost = [sorted(key) for key in was.keys if not is_.has_key(key)]
    if lost:
        return f"lost the key {lost[0]}"
    if _groupings(after) > _groupings(before):
        # A grouping hides what is known of its rows' ends, though the answer has it.
        was = replace(was, append_only=False, ends_known=False, prompt=False)
    return None if is_.keep(was) else f"made {is_} of a stream with {was}"


def _groupings(plan: op.Node) -> int:
    return sum(isinstance(n, op.Aggregate) for n in plan.walk())


def _columns(plan: op.Node) -> list[str]:
    return [f"{f.name} {f.type}{' hidden' if f.hidden else ''}" for f in plan.schema]
