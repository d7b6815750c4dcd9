"""Sums of floats without rounding: SUM, AVG, VARIANCE and STDDEV of floats.

A float is a whole number of units of 2**-1074, so a sum of floats is one too, however long: it is held in 32-bit limbs, as many as its
value needs. What entered leaves without a trace, the order of rows does not matter, and only the final
result is rounded, once. NaN and infinities are counted beside.

The limbs of a number lie at `low` … `high`; those below the highest are in [0, 2**32), the highest carries the sign.
"""

from __future__ import annotations

import math

import numpy as np

from tidegate.kernels.machine_code import compiled
from tidegate.kernels.sweep_groups import Flags, Floats, Ids, Ints

MASK = 0xFFFFFFFF
LIMBS = 72
SQUARE_LIMBS = 144
"""Enough for 2**31 times the largest float, and for its square."""


@compiled
def tidy(limbs: Ints, low: int, high: int) -> tuple[int, int]:
    """Carry, and drop zeros at both ends; the number's new bounds (high < low: zero)."""
    carry = 0
    for i in range(low, high + 1):
        v = limbs[i] + carry
        if i == high and v >= -(1 << 31) and v < (1 << 31):
            limbs[i] = v
            carry = 0
        else:
            limbs[i] = v & MASK
            carry = v >> 32
            if i == high:
                high += 1
                limbs[high] = carry
    while high > low:
        if limbs[high] == 0 and limbs[high - 1] < (1 << 31):
            high -= 1
        elif limbs[high] == -1 and limbs[high - 1] >= (1 << 31):
            limbs[high] = 0
            limbs[high - 1] -= 1 << 32
            high -= 1
        else:
            break
    while low <= high and limbs[low] == 0:
        low += 1
    return low, high


@compiled
def magnitude(limbs: Ints, low: int, high: int, out: Ints) -> bool:
    """The absolute value into `out`; whether the number is negative."""
    negative = limbs[high] < 0
    carry = 0
    for i in range(low, high + 1):
        v = (-limbs[i] if negative else limbs[i]) + carry
        out[i] = v & MASK if i < high else v
        carry = v >> 32
    return negative  # type: ignore[no-any-return]


@compiled
def rounded(magnitude: Ints, low: int, high: int) -> tuple[float, int]:
    """53 bits and an exponent of two, rounded half to even."""
    while high >= low and magnitude[high] == 0:
        high -= 1
    if high < low:
        return 0.0, 0
    top = magnitude[high]
    second = magnitude[high - 1] if high - 1 >= low else 0
    third = magnitude[high - 2] if high - 2 >= low else 0
    shift = 0
    while top < (1 << 31):
        top = (top << 1) | (second >> 31)
        second = ((second << 1) & MASK) | (third >> 31)
        third = (third << 1) & MASK
        shift += 1
    bits = (top << 21) | (second >> 11)
    rest = second & 0x7FF
    sticky = third != 0
    for i in range(low, high - 2):
        if magnitude[i] != 0:
            sticky = True
            break
    if rest > 0x400 or (rest == 0x400 and (sticky or bits & 1)):
        bits += 1
    return float(bits), 32 * (high - 1) + 11 - shift


@compiled
def add_float(limbs: Ints, bits: int, times: int) -> int:
    """Add a finite float, given by its bits, so many times; the lowest of the three limbs it touches."""
    exponent = (bits >> 52) & 0x7FF
    m = bits & 0xFFFFFFFFFFFFF
    if exponent > 0:
        m |= 1 << 52
        exponent -= 1
    times = -times if bits < 0 else times
    i = exponent >> 5
    off = exponent & 31
    a = (m & MASK) << off
    b = (m >> 32) << off
    limbs[i] += times * (a & MASK)
    limbs[i + 1] += times * ((a >> 32) + (b & MASK))
    limbs[i + 2] += times * (b >> 32)
    return i


