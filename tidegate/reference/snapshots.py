"""The meaning of every operator, in plain Python: the judge of everything else.

A plan is asked for its snapshot at one instant. Standard operators are snapshot-reducible, so each is
its relational counterpart on the snapshots of its inputs (SPEC section 3); only windows and the stream operators look at
other instants. Streams are finite: `change_points` lists the instants at which a snapshot may differ from the one before,
so comparing there compares everywhere.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

from sqlglot import exp

from tidegate import time
from tidegate.algebra import operators as op
from tidegate.algebra.quality import RangedWindow, Settings
from tidegate.algebra.sequences import SessionWindow, WindowSequence
from tidegate.algebra.windows import RowsEveryTime, RowWindow, TimeEveryRows, TimeWindow
from tidegate.errors import Diagnostic, internal
from tidegate.reference import synchronization as sync_meaning
from tidegate.reference.aggregates import Bag, aggregate, order_key, row_key
from tidegate.reference.compiling import Compiled, Function
from tidegate.reference.quality import is_shown, reach, validity
from tidegate.reference.sequences import (
    sequence_changes,
    session_changes,
    shown_in_sequence,
    shown_in_session,
)
from tidegate.scalars.functions import AggregateFunction, ScalarFunction
from tidegate.scalars.meaning import is_supported
from tidegate.types import Row, Schema, Value

PhysicalRow = tuple[Row, int, int, int]
"""(e, ts, te, n): e is valid n times at every t with ts <= t < te."""

LIMIT = 1_000_000
"""How many instants one window over a derived stream may be split into."""


@dataclass(frozen=True)
class Arrivals:
    """A raw stream: (e, t) in order of arrival. Rows may come out of order in time.

    >>> Arrivals([(("b",), 7), (("a",), 3)]).at(3)
    Counter({('a',): 1})
    """

    rows: Sequence[tuple[Row, int]]

    @cached_property
    def ordered(self) -> list[tuple[Row, int]]:
        """By time; simultaneous rows by arrival."""
        return sorted(self.rows, key=lambda r: r[1])

    @cached_property
    def times(self) -> list[int]:
        return [t for _, t in self.ordered]

    def between(self, after: int, upto: int) -> list[tuple[Row, int]]:
        """The rows with after < t <= upto."""
        return self.ordered[bisect_right(self.times, after) : bisect_right(self.times, upto)]

    def at(self, t: int) -> Bag:
        return Counter(e for e, _ in self.between(t - 1, t))

    @property
    def change_points(self) -> set[int]:
        return {p for t in self.times for p in (t, t + 1)}


@dataclass(frozen=True)
class Validity:
    """A physical stream: rows with their validity, n of any sign."""

    rows: Sequence[PhysicalRow]

    def at(self, t: int) -> Bag:
        return snapshot(self.rows, t)

    @property
    def change_points(self) -> set[int]:
        return {p for _, ts, te, _ in self.rows for p in (ts, te) if p != time.MAX}


Source = Arrivals | Validity


def by_arrival(source: Source) -> Source:
    """The rows with their place by time, then by arrival, before the ordering attribute: see `Scan.arrival`.

    >>> by_arrival(Arrivals([(("b", 7), 7), (("a", 7), 7)])).rows[1][0][0::2]
    ('a', 7)
    """

    def placed(row: Row, t: int, number: int) -> Row:
        return (*row[:-1], f"{t - time.MIN:020d}{number:020d}", row[-1])

    if isinstance(source, Arrivals):
        return Arrivals([(placed(e, t, i), t) for i, (e, t) in enumerate(source.rows)])
    return Validity([(placed(e, ts, i), ts, te, n) for i, (e, ts, te, n) in enumerate(source.rows)])


@dataclass
class Reference:
    """Snapshots of plans over recorded sources."""

    sources: Mapping[str, Source]
    functions: Mapping[str, ScalarFunction] = field(default_factory=dict)
    aggregates: Mapping[str, AggregateFunction] = field(default_factory=dict)
    scalar: Callable[[exp.Expression, Schema, Iterable[Row]], Callable[[Row], Value]] | None = None
    """Evaluates what `compile_scalar` cannot; it is told which rows will be asked for."""
    settings: Settings = field(default_factory=dict)
    """What was in force when, of what the runtime may choose."""
    _snapshots: dict[tuple[op.Node, int], Bag] = field(default_factory=dict)
    _points: dict[op.Node, list[int]] = field(default_factory=dict)
    _arrivals: dict[op.Node, Arrivals | None] = field(default_factory=dict)
    _by_arrival: dict[str, Source] = field(default_factory=dict)
    _instants: dict[op.Node, Arrivals] = field(default_factory=dict)
    _layered: dict[op.Node, bool] = field(default_factory=dict)
    _compiled: Compiled = field(default_factory=Compiled)

    def snapshot(self, plan: op.Node, t: int) -> Bag:
        """The bag of rows valid at t."""
        key = (plan, t)
        if key not in self._snapshots:
            if len(self._snapshots) > 50_000:
                self._snapshots.clear()
            meaning = _MEANINGS[type(plan)]
            self._snapshots[key] = Counter({e: n for e, n in meaning(self, plan, t).items() if n > 0})
        return self._snapshots[key]

    def change_points(self, plan: op.Node) -> list[int]:
        """All instants at which the snapshot may change, in order (a few more do no harm)."""
        if plan not in self._points:
            self._points[plan] = sorted(_changes(self, plan))
        return self._points[plan]

    def intervals(self, plan: op.Node) -> list[PhysicalRow]:
        """The whole answer, coalesced: rows with the longest validity for which their multiplicity is constant."""
        result: list[PhysicalRow] = []
        current: dict[Row, tuple[int, int]] = {}
        for t in self.change_points(plan):
            bag = self.snapshot(plan, t)
            for e in [e for e, (_, n) in current.items() if bag.get(e, 0) != n]:
                since, n = current.pop(e)
                result.append((e, since, t, n))
            for e, n in bag.items():
                current.setdefault(e, (t, n))
        result += [(e, since, time.MAX, n) for e, (since, n) in current.items()]
        return sorted(result, key=lambda r: (r[1], r[2], row_key(r[0])))

    def predicate(self, node: op.Filter | op.Join, rows: Iterable[Row]) -> Callable[[Row], bool]:
        if node.predicate is None:
            return lambda _: True
        schema = node.pair_schema if isinstance(node, op.Join) else node.input.schema
        evaluate = self.compiled(node.predicate, schema, rows)
        return lambda row: evaluate(row) is True

    def compiled(self, expression: exp.Expression, schema: Schema, rows: Iterable[Row] = ()) -> Function:
        """The function of a row that an expression stands for."""
        if self.scalar is not None and not is_supported(expression, self.functions):
            return self.scalar(expression, schema, rows)
        return self._compiled(expression, schema, self.functions)

    def source(self, scan: op.Scan) -> Source:
        """The rows that a scan sees."""
        if not scan.arrival:
            return self.sources[scan.name]
        if scan.name not in self._by_arrival:
            self._by_arrival[scan.name] = by_arrival(self.sources[scan.name])
        return self._by_arrival[scan.name]

    def arrivals(self, plan: op.Node) -> Arrivals | None:
        """A raw stream, or filters and maps of one: its rows in order of arrival. None for anything else."""
        if plan not in self._arrivals:
            self._arrivals[plan] = self._raw(plan)
        return self._arrivals[plan]

    def _raw(self, plan: op.Node) -> Arrivals | None:
        if isinstance(plan, op.Scan):
            source = self.source(plan)
            return source if isinstance(source, Arrivals) else None
        if not isinstance(plan, (op.Filter, op.Project)):
            return None
        beneath = self.arrivals(plan.input)
        if beneath is None:
            return None
        if isinstance(plan, op.Filter):
            keep = self.predicate(plan, [e for e, _ in beneath.rows])
            return Arrivals([(e, t) for e, t in beneath.rows if keep(e)])
        mapping = _mapping(self, plan, [e for e, _ in beneath.rows])
        return Arrivals([(mapping(e), t) for e, t in beneath.rows])

    def segments(self, plan: op.Node) -> list[tuple[int, int, Bag]]:
        """The snapshots as (from, to, bag), empty ones left out."""
        points = [*self.change_points(plan), time.MAX]
        parts = ((a, b, self.snapshot(plan, a)) for a, b in pairwise(points))
        return [part for part in parts if part[2]]

    def instants(self, window: op.Window) -> Arrivals:
        """What a window ranges over: the raw rows, or a derived stream split to chronons (PIPES 7.6).

        Simultaneous rows of a derived stream are ordered by all columns.
        """
        if window not in self._instants:
            self._instants[window] = self.arrivals(window.input) or self._split(window)
        return self._instants[window]

    def is_layered(self, window: op.Window) -> bool:
        """Whether rows of a derived stream have no end, but what is seen of them settles: equally many instants at all times."""
        if window not in self._layered:
            spec = window.spec
            settles = isinstance(spec, TimeWindow) and spec.size is not None and window.width == 1
            self._layered[window] = (
                settles
                and spec.size % window.granularity == 0  # type: ignore[union-attr, operator]
                and self.arrivals(window.input) is None
                and any(a != time.MIN and b == time.MAX for a, b, _ in self.segments(window.input))
            )
        return self._layered[window]

    def _split(self, window: op.Window) -> Arrivals:
        rows: list[tuple[Row, int]] = []
        for start, end, bag in self.segments(window.input):
            first = time.next_multiple(start, window.granularity)
            many = range(first, end, window.granularity)
            if start == time.MIN or end == time.MAX or len(many) * bag.total() > LIMIT:
                raise Diagnostic(
                    "WINDOW_OVER_LASTING_ROWS",
                    "this window would have to split lasting rows of a derived stream into too many instants",
                    help="window the stream's changes with ISTREAM(…), or declare a coarser GRANULARITY",
                )
            ordered = sorted(bag.elements(), key=row_key)
            rows += [(e, t) for t in many for e in ordered]
        return Arrivals(rows)


# windows: which of the stream's instants are seen at t --------------------------------------------------------


def _window(self: Reference, node: op.Window, t: int) -> Bag:
    """`snapshot(w(S), t)` = the rows that the window shows at t; with PARTITION BY, of each sub-stream, united.

    RANGE w SLIDE s shows d - w < u <= d, with d the latest multiple of s up to t. Where instants have batches, a window shows
    at (t, i) what it would show at t if the stream ended with that batch.
    """
    if self.is_layered(node):
        return _layers(self, node, t)
    rows = self.instants(node)
    if node.width > 1:
        rows, t = Arrivals([(e, u // node.width) for e, u in rows.between(time.MIN, t)]), t // node.width
    if isinstance(spec := node.spec, RangedWindow):
        return Counter(e for e, s in rows.between(reach(spec, t), t) if is_shown(spec, s, t, self.settings))
    if not node.partition_by:
        return _visible(node, rows, t)
    result: Bag = Counter()
    for part in _partitions(rows, node.partition_by):
        result.update(_visible(node, part, t))
    return result


def _layers(self: Reference, node: op.Window, t: int) -> Bag:
    """The input's snapshots at the instants of (d - w, d], united."""
    spec, result = node.spec, Counter[Row]()
    assert isinstance(spec, TimeWindow)
    assert spec.size is not None
    latest = _point(t, spec.slide, spec.origin)
    for at in range(
        time.next_multiple(latest - spec.size + 1, node.granularity), latest + 1, node.granularity
    ):
        result.update(self.snapshot(node.input, at))
    return result


