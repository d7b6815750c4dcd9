"""Rows of two engines: equal where both are exact, and as near as the digits of one say where the other rounds."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from decimal import Decimal
from math import isclose

Row = tuple[object, ...]


def difference(ours: Iterable[Row], theirs: Iterable[Row]) -> str | None:
    """The first rows in which two bags differ. A row of NULLs alone is an aggregate over nothing, which here has no row.

    >>> difference([(1, Decimal("2.50"))], [(1, Decimal("2.5")), (None, None)])
    >>> difference([(Decimal("0.333333"),)], [(1 / 3,)])
    >>> difference([(Decimal("0.333334"),)], [(1 / 3,)])
    "found (Decimal('0.333334'),), expected (0.3333333333333333,)"
    """
    left, right = _sorted(ours), _sorted(r for r in theirs if any(v is not None for v in r))
    if len(left) != len(right):
        return f"found {len(left)} rows, expected {len(right)}"
    for x, y in zip(left, right, strict=True):
        if not same(x, y):
            return f"found {x}, expected {y}"
    return None


def same(x: Row, y: Row) -> bool:
    return len(x) == len(y) and all(map(_equal, x, y))


def _sorted(rows: Iterable[Row]) -> list[Row]:
    """By what both engines have exactly, then by the rest."""

    def key(row: Row) -> tuple[object, ...]:
        exact = [str(v) for v in row if isinstance(v, str | int | date)]
        return exact, [float(v) for v in row if isinstance(v, float | Decimal)]

    return sorted(rows, key=key)


def _equal(x: object, y: object) -> bool:
    if isinstance(x, Decimal) and isinstance(y, float):
        exponent = x.as_tuple().exponent
        assert isinstance(exponent, int)
        return isclose(x, y, rel_tol=1e-12, abs_tol=0.501 * 10.0**exponent)
    return x == y
