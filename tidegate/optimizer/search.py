"""A bounded search for the plan that costs least, among those that mean the same.

Plans are kept in groups: all expressions of a group mean the same, and what stands below an operator is a group, too, so that a choice made in one
place is made once. What the greedy rules give is the first member of every group; orders of joins and the `ALTERNATIVES` add others. The cheapest plan of
a group is that of the cheapest operator over the cheapest plans of its inputs.

Operators alone do not tell what a plan costs where it runs: rows are exchanged by keys, and what others run already costs nothing. So each group keeps several
cheap plans, and whoever knows the physical plan (`whole`) judges those of the last one.

The search is bounded (`Budget`): beyond so many expressions it explores no further; beyond so much time it is given up and the greedy plan stands. It
is deterministic: the same plan and statistics give the same plan.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from heapq import nsmallest
from itertools import combinations, product

from sqlglot import exp

from tidegate.algebra import operators as op
from tidegate.errors import internal
from tidegate.optimizer.cost import Cost, Costs, cost, estimate
from tidegate.optimizer.driver import broken, optimize
from tidegate.optimizer.formulas import Estimate, Setting
from tidegate.optimizer.rules import ALTERNATIVES, JOIN_ORDER, Alternative
from tidegate.scalars.expressions import conjoin, conjuncts, index_of, ref, references, substitute
from tidegate.scalars.total import never_fails

WORTH = 0.03
"""A plan is taken instead of the greedy one if it saves this part of what the greedy one's rows cost: estimates are not better than that."""


@dataclass(frozen=True)
class Budget:
    """How far a search goes: expressions that it keeps, relations of a join whose orders it compares, and seconds of processor."""

    expressions: int = 1_500
    relations: int = 6
    seconds: float = 1.0
    plans: int = 8
    """Plans of a group that are kept until the whole is judged."""


@dataclass(frozen=True)
class Found:
    """What a search has found: the plan, what it and the greedy one cost, and how many expressions were compared."""

    plan: op.Node
    cost: Cost
    greedy: Cost
    expressions: int
    given_up: bool = False

    @property
    def is_other(self) -> bool:
        """Whether the plan is another one than the rules alone give."""
        return self.cost is not self.greedy


def search(
    greedy: op.Node,
    costs: Costs,
    alternatives: Sequence[Alternative] = ALTERNATIVES,
    budget: Budget | None = None,
    whole: Whole | None = None,
) -> Found:
    """The plan that is expected to cost least of those that mean what the greedy plan means.

    `whole` says what a plan costs with its exchanges, and without what runs already; None: operators alone count.
    """
    judged = whole or (lambda plan: cost(plan, costs))
    before = judged(greedy)
    limits = budget or Budget()
    limits = limits if whole is not None else replace(limits, plans=1)
    memo = _Memo(costs, costs.setting(greedy), limits, tuple(alternatives))
    try:
        root = memo.group_of(greedy)
        memo.explore()
        others = dict.fromkeys(optimize(plan)[0] for plan in memo.best(root))
    except _TooLongError:
        return Found(greedy, before, before, memo.count, given_up=True)
    others.pop(greedy, None)
    found = min(((judged(plan), plan) for plan in others), key=lambda f: f[0].weight, default=None)
    worth = WORTH * min(cost(greedy, costs.without_steps).weight, before.weight)
    if found is None or before.weight - found[0].weight <= worth:
        return Found(greedy, before, before, memo.count)
    return Found(found[1], found[0], before, memo.count)


def means_same(
    plan: op.Node, other: op.Node, costs: Costs, alternatives: Sequence[Alternative] = ALTERNATIVES
) -> bool:
    """Whether a plan is found among those that mean what another one means."""
    memo = _Memo(costs, costs.setting(plan), Budget(), (*alternatives, *JOIN_ORDER))
    try:
        root = memo.group_of(plan)
        memo.explore()
        return memo.group_of(other) == root
    except _TooLongError:
        return False


