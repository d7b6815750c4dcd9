"""AggregateKernel against an aggregation of snapshots in plain Python, at every change point."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from functools import cmp_to_key
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests import ladders
from tests.state_log import KernelLog
from tidegate.algebra.operators import Aggregate, Aggregation, Scan
from tidegate.errors import Diagnostic
from tidegate.kernels.aggregates import AggregateKernel
from tidegate.kernels.rows import Frame, from_rows, to_rows
from tidegate.scalars.functions import AggregateFunction
from tidegate.time import MAX, MIN
from tidegate.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    INTERVAL,
    NAN,
    STRING,
    TIMESTAMP,
    Field,
    Row,
    Type,
    array,
    decimal,
)

SCHEMA = (
    Field("k", BIGINT),
    Field("i", INT),
    Field("f", DOUBLE),
    Field("d", decimal(10, 2)),
    Field("s", STRING),
    Field("b", BOOLEAN),
    Field("a", array(INT)),
    Field("g", FLOAT),
)
SCAN = Scan("S", SCHEMA)
WIDE = Context(prec=76)
K, N, F, D, S, B, A, G = range(8)

VALUES = st.tuples(
    st.sampled_from([1, 2, None]),
    st.sampled_from([None, -7, 0, 3, 3, 12, 2**31 - 1]),
    st.sampled_from([None, 0.1, 0.1, -2.5, 1e16, -1e300, 5e-324, NAN, math.inf, -math.inf, 0.0]),
    st.sampled_from([None, Decimal("0.01"), Decimal("-3.50"), Decimal("99999999.99"), Decimal("7.00")]),
    st.sampled_from([None, "", "a", "é", "Z", "ab"]),
    st.sampled_from([None, True, True, False]),
    st.sampled_from([None, (), (1,), (1, 2), (None, 5)]),
    st.sampled_from([None, 0.5, 1e6, 1e6 + 0.25, -3.0, NAN, math.inf]),
)
FORMS = st.sampled_from(["interval", "interval", "change", "cut", "lasting", "noise"])
BIRTHS = st.tuples(VALUES, FORMS, st.integers(0, 30), st.integers(1, 12), st.integers(1, 3))
STREAMS = st.lists(BIRTHS, max_size=24)
CUTS = st.lists(st.integers(0, 48), max_size=6)
STEADY = st.lists(
    st.tuples(VALUES, st.just("interval"), st.integers(0, 30), st.just(7), st.integers(1, 2)), max_size=24
)

Rows = list[tuple[Row, int, int, int]]


def physical(births: Sequence[Any]) -> Rows:
    """Each birth as signed rows: with its end, with a retraction, with an end that is cut short, …"""
    rows: Rows = []
    for values, form, ts, length, n in births:
        if form == "interval":
            rows.append((values, ts, ts + length, n))
        elif form == "change":
            rows += [(values, ts, MAX, n), (values, ts + length, MAX, -n)]
        elif form == "cut":
            rows += [(values, ts, ts + length + 4, n), (values, ts + length, ts + length + 4, -n)]
        elif form == "lasting":
            rows.append((values, ts, MAX, n))
        else:
            rows += [(values, ts, MAX, -n), (values, ts, ts + length, n), (values, ts, MAX, n)]
            rows.append((values, ts + length, MAX, 0))
    return rows


def run(kernel: Any, rows: Rows, cuts: Sequence[int], restored: bool, schema: Any = SCHEMA) -> list[Frame]:
    """The kernel's chunks, over the given epochs; `restored`: each step begins from the log alone."""
    state = kernel.initial()
    log = KernelLog(kernel)
    chunks = []
    low = MIN
    for upto in [*sorted(set(cuts)), MAX]:
        part = [r for r in rows if low <= r[1] < upto]
        chunk = from_rows([r[0] for r in part], schema, [r[1:] for r in part])
        state, out = kernel.step(state, [chunk], upto)
        assert out.filter((pl.col("ts") < low) | (pl.col("ts") >= upto)).is_empty()
        assert out.filter((pl.col("ts") >= pl.col("te")) | (pl.col("n") == 0)).is_empty()
        chunks.append(out)
        log.append(state)
        if restored and upto < MAX:
            rebuilt = log.restored(upto)
            for name, t in rebuilt.items():
                assert t.rows.schema == state[name].rows.schema, name
            state = rebuilt
        low = upto
    return chunks


