"""Rows in TPC-H's schema, as streams: orders and their items as they come in, everything else with the time in which it is true.

Values that the 22 queries look for are more frequent than in TPC-H, so that every query has an answer over few rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

import numpy as np
import polars as pl

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
HOURS = 4
"""Orders come in over four hours; the time at which a row comes says nothing about the dates in it."""
WINDOW = timedelta(hours=2)

REGIONS = ("AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST")
NATIONS = (
    ("ALGERIA", 0), ("ARGENTINA", 1), ("BRAZIL", 1), ("CANADA", 1), ("EGYPT", 4), ("ETHIOPIA", 0), ("FRANCE", 3), ("GERMANY", 3),
    ("INDIA", 2), ("INDONESIA", 2), ("IRAN", 4), ("IRAQ", 4), ("JAPAN", 2), ("JORDAN", 4), ("KENYA", 0), ("MOROCCO", 0),
    ("MOZAMBIQUE", 0), ("PERU", 1), ("CHINA", 2), ("ROMANIA", 3), ("SAUDI ARABIA", 4), ("VIETNAM", 2), ("RUSSIA", 3),
    ("UNITED KINGDOM", 3), ("UNITED STATES", 1),
)  # fmt: skip
SOUGHT_NATIONS = (2, 3, 6, 7, 8, 20)
COLOURS = ("almond", "azure", "beige", "blue", "coral", "forest", "ghost", "green", "ivory", "khaki", "lime", "olive", "plum", "rose", "snow")  # fmt: skip
FINISHES = ("ANODIZED", "BURNISHED", "PLATED", "POLISHED", "BRUSHED")
METALS = ("TIN", "NICKEL", "BRASS", "STEEL", "COPPER")
CLASSES = ("STANDARD", "SMALL", "MEDIUM", "LARGE", "ECONOMY", "PROMO")
CONTAINERS = tuple(f"{size} {form}" for size in ("SM", "MED", "JUMBO", "WRAP", "LG") for form in ("CASE", "BOX", "BAG", "JAR", "PKG", "PACK", "CAN", "DRUM"))  # fmt: skip
SEGMENTS = ("AUTOMOBILE", "BUILDING", "FURNITURE", "MACHINERY", "HOUSEHOLD")
PRIORITIES = ("1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW")
SHIPPING = ("REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB", "AIR REG")
INSTRUCTIONS = ("DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN")
WORDS = ("quickly", "final", "deposits", "sleep", "above", "the", "furious", "ideas", "pending", "accounts")
EARLIEST, LATEST, TODAY = date(1992, 1, 1), date(1998, 8, 2), date(1995, 6, 17)

SCHEMAS = {
    "region": "r_regionkey INT NOT NULL, r_name STRING NOT NULL, r_comment STRING",
    "nation": "n_nationkey INT NOT NULL, n_name STRING NOT NULL, n_regionkey INT NOT NULL, n_comment STRING",
    "supplier": "s_suppkey INT NOT NULL, s_name STRING NOT NULL, s_address STRING NOT NULL, s_nationkey INT NOT NULL, "
    "s_phone STRING NOT NULL, s_acctbal DECIMAL(15,2) NOT NULL, s_comment STRING NOT NULL",
    "part": "p_partkey INT NOT NULL, p_name STRING NOT NULL, p_mfgr STRING NOT NULL, p_brand STRING NOT NULL, p_type STRING NOT NULL, "
    "p_size INT NOT NULL, p_container STRING NOT NULL, p_retailprice DECIMAL(15,2) NOT NULL, p_comment STRING NOT NULL",
    "partsupp": "ps_partkey INT NOT NULL, ps_suppkey INT NOT NULL, ps_availqty INT NOT NULL, ps_supplycost DECIMAL(15,2) NOT NULL, "
    "ps_comment STRING NOT NULL",
    "customer": "c_custkey INT NOT NULL, c_name STRING NOT NULL, c_address STRING NOT NULL, c_nationkey INT NOT NULL, "
    "c_phone STRING NOT NULL, c_acctbal DECIMAL(15,2) NOT NULL, c_mktsegment STRING NOT NULL, c_comment STRING NOT NULL",
    "orders": "o_orderkey INT NOT NULL, o_custkey INT NOT NULL, o_orderstatus STRING NOT NULL, o_totalprice DECIMAL(15,2) NOT NULL, "
    "o_orderdate DATE NOT NULL, o_orderpriority STRING NOT NULL, o_clerk STRING NOT NULL, o_shippriority INT NOT NULL, "
    "o_comment STRING NOT NULL",
    "lineitem": "l_orderkey INT NOT NULL, l_partkey INT NOT NULL, l_suppkey INT NOT NULL, l_linenumber INT NOT NULL, "
    "l_quantity DECIMAL(15,2) NOT NULL, l_extendedprice DECIMAL(15,2) NOT NULL, l_discount DECIMAL(15,2) NOT NULL, "
    "l_tax DECIMAL(15,2) NOT NULL, l_returnflag STRING NOT NULL, l_linestatus STRING NOT NULL, l_shipdate DATE NOT NULL, "
    "l_commitdate DATE NOT NULL, l_receiptdate DATE NOT NULL, l_shipinstruct STRING NOT NULL, l_shipmode STRING NOT NULL, "
    "l_comment STRING NOT NULL",
}
TABLES, STREAMS = ("region", "nation"), ("orders", "lineitem")


@dataclass(frozen=True)
class Made:
    """The rows by name: tables as they are, streams with `placed`, everything else with `since` and `until` (NULL: no end)."""

    frames: dict[str, pl.DataFrame]

    def shown(self, name: str, instant: datetime) -> pl.DataFrame:
        """The rows that are valid at an instant, without their time."""
        rows = self.frames[name]
        if name in TABLES:
            return rows
        if name in STREAMS:
            fresh = (pl.col("placed") <= instant) & (pl.col("placed") > instant - WINDOW)
            return rows.filter(fresh).drop("placed")
        lasting = (pl.col("since") <= instant) & (pl.col("until").is_null() | (pl.col("until") > instant))
        return rows.filter(lasting).drop("since", "until")

    def with_validity(self) -> Made:
        """The same with orders and items valid from when they were placed, as long as the window shows them."""
        until = (pl.col("placed") + WINDOW).alias("until")
        given = {n: self.frames[n].with_columns(until).rename({"placed": "since"}) for n in STREAMS}
        return Made(self.frames | given)


def make(orders: int, seed: int = 1) -> Made:
    """About four items to an order; a part to 7, a customer to 10, a supplier to 150 orders, as in TPC-H."""
    dice = _Dice(np.random.default_rng(seed))
    sizes = {
        "supplier": max(40, orders // 150),
        "part": max(120, orders * 2 // 15),
        "customer": max(60, orders // 10),
    }
    region = pl.DataFrame({"r_regionkey": range(5), "r_name": REGIONS, "r_comment": dice.comments(5)})
    nation = pl.DataFrame({
        "n_nationkey": range(25), "n_name": [n for n, _ in NATIONS], "n_regionkey": [r for _, r in NATIONS], "n_comment": dice.comments(25),
    })  # fmt: skip
    supplier, part = _suppliers(dice, sizes["supplier"]), _parts(dice, sizes["part"])
    partsupp = _offers(dice, sizes["part"], sizes["supplier"])
    order, items = _orders(dice, orders, sizes["customer"], part, partsupp)
    lasting = {
        "supplier": dice.versions(supplier, "s_acctbal"), "part": dice.versions(part, "p_retailprice"),
        "partsupp": dice.versions(partsupp, "ps_supplycost"), "customer": dice.versions(_customers(dice, sizes["customer"]), "c_acctbal"),
    }  # fmt: skip
    frames = {"region": region, "nation": nation, **lasting, "orders": order, "lineitem": items}
    return Made({name: _typed(name, frame) for name, frame in frames.items()})


class _Dice:
    """What the tables have in common."""

    def __init__(self, random: np.random.Generator) -> None:
        self.random = random

    def some(
        self, values: Sequence[str], n: int, sought: Sequence[str] = (), share: float = 0.3
    ) -> np.ndarray:
        """Any of the values, those that are sought more often."""
        chosen = self.random.choice(np.array(values, dtype=object), n)
        return (
            np.where(
                self.random.random(n) < share, self.random.choice(np.array(sought, dtype=object), n), chosen
            )
            if sought
            else chosen
        )

    def comments(self, n: int, phrase: str = "", share: float = 0.1) -> list[str]:
        words = self.random.choice(np.array(WORDS, dtype=object), (n, 4))
        said = self.random.random(n) < share
        return [
            " ".join([*w[:2], *([phrase] if phrase and s else []), *w[2:]])
            for w, s in zip(words, said, strict=True)
        ]

    def cents(self, low: int, high: int, n: int) -> np.ndarray:
        """Amounts between two, as whole cents."""
        return self.random.integers(low * 100, high * 100, n)

    def nations(self, n: int) -> np.ndarray:
        return np.where(
            self.random.random(n) < 0.5, self.random.choice(SOUGHT_NATIONS, n), self.random.integers(0, 25, n)
        )

    def phones(self, nations: np.ndarray) -> list[str]:
        """The first two digits are the nation's."""
        last = self.random.integers(1000, 9999, len(nations))
        return [f"{k + 10}-{x % 900 + 100}-{x // 10}-{x}" for k, x in zip(nations, last, strict=True)]

    def moments(self, n: int) -> np.ndarray:
        """Whole seconds of the four hours, in microseconds."""
        return int(BEGIN.timestamp() * 1e6) + self.random.integers(0, HOURS * 3600, n) * 1_000_000

    def versions(self, rows: pl.DataFrame, changing: str) -> pl.DataFrame:
        """Rows with their validity: of every five one changes its amount at some moment, and of every thirty one goes away then."""
        kind, when = self.random.integers(0, 30, len(rows)), self.moments(len(rows))
        moment = pl.lit(pl.Series(when)).cast(pl.Datetime("us", "UTC"))
        begun = rows.with_columns(
            since=pl.lit(BEGIN - timedelta(days=1)).cast(pl.Datetime("us", "UTC")),
            until=pl.when(pl.lit(pl.Series(kind <= 6))).then(moment),
        )
        changed = rows.with_columns(
            pl.col(changing) + 1, since=moment, until=pl.lit(None, pl.Datetime("us", "UTC"))
        )
        return pl.concat([begun, changed.filter(pl.lit(pl.Series((kind > 0) & (kind <= 6))))])


