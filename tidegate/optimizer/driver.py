"""The optimizer's driver: tries named rules until none fires, and distrusts each of them.

A rule is a function `rule(node) -> Node | None` that looks at one operator (and what stands directly beneath it) and returns a plan that
means the same, or None. After every firing the schema must be what it was; the error names the rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.algebra import operators as op
from tidegate.algebra.printing import formula
from tidegate.errors import internal
from tidegate.optimizer.rules import RULES, Rule

LIMIT = 150
"""Firings one upon the result of the other, after which the rules are taken to run in circles."""


@dataclass(frozen=True)
class Firing:
    """One step of an optimization: which rule made what of which part."""

    rule: str
    before: op.Node
    after: op.Node

    def __str__(self) -> str:
        return f"{self.rule}: {formula(self.before)}  =>  {formula(self.after)}"


def optimize(plan: op.Node, rules: Sequence[Rule] = RULES) -> tuple[op.Node, tuple[Firing, ...]]:
    """A plan that means the same and costs less, and how it came about."""
    trace: list[Firing] = []
    done: dict[op.Node, op.Node] = {}

    def visit(node: op.Node, fired: int) -> op.Node:
        if node in done:
            return done[node]
        inputs = [visit(i, fired) for i in node.inputs]
        current: op.Node = node
        if any(a is not b for a, b in zip(inputs, node.inputs, strict=True)):
            current = node.with_inputs(*inputs)
        for rule in rules:
            better = rule(current)
            if better is None or better == current:
                continue
            _check(rule, current, better)
            trace.append(Firing(rule.__name__, current, better))
            if fired > LIMIT:
                raise internal(f"the rules run in circles; the last one was {rule.__name__}")
            current = visit(better, fired + 1)
            break
        done[node] = current
        return current

    return visit(plan, 0), tuple(trace)


def _check(rule: Rule, before: op.Node, after: op.Node) -> None:
    expected = [(f.name, f.type) for f in before.schema]
    found = [(f.name, f.type) for f in after.schema]
    if expected != found:
        raise internal(f"rule {rule.__name__} changed the schema from {expected} to {found}")
