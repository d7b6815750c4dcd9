"""Syntax to algebra: names become positions, nested queries become joins, everything gets a type.

A query block is bound in the order of its meaning: FROM with windows, WHERE, GROUP BY, HAVING, SELECT, DISTINCT, ORDER BY.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

from sqlglot import exp

from tidegate.algebra import operators as op
from tidegate.algebra.batches import in_batches
from tidegate.algebra.clocks import by_arithmetic
from tidegate.algebra.modify import Since
from tidegate.algebra.windows import Expiration
from tidegate.errors import Diagnostic, did_you_mean, foreign, unsupported
from tidegate.language import syntax
from tidegate.language.aggregation import asks_arrival
from tidegate.language.blocks import Ask, Block
from tidegate.language.catalog import Catalog, StreamDefinition, ViewDefinition
from tidegate.language.file_binding import with_files
from tidegate.language.grouping_sets import groupings
from tidegate.language.hints import expiration_hint
from tidegate.language.limits import counted, within_reach
from tidegate.language.quality import apply_quality, declared_window
from tidegate.language.quarantine_items import QuarantineReference, quarantine_of
from tidegate.language.scopes import Relation, Scope
from tidegate.language.selects import SelectBinder
from tidegate.language.sync_binding import clock_plan, is_clock, modify_plan, raw_beneath, synchronized
from tidegate.language.sync_syntax import ModifyOver
from tidegate.language.window_function_binding import window_function_plan
from tidegate.language.window_functions import WindowFunction
from tidegate.language.windows import ticks, unplaced
from tidegate.scalars.expressions import ref, span_of
from tidegate.scalars.typing import common_type, type_to_sqlglot
from tidegate.types import TIMESTAMP, Field, Schema, Type


@dataclass(frozen=True)
class BoundQuery:
    """A query with its meaning.

    `domain` is the type of its instants: TIMESTAMP, BIGINT, or None if it reads tables only. `output` says how the
    result is asked for: rows with validity (""), STREAMED, or COMPLETE.
    """

    plan: op.Node
    domain: Type | None
    output: str
    text: str
    catalog: Catalog
    batches: bool = False
    """Whether a stream has batches, so that instants are pairs."""
    expiration: Expiration | None = None
    """How rows that leave windows are told, if the query says so."""


def bind(statement: exp.Expression, catalog: Catalog, text: str, ask: Ask | None = None) -> BoundQuery:
    """The plan of a query, or a Diagnostic that says where it is wrong."""
    try:
        statement, catalog = with_files(statement, catalog)
        binder = Binder(catalog, text, ask, TimeDomain(by_arrival=_asks_first(statement, catalog)))
        with within_reach(text):
            plan = binder.query(statement, None)
            output, hint = binder.output(statement), expiration_hint(statement)
            plan = by_arithmetic(plan)
            if binder.time.batched:
                plan = _in_batches(plan, binder.time.batched)
    except Diagnostic as diagnostic:
        place = span_of(statement) if diagnostic.text is None else None
        raise diagnostic.at(place).locate(text) from diagnostic.__cause__
    except Exception as problem:
        raise foreign(problem).at(span_of(statement)).locate(text) from problem
    return BoundQuery(plan, binder.time.domain, output, text, catalog, bool(binder.time.batched), hint)


def _in_batches(plan: op.Node, batched: Mapping[str, tuple[int, int] | None]) -> op.Node:
    try:
        return in_batches(plan, set(batched))
    except Diagnostic as diagnostic:
        raise diagnostic.at(next(iter(batched.values()))) from None


@dataclass
class TimeDomain:
    """The one kind of time in a query: integers and timestamps must not mix (SPEC section 1)."""

    domain: Type | None = None
    stream: str = ""
    batched: dict[str, tuple[int, int] | None] = field(default_factory=dict)
    """The streams that have batches, and where the first of them stands."""
    by_arrival: bool = False
    """Whether somebody asks which row of a stream came first."""
    items: int = 0
    """How many items of FROM there are, with those of views and WITH as often as they are read."""

    def add(self, domain: Type | None, stream: str, span: tuple[int, int] | None) -> None:
        if domain is None:
            return
        if self.domain is not None and self.domain != domain:
            kinds = {True: "timestamps", False: "integers"}
            raise Diagnostic(
                "TIME_DOMAIN",
                f"'{stream}' is ordered by {kinds[domain == TIMESTAMP]}, "
                f"'{self.stream}' by {kinds[self.domain == TIMESTAMP]}: one query has one kind of time",
            ).at(span)
        self.domain, self.stream = domain, stream


@dataclass(frozen=True)
class NamedQuery:
    """A query of WITH, its columns' names if they were given, and the names that it can read."""

    query: exp.Expression
    columns: tuple[str, ...]
    known: Mapping[str, NamedQuery]


