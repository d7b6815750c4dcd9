"""The SELECT list and GROUP BY of one block: keys and aggregates become columns of an Aggregate, what stands above reads those."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlglot import exp

from tidegate.algebra import operators as op
from tidegate.algebra.printing import aggregation_text, expression_text
from tidegate.errors import Diagnostic, did_you_mean, unsupported
from tidegate.language.aggregation import (
    PAIRS,
    Call,
    expanded,
    is_aggregate,
    may_be_null,
    read_call,
    result_type,
)
from tidegate.language.blocks import Block, QueryBinder, has_query
from tidegate.language.catalog import ORDER
from tidegate.language.dialect import text_of
from tidegate.language.froms import FromBinder
from tidegate.language.ranking import read_ranking
from tidegate.language.scopes import OUTER, Relation, Scope, is_correlated, not_grouped
from tidegate.scalars.expressions import index_of, ref, span_of
from tidegate.scalars.typing import type_to_sqlglot
from tidegate.types import BIGINT, BOOLEAN, DOUBLE, TINYINT, VOID, Field

Output = tuple[str, exp.Expression]


class GroupBinder(FromBinder):
    """Binds the SELECT list and GROUP BY."""

    def __init__(
        self, binder: QueryBinder, outer: Block | None, present: frozenset[int] | None = None
    ) -> None:
        """`present` says which of the grouping keys one of several groupings has; None: all."""
        super().__init__(binder, outer)
        self.present = present

    # GROUP BY --------------------------------------------------------------------------------------------------

    def _is_aggregated(self, ast: exp.Select, items: list[Output]) -> bool:
        if ast.args.get("group") is not None:
            return True
        having = ast.args.get("having")
        parts = [e for _, e in items] + ([having.this] if having is not None else []) + order_terms(ast)
        ranking = read_ranking(ast)
        parts += ranking.terms if ranking is not None else []
        return any(self._aggregates_in(p) for p in parts)

    def _aggregates_in(self, node: exp.Expression) -> bool:
        """Whether an aggregate of this block (not of a nested query) stands in an expression."""
        if isinstance(node, exp.Query):
            return False
        if is_aggregate(node, self.user_aggregates):
            return True
        return any(self._aggregates_in(child) for child in node.iter_expressions())

    def _group(self, ast: exp.Select, items: list[Output]) -> tuple[list[Output], list[exp.Expression]]:
        """The plan becomes an Aggregate; what stands above is rewritten to its columns."""
        group = ast.args.get("group")
        terms = list(group.expressions) if group is not None else []
        if group is not None and group.args.get("all"):
            raise unsupported("GROUP BY ALL is not available", help="name the columns to group by").at(
                span_of(group) or span_of(ast)
            )
        keys: list[exp.Expression] = []
        every: list[exp.Expression] = []
        for number, term in enumerate(terms):
            if any(isinstance(n, exp.Query) for n in term.walk()):
                raise unsupported("a sub-query cannot stand in GROUP BY").at(span_of(term))
            bound = self.bind(self._group_term(term, items))
            self.type_of(bound)
            every.append(bound)
            if bound not in keys and (self.present is None or number in self.present):
                keys.append(bound)
        self._keys, self._every = keys, every
        self._calls: list[tuple[Call, tuple[exp.Expression, ...], exp.Expression | None, exp.Expression]] = []
        lifted = [(name, self._lift(item)) for name, item in items]
        order = [self._lift(t) if self._order_output(t, items) is None else t for t in order_terms(ast)]
        having = ast.args.get("having")
        if having is not None:
            self._lift(having.this)
        ranking = read_ranking(ast)
        for term in ranking.terms if ranking is not None else []:
            self._lift(term)
        self._aggregate()
        return lifted, order

    def aggregated(self, keys: list[exp.Expression], calls: list[exp.Expression]) -> list[int]:
        """Let the plan be its grouping by bound keys; the places of the calls among the aggregates."""
        self._keys, self._every, self._calls = list(dict.fromkeys(keys)), keys, []
        places = [self._call(call.copy()) for call in calls]
        self._aggregate()
        if len(self._keys) < len(keys):
            raise Diagnostic("DUPLICATE_COLUMN", "PARTITION BY names a column twice").at(span_of(keys[0]))
        return places

    def _group_term(self, term: exp.Expression, items: list[Output]) -> exp.Expression:
        if isinstance(term, exp.Literal) and not term.is_string:
            position = int(term.this) if term.this.isdigit() else 0
            if not 1 <= position <= len(items):
                raise Diagnostic(
                    "UNKNOWN_COLUMN", f"GROUP BY {term.this}: there are {len(items)} columns"
                ).at(span_of(term))
            return items[position - 1][1]
        if isinstance(term, exp.Column) and not term.table:
            try:
                self.scope.resolve(term)
            except Diagnostic:
                named = [e for n, e in items if n.lower() == term.name.lower() and not self._aggregates_in(e)]
                if named:
                    return named[0]
                raise
        if self._aggregates_in(term):
            raise Diagnostic("AGGREGATE_NOT_ALLOWED", "an aggregate cannot stand in GROUP BY").at(
                span_of(term)
            )
        return term

    def _lift(self, ast: exp.Expression) -> exp.Expression:
        """An expression above the grouping: keys and aggregates become its columns, nested queries stay."""

        def visit(node: exp.Expression) -> exp.Expression:
            if isinstance(node, exp.Query):
                return node
            if node.meta.get("bound") and index_of(node) is not None:  # a column of *
                if node not in self._every:
                    raise not_grouped(self._before_grouping().plan.schema[index_of(node) or 0].name, node)
                return self._key_column(node, node)
            if isinstance(node, (exp.Grouping, exp.GroupingId)):
                return self._grouping(node)
            spelt_out = expanded(node)
            if spelt_out is not None:
                return self._lift(spelt_out)
            if is_aggregate(node, self.user_aggregates):
                return self._marked(len(self._keys) + self._call(node), node)
            key = self._key(node)
            return node if key is None else self._key_column(key, node)

        return _transform(ast.copy(), visit)

    @staticmethod
    def _marked(position: int, node: exp.Expression) -> exp.Expression:
        column = ref(position, node)
        column.meta["bound"] = True
        return column

    def _key_column(self, key: exp.Expression, node: exp.Expression) -> exp.Expression:
        """The column of a key, or NULL where this grouping is without it."""
        if key in self._keys:
            return self._marked(self._keys.index(key), node)
        return exp.Cast(this=exp.null(), to=type_to_sqlglot(self._before_grouping().type_of(key).type))

    def _grouping(self, node: exp.Expression) -> exp.Expression:
        """GROUPING(key): whether this grouping is without the key; GROUPING_ID: all of them as the digits of a binary number."""
        asked = [(self._key(e), e) for e in node.expressions]
        for key, e in asked:
            if key is None:
                raise Diagnostic("NOT_GROUPED", f"{text_of(e)} is no key of GROUP BY").at(span_of(e))
        keys = [key for key, _ in asked] or (list(self._every) if isinstance(node, exp.GroupingId) else [])
        if not keys or (isinstance(node, exp.Grouping) and len(keys) != 1):
            raise Diagnostic("WRONG_ARGUMENTS", f"GROUPING takes one key, found {len(keys)}").at(
                span_of(node)
            )
        number = 0
        for key in keys:
            number = 2 * number + (key not in self._keys)
        kind = TINYINT if isinstance(node, exp.Grouping) else BIGINT
        return exp.Cast(this=exp.Literal.number(number), to=type_to_sqlglot(kind))

    def _key(self, node: exp.Expression) -> exp.Expression | None:
        if has_query(node) or self._aggregates_in(node) or isinstance(node, (exp.Literal, exp.Star)):
            return None
        try:
            bound = Block.bind(self._before_grouping(), node)
        except Diagnostic:
            return None
        return bound if bound in self._every else None

    def _before_grouping(self) -> GroupBinder:
        return getattr(self, "_ungrouped", self)

    def _call(self, node: exp.Expression) -> int:
        before = self._before_grouping()
        call = read_call(node, self.user_aggregates)
        for argument in [*call.arguments, *([call.where] if call.where is not None else [])]:
            if before._aggregates_in(argument):
                raise Diagnostic(
                    "NESTED_AGGREGATE",
                    "an aggregate cannot stand inside another",
                    help="aggregate in a sub-query in FROM",
                ).at(span_of(argument))
            if has_query(argument):
                raise unsupported("a sub-query cannot stand inside an aggregate").at(span_of(argument))
        arguments = tuple(
            Block.bind(before, a)
            for argument in call.arguments
            for a in (
                [e for _, e in before._star(None, argument)] if isinstance(argument, exp.Star) else [argument]
            )
        )
        if call.function in ("FIRST", "LAST"):
            arguments = (*arguments, before._arrival(call.function, node))
            call = replace(call, function="ARG_MIN" if call.function == "FIRST" else "ARG_MAX")
        if call.function in PAIRS:
            arguments = tuple(before._as_double(a, call.function) for a in arguments)
        where = Block.bind(before, call.where) if call.where is not None else None
        call = replace(call, arguments=(), where=None)
        for position, (known, *parts, _) in enumerate(self._calls):
            if known == call and parts == [arguments, where]:
                return position
        if hasattr(self, "_ungrouped"):
            raise AssertionError("aggregates are collected before the grouping is built")
        self._calls.append((call, arguments, where, node))
        return len(self._calls) - 1

    def _as_double(self, argument: exp.Expression, function: str) -> exp.Expression:
        kind = self.type_of(argument).type
        if kind == DOUBLE:
            return argument
        if not kind.is_numeric:
            raise Diagnostic("TYPE_MISMATCH", f"{function} needs numbers, found {kind}").at(span_of(argument))
        return exp.Cast(this=argument, to=type_to_sqlglot(DOUBLE))

    def _arrival(self, function: str, node: exp.Expression) -> exp.Expression:
        """What orders the rows of the one stream of FROM: time, then arrival; where nothing arrives, then all columns."""
        timed = [(r, r.time) for r in self.scope.relations if r.time is not None]
        if len(timed) != 1:
            raise Diagnostic(
                "NO_TIMESTAMP",
                f"{function} needs one stream whose TS says which row is first",
                help="use ARG_MIN(value, time) or ARG_MAX(value, time)",
            ).at(span_of(node))
        (relation, time) = timed[0]
        if time > 0 and self.plan.schema[time - 1] == ORDER:
            return ref(time - 1)
        own = range(relation.offset, relation.offset + len(relation.fields))
        shown = [i for i in own if not self.plan.schema[i].hidden and self.plan.schema[i].type.is_orderable]
        members = [
            exp.PropertyEQ(this=exp.to_identifier(f"k{n}"), expression=ref(i))
            for n, i in enumerate([time, *shown])
        ]
        return exp.Struct(expressions=members)

    def _aggregate(self) -> None:
        ungrouped = type(self)(self.binder, self.outer)
        ungrouped.plan, ungrouped.scope = self.plan, self.scope
        columns: list[exp.Expression] = []
        fields: list[Field] = []

        def place(expression: exp.Expression, name: str) -> int:
            if expression not in columns:
                typed = self.type_of(expression)
                columns.append(expression)
                fields.append(Field(name, typed.type, typed.nullable))
            return columns.index(expression)

        def name_of(expression: exp.Expression) -> str:
            index = index_of(expression)
            if index is not None and index < OUTER:
                return self.plan.schema[index].name
            if is_correlated(expression):
                return expression.sql(dialect="spark")
            return expression_text(expression, self.plan.schema).replace("`", "")

        keys = [place(k, name_of(k)) for k in self._keys]
        aggregations = []
        for call, arguments, where, node in self._calls:
            places = tuple(place(a, name_of(a)) for a in arguments)
            types = tuple(self.type_of(a) for a in arguments)
            if where is not None and self.type_of(where).type not in (BOOLEAN, VOID):
                raise Diagnostic("TYPE_MISMATCH", "FILTER needs a condition").at(span_of(where))
            condition = place(where, "filter") if where is not None else None
            try:
                type_ = result_type(call, tuple(t.type for t in types), self.user_aggregates)
            except Diagnostic as diagnostic:
                raise diagnostic.at(span_of(node)) from None
            empty = any(t.nullable for t in types) or condition is not None
            nullable = may_be_null(call, empty, self.user_aggregates)
            aggregation = op.Aggregation(
                call.computed,
                places,
                type_,
                "",
                call.distinct,
                condition,
                call.parameter,
                nullable,
                span_of(node),
            )
            # named by what it computes, not by the aliases in the text: equal groupings stay equal and are shared
            named = replace(aggregation, name=aggregation_text(aggregation, tuple(fields)))
            aggregations.append(named)
        self._project([("", c) for c in columns], fields)
        self.plan = op.Aggregate(self.plan, tuple(keys), tuple(aggregations))
        self._ungrouped = ungrouped
        self.scope = self._grouped_scope(ungrouped)

    def _grouped_scope(self, ungrouped: GroupBinder) -> Scope:
        """After grouping only plain grouping columns have names; expressions are matched by their form."""
        relations = []
        for position, key in enumerate(self._keys):
            index = index_of(key)
            for relation in ungrouped.scope.relations:
                end = relation.offset + len(relation.fields)
                if index is not None and relation.offset <= index < end:
                    time = position if index == relation.time else None
                    column = (relation.fields[index - relation.offset],)
                    relations.append(Relation(relation.alias, column, position, time))
        return Scope(relations, ungrouped.scope.outer, grouped=True)

    # SELECT ----------------------------------------------------------------------------------------------------

    def _items(self, ast: exp.Select) -> list[Output]:
        """The SELECT list, stars expanded."""
        items: list[Output] = []
        for item in ast.expressions:
            if isinstance(item, exp.Star):
                items += self._star(None, item)
            elif isinstance(item, exp.Column) and isinstance(item.this, exp.Star):
                items += self._star(item.table, item.this, item)
            elif isinstance(item, exp.Alias):
                items.append((item.alias, item.this))
            elif isinstance(item, exp.Aliases):
                raise unsupported("one expression gives one column").at(span_of(item))
            else:
                bare = item.unnest()  # DISTINCT(a) is DISTINCT a
                items.append((bare.name if isinstance(bare, exp.Column) else text_of(item), item))
        return items

    def _star(
        self, table: str | None, star: exp.Expression, whole: exp.Expression | None = None
    ) -> list[Output]:
        relations = [
            r for r in self.scope.relations if table is None or (r.alias or "").lower() == table.lower()
        ]
        if not relations:
            message = f"there is no '{table}' in FROM" if table else "* needs a FROM"
            aliases = [r.alias for r in self.scope.relations if r.alias]
            help = did_you_mean(table, aliases, "aliases") if table else None
            raise Diagnostic("UNKNOWN_ALIAS", message, help=help).at(span_of(whole or star))
        names = [f.name for r in relations for f in r.fields if not f.hidden]
        left_out = set()
        for column in star.args.get("except_") or []:
            if column.name.lower() not in [n.lower() for n in names]:
                raise Diagnostic(
                    "UNKNOWN_COLUMN",
                    f"there is no column '{column.name}'",
                    help=did_you_mean(column.name, names, "columns"),
                ).at(span_of(column))
            left_out.add(column.name.lower())
        if star.args.get("replace") or star.args.get("rename"):
            raise unsupported("* REPLACE and * RENAME are not available").at(span_of(star))
        items: list[Output] = []
        for name, shared in self.scope.shared.items() if table is None else ():
            expression = shared.copy()
            for column in expression.find_all(exp.Column):
                column.meta["bound"] = True
            items.append((next((n for n in names if n.lower() == name), name), expression))
        for relation in relations:
            for i, f in enumerate(relation.fields):
                if (
                    f.hidden
                    or f.name.lower() in left_out
                    or (table is None and f.name.lower() in relation.merged)
                ):
                    continue
                items.append((f.name, self._marked(relation.offset + i, star)))
        return items

    def _project(self, outputs: Sequence[Output], fields: Sequence[Field]) -> None:
        unchanged = [index_of(e) for _, e in outputs] == [*range(len(self.plan.schema))]
        if unchanged and tuple(fields) == self.plan.schema:
            return
        self.plan = op.Project(self.plan, tuple(e for _, e in outputs), tuple(fields))

    def _order_output(self, term: exp.Expression, outputs: list[Output]) -> int | None:
        """ORDER BY 2, or ORDER BY an output's name."""
        if isinstance(term, exp.Literal) and not term.is_string and term.this.isdigit():
            if not 1 <= int(term.this) <= len(outputs):
                raise Diagnostic(
                    "UNKNOWN_COLUMN", f"ORDER BY {term.this}: there are {len(outputs)} columns"
                ).at(span_of(term))
            return int(term.this) - 1
        if isinstance(term, exp.Column) and not term.table and not term.meta.get("bound"):
            places = [i for i, (n, _) in enumerate(outputs) if n.lower() == term.name.lower()]
            return places[0] if len(places) == 1 else None
        return None


def order_terms(ast: exp.Expression) -> list[exp.Expression]:
    order = ast.args.get("order")
    return [o.this for o in order.expressions] if order is not None else []


def _transform(node: exp.Expression, visit: Callable[[exp.Expression], exp.Expression]) -> exp.Expression:
    """Replace parts from the top; nested queries and what is replaced are not entered."""
    new = visit(node)
    if new is not node or isinstance(node, exp.Query):
        return new
    for key, value in list(node.args.items()):
        if isinstance(value, exp.Expression):
            node.set(key, _transform(value, visit))
        elif isinstance(value, list):
            node.set(key, [_transform(v, visit) if isinstance(v, exp.Expression) else v for v in value])
    return node
