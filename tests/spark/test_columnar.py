"""Parquet files that tasks read as columns: the answer is the one that Spark's reader gives, and so is what is refused."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from tidegate.optimizer import hot_keys
from tidegate.runtime import jobs, recorded
from tidegate.runtime.plain_tasks import Task, run_tasks
from tidegate.session import Session, connect
from tidegate.storage import Storage
from tidegate.worker.columnar import Columnar, columnar

START = datetime(2024, 1, 1, tzinfo=UTC)
SCHEMA = pa.schema(
    [
        ("item", pa.int64()),
        ("name", pa.string()),
        ("price", pa.decimal128(10, 2)),
        ("weight", pa.float64()),
        ("t", pa.timestamp("us", "UTC")),
    ]
)
DECLARED = "item BIGINT, name STRING, price DECIMAL(10,2), weight DOUBLE, t TIMESTAMP"
QUERIES = {
    "rows as they are": "SELECT item, name, price FROM Sales",
    "filter and map": "SELECT name || '!', price + 0.5 AS more, t FROM Sales WHERE item % 3 = 1 AND weight > 0.0",
    "grouped by a number": "SELECT item, COUNT(*), SUM(price), MAX(weight) FROM Sales WINDOW(RANGE 20 SECONDS) GROUP BY item",
    "grouped by a text": "SELECT name, AVG(item) FROM Sales WINDOW(RANGE 20 SECONDS) GROUP BY name",
    "grouped by a float": "SELECT weight, COUNT(*) FROM Sales WINDOW(RANGE 20 SECONDS) GROUP BY weight",
    "one group": "SELECT COUNT(*), MIN(price) FROM Sales WINDOW(RANGE 5 SECONDS)",
    "last rows": "SELECT item, price FROM Sales WINDOW(PARTITION BY name ROWS 2)",
    "joined with itself": (
        "SELECT A.item, B.price FROM Sales WINDOW(RANGE 9 SECONDS) A JOIN Sales WINDOW(RANGE 4 SECONDS) B"
        " ON A.item + 1 = B.item WHERE A.price > B.price"
    ),
    "two exchanges": (
        "SELECT many, COUNT(*) FROM (SELECT name, COUNT(*) AS many FROM Sales WINDOW(RANGE 20 SECONDS)"
        " GROUP BY name) GROUP BY many"
    ),
    "joined with its own maximum": (
        "SELECT S.item, S.name FROM Sales WINDOW(RANGE 9 SECONDS) S JOIN (SELECT MAX(price) AS most"
        " FROM Sales WINDOW(RANGE 9 SECONDS)) M ON S.price = M.most"
    ),
    "set difference": (
        "SELECT item FROM Sales WINDOW(RANGE 9 SECONDS) EXCEPT SELECT item FROM Sales WINDOW(RANGE 3 SECONDS) WHERE price > 3"
    ),
}


def sales(seed: int, count: int) -> list[dict[str, object]]:
    """Rows with ties in time, NULLs in every column but the time, NaN and minus zero."""
    chance = random.Random(seed)
    times = sorted(chance.randrange(120) for _ in range(count))
    return [
        {
            "item": chance.choice([None, *range(6)]),
            "name": chance.choice([None, "", "a", "é", "longer than one word"]),
            "price": chance.choice([None, Decimal(chance.randrange(-500, 900)).scaleb(-2)]),
            "weight": chance.choice([None, 0.0, -0.0, 1.5, float("nan")]),
            "t": START + timedelta(seconds=t / 2),
        }
        for t in times
    ]


def write_sales(folder: Path, seed: int = 1, count: int = 120) -> None:
    """Three files, in turn, with several row groups each."""
    rows = sales(seed, count)
    folder.mkdir()
    for i in range(3):
        table = pa.Table.from_pylist(rows[i::3], SCHEMA)
        pq.write_table(table, folder / f"part {i}.parquet", row_group_size=13)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("columns") / "sales"
    write_sales(found)
    return found


COMBINED = {
    "groups": "SELECT item, COUNT(*), SUM(price), AVG(price), MAX(weight), MIN(name) FROM Sales WINDOW(RANGE 20 SECONDS SLIDE 10 SECONDS) GROUP BY item",
    "no groups": "SELECT COUNT(item), AVG(item), MAX(t), MIN(t) FILTER (WHERE price > 0) FROM Sales WINDOW(RANGE 10 SECONDS GRANULARITY 10 SECONDS)",
    "bounds": "SELECT window_end, name, COUNT(*) FROM TUMBLE(Sales, DESCRIPTOR(t), INTERVAL '10' SECONDS) GROUP BY window_end, name",
}


def session_on(spark: SparkSession, folder: Path) -> Session:
    session = connect(spark=spark)
    session.sql(f"CREATE STREAM Sales ({DECLARED}) SOURCE parquet('{folder}') ORDERED BY t")
    return session


@pytest.fixture
def as_columns(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], list[bool]]:
    """Lets a run read files as columns or not, and tells which streams were read so."""

    def choose(allowed: bool) -> list[bool]:
        told: list[bool] = []

        def chosen(*arguments: object) -> Columnar | None:
            found = columnar(*arguments) if allowed else None  # type: ignore[arg-type]
            told.append(found is not None)
            return found

        monkeypatch.setattr(recorded, "columnar", chosen)
        return told

    return choose


def answer(session: Session, text: str, boundaries: list[int] | None = None) -> list[str]:
    return sorted(map(repr, session.query(text).run(boundaries=boundaries).intervals().collect()))


@pytest.mark.parametrize("name", QUERIES)
def test_columns_give_the_answer_of_sparks_reader(
    spark: SparkSession, folder: Path, as_columns: Callable[[bool], list[bool]], name: str
) -> None:
    told = as_columns(True)
    found = answer(session_on(spark, folder), QUERIES[name])
    assert told == [True]
    assert found
    as_columns(False)
    assert found == answer(session_on(spark, folder), QUERIES[name])


@pytest.mark.parametrize("name", ["rows as they are", "two exchanges", "joined with its own maximum"])
def test_a_discarded_answer_is_made_whole_and_leaves_no_file(
    spark: SparkSession, folder: Path, tmp_path: Path, name: str
) -> None:
    kept = session_on(spark, folder).query(QUERIES[name]).run().parts()
    session = connect(spark=spark, state=str(tmp_path))
    session.sql(f"CREATE STREAM Sales ({DECLARED}) SOURCE parquet('{folder}') ORDERED BY t")
    rows = session.query(QUERIES[name]).discard()
    assert rows == sum(part.counts.rows for part in kept) > 0
    assert not [f for f in tmp_path.rglob("*") if f.suffix in (".parquet", ".sections", ".arrow")]


def test_a_discarded_answer_is_made_by_the_plan_that_a_kept_one_has(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hot_keys, "ROWS", 0.0)
    monkeypatch.setattr(hot_keys, "COPIED", 1e9)
    session = connect(spark=spark)
    for name in "SR":
        session.stream(
            name, [(7 if i % 3 else i, i) for i in range(12)], schema="a INT, t BIGINT", ordered_by="t"
        )
    query = session.query("SELECT S.a FROM S WINDOW(RANGE 4) JOIN R WINDOW(RANGE 9) ON S.a = R.a")
    kept = query.run().measured()
    assert query.chosen != query.plan
    session.engine.measured = ()
    query.discard()
    assert [e.by_id.keys() for e in session.engine.measured] == [e.by_id.keys() for e in kept]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_condition_that_may_fail_is_not_asked_where_the_one_below_is_unknown(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    rows = pa.table({"x": [None, 5, 1], "y": [0, 2, 0], "t": [1, 2, 3]})
    if kind == "csv":
        (tmp_path / "z.csv").write_text("x,y,t\n,0,1\n5,2,2\n1,0,3\n")
    else:
        pq.write_table(rows, tmp_path / "z.parquet")
    session = connect(spark=spark)
    session.sql(f"CREATE STREAM Z(x BIGINT, y BIGINT, t BIGINT) SOURCE {kind}('{tmp_path}') ORDERED BY t")
    query = session.query("SELECT x FROM (SELECT * FROM Z WINDOW(RANGE 3) WHERE x > 3) WHERE 1 / y > 0")
    assert query.verify()


@pytest.mark.parametrize("name", ["grouped by a text", "joined with its own maximum", "set difference"])
def test_lists_of_tasks_give_the_answer_of_frames(
    spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    lists: list[int] = []

    def counted(context: SparkContext, task: Task, given: Sequence[Sequence[pa.RecordBatch]]) -> object:
        lists.append(len(given))
        return run_tasks(context, task, given)

    monkeypatch.setattr(jobs, "run_tasks", counted)
    found = answer(session_on(spark, folder), QUERIES[name])
    assert lists
    lists.clear()
    monkeypatch.setattr(jobs, "context_of", lambda _: None)
    assert found == answer(session_on(spark, folder), QUERIES[name])
    assert not lists


@pytest.mark.parametrize("name", ["grouped by a text", "last rows", "joined with itself"])
def test_epochs_read_the_row_groups_that_they_need(
    spark: SparkSession, folder: Path, as_columns: Callable[[bool], list[bool]], name: str
) -> None:
    first = int(START.timestamp()) * 1_000_000
    told = as_columns(True)
    query = session_on(spark, folder).query(QUERIES[name])
    result = query.run(boundaries=[first + s * 1_000_000 for s in (0, 7, 8, 31)])
    assert told == [True]
    report = query.verify(result=result)
    assert report, str(report)


def test_a_row_without_a_time_is_refused_as_ever(
    spark: SparkSession, tmp_path: Path, as_columns: Callable[[bool], list[bool]]
) -> None:
    write_sales(tmp_path / "sales")
    lost = {**sales(2, 1)[0], "t": None}
    pq.write_table(pa.Table.from_pylist([lost], SCHEMA), tmp_path / "sales" / "lost.parquet")
    told = as_columns(True)
    result = session_on(spark, tmp_path / "sales").query("SELECT item FROM Sales").run()
    assert told == [False]
    assert result.manifest().sources["Sales"].refused == {"the time is NULL": 1}


def test_files_of_other_types_are_left_to_spark(
    spark: SparkSession, tmp_path: Path, as_columns: Callable[[bool], list[bool]]
) -> None:
    write_sales(tmp_path / "sales")
    table = pa.Table.from_pylist(sales(2, 9), SCHEMA)
    coarse = table.set_column(4, "t", table["t"].cast(pa.timestamp("ms", "UTC"), safe=False))
    pq.write_table(coarse, tmp_path / "sales" / "coarse.parquet")
    told = as_columns(True)
    found = answer(session_on(spark, tmp_path / "sales"), QUERIES["grouped by a number"])
    assert told == [False]
    as_columns(False)
    assert found == answer(session_on(spark, tmp_path / "sales"), QUERIES["grouped by a number"])


def test_what_kernels_cannot_compute_is_left_to_spark(
    spark: SparkSession, folder: Path, as_columns: Callable[[bool], list[bool]]
) -> None:
    told = as_columns(True)
    session = session_on(spark, folder)
    assert answer(session, "SELECT soundex(name) AS sound FROM Sales WHERE item = 2")
    assert told == [False]


def test_large_blocks_travel_as_files_and_are_gone_afterwards(
    spark: SparkSession,
    tmp_path: Path,
    as_columns: Callable[[bool], list[bool]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = sales(3, 2_000)
    table = pa.concat_tables([pa.Table.from_pylist(rows, SCHEMA)] * 60)
    (tmp_path / "sales").mkdir()
    pq.write_table(table, tmp_path / "sales" / "all.parquet")
    there: list[int] = []
    folders: list[Path] = []
    delete = Storage.delete_folder

    def looked_at(storage: Storage, name: str) -> None:
        folders.append(Path(storage.path(name)))
        there.append(len(list(folders[-1].glob("*.arrow"))))
        delete(storage, name)

    monkeypatch.setattr(Storage, "delete_folder", looked_at)
    text = "SELECT item, name, price FROM Sales WINDOW(PARTITION BY name ROWS 1)"
    assert as_columns(True) == []
    found = answer(session_on(spark, tmp_path / "sales"), text)
    assert max(there) > 0
    assert not any(f.exists() for f in folders)
    as_columns(False)
    assert found == answer(session_on(spark, tmp_path / "sales"), text)


@pytest.mark.parametrize("query", COMBINED.values(), ids=COMBINED)
def test_rows_combined_where_they_are_read_give_the_same_answer(
    query: str, spark: SparkSession, tmp_path: Path, as_columns: Callable[[bool], list[bool]]
) -> None:
    """Some thousand rows of six items and two minutes, of which Spark's reader sends each and tasks some dozen."""
    tmp_path.joinpath("sales").mkdir()
    rows = sales(3, 4_500)
    for i in range(3):
        pq.write_table(pa.Table.from_pylist(rows[i::3], SCHEMA), tmp_path / "sales" / f"{i}.parquet")
    told = as_columns(True)
    session = session_on(spark, tmp_path / "sales")
    assert "combined before" in session.query(query).explain()
    found = answer(session, query)
    assert told == [True]
    as_columns(False)
    assert found == answer(session_on(spark, tmp_path / "sales"), query)
