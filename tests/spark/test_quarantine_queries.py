"""What was refused is a table in SQL, and rows in = rows used + rows refused, whatever the source is."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import tidegate
from tidegate import Diagnostic, Session

COLUMNS = "item INT, price DOUBLE, t BIGINT"


@pytest.fixture
def tg(spark: SparkSession, tmp_path: Path) -> Iterator[Session]:
    session = tidegate.connect(spark, state=str(tmp_path / "state"), partitions=2)
    yield session
    session.close()


def written(tmp_path: Path, text: str) -> str:
    file = tmp_path / "bids.csv"
    file.write_text(text)
    return str(file)


def test_a_quarantine_is_a_table_of_sql(tg: Session, tmp_path: Path) -> None:
    file = written(tmp_path, "item,price,t\n1,2.5,1\nhot,3,2\n2,3,3\ncold,1,4\n2,none,5\n")
    tg.sql(f"CREATE STREAM `my bids`({COLUMNS}) SOURCE csv('{file}') ORDERED BY t")
    tg.sql("SELECT item FROM `my bids`")
    columns = "reason, raw, file"
    (row,) = tg.sql(f"SELECT {columns} FROM QUARANTINE(`my bids`) WHERE reason LIKE '%cold'").collect()
    assert (row.reason, json.loads(row.raw)["t"], row.file) == ("column 'item' is no INT: cold", "4", file)
    counted = (
        "SELECT SUBSTRING(reason, 1, 13) AS what, COUNT(*) AS n FROM QUARANTINE(`my bids`) GROUP BY what"
    )
    assert {(r.what, r.n) for r in tg.sql(counted).collect()} == {("column 'item'", 2), ("column 'price", 1)}
    tg.table("Known", [{"reason": "column 'item' is no INT: hot", "owner": "Ann"}])
    joined = tg.sql("SELECT k.owner FROM QUARANTINE(`my bids`) q JOIN Known k ON k.reason = q.reason")
    assert [r.owner for r in joined.collect()] == ["Ann"]
    tg.sql("CREATE VIEW Bad AS SELECT reason FROM QUARANTINE(`my bids`)")
    assert tg.sql("SELECT COUNT(*) AS n FROM Bad").collect()[0].n == 3
    assert {r.run for r in tg.sql("SELECT run FROM QUARANTINE(`my bids`)").collect()} == {
        r.run for r in tg.quarantine("my bids").collect()
    }


def test_a_quarantine_grows_while_a_query_runs(tg: Session) -> None:
    tg.stream("S", [], schema="item INT NOT NULL, t BIGINT", ordered_by="t")
    running = tg.query("SELECT item FROM S WINDOW(RANGE 5)").start("q", begin=False)
    graph = running.run
    tg.push("S", [{"item": 1, "t": 5}, {"item": 2, "t": 6}])
    graph.drain()
    assert tg.sql("SELECT * FROM QUARANTINE(S)").count() == 0
    tg.push("S", [{"item": 1, "t": 7}, {"item": 3, "t": 1}, {"item": 4, "t": 2}])
    graph.drain()
    late = tg.sql("SELECT reason FROM QUARANTINE(S)").collect()
    assert [r.reason.split(":")[0] for r in late] == ["later than promised"] * 2
    assert running.status()["sources"]["S"]["quarantine"] == {"later than promised": 2}
    with pytest.raises(Diagnostic, match="METRICS_LIVE"):
        tg.query("SELECT * FROM QUARANTINE(S)").start("no")


@pytest.mark.parametrize(
    ("statement", "place", "help"),
    [
        ("SELECT * FROM QUARANTINE(Bidd)", 26, "did you mean 'Bid'?"),
        ("SELECT * FROM QUARANTINE(Cheap)", 26, "existing streams: Bid"),
        ("SELECT * FROM QUARANTINE(tidegate.metrics)", 34, None),
        ("CREATE STREAM X(a INT) SOURCE csv('x') ON ERROR GO", 49, None),
    ],
)
def test_what_is_no_quarantine_is_told_at_its_place(
    tg: Session, statement: str, place: int, help: str | None
) -> None:
    tg.stream("Bid", [{"item": 1, "t": 1}], ordered_by="t")
    tg.sql("CREATE VIEW Cheap AS SELECT item FROM Bid")
    with pytest.raises(Diagnostic) as error:
        tg.sql(statement)
    assert error.value.position is not None
    assert error.value.position.column == place
    assert error.value.help == help


@pytest.mark.parametrize("said", ["ON ERROR STOP", "WITH (on_error = 'stop')"])
def test_on_error_stop_is_a_clause_and_an_option(tg: Session, tmp_path: Path, said: str) -> None:
    file = written(tmp_path, "item,price,t\n1,2.5,1\nhot,3,2\n")
    tg.sql(f"CREATE STREAM S({COLUMNS}) SOURCE csv('{file}') ORDERED BY t {said}")
    with pytest.raises(Diagnostic, match="ROW_REFUSED"):
        tg.sql("SELECT item FROM S")
    assert tg.sql("SELECT * FROM QUARANTINE(S)").count() == 0, "nothing of the epoch is visible"


Rows = list[dict[str, Any]]


def damaged(seed: int, texts: bool) -> Rows:
    """Rows with damage of every kind that the source can carry."""
    random_ = random.Random(seed)
    rows: Rows = []
    for t in range(60):
        row: dict[str, Any] = {"item": random_.randrange(5), "price": 1.5, "t": t}
        damage = random_.randrange(8)
        if damage == 0:
            row["t"] = None
        elif damage == 1:
            row["item"] = "hot" if texts else None
        elif damage == 2:
            row["item"] = 1 << 40 if texts else None
        rows.append(row)
    return rows


def csv_source(tg: Session, folder: Path, rows: Rows) -> str:
    lines = [",".join("" if v is None else str(v) for v in row.values()) for row in rows]
    (folder / "a.csv").write_text("item,price,t\n" + "\n".join(lines) + "\n")
    return f"csv('{folder}')"


def json_source(tg: Session, folder: Path, rows: Rows) -> str:
    (folder / "a.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return f"json('{folder}')"


def parquet_source(tg: Session, folder: Path, rows: Rows) -> str:
    schema = pa.schema([("item", pa.int32()), ("price", pa.float64()), ("t", pa.int64())])
    pq.write_table(pa.Table.from_pylist(rows, schema), folder / "a.parquet")
    return f"parquet('{folder}')"


def read_source(tg: Session, folder: Path, rows: Rows) -> str:
    tg.source("given", lambda: iter(rows))
    return "given()"


def polled_source(tg: Session, folder: Path, rows: Rows) -> str:
    def follow(offset: int | None) -> tuple[Rows, int]:
        start = offset or 0
        return rows[start : start + 7], min(len(rows), start + 7)

    tg.source("polled", lambda: iter(rows), live=follow)
    return "polled()"


SOURCES = [
    (csv_source, True), (json_source, True), (parquet_source, False), (read_source, True), (polled_source, True),
]  # fmt: skip


@pytest.mark.parametrize(("source", "texts"), SOURCES)
def test_rows_in_are_rows_used_and_rows_refused(
    tg: Session, tmp_path: Path, source: Callable[[Session, Path, Rows], str], texts: bool
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    rows = damaged(17, texts)
    good = sum(isinstance(r["item"], int) and r["item"] < 5 and r["t"] is not None for r in rows)
    call = source(tg, folder, rows)
    tg.sql(f"CREATE STREAM S(item INT NOT NULL, price DOUBLE, t BIGINT) SOURCE {call} ORDERED BY t")
    query = "SELECT COUNT(*) AS n FROM S WINDOW(RANGE UNBOUNDED)"
    recorded = tg.query(query).run()
    assert recorded.at(1000).collect()[0].n == good
    run = "SELECT run, COUNT(*) AS n FROM QUARANTINE(S) GROUP BY run"
    assert [r.n for r in tg.sql(run).collect()] == [len(rows) - good]
    live = tg.query(query).start("live", begin=False)
    live.finish()
    progress = live.status()["sources"]["S"]
    assert live.at(1000).collect()[0].n == good
    assert progress["rows"] == len(rows)
    assert sum(progress["quarantine"].values()) == len(rows) - good
    assert [r.n for r in tg.sql(run).collect()] == [len(rows) - good] * 2


def test_rows_that_are_handed_in_add_up(tg: Session) -> None:
    rows = damaged(3, texts=False)
    good = [r for r in rows if r["item"] is not None and r["t"] is not None]
    tg.stream("S", [], schema="item INT NOT NULL, price DOUBLE, t BIGINT", ordered_by="t")
    live = tg.query("SELECT COUNT(*) AS n FROM S WINDOW(RANGE UNBOUNDED)").start("live", begin=False)
    for start in range(0, 60, 11):
        tg.push("S", rows[start : start + 11])
    live.finish()
    assert live.at(1000).collect()[0].n == len(good)
    assert tg.sql("SELECT * FROM QUARANTINE(S)").count() == len(rows) - len(good)
