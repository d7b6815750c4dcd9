"""How the cost of an event grows: with the window, the number of keys, the rate of events, and the number of queries.

Each point is a run over as many events as the points beside it; only one size changes. Cost is processor time of all processes per
event, so a flat curve means linear growth with the stream.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.nexmark.charts import curves
from tidegate.nexmark.files import write_stream
from tidegate.nexmark.generator import Nexmark
from tidegate.nexmark.measurements import Measured
from tidegate.nexmark.measuring import processor_seconds
from tidegate.session import Session, connect

SECOND = 1_000_000


@dataclass(frozen=True)
class Point:
    """What one run of a curve cost."""

    curve: str
    series: str
    size: float
    """What the curve is over: seconds, keys, events per second, or queries."""
    events: int
    seconds: float
    cpu_seconds: float

    @property
    def micros(self) -> float:
        """Processor time per event, in microseconds."""
        return self.cpu_seconds / self.events * 1e6

    def to_json(self) -> Measured:
        return asdict(self)


TITLES = {
    "window": "window, seconds",
    "keys": "keys",
    "rate": "events per second of event time",
    "queries": "queries in one graph",
}

Due = tuple[str, Callable[[], Point]]
"""A series and what measures its next point."""

WINDOWS = (1, 10, 60, 600, 3600)
KEYS = (10, 1_000, 100_000, 1_000_000, 10_000_000)
RATES = (1_000, 10_000, 100_000, 1_000_000)
QUERIES = (1, 10, 100, 1_000)
EPOCH = 5_000
"""Events of a live epoch, and of a second."""

_SCHEMA = "auction BIGINT NOT NULL, price BIGINT NOT NULL, dateTime TIMESTAMP NOT NULL"
_AGGREGATE = "SELECT auction, COUNT(*) AS n, SUM(price) AS s, MAX(price) AS m FROM Bid WINDOW(RANGE {w} SECONDS) GROUP BY auction"
_SAME = "SELECT auction, n FROM (SELECT auction, COUNT(*) AS n FROM Bid WINDOW(RANGE 10 SECONDS) GROUP BY auction) WHERE n > {k}"
_OTHER = "SELECT auction, COUNT(*) AS n FROM Bid WINDOW(RANGE {w} SECONDS) WHERE auction % 1000 = {k} GROUP BY auction"
_JOIN = (
    "SELECT B.auction, B.price, A.seller FROM Bid WINDOW(RANGE {w} SECONDS) B "
    "JOIN Auction WINDOW(RANGE {w} SECONDS) A ON B.auction = A.id"
)


@dataclass(frozen=True)
class Bench:
    """A Spark session that is warm, and a place for streams."""

    session: Session
    place: Path
    events: int

    def curve(self, name: str, limit: float) -> Iterator[Point]:
        """The points of a curve, one after another; a series ends with the first point that takes longer than `limit` seconds."""
        made = {"window": self._window, "keys": self._keys, "rate": self._rate, "queries": self._queries}
        stopped: set[str] = set()
        for series, point in made[name]():
            if series not in stopped:
                began = time.perf_counter()
                yield point()
                if time.perf_counter() - began > limit:
                    stopped.add(series)

    def _window(self) -> Iterator[Due]:
        """An hour must fit into the stream twice, so events are slow."""
        rate = max(1, self.events // 7200)
        data = self._stream(rate)
        for seconds in WINDOWS:
            for series, text in (("count, sum, max", _AGGREGATE), ("join", _JOIN)):
                asked = text.format(w=seconds)
                yield series, partial(self._recorded, "window", series, seconds, data, asked)

    def _rate(self) -> Iterator[Due]:
        for rate in RATES:
            data = self._stream(rate)
            for series, text in (("count, sum, max", _AGGREGATE), ("join", _JOIN)):
                yield series, partial(self._recorded, "rate", series, rate, data, text.format(w=10))

    def _keys(self) -> Iterator[Due]:
        for keys in KEYS:
            data = self.place / f"keys-{self.events}-{keys}"
            if not (data / "bid").exists():
                write_keyed(data / "bid", self.events, keys)
            latest = "SELECT auction, price FROM Bid WINDOW(PARTITION BY auction ROWS 1)"
            for series, text in (("count, sum, max", _AGGREGATE), ("last row per key", latest)):
                yield series, partial(self._recorded, "keys", series, keys, data, text.format(w=60))

    def _queries(self) -> Iterator[Due]:
        """Recorded queries asked at once share equal sub-plans; those of a running graph do not yet."""
        for count in QUERIES:
            same = [_SAME.format(k=k) for k in range(count)]
            other = [_OTHER.format(k=k, w=k + 1) for k in range(count)]
            yield "one aggregate, recorded", partial(self._together, "one aggregate, recorded", same)
            yield "one aggregate, live", partial(self._graph, "one aggregate, live", same)
            yield "different windows, live", partial(self._graph, "different windows, live", other)

    def _recorded(self, curve: str, series: str, size: float, data: Path, text: str) -> Point:
        asked = connect(spark=self.session.spark)
        asked.sql(f"CREATE STREAM Bid({_SCHEMA}) SOURCE parquet('{data}/bid') ORDERED BY dateTime")
        if (data / "auction").exists():
            columns = "id BIGINT NOT NULL, seller BIGINT, dateTime TIMESTAMP NOT NULL"
            asked.sql(
                f"CREATE STREAM Auction({columns}) SOURCE parquet('{data}/auction') ORDERED BY dateTime"
            )
        query = asked.query(text)
        began, used = time.perf_counter(), processor_seconds(os.getpid())
        query.run()
        return Point(
            curve, series, size, self.events, time.perf_counter() - began, processor_seconds(os.getpid()) - used
        )  # fmt: skip

    def _together(self, series: str, texts: list[str], rows: int = 20_000) -> Point:
        asked = connect(spark=self.session.spark)
        wanted = frozenset({"auction", "price", "dateTime"})
        bids = Nexmark(rows, rate=EPOCH, columns=wanted).bid
        asked.stream("Bid", bids, ordered_by="dateTime")
        queries = [asked.query(text) for text in texts]
        plans = {f"q{k}": query.plan for k, query in enumerate(queries)}
        began, used = time.perf_counter(), processor_seconds(os.getpid())
        asked.engine.run_all(plans, queries[0].definitions, data=asked.data)
        seconds, cpu = time.perf_counter() - began, processor_seconds(os.getpid()) - used
        return Point("queries", series, len(texts), bids.num_rows, seconds, cpu)

    def _graph(self, series: str, texts: list[str], rows: int = EPOCH, epochs: int = 4) -> Point:
        """The epochs after the first, by hand, so that nothing waits for a clock."""
        asked = connect(spark=self.session.spark)
        stream = Nexmark(
            rows * (epochs + 2), rate=20_000, columns=frozenset({"auction", "price", "dateTime"})
        )
        parts = [p.bid for p in stream.parts(rows)]
        asked.stream("Bid", parts[0].slice(0, 0), ordered_by="dateTime")
        live = None
        for number, text in enumerate(texts):
            live = asked.query(text).start(name=f"q{number}", begin=False)
        assert live is not None
        graph = live.run.graph
        for part in parts[:2]:
            graph.advance({"Bid": part})
        began, used = time.perf_counter(), processor_seconds(os.getpid())
        for part in parts[2:]:
            graph.advance({"Bid": part})
        seconds, cpu = time.perf_counter() - began, processor_seconds(os.getpid()) - used
        asked.close()
        return Point("queries", series, len(texts), sum(p.num_rows for p in parts[2:]), seconds, cpu)

    def _stream(self, rate: int) -> Path:
        data = self.place / f"events-{self.events}-{rate}"
        if not (data / "nexmark.json").exists():
            wanted = frozenset({"auction", "price", "dateTime", "id", "seller"})
            write_stream(Nexmark(self.events, rate=rate, columns=wanted), data, part=max(1, self.events // 4))
        return data


def write_keyed(place: Path, rows: int, keys: int) -> None:
    """Bids on auctions that are drawn evenly from so many, ten thousand a second, in four files."""
    random = np.random.default_rng(5)
    place.mkdir(parents=True)
    for number in range(4):
        some = np.arange(number * rows // 4, (number + 1) * rows // 4, dtype=np.int64)
        table = pa.table(
            {
                "auction": random.integers(0, keys, len(some)),
                "price": random.integers(1, 10_000, len(some)),
                "dateTime": pa.array(1_700_000_000 * SECOND + some * 100, pa.timestamp("us", "UTC")),
            }
        )
        pq.write_table(table, place / f"part-{number}.parquet", row_group_size=250_000)


def prepared(events: int, place: Path, cores: int) -> Bench:
    """A bench that has run each kind of query once."""
    bench = Bench(connect(master=f"local[{cores}]"), place, events)
    folder = Path(tempfile.mkdtemp())
    try:
        warm = Bench(bench.session, folder, 50_000)
        data = warm._stream(10_000)
        for text in (_AGGREGATE, _JOIN):
            warm._recorded("", "", 0, data, text.format(w=10))
        warm._graph("", [_SAME.format(k=0)])
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return bench


def table(points: list[Point]) -> str:
    """Microseconds of processors per event: a line per curve, a column per size."""
    lines = []
    for curve, title in TITLES.items():
        mine = [p for p in points if p.curve == curve]
        if not mine:
            continue
        sizes = sorted({p.size for p in mine})
        lines += [
            "",
            f"| {title} | " + " | ".join(f"{s:,.0f}" for s in sizes) + " |",
            "|---|" + "---:|" * len(sizes),
        ]
        for series in dict.fromkeys(p.series for p in mine):
            costs = {p.size: p.micros for p in mine if p.series == series}
            lines.append(
                f"| {series} | " + " | ".join(f"{costs[s]:,.1f}" if s in costs else "" for s in sizes) + " |"
            )
    return "\n".join(lines[1:])


def picture(points: list[Point]) -> str:
    """The same as curves."""
    panels: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for point in sorted(points, key=lambda p: p.size):
        panel = panels.setdefault(TITLES[point.curve], {})
        panel.setdefault(point.series, []).append((point.size, point.micros))
    ordered = {t: panels[t] for t in TITLES.values() if t in panels}
    return curves(ordered, "microseconds of processors per event")