def _suppliers(dice: _Dice, n: int) -> pl.DataFrame:
    nations = dice.nations(n)
    return pl.DataFrame({
        "s_suppkey": np.arange(1, n + 1), "s_name": [f"Supplier#{i:09}" for i in range(1, n + 1)], "s_address": dice.comments(n), "s_nationkey": nations,
        "s_phone": dice.phones(nations), "s_acctbal": dice.cents(-999, 9999, n), "s_comment": dice.comments(n, "Customer slow Complaints"),
    })  # fmt: skip


def _customers(dice: _Dice, n: int) -> pl.DataFrame:
    nations = dice.nations(n)
    return pl.DataFrame({
        "c_custkey": np.arange(1, n + 1), "c_name": [f"Customer#{i:09}" for i in range(1, n + 1)], "c_address": dice.comments(n), "c_nationkey": nations,
        "c_phone": dice.phones(nations), "c_acctbal": dice.cents(-999, 9999, n), "c_mktsegment": dice.some(SEGMENTS, n), "c_comment": dice.comments(n),
    })  # fmt: skip


def _parts(dice: _Dice, n: int) -> pl.DataFrame:
    types = [
        " ".join(p)
        for p in zip(
            dice.some(CLASSES, n), dice.some(FINISHES, n), dice.some(METALS, n, ("BRASS",)), strict=True
        )
    ]
    sought = dice.random.random(n) < 0.15
    brands = dice.some(
        [f"Brand#{i}{k}" for i in range(1, 6) for k in range(1, 6)],
        n,
        ("Brand#12", "Brand#23", "Brand#34"),
        0.6,
    )
    maker = dice.random.integers(1, 6, n)
    return pl.DataFrame({
        "p_partkey": np.arange(1, n + 1), "p_name": [" ".join(c) for c in zip(*(dice.some(COLOURS, n, ("forest", "green"), 0.2) for _ in range(3)), strict=True)],
        "p_mfgr": [f"Manufacturer#{i}" for i in maker], "p_brand": brands,
        "p_type": np.where(sought, "ECONOMY ANODIZED STEEL", np.array(types, dtype=object)),
        "p_size": np.where(dice.random.random(n) < 0.7, dice.random.choice([3, 9, 14, 15, 15], n), dice.random.integers(1, 51, n)),
        "p_container": dice.some(CONTAINERS, n, ("SM CASE", "MED BOX", "LG PACK"), 0.7),
        "p_retailprice": dice.cents(900, 2000, n), "p_comment": dice.comments(n),
    })  # fmt: skip


