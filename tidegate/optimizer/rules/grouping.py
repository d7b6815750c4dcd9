"""Grouping and duplicate elimination on the other side of joins and unions: fewer rows to be kept and to meet.

What is grouped below a join is grouped for rows that meet nobody, too, so only aggregates that cannot fail move.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from tidegate.algebra import operators as op
from tidegate.algebra.properties import equal_columns, properties
from tidegate.optimizer.rules.join_forms import chosen
from tidegate.scalars.expressions import conjuncts, index_of, ref, references, substitute
from tidegate.types import BIGINT

_ANYHOW = ("COUNT", "MIN", "MAX", "ARG_MIN", "ARG_MAX")
_SUMS = ("SUM", "AVG")
_SMALL = ("TINYINT", "SMALLINT", "INT", "FLOAT", "DOUBLE")
_AGAIN = {"COUNT": "SUM", "MIN": "MIN", "MAX": "MAX"}
"""What makes the aggregate of the whole of those of its parts, exactly."""


@dataclass(frozen=True)
class _GroupedJoin:
    """A grouping above an inner join, as seen from the side whose rows are aggregated; all columns are those of pairs."""

    node: op.Aggregate
    join: op.Join
    keys: tuple[int, ...]
    aggregations: tuple[op.Aggregation, ...]
    on_left: bool

    @property
    def mine(self) -> op.Node:
        return self.join.left if self.on_left else self.join.right

    @property
    def other(self) -> op.Node:
        return self.join.right if self.on_left else self.join.left

    @property
    def start(self) -> int:
        return 0 if self.on_left else len(self.join.left.schema)

    def is_mine(self, column: int) -> bool:
        return self.start <= column < self.start + len(self.mine.schema)

    @property
    def asked(self) -> set[int]:
        """The columns that the join's condition reads."""
        return set().union(*map(references, conjuncts(self.join.predicate)))

    @property
    def equal(self) -> dict[int, int]:
        """The columns of my side that equal one of the other side's, which."""
        pairs = equal_columns(self.join)
        return dict(pairs) if self.on_left else {b: a for a, b in pairs}


def _grouped_joins(node: op.Node) -> Iterator[_GroupedJoin]:
    """A grouping above an inner join, for each side on which all arguments of its aggregates are."""
    if not isinstance(node, op.Aggregate) or not node.aggregations:
        return
    join, columns = chosen(node.input)
    if not isinstance(join, op.Join) or join.kind != "inner":
        return
    keys = tuple(columns[k] for k in node.keys)
    moved = tuple(
        replace(
            a,
            arguments=tuple(columns[i] for i in a.arguments),
            where=None if a.where is None else columns[a.where],
        )
        for a in node.aggregations
    )
    for on_left in (True, False):
        found = _GroupedJoin(node, join, keys, moved, on_left)
        if all(found.is_mine(i) for a in moved for i in _read(a)):
            yield found


def _read(a: op.Aggregation) -> Iterable[int]:
    return a.arguments if a.where is None else (*a.arguments, a.where)


def push_grouping_below_join(node: op.Node) -> Iterator[op.Node]:
    """`γ_{k, l; f}(S ⋈_{k = k'} R) = γ_{k; f}(S) ⋈_{k = k'} R` (PIPES Fig. 9), l and k' holding a key of R, f reading S alone.

    Where no such key is known, but f does not see how often a row is there (MIN, MAX, DISTINCT), R becomes `δ(Π_{k', l}(R))`.
    """
    for found in map(_by_keys, _grouped_joins(node)):
        equal = found.equal
        mine = {k for k in found.keys if found.is_mine(k)}
        theirs = {k for k in found.keys if not found.is_mine(k)}
        # a column of mine that equals one of their keys has one value in each group
        mine |= {c for c in found.asked if found.is_mine(c) and equal.get(c) in theirs}
        told = theirs | {equal[c] for c in mine if c in equal}
        if not {c for c in found.asked if found.is_mine(c)} <= mine:
            continue
        if not all(_cannot_fail(a, found) for a in found.aggregations):
            continue
        offset = len(found.join.left.schema) if found.on_left else 0
        other = sorted(c - offset for c in told)
        if properties(found.other).has_key(other):
            yield _below(found, sorted(mine), found.other, [*range(len(found.other.schema))])
        elif all(_is_blind(a) for a in found.aggregations) and found.asked <= mine | told:
            fields = tuple(found.other.schema[c] for c in other)
            narrow = op.Distinct(op.Project(found.other, tuple(map(ref, other)), fields))
            yield _below(found, sorted(mine), narrow, other)


