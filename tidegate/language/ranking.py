"""Rankings as filters: `ROW_NUMBER() OVER (PARTITION BY … ORDER BY …) <= k` keeps the first k rows of each partition.

It may stand in QUALIFY, or be a column of a sub-query in FROM that the enclosing WHERE compares with a constant, as engines without
top-k write it. The number itself is not available: it would change for every row behind each one that comes or goes.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from tidegate.errors import Diagnostic, unsupported
from tidegate.language.limits import LARGEST
from tidegate.scalars.expressions import conjoin, conjuncts, span_of

_MIRRORED: dict[type[exp.Expression], type[exp.Expression]] = {
    exp.LTE: exp.GTE, exp.LT: exp.GT, exp.EQ: exp.EQ, exp.GTE: exp.LTE, exp.GT: exp.LT,
}  # fmt: skip


@dataclass(frozen=True)
class Ranking:
    """The first `limit` rows after `offset`, of each partition, in an order."""

    partition: tuple[exp.Expression, ...]
    order: tuple[exp.Ordered, ...]
    limit: int
    offset: int

    @property
    def terms(self) -> list[exp.Expression]:
        """What it reads."""
        return [*self.partition, *(o.this for o in self.order)]


def read_ranking(ast: exp.Select) -> Ranking | None:
    """What QUALIFY asks for.

    >>> from sqlglot import parse_one
    >>> r = read_ranking(parse_one("SELECT a FROM S QUALIFY ROW_NUMBER() OVER (PARTITION BY a ORDER BY b) < 4", dialect="spark"))
    >>> r.limit, r.offset, r.partition[0].name
    (3, 0, 'a')
    """
    qualify = ast.args.get("qualify")
    if qualify is None:
        return None
    condition = qualify.this
    while isinstance(condition, exp.Paren):
        condition = condition.this
    found = _comparison(condition)
    if found is None or not _is_row_number(found[0]):
        raise unsupported(
            "QUALIFY takes ROW_NUMBER() OVER (…) compared with a constant",
            help="as in QUALIFY ROW_NUMBER() OVER (PARTITION BY a ORDER BY b DESC) <= 10",
        ).at(span_of(condition) or span_of(ast))
    numbering, kind, bound = found
    order = numbering.args.get("order")
    if order is None:
        raise Diagnostic(
            "RANK_WITHOUT_ORDER",
            "ROW_NUMBER needs an order to number the rows in",
            help="OVER (… ORDER BY column)",
        ).at(span_of(numbering))
    limit, offset = (1, bound - 1) if kind is exp.EQ else (bound - (kind is exp.LT), 0)
    if bound >= LARGEST:
        raise Diagnostic("INVALID_LIMIT", f"a row's number is below {LARGEST:,}").at(span_of(condition))
    if limit < 1 or offset < 0:
        raise Diagnostic("INVALID_LIMIT", "no row has such a number: they begin with 1").at(
            span_of(condition)
        )
    return Ranking(tuple(numbering.args.get("partition_by") or ()), tuple(order.expressions), limit, offset)


def with_qualify(ast: exp.Select) -> exp.Select:
    """A numbered sub-query whose number is only compared with a constant, as the same sub-query with QUALIFY."""
    from_, where = ast.args.get("from_"), ast.args.get("where")
    item = from_.this if from_ is not None else None
    inner = item.this if isinstance(item, exp.Subquery) else None
    if where is None or not isinstance(inner, exp.Select) or ast.args.get("joins") or not _may_qualify(inner):
        return ast
    for numbered in inner.expressions:
        if not isinstance(numbered, exp.Alias) or not _is_row_number(numbered.this):
            continue
        conditions = conjuncts(where.this)
        for condition in conditions:
            found = _comparison(condition)
            if (
                found is None
                or found[1] not in (exp.LTE, exp.LT, exp.EQ)
                or not _names(found[0], numbered.alias)
            ):
                continue
            rest = [c for c in conditions if c is not condition]
            if _is_read(ast, numbered.alias, rest):
                return ast
            return _rewritten(ast, numbered, condition, rest)
    return ast


def _rewritten(
    ast: exp.Select, numbered: exp.Alias, condition: exp.Expression, rest: list[exp.Expression]
) -> exp.Select:
    new = ast.copy()
    inner = new.args["from_"].this.this
    inner.set("expressions", [e for e in inner.expressions if e != numbered])
    compared = condition.copy()
    side = "this" if isinstance(condition.this, exp.Column) else "expression"
    compared.set(side, numbered.this.copy())
    inner.set("qualify", exp.Qualify(this=compared))
    for star in (s for e in new.expressions for s in e.find_all(exp.Star)):
        left_out = [c for c in star.args.get("except_") or [] if c.name.lower() != numbered.alias.lower()]
        star.set("except_", left_out or None)
    remaining = conjoin([c.copy() for c in rest])
    new.set("where", exp.Where(this=remaining) if remaining is not None else None)
    return new


def _comparison(node: exp.Expression) -> tuple[exp.Expression, type[exp.Expression], int] | None:
    """(what, how, number) of a comparison with a whole number, the number on the right."""
    kind = type(node)
    if kind not in _MIRRORED:
        return None
    left, right = node.this, node.expression
    if _is_number(left):
        left, right, kind = right, left, _MIRRORED[kind]
    if not _is_number(right) or kind not in (exp.LTE, exp.LT, exp.EQ):
        return None
    return left, kind, int(right.this)


def _is_number(node: exp.Expression) -> bool:
    return isinstance(node, exp.Literal) and not node.is_string and node.this.isdigit()


def _is_row_number(node: exp.Expression) -> bool:
    return isinstance(node, exp.Window) and isinstance(node.this, exp.RowNumber) and not node.args.get("spec")


def _may_qualify(inner: exp.Select) -> bool:
    return not any(inner.args.get(k) for k in ("qualify", "distinct", "limit", "offset", "order"))


def _names(node: exp.Expression, alias: str) -> bool:
    return isinstance(node, exp.Column) and node.name.lower() == alias.lower()


def _is_read(ast: exp.Select, alias: str, conditions: list[exp.Expression]) -> bool:
    """Whether the number is used beyond the comparison: by name, or as part of *."""
    others = [v for k, v in ast.args.items() if k not in ("from_", "where", "with_")]
    parts = [p for v in others for p in (v if isinstance(v, list) else [v]) if isinstance(p, exp.Expression)]
    for part in [*parts, *conditions]:
        for node in part.walk():
            if isinstance(node, exp.Star):
                left_out = [c.name.lower() for c in node.args.get("except_") or []]
                if alias.lower() not in left_out and not isinstance(node.parent, exp.Count):
                    return True
            if (
                isinstance(node, exp.Expression)
                and _names(node, alias)
                and not isinstance(node.parent, exp.Star)
            ):
                return True
    return False
