"""A query block under construction: a plan, the names visible in it, and how expressions are bound against both.

Nested queries inside an expression extend the plan by a column each, to the right, so positions already handed out stay valid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from sqlglot import exp

from tidegate.algebra import operators as op
from tidegate.errors import Diagnostic, unsupported
from tidegate.language import subqueries
from tidegate.language.aggregation import is_aggregate
from tidegate.language.catalog import Catalog
from tidegate.language.scopes import Columns, Scope, inwards
from tidegate.scalars.expressions import conjoin, ref, span_of
from tidegate.scalars.functions import AggregateFunction
from tidegate.scalars.typing import Typed, infer
from tidegate.types import BOOLEAN, VOID, Field, Schema

Ask = Callable[[exp.Expression, Schema], Typed]
"""Asks Spark for the type of an expression that Tidegate has no rule for."""

COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
_NEGATED: dict[type[exp.Expression], type[exp.Expression]] = {
    exp.EQ: exp.NEQ, exp.NEQ: exp.EQ, exp.LT: exp.GTE, exp.GTE: exp.LT, exp.GT: exp.LTE, exp.LTE: exp.GT,
}  # fmt: skip


class QueryBinder(Protocol):
    """What a block needs of the binder."""

    catalog: Catalog
    ask: Ask | None

    def query(self, ast: exp.Expression, outer: Block | None) -> op.Node: ...


class Block:
    """The plan so far and its scope."""

    def __init__(self, binder: QueryBinder, outer: Block | None) -> None:
        self.binder = binder
        self.outer = outer
        self.plan: op.Node = op.OneRow()
        self.scope: Scope = Scope([], outer.scope if outer is not None else None)

    @property
    def columns(self) -> Columns:
        return Columns(self.plan.schema, self.outer.columns if self.outer is not None else None)

    @property
    def user_aggregates(self) -> dict[str, AggregateFunction]:
        return dict(self.binder.catalog.aggregates)

    # expressions -----------------------------------------------------------------------------------------------

    def bind(self, ast: exp.Expression) -> exp.Expression:
        """The expression with positions for names; nested queries become columns of the plan."""
        return ast.copy().transform(self._bind_node, copy=False)

    def type_of(self, expression: exp.Expression) -> Typed:
        return infer(expression, self.columns, self.binder.catalog.functions, self.binder.ask)

    def bind_typed(self, ast: exp.Expression) -> tuple[exp.Expression, Typed]:
        expression = self.bind(ast)
        return expression, self.type_of(expression)

    def predicate(self, ast: exp.Expression, clause: str) -> exp.Expression:
        """A bound condition."""
        expression, typed = self.bind_typed(ast)
        if typed.type not in (BOOLEAN, VOID):
            raise Diagnostic("TYPE_MISMATCH", f"{clause} needs a condition, found {typed.type}").at(
                span_of(ast)
            )
        return expression

    def _bind_node(self, node: exp.Expression) -> exp.Expression:
        if node.meta.get("bound"):
            return node
        if isinstance(node, exp.Column):
            if isinstance(node.this, exp.Star):
                raise Diagnostic("SYNTAX_ERROR", "* cannot stand in an expression").at(span_of(node))
            return _bound(self.scope.resolve(node))
        if isinstance(node, exp.Window):
            raise unsupported(
                "OVER is not available: every aggregate here is over the stream's window",
                help="put WINDOW(…) after the stream in FROM; for a ranking use ORDER BY … LIMIT, or "
                "QUALIFY ROW_NUMBER() OVER (…) <= k",
            ).at(span_of(node))
        if is_nested_predicate(node):
            return self._mark(node)
        if isinstance(node, (exp.Subquery, exp.Select, exp.SetOperation)):
            return self._value(node)
        if isinstance(node, exp.Anonymous) and node.name.upper() in ("ISTREAM", "DSTREAM", "RSTREAM"):
            raise Diagnostic(
                "SYNTAX_ERROR",
                f"{node.name.upper()} makes a stream, not a value",
                help=f"as in SELECT * FROM {node.name.upper()}(SELECT …) x",
            ).at(span_of(node))
        if is_aggregate(node, self.user_aggregates):
            raise Diagnostic(
                "AGGREGATE_NOT_ALLOWED",
                "an aggregate cannot stand here",
                help="use HAVING, or aggregate in a sub-query",
            ).at(span_of(node))
        return node

    # nested queries --------------------------------------------------------------------------------------------

    def _nested(self, ast: exp.Expression) -> op.Node:
        while isinstance(ast, exp.Subquery) and not any(ast.args.get(k) for k in ("order", "limit", "with_")):
            ast = ast.this
        return _visible(self.binder.query(ast, self))

    def _value(self, ast: exp.Expression) -> exp.Expression:
        """A nested query as a value: a column of the plan."""
        nested = self._nested(ast)
        if len(nested.schema) != 1:
            raise Diagnostic(
                "COLUMN_COUNT",
                f"a sub-query used as a value must have one column, found {len(nested.schema)}",
            ).at(span_of(ast))
        with _placed(ast):
            self.plan = subqueries.value_join(self.plan, nested, span_of(ast) or (0, 0))
        return _bound(ref(len(self.plan.schema) - 1, ast))

    def _mark(self, node: exp.Expression) -> exp.Expression:
        """EXISTS, IN, ANY or ALL anywhere in an expression: its truth value as a column of the plan."""
        nested, true_where, null_where, negate = self._condition(node)
        with _placed(node):
            self.plan = subqueries.with_mark(self.plan, nested, true_where, null_where, "mark")
        column = _bound(ref(len(self.plan.schema) - 1, node))
        return exp.Not(this=column) if negate else column

    def filter_nested(self, ast: exp.Expression) -> None:
        """A nested predicate as a condition of its own: a semijoin or an antijoin of the plan."""
        negated = False
        while isinstance(ast, (exp.Not, exp.Paren)):
            negated ^= isinstance(ast, exp.Not)
            ast = ast.this
        if is_value_comparison(ast):
            self._compare_with_value(ast, negated)
            return
        nested, true_where, null_where, negate = self._condition(ast)
        with _placed(ast):
            if negated == negate:
                self.plan = subqueries.partner_join(self.plan, nested, "semi", true_where)
                return
            # NOT (some partner): no partner may be true, and none unknown
            where = true_where if null_where is None else _true_or_null(true_where, null_where)
            self.plan = subqueries.partner_join(self.plan, nested, "anti", where)

    def _compare_with_value(self, ast: exp.Expression, negated: bool) -> None:
        """`x op (SELECT …)` as a condition: true only where the value exists, so a semijoin (PIPES Fig. 6, Q4)."""
        left_nested = is_query(ast.this)
        value_ast, other_ast = (ast.this, ast.expression) if left_nested else (ast.expression, ast.this)
        other = self.bind(other_ast)
        nested = self._nested(value_ast)
        if len(nested.schema) != 1:
            raise Diagnostic(
                "COLUMN_COUNT",
                f"a sub-query used as a value must have one column, found {len(nested.schema)}",
            ).at(span_of(value_ast))
        kind = _NEGATED[type(ast)] if negated else type(ast)
        sides = (ref(0), inwards(other)) if left_nested else (inwards(other), ref(0))
        condition = kind(this=sides[0], expression=sides[1])
        self._check_pair(condition, nested, ast)
        if not subqueries.is_correlated(nested):
            if not subqueries.at_most_one_row(nested):
                nested = op.SingleRow(nested, (), span_of(value_ast) or (0, 0))
            self.plan = subqueries.partner_join(self.plan, nested, "semi", lambda _: condition)
            return
        with _placed(value_ast):
            self.plan = subqueries.value_join(self.plan, nested, span_of(value_ast) or (0, 0))
        value = ref(len(self.plan.schema) - 1)
        sides = (value, other) if left_nested else (other, value)
        self.plan = op.Filter(self.plan, kind(this=sides[0], expression=sides[1]))

    def _condition(self, node: exp.Expression) -> _Condition:
        """A nested predicate as (nested plan, when a row makes it true, when it makes it unknown, negated)."""
        if isinstance(node, exp.Exists):
            return self._nested(node.this), lambda _: None, None, False
        if isinstance(node, exp.In):
            nested = self._nested(node.args["query"])
            tests = node.this.expressions if isinstance(node.this, exp.Tuple) else [node.this]
            if isinstance(node.this, exp.Paren):
                tests = [node.this.this]
            if len(tests) != len(nested.schema):
                raise Diagnostic(
                    "COLUMN_COUNT", f"IN compares {len(tests)} values with {len(nested.schema)} columns"
                ).at(span_of(node))
            pairs: list[exp.Expression] = [
                exp.EQ(this=inwards(self.bind(t)), expression=ref(i)) for i, t in enumerate(tests)
            ]
            condition = conjoin(pairs)
            assert condition is not None
            return self._quantified(condition, nested, node, negate=False)
        assert isinstance(node, COMPARISONS)
        quantifier = node.expression
        nested = self._nested(quantifier.this)
        if len(nested.schema) != 1:
            raise Diagnostic(
                "COLUMN_COUNT", f"a quantified sub-query must have one column, found {len(nested.schema)}"
            ).at(span_of(quantifier))
        # x op ALL (q) is NOT (x negated-op ANY (q))
        universal = isinstance(quantifier, exp.All)
        kind = _NEGATED[type(node)] if universal else type(node)
        condition = kind(this=inwards(self.bind(node.this)), expression=ref(0))
        return self._quantified(condition, nested, node, negate=universal)

    def _quantified(
        self, condition: exp.Expression, nested: op.Node, node: exp.Expression, negate: bool
    ) -> _Condition:
        nullable = self._check_pair(condition, nested, node)
        unknown = exp.Is(this=exp.paren(condition.copy()), expression=exp.null())
        return nested, lambda _: condition, (lambda _: unknown) if nullable else None, negate

    def _check_pair(self, condition: exp.Expression, nested: op.Node, node: exp.Expression) -> bool:
        """Types of a comparison with a nested column; returns whether it can be unknown."""
        columns = Columns(nested.schema, self.columns)
        try:
            return infer(condition, columns, self.binder.catalog.functions, self.binder.ask).nullable
        except Diagnostic as diagnostic:
            diagnostic.span = span_of(node)
            raise


_Where = Callable[[op.Node], exp.Expression | None]
_Condition = tuple[op.Node, _Where, Callable[[op.Node], exp.Expression] | None, bool]


@contextmanager
def _placed(ast: exp.Expression) -> Iterator[None]:
    """What plans cannot say: where the nested query stands."""
    try:
        yield
    except Diagnostic as diagnostic:
        raise diagnostic.at(span_of(ast)) from diagnostic.__cause__


def _true_or_null(true_where: _Where, null_where: _Where) -> _Where:
    def where(nested: op.Node) -> exp.Expression:
        condition = true_where(nested)
        assert condition is not None
        return exp.Coalesce(this=condition.copy(), expressions=[exp.true()])

    return where


def _bound(expression: exp.Expression) -> exp.Expression:
    for column in expression.find_all(exp.Column):
        column.meta["bound"] = True
    expression.meta["bound"] = True
    return expression


def _visible(plan: op.Node) -> op.Node:
    """Without hidden columns."""
    if not any(f.hidden for f in plan.schema):
        return plan
    keep = [i for i, f in enumerate(plan.schema) if not f.hidden]
    fields: tuple[Field, ...] = tuple(plan.schema[i] for i in keep)
    return op.Project(plan, tuple(ref(i) for i in keep), fields)


def is_query(node: exp.Expression) -> bool:
    return isinstance(node, (exp.Subquery, exp.Select, exp.SetOperation))


def is_nested_predicate(node: exp.Expression) -> bool:
    """EXISTS (q), x IN (q), x op ANY (q), x op ALL (q)."""
    if isinstance(node, exp.Exists):
        return is_query(node.this)
    if isinstance(node, exp.In):
        return node.args.get("query") is not None
    return isinstance(node, COMPARISONS) and isinstance(node.expression, (exp.Any, exp.All))


def is_value_comparison(node: exp.Expression) -> bool:
    """x op (q), with the nested query on one side only and none inside the other."""
    if not isinstance(node, COMPARISONS):
        return False
    left, right = is_query(node.this), is_query(node.expression)
    other = node.expression if left else node.this
    return left != right and not has_query(other)


def has_query(node: exp.Expression) -> bool:
    return node.find(exp.Select, exp.SetOperation) is not None


__all__ = ["Ask", "Block", "has_query", "is_nested_predicate", "is_value_comparison"]
