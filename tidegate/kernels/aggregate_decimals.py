"""Decimals as 128-bit integers: (low, high) words of what Arrow and Polars store."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from tidegate.kernels.sweep_groups import Flags, Ints

Words = npt.NDArray[np.uint64]


def words_of(series: pl.Series) -> Words:
    """The unscaled values of a decimal column, 0 for NULL.

    >>> words_of(pl.Series(["-0.01", None], dtype=pl.String).cast(pl.Decimal(10, 2))).astype(np.int64).tolist()
    [[-1, -1], [0, 0]]
    """
    plain = series.fill_null(0).rechunk().to_arrow()
    wide = plain.cast(pa.decimal128(38, series.dtype.scale))  # type: ignore[attr-defined]
    if len(wide) == 0:
        return np.empty((0, 2), np.uint64)
    words = np.frombuffer(wide.buffers()[1], np.uint64, 2 * len(wide), 16 * wide.offset)
    return words.reshape(-1, 2)


def decimal_series(words: Words, null: Flags, precision: int, scale: int) -> pl.Series:
    """The inverse of `words_of`, NULL where flagged.

    >>> words = np.array([[150, 0], [0, 0]], np.uint64)
    >>> decimal_series(words, np.array([False, True]), 5, 2).to_list()
    [Decimal('1.50'), None]
    """
    valid = pa.array(~null).buffers()[1] if len(null) else pa.py_buffer(b"")
    data = pa.py_buffer(np.ascontiguousarray(words))
    column = pa.Array.from_buffers(pa.decimal128(precision, scale), len(words), [valid, data])
    series = pl.from_arrow(column)
    assert isinstance(series, pl.Series)
    return series.cast(pl.Decimal(precision, scale))


def fits_precision(words: Words, precision: int) -> bool:
    """Whether every value has at most so many digits."""
    limit = 10**precision
    high, low = words[:, 1].view(np.int64), words[:, 0]
    if precision <= 18:
        small = low.view(np.int64)
        return bool(((high == small >> 63) & (small > -limit) & (small < limit)).all())
    # Only values whose high word reaches the limit's need a close look.
    near = (high >= limit >> 64) | (high <= -(limit >> 64) - 1)
    return all(-limit < v < limit for v in _numbers(words[near]))


def average_words(total: Words, count: Ints, shift: int) -> Words:
    """`total * 10**shift / count`, rounded half up (away from zero); 0 where the count is 0.

    >>> average_words(np.array([[5, 0]], np.uint64), np.array([2]), 0).tolist()
    [[3, 0]]
    """
    factor = 10**shift
    high, low = total[:, 1].view(np.int64), total[:, 0].view(np.int64)
    bound = (2**62) // factor
    if ((high == low >> 63) & (low > -bound) & (low < bound)).all():
        divisor = np.maximum(count, 1)
        quotient, rest = np.divmod(np.abs(low) * factor, divisor)
        rounded = np.sign(low) * (quotient + (rest >= divisor - rest))
        return np.column_stack([rounded, rounded >> 63]).view(np.uint64)
    result = np.zeros_like(total)
    for i, (value, divisor) in enumerate(zip(_numbers(total), count.tolist(), strict=True)):
        if divisor:
            quotient, rest = divmod(abs(value) * factor, divisor)
            quotient = quotient + (2 * rest >= divisor)
            bits = (quotient if value >= 0 else -quotient) & (2**128 - 1)
            result[i] = bits & (2**64 - 1), bits >> 64
    return result


def _numbers(words: Words) -> list[int]:
    high, low = words[:, 1].view(np.int64).tolist(), words[:, 0].tolist()
    return [(h << 64) | v for h, v in zip(high, low, strict=True)]