def bag_at(rows: Rows, t: int) -> list[Row]:
    """The rows valid at an instant, each as often as it is."""
    bag: dict[Row, int] = {}
    for values, ts, te, n in rows:
        if ts <= t < te:
            bag[values] = bag.get(values, 0) + n
    assert all(n >= 0 for n in bag.values())
    return [values for values, n in bag.items() for _ in range(n)]


def signed_rows(chunks: Sequence[Frame], schema: Any) -> Rows:
    """The chunks as Python rows."""
    return [
        (values, *validity)
        for chunk in chunks
        for values, validity in zip(to_rows(chunk, schema), chunk.select("ts", "te", "n").rows(), strict=True)
    ]


def compare(x: Any, y: Any) -> int:
    """Order of values: NULL first, NaN last, strings by their bytes, members in turn."""
    if x is None or y is None:
        return (x is not None) - (y is not None)
    if isinstance(x, tuple):
        return next((c for a, b in zip(x, y, strict=False) if (c := compare(a, b))), len(x) - len(y))
    if isinstance(x, float):
        x, y = (math.isnan(x), 0.0 if math.isnan(x) else x), (math.isnan(y), 0.0 if math.isnan(y) else y)
    if isinstance(x, str):
        x, y = x.encode(), y.encode()
    return int(x > y) - int(x < y)


ordered = cmp_to_key(compare)


def exact_sum(values: list[Any]) -> Any:
    if any(isinstance(v, float) and not math.isfinite(v) for v in values):
        return sum(v for v in values if not math.isfinite(v)) + 0.0
    return sum(map(Fraction, values), Fraction(0))


def compare_rows(a: Row, b: Row) -> int:
    return next((c for x, y in zip(a, b, strict=True) if (c := nulls_first(x, y))), 0)


def nulls_first(a: Any, b: Any) -> int:
    return (a is not None) - (b is not None) if a is None or b is None else compare(a, b)


def user_defined(name: str, taken: list[Row]) -> Any:
    """What each function means, without its parts."""
    match name:
        case "ELEMENTS":
            return len(taken)
        case "LOG" | "ORDERED":
            return tuple(v for (v,) in taken)
        case "GREATEST":
            return taken[-1][0]
        case "SPAN":
            known = [v for (v,) in taken if v is not None]
            return max(known) - min(known) if known else None
        case "NULLS":
            return sum(v is None for p in taken for v in p)
    assert name == "ROWS"
    return len(taken) / 2


def expected(aggregation: Aggregation, rows: list[Row]) -> Any:
    """The aggregate of a bag, by definition. A Fraction stands for the exact value of a float or decimal."""
    name = aggregation.function
    if aggregation.where is not None:
        rows = [r for r in rows if r[aggregation.where] is True]
    taken = [tuple(r[a] for a in aggregation.arguments) for r in rows]
    if name.startswith("ARG"):
        taken = [p for p in taken if p[1] is not None]
        if not taken:
            return None
        best = (min if name == "ARG_MIN" else max)((p[1] for p in taken), key=ordered)
        ties = [v for v, by in taken if compare(by, best) == 0]
        return min((v for v in ties if v is not None), key=ordered, default=None)
    if name not in FUNCTIONS:
        taken = [p for p in taken if None not in p]
    if aggregation.distinct:
        taken = list(dict.fromkeys(taken))
    if name == "COUNT":
        return len(taken)
    if name in ("COLLECT", "HISTOGRAM"):
        return listed(aggregation, [p[0] for p in taken])
    if not taken:
        return None
    if name in ("COVAR_POP", "COVAR_SAMP", "CORR"):
        return comoment(name, taken)
    if name in FUNCTIONS:
        return user_defined(name, sorted(taken, key=cmp_to_key(compare_rows)))
    values = sorted((p[0] for p in taken), key=ordered)
    count = len(values)
    if name in ("MIN", "MAX"):
        return values[0 if name == "MIN" else -1]
    if name == "TOP_K":
        return tuple(values[::-1][: int(aggregation.parameter or 0)])
    total = exact_sum(values)
    if name == "SUM":
        return total
    if name == "AVG":
        return total / count
    if name == "QUANTILE":
        position = (count - 1) * float(aggregation.parameter or 0)
        low, high = math.floor(position), math.ceil(position)
        x, y = float(values[low]), float(values[high])
        return x if low == high or compare(x, y) == 0 else (high - position) * x + (position - low) * y
    if name.endswith("SAMP") and count == 1:
        return None
    if isinstance(total, float):
        return NAN
    # The law speaks of DOUBLEs: a decimal is read as one first.
    values = [Fraction(float(v)) for v in values]
    mean = sum(values, Fraction(0)) / count
    variance = sum((v - mean) ** 2 for v in values) / (count - 1 if name.endswith("SAMP") else count)
    if name.startswith("VAR"):
        return variance
    return WIDE.sqrt(WIDE.divide(Decimal(variance.numerator), Decimal(variance.denominator)))


