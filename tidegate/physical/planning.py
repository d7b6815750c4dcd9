"""Cutting a plan into stages: operators that agree on a key run back to back behind one exchange.

An operator that looks at many rows needs those that meet in it in one partition: rows equal in the join's keys, in the
group's keys, in all columns. A **region** is a set of operators served by one exchange. Its key is a list of
**classes**; a class names, at every operator inside, the columns that carry the same value as the exchanged one. An
operator joins its input's region iff some class survives among the columns it needs (any non-empty subset of a key
serves), so one exchange serves a query whose operators agree. Row-by-row operators need no key and go wherever they
are used; filters and projections directly above a source run in Spark before the first exchange.

A projection that only Spark can compute (see `outsourcing`) ends a region: its rows are handed over, mapped on the way, and
exchanged to whoever uses them. Points of synchronization go to every partition of what they synchronize.

The result is plain data: `Stage`s with a sub-plan each, whose leaves are scans named after the stage's inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlglot import exp

from tidegate.algebra.modify import Clock, Modify, Restrict, Since, Sync
from tidegate.algebra.operators import (
    Aggregate,
    Distinct,
    Dstream,
    Except,
    Filter,
    Intersect,
    Istream,
    Join,
    Node,
    OneRow,
    Project,
    Rstream,
    Scan,
    SingleRow,
    TopK,
    UnionAll,
    Window,
)
from tidegate.algebra.points import points_of
from tidegate.algebra.windows import is_temporal
from tidegate.errors import internal, unsupported
from tidegate.kernels.join import split_predicate
from tidegate.physical.regions import Leaf, Outsourced, Placed, Region, finish
from tidegate.physical.spark_columns import calls_user, computed_by_spark
from tidegate.physical.stages import SourceRows, Stage, composed
from tidegate.scalars.expressions import index_of, ref
from tidegate.types import Schema


def plan_stages(roots: Mapping[str, Node], functions: Mapping[str, Any]) -> tuple[Stage, ...]:
    """The stages of some queries' plans, in order of their waves; sub-plans that are equal are computed once."""
    planner = _Planner(functions)
    placed = {name: planner.rooted(planner.place(node)) for name, node in roots.items()}
    return finish(planner.regions, placed)


