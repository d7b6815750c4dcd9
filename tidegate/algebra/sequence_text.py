"""Window sequences for people: as they would be written, in ticks."""

from __future__ import annotations

from sqlglot import exp

from tidegate.algebra.expressions import index_of
from tidegate.algebra.sequences import NOW, Formula, Loop, Periodic, SessionWindow, WindowSequence


def sequence_text(spec: WindowSequence | SessionWindow) -> str:
    """A sequence or session as it would be written; units of time are spelled out in ticks.

    >>> from sqlglot import parse_one
    >>> lower, upper = Formula(parse_one("2 * c0")), Formula(parse_one("2 * c0 + 3"))
    >>> sequence_text(WindowSequence(lower, upper, Periodic(2, delay=1), start=7))
    'FROM 2 * i TO 2 * i + 3 EVERY 2 DELAY 1 STARTING AT 7'
    """
    if isinstance(spec, SessionWindow):
        return f"SESSION {spec.gap}"
    unit = " ROWS" if spec.rows else ""
    bounds = f"FROM {_text(spec.lower)}{unit} TO {_text(spec.upper)}{unit}"
    schedule = spec.schedule
    if isinstance(schedule, Loop):
        return (
            f"FOR NOW = {schedule.first} WHILE {_text(schedule.proceed)} STEP {_text(schedule.step)} {bounds}"
        )
    if isinstance(schedule, Periodic):
        by = " ROWS" if schedule.rows else ""
        text = f"{bounds} EVERY {schedule.rate}{by}"
    else:
        by, text = "", f"{bounds} EVERY {_text(schedule.rate)}"
    if schedule.delay:
        text += f" DELAY {schedule.delay}{by}"
    return text if spec.start is None else f"{text} STARTING AT {spec.start}"


def _text(formula: Formula) -> str:
    def name(node: exp.Expression) -> exp.Expression:
        index = index_of(node)
        return node if index is None else exp.column("NOW" if index == NOW else "i")

    expression = formula.expression.copy().transform(name, copy=False)
    if formula.unit != 1:
        expression = exp.Mul(this=exp.paren(expression), expression=exp.Literal.number(formula.unit))
    return expression.sql(dialect="spark")
