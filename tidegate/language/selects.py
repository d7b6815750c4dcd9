"""One SELECT block: FROM and WHERE (`froms`), GROUP BY, HAVING, SELECT, DISTINCT, ORDER BY … LIMIT, in this order."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from tidegate.algebra import operators as op
from tidegate.errors import Diagnostic, unsupported
from tidegate.language.explode import explode, with_laterals
from tidegate.language.grouping import GroupBinder, Output, order_terms
from tidegate.language.limits import LARGEST
from tidegate.language.over import with_overs
from tidegate.language.ranking import Ranking, read_ranking, with_qualify
from tidegate.language.scopes import Relation, Scope
from tidegate.language.spark_windows import with_window_calls
from tidegate.scalars.expressions import conjuncts, ref, span_of
from tidegate.types import Field

_REFUSED = {
    "windows": "named windows", "connect": "CONNECT BY",
    "cluster": "CLUSTER BY", "distribute": "DISTRIBUTE BY", "sort": "SORT BY", "sample": "TABLESAMPLE",
    "pivots": "PIVOT", "match": "MATCH_RECOGNIZE", "into": "INTO", "locks": "FOR UPDATE",
}  # fmt: skip


class SelectBinder(GroupBinder):
    """Binds one SELECT."""

    def select(self, ast: exp.Select) -> op.Node:
        ast = with_laterals(with_window_calls(with_qualify(ast)))
        for argument, name in _REFUSED.items():
            if ast.args.get(argument):
                part = ast.args[argument]
                first = part[0] if isinstance(part, list) else part
                raise unsupported(f"{name}: not available").at(span_of(first) or span_of(ast))
        where = ast.args.get("where")
        conditions = conjuncts(where.this) if where is not None else []
        laterals = ast.args.get("laterals") or []
        self.from_where(ast, [] if laterals else conditions)
        for lateral in laterals:
            explode(self, lateral)
        if laterals:
            self.filter_by(conditions, "WHERE")
        items = self._items(ast)
        if any(e.find(exp.Window) for _, e in items):
            items = self._over(ast, items)
        having = ast.args.get("having")
        if self._is_aggregated(ast, items):
            items, order = self._group(ast, items)
            if having is not None:
                self.filter_by(conjuncts(self._lift(having.this)), "HAVING")
        else:
            order = order_terms(ast)
            if having is not None:
                raise Diagnostic(
                    "AGGREGATE_NOT_ALLOWED", "HAVING needs an aggregate or GROUP BY", help="use WHERE"
                ).at(span_of(having))
        outputs: list[Output] = []
        fields: list[Field] = []
        for name, item in items:
            expression, typed = self.bind_typed(item)
            outputs.append((name, expression))
            fields.append(Field(name, typed.type, typed.nullable))
        ranking = read_ranking(ast)
        if ranking is not None:
            self._rank(ranking, outputs, fields)
            outputs = [(n, ref(i)) for i, (n, _) in enumerate(outputs)]
            if ast.args.get("distinct") is None:
                return self.order_and_limit(ast, outputs, order)
        if ast.args.get("distinct") is not None:
            if ast.args["distinct"].args.get("on"):
                raise unsupported("DISTINCT ON is not available").at(span_of(ast))
            self._project(outputs, fields)
            self.plan = op.Distinct(self.plan)
            self.scope = Scope([Relation(None, self.plan.schema, 0)], self.scope.outer)
            return self.order_and_limit(ast, [(n, ref(i)) for i, (n, _) in enumerate(outputs)], order)
        return self.order_and_limit(ast, outputs, order, fields)

    def _over(self, ast: exp.Select, items: list[Output]) -> list[Output]:
        if ast.args.get("group") is not None or ast.args.get("having") is not None:
            window = next(w for _, e in items for w in e.find_all(exp.Window))
            raise unsupported(
                "OVER cannot stand beside GROUP BY",
                help="group in a sub-query in FROM, and say OVER above it",
            ).at(span_of(window))
        rows = self.plan
        return [(name, with_overs(self, ast, item, rows)) for name, item in items]

    # QUALIFY, ORDER BY … LIMIT ------------------------------------------------------------------------------------------

    def _rank(self, ranking: Ranking, outputs: list[Output], fields: list[Field]) -> None:
        """The projection, of which each partition keeps its first rows."""
        extended, extra_fields = list(outputs), list(fields)

        def place(term: exp.Expression) -> int:
            try:
                expression, typed = self.bind_typed(self._lift(term) if hasattr(self, "_ungrouped") else term)
            except Diagnostic:
                # a column of FROM goes before an alias of SELECT
                named = self._order_output(term, outputs) if isinstance(term, exp.Column) else None
                if named is None:
                    raise
                return named
            if not typed.type.is_orderable:
                raise Diagnostic("TYPE_MISMATCH", f"{typed.type} cannot be ordered").at(span_of(term))
            found = next((i for i, (_, e) in enumerate(extended) if e == expression), None)
            if found is None:
                extended.append(("rank", expression))
                extra_fields.append(Field("rank", typed.type, typed.nullable))
            return len(extended) - 1 if found is None else found

        partition = tuple(dict.fromkeys(place(p) for p in ranking.partition))
        keys = tuple(
            op.SortKey(place(o.this), bool(o.args.get("desc")), bool(o.args.get("nulls_first")))
            for o in ranking.order
        )
        self._project(extended, extra_fields)
        self.plan = op.TopK(self.plan, keys, ranking.limit, ranking.offset, partition)
        if len(extended) > len(outputs):
            self.plan = op.Project(self.plan, tuple(ref(i) for i in range(len(outputs))), tuple(fields))
        self.scope = Scope([Relation(None, self.plan.schema, 0)], self.scope.outer)

    def order_and_limit(
        self,
        ast: exp.Expression,
        outputs: list[Output],
        terms: list[exp.Expression] | None = None,
        fields: list[Field] | None = None,
    ) -> op.Node:
        """The projection and, with LIMIT, the first rows of it."""
        order = ast.args.get("order")
        limit, offset = _constant(ast, "limit"), _constant(ast, "offset") or 0
        if order is not None and limit is None:
            raise Diagnostic(
                "ORDER_WITHOUT_LIMIT",
                "an answer is a bag of rows: ORDER BY has a meaning with LIMIT only",
                help="add LIMIT k, or leave ORDER BY out",
            ).at(span_of(order))
        if limit is None and offset:
            raise Diagnostic("ORDER_WITHOUT_LIMIT", "OFFSET needs LIMIT").at(span_of(ast.args["offset"]))
        width = len(outputs)
        keys: list[op.SortKey] = []
        extended, extra_fields = list(outputs), list(fields or [])
        for n, ordered in enumerate(order.expressions if order is not None else []):
            term = terms[n] if terms is not None else ordered.this
            place = self._order_output(term, outputs)
            if place is None:
                expression, typed = self.bind_typed(term)
                place = next((i for i, (_, e) in enumerate(extended) if e == expression), None)
                if place is None:
                    if fields is None:
                        raise Diagnostic(
                            "UNKNOWN_COLUMN", "ORDER BY can only use the columns of the result here"
                        ).at(span_of(ordered))
                    place = len(extended)
                    extended.append(("order", expression))
                    extra_fields.append(Field("order", typed.type, typed.nullable))
            field = extra_fields[place] if fields is not None else self.plan.schema[place]
            if not field.type.is_orderable:
                raise Diagnostic("TYPE_MISMATCH", f"{field.type} cannot be ordered").at(span_of(ordered))
            keys.append(
                op.SortKey(place, bool(ordered.args.get("desc")), bool(ordered.args.get("nulls_first")))
            )
        if fields is not None:
            self._project(extended, extra_fields)
        if limit is None:
            return self.plan
        self.plan = op.TopK(self.plan, tuple(keys), limit, offset)
        if len(extended) > width:
            assert fields is not None
            self.plan = op.Project(self.plan, tuple(ref(i) for i in range(width)), tuple(fields))
        return self.plan


def _constant(ast: exp.Expression, argument: str) -> int | None:
    node: Any = ast.args.get(argument)
    if node is None:
        return None
    value = node.expression
    if not (isinstance(value, exp.Literal) and not value.is_string and value.this.isdigit()):
        raise Diagnostic("INVALID_LIMIT", f"{argument.upper()} takes a whole number").at(
            (span_of(value) if isinstance(value, exp.Expression) else None) or span_of(ast)
        )
    if node.args.get("limit_options") is not None or node.expressions:
        raise unsupported("LIMIT takes a number of rows, of all of them").at(span_of(value) or span_of(ast))
    if len(value.this) > 10 or int(value.this) >= LARGEST:
        raise Diagnostic("INVALID_LIMIT", f"{argument.upper()} is below {LARGEST:,}").at(span_of(value))
    return int(value.this)
