"""SHOW: what there is, and what runs."""

from __future__ import annotations

from typing import Any

from tidegate.language.syntax import ShowDefinitions

KINDS = ("STREAMS", "VIEWS", "TABLES", "FUNCTIONS", "QUARANTINE", "QUERIES", "GRAPH")

FORMS = ("text", "json", "graphviz", "mermaid")
"""How a graph can be shown."""


def parse_show(parser: Any) -> ShowDefinitions:
    """What follows SHOW."""
    kind = next((kind for kind in KINDS if parser._match_text_seq(kind)), None)
    if kind is None:
        parser._stop(f"expected {', '.join(KINDS[:-1])} or {KINDS[-1]}{parser._but_found()}", *parser._here())
    form = None
    if kind == "GRAPH" and parser._match_text_seq("AS"):
        form = next((form for form in FORMS if parser._match_text_seq(form.upper())), None)
        if form is None:
            parser._stop(
                f"expected {', '.join(FORMS[:-1])} or {FORMS[-1]}{parser._but_found()}", *parser._here()
            )
    stream = parser._expect_name("a stream") if kind == "QUARANTINE" else None
    return ShowDefinitions(kind=kind, form=form, this=stream)
