"""Answers as tables of other libraries, in this process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import datetime
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
from pyspark.sql import DataFrame

from tidegate.errors import Diagnostic, foreign

if TYPE_CHECKING:
    import pandas as pd


class Readable(ABC):
    """Answers that can be asked for at an instant; without one, the latest complete answer. Each table is the answer at one instant."""

    @abstractmethod
    def at(self, instant: int | datetime | str, batch: int | None = None) -> DataFrame: ...

    @abstractmethod
    def latest(self) -> DataFrame: ...

    def _rows(self, instant: int | datetime | str | None) -> DataFrame:
        return self.latest() if instant is None else self.at(instant)

    def to_arrow(self, instant: int | datetime | str | None = None) -> pa.Table:
        return self._rows(instant).toArrow()

    def to_polars(self, instant: int | datetime | str | None = None) -> pl.DataFrame:
        table = pl.from_arrow(self.to_arrow(instant))
        assert isinstance(table, pl.DataFrame)
        return table

    def to_pandas(self, instant: int | datetime | str | None = None) -> pd.DataFrame:
        return self.to_arrow(instant).to_pandas()  # type: ignore[no-any-return]

    def to_duckdb(self, instant: int | datetime | str | None = None, connection: Any = None) -> Any:
        """A relation of DuckDB, on a connection of its own or a given one."""
        try:
            import duckdb
        except ModuleNotFoundError:
            raise Diagnostic(
                "PACKAGE_MISSING", "DuckDB is not installed", help="pip install duckdb"
            ) from None
        return (connection or duckdb).from_arrow(self.to_arrow(instant))

    def to_view(self, name: str, instant: int | datetime | str | None = None) -> DataFrame:
        """The answer as a temporary view of the session's Spark (`tg.spark`). It holds its rows: files of answers are merged meanwhile."""
        rows = self._rows(instant).localCheckpoint()
        try:
            rows.createOrReplaceTempView(name)
        except Exception as problem:
            raise foreign(problem) from problem
        return rows