def listed(aggregation: Aggregation, values: list[Any]) -> Any:
    values = sorted(values, key=ordered, reverse=aggregation.parameter == -1)
    if aggregation.function == "COLLECT":
        return tuple(values)
    starts = [i for i, v in enumerate(values) if i == 0 or compare(values[i - 1], v)]
    if not starts:
        return ()
    return tuple((values[i], j - i) for i, j in zip(starts, [*starts[1:], len(values)], strict=True))


def comoment(name: str, pairs: list[Row]) -> Any:
    """By sums over all pairs of pairs: the sum of (x - x')(y - y') is twice c times that of the deviations' products."""
    count = len(pairs)
    if count < 2 and name != "COVAR_POP":
        return None
    if any(not math.isfinite(v) for p in pairs for v in p):
        return NAN
    exact = [(Fraction(x), Fraction(y)) for x, y in pairs]

    def spread(i: int, j: int) -> Fraction:
        twice = sum(((p[i] - q[i]) * (p[j] - q[j]) for p in exact for q in exact), Fraction(0))
        return twice / (2 * count)

    if name != "CORR":
        return spread(0, 1) / (count - (name == "COVAR_SAMP"))
    if not spread(0, 0) or not spread(1, 1):
        return None
    square = spread(0, 1) ** 2 / (spread(0, 0) * spread(1, 1))
    root = WIDE.sqrt(WIDE.divide(Decimal(square.numerator), Decimal(square.denominator)))
    return -root if spread(0, 1) < 0 else root


def nearest_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def agrees(aggregation: Aggregation, got: Any, wanted: Any) -> bool:
    if got is None or wanted is None:
        return got is wanted
    if aggregation.type.name == "DECIMAL" and isinstance(wanted, Fraction):
        scale = aggregation.type.params[1]
        exact = WIDE.divide(Decimal(wanted.numerator), Decimal(wanted.denominator))
        return bool(got == exact.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, WIDE))
    if aggregation.type.is_integral:
        return bool(Fraction(got) == Fraction(wanted)) and isinstance(got, int)
    if isinstance(got, float):
        wanted = nearest_float(wanted)
        if math.isnan(wanted) or math.isinf(wanted) or aggregation.function in ("SUM", "MIN", "MAX"):
            return compare(got, wanted) == 0
        return math.isclose(got, wanted, rel_tol=6e-16, abs_tol=5e-324)
    return compare(got, wanted) == 0


def appended(log: list[Any], element: Any) -> list[Any]:
    """Changes its partial aggregate: allowed without combine."""
    log.append(element)
    return log


FUNCTIONS = {
    f.name: f
    for f in (
        AggregateFunction("ELEMENTS", lambda e: 1, lambda c, e: c + 1, lambda c: c, BIGINT),
        AggregateFunction("LOG", lambda e: [e], appended, lambda log: log, array(INT)),
        AggregateFunction("GREATEST", lambda e: e, lambda p, e: e, lambda p: p, STRING, 1, lambda p, q: q),
        AggregateFunction(
            "ORDERED", lambda e: (e,), lambda p, e: (*p, e), lambda p: p, array(INT), 1, lambda p, q: p + q
        ),
        AggregateFunction(
            "SPAN",
            lambda v: None if v is None else (v, v),
            lambda p, v: p if v is None else (v, v) if p is None else (min(p[0], v), max(p[1], v)),
            lambda p: None if p is None else p[1] - p[0],
            BIGINT,
            1,
            lambda p, q: q if p is None else p if q is None else (min(p[0], q[0]), max(p[1], q[1])),
        ),
        AggregateFunction(
            "NULLS",
            lambda a, b: (a is None) + (b is None),
            lambda p, a, b: p + (a is None) + (b is None),
            lambda p: p,
            BIGINT,
        ),
        AggregateFunction("ROWS", lambda: 1, lambda p: p + 1, lambda p: p / 2, DOUBLE, 0, lambda p, q: p + q),
    )
}


