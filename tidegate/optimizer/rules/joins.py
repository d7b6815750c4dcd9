"""The order of joins, as far as it needs no cost: no product of what a third input connects."""

from __future__ import annotations

from typing import TypeGuard

from sqlglot import exp

from tidegate.algebra import operators as op
from tidegate.algebra.properties import properties
from tidegate.scalars.expressions import conjoin, conjuncts, index_of, ref, references, substitute
from tidegate.scalars.total import never_fails


def join_connected_first(node: op.Node) -> op.Node | None:
    """`(S × R) ⋈_p T = (S ⋈_q T) ⋈_r R` up to the order of columns, q being what p says of S and T alone, an equality among it.

    Likewise with R first, where p connects that one alone: the product then stands higher, where another join may connect it. An
    input of one row multiplies nothing. A join by other conditions than equalities is taken apart where r has one.
    """
    if not (isinstance(node, op.Join) and node.kind == "inner" and node.predicate is not None):
        return None
    left, right = range(len(node.left.schema)), range(len(node.left.schema), len(node.schema))
    for composite, columns, third, others in (
        (node.left, left, node.right, right),
        (node.right, right, node.left, left),
    ):
        product, places = _renamed(composite)
        if _is_product(product):
            numbers = {c: places[k] for k, c in enumerate(columns)}
            numbers |= {c: len(product.schema) + k for k, c in enumerate(others)}
            apart = _taken_apart(product, third, conjuncts(_placed(node.predicate, numbers)))
            if apart is not None:
                joined, order = apart
                shown = tuple(ref(order[numbers[c]]) for c in range(len(node.schema)))
                return op.Project(joined, shown, node.schema)
    return None


def _is_product(plan: op.Node) -> TypeGuard[op.Join]:
    """Whether rows of both inputs meet without an equality."""
    if not (isinstance(plan, op.Join) and plan.kind == "inner"):
        return False
    left, right = range(len(plan.left.schema)), range(len(plan.left.schema), len(plan.schema))
    if any(_connects(c, left, right) for c in conjuncts(plan.predicate)):
        return False
    return not any(properties(side).has_key(()) for side in plan.inputs)


def _taken_apart(
    product: op.Join, third: op.Node, conditions: list[exp.Expression]
) -> tuple[op.Join, dict[int, int]] | None:
    """The joins in another order, and where the columns of the product and of the third input now stand."""
    middle, width = len(product.left.schema), len(product.schema)
    left, right, last = range(middle), range(middle, width), range(width, width + len(third.schema))
    parts = [*conjuncts(product.predicate), *conditions]
    schema = product.schema + third.schema
    for near, far, first, second in (
        (left, right, product.left, product.right),
        (right, left, product.right, product.left),
    ):
        # one that may fail is asked last, of rows that it was asked about before
        own = [p for p in parts if references(p) <= {*near, *last} and never_fails(p, schema)]
        rest = [p for p in parts if not any(p is o for o in own)]
        met = any(_connects(p, far, last) for p in rest)
        if not any(_connects(p, near, last) for p in own) or (product.predicate is not None and not met):
            continue
        order = {column: place for place, column in enumerate((*near, *last, *far))}
        inner = op.Join(first, third, "inner", conjoin(_placed(p, order) for p in own))
        return op.Join(inner, second, "inner", conjoin(_placed(p, order) for p in rest)), order
    return None


def _placed(condition: exp.Expression, order: dict[int, int]) -> exp.Expression:
    return substitute(condition, lambda i: ref(order[i]))


def _connects(condition: exp.Expression, near: range, third: range) -> bool:
    """Whether a condition is an equality between the columns of one side and those of another."""
    if not isinstance(condition, exp.EQ | exp.NullSafeEQ):
        return False
    sides = [references(condition.this), references(condition.expression)]
    return any(a and b and a <= {*near} and b <= {*third} for a, b in (sides, sides[::-1]))


def _renamed(plan: op.Node) -> tuple[op.Node, list[int]]:
    """What stands below a choice of columns, and which it chooses."""
    if isinstance(plan, op.Project):
        chosen = [index_of(e) for e in plan.expressions]
        if all(c is not None for c in chosen):
            return plan.input, [c for c in chosen if c is not None]
    return plan, [*range(len(plan.schema))]
