"""Small CSV files are read without Spark only where nothing is in doubt."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from tidegate.connectors.plain_csv import LARGEST, plain_rows
from tidegate.language.catalog import StreamDefinition
from tidegate.session import connect

COLUMNS = "a INT, s STRING, t BIGINT"


def stream(place: Path, columns: str = COLUMNS, options: str = "") -> StreamDefinition:
    session = connect()
    session.sql(f"CREATE STREAM S({columns}) SOURCE csv('{place}') ORDERED BY t {options}")
    found = session.catalog.find("S")
    assert isinstance(found, StreamDefinition)
    return found


def test_plain_rows_have_the_declared_types_in_their_order_of_arrival(tmp_path: Path) -> None:
    columns = "d DATE, x DOUBLE, b BOOLEAN, n SMALLINT, at TIMESTAMP, s STRING, t BIGINT"
    names = "t,S,at,n,b,x,D,more\n"
    (tmp_path / "2.csv").write_text(names + "7,z,2026-01-01 00:00:00.000001,-3,false,-0.25,0001-01-01,?\n")
    (tmp_path / "1.csv").write_text(names + "9,a b,1969-12-31 23:59:59,3,true,12,9999-12-31,?\r\n")
    found = plain_rows(stream(tmp_path, columns))
    assert found is not None
    assert [tuple(row.values()) for row in found.to_pylist()] == [
        (date(9999, 12, 31), 12.0, True, 3, datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC), "a b", 9),
        (date(1, 1, 1), -0.25, False, -3, datetime(2026, 1, 1, microsecond=1, tzinfo=UTC), "z", 7),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "1,x,1\n",  # no names
        "a,s\n1,x\n",  # not all of them
        "a,A,s,t\n1,1,x,1\n",  # one of them twice
        "a,s,t\n",  # no rows
        "a,s,t\n1,x\n",
        "a,s,t\n1,x,1,2\n",
        "a,s,t\n1,,1\n",
        "a,s,t\n1, x,1\n",
        'a,s,t\n1,"x",1\n',
        "a,s,t\n1,x\\,1\n",
        "a,s,t\n\n1,x,1\n",
        "a,s,t\n1,x,1\n\n",
        "a,s,t\n1,x,1\r2,y,2\n",
        "\ufeffa,s,t\n1,x,1\n",
        "a,s,t\n1.0,x,1\n",
        "a,s,t\n+1,x,1\n",
        "a,s,t\n01,x,1\n",
        "a,s,t\n2147483648,x,1\n",
        "a,s,t\n1,x,9223372036854775808\n",
        "a,s,t\nhot,x,1\n",
        "a,s,t\n1,x\t,1\n",
        "a,s,t\n١,x,1\n",  # a digit, and not one that everybody reads
    ],
)
def test_whatever_is_in_doubt_is_left_to_spark(tmp_path: Path, text: str) -> None:
    file = tmp_path / "x.csv"
    file.write_text(text, newline="")
    assert plain_rows(stream(file)) is None


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("DOUBLE", "1e5"), ("DOUBLE", "NaN"), ("DOUBLE", "1."), ("DOUBLE", "1d"), ("BOOLEAN", "TRUE"), ("BOOLEAN", "t"),
        ("DATE", "2026-1-1"), ("DATE", "2026-02-30"), ("DATE", "0000-01-01"), ("TIMESTAMP", "2026-01-01"),
        ("TIMESTAMP", "2026-01-01T00:00:00"), ("TIMESTAMP", "2026-01-01 00:00:00Z"), ("TIMESTAMP", "2026-01-01 24:00:00"),
        ("TIMESTAMP", "2026-01-01 00:00:00.1"), ("DECIMAL(5, 2)", "1.00"), ("ARRAY<INT>", "1"), ("BINARY", "x"),
        ("TINYINT", "128"),
    ],
)  # fmt: skip
def test_values_that_are_written_otherwise_are_left_to_spark(tmp_path: Path, kind: str, value: str) -> None:
    (tmp_path / "x.csv").write_text(f"v,t\n{value},1\n")
    assert plain_rows(stream(tmp_path, f"v {kind}, t BIGINT")) is None


def test_large_files_options_and_folders_with_columns_are_left_to_spark(tmp_path: Path) -> None:
    plain = "a,s,t\n1,x,1\n"
    (tmp_path / "x.csv").write_text(plain)
    assert plain_rows(stream(tmp_path / "x.csv")) is not None
    assert plain_rows(stream(tmp_path / "x.csv", options="WITH (header = true)")) is None
    (tmp_path / "x.csv.gz").write_text(plain)
    assert plain_rows(stream(tmp_path / "x.csv.gz")) is None
    (tmp_path / "days" / "day=1").mkdir(parents=True)
    (tmp_path / "days" / "day=1" / "x.csv").write_text(plain)
    assert plain_rows(stream(tmp_path / "days")) is None
    (tmp_path / "y.csv").write_text("a,s,t\n" + "1,x,1\n" * (LARGEST // 6 + 1))
    assert plain_rows(stream(tmp_path / "y.csv")) is None
