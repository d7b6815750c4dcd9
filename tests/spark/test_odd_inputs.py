"""Every kind of odd input that docs/inputs.md lists does what the page says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.spark import odd_inputs
from tests.spark.odd_inputs import (
    ALL,
    COLUMNS,
    CSV,
    DEBEZIUM,
    FAILING,
    JSON,
    LIVELY,
    NAMES,
    PARQUET,
    VALUES,
    Failing,
    Kind,
)
from tidegate.errors import Diagnostic
from tidegate.session import connect

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "inputs.md"


def test_the_page_lists_what_is_tried() -> None:
    assert odd_inputs.table() in PAGE.read_text(encoding="utf-8")
    assert len({(kind.name, kind.form) for kind in ALL}) == len(ALL) >= 50


@pytest.mark.parametrize("shown", LIVELY, ids=lambda k: k.name)
def test_what_needs_more_than_a_file_has_a_test(shown: odd_inputs.Shown) -> None:
    file, name = shown.test.split("::")
    assert re.search(rf"^def {name}\(", (HERE / file).read_text(encoding="utf-8"), re.M)


def write(kind: Kind, number: int, folder: Path) -> None:
    if kind.form == "parquet":
        write_parquet(kind.content, number, folder / f"{number}.parquet")
        return
    content = kind.content.replace(b"{id}", str(number).encode())
    if kind.form != "csv":
        content = content.replace(b"<", b"{").replace(b">", b"}")
    (folder / f"{number}.{'csv' if kind.form == 'csv' else 'json'}").write_bytes(content)


def write_parquet(odd: bytes, number: int, file: Path) -> None:
    types = dict(
        zip(
            NAMES,
            (pa.int32(), pa.int32(), pa.decimal128(5, 2), pa.string(), pa.float64(), pa.date32(), pa.bool_()),
            strict=False,
        )
    )
    types |= {"n": pa.int32(), "t": pa.int64()}
    types |= {"a": pa.int16(), "t": pa.int32()} if odd == b"int16" else {}
    row: dict[str, Any] = {"id": number, **VALUES, "t": number} | ({"n": None} if odd == b"null" else {})
    names = [n for n in NAMES if odd != b"less" or n != "a"]
    pq.write_table(pa.table({n: pa.array([row[n]], types[n]) for n in names}), file)


@pytest.mark.parametrize("kinds", [CSV, JSON, DEBEZIUM, PARQUET], ids=["csv", "json", "debezium", "parquet"])
def test_a_file_of_each_kind(spark: SparkSession, tmp_path: Path, kinds: tuple[Kind, ...]) -> None:
    folder, form = tmp_path / "in", kinds[0].form
    folder.mkdir()
    for number, kind in enumerate(kinds):
        write(kind, number, folder)
    more = "WITH (format = 'debezium')" if form == "debezium" else ""
    session = connect(spark=spark, partitions=2)
    call = f"{'json' if form == 'debezium' else form}('{folder}')"
    session.sql(f"CREATE STREAM S({COLUMNS}) SOURCE {call} ORDERED BY t {more}")
    result = session.query("SELECT * FROM S").run()
    used: dict[int, list[str]] = {i: [] for i in range(len(kinds))}
    for row in result.intervals().collect():
        used[row.id].append(repr({n: row[n] for n in VALUES}))
    refused: dict[int, list[str]] = {i: [] for i in range(len(kinds))}
    for row in session.spark.read.parquet(result.storage.path("quarantine/S")).collect():
        refused[int(Path(row.file).name.split(".")[0])].append(row.reason)
    for number, kind in enumerate(kinds):
        expected = kind.used if form != "parquet" or kind.refused else kind.used or ({},)
        assert used[number] == [repr(VALUES | changes) for changes in expected], kind.name
        assert refused[number] == list(kind.refused), kind.name


@pytest.mark.parametrize("kind", FAILING, ids=lambda k: k.name)
def test_a_source_that_is_not_as_declared(spark: SparkSession, tmp_path: Path, kind: Failing) -> None:
    folder = tmp_path / "in"
    if kind.files:
        folder.mkdir()
    for name, content in kind.files.items():
        (folder / name).write_bytes(content)
    session = connect(spark=spark)
    text = (
        f"CREATE STREAM S({kind.columns}, t BIGINT) SOURCE {kind.form}('{folder}') ORDERED BY t {kind.more};"
    )
    with pytest.raises(Diagnostic) as raised:
        session.sql(f"{text} SELECT * FROM S")
    assert raised.value.condition == kind.condition
    assert kind.condition in ("UNKNOWN_OPTION", "ALL_ROWS_REFUSED") or str(folder) in raised.value.message
    if kind.help.startswith("did you mean"):
        assert raised.value.help == kind.help


def test_a_late_row_is_refused(spark: SparkSession) -> None:
    session = connect(spark=spark, partitions=1)
    session.stream("S", [], ordered_by="t", schema="a INT, t BIGINT", slack=2)
    live = session.query("SELECT a FROM S").start(begin=False)
    for rows in ([(1, 10)], [(2, 20)], [], [(3, 18), (4, 17), (5, 9)]):
        live.run.graph.advance({"S": rows})
    live.finish()
    assert sorted(r.a for r in live.intervals().collect()) == [1, 2, 3]
    assert live.status()["sources"]["S"]["quarantine"] == {"later than promised": 2}
    assert live.status()["sources"]["S"]["rows"] == 5
