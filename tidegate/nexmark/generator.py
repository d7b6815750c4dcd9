"""The NEXMark stream: event n as a function of the seed and n, whole columns at a time.

Of 50 consecutive events one is a person, three are auctions and 46 are bids. References are drawn around the newest entity, so that
some precede what they refer to; half of the bids go to one hot auction of each hundred.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.nexmark.chance import Dice, Ints, digits, fixed, letters

PERSONS, AUCTIONS, BIDS = 1, 3, 46
CYCLE = PERSONS + AUCTIONS + BIDS
FIRST_ID = 1000
"""Of persons and of auctions."""
FIRST_CATEGORY, CATEGORIES = 10, 5
ACTIVE_PERSONS, OPEN_AUCTIONS, AHEAD = 1000, 100, 10
"""How far back references reach, and how far they run ahead."""
HOT = 100
"""One id of so many is hot."""
COLD_CHANNELS = 10_000
HOT_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
CITIES = (
    "Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent", "Cheyenne",
)  # fmt: skip
FIRST_NAMES = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
LAST_NAMES = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")
SIZES = {"person": 200, "auction": 500, "bid": 100}
"""The bytes that `extra` pads a row to, on average."""
BASE_TIME = 1_436_918_400_000_000
"""2015-07-15 00:00 UTC, in microseconds."""

_TIME = pa.timestamp("us", tz="UTC")
_POOL = 1 << 14
"""So many different texts of one kind: more would only cost time."""


@dataclass(frozen=True)
class Nexmark:
    """The first `events` events of a stream with `rate` events per second of event time.

    Within groups of `disorder` events the order of arrival is not that of time (1: it is). Each table is in order of
    arrival; `arrival` is the time at which a row would arrive at this rate, `dateTime` the time it is about.

    >>> stream = Nexmark(events=100)
    >>> stream.person.num_rows, stream.auction.num_rows, stream.bid.num_rows
    (2, 6, 92)
    """

    events: int
    seed: int = 1
    rate: int = 100_000
    disorder: int = 1
    base_time: int = BASE_TIME
    first: int = 0
    """The number of the first event, so that a stream can be generated in parts."""
    columns: frozenset[str] | None = field(default=None)
    """The columns that are wanted; None: all."""

    @cached_property
    def _arrivals(self) -> Ints:
        return np.arange(self.first, self.first + self.events, dtype=np.int64)

    @cached_property
    def _numbers(self) -> Ints:
        """Which event arrives as the n-th one."""
        n, group = self._arrivals, self.disorder
        return n if group == 1 else n // group * group + 953 * n % group

    def _of(self, kind: str) -> tuple[Ints, Ints]:
        """(event number, arrival number) of the events of a kind."""
        slot = self._numbers % CYCLE
        low, high = {"person": (0, 1), "auction": (1, 4), "bid": (4, CYCLE)}[kind]
        chosen = (slot >= low) & (slot < high)
        return self._numbers[chosen], self._arrivals[chosen]

    def _time(self, numbers: Ints) -> Ints:
        """When an event happens, in whole milliseconds."""
        return self.base_time + numbers * 1_000_000 // self.rate // 1000 * 1000

    def _table(
        self, make: Mapping[str, Callable[[], pa.Array] | None], numbers: Ints, arrivals: Ints
    ) -> pa.Table:
        times = {"dateTime": self._time(numbers), "arrival": self._time(arrivals)}
        columns = {}
        for name, values in {**make, "arrival": None}.items():
            if self.columns is None or name in self.columns:
                columns[name] = pa.array(times[name], _TIME) if values is None else values()
        return pa.table(columns)

    @cached_property
    def person(self) -> pa.Table:
        """Person(id, name, emailAddress, creditCard, city, state, dateTime, extra, arrival)."""
        numbers, arrivals = self._of("person")
        dice = Dice(self.seed, numbers)
        make = {
            "id": lambda: pa.array(FIRST_ID + numbers // CYCLE),
            "name": lambda: _names().take(pa.array(dice.below("name", len(FIRST_NAMES) * len(LAST_NAMES)))),
            "emailAddress": lambda: pc.binary_join_element_wise(
                _pick(dice, "mailbox", 3, 7),
                pc.binary_join_element_wise(_pick(dice, "host", 3, 5), "com", "."),
                "@",
            ),
            "creditCard": lambda: _credit_cards(dice),
            "city": lambda: pa.array(CITIES).take(pa.array(dice.below("city", len(CITIES)))),
            "state": lambda: pa.array(STATES).take(pa.array(dice.below("state", len(STATES)))),
            "dateTime": None,
            # what a row holds besides: id, time, and texts of about these lengths
            "extra": lambda: _padding(self.seed, dice, "person", 8 + 8 + 12 + 12 + 19 + 9 + 2),
        }
        return self._table(make, numbers, arrivals)

    @cached_property
    def auction(self) -> pa.Table:
        """Auction(id, itemName, description, initialBid, reserve, dateTime, expires, seller, category, extra, arrival)."""
        numbers, arrivals = self._of("auction")
        dice = Dice(self.seed, numbers)
        opening = _prices(dice, "opening")

        def expires() -> pa.Array:
            now = self._time(numbers)
            ahead = self._time(numbers + OPEN_AUCTIONS * CYCLE // AUCTIONS) - now
            length = 1 + dice.below("length", np.maximum(ahead // 1000 * 2, 1))
            return pa.array(now + length * 1000, _TIME)

        def seller() -> pa.Array:
            last = numbers // CYCLE
            hot = dice.below("hot seller", 4) > 0
            return pa.array(FIRST_ID + np.where(hot, last // HOT * HOT, _cold_person(dice, "seller", last)))

        make = {
            "id": lambda: pa.array(FIRST_ID + _last_auction(numbers)),
            "itemName": lambda: _pick(dice, "item", 3, 20),
            "description": lambda: _pick(dice, "description", 3, 100),
            "initialBid": lambda: pa.array(opening),
            "reserve": lambda: pa.array(opening + _prices(dice, "reserve")),
            "dateTime": None,
            "expires": expires,
            "seller": seller,
            "category": lambda: pa.array(FIRST_CATEGORY + dice.below("category", CATEGORIES)),
            "extra": lambda: _padding(self.seed, dice, "auction", 8 * 7 + 12 + 52),
        }
        return self._table(make, numbers, arrivals)

    @cached_property
    def bid(self) -> pa.Table:
        """Bid(auction, bidder, price, channel, url, dateTime, extra, arrival)."""
        numbers, arrivals = self._of("bid")
        dice = Dice(self.seed, numbers)

        def auction() -> pa.Array:
            last = _last_auction(numbers)
            oldest = np.maximum(last - OPEN_AUCTIONS, 0)
            cold = oldest + dice.below("auction", last - oldest + 1 + AHEAD)
            return pa.array(FIRST_ID + np.where(dice.below("hot auction", 2) > 0, last // HOT * HOT, cold))

        def bidder() -> pa.Array:
            last = numbers // CYCLE
            hot = dice.below("hot bidder", 4) > 0
            return pa.array(
                FIRST_ID + np.where(hot, last // HOT * HOT + 1, _cold_person(dice, "bidder", last))
            )

        def channels() -> pa.Array:
            hot = dice.below("hot channel", 2) > 0
            four = COLD_CHANNELS + dice.below("channel", len(HOT_CHANNELS))
            return pa.array(np.where(hot, four, dice.below("cold channel", COLD_CHANNELS)))

        make = {
            "auction": auction,
            "bidder": bidder,
            "price": lambda: pa.array(_prices(dice, "price")),
            "channel": lambda: _channels(self.seed)[0].take(channels()),
            "url": lambda: _channels(self.seed)[1].take(channels()),
            "dateTime": None,
            "extra": lambda: _padding(self.seed, dice, "bid", 8 * 4),
        }
        return self._table(make, numbers, arrivals)

    @property
    def tables(self) -> dict[str, pa.Table]:
        """The three streams by name."""
        return {"Person": self.person, "Auction": self.auction, "Bid": self.bid}

    def parts(self, size: int = 1_000_000) -> Iterator[Nexmark]:
        """The stream in parts of so many events."""
        for first in range(self.first, self.first + self.events, size):
            count = min(size, self.first + self.events - first)
            yield Nexmark(count, self.seed, self.rate, self.disorder, self.base_time, first, self.columns)


def side_table(keys: int = 10_000) -> pa.Table:
    """Q13's table: a text for every key from 0."""
    return pa.table({"key": pa.array(range(keys)), "value": pa.array([f"value-{k}" for k in range(keys)])})