def _by_keys(found: _GroupedJoin) -> _GroupedJoin:
    """The same, the join's condition reading a key where it read a column of mine that equals it."""
    pairs = [(a + found.start, b + found.start) for a, b in _equal_within(found.mine)]
    pairs += [(b, a) for a, b in pairs]
    keys = {b: a for a, b in pairs if a in found.keys and b not in found.keys}
    if found.join.predicate is None or not keys.keys() & found.asked:
        return found
    predicate = substitute(found.join.predicate, lambda i: ref(keys.get(i, i)))
    return replace(found, join=replace(found.join, predicate=predicate))


def _equal_within(plan: op.Node) -> list[tuple[int, int]]:
    """Pairs of columns that are equal in every row of a plan, as far as its joins say."""
    if isinstance(plan, op.Filter | op.Distinct | op.Window | op.TopK):
        return _equal_within(plan.input)
    if isinstance(plan, op.Project):
        shown = [(i, index_of(e)) for i, e in enumerate(plan.expressions)]
        below = _equal_within(plan.input)
        return [(i, j) for a, b in below for i, c in shown if c == a for j, d in shown if d == b]
    if not isinstance(plan, op.Join) or plan.kind not in ("inner", "semi", "anti"):
        return []
    left = _equal_within(plan.left)
    if plan.kind != "inner":
        return left
    width = len(plan.left.schema)
    right = [(a + width, b + width) for a, b in _equal_within(plan.right)]
    return [*left, *right, *equal_columns(plan)]


def _cannot_fail(a: op.Aggregation, found: _GroupedJoin) -> bool:
    if a.function in _ANYHOW:
        return True
    schema = found.join.pair_schema
    return a.function in _SUMS and all(schema[i].type.name in _SMALL for i in a.arguments)


def _is_blind(a: op.Aggregation) -> bool:
    """Whether an aggregate does not see how often a row is there."""
    return a.function in ("MIN", "MAX") or (a.distinct and a.function in ("COUNT", "SUM", "AVG"))


def _below(found: _GroupedJoin, mine: Sequence[int], other: op.Node, shown: Sequence[int]) -> op.Node:
    """The grouping below the join; `shown` are the columns of the other side that are left."""
    start = found.start
    grouped = op.Aggregate(
        found.mine, tuple(c - start for c in mine), tuple(_lowered(a, start) for a in found.aggregations)
    )
    offset = len(found.join.left.schema) if found.on_left else 0
    first = 0 if found.on_left else len(shown)
    second = len(grouped.schema) if found.on_left else 0
    places = {c: first + i for i, c in enumerate(mine)}
    places |= {offset + c: second + i for i, c in enumerate(shown)}
    predicate = found.join.predicate
    if predicate is not None:
        predicate = substitute(predicate, lambda i: ref(places[i]))
    left, right = (grouped, other) if found.on_left else (other, grouped)
    joined = op.Join(left, right, "inner", predicate)
    order = [*(places[k] for k in found.keys), *range(first + len(mine), first + len(grouped.schema))]
    return op.Project(joined, tuple(map(ref, order)), found.node.schema)


def _lowered(a: op.Aggregation, start: int) -> op.Aggregation:
    where = None if a.where is None else a.where - start
    return replace(a, arguments=tuple(i - start for i in a.arguments), where=where)


