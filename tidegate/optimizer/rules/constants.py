"""What is known before any row: constants, conditions that always or never hold, and relations without rows.

The empty relation is `σ_false` of a scan, under a map that gives it the columns: no operator of its own, and what is read of
the source is nothing. A source stays, because it tells the kind of time.
"""

from __future__ import annotations

from decimal import Decimal
from itertools import islice

from sqlglot import exp

from tidegate.algebra import operators as op
from tidegate.algebra.modify import Modify, Restrict, Since, Sync
from tidegate.errors import Diagnostic
from tidegate.optimizer.implication import Conditions
from tidegate.optimizer.rules.filters import filtered
from tidegate.scalars.calls import is_nondeterministic
from tidegate.scalars.expressions import conjoin, conjuncts, index_of, ref, references, tree_of
from tidegate.scalars.meaning import compile_resolved
from tidegate.scalars.typing import infer, resolve, type_to_sqlglot
from tidegate.types import BOOLEAN, Field, Schema, Value

_OPERATORS = (
    exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.Not,
    exp.Is, exp.In, exp.Between, exp.And, exp.Or,
)  # fmt: skip
"""What is computed beforehand: a name in front of parentheses may be the user's."""


def fold_constants(node: op.Node) -> op.Node | None:
    """`μ_{f(c)}(S) = μ_{f(c)'}(S)`, likewise σ and ⋈, f(c) being a constant that has a value; `p and true = p`."""
    if isinstance(node, op.Filter) and _has_constants(node.predicate):
        predicate = _simple(_folded(node.predicate, unknown=True), node.schema)
        return op.Filter(node.input, predicate) if predicate != node.predicate else None
    if isinstance(node, op.Join) and node.predicate is not None and _has_constants(node.predicate):
        predicate = _simple(_folded(node.predicate, unknown=True), node.pair_schema)
        return op.Join(node.left, node.right, node.kind, predicate) if predicate != node.predicate else None
    if isinstance(node, op.Project):
        made = tuple(_folded(e, unknown=False) for e in node.expressions)
        return op.Project(node.input, made, node.fields) if made != node.expressions else None
    return None


def _folded(expression: exp.Expression, unknown: bool) -> exp.Expression:
    """An expression whose constant parts are written as their values, where these have the same type, or are `unknown` truths."""

    if not _has_constants(expression):
        return expression

    def visit(part: exp.Expression) -> exp.Expression:
        if not isinstance(part, _OPERATORS) or references(part):
            return part
        return _value(part, unknown) or part

    return expression.copy().transform(visit, copy=False)


LARGEST = 1_000
"""Parts of an expression that are looked into; larger ones are lists of values rather than conditions, and cost more than they gain."""


def _has_constants(expression: exp.Expression) -> bool:
    """Whether there is something to compute beforehand, and little enough to look through."""
    small = sum(1 for _ in islice(expression.walk(), LARGEST + 1)) <= LARGEST
    return small and expression.find(exp.Literal, exp.Boolean, exp.Null) is not None


def _value(part: exp.Expression, unknown: bool) -> exp.Expression | None:
    named = (n for n in part.find_all(exp.Func) if not isinstance(n, exp.Connector))
    if next(named, None) is not None or any(map(is_nondeterministic, part.find_all(exp.Expression))):
        return None
    try:
        resolved = resolve(part, (), {})
        literal = _literal(compile_resolved(resolved)(()))
        if literal is None:
            return None
        if literal == exp.null():
            return literal if unknown and resolved.type == BOOLEAN else None
        return literal if infer(literal, (), {}).type == resolved.type else None
    except Diagnostic:
        return None


def _literal(value: Value) -> exp.Expression | None:
    if value is None:
        return exp.null()
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    if isinstance(value, int | Decimal):
        number = exp.Literal.number(str(abs(value)) if isinstance(value, int) else format(abs(value), "f"))
        return exp.Neg(this=number) if value < 0 else number
    return exp.Literal.string(value) if isinstance(value, str) else None


def _simple(predicate: exp.Expression, schema: Schema) -> exp.Expression:
    """A condition without conjuncts that always hold; one that never does is all of it."""
    kept = []
    for part in (_decided(p, schema) for p in conjuncts(predicate)):
        if _is_false(part):
            return exp.false()
        if not _is_true(part):
            kept.append(part)
    return conjoin(kept) or exp.true()


def _decided(part: exp.Expression, schema: Schema) -> exp.Expression:
    """A conjunct whose truth is known before any row is read; otherwise the conjunct."""
    bare = _bare(part)
    if isinstance(bare, exp.Or):
        cases = [_decided(p, schema) for p in _cases(bare)]
        if any(map(_is_true, cases)):
            return exp.true()
        left = [c for c in cases if not _is_false(c)]
        return (
            part
            if len(left) == len(cases)
            else tree_of(exp.Or, [c.copy() for c in left])
            if left
            else exp.false()
        )
    negated = isinstance(bare, exp.Not)
    asked = _bare(bare.this) if negated else bare
    if isinstance(asked, exp.Is) and isinstance(asked.expression, exp.Null):
        column = index_of(asked.this)
        if column is not None and not schema[column].nullable:
            return exp.Boolean(this=negated)
    return part


def _bare(part: exp.Expression) -> exp.Expression:
    return _bare(part.this) if isinstance(part, exp.Paren) else part


