"""What is to be done above a view so that it answers a query, as a value and as a plan."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from sqlglot import exp

from tidegate.algebra import operators as op
from tidegate.algebra.modify import Restrict, Sync
from tidegate.algebra.properties import has_timestamps
from tidegate.optimizer.rollup import Rollup
from tidegate.scalars.expressions import conjoin, index_of, ref
from tidegate.time import MAX, to_datetime
from tidegate.types import Schema

Expressions = tuple[exp.Expression, ...]


@dataclass(frozen=True)
class Fresh:
    """Only rows are seen that are younger than some ticks: a smaller window inside a larger one."""

    time: exp.Expression
    """The instant of the row."""
    size: int


@dataclass(frozen=True)
class Over:
    """A query as a plan over a view."""

    columns: Expressions
    conditions: Expressions = ()
    fresh: tuple[Fresh, ...] = ()
    rollup: Rollup | None = None
    having: Expressions = ()
    points: op.Node | None = None
    begins: int | None = None
    """Nothing is seen before this instant."""

    @property
    def is_rowwise(self) -> bool:
        """Whether every row of the view is looked at by itself."""
        return self.rollup is None and not self.fresh and self.points is None and self.begins is None

    @property
    def is_filter(self) -> bool:
        return self.rollup is None and not self.fresh and self.points is None

    def plan(self, view: op.Node, schema: Schema) -> op.Node:
        """The query, as a plan over the view."""
        plan = _filtered(view, self.conditions)
        for fresh in self.fresh:
            plan = _younger(plan, fresh)
        if self.rollup is not None:
            plan = self.rollup.plan(plan)
        plan = _filtered(plan, self.having)
        if [index_of(e) for e in self.columns] != [*range(len(plan.schema))] or plan.schema != schema:
            plan = op.Project(plan, self.columns, schema)
        if self.begins is not None:
            plan = _not_before(plan, self.begins, has_timestamps(view))
        return plan if self.points is None else Sync(plan, self.points)


def _filtered(plan: op.Node, conditions: Expressions) -> op.Node:
    predicate = conjoin(conditions)
    return plan if predicate is None else op.Filter(plan, predicate)


def _younger(plan: op.Node, fresh: Fresh) -> op.Node:
    """NOW < time + size, without running over the end of time."""
    timestamps = has_timestamps(plan)
    now = ref(len(plan.schema))
    if timestamps:
        size: exp.Expression = exp.Interval(
            this=exp.Literal.string(str(fresh.size)), unit=exp.var("MICROSECOND")
        )
        until: exp.Expression = exp.Add(this=fresh.time.copy(), expression=size)
    else:
        last = exp.Literal.number(MAX - fresh.size)
        until = exp.Add(
            this=exp.Least(this=fresh.time.copy(), expressions=[last]),
            expression=exp.Literal.number(fresh.size),
        )
    return Restrict(plan, exp.LT(this=now, expression=until), timestamps)


def _not_before(plan: op.Node, instant: int, timestamps: bool) -> op.Node:
    now = ref(len(plan.schema))
    return Restrict(plan, exp.GTE(this=now, expression=moment(instant, timestamps)), timestamps)


def moment(instant: int, timestamps: bool) -> exp.Expression:
    if not timestamps:
        return exp.Literal.number(instant) if instant >= 0 else exp.Neg(this=exp.Literal.number(-instant))
    moment = to_datetime(instant)
    assert isinstance(moment, datetime)
    text = moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
    return exp.Cast(this=exp.Literal.string(text), to=exp.DataType.build("TIMESTAMPTZ"))
