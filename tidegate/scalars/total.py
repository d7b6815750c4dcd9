"""What has a value for whatever row: such an expression may be evaluated for rows that nobody asks for."""

from __future__ import annotations

from functools import lru_cache

from sqlglot import exp

from tidegate.errors import Diagnostic
from tidegate.scalars.expressions import conjoin, conjuncts
from tidegate.scalars.meaning import compile_resolved
from tidegate.scalars.registry import Resolved
from tidegate.scalars.typing import resolve
from tidegate.types import INTEGRAL, Schema, Type

_ANYHOW = frozenset(
    """COLUMN LITERAL AND OR NOT = <> < <= > >= <=> IN CASE IF COALESCE NULLIF NANVL ISNULL ISNOTNULL ISNAN GREATEST LEAST
    LENGTH UPPER LOWER TRIM LTRIM RTRIM SUBSTRING LEFT RIGHT STARTSWITH ENDSWITH CONTAINS TRY_CAST
    YEAR QUARTER MONTH DAY DAYOFWEEK DAYOFYEAR WEEKDAY HOUR MINUTE SECOND""".split()
)
"""Calls that no value makes fail."""

_OF_REALS = frozenset("+ - * NEGATIVE ABS".split())
"""Calls that overflow, unless they are of floating point."""

_DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 19}


@lru_cache(maxsize=16_384)
def never_fails(expression: exp.Expression, schema: Schema) -> bool:
    """Whether an expression over a schema has a value (or NULL) for every row. What a user's function does nobody knows.

    >>> from sqlglot import parse_one
    >>> from tidegate.types import DOUBLE, INT, STRING, Field
    >>> schema = (Field("n", INT), Field("s", STRING), Field("x", DOUBLE))
    >>> [never_fails(parse_one(e), schema) for e in ("c0 > 1 AND c2 + 1 > c0", "c0 % 3 = 1", "c2 / 2 > 1", "UPPER(c1) = 'A'")]
    [True, True, True, True]
    >>> [never_fails(parse_one(e), schema) for e in ("c0 + 1 > 2", "1 / c0 > 1", "c0 = c1", "1 / 0 > c0", "MINE(c0)")]
    [False, False, False, False, False]
    """
    try:
        return _is_total(resolve(expression, schema, {}))
    except Diagnostic:
        return False


def guarded(condition: exp.Expression, schema: Schema) -> exp.Expression:
    """A condition, of which a part that may fail is asked only where all parts before it are true: the rows of `p(q(S))`, which `q and p` is made of.

    By itself, an AND asks its second part about rows of which the first one is unknown, too.

    >>> from sqlglot import parse_one
    >>> from tidegate.types import INT, Field
    >>> schema = (Field("n", INT), Field("m", INT))
    >>> [guarded(parse_one(c), schema).sql() for c in ("c0 > 3 AND 1 / c1 > 0 AND c1 > 2", "c0 > 3 AND c1 > 2")]
    ['COALESCE(c0 > 3, FALSE) AND 1 / c1 > 0 AND c1 > 2', 'c0 > 3 AND c1 > 2']
    """
    parts = conjuncts(condition)
    last = max((i for i, p in enumerate(parts) if not never_fails(p, schema)), default=0)
    if not last:
        return condition
    before = [exp.Coalesce(this=p.copy(), expressions=[exp.false()]) for p in parts[:last]]
    return conjoin([*before, *parts[last:]]) or condition


def _is_total(node: Resolved) -> bool:
    if node.args and node.is_constant:
        try:
            compile_resolved(node)(())
        except Diagnostic:
            return False
        return True
    if node.name == "CAST":
        (arg,) = node.args
        return _fits(arg.type, node.type) and _is_total(arg)
    if node.name in ("/", "%"):
        left, right = node.args
        return node.type.name != "DECIMAL" and _is_not_zero(right) and _is_total(left)
    if node.name == "LIKE":
        text, pattern = node.args[:2]
        plain = isinstance(pattern.value, str) and "\\" not in pattern.value
        return plain and len(node.args) == 2 and _is_total(text)
    if node.name in _OF_REALS:
        return node.type.name in ("FLOAT", "DOUBLE") and all(map(_is_total, node.args))
    return node.name in _ANYHOW and all(map(_is_total, node.args))


def _is_not_zero(node: Resolved) -> bool:
    if not node.is_constant:
        return False
    try:
        value = compile_resolved(node)(())
    except Diagnostic:
        return False
    return value is not None and value != 0


def _fits(source: Type, target: Type) -> bool:
    """Whether every value of a type is one of another.

    >>> from tidegate.types import BIGINT, INT, STRING, decimal
    >>> _fits(INT, BIGINT), _fits(BIGINT, INT), _fits(INT, decimal(12, 2)), _fits(STRING, INT), _fits(INT, decimal(10, 2))
    (True, False, True, False, False)
    """
    if source == target or source.name == "VOID":
        return True
    if source.is_numeric and target.name in ("FLOAT", "DOUBLE"):
        return True
    if source.is_integral and target.is_integral:
        return INTEGRAL.index(source.name) <= INTEGRAL.index(target.name)
    if target.name == "DECIMAL" and (source.is_integral or source.name == "DECIMAL"):
        digits, scale = (_DIGITS[source.name], 0) if source.is_integral else source.params
        return bool(target.params[1] >= scale and target.params[0] - target.params[1] >= digits - scale)
    return target.name == "STRING" and (source.is_integral or source.name in ("BOOLEAN", "DATE", "TIMESTAMP"))
