"""A physical plan as people read it: wave by wave, what is exchanged by what, which kernels run, and what they keep."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sqlglot import exp

from tidegate.algebra.printing import expression_text
from tidegate.kernels.join import JoinKernel
from tidegate.kernels.rowwise import FilterKernel, ProjectKernel
from tidegate.kernels.sync import RestrictKernel
from tidegate.optimizer.cost import Costs, summed
from tidegate.optimizer.formulas import Estimate
from tidegate.optimizer.statistics import SECOND
from tidegate.physical.estimates import estimated
from tidegate.physical.flow import Bound
from tidegate.physical.identity import Identity
from tidegate.physical.lowering import Operator
from tidegate.physical.plan import Input, OperatorRows, Plan, SourceRows
from tidegate.scalars.columnar import translate
from tidegate.scalars.expressions import index_of
from tidegate.types import Schema


def describe(plan: Plan, functions: Mapping[str, Any], beside: Mapping[Identity, str] | None = None) -> str:
    """The plan as EXPLAIN shows it; `beside`: a line more about each input and operator."""
    numbers, lines = numbered(plan), []
    for wave in range(1, plan.depth + 1):
        lines.append(f"wave {wave}")
        for id_ in numbers:
            if plan.waves[id_] == wave:
                lines += [f"  {line}" for line in _lines(plan, id_, numbers)]
                if beside and id_ in beside:
                    lines.append(f"      {beside[id_]}")
    lines += [f"{name} is answered by {numbers[id_]}" for name, id_ in plan.answers.items()]
    unbounded = [numbers[o.id] for o in plan.operators.values() if o.state == Bound.NOTHING]
    if unbounded:
        lines.append(
            f"nothing bounds the state of {', '.join(map(str, unbounded))}: it grows with the stream"
        )
    return "\n".join(lines)


def numbered(plan: Plan) -> dict[Identity, int]:
    """Inputs and operators in the order of their waves, counted from 1."""
    every = sorted([*plan.inputs, *plan.operators], key=lambda id_: plan.waves[id_])
    return {id_: number for number, id_ in enumerate(every, 1)}


def captions(plan: Plan, id_: Identity, numbers: Mapping[Identity, int]) -> tuple[str, str]:
    """What an input or operator is, in a few words, and more about it."""
    if id_ in plan.inputs:
        entry = plan.inputs[id_]
        return _origin_text(entry, numbers), _key_text(entry)
    operator = plan.operators[id_]
    kernel = "" if operator.name == operator.part_of else f" by {operator.name}"
    made = (e.sql(dialect="spark") for e, _ in _expressions(operator))
    return f"{operator.part_of}{kernel}", "; ".join(made)


def _lines(plan: Plan, id_: Identity, numbers: Mapping[Identity, int]) -> Iterator[str]:
    if id_ in plan.inputs:
        entry = plan.inputs[id_]
        yield f"{numbers[id_]} {_origin_text(entry, numbers)}, {_key_text(entry)}: {entry.rows.form}"
        return
    operator = plan.operators[id_]
    inputs = ", ".join(str(numbers[i]) for i in operator.inputs)
    kernel = "" if operator.name == operator.part_of else f" by {operator.name}"
    yield f"{numbers[id_]} {operator.part_of}{kernel} of {inputs}: {operator.rows.form}, {operator.state}"
    if operator.why:
        yield f"    {operator.why}"
    for expression, schema in _expressions(operator):
        by = "columns" if translate(expression, schema) is not None else "rows in Python"
        yield f"    {expression_text(expression, schema)}: {by}"


def _expressions(operator: Operator) -> Iterator[tuple[exp.Expression, Schema]]:
    """What an operator evaluates, beyond columns as they are, and over which columns."""
    kernel = operator.kernel
    if isinstance(kernel, FilterKernel | RestrictKernel):
        yield kernel.predicate, kernel.schema
    elif isinstance(kernel, ProjectKernel):
        yield from ((e, kernel.schema) for e in kernel.expressions if index_of(e) is None)
    elif isinstance(kernel, JoinKernel):
        for key in kernel.keys:
            yield from (
                (e, s) for e, s in ((key.left, kernel.left), (key.right, kernel.right)) if index_of(e) is None
            )
        if kernel.residual is not None:
            yield kernel.residual, kernel.schema


def _origin_text(entry: Input, numbers: Mapping[Identity, int]) -> str:
    origin = entry.origin
    if isinstance(origin, OperatorRows):
        text = f"rows of {numbers[origin.operator]}"
        made = [expression_text(e, origin.given) for e in origin.expressions or () if index_of(e) is None]
        return f"{text} with {', '.join(made)} by Spark" if made else text
    if origin.scan is None:
        return "one row"
    text = f"source {origin.scan.name}"
    if origin.predicates:
        text += " where " + " and ".join(expression_text(p, origin.scan.schema) for p in origin.predicates)
    return text


def _key_text(entry: Input) -> str:
    if entry.broadcast:
        return "sent to every partition"
    if entry.key is None:
        return "in any partition"
    combined = ""
    if isinstance(entry.origin, SourceRows) and entry.origin.combine is not None:
        combined = ", rows of a group and a slide combined before where that pays"
    if not entry.key:
        return f"all in one partition (there is no key to exchange by){combined}"
    if isinstance(entry.origin, OperatorRows):
        keys, columns = entry.own_key or entry.key, entry.schema
    else:
        keys, columns = entry.key, () if entry.origin.scan is None else entry.origin.scan.schema
    return "exchanged by " + ", ".join(expression_text(e, columns) for e in keys) + combined


def describe_estimates(plan: Plan, costs: Costs, timestamps: bool) -> str:
    """What is expected of every input and operator, by the numbers of `describe`, per second or tick of the streams' time, and in all."""
    found, numbers = estimated(plan, costs), numbered(plan)
    unit = SECOND if timestamps else 1.0
    lines = [
        f"   rows/{'s' if timestamps else 'tick'}  valid at once     kept    bytes  work {'ms/s' if timestamps else 'us/tick'}"
    ]
    lines += [f"{number:>2} {_figures(found[id_], unit, timestamps)}" for id_, number in numbers.items()]
    total = summed(found.values())
    kept = sum(e.memory_rows for e in found.values())
    lines.append(
        f"in all {kept:,.0f} rows of {_short(total.memory)} bytes are kept; "
        + (
            f"{total.work * unit * 1e3:.3g} ms of work per second"
            if timestamps
            else f"{total.work * 1e6:.3g} us of work per tick"
        )
    )
    unknown = sorted({*plan.sources} - {*costs.statistics})
    if unknown:
        lines.append(f"nothing is known of {', '.join(unknown)}: rates and values are assumed")
    return "\n".join(lines)


def _figures(e: Estimate, unit: float, timestamps: bool) -> str:
    work = e.work_seconds * unit * 1e3 if timestamps else e.work_seconds * 1e6
    cells = (_short(e.given * unit), _short(e.standing), _short(e.memory_rows), _short(e.memory_bytes))
    widths = (7, 14, 8, 8)
    return " ".join(f"{c:>{w}}" for c, w in zip(cells, widths, strict=True)) + f" {work:>11.3g}"


def _short(number: float) -> str:
    """A number as people read it.

    >>> _short(0.25), _short(1234), _short(25_000_000)
    ('0.25', '1,234', '25M')
    """
    if number >= 1e15:
        return "endless"
    for size, letter in ((1e9, "G"), (1e6, "M")):
        if number >= size:
            return f"{number / size:.3g}{letter}"
    return f"{number:,.0f}" if number >= 10 else f"{number:.2g}"
