"""What is known of a stream before it runs: one transfer function per operator, in one visible table.

A property is a fact about snapshots, so it can be tested against the reference. Some speak of the input that is *known at t*: all
rows of the sources that begin at t or before; `S|t` is the answer on that input alone. Every function is conservative: what
it does not claim may still be true. Leaves are those of the catalog: a relation without a hidden time is a table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import product
from math import gcd

from sqlglot import exp

from tidegate.algebra import operators as op
from tidegate.algebra.batches import is_raw
from tidegate.algebra.modify import Clock, Modify, Restrict, Since, Sync, width_of
from tidegate.algebra.points import points_of
from tidegate.algebra.quality import RangedWindow
from tidegate.algebra.windows import RowsEveryTime, RowWindow, TimeEveryRows, TimeWindow, is_temporal
from tidegate.scalars.expressions import conjuncts, index_of
from tidegate.types import TIMESTAMP

Keys = frozenset[frozenset[int]]

MANY = 8
"""How many keys of a stream are kept: the smallest ones."""


@dataclass(frozen=True)
class Properties:
    """Facts about a stream S, with `<=` for inclusion of bags.

    >>> properties(op.Window(op.Scan("S", ()), TimeWindow(60))).bounded
    60
    """

    append_only: bool = False
    """Rows stay: S(t) <= S(u) for t <= u."""
    ends_known: bool = False
    """Ends are known when rows begin, so nothing is ever taken back: S|t(u) <= S(u) for all u."""
    bounded: int | None = None
    """What is known at t is over after so many ticks: S|t(u) is empty for u >= t + bounded. None: no such bound."""
    prompt: bool = False
    """Rows begin at once: nothing that is known at t begins later, S|t(u) <= S|t(u - 1) for u > t."""
    keys: Keys = frozenset()
    """Sets of columns in which the rows of a snapshot differ, duplicates included. The empty set: at most one row."""
    granularity: int = 1
    """Snapshots change at multiples of so many ticks only: S(t) = S(t // g * g). 0: they never change."""

    @property
    def chronon(self) -> bool:
        """Every row lasts one instant: what is known at t says nothing about later instants."""
        return self.bounded == 1

    @property
    def constant(self) -> bool:
        """S(t) is the same at every instant and for every input: made of tables alone."""
        return self.granularity == 0

    def has_key(self, columns: Iterable[int]) -> bool:
        """Whether rows of a snapshot differ in these columns."""
        wanted = frozenset(columns)
        return any(key <= wanted for key in self.keys)

    def keep(self, promised: Properties) -> bool:
        """Whether all that was promised, keys apart, is known: a stream with less can take the place of no other."""
        ends = promised.bounded is None or (self.bounded is not None and self.bounded <= promised.bounded)
        changes = self.granularity % promised.granularity == 0 if promised.granularity else self.constant
        return (
            self.append_only >= promised.append_only
            and self.ends_known >= promised.ends_known
            and self.prompt >= promised.prompt
            and ends
            and changes
        )


CONSTANT = Properties(append_only=True, ends_known=True, prompt=True, granularity=0)


NOTHING = Properties(True, True, 1, True, frozenset([frozenset()]), 0)
"""Of the empty relation everything is true."""


def properties(plan: op.Node, known: dict[op.Node, Properties] | None = None) -> Properties:
    """The properties of a plan. `known` remembers those of its parts."""
    known = {} if known is None else known
    if plan not in known:
        found = TRANSFER[type(plan)](plan, *(properties(i, known) for i in plan.inputs))
        if found.chronon or found.constant:
            found = replace(found, ends_known=True, prompt=True)
        if found.constant:
            found = replace(found, append_only=True)
        known[plan] = replace(found, keys=_smallest(found.keys))
    return known[plan]


def _smallest(keys: Iterable[frozenset[int]]) -> Keys:
    """Without keys that contain another."""
    kept: list[frozenset[int]] = []
    for key in sorted(keys, key=lambda k: (len(k), sorted(k))):
        if not any(other <= key for other in kept):
            kept.append(key)
    return frozenset(kept[:MANY])


def _most(*bounds: int | None) -> int | None:
    return None if None in bounds else max(b for b in bounds if b is not None)


def _least(*bounds: int | None) -> int | None:
    return min((b for b in bounds if b is not None), default=None)


def _key(*columns: int) -> Keys:
    return frozenset([frozenset(columns)])


# leaves --------------------------------------------------------------------------------------------------------------


def _scan(node: op.Scan) -> Properties:
    """A raw row is an instant; a row with validity brings its end; a table is always there."""
    if not node.relation:
        return Properties(bounded=1)
    # a relation with a time of its own has it as its last, hidden field
    if node.fields and node.fields[-1].hidden:
        return Properties(ends_known=True, prompt=True)
    return CONSTANT


def _one_row(node: op.OneRow) -> Properties:
    return replace(CONSTANT, keys=_key())


def _clock(node: Clock) -> Properties:
    """Ticks are known before any row comes, and begin one after the other."""
    return Properties(ends_known=True, keys=_key())


# windows -------------------------------------------------------------------------------------------------------------


def _window(node: op.Window, input: Properties) -> Properties:
    """Time windows only move ends; windows of rows end when other rows come."""
    spec = node.spec
    if isinstance(spec, TimeWindow):
        if spec.is_now and node.granularity == 1 and node.width == 1:
            return input
        bounded = None
        if spec.size is not None and input.bounded is not None:
            bounded = input.bounded - 1 + (spec.size + spec.slide - 1) * node.width
        return Properties(
            append_only=spec.size is None,
            ends_known=input.ends_known and not node.told,
            bounded=None if node.told else bounded,
            prompt=input.chronon and spec.slide == 1,
            granularity=_granule(node, spec),
        )
    if isinstance(spec, RangedWindow):
        return _ranged(node, spec, input)
    if isinstance(spec, RowsEveryTime):
        return Properties(
            append_only=spec.size is None,
            ends_known=spec.size is None and input.ends_known,
            keys=_key(*node.partition_by) if spec.size == 1 else frozenset(),
            granularity=spec.period if node.width == 1 and not spec.origin else 1,
        )
    if isinstance(spec, RowWindow):
        return Properties(
            append_only=spec.size is None,
            ends_known=spec.size is None and spec.slide == 1 and input.ends_known,
            prompt=input.chronon,
            keys=_key(*node.partition_by) if spec.size == 1 else frozenset(),
        )
    if isinstance(spec, TimeEveryRows):
        return Properties(append_only=spec.size is None, prompt=input.chronon)
    return Properties(ends_known=is_temporal(spec) and input.ends_known)


def _ranged(node: op.Window, spec: RangedWindow, input: Properties) -> Properties:
    """What holds whichever values are chosen."""
    bounded = None
    if spec.largest is not None and input.bounded is not None:
        bounded = input.bounded - 1 + (spec.largest + spec.slide + spec.coarsest - 2) * node.width
    at_slides = spec.granule is None and node.width == 1 and not spec.origin
    return Properties(
        append_only=spec.size is None,
        ends_known=input.ends_known,
        bounded=bounded,
        prompt=input.chronon and spec.slide == 1 and spec.granule is None,
        granularity=spec.slide if at_slides else 1,
    )


def _granule(node: op.Window, spec: TimeWindow) -> int:
    """Both ends are multiples of the slide; over a derived stream without one, instants and so ends may be multiples of the chronon."""
    if node.width != 1 or spec.origin:
        return 1
    split = spec.slide == 1 and not is_raw(node.input)
    return node.granularity if split and (spec.size or 0) % node.granularity == 0 else spec.slide


# one input -----------------------------------------------------------------------------------------------------------


def _filter(node: op.Filter, input: Properties) -> Properties:
    """A filter keeps all that is claimed of its input; one that nothing passes leaves nothing to be wrong about."""
    return NOTHING if node.predicate == exp.false() else input


def _project(node: op.Project, input: Properties) -> Properties:
    """Keys survive whose columns are passed on as they are."""
    places: dict[int, int] = {}
    for place, expression in enumerate(node.expressions):
        column = index_of(expression)
        if column is not None:
            places.setdefault(column, place)
    keys = (frozenset(places[c] for c in key) for key in input.keys if all(c in places for c in key))
    return replace(input, keys=frozenset(keys))


def _distinct(node: op.Distinct, input: Properties) -> Properties:
    return replace(input, keys=input.keys | _key(*range(len(node.schema))))


def _aggregate(node: op.Aggregate, input: Properties) -> Properties:
    """A later row changes the value of its group: old values are taken back, unless groups last one instant."""
    return replace(_changing(input), keys=_key(*range(len(node.keys))))


def _top_k(node: op.TopK, input: Properties) -> Properties:
    """A later row displaces an earlier one; one that leaves makes place for another."""
    first = _key(*node.partition_by) if node.limit <= 1 else frozenset()
    return replace(_changing(input), keys=input.keys | first)


def _changing(input: Properties) -> Properties:
    """What is left when every change of the input may replace rows of the result."""
    return Properties(bounded=input.bounded, granularity=input.granularity)


def _single_row(node: op.SingleRow, input: Properties) -> Properties:
    return replace(input, keys=input.keys | _key(*node.partition_by))


# two inputs ----------------------------------------------------------------------------------------------------------


def _together(left: Properties, right: Properties) -> Properties:
    """What holds of both inputs holds of their union."""
    return Properties(
        append_only=left.append_only and right.append_only,
        ends_known=left.ends_known and right.ends_known,
        bounded=_most(left.bounded, right.bounded),
        prompt=left.prompt and right.prompt,
        granularity=gcd(left.granularity, right.granularity),
    )


def _union_all(node: op.UnionAll, left: Properties, right: Properties) -> Properties:
    return _together(left, right)


def _both(left: Properties, right: Properties) -> Properties:
    """A row needs one on each side: it begins with the later and ends with the earlier."""
    return replace(_together(left, right), bounded=_least(left.bounded, right.bounded))


def _without(left: Properties, right: Properties) -> Properties:
    """Left rows that a right one can take away, or a right one's end bring back: only a constant right is harmless."""
    return Properties(
        append_only=left.append_only and right.constant,
        ends_known=left.ends_known and right.constant,
        bounded=left.bounded,
        prompt=left.prompt and right.constant,
        granularity=gcd(left.granularity, right.granularity),
    )


def _join(node: op.Join, left: Properties, right: Properties) -> Properties:
    """Inner and semijoins need both sides; what outer joins pad and antijoins keep depends on absence."""
    if node.kind == "semi":
        return replace(_both(left, right), keys=left.keys)
    if node.kind == "anti":
        return replace(_without(left, right), keys=left.keys)
    if node.kind == "left":
        found = _without(left, right)
    elif node.kind == "right":
        found = _without(right, left)
    elif node.kind == "full":
        changing = _without(left, right)
        constant = left.constant and right.constant
        found = Properties(
            append_only=constant,
            ends_known=constant,
            bounded=_most(left.bounded, right.bounded),
            prompt=constant,
            granularity=changing.granularity,
        )
    else:
        found = _both(left, right)
    return replace(found, keys=_join_keys(node, left, right))


def _join_keys(node: op.Join, left: Properties, right: Properties) -> Keys:
    """A pair is known by both keys; where one side's key is equated to the other side, by the other's key alone."""
    if node.kind == "full":
        return frozenset()  # rows padded on either side may look the same
    width = len(node.left.schema)
    on_left, on_right = _equated(node)
    moved = frozenset(frozenset(c + width for c in key) for key in right.keys)
    keys = {a | b for a, b in product(left.keys, moved)}
    if node.kind != "right" and any(key <= on_right for key in moved):
        keys |= left.keys
    if node.kind != "left" and any(key <= on_left for key in left.keys):
        keys |= moved
    if node.kind == "inner":  # of two equal columns either one tells rows apart
        to_left, to_right = {b: a for a, b in equal_columns(node)}, dict(equal_columns(node))
        keys |= {frozenset(to.get(c, c) for c in key) for key in keys for to in (to_left, to_right)}
    return frozenset(keys)


def _equated(node: op.Join) -> tuple[set[int], set[int]]:
    """The left and the right columns that must equal one of the other side."""
    pairs = equal_columns(node)
    return {a for a, _ in pairs}, {b for _, b in pairs}


def equal_columns(node: op.Join) -> list[tuple[int, int]]:
    """The pairs of a left and a right column of the same type that a join compares for equality.

    Of different types, several values of one may equal one of the other: '1' and '01' are both 1.
    """
    width, schema = len(node.left.schema), node.pair_schema
    found = []
    for part in conjuncts(node.predicate):
        if isinstance(part, (exp.EQ, exp.NullSafeEQ)):
            a, b = index_of(part.this), index_of(part.expression)
            if (
                a is not None
                and b is not None
                and (a < width) != (b < width)
                and schema[a].type == schema[b].type
            ):
                found.append((min(a, b), max(a, b)))
    return found


def _except(node: op.Except, left: Properties, right: Properties) -> Properties:
    distinct = frozenset() if node.all else _key(*range(len(node.schema)))
    return replace(_without(left, right), keys=left.keys | distinct)


def _intersect(node: op.Intersect, left: Properties, right: Properties) -> Properties:
    distinct = frozenset() if node.all else _key(*range(len(node.schema)))
    return replace(_both(left, right), keys=left.keys | right.keys | distinct)


# streams of changes, modifications and points ---------------------------------------------------------------------------


def _istream(node: op.Istream, input: Properties) -> Properties:
    """Insertions are instants; where rows begin at once, what is known at t inserts nothing later."""
    return Properties(bounded=1 if input.prompt else input.bounded, keys=input.keys)


def _dstream(node: op.Dstream, input: Properties) -> Properties:
    """A deletion is seen one tick after the row was."""
    return Properties(bounded=None if input.bounded is None else input.bounded + 1, keys=input.keys)


def _rstream(node: op.Rstream, input: Properties) -> Properties:
    return Properties(ends_known=input.ends_known, bounded=input.bounded, keys=input.keys)


def _modify(node: Modify, input: Properties) -> Properties:
    """Without a key every row stays; with one, a row ends when its key is modified again."""
    if node.key is None:
        return Properties(append_only=True, ends_known=True, prompt=True)
    return Properties(prompt=True, keys=_key(*node.key))


def _sync(node: Sync, input: Properties, points: Properties) -> Properties:
    """The input as of an earlier instant: no snapshot that the input has not. Where points are arithmetic, so are ends."""
    period = points_of(node.points).period if width_of(node.points) == 1 else None
    if period is None:
        return Properties(append_only=input.append_only, keys=input.keys)
    return Properties(
        append_only=input.append_only,
        ends_known=input.ends_known,
        bounded=None if input.bounded is None else input.bounded + period - 1,
        keys=input.keys,
        granularity=input.granularity if input.granularity % period == 0 else period,
    )


def _restrict(node: Restrict, input: Properties) -> Properties:
    """Of every snapshot a part, chosen row by row."""
    return Properties(ends_known=input.ends_known, bounded=input.bounded, keys=input.keys)


def _since(node: Since, input: Properties) -> Properties:
    """Rows with one column more, which tells equal ones apart only by chance."""
    return Properties(append_only=input.append_only, keys=input.keys)


TRANSFER: Mapping[type[op.Node], Callable[..., Properties]] = {
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
    Modify: _modify,
    Clock: _clock,
    Sync: _sync,
    Restrict: _restrict,
    Since: _since,
}
"""What each operator does to the properties of its inputs."""


def result_key(plan: op.Node) -> tuple[int, ...] | None:
    """The key by which changes of a result are told apart: the smallest that is known; None: there is none."""
    keys = sorted(properties(plan).keys, key=lambda k: (len(k), sorted(k)))
    return tuple(sorted(keys[0])) if keys else None


def has_timestamps(plan: op.Node) -> bool:
    """Whether time is counted in microseconds, not in whole numbers."""
    for node in plan.walk():
        if isinstance(node, op.Scan) and node.fields and node.fields[-1].hidden:
            return node.fields[-1].type == TIMESTAMP
    return any(isinstance(node, Clock | Restrict) and node.timestamps for node in plan.walk())