@dataclass
class Binder:
    """Binds queries over one catalog."""

    catalog: Catalog
    text: str
    ask: Ask | None = None
    time: TimeDomain = field(default_factory=TimeDomain)
    ctes: Mapping[str, NamedQuery] = field(default_factory=dict)
    views: tuple[str, ...] = ()

    def output(self, statement: exp.Expression) -> str:
        said = syntax.modifiers(statement) if isinstance(statement, exp.Select) else set()
        if len(said) > 1:
            raise Diagnostic(
                "SYNTAX_ERROR", "an answer is STREAMED or COMPLETE, not both", help="leave one of them out"
            ).at(span_of(statement))
        return next(iter(said), "")

    # queries ---------------------------------------------------------------------------------------------------

    def query(self, ast: exp.Expression, outer: Block | None) -> op.Node:
        """The plan of any query expression."""
        with_ = ast.args.get("with_")
        if with_ is not None:
            return self._with(with_).query(_without(ast, "with_"), outer)
        if isinstance(ast, syntax.RelationToStream):
            return self._relation_to_stream(ast, outer)
        if isinstance(ast, exp.Subquery):
            plan = self.query(ast.this, outer)
            return self._order(ast, plan, outer) if _is_ordered(ast) else plan
        if isinstance(ast, exp.SetOperation):
            return self._order(ast, self._set_operation(ast, outer), outer)
        if isinstance(ast, exp.Select):
            several = groupings(ast)
            return (
                SelectBinder(self, outer).select(ast)
                if several is None
                else self._grouped(ast, *several, outer)
            )
        if isinstance(ast, ModifyOver):
            return modify_plan(ast, self.catalog)[0]
        if isinstance(ast, exp.Table):
            return self.query(exp.Select(expressions=[exp.Star()], from_=exp.From(this=ast)), outer)
        raise Diagnostic("SYNTAX_ERROR", "this is not a query", help="a query starts with SELECT").at(
            span_of(ast)
        )

    def _with(self, with_: exp.Expression) -> Binder:
        if with_.args.get("recursive"):
            raise unsupported("recursive queries are not available").at(span_of(with_))
        scoped = self
        named: set[str] = set()
        for cte in with_.expressions:
            if cte.alias.lower() in named:
                raise Diagnostic("DUPLICATE_ALIAS", f"WITH names '{cte.alias}' twice").at(
                    span_of(cte.args["alias"])
                )
            named.add(cte.alias.lower())
            columns = tuple(c.name for c in (cte.args["alias"].args.get("columns") or []))
            # each one sees those before it, not itself
            named_query = NamedQuery(cte.this, columns, scoped.ctes)
            scoped = replace(scoped, ctes={**scoped.ctes, cte.alias.lower(): named_query})
        return scoped

    def _relation_to_stream(self, ast: syntax.RelationToStream, outer: Block | None) -> op.Node:
        plan = self.query(ast.this, outer)
        kind, every = ast.args["kind"], ast.args.get("every")
        if kind != "RSTREAM" and every is not None:
            raise Diagnostic("SYNTAX_ERROR", "only RSTREAM takes EVERY").at(span_of(every))
        if kind == "ISTREAM":
            return op.Istream(plan)
        if kind == "DSTREAM":
            return op.Dstream(plan)
        if every is None:
            raise Diagnostic(
                "SYNTAX_ERROR", "RSTREAM needs its points", help="RSTREAM(SELECT …) EVERY 1 MINUTE"
            ).at(span_of(ast))
        if every.in_rows:
            raise Diagnostic("SYNTAX_ERROR", "RSTREAM's points are in time, not in rows").at(span_of(every))
        return op.Rstream(plan, ticks(every, self.time.domain))

    def _set_operation(self, ast: exp.SetOperation, outer: Block | None) -> op.Node:
        """A chain of operations from left to right; the operands of one UNION are united as a tree of little depth."""
        chain: list[exp.SetOperation] = [ast]
        while isinstance(chain[-1].this, exp.SetOperation) and _continues(chain[-1].this, ast):
            chain.append(chain[-1].this)
        plans = [self.query(chain[-1].this, outer)]
        for step in reversed(chain):
            plans = self._one_more(step, plans, self.query(step.expression, outer))
        union = _united(plans)
        if isinstance(ast, exp.Union) and ast.args.get("distinct"):
            return op.Distinct(union)
        return union

    def _one_more(self, ast: exp.SetOperation, plans: list[op.Node], right: op.Node) -> list[op.Node]:
        """What was united so far with one more operand, or one plan where they are not united."""
        left = plans[0]
        if ast.args.get("by_name"):
            raise unsupported("set operations BY NAME are not available").at(span_of(ast))
        left_fields = [f for f in left.schema if not f.hidden]
        right_fields = [f for f in right.schema if not f.hidden]
        if len(left_fields) != len(right_fields):
            raise Diagnostic(
                "COLUMN_COUNT",
                f"the sides of {ast.key.upper()} have {len(left_fields)} and {len(right_fields)} columns",
            ).at(span_of(ast.expression))
        types = []
        for a, b in zip(left_fields, right_fields, strict=True):
            common = common_type(a.type, b.type)
            if common is None:
                raise Diagnostic(
                    "TYPE_MISMATCH",
                    f"columns '{a.name}' ({a.type}) and '{b.name}' ({b.type}) do not go together",
                ).at(span_of(ast.expression))
            types.append(common)
        plans = [_coerce(p, types, left_fields) for p in plans]
        right = _coerce(right, types, left_fields)
        if isinstance(ast, exp.Union):
            return [*plans, right]
        operation = op.Except if isinstance(ast, exp.Except) else op.Intersect
        return [operation(_united(plans), right, not ast.args.get("distinct"))]

    def _grouped(
        self, ast: exp.Select, block: exp.Select, sets: list[frozenset[int]], outer: Block | None
    ) -> op.Node:
        """One grouping after the other, united; what follows GROUP BY sees all of them."""
        union = _united([SelectBinder(self, outer, present).select(block) for present in sets])
        if ast.args.get("distinct") is not None:
            union = op.Distinct(union)
        return self._order(ast, union, outer)

    def _order(self, ast: exp.Expression, plan: op.Node, outer: Block | None) -> op.Node:
        """ORDER BY and LIMIT above a set operation: they see its result only."""
        if not _is_ordered(ast):
            return plan
        binder = SelectBinder(self, outer)
        binder.plan = plan
        binder.scope = Scope([Relation(None, plan.schema, 0)], outer.scope if outer else None)
        return binder.order_and_limit(ast, [(f.name, ref(i)) for i, f in enumerate(plan.schema)])

    # items of FROM ---------------------------------------------------------------------------------------------

    def item(self, ast: exp.Expression, outer: Block | None) -> tuple[op.Node, str | None, Schema, bool]:
        """A stream, view, table or sub-query with its window: plan, alias, fields, whether it has a readable TS."""
        alias_node = ast.args.get("alias")
        alias = alias_node.name if alias_node is not None and alias_node.this is not None else None
        before = (self.time.domain, self.time.stream)
        self.time.domain = None
        readable = False
        _refuse_others(ast)
        self.time.items = counted(self.time.items + 1, ast)
        if isinstance(ast, (exp.Subquery, syntax.RelationToStream)):
            plan = self.query(_without(ast, "alias"), outer)
        elif isinstance(ast, WindowFunction):
            plan, name, readable = self._named(ast)
            plan = window_function_plan(ast, plan, readable, self.time.domain)
            alias, readable = alias or name, False
        elif isinstance(ast, exp.Table):
            plan, name, readable = self._named(ast)
            alias = alias or name
        else:
            raise unsupported(f"{ast.key.upper()} is not available in FROM").at(span_of(ast))
        own, (self.time.domain, self.time.stream) = self.time.domain, before
        self.time.add(own, alias or "the sub-query", span_of(ast))
        renamed = [c.name for c in (alias_node.args.get("columns") or [])] if alias_node is not None else []
        fields = _rename(plan.schema, renamed, ast)
        window = alias_node.args.get("window") if isinstance(alias_node, syntax.StreamAlias) else None
        if window is not None:
            place = len(fields) - 1 if readable else None
            scope = Scope([Relation(alias, fields, 0, place)])

            def resolve(column: exp.Expression) -> exp.Expression:
                if not isinstance(column, exp.Column):
                    return column
                return scope.resolve(column)

            plan = apply_quality(raw_beneath(plan), window, own, resolve, self.catalog)
            plan = unplaced(plan) if self.views else plan
        elif isinstance(ast, exp.Table):
            plan = declared_window(plan, self.catalog)
        sync = alias_node.args.get("sync") if isinstance(alias_node, syntax.StreamAlias) else None
        if sync is not None:
            points, _, _, instants = self.item(sync, None)
            plan = synchronized(plan, points, instants, own, sync)
        return plan, alias, fields, readable

    def _named(self, ast: exp.Table) -> tuple[op.Node, str, bool]:
        if not isinstance(ast.this, exp.Identifier):
            raise unsupported("functions are not available in FROM").at(span_of(ast))
        name = ast.name
        if isinstance(ast, QuarantineReference):
            return quarantine_of(ast, self.catalog).scan, name, False
        if ast.db and isinstance(own := self.catalog.find(f"{ast.db}.{name}"), StreamDefinition):
            return own.scan, name, False
        if ast.args.get("db"):
            defined = self.catalog.definitions.values()
            own_tables = [d.name for d in defined if isinstance(d, StreamDefinition) and d.is_system]
            raise unsupported(
                "names have one part: there are no databases",
                help=did_you_mean(f"{ast.db}.{name}", own_tables, "tables of that form"),
            ).at(span_of(ast))
        cte = self.ctes.get(name.lower())
        if cte is not None:
            plan = replace(self, ctes=cte.known).query(cte.query, None)
            return _named_plan(plan, _rename(plan.schema, list(cte.columns), ast)), name, False
        if is_clock(ast, self.catalog):
            clock, domain = clock_plan(ast)
            self.time.add(domain, name, span_of(ast.this))
            return clock, name, False
        definition = self.catalog.find(name)
        if definition is None:
            known = [*self.ctes, *self.catalog.names]
            raise Diagnostic(
                "UNKNOWN_STREAM",
                f"there is no stream, view or table '{name}'",
                help=did_you_mean(name, known, "streams"),
            ).at(span_of(ast.this))
        if isinstance(definition, StreamDefinition):
            self.time.add(definition.time_type, definition.name, span_of(ast.this))
            self._batches(definition, ast)
            scan = definition.scan_by_arrival if self.time.by_arrival else definition.scan
            return scan, definition.name, not definition.table
        if isinstance(definition.query, ModifyOver):
            plan, source = modify_plan(definition.query, self.catalog)
            self.time.add(source.time_type, definition.name, span_of(ast.this))
            self._batches(source, ast)
            return plan, definition.name, True
        plan = self._view(definition, span_of(ast.this))
        if self.time.domain is None or not _asks_since(ast, plan.schema):
            return plan, definition.name, False
        return Since(plan, self.time.domain == TIMESTAMP), definition.name, True

    def _batches(self, definition: StreamDefinition, ast: exp.Table) -> None:
        if definition.batch is not None:
            # A place inside a view belongs to another text.
            self.time.batched.setdefault(definition.name, None if self.views else span_of(ast.this))

    def _view(self, view: ViewDefinition, span: tuple[int, int] | None) -> op.Node:
        if view.name.lower() in self.views:
            raise Diagnostic("VIEW_CYCLE", f"view '{view.name}' is defined by itself").at(span)
        inner = Binder(self.catalog, view.text, self.ask, self.time, {}, (*self.views, view.name.lower()))
        try:
            plan = inner.query(_standing_at(view.query, span), None)
        except Diagnostic:
            # What is wrong with the definition itself is shown in its own text.
            try:
                plan = inner.query(view.query, None)
            except Diagnostic as diagnostic:
                raise diagnostic.locate(view.text) from None
        return _named_plan(plan, _rename(plan.schema, list(view.columns), view.query))


