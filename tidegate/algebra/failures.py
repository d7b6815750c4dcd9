"""Where a failure happened that does not say so itself: which query, which expression, which of the user's functions."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from sqlglot import exp

from tidegate.algebra import operators as op
from tidegate.errors import Diagnostic
from tidegate.scalars.expressions import span_of

WORKER_DIED = "WORKER_DIED"
"""A worker's process ended while it worked: by itself, by its memory, or by somebody."""

_SUSPECTS: dict[str, tuple[type[exp.Expression], ...]] = {
    "DIVIDE_BY_ZERO": (exp.Div, exp.IntDiv, exp.Mod),
    "REMAINDER_BY_ZERO": (exp.Mod,),
    "CAST_INVALID_INPUT": (exp.Cast, exp.TryCast),
    "CAST_OVERFLOW": (exp.Cast, exp.TryCast),
    "ARITHMETIC_OVERFLOW": (exp.Add, exp.Sub, exp.Mul, exp.Neg, exp.Abs),
    "INVALID_ARRAY_INDEX": (exp.Bracket,),
}
"""Which expressions can have failed with a condition that Spark reports without a place in the query."""

Span = tuple[int, int]


def located(diagnostic: Diagnostic, queries: Sequence[tuple[op.Node, str, Collection[str]]]) -> Diagnostic:
    """The failure with its place in the one query (plan, text, user functions) that it can have happened in."""
    if diagnostic.text is not None:
        return diagnostic
    possible, likely = [], []
    for plan, text, functions in queries:
        suspects = _suspects(plan, diagnostic.condition, functions)
        span = diagnostic.span or (next(iter(suspects)) if len(suspects) == 1 else None)
        known = suspects if diagnostic.span is None else diagnostic.span in _spans(plan)
        # Casts may be implicit, and so may others of Spark's; the user's functions stand in the text.
        told = diagnostic.span is not None or diagnostic.condition == WORKER_DIED
        if known or len(queries) == 1 or not told:
            possible.append((span, text))
            likely += [(span, text)] if suspects else []
    if diagnostic.condition == WORKER_DIED:
        called = sorted({name for plan, _, functions in queries for name, _ in user_calls(plan, functions)})
        if called:
            diagnostic.help = f"it runs the user's {', '.join(called)}: look there for os._exit, native code or too much memory"
    if likely and not diagnostic.condition.startswith("CAST"):
        # Division and the like are never implicit: it was a query that has one.
        possible = likely
    if len(possible) == 1:
        ((span, text),) = possible
        diagnostic.at(span).locate(text)
    elif diagnostic.span is not None and possible:
        # The same place in several texts: each of them is one that the failure can have happened in.
        diagnostic.locate(possible[0][1])
    return diagnostic


def anywhere(plan: op.Node) -> Span | None:
    """The first place of a query in its text, for a failure that nothing more is known of."""
    return min((span for span in _spans(plan) if span is not None), default=None)


def _suspects(plan: op.Node, condition: str, functions: Collection[str]) -> set[Span | None]:
    """Where expressions stand that can have failed so."""
    if condition == WORKER_DIED:
        return {span for _, span in user_calls(plan, functions)}
    kinds = _SUSPECTS.get(condition, ())
    return {span_of(part) for e in _expressions(plan) if kinds for part in e.find_all(*kinds)}


def user_calls(plan: op.Node, functions: Collection[str]) -> Iterator[tuple[str, Span | None]]:
    """The calls of some of the user's functions, given in lower case: name and place."""
    for e in _expressions(plan) if functions else ():
        for call in e.find_all(exp.Expression):
            if not isinstance(call, exp.Func):
                continue
            names = [call.name] if isinstance(call, exp.Anonymous) else type(call).sql_names()
            yield from ((n.lower(), span_of(call)) for n in names if n.lower() in functions)
    for a in _aggregations(plan) if functions else ():
        if a.function.lower() in functions:
            yield a.function.lower(), a.span


def _spans(plan: op.Node) -> set[Span | None]:
    parts = {span_of(part) for e in _expressions(plan) for part in e.find_all(exp.Expression)}
    return parts | {a.span for a in _aggregations(plan)}


def _expressions(plan: op.Node) -> Iterator[exp.Expression]:
    return (e for node in plan.walk() for e in node.held_expressions)


def _aggregations(plan: op.Node) -> Iterator[op.Aggregation]:
    return (a for node in plan.walk() if isinstance(node, op.Aggregate) for a in node.aggregations)
