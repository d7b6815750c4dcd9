"""Running sums over a timeline: COUNT, SUM, AVG, VARIANCE and STDDEV, by what each event adds or takes away.

What entered must leave without a trace. Integers and decimals are summed in 32-bit limbs held in 64 bits, which is exact.
Floats are summed as unevaluated pairs (about 106 bits); NaN, infinities and values near the end of the range are
counted beside, and a sum starts anew whenever nothing is left in it.

Every function here takes the points and events (see `sweep_timeline`), which elements count (`use`), and each
group's accumulators, which it moves on in place; it writes a value per point and marks where it `changed`.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from tidegate.kernels.sweep_groups import Flags, Floats, Ids, Ints, compiled

Words = npt.NDArray[np.uint64]

MASK = 0xFFFFFFFF
HUGE = 2.0**900
"""From here on a float is summed apart, scaled down, so that a sum may pass the largest float and come back."""
SCALE = 2.0**-64
NOISE = 2.0**-98
ROOT_HUGE = 2.0**500
"""From here on a square no longer fits."""


@compiled
def sweep_count(
    points: Ints, offsets: Ints, events: Ids, n: Ints, use: Flags, count: Ints, out: Ints, changed: Flags
) -> None:
    """COUNT; `count` is the accumulator per group."""
    for g in range(len(points) - 1):
        c = count[g]
        for p in range(points[g], points[g + 1]):
            for k in range(offsets[p], offsets[p + 1]):
                e = events[k]
                if e >= 0:
                    if use[e]:
                        c += n[e]
                elif use[~e]:
                    c -= n[~e]
            out[p] = c
            if p > points[g] and c != out[p - 1]:
                changed[p] = True
        count[g] = c


@compiled
def sweep_integers(
    points: Ints, offsets: Ints, events: Ids, n: Ints, use: Flags, values: Ints,
    acc: Ints, total: Ints, average: Floats, null: Flags, changed: Flags,
) -> bool:  # fmt: skip
    """SUM of 64-bit integers into `total`, or AVG into `average` (the other is empty). False: a sum does not fit.

    `acc` holds count, high and low limb.
    """
    fits = True
    averages = len(average) > 0
    for g in range(len(points) - 1):
        c, h, low = acc[g, 0], acc[g, 1], acc[g, 2]
        for p in range(points[g], points[g + 1]):
            for k in range(offsets[p], offsets[p + 1]):
                e = events[k]
                m = n[e] if e >= 0 else -n[~e]
                e = e if e >= 0 else ~e
                if use[e]:
                    v = values[e]
                    c += m
                    h += m * (v >> 32)
                    low += m * (v & MASK)
            h += low >> 32
            low &= MASK
            null[p] = c == 0
            if averages:
                average[p] = (float(h) * 4294967296.0 + float(low)) / float(c) if c != 0 else 0.0
                different = p > points[g] and average[p] != average[p - 1]
            else:
                if h < -(1 << 31) or h >= (1 << 31):
                    fits = False
                total[p] = (h << 32) | low
                different = p > points[g] and total[p] != total[p - 1]
            if p > points[g] and (different or null[p] != null[p - 1]):
                changed[p] = True
        acc[g, 0], acc[g, 1], acc[g, 2] = c, h, low
    return fits


@compiled
def sweep_decimals(
    points: Ints, offsets: Ints, events: Ids, n: Ints, use: Flags, words: Words,
    acc: Ints, total: Words, count: Ints,
) -> bool:  # fmt: skip
    """SUM of 128-bit integers, given and returned as (low, high) words. False: a sum does not fit in them.

    `acc` holds the count and four limbs from low to high. Changes are found by `mark_words`, once the sums are
    what is shown.
    """
    fits = True
    for g in range(len(points) - 1):
        c, a, b, d, h = acc[g, 0], acc[g, 1], acc[g, 2], acc[g, 3], acc[g, 4]
        for p in range(points[g], points[g + 1]):
            for k in range(offsets[p], offsets[p + 1]):
                e = events[k]
                m = n[e] if e >= 0 else -n[~e]
                e = e if e >= 0 else ~e
                if use[e]:
                    low = words[e, 0]
                    high = np.int64(words[e, 1])
                    c += m
                    a += m * np.int64(low & np.uint64(MASK))
                    b += m * np.int64(low >> np.uint64(32))
                    d += m * (high & MASK)
                    h += m * (high >> 32)
            b += a >> 32
            a &= MASK
            d += b >> 32
            b &= MASK
            h += d >> 32
            d &= MASK
            if h < -(1 << 31) or h >= (1 << 31):
                fits = False
            count[p] = c
            total[p, 0] = np.uint64(a) | (np.uint64(b) << np.uint64(32))
            total[p, 1] = np.uint64(d) | (np.uint64(h & MASK) << np.uint64(32))
        acc[g, 0], acc[g, 1], acc[g, 2], acc[g, 3], acc[g, 4] = c, a, b, d, h
    return fits


@compiled
def mark_words(points: Ints, words: Words, null: Flags, changed: Flags) -> None:
    """Mark the points whose 128-bit value differs from the one before."""
    for g in range(len(points) - 1):
        for p in range(points[g] + 1, points[g + 1]):
            if null[p] != null[p - 1] or (
                not null[p] and (words[p, 0] != words[p - 1, 0] or words[p, 1] != words[p - 1, 1])
            ):
                changed[p] = True


@compiled
def _two_sum(a: float, b: float) -> tuple[float, float]:
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


@compiled
def _two_product(a: float, b: float) -> tuple[float, float]:
    """Exact while |a| and |b| are well below 2**990."""
    p = a * b
    s = 134217729.0 * a
    ah = s - (s - a)
    al = a - ah
    s = 134217729.0 * b
    bh = s - (s - b)
    bl = b - bh
    return p, ((ah * bh - p) + ah * bl + al * bh) + al * bl


@compiled
def _add(hi: float, lo: float, x: float, y: float) -> tuple[float, float]:
    """Pair plus pair."""
    s, e = _two_sum(hi, x)
    t, f = _two_sum(lo, y)
    s, e = _two_sum(s, e + t)
    return _two_sum(s, e + f)


@compiled
def _times(hi: float, lo: float, m: float) -> tuple[float, float]:
    """Pair times a whole number."""
    if m == 1.0 or m == -1.0:
        return hi * m, lo * m
    p, e = _two_product(hi, m)
    return _two_sum(p, e + lo * m)


@compiled
def sweep_floats(
    points: Ints, offsets: Ints, events: Ids, n: Ints, use: Flags, values: Floats, averages: bool,
    sums: Floats, counts: Ints, out: Floats, null: Flags, changed: Flags,
) -> None:  # fmt: skip
    """SUM or AVG of floats.

    `sums` holds the pair of the ordinary values and that of the scaled huge ones, `counts` how many there are of ordinary
    and huge ones, of NaN and of either infinity.
    """
    for g in range(len(points) - 1):
        hi, lo, big_hi, big_lo = sums[g, 0], sums[g, 1], sums[g, 2], sums[g, 3]
        c, big, nan, up, down = counts[g, 0], counts[g, 1], counts[g, 2], counts[g, 3], counts[g, 4]
        for p in range(points[g], points[g + 1]):
            for k in range(offsets[p], offsets[p + 1]):
                e = events[k]
                m = n[e] if e >= 0 else -n[~e]
                e = e if e >= 0 else ~e
                if not use[e]:
                    continue
                v = values[e]
                if abs(v) < HUGE:
                    c += m
                    x, y = _times(v, 0.0, float(m))
                    hi, lo = _add(hi, lo, x, y)
                elif math.isnan(v):
                    nan += m
                elif math.isinf(v):
                    if v > 0:
                        up += m
                    else:
                        down += m
                else:
                    big += m
                    x, y = _times(v * SCALE, 0.0, float(m))
                    big_hi, big_lo = _add(big_hi, big_lo, x, y)
            if c == 0:
                hi, lo = 0.0, 0.0
            if big == 0:
                big_hi, big_lo = 0.0, 0.0
            total = c + big + nan + up + down
            null[p] = total == 0
            if nan > 0 or (up > 0 and down > 0):
                value = np.nan
            elif up > 0:
                value = np.inf
            elif down > 0:
                value = -np.inf
            else:
                value = hi
                if big != 0:
                    x, y = _add(big_hi, big_lo, hi * SCALE, lo * SCALE)
                    value = x / total / SCALE if averages else x / SCALE
                elif averages and total != 0:
                    value = hi / total
            out[p] = value + 0.0
            if p > points[g] and (
                null[p] != null[p - 1]
                or (out[p] != out[p - 1] and not (math.isnan(out[p]) and math.isnan(out[p - 1])))
            ):
                changed[p] = True
        sums[g, 0], sums[g, 1], sums[g, 2], sums[g, 3] = hi, lo, big_hi, big_lo
        counts[g, 0], counts[g, 1], counts[g, 2], counts[g, 3], counts[g, 4] = c, big, nan, up, down


@compiled
def sweep_variance(
    points: Ints, offsets: Ints, events: Ids, n: Ints, use: Flags, values: Floats, sample: bool, root: bool,
    sums: Floats, counts: Ints, out: Floats, null: Flags, changed: Flags,
) -> None:  # fmt: skip
    """VAR_SAMP, VAR_POP, STDDEV_SAMP, STDDEV_POP: (sum of d² - (sum of d)² / count) / (count - 1 or count).

    d is the distance to a value the group has seen, so that a small spread of large values keeps its digits. `sums` holds that
    value, the pairs of both sums and the largest sum of d² since the group was last empty: what is below 2**-98 of it
    may be left over from rounding, and counts as 0. `counts` says how many ordinary, not finite, and huge values there are.
    """
    for g in range(len(points) - 1):
        shift, sh, sl, qh, ql = sums[g, 0], sums[g, 1], sums[g, 2], sums[g, 3], sums[g, 4]
        peak = sums[g, 5]
        c, odd, huge = counts[g, 0], counts[g, 1], counts[g, 2]
        for p in range(points[g], points[g + 1]):
            # Simultaneous events may pass through a count of 0 on the way: only a point begins anew.
            fresh = c == 0
            for k in range(offsets[p], offsets[p + 1]):
                e = events[k]
                m = n[e] if e >= 0 else -n[~e]
                e = e if e >= 0 else ~e
                if not use[e]:
                    continue
                v = values[e]
                if not math.isfinite(v):
                    odd += m
                elif abs(v) > ROOT_HUGE:
                    huge += m
                else:
                    if fresh:
                        shift, fresh = v, False
                    c += m
                    dh, dl = _two_sum(v, -shift)
                    x, y = _times(dh, dl, float(m))
                    sh, sl = _add(sh, sl, x, y)
                    x, y = _two_product(dh, dh)
                    x, y = _two_sum(x, y + 2.0 * dh * dl)
                    x, y = _times(x, y, float(m))
                    qh, ql = _add(qh, ql, x, y)
                    peak = max(peak, abs(qh))
            if c == 0:
                shift, sh, sl, qh, ql, peak = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
            total = c + odd + huge
            null[p] = total < (2 if sample else 1)
            if null[p]:
                value = 0.0
            elif odd > 0:
                value = np.nan
            elif huge > 0:
                value = np.inf
            else:
                x, y = _two_product(sh, sh)
                x, y = _two_sum(x, y + 2.0 * sh * sl)
                quotient = x / c
                a, b = _two_product(quotient, float(c))
                rest = ((x - a) - b + y) / c
                a, b = _add(qh, ql, -quotient, -rest)
                value = a / (c - 1 if sample else c) if a > peak * NOISE else 0.0
                if root:
                    value = math.sqrt(value)
            out[p] = value
            if p > points[g] and (
                null[p] != null[p - 1]
                or (out[p] != out[p - 1] and not (math.isnan(out[p]) and math.isnan(out[p - 1])))
            ):
                changed[p] = True
        sums[g, 0], sums[g, 1], sums[g, 2], sums[g, 3], sums[g, 4], sums[g, 5] = shift, sh, sl, qh, ql, peak
        counts[g, 0], counts[g, 1], counts[g, 2] = c, odd, huge
