"""TopKKernel against sorting each snapshot in plain Python."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from functools import cmp_to_key
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests import ladders
from tests.state_log import KernelLog
from tidegate.algebra.operators import Scan, SortKey, TopK
from tidegate.kernels.rows import from_rows, to_rows
from tidegate.kernels.topk import TopKKernel
from tidegate.time import MAX, MIN
from tidegate.types import BIGINT, DOUBLE, NAN, STRING, Field, Row

SCHEMA = (Field("p", STRING), Field("x", BIGINT), Field("y", DOUBLE))
SCAN = Scan("S", SCHEMA)
VALUES = st.tuples(
    st.sampled_from(["a", "é", None]),
    st.sampled_from([None, -1, 0, 5, 5]),
    st.sampled_from([None, 0.5, NAN, -math.inf]),
)
BIRTHS = st.lists(
    st.tuples(
        VALUES,
        st.sampled_from(["interval", "change", "cut", "lasting"]),
        st.integers(0, 25),
        st.integers(1, 9),
        st.integers(1, 3),
    ),
    max_size=20,
)
PLANS = {
    "least": TopK(SCAN, (SortKey(1),), 2),
    "greatest": TopK(SCAN, (SortKey(1, descending=True, nulls_first=False),), 3),
    "nulls first among descending": TopK(SCAN, (SortKey(2, descending=True), SortKey(0)), 2),
    "nulls last among ascending": TopK(SCAN, (SortKey(2, nulls_first=False),), 4, offset=1),
    "offset": TopK(SCAN, (SortKey(1),), 3, offset=2),
    "partitions": TopK(SCAN, (SortKey(1, descending=True),), 1, partition_by=(0,)),
    "two partition columns": TopK(SCAN, (SortKey(2),), 2, offset=1, partition_by=(0, 1)),
    "no keys": TopK(SCAN, (), 2),
    "nothing": TopK(SCAN, (SortKey(1),), 0),
    "everything": TopK(SCAN, (SortKey(1),), 1000),
}

Rows = list[tuple[Row, int, int, int]]


def physical(births: Sequence[Any]) -> Rows:
    rows: Rows = []
    for values, form, ts, length, n in births:
        if form == "interval":
            rows.append((values, ts, ts + length, n))
        elif form == "change":
            rows += [(values, ts, MAX, n), (values, ts + length, MAX, -n)]
        elif form == "cut":
            rows += [(values, ts, ts + length + 4, n), (values, ts + length, ts + length + 4, -n)]
        else:
            rows.append((values, ts, MAX, n))
    return rows


def bag_at(rows: Rows, t: int) -> Counter[Row]:
    bag: Counter[Row] = Counter()
    for values, ts, te, n in rows:
        if ts <= t < te:
            bag[values] += n
    assert all(n >= 0 for n in bag.values())
    return +bag


def compare(x: Any, y: Any, nulls_first: bool = True, descending: bool = False) -> int:
    if x is None or y is None:
        order = (x is not None) - (y is not None)
        return order if nulls_first else -order
    if isinstance(x, float):
        x, y = (math.isnan(x), 0.0 if math.isnan(x) else x), (math.isnan(y), 0.0 if math.isnan(y) else y)
    if isinstance(x, str):
        x, y = x.encode(), y.encode()
    order = int(x > y) - int(x < y)
    return -order if descending else order


def first_rows(node: TopK, bag: Counter[Row]) -> Counter[Row]:
    """By definition: sort each partition's rows, cut."""

    def order(a: Row, b: Row) -> int:
        for key in node.keys:
            c = compare(a[key.column], b[key.column], key.nulls_first, key.descending)
            if c:
                return c
        return next((c for x, y in zip(a, b, strict=True) if (c := compare(x, y))), 0)

    partitions: dict[Row, list[Row]] = {}
    for row in bag.elements():
        partitions.setdefault(tuple(row[i] for i in node.partition_by), []).append(row)
    result: Counter[Row] = Counter()
    for rows in partitions.values():
        result.update(sorted(rows, key=cmp_to_key(order))[node.offset : node.offset + node.limit])
    return result


@pytest.mark.parametrize("plan", PLANS)
@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(
    births=BIRTHS, cuts=st.lists(st.integers(0, 40), max_size=5), restored=st.booleans(), asked=st.booleans()
)
def test_each_snapshot_shows_the_first_rows(
    plan: str, births: Any, cuts: list[int], restored: bool, asked: bool
) -> None:
    with ladders.asked(asked):
        check(PLANS[plan], physical(births), cuts, restored)


@pytest.mark.parametrize("plan", [p for p in PLANS if p not in ("no keys", "nothing")])
@pytest.mark.parametrize("colliding", [False, True], ids=["", "hashes collide"])
def test_few_changes_of_many_rows(plan: str, colliding: bool) -> None:
    dice = random.Random(plan)
    births = []
    for ts in range(120):
        values = (
            dice.choice(["a", "é", None]),
            dice.randint(0, 60),
            dice.choice([*map(float, range(40)), NAN, -math.inf]),
        )
        births.append((values, dice.choice(["interval", "change", "lasting"]), ts, dice.randint(20, 90), 1))
    with ladders.asked(True, colliding):
        check(PLANS[plan], physical(births), range(0, 220, 5), restored=False)


def check(node: TopK, rows: Rows, cuts: Sequence[int], restored: bool) -> None:
    kernel = TopKKernel(node)
    state = kernel.initial()
    log = KernelLog(kernel)
    results: Rows = []
    low = MIN
    for upto in [*sorted(set(cuts)), MAX]:
        part = [r for r in rows if low <= r[1] < upto]
        state, out = kernel.step(
            state, [from_rows([r[0] for r in part], SCHEMA, [r[1:] for r in part])], upto
        )
        results += [
            (values, *v)
            for values, v in zip(to_rows(out, SCHEMA), out.select("ts", "te", "n").rows(), strict=True)
        ]
        assert out.filter(
            (pl.col("ts") < low) | (pl.col("ts") >= upto) | (pl.col("ts") >= pl.col("te"))
        ).is_empty()
        log.append(state)
        if restored and upto < MAX:
            state = log.restored(upto)
        low = upto
    for t in sorted({t for r in (*rows, *results) for t in r[1:3]} - {MAX}):
        assert bag_at(results, t) == first_rows(kernel.node, bag_at(rows, t)), t


def test_only_changes_of_what_is_visible_are_emitted() -> None:
    kernel = TopKKernel(TopK(SCAN, (SortKey(1),), 1))
    state = kernel.initial()
    state, out = kernel.step(state, [from_rows([("a", 1, None)], SCHEMA, [(0, MAX, 1)])], 10)
    assert out.rows() == [("a", 1, None, 0, MAX, 1)]
    later = from_rows([("b", x, None) for x in range(2, 50)], SCHEMA, [(10, MAX, 1)] * 48)
    state, out = kernel.step(state, [later], 20)
    assert out.is_empty()
    state, out = kernel.step(state, [from_rows([("a", 1, None)], SCHEMA, [(25, MAX, -1)])], 30)
    assert sorted(out.rows()) == [("a", 1, None, 25, MAX, -1), ("b", 2, None, 25, MAX, 1)]
