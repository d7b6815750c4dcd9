"""What other systems say and Tidegate says otherwise, told apart before it is parsed: MATCH_RECOGNIZE, and window() as a call."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

_BEFORE_CALLS = ("GROUP BY", "ORDER BY", "BY", ",", "SELECT", "(", "DISTINCT")


def with_calls_of_window(tokens: Sequence[Token]) -> list[Token]:
    """The tokens, in which WINDOW is a name where an expression begins: only behind a stream is it a clause."""
    found = list(tokens)
    for k in range(1, len(found) - 1):
        token = found[k]
        called = token.token_type == TokenType.WINDOW and found[k + 1].token_type == TokenType.L_PAREN
        if called and found[k - 1].text.upper() in _BEFORE_CALLS:
            found[k] = Token(
                TokenType.VAR, token.text, token.line, token.col, token.start, token.end, token.comments
            )
    return found


def refuse_row_pattern(parser: Any) -> None:
    """MATCH_RECOGNIZE is refused with a join that finds the same, where its pattern is a plain sequence."""
    word = parser._curr
    if not word or word.text.upper() != "MATCH_RECOGNIZE":
        return
    tokens = parser._tokens[parser._index + 1 :]
    inside = _inside(tokens)
    parser._stop(
        "row patterns (MATCH_RECOGNIZE) are not available",
        word.start,
        word.end + 1,
        _as_join(parser, parser._prev.text if parser._prev else "S", inside)
        or "join the stream with a window of itself: docs/recipes.md has patterns as queries",
        "UNSUPPORTED",
    )


def _inside(tokens: Sequence[Token]) -> list[Token]:
    """The tokens within the first parentheses."""
    depth = 0
    for k, token in enumerate(tokens):
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        if depth == 0:
            return list(tokens[1:k])
    return []


def _as_join(parser: Any, stream: str, tokens: list[Token]) -> str | None:
    """`PATTERN (A B) DEFINE …` as a join: B as it comes, with an A within the time before it."""
    texts = [t.text.upper() for t in tokens]
    if "PATTERN" not in texts or _after(texts, "ORDER") is None:
        return None
    at = texts.index("PATTERN")
    symbols = [t.text for t in _inside(tokens[at + 1 :])]
    if not symbols or not all(s.isidentifier() for s in symbols) or len(set(symbols)) < len(symbols):
        return None
    conditions = _conditions(parser, tokens)
    if conditions is None:
        return None
    time = tokens[_after(texts, "ORDER") or 0].text
    key = _after(texts, "PARTITION")
    within = "1 HOUR"
    if "WITHIN" in texts:
        within = " ".join(t.text for t in tokens[texts.index("WITHIN") + 1 :][:3]).removeprefix("INTERVAL ")
        within = " ".join(within.split()[:2])
    *earlier, last = symbols
    items = [f"{stream} {last}", *(f"{stream} WINDOW(RANGE {within}) {s}" for s in reversed(earlier))]
    column = tokens[key].text if key else None
    where = [f"{a}.{column} = {b}.{column}" for a, b in pairwise(symbols) if column]
    where += [f"{a}.{time} < {b}.{time}" for a, b in pairwise(symbols)]
    query = f"SELECT … FROM {', '.join(items)} WHERE {' AND '.join([*where, *conditions])}"
    return f"{query} (with every {earlier[-1] if earlier else last} of that time; the row just before is LAG)"


def _after(texts: list[str], word: str) -> int | None:
    """The place of what follows `word BY`."""
    for k, text in enumerate(texts):
        if text == f"{word} BY":
            return k + 1
        if text == word and texts[k + 1 : k + 2] == ["BY"]:
            return k + 2
    return None


def _conditions(parser: Any, tokens: list[Token]) -> list[str] | None:
    """What DEFINE says of each symbol, with the symbol before each column; None where a function looks at other rows."""
    texts = [t.text.upper() for t in tokens]
    if "DEFINE" not in texts:
        return []
    found = []
    start = tokens[texts.index("DEFINE")].end + 1
    script = parser.sql[start : tokens[-1].end + 1]
    try:
        defined = parse_one(f"SELECT {_swapped(script)}", dialect="spark").expressions
    except (SqlglotError, ValueError):
        return None
    for definition in defined:
        if definition.find(exp.Anonymous, exp.AggFunc, exp.Func) and not definition.find(
            exp.And, exp.Or, exp.Not
        ):
            return None
        for column in definition.this.find_all(exp.Column):
            if not column.table:
                column.set("table", exp.to_identifier(definition.alias))
        found.append(definition.this.sql(dialect="spark"))
    return found


def _swapped(script: str) -> str:
    """`A AS condition, …` as a SELECT list: `condition AS A, …`."""
    parts = []
    for part in script.split(","):
        name, word, condition = part.strip().partition(" AS ")
        if not word:
            raise ValueError(part)
        parts.append(f"{condition} AS {name}")
    return ", ".join(parts)