def has_choice(plan: op.Node, alternatives: Sequence[Alternative] = ALTERNATIVES) -> bool:
    """Whether a search could find another plan: without a choice, nobody needs statistics."""
    for node in plan.walk():
        block = join_block(node)
        if block is not None and len(block.relations) > 2:
            return True
        if any(True for alternative in alternatives for _ in alternative(node)):
            return True
    return False


Whole = Callable[[op.Node], Cost]
"""What a plan costs where it is to run."""


class _TooLongError(Exception):
    """The budget of time is spent."""


@dataclass
class _Group:
    """Plans that mean the same, each as an operator over groups. The first is the one that stands for all."""

    plan: op.Node
    estimate: Estimate
    members: dict[op.Node, tuple[int, ...]] = field(default_factory=dict)
    """An operator over marks of groups -> those groups."""
    best: tuple[tuple[float, op.Node], ...] = ()
    """The cheapest plans that are known of it, with what their operators cost."""


@dataclass
class _Memo:
    costs: Costs
    on: Setting
    budget: Budget
    alternatives: tuple[Alternative, ...]
    groups: list[_Group] = field(default_factory=list)
    count: int = 0
    _by_plan: dict[op.Node, int] = field(default_factory=dict)
    _by_member: dict[op.Node, int] = field(default_factory=dict)
    _todo: list[tuple[int, op.Node]] = field(default_factory=list)
    _begun: float = field(default_factory=time.thread_time)

    @property
    def is_full(self) -> bool:
        return self.count >= self.budget.expressions

    def group_of(self, plan: op.Node) -> int:
        """The group that a plan belongs to; a new one if nothing like it is known."""
        if plan not in self._by_plan:
            below = tuple(self.group_of(i) for i in plan.inputs)
            member = self._marked(plan, below)
            if member not in self._by_member:
                known = [self.groups[g].estimate for g in below]
                found = estimate(plan, known, self.on, self.costs.statistics)
                self.groups.append(_Group(plan, found))
                self._join(len(self.groups) - 1, member, below)
            self._by_plan[plan] = self._by_member[member]
        return self._by_plan[plan]

    def add(self, group: int, plan: op.Node) -> None:
        """A plan that means what the group means."""
        below = tuple(self.group_of(i) for i in plan.inputs)
        member = self._marked(plan, below)
        if group not in below and member not in self.groups[group].members:
            self._join(group, member, below)

    def _join(self, group: int, member: op.Node, below: tuple[int, ...]) -> None:
        if time.thread_time() - self._begun > self.budget.seconds:
            raise _TooLongError
        self.groups[group].members[member] = below
        self._by_member.setdefault(member, group)
        self._todo.append((group, member))
        self.count += 1

    def _marked(self, plan: op.Node, below: tuple[int, ...]) -> op.Node:
        if not below:
            return plan
        marks = (op.Scan(f"group {g}", self.groups[g].plan.schema) for g in below)
        return plan.with_inputs(*marks)  # type: ignore[no-any-return]

    def explore(self) -> None:
        """Let every member give its alternatives, those of new ones included, as far as the budget goes."""
        for place, known in enumerate(tuple(self.groups)):
            self._order_joins(place, known.plan)
        while self._todo and not self.is_full:
            group, member = self._todo.pop(0)
            for bound in self._bindings(group, member):
                for alternative in self._alternatives(bound):
                    for other in alternative(bound):
                        problem = broken(bound, other)
                        if problem is not None:
                            raise internal(f"alternative {alternative.__name__} {problem}")
                        if not self.is_full:
                            self.add(group, optimize(other)[0])

    def _alternatives(self, plan: op.Node) -> tuple[Alternative, ...]:
        """Blocks of joins that are too large for all their orders get other ones step by step."""
        block = join_block(plan)
        large = block is not None and len(block.relations) > self.budget.relations
        return (*self.alternatives, *JOIN_ORDER) if large and self.alternatives else self.alternatives

    def _bindings(self, group: int, member: op.Node) -> Iterator[op.Node]:
        """A member over plans of its inputs: those that stand for them, then each of their other members."""
        below = self.groups[group].members[member]
        plans = [self.groups[g].plan for g in below]
        if not plans:
            yield member
            return
        yield member.with_inputs(*plans)
        for i, g in enumerate(below):
            for other, deeper in tuple(self.groups[g].members.items())[1:]:
                inner = other.with_inputs(*(self.groups[d].plan for d in deeper)) if deeper else other
                yield member.with_inputs(*plans[:i], inner, *plans[i + 1 :])

    def best(self, group: int) -> list[op.Node]:
        """The cheapest plans of a group, the best first."""
        return [plan for _, plan in self._best(group, frozenset())]

    def _best(self, group: int, above: frozenset[int]) -> tuple[tuple[float, op.Node], ...]:
        """What the cheapest plans of a group cost, and the plans; members that would stand below themselves do not count."""
        found = self.groups[group]
        if not found.best:
            ways: list[tuple[float, int, op.Node, tuple[op.Node, ...]]] = []
            for member, below in found.members.items():
                if group in below or above & {*below}:
                    continue
                parts = [self._best(g, above | {group}) for g in below]
                known = [self.groups[g].estimate for g in below]
                own = estimate(member, known, self.on, self.costs.statistics) if below else found.estimate
                weight = Cost(own.memory_bytes, own.work_seconds).weight
                for chosen in product(*parts):
                    made = weight + sum(w for w, _ in chosen)
                    ways.append((made, len(ways), member, tuple(p for _, p in chosen)))
            cheapest = nsmallest(self.budget.plans, ways, key=lambda w: w[:2])
            kept = tuple((w, m.with_inputs(*plans) if plans else m) for w, _, m, plans in cheapest)
            found.best = kept or ((float("inf"), found.plan),)
        return found.best

    # Orders of joins.

    def _order_joins(self, group: int, plan: op.Node) -> None:
        """All ways to join the relations of a block of inner joins that are connected by conditions."""
        block = join_block(plan)
        if block is None or not 3 <= len(block.relations) <= self.budget.relations:
            return
        for size in range(2, len(block.relations) + 1):
            for chosen in combinations(range(len(block.relations)), size):
                if not block.is_connected(chosen) or self.is_full:
                    continue
                ways = list(block.ways(chosen))
                whole = size == len(block.relations)
                place = group if whole else self.group_of(block.plan_of(chosen, *ways[0]))
                for left, right in ways:
                    made = block.plan_of(chosen, left, right)
                    self.add(place, block.as_asked(made) if whole else made)