def _cases(part: exp.Expression) -> list[exp.Expression]:
    part = _bare(part)
    return [*_cases(part.this), *_cases(part.expression)] if isinstance(part, exp.Or) else [part]


def _is_true(part: exp.Expression) -> bool:
    bare = _bare(part)
    return isinstance(bare, exp.Boolean) and bool(bare.this)


def _is_false(part: exp.Expression) -> bool:
    """As conditions go: unknown is not true either."""
    bare = _bare(part)
    return isinstance(bare, exp.Null) or (isinstance(bare, exp.Boolean) and not bare.this)


def drop_conditions_that_hold(node: op.Node) -> op.Node | None:
    """`σ_true(S) = S`; a join on what always holds is a product."""
    if isinstance(node, op.Filter) and _is_true(node.predicate):
        return node.input
    if isinstance(node, op.Join) and node.predicate is not None and _is_true(node.predicate):
        return op.Join(node.left, node.right, node.kind, None)
    return None


def find_contradictions(node: op.Node) -> op.Node | None:
    """`σ_{p and q}(S) = σ_false(S)` where no value satisfies p and q; likewise ⋈."""
    if not isinstance(node, op.Filter | op.Join) or node.predicate is None or _is_false(node.predicate):
        return None
    schema = node.pair_schema if isinstance(node, op.Join) else node.schema
    if not _has_constants(node.predicate) or not Conditions([node.predicate], schema).contradictory:
        return None
    if isinstance(node, op.Join):
        return op.Join(node.left, node.right, node.kind, exp.false())
    return op.Filter(node.input, exp.false())


def empty_what_has_no_rows(node: op.Node) -> op.Node | None:
    """`op(∅) = ∅` for operators with one input, σ_false(S) = ∅, top_0(S) = ∅; an empty group has no row."""
    unary = (
        op.Filter, op.Distinct, op.Aggregate, op.TopK, op.SingleRow, op.Window, op.Istream, op.Dstream, op.Rstream, Modify, Sync,
        Restrict, Since,
    )  # fmt: skip
    if not isinstance(node, unary) or is_empty(node):
        return None
    never = isinstance(node, op.Filter) and _is_false(node.predicate)
    never = never or (isinstance(node, op.TopK) and node.limit == 0)
    return _empty(node) if never or is_empty(node.inputs[0]) else None


def drop_empty_sides(node: op.Node) -> op.Node | None:
    """`S ∪ ∅ = S`, `S ⋈ ∅ = ∅`, `S ▷ ∅ = S`, `S - ∅ = S`; outer joins pad every row of the other side."""
    if isinstance(node, op.UnionAll):
        if is_empty(node.left) and is_empty(node.right):
            return _empty(node)
        for one, other in ((node.left, node.right), (node.right, node.left)):
            if is_empty(one):
                return _shown(other, [*range(len(node.schema))], node.schema)
        return None
    if isinstance(node, op.Except | op.Intersect):
        if is_empty(node.left) or (isinstance(node, op.Intersect) and is_empty(node.right)):
            return _empty(node)
        if is_empty(node.right):
            return node.left if node.all else op.Distinct(node.left)
    return _join_without(node) if isinstance(node, op.Join) else None


def _join_without(node: op.Join) -> op.Node | None:
    """A join of which one side, or the condition, has nothing to offer."""
    left, right = is_empty(node.left), is_empty(node.right)
    if node.predicate is not None and _is_false(node.predicate):
        alone = True
    elif left or right:
        alone = False
    else:
        return None
    keep_left = node.kind in ("left", "full", "anti") and not left
    keep_right = node.kind in ("right", "full") and not right
    if not alone and not right and keep_left:
        return None  # the left rows that are there have partners to look for
    width, total = len(node.left.schema), len(node.schema)
    parts = []
    if keep_left:
        parts.append(_shown(node.left, [i if i < width else None for i in range(total)], node.schema))
    if keep_right:
        parts.append(
            _shown(node.right, [None if i < width else i - width for i in range(total)], node.schema)
        )
    if not parts:
        return _empty(node)
    return parts[0] if len(parts) == 1 else op.UnionAll(*parts)


def is_empty(node: op.Node) -> bool:
    """Whether a plan is written as one that has no rows."""
    while isinstance(node, op.Project):
        node = node.input
    return isinstance(node, op.Filter) and _is_false(node.predicate) and isinstance(node.input, op.Scan)


def _empty(node: op.Node) -> op.Node | None:
    """The empty relation with the columns of a plan, over one of its sources; None where it has none."""
    scans = [n for n in node.walk() if isinstance(n, op.Scan)]
    if not scans or any(f.type.name in ("VOID", "INTERVAL") for f in node.schema):
        return None
    timed = [s for s in scans if s.fields and s.fields[-1].hidden]
    nothing = filtered((timed or scans)[0], [exp.false()])
    return _shown(nothing, [None] * len(node.schema), node.schema)


def _shown(plan: op.Node, places: list[int | None], schema: Schema) -> op.Node:
    """Some columns of a plan under the names of a schema, and NULL for the others."""
    if places == [*range(len(plan.schema))] and plan.schema == schema:
        return plan
    expressions = tuple(_null(f) if p is None else ref(p) for p, f in zip(places, schema, strict=True))
    return op.Project(plan, expressions, schema)


def _null(field: Field) -> exp.Expression:
    return exp.Cast(this=exp.null(), to=type_to_sqlglot(field.type))