def _layer_changes(self: Reference, node: op.Window) -> set[int]:
    """Where rows enter and leave: at the instants after one of their changes, as far as the window reaches."""
    spec = node.spec
    assert isinstance(spec, TimeWindow)
    assert spec.size is not None
    points = set()
    for change in self.change_points(node.input):
        first = time.next_multiple(change, node.granularity)
        for at in range(first, first + 2 * spec.size + 1, node.granularity):
            points.add(time.next_multiple(at, spec.slide, spec.origin))
    return points


def _partitions(rows: Arrivals, columns: tuple[int, ...]) -> list[Arrivals]:
    parts: dict[Row, list[tuple[Row, int]]] = {}
    for e, t in rows.rows:
        parts.setdefault(tuple(e[i] for i in columns), []).append((e, t))
    return [Arrivals(part) for part in parts.values()]


def _visible(node: op.Window, rows: Arrivals, t: int) -> Bag:
    spec = node.spec
    if isinstance(spec, TimeWindow):
        return _last(rows, spec.size, _point(t, spec.slide, spec.origin))
    if isinstance(spec, RowWindow):
        return _last_rows(rows, spec.size, bisect_right(rows.times, t) // spec.slide * spec.slide)
    if isinstance(spec, RowsEveryTime):
        return _last_rows(rows, spec.size, bisect_right(rows.times, _point(t, spec.period, spec.origin)))
    if isinstance(spec, WindowSequence):
        return Counter(e for e, _ in rows.ordered[shown_in_sequence(spec, rows.times, t)])
    if isinstance(spec, SessionWindow):
        return Counter(e for e, _ in rows.ordered[shown_in_session(spec, rows.times, t)])
    assert isinstance(spec, TimeEveryRows), spec
    evaluated = bisect_right(rows.times, t) // spec.every * spec.every
    return _last(rows, spec.size, rows.times[evaluated - 1]) if evaluated else Counter()


def _point(t: int, step: int, origin: int) -> int:
    """The latest origin + k * step up to t."""
    return (t - origin) // step * step + origin


def _last(rows: Arrivals, size: int | None, t: int) -> Bag:
    """The rows of the last `size` ticks, as of t."""
    return Counter(e for e, _ in rows.between(time.MIN if size is None else t - size, t))


def _last_rows(rows: Arrivals, size: int | None, position: int) -> Bag:
    """The last `size` rows, as of the row at that position (the first is 1)."""
    first = 0 if size is None else max(0, position - size)
    return Counter(e for e, _ in rows.ordered[first:position])


# standard operators: the relational operator on the inputs' snapshots -------------------------------------------


def _scan(self: Reference, node: op.Scan, t: int) -> Bag:
    """A raw row is valid at its instant only; a relation's rows as long as they say."""
    return self.source(node).at(t)


def _one_row(self: Reference, node: op.OneRow, t: int) -> Bag:
    return Counter({(): 1})


def _filter(self: Reference, node: op.Filter, t: int) -> Bag:
    """{(e, n) | p(e) is true}"""
    rows = self.snapshot(node.input, t)
    keep = self.predicate(node, rows)
    return Counter({e: n for e, n in rows.items() if keep(e)})


def _project(self: Reference, node: op.Project, t: int) -> Bag:
    """{(f(e), sum of n)}"""
    rows = self.snapshot(node.input, t)
    mapping = _mapping(self, node, rows)
    result: Bag = Counter()
    for e, n in rows.items():
        result[mapping(e)] += n
    return result


def _mapping(self: Reference, node: op.Project, rows: Iterable[Row]) -> Callable[[Row], Row]:
    columns = [self.compiled(e, node.input.schema, rows) for e in node.expressions]
    return lambda row: tuple(column(row) for column in columns)


def _union_all(self: Reference, node: op.UnionAll, t: int) -> Bag:
    """n + m"""
    return self.snapshot(node.left, t) + self.snapshot(node.right, t)


def _join(self: Reference, node: op.Join, t: int) -> Bag:
    """{(e1 o e2, n * m) | p(e1 o e2)}; outer joins pad rows without a partner, semi and anti keep or drop them."""
    left, right = self.snapshot(node.left, t), self.snapshot(node.right, t)
    matches = self.predicate(node, (a + b for a in left for b in right))
    pairs = [(a, b) for a in left for b in right if matches(a + b)]
    partnered = {a for a, _ in pairs}
    if node.kind in ("semi", "anti"):
        return Counter({a: n for a, n in left.items() if (a in partnered) == (node.kind == "semi")})
    result: Bag = Counter()
    for a, b in pairs:
        result[a + b] += left[a] * right[b]
    if node.kind in ("left", "full"):
        padding = (None,) * len(node.right.schema)
        result.update({a + padding: n for a, n in left.items() if a not in partnered})
    if node.kind in ("right", "full"):
        padding, wanted = (None,) * len(node.left.schema), {b for _, b in pairs}
        result.update({padding + b: n for b, n in right.items() if b not in wanted})
    return result


def _distinct(self: Reference, node: op.Distinct, t: int) -> Bag:
    """min(1, n)"""
    return Counter(dict.fromkeys(self.snapshot(node.input, t), 1))


def _except(self: Reference, node: op.Except, t: int) -> Bag:
    """ALL: max(0, n - m); otherwise 1 where n > 0 and m = 0"""
    left, right = self.snapshot(node.left, t), self.snapshot(node.right, t)
    return left - right if node.all else Counter(dict.fromkeys(left.keys() - right.keys(), 1))


def _intersect(self: Reference, node: op.Intersect, t: int) -> Bag:
    """ALL: min(n, m); otherwise min(1, n, m)"""
    both = self.snapshot(node.left, t) & self.snapshot(node.right, t)
    return both if node.all else Counter(dict.fromkeys(both, 1))


def _aggregate(self: Reference, node: op.Aggregate, t: int) -> Bag:
    """One row per group that is not empty: its keys and its aggregates."""
    groups: dict[Row, Bag] = {}
    for e, n in self.snapshot(node.input, t).items():
        groups.setdefault(tuple(e[k] for k in node.keys), Counter())[e] += n
    return Counter(
        {
            keys + tuple(aggregate(a, bag, self.aggregates) for a in node.aggregations): 1
            for keys, bag in groups.items()
        }
    )


def _top_k(self: Reference, node: op.TopK, t: int) -> Bag:
    """The first rows of each partition by the sort keys, then by all columns."""
    parts: dict[Row, list[Row]] = {}
    for e in self.snapshot(node.input, t).elements():
        parts.setdefault(tuple(e[i] for i in node.partition_by), []).append(e)
    result: Bag = Counter()
    for rows in parts.values():
        rows.sort(key=row_key)
        for key in reversed(node.keys):  # Python's sort is stable, also in reverse
            rows.sort(key=lambda e, c=key.column: order_key(e[c]), reverse=key.descending)  # type: ignore[misc]
            rows.sort(key=lambda e, k=key: (e[k.column] is None) != k.nulls_first)  # type: ignore[misc]
        result.update(rows[node.offset : node.offset + node.limit])
    return result


def _single_row(self: Reference, node: op.SingleRow, t: int) -> Bag:
    """The input, or an error where a sub-query used as a value has several rows."""
    bag = self.snapshot(node.input, t)
    parts = Counter(tuple(e[i] for i in node.partition_by) for e in bag.elements())
    if any(n > 1 for n in parts.values()):
        raise scalar_subquery_rows(node)
    return bag


def scalar_subquery_rows(node: op.SingleRow) -> Diagnostic:
    return Diagnostic(
        "SCALAR_SUBQUERY_ROWS",
        "a sub-query used as a value has more than one row at an instant",
        help="aggregate it (MAX, MIN, …), or use IN, ANY or EXISTS",
    ).at(node.position)


# stream operators of CQL: changes as instants ----------------------------------------------------------------------


def _istream(self: Reference, node: op.Istream, t: int) -> Bag:
    """max(0, S(t) - S(t - 1))"""
    return self.snapshot(node.input, t) - _before(self, node.input, t)


def _dstream(self: Reference, node: op.Dstream, t: int) -> Bag:
    """max(0, S(t - 1) - S(t))"""
    return _before(self, node.input, t) - self.snapshot(node.input, t)


def _before(self: Reference, plan: op.Node, t: int) -> Bag:
    return self.snapshot(plan, t - 1) if t != time.MIN else Counter()


def _rstream(self: Reference, node: op.Rstream, t: int) -> Bag:
    """S(t) where t is a multiple of the period, otherwise nothing"""
    return self.snapshot(node.input, t) if t % node.period == 0 else Counter()


_MEANINGS: dict[type[op.Node], Callable[..., Bag]] = {
    op.Scan: _scan,
    op.OneRow: _one_row,
    op.Window: _window,
    op.Filter: _filter,
    op.Project: _project,
    op.UnionAll: _union_all,
    op.Join: _join,
    op.Distinct: _distinct,
    op.Except: _except,
    op.Intersect: _intersect,
    op.Aggregate: _aggregate,
    op.TopK: _top_k,
    op.SingleRow: _single_row,
    op.Istream: _istream,
    op.Dstream: _dstream,
    op.Rstream: _rstream,
    **sync_meaning.MEANINGS,
}


# where snapshots may change ---------------------------------------------------------------------------------------


def _changes(self: Reference, plan: op.Node) -> Iterable[int]:
    if isinstance(plan, op.Scan):
        return self.source(plan).change_points
    if isinstance(plan, op.OneRow):
        return {time.MIN}
    if isinstance(plan, op.Window):
        if self.is_layered(plan):
            return _layer_changes(self, plan)
        rows = self.instants(plan)
        if plan.width == 1:
            return _window_changes(self, plan, rows)
        instants = _window_changes(self, plan, Arrivals([(e, u // plan.width) for e, u in rows.ordered]))
        return {*rows.times, *(time.widened(t, plan.width) for t in instants)}
    if type(plan) in sync_meaning.MEANINGS:
        return sync_meaning.changes(self, plan)
    beneath: set[int] = set()
    for node in plan.inputs:
        beneath.update(self.change_points(node))
    if isinstance(plan, (op.Istream, op.Dstream)):
        return beneath | {time.add(p, 1) for p in beneath}
    if isinstance(plan, op.Rstream):
        return _points_of(self, plan)
    return beneath


def _window_changes(self: Reference, window: op.Window, rows: Arrivals) -> set[int]:
    spec, times = window.spec, rows.times
    if isinstance(spec, RangedWindow):
        return {p for t in times for p in validity(spec, t, self.settings) if p != time.MAX}
    if isinstance(spec, WindowSequence):
        parts = _partitions(rows, window.partition_by) if window.partition_by else [rows]
        return set().union(*(sequence_changes(spec, part.times) for part in parts))
    if isinstance(spec, TimeWindow):
        starts = {time.next_multiple(t, spec.slide, spec.origin) for t in times}
        if spec.size is None:
            return starts
        return starts | {time.next_multiple(t + spec.size, spec.slide, spec.origin) for t in times}
    if isinstance(spec, RowsEveryTime):
        return {time.next_multiple(t, spec.period, spec.origin) for t in times}
    if isinstance(spec, SessionWindow):
        return session_changes(spec, times)
    assert isinstance(spec, (RowWindow, TimeEveryRows))
    return set(times)


def _points_of(self: Reference, node: op.Rstream) -> set[int]:
    points: set[int] = set()
    for start, end, _ in self.segments(node.input):
        first = time.next_multiple(start, node.period)
        if start == time.MIN or end == time.MAX or (end - start) // node.period > LIMIT:
            raise Diagnostic(
                "RSTREAM_WITHOUT_END",
                "RSTREAM of rows that have no end, or of too many points, is never complete",
                help="put a bounded window beneath it, or choose a longer period",
            )
        for point in range(first, end, node.period):
            points |= {point, point + 1}
    return points


# physical streams --------------------------------------------------------------------------------------------------


def snapshot(rows: Iterable[PhysicalRow], t: int) -> Bag:
    """The timeslice of a physical stream: sum of n over ts <= t < te.

    >>> snapshot([(("a",), 1, time.MAX, 1), (("a",), 5, time.MAX, -1)], 4)
    Counter({('a',): 1})
    >>> snapshot([(("a",), 1, time.MAX, 1), (("a",), 5, time.MAX, -1)], 5)
    Counter()
    """
    bag: Bag = Counter()
    for e, ts, te, n in rows:
        if ts <= t < te:
            bag[e] += n
    if any(n < 0 for n in bag.values()):
        raise internal(f"a physical stream has a negative multiplicity at {t}")
    return Counter({e: n for e, n in bag.items() if n})


def to_logical(rows: Sequence[PhysicalRow]) -> set[tuple[Row, int, int]]:
    """Every (e, t, n) of a physical stream whose rows end (PIPES section 2.6).

    >>> sorted(to_logical([(("a",), 1, 3, 1), (("a",), 2, 3, 1)]))
    [(('a',), 1, 1), (('a',), 2, 2)]
    """
    instants = {t for _, ts, te, _ in rows for t in range(ts, te)}
    return {(e, t, n) for t in instants for e, n in snapshot(rows, t).items()}


def first_difference(left: Sequence[PhysicalRow], right: Sequence[PhysicalRow]) -> int | None:
    """The first instant at which two physical streams differ; None: they are equivalent.

    >>> first_difference([(("a",), 1, 5, 1)], [(("a",), 1, time.MAX, 1), (("a",), 4, time.MAX, -1)])
    4
    """
    points = sorted({p for rows in (left, right) for _, ts, te, _ in rows for p in (ts, te)})
    return next((t for t in points if snapshot(left, t) != snapshot(right, t)), None)
