"""Nested queries become joins (Dayal 1987): semijoins, antijoins, outer joins and aggregations.

Everything here works on plans. A nested plan may address the columns of the plan around it (positions from OUTER on); what
comes out does not. Two ways lead there: predicates that stand where they can move are pulled up into the join; anything else runs
once for every distinct combination of the outer columns it reads (`once_per`), which is always right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlglot import exp

from tidegate.algebra import operators as op
from tidegate.errors import unsupported
from tidegate.language.scopes import OUTER
from tidegate.scalars.expressions import conjoin, conjuncts, index_of, ref, references, substitute
from tidegate.types import Schema

Combine = Callable[[exp.Expression], exp.Expression]


def outer_columns(plan: op.Node) -> list[int]:
    """The columns of the immediately enclosing query that a nested plan reads, in order."""
    found = {i - OUTER for node in plan.walk() for e in _expressions(node) for i in references(e)}
    return sorted(i for i in found if 0 <= i < OUTER)


def is_correlated(plan: op.Node) -> bool:
    return any(i >= OUTER for node in plan.walk() for e in _expressions(node) for i in references(e))


def _expressions(node: op.Node) -> Sequence[exp.Expression]:
    if isinstance(node, (op.Filter, op.Join)):
        return [node.predicate] if node.predicate is not None else []
    return node.expressions if isinstance(node, op.Project) else []


def _localize(expression: exp.Expression, width: int, local: Callable[[int], int]) -> exp.Expression:
    """An expression of the nested query as a join's predicate sees it: outer columns left, its own right."""

    def position(i: int) -> exp.Expression:
        if i < OUTER:
            return ref(width + local(i))
        return ref(i - OUTER)  # level 1 becomes the left input; further levels move one step inwards

    return substitute(expression, position)


def partner_join(
    outer: op.Node, nested: op.Node, kind: str, condition: Callable[[op.Node], exp.Expression | None]
) -> op.Node:
    """A semi- or antijoin of `outer` with the rows of `nested` that satisfy the condition.

    `condition` gets the nested plan and returns a predicate in which outer columns stand at OUTER + i.
    """
    pulled = pull_up(nested, duplicates_matter=False)
    width = len(outer.schema)
    if pulled is not None:
        inner, predicates = pulled
        predicates = [*predicates, *conjuncts(condition(nested))]
        return op.Join(outer, inner, kind, conjoin(_localize(p, width, lambda i: i) for p in predicates))
    columns = outer_columns(nested)
    inner = once_per(outer, columns, nested)
    same = _same_columns(columns, range(width, width + len(columns)))
    own = [_localize(p, width, lambda i: i + len(columns)) for p in conjuncts(condition(nested))]
    return op.Join(outer, inner, kind, conjoin([*same, *own]))


def value_join(outer: op.Node, nested: op.Node, position: tuple[int, int]) -> op.Node:
    """`outer` with the single value of `nested` (NULL if it has no row) as a further, last column."""
    width = len(outer.schema)
    if not is_correlated(nested):
        value = nested if at_most_one_row(nested) else op.SingleRow(nested, (), position)
        return op.Join(outer, value, "left", None)
    grouped = group_by_equalities(nested)
    if grouped is not None:
        inner, predicates = grouped
        on = conjoin(_localize(p, width, lambda i: i) for p in predicates)
        return _value_last(op.Join(outer, inner, "left", on), width, 0)
    columns = outer_columns(nested)
    inner = once_per(outer, columns, nested)
    if not at_most_one_row(nested):
        inner = op.SingleRow(inner, tuple(range(len(columns))), position)
    on = conjoin(_same_columns(columns, range(width, width + len(columns))))
    return _value_last(op.Join(outer, inner, "left", on), width, len(columns))


def _value_last(join: op.Join, width: int, value: int) -> op.Node:
    keep = [*range(width), width + value]
    return op.Project(join, tuple(ref(i) for i in keep), tuple(join.schema[i] for i in keep))


