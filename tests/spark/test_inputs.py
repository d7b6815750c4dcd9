"""Files as they come: read right, or refused by name; rows used + rows refused = rows in."""

from __future__ import annotations

import gzip
import json
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tidegate.errors import Diagnostic
from tidegate.runtime.results import Result
from tidegate.session import Session, connect
from tidegate.time import MAX, MIN


@pytest.fixture
def session(spark: SparkSession) -> Session:
    return connect(spark=spark, partitions=2)


def rows(result: Result) -> list[tuple[Any, ...]]:
    """The answer's rows without their validity, and their times."""
    return sorted(((*r[:-2], r.valid_from) for r in result.intervals().collect()), key=str)


def refused(session: Session, result: Result, name: str = "S") -> list[str]:
    if not result.manifest().sources[name].refused:
        return []
    kept = session.spark.read.parquet(result.storage.path(f"quarantine/{name}")).collect()
    return sorted(r.reason for r in kept)


def read(session: Session, columns: str, call: str, more: str = "") -> Result:
    session.sql(f"CREATE OR REPLACE STREAM S({columns}, t BIGINT) SOURCE {call} ORDERED BY t {more}")
    query = session.query("SELECT * FROM S")
    result = query.run()
    assert query.verify(result=result)
    return result


def told(session: Session, columns: str, call: str, more: str = "") -> Diagnostic:
    with pytest.raises(Diagnostic) as raised:
        read(session, columns, call, more)
    return raised.value


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "in"
    place.mkdir()
    return place


# CSV.


def test_each_file_has_its_own_header(session: Session, folder: Path) -> None:
    (folder / "0.csv").write_bytes(b"")
    (folder / "1.csv").write_bytes("a,b,t\n1,ä,1\n".encode())
    (folder / "2.csv").write_bytes(b"\xef\xbb\xbft,extra,B,a\r\n2,?,y,2\r\n")
    (folder / "3.csv").write_bytes(b"3,z,3\n")
    (folder / "4.csv.gz").write_bytes(gzip.compress(b"b,a,t\nw,4,4\n"))
    result = read(session, "a INT, b STRING", f"csv('{folder}')")
    assert rows(result) == [(1, "ä", 1), (2, "y", 2), (3, "z", 3), (4, "w", 4)]
    assert refused(session, result) == []


def test_quotes_are_read_as_rfc_4180_has_them(session: Session, folder: Path) -> None:
    text = 'a,t\r\n"x ""q"", z",1\r\n"two\r\nlines",2\r\n"",3\r\n,4\r\n5" pipe 6",5\r\n'
    (folder / "1.csv").write_bytes(text.encode())
    (folder / "2.csv").write_bytes(b"a,t\nplain,6\n")
    result = read(session, "a STRING", f"csv('{folder}')")
    # A line end inside quotes is one character, whichever the file uses.
    assert sorted(rows(result), key=lambda r: r[1]) == [
        ('x "q", z', 1), ("two\nlines", 2), ("", 3), (None, 4), ('5" pipe 6"', 5), ("plain", 6),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "more", "condition", "help"),
    [
        ("a,c,t\n1,x,1\n", "", "UNKNOWN_COLUMN", "existing columns: a, c, t"),
        ("a,bb,t\n1,x,1\n", "", "UNKNOWN_COLUMN", "did you mean 'bb'?"),
        ("a;b;t\n1;x;1\n", "", "COLUMN_COUNT", "name the columns in the first line, or say the separator"),
        ("1,x,1,2\n", "", "COLUMN_COUNT", "name the columns in the first line, or say the separator"),
        ("x,y,z\n1,x,1\n", "WITH (header = true)", "UNKNOWN_COLUMN", "existing columns: x, y, z"),
        ("a,b,B,t\n1,x,y,1\n", "", "DUPLICATE_COLUMN", None),
        ('a,b,t\n1,"x,1\n2,y,2\n', "", "UNCLOSED_QUOTE", "quote = '' where quotes are part of the values"),
    ],
)
def test_a_file_that_cannot_be_right_is_named(
    session: Session, folder: Path, text: str, more: str, condition: str, help: str | None
) -> None:
    (folder / "good.csv").write_text("b,t,a\nx,0,0\n")
    (folder / "odd.csv").write_text(text)
    found = told(session, "a INT, b STRING", f"csv('{folder}')", more)
    assert (found.condition, found.help) == (condition, help)
    assert str(folder / "odd.csv") in found.message


