"""A query as a plan over what runs: parts of it are replaced by running operators, and what must be done above these."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from tidegate.algebra import operators as op
from tidegate.algebra.modify import Modify, Since, Sync
from tidegate.algebra.windows import is_temporal
from tidegate.optimizer.compensation import Over
from tidegate.optimizer.matching import MatchError, over

WAYS = 3
"""So many ways to answer a query are compared."""

MISSES = 3
"""So many views that nearly answer are told."""

Streams = tuple[str, ...]


@dataclass(frozen=True)
class Reading:
    """A part of a query that is answered by a running operator."""

    part: op.Node
    view: op.Node
    over: Over


@dataclass(frozen=True)
class Rewriting:
    """A query as a plan that has running operators in it."""

    plan: op.Node
    readings: tuple[Reading, ...]

    @property
    def views(self) -> tuple[op.Node, ...]:
        return tuple(dict.fromkeys(r.view for r in self.readings))


class Views:
    """Operators that run, by the streams that they read; who runs them is told with names."""

    def __init__(
        self, plans: Mapping[str, op.Node] | None = None, which: Callable[[op.Node], bool] | None = None
    ) -> None:
        self._found: dict[Streams, dict[op.Node, dict[str, None]]] = {}
        self._which = which or is_core
        for name, plan in (plans or {}).items():
            self.add(name, plan)

    def add(self, name: str, plan: op.Node) -> None:
        for node in data_nodes(plan):
            if self._which(node):
                self._found.setdefault(streams(node), {}).setdefault(node, {})[name] = None

    def remove(self, name: str, plan: op.Node) -> None:
        for node in data_nodes(plan):
            users = self._found.get(streams(node), {}).get(node)
            if users is not None:
                users.pop(name, None)
                if not users:
                    del self._found[streams(node)][node]

    def users(self, node: op.Node) -> list[str]:
        """The queries that run an operator."""
        return list(self._found.get(streams(node), {}).get(node, ()))

    def rewritten(self, plan: op.Node, without: frozenset[op.Node] = frozenset()) -> Rewriting | None:
        """A query over the largest parts of it that run already; None: nothing of it does."""
        readings: dict[op.Node, Reading] = {}
        made = self._replaced(plan, readings, without)
        return Rewriting(made, tuple(readings.values())) if readings else None

    def rewritings(self, plan: op.Node) -> Iterator[Rewriting]:
        """Some of the ways to answer a query from what runs: that with the least effort first, then those without what it reads."""
        without = frozenset[op.Node]()
        for _ in range(WAYS):
            found = self.rewritten(plan, without)
            if found is None:
                return
            yield found
            without |= set(found.views)

    def _replaced(
        self,
        node: op.Node,
        readings: dict[op.Node, Reading],
        without: frozenset[op.Node],
        tried: bool = False,
    ) -> op.Node:
        possible = not tried and any(map(is_core, data_nodes(node)))
        best = self._best(node, without) if possible else None
        if best is not None:
            readings[node] = best
            return best.over.plan(best.view, node.schema)
        # What does not answer a filter or projection does not answer what it reads either: that has more rows and columns.
        tried = isinstance(node, op.Filter | op.Project)
        data = _data(node)
        inputs = [
            self._replaced(i, readings, without, tried) if any(i is d for d in data) else i
            for i in node.inputs
        ]
        unchanged = all(a is b for a, b in zip(inputs, node.inputs, strict=True))
        return node if unchanged else node.with_inputs(*inputs)

    def _best(self, node: op.Node, without: frozenset[op.Node]) -> Reading | None:
        candidates = (view for view in self._candidates(node) if view not in without)
        found = [Reading(node, view, m) for view in candidates if (m := _over(node, view)) is not None]
        return min(found, key=lambda r: _effort(r.over), default=None)

    def _candidates(self, node: op.Node) -> Iterable[op.Node]:
        known = self._found.get(streams(node), {})
        return [node, *(n for n in known if n != node)] if node in known else list(known)

    def misses(self, plan: op.Node) -> Iterator[tuple[op.Node, str]]:
        """Running operators that nearly answer a query, or a part of it, each with the reason why they do not."""
        told: dict[op.Node, str] = {}
        todo = [plan]
        while todo and len(told) < MISSES:
            node = todo.pop(0)
            todo += _data(node)
            for view in self._candidates(node) if is_core(node) else ():
                try:
                    over(node, view)
                except MatchError as reason:
                    if not reason.far:
                        told.setdefault(view, str(reason))
        yield from list(told.items())[:MISSES]


def _over(node: op.Node, view: op.Node) -> Over | None:
    try:
        return over(node, view)
    except MatchError:
        return None


def _effort(found: Over) -> tuple[bool, int, int]:
    return found.rollup is not None, len(found.fresh) + (found.points is not None), len(found.conditions)


def is_core(node: op.Node) -> bool:
    """Whether an operator looks at many rows: one that does not is as cheap to run again as to read."""
    if isinstance(node, op.Window):
        return not is_temporal(node.spec)
    if isinstance(node, Modify):
        return node.key is not None
    return isinstance(node, op.Join | op.Distinct | op.Except | op.Intersect | op.Aggregate | op.TopK | Since)


def is_relation(node: op.Node) -> bool:
    """Whether what an operator shows may depend on all that came: the last rows, and the last row of each key."""
    return is_core(node) and isinstance(node, op.Window | Modify | Since)


def data_nodes(plan: op.Node) -> Iterator[op.Node]:
    """The operators of a plan, each once, without those of points: a clock is never run as a stream."""
    seen: set[int] = set()
    todo = [plan]
    while todo:
        node = todo.pop()
        if id(node) not in seen:
            seen.add(id(node))
            yield node
            todo += _data(node)


def _data(node: op.Node) -> tuple[op.Node, ...]:
    return (node.input,) if isinstance(node, Sync) else node.inputs


@lru_cache(maxsize=65_536)
def streams(plan: op.Node) -> Streams:
    """The streams whose rows a plan reads, points apart."""
    return tuple(sorted({n.leaf for n in data_nodes(plan) if isinstance(n, op.Scan)}))
