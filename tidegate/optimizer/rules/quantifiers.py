"""Quantified comparisons: of all rows on the other side, the greatest or the least one decides."""

from __future__ import annotations

from sqlglot import exp

from tidegate.algebra import operators as op
from tidegate.algebra.properties import properties
from tidegate.scalars.expressions import conjuncts, index_of, ref, references, substitute

_SWAPPED: dict[type[exp.Expression], type[exp.Expression]] = {
    exp.LT: exp.GT, exp.GT: exp.LT, exp.LTE: exp.GTE, exp.GTE: exp.LTE, exp.EQ: exp.EQ, exp.NullSafeEQ: exp.NullSafeEQ,
}  # fmt: skip


def compare_with_extreme(node: op.Node) -> op.Node | None:
    """`S ▷_{k = k' and x < y} R = S ▷_{k = k' and x < m} γ_{k'; MAX(y) AS m}(R)`, likewise ⋉, and MIN for >.

    Some y is greater than x if and only if the greatest one is; NULLs satisfy neither side. One row per key instead of all.
    """
    if not isinstance(node, op.Join) or node.kind not in ("semi", "anti") or node.predicate is None:
        return None
    width = len(node.left.schema)
    keys: list[int] = []
    extreme: tuple[int, str] | None = None
    for part in conjuncts(node.predicate):
        found = _against_column(part, width)
        if found is None:
            return None
        comparison, column = found
        if comparison in (exp.EQ, exp.NullSafeEQ):
            keys.append(column)
        elif extreme is None:
            extreme = column, "MAX" if comparison in (exp.LT, exp.LTE) else "MIN"
        else:
            return None
    if extreme is None or properties(node.right).has_key(keys):
        return None
    column, function = extreme
    if column in keys:
        return None  # y = k' is fixed by the key: nothing to choose from
    chosen = [*dict.fromkeys(keys), column]
    if not node.right.schema[column].type.is_orderable:
        return None
    narrow = op.Project(
        node.right, tuple(ref(c) for c in chosen), tuple(node.right.schema[c] for c in chosen)
    )
    value = node.right.schema[column]
    count = len(chosen) - 1
    best = op.Aggregation(
        function, (count,), value.type, f"{function}({value.name})", nullable=value.nullable
    )
    grouped = op.Aggregate(narrow, tuple(range(count)), (best,))
    places = {c: i for i, c in enumerate(chosen[:count])} | {column: count}
    predicate = substitute(node.predicate, lambda i: ref(i if i < width else width + places[i - width]))
    return op.Join(node.left, grouped, node.kind, predicate)


def _against_column(part: exp.Expression, width: int) -> tuple[type[exp.Expression], int] | None:
    """A comparison of left columns with one plain right column: how, seen from the left, and which."""
    if not isinstance(part, exp.Binary) or type(part) not in _SWAPPED:
        return None
    for mine, theirs, kind in (
        (part.this, part.expression, type(part)),
        (part.expression, part.this, _SWAPPED[type(part)]),
    ):
        column = index_of(theirs)
        if column is not None and column >= width and all(i < width for i in references(mine)):
            return kind, column - width
    return None
