"""Projections: maps that become one, none, or share what they compute (PIPES lemma 6.7)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from sqlglot import exp

from tidegate.algebra import operators as op
from tidegate.errors import Diagnostic
from tidegate.scalars.calls import is_nondeterministic
from tidegate.scalars.expressions import index_of, ref, references, substitute
from tidegate.scalars.typing import infer
from tidegate.types import Field, Schema


def merge_projects(node: op.Node) -> op.Node | None:
    """`μ_f(μ_g(S)) = μ_{f o g}(S)`, where no computed column of g would be computed twice."""
    if not (isinstance(node, op.Project) and isinstance(node.input, op.Project)):
        return None
    inner = node.input
    uses: dict[int, int] = {}
    for expression in node.expressions:
        for column in expression.find_all(exp.Column):
            index = index_of(column)
            if index is not None:
                uses[index] = uses.get(index, 0) + 1
    if any(count > 1 and not is_plain(inner.expressions[i]) for i, count in uses.items()):
        return None
    merged = tuple(substitute(e, lambda i: _inlined(inner.expressions[i])) for e in node.expressions)
    return op.Project(inner.input, merged, node.fields)


def is_plain(expression: exp.Expression) -> bool:
    return index_of(expression) is not None or isinstance(expression, exp.Literal)


def _inlined(expression: exp.Expression) -> exp.Expression:
    copy = expression.copy()
    return copy if is_plain(copy) or isinstance(copy, (exp.Func, exp.Paren)) else exp.paren(copy)


def remove_identity_project(node: op.Node) -> op.Node | None:
    """`μ_id(S) = S`"""
    if not isinstance(node, op.Project) or node.fields != node.input.schema:
        return None
    return node.input if [index_of(e) for e in node.expressions] == [*range(len(node.fields))] else None


def push_projection_below_union(node: op.Node) -> op.Node | None:
    """`μ_f(S ∪ R) = μ_f(S) ∪ μ_f(R)`"""
    if not (isinstance(node, op.Project) and isinstance(node.input, op.UnionAll)):
        return None
    union = node.input
    return op.UnionAll(replace(node, input=union.left), replace(node, input=union.right))


def compute_calls_once(node: op.Node) -> op.Node | None:
    """`μ_{f(g), h(g)}(S) = μ_{f(x), h(x)}(μ_{*, g AS x}(S))` for a call g of a function that is evaluated anyway.

    Only what the expressions ask for of every row is computed once: a call behind CASE, AND or COALESCE may never be asked for.
    """
    if not isinstance(node, op.Project):
        return None
    schema = node.input.schema
    often = Counter(call for e in node.expressions for call in _always_called(e))
    for call in sorted(often, key=lambda c: -sum(1 for _ in c.walk())):
        type_ = _typed(call, schema)
        if often[call] < 2 or type_ is None:
            continue
        used = sorted(set().union(*map(references, node.expressions)))
        places = {c: i for i, c in enumerate(used)}
        fields = (*(schema[c] for c in used), type_)
        below = op.Project(node.input, (*map(ref, used), call.copy()), fields)

        def over(
            part: exp.Expression, call: exp.Expression = call, places: dict[int, int] = places
        ) -> exp.Expression:
            if part == call:
                return ref(len(places), part)
            index = index_of(part)
            return part if index is None else ref(places[index], part)

        above = tuple(e.copy().transform(over, copy=False) for e in node.expressions)
        return op.Project(below, above, node.fields)
    return None


_SIMPLE = (
    exp.Connector, exp.Case, exp.If, exp.Coalesce, exp.Cast, exp.TryCast, exp.Nullif, exp.Anonymous, exp.AnonymousAggFunc,
)  # fmt: skip
_LAZY = (exp.Connector, exp.Case, exp.If, exp.Coalesce, exp.Nullif, exp.In, exp.Between)


def _always_called(expression: exp.Expression) -> Iterator[exp.Expression]:
    """The calls of functions of columns that every evaluation of an expression makes."""
    if isinstance(expression, exp.Func) and not isinstance(expression, _SIMPLE) and references(expression):
        yield expression
    if not isinstance(expression, _LAZY):
        for part in expression.iter_expressions():
            yield from _always_called(part)


def _typed(call: exp.Expression, schema: Schema) -> Field | None:
    """The column that a call makes; None where that is not certain before it runs."""
    if any(is_nondeterministic(n) for n in call.find_all(exp.Expression)):
        return None
    try:
        found = infer(call, schema, {})
    except Diagnostic:
        return None
    return Field("shared", found.type, found.nullable)