@dataclass(frozen=True)
class JoinBlock:
    """Relations that are joined by nothing but inner joins, and the conditions on them, over the columns of all in their order."""

    relations: tuple[op.Node, ...]
    conditions: tuple[exp.Expression, ...]
    columns: tuple[int, ...]
    """The columns of the block's result."""
    top: op.Node

    def offset(self, relation: int) -> int:
        return sum(len(r.schema) for r in self.relations[:relation])

    def relations_of(self, condition: exp.Expression) -> frozenset[int]:
        """The relations that a condition reads."""
        ends = [self.offset(i + 1) for i in range(len(self.relations))]
        return frozenset(next(i for i, end in enumerate(ends) if c < end) for c in references(condition))

    def is_connected(self, chosen: Iterable[int]) -> bool:
        """Whether conditions lead from each of some relations to every other."""
        left = {*chosen}
        reached = {min(left)}
        while True:
            more = {
                r
                for c in self.conditions
                if (read := self.relations_of(c)) <= left and read & reached
                for r in read
            }
            if more <= reached:
                return reached == left
            reached |= more

    def ways(self, chosen: Sequence[int]) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
        """The ways to cut some relations in two, each connected; the cut that is nearest to the written order first."""
        for size in range(len(chosen) - 1, 0, -1):
            for left in combinations(chosen, size):
                right = tuple(r for r in chosen if r not in left)
                if self.is_connected(left) and self.is_connected(right):
                    yield left, right

    def plan_of(self, chosen: Sequence[int], left: tuple[int, ...], right: tuple[int, ...]) -> op.Node:
        """Some relations, joined from two parts, with their columns in the order of the relations."""
        sides = [self._side(left), self._side(right)]
        order = [*self._columns_of(left), *self._columns_of(right)]
        places = {c: i for i, c in enumerate(order)}
        parts = [
            c
            for c in self.conditions
            if (read := self.relations_of(c)) <= {*chosen} and not read <= {*left} and not read <= {*right}
        ]
        predicate = conjoin(substitute(c, lambda i: ref(places[i])) for c in parts)
        joined: op.Node = op.Join(sides[0], sides[1], "inner", predicate)
        wanted = self._columns_of(chosen)
        if wanted == order:
            return joined
        kept = [places[c] for c in wanted]
        return op.Project(joined, tuple(map(ref, kept)), tuple(joined.schema[i] for i in kept))

    def _side(self, chosen: tuple[int, ...]) -> op.Node:
        if len(chosen) == 1:
            (only,) = chosen
            own = [c for c in self.conditions if self.relations_of(c) == {only}]
            predicate = conjoin(substitute(c, lambda i: ref(i - self.offset(only))) for c in own)
            return self.relations[only] if predicate is None else op.Filter(self.relations[only], predicate)
        return self.plan_of(chosen, *next(iter(self.ways(chosen))))

    def _columns_of(self, chosen: Iterable[int]) -> list[int]:
        return [self.offset(r) + i for r in sorted(chosen) for i in range(len(self.relations[r].schema))]

    def as_asked(self, plan: op.Node) -> op.Node:
        """The columns of the block's result, of a plan that has those of all relations."""
        if [*self.columns] == [*range(len(plan.schema))] and plan.schema == self.top.schema:
            return plan
        return op.Project(plan, tuple(map(ref, self.columns)), self.top.schema)


