"""NOW in conditions: each conjunct, solved for NOW, is a bound of a row's validity (SPEC section 5)."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from tidegate.errors import Diagnostic
from tidegate.scalars.expressions import conjuncts, index_of, references, span_of
from tidegate.time import to_datetime
from tidegate.types import Type

_FLIPPED: dict[type[exp.Expression], type[exp.Expression]] = {
    exp.LT: exp.GT, exp.GT: exp.LT, exp.LTE: exp.GTE, exp.GTE: exp.LTE, exp.EQ: exp.EQ,
}  # fmt: skip
_SIGNS: dict[type[exp.Expression], str] = {
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.EQ: "=",
}


@dataclass(frozen=True)
class Bound:
    """`NOW comparison expression`, with comparison one of < <= > >= =."""

    comparison: str
    expression: exp.Expression

    def interval(self, value: int) -> tuple[int | None, int | None]:
        """The instants at which it holds, as [from, to); None: no limit.

        >>> Bound("<=", exp.null()).interval(7), Bound("=", exp.null()).interval(7)
        ((None, 8), (7, 8))
        """
        return {
            "<": (None, value),
            "<=": (None, value + 1),
            ">": (value + 1, None),
            ">=": (value, None),
            "=": (value, value + 1),
        }[self.comparison]


def bounds(predicate: exp.Expression, now: int) -> tuple[Bound, ...]:
    """The conjuncts of a condition solved for NOW, which stands at position `now`.

    >>> import sqlglot
    >>> [(b.comparison, b.expression.sql()) for b in bounds(sqlglot.parse_one("c2 - 5 < c1 AND c1 <= c2"), 2)]
    [('<', 'c1 + 5'), ('>=', 'c1')]
    """
    return tuple(b for part in conjuncts(predicate) for b in _solve(part, now))


def literal(instant: int, type_: Type) -> exp.Expression:
    """An instant as an expression of a type of time.

    >>> from tidegate.types import BIGINT, TIMESTAMP
    >>> literal(-3, BIGINT).sql(), literal(1, TIMESTAMP).sql(dialect="spark")
    ("CAST('-3' AS BIGINT)", "CAST('1970-01-01 00:00:00.000001' AS TIMESTAMP)")
    """
    text = (
        f"{to_datetime(instant):%Y-%m-%d %H:%M:%S.%f}" if type_.name.startswith("TIMESTAMP") else str(instant)
    )
    return exp.Cast(this=exp.Literal.string(text), to=exp.DataType.build(str(type_), dialect="spark"))


def _solve(part: exp.Expression, now: int) -> list[Bound]:
    while isinstance(part, exp.Paren):
        part = part.this
    if isinstance(part, exp.Between) and not part.args.get("symmetric"):
        low, high = part.args["low"], part.args["high"]
        return [
            *_solve(exp.GTE(this=part.this.copy(), expression=low.copy()), now),
            *_solve(exp.LTE(this=part.this.copy(), expression=high.copy()), now),
        ]
    kind = type(part)
    if kind not in _SIGNS:
        raise _unsolvable(part)
    left, right = part.this, part.expression
    inside = now in references(left), now in references(right)
    if inside == (True, True):
        raise _unsolvable(part)
    if inside == (False, True):
        left, right, kind = right, left, _FLIPPED[kind]
    while index_of(left) != now:
        left, right, kind = _step(left, right, kind, now, part)
    return [Bound(_SIGNS[kind], right.copy())]


def _step(
    left: exp.Expression, right: exp.Expression, kind: type[exp.Expression], now: int, part: exp.Expression
) -> tuple[exp.Expression, exp.Expression, type[exp.Expression]]:
    """One operation moved to the other side: NOW + a < b is NOW < b - a, a - NOW < b is NOW > a - b."""
    if isinstance(left, exp.Paren):
        return left.this, right, kind
    if not isinstance(left, (exp.Add, exp.Sub)):
        raise _unsolvable(part)
    first, second = left.this, left.expression
    on_left, on_right = now in references(first), now in references(second)
    if on_left and on_right:
        raise _unsolvable(part)
    if isinstance(left, exp.Add):
        if on_left:
            return first, exp.Sub(this=_closed(right), expression=_closed(second)), kind
        return second, exp.Sub(this=_closed(right), expression=_closed(first)), kind
    if on_left:
        return first, exp.Add(this=_closed(right), expression=_closed(second)), kind
    return second, exp.Sub(this=_closed(first), expression=_closed(right)), _FLIPPED[kind]


def _closed(expression: exp.Expression) -> exp.Expression:
    return (
        exp.paren(expression.copy()) if isinstance(expression, (exp.Binary, exp.Neg)) else expression.copy()
    )


def _unsolvable(part: exp.Expression) -> Diagnostic:
    return Diagnostic(
        "NOW_CONDITION",
        "a condition on NOW must say where a row's validity begins or ends",
        help="compare NOW with an expression of the row by <, <=, >, >= or =: TS <= NOW AND NOW < TS + 5",
    ).at(span_of(part))
