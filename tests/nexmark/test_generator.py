"""The generated stream against the facts of the benchmark: proportions, ids, hot keys, times, texts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq
import pytest

from tidegate.nexmark import original
from tidegate.nexmark.files import settings_of, write_stream
from tidegate.nexmark.generator import BASE_TIME, HOT_CHANNELS, STATES, Nexmark

EVENTS = 200_000
STREAM = Nexmark(EVENTS, seed=5)


def numbers(column: pa.ChunkedArray) -> np.ndarray:
    return (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_numpy()


def share(flags: np.ndarray) -> float:
    return float(flags.mean())


def bid_numbers() -> np.ndarray:
    """The event number of each bid, in order."""
    n = np.arange(EVENTS)
    return n[n % 50 >= 4]


def last_auction(n: np.ndarray) -> np.ndarray:
    return 3 * (n // 50) + 2


def test_proportions() -> None:
    assert [t.num_rows for t in STREAM.tables.values()] == [EVENTS // 50, 3 * EVENTS // 50, 46 * EVENTS // 50]


def test_ids_are_counted_from_1000() -> None:
    assert (numbers(STREAM.person["id"]) == 1000 + np.arange(EVENTS // 50)).all()
    assert (numbers(STREAM.auction["id"]) == 1000 + np.arange(3 * EVENTS // 50)).all()
    assert set(STREAM.auction["category"].to_pylist()) == set(range(10, 15))


def test_half_of_the_bids_go_to_the_hot_auction_and_the_rest_near_the_newest() -> None:
    auctions, last = numbers(STREAM.bid["auction"]) - 1000, last_auction(bid_numbers())
    hot = auctions == last // 100 * 100
    # a cold bid meets the hot auction by chance once in about 111
    assert share(hot) == pytest.approx(0.5 + 0.5 / 111, abs=0.01)
    cold, newest = auctions[~hot], last[~hot]
    assert (cold >= np.maximum(newest - 100, 0)).all()
    assert (cold <= newest + 10).all()
    ahead = share(cold > newest)
    assert ahead == pytest.approx(10 / 110, abs=0.01)


def test_three_quarters_of_bidders_and_sellers_are_hot() -> None:
    bidders, last = numbers(STREAM.bid["bidder"]) - 1000, bid_numbers() // 50
    hot = bidders == last // 100 * 100 + 1
    assert share(hot) == pytest.approx(0.75, abs=0.01)
    assert (bidders[~hot] >= np.maximum(last[~hot] - 999, 0)).all()
    assert (bidders[~hot] <= last[~hot] + 10).all()
    n = np.arange(EVENTS)
    newest = n[(n % 50 >= 1) & (n % 50 <= 3)] // 50
    assert share(numbers(STREAM.auction["seller"]) - 1000 == newest // 100 * 100) == pytest.approx(
        0.75, abs=0.015
    )


def test_prices_are_uniform_in_their_logarithm() -> None:
    prices = numbers(STREAM.bid["price"])
    assert prices.min() >= 100
    assert prices.max() <= 100_000_000
    parts = np.histogram(np.log10(prices), bins=6, range=(2, 8))[0] / len(prices)
    assert parts == pytest.approx([1 / 6] * 6, abs=0.01)
    assert (numbers(STREAM.auction["reserve"]) > numbers(STREAM.auction["initialBid"])).all()


def test_times_follow_the_rate_in_whole_milliseconds() -> None:
    times = numbers(STREAM.bid["dateTime"])
    assert (times == BASE_TIME + bid_numbers() // 100 * 1000).all()
    assert (numbers(STREAM.bid["arrival"]) == times).all()


def test_auctions_last_up_to_twice_the_time_of_a_hundred_further_ones() -> None:
    slow = Nexmark(EVENTS, rate=1000).auction
    lasting = (numbers(slow["expires"]) - numbers(slow["dateTime"])) // 1000
    assert lasting.min() >= 1
    assert lasting.max() <= 2 * 1667
    assert lasting.mean() == pytest.approx(1666, rel=0.05)


def test_channels_and_addresses() -> None:
    channels = STREAM.bid["channel"]
    hot = pc.is_in(channels, pa.array(HOT_CHANNELS))
    assert share(hot.to_numpy(zero_copy_only=False)) == pytest.approx(0.5, abs=0.01)
    cold = STREAM.bid.filter(pc.invert(hot))
    assert pc.all(pc.match_substring_regex(cold["channel"], r"^channel-\d{1,4}$")).as_py()
    marked = pc.match_substring(cold["url"], "&channel_id=").to_numpy(zero_copy_only=False)
    assert share(marked) == pytest.approx(0.9, abs=0.02)
    pairs = STREAM.bid.group_by("channel").aggregate([("url", "count_distinct")])
    assert set(pairs["url_count_distinct"].to_pylist()) == {1}


def test_rows_have_their_sizes_and_persons_their_places() -> None:
    assert set(STREAM.person["state"].to_pylist()) == set(STATES)
    assert len(set(STREAM.person["city"].to_pylist())) == 10
    assert len(set(STREAM.person["name"].to_pylist())) == 99
    assert pc.all(pc.match_substring_regex(STREAM.person["creditCard"], r"^\d{4}( \d{4}){3}$")).as_py()
    lengths = pc.utf8_length(STREAM.bid["extra"]).to_numpy()
    assert (lengths.min(), lengths.max()) == (54, 82)
    assert 32 + lengths.mean() == pytest.approx(100, abs=1)


def test_disorder_moves_events_within_their_group_only() -> None:
    ordered, moved = Nexmark(10_000, seed=3, rate=1000), Nexmark(10_000, seed=3, rate=1000, disorder=200)
    times = numbers(moved.bid["dateTime"])
    assert (np.diff(times) < 0).any()
    late = np.maximum.accumulate(times) - times
    assert late.max() < 200_000
    assert moved.bid.drop_columns("arrival").sort_by("dateTime").equals(ordered.bid.drop_columns("arrival"))


def test_the_same_seed_gives_the_same_bytes_however_it_is_cut() -> None:
    again = Nexmark(EVENTS, seed=5)
    cut = [part.tables for part in again.parts(33_333)]
    for name, table in STREAM.tables.items():
        assert pa.concat_tables([c[name] for c in cut]).combine_chunks().equals(table.combine_chunks())
    assert not Nexmark(EVENTS, seed=6).bid.equals(STREAM.bid)


def test_columns_can_be_chosen() -> None:
    narrow = Nexmark(EVENTS, seed=5, columns=frozenset({"auction", "dateTime"}))
    assert narrow.bid.equals(STREAM.bid.select(["auction", "dateTime"]))


@pytest.mark.parametrize("form", ["parquet", "csv", "json"])
def test_files_hold_the_stream(form: str, tmp_path: Path) -> None:
    stream = Nexmark(2500, seed=2)
    write_stream(stream, tmp_path, form, part=1000)
    read = {"parquet": pq.read_table, "csv": pyarrow.csv.read_csv, "json": pyarrow.json.read_json}[form]
    parts = sorted((tmp_path / "bid").iterdir())
    assert [p.name for p in parts] == [f"part-0000{k}.{form}" for k in range(3)]
    found = pa.concat_tables([read(p) for p in parts])
    for column in ("auction", "price", "url", "extra"):
        assert found[column].to_pylist() == stream.bid[column].to_pylist()
    assert settings_of(tmp_path)["events"] == 2500


def test_the_original_auction_fits_together() -> None:
    tables = original.generate(4000, seed=9)
    persons = set(tables["Person"]["id"].to_pylist())
    assert set(tables["OpenAuction"]["sellerID"].to_pylist()) <= persons
    assert set(tables["Bid"]["bidderID"].to_pylist()) <= persons
    assert tables["Item"]["id"].equals(tables["OpenAuction"]["itemID"])
    assert set(tables["Item"]["categoryID"].to_pylist()) <= set(tables["Category"]["id"].to_pylist())
    registered = dict(zip(*(tables["Person"][c].to_pylist() for c in ("id", "timestamp")), strict=True))
    first = tables["OpenAuction"].to_pylist()
    assert all(registered[row["sellerID"]] <= row["timestamp"] for row in first)
    for name in ("OpenAuction", "ClosedAuction", "Bid", "Person", "Item"):
        assert (np.diff(numbers(tables[name]["timestamp"])) >= 0).all()
    assert all(original.generate(4000, seed=9)[n].equals(t) for n, t in tables.items())
