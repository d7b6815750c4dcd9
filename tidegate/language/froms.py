"""FROM and WHERE of one SELECT: items with their windows, joins of every kind, and conditions where their columns are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from tidegate.algebra import operators as op
from tidegate.errors import Diagnostic, did_you_mean, unsupported
from tidegate.language.blocks import Ask, Block, has_query, is_nested_predicate, is_value_comparison
from tidegate.language.scopes import OUTER, Columns, Relation, Scope
from tidegate.language.sync_binding import mentions_now, restricted, split_by_unit, with_now
from tidegate.scalars.expressions import conjoin, conjuncts, ref, references, span_of, substitute
from tidegate.scalars.functions import ScalarFunction
from tidegate.types import Field, Type


@dataclass
class _Unit:
    """A part of FROM that keeps its shape: one item, or items tied together by outer joins."""

    plan: op.Node
    offset: int

    @property
    def end(self) -> int:
        return self.offset + len(self.plan.schema)


class FromBinder(Block):
    """Binds FROM and WHERE."""

    def from_where(self, ast: exp.Select, conditions: list[exp.Expression]) -> None:
        from_ = ast.args.get("from_")
        pool: list[exp.Expression] = []
        units: list[_Unit] = []
        if from_ is not None:
            for group in _groups(from_.this, ast.args.get("joins") or []):
                units += self._join_group(group, pool, conditions)
        self._columns_of_units = units
        now = [c for c in conditions if mentions_now(c, self.scope)]
        conditions = [c for c in conditions if c not in now]
        pool += [self.predicate(c, "WHERE") for c in conditions if not has_query(c)]
        late = self._restrict(units, now)
        self.plan = restricted(_left_deep(units, pool), late, *self._now())
        self.filter_by([c for c in conditions if has_query(c)], "WHERE")

    def _restrict(self, units: list[_Unit], conditions: list[exp.Expression]) -> list[exp.Expression]:
        """Conditions on NOW at the unit whose columns they read, so that its rows end early; the others are left."""
        domain, width = self._now()[0], units[-1].end if units else 0
        bound = [self.bind(with_now(c, self.scope, width, domain)) for c in conditions]
        own, rest = split_by_unit(bound, [(u.offset, u.end) for u in units], width)
        for unit, mine in zip(units, own, strict=True):
            unit.plan = restricted(unit.plan, mine, *self._now())
        return rest

    def _now(self) -> tuple[Type | None, Mapping[str, ScalarFunction], Ask | None]:
        return self.binder.time.domain, self.binder.catalog.functions, self.binder.ask  # type: ignore[attr-defined]

    @property
    def columns(self) -> Columns:
        units: list[_Unit] | None = getattr(self, "_columns_of_units", None)
        if units is None:
            return super().columns
        fields = [f for u in units for f in u.plan.schema]
        return Columns(fields, self.outer.columns if self.outer is not None else None)

    def _join_group(
        self, group: list[tuple[exp.Expression, exp.Join | None]], pool: list[exp.Expression],
        late: list[exp.Expression],
    ) -> list[_Unit]:  # fmt: skip
        """Items joined explicitly. Inner joins fall apart into units and conditions; outer ones stay together."""
        flat = all(j is None or _join_kind(j) == "inner" for _, j in group)
        units: list[_Unit] = []
        own: list[Relation] = []
        for item, join in group:
            offset = self.scope.relations[-1].offset + len(self.scope.relations[-1].fields) if (
                self.scope.relations
            ) else 0  # fmt: skip
            if _is_parenthesized(item):
                if join is not None and (join.args.get("using") or join.args.get("method")):
                    raise unsupported("USING and NATURAL cannot join parentheses").at(span_of(join))
                relation, plan = self._parenthesized(item, offset, own)
            else:
                relation, plan = self._relation(item, offset)
                own.append(relation)
            on, using = self._join_condition(join, own, plan, [*units] if flat else units, relation)
            if join is None or flat:
                units.append(_Unit(plan, offset))
                for condition in on:
                    if has_query(condition):
                        late.append(condition)
                    else:
                        pool.append(condition)
                pool += using
                continue
            unit, kind = units[0], _join_kind(join)
            start = unit.offset
            if any(has_query(c) for c in on):
                raise unsupported("a sub-query cannot stand in the ON of an outer join").at(span_of(join))
            local = [_moved(c, start) for c in [*on, *using]]
            unit.plan = op.Join(unit.plan, plan, kind, conjoin(local))
            if kind in ("semi", "anti"):
                gone = [r for r in own if r.offset >= relation.offset]
                own[:] = [r for r in own if r not in gone]
                self.scope.relations[:] = [r for r in self.scope.relations if r not in gone]
        return units

    def _parenthesized(
        self, item: exp.Expression, offset: int, own: list[Relation]
    ) -> tuple[Relation, op.Node]:
        """Joins in parentheses: one plan, whose items keep their names."""
        before = len(self.scope.relations)
        pool: list[exp.Expression] = []
        late: list[exp.Expression] = []
        units: list[_Unit] = []
        for group in _groups(item.this, []):
            units += self._join_group(group, pool, late)
        if late:
            raise unsupported("a sub-query cannot stand in the ON of a join in parentheses").at(span_of(item))
        own += self.scope.relations[before:]
        local = [_moved(c, offset) for c in pool]
        plan = _left_deep([_Unit(u.plan, u.offset - offset) for u in units], local)
        return Relation(None, plan.schema, offset), plan

    def _relation(self, item: exp.Expression, offset: int) -> tuple[Relation, op.Node]:
        plan, alias, fields, readable = self.binder.item(item, self.outer)  # type: ignore[attr-defined]
        taken = [r.alias.lower() for r in self.scope.relations if r.alias]
        if alias and alias.lower() in taken:
            raise Diagnostic(
                "DUPLICATE_ALIAS", f"'{alias}' names two items of FROM", help="give one of them another alias"
            ).at(span_of(item))
        time = offset + len(fields) - 1 if readable else None
        relation = Relation(alias, fields, offset, time)
        self.scope.relations.append(relation)
        return relation, plan

    def _join_condition(
        self,
        join: exp.Join | None,
        own: list[Relation],
        plan: op.Node,
        units: Sequence[_Unit],
        relation: Relation,
    ) -> tuple[list[exp.Expression], list[exp.Expression]]:
        """The bound conditions of ON (nested ones still unbound) and of USING."""
        if join is None:
            return [], []
        if join.args.get("method") not in (None, "", "NATURAL"):
            raise unsupported(f"{join.args['method']} joins are not available").at(span_of(join))
        everything, visible = self.scope, Scope(own, self.scope.outer, self.scope.shared)
        before = getattr(self, "_columns_of_units", None)
        self._columns_of_units = self._units_until(relation, plan, units)
        self.scope = visible
        try:
            on = [c if has_query(c) else self.predicate(c, "ON") for c in conjuncts(join.args.get("on"))]
            using = self._using(join, own)
        finally:
            self.scope = everything
            self._columns_of_units = before  # type: ignore[assignment]
        return on, using

    def _units_until(self, relation: Relation, plan: op.Node, units: Sequence[_Unit]) -> list[_Unit]:
        """Columns at their positions while FROM is still being read: items before this group count as well."""
        padding = [Field(f.name, f.type, f.nullable) for r in self.scope.relations for f in r.fields]
        start = units[0].offset if units else relation.offset
        before = op.Scan("", tuple(padding[:start]))
        return [_Unit(before, 0), *units, _Unit(plan, relation.offset)]

    def _using(self, join: exp.Join, own: list[Relation]) -> list[exp.Expression]:
        spans = {i.name: span_of(i) for i in join.args.get("using") or []}
        names = list(spans)
        right = own[-1]
        left_names = {f.name.lower() for r in own[:-1] for f in r.fields if not f.hidden}
        if join.args.get("method") == "NATURAL":
            if names or join.args.get("on") is not None:
                raise Diagnostic(
                    "SYNTAX_ERROR", "a NATURAL join says its condition itself", help="leave ON or USING out"
                ).at(span_of(join))
            names = [f.name for f in right.fields if not f.hidden and f.name.lower() in left_names]
        kind = _join_kind(join)
        equalities: list[exp.Expression] = []
        for name in names:
            span = spans.get(name) or span_of(join)
            try:
                left_side = Scope(own[:-1], None, self.scope.shared).resolve(exp.column(name))
                found = right.find(name)
                if not found:
                    columns = [f.name for f in right.fields if not f.hidden]
                    raise Diagnostic(
                        "UNKNOWN_COLUMN",
                        f"'{right.alias}' has no column '{name}'",
                        help=did_you_mean(name, columns, "columns"),
                    )
                equality = exp.EQ(this=left_side.copy(), expression=ref(found[0]))
                self.type_of(equality)
            except Diagnostic as diagnostic:
                diagnostic.span = span
                raise
            equalities.append(equality)
            for relation in own:
                relation.merged.add(name.lower())
            merged: exp.Expression = left_side.copy()
            if kind == "right":
                merged = ref(found[0])
            elif kind == "full":
                merged = exp.Coalesce(this=left_side.copy(), expressions=[ref(found[0])])
            self.scope.shared[name.lower()] = merged
        return equalities

    def filter_by(self, conditions: list[exp.Expression], clause: str) -> None:
        """Conditions above the plan so far; nested ones as semi- and antijoins where their form allows."""
        self._columns_of_units = None  # type: ignore[assignment]
        for condition in conditions:
            core = condition
            while isinstance(core, (exp.Not, exp.Paren)):
                core = core.this
            if is_nested_predicate(core) or is_value_comparison(core):
                self.filter_nested(condition)
            else:
                predicate = self.predicate(condition, clause)
                self.plan = op.Filter(self.plan, predicate)


def _moved(condition: exp.Expression, start: int) -> exp.Expression:
    """A condition as the part of FROM that begins at `start` sees it."""
    return substitute(condition, lambda i: ref(i if i >= OUTER else i - start))


def _is_parenthesized(item: exp.Expression) -> bool:
    """`(A JOIN B …)` without an alias: only the order of joins is meant."""
    plain = isinstance(item, exp.Subquery) and isinstance(item.this, (exp.Table, exp.Subquery))
    return plain and not any(item.args.get(k) for k in ("alias", "order", "limit", "offset", "with_"))


def _groups(
    first: exp.Expression, joins: list[exp.Join]
) -> list[list[tuple[exp.Expression, exp.Join | None]]]:
    """FROM split at its commas: a comma binds weaker than JOIN."""
    nested = first.args.get("joins") or []
    groups: list[list[tuple[exp.Expression, exp.Join | None]]] = [[(first, None)]]
    for join in [*nested, *joins]:
        comma = not any(join.args.get(k) for k in ("on", "using", "side", "kind", "method"))
        if comma:
            groups.append([(join.this, None)])
        else:
            groups[-1].append((join.this, join))
    return groups


def _join_kind(join: exp.Join) -> str:
    side, kind = (join.args.get("side") or "").lower(), (join.args.get("kind") or "").lower()
    if kind in ("semi", "anti"):
        return kind
    return side if side in ("left", "right", "full") else "inner"


def _left_deep(units: list[_Unit], pool: list[exp.Expression]) -> op.Node:
    """Joins in the order of FROM; each condition at the first place where its columns are all there.

    Conditions that read outer columns stay on top, where `subqueries` finds them.
    """
    if not units:
        plan: op.Node = op.OneRow()
        rest = conjoin(pool)
        return op.Filter(plan, rest) if rest is not None else plan
    outer = [c for c in pool if max(references(c), default=0) >= OUTER]
    local = [c for c in pool if max(references(c), default=0) < OUTER]

    def take(start: int, end: int) -> list[exp.Expression]:
        mine = [c for c in local if references(c) and all(start <= i < end for i in references(c))]
        for c in mine:
            local.remove(c)
        return mine

    def filtered(unit: _Unit) -> op.Node:
        conditions = [substitute(c, lambda i: ref(i - unit.offset)) for c in take(unit.offset, unit.end)]
        predicate = conjoin(conditions)
        return op.Filter(unit.plan, predicate) if predicate is not None else unit.plan

    plan = filtered(units[0])
    for unit in units[1:]:
        right = filtered(unit)
        plan = op.Join(plan, right, "inner", conjoin(take(0, unit.end)))
    rest = conjoin([*local, *outer])
    return op.Filter(plan, rest) if rest is not None else plan
