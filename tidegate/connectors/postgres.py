"""`postgres('dsn', 'schema.table')`: a table's rows and every change of it, by logical replication; as a TABLE, its rows.

A stream begins with a replication slot and the table as it stood where the slot begins; then come the changes after that place: nothing is
missing, nothing comes twice. How far it has come stands beside the rows in the run's state, and only that is acknowledged. `connectors.postgres_log` says
which instants commits have.
"""

from __future__ import annotations

import json
import re
import select
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from tidegate.connectors.functions import Item, ddl_of_items, refused, table_of
from tidegate.connectors.memory import read_inbox, read_taken
from tidegate.connectors.postgres_client import (
    Attribute,
    Place,
    attributes,
    driver,
    identifier,
    missing,
    value_of,
)
from tidegate.connectors.postgres_log import (
    PREFIX,
    UNCHANGED,
    Change,
    Commit,
    Image,
    Position,
    Transactions,
    beginning,
    messages,
    table_prefixes,
)
from tidegate.connectors.protocol import Source, SourceAwayError, Traits
from tidegate.connectors.raw import POSITION, RawStream, shaped
from tidegate.errors import Diagnostic
from tidegate.language.catalog import StreamDefinition
from tidegate.language.signatures import Option, Signature, parse_period
from tidegate.types import BIGINT, STRING, TIMESTAMP, Field, Schema, Value

