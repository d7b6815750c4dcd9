"""A session's time zone changes no answer: not what is read, computed, verified or read back, recorded or live."""

from __future__ import annotations

import json
import time
from collections import Counter
from datetime import UTC, datetime
from itertools import product
from pathlib import Path

import polars as pl
import pytest
from pyspark.sql import DataFrame, SparkSession

import tidegate
from tidegate.connectors.console import ConsoleSink
from tidegate.runtime.notebook import html_of
from tidegate.time import to_ticks

ZONES = ("UTC", "America/New_York", "Asia/Kolkata")
TIMES = ("2026-03-08 01:59:00", "2026-03-08 02:30:00", "2026-03-08 03:10:00", "2026-11-01 01:30:00")
"""Some do not exist in New York, or exist twice."""


def moments() -> list[datetime]:
    return [datetime.fromisoformat(t).replace(tzinfo=UTC) for t in TIMES]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("zones")
    rows = [{"v": i, "t": t, "u": TIMES[0], "d": t[:10]} for i, t in enumerate(TIMES)]
    (place / "csv").mkdir()
    (place / "csv" / "a.csv").write_text(
        "v,t,u,d\n" + "".join(f"{r['v']},{r['t']},{r['u']},{r['d']}\n" for r in rows)
    )
    (place / "json").mkdir()
    (place / "json" / "a.json").write_text("".join(json.dumps(r) + "\n" for r in rows))
    (place / "parquet").mkdir()
    frame = pl.DataFrame(
        {
            "v": pl.Series(range(len(rows)), dtype=pl.Int32),
            "t": moments(),
            "u": pl.Series([moments()[0].replace(tzinfo=None)] * len(rows), dtype=pl.Datetime("us")),
            "d": [m.date() for m in moments()],
        }
    )
    frame.write_parquet(place / "parquet" / "a.parquet")
    return place


COMPUTED = (
    "v, t, t - INTERVAL 1 HOUR AS before, CAST(t AS STRING) AS text, CAST(t AS DATE) AS day, HOUR(t) AS h, "
    "CAST('2026-03-08 02:30:00' AS TIMESTAMP) AS made, CAST(u AS TIMESTAMP) AS moved, CAST(d AS TIMESTAMP) AS midnight, "
    # These are Spark's own.
    "date_format(t, 'HH:mm') AS clock, from_unixtime(0) AS zero, to_timestamp(concat('2026-01-0', v + 1)) AS parsed, "
    "unix_timestamp('2026-03-08 02:30:00') AS seconds"
)
QUERIES = (
    f"SELECT {COMPUTED} FROM S WINDOW(RANGE 30 MINUTES)",
    "SELECT day, COUNT(*) AS n FROM (SELECT CAST(t AS DATE) AS day FROM S WINDOW(RANGE 1 DAY SLIDE 1 DAY)) GROUP BY day",
    "SELECT v FROM S WINDOW(RANGE 1 DAY) WHERE t < TIMESTAMP '2026-03-08 02:45:00'",
)


def instants(frame: DataFrame) -> Counter[tuple[object, ...]]:
    """The rows, moments as microseconds, dates and texts as they are."""
    made = [f"unix_micros({name}) AS {name}" if kind == "timestamp" else name for name, kind in frame.dtypes]
    return Counter(tuple(r) for r in frame.selectExpr(*made).collect())


def asked(spark: SparkSession, zone: str, form: str, files: Path) -> tidegate.session.Session:
    theirs = spark.newSession()
    theirs.conf.set("spark.sql.session.timeZone", zone)
    theirs.conf.set("spark.sql.ansi.enabled", str(zone == "UTC").lower())
    tg = tidegate.connect(spark=theirs, partitions=2)
    columns = "v INT, t TIMESTAMP, u TIMESTAMP_NTZ, d DATE"
    tg.sql(f"CREATE STREAM S({columns}) SOURCE {form}('{files / form}') ORDERED BY t")
    return tg


