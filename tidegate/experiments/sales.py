"""SalesStream of Nile's experiments (section 7.1): synthetic sales with exponential gaps, and the two queries over them."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from tidegate.algebra.operators import Node
from tidegate.connectors import registry
from tidegate.language.binder import bind
from tidegate.language.dialect import parse
from tidegate.language.statements import define
from tidegate.optimizer.driver import optimize
from tidegate.reference.snapshots import Arrivals, Source, Validity
from tidegate.time import MAX, MIN
from tidegate.types import Row

SECOND = 1_000_000
"""Ticks of a second."""

ITEMS = 1_200

_STREAM = "CREATE STREAM {name}(StoreID BIGINT, ItemID BIGINT, Price BIGINT, Quantity BIGINT, t BIGINT) SOURCE memory('{name}') ORDERED BY t;"
_SCRIPT = (
    "".join(_STREAM.format(name=name) for name in ("SalesStream", "S1", "S2"))
    + "CREATE TABLE FavoriteItems(ItemID BIGINT) FROM memory('FavoriteItems');"
)

Sales = list[tuple[Row, int]]


@dataclass(frozen=True)
class Workload:
    """A query and the streams that it reads."""

    plan: Node
    sources: Mapping[str, Source]


@lru_cache
def plan_of(query: str) -> Node:
    """A query over the sales, bound and optimized."""
    known = registry.catalog()
    for statement in parse(_SCRIPT):
        known = define(statement, known, _SCRIPT)
    return optimize(bind(parse(query)[0], known, query).plan)[0]


def arrivals(dice: random.Random, rate: float, seconds: float) -> list[int]:
    """Instants with exponential gaps.

    >>> round(len(arrivals(random.Random(1), 50, 100)) / 1000)
    5
    """
    found: list[int] = []
    now = 0.0
    while True:
        now += dice.expovariate(rate)
        if now >= seconds:
            return found
        found.append(int(now * SECOND))


def favorites(
    selectivity: float,
    clustered: bool,
    rate: float = 50,
    window: int = 30,
    seconds: float = 120,
    seed: int = 1,
) -> Workload:
    """Q1: how many favorite items were sold in the window. Sales that qualify are scattered, or stand together at one end of every two windows."""
    dice, wanted = random.Random(seed), round(selectivity * ITEMS)
    rows: Sales = []
    for t in arrivals(dice, rate, seconds):
        item = dice.randrange(ITEMS)
        if clustered:
            qualifies = t % (2 * window * SECOND) < selectivity * 2 * window * SECOND
            item = dice.randrange(wanted) if qualifies else dice.randrange(wanted, ITEMS + 1)
        rows.append(((dice.randrange(100), item, dice.randrange(1_000), 1, t), t))
    query = f"SELECT COUNT(*) AS sold FROM SalesStream WINDOW(RANGE {window * SECOND}) S, FavoriteItems F WHERE S.ItemID = F.ItemID"
    table = Validity([((item,), MIN, MAX, 1) for item in range(wanted)])
    return Workload(plan_of(query), {"SalesStream": Arrivals(rows), "FavoriteItems": table})


def _q2(window: float) -> Node:
    size = int(window * SECOND)
    return plan_of(
        f"SELECT MAX(B.Price) AS top FROM S1 WINDOW(RANGE {size}) A, S2 WINDOW(RANGE {size}) B WHERE A.StoreID = B.StoreID"
    )


def multiplied(
    multiplicity: int, rate: float = 50, window: float = 2, seconds: float = 60, seed: int = 1
) -> Workload:
    """Q2 with as many pairs whatever the multiplicity: a sale of S1 in so many meets so many of S2, all others none."""
    dice = random.Random(seed)
    slot = multiplicity / rate * SECOND
    first: Sales = []
    taken: set[int] = set()
    for t in arrivals(dice, rate, seconds):
        store = int(t // slot)
        meets = store not in taken
        taken.add(store)
        first.append(((store if meets else -1 - t, 0, dice.randrange(1_000), 1, t), t))
    second: Sales = [
        ((int(t // slot), 0, dice.randrange(1_000), 1, t), t) for t in arrivals(dice, rate, seconds)
    ]
    return Workload(_q2(window), {"S1": Arrivals(first), "S2": Arrivals(second)})


def stores(
    selectivity: float, rate: float, window: float = 2, seconds: float = 30, seed: int = 1
) -> Workload:
    """Q2 where a pair of sales meets with a given probability."""
    dice = random.Random(seed)
    many = round(1 / selectivity) if selectivity else 1

    def sales(offset: int) -> Sales:
        times = arrivals(dice, rate, seconds)
        return [((dice.randrange(many) + offset, 0, dice.randrange(1_000), 1, t), t) for t in times]

    return Workload(
        _q2(window), {"S1": Arrivals(sales(0)), "S2": Arrivals(sales(0 if selectivity else many))}
    )
