"""Files of a live source: each is read once, or set aside by its name, and the stream goes on."""

from __future__ import annotations

import gzip
import json
import logging
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tidegate.errors import Diagnostic
from tidegate.runtime.running import LiveQuery
from tidegate.runtime.summary import describe_state
from tidegate.session import connect

ASIDE = "the file is set aside"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "in"
    place.mkdir()
    return place


def started(
    spark: SparkSession, folder: Path, call: str, more: str = "", columns: str = "a INT"
) -> LiveQuery:
    session = connect(spark=spark, state=str(folder.parent / "state"), partitions=2)
    session.sql(f"CREATE STREAM S({columns}, t BIGINT) SOURCE {call} ORDERED BY t {more}")
    return session.query("SELECT a FROM S").start("q", begin=False)


def values(live: LiveQuery) -> list[Any]:
    return sorted(r.a for r in live.intervals().collect())


def table(*rows: tuple[int, int]) -> pa.Table:
    return pa.table({"a": pa.array([a for a, _ in rows], pa.int32()), "t": [t for _, t in rows]})


def kept(live: LiveQuery) -> list[tuple[str, str]]:
    rows = live.result.spark.read.parquet(live.result.storage.path("quarantine/S")).collect()
    return sorted((r.file, r.reason) for r in rows)


def age(file: Path, days: int) -> None:
    moment = file.stat().st_mtime - days * 86_400
    os.utime(file, (moment, moment))


