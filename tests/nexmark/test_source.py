"""NEXMark as a Spark data source: recorded and live give the rows of the generator."""

from __future__ import annotations

import time
from collections import Counter

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable

from tidegate.errors import Diagnostic
from tidegate.nexmark.generator import Nexmark
from tidegate.nexmark.source import Settings, _Live, register
from tidegate.session import Session, connect

STREAM = Nexmark(5000, seed=4, rate=5000, disorder=10)
COUNTED = Counter(STREAM.bid["auction"].to_pylist())


@pytest.fixture
def session(spark: SparkSession) -> Session:
    register()
    session = connect(spark=spark, partitions=2)
    session.sql(
        "CREATE STREAM Bid(auction BIGINT, price BIGINT, dateTime TIMESTAMP) SOURCE spark('nexmark') ORDERED BY dateTime "
        "WITH (stream = 'bid', events = 5000, seed = 4, rate = 5000, disorder = 10, slack = '1 second')"
    )
    return session


QUERY = "SELECT auction, COUNT(*) AS n FROM Bid WINDOW(RANGE UNBOUNDED) GROUP BY auction"


def test_recorded(session: Session) -> None:
    result = session.query(QUERY).run()
    assert dict(result.latest().collect()) == COUNTED


def test_live(session: Session) -> None:
    running = session.query(QUERY).start(begin=False)
    running.finish()
    assert dict(running.latest().collect()) == COUNTED


def test_offsets_are_event_numbers_and_groups_arrive_whole() -> None:
    live = _Live(Settings.of({"stream": "bid", "rate": "1000", "disorder": "300"}))
    end = live.latestOffset(live.initialOffset(), ReadAllAvailable())
    assert end["n"] >= 900
    assert end["n"] % 300 == 0
    (part,) = live.partitions(live.initialOffset(), end)
    (rows,) = live.read(part)
    assert rows.num_rows == Nexmark(end["n"], rate=1000, disorder=300).bid.num_rows
    assert live.latestOffset(end, ReadAllAvailable())["n"] >= end["n"]


def test_all_that_is_available_now_has_an_end() -> None:
    live = _Live(Settings.of({"stream": "bid", "rate": "1000000000"}))
    live.prepareForTriggerAvailableNow()
    end = live.latestOffset({"n": 0}, ReadAllAvailable())
    assert live.latestOffset(end, ReadAllAvailable()) == end


def test_an_origin_makes_the_time_of_a_row_that_of_its_creation() -> None:
    origin = round((time.time() - 10) * 1e6)
    given = {"stream": "bid", "rate": "1000", "origin": str(origin), "columns": "price, dateTime"}
    live = _Live(Settings.of(given))
    end = live.latestOffset(live.initialOffset(), ReadAllAvailable())["n"]
    assert end >= 10_000
    (rows,) = [b for p in live.partitions({"n": 9000}, {"n": 10_000}) for b in live.read(p)]
    assert rows.schema.names == ["price", "dateTime"]
    # event 9,999 is due 9.999 seconds after the origin
    assert rows["dateTime"].cast(pa.int64())[-1].as_py() == origin + 9_999_000
    assert live.settings.schema == "price BIGINT, dateTime TIMESTAMP"


def test_an_unknown_column_is_named() -> None:
    with pytest.raises(Diagnostic, match="bid has no column 'prize'"):
        _ = Settings.of({"stream": "bid", "columns": "auction,prize"}).schema


def test_an_unknown_stream_is_named() -> None:
    with pytest.raises(Diagnostic, match="no stream 'bids'"):
        Settings.of({"stream": "bids"})


def test_a_column_that_the_format_does_not_give_is_named(spark: SparkSession, session: Session) -> None:
    session.sql(
        "CREATE STREAM Other(auctoin BIGINT, dateTime TIMESTAMP) SOURCE spark('nexmark') ORDERED BY dateTime"
    )
    with pytest.raises(Diagnostic, match="no column 'auctoin'"):
        session.query("SELECT auctoin FROM Other").run()


def test_an_option_that_is_misspelt_is_told() -> None:
    with pytest.raises(Diagnostic) as raised:
        Settings.of({"evnts": "5"})
    assert (raised.value.condition, raised.value.help) == ("UNKNOWN_OPTION", "did you mean 'events'?")
