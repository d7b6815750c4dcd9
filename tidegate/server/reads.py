"""Answers of running queries, read without waiting for an epoch: from files, in this process where they are few, and once for all who ask the same.

What is final does not change, so an answer at an instant is kept as it was first given.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import Diagnostic
from tidegate.runtime.results import Result
from tidegate.runtime.results_here import changes_here, intervals_here, snapshot_here
from tidegate.runtime.running import LiveQuery
from tidegate.server.encoding import Format, table
from tidegate.terminal.answers import plain
from tidegate.time import MAX, MIN, shown
from tidegate.types import TIMESTAMP

T = TypeVar("T")

MOST_HERE = 1_000_000
"""Rows in files up to which an answer is read in this process."""

KEPT = 128
"""So many answers are kept."""

AGAIN = 5
"""So often an answer is read whose files were merged while they were read."""


class Shared:
    """What several ask for at once is computed once, in a thread; the last answers are kept."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Any, Any] = OrderedDict()
        self._pending: dict[Any, asyncio.Future[Any]] = {}

    async def get(self, key: Any, compute: Callable[[], T]) -> T:
        """The value of a key; all who ask meanwhile wait for the same."""
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]  # type: ignore[no-any-return]
        if key not in self._pending:
            made = asyncio.ensure_future(asyncio.to_thread(compute))
            self._pending[key] = made
            made.add_done_callback(lambda done: self._done(key, done))
        found: T = await asyncio.shield(self._pending[key])
        return found

    def _done(self, key: Any, done: asyncio.Future[Any]) -> None:
        self._pending.pop(key, None)
        if not done.cancelled() and done.exception() is None:
            self._kept[key] = done.result()
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)


def _unmerged(read: Callable[[], T]) -> T:
    """Read again what was merged into other files meanwhile."""
    for _ in range(AGAIN):
        try:
            return read()
        except (Diagnostic, OSError) as problem:
            if isinstance(problem, Diagnostic) and problem.condition != "STATE_DAMAGED":
                raise
    return read()


def tick_of(result: Result, at: int | str | None) -> int:
    """The tick that is asked for, which must be final; without one, the latest."""
    return result.latest_tick() if at is None else result.final_tick(at)


def snapshot(result: Result, tick: int) -> pa.Table:
    """The answer at a tick."""

    def read() -> pa.Table:
        found = snapshot_here(result, tick, MOST_HERE)
        return result.snapshot_at(tick).toArrow() if found is None else found

    return _unmerged(read)


def intervals(result: Result, since: int | str | None, most: int) -> pa.Table:
    """The first rows with their validity, in the order of their beginning."""

    def read() -> pa.Table:
        found = intervals_here(result) if since is None else None
        if found is not None:
            return found
        return result.intervals(since).orderBy("valid_from", "valid_to").limit(most).toArrow()

    return _unmerged(read)


def page(rows: pa.Table, offset: int, limit: int, form: Format, ordered: bool = False) -> dict[str, Any]:
    """Some rows of an answer. Where there are several pages, rows are in an order that stays."""
    if not ordered and (offset or rows.num_rows > limit):
        names = [f.name for f in rows.schema if not pa.types.is_nested(f.type)]
        if names and len(set(rows.column_names)) == rows.num_columns:
            rows = rows.take(pc.sort_indices(rows, sort_keys=[(n, "ascending") for n in names]))
    return table(rows.slice(offset, limit), form, rows.num_rows > offset + limit)


def changes(result: Result, low: int, high: int) -> list[tuple[int, dict[str, Any]]]:
    """What changed at each tick of [low, high), in order: a tick with its operations and rows is told whole or not at all."""

    def read() -> list[tuple[int, str, tuple[Any, ...]]]:
        found = changes_here(result, low, high, MOST_HERE)
        if found is None:
            rows = result.changes_in_ticks(low, high).toArrow()
            names = [*rows.column_names[1:-1], "op", rows.column_names[-1]]
            found = rows.select([*range(1, len(names) - 1), 0, len(names) - 1])
        columns = [c.to_pylist() for c in found.columns]
        return [(row[-1], row[-2], row[:-2]) for row in zip(*columns, strict=True)]

    result.refuse_forgotten(low)
    names = [f.name for f in result.schema]
    by_tick: dict[int, dict[str, Any]] = {}
    for tick, op, values in _unmerged(read):
        event = by_tick.setdefault(tick, {**_moment(result, tick), "changes": []})
        event["changes"].append({"op": op, "row": {n: plain(v) for n, v in zip(names, values, strict=True)}})
    return sorted(by_tick.items())


def _moment(result: Result, tick: int) -> dict[str, Any]:
    known = tick not in (MIN, MAX)
    found: dict[str, Any] = {"ts": said_instant(result, tick) if known else None}
    if result.width > 1:
        found["batch"] = tick % result.width if known else None
    return found


def said_instant(result: Result, tick: int) -> int | str | None:
    """A tick as results show its instant."""
    if tick in (MIN, MAX):
        return None
    instant = tick // result.width
    return shown(instant, True) if result.time_type == TIMESTAMP else instant


def described(live: LiveQuery) -> dict[str, Any]:
    """What a query is and how far it has come."""
    result = live.result
    return {
        "name": live.name,
        "columns": [{"name": f.name, "type": str(f.type)} for f in result.schema],
        "final_before": said_instant(result, result.upto),
        "status": plain(live.status()),
    }
