"""Running sums over a timeline: COUNT, and SUM and AVG of integers and decimals, by what each event adds or takes away.

Sums are held in 32-bit limbs of 64-bit words, so that they are exact, and a sum that passes the largest
value of its type between two simultaneous events is no error.

Every function here takes the points and events (see `sweep_timeline`), which elements count (`use`), and each
group's accumulators, which it moves on in place; it writes a value per point and marks where it `changed`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tidegate.kernels.machine_code import compiled_for_many
from tidegate.kernels.sweep_groups import Flags, Floats, Ids, Ints

Words = npt.NDArray[np.uint64]

MASK = 0xFFFFFFFF


@compiled_for_many
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


@compiled_for_many
def sweep_integers(
    points: Ints, offsets: Ints, events: Ids, n: Ints, use: Flags, values: Ints, counts: Ints,
    acc: Ints, total: Ints, average: Floats, null: Flags, changed: Flags,
) -> bool:  # fmt: skip
    """SUM of 64-bit integers into `total`, or AVG into `average` (the other is empty). False: a sum does not fit.

    `acc` holds count, high and low limb. A value stands for one row, or where there are `counts` for so many.
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
                    c += m * counts[e] if len(counts) else m
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


@compiled_for_many
def sweep_decimals(
    points: Ints, offsets: Ints, events: Ids, n: Ints, use: Flags, words: Words, counts: Ints,
    acc: Ints, total: Words, count: Ints,
) -> bool:  # fmt: skip
    """SUM of 128-bit integers, given and returned as (low, high) words. False: a sum does not fit in them.

    `acc` holds the count and four limbs from low to high; `counts` as for integers. Changes are found by `mark_words`, once the sums are
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
                    c += m * counts[e] if len(counts) else m
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


@compiled_for_many
def mark_words(points: Ints, words: Words, null: Flags, changed: Flags) -> None:
    """Mark the points whose 128-bit value differs from the one before."""
    for g in range(len(points) - 1):
        for p in range(points[g] + 1, points[g + 1]):
            if null[p] != null[p - 1] or (
                not null[p] and (words[p, 0] != words[p - 1, 0] or words[p, 1] != words[p - 1, 1])
            ):
                changed[p] = True
