"""NEXMark as a Spark data source: recorded (all events at once) or live (as many as a rate allows).

    register()
    session.sql("CREATE STREAM Bid(auction BIGINT, price BIGINT, dateTime TIMESTAMP) SOURCE spark('nexmark') ORDERED BY dateTime "
                "WITH (stream = 'bid', events = 1000000)")

Options: `stream` (person, auction or bid), `events`, `seed`, `rate` (events per second of event time and, live, of the clock), `disorder`,
`columns` (those that are made; all by default), `origin` (microseconds since 1970: event 0 happens then and, live, is due then, so that the
time of a row is that of its creation and several streams keep step).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from tidegate.connectors.spark_formats import FORMATS
from tidegate.errors import Diagnostic, did_you_mean
from tidegate.nexmark.generator import BASE_TIME, Nexmark

_OPTIONS = ("stream", "events", "seed", "rate", "disorder", "origin", "columns")

PART = 500_000
"""Events per task."""

_SCHEMAS = {
    "person": "id BIGINT, name STRING, emailAddress STRING, creditCard STRING, city STRING, state STRING, "
    "dateTime TIMESTAMP, extra STRING, arrival TIMESTAMP",
    "auction": "id BIGINT, itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT, dateTime TIMESTAMP, "
    "expires TIMESTAMP, seller BIGINT, category BIGINT, extra STRING, arrival TIMESTAMP",
    "bid": "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, dateTime TIMESTAMP, extra STRING, "
    "arrival TIMESTAMP",
}


@dataclass(frozen=True)
class Events(InputPartition):
    """The events from `first` up to `end`."""

    first: int
    end: int


@dataclass(frozen=True)
class Settings:
    """What the options say."""

    stream: str
    events: int | None
    seed: int
    rate: int
    disorder: int
    origin: int | None = None
    columns: tuple[str, ...] = ()

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Settings:
        given = {k.lower(): v for k, v in options.items()}
        for name in sorted(set(given) - set(_OPTIONS)):
            raise Diagnostic(
                "UNKNOWN_OPTION",
                f"NEXMark has no option '{name}'",
                help=did_you_mean(name, list(_OPTIONS), "options"),
            )
        stream = given.get("stream", "bid").lower()
        if stream not in _SCHEMAS:
            raise Diagnostic(
                "SOURCE_ARGUMENTS",
                f"NEXMark has no stream '{stream}'",
                help=did_you_mean(stream, list(_SCHEMAS), "streams"),
            )
        events = int(given["events"]) if "events" in given else None
        return cls(
            stream,
            events,
            int(given.get("seed", 1)),
            int(given.get("rate", 100_000)),
            int(given.get("disorder", 1)),
            int(given["origin"]) if "origin" in given else None,
            tuple(name.strip() for name in given.get("columns", "").split(",") if name.strip()),
        )

    @property
    def schema(self) -> str:
        """The columns that are made, as Spark reads them."""
        found = [c.strip() for c in _SCHEMAS[self.stream].split(",")]
        unknown = set(self.columns) - {c.split()[0] for c in found}
        if unknown:
            names = [c.split()[0] for c in found]
            raise Diagnostic(
                "SOURCE_ARGUMENTS",
                f"NEXMark's {self.stream} has no column '{min(unknown)}'",
                help=did_you_mean(min(unknown), names, "columns"),
            )
        return ", ".join(c for c in found if not self.columns or c.split()[0] in self.columns)

    def read(self, part: Events) -> Iterator[pa.RecordBatch]:
        """The rows of some events."""
        base = BASE_TIME if self.origin is None else self.origin
        wanted = frozenset(self.columns) or None
        some = Nexmark(part.end - part.first, self.seed, self.rate, self.disorder, base, part.first, wanted)
        table: pa.Table = getattr(some, self.stream)
        yield from table.combine_chunks().to_batches()


def parts(first: int, end: int) -> list[Events]:
    """The events in tasks of bounded size.

    >>> parts(0, 700_000)
    [Events(first=0, end=500000), Events(first=500000, end=700000)]
    """
    return [Events(k, min(k + PART, end)) for k in range(first, end, PART)]


class _Recorded(DataSourceReader):
    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def partitions(self) -> list[Events]:
        return parts(0, 1_000_000 if self.settings.events is None else self.settings.events)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, Events)
        return self.settings.read(partition)


class _Live(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets are event numbers: the same offsets give the same rows after a restart."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._began: tuple[float, int] | None = None
        self._last: int | None = None

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        return {"n": 0}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802 - Spark's name
        if self.settings.origin is not None:
            due = int((time.time() - self.settings.origin / 1e6) * self.settings.rate)
        else:
            now = time.monotonic()
            # the first batch gets a second's events at once
            self._began = self._began or (now - 1, start["n"])
            due = self._began[1] + round((now - self._began[0]) * self.settings.rate)
        if self.settings.events is not None and due >= self.settings.events:
            return {"n": max(self.settings.events, start["n"])}
        # a disordered group arrives whole: its rows are then the same whatever the batches
        end = due // self.settings.disorder * self.settings.disorder
        if self._last is not None:
            self._last = end = self._last or end
        return {"n": max(end, start["n"])}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """What is due at the first question is all there is."""
        self._last = 0

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[Events]:
        return parts(start["n"], end["n"])

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, Events)
        return self.settings.read(partition)

    def commit(self, end: dict[str, int]) -> None:
        """Nothing is kept: every event can be made again."""


class NexmarkSource(DataSource):
    """`nexmark` as a format."""

    @classmethod
    def name(cls) -> str:
        return "nexmark"

    def schema(self) -> str:
        return Settings.of(self.options).schema

    def reader(self, schema: StructType) -> DataSourceReader:
        return _Recorded(Settings.of(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        return _Live(Settings.of(self.options))


def register() -> None:
    """Let streams be defined over `spark('nexmark')`."""
    FORMATS[NexmarkSource.name()] = NexmarkSource
