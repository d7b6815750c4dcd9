"""GROUPING SETS, ROLLUP and CUBE: one grouping after the other, united. A key that a grouping is without is NULL there."""

from __future__ import annotations

from itertools import product

from sqlglot import exp

from tidegate.errors import Diagnostic, unsupported
from tidegate.scalars.expressions import span_of

MOST = 64
"""So many groupings may one GROUP BY ask for."""

_Sets = list[list[exp.Expression]]


def groupings(ast: exp.Select) -> tuple[exp.Select, list[frozenset[int]]] | None:
    """The block with all keys of all groupings, and which of them each grouping has; None: it has one grouping.

    >>> from tidegate.language.dialect import parse
    >>> block, sets = groupings(parse("SELECT a, b FROM S GROUP BY a, ROLLUP(b, c)")[0])
    >>> [k.name for k in block.args["group"].expressions], [sorted(s) for s in sets]
    (['a', 'b', 'c'], [[0, 1, 2], [0, 1], [0]])
    """
    group = ast.args.get("group")
    if group is None or not _is_several(group):
        return None
    if ast.args.get("qualify") is not None:
        raise unsupported("QUALIFY cannot stand beside several groupings").at(span_of(ast))
    factors = [_sets(term) for term in group.expressions]
    trailing = [s for name in ("grouping_sets", "rollup", "cube") for s in group.args.get(name) or ()]
    if trailing:  # Spark's older forms: GROUP BY a, b WITH ROLLUP, and GROUP BY a, b GROUPING SETS (…)
        plain = list(group.expressions)
        factors = [_sets(s if s.expressions else type(s)(expressions=plain)) for s in trailing]
    count = 1
    for sets in factors:
        count *= len(sets)
    if count > MOST:
        raise Diagnostic("TOO_MANY_GROUPINGS", f"{count:,} groupings: at most {MOST} are taken").at(
            span_of(group) or span_of(ast)
        )
    keys: list[exp.Expression] = []
    for key in [*(group.expressions if trailing else ()), *(k for sets in factors for s in sets for k in s)]:
        if key not in keys:
            keys.append(key)
    chosen = [frozenset(keys.index(k) for s in combination for k in s) for combination in product(*factors)]
    block = ast.copy()
    block.set("group", exp.Group(expressions=[k.copy() for k in keys]))
    for part in ("order", "limit", "offset", "distinct"):
        block.set(part, None)
    return block, chosen


def _is_several(group: exp.Expression) -> bool:
    if any(group.args.get(name) for name in ("rollup", "cube", "grouping_sets")):
        return True
    return any(isinstance(e, (exp.Rollup, exp.Cube, exp.GroupingSets)) for e in group.expressions)


def _sets(term: exp.Expression) -> _Sets:
    """The groupings that a term of GROUP BY stands for."""
    if isinstance(term, exp.GroupingSets):
        return [s for e in term.expressions for s in _sets(e)]
    parts = [_keys(e) for e in term.expressions] if isinstance(term, (exp.Rollup, exp.Cube)) else []
    if isinstance(term, exp.Rollup):
        return [[k for part in parts[:n] for k in part] for n in range(len(parts), -1, -1)]
    if isinstance(term, exp.Cube):
        if len(parts) > 10:
            raise Diagnostic("TOO_MANY_GROUPINGS", f"a CUBE of {len(parts)} keys").at(span_of(term))
        # the first key changes slowest, as in a table of all combinations
        chosen = product((True, False), repeat=len(parts))
        return [[k for part, taken in zip(parts, c, strict=True) if taken for k in part] for c in chosen]
    return [_keys(term)]


def _keys(term: exp.Expression) -> list[exp.Expression]:
    if isinstance(term, exp.Paren):
        return _keys(term.this)
    return list(term.expressions) if isinstance(term, exp.Tuple) else [term]
