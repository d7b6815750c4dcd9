"""What TUMBLE, HOP and SESSION in FROM mean: the rows of a window once it is complete, with its bounds as columns.

A row of time t is in the windows [start, end) with start <= t < end. In ticks these are the windows (start - 1, end - 1], so a window is
shown from its last instant, end - 1, on: until the next one is complete (TUMBLE, HOP), or at that instant alone (SESSION,
where it is the instant at which the gap has passed).
"""

from __future__ import annotations

from sqlglot import exp

from tidegate.algebra import operators as op
from tidegate.algebra.sequences import SessionWindow
from tidegate.algebra.windows import TimeWindow
from tidegate.errors import Diagnostic, unsupported
from tidegate.language.syntax import Duration
from tidegate.language.window_functions import WindowFunction
from tidegate.language.windows import ticks
from tidegate.scalars.expressions import conjoin, ref, span_of
from tidegate.types import BIGINT, TIMESTAMP, Field, Schema, Type

MOST = 100
"""In so many windows a row of HOP may be."""


def window_function_plan(ast: WindowFunction, plan: op.Node, readable: bool, domain: Type | None) -> op.Node:
    """The stream beneath the function, with its columns, its time, `window_start` and `window_end`."""
    function = ast.args["function"]
    time = plan.schema[-1] if plan.schema else None
    if not readable or domain is None or time is None or not isinstance(plan, op.Scan) or plan.relation:
        raise Diagnostic(
            "WINDOW_ON_TABLE" if domain is None else "WINDOW_OVER_DERIVED",
            f"{function} needs a stream with ORDERED BY; '{ast.name}' is none",
            help=f"window it in FROM: {ast.name} WINDOW(RANGE …)",
        ).at(span_of(ast.this))
    said = ast.args["timecol"]
    if said.name.lower() not in (time.name.lower(), "ts"):
        raise Diagnostic(
            "TIME_DOMAIN",
            f"'{ast.name}' is ordered by '{time.name}', not by '{said.name}'",
            help=f"DESCRIPTOR({time.name})",
        ).at(span_of(said))
    if function == "CUMULATE":
        raise _cumulate(ast, domain)
    if function == "SESSION":
        return _sessions(ast, plan, domain)
    size = ticks(ast.args["size"], domain)
    slide = size if function == "TUMBLE" else ticks(ast.args["slide"], domain)
    start = ast.args.get("start")
    offset = 0 if start is None else ticks(start, domain)
    if size % slide or size // slide > MOST:
        problem = f"more than {MOST} times" if size // slide > MOST else "no multiple of"
        raise Diagnostic("INVALID_WINDOW", f"the size of HOP is {problem} its slide").at(
            span_of(ast.args["size"])
        )
    copies = [_copy(plan, k, size, slide, offset) for k in range(size // slide)]
    union = copies[0]
    for copy in copies[1:]:
        union = op.UnionAll(union, copy)
    return union


def _copy(scan: op.Node, k: int, size: int, slide: int, offset: int) -> op.Node:
    """Each row in the k-th window that it is in, from that window's last instant on for one slide."""
    later = op.Dstream(op.Window(scan, TimeWindow(k * slide))) if k else scan
    shown = op.Window(later, TimeWindow(slide, slide, (offset - 1) % slide))
    time = len(scan.schema) - 1
    kind = scan.schema[time].type
    ticks_of = _ticks_of(ref(time), kind)
    since = exp.paren(_plus(ticks_of, -offset))
    past = _called("PMOD", since, exp.Literal.number(slide))
    end = _plus(exp.Sub(this=ticks_of.copy(), expression=past), (k + 1) * slide)
    return _with_bounds(shown, time, _instant(_plus(end, -size), kind), _instant(end, kind))


def _called(name: str, *arguments: exp.Expression) -> exp.Expression:
    call = exp.func(name, *arguments, dialect="spark")
    assert isinstance(call, exp.Expression)
    return call


def _ticks_of(value: exp.Expression, kind: Type) -> exp.Expression:
    if kind.is_integral:
        return value
    moment = value if kind == TIMESTAMP else exp.cast(value, "TIMESTAMP")
    return _called("UNIX_MICROS", moment)


def _plus(value: exp.Expression, number: int) -> exp.Expression:
    if not number:
        return value
    kind = exp.Add if number > 0 else exp.Sub
    return kind(this=value.copy(), expression=exp.Literal.number(abs(number)))


def _instant(number: exp.Expression, kind: Type) -> exp.Expression:
    """A number of ticks as a value of the stream's time."""
    if kind.is_integral:
        return exp.cast(number, "BIGINT")
    return _called("TIMESTAMP_MICROS", number)


def _with_bounds(plan: op.Node, time: int, start: exp.Expression, end: exp.Expression) -> op.Node:
    """The rows with their time as a column like the others, and the bounds of their window."""
    schema = plan.schema
    keep = [i for i in range(time + 1) if i == time or not schema[i].hidden]
    kind = BIGINT if schema[time].type.is_integral else TIMESTAMP
    fields: Schema = (
        *(Field(schema[i].name, schema[i].type, schema[i].nullable) for i in keep),
        Field("window_start", kind, False),
        Field("window_end", kind, False),
    )
    return op.Project(plan, (*(ref(i) for i in keep), start, end), fields)


def _sessions(ast: WindowFunction, scan: op.Node, domain: Type) -> op.Node:
    """Each session once, whole, when it is over."""
    gap = ticks(ast.args["gap"], domain)
    names = {f.name.lower(): i for i, f in enumerate(scan.schema)}
    keys = []
    for column in ast.args.get("partition") or []:
        if column.name.lower() not in names:
            raise Diagnostic("UNKNOWN_COLUMN", f"there is no column '{column.name}'").at(span_of(column))
        keys.append(names[column.name.lower()])
    over = op.Dstream(op.Window(scan, SessionWindow(gap), tuple(keys)))
    time, width = len(scan.schema) - 1, len(scan.schema)
    kind = scan.schema[time].type
    bounds = op.Aggregate(
        over,
        tuple(keys),
        (
            op.Aggregation("MIN", (time,), kind, "first", nullable=False),
            op.Aggregation("MAX", (time,), kind, "last", nullable=False),
        ),
    )
    same = conjoin([exp.NullSafeEQ(this=ref(k), expression=ref(width + i)) for i, k in enumerate(keys)])
    joined = op.Join(over, bounds, "inner", same)
    first, last = (_ticks_of(ref(width + len(keys) + i), kind) for i in (0, 1))
    return _with_bounds(joined, time, _instant(first, kind), _instant(_plus(last, gap), kind))


def _cumulate(ast: WindowFunction, domain: Type) -> Diagnostic:
    step, size = ast.args["step"], ast.args["size"]
    times = ticks(size, domain) // ticks(step, domain)
    one = "INTERVAL 1 MICROSECOND" if domain == TIMESTAMP else "1"
    # windows whose bounds are not linear are listed one by one, so they begin near their rows
    near = " STARTING AT TIMESTAMP '2026-01-01 00:00:00'" if domain == TIMESTAMP else ""
    unit = f"INTERVAL {_said(step)}" if domain == TIMESTAMP else _said(step)
    return unsupported(
        "CUMULATE is a window whose lower bound stays",
        help=f"FROM {ast.name} WINDOW(FROM (i - i % {times}) * {unit} TO (i + 1) * {unit} - {one} EVERY {_said(step)}{near})",
    ).at(span_of(ast.this))


def _said(duration: Duration) -> str:
    return f"{duration.this} {duration.args.get('unit') or ''}".strip()
