"""Bands: what a join's condition says about the order of values, so that partners are searched for and not tried.

A comparison `f(left) <= g(right)` whose sides read one input each limits the partners of a row by their order; so does a difference
(`ABS(f - g) <= d`) with a constant. Of all such comparisons a join uses one from above and one from below:

    u(left) <= U(right)  and  d(left) >= D(right)

Values become integers in the order in which SQL compares them (NaN last). A band only leaves out pairs for which the condition cannot be
true; the condition itself is asked of all others. Rows of which nothing can be said (evaluating them fails, or a difference with
them may round or overflow) are **odd**: they meet everything.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta

import numpy as np
import numpy.typing as npt
import polars as pl
from sqlglot import exp

from tidegate.errors import Diagnostic
from tidegate.kernels.expressions import Functions
from tidegate.kernels.rows import Frame
from tidegate.kernels.sweep_groups import holds_integer
from tidegate.scalars.columnar import translated
from tidegate.scalars.expressions import conjuncts
from tidegate.scalars.meaning import compile_resolved, refuse
from tidegate.scalars.registry import Resolved
from tidegate.scalars.typing import resolve
from tidegate.time import MAX, MIN
from tidegate.types import Schema

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}
_ORDERED = (
    *("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL"),
    *("DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "INTERVAL"),
)
"""Types whose values become integers in their order."""
_SAFE = {
    "TINYINT": 2**5,
    "SMALLINT": 2**13,
    "INT": 2**29,
    **dict.fromkeys(("BIGINT", "TIMESTAMP", "TIMESTAMP_NTZ"), 2**60),
}
"""Sums and differences of two such numbers below this have the type, too."""
_ROUNDING = 2.0**-48
"""More than the relative error of a sum or difference of doubles."""


@dataclass(frozen=True)
class Limit:
    """`left <= right`, or (not `below`) `left >= right`; each side reads its own input. `strict`: without being equal.

    With an `offset`, it stands for a condition on the difference of both, and means right + offset.
    """

    left: Resolved
    right: Resolved
    below: bool
    strict: bool
    offset: float | None = None


@dataclass(frozen=True)
class Edges:
    """What the rows of a side say to the search (see `kernels.pairs`): `above` must not be less than the partner's `below`."""

    above: Ints
    """d of left rows, U of right ones; MAX: it meets everything."""
    below: Ints
    """u of left rows, D of right ones."""
    never: Flags
    """Rows that match nothing."""


@dataclass(frozen=True)
class Band:
    """At most one limit from above and one from below."""

    upper: Limit | None
    lower: Limit | None

    @property
    def is_closed(self) -> bool:
        """Whether partners are limited from both ends."""
        return self.upper is not None and self.lower is not None

    def edges(self, rows: Frame, side: int) -> Edges:
        """The values by which the rows of a side search and are found."""
        odd, never = (np.zeros(rows.height, np.bool_) for _ in range(2))
        found: list[Ints] = []
        for limit in (self.upper, self.lower):
            if limit is None:
                found.append(np.zeros(rows.height, np.int64))
                continue
            values, missing, unknown = _values(limit, side, rows)
            never |= missing
            odd |= unknown
            found.append(values)
        upper, lower = found
        above, below = (lower, upper) if side == 0 else (upper, lower)
        above[odd], below[odd] = MAX, MIN
        above[never], below[never] = MIN, MAX
        return Edges(above, below, never)


def band_of(
    predicate: exp.Expression | None, left: Schema, right: Schema, functions: Functions
) -> Band | None:
    """The band in a condition over the columns of both inputs, if there is one.

    >>> import sqlglot
    >>> from tidegate.types import BIGINT, Field
    >>> x = (Field("x", BIGINT),)
    >>> band = band_of(sqlglot.parse_one("c0 >= c1 - 5 AND c0 < c1 + 9 AND c0 <> 3"), x, x, {})
    >>> band.edges(pl.DataFrame({"c0": [100]}), 1)
    Edges(above=array([108]), below=array([95]), never=array([False]))
    >>> band_of(sqlglot.parse_one("c0 <> c1"), x, x, {}) is None
    True
    """
    found = list(limits_of(predicate, left, right, functions))
    uppers, lowers = ([m for m in found if m.below is below] for below in (True, False))
    for upper in uppers:
        for lower in lowers:
            if upper.left == lower.left or upper.right == lower.right:
                return Band(upper, lower)
    if not found:
        return None
    return Band(next(iter(uppers), None), next(iter(lowers), None))


def limits_of(
    predicate: exp.Expression | None, left: Schema, right: Schema, functions: Functions
) -> Iterator[Limit]:
    """All limits that a condition sets and columns can compute."""
    for part in conjuncts(predicate):
        try:
            resolved = resolve(part, left + right, functions, refuse)
        except Diagnostic:
            continue
        for comparison in _conjuncts(resolved):
            for limit in _limits(comparison, len(left)):
                if translated(limit.left) is not None and translated(limit.right) is not None:
                    yield limit


def _conjuncts(node: Resolved) -> Iterator[Resolved]:
    if node.name == "AND":
        for arg in node.args:
            yield from _conjuncts(arg)
    else:
        yield node


