"""Durations as people write them: `5 MINUTES`, `INTERVAL 5 MINUTES`, `INTERVAL '5' MINUTE`, `INTERVAL '1 hour 30 minutes'`."""

from __future__ import annotations

import re
from typing import Any

from sqlglot import exp
from sqlglot.tokens import TokenType  # type: ignore[attr-defined]

from tidegate import time
from tidegate.language.limits import LONGEST
from tidegate.language.sequences import WINDOW_CLAUSES
from tidegate.language.syntax import Duration

_PARTS = re.compile(r"\s*([0-9]+)\s*([A-Za-z]+)")


def parse_duration(parser: Any, what: str) -> Duration:
    """A positive whole number with or without a unit, as an INTERVAL or bare, or a text that says both."""
    at = parser._here()
    interval = bool(parser._match(TokenType.INTERVAL))
    if parser._match(TokenType.STRING, advance=False):
        return _from_text(parser, what, at)
    negative = parser._match(TokenType.DASH)
    number = parser._parse_number()
    if number is None or not isinstance(number, exp.Literal):
        parser._stop(f"expected {what}, a positive number{parser._but_found()}", *at)
    end = parser._prev.end
    unit = _unit(parser)
    end = parser._prev.end if unit else end
    if negative or not number.this.isdigit() or not 0 < int(number.this) <= LONGEST:
        bound = f" up to {LONGEST:,}" if len(number.this) > 15 else ""
        parser._stop(
            f"{what} must be a positive whole number{bound}", at[0], number.meta.get("end", end) + 1,
            condition="INVALID_WINDOW",
        )  # fmt: skip
    if interval and unit is None:
        parser._stop("an INTERVAL has a unit", at[0], end + 1, "as in INTERVAL 5 MINUTES", "INVALID_WINDOW")
    duration = Duration(this=int(number.this), unit=unit)
    duration.meta.update(start=at[0], end=end)
    return duration


def _unit(parser: Any) -> str | None:
    word = parser._curr.text.upper() if parser._curr else ""
    if word not in WINDOW_CLAUSES and parser._match_set({TokenType.VAR, TokenType.ROWS}):
        return str(parser._prev.text)
    return None


def _from_text(parser: Any, what: str, at: tuple[int, int]) -> Duration:
    """`'5' MINUTE`, `'5 minutes'`, `'1 hour 30 minutes'`."""
    text = parser._curr.text
    parser._advance()
    end = parser._prev.end
    if text.strip().isdigit():
        text = f"{text} {_unit(parser) or ''}"
        end = parser._prev.end
    duration = duration_of(text)
    if duration is None:
        parser._stop(
            f"{what} must be a positive duration", at[0], end + 1,
            "as in INTERVAL '5' MINUTE or '1 hour 30 minutes'", "INVALID_WINDOW",
        )  # fmt: skip
    assert duration is not None
    duration.meta.update(start=at[0], end=end)
    return duration


def duration_of(text: str) -> Duration | None:
    """The duration that a text says; None if it says none.

    >>> duration_of("1 hour 30 minutes").this, duration_of("5 MINUTES").args["unit"], duration_of("5 lunches")
    (5400000000, 'MINUTES', None)
    """
    parts = [(int(n), unit) for n, unit in _PARTS.findall(text)]
    if _PARTS.sub("", text).strip() or any(unit.upper() not in time.UNITS for _, unit in parts):
        return None
    if not 0 < sum(n for n, _ in parts) <= LONGEST:
        return None
    if len(parts) > 1:
        return Duration(this=sum(n * time.UNITS[u.upper()] for n, u in parts), unit="MICROSECONDS")
    return Duration(this=parts[0][0], unit=parts[0][1])
