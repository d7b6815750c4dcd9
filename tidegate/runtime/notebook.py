"""Answers as tables for notebooks: a few rows, escaped, and how many more there are."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from html import escape
from importlib import import_module
from time import monotonic
from typing import Any

from pyspark.sql import DataFrame

from tidegate.errors import Diagnostic
from tidegate.spark.values import rows_in_utc

ROWS = 20
"""A table shows no more rows than this."""


def html_table(columns: Sequence[str], rows: Iterable[Sequence[object]], caption: str, more: int = 0) -> str:
    """Rows as an HTML table; nothing in them is taken for HTML.

    >>> html_table(["a"], [["<b>"], [None]], "q")
    '<table><caption style="text-align: left; white-space: nowrap">q</caption><tr><th>a</th></tr><tr><td>&lt;b&gt;</td></tr><tr><td>NULL</td></tr></table>'
    >>> html_table([], [], "q", 3).endswith("<p>3 more rows</p>")
    True
    """
    lines = [_line("th", columns), *(_line("td", row) for row in rows)]
    rest = f"<p>{more:,} more row{'s' if more > 1 else ''}</p>" if more else ""
    # A browser would break a caption to the width of its table.
    style = "text-align: left; white-space: nowrap"
    return f'<table><caption style="{style}">{escape(caption)}</caption>{"".join(lines)}</table>{rest}'


def html_of(frame: DataFrame, caption: str, limit: int = ROWS) -> str:
    """The first rows of a frame as an HTML table; rows are counted only where there are more."""
    found = rows_in_utc(frame.limit(limit + 1))
    more = frame.count() - limit if len(found) > limit else 0
    return html_table(frame.columns, found[:limit], caption, more)


def _line(cell: str, values: Iterable[object]) -> str:
    texts = ("NULL" if value is None else escape(str(value)) for value in values)
    return f"<tr>{''.join(f'<{cell}>{text}</{cell}>' for text in texts)}</tr>"


class LiveTable:
    """A table in a notebook that is drawn anew while a query runs; `stop()` leaves it as it is."""

    def __init__(self, drawn: Callable[[], str], runs: Callable[[], bool], every: float) -> None:
        self._drawn, self._runs, self._every = drawn, runs, every
        self._over = threading.Event()
        self._handle = _displayed(drawn())
        self._thread = threading.Thread(target=self._follow, name="tidegate-show", daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        while not self._over.wait(self._every):
            running = self._runs()
            try:
                self._handle.update(_html(self._drawn()))
            except Diagnostic as diagnostic:
                self._handle.update(_html(f"<pre>{escape(str(diagnostic))}</pre>"))
                return
            if not running:
                return

    def stop(self, seconds: float = 10) -> None:
        """Draw no more."""
        self._over.set()
        self._thread.join(seconds)

    def __repr__(self) -> str:
        return f"LiveTable({'stopped' if not self._thread.is_alive() else f'every {self._every:g} seconds'})"


def show_once(drawn: str) -> None:
    """A table in a notebook."""
    _displayed(drawn)


def _ipython() -> Any:
    try:
        return import_module("IPython.display")
    except ModuleNotFoundError:
        raise Diagnostic(
            "PACKAGE_MISSING",
            "IPython is not installed",
            help="pip install ipython; elsewhere, latest().show() prints",
        ) from None


def _displayed(html: str) -> Any:
    return _ipython().display(_html(html), display_id=True)


def _html(text: str) -> Any:
    return _ipython().HTML(text)


def in_notebook() -> bool:
    """Whether a notebook shows what the program displays."""
    import sys

    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


class NotebookProgress:
    """How far a run is, as one line of a notebook that is written anew; a run of less than a second shows none."""

    def __init__(self, what: str, after: float = 1.0, every: float = 0.5) -> None:
        self._what, self._after, self._every = what, after, every
        self._began = self._last = monotonic()
        self._handle: Any = None

    def __call__(self, part: float) -> None:
        now = monotonic()
        done = part >= 1
        if now - self._began < self._after or (now - self._last < self._every and not done):
            return
        self._last = now
        line = f"<progress value='{min(max(part, 0), 1):.3f}'></progress> {escape(self._what)}: {part:.0%}, {now - self._began:.0f} s"
        if self._handle is None:
            self._handle = _displayed(line)
        else:
            self._handle.update(_html(line))
