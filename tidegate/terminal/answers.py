"""What statements give, as text: tables for people, CSV and JSON for programs.

For programs nothing but rows goes to standard output: all else that is to be said goes to standard error.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any

from rich.columns import Columns
from rich.console import Console
from rich.table import Table
from rich.text import Text

console = Console()
errors = Console(stderr=True)


class Form(StrEnum):
    TABLE = "table"
    CSV = "csv"
    JSON = "json"


ROWS = 20
"""How many rows of an answer a table shows, where nobody says."""


@dataclass(frozen=True)
class Rows:
    """Rows under names; `more`: there are others that were not fetched."""

    columns: tuple[str, ...]
    values: tuple[tuple[Any, ...], ...]
    more: bool = False


def fetched(frame: Any, limit: int | None) -> Rows:
    """The rows of a DataFrame, the first so many of them. Moments are read in UTC, whatever the machine's zone is."""
    return _fetched((frame if limit is None else frame.limit(limit + 1)).toArrow(), limit)


def _fetched(table: Any, limit: int | None) -> Rows:
    table = table if limit is None else table.slice(0, limit + 1)
    columns = [c.to_pylist() for c in table.columns]
    values = tuple(zip(*columns, strict=True)) if columns else ((),) * table.num_rows
    return Rows(tuple(table.column_names), values[:limit], limit is not None and len(values) > limit)


def rows_of(result: Any, limit: int | None = None) -> Rows:
    """What a statement gave, as rows: an answer with its validity, a snapshot, names, a text."""
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from tidegate.runtime.results import Result
    from tidegate.runtime.results_here import intervals_here
    from tidegate.runtime.verification import Verification

    if isinstance(result, Result):
        if (table := intervals_here(result)) is not None:
            return _fetched(table, limit)
        frame = result.intervals()
        return fetched(frame.orderBy("valid_from", "valid_to"), limit)
    if isinstance(result, pa.Table):
        return _fetched(result, limit)
    if isinstance(result, DataFrame):
        return fetched(result, limit)
    if isinstance(result, list):
        return _listed(result)
    return Rows(("verification" if isinstance(result, Verification) else "plan",), ((str(result),),))


def _listed(result: Sequence[Any]) -> Rows:
    """What SHOW and DESCRIBE give: names, names with types, or records."""
    if result and isinstance(result[0], Mapping):
        names = tuple(dict.fromkeys(name for record in result for name in record))
        return Rows(names, tuple(tuple(record.get(n) for n in names) for record in result))
    if result and isinstance(result[0], tuple):
        return Rows(("column", "type")[: len(result[0])], tuple(result))
    return Rows(("name",), tuple((str(name),) for name in result))


@dataclass(frozen=True)
class Printer:
    """Shows results in one form; `rows` bounds those of an answer (None: twenty in a table, all of them otherwise)."""

    form: Form = Form.TABLE
    rows: int | None = None
    more: str = "--rows"
    """How to ask for more of them."""
    paged: Callable[[int], AbstractContextManager[Any]] = field(default=lambda _: nullcontext())
    """Shows what is printed inside page by page, if it has too many lines."""

    @property
    def limit(self) -> int | None:
        return ROWS if self.rows is None and self.form == Form.TABLE else self.rows

    def say(self, text: str, style: str | None = None) -> None:
        """What is no row: beside a table, or to those who do not read standard output by a program."""
        to = console if self.form == Form.TABLE else errors
        to.print(text, style=style, markup=False, highlight=False)

    def show(self, result: Any) -> None:
        """An answer, whatever kind it is."""
        if result is not None:
            self.print(result, rows_of(result, self.limit))

    def print(self, result: Any, found: Rows) -> None:
        """An answer whose rows have been fetched."""
        from tidegate.runtime.results import Result

        if self.form != Form.TABLE:
            for line in lines(found, self.form):
                print(line)
        elif isinstance(result, list):
            self._listing(found)
        elif found.columns in (("plan",), ("verification",)):
            text = str(result)
            with self.paged(text.count("\n") + 1):
                console.print(text, markup=False, highlight=False, soft_wrap=True)
        else:
            self.table(found)
        if found.more:
            self.say(f"only the first {self.limit:,} rows are shown ({self.more})")
        if isinstance(result, Result) and not result.refused:
            # What was refused stands in the log, which is on the terminal.
            self.say("no rows were refused")

    def table(self, found: Rows, title: str | None = None) -> None:
        """Rows as a table."""
        table = Table(title=title, title_justify="left")
        for name in found.columns:
            table.add_column(Text(name))
        for row in found.values:
            table.add_row(*(Text(_in_table(value)) for value in row))
        with self.paged(len(found.values) + 5):
            console.print(table)

    def _listing(self, found: Rows) -> None:
        if len(found.columns) > 2:
            self.table(found)
            return
        many = len(found.columns) == 1 and len(found.values) > ROWS
        texts = _aligned([[*map(_in_table, row)] for row in found.values])
        with self.paged(len(texts)):
            if many:
                console.print(Columns(map(Text, texts), padding=(0, 2), column_first=True))
            for text in () if many else texts:
                console.print(text, markup=False, highlight=False)


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of one or two texts, the second ones below each other.

    >>> _aligned([["room", "STRING"], ["t", "BIGINT (TS)"]])
    ['room  STRING', 't     BIGINT (TS)']
    """
    width = max((len(row[0]) for row in rows if len(row) > 1), default=0)
    return ["  ".join((row[0].ljust(width), *row[1:])) for row in rows]


def _in_table(value: Any) -> str:
    return "NULL" if value is None else text_of(value)


def text_of(value: Any) -> str:
    """A value as people read it.

    >>> text_of(datetime(2026, 1, 1, 9)), text_of([1, None]), text_of(True), text_of({"a": "x"})
    ('2026-01-01 09:00:00', '[1, null]', 'true', '{"a": "x"}')
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return str(value.replace(tzinfo=None))
    if isinstance(value, list | tuple | dict):
        return json.dumps(plain(value), ensure_ascii=False)
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


def plain(value: Any) -> Any:
    """A value as JSON has it: decimals are texts, so that no digit is lost, and so is what JSON has no word for."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value).replace("nan", "NaN").replace("inf", "Infinity")
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, datetime | date | timedelta | Decimal | bytes):
        return text_of(value)
    return value


def lines(found: Rows, form: Form) -> Iterator[str]:
    """Rows as CSV with a line of names, or as one JSON object per line.

    >>> rows = Rows(("a", "b"), ((1, "x, y"), (None, "")))
    >>> print(*lines(rows, Form.CSV), sep="|")
    a,b|1,"x, y"|,""
    >>> print(*lines(rows, Form.JSON), sep="|")
    {"a": 1, "b": "x, y"}|{"a": null, "b": ""}
    """
    if form == Form.JSON:
        for row in found.values:
            yield json.dumps(
                {n: plain(v) for n, v in zip(found.columns, row, strict=True)}, ensure_ascii=False
            )
        return
    for row in (found.columns, *found.values):
        yield ",".join(map(_cell, row))


def _cell(value: Any) -> str:
    """NULL is nothing, and an empty text is a pair of quotes."""
    if value is None:
        return ""
    text = text_of(value)
    quoted = text == "" or any(c in text for c in ',"\n\r') or text != text.strip()
    return '"' + text.replace('"', '""') + '"' if quoted else text
