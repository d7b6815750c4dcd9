"""How windows change rates and validities of rows, and what they keep: formulas of the cost model."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tidegate.algebra.quality import RangedWindow
from tidegate.algebra.sequences import Periodic, SessionWindow, WindowSequence
from tidegate.algebra.windows import RowsEveryTime, RowWindow, TimeEveryRows, TimeWindow, WindowSpec
from tidegate.optimizer.formulas import Estimate, Setting, combined
from tidegate.optimizer.statistics import seen


def windowed(
    on: Setting,
    input: Estimate,
    spec: WindowSpec,
    partition_by: Sequence[int] = (),
    chronon: int | None = None,
    width: int = 1,
) -> Estimate:
    """In time: validity is the size. In rows: N rows of each of P partitions are shown, each until N others have come.

    `chronon` None: the input is a raw stream; otherwise each of its instants is a row of its own.
    """
    if isinstance(spec, TimeWindow):
        return _in_time(on, input, spec.size, spec.slide, chronon, width)
    if isinstance(spec, RangedWindow):
        return _ranged(on, input, spec, width)
    if isinstance(spec, SessionWindow):
        return sessions(on, input, spec.gap, partition_by)
    if isinstance(spec, TimeEveryRows):
        size = math.inf if spec.size is None else float(spec.size * width)
        found = _in_time(on, input, spec.size, 1, chronon, width)
        kept = [(input.rate * on.lasting(size), input.row_size)]
        return on.made(
            "TimeEveryRows", [input], found.rate, found.standing, input.columns, changes=True, kept=kept
        )
    if isinstance(spec, WindowSequence):
        return _sequence(on, input, spec, partition_by, chronon, width)
    every = spec.period * width if isinstance(spec, RowsEveryTime) else 1
    slide = spec.slide if isinstance(spec, RowWindow) else 1
    return _in_rows(on, input, spec.size, slide, partition_by, float(every))


def expired(on: Setting, input: Estimate) -> Estimate:
    """Each row is followed by one that takes it back, and is kept until then."""
    return on.made(
        "Expire",
        [input],
        input.rate,
        input.standing,
        input.columns,
        granule=input.granule,
        changes=True,
        retractions=input.rate + input.retractions,
        kept=[(input.standing, input.row_size + 8)],
    )


def _in_time(
    on: Setting, input: Estimate, size: int | None, slide: int, chronon: int | None, width: int
) -> Estimate:
    lasts = math.inf if size is None else float(size * width)
    step = float(slide * width)
    # A row of a window that is shorter than its slide may fall between two of them.
    part = min(1.0, lasts / step)
    rate, standing = input.rate * part, input.rate * on.lasting(lasts)
    if chronon is not None and input.validity > chronon:
        copies = max(1.0, min(input.validity, lasts) / chronon)
        rate, standing = rate * copies, input.standing * min(lasts, on.horizon) / chronon
    held = 0.0
    if step > 1 and input.rate:
        # Rows that wait for the same slide and are equal become one.
        late = step / (2 * on.epoch)
        waiting, once = (
            (late if late <= 0.5 else 1.0 - 0.25 / late),
            seen(combined(input.columns, step), input.rate * step),
        )
        fewer = 1.0 - waiting * (1.0 - once / (input.rate * step))
        rate, standing, held = rate * fewer, standing * fewer, once / 2
    return on.made(
        "TimeWindow" if step == 1 else "TimeWindow sliding",
        [input],
        rate,
        standing,
        input.columns,
        granule=max(step, input.granule if chronon is not None else 1.0),
        changes=input.changes,
        retractions=input.retractions * (rate / input.rate if input.rate else 1.0),
        kept=[(held, input.row_size + 8)],
    )


def _ranged(on: Setting, input: Estimate, spec: RangedWindow, width: int) -> Estimate:
    """At the best quality, which is in force until another is chosen; `algebra.adjusting.fixed` gives the plan at any other."""
    finest = 1 if spec.granule is None else spec.granule.lowest
    return _in_time(on, input, spec.largest, max(spec.slide, finest), None, width)


def _in_rows(
    on: Setting, input: Estimate, size: int | None, slide: int, partition_by: Sequence[int], every: float
) -> Estimate:
    ever = input.rate * on.horizon
    partitions = seen(combined(input.columns[c] for c in partition_by), ever) or 1.0
    standing = input.rate * on.horizon / 2 if size is None else min(size * partitions, ever)
    part = 1.0 if size is None else min(1.0, size / slide)
    rate = input.rate * part
    if every > 1.0:
        rate = min(rate, standing / every)
    recent = 0.0 if size is None else min((size + slide - 1) * partitions, ever)
    return on.made(
        "RowWindow",
        [input],
        rate,
        standing,
        input.columns,
        granule=every,
        changes=True,
        kept=[(recent, input.row_size + 16)],
    )


def sessions(on: Setting, input: Estimate, gap: int, partition_by: Sequence[int]) -> Estimate:
    """With rate r of each partition, a session of gaps up to g goes on for `(e^(r g) - 1) / r` after a row."""
    ever = input.rate * on.horizon
    partitions = seen(combined(input.columns[c] for c in partition_by), ever) or 1.0
    each = input.rate / partitions
    lasts = on.horizon if each * gap > 50 else math.expm1(each * gap) / each if each else float(gap)
    standing = input.rate * on.lasting(max(float(gap), lasts))
    return on.made(
        "Session",
        [input],
        input.rate,
        standing,
        input.columns,
        changes=True,
        kept=[(standing, input.row_size + 8)],
    )


def _sequence(
    on: Setting,
    input: Estimate,
    spec: WindowSequence,
    partition_by: Sequence[int],
    chronon: int | None,
    width: int,
) -> Estimate:
    """By the size of a window that is far from the first, and by the distance to the next."""
    line, upper = spec.lower.line, spec.upper.line
    size = upper(1_000) - line(1_000) + 1 if line is not None and upper is not None else None
    if line is not None and line.is_constant:
        size = None
    every = spec.schedule.rate if isinstance(spec.schedule, Periodic) else 1
    if spec.rows or spec.counts_rows:
        by_rows = isinstance(spec.schedule, Periodic) and spec.schedule.rows
        return _in_rows(
            on, input, size, every if by_rows else 1, partition_by, 1.0 if by_rows else float(every * width)
        )
    return _in_time(on, input, size, every, chronon, width)
