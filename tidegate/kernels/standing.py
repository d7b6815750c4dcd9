"""What an operator shows when others begin to read it: the relation as it stands (SPEC section 5).

Whoever begins to read a running operator after the epoch that ended before W has missed what the operator has emitted. Of that,

    standing(op, W) = all rows that op has emitted, as far as they are valid from W - 1 on

is enough for whatever is snapshot-reducible: its answers from W on depend on nothing else. Rows whose ends are known are what the operator makes of
its inputs' standing rows. Rows that are taken back later are open, so the operator's own state says which they are: they are kept there, or they are
what the operator would take back if its input ended now.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import polars as pl

from tidegate.kernels.aggregates import AggregateKernel
from tidegate.kernels.coalescing import CoalesceKernel
from tidegate.kernels.endpoints import ExpireKernel, SplitKernel
from tidegate.kernels.index import latest
from tidegate.kernels.join import JoinKernel
from tidegate.kernels.modify import ModifyKernel
from tidegate.kernels.rows import Frame, Kernel, State, columns, consolidate, empty_chunk
from tidegate.kernels.rowwise import ColumnsKernel, FilterKernel, ProjectKernel, SubtractKernel, UnionKernel
from tidegate.kernels.streams import ChangesKernel, SingleRowKernel
from tidegate.kernels.sweep import OPERATIONS, SweepKernel
from tidegate.kernels.sweep_walk import multiplicity
from tidegate.kernels.sync import RestrictKernel, SyncTicksKernel
from tidegate.kernels.topk import TopKKernel
from tidegate.kernels.windows import RowWindowKernel
from tidegate.time import MAX

PASSING = (
    FilterKernel,
    ProjectKernel,
    ColumnsKernel,
    CoalesceKernel,
    UnionKernel,
    SubtractKernel,
    SingleRowKernel,
)
"""They keep no rows: what they show is what they make of what their inputs show."""

REDUCIBLE = (*PASSING, JoinKernel, SweepKernel, AggregateKernel, TopKKernel, RestrictKernel)


def can_begin(kernel: Kernel) -> bool:
    """Whether an operator that begins with what its inputs show answers from then on as if it had always been there.

    It does if it is snapshot-reducible. What counts rows, compares instants or remembers when a row came is not; what is seen at ticks is right
    from the next tick on.
    """
    return isinstance(kernel, (*REDUCIBLE, SyncTicksKernel))


def can_stand(kernel: Kernel, inputs: Sequence[bool]) -> bool:
    """Whether it can be told what an operator shows, given of which of its inputs it can."""
    if isinstance(kernel, PASSING):
        return all(inputs)
    if isinstance(kernel, RowWindowKernel):
        return kernel.size is not None  # what stays for ever is not kept
    return type(kernel) in STANDING


def standing(kernel: Kernel, state: State, inputs: Sequence[Frame], at: int) -> Frame:
    """The rows that an operator has emitted, as far as they are valid from the last instant `at` that has passed."""
    return _shown(STANDING[type(kernel)](kernel, state, inputs, at), at)


def _shown(rows: Frame, at: int) -> Frame:
    payload = [c for c in rows.columns if c not in ("ts", "te", "n", "seq")]
    since = pl.lit(at, dtype=pl.Int64).alias("ts")
    if "te" not in rows.columns:
        rows = rows.with_columns(te=pl.lit(MAX, dtype=pl.Int64))
    return rows.select(*payload, since, "te", "n").filter((pl.col("te") > at) & (pl.col("n") != 0))


def _mapped(kernel: Kernel, state: State, inputs: Sequence[Frame], at: int) -> Frame:
    return kernel.step(kernel.initial(), inputs, at + 1)[1]


def _nothing(kernel: Any, state: State, inputs: Sequence[Frame], at: int) -> Frame:
    """Instants have passed."""
    return empty_chunk(kernel.schema)


def _pairs(kernel: JoinKernel, state: State, inputs: Sequence[Frame], at: int) -> Frame:
    sides = [_shown(consolidate(state[s].rows), at) for s in ("left", "right")]
    return kernel.step(kernel.initial(), sides, at + 1)[1]


def _multiplicities(kernel: SweepKernel, state: State, inputs: Sequence[Frame], at: int) -> Frame:
    rows = _in_force(state, "current", kernel)
    operation = OPERATIONS[kernel.operation]
    n = [multiplicity(operation, a, b) for a, b in rows.select("left", "right").iter_rows()]
    return rows.select(*columns(len(kernel.schema)), n=pl.Series(n, dtype=pl.Int64))


def _not_over(kernel: ExpireKernel, state: State, inputs: Sequence[Frame], at: int) -> Frame:
    """Rows that are shown are those whose negative tuples wait."""
    return state["held"].rows.select(*columns(len(kernel.schema)), -pl.col("n"))


def _relation(kernel: ModifyKernel, state: State, inputs: Sequence[Frame], at: int) -> Frame:
    return _in_force(state, "current", kernel).select(*columns(len(kernel.schema)), "n")


def _last_rows(kernel: RowWindowKernel, state: State, inputs: Sequence[Frame], at: int) -> Frame:
    rows = _in_force(state, "recent", kernel)
    p = rows["p"].to_numpy()
    count = rows.select(pl.col("p").max().over(kernel.keys)).to_series().to_numpy()
    shown = pl.Series((kernel.shown(p) <= count) & (count < kernel.gone(p)), dtype=pl.Boolean)
    return rows.filter(shown).select(*kernel.payload, "n")


def _groups(kernel: AggregateKernel, state: State, inputs: Sequence[Frame], at: int) -> Frame:
    if "lasting" in kernel.layout:
        return _taken_back(kernel, state, at)
    # Only the number of rows is known of a group: it ends if that many are taken away, whichever they are.
    groups = _in_force(state, "groups", kernel)
    kept = state["live"].rows
    unknown = [c for c in kept.columns if c not in (*kernel.keys, "te", "n")]
    rows = groups.select(
        *kernel.keys, *(pl.lit(None, dtype=kept.schema[c]).alias(c) for c in unknown), "n"
    ).with_columns(te=pl.lit(MAX, dtype=pl.Int64))
    return _ended(kernel, state, rows, at)


def _taken_back(kernel: Any, state: State, at: int) -> Frame:
    live, lasting = state["live"].rows, consolidate(state["lasting"].rows)
    rows = pl.concat([live.with_columns(pl.col("te") - 1), lasting.select(live.columns)])
    return _ended(kernel, state, rows, at)


def _first_rows(kernel: TopKKernel, state: State, inputs: Sequence[Frame], at: int) -> Frame:
    return _taken_back(kernel, state, at)


def _ended(kernel: Kernel, state: State, rows: Frame, at: int) -> Frame:
    """What an operator takes back when all its rows end at once: that is what it shows."""
    ends = rows.with_columns(-pl.col("n"), ts=pl.lit(at, dtype=pl.Int64))
    out = kernel.step(state, [ends], at + 1)[1]
    return out.filter(pl.col("n") < 0).with_columns(-pl.col("n"))


def _in_force(state: State, name: str, kernel: Kernel) -> Frame:
    rows = state[name].rows
    return latest(kernel.layout[name].latest_by)(rows.clear(), rows, True)


STANDING: Mapping[type, Callable[[Any, State, Sequence[Frame], int], Frame]] = {
    **dict.fromkeys(PASSING, _mapped),
    ChangesKernel: _nothing,
    SplitKernel: _nothing,
    JoinKernel: _pairs,
    SweepKernel: _multiplicities,
    ExpireKernel: _not_over,
    ModifyKernel: _relation,
    RowWindowKernel: _last_rows,
    AggregateKernel: _groups,
    TopKKernel: _first_rows,
}
"""How it is told of each kernel what it shows."""