def _same_columns(left: Sequence[int], right: Sequence[int]) -> list[exp.Expression]:
    return [exp.NullSafeEQ(this=ref(a), expression=ref(b)) for a, b in zip(left, right, strict=True)]


def at_most_one_row(plan: op.Node) -> bool:
    """Whether a nested query, for one outer row, has one row at the most."""
    if isinstance(plan, (op.Project, op.Filter, op.Distinct)):
        return at_most_one_row(plan.input)
    if isinstance(plan, op.TopK):
        return not plan.partition_by and plan.limit <= 1
    if isinstance(plan, op.Aggregate):
        return not plan.keys
    return isinstance(plan, (op.SingleRow, op.OneRow))


# pulling predicates up ----------------------------------------------------------------------------------------


def pull_up(plan: op.Node, duplicates_matter: bool) -> tuple[op.Node, list[exp.Expression]] | None:
    """The plan without the predicates that read outer columns, and those predicates; None where they cannot move.

    Columns that the predicates need are appended, so positions of the plan's own columns stay.
    """
    if not is_correlated(plan):
        return plan, []
    if isinstance(plan, op.Distinct) and not duplicates_matter:
        return pull_up(plan.input, duplicates_matter)
    if isinstance(plan, op.Filter):
        beneath = pull_up(plan.input, duplicates_matter)
        if beneath is None:
            return None
        inner, predicates = beneath
        own = conjuncts(plan.predicate)
        local = [p for p in own if max(references(p), default=0) < OUTER]
        predicates += [p for p in own if max(references(p), default=0) >= OUTER]
        remaining = conjoin(local)
        return (op.Filter(inner, remaining) if remaining is not None else inner), predicates
    if isinstance(plan, op.Project) and not any(i >= OUTER for e in plan.expressions for i in references(e)):
        beneath = pull_up(plan.input, duplicates_matter)
        if beneath is None:
            return None
        inner, predicates = beneath
        extended, positions = _carry(plan, inner, predicates)
        moved = [substitute(p, lambda i: ref(i if i >= OUTER else positions[i])) for p in predicates]
        return extended, moved
    if isinstance(plan, op.Join) and plan.kind == "inner" and not _reads_outer(plan.predicate):
        if is_correlated(plan.right):
            return None
        beneath = pull_up(plan.left, duplicates_matter)
        if beneath is None or len(beneath[0].schema) != len(plan.left.schema):
            return None
        return op.Join(beneath[0], plan.right, "inner", plan.predicate), beneath[1]
    return None


def _reads_outer(predicate: exp.Expression | None) -> bool:
    return predicate is not None and any(i >= OUTER for i in references(predicate))


def _carry(
    project: op.Project, inner: op.Node, predicates: Sequence[exp.Expression]
) -> tuple[op.Project, dict[int, int]]:
    """The projection, extended by the input columns that the predicates read; and where these now stand."""
    expressions, fields = list(project.expressions), list(project.fields)
    positions: dict[int, int] = {}
    for i in sorted({i for p in predicates for i in references(p) if i < OUTER}):
        plain = [k for k, e in enumerate(expressions) if index_of(e) == i]
        if not plain:
            expressions.append(ref(i))
            fields.append(replace(inner.schema[i], hidden=True))
        positions[i] = plain[0] if plain else len(expressions) - 1
    return op.Project(inner, tuple(expressions), tuple(fields)), positions


