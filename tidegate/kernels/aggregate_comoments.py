"""COVAR_POP, COVAR_SAMP and CORR of floats, from sums without rounding (see `aggregate_exact`).

With c pairs (x, y) and spread(x, y) = c * sum of xy - sum of x * sum of y, a covariance is spread(x, y) / (c * c) or, of a sample,
spread(x, y) / (c * (c - 1)), and the correlation spread(x, y) / sqrt(spread(x, x) * spread(y, y)).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from tidegate.algebra.operators import Aggregation
from tidegate.kernels.aggregate_exact import (
    MASK,
    SQUARE_LIMBS,
    add_float,
    load,
    magnitude,
    room,
    rounded,
    same,
    store,
    tidy,
)  # fmt: skip
from tidegate.kernels.aggregate_sweep import Sweep, Swept, after, long_numbers, nullable, numbered, picked
from tidegate.kernels.machine_code import compiled
from tidegate.kernels.sweep_groups import Flags, Floats, Ids, Ints, take
from tidegate.kernels.sweep_ranks import floats_of
from tidegate.scalars.columns import dtype

SUMS = 5
"""Of x, of y, of xy, of x² and of y²."""


@dataclass(frozen=True)
class Comoment:
    """COVAR_POP, COVAR_SAMP and CORR: kept are five sums and how many pairs are finite, and how many are not."""

    index: int
    aggregation: Aggregation
    needs_elements: bool

    @property
    def accumulators(self) -> Mapping[str, pl.DataType]:
        return numbered(self.index, 2) | {self._name: pl.List(pl.Int64())}

    @property
    def _name(self) -> str:
        return f"a{self.index}_sums"

    def sweep(self, sweep: Sweep) -> Swept:
        events, use, rows = sweep.summed(self.aggregation)
        xs, ys = (floats_of(picked(sweep, a, rows)).view(np.int64) for a in self.aggregation.arguments)
        counts, line = sweep.accumulators(self.index, 2), sweep.timeline
        out, null = np.empty(line.points, np.float64), np.empty(line.points, np.bool_)
        kept = sweep_comoments(
            line.group_points, events.offsets, events.events, events.n, use, (xs, ys),
            self.aggregation.function.endswith("SAMP"), self.aggregation.function == "CORR",
            counts, *sweep.numbers(self._name), out, null, sweep.changed,
        )  # fmt: skip
        type_ = dtype(self.aggregation.type)
        return Swept(
            lambda points: nullable(pl.Series(take(out, points)), take(null, points), type_),
            after(self.index, counts) | {self._name: long_numbers(*kept)},
        )


@compiled
def _add_product(limbs: Ints, x: int, y: int, times: int) -> int:
    """Add the product of two finite floats, given by their bits, so many times; the lowest of the five limbs it touches."""
    exponent_x, exponent_y = (x >> 52) & 0x7FF, (y >> 52) & 0x7FF
    m, k = x & 0xFFFFFFFFFFFFF, y & 0xFFFFFFFFFFFFF
    if exponent_x > 0:
        m |= 1 << 52
        exponent_x -= 1
    if exponent_y > 0:
        k |= 1 << 52
        exponent_y -= 1
    times = -times if (x < 0) != (y < 0) else times
    mask, shift = np.uint64(MASK), np.uint64(32)
    m_low, m_high = np.uint64(m) & mask, np.uint64(m) >> shift
    k_low, k_high = np.uint64(k) & mask, np.uint64(k) >> shift
    exponent = exponent_x + exponent_y
    i, off = exponent >> 5, exponent & 31
    p = m_low * k_low
    q = m_low * k_high + m_high * k_low
    r = m_high * k_high
    b = (p >> shift) + (q & mask)
    c = (q >> shift) + (r & mask) + (b >> shift)
    d = (r >> shift) + (c >> shift)
    carry = np.int64(0)
    for j, part in enumerate((p & mask, b & mask, c & mask, d)):
        v = (np.int64(part) << off) + carry
        limbs[i + j] += times * (v & MASK)
        carry = v >> 32
    limbs[i + 4] += times * carry
    return i


@compiled
def _spread(
    numbers: Ints, low: Ints, high: Ints, which: tuple[int, int, int], count: int, work: Ints, sizes: Ints
) -> tuple[float, int]:
    """`count * sum of products - sum of x * sum of y`, rounded, and its exponent: in units of 2**-2148."""
    x, y, xy = which
    work[:] = 0
    first, last = len(work), 0
    if low[xy] <= high[xy]:
        first, last = low[xy], high[xy] + 1
    for i in range(low[xy], high[xy] + 1):
        v = numbers[xy, i] * count
        work[i] += v & MASK
        work[i + 1] += v >> 32
    if low[x] <= high[x] and low[y] <= high[y]:
        negative = magnitude(numbers[x], low[x], high[x], sizes[0])
        negative = negative != magnitude(numbers[y], low[y], high[y], sizes[1])
        first = min(first, low[x] + low[y])
        last = max(last, high[x] + high[y] + 1)
        sign = 1 if negative else -1
        for i in range(low[x], high[x] + 1):
            for j in range(low[y], high[y] + 1):
                product = np.uint64(sizes[0, i]) * np.uint64(sizes[1, j])
                work[i + j] += sign * np.int64(product & np.uint64(MASK))
                work[i + j + 1] += sign * np.int64(product >> np.uint64(32))
    first, last = tidy(work, first, last)
    if last < first:
        return 0.0, 0
    negative = magnitude(work, first, last, sizes[0])
    value, exponent = rounded(sizes[0], first, last)
    return (-value if negative else value), exponent


@compiled
def _correlation(
    numbers: Ints, low: Ints, high: Ints, count: int, work: Ints, sizes: Ints
) -> tuple[bool, float]:
    """Whether both vary, and the correlation if they do."""
    both, exponent = _spread(numbers, low, high, (0, 1, 2), count, work, sizes)
    first, exponent_x = _spread(numbers, low, high, (0, 0, 3), count, work, sizes)
    second, exponent_y = _spread(numbers, low, high, (1, 1, 4), count, work, sizes)
    if first == 0.0 or second == 0.0:
        return False, 0.0
    square, exponents = first * second, exponent_x + exponent_y
    if exponents & 1:
        square, exponents = 2.0 * square, exponents - 1
    value = math.ldexp(both / math.sqrt(square), exponent - exponents // 2)
    return True, min(1.0, max(-1.0, value))


@compiled
def _load_all(numbers: Ints, low: Ints, high: Ints, kept: Ints, first: int, end: int) -> None:
    """Numbers as they are kept: of each how many values follow, and these."""
    at = first
    for j in range(SUMS):
        size = kept[at] if at < end else 0
        low[j], high[j] = load(numbers[j], kept, at + 1, at + 1 + size)
        at += 1 + size


@compiled
def _store_all(numbers: Ints, low: Ints, high: Ints, stored: Ints, at: int) -> int:
    for j in range(SUMS):
        end = store(numbers[j], low[j], high[j], stored, at + 1)
        stored[at] = end - at - 1
        at = end
    return at


@compiled
def _add_pair(numbers: Ints, low: Ints, high: Ints, x: int, y: int, times: int, squares: bool) -> None:
    for j, b in enumerate((x, y)):
        i = add_float(numbers[j], b, times)
        low[j] = min(low[j], i)
        high[j] = max(high[j], i + 2)
    for j, a, b in ((2, x, y), (3, x, x), (4, y, y)):
        if j == 2 or squares:
            i = _add_product(numbers[j], a, b, times)
            low[j] = min(low[j], i)
            high[j] = max(high[j], i + 4)


@compiled
def _tidy_all(numbers: Ints, low: Ints, high: Ints) -> None:
    for j in range(SUMS):
        first, last = tidy(numbers[j], low[j], high[j])
        low[j], high[j] = (first, last) if first <= last else (SQUARE_LIMBS, -1)


@compiled
def sweep_comoments(
    points: Ints, offsets: Ints, events: Ids, n: Ints, use: Flags, bits: tuple[Ints, Ints], sample: bool,
    correlates: bool, counts: Ints, kept_offsets: Ints, kept: Ints, out: Floats, null: Flags, changed: Flags,
) -> tuple[Ints, Ints]:  # fmt: skip
    """The value at every point; returns the sums to keep, as offsets and values."""
    numbers = np.zeros((SUMS, SQUARE_LIMBS), np.int64)
    low, high = np.zeros(SUMS, np.int64), np.zeros(SUMS, np.int64)
    work, sizes = np.zeros(SQUARE_LIMBS, np.int64), np.zeros((2, SQUARE_LIMBS), np.int64)
    stored = np.empty(32 * len(points), np.int64)
    stored_offsets = np.zeros(len(points), np.int64)
    at = 0
    for g in range(len(points) - 1):
        _load_all(numbers, low, high, kept, kept_offsets[g], kept_offsets[g + 1])
        c, odd = counts[g, 0], counts[g, 1]
        for p in range(points[g], points[g + 1]):
            for k in range(offsets[p], offsets[p + 1]):
                e = events[k]
                m = n[e] if e >= 0 else -n[~e]
                e = e if e >= 0 else ~e
                if not use[e]:
                    continue
                x, y = bits[0][e], bits[1][e]
                if (x >> 52) & 0x7FF == 0x7FF or (y >> 52) & 0x7FF == 0x7FF:
                    odd += m
                else:
                    c += m
                    _add_pair(numbers, low, high, x, y, m, correlates)
            _tidy_all(numbers, low, high)
            null[p] = c + odd < (2 if sample or correlates else 1)
            value = 0.0
            if odd > 0:
                value = np.nan
            elif correlates and not null[p]:
                varies, value = _correlation(numbers, low, high, c, work, sizes)
                null[p] = not varies
            elif not null[p]:
                value, exponent = _spread(numbers, low, high, (0, 1, 2), c, work, sizes)
                value = math.ldexp(value / (float(c) * float(c - 1 if sample else c)), exponent - 2148)
            out[p] = value
            if p > points[g] and (null[p] != null[p - 1] or not same(value, out[p - 1])):
                changed[p] = True
        counts[g, 0], counts[g, 1] = c, odd
        stored = room(stored, at, SUMS * (SQUARE_LIMBS + 2))
        at = _store_all(numbers, low, high, stored, at)
        stored_offsets[g + 1] = at
    return stored_offsets, stored[:at]
