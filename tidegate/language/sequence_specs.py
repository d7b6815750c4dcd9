"""Window sequences bound: expressions of i and NOW become formulas in ticks or rows, and illegal ones are refused."""

from __future__ import annotations

from sqlglot import exp

from tidegate import time
from tidegate.algebra.sequence_validity import check_sequence
from tidegate.algebra.sequences import (
    NOW,
    NUMBER,
    Formula,
    Loop,
    Periodic,
    Schedule,
    SessionWindow,
    Varying,
    WindowSequence,
    formula_schema,
    invalid,
)
from tidegate.errors import Diagnostic, did_you_mean
from tidegate.language.sequences import Quantity, SequenceWindow
from tidegate.scalars.expressions import ref, references, span_of
from tidegate.scalars.typing import infer
from tidegate.types import BIGINT, BOOLEAN, INTERVAL, TIMESTAMP, Type


def sequence_spec(window: SequenceWindow, domain: Type) -> WindowSequence | SessionWindow:
    """The specification that a clause describes, checked as far as it can be before any row."""
    names = Names(domain)
    args = window.args
    if args["frame"] == "SESSION":
        gap = names.constant(args["gap"], "the gap")
        if args["gap"].in_rows:
            raise invalid("the gap of a session is a time, not a number of rows", span_of(args["gap"]))
        if gap <= 0:
            raise invalid("the gap of a session must be positive", span_of(args["gap"]))
        return SessionWindow(gap)
    if args["frame"] == "FOR":
        spec = _loop(window, domain)
    else:
        lower, upper = names.bound(args["lower"]), names.bound(args["upper"])
        rows = _same_domain(args["lower"], args["upper"])
        start = names.instant(args["start"]) if args.get("start") is not None else None
        spec = WindowSequence(lower, upper, _schedule(window, names), rows, start)
    _check_now(spec)
    check_sequence(spec)
    return spec


def _same_domain(lower: Quantity, upper: Quantity) -> bool:
    if lower.in_rows != upper.in_rows:
        raise invalid(
            "one bound is in rows, the other in time",
            span_of(lower if not lower.in_rows else upper),
            "give both bounds in time, or both followed by ROWS",
        )
    return lower.in_rows


def _schedule(window: SequenceWindow, names: Names) -> Schedule:
    every, delay = window.args["every"], window.args.get("delay")
    rate = names.formula(every, distance=True)
    if NUMBER in references(rate.expression):
        raise invalid("the rate may depend on NOW, not on i", span_of(every), "put i into the bounds")
    if delay is not None and delay.in_rows != every.in_rows:
        raise invalid("the delay is in time if the rate is, and in rows if the rate is", span_of(delay))
    pause = 0
    if delay is not None:
        pause = names.constant(delay, "the delay")
        if pause < 0:
            raise invalid("the delay must not be negative", span_of(delay))
    if rate.reads_now:
        if every.in_rows:
            raise invalid("a rate that depends on NOW is in time, not in rows", span_of(every))
        return Varying(rate, pause)
    amount = names.constant(every, "the rate")
    if amount <= 0:
        raise invalid("the rate must be positive", span_of(every))
    return Periodic(amount, every.in_rows, pause)


def _loop(window: SequenceWindow, domain: Type) -> WindowSequence:
    args = window.args
    rows = _same_domain(args["lower"], args["upper"])
    # Where bounds are positions, so is the variable: each window is shown by the row at it.
    names = Names(BIGINT if rows else domain, args["variable"].name)
    first = names.instant(args["start"])
    proceed = names.bind(args["proceed"])
    found = infer(proceed, formula_schema(names.timestamps), {}).type
    if found != BOOLEAN:
        raise Diagnostic("TYPE_MISMATCH", f"WHILE needs a condition, found {found}").at(
            span_of(args["proceed"])
        )
    condition = Formula(proceed, 1, names.timestamps, span_of(args["proceed"]))
    step = names.formula(Quantity(this=args["step"]), distance=False, span=span_of(args["step"]))
    lower, upper = names.bound(args["lower"]), names.bound(args["upper"])
    return WindowSequence(lower, upper, Loop(first, condition, step), rows)