def test_a_broken_file_is_named(session: Session, folder: Path) -> None:
    (folder / "1.csv.gz").write_bytes(gzip.compress(b"a,t\n" + b"1,1\n" * 1000)[:40])
    found = told(session, "a INT", f"csv('{folder}')")
    assert (found.condition, str(folder / "1.csv.gz") in found.message) == ("SOURCE_BROKEN", True)


def test_another_encoding_is_read_with_its_name(session: Session, folder: Path) -> None:
    (folder / "1.csv").write_bytes('a;t\n"grün";1\n'.encode("utf-16"))
    result = read(session, "a STRING", f"csv('{folder}')", "WITH (encoding = 'utf-16', separator = ';')")
    assert rows(result) == [("grün", 1)]


def test_days_and_moments_are_read_as_they_are_said_to_be_written(session: Session, folder: Path) -> None:
    (folder / "1.csv").write_text("d;w;t\n31.12.2020;20201231 2359;1\n2020-12-31;20201231 2359;2\n")
    form = "WITH (separator = ';', date_format = 'dd.MM.yyyy', timestamp_format = 'yyyyMMdd HHmm')"
    result = read(session, "d DATE, w TIMESTAMP_NTZ", f"csv('{folder}')", form)
    assert rows(result) == [(date(2020, 12, 31), datetime(2020, 12, 31, 23, 59), 1)]
    assert refused(session, result) == ["column 'd' is no DATE: 2020-12-31"]


def test_the_first_file_that_is_there_tells_a_live_streams_columns(session: Session, folder: Path) -> None:
    session.sql(f"CREATE STREAM S(a INT, b STRING, t BIGINT) SOURCE csv('{folder}') ORDERED BY t")
    (folder / "0.csv").write_text("")
    (folder / "1.csv").write_bytes(b'\xef\xbb\xbft, B,a\n1,"x\ny",1\n2,z,?\n')
    live = session.query("SELECT a, b FROM S").start(begin=False)
    live.run.drain()
    (folder / "2.csv").write_text("T, b,a\n3,w,3\n")
    live.finish()
    assert rows(live.result) == [(1, "x\ny", 1), (3, "w", 3)]
    assert live.status()["sources"]["S"]["quarantine"] == {"column 'a' is no INT": 1}


# Reasons.


def test_the_reason_names_the_column_and_the_value(session: Session, folder: Path) -> None:
    (folder / "1.csv").write_text(
        "a,d,t\n1,2020-01-01,1\nhot,2020-01-01,2\n3,soon,3\n4,2020-01-01\n5,2020-01-01,x\n"
    )
    result = read(session, "a INT, d DATE", f"csv('{folder}')")
    assert [r[0] for r in rows(result)] == [1]
    assert refused(session, result) == [
        "column 'a' is no INT: hot",
        "column 'd' is no DATE: soon",
        "column 't' is no BIGINT: x",
        "the row cannot be read",
    ]
    lines = [
        {"a": 1, "t": 1},
        {"a": "hot", "t": 2},
        {"a": 1.5, "t": 3},
        {"a": 2**40, "t": 4},
        {"a": 5, "t": None},
    ]
    (folder / "1.csv").unlink()
    (folder / "1.json").write_text("\n".join([*map(json.dumps, lines), "{no json"]))
    result = read(session, "a INT", f"json('{folder}')")
    assert rows(result) == [(1, 1)]
    assert refused(session, result) == [
        "column 'a' is no INT: 1.5",
        f"column 'a' is no INT: {2**40}",
        "column 'a' is no INT: hot",
        "the row cannot be read",
        "the time is NULL",
    ]


def test_reasons_are_counted_without_the_values(session: Session, folder: Path) -> None:
    (folder / "1.csv").write_text("a,t\n7,7\n" + "".join(f"x{i},{i}\n" for i in range(50)))
    result = read(session, "a INT", f"csv('{folder}')")
    assert result.manifest().sources["S"].refused == {"column 'a' is no INT": 50}