def aggregation(function: str, *arguments: int, type: Type = DOUBLE, **more: Any) -> Aggregation:
    return Aggregation(function, arguments, type, function.lower(), **more)


def counted(type_: Type) -> Type:
    return array(Type("STRUCT", (("value", type_), ("count", BIGINT))))


SPREADS = ("VAR_SAMP", "VAR_POP", "STDDEV_SAMP", "STDDEV_POP")
CASES: dict[str, tuple[Aggregation, ...]] = {
    "counts": (
        aggregation("COUNT", type=BIGINT),
        aggregation("COUNT", N, type=BIGINT),
        aggregation("COUNT", S, N, type=BIGINT, distinct=True),
        aggregation("COUNT", type=BIGINT, where=B),
    ),
    "count": (aggregation("COUNT", type=BIGINT),),
    "nothing": (),
    "integers": (aggregation("SUM", N, type=BIGINT), aggregation("AVG", N)),
    "integers apart": (
        aggregation("SUM", N, type=BIGINT, distinct=True),
        aggregation("AVG", N, where=B),
        aggregation("SUM", N, type=BIGINT, distinct=True, where=B),
    ),
    "floats": (aggregation("SUM", F), aggregation("AVG", F), aggregation("SUM", G)),
    "floats apart": (aggregation("SUM", F, distinct=True), aggregation("AVG", F, where=B)),
    "decimals": (aggregation("SUM", D, type=decimal(20, 2)), aggregation("AVG", D, type=decimal(14, 6))),
    "decimals apart": (
        aggregation("SUM", D, type=decimal(20, 2), distinct=True),
        aggregation("AVG", D, type=decimal(14, 6), where=B),
    ),
    "spreads": tuple(aggregation(f, N) for f in SPREADS),
    "float spreads": (*(aggregation(f, G) for f in SPREADS), *(aggregation(f, F) for f in SPREADS)),
    "decimal spreads": (*(aggregation(f, D) for f in SPREADS), aggregation("VAR_POP", D, distinct=True)),
    "extremes": (
        aggregation("MIN", N, type=INT),
        aggregation("MAX", F),
        aggregation("MAX", G, type=FLOAT),
        aggregation("MIN", F, where=B),
        aggregation("MAX", B, type=BOOLEAN, distinct=True),
    ),
    "extremes of anything": (
        aggregation("MIN", S, type=STRING),
        aggregation("MAX", S, type=STRING, where=B),
        aggregation("MAX", D, type=decimal(10, 2)),
        aggregation("MIN", A, type=array(INT)),
        aggregation("MAX", A, type=array(INT)),
    ),
    "arguments": (
        aggregation("ARG_MIN", S, N, type=STRING),
        aggregation("ARG_MAX", S, N, type=STRING),
        aggregation("ARG_MAX", N, F, type=INT, where=B),
        aggregation("ARG_MIN", F, S),
        aggregation("ARG_MAX", N, N, type=INT),
    ),
    "quantiles": (
        aggregation("QUANTILE", N, parameter=0.5),
        aggregation("QUANTILE", F, parameter=0.25),
        aggregation("QUANTILE", D, parameter=0.9, where=B),
        aggregation("QUANTILE", N, parameter=1.0, distinct=True),
    ),
    "greatest": (
        aggregation("TOP_K", N, type=array(INT), parameter=3),
        aggregation("TOP_K", F, type=array(DOUBLE), parameter=2, distinct=True),
        aggregation("TOP_K", S, type=array(STRING), parameter=2, where=B),
    ),
    "collections": (
        aggregation("COLLECT", N, type=array(INT)),
        aggregation("COLLECT", F, type=array(DOUBLE), distinct=True),
        aggregation("COLLECT", S, type=array(STRING), where=B, parameter=-1),
        aggregation("COLLECT", A, type=array(array(INT))),
        aggregation("HISTOGRAM", S, type=counted(STRING)),
        aggregation("HISTOGRAM", F, type=counted(DOUBLE), where=B),
    ),
    "pairs": (
        aggregation("COVAR_POP", F, G),
        aggregation("COVAR_SAMP", G, F, where=B),
        aggregation("CORR", F, G),
        aggregation("CORR", G, G),
        aggregation("CORR", G, F, distinct=True),
    ),
    "in ladders": (
        aggregation("QUANTILE", N, parameter=0.5),
        aggregation("QUANTILE", F, parameter=0.25),
        aggregation("QUANTILE", D, parameter=0.9, where=B),
        aggregation("TOP_K", N, type=array(INT), parameter=3),
        aggregation("TOP_K", D, type=array(decimal(10, 2)), parameter=2),
        aggregation("COUNT", F, type=BIGINT, distinct=True),
        aggregation("SUM", D, type=decimal(20, 2), distinct=True, where=B),
        aggregation("MIN", D, type=decimal(10, 2)),
        aggregation("MAX", G, type=FLOAT),
        aggregation("SUM", N, type=BIGINT),
    ),
    "user-defined": (
        aggregation("SPAN", N, type=BIGINT),
        aggregation("SPAN", N, type=BIGINT, distinct=True, where=B),
        aggregation("NULLS", N, S, type=BIGINT),
        aggregation("ROWS", type=DOUBLE),
    ),
    "user-defined in order": (
        aggregation("ELEMENTS", F, type=BIGINT),
        aggregation("LOG", N, type=array(INT)),
        aggregation("ORDERED", N, type=array(INT), where=B),
        aggregation("GREATEST", S, type=STRING, distinct=True),
    ),
}
KEYS = {
    "scalar": (),
    "by integer": (K,),
    "by string": (S,),
    "by two": (B, K),
    "by float": (F,),
    "by array": (A,),
}