def _standing_at(query: exp.Expression, span: tuple[int, int] | None) -> exp.Expression:
    """A view's query as part of the text that reads it: what fails while it runs is shown where the view is named."""
    moved = query.copy()
    for node in moved.walk():
        if "start" in node.meta:
            del node.meta["start"], node.meta["end"]
            if span is not None:
                node.meta.update(start=span[0], end=span[1] - 1)
    return moved


def _asks_since(ast: exp.Table, schema: Schema) -> bool:
    """Whether a query reads when a view's rows were modified last: TS, where the view has no such column of its own."""
    select = ast.find_ancestor(exp.Select)
    if (
        select is None
        or ast.arg_key != "this"
        or any(f.name.upper() == "TS" and not f.hidden for f in schema)
    ):
        return False
    alone = not select.args.get("joins") and not ast.args.get("joins")
    known = (ast.alias or ast.name).lower()
    asked = [c.table.lower() for c in select.find_all(exp.Column) if c.name.upper() == "TS"]
    return known in asked or (alone and ("" in asked or asks_arrival(select)))


def _asks_first(query: exp.Expression, catalog: Catalog, seen: frozenset[str] = frozenset()) -> bool:
    """Whether a query, or a view that it reads, has FIRST or LAST."""
    if asks_arrival(query):
        return True
    read = {t.name.lower(): catalog.find(t.name) for t in query.find_all(exp.Table)}
    views = {n: v for n, v in read.items() if isinstance(v, ViewDefinition) and n not in seen}
    return any(_asks_first(v.query, catalog, seen.union(views)) for v in views.values())