@pytest.mark.parametrize("form", ["csv", "json", "parquet", "memory", "function"])
def test_null_where_there_must_be_none_is_refused(session: Session, folder: Path, form: str) -> None:
    data = [{"a": 1, "b": "x", "t": 1}, {"a": None, "b": "y", "t": 2}, {"a": 3, "b": None, "t": 3}]
    columns = "a INT NOT NULL, b STRING"
    if form == "memory":
        session.stream("S", data, ordered_by="t", schema=f"{columns}, t BIGINT")
        result = session.query("SELECT * FROM S").run()
    else:
        if form == "csv":
            (folder / "1.csv").write_text("a,b,t\n1,x,1\n,y,2\n3,,3\n")
        elif form == "json":
            (folder / "1.json").write_text("\n".join(map(json.dumps, data)))
        elif form == "parquet":
            schema = pa.schema({"a": pa.int32(), "b": pa.string(), "t": pa.int64()})
            pq.write_table(pa.Table.from_pylist(data, schema), folder / "1.parquet")
        session.source("given", lambda: data)
        call = "given()" if form == "function" else f"{form}('{folder}')"
        result = read(session, columns, call)
    assert rows(result) == [(1, "x", 1), (3, None, 3)]
    assert refused(session, result) == ["column 'a' is NULL"]


def test_rows_pushed_later_may_hold_null_where_the_first_ones_did_not(session: Session) -> None:
    session.stream("S", [{"a": 1, "t": 1}], ordered_by="t")
    live = session.query("SELECT a FROM S").start(begin=False)
    session.push("S", [{"a": None, "t": 2}])
    live.finish()
    assert [r.a for r in live.at(2).collect()] == [None]


# Times.


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_times_at_the_limits_of_64_bits_are_refused(session: Session, folder: Path, form: str) -> None:
    times = [MIN, MIN + 1, 0, MAX - 2, MAX - 1, MAX]
    if form == "csv":
        (folder / "1.csv").write_text("a,t\n" + "".join(f"{i},{t}\n" for i, t in enumerate(times)))
    else:
        table = {"a": pa.array(range(6), pa.int32()), "t": pa.array(times, pa.int64())}
        pq.write_table(pa.table(table), folder / "1.parquet")
    result = read(session, "a INT", f"{form}('{folder}')")
    assert [r[0] for r in rows(result)] == [1, 2, 3]
    assert refused(session, result) == sorted(
        f"the time is at the limit of 64 bits: {t}" for t in (MIN, MAX - 1, MAX)
    )


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_years_that_no_calendar_shows_are_refused(session: Session, folder: Path, form: str) -> None:
    far = 253_402_300_800_000_000
    if form == "csv":
        (folder / "1.csv").write_text(
            "a,w,t\n1,9999-12-31 23:59:59.999999,2020-01-01\n2,+10000-01-01,2020-01-02\n3,2020-01-01,+10000-01-01\n"
        )
    else:
        moment = pa.timestamp("us", "UTC")
        day = 1_577_836_800_000_000
        table = {
            "a": pa.array([1, 2, 3], pa.int32()),
            "w": pa.array([far - 1, far, day], moment),
            "t": pa.array([day, day, far], moment),
        }
        pq.write_table(pa.table(table), folder / "1.parquet")
    session.sql(f"CREATE STREAM S(a INT, w TIMESTAMP, t TIMESTAMP) SOURCE {form}('{folder}') ORDERED BY t")
    for asked in ("a, w", "a"):
        result = session.query(f"SELECT {asked} FROM S").run()
        assert [r.a for r in result.intervals().collect()] == [1]
        assert refused(session, result) == [
            "column 't' is not in the years 1 to 9999: 10000",
            "column 'w' is not in the years 1 to 9999: 10000",
        ]


# Decimals.