@pytest.mark.parametrize("form", ["csv", "json", "parquet"])
def test_no_zone_changes_an_answer(spark: SparkSession, files: Path, form: str) -> None:
    answers: list[list[Counter[tuple[object, ...]]]] = []
    for zone in ZONES:
        tg = asked(spark, zone, form, files)
        found = []
        for text in QUERIES:
            query = tg.query(text)
            result = query.run()
            assert str(query.verify(result=result)).startswith("verified"), (zone, text)
            found += [instants(result.intervals()), instants(result.changes())]
            found.append(instants(result.at(datetime(2026, 3, 8, 2, 40))))
            found.append(instants(tg.sql(f"{text} AS OF TIMESTAMP '2026-03-08 02:40:00'")))
        answers.append(found)
        tg.close()
    assert answers[1:] == answers[:1] * 2
    first = answers[0][2]
    assert first == answers[0][3]
    ((v, t, before, text, day, hour, made, moved, midnight, clock, *_),) = first
    half_past = int(moments()[1].timestamp()) * 1_000_000
    assert (v, t, before, made) == (1, half_past, half_past - 3_600_000_000, half_past)
    assert (text, str(day), hour, clock) == (TIMES[1], "2026-03-08", 2, "02:30")
    assert moved == int(moments()[0].timestamp()) * 1_000_000
    assert midnight == int(datetime(2026, 3, 8, tzinfo=UTC).timestamp()) * 1_000_000


@pytest.mark.parametrize("zone", ZONES[1:])
def test_live_is_as_recorded(spark: SparkSession, files: Path, zone: str) -> None:
    tg = asked(spark, zone, "csv", files)
    query = tg.query(QUERIES[0])
    live = query.start(begin=False)
    live.run.drain()
    live.run.graph.finish()
    assert instants(live.intervals()) == instants(query.run().intervals())
    tg.close()


def test_rows_handed_in_and_read_back(spark: SparkSession) -> None:
    theirs = spark.newSession()
    theirs.conf.set("spark.sql.session.timeZone", "America/New_York")
    tg = tidegate.connect(spark=theirs)
    tg.stream("M", [{"v": i, "t": m} for i, m in enumerate(moments())], ordered_by="t")
    result = tg.query("SELECT v, t FROM M WINDOW(RANGE 5 MINUTES)").run()
    shown = result.intervals().toArrow().to_pylist()
    assert [r["valid_from"].astimezone(UTC) for r in sorted(shown, key=lambda r: r["v"])] == moments()
    # A setting of the user's, made later, is theirs alone; and ours do not reach them.
    theirs.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    assert instants(result.at(moments()[1])) == {(1, int(moments()[1].timestamp()) * 1_000_000): 1}
    assert tg.spark.conf.get("spark.sql.session.timeZone") == "UTC"
    tg.close()


def test_times_without_a_zone_are_read_in_utc(spark: SparkSession, tmp_path: Path) -> None:
    bare = [m.replace(tzinfo=None) for m in moments()]
    (tmp_path / "a.csv").write_text("v,t\n" + "".join(f"{i},{t}\n" for i, t in enumerate(TIMES)))
    expected = {(i, int(m.timestamp()) * 1_000_000) for i, m in enumerate(moments())}
    for zone, name in product(ZONES[1:], ("M", "F")):
        theirs = spark.newSession()
        theirs.conf.set("spark.sql.session.timeZone", zone)
        tg = tidegate.connect(spark=theirs, partitions=1)
        tg.stream("M", [{"v": i, "t": t} for i, t in enumerate(bare)], ordered_by="t")
        tg.sql(f"CREATE STREAM F(v INT, t TIMESTAMP_NTZ) SOURCE csv('{tmp_path / 'a.csv'}') ORDERED BY t")
        query = tg.query(f"SELECT v FROM {name} WINDOW(RANGE 5 MINUTES)")
        result = query.run()
        assert query.verify(result=result)
        live = query.start(begin=False)
        live.run.graph.wall = lambda: to_ticks(moments()[-1])
        live.finish()
        for answer in (result, live):
            found = answer.intervals().selectExpr("v", "unix_micros(valid_from)").collect()
            assert {tuple(r) for r in found} == expected
        tg.close()


@pytest.mark.parametrize("zone", ZONES)
def test_people_are_shown_moments_in_utc(
    spark: SparkSession, zone: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever the zones of the machine and of the session are."""
    old = spark.conf.get("spark.sql.session.timeZone")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        spark.conf.set("spark.sql.session.timeZone", zone)
        rows = spark.sql(
            "SELECT '+' AS op, timestamp_micros(0) AS m, array(timestamp_micros(0)) AS a, timestamp_micros(1) AS ts"
        )
        ConsoleSink().write(1, rows)
        assert (
            "+ 1970-01-01 00:00:00, [datetime.datetime(1970, 1, 1, 0, 0)] @ 1970-01-01 00:00:00.000001"
            in capsys.readouterr().out
        )
        assert "<td>1970-01-01 00:00:00</td>" in html_of(rows, "q")
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(old))
        monkeypatch.undo()
        time.tzset()