def _last_auction(numbers: Ints) -> Ints:
    """The newest auction when an event happens, from 0 (before the first one: -1)."""
    return numbers // CYCLE * AUCTIONS + np.clip(numbers % CYCLE - PERSONS, -1, AUCTIONS - 1)


def _cold_person(dice: Dice, name: str, last: Ints) -> Ints:
    active = np.minimum(last + 1, ACTIVE_PERSONS)
    return last + 1 - active + dice.below(name, active + AHEAD)


def _prices(dice: Dice, name: str) -> Ints:
    return np.rint(10 ** (6 * dice.uniform(name)) * 100).astype(np.int64)


def _credit_cards(dice: Dice) -> pa.Array:
    groups = [digits(dice.below(f"card{k}", 10_000), 4) for k in range(4)]
    space = np.full((len(dice.numbers), 1), ord(" "), np.uint8)
    parts = [part for group in groups for part in (group, space)]
    return fixed(np.concatenate(parts[:-1], axis=1))


def _padding(seed: int, dice: Dice, kind: str, held: int) -> pa.Array:
    """Text that pads a row which already holds some bytes, give or take a fifth."""
    wanted = max(SIZES[kind] - held, 5)
    spread = round(wanted * 0.2)
    pool = _pool(seed, f"extra {kind}", wanted - spread, wanted + spread)
    return pool.take(pa.array(dice.below("extra", _POOL)))


def _pick(dice: Dice, name: str, least: int, most: int) -> pa.Array:
    return _pool(dice.seed, name, least, most).take(pa.array(dice.below(name, _POOL)))


@lru_cache(maxsize=32)
def _pool(seed: int, name: str, least: int, most: int) -> pa.Array:
    return letters(seed, name, _POOL, least, most)


@lru_cache(maxsize=1)
def _names() -> pa.Array:
    return pa.array([f"{first} {last}" for first in FIRST_NAMES for last in LAST_NAMES])


@lru_cache(maxsize=4)
def _channels(seed: int) -> tuple[pa.Array, pa.Array]:
    """Every channel with its address: the cold ones, then the hot ones."""
    count = COLD_CHANNELS + len(HOT_CHANNELS)
    folders = letters(seed, "folder", 3 * count, 5, 5).to_pylist()
    dice = Dice(seed, np.arange(count))
    marked, ids = dice.below("marked", 10) > 0, dice.below("channel id", 1 << 31)
    names, urls = [], []
    for k in range(count):
        url = f"https://www.nexmark.com/{'/'.join(folders[3 * k : 3 * k + 3])}/item.htm?query=1"
        cold = k < COLD_CHANNELS
        names.append(f"channel-{k}" if cold else HOT_CHANNELS[k - COLD_CHANNELS])
        urls.append(f"{url}&channel_id={ids[k]}" if cold and marked[k] else url)
    return pa.array(names), pa.array(urls)
