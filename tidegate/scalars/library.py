"""All scalar functions, by name and by spelling. A new one is an entry in the module of its family."""

from __future__ import annotations

from sqlglot import exp

from tidegate.scalars import (
    arithmetic,
    casts,
    dates,
    intervals,
    logic,
    nested,
    patterns,
    reals,
    text,
    values,
)
from tidegate.scalars.registry import Function, Reading

_FAMILIES = (values, arithmetic, reals, logic, text, patterns, dates, intervals, nested, casts)

ENTRIES: dict[str, Function] = {entry.name: entry for family in _FAMILIES for entry in family.ENTRIES}

SPELLINGS: dict[type[exp.Expression] | str, tuple[str, Reading]] = {
    spelling: (entry.name, reading)
    for entry in ENTRIES.values()
    for spelling, reading in entry.spelled.items()
}

FUNCTIONS: tuple[str, ...] = tuple(sorted(name for entry in ENTRIES.values() for name in entry.names.split()))
"""Every function of the built-in set, by its names in SQL; operators are not functions."""
