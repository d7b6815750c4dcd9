"""Files as sources: what is read, what is refused, and in which order rows arrived."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tidegate.algebra.operators import Window
from tidegate.algebra.windows import RowWindow
from tidegate.errors import Diagnostic
from tidegate.language.catalog import SourceCall, StreamDefinition
from tidegate.runtime.engine import Engine
from tidegate.types import BIGINT, INT, STRING, TIMESTAMP, Field

COLUMNS = (Field("room", STRING), Field("degrees", INT), Field("t", BIGINT))


def stream(function: str, path: Path) -> StreamDefinition:
    return StreamDefinition("Rooms", COLUMNS, SourceCall(function, (str(path),)), ordered_by="t")


@pytest.fixture(scope="module")
def engine(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    return Engine(spark, str(tmp_path_factory.mktemp("sources")))


def test_csv_columns_are_found_by_the_header_and_bad_rows_are_kept(engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "rooms.csv"
    path.write_text("t,degrees,room\n1,20,a\n2,hot,b\n3,21,c\n,5,d\n")
    rooms = stream("csv", path)
    result = engine.run("q", rooms.scan, {"Rooms": rooms})
    assert sorted(tuple(r) for r in result.intervals().collect()) == [("a", 20, 1, 1, 2), ("c", 21, 3, 3, 4)]
    assert result.manifest().sources["Rooms"].refused == {
        "column 'degrees' is no INT": 1,
        "the time is NULL": 1,
    }
    kept = engine.spark.read.parquet(result.storage.path("quarantine/Rooms")).collect()
    found = {r.reason: json.loads(r.raw) for r in kept}
    assert found["column 'degrees' is no INT: hot"] == {"room": "b", "degrees": "hot", "t": "2"}


def test_row_windows_take_files_in_order_of_name_and_position(engine: Engine, tmp_path: Path) -> None:
    folder = tmp_path / "rooms"
    folder.mkdir()
    (folder / "2.json").write_text('{"room":"c","degrees":3,"t":5}\n{"room":"d","degrees":4,"t":5}\n')
    (folder / "1.json").write_text('{"room":"a","degrees":1,"t":5}\n{"room":"b","degrees":2,"t":5}\n')
    rooms = stream("json", folder)
    result = engine.run("q", Window(rooms.scan, RowWindow(2)), {"Rooms": rooms})
    assert sorted(r.room for r in result.at(5).collect()) == ["c", "d"]


def test_timestamps_tick_in_microseconds_and_come_back_as_timestamps(engine: Engine, tmp_path: Path) -> None:
    times = pa.array([1_500_000, 2_000_000], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"room": ["a", "b"], "t": times}), tmp_path / "r.parquet")
    columns = (Field("room", STRING), Field("t", TIMESTAMP))
    source = SourceCall("parquet", (str(tmp_path / "r.parquet"),))
    rooms = StreamDefinition("Rooms", columns, source, ordered_by="t")
    result = engine.run("q", rooms.scan, {"Rooms": rooms})
    assert dict(result.intervals().dtypes)["valid_from"] == "timestamp"
    moments = result.intervals().selectExpr("room", "unix_micros(valid_from)", "unix_micros(t)").collect()
    assert sorted(tuple(r) for r in moments) == [("a", 1_500_000, 1_500_000), ("b", 2_000_000, 2_000_000)]


def test_a_missing_file_is_named_with_its_neighbours(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "rooms.csv").write_text("room,degrees,t\n")
    rooms = stream("csv", tmp_path / "room.csv")
    with pytest.raises(Diagnostic) as caught:
        engine.run("q", rooms.scan, {"Rooms": rooms})
    assert caught.value.condition == "SOURCE_NOT_FOUND"
    assert caught.value.help == "did you mean 'rooms.csv'?"
