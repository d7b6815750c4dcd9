"""Grouping with aggregation as a sweep (SPEC section 3).

By snapshot-reducibility, the row of a group at t is the aggregate of the group's rows valid at t. It changes only where a
row starts or ends, so a step walks the endpoint events of the groups that have any, in order of time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from tidegate.algebra.operators import Aggregate
from tidegate.kernels.aggregate_forms import Extreme, choose
from tidegate.kernels.aggregate_sums import sweep_count
from tidegate.kernels.aggregate_sweep import Form, Sweep, order_codes
from tidegate.kernels.index import in_force, index_of, indexed, latest
from tidegate.kernels.rows import Frame, Layout, State, Table, accumulate, empty, empty_chunk, table
from tidegate.kernels.sweep_groups import Ids, gather
from tidegate.kernels.sweep_ranks import staircase
from tidegate.kernels.sweep_timeline import (
    Choice,
    Timeline,
    build_timeline,
    keep_live,
    segments,
    sorted_by_end,
    split_expiring,
    touched_rows,
)
from tidegate.scalars.columns import dtype
from tidegate.scalars.functions import AggregateFunction
from tidegate.time import MAX

SCALAR = "g"
"""The key of the only group of a scalar aggregation."""


@dataclass(frozen=True)
class AggregateKernel:
    """`snapshot(aggregate(S), t) = aggregate(snapshot(S, t))`, where an empty group has no row.

    State: `groups` holds each non-empty group's number of rows `n` and its accumulators; `live` the rows that are valid and of which the
    end is known (with `te` = end + 1), dropped when they end; `lasting` (only for aggregates that need to look at
    rows again, such as MAX) those without a known end, dropped when they are retracted.

    >>> from tidegate.algebra.operators import Aggregation, Scan
    >>> from tidegate.types import BIGINT, Field
    >>> node = Aggregate(Scan("S", (Field("a", BIGINT),)), (), (Aggregation("SUM", (0,), BIGINT, "s"),))
    >>> kernel = AggregateKernel(node, {})
    >>> rows = pl.DataFrame({"c0": [7, 8], "ts": [0, 2], "te": [5, 9], "n": [1, 1]})
    >>> kernel.step(kernel.initial(), [rows], MAX)[1].rows()
    [(7, 0, 2, 1), (15, 2, 5, 1), (8, 5, 9, 1)]
    """

    node: Aggregate
    functions: Mapping[str, AggregateFunction] = field(default_factory=dict)
    layout: Mapping[str, Layout] = field(init=False, compare=False)
    forms: tuple[Form, ...] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        schema = self.node.input.schema
        forms = tuple(choose(i, a, schema, self.functions) for i, a in enumerate(self.node.aggregations))
        by = tuple(f"c{k}" for k in dict.fromkeys(self.node.keys))
        layout = {"groups": Layout(by or (SCALAR,), by), "live": Layout((), by)}
        if any(f.needs_elements for f in forms):
            layout["lasting"] = Layout((), by)
        object.__setattr__(self, "forms", forms)
        object.__setattr__(self, "layout", layout)

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns that make a group."""
        return self.layout["groups"].latest_by

    def _columns(self) -> dict[str, pl.DataType]:
        """The input columns that are kept: keys, arguments and conditions."""
        schema = self.node.input.schema
        read = set(self.node.keys)
        for a in self.node.aggregations:
            read.update(a.arguments, () if a.where is None else (a.where,))
        columns: dict[str, pl.DataType] = {} if self.node.keys else {SCALAR: pl.Int8()}
        return columns | {f"c{i}": dtype(schema[i].type) for i in sorted(read)}

    def initial(self) -> State:
        columns = self._columns()
        accumulators = {c: t for f in self.forms for c, t in f.accumulators.items()}
        groups = empty({k: columns[k] for k in self.keys}, "n")
        tables = {
            "groups": table(groups.with_columns(pl.lit(None, t).alias(c) for c, t in accumulators.items()))
        }
        for name in ("live", "lasting"):
            if name in self.layout:
                tables[name] = table(empty(columns, "te", "n"))
        return tables

    def step(self, state: State, chunks: Sequence[Frame], upto: int) -> tuple[State, Frame]:
        columns = self._columns()
        new = chunks[0]
        if SCALAR in columns:
            new = new.with_columns(pl.lit(0, pl.Int8()).alias(SCALAR))
        new = new.select(*columns, "ts", "te", "n").filter((pl.col("n") != 0) & (pl.col("ts") < pl.col("te")))
        live = sorted_by_end(state["live"].rows)
        expiring, rest = split_expiring(live, upto)
        again = "lasting" in self.layout
        others = [state["lasting"].rows] if again else []
        line = build_timeline(
            live if again else expiring, expiring.height, others, new, self.keys, upto,
            self._choice([new, live, *others]),
        )  # fmt: skip
        after = {name: t.settled for name, t in state.items()}
        if line is None:
            return after, empty_chunk(self.node.schema)
        index = index_of(state["groups"], self.keys)
        delta, chunk = self._sweep(in_force(index, line.groups.keys), line)
        after["groups"] = indexed(index, delta, latest(self.keys))
        after["live"] = Table(*keep_live(rest, new, upto))
        if again:
            lasting = new.filter(pl.col("te") == MAX).select(state["lasting"].rows.columns)
            after["lasting"] = Table(accumulate(state["lasting"].rows, lasting), lasting)
        return after, chunk

    def _choice(self, frames: Sequence[Frame]) -> Choice:
        """Which live rows to look at: all of touched groups, or, for MIN and MAX alone, those not beaten for good.

        A row that is retracted may uncover one that it beat, so this holds only while nothing is.
        """
        extremes = [f.aggregation for f in self.forms if isinstance(f, Extreme)]
        if len(extremes) < sum(f.needs_elements for f in self.forms):
            return touched_rows
        if any(f.height and f["n"].min() < 0 for f in frames):  # type: ignore[operator]
            return touched_rows
        best: dict[int, np.ndarray] = {}
        found: dict[int, np.ndarray] = {}

        def choose(rows: Frame, codes: Ids, groups: int) -> Ids:
            keep = np.zeros(rows.height, np.bool_)
            for i, a in enumerate(extremes):
                column = rows[f"c{a.arguments[0]}"]
                values = order_codes(column)
                if values is None:
                    return touched_rows(rows, codes, groups)
                use = column.is_not_null().to_numpy()
                if a.where is not None:
                    use = use & rows[f"c{a.where}"].fill_null(False).to_numpy()
                staircase(
                    values, use, codes, a.function == "MIN",
                    best.setdefault(i, np.empty(groups, np.int64)), found.setdefault(i, np.zeros(groups, np.bool_)), keep,
                )  # fmt: skip
            return np.flatnonzero(keep).astype(np.int32)

        return choose

    def _sweep(self, known: Frame, line: Timeline) -> tuple[Frame, Frame]:
        """The touched groups after the step, and the chunk; `known` holds them as they were, perhaps with a few others."""
        found = line.groups.locate(known)
        at = np.full(line.groups.count, -1, np.int64)
        touched = np.flatnonzero(found >= 0)
        at[found[touched]] = touched
        index = pl.Series(at).to_frame("i").select(pl.when(pl.col("i") >= 0).then("i")).to_series()
        before = known.select(pl.all().gather(index)) if known.height else known.clear(line.groups.count)
        before = before.with_columns(pl.col("n").fill_null(0), pl.col("^a\\d+_i\\d+$").fill_null(0))
        counts = np.empty(line.points, np.int64)
        rows = before["n"].to_numpy().copy()
        everything = np.ones(len(line.n), np.bool_)
        ignored = np.empty(line.points, np.bool_)
        sweep_count(
            line.group_points, line.point_events, line.events, line.n, everything, rows, counts, ignored
        )
        sweep = Sweep(line, before, counts, np.zeros(line.points, np.bool_))
        swept = [form.sweep(sweep) for form in self.forms]
        accumulators = {name: series for s in swept for name, series in s.after.items()}
        delta = line.groups.keys.with_columns(n=pl.Series(rows), **accumulators).select(known.columns)
        delta = delta.filter(pl.Series((rows != 0) | (at >= 0)))
        points, codes, ts, te, n = segments(line.group_points, line.times, counts, sweep.changed)
        keys = gather(line.groups.keys, codes)
        out = [keys[f"c{k}"].alias(f"c{i}") for i, k in enumerate(self.node.keys)]
        out += [s.values(points).alias(f"c{len(out) + i}") for i, s in enumerate(swept)]
        out += [pl.Series("ts", ts), pl.Series("te", te), pl.Series("n", n)]
        return delta, pl.DataFrame(out)
