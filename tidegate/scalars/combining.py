"""Whether a user aggregate's `combine` does what its `merge` does: tried on samples when it is registered."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import product

from tidegate.errors import Diagnostic
from tidegate.scalars.functions import AggregateFunction, shown
from tidegate.types import Row, Value

_VALUES: tuple[tuple[Value, ...], ...] = (
    (1, 2, 2, 5, 9),
    (-3, 0, 1, 1, 4),
    (-1.5, 0.25, 2.0, 2.0, 7.5),
    (Decimal("-1.50"), Decimal("0.25"), Decimal("2.00"), Decimal("2.00")),
    ("", "a", "b", "b", "cd"),
    (False, False, True),
    (b"", b"a", b"b"),
    (date(2020, 2, 29), date(2020, 3, 1), date(2021, 1, 1)),
    (datetime(2020, 2, 29, 12, tzinfo=UTC), datetime(2021, 1, 1, tzinfo=UTC)),
    (timedelta(hours=-1), timedelta(minutes=3), timedelta(days=1)),
    ((1, 2), (1, 3), (2,)),
    (None, None, 1, 2, 2),
    (None, "a", "b"),
)
"""Values of one kind each, in ascending order."""

_ENOUGH = 200
"""Arguments of different kinds are crossed as long as there are no more samples than this."""


def check_combine(function: AggregateFunction, samples: Iterable[Value] | None = None) -> None:
    """Refuse a `combine` that gives another answer than `merge` on a sample, or that changes its arguments.

    Without `samples`, values of all types are tried; a kind that the function itself refuses tells nothing.

    >>> from tidegate.types import BIGINT
    >>> check_combine(AggregateFunction("n", lambda e: 1, lambda p, e: p + 1, int, BIGINT, 1, lambda p, q: p + 1))
    Traceback (most recent call last):
    tidegate.errors.Diagnostic: error[COMBINE_DIFFERS]: over the values 1 | 2, 2 the combine of 'n' gives 2, its merge gives 3
    help: combine(p, init(e)) must be merge(p, e), be associative, and change neither of its arguments
    """
    useful = 0
    for rows in _given(samples) if samples is not None else _made(_arity(function)):
        try:
            function.evaluated(function.folded((row, 1) for row in rows))
        except Diagnostic:
            if samples is not None:
                raise
            continue
        useful += 1
        _check(function, rows)
    if not useful:
        raise Diagnostic(
            "COMBINE_UNCHECKED",
            f"the combine of '{function.name}' could not be compared with its merge: it takes none of the usual values",
            help="give samples=[…]: values that it is called with (tuples if it has several arguments)",
        )


def _arity(function: AggregateFunction) -> int:
    if function.arity is not None:
        return function.arity
    try:
        kinds = [p.kind for p in inspect.signature(function.init).parameters.values()]
    except (TypeError, ValueError):
        return 1
    named = sum(
        k in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD) for k in kinds
    )
    return named or int(inspect.Parameter.VAR_POSITIONAL in kinds)


def _given(samples: Iterable[Value]) -> list[list[Row]]:
    return [[s if isinstance(s, tuple) else (s,) for s in samples]]


def _made(arity: int) -> Iterator[list[Row]]:
    if arity == 0:
        yield [()] * 4
        return
    crossed = len(_VALUES) ** arity <= _ENOUGH
    for kinds in product(_VALUES, repeat=arity) if crossed else ((kind,) * arity for kind in _VALUES):
        length = min(map(len, kinds))
        # Later arguments run the other way, so that columns are told apart.
        yield [
            tuple(k[i] if j == 0 else k[length - 1 - i] for j, k in enumerate(kinds)) for i in range(length)
        ]


def _check(function: AggregateFunction, rows: Sequence[Row]) -> None:
    for end in range(2, len(rows) + 1):
        wanted = _folded(function, rows[:end])
        for i in range(1, end):
            for j in range(i, end):
                parts = [p for p in (rows[:i], rows[i:j], rows[j:end]) if p]
                for got in _combined(function, parts):
                    if not same(got, wanted):
                        raise _difference(function, parts, got, wanted)


def _combined(function: AggregateFunction, parts: Sequence[Sequence[Row]]) -> Iterator[Value]:
    """The parts' answer, combined from the left and from the right; each partial aggregate must be what it was before."""

    def one(part: Sequence[Row]) -> Value:
        return function.folded((row, 1) for row in part)

    left = one(parts[0])
    for part in parts[1:]:
        left = function.combined(left, one(part))
    yield function.evaluated(left)
    right = one(parts[-1])
    for part in parts[-2::-1]:
        right = function.combined(one(part), right)
    yield function.evaluated(right)
    first, last = one(parts[0]), one(parts[-1])
    function.combined(first, last)
    for partial, part in ((first, parts[0]), (last, parts[-1])):
        if not same(got := function.evaluated(partial), wanted := _folded(function, part)):
            raise _difference(function, [part], got, wanted)


def _folded(function: AggregateFunction, rows: Sequence[Row]) -> Value:
    return function.evaluated(function.folded((row, 1) for row in rows))


def _difference(
    function: AggregateFunction, parts: Sequence[Sequence[Row]], got: Value, wanted: Value
) -> Diagnostic:
    texts = [", ".join(shown(row)[1:-1] if len(row) == 1 else shown(row) for row in part) for part in parts]
    verb = "gives" if len(parts) > 1 else "makes of it"
    return Diagnostic(
        "COMBINE_DIFFERS",
        f"over the values {' | '.join(texts)} the combine of '{function.name}' {verb} {got!r}, its merge gives {wanted!r}",
        help="combine(p, init(e)) must be merge(p, e), be associative, and change neither of its arguments",
    )


def same(left: Value, right: Value) -> bool:
    """Equal values; floats may differ by rounding."""
    if isinstance(left, float) and isinstance(right, float):
        return math.isclose(left, right, rel_tol=1e-9) or (math.isnan(left) and math.isnan(right))
    if isinstance(left, tuple) and isinstance(right, tuple):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)