@compiled
def _add_square(limbs: Ints, bits: int, times: int) -> int:
    """Add the square of a finite float so many times; the lowest of the five limbs it touches."""
    exponent = (bits >> 52) & 0x7FF
    m = bits & 0xFFFFFFFFFFFFF
    if exponent > 0:
        m |= 1 << 52
        exponent -= 1
    low = np.uint64(m & MASK)
    high = np.uint64(m >> 32)
    i = (2 * exponent) >> 5
    off = (2 * exponent) & 31
    mask = np.uint64(MASK)
    shift = np.uint64(32)
    p = low * low
    q = np.uint64(2) * low * high
    r = high * high
    b = (p >> shift) + (q & mask)
    c = (q >> shift) + (r & mask) + (b >> shift)
    d = (r >> shift) + (c >> shift)
    carry = np.int64(0)
    for k, part in enumerate((p & mask, b & mask, c & mask, d)):
        v = (np.int64(part) << off) + carry
        limbs[i + k] += times * (v & MASK)
        carry = v >> 32
    limbs[i + 4] += times * carry
    return i


@compiled
def load(limbs: Ints, stored: Ints, first: int, end: int) -> tuple[int, int]:
    """A number as it is kept: its lowest place, then its limbs; nothing for zero."""
    limbs[:] = 0
    if end == first:
        return len(limbs), -1
    low = stored[first]
    for k in range(first + 1, end):
        limbs[low + k - first - 1] = stored[k]
    return low, low + end - first - 2


@compiled
def store(limbs: Ints, low: int, high: int, out: Ints, at: int) -> int:
    if high < low:
        return at
    out[at] = low
    for i in range(low, high + 1):
        out[at + 1 + i - low] = limbs[i]
    return at + 2 + high - low


@compiled
def room(out: Ints, at: int, more: int) -> Ints:
    if at + more <= len(out):
        return out
    grown = np.empty(2 * len(out) + more, np.int64)
    grown[:at] = out[:at]
    return grown


@compiled
def same(a: float, b: float) -> bool:
    return a == b or (math.isnan(a) and math.isnan(b))


@compiled
def sweep_floats(
    points: Ints, offsets: Ints, events: Ids, n: Ints, use: Flags, bits: Ints, averages: bool,
    counts: Ints, kept_offsets: Ints, kept: Ints, out: Floats, null: Flags, changed: Flags,
) -> tuple[Ints, Ints]:  # fmt: skip
    """SUM or AVG of floats, given by their bits; returns the numbers to keep, as offsets and values.

    `counts` says how many finite values, NaNs and infinities of either sign there are in each group.
    """
    limbs = np.zeros(LIMBS, np.int64)
    size = np.zeros(LIMBS, np.int64)
    stored = np.empty(8 * len(points), np.int64)
    stored_offsets = np.zeros(len(points), np.int64)
    at = 0
    for g in range(len(points) - 1):
        low, high = load(limbs, kept, kept_offsets[g], kept_offsets[g + 1])
        c, nan, up, down = counts[g, 0], counts[g, 1], counts[g, 2], counts[g, 3]
        for p in range(points[g], points[g + 1]):
            for k in range(offsets[p], offsets[p + 1]):
                e = events[k]
                m = n[e] if e >= 0 else -n[~e]
                e = e if e >= 0 else ~e
                if not use[e]:
                    continue
                b = bits[e]
                if (b >> 52) & 0x7FF == 0x7FF:
                    if b & 0xFFFFFFFFFFFFF:
                        nan += m
                    elif b > 0:
                        up += m
                    else:
                        down += m
                    continue
                c += m
                i = add_float(limbs, b, m)
                low = min(low, i)
                high = max(high, i + 2)
            low, high = tidy(limbs, low, high)
            if high < low:
                low, high = LIMBS, -1
            total = c + nan + up + down
            null[p] = total == 0
            if nan > 0 or (up > 0 and down > 0):
                value = np.nan
            elif up > 0:
                value = np.inf
            elif down > 0:
                value = -np.inf
            elif high < low:
                value = 0.0
            else:
                negative = magnitude(limbs, low, high, size)
                value, exponent = rounded(size, low, high)
                value = math.ldexp(value / total if averages else value, exponent - 1074)
                if negative:
                    value = -value
            out[p] = value
            if p > points[g] and (null[p] != null[p - 1] or not same(value, out[p - 1])):
                changed[p] = True
        counts[g, 0], counts[g, 1], counts[g, 2], counts[g, 3] = c, nan, up, down
        stored = room(stored, at, LIMBS + 1)
        at = store(limbs, low, high, stored, at)
        stored_offsets[g + 1] = at
    return stored_offsets, stored[:at]


