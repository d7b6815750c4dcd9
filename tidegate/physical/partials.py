"""Aggregation in two steps: rows of one group that one window shows at the same instants are combined before they are exchanged.

    γ_{k; f}(ω(S)) = γ_{k; f'}(ω(S'))

S' has, in place of some rows of S with equal keys k and the same validity under ω, one row with **partial values**: how many rows they were, their
sum, the least and the greatest of them. f' goes on with these: a count is the sum of counts, a sum that of sums, an average that of sums over that of counts, and extremes
are those of extremes. A single row is a partial value of itself. So who combines what, and whether anybody does, changes no answer; where it
does not pay, nothing is combined. A group that has most of the rows, or an aggregation without groups, then does not hold one task.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sqlglot import exp

from tidegate.algebra.batches import is_raw
from tidegate.algebra.operators import Aggregate, Aggregation, Filter, Node, Project, Window
from tidegate.algebra.windows import TimeWindow
from tidegate.kernels.combining import Combine
from tidegate.scalars.columnar import translate
from tidegate.scalars.expressions import conjoin, ref
from tidegate.scalars.typing import type_to_sqlglot
from tidegate.types import BIGINT, Field, Type

_LONGEST = 28
"""Digits of a decimal of which ten thousand million can be added in 38."""

_PLAIN = ("STRING", "BOOLEAN", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "FLOAT", "DOUBLE", "DECIMAL")
"""Types beside whole numbers whose extremes are combined."""


@dataclass(frozen=True)
class Partials(Project):
    """Rows with the partial values of an aggregation, each of itself alone; `combine` says how several become one."""

    combine: Combine = field(kw_only=True)

    @property
    def only_names(self) -> bool:
        return False

    __hash__ = Node.__hash__


def in_two_steps(
    node: Aggregate, functions: Mapping[str, Any], readers: Mapping[Node, int]
) -> Aggregate | None:
    """The aggregation over partial values, where rows can be combined at the source; None where they cannot, or need not.

    What has other `readers` as well has to travel as it is.
    """
    above: list[Filter | Project] = []
    below: Node = node.input
    while isinstance(below, Filter | Project):
        above.append(below)
        below = below.input
    if not isinstance(below, Window) or not is_raw(below.input) or below.width != 1:
        return None
    if any(readers.get(operator, 0) > 1 for operator in (*above, below)):
        return None
    spec = below.spec
    if not isinstance(spec, TimeWindow) or spec.slide == 1 or (spec.size or 0) % spec.slide:
        return None
    rows = below.input
    for operator in reversed(above):
        # Row by row, so below the window it does the same.
        if not _is_columnar(operator, functions):
            return None
        rows = operator.with_inputs(rows)
    made = _Made(rows, len(node.keys))
    finals = [made.final(a) for a in node.aggregations]
    if any(f is None for f in finals):
        return None
    keys = node.keys
    combine = Combine(len(keys), tuple(made.ways), spec.slide, spec.origin)
    partials = Partials(
        rows,
        (*map(ref, keys), *made.expressions),
        (*(rows.schema[k] for k in keys), *made.fields),
        combine=combine,
    )
    if not _is_columnar(partials, functions):
        return None
    shown = replace(below, input=partials, partition_by=())
    return Aggregate(shown, tuple(range(len(keys))), tuple(f for f in finals if f is not None))


def _is_columnar(node: Filter | Project, functions: Mapping[str, Any]) -> bool:
    return all(translate(e, node.input.schema, functions) is not None for e in node.held_expressions)


class _Made:
    """The partial values of some aggregations, as columns behind the keys."""

    def __init__(self, rows: Node, keys: int) -> None:
        self.schema, self.keys = rows.schema, keys
        self.expressions: list[exp.Expression] = []
        self.fields: list[Field] = []
        self.ways: list[str] = []

    def final(self, a: Aggregation) -> Aggregation | None:
        """What goes on with the partial values; None where there are none."""
        types = [self.schema[i].type for i in a.arguments]
        if a.distinct or a.parameter is not None:
            return None
        if a.function == "COUNT":
            return replace(a, function="SUM", arguments=(self._count(a),), where=None)
        if a.function in ("MIN", "MAX") and (types[0].is_integral or types[0].name in _PLAIN):
            column = self._column(_where(a, ref(a.arguments[0])), types[0], a.function.lower())
            return replace(a, arguments=(column,), where=None)
        if a.function in ("SUM", "AVG"):
            wide = _sum_type(types[0], a.type)
            if wide is None:
                return None
            value: exp.Expression = ref(a.arguments[0])
            if wide != types[0]:
                value = exp.Cast(this=value, to=type_to_sqlglot(wide))
            parts = [self._column(_where(a, value), wide, "sum")]
            parts += [self._count(a)] if a.function == "AVG" else []
            return replace(a, arguments=tuple(parts), where=None)
        return None

    def _count(self, a: Aggregation) -> int:
        """How many rows count: those without NULL among the arguments for which the condition holds."""
        conditions: list[exp.Expression] = [
            exp.Not(this=exp.Is(this=ref(i), expression=exp.Null())) for i in a.arguments
        ]
        if a.where is not None:
            conditions.append(ref(a.where))
        one, nothing = (exp.cast(exp.Literal.number(n), "BIGINT") for n in (1, 0))
        every = conjoin(conditions)
        value = one if every is None else exp.Case(ifs=[exp.If(this=every, true=one)], default=nothing)
        return self._column(value, BIGINT, "sum", nullable=False)

    def _column(self, expression: exp.Expression, type_: Type, way: str, nullable: bool = True) -> int:
        self.expressions.append(expression)
        self.fields.append(Field(f"p{len(self.fields)}", type_, nullable))
        self.ways.append(way)
        return self.keys + len(self.fields) - 1


def _where(a: Aggregation, value: exp.Expression) -> exp.Expression:
    return value if a.where is None else exp.Case(ifs=[exp.If(this=ref(a.where), true=value)])


def _sum_type(argument: Type, result: Type) -> Type | None:
    """The type in which values are added before the exchange; floats are not, as their sums are exact and no floats."""
    if argument.is_integral:
        return BIGINT
    if argument.name == "DECIMAL" and result.name == "DECIMAL" and argument.params[0] <= _LONGEST:
        return Type("DECIMAL", (argument.params[0] + 10, argument.params[1]))
    return None
