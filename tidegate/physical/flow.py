"""What is known of the rows between two operators, and of the state of each: one rule per kernel, in one visible table.

A row's **form** says what is known of its end: an instant ends at once, an interval's end is known when the row is born, and a
change's end comes as a later row that takes it back. A **bound** says what limits how many rows are valid at an instant, and so
how large a state can grow that has to hold them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

from tidegate.algebra.now import bounds
from tidegate.algebra.sequences import WindowSequence
from tidegate.errors import internal
from tidegate.kernels.aggregates import AggregateKernel
from tidegate.kernels.coalescing import CoalesceKernel
from tidegate.kernels.endpoints import (
    AlignKernel,
    ExpireKernel,
    RangedWindowKernel,
    SplitKernel,
    TimeWindowKernel,
)
from tidegate.kernels.join import JoinKernel
from tidegate.kernels.modify import InsertsKernel, ModifyKernel
from tidegate.kernels.rows import Kernel
from tidegate.kernels.rowwise import (
    ColumnsKernel,
    FilterKernel,
    OneRowKernel,
    ProjectKernel,
    SubtractKernel,
    UnionKernel,
)
from tidegate.kernels.sequences import SessionKernel, TimeSequenceKernel, _Sequenced
from tidegate.kernels.streams import ChangesKernel, SinceKernel, SingleRowKernel
from tidegate.kernels.sweep import SweepKernel
from tidegate.kernels.sync import PointsKernel, RestrictKernel, SyncEventsKernel, SyncTicksKernel
from tidegate.kernels.topk import TopKKernel
from tidegate.kernels.windows import RowWindowKernel, TimeEveryRowsKernel
from tidegate.scalars.expressions import references

FORMS = ("instants", "intervals", "changes")


class Bound(IntEnum):
    """What limits a number of rows, the tightest first."""

    NONE = 0
    """There is no state."""
    TABLE = 1
    TIME = 2
    ROWS = 3
    KEYS = 4
    NOTHING = 5

    def __str__(self) -> str:
        return _WORDS[self]


_WORDS = {
    Bound.NONE: "no state",
    Bound.TABLE: "state as large as a table",
    Bound.TIME: "state bounded by time",
    Bound.ROWS: "state bounded by a number of rows",
    Bound.KEYS: "state bounded by the number of keys",
    Bound.NOTHING: "state that nothing bounds",
}


@dataclass(frozen=True)
class Rows:
    """The rows of a stream between two operators."""

    form: str
    bound: Bound


Flow = tuple[Rows, Bound]
"""The rows that a kernel emits, and what bounds its state."""


def flow(kernel: Kernel, inputs: Sequence[Rows]) -> Flow:
    """What a kernel makes of its inputs.

    >>> from tidegate.types import INT, Field
    >>> rows, state = flow(SweepKernel("distinct", (Field("a", INT),)), [Rows("intervals", Bound.TIME)])
    >>> rows.form, str(state)
    ('changes', 'state bounded by time')
    """
    for kinds, rule in FLOWS.items():
        if isinstance(kernel, kinds):
            rows, state = rule(kernel, inputs)
            return rows, (state if kernel.layout else Bound.NONE)
    raise internal(f"nobody says what rows {type(kernel).__name__} emits")


def together(inputs: Sequence[Rows]) -> Rows:
    """What holds of the rows of all inputs."""
    form = max((i.form for i in inputs), key=FORMS.index, default="intervals")
    return Rows(form, max((i.bound for i in inputs), default=Bound.TABLE))


def _same(kernel: Any, inputs: Sequence[Rows]) -> Flow:
    every = together(inputs)
    return every, every.bound


def _changes(kernel: Any, inputs: Sequence[Rows]) -> Flow:
    bound = together(inputs).bound
    return Rows("changes", bound), bound


def _meeting(kernel: JoinKernel, inputs: Sequence[Rows]) -> Flow:
    every = together(inputs)
    # Instants of one side end what they meet.
    form = "instants" if any(i.form == "instants" for i in inputs) else every.form
    return Rows(form, every.bound), every.bound


def _time_window(kernel: TimeWindowKernel, inputs: Sequence[Rows]) -> Flow:
    (rows,) = inputs
    bound = Bound.NOTHING if kernel.size is None else max(rows.bound, Bound.TIME)
    # What is kept are rows that are not seen yet: until the next slide, or as long as a derived row lasts.
    return Rows(max(rows.form, "intervals", key=FORMS.index), bound), max(rows.bound, Bound.TIME)


def _ranged_window(kernel: RangedWindowKernel, inputs: Sequence[Rows]) -> Flow:
    bound = Bound.NOTHING if kernel.spec.size is None else Bound.TIME
    return Rows("intervals", bound), Bound.TIME


def _sequence(kernel: Any, inputs: Sequence[Rows]) -> Flow:
    spec: WindowSequence = kernel.spec
    landmark = not references(spec.lower.expression)
    bound = Bound.NOTHING if landmark else _counted(kernel.partition_by) if spec.rows else Bound.TIME
    return Rows("changes" if spec.counts_rows else "intervals", bound), bound


def _counted(partition_by: Sequence[int]) -> Bound:
    return Bound.KEYS if partition_by else Bound.ROWS


def _row_window(kernel: RowWindowKernel, inputs: Sequence[Rows]) -> Flow:
    bound = Bound.NOTHING if kernel.size is None else _counted(kernel.partition_by)
    return Rows("changes", bound), bound


def _time_every_rows(kernel: TimeEveryRowsKernel, inputs: Sequence[Rows]) -> Flow:
    bound = Bound.NOTHING if kernel.size is None else Bound.TIME
    return Rows("changes", bound), bound


def _aggregate(kernel: AggregateKernel, inputs: Sequence[Rows]) -> Flow:
    """One row per group; the rows of the input are kept where an aggregate has to look at them again."""
    (rows,) = inputs
    groups = _counted(kernel.node.keys)
    kept = rows.bound if "lasting" in kernel.layout else min(rows.bound, groups)
    return Rows("changes", min(rows.bound, groups)), kept


def _top_k(kernel: TopKKernel, inputs: Sequence[Rows]) -> Flow:
    """All rows are kept: when one of the first leaves, the next takes its place."""
    (rows,) = inputs
    return Rows("changes", min(rows.bound, _counted(kernel.node.partition_by))), rows.bound


def _restrict(kernel: RestrictKernel, inputs: Sequence[Rows]) -> Flow:
    (rows,) = inputs
    ends = any(b.comparison in ("<", "<=", "=") for b in bounds(kernel.predicate, len(kernel.schema)))
    made = Rows("intervals", Bound.TIME) if ends and rows.form != "changes" else rows
    return made, made.bound


def _sync_ticks(kernel: SyncTicksKernel, inputs: Sequence[Rows]) -> Flow:
    """Ticks are arithmetic: an end that is known stays known."""
    (rows,) = inputs
    return replace(rows, form=max(rows.form, "intervals", key=FORMS.index)), rows.bound


def _sync(kernel: Any, inputs: Sequence[Rows]) -> Flow:
    rows = inputs[0]
    return replace(rows, form="changes"), rows.bound


FLOWS: Mapping[type | tuple[type, ...], Callable[[Any, Sequence[Rows]], Flow]] = {
    (
        FilterKernel,
        ProjectKernel,
        ColumnsKernel,
        CoalesceKernel,
        UnionKernel,
        SubtractKernel,
        AlignKernel,
    ): _same,
    OneRowKernel: lambda kernel, inputs: (Rows("intervals", Bound.TABLE), Bound.TABLE),
    JoinKernel: _meeting,
    (SweepKernel, SinceKernel, SingleRowKernel, ExpireKernel): _changes,
    TimeWindowKernel: _time_window,
    RangedWindowKernel: _ranged_window,
    SplitKernel: lambda kernel, inputs: (Rows("instants", Bound.TIME), inputs[0].bound),
    (TimeSequenceKernel, _Sequenced): _sequence,
    SessionKernel: lambda kernel, inputs: (Rows("changes", Bound.TIME), Bound.TIME),
    RowWindowKernel: _row_window,
    TimeEveryRowsKernel: _time_every_rows,
    AggregateKernel: _aggregate,
    TopKKernel: _top_k,
    ChangesKernel: lambda kernel, inputs: (Rows("instants", Bound.TIME), inputs[0].bound),
    InsertsKernel: lambda kernel, inputs: (Rows("intervals", Bound.NOTHING), Bound.NONE),
    ModifyKernel: lambda kernel, inputs: (Rows("changes", Bound.KEYS), Bound.KEYS),
    PointsKernel: lambda kernel, inputs: (Rows("instants", Bound.TIME), Bound.TIME),
    SyncTicksKernel: _sync_ticks,
    SyncEventsKernel: _sync,
    RestrictKernel: _restrict,
}
"""What each kernel does to rows, and what it keeps."""
