"""Answers as pictures: values as steps over time, and rows as bars of their validity. Matplotlib draws; the extra `plot` brings it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import polars as pl

from tidegate.errors import Diagnostic, did_you_mean

FROM, TO = "valid_from", "valid_to"
MOST_ROWS = 20_000
MOST_LINES = 20
"""More rows or groups than these make no picture."""

Instant = int | datetime
Line = tuple[list[Instant], list[float | None]]


def step_lines(
    periods: pl.DataFrame, value: str | None = None, by: Sequence[str] | None = None
) -> dict[str, Line]:
    """For each group the instants and the values from them on; None: there is no row.

    `value` is the last column of numbers unless it is said, `by` the columns that tell groups apart: all others.

    >>> rows = pl.DataFrame({"k": ["a", "a"], "n": [1, 2], "valid_from": [0, 5], "valid_to": [3, 9]})
    >>> step_lines(rows)
    {'a': ([0, 3, 5, 9], [1.0, None, 2.0, None])}
    """
    columns = [c for c in periods.columns if c not in (FROM, TO, "from_batch", "to_batch")]
    numbers = [c for c in columns if periods.schema[c].is_numeric()]
    value = value or (numbers[-1] if numbers else None)
    if value is None or value not in numbers:
        problem = "no column of numbers to draw" if value is None else f"'{value}' is no column of numbers"
        raise Diagnostic("NOT_DRAWN", problem, help=did_you_mean(value or "", numbers, "columns of numbers"))
    groups = _groups(periods, [c for c in columns if c != value] if by is None else list(by))
    end = _end(periods)
    lines: dict[str, Line] = {}
    for name, rows in groups.items():
        xs: list[Instant] = []
        ys: list[float | None] = []
        for start, stop, number in rows.sort(FROM).select(FROM, TO, value).iter_rows():
            if xs and xs[-1] == start:
                xs.pop()
                ys.pop()
            xs += [start, end if stop is None else stop]
            ys += [None if number is None else float(number), None]
        lines[name] = xs, ys
    return lines


def bars(periods: pl.DataFrame, by: Sequence[str] | None = None) -> dict[str, list[tuple[Instant, Instant]]]:
    """For each kind of row, when it was valid.

    >>> rows = pl.DataFrame({"k": ["a", "b", "a"], "valid_from": [0, 1, 5], "valid_to": [3, None, 9]})
    >>> bars(rows)
    {'a': [(0, 3), (5, 9)], 'b': [(1, 9)]}
    """
    columns = [c for c in periods.columns if c not in (FROM, TO, "from_batch", "to_batch")]
    end = _end(periods)
    return {
        name: [
            (start, end if stop is None else stop)
            for start, stop in rows.sort(FROM).select(FROM, TO).iter_rows()
        ]
        for name, rows in _groups(periods, columns if by is None else list(by)).items()
    }


def _groups(periods: pl.DataFrame, by: list[str]) -> dict[str, pl.DataFrame]:
    unknown = [c for c in by if c not in periods.columns]
    if unknown:
        help = did_you_mean(unknown[0], periods.columns, "columns")
        raise Diagnostic("UNKNOWN_COLUMN", f"the answer has no column '{unknown[0]}'", help=help)
    known = periods.filter(pl.col(FROM).is_not_null())
    if known.height > MOST_ROWS:
        raise Diagnostic(
            "NOT_DRAWN", f"{known.height:,} rows make no picture", help="ask for intervals(since=…)"
        )
    if not by:
        return {"": known}
    parts = known.partition_by(by, as_dict=True, maintain_order=True)
    if len(parts) > MOST_LINES:
        raise Diagnostic(
            "NOT_DRAWN",
            f"{len(parts):,} groups make no picture",
            help="say by=[…], or a condition in the query",
        )
    named = {", ".join("NULL" if v is None else str(v) for v in key): part for key, part in parts.items()}
    return dict(sorted(named.items()))


def _end(periods: pl.DataFrame) -> Any:
    """Where rows without an end are cut off: at the last instant at which anything happens."""
    instants = [periods[c].max() for c in (FROM, TO)]
    return max((i for i in instants if i is not None), default=None)


def draw_steps(periods: pl.DataFrame, value: str | None, by: Sequence[str] | None, axes: Any = None) -> Any:
    """The lines on matplotlib's axes, which are returned."""
    lines = step_lines(periods, value, by)
    axes = axes or _axes()
    for name, (xs, ys) in lines.items():
        axes.plot(
            xs, [float("nan") if y is None else y for y in ys], drawstyle="steps-post", label=name or None
        )
    if len(lines) > 1:
        axes.legend()
    axes.set_xlabel("time")
    if value is not None:
        axes.set_ylabel(value)
    return axes


def draw_bars(periods: pl.DataFrame, by: Sequence[str] | None, axes: Any = None) -> Any:
    """The bars on matplotlib's axes, one line for each kind of row."""
    rows = bars(periods, by)
    axes = axes or _axes()
    for place, spans in enumerate(rows.values()):
        axes.broken_barh([(start, stop - start) for start, stop in spans], (place - 0.4, 0.8))  # type: ignore[operator]
    if rows and isinstance(next(iter(rows.values()))[0][0], datetime):
        axes.xaxis_date()
    axes.set_yticks(range(len(rows)), list(rows))
    axes.invert_yaxis()
    axes.set_xlabel("time")
    return axes


def _axes() -> Any:
    try:
        from matplotlib.figure import Figure
        from matplotlib.pyplot import subplots
    except ModuleNotFoundError:
        raise Diagnostic(
            "PACKAGE_MISSING", "matplotlib is not installed", help="pip install 'tidegate[plot]'"
        ) from None
    figure, axes = subplots()
    assert isinstance(figure, Figure)
    return axes
