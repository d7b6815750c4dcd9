"""The plans of the 22 queries: no product where the text has an equality, and conditions on one table at its source, before any exchange."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from sqlglot import exp

from tests.tpch.world import LASTING, QUERIES, WINDOWED, bound, catalog, shuffled
from tidegate.algebra import operators as op
from tidegate.algebra.printing import tree
from tidegate.algebra.properties import properties
from tidegate.kernels.join import split_predicate
from tidegate.optimizer.driver import optimize
from tidegate.physical.plan import Birth, SourceRows
from tidegate.physical.planning import plan_query
from tidegate.scalars.expressions import conjuncts, index_of, references


def optimized(name: str, shape: str = WINDOWED) -> op.Node:
    return optimize(bound(name, shape, catalog(shape)).plan)[0]


def products(plan: op.Node) -> list[op.Join]:
    """Joins whose rows do not meet by equal keys, unless one side has one row at the most."""
    joins = [n for n in plan.walk() if isinstance(n, op.Join) and not split_predicate(n, {})[0]]
    return [j for j in joins if not any(properties(side).has_key(()) for side in j.inputs)]


def source_of(plan: op.Node, column: int) -> tuple[int, ...] | None:
    """The way to the scan that a column comes from, through what a condition on it could pass; None if it is made on the way."""
    if isinstance(plan, op.Scan):
        return ()
    side, below = 0, None
    if isinstance(plan, op.Filter | op.Window | op.Distinct):
        below = column
    elif isinstance(plan, op.Project):
        below = index_of(plan.expressions[column])
    elif isinstance(plan, op.Join):
        width = len(plan.left.schema)
        side = int(column >= width)
        passes = plan.kind == "inner" or (side == 0 and plan.kind in ("left", "semi", "anti"))
        below = column - side * width if passes else None
    elif isinstance(plan, op.Aggregate) and column < len(plan.keys):
        below = plan.keys[column]
    rest = None if below is None else source_of(plan.inputs[side], below)
    return None if rest is None else (side, *rest)


def is_at_source(plan: op.Node) -> bool:
    """Whether there is nothing but projections between a filter and the scan."""
    while isinstance(plan, op.Filter | op.Project):
        plan = plan.input
    return isinstance(plan, op.Scan)


def above_sources(plan: op.Node) -> Iterator[exp.Expression]:
    """Conditions that read one scan alone, and are asked above it."""
    for node in plan.walk():
        if isinstance(node, op.Filter) and not is_at_source(node.input):
            given: op.Node = node.input
        elif isinstance(node, op.Join) and node.kind in ("inner", "semi"):
            given = op.Join(node.left, node.right, "inner")
        else:
            continue
        for condition in conjuncts(node.predicate):
            scans = {source_of(given, i) for i in references(condition)}
            if None not in scans and len(scans) == 1:
                yield condition


@pytest.mark.parametrize("shape", [WINDOWED, LASTING])
@pytest.mark.parametrize("name", QUERIES)
def test_no_products_and_filters_at_the_sources(name: str, shape: str) -> None:
    plan = optimized(name, shape)
    assert not products(plan), tree(plan)
    assert not [*above_sources(plan)], tree(plan)
    assert optimize(plan) == (plan, ()), "a second time there is nothing to do"


FILTERED = {
    "q01": 1, "q02": 2, "q03": 3, "q04": 2, "q05": 2, "q06": 1, "q07": 2, "q08": 3, "q09": 1, "q10": 2, "q11": 1, "q12": 1, "q13": 1, "q14": 1,
    "q15": 1, "q16": 2, "q17": 1, "q18": 0, "q19": 2, "q20": 3, "q21": 3, "q22": 2,
}  # fmt: skip
"""How many tables a text has conditions on, those that follow from an OR included; equal ones are read once."""


@pytest.mark.parametrize("name", QUERIES)
def test_conditions_run_before_the_first_exchange(name: str) -> None:
    plan = plan_query(name, optimized(name), {}, Birth())
    origins = [i.origin for i in plan.inputs.values() if isinstance(i.origin, SourceRows)]
    filtered = {(rows.name, rows.predicates) for rows in origins if rows.predicates}
    assert len(filtered) == FILTERED[name]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", QUERIES)
def test_no_products_whatever_the_order_of_tables(name: str, seed: int) -> None:
    plan, _ = optimize(shuffled(name, random.Random(seed)))
    assert not products(plan), tree(plan)
