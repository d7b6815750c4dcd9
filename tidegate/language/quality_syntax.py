"""Quality ranges as they are written: `RANGE BETWEEN a AND b`, `GRANULARITY BETWEEN g AND h`, `PRIORITY n`."""

from __future__ import annotations

from typing import Any, ClassVar

from sqlglot import exp

from tidegate.language.durations import parse_duration
from tidegate.language.syntax import Duration


class QualityRange(exp.Expression):
    """`BETWEEN lowest AND highest`: the runtime chooses inside."""

    arg_types: ClassVar[dict[str, bool]] = {"lowest": True, "highest": True}


def parse_size(parser: Any, what: str) -> Duration | QualityRange:
    """One duration, or a range of them."""
    start = parser._here()[0]
    if not parser._match_text_seq("BETWEEN"):
        return parse_duration(parser, what)
    lowest = parse_duration(parser, f"the least of {what}")
    parser._expect("AND")
    found = QualityRange(lowest=lowest, highest=parse_duration(parser, f"the most of {what}"))
    found.meta.update(start=start, end=parser._prev.end)
    return found


def refuse_range(parser: Any, what: str, help: str) -> None:
    """Say that no range can stand here."""
    if parser._match_text_seq("BETWEEN", advance=False):
        parser._stop(f"{what} cannot be chosen under load", *parser._here(), help, "UNSUPPORTED")


def parse_priority(parser: Any) -> exp.Expression | None:
    """`PRIORITY n`, if it stands here."""
    if not parser._match_text_seq("PRIORITY"):
        return None
    at = parser._here()
    number: exp.Expression | None = parser._parse_whole("a priority")
    if number is None or int(number.name) < 1:
        parser._stop(f"expected a priority, a whole number from 1 on{parser._but_found()}", *at)
    assert number is not None
    number.meta.update(start=at[0], end=parser._prev.end)
    return number


def parse_stream_quality(parser: Any) -> dict[str, Any]:
    """`[RANGE BETWEEN a AND b] [GRANULARITY BETWEEN g AND h] [PRIORITY n]` behind the source of a stream."""
    found: dict[str, Any] = {}
    for word, what in (("RANGE", "the size of windows"), ("GRANULARITY", "the granularity of windows")):
        if parser._match_text_seq(word):
            if not parser._match_text_seq("BETWEEN", advance=False):
                help = f"as in {word} BETWEEN 1 MINUTE AND 10 MINUTES; one value stands in a WINDOW"
                parser._stop(f"expected BETWEEN{parser._but_found()}", *parser._here(), help)
            found[word.lower()] = parse_size(parser, what)
    if found:
        found["priority"] = parse_priority(parser)
    return found
