"""Instants as programs give them: numbers, moments, texts; all else is told."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pandas as pd
import pytest

from tidegate.connectors.parquet_files import ParquetFiles
from tidegate.errors import Diagnostic
from tidegate.language.catalog import SourceCall, StreamDefinition
from tidegate.time import ticks_of
from tidegate.types import INT, TIMESTAMP, Field


def test_texts_are_moments() -> None:
    moment = datetime(2026, 1, 1, 9, 0, 5, tzinfo=UTC)
    assert ticks_of("2026-01-01 09:00:05") == ticks_of("2026-01-01T10:00:05+01:00") == ticks_of(moment)


@pytest.mark.parametrize("instant", ["soon", "", 1.5, None, [1]])
def test_what_is_no_instant_is_told(instant: object) -> None:
    with pytest.raises(Diagnostic) as caught:
        ticks_of(instant)  # type: ignore[arg-type]
    assert caught.value.condition == "INVALID_INSTANT"


@pytest.mark.parametrize("moment", ["2026-01-01", datetime(2026, 1, 1)])
def test_where_time_is_an_integer_a_moment_is_none_of_its_instants(moment: str | datetime) -> None:
    assert ticks_of(7, moments=False) == 7
    with pytest.raises(Diagnostic, match="TIME_DOMAIN"):
        ticks_of(moment, moments=False)


def test_a_file_with_nanoseconds_is_refused_with_advice(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {"v": pd.array([1], "int32"), "t": pd.to_datetime(["2026-01-01"]).astype("datetime64[ns]")}
    )
    frame.to_parquet(tmp_path / "ns.parquet")
    frame.to_parquet(tmp_path / "us.parquet", coerce_timestamps="us")
    columns = (Field("v", INT), Field("t", TIMESTAMP))
    stream = StreamDefinition("S", columns, SourceCall("parquet", (str(tmp_path),)), ordered_by="t")
    with pytest.raises(Diagnostic) as caught:
        ParquetFiles().form(stream, str(tmp_path / "ns.parquet"))
    assert caught.value.condition == "TYPE_MISMATCH"
    assert "nanoseconds" in caught.value.message
    ParquetFiles().form(stream, str(tmp_path / "us.parquet"))