def _check_now(spec: WindowSequence) -> None:
    for bound in (spec.lower, spec.upper):
        if not bound.reads_now:
            continue
        if spec.rows and not isinstance(spec.schedule, Loop):
            raise invalid("positions depend on i, not on NOW", bound.span)
        if spec.counts_rows and not spec.rows:
            raise invalid(
                "a bound that reads NOW needs a rate in time",
                bound.span,
                "use an expression of i, or RANGE … SLIDE … ROWS",
            )


class Names:
    """What a clause may name: i and NOW, or the variable of its loop; and how its values become ticks."""

    def __init__(self, domain: Type, variable: str | None = None) -> None:
        self.timestamps = domain == TIMESTAMP
        self.variable = variable

    def bind(self, expression: exp.Expression) -> exp.Expression:
        known = {self.variable.lower(): NOW} if self.variable else {"i": NUMBER, "now": NOW}

        def visit(node: exp.Expression) -> exp.Expression:
            if isinstance(node, exp.CurrentTimestamp) and self.variable is None:
                return ref(NOW, node)
            if isinstance(node, exp.Column):
                place = known.get(node.name.lower()) if not node.args.get("table") else None
                if place is None:
                    raise Diagnostic(
                        "UNKNOWN_COLUMN",
                        f"there is no '{node.name}' in a window's bounds",
                        help=did_you_mean(
                            node.name, [self.variable] if self.variable else ["i", "NOW"], "names"
                        ),
                    ).at(span_of(node))
                return ref(place, node)
            if isinstance(node, (exp.Query, exp.AggFunc)):
                raise invalid("a window's bounds are made of i, NOW and constants", span_of(node))
            return node

        return expression.copy().transform(visit, copy=False)

    def formula(self, quantity: Quantity, distance: bool, span: tuple[int, int] | None = None) -> Formula:
        """A quantity as a formula; a `distance` is a number or an interval, otherwise an instant."""
        at = span or span_of(quantity)
        expression = self.bind(quantity.this)
        type_ = infer(expression, formula_schema(self.timestamps), {}).type
        unit = self._unit(quantity)
        allowed = type_.is_numeric
        if not distance and self.timestamps:
            allowed = type_ == TIMESTAMP and quantity.args.get("unit") is None
        elif type_ == INTERVAL:
            allowed = self.timestamps and quantity.args.get("unit") is None
        if not allowed:
            wanted = "a distance in time or a number" if distance else "an instant"
            help = (
                "INTERVAL 10 MINUTES is a distance, NOW - INTERVAL 10 MINUTES an instant"
                if self.timestamps
                else None
            )
            raise Diagnostic("TYPE_MISMATCH", f"expected {wanted}, found {type_}", help=help).at(at)
        return Formula(expression, unit, self.timestamps, at)

    def bound(self, quantity: Quantity) -> Formula:
        """A bound: an instant if it reads NOW (or stands in a loop), otherwise a distance from the start, or a position."""
        instant = self.variable is not None or NOW in references(self.bind(quantity.this))
        return self.formula(quantity, distance=not instant or quantity.in_rows)

    def constant(self, quantity: Quantity, what: str) -> int:
        formula = self.formula(quantity, distance=True)
        if references(formula.expression):
            raise invalid(f"{what} is a constant", formula.span)
        return formula.function(0, 0)

    def instant(self, expression: exp.Expression) -> int:
        formula = self.formula(Quantity(this=expression), distance=False, span=span_of(expression))
        if references(formula.expression):
            raise invalid("the start is a constant", formula.span)
        return formula.function(0, 0)

    def _unit(self, quantity: Quantity) -> int:
        unit = quantity.args.get("unit")
        if unit is None or quantity.in_rows:
            return 1
        if unit.upper() not in time.UNITS:
            units = [u.lower() for u in time.UNITS if u.endswith("S")]
            raise Diagnostic(
                "UNKNOWN_UNIT",
                f"there is no unit '{unit}'",
                help=did_you_mean(unit, [*units, "rows"], "units"),
            ).at(span_of(quantity))
        if not self.timestamps:
            raise Diagnostic(
                "TIME_DOMAIN",
                f"'{unit}' needs a stream ordered by a TIMESTAMP; this one ticks in integers",
                help="give a bare number of ticks",
            ).at(span_of(quantity))
        return time.UNITS[unit.upper()]
