"""Quality ranges to knobs: what the runtime may choose, of which stream, and which windows it can be chosen for.

Size and granule can be chosen where the time of a row alone says when it is seen: for windows in time over a raw stream. In a window of rows, the end of a row is
the time of another, and under two granules it might come before its beginning.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from tidegate.algebra import operators as op
from tidegate.algebra.batches import is_raw
from tidegate.algebra.modify import Clock, Sync
from tidegate.algebra.quality import Kind, Knob, RangedWindow
from tidegate.errors import Diagnostic, unsupported
from tidegate.language import syntax
from tidegate.language.catalog import Catalog, StreamDefinition
from tidegate.language.quality_syntax import QualityRange
from tidegate.language.windows import apply_window, begun, start_of, ticks
from tidegate.scalars.expressions import span_of
from tidegate.time import period
from tidegate.types import TIMESTAMP, Type

Resolve = Callable[[exp.Expression], exp.Expression]


def apply_quality(
    input: op.Node, window: syntax.StreamWindow, domain: Type | None, resolve: Resolve, catalog: Catalog
) -> op.Node:
    """The window above the stream that it follows: as `apply_window` says, or with what the runtime may choose."""
    size, granularity = window.args.get("size"), window.args.get("granularity")
    ranges = [r for r in (size, granularity) if isinstance(r, QualityRange)]
    stream = _stream(input, catalog)
    shared = None if stream is None or granularity is not None else stream.granularity
    if not ranges and (shared is None or not _is_plain(window, domain)):
        if (priority := window.args.get("priority")) is not None:
            raise Diagnostic(
                "INVALID_WINDOW",
                "PRIORITY weighs a quality range",
                help="as in RANGE BETWEEN 5 AND 60 PRIORITY 3",
            ).at(span_of(priority))
        return apply_window(input, window, domain, resolve)
    slide: syntax.Duration | None = window.args.get("slide")
    if domain is None:
        return apply_window(input, window, domain, resolve)
    if slide is not None and slide.in_rows:
        raise unsupported(
            "a window that is renewed by rows has no quality range",
            help="give the slide in time, or one size",
        ).at(span_of(ranges[0]))
    if stream is None:
        raise unsupported(
            "a quality range is chosen for rows of a stream as they come, and this is a derived stream",
            help="give the range where the stream is read: FROM (SELECT … FROM S WINDOW(RANGE BETWEEN …))",
        ).at(span_of(ranges[0]))
    for column in window.args.get("partition") or []:
        resolve(column)  # every row has its own validity: partitions change nothing
    return _ranged(input, window, domain, stream)


def _ranged(input: op.Node, window: syntax.StreamWindow, domain: Type, stream: StreamDefinition) -> op.Node:
    size, granularity, slide = (window.args.get(name) for name in ("size", "granularity", "slide"))
    priority = _priority(window)

    def chosen(kind: Kind, given: exp.Expression | None) -> Knob | int | None:
        if isinstance(given, QualityRange):
            return knob_of(kind, given, stream.name, domain, priority)
        return None if given is None else ticks(given, domain)  # type: ignore[arg-type]

    width, granule = chosen("RANGE", size), chosen("GRANULARITY", granularity)
    start, step = start_of(window, domain), 1 if slide is None else ticks(slide, domain)
    input = input if start is None else begun(input, start, domain)
    own = granule if isinstance(granule, Knob) else stream.granularity if granule is None else None
    shown = op.Window(input, RangedWindow(width, own, step, (start or 0) % step))
    return Sync(shown, Clock(granule, timestamps=domain == TIMESTAMP)) if isinstance(granule, int) else shown


def declared_window(plan: op.Node, catalog: Catalog) -> op.Node:
    """What a stream shows that is read without a window: where it declares a RANGE, that one."""
    stream = _stream(plan, catalog) if isinstance(plan, op.Scan) else None
    if stream is None or stream.range is None:
        return plan
    return op.Window(plan, RangedWindow(stream.range, stream.granularity))


def knob_of(kind: Kind, given: QualityRange, stream: str, domain: Type | None, priority: int) -> Knob:
    """The knob that a range stands for."""
    ends: list[syntax.Duration] = [given.args["lowest"], given.args["highest"]]
    for end in ends:
        if end.in_rows:
            raise Diagnostic("INVALID_WINDOW", f"a {kind} is a period of time, not of rows").at(span_of(end))
    lowest, highest = (ticks(end, domain) for end in ends)
    if domain == TIMESTAMP:
        _refuse_one_unit(kind, ends)
    if lowest > highest:
        low, high = (period(n, domain == TIMESTAMP) for n in (highest, lowest))
        raise Diagnostic(
            "INVALID_WINDOW",
            f"{kind} BETWEEN begins with the smaller value",
            help=f"swap them: {kind} BETWEEN {low} AND {high}",
        ).at(span_of(given))
    return Knob(stream, kind, lowest, highest, priority, domain == TIMESTAMP)


def _refuse_one_unit(kind: Kind, ends: list[syntax.Duration]) -> None:
    """`BETWEEN 10 AND 20 MINUTES` reads as minutes and would be 10 ticks: both ends say their unit, or neither does."""
    units = [end.args.get("unit") for end in ends]
    if (units[0] is None) == (units[1] is None):
        return
    unit = units[0] or units[1]
    said = " AND ".join(f"{end.this} {unit}" for end in ends)
    raise Diagnostic(
        "INVALID_WINDOW",
        f"one end of {kind} BETWEEN has a unit, the other has none",
        help=f"give both: {kind} BETWEEN {said}; ticks are called TICKS",
    ).at(span_of(ends[0] if units[0] is None else ends[1]))


def with_quality(definition: StreamDefinition, statement: syntax.CreateBase) -> StreamDefinition:
    """The stream with the ranges that it declares for all windows over it."""
    given = {kind: statement.args.get(kind.lower()) for kind in ("RANGE", "GRANULARITY")}
    said = next((r for r in given.values() if r is not None), None)
    if said is None:
        return definition
    if definition.valid is not None:
        raise unsupported(
            "rows that carry their validity have no quality range", help="ORDERED BY one column instead"
        ).at(span_of(said))
    domain, priority = definition.time_type, _priority(statement)
    size, granule = (
        None if r is None else knob_of(kind, r, definition.name, domain, priority)  # type: ignore[arg-type]
        for kind, r in given.items()
    )
    return replace(definition, range=size, granularity=granule)


def _priority(node: exp.Expression) -> int:
    said = node.args.get("priority")
    return 1 if said is None else int(said.name)


def _stream(plan: op.Node, catalog: Catalog) -> StreamDefinition | None:
    """The stream whose rows these are; None: they are of a derived one."""
    if not is_raw(plan):
        return None
    scan = next(node for node in plan.walk() if isinstance(node, op.Scan))
    found = catalog.find(scan.name)
    return found if isinstance(found, StreamDefinition) else None


def _is_plain(window: syntax.StreamWindow, domain: Type | None) -> bool:
    """Whether a window in time takes the granule of its stream: one of a single instant would lose the rows between."""
    slide, size = window.args.get("slide"), window.args.get("size")
    in_time = window.args["frame"] == "RANGE" and not (slide is not None and slide.in_rows)
    return in_time and not (size is not None and slide is None and ticks(size, domain) == 1)
