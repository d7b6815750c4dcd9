"""SHOW QUERIES: what is known of the queries of a session, one line each, from figures that are there already."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from tidegate.physical.plan import Plan
from tidegate.runtime.activities import Activity
from tidegate.runtime.figures import Figures
from tidegate.runtime.ledger import KnownQuery
from tidegate.time import MIN, shown

State = Literal["running", "waiting", "failed", "stopped"]

_ALWAYS, _FROM, _UNKNOWN = "from the beginning", "from complete_from on", "not known"


@dataclass(frozen=True)
class QueryLine:
    """What is known of a query. Instants are ticks of microseconds where `moments`, otherwise of integer time."""

    name: str
    state: State
    moments: bool
    since: int
    """The first instant of its answer; MIN: it has no first one."""
    complete: int | None
    """The instant from which nothing is missing; MIN: from the beginning, None: not known."""
    altered: int | None = None
    """The instant from which its newest text answers; None: it was never altered."""
    rate: float | None = None
    """Rows per second that its streams brought in the last epochs."""
    delay: float | None = None
    """Seconds from the moment at which an epoch takes rows until its answers count."""
    rows: int | None = None
    """Rows in the state of its operators, those that it shares included."""
    size: int | None = None
    """Bytes of them."""
    shared_with: tuple[str, ...] = ()
    """The queries that use operators or inputs of it."""


NAMED = 20
"""So many queries are named that share with one; of more, how many they are."""


def running_lines(figures: Figures, state: State, moments: bool) -> list[QueryLine]:
    """The queries of a graph."""
    done, rates = figures.activities.by_id, figures.rates
    partners = shared_by({name: q.whole for name, q in figures.queries.items()})
    nothing, found = Activity(), []
    for name, query in figures.queries.items():
        kept = [
            done.get(id_, nothing) for part in (query.whole.inputs, query.whole.operators) for id_ in part
        ]
        known = bool(figures.activities.orders)
        found.append(
            QueryLine(
                name,
                state,
                moments,
                *instants(query.known, figures.width),
                sum(rates.get(s, 0.0) for s in query.sources) if figures.epochs else None,
                figures.delay,
                sum(a.kept for a in kept) if known else None,
                sum(a.size for a in kept) if known else None,
                partners[name],
            )
        )
    return found


def stopped_lines(known: Mapping[str, KnownQuery], moments: bool, width: int) -> list[QueryLine]:
    """Queries that a state holds and nobody runs."""
    return [QueryLine(n, "stopped", moments, *instants(k, width)) for n, k in sorted(known.items())]


def instants(known: KnownQuery, width: int) -> tuple[int, int | None, int | None]:
    """Since when a query's answer holds, from when on it is complete, and when it was altered: rounded up to whole instants."""
    altered = max((t.until for t in known.before if not t.same), default=None)
    since, complete, changed = (
        t if t in (None, MIN) else -(-t // width) for t in (known.first, known.nothing_missing, altered)
    )
    assert since is not None
    return since, complete, changed


def shared_by(plans: Mapping[str, Plan]) -> dict[str, tuple[str, ...]]:
    """For each query, in order, the others that use inputs or operators of it.

    Most queries share with the same others, or with none: each such set is put together once.
    """
    users: dict[str, list[int]] = {}
    for number, plan in enumerate(plans.values()):
        for id_ in (*plan.inputs, *plan.operators):
            users.setdefault(id_, []).append(number)
    groups: dict[tuple[int, ...], int] = {}
    member: list[set[int]] = [set() for _ in plans]
    for together in users.values():
        if len(together) > 1:
            group = groups.setdefault(tuple(together), len(groups))
            if group not in member[together[0]]:
                for number in together:
                    member[number].add(group)
    names, every = list(plans), list(groups)
    united: dict[frozenset[int], tuple[int, ...]] = {}
    found = {}
    for number, (name, mine) in enumerate(zip(names, member, strict=True)):
        key = frozenset(mine)
        if key not in united:
            united[key] = tuple(sorted(set().union(*(every[g] for g in key))))
        others = [i for i in united[key][: NAMED + 1] if i != number][:NAMED]
        more = len(united[key]) - 1 - len(others) if key else 0
        found[name] = (*(names[i] for i in others), *([f"… and {more} more"] if more else []))
    return found


def table_of(lines: Sequence[QueryLine]) -> pa.Table:
    """The lines as a table. Times are TIMESTAMPs, or BIGINTs if all queries are over integer time; texts where both kinds run."""
    kinds = {line.moments for line in lines}
    words = [_ALWAYS if x.complete == MIN else _UNKNOWN if x.complete is None else _FROM for x in lines]
    columns: dict[str, pa.Array] = {
        "name": pa.array([x.name for x in lines], pa.string()),
        "state": pa.array([x.state for x in lines], pa.string()),
        "since": _times([(x.since, x.moments) for x in lines], kinds),
        "complete": pa.array(words, pa.string()),
        "complete_from": _times([(x.complete, x.moments) for x in lines], kinds),
        "altered": _times([(x.altered, x.moments) for x in lines], kinds),
        "rate": pa.array([x.rate for x in lines], pa.float64()),
        "delay": pa.array([x.delay for x in lines], pa.float64()),
        "state_rows": pa.array([x.rows for x in lines], pa.int64()),
        "state_bytes": pa.array([x.size for x in lines], pa.int64()),
        "shared_with": _lists([x.shared_with for x in lines]),
    }
    return pa.table(columns)


def _times(ticks: Iterable[tuple[int | None, bool]], kinds: set[bool]) -> pa.Array:
    """Ticks as times; NULL where there is none, or where it is the beginning of time."""
    given = [(None, m) if t == MIN else (t, m) for t, m in ticks]
    if len(kinds) > 1:
        return pa.array([None if t is None else shown(t, m) for t, m in given], pa.string())
    type_: Any = pa.int64() if kinds == {False} else pa.timestamp("us", "UTC")
    return pa.array([t for t, _ in given], pa.int64()).cast(type_)


def _lists(lists: Sequence[Sequence[str]]) -> pa.Array:
    offsets = np.cumsum([0, *(len(x) for x in lists)])
    return pa.ListArray.from_arrays(
        pa.array(offsets, pa.int32()), pa.array([n for x in lists for n in x], pa.string())
    )
