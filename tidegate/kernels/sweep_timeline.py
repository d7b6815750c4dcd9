"""The timeline of a step: per touched group, its endpoint events in order of time (DESIGN section 2, sweeps).

Every sweep over groups shares it. *Elements* are the rows a step works on: first those live before it, by
group and end, then the new ones, by group and start. *Events* are elements that start (`e`) or end (`~e`).
*Points* are the instants at which a group has events, led by one point without events for the time before the step; all
events of a point are simultaneous, so a value is only ever read at the end of a point.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from tidegate.kernels.machine_code import compiled_for_many
from tidegate.kernels.rows import Frame
from tidegate.kernels.sweep_groups import (
    Flags,
    Groups,
    Ids,
    Ints,
    by_group,
    gather,
    group_rows,
    take,
)
from tidegate.time import MAX

NO_IDS: Ids = np.empty(0, np.int32)

Choice = Callable[[Frame, Ids, int], Ids]
"""Of live rows, the codes of their groups (-1: not touched) and the number of groups: the places of those to look at."""


def touched_rows(rows: Frame, codes: Ids, groups: int) -> Ids:
    """All rows of touched groups."""
    return np.flatnonzero(codes >= 0).astype(np.int32)


@dataclass(frozen=True)
class Timeline:
    """Events and points of the touched groups.

    Group g has the points `group_points[g]` … `group_points[g + 1] - 1`; point p is at `times[p]` and has the events
    `point_events[p]` … `point_events[p + 1] - 1`. `elements` are the rows with their columns, `n` their
    multiplicities, `ends` their ends; the first `before` were live before the step, in group g
    `live_offsets[g]` …; new ones start at `starts` and are `before + start_offsets[g]` ….
    """

    groups: Groups
    elements: Frame
    before: int
    n: Ints
    starts: Ints
    ends: Ints
    live_offsets: Ints
    start_offsets: Ints
    group_points: Ints
    times: Ints
    point_events: Ints
    events: Ids

    @property
    def points(self) -> int:
        return len(self.times)

    def group_of_elements(self) -> Ids:
        """The group of every element."""
        codes = np.arange(self.groups.count, dtype=np.int32)
        return np.concatenate(
            [np.repeat(codes, np.diff(self.live_offsets)), np.repeat(codes, np.diff(self.start_offsets))]
        )


def sorted_by_end(rows: Frame) -> Frame:
    """Live rows in order of `te`; a step leaves them so, a restored log may not."""
    return rows if rows["te"].is_sorted() else rows.sort("te")


def split_expiring(rows: Frame, upto: int) -> tuple[Frame, Frame]:
    """Live rows in order of `te`, cut into those whose end comes before `upto` and the others.

    A live row waits with `te` = its end + 1, so that it can be dropped at W iff its end is before W.
    """
    cut = int(np.searchsorted(rows["te"].to_numpy(), upto, side="right"))
    return rows.head(cut), rows.slice(cut)


def keep_live(rest: Frame, new: Frame, upto: int) -> tuple[Frame, Frame]:
    """The rows of which the end is known and still to come, in order, and those that are new among them."""
    added = new.filter((pl.col("te") >= upto) & (pl.col("te") < MAX))
    added = sorted_by_end(added.with_columns(pl.col("te") + 1).select(rest.columns))
    if rest.is_empty() or added.is_empty() or added["te"][0] >= rest["te"][-1]:
        rows = pl.concat([rest, added])
    else:
        rows = rest.merge_sorted(added, key="te")
    return (rows.rechunk() if rows.n_chunks() > 16 else rows), added


def build_timeline(
    live: Frame,
    expiring: int,
    others: Sequence[Frame],
    new: Frame,
    keys: Sequence[str],
    upto: int,
    choose: Choice = touched_rows,
) -> Timeline | None:
    """The timeline of a step; None where nothing happens.

    `live` holds the rows with a known end, in order of `te`, the first `expiring` of which end before `upto`. Those
    that do not, and `others` (live rows without a known end), become elements where they are chosen; the choice sees
    them from the last end to the first.
    """
    groups = group_rows(pl.concat([live.head(expiring).select(keys), new.select(keys)]), keys)
    if not groups.count:
        return None
    parts, codes = [], []
    for rows in (*reversed(others), live.slice(expiring)):
        if rows.height:
            found = groups.locate(rows)
            chosen = choose(rows, found, groups.count)
            parts.append(gather(rows, chosen) if len(chosen) < rows.height else rows)
            codes.append(take(found, chosen))
    old = pl.concat([live.head(expiring), *reversed(parts)])
    old_codes = np.concatenate([groups.codes[:expiring], *reversed(codes)])
    old_order, live_offsets = by_group(old_codes, NO_IDS, groups.count)
    ts = new["ts"].to_numpy()
    in_order = bool((ts[1:] >= ts[:-1]).all())
    time_order = NO_IDS if in_order else np.argsort(ts, kind="stable").astype(np.int32)
    new_codes = groups.codes[expiring:]
    new_order, start_offsets = by_group(new_codes, time_order, groups.count)
    waits = take(old["te"].to_numpy(), old_order)
    ends = np.concatenate([waits - (waits != MAX), take(new["te"].to_numpy(), new_order)])
    columns = [c for c in live.columns if c not in ("te", "n")]
    elements = pl.concat([gather(old.select(columns), old_order), gather(new.select(columns), new_order)])
    n = np.concatenate([take(old["n"].to_numpy(), old_order), take(new["n"].to_numpy(), new_order)])
    starts = take(ts, new_order)
    new_ends = ends[old.height :]
    by_end = NO_IDS
    if not _ends_in_order(start_offsets, new_ends):
        end_order = np.argsort(new_ends, kind="stable").astype(np.int32)
        sorted_codes = np.repeat(np.arange(groups.count, dtype=np.int32), np.diff(start_offsets))
        by_end, _ = by_group(sorted_codes, end_order, groups.count)
    group_points, times, point_events, events = _merge(
        live_offsets, ends[: old.height], start_offsets, starts, new_ends, by_end, upto, expiring
    )
    return Timeline(
        groups, elements, old.height, n, starts, ends, live_offsets, start_offsets,
        group_points, times, point_events, events,
    )  # fmt: skip


@compiled_for_many
def _ends_in_order(offsets: Ints, ends: Ints) -> bool:
    for g in range(len(offsets) - 1):
        for i in range(offsets[g] + 1, offsets[g + 1]):
            if ends[i] < ends[i - 1]:
                return False
    return True


@compiled_for_many
def _merge(
    live_offsets: Ints, live_ends: Ints, start_offsets: Ints, starts: Ints, new_ends: Ints, by_end: Ids,
    upto: int, expiring: int,
) -> tuple[Ints, Ints, Ints, Ids]:  # fmt: skip
    groups = len(live_offsets) - 1
    before = len(live_ends)
    most = expiring + 2 * len(starts)
    events = np.empty(most, np.int32)
    times = np.empty(most + groups, np.int64)
    point_events = np.empty(most + groups + 1, np.int64)
    group_points = np.empty(groups + 1, np.int64)
    e = 0
    p = 0
    for g in range(groups):
        group_points[g] = p
        times[p] = -(2**63)
        point_events[p] = e
        p += 1
        i = start_offsets[g]
        i1 = start_offsets[g + 1]
        k = i
        j = live_offsets[g]
        j1 = live_offsets[g + 1]
        while True:
            # Ends at or after `upto` belong to later steps; every start comes before it.
            ends_k = upto
            if k < i1:
                ends_k = new_ends[by_end[k]] if len(by_end) else new_ends[k]
            ends_j = live_ends[j] if j < j1 else upto
            t = min(ends_k, ends_j, upto)
            if i < i1:
                t = min(t, starts[i])
            elif t == upto:
                break
            times[p] = t
            point_events[p] = e
            p += 1
            while i < i1 and starts[i] == t:
                events[e] = before + i
                e += 1
                i += 1
            while j < j1 and live_ends[j] == t:
                events[e] = ~j
                e += 1
                j += 1
            while k < i1:
                row = by_end[k] if len(by_end) else k
                if new_ends[row] != t:
                    break
                events[e] = ~(before + row)
                e += 1
                k += 1
    group_points[groups] = p
    point_events[p] = e
    return group_points, times[:p], point_events[: p + 1], events[:e]


@compiled_for_many
def segments(
    group_points: Ints, times: Ints, counts: Ints, changed: Flags
) -> tuple[Ids, Ids, Ints, Ints, Ints]:
    """What a step emits, as (point whose value it is, group, ts, te, n).

    The row from before the step is closed at the first change, segments between changes are closed, the last one stays open.
    `counts` is each point's number of rows (a group with none has no row), `changed` says where a value differs from the
    point before.
    """
    points = np.empty(len(times), np.int32)
    groups = np.empty(len(times), np.int32)
    ts = np.empty(len(times), np.int64)
    te = np.empty(len(times), np.int64)
    n = np.empty(len(times), np.int64)
    last = 2**63 - 1
    k = 0
    for g in range(len(group_points) - 1):
        first = group_points[g]
        current = first
        for p in range(first + 1, group_points[g + 1]):
            alive = counts[p] > 0
            if alive == (counts[p - 1] > 0) and not (alive and changed[p]):
                continue
            if counts[current] > 0:
                points[k] = current
                groups[k] = g
                ts[k] = times[p] if current == first else times[current]
                te[k] = last if current == first else times[p]
                n[k] = -1 if current == first else 1
                k += 1
            current = p
        if current != first and counts[current] > 0:
            points[k] = current
            groups[k] = g
            ts[k] = times[current]
            te[k] = last
            n[k] = 1
            k += 1
    return points[:k], groups[:k], ts[:k], te[:k], n[:k]