def test_csv_files_come_as_they_are(
    spark: SparkSession, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (folder / "1.csv").write_text("a,t\n1,1\n")
    (folder / "2.csv").write_text("")
    live = started(spark, folder, f"csv('{folder}')")
    live.run.drain()
    assert live.status()["files"] == {"S": {"aside": [], "changed": []}}
    (folder / "1.csv").write_text("a,t\n1,1\n7,7\n")  # grown
    (folder / "2.csv").write_text("a,t\n2,2\n")  # empty before
    (folder / "3 old ä.csv").write_text("a,t\n3,3\n")
    age(folder / "3 old ä.csv", 800)
    (folder / "4.csv").write_text("t,a\n4,4\n")  # another order
    (folder / "5.csv").write_text("b,t\n5,5\n")  # a column less
    (folder / "6.csv").write_text('a,t\n"6,6\n')  # a quote that does not end
    whole = gzip.compress(b"a,t\n" + b"".join(b"%d,%d\n" % (i % 9, i) for i in range(20_000)))
    (folder / "7.csv.gz").write_bytes(whole[: len(whole) // 2])
    (folder / "8.csv.gz").write_bytes(gzip.compress(b"a,t\n8,8\n"))
    with caplog.at_level(logging.WARNING, "tidegate"):
        live.run.drain()
    expected = [str(folder / n) for n in ("4.csv", "5.csv", "6.csv", "7.csv.gz")]
    assert live.status()["files"] == {"S": {"aside": expected, "changed": [str(folder / "1.csv")]}}
    assert f"{folder / '1.csv'} has changed since 'S' read it" in caplog.text
    assert all(f"set aside: {name}" in caplog.text or name in caplog.text for name in expected)
    assert live.status()["sources"]["S"]["quarantine"] == {ASIDE: 4}
    assert [f for f, _ in kept(live)] == expected
    assert describe_state(str(folder.parent / "state"))["integers"]["refused"] == ["'S' set 4 files aside"]
    # What is mended is read; whoever goes on knows all of it.
    (folder / "5.csv").write_text("a,t\n5,15\n")
    # What was read may go, or become something else.
    (folder / "1.csv").write_text("t,a\n9,9\n")
    (folder / "2.csv").unlink()
    live.stop()
    again = started(spark, folder, f"csv('{folder}')")
    again.finish()
    assert values(again) == [1, 2, 3, 5, 8]
    rest = [name for name in expected if "5.csv" not in name]
    assert again.status()["files"] == {"S": {"aside": rest, "changed": [str(folder / "1.csv")]}}
    assert again.status()["sources"]["S"]["quarantine"] == {ASIDE: 4}


def test_parquet_files_come_as_they_are(spark: SparkSession, folder: Path) -> None:
    pq.write_table(table((1, 1)), folder / "1.parquet")
    live = started(spark, folder, f"parquet('{folder}')")
    live.run.drain()
    (folder / "2.parquet").write_bytes(b"PAR1 this is none PAR1")
    pq.write_table(pa.table({"a": ["x"], "t": [3]}), folder / "3.parquet")
    big = pa.table({"a": pa.array(range(50_000), pa.int32()), "t": pa.array(range(50_000), pa.int64())})
    pq.write_table(big, folder / "4.parquet", compression="gzip", use_dictionary=False)
    content = bytearray((folder / "4.parquet").read_bytes())
    content[4:64] = b"\xff" * 60
    (folder / "4.parquet").write_bytes(content)  # its footer is whole
    pq.write_table(table((5, 50_005)), folder / "5.parquet")
    live.finish()
    assert values(live) == [1, 5]
    assert live.status()["files"]["S"]["aside"] == [str(folder / f"{i}.parquet") for i in (2, 3, 4)]
    assert live.status()["sources"]["S"]["quarantine"] == {ASIDE: 3}
    assert "column 'a' of 'S' is INT, and string in " in kept(live)[1][1]


def test_json_files_come_as_they_are(spark: SparkSession, folder: Path) -> None:
    lines = "".join(f'{{"a": {i % 9}, "t": {i}}}\n' for i in range(20_000)).encode()
    (folder / "1.json").write_text('{"a": 1, "t": 1}\n')
    (folder / "2.json.gz").write_bytes(gzip.compress(lines)[:9_000])
    live = started(spark, folder, f"json('{folder}')")
    live.run.drain()
    assert live.status()["files"]["S"]["aside"] == [str(folder / "2.json.gz")]
    (folder / "1.json").unlink()
    (folder / "2.json.gz").write_bytes(gzip.compress(b'{"a": 2, "t": 2}\nno\n'))
    live.stop()
    again = started(spark, folder, f"json('{folder}')")
    again.finish()
    assert values(again) == [1, 2]
    assert again.status()["files"]["S"] == {"aside": [], "changed": []}
    assert again.status()["sources"]["S"]["quarantine"] == {ASIDE: 1, "the row cannot be read": 1}


@pytest.mark.parametrize("form", ["csv", "json", "parquet"])
def test_a_single_file_is_a_live_source(
    spark: SparkSession, folder: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parent)
    file = folder / f"only.{form}"
    if form == "parquet":
        pq.write_table(table((1, 1), (2, 2)), file)
    else:
        file.write_text("a,t\n1,1\n2,2\n" if form == "csv" else '{"a": 1, "t": 1}\n{"a": 2, "t": 2}\n')
    (folder / f"other.{form}").write_text("?")
    live = started(spark, folder, f"{form}('in/{file.name}')")
    live.finish()
    assert values(live) == [1, 2]


def test_a_file_that_is_gone_before_it_was_read(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    """One file in an epoch: the others wait, and somebody tidies up."""
    for i in (1, 2, 3):
        (folder / f"{i}.csv").write_text(f"a,t\n{i},{i}\n")
    live = started(spark, folder, f"csv('{folder}')", "WITH (max_files_per_trigger = 1, slack = 9)")
    run = live.run
    run._gate(run.graph.definitions["S"])  # they are let in
    (folder / "2.csv").rename(tmp_path / "2.csv")
    run.drain()
    assert run.status()["files"]["S"]["aside"] == [str(folder / "2.csv")]
    (folder / "1.csv").unlink()  # it was read
    (tmp_path / "2.csv").rename(folder / "2.csv")
    live.finish()
    assert run.status()["files"]["S"] == {"aside": [], "changed": []}
    assert values(live) == [1, 2, 3]
    sources = run.status()["sources"]["S"]
    assert (sources["rows"], sources["quarantine"]) == (3, {ASIDE: 1})
    live.stop()


def test_a_stream_may_stop_at_a_broken_file(spark: SparkSession, folder: Path) -> None:
    (folder / "1.csv").write_text("a,t\n1,1\n")
    live = started(spark, folder, f"csv('{folder}')", "WITH (on_error = 'stop')")
    live.run.drain()
    (folder / "2.csv").write_text("t,a\n4,4\n")
    with pytest.raises(Diagnostic, match=r"2\.csv has other columns, or in another order"):
        live.run.drain()
    (folder / "2.csv").unlink()
    rows = b"".join(b"%d,%d\n" % (i % 9, i) for i in range(20_000))
    (folder / "3.csv.gz").write_bytes(gzip.compress(b"a,t\n" + rows)[:9_000])
    with pytest.raises(Diagnostic, match=r"3\.csv\.gz cannot be read: "):
        live.run.drain()


def test_where_no_file_fits_the_stream_is_not_as_declared(spark: SparkSession, folder: Path) -> None:
    (folder / "1.csv").write_text("b,t\n1,1\n")
    for _ in range(2):
        with pytest.raises(Diagnostic, match=r"has no column 'a'.*1\.csv"):
            started(spark, folder, f"csv('{folder}')")
    with pytest.raises(Diagnostic, match="does not exist"):
        started(spark, folder, f"csv('{folder / 'nowhere'}')")
    (folder / "1.csv").write_text("a,t\n1,1\n")
    live = started(spark, folder, f"csv('{folder}')")
    live.finish()
    assert values(live) == [1]


def test_what_cannot_be_right_is_named_in_recorded_files(spark: SparkSession, folder: Path) -> None:
    session = connect(spark=spark)

    def told(columns: str, call: str) -> Diagnostic:
        session.sql(f"CREATE OR REPLACE STREAM S({columns}, t BIGINT) SOURCE {call} ORDERED BY t")
        with pytest.raises(Diagnostic) as raised:
            session.query("SELECT * FROM S").run()
        return raised.value

    lines = [json.dumps({"room": "x", "degrees": i, "t": i}) for i in range(5)]
    (folder / "1.json").write_text("\n".join(lines))
    found = told("room STRING, degres INT", f"json('{folder}')")
    assert (found.condition, found.help) == ("UNKNOWN_COLUMN", "did you mean 'degrees'?")
    (folder / "2.json").write_text(json.dumps({"degres": 5, "t": 9}))
    session.sql(f"CREATE OR REPLACE STREAM S(degres INT, t BIGINT) SOURCE json('{folder}') ORDERED BY t")
    assert len(session.query("SELECT * FROM S").run().intervals().collect()) == 6
    pq.write_table(table((1, 1)), folder / "1.parquet")
    pq.write_table(pa.table({"a": ["x"], "t": [2]}), folder / "2.parquet")
    found = told("a INT", f"parquet('{folder}/*.parquet')")
    assert (found.condition, "2.parquet" in found.message) == ("TYPE_MISMATCH", True)
    (folder / "2.parquet").write_bytes(b"PAR1 no PAR1")
    found = told("a INT", f"parquet('{folder}/*.parquet')")
    assert (found.condition, "2.parquet" in found.message) == ("SOURCE_BROKEN", True)
