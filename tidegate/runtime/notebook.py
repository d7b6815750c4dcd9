"""Answers as tables for notebooks: a few rows, escaped, and how many more there are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from pyspark.sql import DataFrame

ROWS = 20
"""A table shows no more rows than this."""


def html_table(columns: Sequence[str], rows: Iterable[Sequence[object]], caption: str, more: int = 0) -> str:
    """Rows as an HTML table; nothing in them is taken for HTML.

    >>> html_table(["a"], [["<b>"], [None]], "q")
    '<table><caption>q</caption><tr><th>a</th></tr><tr><td>&lt;b&gt;</td></tr><tr><td>NULL</td></tr></table>'
    >>> html_table([], [], "q", 3).endswith("<p>3 more rows</p>")
    True
    """
    lines = [_line("th", columns), *(_line("td", row) for row in rows)]
    rest = f"<p>{more:,} more row{'s' if more > 1 else ''}</p>" if more else ""
    return f"<table><caption>{escape(caption)}</caption>{''.join(lines)}</table>{rest}"


def html_of(frame: DataFrame, caption: str, limit: int = ROWS) -> str:
    """The first rows of a frame as an HTML table; rows are counted only where there are more."""
    found = frame.limit(limit + 1).collect()
    more = frame.count() - limit if len(found) > limit else 0
    return html_table(frame.columns, found[:limit], caption, more)


def _line(cell: str, values: Iterable[object]) -> str:
    texts = ("NULL" if value is None else escape(str(value)) for value in values)
    return f"<tr>{''.join(f'<{cell}>{text}</{cell}>' for text in texts)}</tr>"