DECIMALS = {
    "1.25": True, "7": True, "-999.99": True, "1.250": True, "0.00": True, "12e1": True, "1E+2": True, "1250e-3": True,
    "1.239": False, "1000": False, "1e-3": False, "1e3": False, "1e-40": False, "-1e-99": False, "1.2500000000000001": False,
    "1.25" + "0" * 40 + "1": False, "1.25" + "0" * 40: True, "99999999999999999999999999999999999999": False,
}  # fmt: skip
"""What is a DECIMAL(5, 2): no digit is lost, in whatever format."""
GOOD = sorted(Decimal(text) for text, good in DECIMALS.items() if good)


@pytest.mark.parametrize("form", ["csv", "json", "debezium", "function"])
def test_a_decimal_is_what_was_written_or_refused(session: Session, folder: Path, form: str) -> None:
    more = ""
    if form == "csv":
        (folder / "1.csv").write_text("d,t\n" + "".join(f"{text},1\n" for text in DECIMALS))
    elif form == "json":
        (folder / "1.json").write_text("".join(f'{{"d": {text}, "t": 1}}\n' for text in DECIMALS))
    elif form == "debezium":
        (folder / "1.json").write_text(
            "".join(f'{{"op": "c", "after": {{"d": {text}, "t": 1}}}}\n' for text in DECIMALS)
        )
        more = "WITH (format = 'debezium')"
    session.source("given", lambda: [(Decimal(text), 1) for text in DECIMALS])
    call = "given()" if form == "function" else f"{'csv' if form == 'csv' else 'json'}('{folder}')"
    result = read(session, "d DECIMAL(5, 2)", call, more)
    assert sorted(r[0] for r in rows(result)) == GOOD
    assert result.manifest().sources["S"].refused == {
        "column 'd' is no DECIMAL(5,2)": len(DECIMALS) - len(GOOD)
    }
    reasons = {Decimal(reason.split(": ")[1]) for reason in refused(session, result)}
    assert reasons == {Decimal(text) for text, good in DECIMALS.items() if not good}


def test_an_event_that_no_row_can_hold_refuses_itself_only(session: Session, folder: Path) -> None:
    good = {"op": "c", "after": {"a": 1, "s": "x", "t": 1}}
    odd = [
        {"op": "c", "after": {"a": 2**40, "s": "x", "t": 1}},
        {"op": "c", "after": {"a": 1, "s": "\ud800", "t": 1}},
        {"op": "c", "after": {"a": float("inf"), "s": "x", "t": 1}},
        {"schema": {"fields": [7]}, "payload": good},
        {"schema": {"fields": [{"field": "after", "fields": [1]}]}, "payload": good},
        {"op": ["c"], "after": {"a": 1}},
        {"op": "c", "after": [1]},
    ]
    lines = [json.dumps(event) for event in [good, *odd, good]]
    lines.append('{"op": "c", "after": ' + "[" * 100_000 + "]" * 100_000 + "}")
    (folder / "1.json").write_text("\n".join([*lines, "null", ""]))
    result = read(session, "a INT, s STRING", f"json('{folder}')", "WITH (format = 'debezium')")
    assert rows(result) == [(1, "x", 1), (1, "x", 1)]
    assert sum(result.manifest().sources["S"].refused.values()) == len(odd) + 1


def test_parquet_columns_are_checked_by_the_files(session: Session, folder: Path) -> None:
    stored = pa.array([Decimal("1.239")], pa.decimal128(6, 3))
    pq.write_table(pa.table({"d": stored, "t": [1]}), folder / "1.parquet")
    found = told(session, "d DECIMAL(5, 2)", f"parquet('{folder}')")
    assert (found.condition, str(folder) in found.message) == ("TYPE_MISMATCH", True)
    assert rows(read(session, "d DECIMAL(10, 3)", f"parquet('{folder}')")) == [(Decimal("1.239"), 1)]
    found = told(session, "dd DECIMAL(6, 3)", f"parquet('{folder}')")
    assert (found.condition, found.help) == ("UNKNOWN_COLUMN", "did you mean 'd'?")
    pq.write_table(pa.table({"d": stored, "e": ["new"], "t": [2]}), folder / "2.parquet")
    newer = read(session, "d DECIMAL(6, 3), e STRING", f"parquet('{folder}')")
    assert rows(newer) == [(Decimal("1.239"), "new", 2), (Decimal("1.239"), None, 1)]