def _offers(dice: _Dice, parts: int, suppliers: int) -> pl.DataFrame:
    """Four suppliers to each part."""
    part = np.repeat(np.arange(1, parts + 1), 4)
    step = np.tile(np.arange(4), parts) * (suppliers // 4)
    n = len(part)
    return pl.DataFrame({
        "ps_partkey": part, "ps_suppkey": (part + step + part // suppliers) % suppliers + 1, "ps_availqty": dice.random.integers(1, 10_000, n),
        "ps_supplycost": dice.cents(1, 1000, n), "ps_comment": dice.comments(n),
    })  # fmt: skip


def _orders(
    dice: _Dice, n: int, customers: int, part: pl.DataFrame, offers: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Orders, of which every hundredth is large, and their items, which come in up to five minutes later."""
    random = dice.random
    placed = np.sort(dice.moments(n))
    large = random.random(n) < 0.01
    counts = np.where(large, 7, random.integers(1, 8, n))
    order = np.repeat(np.arange(n), counts)
    m = len(order)
    day = random.integers(0, (LATEST - EARLIEST).days - 150, n)
    shipped = day[order] + random.integers(1, 122, m)
    received = shipped + random.integers(1, 31, m)
    today = (TODAY - EARLIEST).days
    offer = random.integers(0, len(offers), m)
    partkey = offers["ps_partkey"].to_numpy()[offer]
    quantity = np.where(large[order], random.integers(43, 51, m), random.integers(1, 51, m))
    price = quantity * part["p_retailprice"].to_numpy()[partkey - 1]
    opened = np.array(["O", "F"], dtype=object)[(shipped <= today).astype(int)]
    filled = np.bincount(order, weights=shipped <= today, minlength=n)
    returned = np.where(random.random(m) < 0.5, "R", "A")
    items = pl.DataFrame({
        "l_orderkey": order * 4 + 1, "l_partkey": partkey, "l_suppkey": offers["ps_suppkey"].to_numpy()[offer],
        "l_linenumber": np.arange(m) - np.repeat(np.cumsum(counts) - counts, counts) + 1,
        "l_quantity": quantity * 100, "l_extendedprice": price, "l_discount": random.integers(0, 11, m), "l_tax": random.integers(0, 9, m),
        "l_returnflag": np.where(received <= today, returned, "N"), "l_linestatus": opened,
        "l_shipdate": shipped, "l_commitdate": day[order] + random.integers(30, 91, m), "l_receiptdate": received,
        "l_shipinstruct": dice.some(INSTRUCTIONS, m), "l_shipmode": dice.some(SHIPPING, m), "l_comment": dice.comments(m),
        "placed": placed[order] + random.integers(0, 300, m) * 1_000_000,
    })  # fmt: skip
    status = np.where(filled == counts, "F", np.where(filled == 0, "O", "P"))
    buyer = random.integers(0, customers, n)
    orders = pl.DataFrame({
        # every third customer has no orders
        "o_orderkey": np.arange(n) * 4 + 1, "o_custkey": np.where(buyer % 3 == 2, buyer - 1, buyer) + 1, "o_orderstatus": status,
        "o_totalprice": np.bincount(order, weights=price, minlength=n).astype(np.int64), "o_orderdate": day,
        "o_orderpriority": dice.some(PRIORITIES, n), "o_clerk": [f"Clerk#{i:09}" for i in random.integers(1, 100, n)],
        "o_shippriority": np.zeros(n, dtype=np.int64), "o_comment": dice.comments(n, "special kinds of requests"), "placed": placed,
    })  # fmt: skip
    return orders, items.sort("placed", maintain_order=True)


def _typed(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    """Columns in the types that the schema says: amounts were cents, dates were days."""
    cast = []
    for column in SCHEMAS[name].replace("DECIMAL(15,2)", "DECIMAL").split(", "):
        label, kind = column.split()[:2]
        cast.append(
            {
                "INT": pl.col(label).cast(pl.Int32),
                "STRING": pl.col(label).cast(pl.String),
                "DATE": (pl.lit(EARLIEST) + pl.duration(days=pl.col(label))).cast(pl.Date).alias(label),
                "DECIMAL": pl.col(label).cast(pl.Decimal(17, 0)).cast(pl.Decimal(17, 2)) / 100,
            }[kind]
        )
    placed = [pl.col("placed").cast(pl.Datetime("us", "UTC"))] if "placed" in frame.columns else []
    return frame.with_columns(cast + placed).with_columns(pl.col(pl.Decimal).cast(pl.Decimal(15, 2)))
