"""`INSERT INTO postgres('dsn', 'schema.table')`: a table that is equal to the answer, or that has all its changes.

An epoch is one transaction: it changes the table and notes its number in `tidegate_epochs` of the same schema, so the database itself tells whether an
epoch is there. A table that is equal to the answer holds its rows as often as the answer does; where `key` names columns, they are its
primary key, and rows are found by them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from pyspark.sql import DataFrame

from tidegate.connectors.file_sinks import distinct_names
from tidegate.connectors.postgres_client import Place, attributes, driver, identifier, made_type
from tidegate.connectors.protocol import Sink, SourceAwayError
from tidegate.errors import Diagnostic
from tidegate.language.signatures import Option, Signature
from tidegate.redaction import masked
from tidegate.spark.values import type_of_arrow

EPOCHS = "tidegate_epochs"
"""The table that says whose a table is, and which epoch it has last taken."""
_PAGE = 1000


@dataclass(frozen=True)
class PostgresSink:
    """A table of a database; `appends`: it gets every change as a row."""

    target: Place
    key: tuple[str, ...] = ()
    appends: bool = False

    @property
    def form(self) -> Literal["changes", "complete"]:
        return "changes"

    @property
    def plain(self) -> bool:
        """Whether updates are to be told as what leaves and what comes."""
        return not self.appends

    @property
    def place(self) -> str:
        return f"the table {self.target.name} of PostgreSQL ({self.target.where})"

    @property
    def owner(self) -> str | None:
        with self._session() as cursor:
            if self._has_notes(cursor) and (noted := self._noted(cursor)) is not None:
                return noted[0]
            if attributes(cursor, self.target) is None:
                return None
            cursor.execute(f"SELECT 1 FROM {self.target.quoted} LIMIT 1")
            return None if cursor.fetchone() is None else ""

    def claim(self, owner: str) -> None:
        if self.owner is not None:
            return
        with self._session() as cursor:
            # Two queries that begin at once must not both make it.
            cursor.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (self._notes,))
            cursor.execute(
                f'CREATE TABLE IF NOT EXISTS {self._notes} ("table" text PRIMARY KEY, owner text NOT NULL, epoch bigint NOT NULL)'
            )
            cursor.execute(
                f"INSERT INTO {self._notes} VALUES (%s, %s, 0) ON CONFLICT DO NOTHING",
                (self.target.table, owner),
            )

    def has(self, epoch: int) -> bool:
        with self._session() as cursor:
            noted = self._noted(cursor) if self._has_notes(cursor) else None
            return noted is not None and noted[1] >= epoch

    def write(self, epoch: int, changes: DataFrame) -> None:
        table = changes.toArrow()
        names = distinct_names(table.column_names)
        rows = list(zip(*([_plain(v) for v in c.to_pylist()] for c in table.columns), strict=True))
        types = [made_type(type_of_arrow(f.type)) for f in table.schema]
        chosen = slice(None) if self.appends else slice(1, len(names) - 1)
        with self._session() as cursor:
            cursor.execute(
                f'SELECT epoch FROM {self._notes} WHERE "table" = %s FOR UPDATE', (self.target.table,)
            )
            noted = cursor.fetchone()
            if noted is not None and noted[0] >= epoch:
                return
            self._prepare(cursor, names[chosen], types[chosen])
            if self.appends:
                self._insert(cursor, names, rows)
            else:
                self._apply(cursor, names[chosen], _net(rows))
            cursor.execute(
                f'UPDATE {self._notes} SET epoch = %s WHERE "table" = %s', (epoch, self.target.table)
            )

    def _prepare(self, cursor: Any, names: Sequence[str], types: Sequence[str]) -> None:
        """Make the table, or see that it has the columns."""
        if unknown := [k for k in self.key if k not in names]:
            raise Diagnostic(
                "UNKNOWN_COLUMN",
                f"the answer has no column '{unknown[0]}', which the sink's key names",
                help=f"its columns: {', '.join(names)}",
            )
        known = attributes(cursor, self.target)
        if known is None:
            columns = [f"{identifier(n)} {t}" for n, t in zip(names, types, strict=True)]
            if self.key:
                columns.append(f"PRIMARY KEY ({', '.join(map(identifier, self.key))})")
            cursor.execute(f"CREATE TABLE {self.target.quoted} ({', '.join(columns)})")
            return
        there = {a.name: a.written for a in known}
        if absent := [n for n in names if n not in there]:
            raise Diagnostic(
                "UNKNOWN_COLUMN",
                f"{self.place} has no column '{absent[0]}'",
                help=f"its columns: {', '.join(there)}; or let the sink make the table",
            )

    def _apply(self, cursor: Any, names: Sequence[str], net: Counter[tuple[Any, ...]]) -> None:
        """Take out the rows that leave, put in those that come."""
        places = [names.index(k) for k in self.key] or range(len(names))
        for row, count in net.items():
            if count < 0:
                self._delete(cursor, [(names[i], row[i]) for i in places], row, -count)
        self._insert(cursor, names, [row for row, count in net.items() for _ in range(max(count, 0))])

    def _delete(
        self, cursor: Any, found_by: Sequence[tuple[str, Any]], row: tuple[Any, ...], count: int
    ) -> None:
        tests = [f"{identifier(n)} IS NULL" if v is None else f"{identifier(n)} = %s" for n, v in found_by]
        quoted = self.target.quoted
        cursor.execute(
            f"DELETE FROM {quoted} WHERE ctid IN (SELECT ctid FROM {quoted} WHERE {' AND '.join(tests)} LIMIT {count})",
            [v for _, v in found_by if v is not None],
        )
        if cursor.rowcount != count:
            raise Diagnostic(
                "SINK_CHANGED",
                f"{self.place} does not hold the row {row}: somebody else has changed it",
                help="drop the table and its line in tidegate_epochs, and write to it from an empty state directory",
            )

    def _insert(self, cursor: Any, names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
        into = f"INSERT INTO {self.target.quoted} ({', '.join(map(identifier, names))}) VALUES %s"
        driver().extras.execute_values(cursor, into, rows, page_size=_PAGE)

    @property
    def _notes(self) -> str:
        return f"{identifier(self.target.schema)}.{EPOCHS}"

    def _has_notes(self, cursor: Any) -> bool:
        cursor.execute("SELECT to_regclass(%s)", (self._notes,))
        return cursor.fetchone()[0] is not None

    def _noted(self, cursor: Any) -> tuple[str, int] | None:
        cursor.execute(f'SELECT owner, epoch FROM {self._notes} WHERE "table" = %s', (self.target.table,))
        found: tuple[str, int] | None = cursor.fetchone()
        return found

    @contextmanager
    def _session(self) -> Iterator[Any]:
        try:
            with self.target.session() as cursor:
                yield cursor
        except SourceAwayError as problem:
            raise Diagnostic(
                "SINK_FAILED",
                str(problem),
                help="what was not taken is handed in again when the query goes on",
            ) from problem
        except driver().Error as problem:
            text = masked((str(problem).strip().splitlines() or [type(problem).__name__])[0])
            raise Diagnostic(
                "SINK_FAILED",
                f"{self.place} does not take an epoch: {text}",
                help="nothing of that epoch is there; types and constraints must fit the answer, and a key must tell its rows apart",
            ) from problem


def _net(rows: Sequence[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    """How often each row comes (or, below 0, leaves) in all.

    >>> sorted(_net([("+", "a", 1), ("-", "a", 2), ("+", "b", 2)]).items())
    [(('b',), 1)]
    """
    found: Counter[tuple[Any, ...]] = Counter()
    for op, *payload, _ in rows:
        found[tuple(payload)] += -1 if op == "-" else 1
    return Counter({row: count for row, count in found.items() if count})


_NAN = float("nan")


def _plain(value: Any) -> Any:
    """A value that can be counted: NaN is not equal to itself, and a list is no key."""
    if isinstance(value, float) and value != value:
        return _NAN  # one object is found again
    return str(value) if isinstance(value, (list, dict)) else value


class PostgresSinks:
    """`postgres('dsn', 'table')` as a kind of sink."""

    signature = Signature(
        "postgres",
        (Option("dsn", meaning="as libpq takes it"), Option("table")),
        (
            Option("key", meaning="columns of the answer that tell its rows apart, as 'id' or 'shop, item': the primary key of the table"),
            Option("mode", "choice", "'equal': the table is the answer (the default); 'append': it gets every change with op and ts", ("equal", "append")),
        ),
        2,
        meaning="a table that is equal to the answer, or has its changes; an epoch is one transaction",
    )  # fmt: skip

    def open(self, arguments: Sequence[Any], settings: dict[str, str]) -> Sink:
        dsn, table = arguments
        key = tuple(part.strip() for part in settings.get("key", "").split(",") if part.strip())
        return PostgresSink(Place.of(str(dsn), str(table)), key, settings.get("mode") == "append")
