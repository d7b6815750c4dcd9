"""Columns that files tell, in CREATE STREAM and in FROM; no Spark is needed to know them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.language.world import World
from tidegate.errors import Diagnostic
from tidegate.language.catalog import StreamDefinition
from tidegate.language.dialect import parse, text_of
from tidegate.policy import closed

CSV = """item,price,ts,zip,day,gone,big
1,2.5,2026-01-01 00:00:00,007,2026-01-01,,1
2,3,2026-01-01T00:01:00Z,0815,2026-01-02,,99999999999999999999
"""
TYPES = {
    "item": "BIGINT", "price": "DOUBLE", "ts": "TIMESTAMP", "zip": "STRING", "day": "DATE", "gone": "STRING",
    "big": "DECIMAL(38,0)",
}  # fmt: skip


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "b.csv").write_text(CSV)
    return tmp_path


def columns(world: World, name: str = "R") -> dict[str, str]:
    found = world.catalog.find(name)
    assert isinstance(found, StreamDefinition)
    return {c.name: str(c.type) for c in found.columns}


def problem(statement: str) -> Diagnostic:
    world = World()
    with pytest.raises(Diagnostic) as caught:
        world.run(statement) if statement.startswith("CREATE") else world.bound(statement)
    assert caught.value.position is not None
    return caught.value


def test_csv_files_tell_names_and_types() -> None:
    assert columns(World().run("CREATE STREAM R SOURCE csv('b.csv') ORDERED BY ts")) == TYPES


def test_compressed_files_tabs_and_patterns_of_time(folder: Path) -> None:
    with gzip.open(folder / "c.csv.gz", "wt") as file:
        file.write("a;t\n1;31.12.2025 23:59\n")
    world = World().run(
        "CREATE STREAM R SOURCE csv('c.csv.gz') ORDERED BY t WITH (sep = ';', timestamp_format = 'dd.MM.yyyy HH:mm')"
    )
    assert columns(world) == {"a": "BIGINT", "t": "TIMESTAMP"}
    (folder / "c.tsv").write_text("a\tt\nx\t1\n")
    assert [f.name for f in World().plan("SELECT * FROM 'c.tsv' ORDERED BY t").schema if not f.hidden] == [
        "a"
    ]


def test_a_header_is_recognized_or_asked_for(folder: Path) -> None:
    (folder / "n.csv").write_text("1,a\n2,b\n")
    found = problem("CREATE STREAM R SOURCE csv('n.csv') ORDERED BY t")
    assert found.condition == "COLUMNS_UNKNOWN"
    assert "header = false" in str(found.help)
    world = World().run("CREATE STREAM R SOURCE csv('n.csv') ORDERED BY _c0 WITH (header = false)")
    assert columns(world) == {"_c0": "BIGINT", "_c1": "STRING"}


def test_json_files_tell_members_and_types(folder: Path) -> None:
    rows = [
        {"a": 1, "b": True, "c": "2026-01-01T00:00:00Z", "d": [1, 2], "e": {"x": 1.5}, "f": None},
        {"a": 2.5, "g": "2026", "e": {"y": "q"}, "c": None},
    ]
    lines = [json.dumps(r) for r in rows]
    (folder / "j.json").write_text("\n".join([lines[0], "no object", lines[1]]))
    expected = {
        "a": "DOUBLE", "b": "BOOLEAN", "c": "TIMESTAMP", "d": "ARRAY<BIGINT>",
        "e": "STRUCT<x: DOUBLE, y: STRING>", "f": "STRING", "g": "STRING",
    }  # fmt: skip
    assert columns(World().run("CREATE STREAM R SOURCE json('j.json') ORDERED BY c")) == expected
    (folder / "m.json").write_text(json.dumps(rows))
    world = World().run("CREATE STREAM R SOURCE json('m.json') ORDERED BY c WITH (multi_line = true)")
    assert columns(world) == expected


def test_parquet_files_tell_their_types(folder: Path) -> None:
    (folder / "p" / "day=2026-01-01").mkdir(parents=True)
    moment = pa.array([0], pa.timestamp("us", "UTC"))
    table = pa.table({"A": pa.array([1], pa.int32()), "t": moment})
    pq.write_table(table, folder / "p" / "day=2026-01-01" / "x.parquet")
    world = World().run("CREATE STREAM R SOURCE parquet('p') ORDERED BY t")
    assert columns(world) == {"A": "INT", "t": "TIMESTAMP", "day": "DATE"}
    pq.write_table(pa.table({"t": pa.array([0], pa.timestamp("ns"))}), folder / "n.parquet")
    assert problem("CREATE STREAM R SOURCE parquet('n.parquet') ORDERED BY t").condition == "TYPE_MISMATCH"


def test_files_of_several_layouts_are_looked_at_by_name(folder: Path) -> None:
    (folder / "d").mkdir()
    (folder / "d" / "1.csv").write_text("a,t\n1,1\n")
    (folder / "d" / "2.csv").write_text("t,a\n2,x\n")
    assert columns(World().run("CREATE STREAM R SOURCE csv('d') ORDERED BY t")) == {
        "a": "STRING",
        "t": "BIGINT",
    }


@pytest.mark.parametrize(
    ("statement", "condition"),
    [
        ("CREATE STREAM R SOURCE csv('nix.csv') ORDERED BY ts", "SOURCE_NOT_FOUND"),
        ("CREATE STREAM R SOURCE csv('b.csv') ORDERED BY t", "UNKNOWN_COLUMN"),
        ("CREATE STREAM R SOURCE csv('b.csv') ORDERED BY zip", "TIME_DOMAIN"),
        ("CREATE STREAM R SOURCE csv('empty.csv') ORDERED BY ts", "SOURCE_EMPTY"),
        ("CREATE STREAM R SOURCE csv('names.csv') ORDERED BY ts", "SOURCE_EMPTY"),
        ("CREATE STREAM R SOURCE csv('twice.csv') ORDERED BY t", "DUPLICATE_COLUMN"),
        ("CREATE STREAM R SOURCE json('empty.csv') ORDERED BY ts", "SOURCE_EMPTY"),
        ("CREATE STREAM R SOURCE json('b.csv') ORDERED BY ts", "SOURCE_EMPTY"),
        ("CREATE STREAM R SOURCE parquet('b.csv') ORDERED BY ts", "SOURCE_BROKEN"),
        ("CREATE STREAM R SOURCE csv('s3://x/b.csv') ORDERED BY ts", "COLUMNS_UNKNOWN"),
        ("CREATE STREAM R SOURCE json('b.csv') ORDERED BY ts WITH (format = 'debezium')", "COLUMNS_UNKNOWN"),
        ("CREATE STREAM R SOURCE kafka('h:1', 'topic') ORDERED BY ts", "COLUMNS_UNKNOWN"),
        (
            "CREATE STREAM R SOURCE csv('b.csv') ORDERED BY ts WITH (timestamp_format = 'EEE')",
            "COLUMNS_UNKNOWN",
        ),
        ("CREATE STREAM R ORDERED BY ts", "SYNTAX_ERROR"),
        ("SELECT * FROM 'b.txt' ORDERED BY ts", "UNKNOWN_FORMAT"),
        ("SELECT * FROM 'nix.csv' ORDERED BY ts", "SOURCE_NOT_FOUND"),
        ("SELECT * FROM 'b.csv' ORDERED BY t", "UNKNOWN_COLUMN"),
        ("SELECT * FROM 'b.csv' WINDOW(ROWS 1)", "WINDOW_ON_TABLE"),
        ("SELECT * FROM csv('b.csv') ORDERED BY ts WITH (separtor = ';')", "UNKNOWN_OPTION"),
    ],
)
def test_what_cannot_be_told_is_an_error_with_its_place(folder: Path, statement: str, condition: str) -> None:
    (folder / "empty.csv").write_text("")
    (folder / "names.csv").write_text("a,ts\n")
    (folder / "twice.csv").write_text("a,A,t\n1,2,3\n")
    assert problem(statement).condition == condition


def test_a_file_in_from_that_is_not_there_is_called_what_it_was_called() -> None:
    found = problem("SELECT * FROM 'bb.csv' ORDERED BY ts")
    assert found.message == "there is no file or directory 'bb.csv'"
    assert found.help == "did you mean 'b.csv'?"


def test_a_file_in_from_is_a_stream_by_its_name() -> None:
    world = World()
    query = "SELECT b.item FROM 'b.csv' ORDERED BY ts WINDOW(RANGE 1 MINUTE) WHERE b.price > 2"
    bound = world.bound(query)
    (name,) = bound.catalog.definitions.values()
    assert name.name == "csv('b.csv') ORDERED BY ts"
    assert bound.catalog.names == []
    assert world.catalog.definitions == {}
    assert bound.domain is not None
    assert world.plan("SELECT * FROM 'b.csv' x JOIN csv('b.csv') y ON x.zip = y.zip") is not None


def test_a_view_over_a_file_keeps_its_columns(folder: Path) -> None:
    world = World().run("CREATE VIEW V AS SELECT item FROM 'b.csv' ORDERED BY ts WINDOW(ROWS 1)")
    (folder / "b.csv").unlink()
    assert [str(f.type) for f in world.plan("SELECT * FROM V").schema] == ["BIGINT"]


def test_the_policy_holds_for_files_that_are_looked_at(folder: Path) -> None:
    (folder / "in").mkdir()
    (folder / "in" / "b.csv").write_text(CSV)
    world = World()
    world.catalog = type(world.catalog)(
        sources=world.catalog.sources, policy=closed(read=[str(folder / "in")])
    )
    world.bound("SELECT * FROM 'in/b.csv' ORDERED BY ts")
    for query in ("SELECT * FROM 'b.csv' ORDERED BY ts", "SELECT * FROM 'in/../b.csv'"):
        with pytest.raises(Diagnostic, match="NOT_ALLOWED"):
            world.bound(query)


def test_files_are_written_as_they_can_be_read() -> None:
    text = "SELECT * FROM csv('b.csv') ORDERED BY ts WITH (slack = '1 second') WINDOW(ROWS 1) x"
    assert text_of(parse(text)[0]) == text
    assert (
        text_of(parse("SELECT * FROM 'b.csv' VALID (a, b)")[0]) == "SELECT * FROM csv('b.csv') VALID (a, b)"
    )
