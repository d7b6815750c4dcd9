"""User-defined functions: what they may give, how aggregates are checked, what tells two bodies apart."""

from __future__ import annotations

import functools
import math
import sys
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from tidegate.errors import Diagnostic
from tidegate.scalars.combining import check_combine
from tidegate.scalars.functions import AggregateFunction, ScalarFunction, code_identity
from tidegate.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    INTERVAL,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    Type,
    array,
    decimal,
)

PAIR = Type("STRUCT", (("a", INT), ("b", STRING)))
COUNTS = Type("MAP", (STRING, INT))
NOON = datetime(2024, 5, 1, 12)


@pytest.mark.parametrize(
    ("type_", "given", "held"),
    [
        (INT, 2**31 - 1, 2**31 - 1),
        (INT, np.int64(7), 7),
        (BIGINT, -(2**63), -(2**63)),
        (DOUBLE, 3, 3.0),
        (DOUBLE, np.float32(0.5), 0.5),
        (FLOAT, 0.1, 0.10000000149011612),
        (FLOAT, math.inf, math.inf),
        (decimal(5, 2), 7, Decimal("7.00")),
        (decimal(5, 2), Decimal("999.99"), Decimal("999.99")),
        (BOOLEAN, np.True_, True),
        (STRING, "ä", "ä"),
        (BINARY, bytearray(b"x"), b"x"),
        (DATE, date(2024, 5, 1), date(2024, 5, 1)),
        (TIMESTAMP, NOON, NOON.replace(tzinfo=UTC)),
        (TIMESTAMP, NOON.replace(tzinfo=timezone(timedelta(hours=2))), NOON.replace(hour=10, tzinfo=UTC)),
        (TIMESTAMP_NTZ, NOON, NOON),
        (INTERVAL, timedelta(seconds=1), timedelta(seconds=1)),
        (array(INT), [1, None], (1, None)),
        (PAIR, {"b": "x", "a": 1}, (1, "x")),
        (PAIR, (1, None), (1, None)),
        (COUNTS, {"a": 1}, (("a", 1),)),
        (INT, None, None),
    ],
)
def test_values_of_the_declared_type_are_taken(type_: Type, given: Any, held: Any) -> None:
    got = ScalarFunction("f", lambda: given, type_)()
    assert got == held
    assert type(got) is type(held)


@pytest.mark.parametrize(
    ("type_", "given"),
    [
        (INT, "abc"),
        (INT, 2**40),
        (INT, 1.5),
        (INT, 1.0),
        (INT, True),
        (TINYINT, 128),
        (SMALLINT, -(2**15) - 1),
        (BIGINT, 2**63),
        (DOUBLE, "1"),
        (DOUBLE, Decimal(1)),
        (DOUBLE, 10**400),
        (FLOAT, 1e39),
        (decimal(5, 2), 1000),
        (decimal(5, 2), Decimal("0.001")),
        (decimal(5, 2), Decimal("NaN")),
        (decimal(5, 2), 0.5),
        (BOOLEAN, 1),
        (STRING, 1),
        (STRING, b"x"),
        (STRING, "\ud800"),
        (BINARY, "x"),
        (DATE, NOON),
        (TIMESTAMP, date(2024, 5, 1)),
        (TIMESTAMP_NTZ, NOON.replace(tzinfo=UTC)),
        (INTERVAL, 1),
        (array(INT), [1, "x"]),
        (array(INT), "ab"),
        (PAIR, (1,)),
        (PAIR, {"a": 1}),
        (COUNTS, {None: 1}),
        (COUNTS, {"a": "b"}),
        (COUNTS, [1]),
    ],
)
def test_other_values_are_errors_with_the_arguments(type_: Type, given: Any) -> None:
    with pytest.raises(Diagnostic) as raised:
        ScalarFunction("f", lambda x, y: given, type_)(7, "row")
    assert raised.value.condition == "USER_FUNCTION_RESULT"
    assert "f(7, 'row') returned" in raised.value.message
    assert str(type_) in raised.value.message


def test_a_function_that_wants_to_end_the_process_has_failed() -> None:
    with pytest.raises(Diagnostic, match=r"leave\(3\) raised SystemExit: 3"):
        ScalarFunction("leave", sys.exit, INT)(3)


# combine -----------------------------------------------------------------------------------------------------------


def mean(combine: Any) -> AggregateFunction:
    return AggregateFunction(
        "mean",
        lambda e: (e, 1),
        lambda p, e: (p[0] + e, p[1] + 1),
        lambda p: p[0] / p[1],
        DOUBLE,
        1,
        combine,
    )


def extend(p: list[Any], q: list[Any]) -> list[Any]:
    p.extend(q)
    return p


def longest(name: str, combine: Any, arity: int | None = 1) -> AggregateFunction:
    return AggregateFunction(
        name, lambda e: [e], lambda p, e: [*p, e], lambda p: len(set(p)), BIGINT, arity, combine
    )