PLUGIN = "test_decoding"
_MOST = 20_000
"""So many changes one answer has, unless a single transaction has more."""
_PATIENCE = 1.0
"""Seconds that a new connection may take until the server says something."""
_PAUSE = 0.03
_ACKNOWLEDGED = 10.0
"""Seconds after which the server is told again how far the stream has come, so that it does not take it for dead."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Postgres(Source):
    signature = Signature(
        "postgres",
        (Option("dsn", meaning="as libpq takes it"), Option("table")),
        (Option("heartbeat", "duration", "how often time passes while the database is silent, by a message in its log: '1 second' by default"),),
        2,
        meaning="a table's rows and all changes of it",
    )  # fmt: skip
    traits = Traits(recorded=False, again=False)
    inbox = True
    polled = True

    def __init__(self) -> None:
        self._readers: dict[str, _Reader] = {}
        self._beaten: dict[str, float] = {}
        """When somebody last let time pass in a database."""
        self._instants: dict[str, int] = {}
        """The newest instant of a database that a stream of this program has seen."""

    def columns(self, definition: StreamDefinition) -> Schema:
        """The table's columns; of a stream also what a change did, its instant, and its place in the log."""
        with _told():
            found = _attributes(_place(definition))
        own = tuple(Field(a.name, a.own) for a in found)
        if definition.table:
            return own
        names = {a.name.lower() for a in found}
        added = (("op", STRING), ("ts", TIMESTAMP), ("lsn", BIGINT))
        return own + tuple(Field(n if n not in names else f"__{n}", t) for n, t in added)

    def recorded(self, spark: SparkSession, definition: StreamDefinition, data: Any = None) -> RawStream:
        if not definition.table:
            return super().recorded(spark, definition, data)
        place = _place(definition)
        with _told(), place.session() as cursor:
            rows = _Rows(definition, _known(cursor, place))
            items = [rows.item(image, None, 0, 0) for image in _snapshot(cursor, place, rows)]
        table = _numbered(definition, items)
        if not table.num_rows:
            return shaped(
                definition, spark.createDataFrame([], ddl_of_items(definition)), "''", "0", POSITION
            )
        return shaped(definition, spark.createDataFrame(table), "''", "0", POSITION)

    def live(self, spark: SparkSession, definition: StreamDefinition, inbox: str | None = None) -> RawStream:
        assert inbox is not None
        return read_inbox(spark, definition, inbox, ddl_of_items(definition))

    def taken(self, spark: SparkSession, definition: StreamDefinition, folder: str) -> RawStream:
        return read_taken(spark, definition, folder, ddl_of_items(definition))

    def poll(self, definition: StreamDefinition, offset: Any) -> tuple[Any, Any] | None:
        place = _place(definition)
        if offset is None:
            # The slot's name is noted before there is a slot: a run that dies in between finds its own again.
            _attributes(place)
            stem = re.sub(r"[^a-z0-9]+", "_", definition.name.lower())[:30]
            return _numbered(definition, []), {"slot": f"tidegate_{stem}_{uuid.uuid4().hex[:12]}"}
        if "end" not in offset:
            return self._begun(definition, place, offset["slot"])
        return self._changes(definition, place, Position(**offset))

    def promised(self, definition: StreamDefinition, offset: Any) -> int | None:
        if not isinstance(offset, dict) or "end" not in offset:
            return None
        position = Position(**offset)
        if definition.time_type == TIMESTAMP:
            return position.promised
        return position.end if position.awaits is not None else position.end + 1

    def close(self, definition: StreamDefinition) -> None:
        for slot, reader in list(self._readers.items()):
            if reader.rows.definition.name == definition.name and reader.place == _place(definition):
                self._readers.pop(slot).close()

    def _begun(self, definition: StreamDefinition, place: Place, slot: str) -> tuple[Any, Any]:
        """The table as it stands where a new slot begins."""
        with place.session() as cursor:
            cursor.execute(
                "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s",
                (slot,),
            )
        with place.session() as snapshot, _replicating(place) as log:
            log.execute(f"CREATE_REPLICATION_SLOT {slot} LOGICAL {PLUGIN} EXPORT_SNAPSHOT")
            _, start, name, _ = log.fetchone()
            snapshot.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            snapshot.execute("SET TRANSACTION SNAPSHOT %s", (name,))
            rows = _Rows(definition, _known(snapshot, place))
            images = list(_snapshot(snapshot, place, rows))
        with place.session() as cursor:
            cursor.execute("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
            instant = max(int(cursor.fetchone()[0]), self._instants.get(place.where, 0) + 1)
            token = uuid.uuid4().hex
            cursor.execute(
                "SELECT pg_logical_emit_message(true, %s, %s)", (PREFIX, beginning(token, instant))
            )
        position = Position(slot, _number(start), instant, token)
        items = [rows.item(image, "r", instant, position.end) for image in images]
        return _numbered(definition, items), vars(position)

    def _changes(
        self, definition: StreamDefinition, place: Place, position: Position
    ) -> tuple[Any, Any] | None:
        reader = self._readers.get(position.slot)
        try:
            if reader is None or reader.position != position:
                self._readers.pop(position.slot, None)
                if reader is not None:
                    reader.close()
                reader = self._readers[position.slot] = _Reader.opened(place, position, definition)
            commits = reader.read(position.end)
        except (driver().Error, OSError) as problem:
            self._readers.pop(position.slot, None)
            raise _slot_problem(place, position.slot, problem) from problem
        if not commits:
            self._let_time_pass(definition, place)
            return None
        self._instants[place.where] = max(reader.position.instant, self._instants.get(place.where, 0))
        self._beaten[place.where] = time.monotonic()
        items = [item for commit in commits for item in reader.rows.items(commit)]
        return _numbered(definition, items), vars(reader.position)

    def _let_time_pass(self, definition: StreamDefinition, place: Place) -> None:
        said = self.signature.settings(definition.source.options).get("heartbeat", "1 second")
        now, period = time.monotonic(), parse_period(said, timestamps=True) / 1e6
        if period and now - self._beaten.get(place.where, 0.0) >= period:
            self._beaten[place.where] = now
            with place.session() as cursor:
                cursor.execute("SELECT pg_logical_emit_message(true, %s, '')", (PREFIX,))


@contextmanager
def _told() -> Iterator[None]:
    """A server that is away while a statement waits for it is an error of the statement."""
    try:
        yield
    except SourceAwayError as problem:
        raise Diagnostic(
            "SOURCE_AWAY", str(problem), help="is the server running, and is this its address?"
        ) from problem


def _place(definition: StreamDefinition) -> Place:
    dsn, table = definition.source.arguments
    return Place.of(str(dsn), str(table))


def _attributes(place: Place) -> tuple[Attribute, ...]:
    with place.session() as cursor:
        return _known(cursor, place)


def _known(cursor: Any, place: Place) -> tuple[Attribute, ...]:
    found = attributes(cursor, place)
    if found is None:
        raise missing(cursor, place)
    return found


def _number(lsn: str) -> int:
    """A place in the log as a number.

    >>> _number("1/A0")
    4294967456
    """
    high, low = lsn.split("/")
    return int(high, 16) << 32 | int(low, 16)


def _snapshot(cursor: Any, place: Place, rows: _Rows) -> Iterator[Image]:
    """The table's rows as the cursor's transaction sees them, as texts."""
    names = [a.name for a in rows.read]
    if not names:
        return
    cursor.execute(f"SELECT {', '.join(f'{identifier(n)}::text' for n in names)} FROM ONLY {place.quoted}")
    for values in cursor:
        yield dict(zip(names, values, strict=True))


def _numbered(definition: StreamDefinition, items: list[Item]) -> pa.Table:
    table = table_of(definition.columns, items)
    return table.append_column(POSITION, pa.array(range(table.num_rows), pa.int64()))


@contextmanager
def _replicating(place: Place) -> Iterator[Any]:
    connection = _replication(place)
    try:
        yield connection.cursor()
    except driver().Error as problem:
        raise _slot_problem(place, "", problem) from problem
    finally:
        with suppress(Exception):
            connection.close()


def _replication(place: Place) -> Any:
    return place.connection(connection_factory=driver().extras.LogicalReplicationConnection)


def _slot_problem(place: Place, slot: str, problem: Exception) -> Exception:
    """What a failed replication means: the server is away, or it must be set up otherwise."""
    text = (str(problem).strip().splitlines() or [type(problem).__name__])[0]
    if slot and re.search(rf'replication slot "{slot}" does not exist', text):
        return Diagnostic(
            "SLOT_GONE",
            f"the replication slot '{slot}' of '{place.name}' is gone: changes since then are not known",
            help="start anew with an empty state directory: the stream begins with the table as it stands",
        )
    advice = {
        "wal_level": "set wal_level = logical on the server, and start it again",
        "output_plugin_libraries": f"the server's output_plugin_libraries must name {PLUGIN}",
        "output plugin": f"the server's output_plugin_libraries must name {PLUGIN}",
        "max_replication_slots": "raise max_replication_slots on the server, or drop slots that nobody uses",
        "replication slots are in use": "raise max_replication_slots on the server, or drop slots that nobody uses",
        "must be superuser or replication role": "ALTER ROLE … REPLICATION",
    }
    for word, help_ in advice.items():
        if word in text:
            return Diagnostic("SOURCE_UNSUITED", f"PostgreSQL ({place.where}): {text}", help=help_)
    return place.away(problem)


@dataclass
class _Reader:
    """A connection that reads a slot from a position on."""

    place: Place
    position: Position
    """Behind the last commit that was given out."""
    rows: _Rows
    connection: Any
    cursor: Any
    transactions: Transactions
    _heard: bool = False
    _told: float = 0.0
    _acknowledged: int = 0
    opened_at: float = field(default_factory=time.monotonic)

    @classmethod
    def opened(cls, place: Place, position: Position, definition: StreamDefinition) -> _Reader:
        rows = _Rows(definition, _attributes(place))
        connection = _replication(place)
        cursor = connection.cursor()
        cursor.start_replication(
            slot_name=position.slot,
            start_lsn=position.end,
            decode=True,
            options={"include-xids": "0", "include-timestamp": "1", "skip-empty-xacts": "0"},
        )
        return cls(
            place, position, rows, connection, cursor, Transactions(table_prefixes(place.schema, place.table))
        )

    def close(self) -> None:
        with suppress(Exception):
            self.connection.close()

    def read(self, stored: int) -> list[Commit]:
        """The commits that are there; everything up to `stored` is kept by the run, and need not be kept by the server."""
        self._acknowledge(stored)
        found: list[Commit] = []
        count, deadline = 0, time.monotonic() + (_PAUSE if self._heard else _PATIENCE)
        while count < _MOST:
            empty = True
            for message in messages(self.cursor):
                empty, self._heard = False, True
                taken = self.transactions.take(message.payload, message.data_start)
                if taken is not None and taken[0] > self.position.end:
                    self.position, commit = self.position.after(*taken)
                    found.append(commit)
                    count += 1 + len(commit.changes)
                    if count >= _MOST:
                        break
            left = deadline - time.monotonic()
            if empty and (found or left <= 0):
                break
            if empty:
                select.select([self.cursor], [], [], min(left, _PAUSE))
        return found

    def _acknowledge(self, stored: int) -> None:
        now = time.monotonic()
        if stored != self._acknowledged or now - self._told >= _ACKNOWLEDGED:
            self.cursor.send_feedback(write_lsn=stored, flush_lsn=stored, apply_lsn=stored, force=True)
            self._acknowledged, self._told = stored, now


@dataclass
class _Rows:
    """Makes rows of a stream's declared columns out of images of the table's rows."""

    definition: StreamDefinition
    attributes: tuple[Attribute, ...]

    def __post_init__(self) -> None:
        own = {a.name.lower(): a for a in self.attributes}
        self._made: list[tuple[str, str]] = []
        self._from: dict[str, str] = {}
        """Names of the table by those of the declaration."""
        for column in self.definition.columns:
            name = column.name.lower()
            plain = name.removeprefix("__")
            if name in own:
                self._from[column.name] = own[name].name
            elif not self.definition.table and plain in ("op", "ts", "lsn"):
                self._made.append((column.name, plain))
            else:
                raise Diagnostic(
                    "UNKNOWN_COLUMN",
                    f"the table of '{self.definition.name}' has no column '{column.name}'",
                    help=f"its columns: {', '.join(a.name for a in self.attributes)}; and op, ts, lsn of a stream",
                )
        self.read = [a for a in self.attributes if a.name in self._from.values()]
        self._key = [a.name for a in self.attributes if a.key]

    def items(self, commit: Commit) -> Iterator[Item]:
        """What a commit did, in its order."""
        for change in commit.changes:
            yield from self._changed(change, commit.instant, commit.end)

    def _changed(self, change: Change, instant: int, end: int) -> Iterable[Item]:
        if change.kind == "TRUNCATE":
            return [
                self._refused(
                    "TRUNCATE", "TRUNCATE names no rows: they stay until they are changed; use DELETE"
                )
            ]
        if change.kind == "DELETE":
            if not change.before:
                return [self._refused("DELETE", "a deletion without the old row (REPLICA IDENTITY)")]
            return [self.item(change.before, "d", instant, end, partial=True)]
        if change.kind == "INSERT":
            return [self.item(change.after, "c", instant, end)]
        after = {n: change.before.get(n, v) if v is UNCHANGED else v for n, v in change.after.items()}
        found = [self.item(after, "u", instant, end)]
        key = self._key or list(change.before)
        if change.before and any(change.before.get(n) != after.get(n) for n in key):
            found.insert(0, self.item(change.before, "d", instant, end, partial=True))
        return found

    def item(self, image: Image, op: str | None, instant: int, end: int, partial: bool = False) -> Item:
        """A row; of a `partial` image, what is absent is NULL."""
        values: dict[str, Value] = {}
        for column in self.definition.columns:
            name = self._from.get(column.name)
            if name is None:
                continue
            if name not in image and not partial:
                return self._refused(image, f"column '{column.name}' is not in the table any more")
            text = image.get(name)
            if text is UNCHANGED:
                return self._refused(
                    image,
                    f"column '{column.name}' was left as it was, and the log does not repeat it (REPLICA IDENTITY FULL)",
                )
            try:
                values[column.name] = value_of(text, column.type)
            except (ValueError, ArithmeticError, LookupError):
                return self._refused(image, f"column '{column.name}' is no {column.type}: {text}")
        given = {"op": op, "ts": _EPOCH + timedelta(microseconds=instant), "lsn": end}
        values |= {name: given[plain] for name, plain in self._made}
        return Item(tuple(values.get(c.name) for c in self.definition.columns))

    def _refused(self, image: Image | str, reason: str) -> Item:
        text = image if isinstance(image, str) else json.dumps(dict(image), ensure_ascii=False)
        return refused(text, self.definition.columns, reason)
