"""All ways of reading files find the same ones, in the same order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tidegate.connectors.files import local_files
from tidegate.errors import Diagnostic
from tidegate.session import Session, connect

pytestmark = pytest.mark.usefixtures("spark")


def written(file: Path, form: str, a: int, t: int = 1) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    if form == "parquet":
        pq.write_table(pa.table({"a": pa.array([a], pa.int32()), "t": pa.array([t], pa.int64())}), file)
    else:
        file.write_text(f"a,t\n{a},{t}\n" if form == "csv" else f'{{"a": {a}, "t": {t}}}\n')


def stream(spark: SparkSession, form: str, place: Path, state: Path | None = None) -> Session:
    session = connect(spark=spark, state=None if state is None else str(state))
    session.sql(f"CREATE STREAM S(a INT, t BIGINT) SOURCE {form}('{place}') ORDERED BY t")
    return session


def followed(session: Session, text: str) -> Any:
    session.live = True
    live = session.query(text).start("q", begin=False)
    live.finish()
    found = [tuple(r) for r in live.at(9).collect()]
    session.close()
    return found


@pytest.mark.parametrize("form", ["csv", "json", "parquet"])
def test_files_in_folders_of_folders_are_read_by_everybody(
    spark: SparkSession, tmp_path: Path, form: str
) -> None:
    place = tmp_path / "in"
    names = ("1", "sub/2", "sub/deep/3", "_temporary/0/9", "sub/_hidden/9", ".git/9", "4._COPYING_", "_5")
    for name in names:
        written(place / name, form, int(Path(name).name.strip("_.COPYING")))
    session = stream(spark, form, place)
    for text in (
        "SELECT SUM(a), COUNT(*) FROM S WINDOW(RANGE 10)",
        "SELECT SUM(a), COUNT(*) FROM S WINDOW(ROWS 10)",
    ):
        query = session.query(text)
        assert [tuple(r) for r in query.run().at(9).collect()] == [(1 + 2 + 3, 3)]
        assert query.verify()
    found = followed(
        stream(spark, form, place, tmp_path / "state"), "SELECT SUM(a), COUNT(*) FROM S WINDOW(RANGE 10)"
    )
    assert found == [(1 + 2 + 3, 3)]


def test_a_pattern_finds_what_spark_finds(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("a.csv", "b.csv", ".h/c.csv", "_u/d.csv", "sub/e.csv", "a[1].csv"):
        written(tmp_path / name, "csv", 1)
    for pattern in ("*", "[^a]*", "[!a]*", "*.csv", "?.csv", "_u", "sub", "a.csv"):
        frame = (
            spark.read.schema("a STRING").option("recursiveFileLookup", "true").csv(f"{tmp_path}/{pattern}")
        )
        files = sorted(Path(f.removeprefix("file://")).name for f in frame.inputFiles())
        mine = sorted(
            Path(f).name.replace("[", "%5B").replace("]", "%5D") for f in local_files(f"{tmp_path}/{pattern}")
        )
        assert mine == files, pattern


def test_rows_of_files_arrive_in_one_order_however_they_are_read(spark: SparkSession, tmp_path: Path) -> None:
    """Java writes some characters of a name as others, which decides what comes last: here it is a1."""
    place = tmp_path / "in"
    for a, name in enumerate(("a!b", "a b", "a[1]", "a1"), 1):
        written(place / f"{name}.parquet", "parquet", a)
    session = stream(spark, "parquet", place)
    for text in ("SELECT a FROM S WINDOW(ROWS 1)", "SELECT LAST(a) FROM S WINDOW(RANGE 10)"):
        query = session.query(text)
        assert [tuple(r) for r in query.run().at(9).collect()] == [(4,)]
        assert query.verify()
    assert followed(
        stream(spark, "parquet", place, tmp_path / "state"), "SELECT a FROM S WINDOW(ROWS 1)"
    ) == [(4,)]


def test_a_column_is_in_the_files_or_in_the_names_of_their_folders(
    spark: SparkSession, tmp_path: Path
) -> None:
    written(tmp_path / "x=1" / "day=3" / "1.parquet", "parquet", 7)
    session = connect(spark=spark)
    declare = "CREATE OR REPLACE STREAM S(a INT, {} INT, t BIGINT) SOURCE parquet('{}') ORDERED BY t"
    session.sql(declare.format("day", tmp_path / "x=1"))
    assert [tuple(r) for r in session.query("SELECT a, day FROM S").run().at(1).collect()] == [(7, 3)]
    for column, path in (("dya", "x=1"), ("day", "x=1/day=3"), ("x", "x=1"), ("x", "x=1/day=3/1.parquet")):
        session.sql(declare.format(column, tmp_path / path))
        with pytest.raises(Diagnostic, match=f"UNKNOWN_COLUMN.*'{column}'"):
            session.query(f"SELECT a, {column} FROM S").run()
