"""Answers as tables of other libraries, in this process."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
from pyspark.sql import DataFrame

from tidegate.errors import Diagnostic

if TYPE_CHECKING:
    import pandas as pd


class Readable:
    """Answers that can be asked for at an instant; without one, the latest complete answer. Each table is the answer at one instant."""

    def at(self, instant: int | datetime | str, batch: int | None = None) -> DataFrame:
        raise NotImplementedError

    def latest(self) -> DataFrame:
        raise NotImplementedError

    def to_arrow(self, instant: int | datetime | str | None = None) -> pa.Table:
        rows = self.latest() if instant is None else self.at(instant)
        return rows.toArrow()

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
        """The answer as a temporary view of Spark's."""
        rows = self.latest() if instant is None else self.at(instant)
        rows.createOrReplaceTempView(name)
        return rows
