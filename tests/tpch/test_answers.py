"""Every TPC-H query, as written and as optimized, answers what DuckDB answers over the rows that are valid at an instant."""

from __future__ import annotations

import random
from functools import cache

import pytest

from tests.fuzz.players import play
from tests.tpch.comparing import difference
from tests.tpch.rows import SCHEMAS, Made, make
from tests.tpch.world import (
    INSTANTS,
    LASTING,
    QUERIES,
    WINDOWED,
    Judge,
    bound,
    catalog,
    chunks,
    shuffled,
    tick,
)
from tidegate.algebra import operators as op
from tidegate.kernels.rows import Frame
from tidegate.optimizer.driver import optimize
from tidegate.reference.snapshots import snapshot
from tidegate.time import MAX

KEYS = {
    "region": ["r_regionkey"], "nation": ["n_nationkey"], "supplier": ["s_suppkey"], "part": ["p_partkey"], "partsupp": ["ps_partkey", "ps_suppkey"],
    "customer": ["c_custkey"], "orders": ["o_orderkey"], "lineitem": ["l_orderkey", "l_linenumber"],
}  # fmt: skip


def test_there_are_all_of_them() -> None:
    assert list(QUERIES) == [f"q{i:02}" for i in range(1, 23)]


def test_rows_are_the_same_again_and_have_keys_at_every_instant(made: Made) -> None:
    again = make(100, seed=3)
    assert all(f.equals(again.frames[n]) for n, f in make(100, seed=3).frames.items())
    assert not make(100, seed=4).frames["orders"].equals(again.frames["orders"])
    for name, instant in [(n, t) for n in SCHEMAS for t in INSTANTS]:
        shown = made.shown(name, instant)
        assert len(shown) == shown.select(KEYS[name]).n_unique() > 0
        assert [c.split()[0] for c in SCHEMAS[name].split(", ")] == shown.columns


@cache
def _chunks(shape: str, orders: int) -> dict[str, Frame]:
    return chunks(make(orders), shape)


def check(name: str, shape: str, plan: op.Node, made: Made, judge: Judge) -> None:
    """In two epochs, at instants of both, and not only where there is nothing to be seen."""
    rows = _chunks(shape, len(made.frames["orders"]))
    scans = {scan.leaf: rows[scan.name] for scan in plan.walk() if isinstance(scan, op.Scan)}
    answer = play(plan, scans, [tick(INSTANTS[1]) + 1, MAX])
    seen = 0
    for instant in INSTANTS:
        expected = judge.at(name, instant)
        seen += sum(any(v is not None for v in row) for row in expected)
        assert difference(snapshot(answer, tick(instant)).elements(), expected) is None, instant
    assert seen > 0


@pytest.mark.parametrize("shape", [WINDOWED, LASTING])
@pytest.mark.parametrize("name", QUERIES)
def test_kernels(name: str, shape: str, made: Made, judge: Judge) -> None:
    check(name, shape, optimize(bound(name, shape, catalog(shape)).plan)[0], made, judge)


@pytest.mark.parametrize("name", QUERIES)
def test_kernels_without_rules(name: str, made: Made, judge: Judge) -> None:
    check(name, WINDOWED, bound(name, WINDOWED, catalog(WINDOWED)).plan, made, judge)


@pytest.mark.parametrize("name", ["q02", "q05", "q07", "q08", "q09"])
def test_kernels_with_joins_in_another_order(name: str, made: Made, judge: Judge) -> None:
    check(name, WINDOWED, optimize(shuffled(name, random.Random(5)))[0], made, judge)
