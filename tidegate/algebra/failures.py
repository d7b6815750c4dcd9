"""Which expression of a plan can have failed, where the failure itself does not say."""

from __future__ import annotations

from sqlglot import exp

from tidegate.algebra import operators as op
from tidegate.scalars.expressions import span_of

_SUSPECTS: dict[str, tuple[type[exp.Expression], ...]] = {
    "DIVIDE_BY_ZERO": (exp.Div, exp.IntDiv, exp.Mod),
    "REMAINDER_BY_ZERO": (exp.Mod,),
    "CAST_INVALID_INPUT": (exp.Cast, exp.TryCast),
    "CAST_OVERFLOW": (exp.Cast, exp.TryCast),
    "ARITHMETIC_OVERFLOW": (exp.Add, exp.Sub, exp.Mul, exp.Neg, exp.Abs),
    "INVALID_ARRAY_INDEX": (exp.Bracket,),
}
"""Which expressions can have failed with a condition that Spark reports without a place in the query."""


def suspect(plan: op.Node, condition: str) -> tuple[int, int] | None:
    """Where the only expression stands that can have failed so; None if there are several."""
    kinds = _SUSPECTS.get(condition, ())
    expressions = [e for n in plan.walk() if kinds for e in n.held_expressions]
    found = {span_of(part) for e in expressions for part in e.find_all(*kinds)}
    return found.pop() if len(found) == 1 else None
