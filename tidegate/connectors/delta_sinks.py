"""`delta('path')` as a sink, by the package `deltalake`: an epoch is one commit, which carries the epoch's number.

Delta's log keeps the last number of each application. The application is the query that owns the table, so whether an epoch is there is
asked of the table itself: it is there exactly if readers see it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa
from pyspark.sql import DataFrame

from tidegate.connectors.file_sinks import distinct_names
from tidegate.connectors.protocol import ANSWER, Sink, form_of
from tidegate.errors import Diagnostic
from tidegate.language.signatures import Option, Signature

PATH = Option("path", meaning="the directory of a table, or its URI")
STORAGE = "storage."
"""How options begin that are the store's: endpoints, regions, keys."""
_OWNED = "answer of tidegate's query "


def deltalake() -> Any:
    """The package, which is an extra."""
    try:
        import deltalake
    except ImportError:
        raise Diagnostic(
            "PACKAGE_MISSING", "tables of Delta Lake need a package", help="pip install 'tidegate[delta]'"
        ) from None
    return deltalake


def store_of(settings: Mapping[str, str]) -> dict[str, str]:
    """The store's own options, without the beginning that marks them.

    >>> store_of({"storage.AWS_REGION": "eu", "answer": "latest"})
    {'AWS_REGION': 'eu'}
    """
    return {n[len(STORAGE) :]: v for n, v in settings.items() if n.lower().startswith(STORAGE)}


@dataclass
class DeltaSink:
    """A table that gets each epoch's changes as one commit, or holds the latest answer in place of the one before."""

    path: str
    store: dict[str, str]
    form: Literal["changes", "complete"] = "changes"
    _claimed: str = ""

    def __repr__(self) -> str:
        return f"DeltaSink({self.path!r})"  # what the store is told may be secret

    @property
    def place(self) -> str:
        return self.path

    @property
    def owner(self) -> str | None:
        table = self._table()
        if table is None:
            return None
        described = table.metadata().description or ""
        return described.removeprefix(_OWNED) if described.startswith(_OWNED) else ""

    def claim(self, owner: str) -> None:
        """A table has its columns from the first epoch: it is made, and signed, with that."""
        self._claimed = owner

    def has(self, epoch: int) -> bool:
        table = self._table()
        last = None if table is None else table.transaction_version(self._claimed)
        return last is not None and last >= epoch

    def write(self, epoch: int, changes: DataFrame) -> None:
        self.put(epoch, changes.toDF(*distinct_names(changes.columns)).toArrow())

    def put(self, epoch: int, rows: pa.Table) -> None:
        """Commit an epoch's rows, unless they are there."""
        if self.has(epoch):
            return
        if self.owner not in (None, self._claimed):  # made by somebody else since it was claimed
            raise Diagnostic("SINK_TAKEN", f"{self.path} holds the answer of another query")
        lake = deltalake()
        lake.write_deltalake(
            self.path,
            _in_utc(rows),
            mode="append" if self.form == "changes" else "overwrite",
            description=f"{_OWNED}{self._claimed}",
            storage_options=self.store or None,
            commit_properties=lake.CommitProperties(
                app_transactions=[lake.Transaction(self._claimed, epoch)], max_commit_retries=0
            ),
        )

    def _table(self) -> Any:
        lake, store = deltalake(), self.store or None
        if not lake.DeltaTable.is_deltatable(self.path, store):
            return None
        return lake.DeltaTable(self.path, storage_options=store)


def _in_utc(rows: pa.Table) -> pa.Table:
    """Delta's instants are in UTC, Spark's in the session's zone."""
    kinds = [
        f.with_type(pa.timestamp("us", "UTC")) if pa.types.is_timestamp(f.type) and f.type.tz else f
        for f in rows.schema
    ]
    return rows.cast(pa.schema(kinds))


class DeltaSinks:
    """`delta('path')`."""

    signature = Signature(
        "delta", (PATH,), (ANSWER,), 1, (STORAGE,), "a table of Delta Lake: one commit for each epoch"
    )

    def open(self, arguments: Sequence[Any], settings: dict[str, str]) -> Sink:
        if settings.get(ANSWER.name) == "complete":
            raise Diagnostic(
                "SINK_FORM",
                "a table of Delta Lake holds changes or the latest answer",
                help="WITH (answer = 'latest'): each version of the table is an answer",
            )
        deltalake()
        return DeltaSink(str(arguments[0]), store_of(settings), form_of(settings))
