"""Window clauses to window specifications: units, domains, and what a window may stand on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import gcd

from sqlglot import exp

from tidegate import time
from tidegate.algebra import operators as op
from tidegate.algebra.batches import is_raw
from tidegate.algebra.modify import Clock, Restrict, Sync
from tidegate.algebra.now import literal
from tidegate.algebra.properties import properties
from tidegate.algebra.sequences import WindowSequence
from tidegate.algebra.synchronization import BINARY, UNARY
from tidegate.algebra.windows import (
    RowsEveryTime,
    RowWindow,
    TimeEveryRows,
    TimeWindow,
    WindowSpec,
    is_temporal,
)
from tidegate.errors import Diagnostic, did_you_mean
from tidegate.language.sequence_specs import Names, sequence_spec
from tidegate.language.sequences import SequenceWindow
from tidegate.language.syntax import Duration, StreamWindow
from tidegate.scalars.expressions import index_of, ref, span_of
from tidegate.types import BIGINT, TIMESTAMP, Type


def ticks(duration: Duration, domain: Type | None) -> int:
    """A duration in ticks of the stream's time; a bare number is ticks."""
    number, unit = int(duration.this), duration.args.get("unit")
    if unit is None or unit.upper() in ("TICK", "TICKS"):
        return number
    if unit.upper() not in time.UNITS:
        units = [u.lower() for u in time.UNITS if u.endswith("S")]
        raise Diagnostic(
            "UNKNOWN_UNIT", f"there is no unit '{unit}'", help=did_you_mean(unit, units, "units")
        ).at(span_of(duration))
    if domain != TIMESTAMP:
        raise Diagnostic(
            "TIME_DOMAIN",
            f"'{unit}' needs a stream ordered by a TIMESTAMP; this one ticks in integers",
            help="give a bare number of ticks",
        ).at(span_of(duration))
    found = number * time.UNITS[unit.upper()]
    if found > time.MAX // 2:
        raise Diagnostic("INVALID_WINDOW", f"{number} {unit} are longer than time is").at(span_of(duration))
    return found


def window_spec(window: StreamWindow, domain: Type | None) -> WindowSpec:
    """Which window kind a clause is."""
    if isinstance(window, SequenceWindow):
        assert domain is not None
        return sequence_spec(window, domain)
    size: Duration | None = window.args.get("size")
    slide: Duration | None = window.args.get("slide")
    start = start_of(window, domain) or 0
    if window.args["frame"] == "ROWS":
        if size is not None and size.args.get("unit") is not None and not size.in_rows:
            raise _wrong_unit("ROWS counts rows", size)
        rows = None if size is None else int(size.this)
        if slide is None:
            return RowWindow(rows)
        if slide.in_rows or slide.args.get("unit") is None:
            return RowWindow(rows, int(slide.this))
        period = ticks(slide, domain)
        return RowsEveryTime(rows, period, start % period)
    if size is not None and size.in_rows:
        raise _wrong_unit("RANGE is a period of time", size)
    span = None if size is None else ticks(size, domain)
    if slide is not None and slide.in_rows:
        return TimeEveryRows(span, int(slide.this))
    step = 1 if slide is None else ticks(slide, domain)
    return TimeWindow(span, step, start % step)


def start_of(window: StreamWindow, domain: Type | None) -> int | None:
    """The instant at which slides begin."""
    start = window.args.get("start")
    if start is None or isinstance(window, SequenceWindow):
        return None
    assert domain is not None
    return Names(domain).instant(start)


def begun(input: op.Node, start: int, domain: Type) -> op.Node:
    """The stream from an instant on: a window that starts there sees no earlier row, nor counts any."""
    if not is_raw(input):
        condition = exp.GTE(this=ref(len(input.schema)), expression=literal(start, domain))
        return Restrict(input, condition, domain == TIMESTAMP)
    if isinstance(input, op.Scan):
        last = len(input.schema) - 1
        kind = input.schema[last].type
        at = literal(start, kind if domain == TIMESTAMP else BIGINT)
        return op.Filter(input, exp.GTE(this=ref(last), expression=at))
    (below,) = input.inputs
    above: op.Node = input.with_inputs(begun(below, start, domain))
    return above


def _wrong_unit(what: str, duration: Duration) -> Diagnostic:
    return Diagnostic("INVALID_WINDOW", f"{what}, not '{duration.args['unit']}'").at(span_of(duration))


def apply_window(
    input: op.Node,
    window: StreamWindow,
    domain: Type | None,
    resolve: Callable[[exp.Expression], exp.Expression],
) -> op.Node:
    """The window above the stream it follows (PIPES section 5.1). A now-window changes nothing and is left out.

    `GRANULARITY g`: what the window shows changes at multiples of g only, `snapshot(W, t) = snapshot(W, t // g * g)`; a derived stream is
    windowed as if its instants were those multiples. A window over a stream that has a granularity has the same.
    """
    if domain is None:
        raise Diagnostic(
            "WINDOW_ON_TABLE",
            "a table has no time to window: its rows are valid at every instant",
            help="leave the window out",
        ).at(span_of(window))
    spec = window_spec(window, domain)
    partition = []
    for column in window.args.get("partition") or []:
        index = index_of(resolve(column))
        if index is None:
            raise Diagnostic("INVALID_WINDOW", "PARTITION BY takes columns").at(span_of(column))
        partition.append(index)
    granularity: Duration | None = window.args.get("granularity")
    granule = granule_of(input) if granularity is None else ticks(granularity, domain)
    if is_temporal(spec):
        partition = []  # every row has its own validity: partitions change nothing
        if isinstance(spec, TimeWindow) and spec.is_now and granule == 1:
            return input
    start = start_of(window, domain)
    if isinstance(input, op.Rstream) and isinstance(spec, TimeWindow) and granule == 1:
        # What is repeated at the points, windowed, is the answer itself, windowed at these points: it may be without end.
        repeated = input.input if start is None else begun(input.input, start, domain)
        return op.Window(repeated, spec, (), input.period)
    input = input if start is None else begun(input, start, domain)
    shown = op.Window(input, spec, tuple(partition), 1 if is_raw(input) else granule)
    return shown if granule == 1 else Sync(shown, Clock(granule, timestamps=domain == TIMESTAMP))


def granule_of(plan: op.Node) -> int:
    """The granularity that the windows below a derived stream were given; 1: none, or it is a raw stream.

    >>> s = op.Scan("S", ())
    >>> sampled = Sync(op.Window(s, TimeWindow(60)), Clock(10))
    >>> granule_of(op.Distinct(sampled)), granule_of(op.UnionAll(sampled, s))
    (10, 1)
    """
    return 1 if is_raw(plan) else _declared(plan) or 1


def _declared(plan: op.Node) -> int:
    """As `granule_of`; 0 for what never changes."""
    if isinstance(plan, Sync):
        return plan.points.step if isinstance(plan.input, op.Window) and isinstance(plan.points, Clock) else 1
    if isinstance(plan, (*UNARY, *BINARY)):
        return gcd(*map(_declared, plan.inputs))
    return 0 if properties(plan).constant else 1


def unplaced(plan: op.Node) -> op.Node:
    """A window without its places: inside a view they belong to another text than the query's."""
    if not isinstance(plan, op.Window) or not isinstance(plan.spec, WindowSequence):
        return plan
    return replace(plan, spec=plan.spec.unplaced())