RIGHT = {
    "mean": mean(lambda p, q: (p[0] + q[0], p[1] + q[1])),
    "last": AggregateFunction("last", lambda e: e, lambda p, e: e, str, STRING, 1, lambda p, q: q),
    "rows": AggregateFunction("rows", lambda: 1, lambda p: p + 1, lambda p: p, BIGINT, 0, lambda p, q: p + q),
    "weighted": AggregateFunction(
        "weighted",
        lambda text, weight: len(text) * weight,
        lambda p, text, weight: p + len(text) * weight,
        float,
        DOUBLE,
        None,
        lambda p, q: p + q,
    ),
    "logarithms": AggregateFunction(
        "logarithms", math.log, lambda p, e: p + math.log(e), math.exp, DOUBLE, 1, lambda p, q: p + q
    ),
    "different": longest("different", lambda p, q: p + q),
}
WRONG = {
    "counts the other part once": mean(lambda p, q: (p[0] + q[0], p[1] + 1)),
    "forgets the other part": mean(lambda p, q: p),
    "takes them the wrong way round": AggregateFunction(
        "last", lambda e: e, lambda p, e: e, str, STRING, 1, lambda p, q: p
    ),
    "changes its argument": longest("changing", extend),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_combine_that_does_what_merge_does(name: str) -> None:
    check_combine(RIGHT[name])


@pytest.mark.parametrize("name", WRONG)
def test_a_combine_that_does_something_else(name: str) -> None:
    with pytest.raises(Diagnostic) as raised:
        check_combine(WRONG[name])
    assert raised.value.condition == "COMBINE_DIFFERS"


def test_the_difference_is_shown_with_its_values() -> None:
    with pytest.raises(Diagnostic, match=r"1 \| 2, 2 the combine of 'mean' gives 2.5, its merge gives 1.66"):
        check_combine(WRONG["counts the other part once"])


def test_a_combine_that_raises_is_named() -> None:
    with pytest.raises(Diagnostic, match=r"mean\.combine\(.*\) raised ZeroDivisionError"):
        check_combine(mean(lambda p, q: 1 / 0))


def test_values_of_ones_own() -> None:
    def codes(combine: Any) -> AggregateFunction:
        return AggregateFunction(
            "codes", lambda e: int(e[1:]), lambda p, e: p + int(e[1:]), lambda p: p, BIGINT, 1, combine
        )

    with pytest.raises(Diagnostic) as raised:
        check_combine(codes(max))
    assert raised.value.condition == "COMBINE_UNCHECKED"
    check_combine(codes(lambda p, q: p + q), ["x1", "x2", "x5"])
    with pytest.raises(Diagnostic, match="COMBINE_DIFFERS"):
        check_combine(codes(max), ["x1", "x2", "x5"])


# identity ----------------------------------------------------------------------------------------------------------

RATE = 3


def rated(x: int) -> int:
    return x * RATE


def captured(value: Any) -> Any:
    return lambda x: (x, value)


def compiled(body: str, **names: Any) -> Any:
    """A function as another file, at another line, would have it."""
    space: dict[str, Any] = dict(names)
    exec(compile("\n" * 40 + body, "elsewhere.py", "exec"), space)
    return space["f"]


class Scaled:
    def __init__(self, factor: int) -> None:
        self.factor = factor

    def __call__(self, x: int) -> int:
        return x * self.factor


def test_the_same_body_has_the_same_identity_wherever_it_stands() -> None:
    def f(x: int) -> int:
        return sum([x + i for i in (1, 2)])

    again = compiled("def f(x: int) -> int:\n    return sum([x + i for i in (1, 2)])")
    assert code_identity(f) == code_identity(again)
    assert code_identity(captured((1, {"a": 2}))) == code_identity(captured((1, {"a": 2})))
    assert code_identity(Scaled(2)) == code_identity(Scaled(2))
    assert code_identity(functools.partial(rated, 2)) == code_identity(functools.partial(rated, 2))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (compiled("f = lambda x: x + 1"), compiled("f = lambda x: x + 2")),
        (compiled("f = lambda x: x.upper()"), compiled("f = lambda x: x.lower()")),
        (compiled("f = lambda x: 1"), compiled("f = lambda x: True")),
        (compiled("f = lambda x, y=1: x"), compiled("f = lambda x, y=2: x")),
        (compiled("f = lambda x, *, y=1: x"), compiled("f = lambda x, *, y=2: x")),
        (compiled("f = lambda x: [i * 2 for i in x]"), compiled("f = lambda x: [i * 3 for i in x]")),
        (compiled("f = lambda x: x in {1, 2}"), compiled("f = lambda x: x in {1, 3}")),
        (compiled("f = lambda x: x * R", R=1), compiled("f = lambda x: x * R", R=2)),
        (
            compiled("def g(x): return x\ndef f(x): return g(x)"),
            compiled("def g(x): return -x\ndef f(x): return g(x)"),
        ),
        (captured(1), captured(2)),
        (captured({"a": [1]}), captured({"a": [2]})),
        (captured(captured(1)), captured(captured(2))),
        (Scaled(2), Scaled(3)),
        (functools.partial(rated, 2), functools.partial(rated, 3)),
        (ScalarFunction("f", rated, INT), ScalarFunction("f", rated, BIGINT)),
        (math.sin, math.cos),
    ],
)
def test_another_body_has_another_identity(one: Any, other: Any) -> None:
    assert code_identity(one) != code_identity(other)


def test_a_function_that_names_itself() -> None:
    def make(step: int) -> Any:
        def down(x: int) -> int:
            return 0 if x <= 0 else down(x - step)

        return down

    assert code_identity(make(1)) == code_identity(make(1))
    assert code_identity(make(1)) != code_identity(make(2))
