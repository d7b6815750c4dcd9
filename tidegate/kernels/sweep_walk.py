"""The inner loop of sweeps: jumps of many groups, put in order and walked once.

Groups are numbers 0, 1, …; a jump is (group, instant, change of n, change of m). Jumps come as runs that are mostly in
order of time, so they are brought to their groups by counting and only what is out of order is sorted.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tidegate.kernels.machine_code import compiled_for_many

Ints = npt.NDArray[np.int64]

ALL, DISTINCT, INTERSECT_ALL, INTERSECT, EXCEPT_ALL, EXCEPT, SEMI, ANTI = range(8)


@compiled_for_many
def multiplicity(operation: int, n: int, m: int) -> int:
    """f(n, m): how often a payload is in the result that is n times in the left and m times in the right input.

    >>> multiplicity(EXCEPT_ALL, 3, 1), multiplicity(INTERSECT_ALL, 3, 1), multiplicity(ANTI, 3, 1)
    (2, 1, 0)
    """
    if operation == DISTINCT:
        return 1 if n > 0 else 0
    if operation == INTERSECT_ALL:
        return min(n, m)
    if operation == INTERSECT:
        return 1 if n > 0 and m > 0 else 0
    if operation == EXCEPT_ALL:
        return max(0, n - m)
    if operation == EXCEPT:
        return 1 if n > 0 and m == 0 else 0
    if operation == SEMI:
        return n if m > 0 else 0
    if operation == ANTI:
        return n if m == 0 else 0
    return n


@compiled_for_many
def by_group(group: Ints, count: int) -> tuple[Ints, Ints]:
    """Where each group's items begin (and the last one ends), and the items' order by group, stable."""
    begin = np.zeros(count + 1, np.int64)
    for g in group:
        begin[g + 1] += 1
    for g in range(count):
        begin[g + 1] += begin[g]
    place = begin[:-1].copy()
    order = np.empty(len(group), np.int64)
    for i in range(len(group)):
        g = group[i]
        order[place[g]] = i
        place[g] += 1
    return begin, order


@compiled_for_many
def _in_time(order: Ints, at: Ints, first: int, last: int) -> None:
    """Sort order[first:last] by time."""
    sorted_ = True
    for i in range(first + 1, last):
        if at[order[i]] < at[order[i - 1]]:
            sorted_ = False
            break
    if sorted_:
        return
    if last - first > 24:
        times = np.empty(last - first, np.int64)
        for i in range(first, last):
            times[i - first] = at[order[i]]
        ranks = np.argsort(times, kind="mergesort")
        old = order[first:last].copy()
        for i in range(last - first):
            order[first + i] = old[ranks[i]]
        return
    for i in range(first + 1, last):
        item = order[i]
        t = at[item]
        j = i
        while j > first and at[order[j - 1]] > t:
            order[j] = order[j - 1]
            j -= 1
        order[j] = item


@compiled_for_many
def walk(
    group: Ints, at: Ints, dn: Ints, dm: Ints, n: Ints, m: Ints, operation: int
) -> tuple[Ints, Ints, Ints, Ints]:
    """Walk each group's jumps in time; `n` and `m` (one per group) become the multiplicities after the last.

    Gives the changes of the result, by group and time: group, instant, multiplicity before, multiplicity from then on. Jumps at
    one instant are simultaneous: only their net effect is seen.
    """
    begin, order = by_group(group, len(n))
    changed = np.empty(len(group), np.int64)
    when = np.empty(len(group), np.int64)
    before = np.empty(len(group), np.int64)
    after = np.empty(len(group), np.int64)
    k = 0
    for g in range(len(n)):
        first, last = begin[g], begin[g + 1]
        _in_time(order, at, first, last)
        left, right = n[g], m[g]
        was = multiplicity(operation, left, right)
        i = first
        while i < last:
            t = at[order[i]]
            while i < last and at[order[i]] == t:
                left += dn[order[i]]
                right += dm[order[i]]
                i += 1
            now = multiplicity(operation, left, right)
            if now != was:
                changed[k] = g
                when[k] = t
                before[k] = was
                after[k] = now
                k += 1
                was = now
        n[g] = left
        m[g] = right
    return changed[:k], when[:k], before[:k], after[:k]