def many_values(dice: random.Random, level: int) -> Row:
    """Values of a row around a level, most of them different from others'."""
    return (
        dice.choice([1, 2, 2, 2, None]),
        dice.choice([None, 2**31 - 1, *(level + dice.randint(-9, 9) for _ in range(9))]),
        dice.choice([None, NAN, -math.inf, *(level + dice.randint(-40, 40) / 4 for _ in range(9))]),
        dice.choice([None, *(level + Decimal(dice.randint(-5000, 5000)) / 100 for _ in range(9))]),
        "",
        dice.choice([None, True, True, False]),
        (),
        dice.choice([None, NAN, *(level + dice.randint(-40, 40) / 2 for _ in range(9))]),
    )


def check(
    node: Aggregate,
    rows: Rows,
    cuts: Sequence[int],
    restored: bool,
    asked: bool = False,
    colliding: bool = False,
) -> None:
    with ladders.asked(asked, colliding):
        chunks = run(AggregateKernel(node, FUNCTIONS), rows, cuts, restored)
    results = signed_rows(chunks, node.schema)
    for t in sorted({t for r in (*rows, *results) for t in r[1:3]} - {MAX}):
        groups: dict[Row, list[Row]] = {}
        for values in bag_at(rows, t):
            groups.setdefault(tuple(values[k] for k in node.keys), []).append(values)
        answer = bag_at(results, t)
        by_key = {row[: len(node.keys)]: row[len(node.keys) :] for row in answer}
        assert len(by_key) == len(answer), (t, answer)
        assert by_key.keys() == groups.keys(), (t, answer)
        for key, values in groups.items():
            for a, got in zip(node.aggregations, by_key[key], strict=True):
                wanted = expected(a, values)
                assert agrees(a, got, wanted), (t, key, a, got, wanted)


# Shrinking a stream of signed rows takes minutes and rarely makes it clearer.
UNSHRUNK = (Phase.explicit, Phase.reuse, Phase.generate)
QUICK = settings(
    deadline=None, max_examples=20, phases=UNSHRUNK, suppress_health_check=[HealthCheck.too_slow]
)


@pytest.mark.parametrize("case", CASES)
@QUICK
@given(births=STREAMS, cuts=CUTS, keyed=st.booleans(), restored=st.booleans(), asked=st.booleans())
def test_every_function_is_the_aggregate_of_each_snapshot(
    case: str, births: Any, cuts: list[int], keyed: bool, restored: bool, asked: bool
) -> None:
    check(Aggregate(SCAN, (K,) if keyed else (), CASES[case]), physical(births), cuts, restored, asked)


@pytest.mark.parametrize("case", ["extremes", "extremes of anything", "quantiles", "in ladders"])
@QUICK
@given(births=STEADY, cuts=CUTS, restored=st.booleans(), asked=st.booleans())
def test_time_windows_without_retractions(
    case: str, births: Any, cuts: list[int], restored: bool, asked: bool
) -> None:
    check(Aggregate(SCAN, (K,), CASES[case]), physical(births), cuts, restored, asked)