_UNDERSTOOD = {
    exp.Table: {"this", "alias", "joins", "db", "catalog"},
    exp.Subquery: {"this", "alias", "joins", "with_", "order", "limit", "offset"},
}


def _refuse_others(ast: exp.Expression) -> None:
    """A clause that would be ignored changes the answer: say so."""
    for argument, value in ast.args.items():
        if value and type(ast) in _UNDERSTOOD and argument not in _UNDERSTOOD[type(ast)]:
            part = value[0] if isinstance(value, list) else value
            name = part.key if isinstance(part, exp.Expression) else argument
            span = span_of(part) if isinstance(part, exp.Expression) else None
            raise unsupported(f"{name.upper()} is not available in FROM").at(span or span_of(ast))


def _continues(inner: exp.SetOperation, outer: exp.SetOperation) -> bool:
    """Whether a chain goes on with its left operand: `(a UNION b) UNION c` is one union of three.

    DISTINCT at the end makes distinct what was united before it, with or without.
    """
    same = type(inner) is type(outer) and isinstance(outer, exp.Union)
    kinds = bool(inner.args.get("distinct")) <= bool(outer.args.get("distinct"))
    return same and kinds and not _is_ordered(inner) and inner.args.get("with_") is None


def _united(plans: Sequence[op.Node]) -> op.Node:
    if len(plans) > 8:
        middle = len(plans) // 2
        return op.UnionAll(_united(plans[:middle]), _united(plans[middle:]))
    first, *others = plans
    return reduce(op.UnionAll, others, first)