@compiled
def _spread(
    sums: Ints, low: int, high: int, squares: Ints, low2: int, high2: int, count: int, work: Ints, size: Ints
) -> tuple[float, int]:
    """`count * sum of squares - (sum)²`, rounded; all are whole numbers of units of 2**-2148."""
    work[:] = 0
    last = 0
    first = len(work)
    if low2 <= high2:
        first, last = low2, high2 + 1
    for i in range(low2, high2 + 1):
        v = squares[i] * count
        work[i] += v & MASK
        work[i + 1] += v >> 32
    if low <= high:
        magnitude(sums, low, high, size)
        first = min(first, 2 * low)
        last = max(last, 2 * high + 1)
        for i in range(low, high + 1):
            for j in range(low, high + 1):
                v = np.uint64(size[i]) * np.uint64(size[j])
                work[i + j] -= np.int64(v & np.uint64(MASK))
                work[i + j + 1] -= np.int64(v >> np.uint64(32))
    first, last = tidy(work, first, last)
    if last < first:
        return 0.0, 0
    return rounded(work, first, last)


@compiled
def sweep_variance(
    points: Ints, offsets: Ints, events: Ids, n: Ints, use: Flags, bits: Ints, sample: bool, root: bool,
    counts: Ints, kept_offsets: Ints, kept: Ints, kept_squares_offsets: Ints, kept_squares: Ints,
    out: Floats, null: Flags, changed: Flags,
) -> tuple[Ints, Ints, Ints, Ints]:  # fmt: skip
    """VAR_SAMP, VAR_POP, STDDEV_SAMP, STDDEV_POP: (c * sum of x² - (sum of x)²) / (c * (c - 1 or c)), c values.

    Returns the sums and the sums of squares to keep. `counts` says how many finite values and others there are.
    """
    limbs = np.zeros(LIMBS, np.int64)
    squares = np.zeros(SQUARE_LIMBS, np.int64)
    work = np.zeros(SQUARE_LIMBS, np.int64)
    size = np.zeros(LIMBS, np.int64)
    stored = np.empty(8 * len(points), np.int64)
    stored_squares = np.empty(12 * len(points), np.int64)
    stored_offsets = np.zeros(len(points), np.int64)
    squares_offsets = np.zeros(len(points), np.int64)
    at = 0
    at2 = 0
    for g in range(len(points) - 1):
        low, high = load(limbs, kept, kept_offsets[g], kept_offsets[g + 1])
        low2, high2 = load(squares, kept_squares, kept_squares_offsets[g], kept_squares_offsets[g + 1])
        c, odd = counts[g, 0], counts[g, 1]
        for p in range(points[g], points[g + 1]):
            for k in range(offsets[p], offsets[p + 1]):
                e = events[k]
                m = n[e] if e >= 0 else -n[~e]
                e = e if e >= 0 else ~e
                if not use[e]:
                    continue
                b = bits[e]
                if (b >> 52) & 0x7FF == 0x7FF:
                    odd += m
                    continue
                c += m
                i = add_float(limbs, b, m)
                low = min(low, i)
                high = max(high, i + 2)
                i = _add_square(squares, b, m)
                low2 = min(low2, i)
                high2 = max(high2, i + 4)
            low, high = tidy(limbs, low, high)
            if high < low:
                low, high = LIMBS, -1
            low2, high2 = tidy(squares, low2, high2)
            if high2 < low2:
                low2, high2 = SQUARE_LIMBS, -1
            null[p] = c + odd < (2 if sample else 1)
            value = 0.0
            if odd > 0:
                value = np.nan
            elif not null[p]:
                value, exponent = _spread(limbs, low, high, squares, low2, high2, c, work, size)
                value = value / (float(c) * float(c - 1 if sample else c))
                if root:
                    # An even exponent can be halved; the root of what does not fit may fit.
                    value = value * 2.0 if exponent & 1 else value
                    value = math.ldexp(math.sqrt(value), ((exponent & ~1) - 2148) // 2)
                else:
                    value = math.ldexp(value, exponent - 2148)
            out[p] = value
            if p > points[g] and (null[p] != null[p - 1] or not same(value, out[p - 1])):
                changed[p] = True
        counts[g, 0], counts[g, 1] = c, odd
        stored = room(stored, at, LIMBS + 1)
        at = store(limbs, low, high, stored, at)
        stored_offsets[g + 1] = at
        stored_squares = room(stored_squares, at2, SQUARE_LIMBS + 1)
        at2 = store(squares, low2, high2, stored_squares, at2)
        squares_offsets[g + 1] = at2
    return stored_offsets, stored[:at], squares_offsets, stored_squares[:at2]