def join_block(plan: op.Node) -> JoinBlock | None:
    """The inner joins at the top of a plan, with filters and choices of columns between them."""
    if not isinstance(plan, op.Join) or plan.kind != "inner":
        return None
    relations: list[op.Node] = []
    conditions: list[exp.Expression] = []

    def visit(node: op.Node) -> list[int]:
        """The columns of a part, as positions among those of all relations."""
        if isinstance(node, op.Join) and node.kind == "inner":
            columns = [*visit(node.left), *visit(node.right)]
            conditions.extend(
                substitute(part, lambda i: ref(columns[i])) for part in conjuncts(node.predicate)
            )
            return columns
        if isinstance(node, op.Project) and _chooses(node) and _leads_to_join(node):
            columns = visit(node.input)
            return [columns[i] for e in node.expressions if (i := index_of(e)) is not None]
        if isinstance(node, op.Filter) and _leads_to_join(node):
            columns = visit(node.input)
            conditions.extend(
                substitute(part, lambda i: ref(columns[i])) for part in conjuncts(node.predicate)
            )
            return columns
        begin = sum(len(r.schema) for r in relations)
        relations.append(node)
        return [*range(begin, begin + len(node.schema))]

    columns = visit(plan)
    schema = tuple(f for r in relations for f in r.schema)
    # What may fail is asked of the rows that it was written for, and of no others.
    if any(not references(c) or not never_fails(c, schema) for c in conditions):
        return None
    return JoinBlock(tuple(relations), tuple(conditions), tuple(columns), plan)


def _chooses(node: op.Project) -> bool:
    return all(index_of(e) is not None for e in node.expressions)


def _leads_to_join(node: op.Node) -> bool:
    while isinstance(node, op.Filter) or (isinstance(node, op.Project) and _chooses(node)):
        node = node.input
    return isinstance(node, op.Join) and node.kind == "inner"