def _is_ordered(ast: exp.Expression) -> bool:
    return any(ast.args.get(k) is not None for k in ("order", "limit", "offset"))


def _without(ast: exp.Expression, argument: str) -> exp.Expression:
    if ast.args.get(argument) is None:
        return ast
    copy = ast.copy()
    copy.set(argument, None)
    return copy


def _rename(schema: Schema, names: list[str], ast: exp.Expression) -> Schema:
    visible = [f for f in schema if not f.hidden]
    if not names:
        return schema
    if len(names) != len(visible):
        raise Diagnostic("COLUMN_COUNT", f"{len(names)} names for {len(visible)} columns").at(span_of(ast))
    fresh = iter(names)
    return tuple(f if f.hidden else replace(f, name=next(fresh)) for f in schema)


def _named_plan(plan: op.Node, fields: Schema) -> op.Node:
    if fields == plan.schema:
        return plan
    return op.Project(plan, tuple(ref(i) for i in range(len(fields))), fields)


def _coerce(plan: op.Node, types: list[Type], names: list[Field]) -> op.Node:
    """Visible columns only, cast to the given types."""
    places = [i for i, f in enumerate(plan.schema) if not f.hidden]
    if len(places) == len(plan.schema) and all(
        plan.schema[i].type == t for i, t in zip(places, types, strict=True)
    ):
        return plan
    cast: Callable[[int, Type], exp.Expression] = lambda i, t: (  # noqa: E731
        ref(i) if plan.schema[i].type == t else exp.Cast(this=ref(i), to=type_to_sqlglot(t))
    )
    fields = tuple(
        Field(n.name, t, plan.schema[i].nullable) for i, t, n in zip(places, types, names, strict=True)
    )
    return op.Project(plan, tuple(cast(i, t) for i, t in zip(places, types, strict=True)), fields)