def _limits(node: Resolved, width: int) -> Iterator[Limit]:
    if node.name not in _FLIPPED or node.args[0].type.name not in _ORDERED:
        return
    if node.args[0].type != node.args[1].type:
        return
    one, other = node.args
    for a, b, name in ((one, other, node.name), (other, one, _FLIPPED[node.name])):
        sides = _sides(a, width), _sides(b, width)
        if sides == ({0}, {1}):
            yield from _limit(a, b, name, width)
        elif sides == ({0, 1}, set()):
            if a.name == "ABS" and name in ("<", "<="):
                yield from _difference(a.args[0], b, name, 1, width)
                yield from _difference(a.args[0], b, _FLIPPED[name], -1, width)
            else:
                yield from _difference(a, b, name, 1, width)


def _difference(node: Resolved, constant: Resolved, name: str, sign: int, width: int) -> Iterator[Limit]:
    """`a - b <= sign * constant`, and the like."""
    exact = node.name == "-" and (node.type.name in _SAFE or node.type.name == "DOUBLE")
    times = node.name == "DIFFERENCE" and all(a.type.name in _SAFE for a in node.args)
    offset = _number(constant)
    if not (exact or times) or offset is None:
        return
    a, b = node.args
    offset *= sign
    if (_sides(a, width), _sides(b, width)) == ({0}, {1}):
        yield from _limit(a, b, name, width, offset)
    elif (_sides(a, width), _sides(b, width)) == ({1}, {0}):
        yield from _limit(b, a, _FLIPPED[name], width, -offset)


def _limit(a: Resolved, b: Resolved, name: str, width: int, offset: float | None = None) -> Iterator[Limit]:
    strict, right = name in ("<", ">"), _shifted(b, width)
    if name != ">" and name != ">=":
        yield Limit(a, right, True, strict, offset)
    if name != "<" and name != "<=":
        yield Limit(a, right, False, strict, offset)


def _number(constant: Resolved) -> float | None:
    """A constant as a number of what its type counts in."""
    try:
        value = compile_resolved(constant)(())
    except Diagnostic:
        return None
    if isinstance(value, timedelta):
        value = value // timedelta(microseconds=1)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 2**60:
        return None
    return value


def _sides(node: Resolved, width: int) -> set[int]:
    """Which inputs an expression reads."""
    if node.name == "COLUMN":
        return {int(node.value >= width)}
    return set().union(*(_sides(a, width) for a in node.args))


def _shifted(node: Resolved, width: int) -> Resolved:
    if node.name == "COLUMN":
        return replace(node, value=node.value - width)
    return replace(node, args=tuple(_shifted(a, width) for a in node.args))


# Values in their order.


def _values(limit: Limit, side: int, rows: Frame) -> tuple[Ints, Flags, Flags]:
    """The values of a side as integers in their order, where they are NULL, and where nothing can be said."""
    node = limit.right if side else limit.left
    column = translated(node)
    assert column is not None
    failed = pl.lit(False) if column.error is None else column.error.fill_null(True)
    made = rows.select(value=column.value, failed=failed)
    if made.height != rows.height:
        # What is the same for all rows comes as one.
        made = made[np.zeros(rows.height, np.int64)]
    series, odd = made["value"], made["failed"].to_numpy().copy()
    missing = series.is_null().to_numpy() & ~odd
    if series.dtype.is_float():
        plain = series.cast(pl.Float64).fill_null(0.0).to_numpy() + 0.0
        if limit.offset is not None:
            odd |= ~np.isfinite(plain)
            plain = np.where(odd, 0.0, plain)
            if side:
                slack = (np.abs(plain) + abs(limit.offset)) * _ROUNDING
                plain = plain + limit.offset + (slack if limit.below else -slack)
        values = _in_order(plain)
    else:
        values, large = _integers(series)
        odd |= large & ~missing
        if limit.offset is not None:
            half = _SAFE[node.type.name]
            odd |= (values >= half) | (values <= -half)
            if side:
                values = np.where(
                    odd,
                    values,
                    values + int(np.floor(limit.offset) if limit.below else np.ceil(limit.offset)),
                )
    if side and limit.strict and not (limit.offset is not None and series.dtype.is_float()):
        # Without being equal: the next integer, where there is one.
        values = np.maximum(values, MIN + 1) - 1 if limit.below else np.minimum(values, MAX - 1) + 1
    return values, missing, odd


def _in_order(values: npt.NDArray[np.float64]) -> Ints:
    """Doubles as integers in the same order; all NaN are one, and the greatest.

    >>> _in_order(np.array([-np.inf, -1.0, 0.0, 5e-324, 1.0, np.inf, np.nan])).argsort().tolist()
    [0, 1, 2, 3, 4, 5, 6]
    """
    bits = np.where(np.isnan(values), np.nan, values).view(np.int64)
    return bits ^ ((bits >> 63) & MAX)


def _integers(series: pl.Series) -> tuple[Ints, Flags]:
    """A column's values as integers in their order, and where they are too large for that."""
    physical = series.to_physical()
    if holds_integer(series.dtype):
        return physical.cast(pl.Int64).fill_null(0).to_numpy().copy(), np.zeros(series.len(), np.bool_)
    narrow = physical.cast(pl.Int128).cast(pl.Int64, strict=False)
    return narrow.fill_null(0).to_numpy().copy(), narrow.is_null().to_numpy()
