"""Filters move towards the sources: below every operator that treats the rows they keep apart from the others.

A condition that may fail (a division, a cast, a user's function) never moves where it would be asked about rows that it was not
asked about before: below a join it would see rows without a partner, below a ranking those that are not among the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from sqlglot import exp

from tidegate.algebra import operators as op
from tidegate.algebra.modify import Modify, Restrict, Since
from tidegate.algebra.windows import is_temporal
from tidegate.optimizer.rules.relational import is_plain
from tidegate.optimizer.rules.windows import leaves_nothing_out, shows_everything
from tidegate.scalars.expressions import conjoin, conjuncts, ref, references, shift, substitute
from tidegate.scalars.total import never_fails
from tidegate.types import Schema

Parts = list[exp.Expression]


def merge_filters(node: op.Node) -> op.Node | None:
    """`σ_p(σ_q(S)) = σ_{q and p}(S)`"""
    if isinstance(node, op.Filter) and isinstance(node.input, op.Filter):
        both = conjoin([*conjuncts(node.input.predicate), *conjuncts(node.predicate)])
        assert both is not None
        return op.Filter(node.input.input, both)
    return None


def push_filter_below_project(node: op.Node) -> op.Node | None:
    """`σ_p(μ_f(S)) = μ_f(σ_{p o f}(S))`, where p reads plain columns of f only."""
    if not (isinstance(node, op.Filter) and isinstance(node.input, op.Project)):
        return None
    project = node.input
    parts = conjuncts(node.predicate)

    def lowered(part: exp.Expression) -> exp.Expression:
        return substitute(part, lambda i: project.expressions[i].copy())

    below, above = _parted(parts, lambda p: all(is_plain(project.expressions[i]) for i in references(p)))
    if above:  # one that may fail is guarded by those before it
        below, above = _parted(parts, lambda p: p in below and never_fails(lowered(p), project.input.schema))
    if not below:
        return None
    return filtered(replace(project, input=filtered(project.input, map(lowered, below))), above)


def push_filter_below_union(node: op.Node) -> op.Node | None:
    """`σ_p(S ∪ R) = σ_p(S) ∪ σ_p(R)` (PIPES rule 10)"""
    if not (isinstance(node, op.Filter) and isinstance(node.input, op.UnionAll)):
        return None
    union = node.input
    return op.UnionAll(op.Filter(union.left, node.predicate), op.Filter(union.right, node.predicate))


def push_filter_below_window(node: op.Node) -> op.Node | None:
    """`σ_p(ω(S)) = ω(σ_p(S))` for windows in time and unbounded ones (PIPES rule 13); else for conditions on PARTITION BY columns alone.

    A row window counts rows that the condition would take away (Astral, example 6); those of other partitions it
    does not count. A window that leaves out rows keeps them from conditions that may fail.
    """
    if not (isinstance(node, op.Filter) and isinstance(node.input, op.Window)):
        return None
    window = node.input
    schema = window.schema
    if (is_temporal(window.spec) and leaves_nothing_out(window)) or shows_everything(window.spec):
        return replace(window, input=op.Filter(window.input, node.predicate))
    free = is_temporal(window.spec)
    allowed = set(range(len(schema)) if free else window.partition_by)
    return _below(node, window, allowed)


def push_filter_below_distinct(node: op.Node) -> op.Node | None:
    """`σ_p(δ(S)) = δ(σ_p(S))`: equal rows are kept or dropped together."""
    if not (isinstance(node, op.Filter) and isinstance(node.input, op.Distinct)):
        return None
    return _below(node, node.input, range(len(node.schema)))


def push_filter_below_grouping(node: op.Node) -> op.Node | None:
    """`σ_p(γ_{k; f}(S)) = γ_{k; f}(σ_p(S))` where p reads k alone: a group is kept or dropped as a whole."""
    if not (isinstance(node, op.Filter) and isinstance(node.input, op.Aggregate)):
        return None
    keys = node.input.keys
    return _below(node, node.input, range(len(keys)), lambda i: ref(keys[i]))


def push_filter_below_top_k(node: op.Node) -> op.Node | None:
    """`σ_p(top_{k, partition}(S)) = top_{k, partition}(σ_p(S))` where p reads the partition alone."""
    if not (isinstance(node, op.Filter) and isinstance(node.input, op.TopK)):
        return None
    return _below(node, node.input, node.input.partition_by)


def push_filter_below_single_row(node: op.Node) -> op.Node | None:
    """`σ_p(single_k(S)) = single_k(σ_p(S))` where p reads k alone: of rows that nobody asks for there may be several."""
    if not (isinstance(node, op.Filter) and isinstance(node.input, op.SingleRow)):
        return None
    return _below(node, node.input, node.input.partition_by)


def push_filter_below_difference(node: op.Node) -> op.Node | None:
    """`σ_p(S - R) = σ_p(S) - σ_p(R)`, likewise ∩: equal rows are kept or dropped together, on both sides."""
    if not (isinstance(node, op.Filter) and isinstance(node.input, op.Except | op.Intersect)):
        return None
    both = node.input
    sides = both.left.schema, both.right.schema
    moving, staying = _parted(
        conjuncts(node.predicate), lambda p: bool(references(p)) and all(never_fails(p, s) for s in sides)
    )
    if not moving:
        return None
    lowered = both.with_inputs(filtered(both.left, moving), filtered(both.right, moving))
    return filtered(lowered, staying)


def push_filter_below_changes(node: op.Node) -> op.Node | None:
    """`σ_p(istream(S)) = istream(σ_p(S))`, likewise for dstream, rstream, NOW conditions, and TS where p does not read it.

    Each of them treats every value of a row apart from the others.
    """
    if not isinstance(node, op.Filter):
        return None
    if not isinstance(node.input, op.Istream | op.Dstream | op.Rstream | Restrict | Since):
        return None
    return _below(node, node.input, range(len(node.input.input.schema)))


def push_filter_below_modify(node: op.Node) -> op.Node | None:
    """`σ_p(modify_k(S)) = modify_k(σ_p(S))` where p reads k alone: a key's rows are kept or dropped together.

    Of other columns an update may leave p, and must then delete what its key had: below, it would not arrive. With operations, rows that
    contradict those before them are reported, whoever asks for them: there it stays.
    """
    if (
        not (isinstance(node, op.Filter) and isinstance(node.input, Modify))
        or node.input.operation is not None
    ):
        return None
    modify = node.input
    return _below(node, modify, range(len(modify.schema)) if modify.key is None else modify.key)


def push_filter_into_join(node: op.Node) -> op.Node | None:
    """`σ_p(S ⋈_q R) = σ_l(S) ⋈_{q and m} σ_r(R)`: each conjunct to the side whose columns it reads.

    A filter above an outer, semi- or antijoin moves to the side whose rows are kept if it reads that alone.
    """
    if not (isinstance(node, op.Filter) and isinstance(node.input, op.Join)):
        return None
    join = node.input
    left, right, middle = _sides(
        conjuncts(node.predicate), join, left=join.kind in _KEEP_LEFT, right=join.kind in _KEEP_RIGHT
    )
    if join.kind == "inner":
        predicate = conjoin([*conjuncts(join.predicate), *middle])
        return op.Join(filtered(join.left, left), filtered(join.right, right), "inner", predicate)
    if not left and not right:
        return None
    return filtered(replace(join, left=filtered(join.left, left), right=filtered(join.right, right)), middle)


_KEEP_LEFT = ("inner", "left", "semi", "anti")
_KEEP_RIGHT = ("inner", "right")


def push_join_conditions_down(node: op.Node) -> op.Node | None:
    """`S ⋈_{q and r} R = S ⋈_q σ_r(R)` where r reads R alone; likewise for S where no row of S must survive unmatched."""
    if not isinstance(node, op.Join) or node.predicate is None or node.kind == "full":
        return None
    kind = node.kind
    left, right, middle = _sides(
        conjuncts(node.predicate), node, left=kind in ("inner", "semi", "right"), right=kind != "right"
    )
    if not left and not right:
        return None
    return op.Join(filtered(node.left, left), filtered(node.right, right), kind, conjoin(middle))


def _sides(parts: Parts, join: op.Join, left: bool, right: bool) -> tuple[Parts, Parts, Parts]:
    """Which conditions may be asked on the left, on the right (in its positions), and which of pairs only."""
    width = len(join.left.schema)
    found: tuple[Parts, Parts, Parts] = ([], [], [])
    for part in parts:
        read = references(part)
        if left and read and max(read) < width and never_fails(part, join.left.schema):
            found[0].append(part)
            continue
        if right and read and min(read) >= width:
            lowered = shift(part, -width)
            if never_fails(lowered, join.right.schema):
                found[1].append(lowered)
                continue
        found[2].append(part)
    return found


def _below(
    node: op.Filter, through: op.Node, allowed: Iterable[int], place: Callable[[int], exp.Expression] = ref
) -> op.Node | None:
    """The conjuncts that read allowed columns alone, and cannot fail, below an operator with one input."""
    columns = set(allowed)
    below: Schema = through.inputs[0].schema

    def moves(part: exp.Expression) -> bool:
        return (
            bool(references(part))
            and references(part) <= columns
            and never_fails(substitute(part, place), below)
        )

    moving, staying = _parted(conjuncts(node.predicate), moves)
    if not moving:
        return None
    lowered = through.with_inputs(
        filtered(through.inputs[0], [substitute(p, place) for p in moving]), *through.inputs[1:]
    )
    return filtered(lowered, staying)


def _parted(parts: Parts, first: Callable[[exp.Expression], bool]) -> tuple[Parts, Parts]:
    chosen = [first(p) for p in parts]
    return [p for p, c in zip(parts, chosen, strict=True) if c], [
        p for p, c in zip(parts, chosen, strict=True) if not c
    ]


def filtered(plan: op.Node, parts: Iterable[exp.Expression]) -> op.Node:
    """A plan with conditions on its rows, if there are any."""
    predicate = conjoin(parts)
    return plan if predicate is None else op.Filter(plan, predicate)
