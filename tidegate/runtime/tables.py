"""Answers as tables of other libraries, in this process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
from pyspark.sql import DataFrame

from tidegate.errors import Diagnostic, foreign
from tidegate.runtime.plotting import draw_bars, draw_steps

if TYPE_CHECKING:
    import pandas as pd


class Readable(ABC):
    """Answers that can be asked for at an instant; without one, the latest complete answer. Each table is the answer at one instant."""

    @abstractmethod
    def at(self, instant: int | datetime | str, batch: int | None = None) -> DataFrame: ...

    @abstractmethod
    def latest(self) -> DataFrame: ...

    @abstractmethod
    def intervals(self, since: int | datetime | str | None = None, raw: bool = False) -> DataFrame: ...

    def _rows(self, instant: int | datetime | str | None) -> DataFrame:
        return self.latest() if instant is None else self.at(instant)

    def to_arrow(self, instant: int | datetime | str | None = None) -> pa.Table:
        """An Arrow table; TIMESTAMPs are in UTC and say so, TIMESTAMP_NTZ has no zone.

        Example: `r.to_arrow("2026-01-01 12:00").num_rows`
        """
        return self._rows(instant).toArrow()

    def to_polars(self, instant: int | datetime | str | None = None) -> pl.DataFrame:
        """A DataFrame of Polars; TIMESTAMPs are in UTC and say so.

        Example: `r.to_polars(4).filter(pl.col("degrees") > 80)`
        """
        table = pl.from_arrow(self.to_arrow(instant))
        assert isinstance(table, pl.DataFrame)
        return table

    def to_pandas(self, instant: int | datetime | str | None = None) -> pd.DataFrame:
        """A DataFrame of pandas; TIMESTAMPs are in UTC and say so.

        Example: `r.to_pandas().groupby("room").max()`
        """
        return self.to_arrow(instant).to_pandas()  # type: ignore[no-any-return]

    def to_duckdb(self, instant: int | datetime | str | None = None, connection: Any = None) -> Any:
        """A relation of DuckDB, on a connection of its own or a given one.

        Example: `r.to_duckdb().aggregate("room, max(degrees)")`
        """
        try:
            import duckdb
        except ModuleNotFoundError:
            raise Diagnostic(
                "PACKAGE_MISSING", "DuckDB is not installed", help="pip install duckdb"
            ) from None
        return (connection or duckdb).from_arrow(self.to_arrow(instant))

    def plot(
        self,
        value: str | None = None,
        by: Sequence[str] | None = None,
        since: int | datetime | str | None = None,
        ax: Any = None,
    ) -> Any:
        """A value as steps over time, a line for each group; gives matplotlib's axes. Needs the extra `plot`.

        `value` is the last column of numbers unless it is said, `by` names the columns that make groups: all others.
        Example: `tg.query("SELECT room, MAX(degrees) AS top FROM Temp WINDOW(RANGE 5) GROUP BY room").run().plot()`
        """
        return draw_steps(self._periods(since), value, by, ax)

    def timeline(
        self, by: Sequence[str] | None = None, since: int | datetime | str | None = None, ax: Any = None
    ) -> Any:
        """When each kind of row was valid, as bars over time; gives matplotlib's axes. Needs the extra `plot`.

        Example: `tg.query("SELECT room FROM Hot").run().timeline()`
        """
        return draw_bars(self._periods(since), by, ax)

    def _periods(self, since: int | datetime | str | None) -> pl.DataFrame:
        table = pl.from_arrow(self.intervals(since).toArrow())
        assert isinstance(table, pl.DataFrame)
        return table

    def to_view(self, name: str, instant: int | datetime | str | None = None) -> DataFrame:
        """The answer as a temporary view of the session's Spark (`tg.spark`). It holds its rows: files of answers are merged meanwhile.

        Example: `r.to_view("hot"); tg.spark.sql("SELECT COUNT(*) FROM hot")`
        """
        rows = self._rows(instant).localCheckpoint()
        try:
            rows.createOrReplaceTempView(name)
        except Exception as problem:
            raise foreign(problem) from problem
        return rows
