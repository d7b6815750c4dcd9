"""SyncSQL's words to algebra: relations of modify streams, synchronized items of FROM, conditions on NOW."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from tidegate.algebra import operators as op
from tidegate.algebra.modify import Clock, Modify, Restrict, Sync, is_time
from tidegate.algebra.now import bounds
from tidegate.algebra.points import points_of
from tidegate.errors import Diagnostic, did_you_mean, unsupported
from tidegate.language.catalog import Catalog, StreamDefinition
from tidegate.language.scopes import OUTER, Scope
from tidegate.language.sync_syntax import ClockReference, ModifyOver
from tidegate.language.windows import ticks
from tidegate.scalars.expressions import conjoin, index_of, ref, references, span_of
from tidegate.scalars.functions import ScalarFunction
from tidegate.scalars.typing import infer
from tidegate.types import BIGINT, STRING, TIMESTAMP, Field, Schema, Type

if TYPE_CHECKING:
    from tidegate.language.blocks import Ask


def modify_plan(ast: ModifyOver, catalog: Catalog) -> tuple[Modify, StreamDefinition]:
    """The relation of a modify stream, and the source it stands on."""
    name = ast.this.name
    source = catalog.find(name)
    if source is None:
        raise Diagnostic(
            "UNKNOWN_STREAM",
            f"there is no source '{name}'",
            help=did_you_mean(name, catalog.names, "streams"),
        ).at(span_of(ast.this))
    if not isinstance(source, StreamDefinition) or source.table or source.valid is not None:
        raise Diagnostic(
            "NOT_A_SOURCE",
            f"'{name}' has no raw rows in order of time",
            help="OVER takes a registered source: REGISTER SOURCE … ORDERED BY …",
        ).at(span_of(ast.this))
    keys: list[exp.Expression] | None = ast.args.get("key")
    operation: Any = ast.args.get("operation")
    scan = source.scan
    key = None if keys is None else tuple(_column(k, scan.schema) for k in keys)
    if key is not None and len(set(key)) < len(key):
        raise Diagnostic("DUPLICATE_COLUMN", "a column stands twice in the key").at(span_of(ast))
    place = None if operation is None else _column(operation, scan.schema)
    if place is not None:
        if key is None:
            raise Diagnostic(
                "OPERATION_WITHOUT_KEY",
                "an update or delete needs a key that says of which row",
                help="give KEY columns, or leave OPERATION out",
            ).at(span_of(operation))
        if place in key:
            raise Diagnostic("OPERATION_WITHOUT_KEY", "the operation cannot be part of the key").at(
                span_of(operation)
            )
        if scan.schema[place].type != STRING:
            raise Diagnostic(
                "TYPE_MISMATCH", f"operations are words; '{operation.name}' is {scan.schema[place].type}"
            ).at(span_of(operation))
    return Modify(scan, key, place), source


def _column(name: exp.Expression, schema: Schema) -> int:
    found = [i for i, f in enumerate(schema) if f.name.lower() == name.name.lower() and not f.hidden]
    if not found:
        raise Diagnostic(
            "UNKNOWN_COLUMN",
            f"there is no column '{name.name}'",
            help=did_you_mean(name.name, [f.name for f in schema if not f.hidden], "columns"),
        ).at(span_of(name))
    return found[0]


def clock_plan(ast: exp.Table) -> tuple[Clock, Type]:
    """CLOCK ticks in integers, CLOCK(1 SECOND) in timestamps."""
    step = ast.args.get("step") if isinstance(ast, ClockReference) else None
    if step is None:
        return Clock(), BIGINT
    if step.in_rows:
        raise Diagnostic("INVALID_WINDOW", "a clock ticks in time, not in rows").at(span_of(step))
    domain = TIMESTAMP if step.args.get("unit") is not None else BIGINT
    return Clock(ticks(step, domain), domain == TIMESTAMP), domain


def is_clock(ast: exp.Table, catalog: Catalog) -> bool:
    """CLOCK, unless a stream has that name."""
    return isinstance(ast, ClockReference) or (ast.name.upper() == "CLOCK" and catalog.find(ast.name) is None)


def raw_beneath(plan: op.Node) -> op.Node:
    """What a window sees: a stream whose rows only insert is windowed by their arrival."""
    return plan.input if isinstance(plan, Modify) and plan.key is None else plan


def synchronized(
    plan: op.Node, points: op.Node, readable: bool, domain: Type | None, ast: exp.Expression
) -> op.Node:
    """The item as of the latest point; a stream with a TS and other columns is the stream of its instants."""
    if domain is None:
        raise Diagnostic(
            "SYNC_OF_TABLE",
            "a table never changes: there is nothing to synchronize",
            help="leave SYNC BY out",
        ).at(span_of(ast))
    visible = [i for i, f in enumerate(points.schema) if not f.hidden]
    if readable and not (len(visible) == 1 and is_time(points.schema[visible[0]].type)):
        last = len(points.schema) - 1
        points = op.Project(points, (ref(last),), (Field("TS", points.schema[last].type, False),))
    elif len(visible) < len(points.schema):
        points = op.Project(points, tuple(ref(i) for i in visible), tuple(points.schema[i] for i in visible))
    try:
        node = Sync(plan, points)
        points_of(points)
    except Diagnostic as diagnostic:
        raise diagnostic.at(span_of(ast)) from None
    return node


# NOW ---------------------------------------------------------------------------------------------------------------


def mentions_now(condition: exp.Expression, scope: Scope) -> bool:
    """Whether a condition reads the current instant itself; a nested query's conditions are its own."""
    nodes = condition.walk(prune=lambda node: isinstance(node, exp.Query))
    return any(_is_now(node, scope) for node in nodes if isinstance(node, exp.Expression))


