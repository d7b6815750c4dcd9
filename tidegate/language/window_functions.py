"""Windows as Flink and others write them in FROM: `TUMBLE(TABLE Bid, DESCRIPTOR(t), INTERVAL '10' MINUTE)`, HOP, SESSION, CUMULATE."""

from __future__ import annotations

from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.tokens import TokenType  # type: ignore[attr-defined]

from tidegate.language.durations import parse_duration

PARAMETERS = {
    "TUMBLE": ("DATA", "TIMECOL", "SIZE", "OFFSET"),
    "HOP": ("DATA", "TIMECOL", "SLIDE", "SIZE", "OFFSET"),
    "SESSION": ("DATA", "TIMECOL", "GAP"),
    "CUMULATE": ("DATA", "TIMECOL", "STEP", "SIZE"),
}
"""What each takes, in this order or by name (`SIZE => INTERVAL '10' MINUTE`)."""
_OPTIONAL = ("OFFSET",)


class WindowFunction(exp.Table):
    """`function(data, time column, …)` in FROM; `this` is the name of the stream."""

    arg_types: ClassVar[dict[str, bool]] = {
        **exp.Table.arg_types, "function": True, "timecol": True, "size": False, "slide": False, "gap": False,
        "step": False, "start": False, "partition": False,
    }  # fmt: skip


def parse_window_function(parser: Any, joins: bool) -> WindowFunction | None:
    """A window function as an item of FROM, also inside `TABLE(…)`."""
    words = [t.text.upper() for t in parser._tokens[parser._index : parser._index + 4]]
    wrapped = words[:2] == ["TABLE", "("]
    called = words[2:] if wrapped else words[:2]
    if not called or called[0] not in PARAMETERS or called[1:2] != ["("]:
        return None
    parser._advance(2 if wrapped else 0)
    first = parser._curr
    parser._advance(2)
    found = _arguments(parser, first)
    if wrapped and not parser._match(TokenType.R_PAREN):
        parser._stop(f"expected ){parser._but_found()}", *parser._here())
    alias = parser._parse_table_alias()
    if alias:
        found.set("alias", alias)
    for join in parser._parse_joins() if joins else ():
        found.append("joins", join)
    return found


def _arguments(parser: Any, first: Any) -> WindowFunction:
    function = first.text.upper()
    given: dict[str, Any] = {}
    names = iter(PARAMETERS[function])
    while True:
        at = parser._here()
        name = _name(parser) or next(names, None)
        if name not in PARAMETERS[function] or name in given:
            parser._stop(
                f"the arguments of {function} are {', '.join(PARAMETERS[function])}",
                *at,
                condition="WRONG_ARGUMENTS",
            )
        assert name is not None
        given[name] = _argument(parser, name, given)
        if not parser._match(TokenType.COMMA):
            break
    if not parser._match(TokenType.R_PAREN):
        parser._stop(f"expected ){parser._but_found()}", *parser._here())
    missing = [n for n in PARAMETERS[function] if n not in given and n not in _OPTIONAL]
    if missing:
        parser._stop(
            f"there is no {missing[0]} for {function}", first.start, parser._prev.end + 1,
            f"{function}({', '.join(p for p in PARAMETERS[function] if p not in _OPTIONAL)})", "WRONG_ARGUMENTS",
        )  # fmt: skip
    parts = {k.lower(): v for k, v in given.items() if k not in ("DATA", "OFFSET")}
    parts["start"] = given.get("OFFSET")
    node = WindowFunction(
        this=given["DATA"], function=function, **{k: v for k, v in parts.items() if v is not None}
    )
    node.meta.update(start=first.start, end=parser._prev.end)
    return node


def _name(parser: Any) -> str | None:
    """`NAME =>`, if that stands here."""
    following = parser._next
    if parser._curr and following and following.token_type == TokenType.FARROW:
        name = parser._curr.text.upper()
        parser._advance(2)
        return str(name)
    return None


def _argument(parser: Any, name: str, given: dict[str, Any]) -> Any:
    if name == "DATA":
        parser._match_text_seq("TABLE")
        stream = parser._expect_name("a stream")
        if parser._match(TokenType.PARTITION_BY) or parser._match_text_seq("PARTITION", "BY"):
            wrapped = parser._match(TokenType.L_PAREN)
            given["PARTITION"] = [parser._expect_name("a column")]
            # without parentheses, a comma goes on with the next argument
            while wrapped and parser._match(TokenType.COMMA):
                given["PARTITION"].append(parser._expect_name("a column"))
            if wrapped and not parser._match(TokenType.R_PAREN):
                parser._stop(f"expected ){parser._but_found()}", *parser._here())
        return stream
    if name == "TIMECOL":
        described = parser._match_text_seq("DESCRIPTOR")
        if described and not parser._match(TokenType.L_PAREN):
            parser._stop(f"expected ({parser._but_found()}", *parser._here())
        column = parser._expect_name("the column that orders the stream")
        if described and not parser._match(TokenType.R_PAREN):
            parser._stop(f"expected ){parser._but_found()}", *parser._here())
        return column
    return parse_duration(parser, f"the {name.lower()} of the window")


def window_function_sql(generator: Any, node: WindowFunction) -> str:
    """The function as Flink writes it."""
    partition = ", ".join(generator.sql(c) for c in node.args.get("partition") or [])
    parts = [f"TABLE {generator.sql(node, 'this')}" + (f" PARTITION BY ({partition})" if partition else "")]
    parts.append(f"DESCRIPTOR({generator.sql(node, 'timecol')})")
    for name in PARAMETERS[node.args["function"]][2:]:
        value = node.args.get("start" if name == "OFFSET" else name.lower())
        parts += [f"INTERVAL {generator.sql(value)}"] if value is not None and value.args.get("unit") else (
            [generator.sql(value)] if value is not None else []
        )  # fmt: skip
    alias = f" AS {generator.sql(node, 'alias')}" if node.args.get("alias") else ""
    joins = "".join(generator.sql(j) for j in node.args.get("joins") or [])
    return f"{node.args['function']}({', '.join(parts)}){alias}{joins}"
