"""`tidegate.metrics`: what was measured of every input and operator in the last epochs, as a table."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tidegate.runtime.activities import Activity, MeasuredEpoch
from tidegate.runtime.figures import Figures
from tidegate.time import MAX, MIN
from tidegate.types import BIGINT, DOUBLE, STRING, Field

NAME = "tidegate.metrics"

COLUMNS = (
    Field("graph", STRING, nullable=False),
    Field("epoch", BIGINT, nullable=False),
    Field("watermark", BIGINT),
    Field("queries", STRING, nullable=False),
    Field("number", BIGINT, nullable=False),
    Field("operator", STRING, nullable=False),
    Field("title", STRING, nullable=False),
    Field("details", STRING, nullable=False),
    Field("rows_in", BIGINT, nullable=False),
    Field("rows_out", BIGINT, nullable=False),
    Field("selectivity", DOUBLE),
    Field("retractions", BIGINT, nullable=False),
    Field("expired", BIGINT, nullable=False),
    Field("open_rows", BIGINT),
    Field("validity", DOUBLE),
    Field("granule", BIGINT),
    Field("keys", BIGINT),
    Field("skew", DOUBLE),
    Field("state_rows", BIGINT, nullable=False),
    Field("state_bytes", BIGINT, nullable=False),
    Field("cpu_seconds", DOUBLE, nullable=False),
)

NAMED = 4
"""So many queries are named at an operator; of more, how many they are."""


def lines(epochs: Sequence[MeasuredEpoch], query: str | None = None) -> Iterator[tuple[Any, ...]]:
    """The lines of some epochs: of all that ran, or of what works for one query."""
    for epoch in epochs:
        upto = None if epoch.upto in (MIN, MAX) else epoch.upto // epoch.width
        for id_, (number, title, details) in epoch.physical.captions.items():
            names = epoch.physical.users.get(id_, [])
            if query is None or query in names:
                words = (named(names), number, id_[:8], title, details)
                figures = _figures(
                    epoch.by_id.get(id_, Activity()), epoch.width, id_ in epoch.physical.only_expire
                )
                yield (epoch.graph, epoch.number, upto, *words, *figures)


def named(queries: Sequence[str]) -> str:
    """Queries in a few words.

    >>> named(["a", "b"]), named(["a", "b", "c", "d", "e", "f"])
    ('a, b', 'a, b, c, d and 2 more')
    """
    more = len(queries) - NAMED
    return ", ".join(queries[:NAMED]) + (f" and {more:,} more" if more > 0 else "")


def _figures(done: Activity, width: int, expires: bool) -> tuple[Any, ...]:
    """The columns that were measured; what is not known is None. Ticks are those that people see.

    `expires`: what is taken back has left a window.
    """
    looked, lasting = done.measured > 0, done.validity
    return (
        done.taken,
        done.given,
        done.selectivity,
        done.retracted,
        done.retracted if expires else 0,
        done.open if looked else None,
        None if lasting is None else lasting / width,
        max(1, done.granule // width) if looked and done.granule else None,
        done.keys if done.keys >= 0 else None,
        done.skew,
        done.kept,
        done.size,
        done.seconds,
    )


def operators_of(figures: Figures, query: str | None = None) -> list[dict[str, Any]]:
    """What the inputs and operators of a graph, or those of one query, have done: in the last epoch, and since the graph was started here. Of what was
    not measured in that epoch, the latest that is known."""
    if not figures.metrics:
        return []
    latest, found = figures.metrics[-1], []
    physical, known = latest.physical, figures.activities.by_id
    for id_, (number, title, _) in physical.captions.items():
        names = physical.users.get(id_, [])
        if query is None or query in names:
            done = known.get(id_, Activity())
            figures_ = _figures(done, latest.width, id_ in physical.only_expire)
            measured = dict(zip([f.name for f in COLUMNS[8:]], figures_, strict=True))
            found.append(
                {
                    "number": number,
                    "operator": id_[:8],
                    "title": title,
                    "queries": named(names),
                    **measured,
                    "total_rows_in": done.all_taken,
                    "total_rows_out": done.all_given,
                    "total_retractions": done.all_retracted,
                    "total_cpu_seconds": done.all_seconds,
                }
            )
    return found


def measured_lines(epochs: Sequence[MeasuredEpoch]) -> Mapping[str, str]:
    """What inputs and operators did in all of some epochs, in a line each, by their identity."""
    found: dict[str, list[Activity]] = {}
    for epoch in epochs:
        for id_, done in epoch.by_id.items():
            found.setdefault(id_, []).append(done)
    return {id_: line_of(summed(done), epochs[-1].width) for id_, done in found.items()}


def summed(parts: Sequence[Activity]) -> Activity:
    """Several epochs as one: rows and seconds are added up, state and keys are the largest that there were."""
    return Activity(
        taken=sum(p.taken for p in parts),
        given=sum(p.given for p in parts),
        kept=max(p.kept for p in parts),
        size=max(p.size for p in parts),
        retracted=sum(p.retracted for p in parts),
        seconds=sum(p.seconds for p in parts),
        peak=sum(p.peak for p in parts),
        tasks=max(p.tasks for p in parts),
        measured=sum(p.measured for p in parts),
        open=sum(p.open for p in parts),
        closed=sum(p.closed for p in parts),
        lasting=sum(p.lasting for p in parts),
        granule=math.gcd(*(p.granule for p in parts)),
        keys=max(p.keys for p in parts),
    )


def line_of(done: Activity, width: int = 1) -> str:
    """What was measured, in one line.

    >>> line_of(Activity(taken=40, given=10, peak=20, tasks=4, closed=10, lasting=600.0, measured=10, keys=3, seconds=0.0125))
    '40 rows in, 10 out (0.25 for each), validity 60, 3 keys, skew 2.00; 12.5 ms'
    """
    found = [f"{done.taken:,} rows in, {done.given:,} out"]
    if done.selectivity is not None and done.given != done.taken:
        found[0] += f" ({done.selectivity:.3g} for each)"
    if done.retracted:
        found.append(f"{done.retracted:,} retractions")
    if done.validity is not None:
        found.append(f"validity {done.validity / width:,.6g}")
    if done.open:
        found.append(f"{done.open:,} without a known end")
    if done.granule > width:
        found.append(f"granule {done.granule // width:,}")
    if done.keys >= 0:
        found.append(f"{done.keys:,} key{'s' * (done.keys != 1)}")
    if done.skew is not None and done.tasks > 1:
        found.append(f"skew {done.skew:.2f}")
    if done.kept:
        found.append(f"keeps {done.kept:,} row{'s' * (done.kept != 1)}, {done.size:,} bytes")
    return ", ".join(found) + f"; {done.seconds * 1e3:,.1f} ms"