class _Planner:
    def __init__(self, functions: Mapping[str, Any]) -> None:
        self._functions = functions
        self._names = {name.lower() for name in functions}
        self._memo: dict[Node, Placed] = {}
        self._class = 0
        self.regions: list[Region] = []

    def place(self, node: Node) -> Placed:
        found = self._memo.get(node)
        if found is None:
            found = self._memo[node] = self._place(node)
        return found

    def rooted(self, placed: Placed) -> Placed:
        """A plan of row-by-row operators only still needs a stage to run in."""
        if placed.region is not None:
            return placed
        region = self._new_region()
        region.single = False
        return self._bind(placed, {}, region)

    def _place(self, node: Node) -> Placed:
        if isinstance(node, Scan | OneRow):
            return Placed(node)
        if isinstance(node, Clock):
            raise unsupported(
                "CLOCK has a row for every tick, without end, and is never run as a stream",
                help="use it after SYNC BY, compare with NOW in WHERE, or join MAX(Timepoint) and select none of it",
            )
        if isinstance(node, Sync):
            return self._sync(node)
        inputs = tuple(self.place(i) for i in node.inputs)
        if isinstance(node, UnionAll):
            return self._union(node, inputs)
        if isinstance(node, Join):
            return self._join(node, inputs)
        if isinstance(node, Except | Intersect):
            columns = _hashable(node.schema)
            return self._meet(node, inputs, [(ref(c), ref(c)) for c in columns], lambda s, c: frozenset({c}))
        if isinstance(node, Project) and computed_by_spark(node, self._functions):
            return self._outsource(node, inputs[0])
        if _is_rowwise(node):
            (only,) = inputs
            if only.region is None:
                return Placed(node, inputs)
            return self._inside(node, only)
        return self._unary(node, inputs[0])

    # One input.

    def _unary(self, node: Node, only: Placed) -> Placed:
        needs = _required(node)
        region = only.home
        if region is not None:
            surviving = [c for c in only.columns if c in region.classes and only.columns[c] & set(needs)]
            if region.single or surviving:
                if not region.single:
                    self._restrict(region, surviving)
                return self._inside(node, only)
        keys = {self._fresh(): ref(c) for c in needs}
        region = self._new_region(keys, single=not needs)
        leaf = self._bind(only, keys, region)
        leaf.columns = {k: frozenset({c}) for k, c in zip(keys, needs, strict=True)}
        return self._inside(node, leaf)

    def _outsource(self, node: Project, only: Placed) -> Placed:
        """Rows leave their region to be mapped by Spark, unless it maps them while it reads them from a source."""
        if self._prepared(node) is not None:
            return Placed(node, (only,))
        if only.outsourced is not None:
            below, expressions = only.outsourced.below, only.outsourced.expressions
            made = tuple(composed(e, expressions) for e in node.expressions)
            return Placed(node, (only,), outsourced=Outsourced(below, made))
        return Placed(node, (only,), outsourced=Outsourced(self.rooted(only), node.expressions))

    def _sync(self, node: Sync) -> Placed:
        """Ticks are arithmetic, row by row; events go to every partition of what they synchronize."""
        only, points = self.place(node.input), self._points(node.points)
        if not points_of(node.points).events:
            if only.region is None:
                return Placed(node, (only, points))
            return Placed(node, (only, self._bind(points, {}, only.region)), only.region, dict(only.columns))
        home = only.home
        if home is None or self._waits(points, home):
            columns = _hashable(node.schema)
            keys = {self._fresh(): ref(c) for c in columns}
            home = self._new_region(keys, single=not columns)
            only = self._bind(only, keys, home)
            only.columns = {k: frozenset({c}) for k, c in zip(keys, columns, strict=True)}
        everywhere = self._bind(points, {}, home, broadcast=not home.single)
        return Placed(node, (only, everywhere), home, dict(only.columns))

    def _points(self, node: Node) -> Placed:
        """A plan of points: the parts without a clock are streams like any other."""
        if not any(isinstance(n, Clock) for n in node.walk()):
            return self.place(node)
        return Placed(node, tuple(self._points(i) for i in node.inputs))

    def _inside(self, node: Node, only: Placed) -> Placed:
        return Placed(node, (only,), only.region, {k: _through(node, c) for k, c in only.columns.items()})

    # Two inputs.

    def _union(self, node: UnionAll, inputs: tuple[Placed, ...]) -> Placed:
        left, right = inputs
        if left.home is not None and left.home is right.home:
            both = {k: left.columns[k] & right.columns[k] for k in left.columns if k in right.columns}
            return Placed(node, inputs, left.region, both)
        # Rows of different partitionings: whoever uses the union says where they go.
        return Placed(node, inputs)

    def _join(self, node: Join, inputs: tuple[Placed, ...]) -> Placed:
        keys = [(k.left, k.right) for k in split_predicate(node, self._functions)[0]]
        width = len(node.left.schema)

        def survive(side: int, column: int) -> frozenset[int]:
            # Padding replaces the values of the side that may be missing.
            if (
                node.kind == "full"
                or (node.kind == "left" and side == 1)
                or (node.kind == "right" and side == 0)
            ):
                return frozenset()
            if side == 1:
                return frozenset() if node.kind in ("semi", "anti") else frozenset({column + width})
            return frozenset({column})

        if keys:
            return self._meet(node, inputs, keys, survive)
        return self._pair(node, inputs, survive)

    def _pair(
        self, node: Join, inputs: tuple[Placed, ...], survive: Callable[[int, int], frozenset[int]]
    ) -> Placed:
        """No equality to exchange by: send a small right side everywhere, or everything to one place."""
        left, right = inputs
        lhome, rhome = left.home, right.home
        small = _is_small(right)
        if small and node.kind not in ("right", "full") and not (lhome is not None and lhome.single):
            if lhome is None or self._waits(right, lhome):
                columns = _hashable(node.left.schema)
                keys = {self._fresh(): ref(c) for c in columns}
                lhome = self._new_region(keys, single=not columns)
                left = self._bind(left, keys, lhome)
                left.columns = {k: frozenset({c}) for k, c in zip(keys, columns, strict=True)}
            right = self._bind(right, {}, lhome, broadcast=True)
            kept = {k: frozenset().union(*(survive(0, c) for c in cs)) for k, cs in left.columns.items()}
            return Placed(node, (left, right), lhome, kept)
        for here, other in ((lhome, right), (rhome, left)):
            if here is not None and here.single and (other.home is here or not self._waits(other, here)):
                sides = tuple(s if s.home is here else self._bind(s, {}, here) for s in inputs)
                return Placed(node, sides, here)
        region = self._new_region(single=True)
        return Placed(node, tuple(self._bind(s, {}, region) for s in inputs), region)

    def _meet(
        self,
        node: Node,
        inputs: tuple[Placed, ...],
        keys: Sequence[tuple[exp.Expression, exp.Expression]],
        survive: Callable[[int, int], frozenset[int]],
    ) -> Placed:
        """Both sides of each key in one partition: in a region that has them already, in a merged or in a new one."""
        if not keys:
            region = self._new_region(single=True)
            return Placed(node, tuple(self._bind(s, {}, region) for s in inputs), region)
        found = self._merge(inputs, keys)
        if found is None:
            for side in (0, 1):
                found = self._keep(inputs, keys, side)
                if found is not None:
                    break
        if found is None:
            fresh = [self._fresh() for _ in keys]
            region = self._new_region(dict.fromkeys(fresh), single=False)
            bound = []
            for side in (0, 1):
                mine = {k: pair[side] for k, pair in zip(fresh, keys, strict=True)}
                placed = self._bind(inputs[side], mine, region)
                placed.columns = {k: _plain(e) for k, e in mine.items()}
                bound.append(placed)
            found = region, tuple(bound)
        region, sides = found
        kept: dict[int, frozenset[int]] = {}
        for k in region.classes:
            columns: set[int] = set()
            for side in (0, 1):
                for c in sides[side].columns.get(k, frozenset()):
                    columns |= survive(side, c)
            kept[k] = frozenset(columns)
        return Placed(node, sides, region, kept)

    def _merge(
        self, inputs: tuple[Placed, ...], keys: Sequence[tuple[exp.Expression, exp.Expression]]
    ) -> tuple[Region, tuple[Placed, ...]] | None:
        left, right = inputs
        a, b = left.home, right.home
        if a is None or b is None or a.single or b.single:
            return None
        pairs: dict[int, int] = {}
        for l_expr, r_expr in keys:
            l_col, r_col = index_of(l_expr), index_of(r_expr)
            for i in a.classes:
                for j in b.classes:
                    if l_col in left.columns.get(i, ()) and r_col in right.columns.get(j, ()):
                        if i not in pairs and j not in pairs.values():
                            pairs[i] = j
        if not pairs:
            return None
        if a is b:
            same = [i for i, j in pairs.items() if i == j]
            if not same:
                return None
            self._restrict(a, same)
            return a, inputs
        if self._depends(a, b) or self._depends(b, a):
            return None
        self._restrict(a, list(pairs))
        self._restrict(b, list(pairs.values()))
        rename = {j: i for i, j in pairs.items()}
        for leaf in b.leaves:
            leaf.keys = {rename[j]: e for j, e in leaf.keys.items() if j in rename}
        a.leaves += b.leaves
        b.merged = a
        self._renamed(b, rename)
        return a, (
            left,
            replace(right, columns={rename[j]: c for j, c in right.columns.items() if j in rename}),
        )

    def _renamed(self, gone: Region, rename: Mapping[int, int]) -> None:
        for placed in self._memo.values():
            if placed.region is gone:
                placed.columns = {rename[k]: c for k, c in placed.columns.items() if k in rename}

    def _keep(
        self, inputs: tuple[Placed, ...], keys: Sequence[tuple[exp.Expression, exp.Expression]], side: int
    ) -> tuple[Region, tuple[Placed, ...]] | None:
        """One side stays where it is, the other is exchanged to it."""
        staying, coming = inputs[side], inputs[1 - side]
        region = staying.home
        if region is None or region.single or self._waits(coming, region):
            return None
        chosen: dict[int, exp.Expression] = {}
        for i in region.classes:
            for pair in keys:
                if index_of(pair[side]) in staying.columns.get(i, ()):
                    chosen.setdefault(i, pair[1 - side])
        if not chosen:
            return None
        self._restrict(region, list(chosen))
        leaf = self._bind(coming, chosen, region)
        leaf.columns = {k: _plain(e) for k, e in chosen.items()}
        return region, ((staying, leaf) if side == 0 else (leaf, staying))

    # Regions.

    def _fresh(self) -> int:
        self._class += 1
        return self._class

    def _new_region(self, keys: Iterable[int] | Mapping[int, Any] = (), single: bool = False) -> Region:
        region = Region(single=single)
        region.classes = list(keys)
        self.regions.append(region)
        return region

    def _restrict(self, region: Region, classes: Sequence[int]) -> None:
        region.classes = [c for c in region.classes if c in classes]

    def _bind(
        self, placed: Placed, keys: Mapping[int, exp.Expression], region: Region, broadcast: bool = False
    ) -> Placed:
        """The operator inside a region: what it reads is exchanged by the keys, traced down to its leaves."""
        node = placed.node
        if placed.outsourced is not None:
            below, made = placed.outsourced.below, placed.outsourced.expressions
            leaf = Leaf(below, node.schema, dict(keys), broadcast, raw=False, expressions=made)
            return self._leaf(leaf, region, node)
        if placed.region is not None:
            return self._leaf(Leaf(placed, node.schema, dict(keys), broadcast, raw=False), region, node)
        rows = self._prepared(node)
        if rows is not None:
            raw = rows.scan is not None and not rows.scan.relation
            return self._leaf(Leaf(rows, node.schema, dict(keys), broadcast, raw), region, node)
        if isinstance(node, Project):
            keys = {k: composed(e, node.expressions) for k, e in keys.items()}
        if isinstance(node, Sync):
            synced, points = placed.inputs
            both = self._bind(synced, keys, region, broadcast), self._bind(points, {}, region)
            return Placed(node, both, region)
        inputs = tuple(self._bind(i, keys, region, broadcast) for i in placed.inputs)
        return Placed(node, inputs, region)

    def _leaf(self, leaf: Leaf, region: Region, node: Node) -> Placed:
        region.leaves.append(leaf)
        return Placed(node, (), region, {}, leaf)

    def _prepared(self, node: Node) -> SourceRows | None:
        """The rows of a source as far as Spark prepares them: no user functions, they run in the kernel."""
        if isinstance(node, OneRow):
            return SourceRows(None)
        if isinstance(node, Scan):
            return SourceRows(node, (), tuple(ref(i) for i in range(len(node.schema))))
        if isinstance(node, Filter) and not self._calls_user(node.predicate):
            below = self._prepared(node.input)
            if below is None or below.scan is None:
                return None
            predicate = composed(node.predicate, below.expressions)
            return replace(below, predicates=(*below.predicates, predicate))
        if isinstance(node, Project) and not any(map(self._calls_user, node.expressions)):
            below = self._prepared(node.input)
            if below is None or below.scan is None:
                return None
            return replace(below, expressions=tuple(composed(e, below.expressions) for e in node.expressions))
        return None

    def _calls_user(self, expression: exp.Expression) -> bool:
        return calls_user(expression, self._names)

    def _waits(self, placed: Placed, region: Region) -> bool:
        """Whether an operator reads, directly or not, rows of a region."""
        if placed.home is not None:
            return self._depends(placed.home, region)
        if placed.outsourced is not None:
            return self._waits(placed.outsourced.below, region)
        return any(self._waits(i, region) for i in placed.inputs)

    def _depends(self, region: Region, other: Region) -> bool:
        """Whether a region waits, directly or not, for the rows of another."""
        if region is other:
            return True
        for leaf in region.leaves:
            if isinstance(leaf.origin, Placed) and leaf.origin.home is not None:
                if self._depends(leaf.origin.home, other):
                    return True
        return False


