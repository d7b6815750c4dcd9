"""From regions to a physical plan: their operators are lowered, and each exchange learns what travels through it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlglot import exp

from tidegate.algebra.modify import Modify, Restrict, Sync
from tidegate.algebra.operators import Aggregate, Filter, Join, Node, Project, Scan, UnionAll, Window
from tidegate.algebra.windows import is_temporal
from tidegate.physical.flow import Bound, Rows
from tidegate.physical.identity import Identity, identity_of
from tidegate.physical.lowering import Feed, Lowering, rows_of_scan
from tidegate.physical.plan import Birth, Input, Key, OperatorRows, Plan, Shared, SourceRows
from tidegate.physical.regions import Leaf, Placed, Regions
from tidegate.scalars.expressions import references, substitute

HOMES = 16
"""Among so many places the operators without a key are spread."""


def assemble(
    name: str, root: Placed, regions: Regions, functions: Mapping[str, Any], birth: Birth, shared: Shared
) -> Plan:
    """The plan of a query whose operators have been placed; what it shares with others was born with them."""
    home = regions.home(root)
    assert home is not None
    work = _Assembly(regions, functions, birth, shared)
    order = regions.in_order([home])
    for region in order:
        work.lower(region, [root] if region == home else [], order)
    answer = work.outputs[root]
    work.collect_needed(root, list(reversed(order)))
    lowered = work.lowering
    return Plan(work.inputs, lowered.operators, {name: answer})


@dataclass
class _Assembly:
    regions: Regions
    functions: Mapping[str, Any]
    birth: Birth
    shared: Shared
    inputs: dict[Identity, Input] = field(default_factory=dict)
    outputs: dict[Placed, Identity] = field(default_factory=dict)
    """What others read, or what answers the query -> the operator that gives it."""
    plans: dict[Placed, Node] = field(default_factory=dict)
    """The same as logical plans, whose leaves are named after the inputs."""
    _digests: dict[int, Identity] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.feeds: dict[str, Feed] = {}
        self.names: dict[str, Identity] = {}
        self.waves: dict[int, int] = {}
        self.lowering = Lowering(self.functions, self.feeds)

    def lower(self, region: int, roots: Sequence[Placed], every: Sequence[int]) -> None:
        """The operators of a region whose inputs are known: those before it have been lowered."""
        origins = (leaf.origin for leaf in self.regions.leaves(region))
        below = (self.regions.home(o) for o in origins if isinstance(o, Placed))
        self.waves[region] = 1 + max((self.waves[r] for r in below if r is not None), default=0)
        read = [p for p in self._read_elsewhere(region, every) if p not in roots]
        leaves = {id(leaf): f"{region}.{n}" for n, leaf in enumerate(self.regions.leaves(region))}
        memo: dict[int, Node] = {}
        plans = {p: self._rewritten(p, leaves, memo) for p in (*roots, *read)}
        ordered = {name for plan in plans.values() for name in _ordered_leaves(plan)}
        for leaf in self.regions.leaves(region):
            name = leaves[id(leaf)]
            entry = self._input(region, leaf, name in ordered)
            self.inputs.setdefault(entry.id, entry)
            self.names[name] = entry.id
            self.feeds[name] = Feed(entry.id, entry.rows, entry.ordered)
        for placed, plan in plans.items():
            self.plans[placed] = plan
            self.outputs[placed] = self.lowering.id_of(plan)

    def _read_elsewhere(self, region: int, every: Sequence[int]) -> list[Placed]:
        """The operators of a region that other regions read."""
        found: list[Placed] = []
        for other in every:
            for leaf in self.regions.leaves(other):
                origin = leaf.origin
                if isinstance(origin, Placed) and self.regions.home(origin) == region and origin not in found:
                    found.append(origin)
        return found

    def _rewritten(self, placed: Placed, leaves: Mapping[int, str], memo: dict[int, Node]) -> Node:
        """A placed operator as a logical plan over scans of what its region reads."""
        if id(placed) not in memo:
            if placed.leaf is not None:
                leaf = placed.leaf
                memo[id(placed)] = Scan(leaves[id(leaf)], leaf.schema, relation=not leaf.raw)
            else:
                inputs = (self._rewritten(i, leaves, memo) for i in placed.inputs)
                memo[id(placed)] = placed.node.with_inputs(*inputs)
        return memo[id(placed)]

    def _input(self, region: int, leaf: Leaf, ordered: bool) -> Input:
        origin, rows = self._origin(leaf)
        keys = self.regions.keys(leaf)
        own: Key | None = tuple(keys[k] for k in self.regions.classes(region) if k in keys)
        if self.regions.is_single(region) or leaf.broadcast:
            own = ()
        elif not own:
            own = None
        key = own
        if key and isinstance(origin, SourceRows):
            key = tuple(composed(e, origin.expressions) for e in key)
        home = self._home(region) if key == () and not leaf.broadcast else 0
        content = identity_of(
            "input", _content(origin), leaf.schema, own, leaf.broadcast, leaf.raw, ordered, home
        )
        birth = self.shared.get(content, self.birth)
        id_ = identity_of("born", content, birth, self.waves[region] if birth.by_wave else 0)
        return Input(
            id_, content, origin, leaf.schema, key, own, leaf.broadcast, leaf.raw, ordered, home, birth, rows
        )

    def _origin(self, leaf: Leaf) -> tuple[SourceRows | OperatorRows, Rows]:
        if isinstance(leaf.origin, SourceRows):
            scan = leaf.origin.scan
            return leaf.origin, (Rows("intervals", Bound.TABLE) if scan is None else rows_of_scan(scan))
        operator = self.outputs[leaf.origin]
        given = () if leaf.expressions is None else leaf.origin.node.schema
        rows = self.lowering.rows_of(operator)
        return OperatorRows(operator, given, leaf.expressions), rows

    def _home(self, region: int) -> int:
        """Equal regions meet in one place, different ones are spread, whatever other queries there are."""
        founder = self.regions.founder(region)
        return 0 if founder is None else int(self._digest(founder), 16) % HOMES

    def _digest(self, node: Node) -> Identity:
        if id(node) not in self._digests:
            self._digests[id(node)] = identity_of("plan", node, [self._digest(i) for i in node.inputs])
        return self._digests[id(node)]

    def collect_needed(self, root: Placed, order: Sequence[int]) -> None:
        """Which columns of each input somebody reads, from the answer down."""
        wanted: dict[Identity, set[int]] = {self.outputs[root]: set(range(len(root.node.schema)))}
        for region in order:
            for placed, plan in self.plans.items():
                if self.regions.home(placed) != region:
                    continue
                for name, columns in needed_columns(plan, wanted.get(self.outputs[placed], set())).items():
                    self._need(self.names[name], columns, wanted)

    def _need(self, id_: Identity, columns: set[int], wanted: dict[Identity, set[int]]) -> None:
        entry = self.inputs[id_]
        # The key's columns travel: it is computed from the rows as they are exchanged, and from those that are kept.
        needed = entry.needed | columns | {c for e in entry.own_key or () for c in references(e)}
        self.inputs[id_] = replace(entry, needed=needed)
        if isinstance(entry.origin, OperatorRows):
            made = entry.origin.expressions
            read = needed if made is None else {c for i in needed for c in references(made[i])}
            wanted.setdefault(entry.origin.operator, set()).update(read)


def _content(origin: SourceRows | OperatorRows) -> tuple[object, ...]:
    if isinstance(origin, OperatorRows):
        return (origin.operator, origin.expressions)
    scan = origin.scan
    source = None if scan is None else (scan.name, scan.fields, scan.relation)
    made = () if origin.combine is None else (origin.combine,)
    return (source, origin.predicates, origin.expressions, *made)


def composed(expression: exp.Expression, by: Sequence[exp.Expression]) -> exp.Expression:
    """The expression over what other expressions make, as one over what they read."""

    def make(index: int) -> exp.Expression:
        found = by[index].copy()
        simple = isinstance(found, exp.Column | exp.Literal | exp.Func | exp.Paren | exp.Cast)
        return found if simple else exp.paren(found, copy=False)

    return substitute(expression, make)


def _origin_of(node: Node) -> Node:
    """What a chain of filters and projections stands on."""
    while isinstance(node, Filter | Project):
        node = node.input
    return node


def _ordered_leaves(plan: Node) -> Iterator[str]:
    """The raw inputs below a window that counts rows, or below modifications of keys."""
    for node in plan.walk():
        counts = isinstance(node, Window) and not is_temporal(node.spec)
        if counts or (isinstance(node, Modify) and node.key is not None):
            below = _origin_of(node.inputs[0])
            if isinstance(below, Scan) and not below.relation:
                yield below.name


def needed_columns(plan: Node, wanted: set[int]) -> dict[str, set[int]]:
    """The columns of each leaf that can matter for the wanted columns of a plan."""
    order = list(plan.walk())
    wants: dict[int, set[int]] = {id(node): set() for node in order}
    wants[id(plan)] |= wanted
    leaves: dict[str, set[int]] = {}
    for node in reversed(order):
        if isinstance(node, Scan):
            leaves.setdefault(node.name, set()).update(wants[id(node)])
        for child, columns in zip(node.inputs, _read_columns(node, wants[id(node)]), strict=True):
            wants[id(child)] |= columns
    return leaves


def _read_columns(node: Node, wanted: set[int]) -> list[set[int]]:
    """Of each input of a node, the columns that matter for some of its own."""
    if isinstance(node, Filter):
        return [wanted | references(node.predicate)]
    if isinstance(node, Project):
        # Expressions that nobody wants are computed all the same: what they read must be there.
        return [set().union(*(references(e) for e in node.expressions))]
    if isinstance(node, Join):
        # Rows that differ in other columns only have the same partners, so they may be counted as one (also by outer joins).
        width = len(node.left.schema)
        reads = wanted | (references(node.predicate) if node.predicate is not None else set())
        return [{c for c in reads if c < width}, {c - width for c in reads if c >= width}]
    if isinstance(node, Aggregate):
        reads = set(node.keys)
        for a in node.aggregations:
            reads |= {*a.arguments, *(() if a.where is None else (a.where,))}
        return [reads]
    if isinstance(node, UnionAll):
        return [wanted, wanted]
    if isinstance(node, Restrict):
        return [wanted | (references(node.predicate) - {len(node.input.schema)})]
    if isinstance(node, Sync):
        return [wanted, set(range(len(node.points.schema)))]
    if isinstance(node, Window) and (is_temporal(node.spec) or _is_raw(node.input)):
        return [wanted | set(node.partition_by)]
    return [set(range(len(child.schema))) for child in node.inputs]


def _is_raw(node: Node) -> bool:
    below = _origin_of(node)
    return isinstance(below, Scan) and not below.relation
