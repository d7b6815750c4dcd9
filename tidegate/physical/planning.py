"""Cutting a plan into regions: operators that agree on a key run back to back behind one exchange.

An operator that looks at many rows needs those that meet in it in one partition: rows equal in the join's keys, in the
group's keys, in all columns. A **region** is a set of operators served by one exchange; its key is a list of **classes** (see
`regions`). An operator joins its input's region iff some class survives among the columns it needs (any non-empty subset of a key
serves), so one exchange serves a query whose operators agree. Row-by-row operators need no key and go wherever they
are used; filters and projections directly above a source run before the first exchange.

A projection that only Spark can compute (see `spark_columns`) ends a region: its rows are handed over, mapped on the way, and
exchanged to whoever uses them. Points of synchronization go to every partition of what they synchronize.

What comes out is `assembly`'s: the operators of each region, lowered, and what is exchanged to them.
"""

from __future__ import annotations

from collections import Counter
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
from tidegate.algebra.properties import properties
from tidegate.algebra.windows import is_temporal
from tidegate.errors import Diagnostic, internal, unsupported
from tidegate.kernels.join import split_predicate
from tidegate.optimizer.cost import estimates
from tidegate.physical.assembly import assemble, composed
from tidegate.physical.partials import Partials, in_two_steps
from tidegate.physical.plan import Birth, Plan, Shared, SourceRows
from tidegate.physical.regions import Columns, Leaf, MappedBySpark, Placed, Regions
from tidegate.physical.spark_columns import calls_user, computed_by_spark
from tidegate.scalars.expressions import index_of, ref, references, span_of
from tidegate.scalars.meaning import is_supported
from tidegate.types import Schema

Survivors = Callable[[int, int], frozenset[int]]
"""Side and column of an input -> the columns of the result that always have its value."""

_PLAIN, _LARGEST = 2, 5_000
"""Parts of a column's expression that is no more than a column, and parts of all expressions over a source."""

_COPIED = {"inner": (1, 0), "left": (1,), "semi": (1,), "anti": (1,), "right": (0,), "full": ()}
"""By the kind of a join, the sides whose rows may be in every partition."""

KeyPairs = Sequence[tuple[exp.Expression, exp.Expression]]
"""Expressions over the left and over the right input whose equal values must meet."""


def plan_query(
    name: str,
    root: Node,
    functions: Mapping[str, Any],
    birth: Birth,
    shared: Shared | None = None,
    views: Iterable[Node] = (),
) -> Plan:
    """The physical plan of one query, whose operators begin after an epoch, or (`shared`) with inputs that run already.

    Parts of it (`views`) are placed as if there was nothing else, so that they are what runs for others.
    """
    planner = _Planner(functions, root)
    for view in views:
        planner.keep(view)
    placed = planner.rooted(planner.place(root))
    return assemble(name, placed, planner.regions, functions, birth, shared or {})