def _is_rowwise(node: Node) -> bool:
    if isinstance(node, Window):
        return is_temporal(node.spec)
    if isinstance(node, Modify):
        return node.key is None
    return isinstance(node, Filter | Project | Rstream | Restrict)


def _is_small(placed: Placed) -> bool:
    """Whether all rows are in one partition anyway, or are one row."""
    if placed.home is not None:
        return placed.home.single
    if placed.outsourced is not None:
        return _is_small(placed.outsourced.below)
    if isinstance(placed.node, Filter | Project):
        return _is_small(placed.inputs[0])
    return isinstance(placed.node, OneRow)


def _required(node: Node) -> tuple[int, ...]:
    """The columns of the input whose equal rows must meet; any non-empty subset of them serves. Empty: all rows."""
    if isinstance(node, Aggregate):
        return tuple(k for k in node.keys if k in _hashable(node.input.schema))
    if isinstance(node, TopK | Window | SingleRow):
        return tuple(c for c in node.partition_by if c in _hashable(node.inputs[0].schema))
    if isinstance(node, Modify) and node.key is not None:
        return tuple(c for c in node.key if c in _hashable(node.input.schema))
    if isinstance(node, Distinct | Istream | Dstream | Since):
        return _hashable(node.inputs[0].schema)
    raise internal(f"no stage for {type(node).__name__}")


def _hashable(schema: Schema) -> tuple[int, ...]:
    """Spark hashes every type but MAP (and what holds one)."""
    return tuple(
        i for i, f in enumerate(schema) if "MAP<" not in str(f.type) and f.type.name not in ("MAP", "VOID")
    )


def _through(node: Node, columns: frozenset[int]) -> frozenset[int]:
    """The output columns that are copies of the given input columns."""
    if isinstance(node, Project):
        return frozenset(j for j, e in enumerate(node.expressions) if index_of(e) in columns)
    if isinstance(node, Aggregate):
        return frozenset(j for j, k in enumerate(node.keys) if k in columns)
    return columns


def _plain(expression: exp.Expression) -> frozenset[int]:
    index = index_of(expression)
    return frozenset() if index is None else frozenset({index})