@pytest.mark.parametrize(
    "case", [c for c in CASES if AggregateKernel(Aggregate(SCAN, (K,), CASES[c]), FUNCTIONS).valued]
)
@pytest.mark.parametrize("keys", [(), (K,)], ids=["one group", "groups"])
@pytest.mark.parametrize(
    ("slope", "colliding"), [(-4, False), (4, True)], ids=["falling", "rising, hashes collide"]
)
def test_few_changes_of_many_rows(case: str, keys: tuple[int, ...], slope: int, colliding: bool) -> None:
    """With so many values that most of them are beyond the reach of a step, which moves with what comes and goes."""
    dice = random.Random(case)
    births = [
        (
            many_values(dice, slope * ts),
            dice.choice(["interval", "change", "lasting"]),
            ts,
            dice.randint(20, 60),
            1,
        )
        for ts in range(100)
    ]
    cuts = [ts for ts in range(170) if dice.random() < 0.2]
    check(Aggregate(SCAN, keys, CASES[case]), physical(births), cuts, False, True, colliding)


@pytest.mark.parametrize("keys", KEYS)
@QUICK
@given(births=STREAMS, cuts=CUTS, restored=st.booleans())
def test_any_keys(keys: str, births: Any, cuts: list[int], restored: bool) -> None:
    aggregations = (CASES["count"][0], CASES["integers"][0], CASES["extremes"][0])
    check(Aggregate(SCAN, KEYS[keys], aggregations), physical(births), cuts, restored)


def node_of(fields: tuple[Field, ...], keys: tuple[int, ...], *aggregations: Aggregation) -> Aggregate:
    return Aggregate(Scan("S", fields), keys, aggregations)


def steps(node: Aggregate, *epochs: tuple[list[Any], int]) -> list[list[Any]]:
    """The rows of each epoch's chunk, sorted; an epoch is (rows of (values, ts, te, n), upto)."""
    kernel = AggregateKernel(node, FUNCTIONS)
    state = kernel.initial()
    results = []
    for rows, upto in epochs:
        chunk = from_rows([r[0] for r in rows], node.input.schema, [r[1:] for r in rows])
        state, out = kernel.step(state, [chunk], upto)
        results.append(sorted(out.rows(), key=repr))
    return results


NUMBER = (Field("v", BIGINT),)
TOTAL = Aggregation("SUM", (0,), BIGINT, "total")


def test_an_open_row_is_closed_where_it_changes_and_the_last_stays_open() -> None:
    first, second = steps(
        node_of(NUMBER, (), TOTAL), ([((1,), 0, MAX, 1)], 5), ([((2,), 6, 8, 1), ((4,), 7, MAX, 1)], 10)
    )
    assert first == [(1, 0, MAX, 1)]
    assert second == [(1, 6, MAX, -1), (3, 6, 7, 1), (5, 8, MAX, 1), (7, 7, 8, 1)]


def test_equal_neighbours_coalesce() -> None:
    greatest = Aggregation("MAX", (0,), BIGINT, "m")
    rows = [((9,), 0, 20, 1), ((1,), 3, 5, 1), ((9,), 15, 30, 1)]
    assert steps(node_of(NUMBER, (), greatest), (rows, MAX)) == [[(9, 0, 30, 1)]]
    assert steps(node_of(NUMBER, (), greatest), (rows[:2], 10), (rows[2:], MAX)) == [
        [(9, 0, MAX, 1)],
        [(9, 30, MAX, -1)],
    ]


def test_a_replacement_within_one_instant_shows_only_its_net_effect() -> None:
    rows = [((5,), 0, 4, 1), ((5,), 4, 9, 1)]
    assert steps(node_of(NUMBER, (), TOTAL), (rows, MAX)) == [[(5, 0, 9, 1)]]


def test_an_end_at_the_border_belongs_to_the_next_epoch() -> None:
    assert steps(node_of(NUMBER, (), TOTAL), ([((5,), 0, 4, 1)], 4), ([], 5)) == [
        [(5, 0, MAX, 1)],
        [(5, 4, MAX, -1)],
    ]