def _is_now(node: exp.Expression, scope: Scope) -> bool:
    if isinstance(node, exp.CurrentTimestamp):
        return True
    if not isinstance(node, exp.Column) or len(node.parts) > 1 or node.name.upper() != "NOW":
        return False
    return not any(r.find("now") for r in scope.relations)


def restricted(
    plan: op.Node,
    conditions: list[exp.Expression],
    domain: Type | None,
    functions: Mapping[str, ScalarFunction],
    ask: Ask | None,
) -> op.Node:
    """The plan under bound conditions on NOW, which stands at the position after its columns."""
    predicate = conjoin(conditions)
    if predicate is None:
        return plan
    node = Restrict(plan, predicate, domain == TIMESTAMP)
    for bound in bounds(predicate, len(plan.schema)):
        found = infer(bound.expression, plan.schema, functions, ask).type
        fits = found == TIMESTAMP if domain == TIMESTAMP else found.is_integral
        if not fits:
            raise Diagnostic(
                "TIME_DOMAIN", f"NOW is {node.now.type} here; it cannot be compared with {found}"
            ).at(span_of(bound.expression) or span_of(predicate))
    return node


def with_now(condition: exp.Expression, scope: Scope, position: int, domain: Type | None) -> exp.Expression:
    """The condition with NOW as a bound column at a position."""
    if domain is None:
        raise Diagnostic("NOW_CONDITION", "NOW needs a stream in FROM: tables have no time").at(
            span_of(condition)
        )
    if condition.find(exp.Select, exp.SetOperation) is not None:
        raise unsupported("a sub-query cannot stand in a condition on NOW").at(span_of(condition))

    def visit(node: exp.Expression) -> exp.Expression:
        if not _is_now(node, scope):
            return node
        column = ref(position, node)
        column.meta["bound"] = True
        return column

    return condition.copy().transform(visit, copy=False)


def split_by_unit(
    conditions: list[exp.Expression], ranges: list[tuple[int, int]], now: int
) -> tuple[list[list[exp.Expression]], list[exp.Expression]]:
    """Bound conditions on NOW by the only unit whose columns they read, positions counted from it; and the others."""
    own: list[list[exp.Expression]] = [[] for _ in ranges]
    rest: list[exp.Expression] = []
    for condition in conditions:
        read = references(condition) - {now}
        if any(i >= OUTER for i in read):
            raise unsupported("a condition on NOW cannot read columns of an outer query").at(
                span_of(condition)
            )
        place = next((k for k, (a, b) in enumerate(ranges) if read and all(a <= i < b for i in read)), None)
        if place is None:
            rest.append(condition)
            continue
        start, end = ranges[place]
        own[place].append(_moved(condition, start, end - start, now))
    return own, rest


def _moved(condition: exp.Expression, start: int, width: int, now: int) -> exp.Expression:
    """Positions counted from `start`, NOW at `width`; each keeps its place in the text."""

    def visit(node: exp.Expression) -> exp.Expression:
        index = index_of(node)
        return node if index is None else ref(width if index == now else index - start, node)

    return condition.copy().transform(visit, copy=False)
