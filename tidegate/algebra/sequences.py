"""Window sequences as data (SPEC section 4): bounds as functions of i, and the moments at which windows are shown.

A sequence numbers its windows i = 0, 1, 2, …; window i holds the rows from `lower(i)` to `upper(i)`, both included,
and is shown from its moment until the moment of window i + 1 (Astral, definitions 8 to 12). Bounds and rates are in
ticks or in row positions. What is shown is in `sequence_meaning`; how it is found quickly is in `timetables`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from math import floor, isfinite

from sqlglot import exp

from tidegate import time
from tidegate.errors import Diagnostic
from tidegate.scalars.expressions import index_of, references, substitute
from tidegate.scalars.meaning import compile_scalar
from tidegate.types import BIGINT, TIMESTAMP, Field, Schema

NUMBER, NOW = 0, 1
"""The positions that a formula reads: the window's number i, and the moment at which the window is shown."""

Span = tuple[int, int] | None


def formula_schema(timestamps: bool) -> Schema:
    """What a formula sees: i, and NOW in the type of the stream's time."""
    return (Field("i", BIGINT, False), Field("NOW", TIMESTAMP if timestamps else BIGINT, False))


@dataclass(frozen=True)
class Line:
    """min(max(slope * i + offset, least), most)

    >>> [Line(2, -4, least=0)(i) for i in range(4)]
    [0, 0, 0, 2]
    """

    slope: int
    offset: int
    least: int | None = None
    most: int | None = None

    def __call__(self, i: int) -> int:
        value = self.slope * i + self.offset
        value = value if self.least is None else max(value, self.least)
        return value if self.most is None else min(value, self.most)

    @property
    def is_constant(self) -> bool:
        return self.slope == 0

    @property
    def final_slope(self) -> int:
        """How it grows in the end."""
        stops = self.most if self.slope > 0 else self.least
        return self.slope if stops is None else 0

    @property
    def corners(self) -> list[int]:
        """The numbers around which it may change its slope."""
        limits = [limit for limit in (self.least, self.most) if limit is not None]
        if self.slope == 0:
            return []
        return [max(0, (limit - self.offset) // self.slope + k) for limit in limits for k in (0, 1)]


@dataclass(frozen=True)
class Formula:
    """A number of ticks or rows as a function of i (`c0`) and NOW (`c1`); fractions of a tick are cut off.

    >>> from sqlglot import parse_one
    >>> Formula(parse_one("2 * c0 + 3"), unit=1000).function(5, 0)
    13000
    """

    expression: exp.Expression
    unit: int = 1
    timestamps: bool = False
    span: Span = field(default=None, compare=False)

    def __str__(self) -> str:
        names = {NUMBER: "i", NOW: "NOW"}
        expression = substitute(self.expression, lambda index: exp.column(names[index]))
        if self.timestamps and (unit := time.unit_named(self.unit)) is not None:
            return f"{expression.sql(dialect='spark')} {unit}"
        if self.unit != 1:
            expression = exp.Mul(this=exp.paren(expression), expression=exp.Literal.number(self.unit))
        return expression.sql(dialect="spark")

    @property
    def reads_now(self) -> bool:
        return NOW in references(self.expression)

    def unplaced(self) -> Formula:
        """The same formula, of which nobody knows where it stood."""
        expression = self.expression.copy()
        for node in expression.walk():
            node.meta.clear()
        return replace(self, expression=expression, span=None)

    @property
    def function(self) -> Callable[[int, int], int]:
        """(i, NOW in ticks) to ticks or rows."""
        return _function(self)

    @property
    def line(self) -> Line | None:
        """The formula as a clamped line of i, where it is one."""
        return _line(self)


@lru_cache(maxsize=256)
def _function(formula: Formula) -> Callable[[int, int], int]:
    scalar = compile_scalar(formula.expression, formula_schema(formula.timestamps), {})
    unit, span, timestamps = formula.unit, formula.span, formula.timestamps

    def value(i: int, now: int) -> int:
        found = scalar((i, time.to_datetime(now) if timestamps else now))
        if isinstance(found, int):
            return found * unit
        if isinstance(found, (float, Decimal)) and isfinite(found):
            return floor(Fraction(found) * unit)
        if isinstance(found, datetime):
            return time.to_ticks(found)
        if isinstance(found, timedelta):
            return found // timedelta(microseconds=1)
        raise invalid(f"this is {'NULL' if found is None else found} for window {i}", span)

    return value


@lru_cache(maxsize=256)
def holds(formula: Formula) -> Callable[[int], bool]:
    """A condition on NOW."""
    scalar = compile_scalar(formula.expression, formula_schema(formula.timestamps), {})
    timestamps = formula.timestamps
    return lambda now: scalar((0, time.to_datetime(now) if timestamps else now)) is True


@dataclass(frozen=True)
class _Ramp:
    slope: Fraction
    offset: Fraction
    least: Fraction | None = None
    most: Fraction | None = None

    @property
    def constant(self) -> Fraction | None:
        return self.offset if self.slope == 0 and self.least is None and self.most is None else None

    def scaled(self, by: Fraction) -> _Ramp:
        least, most = (None if x is None else x * by for x in (self.least, self.most))
        if by < 0:
            least, most = most, least
        return _Ramp(self.slope * by, self.offset * by, least, most)

    def raised(self, by: Fraction) -> _Ramp:
        least, most = (None if x is None else x + by for x in (self.least, self.most))
        return _Ramp(self.slope, self.offset + by, least, most)


@lru_cache(maxsize=256)
def _line(formula: Formula) -> Line | None:
    ramp = _ramp(formula.expression)
    if ramp is None:
        return None
    ramp = ramp.scaled(Fraction(formula.unit))
    parts = (ramp.slope, ramp.offset, ramp.least, ramp.most)
    if any(x is not None and x.denominator != 1 for x in parts):
        return None
    least, most = (None if x is None else int(x) for x in parts[2:])
    return Line(int(ramp.slope), int(ramp.offset), least, most)


def _ramp(node: exp.Expression) -> _Ramp | None:
    if isinstance(node, exp.Paren):
        return _ramp(node.this)
    if index_of(node) == NUMBER:
        return _Ramp(Fraction(1), Fraction(0))
    if isinstance(node, exp.Literal) and not node.is_string:
        # A number with an exponent is a DOUBLE: its arithmetic is not exact.
        return None if "e" in node.this.lower() else _Ramp(Fraction(0), Fraction(node.this))
    if isinstance(node, exp.Interval):
        unit = node.args.get("unit")
        ticks = time.UNITS.get(unit.name.upper()) if unit is not None else None
        if ticks is None or not isinstance(node.this, exp.Literal) or not node.this.this.isdigit():
            return None
        return _Ramp(Fraction(0), Fraction(int(node.this.this) * ticks))
    if isinstance(node, exp.Neg):
        inner = _ramp(node.this)
        return inner.scaled(Fraction(-1)) if inner is not None else None
    if isinstance(node, (exp.Greatest, exp.Least)):
        return _clamped(node)
    if isinstance(node, (exp.Add, exp.Sub, exp.Mul)):
        left, right = _ramp(node.this), _ramp(node.expression)
        if left is None or right is None:
            return None
        if isinstance(node, exp.Sub):
            right = right.scaled(Fraction(-1))
        return _combined(left, right, isinstance(node, exp.Mul))
    return None


def _combined(left: _Ramp, right: _Ramp, product: bool) -> _Ramp | None:
    if right.constant is None:
        left, right = right, left
    if right.constant is not None:
        return left.scaled(right.constant) if product else left.raised(right.constant)
    clamped = any(x is not None for r in (left, right) for x in (r.least, r.most))
    return None if product or clamped else _Ramp(left.slope + right.slope, left.offset + right.offset)


def _clamped(node: exp.Expression) -> _Ramp | None:
    """GREATEST or LEAST of one line and constants."""
    arguments = [_ramp(a) for a in (node.this, *node.expressions)]
    if any(a is None for a in arguments):
        return None
    found = [a for a in arguments if a is not None]
    moving = [a for a in found if a.constant is None]
    constants = [a.constant for a in found if a.constant is not None]
    if len(moving) > 1 or not constants:
        return None
    raises = isinstance(node, exp.Greatest)
    limit = max(constants) if raises else min(constants)
    if not moving:
        return _Ramp(Fraction(0), limit)
    (ramp,) = moving
    least = ramp.least if not raises else limit if ramp.least is None else max(limit, ramp.least)
    most = ramp.most if raises else limit if ramp.most is None else min(limit, ramp.most)
    # A limit beyond the other one would be clamped in the wrong order.
    return (
        None
        if least is not None and most is not None and least > most
        else _Ramp(ramp.slope, ramp.offset, least, most)
    )


@dataclass(frozen=True)
class Periodic:
    """Window i is shown at upper(0) + delay + i * rate: an instant, or (`rows`) the row at that position.

    If bounds and rate differ in their domain, upper(0) stands for the instant of that row, or for the position that
    the stream has reached at that instant (Astral, definition 9).
    """

    rate: int
    rows: bool = False
    delay: int = 0


@dataclass(frozen=True)
class Varying:
    """A rate that changes with time (Astral, example 5): at t the latest moment is b + floor((t - b) / rate(t)) * rate(t).

    The first moment b is upper(0) + delay, or start + delay if upper reads NOW itself. A moment that would lie before the
    latest one changes nothing. The rate is asked at whole minutes (integer time: at every tick) and at moments.
    """

    rate: Formula
    delay: int = 0

    def moments(self, first: int) -> Iterator[tuple[int, int]]:
        """When a window is shown, and the moment that it is of: NOW in its bounds."""
        shown = latest = first
        yield shown, latest
        while True:
            rate = self._rate(shown)
            following = first + ((shown - first) // rate + 1) * rate
            shown = self._until(shown, following, rate)
            rate = self._rate(shown)
            moment = first + (shown - first) // rate * rate
            if moment > latest:
                latest = moment
                yield shown, latest

    def _until(self, since: int, upto: int, rate: int) -> int:
        """The first instant after `since` with another rate, but not after `upto`."""
        grain: int = max(time.UNITS["MINUTE"] if self.rate.timestamps else 1, (upto - since) // 1_000)
        for probe in (*range(time.next_multiple(since + 1, grain), upto, grain), upto):
            if self._rate(probe) != rate:
                low: int = since
                high: int = probe
                while high - low > 1:
                    middle = (low + high) // 2
                    low, high = (middle, high) if self._rate(middle) == rate else (low, middle)
                return high
            since = probe
        return upto

    def _rate(self, instant: int) -> int:
        found: int = self.rate.function(0, instant)
        if found <= 0:
            raise invalid(f"the rate at {instant} is not positive", self.rate.span)
        return found


@dataclass(frozen=True)
class Loop:
    """`FOR t = first WHILE proceed STEP step`: windows are shown at u0 = first, u(i+1) = step(ui) while proceed(ui).

    The last one stays (Astral, section 6.1.4). NOW is the loop's variable: an instant, or where bounds are in rows the position
    of the row that shows the window.
    """

    first: int
    proceed: Formula
    step: Formula


Schedule = Periodic | Varying | Loop


@dataclass(frozen=True)
class WindowSequence:
    """`FROM lower TO upper EVERY …`: window i holds the rows from lower(i) to upper(i), both included.

    Bounds in time are distances from `start` (None: the origin of time), or instants if they read NOW; bounds in
    rows are positions, the first row not before `start` being 1.

    >>> from sqlglot import parse_one
    >>> lower, upper = Formula(parse_one("2 * c0")), Formula(parse_one("2 * c0 + 3"))
    >>> print(WindowSequence(lower, upper, Periodic(2, delay=1), start=7))
    FROM 2 * i TO 2 * i + 3 EVERY 2 DELAY 1 STARTING AT 7
    """

    lower: Formula
    upper: Formula
    schedule: Schedule
    rows: bool = False
    start: int | None = None

    def __str__(self) -> str:
        unit, timestamps = " ROWS" if self.rows else "", self.lower.timestamps
        bounds = f"FROM {self.lower}{unit} TO {self.upper}{unit}"
        schedule = self.schedule
        if isinstance(schedule, Loop):
            first = time.moment(schedule.first, timestamps and not self.rows)
            return f"FOR NOW = {first} WHILE {schedule.proceed} STEP {schedule.step} {bounds}"
        in_rows = isinstance(schedule, Periodic) and schedule.rows
        by, moments = " ROWS" if in_rows else "", timestamps and not in_rows
        rate = time.period(schedule.rate, moments) if isinstance(schedule, Periodic) else str(schedule.rate)
        delay = f" DELAY {time.period(schedule.delay, moments)}{by}" if schedule.delay else ""
        text = f"{bounds} EVERY {rate}{by}{delay}"
        return text if self.start is None else f"{text} STARTING AT {time.moment(self.start, moments)}"

    def unplaced(self) -> WindowSequence:
        schedule = self.schedule
        if isinstance(schedule, Varying):
            schedule = replace(schedule, rate=schedule.rate.unplaced())
        elif isinstance(schedule, Loop):
            schedule = replace(schedule, proceed=schedule.proceed.unplaced(), step=schedule.step.unplaced())
        return replace(self, lower=self.lower.unplaced(), upper=self.upper.unplaced(), schedule=schedule)

    @property
    def origin(self) -> int:
        return 0 if self.start is None else self.start

    @property
    def earliest(self) -> int | None:
        """The least lower bound that exists."""
        if self.rows:
            return 1
        return self.start if isinstance(self.schedule, Loop) else self.origin

    @property
    def counts_rows(self) -> bool:
        """Whether positions decide anything, so that a row's validity depends on other rows."""
        return self.rows or (isinstance(self.schedule, Periodic) and self.schedule.rows)

    def bounds(self, i: int, now: int) -> tuple[int, int]:
        """lower and upper of window i shown at `now`, as instants or positions."""
        lower, upper = (
            f.function(i, now)
            + (0 if self.rows or f.reads_now or isinstance(self.schedule, Loop) else self.origin)
            for f in (self.lower, self.upper)
        )
        return lower, upper


@dataclass(frozen=True)
class SessionWindow:
    """`SESSION gap`: while a session lasts, all its rows so far.

    A session is a longest run of rows of which each is less than `gap` ticks after the one before; it lasts until
    `gap` ticks after its last row. So (e, t) is valid in [t, last + gap), with last the time of the session's last row.
    """

    gap: int

    def __str__(self) -> str:
        return f"SESSION {self.gap}"


def invalid(message: str, span: Span, help: str | None = None) -> Diagnostic:
    return Diagnostic("INVALID_WINDOW", message, help=help).at(span)


def check_window(spec: WindowSequence, i: int, lower: int, upper: int, moment: int | None) -> None:
    """The conditions of definitions 8 and 12 on window i; `moment` (in the bounds' domain) where it is known.

    The beginning is before the end, the beginning exists, the end is reached when the window is shown.
    """

    def say(value: int) -> str:
        is_instant = spec.lower.timestamps and not spec.rows
        return time.to_datetime(value).isoformat(" ").removesuffix("+00:00") if is_instant else str(value)

    if lower > upper:
        raise invalid(f"window {i} would begin ({say(lower)}) after its end ({say(upper)})", spec.lower.span)
    if spec.earliest is not None and lower < spec.earliest:
        what = "row 1, the first one" if spec.rows else f"{say(spec.earliest)}, where the sequence starts"
        help = None if spec.rows else "GREATEST(…, 0) gives the first windows a shorter range"
        raise invalid(f"window {i} would begin at {say(lower)}, before {what}", spec.lower.span, help)
    if moment is not None and upper > moment:
        raise invalid(
            f"window {i} would be shown at {say(moment)}, before its end at {say(upper)} is reached",
            spec.upper.span,
            "the upper bound must not advance faster than the windows are shown",
        )


def unreachable(spec: WindowSequence, i: int) -> Diagnostic:
    """A row came that belongs to a window which has been shown without it."""
    return invalid(
        f"window {i} was shown before its end was reached: a later row belongs to it (the upper bound is {spec.upper})",
        spec.upper.span,
        "let the upper bound advance no faster than rows arrive, or add DELAY",
    )