def push_partial_grouping_below_join(node: op.Node) -> Iterator[op.Node]:
    """`γ_{k; f}(S ⋈_p R) = γ_{k; f'}(γ_{k, p; f}(S) ⋈_p R)` for COUNT, MIN and MAX of S, which are made of parts: a sum of counts, and so on."""
    for found in map(_by_keys, _grouped_joins(node)):
        below, _ = chosen(found.mine)
        if isinstance(below, op.Aggregate) or not all(_is_divisible(a) for a in found.aggregations):
            continue
        start = found.start
        mine = sorted({c for c in (*found.keys, *found.asked) if found.is_mine(c)})
        partial = op.Aggregate(
            found.mine, tuple(c - start for c in mine), tuple(_lowered(a, start) for a in found.aggregations)
        )
        width = len(found.join.left.schema)
        first = 0 if found.on_left else width
        places = {c: first + i for i, c in enumerate(mine)}
        others = range(width, len(found.join.pair_schema)) if found.on_left else range(width)
        places |= {c: (len(partial.schema) if found.on_left else 0) + i for i, c in enumerate(others)}
        predicate = found.join.predicate
        if predicate is not None:
            predicate = substitute(predicate, lambda i, p=places: ref(p[i]))  # type: ignore[misc]
        left, right = (partial, found.other) if found.on_left else (found.other, partial)
        joined = op.Join(left, right, "inner", predicate)
        made = [first + len(mine) + i for i in range(len(found.aggregations))]
        yield _whole(joined, [places[k] for k in found.keys], made, node)


def push_grouping_below_union(node: op.Node) -> Iterator[op.Node]:
    """`γ_{k; f}(S ∪ R) = γ_{k; f'}(γ_{k; f}(S) ∪ γ_{k; f}(R))` for COUNT, MIN and MAX."""
    if not isinstance(node, op.Aggregate) or not isinstance(node.input, op.UnionAll) or not node.aggregations:
        return
    union = node.input
    if isinstance(union.left, op.Aggregate) and isinstance(union.right, op.Aggregate):
        return
    if all(_is_divisible(a) for a in node.aggregations):
        parts = op.UnionAll(replace(node, input=union.left), replace(node, input=union.right))
        width = len(node.keys)
        yield _whole(parts, [*range(width)], [width + i for i in range(len(node.aggregations))], node)


def _is_divisible(a: op.Aggregation) -> bool:
    return a.function in _AGAIN and not a.distinct


def _whole(parts: op.Node, keys: Sequence[int], made: Sequence[int], node: op.Node) -> op.Node:
    """The aggregates of a grouping, of those of its parts."""
    assert isinstance(node, op.Aggregate)
    again = tuple(
        replace(
            a,
            function=_AGAIN[a.function],
            arguments=(c,),
            where=None,
            type=BIGINT if a.function == "COUNT" else a.type,
        )
        for a, c in zip(node.aggregations, made, strict=True)
    )
    whole = op.Aggregate(parts, tuple(keys), again)
    same = [(f.name, f.hidden) for f in whole.schema] == [(f.name, f.hidden) for f in node.schema]
    return whole if same else op.Project(whole, tuple(map(ref, range(len(node.schema)))), node.schema)


def push_distinct_below_join(node: op.Node) -> Iterator[op.Node]:
    """`δ(S ⋈_p R) = δ(S) ⋈_p δ(R)` (PIPES rule 11)"""
    if isinstance(node, op.Distinct) and isinstance(node.input, op.Join) and node.input.kind == "inner":
        join = node.input
        yield replace(join, left=_distinct(join.left), right=_distinct(join.right))


def push_distinct_below_union(node: op.Node) -> Iterator[op.Node]:
    """`δ(S ∪ R) = δ(δ(S) ∪ δ(R))`"""
    if isinstance(node, op.Distinct) and isinstance(node.input, op.UnionAll):
        union = node.input
        if not (isinstance(union.left, op.Distinct) and isinstance(union.right, op.Distinct)):
            yield op.Distinct(op.UnionAll(_distinct(union.left), _distinct(union.right)))


def turn_distinct_join_semi(node: op.Node) -> Iterator[op.Node]:
    """`δ(Π_s(S ⋈_p R)) = δ(Π_s(S ⋉_p R))` where s are columns of S: how many partners there are does not show."""
    if not isinstance(node, op.Distinct):
        return
    join, columns = chosen(node.input)
    if (
        isinstance(join, op.Join)
        and join.kind == "inner"
        and columns
        and max(columns) < len(join.left.schema)
    ):
        met = replace(join, kind="semi")
        yield op.Distinct(op.Project(met, tuple(map(ref, columns)), node.schema))


def _distinct(plan: op.Node) -> op.Node:
    return plan if isinstance(plan, op.Distinct) else op.Distinct(plan)