def test_a_sum_that_does_not_fit_is_an_error_and_a_passing_one_is_not() -> None:
    big = 2**63 - 1
    fine = [((big,), 0, 5, 1), ((1,), 5, 9, 1), ((-(2**63),), 9, 10, 1)]
    assert steps(node_of(NUMBER, (), TOTAL), (fine, MAX)) == [
        [(-(2**63), 9, 10, 1), (1, 5, 9, 1), (big, 0, 5, 1)]
    ]
    with pytest.raises(Diagnostic) as caught:
        steps(node_of(NUMBER, (), TOTAL), ([((big,), 0, 5, 1), ((1,), 4, 9, 1)], MAX))
    assert caught.value.condition == "ARITHMETIC_OVERFLOW"


def test_decimals_of_38_digits() -> None:
    fields = (Field("v", decimal(38, 2)),)
    large, small = Decimal("9" * 36 + ".99"), Decimal("-" + "9" * 36 + ".99")
    total = Aggregation("SUM", (0,), decimal(38, 2), "s")
    average = Aggregation("AVG", (0,), decimal(38, 6), "a")
    assert steps(node_of(fields, (), total), ([((large,), 0, 5, 1), ((small,), 2, 9, 1)], MAX)) == [
        [(small, 5, 9, 1), (Decimal("0.00"), 2, 5, 1), (large, 0, 2, 1)]
    ]
    with pytest.raises(Diagnostic):
        steps(node_of(fields, (), total), ([((large,), 0, 5, 2)], MAX))
    values = [Decimal("12345678901234567890123456.78"), Decimal("0.01"), Decimal("0.02")]
    rows = [((v,), 0, 5, 1) for v in values]
    assert steps(node_of(fields, (), average), (rows, MAX)) == [
        [(Decimal("4115226300411522630041152.270000"), 0, 5, 1)]
    ]
    halves = [((Decimal("0.01"),), 0, 1, 1), ((Decimal("0.00"),), 0, 1, 1)]
    rounded = Aggregation("AVG", (0,), decimal(38, 2), "a")
    assert steps(node_of(fields, (), rounded), (halves, MAX)) == [[(Decimal("0.01"), 0, 1, 1)]]


def test_what_is_not_finite_or_huge_leaves_no_trace() -> None:
    fields = (Field("v", DOUBLE),)
    total, spread = Aggregation("SUM", (0,), DOUBLE, "s"), Aggregation("VAR_POP", (0,), DOUBLE, "v")
    rows = [((0.1,), 0, 50, 1), ((0.3,), 0, 50, 1)]
    for i, v in enumerate([math.inf, -math.inf, NAN, 1.7e308, 1.7e308, -1.7e308]):
        rows.append(((v,), 5 + i, 20, 1))
    (out,) = steps(node_of(fields, (), total, spread), (rows, MAX))
    kept = [r for r in out if r[2] < 5 or r[2] >= 20]
    assert [r[0] for r in kept] == [0.1 + 0.3, 0.1 + 0.3]
    assert all(math.isclose(r[1], 0.01, rel_tol=1e-15) for r in kept)
    up = [((1.7e308,), 0, 9, 1), ((1.7e308,), 3, 6, 1)]
    (out,) = steps(node_of(fields, (), total), (up, MAX))
    assert out == [(1.7e308, 0, 3, 1), (1.7e308, 6, 9, 1), (math.inf, 3, 6, 1)]


def test_a_long_run_of_floats_ends_where_it_began() -> None:
    fields = (Field("v", DOUBLE),)
    total = Aggregation("SUM", (0,), DOUBLE, "s")
    rows = [((0.1,), 0, MAX, 1)] + [((1e9 / (i + 3),), i, i + 7, 1) for i in range(5000)]
    (out,) = steps(node_of(fields, (), total), (rows, MAX))
    assert [r for r in out if r[2] == MAX] == [(0.1, 5006, MAX, 1)]


def test_keys_far_apart_and_null() -> None:
    fields = (Field("k", BIGINT), Field("v", BIGINT))
    keys = [2**63 - 1, -(2**63), 0, None, *(i * 10**12 for i in range(1, 5000))]
    rows = [((k, i), 0, MAX, 1) for i, k in enumerate(keys)]
    again = [((k, 10), 3, 4, 1) for k in reversed(keys)]
    total = Aggregation("SUM", (1,), BIGINT, "s")
    first, second = steps(node_of(fields, (0,), total), (rows, 3), (again, 10))
    assert sorted(first, key=repr) == sorted(((k, i, 0, MAX, 1) for i, k in enumerate(keys)), key=repr)
    wanted = [
        row
        for i, k in enumerate(keys)
        for row in ((k, i, 3, MAX, -1), (k, i + 10, 3, 4, 1), (k, i, 4, MAX, 1))
    ]
    assert second == sorted(wanted, key=repr)


