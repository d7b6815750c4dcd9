"""Streams of points, in a form that can be computed with: residue classes of ticks, and events (SPEC section 5).

A plan over `Clock` is never run: it is read. Filters by remainders and bounds, unions and intersections of clocks
are again sets of residue classes, so the next point after an instant is arithmetic. A filter of any other form is asked tick by
tick, up to `LAZY_LIMIT` ticks in a row. Whatever has no clock in it is a stream of events, computed like any query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from math import gcd

from sqlglot import exp

from tidegate import time
from tidegate.algebra import operators as op
from tidegate.algebra.modify import TIMEPOINT, Clock
from tidegate.errors import Diagnostic, Kind
from tidegate.scalars.expressions import conjuncts, index_of
from tidegate.scalars.meaning import compile_scalar
from tidegate.types import BIGINT, TIMESTAMP, Field, Row, Value

LAZY_LIMIT = 100_000
"""How many ticks in a row a filter that is not arithmetic may refuse."""

CLASS_LIMIT = 10_000
"""How many residue classes a stream of points may have."""

_FLIPPED: dict[type[exp.Expression], type[exp.Expression]] = {
    exp.GT: exp.LT, exp.GTE: exp.LTE, exp.LT: exp.GT, exp.LTE: exp.GTE, exp.EQ: exp.EQ,
}  # fmt: skip


@dataclass(frozen=True)
class Ticks:
    """The instants t = offset (mod step) with first <= t <= last for which all predicates (of c0 = t) hold.

    >>> Ticks(2).next(3), Ticks(3, 1).next(2), Ticks(2, last=4).next(5)
    (4, 4, None)
    """

    step: int
    offset: int = 0
    first: int = time.MIN
    last: int = time.MAX - 1
    predicates: tuple[exp.Expression, ...] = ()
    timestamps: bool = False

    def next(self, t: int) -> int | None:
        """The first tick that is not before t; MIN stands for a tick before everything, if there are such."""
        if t == time.MIN and self.first == time.MIN:
            return time.MIN
        at = time.next_multiple(max(t, self.first), self.step, self.offset)
        for _ in range(LAZY_LIMIT):
            if at > self.last:
                return None
            if self.accepts(at):
                return at
            at += self.step
        raise self._rare(t)

    def latest(self, t: int) -> int | None:
        """The last tick that is not after t.

        >>> Ticks(2).latest(3), Ticks(3, 1).latest(3), Ticks(2, first=4).latest(3)
        (2, 1, None)
        """
        at = (min(t, self.last) - self.offset) // self.step * self.step + self.offset
        for _ in range(LAZY_LIMIT):
            if at < self.first:
                return None
            if self.accepts(at):
                return at
            at -= self.step
        raise self._rare(t)

    def contains(self, t: int) -> bool:
        inside = (t - self.offset) % self.step == 0 and self.first <= t <= self.last
        return inside and self.accepts(t)

    def _rare(self, t: int) -> Diagnostic:
        return Diagnostic(
            "SYNC_POINTS_RARE",
            f"{LAZY_LIMIT:,} ticks from {t} on are no points: the filter of CLOCK has to be tried one by one",
            help="use remainders (Timepoint % 60 = 0) or bounds, or a coarser clock: CLOCK(1 MINUTE)",
            kind=Kind.UNSUPPORTED,
        )

    def accepts(self, t: int) -> bool:
        """Whether the predicates hold at t."""
        value = time.to_datetime(t) if self.timestamps else t
        return all(test((value,)) is True for test in self._tests)

    @cached_property
    def _tests(self) -> list[Callable[[Row], Value]]:
        schema = (Field(TIMEPOINT, TIMESTAMP if self.timestamps else BIGINT, nullable=False),)
        return [compile_scalar(p, schema, {}) for p in self.predicates]

    def meet(self, other: Ticks) -> Ticks | None:
        """The ticks of both, by the Chinese remainder theorem.

        >>> Ticks(2).meet(Ticks(3)), Ticks(2).meet(Ticks(4, 1))
        (Ticks(step=6, offset=0, first=-9223372036854775808, last=9223372036854775806, predicates=(),
         timestamps=False), None)
        """
        common = gcd(self.step, other.step)
        if (self.offset - other.offset) % common:
            return None
        ratio = other.step // common
        shift = (other.offset - self.offset) // common * pow(self.step // common, -1, ratio) % ratio
        step = self.step * ratio
        first, last = max(self.first, other.first), min(self.last, other.last)
        if first > last:
            return None
        offset = (self.offset + shift * self.step) % step
        return replace(
            self, step=step, offset=offset, first=first, last=last,
            timestamps=self.timestamps or other.timestamps,
            predicates=tuple(dict.fromkeys(self.predicates + other.predicates)),
        )  # fmt: skip

    def within(self, other: Ticks) -> bool:
        """Whether every tick is one of the other; False where that cannot be told.

        >>> Ticks(4).within(Ticks(2)), Ticks(2).within(Ticks(4))
        (True, False)
        """
        return (
            self.step % other.step == 0
            and (self.offset - other.offset) % other.step == 0
            and other.first <= self.first
            and self.last <= other.last
            and set(other.predicates) <= set(self.predicates)
        )

    def __str__(self) -> str:
        step = time.period(self.step, True).lower() if self.timestamps else f"{self.step} ticks"
        text = "every tick" if self.step == 1 else f"every {step}"
        text += f" from {time.period(self.offset, self.timestamps).lower()}" if self.offset else ""
        text += f", not before {time.moment(self.first, self.timestamps)}" if self.first != time.MIN else ""
        text += f", until {time.moment(self.last, self.timestamps)}" if self.last < time.MAX - 1 else ""
        return text + "".join(
            f", where {p.sql(dialect='spark').replace('c0', TIMEPOINT)}" for p in self.predicates
        )


Classes = tuple[Ticks, ...]
"""The union of residue classes."""


@dataclass(frozen=True)
class Events:
    """The points of a plan without clock; with `within`, only those that are ticks of it."""

    plan: op.Node
    within: Classes | None = None


@dataclass(frozen=True)
class Points:
    """The union of residue classes and events."""

    ticks: Classes = ()
    events: tuple[Events, ...] = ()

    def next_tick(self, t: int) -> int | None:
        """The first tick that is not before t, events apart."""
        found = [n for c in self.ticks if (n := c.next(t)) is not None]
        return min(found, default=None)

    def latest_tick(self, t: int) -> int | None:
        """The last tick that is not after t, events apart."""
        return max((n for c in self.ticks if (n := c.latest(t)) is not None), default=None)

    def ticks_between(self, since: int, upto: int) -> Iterator[int]:
        """The ticks of [since, upto), events apart."""
        at = self.next_tick(since)
        while at is not None and at < upto:
            yield at
            at = self.next_tick(at + 1)

    @cached_property
    def is_every_instant(self) -> bool:
        return any(c == Ticks(1, timestamps=c.timestamps) for c in self.ticks)

    @property
    def period(self) -> int | None:
        """The number whose multiples the points are; None: they are others.

        >>> Points((Ticks(5),)).period, Points((Ticks(5, 1),)).period
        (5, None)
        """
        if self.events or len(self.ticks) != 1:
            return None
        (c,) = self.ticks
        return c.step if c == Ticks(c.step, timestamps=c.timestamps) else None

    def within(self, other: Points) -> bool:
        """Whether every point is one of the other, as far as the definitions tell (proposition 3)."""
        if other.is_every_instant:
            return True
        ticks = all(any(c.within(d) for d in other.ticks) for c in self.ticks)
        return ticks and all(_event_within(e, other) for e in self.events)

    def __str__(self) -> str:
        parts = [str(c) for c in self.ticks]
        for e in self.events:
            inside = f" at {' or '.join(map(str, e.within))}" if e.within is not None else ""
            parts.append(f"events{inside}")
        return "; ".join(parts) or "never"


EVERY_INSTANT = Points((Ticks(1),))


def _event_within(event: Events, other: Points) -> bool:
    if event.within is not None and all(any(c.within(d) for d in other.ticks) for c in event.within):
        return True
    for candidate in other.events:
        if _implies(event.plan, candidate.plan) and (
            candidate.within is None or candidate.within == event.within
        ):
            return True
    return False


def _implies(plan: op.Node, other: op.Node) -> bool:
    """Whether each row of a plan is a row of the other: they are equal, but for filters on the way."""
    while plan != other:
        if isinstance(plan, op.Filter):
            plan = plan.input
        elif isinstance(plan, op.Intersect):
            return _implies(plan.left, other) or _implies(plan.right, other)
        elif isinstance(plan, op.Project) and isinstance(other, op.Project) and (
            plan.expressions == other.expressions and plan.fields == other.fields
        ):  # fmt: skip
            plan, other = plan.input, other.input
        else:
            return False
    return True


def unite(left: Points, right: Points) -> Points:
    return _checked(
        Points(_joined([*left.ticks, *right.ticks]), tuple(dict.fromkeys(left.events + right.events)))
    )


def intersect(left: Points, right: Points) -> Points:
    """(T1 + E1) & (T2 + E2) = T1 & T2 + E1 & T2 + T1 & E2 + E1 & E2."""
    if left.is_every_instant or right.is_every_instant:
        return right if left.is_every_instant else left
    events: list[Events] = []
    for mine, others in ((left.events, right.ticks), (right.events, left.ticks)):
        events += [
            Events(e.plan, others if e.within is None else _met(e.within, others)) for e in mine if others
        ]
    for a in left.events:
        for b in right.events:
            inside = (
                a.within if b.within is None else b.within if a.within is None else _met(a.within, b.within)
            )
            plan = a.plan if a.plan == b.plan else op.Intersect(a.plan, b.plan)
            events.append(Events(plan, inside))
    return _checked(Points(_met(left.ticks, right.ticks), tuple(dict.fromkeys(events))))


def _met(left: Iterable[Ticks], right: Iterable[Ticks]) -> Classes:
    others = tuple(right)
    return _joined([c for a in left for b in others if (c := a.meet(b)) is not None])


def _joined(classes: Iterable[Ticks]) -> Classes:
    """Without classes that are part of another."""
    kept: list[Ticks] = []
    for c in dict.fromkeys(classes):
        if not any(c.within(k) for k in kept):
            kept = [k for k in kept if not k.within(c)] + [c]
    return tuple(sorted(kept, key=lambda c: (c.step, c.offset, c.first, c.last)))


def _checked(points: Points) -> Points:
    if len(points.ticks) > CLASS_LIMIT:
        raise Diagnostic(
            "SYNC_POINTS_COMPLEX",
            f"these points are {len(points.ticks):,} residue classes; at most {CLASS_LIMIT:,} are possible",
            kind=Kind.UNSUPPORTED,
        )
    return points


def points_of(plan: op.Node) -> Points:
    """What a plan of points says, ready to be computed with.

    >>> import sqlglot
    >>> even = op.Filter(Clock(), sqlglot.parse_one("c0 % 2 = 0"))
    >>> str(points_of(op.Intersect(even, op.Filter(Clock(), sqlglot.parse_one("c0 % 3 = 0")))))
    'every 6 ticks'
    """
    if not any(isinstance(n, Clock) for n in plan.walk()):
        return Points((), (Events(plan),))
    match plan:
        case Clock():
            return Points((Ticks(plan.step, timestamps=plan.timestamps),))
        case op.Filter():
            below = points_of(plan.input)
            events = tuple(Events(op.Filter(e.plan, plan.predicate), e.within) for e in below.events)
            ticks: Classes = below.ticks
            for part in conjuncts(plan.predicate):
                ticks = _filtered(ticks, part)
            return _checked(Points(ticks, events))
        case op.Project(expressions=(only,)) if index_of(_uncast(only)) == 0:
            below = points_of(plan.input)
            return Points(
                below.ticks, tuple(Events(plan.with_inputs(e.plan), e.within) for e in below.events)
            )
        case op.Distinct():
            return points_of(plan.input)
        case op.UnionAll():
            return unite(points_of(plan.left), points_of(plan.right))
        case op.Intersect():
            return intersect(points_of(plan.left), points_of(plan.right))
    raise Diagnostic(
        "SYNC_POINTS",
        "points of CLOCK can be filtered, united and intersected; this query does something else with them",
        help="as in SELECT Timepoint FROM CLOCK WHERE Timepoint % 5 = 0 UNION SELECT TS FROM S",
        kind=Kind.UNSUPPORTED,
    )


def _uncast(expression: exp.Expression) -> exp.Expression:
    return expression.this if isinstance(expression, (exp.Cast, exp.Paren)) else expression


def _filtered(classes: Classes, part: exp.Expression) -> Classes:
    if not classes:
        return classes
    arithmetic = _classes(part)
    if arithmetic is not None:
        return _met(classes, arithmetic)
    return tuple(replace(c, predicates=(*c.predicates, part)) for c in classes)


def _classes(part: exp.Expression) -> Classes | None:
    """A condition on c0 as residue classes; None: it is not arithmetic."""
    while isinstance(part, exp.Paren):
        part = part.this
    if isinstance(part, exp.Or):
        left, right = _classes(part.this), _classes(part.expression)
        return None if left is None or right is None else _joined([*left, *right])
    if isinstance(part, exp.And):
        left, right = _classes(part.this), _classes(part.expression)
        return None if left is None or right is None else _met(left, right)
    if isinstance(part, exp.In) and not part.args.get("query"):
        values = [_integer(e) for e in part.expressions]
        if any(v is None for v in values):
            return None
        found = [_equal(part.this, v) for v in values if v is not None]
        return (
            None if any(f is None for f in found) else _joined(c for f in found if f is not None for c in f)
        )
    if isinstance(part, exp.Between):
        low, high = _integer(part.args["low"]), _integer(part.args["high"])
        if low is None or high is None or index_of(part.this) != 0:
            return None
        return (Ticks(1, first=low, last=high),) if low <= high else ()
    if not isinstance(part, tuple(_FLIPPED)):
        return None
    left, right = part.this, part.expression
    kind: type[exp.Expression] = type(part)
    if _integer(left) is not None:
        left, right, kind = right, left, _FLIPPED[kind]
    value = _integer(right)
    if value is None:
        return None
    if kind is exp.EQ:
        return _equal(left, value)
    if index_of(left) != 0:
        return None
    if kind in (exp.GT, exp.GTE):
        return (Ticks(1, first=value + (kind is exp.GT)),)
    return (Ticks(1, last=value - (kind is exp.LT)),)


def _equal(left: exp.Expression, value: int) -> Classes | None:
    """c0 = value, or c0 % n = value: a remainder has the sign of the dividend."""
    while isinstance(left, exp.Paren):
        left = left.this
    if index_of(left) == 0:
        return (Ticks(1, first=value, last=value),)
    if not isinstance(left, exp.Mod) or index_of(_unparen(left.this)) != 0:
        return None
    n = _integer(left.expression)
    if not n or n < 0:
        return None
    if abs(value) >= n:
        return ()
    if value == 0:
        return (Ticks(n),)
    return (Ticks(n, value, first=0),) if value > 0 else (Ticks(n, value % n, last=0),)


def _unparen(expression: exp.Expression) -> exp.Expression:
    return expression.this if isinstance(expression, exp.Paren) else expression


def _integer(expression: exp.Expression) -> int | None:
    expression = _unparen(expression)
    if isinstance(expression, exp.Neg):
        value = _integer(expression.this)
        return None if value is None else -value
    if isinstance(expression, exp.Literal) and not expression.is_string and expression.this.isdigit():
        return int(expression.this)
    if isinstance(expression, exp.Cast) and isinstance(expression.this, exp.Literal):
        moment = compile_scalar(expression, (), {})(())
        return time.to_ticks(moment) if isinstance(moment, datetime) else None
    return None


__all__ = [
    "EVERY_INSTANT", "Classes", "Events", "Points", "Ticks", "intersect", "points_of", "unite",
]  # fmt: skip
