"""`aggregate OVER (…)`: each row beside an aggregate of others, as a join of the block with a grouping of it.

Without ORDER BY the others are the rows of the partition at the same instant, as the window in FROM shows them. With ORDER BY the stream's time
they are those that came before, up to this instant: the block reads one raw stream, so a row is there at its own instant, and the answer
is given as rows come. Rows of one partition and instant are simultaneous: each is among the others of all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from tidegate.algebra import operators as op
from tidegate.algebra.batches import is_raw
from tidegate.algebra.windows import RowWindow, TimeWindow, WindowSpec
from tidegate.errors import Diagnostic, unsupported
from tidegate.language.aggregation import is_aggregate
from tidegate.language.dialect import text_of
from tidegate.language.durations import duration_of
from tidegate.language.limits import LARGEST
from tidegate.language.windows import ticks
from tidegate.scalars.expressions import conjoin, index_of, ref, span_of
from tidegate.types import Field, Type

if TYPE_CHECKING:
    from tidegate.language.grouping import GroupBinder


def with_overs(block: GroupBinder, ast: exp.Select, item: exp.Expression, rows: op.Node) -> exp.Expression:
    """An expression of SELECT whose OVERs are columns of the plan; `rows` are those of the block, before any of them."""
    item = item.copy()
    for node in [n for n in item.walk(prune=lambda n: isinstance(n, exp.Query)) if isinstance(n, exp.Window)]:
        column = _column(block, ast, node, rows)
        if node is item:
            return column
        node.replace(column)
    return item


def _column(block: GroupBinder, ast: exp.Select, node: exp.Window, rows: op.Node) -> exp.Expression:
    _refuse(block, ast, node, rows)
    partition = [block.bind(p) for p in node.args.get("partition_by") or []]
    for expression in partition:
        block.type_of(expression)
    base = rows
    lag = node.this if isinstance(node.this, exp.Lag) else None
    if node.args.get("order") is not None:
        base = _window(block, node, partition, rows, _distance(lag) + 1 if lag is not None else None)
    grouped = type(block)(block.binder, block.outer)
    grouped.plan, grouped.scope = base, block.scope
    calls: list[exp.Expression] = [node.this]
    if lag is not None:
        calls = [exp.First(this=lag.this), exp.Count(this=exp.Star())]
    places = grouped.aggregated(partition, calls)
    width = len(block.plan.schema)
    same = [exp.NullSafeEQ(this=p, expression=ref(width + i)) for i, p in enumerate(partition)]
    block.plan = op.Join(block.plan, grouped.plan, "inner", conjoin(same))
    columns = [block._marked(width + len(partition) + place, node) for place in places]
    if lag is None:
        return columns[0]
    whole = exp.EQ(this=columns[1], expression=exp.Literal.number(_distance(lag) + 1))
    default = lag.args.get("default")
    return exp.Case(
        ifs=[exp.If(this=whole, true=columns[0])], default=default.copy() if default is not None else None
    )


def _window(
    block: GroupBinder, node: exp.Window, partition: list[exp.Expression], plan: op.Node, last: int | None
) -> op.Node:
    """What came before, of which the last rows of each partition if their number is said."""
    spec = RowWindow(last) if last is not None else _frame(node, block.binder.time.domain)  # type: ignore[attr-defined]
    columns = [index_of(p) for p in partition]
    if isinstance(spec, TimeWindow):
        return op.Window(plan, spec)
    if None in columns:
        kinds = [block.type_of(p) for p in partition]
        extra = tuple(Field("part", k.type, k.nullable, hidden=True) for k in kinds)
        width = len(plan.schema)
        # behind the time, which `_arrival` finds by its place
        plan = op.Project(plan, (*(ref(i) for i in range(width)), *partition), (*plan.schema, *extra))
        columns = [width + i for i in range(len(partition))]
    return op.Window(plan, spec, tuple(c for c in columns if c is not None))


def _frame(node: exp.Window, domain: Type | None) -> WindowSpec:
    """`RANGE BETWEEN w PRECEDING AND CURRENT ROW` holds both ends; without a frame all that came before."""
    spec = node.args.get("spec")
    if spec is None:
        return TimeWindow(None)
    start, end = spec.args.get("start"), spec.args.get("end")
    if spec.args.get("start_side") != "PRECEDING" or end not in (None, "CURRENT ROW"):
        raise unsupported(
            "a frame ends with the current row, and begins before it",
            help="RANGE BETWEEN INTERVAL 5 MINUTES PRECEDING AND CURRENT ROW, or ROWS BETWEEN 9 PRECEDING AND CURRENT ROW",
        ).at(span_of(node))
    if start == "UNBOUNDED":
        return TimeWindow(None)
    if spec.args.get("kind") == "ROWS":
        return RowWindow(_whole(start, node) + 1)
    if isinstance(start, exp.Interval):
        duration = duration_of(
            f"{start.this.name} {start.args['unit'].name if start.args.get('unit') else ''}"
        )
        if duration is None:
            raise Diagnostic("INVALID_WINDOW", "the frame needs a positive duration").at(span_of(node))
        duration.meta.update(node.meta)
        return TimeWindow(ticks(duration, domain) + 1)
    return TimeWindow(_whole(start, node) + 1)


def _whole(number: exp.Expression, node: exp.Expression) -> int:
    if not isinstance(number, exp.Literal) or not number.this.isdigit() or int(number.this) >= LARGEST:
        raise Diagnostic("INVALID_WINDOW", "the frame needs a whole number or an INTERVAL").at(span_of(node))
    return int(number.this)


def _distance(lag: exp.Expression) -> int:
    offset = lag.args.get("offset")
    return 1 if offset is None else _whole(offset, lag)


def _refuse(block: GroupBinder, ast: exp.Select, node: exp.Window, rows: op.Node) -> None:
    """What has no meaning here, with the form that does the job."""
    partition = ", ".join(text_of(p) for p in node.args.get("partition_by") or [])
    order = node.args.get("order")
    terms = ", ".join(text_of(o) for o in order.expressions) if order is not None else ""
    by = f"PARTITION BY {partition} " if partition else ""
    if node.args.get("alias") is not None and not by and order is None:
        raise unsupported(
            "named windows are not available", help="write the window out: OVER (PARTITION BY …)"
        ).at(span_of(node))
    if isinstance(node.this, exp.Lead):
        raise unsupported(
            "LEAD looks at rows that are still to come",
            help=f"turn it around: LAG({text_of(node.this.this)}) OVER ({by}ORDER BY {terms}), beside the later row",
        ).at(span_of(node))
    if isinstance(node.this, exp.RowNumber):
        raise unsupported(
            "a row's number is not available as a value: it would change for every row behind one that comes",
            help=f"for the first rows: QUALIFY ROW_NUMBER() OVER ({by}ORDER BY {terms}) <= 10; for a running number: COUNT(*) OVER ({by}ORDER BY {_time(block)})",
        ).at(span_of(node))
    if isinstance(node.this, (exp.Rank, exp.DenseRank)):
        raise unsupported("a row's rank is not available as a value", help=_ranked(ast, node)).at(
            span_of(node)
        )
    if not isinstance(node.this, exp.Lag) and not is_aggregate(_freed(node.this), block.user_aggregates):
        raise unsupported(f"{node.this.key.upper()} OVER is not available").at(span_of(node))
    if order is None:
        if node.args.get("spec") is not None or isinstance(node.this, exp.Lag):
            raise unsupported("OVER needs ORDER BY here", help=f"OVER ({by}ORDER BY {_time(block)})").at(
                span_of(node)
            )
        return
    ordering = order.expressions
    by_time = len(ordering) == 1 and not ordering[0].args.get("desc") and _is_time(block, ordering[0].this)
    if not by_time or not is_raw(rows):
        source = text_of(ast.args["from_"].this) if ast.args.get("from_") is not None else "S"
        help = f"without ORDER BY, {text_of(node.this)} OVER ({by.strip()}) is over what the window in FROM shows"
        if not by_time:
            help = f"ORDER BY {_time(block)} goes along a stream; {help}"
        raise unsupported(
            f"OVER (… ORDER BY …) goes along the time of one stream without a window, not along {source}",
            help=help,
        ).at(span_of(node))


def _freed(function: exp.Expression) -> exp.Expression:
    """A call as it would be without OVER."""
    copy = function.copy()
    copy.parent = None
    return copy


def _time(block: GroupBinder) -> str:
    timed = [r for r in block.scope.relations if r.time is not None]
    return timed[0].fields[-1].name if timed else "TS"


def _is_time(block: GroupBinder, term: exp.Expression) -> bool:
    try:
        bound = block.bind(term)
    except Diagnostic:
        return False
    return any(r.time is not None and index_of(bound) == r.time for r in block.scope.relations)


def _ranked(ast: exp.Select, node: exp.Window) -> str:
    """A rank as a number of rows before it."""
    source = ast.args["from_"].this if ast.args.get("from_") is not None else None
    first = node.args["order"].expressions[0] if node.args.get("order") is not None else None
    if first is None or not isinstance(source, exp.Table) or not isinstance(first.this, exp.Column):
        return "count the rows before it: 1 + (SELECT COUNT(*) FROM S WINDOW(…) y WHERE y.x > x.x)"
    sign = ">" if first.args.get("desc") else "<"
    keys = [c.name for c in node.args.get("partition_by") or [] if isinstance(c, exp.Column)]
    same = "".join(f"y.{k} = x.{k} AND " for k in keys)
    what = "COUNT(*)" if isinstance(node.this, exp.Rank) else f"COUNT(DISTINCT y.{first.this.name})"
    return (
        f"count the rows before it: SELECT …, COALESCE((SELECT {what} FROM {source.name} WINDOW(…) y "
        f"WHERE {same}y.{first.this.name} {sign} x.{first.this.name}), 0) + 1 FROM {source.name} WINDOW(…) x"
    )
