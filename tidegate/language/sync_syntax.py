"""SyncSQL's words: CREATE STREAM … OVER … KEY …, SYNC BY, CLOCK(step)."""

from __future__ import annotations

from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.tokens import TokenType  # type: ignore[attr-defined]


class ModifyOver(exp.Expression):
    """`OVER source KEY k, … | KEY NULL [OPERATION column]`; `key` None: every row inserts."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "key": False, "operation": False}


class ClockReference(exp.Table):
    """`CLOCK(step)` in FROM or after SYNC BY."""

    arg_types: ClassVar[dict[str, bool]] = {**exp.Table.arg_types, "step": False}


def parse_modify(parser: Any) -> ModifyOver:
    """What follows OVER."""
    source = parser._expect_name("a source")
    parser._expect("KEY")
    key = None
    if not parser._match(TokenType.NULL):
        wrapped = parser._match(TokenType.L_PAREN)
        key = parser._parse_csv(lambda: parser._expect_name("a column of the key, or NULL"))
        if wrapped and not parser._match(TokenType.R_PAREN):
            parser._stop(f"expected ){parser._but_found()}", *parser._here())
    operation = parser._expect_name("the operation column") if parser._match_text_seq("OPERATION") else None
    return ModifyOver(this=exp.Table(this=source), key=key, operation=operation)


def parse_sync(parser: Any) -> exp.Expression | None:
    """`SYNC BY points`: a name, CLOCK(step), or a query in parentheses."""
    if not parser._match_text_seq("SYNC", "BY"):
        return None
    if parser._match(TokenType.L_PAREN):
        opening = parser._prev
        query = exp.Subquery(this=parser._parse_query())
        if not parser._match(TokenType.R_PAREN):
            parser._stop(f"expected ){parser._but_found()}", *parser._here())
        query.meta.update(start=opening.start, end=parser._prev.end)
        return query
    clock = _clock(parser)
    return clock or exp.Table(this=parser._expect_name("a stream of points"))


def parse_clock(parser: Any, joins: bool) -> ClockReference | None:
    """`CLOCK(step)` as an item of FROM."""
    clock = _clock(parser)
    if clock is None:
        return None
    alias = parser._parse_table_alias()
    if alias:
        clock.set("alias", alias)
    for join in parser._parse_joins() if joins else ():
        clock.append("joins", join)
    return clock


def _clock(parser: Any) -> ClockReference | None:
    word, following = parser._curr, parser._next
    if not word or word.text.upper() != "CLOCK" or not following or following.token_type != TokenType.L_PAREN:
        return None
    name = exp.Identifier(this=word.text, quoted=False)
    name.meta.update(start=word.start, end=word.end)
    parser._advance(2)
    step = parser._parse_duration("the step of the clock")
    if not parser._match(TokenType.R_PAREN):
        parser._stop(f"expected ){parser._but_found()}", *parser._here())
    return ClockReference(this=name, step=step)


def clock_sql(generator: Any, node: ClockReference) -> str:
    alias = f" AS {generator.sql(node, 'alias')}" if node.args.get("alias") else ""
    joins = "".join(generator.sql(j) for j in node.args.get("joins") or [])
    return f"CLOCK({generator.sql(node, 'step')}){alias}{joins}"


def modify_sql(generator: Any, node: ModifyOver) -> str:
    key = ", ".join(generator.sql(k) for k in node.args.get("key") or []) or "NULL"
    operation = f" OPERATION {generator.sql(node, 'operation')}" if node.args.get("operation") else ""
    return f"OVER {generator.sql(node, 'this')} KEY {key}{operation}"