def group_by_equalities(plan: op.Node) -> tuple[op.Node, list[exp.Expression]] | None:
    """An aggregate correlated by equalities alone, grouped by their inner sides instead.

    `(SELECT MAX(x) FROM R WHERE R.k = S.k)` becomes one group per k, joined on k. The value stays the first column.
    """
    if isinstance(plan, op.Project) and len(plan.expressions) == 1:
        beneath = group_by_equalities(plan.input)
        if beneath is None or is_correlated(beneath[0]) or _reads_outer(plan.expressions[0]):
            return None
        inner, predicates = beneath
        extended, positions = _carry(plan, inner, predicates)
        return extended, [substitute(p, lambda i: ref(i if i >= OUTER else positions[i])) for p in predicates]
    if not isinstance(plan, op.Aggregate) or plan.keys:
        return None
    pulled = pull_up(plan.input, duplicates_matter=True)
    if pulled is None:
        return None
    inner, predicates = pulled
    keys: list[int] = []
    for predicate in predicates:
        sides = _equality_sides(predicate)
        if sides is None:
            return None
        keys.append(sides)
    keys = sorted(set(keys))
    grouped = op.Aggregate(inner, tuple(keys), plan.aggregations)
    width = len(keys)
    order = [*range(width, width + len(plan.aggregations)), *range(width)]
    value_first = op.Project(grouped, tuple(ref(i) for i in order), tuple(grouped.schema[i] for i in order))
    places = {k: len(plan.aggregations) + n for n, k in enumerate(keys)}
    return value_first, [substitute(p, lambda i: ref(i if i >= OUTER else places[i])) for p in predicates]


def _equality_sides(predicate: exp.Expression) -> int | None:
    """The inner column of `inner = f(outer)`; None for any other predicate."""
    if not isinstance(predicate, exp.EQ):
        return None
    left, right = predicate.this, predicate.expression
    for a, b in ((left, right), (right, left)):
        column = index_of(a)
        if column is not None and column < OUTER and all(i >= OUTER for i in references(b)):
            return column
    return None


# once per combination of outer values --------------------------------------------------------------------------


def once_per(outer: op.Node, columns: Sequence[int], nested: op.Node) -> op.Node:
    """The nested plan for every distinct combination of the outer columns it reads: those columns, then its own."""
    fields = tuple(outer.schema[i] for i in columns)
    domain = op.Distinct(op.Project(outer, tuple(ref(i) for i in columns), fields))
    return _Dependent(domain, {c: k for k, c in enumerate(columns)}).push(nested)


class _Dependent:
    """Carries the domain down to where outer columns are read (Neumann and Kemper's unnesting)."""

    def __init__(self, domain: op.Node, places: dict[int, int]) -> None:
        self.domain, self.places, self.width = domain, places, len(places)

    def push(self, plan: op.Node) -> op.Node:
        if not outer_columns(plan):
            return op.Join(self.domain, self._outwards(plan), "inner", None)
        width = self.width
        if isinstance(plan, op.Filter):
            return op.Filter(self.push(plan.input), self._expression(plan.predicate))
        if isinstance(plan, op.Project):
            keep = tuple(ref(i) for i in range(width))
            own = tuple(self._expression(e) for e in plan.expressions)
            return op.Project(self.push(plan.input), keep + own, self._fields() + plan.fields)
        if isinstance(plan, op.Aggregate):
            keys = (*range(width), *(k + width for k in plan.keys))
            return op.Aggregate(self.push(plan.input), keys, tuple(map(self._aggregation, plan.aggregations)))
        if isinstance(plan, op.Distinct):
            return op.Distinct(self.push(plan.input))
        if isinstance(plan, op.TopK):
            order = tuple(replace(k, column=k.column + width) for k in plan.keys)
            parts = (*range(width), *(i + width for i in plan.partition_by))
            return replace(plan, input=self.push(plan.input), keys=order, partition_by=parts)
        if isinstance(plan, op.SingleRow):
            parts = (*range(width), *(i + width for i in plan.partition_by))
            return replace(plan, input=self.push(plan.input), partition_by=parts)
        if isinstance(plan, (op.UnionAll, op.Except, op.Intersect)):
            return plan.with_inputs(self.push(plan.left), self.push(plan.right))  # type: ignore[no-any-return]
        if isinstance(plan, op.Join):
            return self._join(plan)
        raise unsupported(
            "a nested query cannot read outer columns beneath a window",
            help="move the comparison with the outer column above the window",
        )

    def _join(self, plan: op.Join) -> op.Node:
        width, left_width = self.width, len(plan.left.schema)
        predicate = plan.predicate
        if not outer_columns(plan.right) and plan.kind in ("inner", "left", "semi", "anti"):
            on = None if predicate is None else self._expression(predicate)
            return op.Join(self.push(plan.left), self._outwards(plan.right), plan.kind, on)

        def place(i: int) -> exp.Expression:
            if i >= OUTER:
                return self._place(i)
            return ref(i + width if i < left_width else i + 2 * width)

        same = _same_columns(range(width), range(width + left_width, 2 * width + left_width))
        own = [] if predicate is None else conjuncts(substitute(predicate, place))
        joined = op.Join(self.push(plan.left), self.push(plan.right), plan.kind, conjoin([*same, *own]))
        if plan.kind in ("semi", "anti"):
            return joined
        schema = joined.schema
        right = range(2 * width + left_width, len(schema))
        known = [self._either(i, i + width + left_width, plan.kind) for i in range(width)]
        return op.Project(
            joined,
            (*known, *(ref(i) for i in (*range(width, width + left_width), *right))),
            (*self._fields(), *schema[width : width + left_width], *(schema[i] for i in right)),
        )

    @staticmethod
    def _either(left: int, right: int, kind: str) -> exp.Expression:
        if kind in ("inner", "left"):
            return ref(left)
        return ref(right) if kind == "right" else exp.Coalesce(this=ref(left), expressions=[ref(right)])

    def _fields(self) -> Schema:
        return self.domain.schema

    def _place(self, i: int) -> exp.Expression:
        column = i - OUTER
        return ref(self.places[column]) if column < OUTER else ref(column)

    def _expression(self, expression: exp.Expression) -> exp.Expression:
        """The nested query's own columns stand behind the domain's."""
        return substitute(expression, lambda i: self._place(i) if i >= OUTER else ref(i + self.width))

    def _aggregation(self, aggregation: op.Aggregation) -> op.Aggregation:
        where = None if aggregation.where is None else aggregation.where + self.width
        moved = tuple(a + self.width for a in aggregation.arguments)
        return replace(aggregation, arguments=moved, where=where)

    def _outwards(self, plan: op.Node) -> op.Node:
        """References beyond the immediate outer query come one step nearer."""
        return map_expressions(plan, lambda e: substitute(e, lambda i: ref(i - OUTER if i >= OUTER else i)))


