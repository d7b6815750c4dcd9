"""What follows from what: conditions of queries as sets of values of one expression.

A comparison of an expression with a constant holds for the values of some intervals, and so do BETWEEN, IN, LIKE 'prefix%', and what NOT, AND and OR
make of them. One condition follows from others if their values are among its own. What is not of this form follows only from itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from sqlglot import exp

from tidegate.errors import Diagnostic
from tidegate.scalars.calls import is_nondeterministic
from tidegate.scalars.expressions import conjuncts, references, tree_of
from tidegate.scalars.meaning import compile_scalar
from tidegate.scalars.typing import infer, type_to_sqlglot
from tidegate.types import Schema, Type

BRANCHES = 16
"""So many cases of disjunctions are told apart."""

End = tuple[Any, int]
"""A place between values: just before (-1) or just after (1) one. None as the value: before or after all."""


@dataclass(frozen=True)
class Values:
    """Disjoint ranges of values in order, each from one end to another; a NaN is above all numbers. NULL is never among them."""

    ranges: tuple[tuple[End, End], ...]

    def __and__(self, other: Values) -> Values:
        both = [(_later(a, c), _earlier(b, d)) for a, b in self.ranges for c, d in other.ranges]
        return Values(tuple(r for r in both if _before(*r)))

    def __or__(self, other: Values) -> Values:
        return ~(~self & ~other)

    def __invert__(self) -> Values:
        ends: list[End] = [(None, -1)]
        for a, b in self.ranges:
            ends += [a, b]
        ends.append((None, 1))
        pairs = zip(ends[::2], ends[1::2], strict=True)
        return Values(tuple(r for r in pairs if _before(*r)))

    def within(self, other: Values) -> bool:
        return not (self & ~other).ranges


EVERY = Values((((None, -1), (None, 1)),))


def _key(end: End) -> tuple[int, Any, int]:
    value, side = end
    return (side, 0, 0) if value is None else (0, value, side)


def _before(a: End, b: End) -> bool:
    return _key(a) < _key(b)


def _later(a: End, b: End) -> End:
    return b if _before(a, b) else a


def _earlier(a: End, b: End) -> End:
    return a if _before(a, b) else b


def exactly(value: Any) -> Values:
    return Values((((value, -1), (value, 1)),))


_ABOVE: dict[type[exp.Expression], int] = {exp.GT: 1, exp.GTE: -1}
_BELOW: dict[type[exp.Expression], int] = {exp.LT: -1, exp.LTE: 1}
_FLIPPED: dict[type[exp.Expression], type[exp.Expression]] = {
    exp.GT: exp.LT, exp.LT: exp.GT, exp.GTE: exp.LTE, exp.LTE: exp.GTE,
    exp.EQ: exp.EQ, exp.NEQ: exp.NEQ, exp.NullSafeEQ: exp.NullSafeEQ,
}  # fmt: skip
_SYMMETRIC = (exp.EQ, exp.NEQ, exp.NullSafeEQ)

Constraint = tuple[exp.Expression, Values]
"""An expression, and the values for which a condition is true."""


class Conditions:
    """Conditions over the columns of a schema that all hold, and what follows from them.

    >>> from sqlglot import parse_one
    >>> from tidegate.types import INT, Field
    >>> given = Conditions([parse_one("c0 BETWEEN 5 AND 9")], (Field("a", INT),))
    >>> [given.imply(parse_one(c)) for c in ("c0 > 4", "10 > c0", "c0 <> 12", "NOT c0 IS NULL", "c0 > 5")]
    [True, True, True, True, False]
    """

    def __init__(self, given: Sequence[exp.Expression], schema: Schema) -> None:
        self.schema = schema
        self.given = [plain(part) for condition in given for part in conjuncts(plain(condition))]
        self._values: dict[exp.Expression, Values] = {}
        for part in self.given:
            found = self.constraint(part)
            if found is not None:
                key, values = found
                self._values[key] = values & self._values.get(key, EVERY)

    def imply(self, condition: exp.Expression, branches: int = BRANCHES) -> bool:
        """Whether a condition is true wherever the given ones are."""
        condition = plain(condition)
        if isinstance(condition, exp.And):
            return all(self.imply(part, branches) for part in conjuncts(condition))
        if condition in self.given or self.contradictory:
            return True
        found = self.constraint(condition)
        if found is not None and self._among(*found):
            return True
        if isinstance(condition, exp.Or) and any(self.imply(p, branches) for p in disjuncts(condition)):
            return True
        return self._in_every_case(condition, branches)

    @property
    def contradictory(self) -> bool:
        """Whether no row satisfies all of them."""
        return any(not v.ranges for v in self._values.values()) or any(
            isinstance(g, exp.Is) and isinstance(g.expression, exp.Null) and self._has_value(g.this)
            for g in self.given
        )

    def _has_value(self, key: exp.Expression) -> bool:
        return key in self._values or self._never_null(key)

    def _among(self, key: exp.Expression, values: Values) -> bool:
        known = self._values.get(key)
        if known is None and values == EVERY and self._never_null(key):
            return True
        return known is not None and known.within(values)

    def _never_null(self, key: exp.Expression) -> bool:
        """Whether some given comparison is true only where an expression has a value."""
        compared = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)
        return any(isinstance(g, compared) and key in (g.this, g.expression) for g in self.given)

    def _in_every_case(self, condition: exp.Expression, branches: int) -> bool:
        for i, part in enumerate(self.given):
            if not isinstance(part, exp.Or):
                continue
            cases = disjuncts(part)
            if len(cases) > branches:
                return False
            others = self.given[:i] + self.given[i + 1 :]
            left = branches // len(cases)
            return all(Conditions([*others, c], self.schema).imply(condition, left) for c in cases)
        return False

    def constraint(self, condition: exp.Expression) -> Constraint | None:
        """A condition as values of one expression, if it is one."""
        condition = plain(condition)
        if isinstance(condition, exp.Not):
            return self._negated(condition.this)
        if condition.args.get("negate"):
            positive = condition.copy()
            positive.set("negate", None)
            return self._negated(positive)
        if isinstance(condition, exp.And | exp.Or):
            return self._combined(condition)
        if isinstance(condition, exp.Between):
            low, high = condition.args["low"], condition.args["high"]
            if condition.args.get("symmetric"):
                return None
            return self._both(
                exp.GTE(this=condition.this, expression=low), exp.LTE(this=condition.this, expression=high)
            )
        if isinstance(condition, exp.In):
            return self._listed(condition)
        if isinstance(condition, exp.Like):
            return self._prefixed(condition)
        if type(condition) in _FLIPPED:
            return self._compared(condition)
        return None

    def _negated(self, inner: exp.Expression) -> Constraint | None:
        inner = plain(inner)
        if isinstance(inner, exp.Is) and isinstance(inner.expression, exp.Null):
            return inner.this, EVERY
        if inner.find(exp.Is, exp.NullSafeEQ) is not None:
            return None  # it may be true of NULL
        found = self.constraint(inner)
        return None if found is None else (found[0], ~found[1])

    def _both(self, left: exp.Expression, right: exp.Expression) -> Constraint | None:
        a, b = self.constraint(left), self.constraint(right)
        return (a[0], a[1] & b[1]) if a is not None and b is not None and a[0] == b[0] else None

    def _combined(self, condition: exp.And | exp.Or) -> Constraint | None:
        parts = conjuncts(condition) if isinstance(condition, exp.And) else disjuncts(condition)
        found = [self.constraint(p) for p in parts]
        known = [f for f in found if f is not None]
        if len(known) < len(parts) or any(key != known[0][0] for key, _ in known):
            return None
        key, values = known[0]
        for _, more in known[1:]:
            values = values & more if isinstance(condition, exp.And) else values | more
        return key, values

    def _listed(self, condition: exp.In) -> Constraint | None:
        if condition.args.get("query") or not condition.expressions:
            return None
        equal = [exp.EQ(this=condition.this, expression=e) for e in condition.expressions]
        return self.constraint(tree_of(exp.Or, equal))

    def _prefixed(self, condition: exp.Like) -> Constraint | None:
        pattern = condition.expression
        if (
            not isinstance(pattern, exp.Literal)
            or not pattern.is_string
            or self._type(condition.this) != "STRING"
        ):
            return None
        text = pattern.this
        body = text.removesuffix("%")
        if any(c in body for c in "%_\\"):
            return None
        if body == text:
            return condition.this, exactly(text)
        following = after(body)
        end = (None, 1) if following is None else (following, -1)
        return condition.this, Values((((body, -1), end),))

    def _compared(self, condition: exp.Expression) -> Constraint | None:
        left, right, kind = condition.this, condition.expression, type(condition)
        if not references(left):
            left, right, kind = right, left, _FLIPPED[kind]
        if not references(left) or references(right):
            return None
        value = self._constant(left, right)
        if value is None:
            return None
        if kind in _ABOVE:
            return left, Values((((value, _ABOVE[kind]), (None, 1)),))
        if kind in _BELOW:
            return left, Values((((None, -1), (value, _BELOW[kind])),))
        return left, ~exactly(value) if kind is exp.NEQ else exactly(value)

    def _type(self, expression: exp.Expression) -> str:
        try:
            return infer(expression, self.schema, {}).type.name
        except Diagnostic:
            return ""

    def _constant(self, compared: exp.Expression, constant: exp.Expression) -> Any:
        """What an expression is compared with, in the order of its type; None where that is not certain."""
        if any(is_nondeterministic(n) for n in constant.find_all(exp.Expression)):
            return None
        try:
            mine = infer(compared, self.schema, {}).type
            theirs = infer(constant, (), {}).type
            if mine.name in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ") and theirs.name == "STRING":
                constant, theirs = exp.Cast(this=constant.copy(), to=type_to_sqlglot(mine)), mine
            value = compile_scalar(constant, (), {})(())
        except Diagnostic:
            return None
        return _ordered(value, mine, theirs)


def _ordered(value: Any, mine: Type, theirs: Type) -> Any:
    if mine.is_numeric and theirs.is_numeric and isinstance(value, int | float | Decimal):
        if isinstance(value, float) and not math.isfinite(value):
            return None
        if mine.name == "FLOAT" and np.float32(float(value)) != Fraction(value):
            return None
        if mine.name == "DOUBLE" or theirs.name in ("DOUBLE", "FLOAT"):
            # Both sides are compared as doubles: integers beyond their precision are told apart no more.
            if mine.name in ("BIGINT", "DECIMAL"):
                return None
            value = float(value)
        return Fraction(value)
    if mine == theirs and mine.name == "STRING" and isinstance(value, str):
        return value
    if mine == theirs and mine.name == "DATE" and isinstance(value, date):
        return value.toordinal()
    if mine == theirs and mine.name in ("TIMESTAMP", "TIMESTAMP_NTZ") and isinstance(value, datetime):
        return value
    return None


def after(prefix: str) -> Any:
    """The least text that is greater than all that begin so; None: there is none.

    >>> after("ab"), after("")
    ('ac', None)
    """
    text = prefix
    while text:
        last = ord(text[-1])
        if last < 0x10FFFF:
            following = last + 1
            # There are no characters between the halves of pairs of UTF-16.
            return text[:-1] + chr(0xE000 if 0xD800 <= following < 0xE000 else following)
        text = text[:-1]
    return None


def plain(condition: exp.Expression) -> exp.Expression:
    """Without parentheses around it, and equal to what says the same with its sides the other way round."""
    while isinstance(condition, exp.Paren):
        condition = condition.this
    if isinstance(condition, _SYMMETRIC):
        left, right = condition.this, condition.expression
        if left.sql() > right.sql():
            return type(condition)(this=right.copy(), expression=left.copy())
    return condition


def disjuncts(condition: exp.Expression) -> list[exp.Expression]:
    """The parts of an OR, in order."""
    condition = plain(condition)
    if not isinstance(condition, exp.Or):
        return [condition]
    return [*disjuncts(condition.this), *disjuncts(condition.expression)]