@pytest.mark.parametrize("edge", [2**63 - 3, -(2**63)])
def test_keys_at_the_ends_of_64_bits(edge: int) -> None:
    fields = (Field("k", BIGINT), Field("v", BIGINT))
    total = Aggregation("SUM", (1,), BIGINT, "s")
    first = [((k, 1), 0, MAX, 1) for k in (edge, edge + 2, -edge - 1)]
    _, out = steps(
        node_of(fields, (0,), total), (first, 3), ([((edge + i, 5), 3, MAX, 1) for i in range(3)], 9)
    )
    assert out == sorted(
        [
            (edge, 1, 3, MAX, -1),
            (edge, 6, 3, MAX, 1),
            (edge + 1, 5, 3, MAX, 1),
            (edge + 2, 1, 3, MAX, -1),
            (edge + 2, 6, 3, MAX, 1),
        ],
        key=repr,
    )


@pytest.mark.parametrize(
    ("type_", "low", "high"),
    [
        (DATE, date(1969, 12, 31), date(2020, 2, 29)),
        (TIMESTAMP, datetime(1969, 1, 1, tzinfo=UTC), datetime(2030, 1, 1, 0, 0, 0, 1, tzinfo=UTC)),
        (INTERVAL, timedelta(microseconds=-1), timedelta(days=400)),
        (BINARY, b"\x00", b"\xff"),
        (Type("STRUCT", (("x", INT), ("y", STRING))), (1, "b"), (2, "a")),
    ],
)
def test_extremes_and_counts_of_other_types(type_: Type, low: Any, high: Any) -> None:
    fields = (Field("v", type_),)
    aggregations = (
        Aggregation("MIN", (0,), type_, "min"),
        Aggregation("MAX", (0,), type_, "max"),
        Aggregation("COUNT", (0,), BIGINT, "c", distinct=True),
        Aggregation("ARG_MIN", (0, 0), type_, "arg"),
    )
    node = node_of(fields, (), *aggregations)
    rows = [((low,), 0, 5, 1), ((high,), 2, 9, 2), ((None,), 3, 12, 1)]
    chunks = run(AggregateKernel(node), rows, [3], True, fields)
    answer = {t: bag_at(signed_rows(chunks, node.schema), t) for t in (1, 2, 8, 9)}
    assert answer == {
        1: [(low, low, 1, low)],
        2: [(low, high, 2, low)],
        8: [(high, high, 1, high)],
        9: [(None, None, 0, None)],
    }


def test_the_log_grows_by_what_changed() -> None:
    kernel = AggregateKernel(Aggregate(SCAN, (K,), CASES["integers"]))
    rows = [((i, 1, None, None, None, None, None, None), 0, 100 + i, 1) for i in range(500)]
    state, _ = kernel.step(
        kernel.initial(), [from_rows([r[0] for r in rows], SCHEMA, [r[1:] for r in rows])], 50
    )
    assert (state["groups"].delta.height, state["live"].delta.height) == (500, 500)
    state, out = kernel.step(state, [from_rows([], SCHEMA, [])], 103)
    assert out.height == 3
    assert (state["groups"].delta.height, state["live"].delta.height) == (3, 0)
    log = KernelLog(kernel)
    log.base(state)
    assert (log.restored(103)["groups"].rows.height, state["live"].rows.height) == (497, 497)


def test_a_function_that_fails_is_named() -> None:
    def refuse(value: object) -> object:
        raise ValueError(f"no {value}")

    broken = AggregateFunction("BROKEN", refuse, lambda a, b: a, lambda p: p, BIGINT)
    kernel = AggregateKernel(
        node_of(NUMBER, (), Aggregation("BROKEN", (0,), BIGINT, "b")), {"BROKEN": broken}
    )
    with pytest.raises(Diagnostic, match=r"BROKEN\.init\(7\) raised ValueError: no 7"):
        kernel.step(kernel.initial(), [from_rows([(7,)], NUMBER, [(0, 5, 1)])], MAX)
