"""`LATERAL VIEW explode(array)`, `CROSS JOIN UNNEST(array)`, `SELECT explode(array)`: a row for each element.

The elements at each position are a map of the rows that have so many, and the answer is their union: no state, at any place of a plan.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

from sqlglot import exp

from tidegate.algebra import operators as op
from tidegate.errors import Diagnostic, unsupported
from tidegate.language.blocks import Block
from tidegate.language.scopes import Relation
from tidegate.scalars.expressions import ref, span_of
from tidegate.types import INT, Field

LONGEST = 64
"""So many elements may an array have; a row with more is an error."""

_CALLS = (exp.Explode, exp.ExplodeOuter, exp.Posexplode, exp.PosexplodeOuter)


def with_laterals(ast: exp.Select) -> exp.Select:
    """The block in which all that makes rows of arrays stands as LATERAL VIEW."""
    joined = [j for j in ast.args.get("joins") or [] if _unnested(j) is not None]
    selected = [e for e in ast.expressions if isinstance(e.unalias(), _CALLS) or isinstance(e, exp.Aliases)]
    if not joined and not selected:
        return ast
    new = ast.copy()
    for join in [j for j in new.args.get("joins") or [] if _unnested(j) is not None]:
        new.append("laterals", _unnested(join))
        join.pop()
    for number, item in enumerate(
        [e for e in new.expressions if isinstance(e.unalias(), _CALLS) or isinstance(e, exp.Aliases)]
    ):
        call = item.this if isinstance(item, (exp.Alias, exp.Aliases)) else item
        if not isinstance(call, _CALLS):
            continue
        names = (
            [i.name for i in item.expressions]
            if isinstance(item, exp.Aliases)
            else [item.alias]
            if item.alias
            else []
        )
        names = names or (["pos", "col"] if _numbers(call) else ["col"])
        table = f"_exploded{number}"
        alias = exp.TableAlias(this=exp.to_identifier(table), columns=[exp.to_identifier(n) for n in names])
        new.append("laterals", exp.Lateral(this=call.copy(), view=True, alias=alias))
        at = new.expressions.index(item)
        columns = [exp.column(n, table=table) for n in names]
        new.set("expressions", [*new.expressions[:at], *columns, *new.expressions[at + 1 :]])
    return new


def _unnested(join: exp.Expression) -> exp.Lateral | None:
    """A join with UNNEST or LATERAL as LATERAL VIEW; LEFT JOIN … ON TRUE keeps rows without elements."""
    item, on = join.this, join.args.get("on")
    outer = (join.args.get("side") or "").upper() == "LEFT"
    if on is not None and not (isinstance(on, exp.Boolean) and on.this):
        return None
    alias = item.args.get("alias") if isinstance(item, (exp.Unnest, exp.Lateral)) else None
    if isinstance(item, exp.Unnest) and len(item.expressions) == 1 and not item.args.get("offset"):
        return exp.Lateral(
            this=exp.Explode(this=item.expressions[0].copy()), view=True, outer=outer, alias=alias
        )
    if isinstance(item, exp.Lateral) and isinstance(item.this, _CALLS):
        return exp.Lateral(
            this=item.this.copy(), view=True, outer=outer or item.args.get("outer"), alias=alias
        )
    return None


def _numbers(call: Any) -> bool:
    return isinstance(call, (exp.Posexplode, exp.PosexplodeOuter))


def explode(block: Block, lateral: exp.Lateral) -> None:
    """Let the block's rows be those of its elements; these are columns of a further item of FROM."""
    call: Any = lateral.this
    if not isinstance(call, _CALLS):
        raise unsupported(
            "LATERAL VIEW takes explode or posexplode", help="as in LATERAL VIEW explode(items) i AS item"
        ).at(span_of(call))
    bound, typed = block.bind_typed(call.this)
    if typed.type.name != "ARRAY":
        raise Diagnostic("TYPE_MISMATCH", f"explode needs an ARRAY, found {typed.type}").at(
            span_of(call.this)
        )
    alias = lateral.args.get("alias")
    names = [c.name for c in alias.args.get("columns") or []] if alias is not None else []
    wanted = 2 if _numbers(call) else 1
    if names and len(names) != wanted:
        raise Diagnostic("COLUMN_COUNT", f"{len(names)} names for {wanted} columns").at(span_of(lateral))
    element = Field((names or ["pos", "col"])[-1] if names or wanted == 2 else "col", typed.type.params[0])
    fields = (Field(names[0] if names else "pos", INT), element) if wanted == 2 else (element,)
    outer = bool(lateral.args.get("outer")) or isinstance(call, (exp.ExplodeOuter, exp.PosexplodeOuter))
    width = len(block.plan.schema)
    block.plan = _exploded(block.plan, bound, fields, outer)
    name = alias.name if alias is not None and alias.this is not None else None
    block.scope.relations.append(Relation(name, fields, width))


def _exploded(plan: op.Node, array: exp.Expression, fields: tuple[Field, ...], outer: bool) -> op.Node:
    size = exp.ArraySize(this=array)
    kept = tuple(ref(i) for i in range(len(plan.schema)))
    # The text of this error is all that can be said where only functions are: a cast that fails shows its value.
    words = exp.Literal.string(f"explode takes arrays of up to {LONGEST} elements, found ")
    found = exp.Concat(expressions=[words, exp.cast(size.copy(), "STRING")])
    first = exp.If(
        this=exp.GT(this=size.copy(), expression=exp.Literal.number(LONGEST)),
        true=exp.cast(found, "INT"),
        false=exp.Literal.number(1),
    )
    parts: list[op.Node] = []
    for place in range(LONGEST):
        there = op.Filter(plan, exp.GT(this=size.copy(), expression=exp.Literal.number(place)))
        at = first if place == 0 else exp.Literal.number(place + 1)
        made: list[exp.Expression] = [_element(array, at)]
        if len(fields) == 2:
            made.insert(0, exp.Literal.number(place))
        parts.append(op.Project(there, (*kept, *made), (*plan.schema, *fields)))
    if outer:
        empty = exp.Or(
            this=exp.Is(this=exp.paren(array.copy()), expression=exp.null()),
            expression=exp.EQ(this=size.copy(), expression=exp.Literal.number(0)),
        )
        none = tuple(exp.cast(exp.null(), str(f.type)) for f in fields)
        parts.append(op.Project(op.Filter(plan, empty), (*kept, *none), (*plan.schema, *fields)))
    while len(parts) > 1:  # a tree of little depth
        parts = [reduce(op.UnionAll, parts[i : i + 2]) for i in range(0, len(parts), 2)]
    return parts[0]


def _element(array: exp.Expression, at: exp.Expression) -> exp.Expression:
    call = exp.func("ELEMENT_AT", array.copy(), at.copy(), dialect="spark")
    assert isinstance(call, exp.Expression)
    return call
