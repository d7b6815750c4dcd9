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
from tidegate.kernels.aggregate_forms import Extreme, choose, valued
from tidegate.kernels.aggregate_sums import sweep_count
from tidegate.kernels.aggregate_sweep import Form, Sweep
from tidegate.kernels.index import in_force, index_of, indexed, latest, summed
from tidegate.kernels.rows import (
    Frame,
    Layout,
    State,
    Table,
    consolidate,
    empty,
    empty_chunk,
    table,
)
from tidegate.kernels.sweep_groups import Ids, gather
from tidegate.kernels.sweep_ladders import Ladders, Valued, group_hashes, ladders_pay
from tidegate.kernels.sweep_ranks import has_codes, order_codes, staircase
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
    rows again, such as MAX) those without a known end, dropped when they are retracted. Where few of many rows change, ladders
    tell what is to be known of the others.

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
    valued: frozenset[Valued] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        schema = self.node.input.schema
        forms = tuple(choose(i, a, schema, self.functions) for i, a in enumerate(self.node.aggregations))
        by = tuple(f"c{k}" for k in dict.fromkeys(self.node.keys))
        layout = {"groups": Layout(by or (SCALAR,), by), "live": Layout((), by)}
        if any(f.needs_elements for f in forms):
            layout["lasting"] = Layout((), by)
        ladders = [valued(f, schema) for f in forms if f.needs_elements]
        object.__setattr__(
            self, "valued", frozenset(v for v in ladders if v) if None not in ladders else frozenset()
        )
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
        ladders = self._ladders(state, live, expiring.height + new.height)
        line = self._timeline(state, live, expiring, new, upto, ladders)
        after = {name: t.settled for name, t in state.items()}
        if line is None:
            return after, empty_chunk(self.node.schema)
        index = index_of(state["groups"], self.keys)
        known = in_force(index, line.groups.keys)
        if ladders is not None:
            ladders = Ladders(ladders.each, group_hashes(line.groups.keys, self.keys))
            # Groups of one hash cannot be told apart there; one that is not touched shows as a row too many.
            if ladders.collide or (line.groups.locate(known) < 0).any():
                ladders, line = None, self._timeline(state, live, expiring, new, upto, None) or line
        delta, chunk = self._sweep(known, line, ladders)
        after["groups"] = indexed(index, delta, latest(self.keys))
        after["live"] = Table(*keep_live(rest, new, upto), ladders and ladders.after(line, upto))
        if "lasting" in self.layout:
            lasting = new.filter(pl.col("te") == MAX).select(state["lasting"].rows.columns)
            kept = index_of(state["lasting"], self.keys)
            after["lasting"] = indexed(kept, lasting, summed)
        return after, chunk

    def _ladders(self, state: State, live: Frame, changes: int) -> Ladders | None:
        """The ladders from before the step, where it changes little of much and all forms can do with them."""
        if not self.valued:
            return None
        lasting = state["lasting"].rows
        # One look at each row is enough for MIN and MAX, so that ladders pay later.
        scanned = all(isinstance(f, Extreme) for f in self.forms if f.needs_elements)
        if not ladders_pay(live.height + lasting.height, (16 if scanned else 1) * changes):
            return None
        kept = state["live"].index
        return (
            kept
            if isinstance(kept, Ladders)
            else Ladders.of(self.valued, pl.concat([live, lasting]), self.keys)
        )

    def _timeline(
        self, state: State, live: Frame, expiring: Frame, new: Frame, upto: int, ladders: Ladders | None
    ) -> Timeline | None:
        """Of what starts and ends, and of rows from before the step where forms have to look at them again."""
        if "lasting" not in self.layout or ladders is not None:
            return build_timeline(expiring, expiring.height, [], new, self.keys, upto)
        lasting = state["lasting"].rows
        if lasting.height and lasting["n"].min() < 0:  # type: ignore[operator]
            lasting = consolidate(lasting)
        choice = self._choice([new, live, lasting])
        return build_timeline(live, expiring.height, [lasting], new, self.keys, upto, choice)

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
                if not has_codes(column.dtype):
                    return touched_rows(rows, codes, groups)
                values = order_codes(column)
                use = column.is_not_null().to_numpy()
                if a.where is not None:
                    use = use & rows[f"c{a.where}"].fill_null(False).to_numpy()
                staircase(
                    values, use, codes, a.function == "MIN",
                    best.setdefault(i, np.empty(groups, np.int64)), found.setdefault(i, np.zeros(groups, np.bool_)), keep,
                )  # fmt: skip
            return np.flatnonzero(keep).astype(np.int32)

        return choose

    def _sweep(self, known: Frame, line: Timeline, ladders: Ladders | None) -> tuple[Frame, Frame]:
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
        sweep = Sweep(line, before, counts, np.zeros(line.points, np.bool_), ladders)
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