class _Planner:
    def __init__(self, functions: Mapping[str, Any], root: Node) -> None:
        self._functions = functions
        self._readers = Counter(i for node in set(root.walk()) for i in node.inputs)
        self._names = {name.lower() for name in functions}
        self._placed: dict[Node, Placed] = {}
        self._bound: dict[tuple[object, ...], Placed] = {}
        self.regions = Regions()

    def place(self, node: Node) -> Placed:
        if node not in self._placed:
            self._placed[node] = self._place(node)
        return self._placed[node]

    def keep(self, view: Node) -> None:
        """Place an operator, and let what serves it stay as it is."""
        placed = self.place(view)
        if placed.region is not None:
            self.regions.freeze(placed.region)

    def rooted(self, placed: Placed) -> Placed:
        """A plan of row-by-row operators only still needs a region to run in."""
        if placed.region is not None:
            return placed
        return self._bind(placed, {}, self.regions.new())

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
        if isinstance(node, Project) and node.only_names:
            return self.place(node.input)
        if isinstance(node, Aggregate):
            node = in_two_steps(node, self._functions, self._readers) or node
        inputs = tuple(self.place(i) for i in node.inputs)
        if isinstance(node, UnionAll):
            return self._union(node, inputs)
        if isinstance(node, Join):
            return self._join(node, inputs)
        if isinstance(node, Except | Intersect):
            columns = _hashable(node.schema)
            return self._meet(node, inputs, [(ref(c), ref(c)) for c in columns], lambda s, c: frozenset({c}))
        if isinstance(node, Project) and computed_by_spark(node, self._functions):
            return self._mapped_by_spark(node, inputs[0])
        if _is_rowwise(node):
            (only,) = inputs
            return Placed(node, inputs) if only.region is None else self._inside(node, only)
        return self._unary(node, inputs[0])

    # One input.

    def _unary(self, node: Node, only: Placed) -> Placed:
        needs = _required(node)
        if self._would_lose_order(node, only, needs):
            needs = ()
        region = self.regions.home(only)
        if region is not None:
            columns, left = self.regions.columns(only), self.regions.classes(region)
            surviving = [c for c in columns if c in left and columns[c] & set(needs)]
            fits = bool(surviving) and self.regions.can_restrict(region, surviving)
            if self.regions.is_single(region) or fits:
                if not self.regions.is_single(region):
                    self.regions.restrict(region, surviving)
                return self._inside(node, only)
        return self._inside(node, self._exchanged(only, needs, node))

    def _exchanged(self, only: Placed, columns: Sequence[int], founder: Node) -> Placed:
        """The operator in a region of its own, exchanged by some columns; without any, all in one partition."""
        classes = self.regions.fresh(len(columns))
        region = self.regions.new(classes, not columns, founder)
        keys = {k: ref(c) for k, c in zip(classes, columns, strict=True)}
        return self._bind(
            only, keys, region, columns={k: frozenset({c}) for k, c in zip(classes, columns, strict=True)}
        )

    def _would_lose_order(self, node: Node, only: Placed, columns: Sequence[int]) -> bool:
        """Whether rows are counted in their order of arrival, which a region before the exchange, for the key's sake, would lose."""
        if only.region is not None or not (isinstance(node, Modify | Window) and not _is_rowwise(node)):
            return False
        below: Node = only.node
        key: list[exp.Expression] = [ref(c) for c in columns]
        while isinstance(below, Filter | Project | Window):
            if isinstance(below, Project):
                key = [composed(e, below.expressions) for e in key]
                if any(map(self._calls_user, key)):
                    return True
            below = below.input
        return False

    def _mapped_by_spark(self, node: Project, only: Placed) -> Placed:
        """Rows leave their region to be mapped by Spark, unless it maps them while it reads them from a source."""
        if self._prepared(node) is not None:
            return Placed(node, (only,))
        if only.mapped is not None:
            made = tuple(composed(e, only.mapped.expressions) for e in node.expressions)
            return Placed(node, (only,), mapped=MappedBySpark(only.mapped.below, made))
        return Placed(node, (only,), mapped=MappedBySpark(self.rooted(only), node.expressions))

    def _sync(self, node: Sync) -> Placed:
        """Ticks are arithmetic, row by row; events go to every partition of what they synchronize."""
        only, points = self.place(node.input), self._points(node.points)
        if not points_of(node.points).events:
            if only.region is None:
                return Placed(node, (only, points))
            bound = self._bind(points, {}, only.region)
            return Placed(node, (only, bound), only.region, self.regions.columns(only))
        home = self.regions.home(only)
        if home is None or self._waits(points, home):
            only = self._exchanged(only, _hashable(node.schema), node)
            home = self.regions.home(only)
            assert home is not None
        everywhere = self._bind(points, {}, home, broadcast=not self.regions.is_single(home))
        return Placed(node, (only, everywhere), home, self.regions.columns(only))

    def _points(self, node: Node) -> Placed:
        """A plan of points: the parts without a clock are streams like any other."""
        if not any(isinstance(n, Clock) for n in node.walk()):
            return self.place(node)
        return Placed(node, tuple(self._points(i) for i in node.inputs))

    def _inside(self, node: Node, only: Placed) -> Placed:
        columns = {k: _through(node, c) for k, c in self.regions.columns(only).items()}
        return Placed(node, (only,), only.region, columns)

    # Two inputs.

    def _union(self, node: UnionAll, inputs: tuple[Placed, ...]) -> Placed:
        left, right = inputs
        home = self.regions.home(left)
        if home is not None and home == self.regions.home(right):
            ours, theirs = self.regions.columns(left), self.regions.columns(right)
            return Placed(node, inputs, home, {k: ours[k] & theirs[k] for k in ours if k in theirs})
        if isinstance(left.node, Join) and left.node.spread is not None:
            # Rows of hot keys and all others: no row of either needs one of the other.
            beside = self._beside(left, right)
            if beside is not None:
                return Placed(node, inputs, beside)
        # Rows of different partitionings: whoever uses the union says where they go.
        return Placed(node, inputs)

    def _beside(self, left: Placed, right: Placed) -> int | None:
        """Two regions as one, if neither waits for the other and both are in several partitions."""
        a, b = self.regions.home(left), self.regions.home(right)
        if a is None or b is None or self.regions.is_single(a) or self.regions.is_single(b):
            return None
        apart = a not in self.regions.before(b) and b not in self.regions.before(a)
        return self.regions.put_beside(a, b) if apart and self.regions.can_merge(a, b) else None

    def _join(self, node: Join, inputs: tuple[Placed, ...]) -> Placed:
        keys = [(k.left, k.right) for k in split_predicate(node, self._functions)[0]]
        width = len(node.left.schema)

        def survive(side: int, column: int) -> frozenset[int]:
            # Padding replaces the values of the side that may be missing.
            padded = {"full": (0, 1), "left": (1,), "right": (0,)}.get(node.kind, ())
            if side in padded or (side == 1 and node.kind in ("semi", "anti")):
                return frozenset()
            return frozenset({column + width * side})

        if node.spread is not None:
            return self._beside_copies(node, inputs, 1 - node.spread, survive)
        return self._meet(node, inputs, keys, survive) if keys else self._pair(node, inputs, survive)

    def _pair(self, node: Join, inputs: tuple[Placed, ...], survive: Survivors) -> Placed:
        """No equality to exchange by: one side is spread and the other sent everywhere, or all goes to one place."""
        copied = self._copied(node, inputs)
        if copied is not None:
            return self._beside_copies(node, inputs, copied, survive)
        left, right = inputs
        for side, other in ((left, right), (right, left)):
            here = self.regions.home(side)
            if here is None or not self.regions.is_single(here):
                continue
            if self.regions.home(other) == here or not self._waits(other, here):
                sides = (s if self.regions.home(s) == here else self._bind(s, {}, here) for s in inputs)
                return Placed(node, tuple(sides), here)
        return self._in_one_place(node, inputs)

    def _copied(self, node: Join, inputs: tuple[Placed, ...]) -> int | None:
        """The side whose rows go everywhere: the one that is small, or is expected to have fewer rows.

        Rows that are in the answer although they have no partner must know of all partners: their side is not copied. What is in
        one partition stays there.
        """
        sides = [s for s in _COPIED[node.kind] if not self._is_small(inputs[1 - s])]
        small = [s for s in sides if self._is_small(inputs[s])]
        if small or not sides:
            return small[0] if small else None
        # Of the plan alone, not of what is known of the sources now: it must be the same after a restart.
        expected = estimates(node, {})
        standing = [expected[i].standing for i in node.inputs]
        return min(sides, key=lambda s: standing[s])

    def _beside_copies(
        self, node: Join, inputs: tuple[Placed, ...], copied: int, survive: Survivors
    ) -> Placed:
        staying, everywhere = inputs[1 - copied], inputs[copied]
        home = self.regions.home(staying)
        if home is None or self._waits(everywhere, home) or self._is_held(node, staying, home):
            staying = self._exchanged(staying, _spread_by(node, 1 - copied), node)
            home = self.regions.home(staying)
            assert home is not None
        everywhere = self._bind(everywhere, {}, home, broadcast=True)
        kept = {
            k: frozenset[int]().union(*(survive(1 - copied, c) for c in cs))
            for k, cs in self.regions.columns(staying).items()
        }
        return Placed(node, (staying, everywhere) if copied else (everywhere, staying), home, kept)

    def _is_held(self, node: Join, staying: Placed, home: int) -> bool:
        """Whether rows that are to be spread are where few keys brought them together."""
        if node.spread is None:
            return False
        columns, read = self.regions.columns(staying), references(node.predicate or exp.true())
        own = {c - len(node.left.schema) * node.spread for c in read}
        return all(columns.get(k, frozenset[int]()) & own for k in self.regions.classes(home))

    def _in_one_place(self, node: Node, inputs: tuple[Placed, ...]) -> Placed:
        region = self.regions.new(single=True, founder=node)
        return Placed(node, tuple(self._bind(s, {}, region) for s in inputs), region)

    def _meet(self, node: Node, inputs: tuple[Placed, ...], keys: KeyPairs, survive: Survivors) -> Placed:
        """Both sides of each key in one partition: in a region that has them already, in a merged or in a new one."""
        if not keys:
            return self._in_one_place(node, inputs)
        region, sides = (
            self._merge(inputs, keys)
            or self._keep(inputs, keys, 0)
            or self._keep(inputs, keys, 1)
            or self._meet_anew(node, inputs, keys)
        )
        kept: dict[int, frozenset[int]] = {}
        for k in self.regions.classes(region):
            carried = (
                survive(side, c) for side in (0, 1) for c in self.regions.columns(sides[side]).get(k, ())
            )
            kept[k] = frozenset[int]().union(*carried)
        return Placed(node, sides, region, kept)

    def _meet_anew(
        self, node: Node, inputs: tuple[Placed, ...], keys: KeyPairs
    ) -> tuple[int, tuple[Placed, ...]]:
        classes = self.regions.fresh(len(keys))
        region = self.regions.new(classes, founder=node)
        sides = []
        for side in (0, 1):
            mine = {k: pair[side] for k, pair in zip(classes, keys, strict=True)}
            columns = {k: _plain(e) for k, e in mine.items()}
            sides.append(self._bind(inputs[side], mine, region, columns=columns))
        return region, tuple(sides)

    def _merge(self, inputs: tuple[Placed, ...], keys: KeyPairs) -> tuple[int, tuple[Placed, ...]] | None:
        """Both sides stay where they are, if their regions can be one."""
        a, b = (self.regions.home(i) for i in inputs)
        if a is None or b is None or self.regions.is_single(a) or self.regions.is_single(b):
            return None
        pairs = self._common(inputs, a, b, keys)
        if a == b:
            same = [i for i, j in pairs.items() if i == j]
            if not same or not self.regions.can_restrict(a, same):
                return None
            self.regions.restrict(a, same)
            return a, inputs
        if not pairs or a in self.regions.before(b) or b in self.regions.before(a):
            return None
        if not self.regions.can_merge(a, b):
            return None
        self.regions.merge(a, b, pairs)
        return a, inputs

    def _common(self, inputs: tuple[Placed, ...], a: int, b: int, keys: KeyPairs) -> dict[int, int]:
        """Classes of two regions that a join makes equal."""
        ours, theirs = (self.regions.columns(i) for i in inputs)
        pairs: dict[int, int] = {}
        for left, right in keys:
            for i in self.regions.classes(a):
                for j in self.regions.classes(b):
                    if index_of(left) in ours.get(i, ()) and index_of(right) in theirs.get(j, ()):
                        if i not in pairs and j not in pairs.values():
                            pairs[i] = j
        return pairs

    def _keep(
        self, inputs: tuple[Placed, ...], keys: KeyPairs, side: int
    ) -> tuple[int, tuple[Placed, ...]] | None:
        """One side stays where it is, the other is exchanged to it."""
        staying, coming = inputs[side], inputs[1 - side]
        region = self.regions.home(staying)
        if region is None or self.regions.is_single(region) or self._waits(coming, region):
            return None
        columns = self.regions.columns(staying)
        chosen: dict[int, exp.Expression] = {}
        for i in self.regions.classes(region):
            for pair in keys:
                if index_of(pair[side]) in columns.get(i, ()):
                    chosen.setdefault(i, pair[1 - side])
        if not chosen or not self.regions.can_restrict(region, chosen):
            return None
        self.regions.restrict(region, chosen)
        leaf = self._bind(coming, chosen, region, columns={k: _plain(e) for k, e in chosen.items()})
        return region, ((staying, leaf) if side == 0 else (leaf, staying))

    # Regions.

    def _bind(
        self,
        placed: Placed,
        keys: Mapping[int, exp.Expression],
        region: int,
        broadcast: bool = False,
        columns: Columns | None = None,
    ) -> Placed:
        """The operator inside a region: what it reads is exchanged by the keys, traced down to its leaves."""
        # The operator itself, not its address: that may be another's once it is gone.
        asked = (placed, region, broadcast, columns is None, *((k, e.sql()) for k, e in keys.items()))
        if asked not in self._bound:
            self._bound[asked] = self._bind_anew(placed, keys, region, broadcast, columns or {})
        return self._bound[asked]

    def _bind_anew(
        self,
        placed: Placed,
        keys: Mapping[int, exp.Expression],
        region: int,
        broadcast: bool,
        columns: Columns,
    ) -> Placed:
        node = placed.node
        leaf: Leaf | None = None
        if placed.mapped is not None:
            below, made = placed.mapped.below, placed.mapped.expressions
            leaf = Leaf(below, node.schema, dict(keys), broadcast, raw=False, expressions=made)
        elif placed.region is not None:
            leaf = Leaf(placed, node.schema, dict(keys), broadcast, raw=False)
        else:
            rows = self._prepared(node)
            if rows is not None:
                raw = rows.scan is not None and not rows.scan.relation
                leaf = Leaf(rows, node.schema, dict(keys), broadcast, raw)
        if leaf is not None:
            self.regions.add(region, leaf)
            return Placed(node, (), region, columns, leaf)
        if isinstance(node, Project):
            composite = {k: composed(e, node.expressions) for k, e in keys.items()}
            if any(map(self._calls_user, composite.values())):
                # Only a worker can compute the key: rows are mapped in a region of their own before they are exchanged.
                leaf = Leaf(self.rooted(placed), node.schema, dict(keys), broadcast, raw=False)
                self.regions.add(region, leaf)
                return Placed(node, (), region, columns, leaf)
            keys = composite
        if isinstance(node, Sync):
            synced, points = placed.inputs
            both = self._bind(synced, keys, region, broadcast), self._bind(points, {}, region)
            return Placed(node, both, region, columns)
        inputs = tuple(self._bind(i, keys, region, broadcast) for i in placed.inputs)
        return Placed(node, inputs, region, columns)

    def _prepared(self, node: Node) -> SourceRows | None:
        """The rows of a source as far as they are prepared before an exchange: no user functions, they run in the kernel."""
        if isinstance(node, OneRow):
            return SourceRows(None)
        if isinstance(node, Scan):
            return SourceRows(node, (), tuple(ref(i) for i in range(len(node.schema))))
        if not isinstance(node, Filter | Project) or any(map(self._calls_user, node.held_expressions)):
            return None
        below = self._prepared(node.input)
        if below is None or below.scan is None or self._grows(node, below):
            return None
        if isinstance(node, Filter):
            predicate = composed(node.predicate, below.expressions)
            return replace(below, predicates=(*below.predicates, predicate))
        made = tuple(composed(e, below.expressions) for e in node.expressions)
        return replace(below, expressions=made, combine=node.combine if isinstance(node, Partials) else None)

    def _grows(self, node: Filter | Project, below: SourceRows) -> bool:
        """Whether what is made below would be made again and again: columns of columns of columns have no bound."""
        sizes = [sum(1 for _ in e.walk()) for e in below.expressions]
        read = (index_of(c) for e in node.held_expressions for c in e.find_all(exp.Column))
        if sum(sizes[i] for i in read if i is not None and sizes[i] > _PLAIN) <= _LARGEST:
            return False
        if not all(is_supported(e, self._functions) for e in node.held_expressions):
            raise Diagnostic(
                "STATEMENT_TOO_LARGE", "expressions of expressions of Spark's functions grow too large"
            ).at(next((s for e in node.held_expressions if (s := span_of(e)) is not None), None))
        return True

    def _calls_user(self, expression: exp.Expression) -> bool:
        return calls_user(expression, self._names)

    def _waits(self, placed: Placed, region: int) -> bool:
        """Whether an operator reads, directly or not, rows of a region."""
        seen: set[int] = set()
        todo = [placed]
        while todo:
            current = todo.pop()
            if id(current) in seen:
                continue
            seen.add(id(current))
            home = self.regions.home(current)
            if home is not None:
                if self.regions.find(region) in self.regions.before(home):
                    return True
            elif current.mapped is not None:
                todo.append(current.mapped.below)
            else:
                todo += current.inputs
        return False

    def _is_small(self, placed: Placed) -> bool:
        """Whether all rows are in one partition anyway, or are one row."""
        home = self.regions.home(placed)
        if home is not None:
            return self.regions.is_single(home)
        if placed.mapped is not None:
            return self._is_small(placed.mapped.below)
        if isinstance(placed.node, Filter | Project):
            return self._is_small(placed.inputs[0])
        return isinstance(placed.node, OneRow)


def _is_rowwise(node: Node) -> bool:
    if isinstance(node, Window):
        return is_temporal(node.spec)
    if isinstance(node, Modify):
        return node.key is None
    return isinstance(node, Filter | Project | Rstream | Restrict)


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
    raise internal(f"no region for {type(node).__name__}")


def _spread_by(node: Join, side: int) -> tuple[int, ...]:
    """The columns by which the rows of a join's side go apart: few that are read anyway, if they are known to differ."""
    below, width = node.inputs[side], len(node.left.schema)
    read = {c - width * side for c in references(node.predicate)} if node.predicate is not None else set()
    apart = {i for i, f in enumerate(below.schema) if f.hidden}
    keys = properties(below).keys
    if keys:
        apart |= min(keys, key=lambda k: (len(k - read), sorted(k)))
    chosen = (apart | read) if apart else range(len(below.schema))
    return tuple(c for c in _hashable(below.schema) if c in chosen)


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
