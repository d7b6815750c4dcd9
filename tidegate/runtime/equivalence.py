"""Whether two plans are known to mean the same. What cannot be proved counts as another meaning.

Two plans are equivalent if

    the rules make the same plan of both, up to the order in which inner joins are written, or
    one answers the other with nothing to be done above it (`optimizer.matching`), or
    a search finds one of them among the plans that mean what the other means (`optimizer.search`).
"""

from __future__ import annotations

from sqlglot import exp

from tidegate.algebra import operators as op
from tidegate.optimizer.cost import Costs
from tidegate.optimizer.driver import optimize
from tidegate.optimizer.matching import MatchError, over
from tidegate.optimizer.rules.join_forms import commute_join
from tidegate.optimizer.search import JoinBlock, join_block, means_same
from tidegate.physical.identity import Identity, identity_of
from tidegate.scalars.expressions import index_of, ref, substitute
from tidegate.types import Type


def equivalent(one: op.Node, other: op.Node) -> bool:
    """Whether the snapshots of two plans are known to be equal at every instant, names of columns apart.

    >>> from sqlglot import parse_one
    >>> from tidegate.types import INT, Field
    >>> s, r = (op.Scan(n, (Field("a", INT),)) for n in "SR")
    >>> same = op.Join(s, r, "inner", parse_one("c0 = c1"))
    >>> turned = op.Project(op.Join(r, s, "inner", parse_one("c0 = c1")), (parse_one("c1"), parse_one("c0")), same.schema)
    >>> equivalent(same, turned), equivalent(same, op.Join(s, r, "inner", parse_one("c0 < c1")))
    (True, False)
    """
    if [f.type for f in one.schema] != [f.type for f in other.schema]:
        return False
    first, second = optimize(_left_joins(one))[0], optimize(_left_joins(other))[0]
    return (
        meaning(first) == meaning(second)
        or _answers(first, second)
        or _answers(second, first)
        or means_same(first, second, Costs({}))
        or means_same(second, first, Costs({}))
    )


def meaning(plan: op.Node) -> Identity:
    """A digest of a plan that does not tell the order in which relations are joined, nor which of some equal columns is read."""
    known: dict[int, Identity] = {}
    for node in plan.walk():
        block = _block(node)
        if isinstance(node, op.Project) and node.only_names:
            known[id(node)] = known[id(node.input)]
        elif block is not None:
            known[id(node)] = _joined(block, [known[id(r)] for r in block.relations])
        else:
            known[id(node)] = identity_of("plan", node, [known[id(i)] for i in node.inputs])
    return known[id(plan)]


def _left_joins(plan: op.Node) -> op.Node:
    """A plan whose right joins are left ones."""
    inputs = [_left_joins(i) for i in plan.inputs]
    if any(a is not b for a, b in zip(inputs, plan.inputs, strict=True)):
        plan = plan.with_inputs(*inputs)
    if isinstance(plan, op.Join) and plan.kind == "right":
        return next(iter(commute_join(plan)), plan)
    return plan


def _block(node: op.Node) -> JoinBlock | None:
    """The inner joins at the top of a plan, perhaps below a choice of columns."""
    if not isinstance(node, op.Project):
        return join_block(node)
    places = [index_of(e) for e in node.expressions]
    found = join_block(node.input)
    if found is None or None in places:
        return None
    chosen = tuple(found.columns[p] for p in places if p is not None)
    return JoinBlock(found.relations, found.conditions, chosen, node)


def _joined(block: JoinBlock, relations: list[Identity]) -> Identity:
    """Relations in the order of what they mean; columns that conditions make equal are the first of them."""
    order = sorted(range(len(relations)), key=lambda r: relations[r])
    places: dict[int, int] = {}
    types: list[Type] = []
    for r in order:
        for i, field in enumerate(block.relations[r].schema):
            places[block.offset(r) + i] = len(types)
            types.append(field.type)
    conditions = [substitute(c, lambda i: ref(places[i])) for c in block.conditions]
    leader = list(range(len(types)))
    for condition in conditions:
        pair = _equal_columns(condition)
        # Equal values of one type that is no float are the same value.
        if pair is not None and types[pair[0]] == types[pair[1]] and types[pair[0]].name not in _TOLERANT:
            low, high = sorted(leader[p] for p in pair)
            leader = [low if p == high else p for p in leader]
    classes = sorted({tuple(i for i, p in enumerate(leader) if p == first) for first in leader})
    rest = [
        substitute(c, lambda i: ref(leader[i]))
        for c in conditions
        if (pair := _equal_columns(c)) is None or leader[pair[0]] != leader[pair[1]]
    ]
    parts = sorted({identity_of("condition", c) for c in rest})
    columns = [leader[places[c]] for c in block.columns]
    return identity_of("joined", [relations[r] for r in order], classes, parts, columns)


_TOLERANT = ("FLOAT", "DOUBLE", "REAL")
"""-0.0 equals 0.0."""


def _equal_columns(condition: exp.Expression) -> tuple[int, int] | None:
    while isinstance(condition, exp.Paren):
        condition = condition.this
    if not isinstance(condition, exp.EQ):
        return None
    left, right = index_of(condition.this), index_of(condition.expression)
    return None if left is None or right is None else (left, right)


def _answers(query: op.Node, view: op.Node) -> bool:
    """Whether a view is the query itself."""
    try:
        found = over(query, view)
    except MatchError:
        return False
    whole = found.is_rowwise and not found.conditions and not found.having
    return whole and [index_of(c) for c in found.columns] == [*range(len(view.schema))]
