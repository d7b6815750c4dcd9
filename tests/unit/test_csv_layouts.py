"""What the first lines of CSV files say, before Spark reads any."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tidegate.connectors.csv_files import CsvFiles
from tidegate.errors import Diagnostic
from tidegate.language.catalog import SourceCall, StreamDefinition
from tidegate.types import BIGINT, STRING, Field


def layouts(folder: Path, *options: tuple[str, str]) -> dict[tuple[str, ...] | None, list[str]]:
    columns = (Field("a", BIGINT), Field("b", STRING), Field("t", BIGINT))
    stream = StreamDefinition("S", columns, SourceCall("csv", (str(folder),), options), ordered_by="t")
    found = CsvFiles()._layouts(stream, str(folder))
    return {layout: [Path(file).name for file in files] for layout, files in found.items()}


def test_files_are_told_apart_by_their_first_lines(tmp_path: Path) -> None:
    (tmp_path / "0.csv").write_bytes(b"")
    (tmp_path / "1.csv").write_bytes(b"a,b,t\n1,x,1\n")
    (tmp_path / "2.csv").write_bytes(b'\xef\xbb\xbf"A",b,T\n')
    (tmp_path / "3.csv").write_bytes(b"\n \nt, b,more,,a\n")
    (tmp_path / "4.csv").write_bytes(b'1,"x, y",1\n')
    (tmp_path / "5.csv.gz").write_bytes(gzip.compress(b"t,b,a\r\n"))
    assert layouts(tmp_path) == {
        ("a", "b", "t"): ["1.csv", "2.csv"],
        ("t", " b", "more", "_3", "a"): ["3.csv"],
        None: ["4.csv"],
        ("t", "b", "a"): ["5.csv.gz"],
    }


def test_options_say_how_a_first_line_is_read(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_bytes("# b\na|'b'|t\n".encode("utf-16"))
    form = (("separator", "|"), ("quote", "'"), ("comment", "#"), ("encoding", "utf-16"))
    assert layouts(tmp_path, *form) == {("a", "b", "t"): ["1.csv"]}
    assert layouts(tmp_path, *form, ("header", "false")) == {None: ["1.csv"]}


def test_where_there_is_nothing_the_declared_columns_are_expected(tmp_path: Path) -> None:
    assert layouts(tmp_path) == {("a", "b", "t"): []}
    assert layouts(tmp_path, ("header", "false")) == {None: []}


def test_a_file_that_nobody_can_look_into_must_not_be_lost(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_bytes(b"a,b,t\n")
    (tmp_path / "2.csv.zst").write_bytes(b"?")
    assert layouts(tmp_path) == {("a", "b", "t"): ["1.csv"]}
    (tmp_path / "3.csv").write_bytes(b"b,a,t\n")
    with pytest.raises(Diagnostic, match=r"2\.csv\.zst"):
        layouts(tmp_path)


def columns(place: Path, *options: tuple[str, str]) -> list[str]:
    found = CsvFiles().columns(StreamDefinition("S", (), SourceCall("csv", (str(place),), options)))
    return [f"{field.name} {field.type}" for field in found]


def test_a_broken_value_that_makes_a_column_a_text_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "1.csv").write_text("name,v,t\na,1.5,1\nb,broken,2\nc,2.5,3\n")
    (tmp_path / "2.csv").write_text("name,v,t\nd,4,4\n")
    assert columns(tmp_path) == ["name STRING", "v STRING", "t BIGINT"]
    (said,) = [r.getMessage() for r in caplog.records]
    assert "column 'v' is read as STRING: 3 of 4 values are DOUBLE, but 'broken' is not" in said
    assert "(v DOUBLE, …)" in said
    caplog.clear()
    assert columns(tmp_path, ("null", "broken")) == ["name STRING", "v DOUBLE", "t BIGINT"]
    assert not caplog.records


def test_nothing_is_said_of_columns_that_are_texts(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "1.csv").write_text("code,day,t\n007,1/2/2026,1\n12,2/2/2026,2\nx,never,3\ny,3/2/2026,4\n")
    assert columns(tmp_path) == ["code STRING", "day STRING", "t BIGINT"]
    assert not caplog.records
