"""Statistics of sources are those of their rows, as far as footers, sizes and samples tell; nothing in them can fail a query."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

from tidegate.connectors import registry
from tidegate.errors import Diagnostic
from tidegate.language.catalog import StreamDefinition
from tidegate.language.dialect import parse
from tidegate.language.statements import define
from tidegate.optimizer.prices import FILE, Price, prices, written
from tidegate.runtime.source_statistics import gathered

COUNT = 20_000
BEGIN = datetime(2026, 1, 1)
ROWS = pl.DataFrame({
    "a": [i % 37 for i in range(COUNT)],
    "s": [None if i % 4 == 0 else f"x{i % 5}" for i in range(COUNT)],
    "t": [BEGIN + timedelta(milliseconds=10 * i) for i in range(COUNT)],
})  # fmt: skip


def definition(kind: str, file: Path) -> StreamDefinition:
    script = f"CREATE STREAM S (a BIGINT, s STRING, t TIMESTAMP) SOURCE {kind}('{file}') ORDERED BY t;"
    found = define(parse(script)[0], registry.catalog(), script).find("S")
    assert isinstance(found, StreamDefinition)
    return found


@pytest.mark.parametrize("kind", ["parquet", "csv", "json"])
def test_a_file_tells_rates_and_values(kind: str, tmp_path: Path) -> None:
    file = tmp_path / f"rows.{kind}"
    if kind == "parquet":
        ROWS.write_parquet(file, row_group_size=6_000)
    elif kind == "csv":
        ROWS.write_csv(file, datetime_format="%Y-%m-%d %H:%M:%S%.3f")
    else:
        ROWS.write_ndjson(file)
    found = gathered({"S": definition(kind, file)}, {})["S"]
    assert found.rows == pytest.approx(COUNT, rel=0.01)
    assert found.rate == pytest.approx(100 / 1_000_000, rel=0.01)
    assert found.columns["a"].distinct == pytest.approx(37, rel=0.01)
    assert (found.columns["a"].least, found.columns["a"].greatest) == (0, 36)
    assert found.columns["s"].distinct == pytest.approx(5, rel=0.01)
    assert found.columns["s"].nulls == pytest.approx(0.25, rel=0.02)


def test_rows_that_are_handed_in_are_counted() -> None:
    given = definition("csv", Path("nowhere.csv"))
    found = gathered({"S": given}, {"S": ROWS.to_arrow()})["S"]
    assert (found.rows, found.columns["t"].distinct) == (COUNT, COUNT)


@pytest.mark.parametrize("content", [b"", b"\x00\x01no rows of any kind", b"a,b\n1"])
@pytest.mark.parametrize("kind", ["parquet", "csv", "json"])
def test_what_cannot_be_read_is_not_told(kind: str, content: bytes, tmp_path: Path) -> None:
    file = tmp_path / f"rows.{kind}"
    file.write_bytes(content)
    assert gathered({"S": definition(kind, file)}, {}) == {}


def test_prices_are_read_from_the_file_that_the_environment_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert {"Join", "Aggregate", "Sweep", "TimeWindow", "Exchange", "Source"} <= prices().keys()
    file = tmp_path / "prices.json"
    file.write_text(written({"Join": Price(step=0.5)}, {}), "utf-8")
    monkeypatch.setenv(FILE, str(file))
    assert prices() == {"Join": Price(step=0.5)}
    broken = tmp_path / "broken.json"
    broken.write_text("[]", "utf-8")
    monkeypatch.setenv(FILE, str(broken))
    with pytest.raises(Diagnostic, match="bench calibrate"):
        prices()