def map_expressions(plan: op.Node, change: Combine) -> op.Node:
    """The same plan with every scalar expression changed."""
    inputs = [map_expressions(node, change) for node in plan.inputs]
    if inputs:
        plan = plan.with_inputs(*inputs)
    if isinstance(plan, (op.Filter, op.Join)) and plan.predicate is not None:
        return replace(plan, predicate=change(plan.predicate))
    if isinstance(plan, op.Project):
        return replace(plan, expressions=tuple(change(e) for e in plan.expressions))
    return plan


# truth values of nested predicates -----------------------------------------------------------------------------------


def with_mark(
    outer: op.Node,
    nested: op.Node,
    true_where: Callable[[op.Node], exp.Expression | None],
    null_where: Callable[[op.Node], exp.Expression] | None,
    name: str,
) -> op.Node:
    """`outer` with the truth of "some nested row satisfies the condition" as a last column.

    True where a partner exists, otherwise NULL where one exists for `null_where`, otherwise false: three disjoint
    parts, united.
    """

    def marked(plan: op.Node, value: exp.Expression, nullable: bool) -> op.Node:
        fields = (*outer.schema, op.boolean_field(name, null_where is not None or nullable))
        return op.Project(plan, (*(ref(i) for i in range(len(outer.schema))), value), fields)

    true_part = partner_join(outer, nested, "semi", true_where)
    others = partner_join(outer, nested, "anti", true_where)
    if null_where is None:
        return op.UnionAll(marked(true_part, exp.true(), False), marked(others, exp.false(), False))
    null_part = partner_join(others, nested, "semi", null_where)
    false_part = partner_join(others, nested, "anti", null_where)
    unknown = exp.Cast(this=exp.null(), to=exp.DataType.build("boolean"))
    return op.UnionAll(
        op.UnionAll(marked(true_part, exp.true(), True), marked(false_part, exp.false(), True)),
        marked(null_part, unknown, True),
    )
