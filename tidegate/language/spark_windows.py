"""Spark's `GROUP BY window(t, '10 minutes')` and `session_window`: the same as TUMBLE, HOP and SESSION in FROM."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from tidegate.errors import Diagnostic, unsupported
from tidegate.language import syntax
from tidegate.language.durations import duration_of
from tidegate.language.window_functions import WindowFunction
from tidegate.scalars.expressions import span_of

_CALLS = ("window", "session_window")


def with_window_calls(ast: exp.Select) -> exp.Select:
    """The block with the window in FROM, if a call of window() says one."""
    calls = [node for node in _own(ast) if _is_call(node)]
    if not calls:
        return ast
    first = calls[0]
    if any(call != first for call in calls):
        raise unsupported("a query has one window()", help="put the other one into a sub-query").at(
            span_of(calls[1])
        )
    item = ast.args["from_"].this if ast.args.get("from_") is not None else None
    alias = item.args.get("alias") if item is not None else None
    windowed = isinstance(alias, syntax.StreamAlias) and alias.args.get("window") is not None
    if type(item) is not exp.Table or windowed or ast.args.get("joins") or item.args.get("joins"):
        raise unsupported(
            f"{first.name.lower()}() needs one stream in FROM, without a window of its own",
            help="put the window into FROM: S WINDOW(RANGE 10 MINUTES SLIDE 10 MINUTES), or TUMBLE(TABLE S, DESCRIPTOR(t), INTERVAL 10 MINUTES)",
        ).at(span_of(first))
    new = ast.copy()
    table = new.args["from_"].this
    new.args["from_"].set("this", _function(first, table, _keys(new, first)))
    group = new.args.get("group")
    if group is not None:
        bounds = [exp.column("window_start"), exp.column("window_end")]
        group.set("expressions", [t for e in group.expressions for t in (bounds if e == first else [e])])
    for part in [n for n in new.expressions if _is_call(n) or _is_whole(n)]:
        part.replace(exp.alias_(part.copy(), part.name.lower()))
    for node in [*_own(new)]:
        if (made := _bound(node)) is not None:
            node.replace(made)
    return new


def _own(node: exp.Expression) -> Iterator[exp.Expression]:
    """The parts of a block in SELECT, WHERE, GROUP BY, HAVING and ORDER BY, without those of nested queries."""
    for name in ("expressions", "where", "group", "having", "order"):
        value = node.args.get(name)
        for part in value if isinstance(value, list) else [value] if value is not None else []:
            yield from part.walk(prune=lambda n: isinstance(n, exp.Query))


def _is_call(node: exp.Expression) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.lower() in _CALLS


def _is_whole(node: exp.Expression) -> bool:
    return isinstance(node, exp.Column) and not node.table and node.name.lower() in _CALLS


def _bound(node: exp.Expression) -> exp.Expression | None:
    """What stands for a window, or for one of its bounds."""
    names = {"start": "window_start", "end": "window_end"}
    if isinstance(node, exp.Column) and node.table.lower() in _CALLS and node.name.lower() in names:
        return exp.column(names[node.name.lower()])
    if (
        isinstance(node, exp.Dot)
        and (_is_call(node.this) or _is_whole(node.this))
        and node.name.lower() in names
    ):
        return exp.column(names[node.name.lower()])
    if (_is_call(node) or _is_whole(node)) and not isinstance(node.parent, exp.Dot):
        members = [
            exp.PropertyEQ(this=exp.to_identifier(n), expression=exp.column(c)) for n, c in names.items()
        ]
        return exp.Struct(expressions=members)
    return None


def _keys(ast: exp.Select, call: exp.Expression) -> list[exp.Identifier]:
    """The columns that a query groups by beside the window: sessions are those of each of their values."""
    group = ast.args.get("group")
    others = [t for t in group.expressions if t != call] if group is not None else []
    if call.name.lower() == "window":
        return []
    for term in others:
        if not isinstance(term, exp.Column):
            raise unsupported("sessions are those of columns", help="group by columns of the stream").at(
                span_of(term)
            )
    return [t.this.copy() for t in others]


def _function(call: exp.Expression, table: exp.Table, keys: list[exp.Identifier]) -> WindowFunction:
    time, *said = call.expressions or [None]
    if not isinstance(time, exp.Column) or not 1 <= len(said) <= (3 if call.name.lower() == "window" else 1):
        raise Diagnostic(
            "WRONG_ARGUMENTS",
            f"{call.name.lower()} takes a column and durations",
            help="window(t, '10 minutes', '5 minutes')",
        ).at(span_of(call))
    durations = []
    for node in said:
        found = duration_of(node.this if isinstance(node, exp.Literal) and node.is_string else "")
        if found is None:
            raise Diagnostic("WRONG_ARGUMENTS", "a duration is a text, as '10 minutes'").at(
                span_of(node) or span_of(call)
            )
        found.meta.update({k: v for k, v in call.meta.items() if k in ("start", "end")})
        durations.append(found)
    parts: dict[str, object] = {"function": "TUMBLE", "size": durations[0]}
    if call.name.lower() == "session_window":
        parts = {"function": "SESSION", "gap": durations[0], "partition": keys or None}
    elif len(durations) > 1 and durations[1] != durations[0]:
        parts |= {"function": "HOP", "slide": durations[1]}
    if len(durations) > 2:
        parts["start"] = durations[2]
    given = {k: v for k, v in parts.items() if v is not None}
    return WindowFunction(
        this=table.this.copy(), timecol=time.this.copy(), alias=table.args.get("alias"), **given
    )
