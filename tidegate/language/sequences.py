"""Window sequences and sessions as text: `FROM … TO … EVERY …`, `FOR … WHILE … STEP …`, `SESSION gap`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from tidegate.language.syntax import StreamWindow
from tidegate.time import UNITS

FORMS = ("FROM", "FOR", "SESSION")
WINDOW_CLAUSES = (
    "TO",
    "EVERY",
    "DELAY",
    "STARTING",
    "SLIDE",
    "GRANULARITY",
    "PRIORITY",
    "WHILE",
    "STEP",
    "FROM",
)


class Quantity(exp.Expression):
    """An expression, scaled by a unit of time, in ROWS, or (None) in ticks."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "unit": False}

    @property
    def in_rows(self) -> bool:
        return str(self.args.get("unit") or "").upper() in ("ROWS", "ROW")


class SequenceWindow(StreamWindow):
    """`WINDOW([PARTITION BY …] form …)`, the form being one of `FORMS`.

    FROM: `lower` TO `upper` EVERY `every` [DELAY `delay`] [STARTING AT `start`]; FOR: `variable` = `start` WHILE
    `proceed` STEP `step` FROM `lower` TO `upper`; SESSION: `gap`.
    """

    arg_types: ClassVar[dict[str, bool]] = {
        "frame": True, "partition": False, "granularity": False, "lower": False, "upper": False, "every": False,
        "delay": False, "start": False, "variable": False, "proceed": False, "step": False, "gap": False,
    }  # fmt: skip


def parse_sequence(parser: Any, opening: Token, partition: list[exp.Expression] | None) -> SequenceWindow:
    """The rest of a window clause, from its form to its closing parenthesis."""
    form = parser._curr.text.upper()
    parts: dict[str, Any] = {"frame": form, "partition": partition}
    parser._advance()
    if form == "SESSION":
        parts["gap"] = _quantity(parser, "the gap of the session")
    elif form == "FOR":
        parts["variable"] = parser._expect_name("the variable of the loop")
        if not parser._match(TokenType.EQ):
            parser._stop(f"expected ={parser._but_found()}", *parser._here())
        parts["start"] = _expression(parser, "the first value of the loop")
        parser._expect("WHILE")
        parts["proceed"] = _expression(parser, "a condition")
        parser._expect("STEP")
        parts["step"] = _expression(parser, "the next value of the loop")
        parser._expect("FROM")
        _bounds(parser, parts)
    else:
        _bounds(parser, parts)
        parser._expect("EVERY")
        parts["every"] = _quantity(parser, "a rate")
        if parser._match_text_seq("DELAY"):
            parts["delay"] = _quantity(parser, "a delay")
        parts["start"] = parse_start(parser)
    if parser._match_text_seq("GRANULARITY"):
        parser._refuse_range("the granularity of this window")
        parts["granularity"] = parser._parse_duration("the granularity")
    if not parser._match(TokenType.R_PAREN):
        more = {"FROM": "DELAY, STARTING AT, GRANULARITY or )"}.get(form, "GRANULARITY or )")
        parser._stop(f"expected {more}{parser._but_found()}", *parser._here())
    window = SequenceWindow(**{k: v for k, v in parts.items() if v is not None})
    window.meta.update(start=opening.start, end=parser._prev.end)
    return window


def parse_start(parser: Any) -> exp.Expression | None:
    """`STARTING AT instant`, if it stands here."""
    if not parser._match_text_seq("STARTING"):
        return None
    parser._expect("AT")
    return _expression(parser, "an instant")


def _bounds(parser: Any, parts: dict[str, Any]) -> None:
    with _fenced(parser):
        parts["lower"] = _quantity(parser, "a lower bound")
    parser._expect("TO")
    parts["upper"] = _quantity(parser, "an upper bound")


@contextmanager
def _fenced(parser: Any) -> Iterator[None]:
    """Keep `INTERVAL 1 MINUTE TO …` from being read as one interval: the bound's own TO ends the expression."""
    depth, place = 0, None
    tokens = parser._tokens
    for k in range(parser._index, len(tokens)):
        token = tokens[k]
        if token.token_type == TokenType.L_PAREN:
            depth += 1
        elif token.token_type == TokenType.R_PAREN:
            depth -= 1
            if depth < 0:
                break
        elif depth == 0 and token.text.upper() == "TO":
            span = tokens[k - 1].text.upper() in UNITS and tokens[k + 1].text.upper() in UNITS
            if not span:
                place = k
                break
    if place is None:
        yield
        return
    original = tokens[place]
    fence = Token(TokenType.SEMICOLON, ";", original.line, original.col, original.start, original.end)
    tokens[place] = fence
    try:
        yield
    finally:
        tokens[place] = original
        parser._advance(0)


def _expression(parser: Any, what: str) -> exp.Expression:
    at = parser._here()
    found = parser._parse_disjunction()
    if found is None:
        parser._stop(f"expected {what}{parser._but_found()}", *at)
    found.meta.setdefault("start", at[0])
    found.meta.setdefault("end", parser._prev.end)
    assert isinstance(found, exp.Expression)
    return found


def _quantity(parser: Any, what: str) -> Quantity:
    at = parser._here()
    expression = _expression(parser, what)
    unit = None
    word = parser._curr.text.upper() if parser._curr else ""
    if word not in WINDOW_CLAUSES and parser._match_set((TokenType.VAR, TokenType.ROWS, TokenType.ROW)):
        unit = parser._prev.text
    quantity = Quantity(this=expression, unit=unit)
    quantity.meta.update(start=at[0], end=parser._prev.end)
    return quantity


def sequence_sql(generator: Any, node: SequenceWindow) -> str:
    """The clause as text."""
    sql, args = generator.sql, node.args
    words = []
    if args.get("partition"):
        words.append(f"PARTITION BY {', '.join(sql(c) for c in args['partition'])}")
    if args["frame"] == "SESSION":
        words.append(f"SESSION {sql(node, 'gap')}")
    elif args["frame"] == "FOR":
        words.append(f"FOR {sql(node, 'variable')} = {sql(node, 'start')} WHILE {sql(node, 'proceed')}")
        words.append(f"STEP {sql(node, 'step')} FROM {sql(node, 'lower')} TO {sql(node, 'upper')}")
    else:
        words.append(f"FROM {sql(node, 'lower')} TO {sql(node, 'upper')} EVERY {sql(node, 'every')}")
        words += [f"DELAY {sql(node, 'delay')}"] if args.get("delay") else []
        words += [f"STARTING AT {sql(node, 'start')}"] if args.get("start") else []
    words += [f"GRANULARITY {sql(node, 'granularity')}"] if args.get("granularity") else []
    return f"WINDOW({' '.join(words)})"


def quantity_sql(generator: Any, node: Quantity) -> str:
    return f"{generator.sql(node, 'this')} {node.args.get('unit') or ''}".rstrip()
