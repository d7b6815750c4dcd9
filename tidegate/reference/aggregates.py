"""What each aggregate means: a function of a bag of rows (SPEC section 3). Slow and obvious.

Sums of floats are rounded once, from the exact value, so the order of rows cannot show.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from typing import Any

from tidegate.algebra.operators import AGGREGATES, Aggregation
from tidegate.errors import Diagnostic
from tidegate.scalars.functions import AggregateFunction
from tidegate.types import NAN, Row, Type, Value

Bag = Counter[Row]


def order_key(value: Value) -> tuple[Any, ...]:
    """Ascending order with NULL first and NaN last.

    >>> sorted([2.0, None, float("nan"), -1.0], key=order_key)
    [None, -1.0, 2.0, nan]
    """
    if value is None:
        return (0,)
    if isinstance(value, float) and math.isnan(value):
        return (2,)
    if isinstance(value, tuple):
        return (1, tuple(order_key(v) for v in value))
    return (1, value)


def row_key(row: Iterable[Value]) -> tuple[Any, ...]:
    """The order of whole rows: all columns in turn, ascending, NULLs first."""
    return tuple(order_key(v) for v in row)


def aggregate(
    aggregation: Aggregation, bag: Bag, user: Mapping[str, AggregateFunction] | None = None
) -> Value:
    """The value of one aggregate on a non-empty bag.

    >>> from tidegate.types import BIGINT
    >>> aggregate(Aggregation("SUM", (0,), BIGINT, "s"), Counter({(2,): 3, (None,): 1}))
    6
    """
    values: Counter[Row] = Counter()
    for row, n in bag.items():
        if aggregation.where is None or row[aggregation.where] is True:
            values[tuple(row[i] for i in aggregation.arguments)] += n
    name = aggregation.function
    if name not in AGGREGATES:
        if aggregation.distinct:
            values = Counter(dict.fromkeys(values, 1))
        return _user_defined((user or {})[name.lower()], values, aggregation)
    ignored = (-1,) if name in ("ARG_MIN", "ARG_MAX") else range(len(aggregation.arguments))
    values = Counter({v: n for v, n in values.items() if all(v[i] is not None for i in ignored)})
    if aggregation.distinct:
        values = Counter(dict.fromkeys(values, 1))
    if name == "COUNT":
        return values.total()
    if name in ("COLLECT", "HISTOGRAM"):
        return _listed(values, aggregation)
    return _BUILT_IN[name](values, aggregation) if values else None


def _user_defined(function: AggregateFunction, values: Counter[Row], aggregation: Aggregation) -> Value:
    """The rows merged one by one, in ascending order of their arguments."""
    if not values:
        return None
    try:
        return function.evaluated(function.folded(sorted(values.items(), key=lambda v: row_key(v[0]))))
    except Diagnostic as diagnostic:
        raise diagnostic.at(aggregation.span) from diagnostic.__cause__


def _numbers(values: Counter[Row]) -> list[tuple[Any, int]]:
    return [(v[0], n) for v, n in values.items()]


def _finite(numbers: list[tuple[Any, int]]) -> float | None:
    """NaN or an infinity if the numbers hold one that decides their sum."""
    special = [v for v, _ in numbers if isinstance(v, float) and not math.isfinite(v)]
    return (sum(special) if len(set(map(str, special))) == 1 else NAN) if special else None


def _exact_sum(numbers: list[tuple[Any, int]]) -> Fraction:
    return sum((Fraction(v) * n for v, n in numbers), Fraction(0))


def _to_float(exact: Fraction) -> float:
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def to_decimal(exact: Fraction, type: Type) -> Decimal:
    """Rounded half up to the type's scale; too many digits are an error.

    >>> from tidegate.types import decimal
    >>> to_decimal(Fraction(2, 3), decimal(5, 2))
    Decimal('0.67')
    """
    precision, scale = type.params
    scaled = exact * 10**scale
    whole = int(abs(scaled) + Fraction(1, 2)) * (1 if scaled >= 0 else -1)
    if abs(whole) >= 10**precision:
        raise Diagnostic("ARITHMETIC_OVERFLOW", f"a decimal does not fit {type}")
    return Decimal(whole).scaleb(-scale, Context(prec=80, rounding=ROUND_HALF_UP))


def _sum(values: Counter[Row], aggregation: Aggregation) -> Value:
    numbers = _numbers(values)
    special = _finite(numbers)
    if special is not None:
        return special
    exact = _exact_sum(numbers)
    if aggregation.type.name == "DECIMAL":
        return to_decimal(exact, aggregation.type)
    if aggregation.type.name == "DOUBLE":
        return _to_float(exact)
    if aggregation.type.name == "INTERVAL":
        return sum((v * n for v, n in numbers[1:]), numbers[0][0] * numbers[0][1])
    total = int(exact)
    if not -(2**63) <= total < 2**63:
        raise Diagnostic("ARITHMETIC_OVERFLOW", "a sum does not fit BIGINT")
    return total


def _avg(values: Counter[Row], aggregation: Aggregation) -> Value:
    numbers = _numbers(values)
    special = _finite(numbers)
    if special is not None:
        return special
    mean = _exact_sum(numbers) / values.total()
    return to_decimal(mean, aggregation.type) if aggregation.type.name == "DECIMAL" else _to_float(mean)


def _variance(values: Counter[Row], aggregation: Aggregation) -> Value:
    numbers, count = _numbers(values), values.total()
    sample = aggregation.function.endswith("SAMP")
    if sample and count == 1:
        return None
    if _finite(numbers) is not None:
        return NAN
    mean = _exact_sum(numbers) / count
    spread = sum(((Fraction(v) - mean) ** 2 * n for v, n in numbers), Fraction(0))
    variance = spread / (count - 1 if sample else count)
    if aggregation.function.startswith("VAR"):
        return _to_float(variance)
    return math.sqrt(_to_float(variance))


def _quantile(values: Counter[Row], aggregation: Aggregation) -> Value:
    assert aggregation.parameter is not None
    position = (values.total() - 1) * aggregation.parameter
    lower, upper = math.floor(position), math.ceil(position)
    ordered = sorted((float(v[0]) for v in values.elements()), key=order_key)
    if lower == upper or ordered[lower] == ordered[upper]:
        return ordered[lower]
    return (upper - position) * ordered[lower] + (position - lower) * ordered[upper]


def _top_k(values: Counter[Row], aggregation: Aggregation) -> Value:
    assert aggregation.parameter is not None
    ordered = sorted((v[0] for v in values.elements()), key=order_key, reverse=True)
    return tuple(ordered[: int(aggregation.parameter)])


def _listed(values: Counter[Row], aggregation: Aggregation) -> Value:
    """COLLECT: every value as often as it is there, in order. HISTOGRAM: each value with how often it is there."""
    if aggregation.function == "HISTOGRAM":
        return tuple(sorted(((v[0], n) for v, n in values.items()), key=row_key))
    ordered = sorted((v[0] for v in values.elements()), key=order_key, reverse=aggregation.parameter == -1)
    return tuple(ordered)


def _comoment(values: Counter[Row], aggregation: Aggregation) -> Value:
    """The covariance of pairs, or their correlation: NULL where one of the two does not vary."""
    count, sample = values.total(), aggregation.function == "COVAR_SAMP"
    if count < 2 and aggregation.function != "COVAR_POP":
        return None
    if any(not math.isfinite(part) for pair in values for part in pair):
        return NAN
    x_mean, y_mean = (_exact_sum([(v[i], n) for v, n in values.items()]) / count for i in (0, 1))
    pairs = [(Fraction(x) - x_mean, Fraction(y) - y_mean, n) for (x, y), n in values.items()]
    both = sum((x * y * n for x, y, n in pairs), Fraction(0))
    if aggregation.function != "CORR":
        return _to_float(both / (count - 1 if sample else count))
    squares = sum((x * x * n for x, _, n in pairs), Fraction(0)) * sum(
        (y * y * n for _, y, n in pairs), Fraction(0)
    )
    if not squares:
        return None
    ratio = both * both / squares
    wide = Context(prec=60)
    root = float(wide.sqrt(wide.divide(Decimal(ratio.numerator), Decimal(ratio.denominator))))
    return -root if both < 0 else root


def _argument(values: Counter[Row], aggregation: Aggregation) -> Value:
    by = [v[1] for v in values]
    choose = min if aggregation.function == "ARG_MIN" else max
    best = order_key(choose(by, key=order_key))
    winners = [v[0] for v in values if order_key(v[1]) == best]
    known = [v for v in winners if v is not None]
    return min(known, key=order_key) if known else None


_BUILT_IN = {
    "COUNT": lambda values, _: values.total(),
    "SUM": _sum,
    "AVG": _avg,
    "MIN": lambda values, _: min((v[0] for v in values), key=order_key),
    "MAX": lambda values, _: max((v[0] for v in values), key=order_key),
    "VAR_SAMP": _variance,
    "VAR_POP": _variance,
    "STDDEV_SAMP": _variance,
    "STDDEV_POP": _variance,
    "QUANTILE": _quantile,
    "TOP_K": _top_k,
    "ARG_MIN": _argument,
    "ARG_MAX": _argument,
    "COVAR_POP": _comoment,
    "COVAR_SAMP": _comoment,
    "CORR": _comoment,
}
