"""Rows with partial values of an aggregation, combined where they are sent: one row for all of a group that a window shows alike."""

from __future__ import annotations

import math
from dataclasses import dataclass

import polars as pl

from tidegate.kernels.endpoints import aligned
from tidegate.kernels.rows import Frame

SAMPLED = 16
"""Of so many groups one is counted to tell how many there are."""

PAYS = 2
"""Rows are combined where so many become one, on average."""

FEWEST = 1_000
"""Fewer rows than this are sent as they are."""


@dataclass(frozen=True)
class Combine:
    """How rows become one: the first `keys` columns are equal, of the others each is added up or its least or greatest value taken.

    Rows are instants, and those that move up to the same origin + k * slide are shown alike.
    """

    keys: int
    ways: tuple[str, ...]
    """Of each column behind the keys: sum, min or max. NULLs do not count; of nothing but NULLs comes NULL."""
    slide: int
    origin: int = 0


def combined(rows: Frame, combine: Combine) -> Frame:
    """The rows with columns c0, c1, …, `ts` and perhaps others that depend on the keys alone; as they are where combining them does not pay.

    What is combined has the latest of the times.

    >>> rows = pl.DataFrame({"c0": [7, 7, 8, 7], "c1": [1, 2, 3, 4], "ts": [1, 9, 9, 11]})
    >>> one = combined(pl.concat([rows] * 500), Combine(1, ("sum",), 10))
    >>> sorted(one.rows())
    [(7, 1500, 9), (7, 2000, 11), (8, 1500, 9)]
    """
    keys = [f"c{i}" for i in range(combine.keys)]
    ways = {f"c{combine.keys + i}": way for i, way in enumerate(combine.ways)}
    if rows.height < FEWEST or _may_overflow(rows, ways):
        return rows
    rows = rows.with_columns(aligned(pl.col("ts"), combine.slide, combine.origin).alias("slide"))
    if PAYS * _groups(rows, keys) > rows.height:
        return rows.drop("slide")
    made = [_taken(c, way, rows.schema[c]) for c, way in ways.items()]
    others = [pl.col(c).first() for c in rows.columns if c not in (*keys, *ways, "ts", "slide")]
    found = rows.group_by(*keys, "slide").agg(*made, pl.col("ts").max(), *others)
    return found.select(rows.columns[:-1]).cast({c: rows.schema[c] for c in ways}).sort("ts")


def _groups(rows: Frame, keys: list[str]) -> int:
    """About how many rows are left, by those of some groups."""
    if not keys:
        return rows["slide"].n_unique()
    some = rows.select(*keys, "slide").filter(pl.struct(*keys, "slide").hash() % SAMPLED == 0)
    return SAMPLED * some.n_unique()


def _may_overflow(rows: Frame, ways: dict[str, str]) -> bool:
    """Whether a sum of so many whole numbers might not fit; decimals have room."""
    for column, way in ways.items():
        if way == "sum" and rows.schema[column] == pl.Int64:
            low, high = rows[column].min(), rows[column].max()
            if high is not None and max(abs(int(low)), abs(int(high))) * rows.height >= 2**63:  # type: ignore[arg-type]
                return True
    return False


def _taken(name: str, way: str, type_: pl.DataType) -> pl.Expr:
    column = pl.col(name)
    if way == "sum":
        return pl.when(column.count() > 0).then(column.sum()).alias(name)
    if not type_.is_float():
        return column.min() if way == "min" else column.max()
    # NaN is greater than every number.
    wrong, numbers = column.is_nan().any(), column.drop_nans()
    nothing = pl.lit(math.nan, type_)
    if way == "max":
        return pl.when(wrong).then(nothing).otherwise(numbers.max()).alias(name)
    return pl.when(wrong & (numbers.count() == 0)).then(nothing).otherwise(numbers.min()).alias(name)
