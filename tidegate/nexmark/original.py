"""The auction that NEXMark began with: OpenAuction, ClosedAuction, Bid, Person, Item and the table Category, from a seed.

The first three are those of PIPES' running example (`tidegate.auction`); persons register before they sell, items come with their
auction.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tidegate import auction
from tidegate.nexmark.generator import CITIES, FIRST_NAMES, LAST_NAMES, STATES

CATEGORIES = range(10, 20)


def generate(bids: int, seed: int = 1) -> dict[str, pa.Table]:
    """The six relations by name, each stream in order of time; the same seed gives the same rows.

    >>> {name: table.num_rows for name, table in generate(200).items()}
    {'OpenAuction': 10, 'ClosedAuction': 10, 'Bid': 200, 'Person': 21, 'Item': 10, 'Category': 10}
    """
    three = auction.generate(bids, seed)
    dice = np.random.default_rng((seed, 1))
    opened = three.open_auction
    items = opened.num_rows
    persons = max(bids // 10, items // 3) + 1
    times = opened["timestamp"].cast(pa.int64()).to_numpy()
    first = np.full(persons + 1, np.iinfo(np.int64).max)
    np.minimum.at(first, opened["sellerID"].to_numpy(), times)
    # sellers register about half a day before their first auction, the others at any time
    before = (dice.exponential(12 * auction.HOUR, persons + 1)).astype(np.int64)
    anytime = dice.integers(times.min(), times.max() + 1, persons + 1)
    registered = np.where(first < np.iinfo(np.int64).max, first - before, anytime)[1:]
    order = np.argsort(registered, kind="stable")
    names = [f"{a} {b}" for a in FIRST_NAMES for b in LAST_NAMES]
    person = {
        "id": pa.array(np.arange(1, persons + 1, dtype=np.int32)[order]),
        "name": pa.array(names).take(pa.array(dice.integers(0, len(names), persons))),
        "city": pa.array(CITIES).take(pa.array(dice.integers(0, len(CITIES), persons))),
        "state": pa.array(STATES).take(pa.array(dice.integers(0, len(STATES), persons))),
        "timestamp": pa.array(registered[order]).cast(pa.timestamp("us", tz="UTC")),
    }
    item = {
        "id": opened["itemID"],
        "name": pa.array([f"item {i}" for i in opened["itemID"].to_pylist()]),
        "categoryID": pa.array(dice.integers(CATEGORIES[0], CATEGORIES[-1] + 1, items).astype(np.int32)),
        "timestamp": opened["timestamp"],
    }
    category = {
        "id": pa.array(list(CATEGORIES), pa.int32()),
        "name": pa.array([f"category {c}" for c in CATEGORIES]),
    }
    return {
        **three.tables,
        "Person": pa.table(person),
        "Item": pa.table(item),
        "Category": pa.table(category),
    }
